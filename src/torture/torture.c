/*
 * The rounds:
 *
 *   start `rea serve` ─▶ list all tasks ─▶ let the clients go ─▶ (a random while) ─▶ kill -9 ─▶ start …
 *
 * and after the last one: start, wait until every task has come to an end, stop, read what the target saw.
 *
 * The target is `rea upstream`, which is never killed: it answers most requests, refuses some, and loses some.
 */
#include "torture/torture.h"

#include "torture/clients.h"
#include "torture/process.h"

#include <rea/guard.h>
#include <rea/time.h>

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CONCURRENCY 16
#define READY_TIMEOUT_MS 60000
#define SETTLE_NS (60 * REA_NS_PER_S) /* without anything coming to an end */
#define LOOK_NS (50 * REA_NS_PER_MS)
#define PROBES 50
#define ROOM_BYTES 65536 /* less than this left, and the disk is full */
#define BAR_WIDTH 30

static const char target_script[] = "15% status 503\n"
				    "3% close\n"
				    "2% delay 300ms status 200\n"
				    "delay 2ms status 200\n";

struct torture {
	const struct torture_options *options;
	char path[512]; /* of the directory that is ours */
	struct rea_random random;
	struct ledger *ledger;
	struct clients *clients;
	struct asker *asker;
	struct process target, serve;
	char admin[64];
	/* Evidence. */
	uint32_t killed;
	uint64_t sync_ns;      /* median of the probes */
	uint64_t ready_ns_max; /* slowest restart */
	double commits, syncs; /* of all processes, as last told by each */
	double round_commits, round_syncs;
	int stopped_with;
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / REA_NS_PER_S), .tv_nsec = (long)(ns % REA_NS_PER_S)};

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

static bool fail(const char *what, const char *why)
{
	fprintf(stderr, "rea torture: %s: %s\n", what, why);
	return false;
}

static void path_of(const struct torture *torture, const char *name, char ret_path[640])
{
	snprintf(ret_path, 640, "%s/%s", torture->path, name);
}

/* ---- the disk ---- */

static int by_size(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* How long the disk takes to say that something is there: a disk that says so at once is worth knowing of. */
static bool probe_disk(struct torture *torture)
{
	uint64_t costs[PROBES];
	char path[640], block[4096];
	int fd;
	bool good = true;

	path_of(torture, "probe", path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(path, strerror(errno));
	for (size_t i = 0; good && i < PROBES; i++) {
		uint64_t start_ns = clock_ns();

		memset(block, (int)i, sizeof(block));
		good = pwrite(fd, block, sizeof(block), (off_t)(i * sizeof(block))) == (ssize_t)sizeof(block) &&
		       fdatasync(fd) == 0;
		costs[i] = clock_ns() - start_ns;
	}
	if (!good)
		fail(path, strerror(errno));
	close(fd);
	unlink(path);
	qsort(costs, PROBES, sizeof(costs[0]), by_size);
	torture->sync_ns = costs[PROBES / 2];
	return good;
}

/* A disk with no room proves nothing: neither what rea could not write there nor what the target could not note is a promise broken. */
static bool is_disk_full(const struct torture *torture)
{
	char path[640];
	static const char block[ROOM_BYTES];
	bool full;
	int fd;

	path_of(torture, "probe", path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == ENOSPC || errno == EDQUOT;
	errno = 0;
	full = (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block) || fdatasync(fd) != 0) &&
	       (errno == 0 || errno == ENOSPC || errno == EDQUOT);
	close(fd);
	unlink(path);
	return full;
}

/* ---- processes ---- */

static bool write_file(const struct torture *torture, const char *name, const char *text)
{
	char path[640];
	FILE *file;
	bool good;

	path_of(torture, name, path);
	file = fopen(path, "w");
	good = file != NULL && fputs(text, file) >= 0;
	if (file != NULL)
		good = fclose(file) == 0 && good;
	return good || fail(path, strerror(errno));
}

static bool start_target(struct torture *torture)
{
	char script[640], log[640], errors[640], seed[24];
	const char *const argv[] = {"rea", "upstream", "--listen", "127.0.0.1:0", "--name", "target", "--script",
	    script, "--log", log, "--seed", seed, NULL};

	path_of(torture, "target.script", script);
	path_of(torture, "target.jsonl", log);
	path_of(torture, "target.err", errors);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)torture->options->seed);
	return write_file(torture, "target.script", target_script) &&
	       (process_start(&torture->target, argv, errors) || fail("cannot start the target", strerror(errno)));
}

