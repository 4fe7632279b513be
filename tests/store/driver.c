#include "driver.h"

#include <stdlib.h>

static void next_step(struct lane *lane);

void driver_init(struct driver *driver, uint64_t seed)
{
	memset(driver, 0, sizeof(*driver));
	rea_random_init(&driver->random, seed);
	for (uint32_t i = 0; i < LANES; i++) {
		driver->lanes[i].driver = driver;
		driver->lanes[i].number = i;
	}
}

static void step_done(const struct rea_store_result *result, void *user_data)
{
	struct lane *lane = user_data;
	struct driver *driver = lane->driver;

	driver->under_way--;
	lane->under_way = false;
	if (result->error == 0) {
		lane->id = result->task.id;
		lane->claim = result->task.claim;
		lane->acknowledged = lane->issued;
		if (!lane->relaxed)
			lane->synced = lane->acknowledged;
	} else {
		assert_int_equal(result->error, REA_ERR_IO);
		if (!driver->final)
			lane->issued = lane->acknowledged; /* it changed nothing */
		driver->failed = true;
	}
	next_step(lane);
}

/* ---- steps ---- */

static void name_of(const struct lane *lane, char *ret_name, size_t size)
{
	snprintf(ret_name, size, "lane-%u", (unsigned)lane->number);
}

/* Different in length and content for each lane, over the size of a page for some. */
static size_t payload_of(const struct lane *lane, char *ret_payload)
{
	size_t length = lane->number % 4 == 3 ? 9000 + lane->number : 100 + 37 * (size_t)lane->number;

	for (size_t i = 0; i < length; i++)
		ret_payload[i] = (char)('a' + (i * 7 + lane->number) % 26);
	return length;
}

static int submit(struct lane *lane, struct rig *rig, struct stage *stage)
{
	char key[16], payload[16384];
	struct rea_store_submit submission = {.spec = {.target = text("users"), .biz_id = text("order-7")}};

	name_of(lane, key, sizeof(key));
	submission.spec.key = text(key);
	submission.spec.payload = (struct rea_text){payload, payload_of(lane, payload)};
	*stage = (struct stage){REA_STORE_PENDING, 1, 0, 0};
	return rea_store_submit(rig->store, &submission, rig->now_ns, step_done, lane);
}

static int claim(struct lane *lane, struct rig *rig, struct stage *stage)
{
	struct rea_store_claim request = {
	    .id = lane->id, .lease_ns = S(3600), .relaxed = rea_random_below(&lane->driver->random, 2) == 0};

	lane->relaxed = request.relaxed;
	stage->state = REA_STORE_RUNNING;
	stage->attempt++;
	return rea_store_claim(rig->store, &request, rig->now_ns, step_done, lane);
}

static int reschedule(struct lane *lane, struct rig *rig, struct stage *stage)
{
	struct rea_store_attempt attempt = unavailable(rig->now_ns);
	struct rea_store_reschedule request = {.id = lane->id, .claim = lane->claim, .attempted = true, .attempt = &attempt};

	lane->relaxed = true;
	stage->state = REA_STORE_RETRYING;
	stage->logged++;
	return rea_store_reschedule(rig->store, &request, rig->now_ns, step_done, lane);
}

static int record(struct lane *lane, struct rig *rig, struct stage *stage)
{
	struct rea_store_attempt attempt = unavailable(rig->now_ns);

	lane->relaxed = true;
	stage->attempt++;
	stage->logged++;
	return rea_store_record(rig->store, lane->id, lane->claim, &attempt, rig->now_ns, step_done, lane);
}

static int finish(struct lane *lane, struct rig *rig, struct stage *stage)
{
	struct rea_store_attempt attempt = unavailable(rig->now_ns);
	struct rea_store_finish request = {.id = lane->id,
	    .claim = lane->claim,
	    .state = REA_STORE_GIVEN_UP,
	    .reason = text("attempts_exhausted"),
	    .attempted = true,
	    .attempt = &attempt};

	stage->state = REA_STORE_GIVEN_UP;
	stage->logged++;
	return rea_store_finish(rig->store, &request, rig->now_ns, step_done, lane);
}

static int cancel(struct lane *lane, struct rig *rig, struct stage *stage)
{
	stage->logged += stage->state == REA_STORE_RUNNING;
	stage->state = REA_STORE_CANCELLED;
	return rea_store_cancel(rig->store, lane->id, text("cancelled"), rig->now_ns, step_done, lane);
}

static int replay(struct lane *lane, struct rig *rig, struct stage *stage)
{
	struct rea_store_replay request = {.id = lane->id, .generation = stage->generation};

	stage->state = REA_STORE_PENDING;
	stage->generation++;
	return rea_store_replay(rig->store, &request, rig->now_ns, step_done, lane);
}

static int step_from(struct lane *lane, struct rig *rig, struct stage *stage)
{
	uint64_t choice = rea_random_below(&lane->driver->random, 8);

	switch (stage->state) {
	case REA_STORE_PENDING:
	case REA_STORE_RETRYING:
		return choice == 0 ? cancel(lane, rig, stage) : claim(lane, rig, stage);
	case REA_STORE_RUNNING:
		if (choice < 2)
			return record(lane, rig, stage);
		return choice < 5   ? reschedule(lane, rig, stage)
		       : choice < 7 ? finish(lane, rig, stage)
				    : cancel(lane, rig, stage);
	case REA_STORE_GIVEN_UP:
	case REA_STORE_CANCELLED:
		return replay(lane, rig, stage);
	case REA_STORE_SUCCESS:
	case REA_STORE_STATE_COUNT:
		break;
	}
	abort();
}

