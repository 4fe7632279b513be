/*
 * Durable tasks on the disk it is given, with 512 bytes of payload: store DIRECTORY WHAT [K] [SECONDS]
 *
 *   submits, keyed-submits         K tasks under way at once, each submitted and awaited before the next
 *   life-cycles, keyed-life-cycles the same, submitted, claimed and finished, every step awaited
 *   sqlite                         SQLite itself: K rows inserted and committed together by one thread, one table, nothing else
 *   sqlite-rows                    the same with the rows that the store writes, and with other connections allowed to read
 *   waiting                        a million tasks that wait: opening with them, and life cycles beside them
 *
 * A line for each: tasks per second, CPU microseconds of the process for each, operations per commit, and percentiles 50 and 99 of
 * the time to the answer in microseconds; for opening: seconds to the first page of what is due, MiB resident. bench/run store reads it. Other
 * processes disturb a run: best under `chrt -f 1`.
 */
#include <rea/store_sqlite.h>

#include <errno.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 3, WAITING = 1000000, PAYLOAD = 512, LANES_MAX = 1024 };

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
	uint64_t begun_ns;
	uint64_t id;
	uint64_t claim;
};

static char payload[PAYLOAD];

/* Counted in microseconds; the last count is of all that took longer. */
struct latencies {
	uint64_t counts[1000001];
};

static struct latencies latencies;

static void note_latency(struct latencies *all, uint64_t ns)
{
	uint64_t us = ns / REA_NS_PER_US, last = sizeof(all->counts) / sizeof(all->counts[0]) - 1;

	all->counts[us < last ? us : last]++;
}

static uint64_t percentile_us(const struct latencies *all, double percent)
{
	uint64_t total = 0, seen = 0, us = 0;

	for (size_t i = 0; i < sizeof(all->counts) / sizeof(all->counts[0]); i++)
		total += all->counts[i];
	while (total > 0 && (double)(seen += all->counts[us]) < (double)total * percent / 100)
		us++;
	return us;
}

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
	note_latency(&latencies, clock_ns(CLOCK_MONOTONIC) - lane->begun_ns);
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
	lane->begun_ns = clock_ns(CLOCK_MONOTONIC);
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

static void print(struct figures figures)
{
	printf("%.0f\t%.2f\t%.1f\t%llu\t%llu\n", figures.rate, figures.cpu_us, figures.group,
	    (unsigned long long)percentile_us(&latencies, 50), (unsigned long long)percentile_us(&latencies, 99));
	fflush(stdout);
}

static void measure(const char *path, enum work work, bool keyed, uint32_t lanes_len, double seconds)
{
	struct bench bench;

	open_store(&bench, path);
	print(run(&bench, work, keyed, lanes_len, seconds));
	rea_store_close(bench.store);
}

/* ---- SQLite itself ---- */

static void must(sqlite3 *db, int code)
{
	if (code == SQLITE_OK || code == SQLITE_DONE)
		return;
	fprintf(stderr, "store: sqlite: %s\n", sqlite3_errmsg(db));
	exit(1);
}

struct inserts {
	const char *setup;
	const char *statements[2]; /* 1 = time, 2 = payload */
};

static const struct inserts one_table = {
    "PRAGMA locking_mode=EXCLUSIVE;"
    "CREATE TABLE task (id INTEGER PRIMARY KEY, due INTEGER, target TEXT, payload BLOB)",
    {"INSERT INTO task VALUES (NULL, ?1, 'user-service', ?2)", NULL}};

static const struct inserts same_rows = {
    "PRAGMA cell_size_check=ON;"
    "CREATE TABLE task (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, generation INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, attempts_before INTEGER NOT NULL, crashes INTEGER NOT NULL, claim INTEGER NOT NULL,"
    " due_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL, later INTEGER NOT NULL, target TEXT NOT NULL) STRICT;"
    "CREATE INDEX task_later ON task (due_ns) WHERE later = 1;"
    "CREATE INDEX task_running ON task (due_ns) WHERE state = 1;"
    "CREATE TABLE spec (id INTEGER PRIMARY KEY, submitted_ns INTEGER NOT NULL, biz_id TEXT NOT NULL, key TEXT NOT NULL,"
    " fingerprint BLOB NOT NULL, payload BLOB NOT NULL) STRICT",
    {"INSERT INTO task VALUES (NULL, 0, 1, 0, 0, 0, 0, ?1, ?1, 0, 'user-service')",
	"INSERT INTO spec VALUES (NULL, ?1, '', '', zeroblob(32), ?2)"}};

static sqlite3 *open_tables(const char *path, const struct inserts *how, sqlite3_stmt *ret_inserts[2])
{
	sqlite3 *db;

	must(NULL, sqlite3_open(path, &db));
	must(db, sqlite3_exec(db, "PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=400",
		     NULL, NULL, NULL));
	must(db, sqlite3_exec(db, how->setup, NULL, NULL, NULL));
	for (size_t i = 0; i < 2; i++)
		must(db, sqlite3_prepare_v2(
			     db, how->statements[i] != NULL ? how->statements[i] : "", -1, &ret_inserts[i], NULL));
	return db;
}