/* A path in a document that JSON writes. */
static char *document_of(const struct torture *torture, const char *address)
{
	char path[640], *text = NULL;
	json_t *document;

	path_of(torture, "tasks.db", path);
	document = json_pack("{s:s,s:s,s:{s:{s:[s]}},s:{s:{s:s,s:[{s:s,s:s,s:s},{s:s,s:s},{s:s,s:s,s:s}]}},"
			     "s:{s:{s:{s:b,s:{s:s,s:i,s:i}}}},s:{s:s,s:i,s:i,s:{s:i,s:i,s:i}}}",
	    "listen", "127.0.0.1:0", "admin", "127.0.0.1:0", "services", "target", "instances", address, "contracts",
	    "target", "context", "torture", "operations", "post", "/again", "id", "again", "retryable", "with-key",
	    "post", "/once", "id", "once", "post", "/later", "id", "later", "retryable", "with-key", "rpc", "feign",
	    "retry", "enabled", 1, "budget", "rule", "ratio", "ratio", 1, "reserve", 100000, "tasks", "file", path,
	    "concurrency", 2 * CONCURRENCY, "target-concurrency", CONCURRENCY, "policy", "max-attempts", 10,
	    "min-backoff-ms", 20, "max-backoff-ms", 500);
	if (document != NULL)
		text = json_dumps(document, JSON_INDENT(2));
	json_decref(document);
	return text;
}

static bool configure(struct torture *torture)
{
	char address[64], *text;
	bool good;

	if (!process_wait_line(&torture->target, "target listening on ", READY_TIMEOUT_MS, address, sizeof(address)))
		return fail("the target", "it did not begin; target.err says why");
	text = document_of(torture, address);
	good = text != NULL ? write_file(torture, "rea.yaml", text) : fail("the configuration", "out of memory");
	free(text);
	return good;
}

/* ---- looking ---- */

static const char *ask(struct torture *torture, const char *path)
{
	const char *reply = NULL;
	long status = asker_ask(torture->asker, torture->admin, path, NULL, &reply);

	if (status == 200)
		return reply;
	fprintf(stderr, "rea torture: %s was answered with %ld\n", path, status);
	return NULL;
}

/* Of what is seen after a kill. */
static void accuse(struct torture *torture, const char *what)
{
	if (torture->killed > 0 && !is_disk_full(torture))
		ledger_lost(torture->ledger, what);
}

static bool start_serve(struct torture *torture)
{
	char config[640], errors[640];
	const char *const argv[] = {"rea", "serve", "--config", config, NULL};
	uint64_t start_ns = clock_ns();
	char rest[8];

	path_of(torture, "rea.yaml", config);
	path_of(torture, "serve.err", errors);
	if (!process_start(&torture->serve, argv, errors))
		return fail("cannot start rea serve", strerror(errno));
	if (!process_wait_line(&torture->serve, "rea: admin on ", READY_TIMEOUT_MS, torture->admin, sizeof(torture->admin)) ||
	    !process_wait_line(&torture->serve, "rea: ready", READY_TIMEOUT_MS, rest, sizeof(rest))) {
		accuse(torture, "rea serve does not come back after a kill; serve.err says why");
		return fail("rea serve", "it did not become ready; serve.err says why");
	}
	/* It carries calls without its store, too. */
	if (ask(torture, "/v1/tasks?limit=1") == NULL) {
		accuse(torture, "rea serve does not come back with its store after a kill; serve.err says why");
		return fail("rea serve", "its store cannot be opened; serve.err says why");
	}
	torture->ready_ns_max = rea_time_max(torture->ready_ns_max, clock_ns() - start_ns);
	return true;
}

/* Every task that there is, page by page. */
static bool list_all(struct torture *torture, size_t *ret_open)
{
	char path[128] = "/v1/tasks?limit=1000";
	bool more = true;

	ledger_list(torture->ledger);
	while (more) {
		const char *reply = ask(torture, path), *next;
		json_t *document = reply != NULL ? json_loads(reply, 0, NULL) : NULL, *task;
		size_t i;

		if (document == NULL)
			return fail("the list of tasks", "it cannot be read");
		json_array_foreach(json_object_get(document, "tasks"), i, task)
		{
			ledger_listed_task(torture->ledger, task);
		}
		next = json_string_value(json_object_get(document, "next"));
		more = next != NULL;
		if (more)
			snprintf(path, sizeof(path), "/v1/tasks?limit=1000&cursor=%.64s", next);
		json_decref(document);
	}
	ledger_listed(torture->ledger, ret_open);
	return true;
}

/* The value of a metric without labels, 0 if it is not there. */
static double metric_of(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (; text != NULL; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (strncmp(text, name, length) == 0 && text[length] == ' ')
			return strtod(text + length, NULL);
	}
	return 0;
}