static void next_step(struct lane *lane)
{
	struct driver *driver = lane->driver;
	struct stage *stage = &lane->stages[lane->issued];

	if (driver->failed || driver->steps_left == 0 || lane->issued == STEPS_MAX)
		return;
	driver->steps_left--;
	driver->under_way++;
	driver->rig->now_ns += MS(1);
	lane->under_way = true;
	lane->relaxed = false;
	if (lane->issued > 0)
		*stage = stage[-1];
	lane->issued++; /* before it can be in any file */
	assert_int_equal(lane->issued == 1 ? submit(lane, driver->rig, stage) : step_from(lane, driver->rig, stage), 0);
}

bool driver_run(struct driver *driver, struct rig *rig, uint32_t steps, bool final)
{
	driver->rig = rig;
	driver->steps_left = steps;
	driver->final = final;
	driver->failed = false;
	for (uint32_t i = 0; i < LANES; i++)
		next_step(&driver->lanes[i]);
	while (driver->under_way > 0) {
		uint64_t wakes;

		pthread_mutex_lock(&rig->mutex);
		wakes = rig->wakes;
		pthread_mutex_unlock(&rig->mutex);
		if (rea_store_drain(rig->store) > 0)
			continue;
		pthread_mutex_lock(&rig->mutex);
		while (rig->wakes == wakes)
			pthread_cond_wait(&rig->woken, &rig->mutex);
		pthread_mutex_unlock(&rig->mutex);
	}
	return !driver->failed;
}

/* ---- check ---- */

/* After a loss a task that was RUNNING waits, and its attempt is logged as interrupted. */
static bool is_at(const struct stage *stage, const struct rea_store_task *task, uint32_t logged, enum driver_loss loss)
{
	if (task->generation != stage->generation || task->attempt != stage->attempt)
		return false;
	if (loss == LOSS_NONE || stage->state != REA_STORE_RUNNING)
		return task->state == stage->state && logged == stage->logged;
	return task->state == REA_STORE_RETRYING && logged == stage->logged + 1 && task->crashes > 0;
}

static const char *check_attempts(struct rig *rig, const struct rea_store_task *task, uint32_t *ret_logged)
{
	const struct rea_store_attempt *attempts;
	size_t count;

	if (rea_store_attempts(rig->reader, task->id, 0, REA_STORE_PAGE_MAX, &attempts, &count) != 0)
		return "the attempts of a task cannot be read";
	for (size_t i = 1; i < count; i++)
		if (attempts[i].number <= attempts[i - 1].number || attempts[i].generation < attempts[i - 1].generation)
			return "I6: numbers of attempts do not grow";
	if (count > 0 && attempts[count - 1].number > task->attempt)
		return "I6: an attempt beyond the task's number";
	*ret_logged = (uint32_t)count;
	return NULL;
}

static const char *check_lane(struct lane *lane, struct rig *rig, struct rea_store_task *task, enum driver_loss loss)
{
	uint32_t least = loss == LOSS_POWER ? lane->synced : lane->acknowledged, logged = 0;
	char payload[16384];
	size_t length = payload_of(lane, payload);
	const char *wrong;

	if (task->payload.length != length || memcmp(task->payload.text, payload, length) != 0)
		return "I2: another payload than was submitted";
	if (task->state <= REA_STORE_RETRYING && task->due_ns == REA_NEVER)
		return "I1: an open task without a time";
	if (lane->id != 0 && lane->id != task->id)
		return "a task has another id than was acknowledged";
	wrong = check_attempts(rig, task, &logged); /* its texts are gone after this */
	if (wrong != NULL)
		return wrong;
	for (uint32_t i = least > 0 ? least - 1 : 0; i < lane->issued; i++)
		if (is_at(&lane->stages[i], task, logged, loss))
			return NULL;
	return "a task is not as it was acknowledged";
}

static struct lane *lane_of(struct driver *driver, struct rea_text key)
{
	for (uint32_t i = 0; i < LANES; i++) {
		char name[16];

		name_of(&driver->lanes[i], name, sizeof(name));
		if (key.length == strlen(name) && memcmp(key.text, name, key.length) == 0)
			return &driver->lanes[i];
	}
	return NULL;
}

static const char *check_task(struct driver *driver, struct rig *rig, uint64_t id, bool seen[LANES], enum driver_loss loss)
{
	struct rea_store_task task;
	struct lane *lane;

	if (rea_store_get(rig->reader, id, &task) != 0)
		return "a task cannot be read";
	lane = lane_of(driver, task.key);
	if (lane == NULL || lane->issued == 0)
		return "a task that nobody submitted";
	if (seen[lane->number])
		return "one key, two tasks";
	seen[lane->number] = true;
	return check_lane(lane, rig, &task, loss);
}

const char *driver_check(struct driver *driver, struct rig *rig, enum driver_loss loss)
{
	uint64_t ids[LANES + 1];
	struct rea_store_page page;
	bool seen[LANES] = {false};
	size_t count;

	if (rea_store_list(rig->reader, &(struct rea_store_filter){.max = LANES + 1}, &page) != 0)
		return "the tasks cannot be listed";
	if (page.damaged > 0 || page.next != 0)
		return "more tasks than there can be, or damaged ones";
	count = page.tasks_len;
	for (size_t i = 0; i < count; i++)
		ids[i] = page.tasks[i].id;
	for (size_t i = 0; i < count; i++) {
		const char *wrong = i > 0 && ids[i] >= ids[i - 1] ? "I4: a task in two places"
								  : check_task(driver, rig, ids[i], seen, loss);

		if (wrong != NULL)
			return wrong;
	}
	for (uint32_t i = 0; i < LANES; i++)
		if (!seen[i] && (loss == LOSS_POWER ? driver->lanes[i].synced : driver->lanes[i].acknowledged) > 0)
			return "an acknowledged task is lost";
	return NULL;
}
