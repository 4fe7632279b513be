#include "lab/callee.h"

#include "base/container.h"
#include "lab/draw.h"

#include <rea/time.h>

#include <stdlib.h>

/* Who comes with a key whose first execution is under way looks again so often. */
#define JOIN_LOOK_NS (10 * REA_NS_PER_MS)
#define BINS_BEHIND 64 /* calls go on for a while after the last one has begun; what is later counts in the last bin */

enum { KEY_NEW, KEY_RUNNING, KEY_DONE };

/* ---- the plan of faults ---- */

static int compare_windows(const void *a, const void *b)
{
	const struct lab_window *left = a, *right = b;

	if (left->from_ns != right->from_ns)
		return left->from_ns < right->from_ns ? -1 : 1;
	return left->fault < right->fault ? -1 : left->fault > right->fault;
}

static void draw_windows(struct lab_callee *callee, const struct lab_fault *fault, struct rea_random *random)
{
	const struct lab_scenario *scenario = callee->scenario;
	double warm_up_ns = scenario->warm_up_s * REA_NS_PER_S;
	double strip_ns = (scenario->duration_s * REA_NS_PER_S - warm_up_ns) / fault->windows;

	for (uint32_t i = 0; i < fault->windows; i++) {
		double most = (double)rea_time_max(fault->for_ns, fault->for_max_ns);
		double length = (double)fault->for_ns + lab_draw_unit(random) * (most - (double)fault->for_ns);
		double from = warm_up_ns + i * strip_ns + lab_draw_unit(random) * (strip_ns - length);

		callee->windows[callee->windows_len++] =
		    (struct lab_window){.fault = fault, .from_ns = (uint64_t)from, .to_ns = (uint64_t)(from + length)};
	}
}

static int plan(struct lab_callee *callee, uint64_t seed)
{
	const struct lab_scenario *scenario = callee->scenario;
	struct rea_random random;
	size_t count = 0;

	for (uint32_t i = 0; i < scenario->faults_len; i++)
		count += scenario->faults[i].windows > 0 ? scenario->faults[i].windows : 1;
	callee->windows = calloc(count + 1, sizeof(*callee->windows));
	if (callee->windows == NULL)
		return REA_ERR_NOMEM;
	/* A source of their own: the windows of a seed are the same whatever the policy does. */
	rea_random_init(&random, seed ^ UINT64_C(0x77696e646f7773));
	for (uint32_t i = 0; i < scenario->faults_len; i++) {
		const struct lab_fault *fault = &scenario->faults[i];

		if (fault->windows > 0)
			draw_windows(callee, fault, &random);
		else
			callee->windows[callee->windows_len++] = (struct lab_window){
			    .fault = fault, .from_ns = fault->at_ns, .to_ns = rea_time_add(fault->at_ns, fault->for_ns)};
	}
	qsort(callee->windows, callee->windows_len, sizeof(*callee->windows), compare_windows);
	return 0;
}

static bool is_within(const struct lab_window *window, uint64_t at_ns)
{
	return window->from_ns <= at_ns && at_ns < window->to_ns;
}

/* The fault of that kind that an instance suffers now; NULL = none. */
static const struct lab_fault *find_fault(
    const struct lab_callee *callee, const struct lab_instance *instance, enum lab_fault_kind kind, uint64_t now_ns)
{
	for (uint32_t i = 0; i < callee->windows_len && callee->windows[i].from_ns <= now_ns; i++) {
		const struct lab_fault *fault = callee->windows[i].fault;

		if (fault->kind == kind && fault->layer == instance->layer && is_within(&callee->windows[i], now_ns) &&
		    (fault->instance == LAB_EVERY_INSTANCE || fault->instance == instance->index))
			return fault;
	}
	return NULL;
}

/* The same, if it strikes this request. */
static const struct lab_fault *struck_by(
    struct lab_callee *callee, const struct lab_instance *instance, enum lab_fault_kind kind, uint64_t now_ns)
{
	const struct lab_fault *fault = find_fault(callee, instance, kind, now_ns);

	return fault != NULL && lab_draw_unit(&callee->random) < fault->share ? fault : NULL;
}

bool lab_callee_refuses(const struct lab_callee *callee, const struct lab_instance *instance, uint64_t now_ns)
{
	return find_fault(callee, instance, LAB_FAULT_REFUSE, now_ns) != NULL;
}

bool lab_callee_faulty(const struct lab_callee *callee, uint64_t at_ns)
{
	for (uint32_t i = 0; i < callee->windows_len && callee->windows[i].from_ns <= at_ns; i++)
		if (is_within(&callee->windows[i], at_ns))
			return true;
	return false;
}

