#include "lab/sim.h"

#include "base/container.h"
#include "lab/draw.h"

#include <rea/time.h>

#include <stdlib.h>

/* A request on its way: there, at the instance, and back. */
struct attempt {
	struct lab_work work; /* first */
	struct lab_timer travel;
	struct call *call; /* NULL = abandoned */
	struct lab_instance *to;
	enum lab_answer answer;
	bool there, back;
	struct attempt *next; /* of the free ones */
};

struct call {
	struct lab_call lab; /* first */
	struct world *world;
	struct attempt *attempt;
	struct lab_work *cause; /* at the layer above; NULL = a client's own */
	uint32_t layer;         /* that it asks */
	struct call *next;      /* of the free ones */
};

struct world {
	const struct lab_scenario *scenario;
	struct lab_agenda agenda;
	struct lab_callee callee;
	struct lab_caller *callers[LAB_LAYERS_MAX]; /* of each layer: the clients, or the instances of the one above */
	struct lab_timer arrival;
	struct rea_random random;
	double rate;
	uint64_t end_ns, calls;
	struct rea_arena memory; /* of all calls and attempts */
	struct call *free_calls;
	struct attempt *free_attempts;
	struct lab_measure *measure;
	int error;
};

/* ---- calls and attempts are used again ---- */

static struct call *take_call(struct world *world)
{
	struct call *call = world->free_calls;

	if (call != NULL)
		world->free_calls = call->next;
	else
		call = rea_arena_alloc(&world->memory, sizeof(*call));
	if (call == NULL) {
		world->error = REA_ERR_NOMEM;
		return NULL;
	}
	call->world = world;
	call->attempt = NULL;
	call->cause = NULL;
	call->layer = 0;
	return call;
}

static void free_call(struct call *call)
{
	call->next = call->world->free_calls;
	call->world->free_calls = call;
}

static void free_attempt(struct world *world, struct attempt *attempt)
{
	lab_agenda_leave(&world->agenda, &attempt->travel);
	attempt->next = world->free_attempts;
	world->free_attempts = attempt;
}

/* ---- the wire ---- */

static void come_back(struct attempt *attempt, struct world *world, enum lab_answer answer, uint64_t now_ns)
{
	attempt->answer = answer;
	attempt->back = true;
	lab_agenda_set(&world->agenda, &attempt->travel, rea_time_add(now_ns, world->scenario->network_ns / 2));
}

static void on_answered(struct lab_work *work, enum lab_answer answer, uint64_t now_ns)
{
	struct attempt *attempt = (struct attempt *)work;
	struct world *world = REA_CONTAINER_OF(work->instance->callee, struct world, callee);

	if (attempt->call == NULL)
		free_attempt(world, attempt);
	else
		come_back(attempt, world, answer, now_ns);
}

static void deliver(struct world *world, struct attempt *attempt, uint64_t now_ns)
{
	struct call *call = attempt->call;
	struct rea_report report;

	lab_report_of(call->lab.caller->policy, attempt->answer, attempt->work.status, attempt->work.stop, &report);
	call->attempt = NULL;
	free_attempt(world, attempt);
	lab_call_answered(&call->lab, &report, now_ns);
}

static void arrive(struct world *world, struct attempt *attempt, uint64_t now_ns)
{
	attempt->there = true;
	if (lab_callee_refuses(&world->callee, attempt->to, now_ns)) {
		lab_callee_note_refused(attempt->to, attempt->work.call_deadline_ns, now_ns);
		attempt->work.stop = false;
		come_back(attempt, world, LAB_ANSWER_REFUSED, now_ns);
	} else if (lab_callee_arrive(attempt->to, &attempt->work, now_ns) != 0) {
		world->error = REA_ERR_NOMEM;
	}
}

static void on_travel(struct lab_timer *timer, uint64_t now_ns)
{
	struct attempt *attempt = REA_CONTAINER_OF(timer, struct attempt, travel);
	struct world *world = attempt->call->world;

	if (attempt->back)
		deliver(world, attempt, now_ns);
	else
		arrive(world, attempt, now_ns);
}

static void send_attempt(struct lab_call *lab, size_t instance, uint64_t deadline_ns, uint64_t now_ns)
{
	struct call *call = (struct call *)lab;
	struct world *world = call->world;
	struct attempt *attempt = world->free_attempts;

	if (attempt != NULL)
		world->free_attempts = attempt->next;
	else
		attempt = rea_arena_alloc(&world->memory, sizeof(*attempt));
	if (attempt == NULL || lab_agenda_join(&world->agenda, &attempt->travel, on_travel) != 0) {
		world->error = REA_ERR_NOMEM;
		return;
	}
	attempt->call = call;
	attempt->to = &world->callee.instances[call->layer][instance];
	attempt->there = attempt->back = false;
	attempt->work.call = lab->number;
	attempt->work.operation = lab->operation;
	attempt->work.attempt = rea_call_attempts(&lab->core);
	attempt->work.deadline_ns = deadline_ns;
	attempt->work.tells = lab->caller->policy->asks;
	attempt->work.call_deadline_ns = rea_call_deadline(&lab->core);
	attempt->work.answered = on_answered;
	attempt->work.over = false;
	call->attempt = attempt;
	lab_agenda_set(&world->agenda, &attempt->travel, rea_time_add(now_ns, world->scenario->network_ns / 2));
}

