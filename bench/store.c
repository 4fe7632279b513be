/*
 * The SQLite store on the disk it is given: store DIRECTORY [SECONDS]
 *
 * Life cycles: K tasks under way at once, each submitted, claimed and finished, every step awaited before the next; CPU time of the whole
 * process per task. Then the same beside a million tasks that wait, and what those cost: memory, and the time from opening to the first page of
 * what is due. Medians of three runs. Other processes disturb a run: best under `chrt -f 1`.
 */
#include <rea/store_sqlite.h>

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 3, WAITING = 1000000, PAYLOAD = 512, LANES_MAX = 256 };

enum work { LIFE_CYCLES, SUBMITS };

struct bench {
	struct rea_store *store;
	sem_t woken;
	enum work work;
	bool keyed;
	bool stopping;
	uint32_t under_way;
	uint64_t finished;
	uint64_t next_key;
};

struct lane {
	struct bench *bench;
	uint64_t id;
	uint64_t claim;
};

static char payload[PAYLOAD];

static uint64_t clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void check(int error, const char *what)
{
	if (error == 0)
		return;
	fprintf(stderr, "store: %s: %s\n", what, rea_error_name(error));
	exit(1);
}

static void woken(void *user_data)
{
	sem_post(&((struct bench *)user_data)->woken);
}

static void open_store(struct bench *bench, const char *path)
{
	struct rea_store_sqlite_options options;
	struct rea_error_info info;
	int error;

	memset(bench, 0, sizeof(*bench));
	sem_init(&bench->woken, 0, 0);
	rea_store_sqlite_options_init(&options);
	options.path = path;
	options.store.wake = woken;
	options.store.user_data = bench;
	error = rea_store_sqlite_open(&options, &bench->store, &info);
	check(error, error != 0 ? info.message : "");
}

static void wait_and_drain(struct bench *bench)
{
	while (sem_wait(&bench->woken) != 0 && errno == EINTR)
		;
	rea_store_drain(bench->store);
}

/* ---- life cycles ---- */

static void begin_task(struct lane *lane);

static void task_finished(const struct rea_store_result *result, void *user_data)
{
	struct lane *lane = user_data;

	check(result->error, "finish");
	lane->bench->finished++;
	lane->bench->under_way--;
	if (!lane->bench->stopping)
		begin_task(lane);
}

static void task_claimed(const struct rea_store_result *result, void *user_data)
{
	struct lane *lane = user_data;
	struct rea_store_finish finish = {
	    .id = lane->id, .claim = result->task.claim, .state = REA_STORE_SUCCESS, .attempted = true};

	check(result->error, "claim");
	check(rea_store_finish(lane->bench->store, &finish, clock_ns(CLOCK_MONOTONIC), task_finished, lane), "finish");
}

static void task_submitted(const struct rea_store_result *result, void *user_data)
{
	struct lane *lane = user_data;
	struct rea_store_claim claim = {.id = result->task.id, .lease_ns = 30 * REA_NS_PER_S, .relaxed = true};

	check(result->error, "submit");
	if (lane->bench->work == SUBMITS) {
		task_finished(result, lane);
		return;
	}
	lane->id = result->task.id;
	check(rea_store_claim(lane->bench->store, &claim, clock_ns(CLOCK_MONOTONIC), task_claimed, lane), "claim");
}

static struct rea_text random_text(struct bench *bench, char *text, size_t size)
{
	uint64_t hash = ++bench->next_key * UINT64_C(0x9e3779b97f4a7c15);
	int length = snprintf(text, size, "%016llx-%08llx-%08llx", (unsigned long long)(hash ^ hash >> 29),
	    (unsigned long long)(bench->next_key & 0xffffffff), (unsigned long long)(hash & 0xffffffff));

	return (struct rea_text){text, (size_t)length};
}

static void begin_task(struct lane *lane)
{
	char key[48], biz_id[48];
	struct rea_store_submit submit = {.spec = {.target = {"user-service", 12}, .payload = {payload, sizeof(payload)}}};

	if (lane->bench->keyed) {
		submit.spec.key = random_text(lane->bench, key, sizeof(key));
		submit.spec.biz_id = random_text(lane->bench, biz_id, sizeof(biz_id));
	}
	lane->bench->under_way++;
	check(rea_store_submit(lane->bench->store, &submit, clock_ns(CLOCK_MONOTONIC), task_submitted, lane), "submit");
}

/* What a task submitted now is given is soon, as in a queue that is not behind. */
static void look_ahead(struct bench *bench)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	check(rea_store_due(bench->store, now_ns + 2 * REA_NS_PER_S, 1, now_ns, NULL, NULL), "due");
}

struct figures {
	double rate;
	double cpu_us;
	double group; /* operations per commit */
};

static struct figures run(struct bench *bench, enum work work, bool keyed, uint32_t lanes_len, double seconds)
{
	static struct lane lanes[LANES_MAX];
	struct rea_store_status before, after;
	uint64_t start_ns, start_cpu_ns, end_ns, looked_ns = 0;
	double tasks;