/* What the process tells of itself, while it can. */
static void read_metrics(struct torture *torture)
{
	const char *reply = NULL;

	if (asker_ask(torture->asker, torture->admin, "/metrics", NULL, &reply) != 200)
		return;
	ledger_running(torture->ledger, (uint32_t)metric_of(reply, "rea_tasks_running"));
	torture->round_commits = metric_of(reply, "rea_store_commits_total");
	torture->round_syncs = metric_of(reply, "rea_store_syncs_total");
}

static void end_round(struct torture *torture)
{
	torture->commits += torture->round_commits;
	torture->syncs += torture->round_syncs;
	torture->round_commits = torture->round_syncs = 0;
}

static bool read_target_log(struct torture *torture)
{
	char path[640], *line = NULL;
	size_t size = 0;
	FILE *file;

	path_of(torture, "target.jsonl", path);
	file = fopen(path, "r");
	if (file == NULL)
		return fail(path, strerror(errno));
	while (getline(&line, &size, file) >= 0) {
		json_t *document = json_loads(line, 0, NULL);

		ledger_request(torture->ledger, document);
		json_decref(document);
	}
	free(line);
	fclose(file);
	return true;
}

/* ---- progress ---- */

static void draw(struct torture *torture, const char *doing, uint32_t done, uint32_t whole)
{
	char bar[BAR_WIDTH + 1];
	struct ledger_counts counts;

	if (!torture->options->progress)
		return;
	ledger_count(torture->ledger, &counts);
	for (uint32_t i = 0; i < BAR_WIDTH; i++)
		bar[i] = (uint64_t)i * whole < (uint64_t)done * BAR_WIDTH ? '#' : '.';
	bar[BAR_WIDTH] = '\0';
	fprintf(stderr, "\r[%s] %s %u of %u, %zu tasks acknowledged\033[K", bar, doing, done, whole, counts.acknowledged);
}

static void wipe(const struct torture *torture)
{
	if (torture->options->progress)
		fprintf(stderr, "\r\033[K");
}

/* ---- rounds ---- */

/* A quarter to seven quarters of its share. */
static uint64_t round_ns(struct torture *torture)
{
	uint64_t share_ns = REA_NS_PER_S * torture->options->seconds / torture->options->rounds;

	return share_ns / 4 + rea_random_below(&torture->random, share_ns * 3 / 2 + 1);
}

static bool play_round(struct torture *torture, uint32_t round)
{
	uint64_t end_ns;
	size_t open;

	if (!start_serve(torture) || !list_all(torture, &open))
		return false;
	draw(torture, "kill", round, torture->options->rounds);
	clients_resume(torture->clients, torture->admin);
	end_ns = rea_time_add(clock_ns(), round_ns(torture));
	while (clock_ns() < end_ns) {
		sleep_ns(rea_time_min(LOOK_NS, rea_time_sub(end_ns, clock_ns())));
		read_metrics(torture);
	}
	/* In the middle of whatever it does. */
	process_end(&torture->serve, SIGKILL);
	torture->killed++;
	clients_pause(torture->clients);
	end_round(torture);
	return !ledger_broken(torture->ledger) && !is_disk_full(torture);
}

/* Until nothing is left to be done, or nothing happens any more. */
static bool settle(struct torture *torture)
{
	size_t open = SIZE_MAX, least = SIZE_MAX, most = 1;
	uint64_t least_ns = clock_ns();

	for (;;) {
		if (!list_all(torture, &open))
			return false;
		most = open > most ? open : most;
		if (open < least) {
			least = open;
			least_ns = clock_ns();
		}
		draw(torture, "ended", (uint32_t)(most - open), (uint32_t)most);
		if (open == 0 || clock_ns() - least_ns > SETTLE_NS)
			return true;
		sleep_ns(4 * LOOK_NS);
	}
}

static bool play_end(struct torture *torture)
{
	if (!start_serve(torture) || !settle(torture))
		return false;
	read_metrics(torture);
	end_round(torture);
	torture->stopped_with = process_end(&torture->serve, SIGTERM);
	process_end(&torture->target, SIGTERM);
	if (!read_target_log(torture))
		return false;
	ledger_close(torture->ledger);
	return true;
}

/* A broken promise ends it early. False: the test could not be made. */
static bool play(struct torture *torture)
{
	bool good = probe_disk(torture) && start_target(torture) && configure(torture);

	for (uint32_t round = 0; good && round < torture->options->rounds; round++)
		good = play_round(torture, round);
	good = good && play_end(torture);
	if (is_disk_full(torture)) {
		wipe(torture);
		return fail(
		    torture->path, "the disk is full: this says nothing of the store; give it room and try again");
	}
	return good || ledger_broken(torture->ledger);
}

/* ---- the evidence ---- */