static void abandon(struct lab_call *lab, uint64_t now_ns)
{
	struct call *call = (struct call *)lab;
	struct attempt *attempt = call->attempt;

	(void)now_ns;
	call->attempt = NULL;
	if (attempt == NULL)
		return;
	attempt->call = NULL;
	if (!attempt->there || attempt->back || lab_callee_leave(&attempt->work))
		free_attempt(call->world, attempt);
}

static void on_done(struct lab_call *lab, const struct rea_decision *decision, uint64_t now_ns)
{
	struct call *call = (struct call *)lab;
	struct world *world = call->world;
	struct lab_work *cause = call->cause;

	if (cause == NULL)
		lab_measure_done(world->measure, &world->callee, lab->begin_ns, rea_call_attempts(&lab->core),
		    decision->verdict, decision->reason, now_ns);
	free_call(call);
	if (cause != NULL)
		lab_call_answer_cause(cause, decision, now_ns);
}

static const struct lab_wire wire = {send_attempt, abandon, on_done};

/* ---- calls begin ---- */

/* An instance that is not of the last layer asks the next one. */
static void on_inner(struct lab_work *work, uint64_t now_ns)
{
	struct world *world = REA_CONTAINER_OF(work->instance->callee, struct world, callee);
	struct call *call = take_call(world);

	if (call == NULL)
		return;
	call->cause = work;
	call->layer = work->instance->layer + 1;
	if (lab_call_begin_inner(&call->lab, world->callers[call->layer], work, now_ns) != 0)
		world->error = REA_ERR_NOMEM;
}

static void begin_call(struct world *world, uint64_t now_ns)
{
	struct call *call = take_call(world);

	if (call == NULL)
		return;
	call->lab.caller = &world->callers[0][rea_random_below(&world->random, world->scenario->clients)];
	call->lab.operation = lab_draw_operation(world->scenario, &world->random);
	call->lab.number = world->calls++;
	lab_measure_begun(world->measure, now_ns);
	if (lab_call_begin(&call->lab, REA_NEVER, false, now_ns) != 0)
		world->error = REA_ERR_NOMEM;
}

static void on_arrival(struct lab_timer *timer, uint64_t now_ns)
{
	struct world *world = REA_CONTAINER_OF(timer, struct world, arrival);
	uint64_t next_ns = rea_time_add(now_ns, lab_draw_gap_ns(world->rate, &world->random));

	if (next_ns < world->end_ns)
		lab_agenda_set(&world->agenda, timer, next_ns);
	begin_call(world, now_ns);
}

/* ---- the whole ---- */

static int set_up(struct world *world, const struct lab_policy *policy, bool faults, uint64_t seed)
{
	const struct lab_scenario *scenario = world->scenario;
	int error = lab_callee_init(&world->callee, scenario, faults, &world->agenda, seed);

	if (error == 0)
		error = lab_measure_init(world->measure, scenario, world->callee.bins);
	for (uint32_t layer = 0; error == 0 && layer < scenario->layers_len; layer++)
		error = lab_callers_new(policy, scenario, layer, scenario->layers[layer].instances, &wire,
		    &world->agenda, seed, &world->callers[layer]);
	if (error == 0)
		error = lab_agenda_join(&world->agenda, &world->arrival, on_arrival);
	if (error != 0)
		return error;
	world->callee.inner = on_inner;
	world->rate = lab_scenario_rate(scenario);
	world->end_ns = (uint64_t)(scenario->duration_s * REA_NS_PER_S);
	/* What is offered is the same for every policy of a seed. */
	rea_random_init(&world->random, seed ^ UINT64_C(0x6c6f6164));
	lab_agenda_set(&world->agenda, &world->arrival, lab_draw_gap_ns(world->rate, &world->random));
	return 0;
}

static void tear_down(struct world *world)
{
	const struct lab_scenario *scenario = world->scenario;

	for (uint32_t layer = 0; layer < scenario->layers_len; layer++)
		lab_callers_free(world->callers[layer], scenario, layer);
	rea_arena_fini(&world->memory);
	lab_callee_fini(&world->callee);
	lab_agenda_fini(&world->agenda);
}

int lab_sim_run(const void *context, const struct lab_scenario *scenario, const struct lab_policy *policy, bool faults,
    uint64_t seed, struct lab_measure *ret_measure)
{
	struct world *world = calloc(1, sizeof(*world));
	uint64_t now_ns = 0;
	int error;

	(void)context;
	if (world == NULL)
		return REA_ERR_NOMEM;
	*ret_measure = (struct lab_measure){.scenario = NULL};
	world->scenario = scenario;
	world->measure = ret_measure;
	rea_arena_init(&world->memory, rea_alloc_default());
	error = set_up(world, policy, faults, seed);
	while (error == 0 && (now_ns = lab_agenda_next(&world->agenda)) != REA_NEVER) {
		lab_agenda_fire(&world->agenda, now_ns);
		error = world->error != 0 ? world->error : world->callee.error;
	}
	if (error == 0)
		lab_measure_finish(ret_measure, &world->callee, lab_callers_ejections(world->callers[0], scenario, 0));
	else
		lab_measure_fini(ret_measure);
	tear_down(world);
	free(world);
	return error;
}