/* ---- worker slots ---- */

static const struct lab_layer *layer_of(const struct lab_instance *instance)
{
	return &instance->callee->scenario->layers[instance->layer];
}

static bool is_last_layer(const struct lab_instance *instance)
{
	return instance->layer + 1 == instance->callee->scenario->layers_len;
}

static uint32_t slots_of(const struct lab_instance *instance, uint64_t now_ns)
{
	const struct lab_fault *fault = find_fault(instance->callee, instance, LAB_FAULT_CAPACITY, now_ns);
	uint32_t workers = layer_of(instance)->workers;

	if (workers == 0)
		return UINT32_MAX;
	return fault != NULL ? (uint32_t)(workers * fault->share) : workers;
}

static void begin(struct lab_work *work, uint64_t now_ns)
{
	work->instance->busy++;
	work->on_slot = true;
	work->begun_ns = now_ns;
	lab_agenda_set(work->instance->callee->agenda, &work->timer, rea_time_add(now_ns, work->service_ns));
}

static void enqueue(struct lab_work *work)
{
	struct lab_instance *instance = work->instance;

	work->waits = true;
	work->next = NULL;
	work->previous = instance->last;
	if (instance->last != NULL)
		instance->last->next = work;
	else
		instance->first = work;
	instance->last = work;
	instance->waiting_len++;
}

static void dequeue(struct lab_work *work)
{
	struct lab_instance *instance = work->instance;

	if (work->previous != NULL)
		work->previous->next = work->next;
	else
		instance->first = work->next;
	if (work->next != NULL)
		work->next->previous = work->previous;
	else
		instance->last = work->previous;
	work->waits = false;
	instance->waiting_len--;
}

/* Would it be done in time, if its turn came after wait_ns? A request that tells no deadline has all the time. */
static bool in_time(const struct lab_work *work, double wait_ns, uint64_t now_ns)
{
	const struct lab_layer *layer = layer_of(work->instance);

	return !work->tells ||
	       (double)now_ns + wait_ns + layer->margin * lab_layer_mean_ns(layer) <= (double)work->deadline_ns;
}

/* An answer that costs no slot. */
static void answer_soon(struct lab_work *work, enum lab_answer answer, uint32_t status, uint64_t now_ns)
{
	work->answer = answer;
	work->status = status;
	lab_agenda_set(
	    work->instance->callee->agenda, &work->timer, rea_time_add(now_ns, layer_of(work->instance)->error_ns));
}

/* Free slots take who waits. */
static void fill_slots(struct lab_instance *instance, uint64_t now_ns)
{
	uint32_t slots = slots_of(instance, now_ns);

	while (instance->busy < slots && instance->first != NULL) {
		struct lab_work *work = instance->first;

		dequeue(work);
		if ((layer_of(instance)->gate || layer_of(instance)->heeds_deadlines) && !in_time(work, 0, now_ns))
			answer_soon(work, LAB_ANSWER_PUSHBACK, 503, now_ns);
		else
			begin(work, now_ns);
	}
}

static void on_capacity(struct lab_timer *timer, uint64_t now_ns)
{
	struct lab_instance *instance = REA_CONTAINER_OF(timer, struct lab_instance, capacity);
	const struct lab_callee *callee = instance->callee;
	uint64_t next_ns = REA_NEVER;

	fill_slots(instance, now_ns);
	for (uint32_t i = 0; i < callee->windows_len; i++)
		if (callee->windows[i].fault->kind == LAB_FAULT_CAPACITY && callee->windows[i].to_ns > now_ns)
			next_ns = rea_time_min(next_ns, callee->windows[i].to_ns);
	if (next_ns != REA_NEVER)
		lab_agenda_set(callee->agenda, timer, next_ns);
}

/* ---- the end of a request ---- */

static void answer(struct lab_work *work, enum lab_answer what, uint64_t now_ns)
{
	lab_agenda_leave(work->instance->callee->agenda, &work->timer);
	work->over = true;
	work->answered(work, what, now_ns);
}

static void execute(struct lab_work *work)
{
	struct lab_seen *seen = &work->instance->callee->seen[work->call];

	if (seen->executions < UINT8_MAX)
		seen->executions++;
	seen->state = KEY_DONE;
}