static void print_counts(struct torture *torture)
{
	struct ledger_counts counts;

	ledger_count(torture->ledger, &counts);
	printf("disk          fdatasync of 4 KiB takes %.2f ms here (median of %d)%s\n",
	    (double)torture->sync_ns / (double)REA_NS_PER_MS, PROBES,
	    torture->sync_ns < 20 * REA_NS_PER_US ? ": no disk is that fast, nothing here outlives a power cut" : "");
	printf("handed in     %zu tasks, %zu times; %zu times the answer was the task that was there\n", counts.tasks,
	    counts.submits, counts.repeated);
	printf("acknowledged  %zu\n", counts.acknowledged);
	printf("killed        %u times, ready again within %.0f ms\n", torture->killed,
	    (double)torture->ready_ns_max / (double)REA_NS_PER_MS);
	printf("commits       %.0f seen, %.0f of them waited for the disk\n", torture->commits, torture->syncs);
	printf("stored        %zu: %zu SUCCESS, %zu GIVEN_UP (%zu crash_loop), %zu CANCELLED, %zu waiting\n",
	    counts.stored, counts.succeeded, counts.given_up, counts.crash_loops, counts.cancelled, counts.waiting);
	printf("target        %zu requests for %zu tasks, at most %u of %d seen under way\n\n", counts.requests,
	    counts.delivered, counts.running_max, CONCURRENCY);
}

/* Returns the first promise that was broken, or LEDGER_PROMISES_COUNT. */
static int print_promises(const struct torture *torture)
{
	int first = LEDGER_PROMISES_COUNT;

	for (int i = 0; i < LEDGER_PROMISES_COUNT; i++) {
		enum ledger_promise promise = (enum ledger_promise)i;
		const char *broken = ledger_breach(torture->ledger, promise);
		const char *verdict = broken[0] != '\0'                         ? "BROKEN"
				      : ledger_looked(torture->ledger, promise) ? "kept"
										: "-";

		printf("%-12s  %-6s  %s\n", ledger_promise_name(promise), verdict,
		    broken[0] == '\0' ? ledger_promise_says(promise) : broken);
		if (broken[0] != '\0' && first == LEDGER_PROMISES_COUNT)
			first = i;
	}
	return first;
}

static int print_evidence(struct torture *torture)
{
	int first;

	wipe(torture);
	print_counts(torture);
	first = print_promises(torture);
	if (first != LEDGER_PROMISES_COUNT)
		printf("\nFAIL: %s: %s\n", ledger_promise_name((enum ledger_promise)first),
		    ledger_breach(torture->ledger, (enum ledger_promise)first));
	else if (torture->stopped_with != 0)
		printf("\nFAIL: rea serve ended with %d when it was asked to stop\n", torture->stopped_with);
	else
		printf("\nPASS\n");
	return first != LEDGER_PROMISES_COUNT || torture->stopped_with != 0;
}

/* ---- around it ---- */

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *walk)
{
	(void)file, (void)kind, (void)walk;
	return remove(path);
}

static bool make_directory(struct torture *torture)
{
	/* Absolute: what is started later must not depend on where it was started. */
	char *base = realpath(torture->options->directory, NULL);
	int length;

	if (base == NULL)
		return fail(torture->options->directory, strerror(errno));
	length = snprintf(torture->path, sizeof(torture->path), "%s/rea-torture-XXXXXX", base);
	free(base);
	if (length < 0 || (size_t)length >= sizeof(torture->path))
		return fail(torture->options->directory, "the path is too long");
	return mkdtemp(torture->path) != NULL || fail(torture->options->directory, strerror(errno));
}

static bool prepare(struct torture *torture)
{
	const struct torture_options *options = torture->options;

	rea_random_init(&torture->random, options->seed);
	torture->ledger = ledger_new(options->seed, CONCURRENCY, options->power_cuts);
	torture->asker = asker_new();
	torture->clients = torture->ledger != NULL
			       ? clients_start(torture->ledger, options->clients, options->rate_per_s, options->seed)
			       : NULL;
	return (torture->asker != NULL && torture->clients != NULL) || fail("cannot begin", "out of memory or threads");
}

int torture_run(const struct torture_options *options)
{
	struct torture torture = {.options = options};
	int code = 1;

	if (!make_directory(&torture))
		return 1;
	signal(SIGPIPE, SIG_IGN);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (prepare(&torture) && play(&torture))
		code = print_evidence(&torture);
	process_end(&torture.serve, SIGKILL);
	clients_free(torture.clients);
	process_end(&torture.target, SIGKILL);
	asker_free(torture.asker);
	ledger_free(torture.ledger);
	curl_global_cleanup();
	if (code == 0 && !options->keep)
		nftw(torture.path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	else
		printf("seed %llu; everything is in %s\n", (unsigned long long)options->seed, torture.path);
	return code;
}