	bench->work = work;
	bench->keyed = keyed;
	bench->stopping = false;
	bench->finished = 0;
	rea_store_status(bench->store, &before);
	start_ns = clock_ns(CLOCK_MONOTONIC);
	end_ns = start_ns + (uint64_t)(seconds * 1e9);
	start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (uint32_t i = 0; i < lanes_len; i++) {
		lanes[i].bench = bench;
		begin_task(&lanes[i]);
	}
	while (bench->under_way > 0) {
		uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

		bench->stopping = now_ns >= end_ns;
		if (now_ns - looked_ns > REA_NS_PER_S) {
			look_ahead(bench);
			looked_ns = now_ns;
		}
		wait_and_drain(bench);
	}
	rea_store_status(bench->store, &after);
	tasks = (double)bench->finished;
	return (struct figures){.rate = tasks / ((double)(clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e9),
	    .cpu_us = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns) / 1e3 / tasks,
	    .group = (double)(after.operations - before.operations) / (double)(after.commits - before.commits)};
}

static int by_rate(const void *a, const void *b)
{
	double left = ((const struct figures *)a)->rate, right = ((const struct figures *)b)->rate;

	return (left > right) - (left < right);
}

static void measure(struct bench *bench, const char *what, enum work work, bool keyed, uint32_t lanes_len, double seconds)
{
	struct figures figures[RUNS];

	for (int i = 0; i < RUNS; i++)
		figures[i] = run(bench, work, keyed, lanes_len, seconds);
	qsort(figures, RUNS, sizeof(figures[0]), by_rate);
	printf("%-44s K=%-4u %8.0f/s %7.1f us CPU %6.1f per commit   (%.0f..%.0f)\n", what, lanes_len, figures[RUNS / 2].rate,
	    figures[RUNS / 2].cpu_us, figures[RUNS / 2].group, figures[0].rate, figures[RUNS - 1].rate);
	fflush(stdout);
}

static void measure_all(const char *path, double seconds)
{
	static const uint32_t lanes[] = {1, 16, 64, 256};
	struct bench bench;

	open_store(&bench, path);
	for (size_t i = 0; i < 4; i++)
		measure(&bench, "life cycles", LIFE_CYCLES, false, lanes[i], seconds);
	for (size_t i = 0; i < 4; i++)
		measure(&bench, "life cycles with key and biz_id", LIFE_CYCLES, true, lanes[i], seconds);
	for (size_t i = 0; i < 4; i++)
		measure(&bench, "submits", SUBMITS, false, lanes[i], seconds);
	for (size_t i = 0; i < 4; i++)
		measure(&bench, "submits with key and biz_id", SUBMITS, true, lanes[i], seconds);
	rea_store_close(bench.store);
}

/* ---- a million that wait ---- */

static void load_waiting(const char *path)
{
	struct bench bench;
	struct rea_store_status status;

	open_store(&bench, path);
	for (uint64_t i = 0; i < WAITING;) {
		struct rea_store_submit submit = {
		    .spec = {.target = {"user-service", 12}, .payload = {payload, sizeof(payload)}},
		    .delay_ns = (3600 + i % 86400) * REA_NS_PER_S};
		int error = rea_store_submit(bench.store, &submit, clock_ns(CLOCK_MONOTONIC), NULL, NULL);

		if (error == REA_ERR_FULL)
			wait_and_drain(&bench);
		else {
			check(error, "submit");
			i++;
		}
	}
	rea_store_close(bench.store);
	open_store(&bench, path);
	rea_store_status(bench.store, &status);
	if (status.counts[REA_STORE_PENDING] < WAITING)
		exit(1);
	rea_store_close(bench.store);
}

static void note_due(const struct rea_store_result *result, void *user_data)
{
	check(result->error, "due");
	*(bool *)user_data = true;
}

static double resident_mib(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1)
		pages = 0;
	if (file != NULL)
		fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

/* In a process of its own, so that it is only this that is counted. */
static void measure_opening(const char *path)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
		struct bench bench;
		bool told = false;
		double before_mib = resident_mib();

		open_store(&bench, path);
		check(rea_store_due(bench.store, start_ns + 2 * REA_NS_PER_S, 256, start_ns, note_due, &told), "due");
		while (!told)
			wait_and_drain(&bench);
		printf("%-44s %.3f s, %.1f MiB resident (%.1f before)\n", "opening with a million waiting",
		    (double)(clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e9, resident_mib(), before_mib);
		rea_store_close(bench.store);
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		exit(1);
}

static void measure_beside_waiting(const char *path, double seconds)
{
	struct bench bench;

	open_store(&bench, path);
	measure(&bench, "life cycles beside a million waiting", LIFE_CYCLES, false, 64, seconds);
	rea_store_close(bench.store);
}

static void remove_database(const char *path)
{
	static const char *const suffixes[] = {"", "-wal", "-shm", "-lock"};
	char name[4096];

	for (size_t i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
		unlink(name);
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 2;
	char path[4000];

	if (argc < 2 || seconds <= 0) {
		fprintf(stderr, "usage: store DIRECTORY [SECONDS]\n");
		return 2;
	}
	memset(payload, 'p', sizeof(payload));
	snprintf(path, sizeof(path), "%s/bench-store.db", argv[1]);
	remove_database(path);
	measure_all(path, seconds);
	remove_database(path);
	load_waiting(path);
	for (int i = 0; i < RUNS; i++)
		measure_opening(path);
	measure_beside_waiting(path, seconds);
	remove_database(path);
	return 0;
}