static void count_work(const struct lab_work *work, uint64_t now_ns)
{
	struct lab_callee *callee = work->instance->callee;

	if ((double)work->begun_ns < callee->scenario->warm_up_s * REA_NS_PER_S || !is_last_layer(work->instance))
		return;
	callee->work_ns += (double)work->service_ns;
	if (work->left || now_ns > work->deadline_ns)
		callee->wasted_ns += (double)work->service_ns;
}

static void end_service(struct lab_work *work, uint64_t now_ns)
{
	struct lab_instance *instance = work->instance;
	struct lab_callee *callee = instance->callee;

	instance->busy--;
	work->on_slot = false;
	count_work(work, now_ns);
	fill_slots(instance, now_ns);
	if (work->answer == LAB_ANSWER_ERROR) {
		callee->seen[work->call].state = KEY_NEW;
		answer(work, LAB_ANSWER_ERROR, now_ns);
	} else if (is_last_layer(instance)) {
		execute(work);
		answer(work, struck_by(callee, instance, LAB_FAULT_DROP, now_ns) ? LAB_ANSWER_RESET : LAB_ANSWER_OK, now_ns);
	} else {
		callee->inner(work, now_ns);
	}
}

static void take(struct lab_work *work, uint64_t now_ns);

static void on_work(struct lab_timer *timer, uint64_t now_ns)
{
	struct lab_work *work = REA_CONTAINER_OF(timer, struct lab_work, timer);

	if (work->on_slot)
		end_service(work, now_ns);
	else if (work->answer != LAB_ANSWER_OK || work->instance->callee->seen[work->call].state == KEY_DONE)
		answer(work, work->answer, now_ns);
	else
		take(work, now_ns);
}

void lab_callee_done(struct lab_work *work, enum lab_answer what, uint32_t status, uint64_t now_ns)
{
	work->status = status;
	answer(work, what, now_ns);
}

/* ---- arrival ---- */

static uint32_t bin_of(const struct lab_callee *callee, uint64_t now_ns)
{
	uint64_t bin = now_ns / LAB_BIN_NS;

	return bin < callee->bins ? (uint32_t)bin : callee->bins - 1;
}

static void count_arrival(struct lab_instance *instance, uint64_t call_deadline_ns, uint64_t now_ns)
{
	instance->arrivals[bin_of(instance->callee, now_ns)]++;
	instance->callee->late += now_ns > call_deadline_ns;
}

void lab_callee_note_refused(struct lab_instance *instance, uint64_t call_deadline_ns, uint64_t now_ns)
{
	count_arrival(instance, call_deadline_ns, now_ns);
}

/* What an instance does with a request that it can work on. */
static void queue_up(struct lab_work *work, uint64_t now_ns)
{
	struct lab_instance *instance = work->instance;
	const struct lab_layer *layer = layer_of(instance);
	uint32_t slots = slots_of(instance, now_ns);
	double wait_ns;

	if (instance->busy < slots) {
		begin(work, now_ns);
		return;
	}
	wait_ns = slots > 0 ? (instance->waiting_len + 1) * lab_layer_mean_ns(layer) / slots : (double)REA_NEVER;
	if (layer->gate &&
	    (wait_ns > (double)instance->callee->scenario->attempt_timeout_ns / 2 || !in_time(work, wait_ns, now_ns)))
		answer_soon(work, LAB_ANSWER_PUSHBACK, 503, now_ns);
	else if (instance->waiting_len >= layer->queue)
		answer_soon(work, LAB_ANSWER_ERROR, 503, now_ns);
	else
		enqueue(work);
}

/* One whose key is known already is not carried out again. */
static bool meets_key(struct lab_work *work, uint64_t now_ns)
{
	struct lab_instance *instance = work->instance;
	struct lab_callee *callee = instance->callee;
	struct lab_seen *seen = &callee->seen[work->call];

	if (!layer_of(instance)->honours_keys || !callee->scenario->operations[work->operation].key)
		return false;
	if (seen->state == KEY_NEW) {
		seen->state = KEY_RUNNING;
		return false;
	}
	lab_agenda_set(callee->agenda, &work->timer,
	    rea_time_add(now_ns, seen->state == KEY_DONE ? layer_of(instance)->error_ns : JOIN_LOOK_NS));
	return true;
}