static void insert_row(sqlite3 *db, sqlite3_stmt *insert, uint64_t now_ns)
{
	must(db, sqlite3_bind_int64(insert, 1, (sqlite3_int64)now_ns));
	if (sqlite3_bind_parameter_count(insert) > 1)
		must(db, sqlite3_bind_blob(insert, 2, payload, sizeof(payload), SQLITE_STATIC));
	must(db, sqlite3_step(insert));
	must(db, sqlite3_reset(insert));
}

static void commit_rows(sqlite3 *db, sqlite3_stmt *inserts[2], uint32_t rows_len)
{
	uint64_t begun_ns = clock_ns(CLOCK_MONOTONIC), took_ns;

	must(db, sqlite3_exec(db, "BEGIN", NULL, NULL, NULL));
	for (uint32_t i = 0; i < rows_len; i++)
		for (size_t k = 0; k < 2 && inserts[k] != NULL; k++)
			insert_row(db, inserts[k], begun_ns);
	must(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
	took_ns = clock_ns(CLOCK_MONOTONIC) - begun_ns;
	for (uint32_t i = 0; i < rows_len; i++)
		note_latency(&latencies, took_ns);
}

static void measure_sqlite(const char *path, const struct inserts *how, uint32_t rows_len, double seconds)
{
	sqlite3_stmt *inserts[2];
	sqlite3 *db = open_tables(path, how, inserts);
	uint64_t start_ns = clock_ns(CLOCK_MONOTONIC), start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID), now_ns;
	uint64_t rows = 0;

	do {
		commit_rows(db, inserts, rows_len);
		rows += rows_len;
		now_ns = clock_ns(CLOCK_MONOTONIC);
	} while ((double)(now_ns - start_ns) < seconds * 1e9);
	print((struct figures){.rate = (double)rows / ((double)(now_ns - start_ns) / 1e9),
	    .cpu_us = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns) / 1e3 / (double)rows,
	    .group = rows_len});
	sqlite3_finalize(inserts[0]);
	sqlite3_finalize(inserts[1]);
	sqlite3_close(db);
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

		open_store(&bench, path);
		check(rea_store_due(bench.store, start_ns + 2 * REA_NS_PER_S, 256, start_ns, note_due, &told), "due");
		while (!told)
			wait_and_drain(&bench);
		printf("%.3f\t%.1f\n", (double)(clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e9, resident_mib());
		rea_store_close(bench.store);
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		exit(1);
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

static void measure_waiting(const char *path, uint32_t lanes_len, double seconds)
{
	pid_t loader = fork();
	int status;

	/* In another process, so that nothing of it is left in this one's memory. */
	if (loader == 0) {
		load_waiting(path);
		exit(0);
	}
	if (waitpid(loader, &status, 0) != loader || status != 0)
		exit(1);
	for (int i = 0; i < RUNS; i++)
		measure_opening(path);
	measure(path, LIFE_CYCLES, false, lanes_len, seconds);
}

static int measure_what(const char *what, const char *path, uint32_t lanes_len, double seconds)
{
	bool keyed = strncmp(what, "keyed-", 6) == 0;
	const char *work = keyed ? what + 6 : what;

	if (strcmp(work, "submits") == 0)
		measure(path, SUBMITS, keyed, lanes_len, seconds);
	else if (strcmp(work, "life-cycles") == 0)
		measure(path, LIFE_CYCLES, keyed, lanes_len, seconds);
	else if (strcmp(what, "sqlite") == 0)
		measure_sqlite(path, &one_table, lanes_len, seconds);
	else if (strcmp(what, "sqlite-rows") == 0)
		measure_sqlite(path, &same_rows, lanes_len, seconds);
	else if (strcmp(what, "waiting") == 0)
		measure_waiting(path, lanes_len, seconds);
	else
		return 2;
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long lanes_len = argc > 3 ? strtoul(argv[3], NULL, 10) : 64;
	double seconds = argc > 4 ? atof(argv[4]) : 2;
	char path[4000];
	int status = 2;

	if (argc > 2 && lanes_len >= 1 && lanes_len <= LANES_MAX && seconds > 0) {
		memset(payload, 'p', sizeof(payload));
		snprintf(path, sizeof(path), "%s/bench-store.db", argv[1]);
		remove_database(path);
		status = measure_what(argv[2], path, (uint32_t)lanes_len, seconds);
		remove_database(path);
	}
	if (status == 2)
		fprintf(stderr, "usage: store DIRECTORY [keyed-]submits|[keyed-]life-cycles|sqlite|sqlite-rows|waiting [K 1..%d] [SECONDS]\n",
		    LANES_MAX);
	return status;
}