static void take(struct lab_work *work, uint64_t now_ns)
{
	struct lab_instance *instance = work->instance;
	struct lab_callee *callee = instance->callee;
	const struct lab_fault *fault;

	work->hangs = struck_by(callee, instance, LAB_FAULT_HANG, now_ns) != NULL;
	if (work->hangs)
		return;
	fault = struck_by(callee, instance, LAB_FAULT_ERROR, now_ns);
	if (fault != NULL && !fault->costly) {
		answer_soon(work, LAB_ANSWER_ERROR, fault->status, now_ns);
		return;
	}
	if (meets_key(work, now_ns))
		return;
	if (fault != NULL) {
		work->answer = LAB_ANSWER_ERROR;
		work->status = fault->status;
	}
	work->service_ns = lab_draw_service(layer_of(instance), &callee->random);
	fault = find_fault(callee, instance, LAB_FAULT_SLOW, now_ns);
	if (fault != NULL)
		work->service_ns = (uint64_t)((double)work->service_ns * fault->factor);
	queue_up(work, now_ns);
}

/* Room for what is seen of a call. */
static int see_call(struct lab_callee *callee, const struct lab_work *work)
{
	if (work->call >= callee->seen_capacity) {
		uint64_t capacity = rea_time_max(2 * callee->seen_capacity, work->call + 65536);
		struct lab_seen *grown = realloc(callee->seen, capacity * sizeof(*grown));

		if (grown == NULL)
			return callee->error = REA_ERR_NOMEM;
		memset(grown + callee->seen_capacity, 0, (capacity - callee->seen_capacity) * sizeof(*grown));
		callee->seen = grown;
		callee->seen_capacity = capacity;
	}
	callee->seen[work->call].operation = (uint8_t)work->operation;
	return 0;
}

int lab_callee_arrive(struct lab_instance *instance, struct lab_work *work, uint64_t now_ns)
{
	struct lab_callee *callee = instance->callee;

	work->instance = instance;
	work->next = work->previous = NULL;
	work->answer = LAB_ANSWER_OK;
	work->status = 0;
	work->stop = false;
	work->on_slot = work->waits = work->hangs = work->left = work->over = false;
	if (see_call(callee, work) != 0 || lab_agenda_join(callee->agenda, &work->timer, on_work) != 0)
		return callee->error = REA_ERR_NOMEM;
	count_arrival(instance, work->call_deadline_ns, now_ns);
	take(work, now_ns);
	return 0;
}

bool lab_callee_leave(struct lab_work *work)
{
	struct lab_callee *callee = work->instance->callee;

	work->left = true;
	if (!work->hangs && !(work->waits && layer_of(work->instance)->forgets))
		return false;
	if (work->waits)
		dequeue(work);
	/* Its key is free again: it was never carried out. */
	if (callee->seen[work->call].state == KEY_RUNNING)
		callee->seen[work->call].state = KEY_NEW;
	lab_agenda_leave(callee->agenda, &work->timer);
	work->over = true;
	return true;
}

/* ---- the whole ---- */

static int init_instance(struct lab_callee *callee, uint32_t layer, uint32_t index)
{
	struct lab_instance *instance = &callee->instances[layer][index];
	int error;

	*instance = (struct lab_instance){.callee = callee, .layer = layer, .index = index};
	instance->arrivals = calloc(callee->bins, sizeof(*instance->arrivals));
	if (instance->arrivals == NULL)
		return REA_ERR_NOMEM;
	error = lab_agenda_join(callee->agenda, &instance->capacity, on_capacity);
	if (error == 0)
		on_capacity(&instance->capacity, 0);
	return error;
}

int lab_callee_init(struct lab_callee *callee, const struct lab_scenario *scenario, bool faults,
    struct lab_agenda *agenda, uint64_t seed)
{
	int error = 0;

	*callee = (struct lab_callee){.scenario = scenario, .agenda = agenda};
	callee->bins = (uint32_t)(scenario->duration_s * REA_NS_PER_S / LAB_BIN_NS) + BINS_BEHIND;
	rea_random_init(&callee->random, seed ^ UINT64_C(0x63616c6c6565));
	if (faults)
		error = plan(callee, seed);
	for (uint32_t layer = 0; layer < scenario->layers_len; layer++)
		for (uint32_t i = 0; error == 0 && i < scenario->layers[layer].instances; i++)
			error = init_instance(callee, layer, i);
	if (error != 0)
		lab_callee_fini(callee);
	return error;
}

void lab_callee_fini(struct lab_callee *callee)
{
	for (uint32_t layer = 0; layer < LAB_LAYERS_MAX; layer++)
		for (uint32_t i = 0; i < LAB_INSTANCES_MAX; i++) {
			free(callee->instances[layer][i].arrivals);
			callee->instances[layer][i].arrivals = NULL;
		}
	free(callee->windows);
	free(callee->seen);
	callee->windows = NULL;
	callee->seen = NULL;
}
