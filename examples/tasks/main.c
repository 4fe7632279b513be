/*
 * Tasks that survive: each tells a server on this machine something, with retries, and is in a SQLite file until it is over. The program may be
 * killed at any moment; the next start completes what was accepted.
 *   cc main.c -o tasks $(pkg-config --cflags --libs rea rea-sqlite) -pthread
 *   ./tasks tasks.db 9001 tell apple tell pear tell-once plum    accepts three, runs them, ends when nothing is left
 *   ./tasks tasks.db 9001                                        goes on with what an earlier start left
 * `tell` may be repeated, since the server knows a key when it hears it again. `tell-once` may not: killed in the midst of it, nobody knows whether
 * it was heard, and it is given up. Giving the same task again is no second one.
 */
#include <rea/guard.h>
#include <rea/runner.h>
#include <rea/store_sqlite.h>

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { JOBS_MAX = 1000, UNTOLD = 1 };
/* Only one process has the file open, and what it had claimed is free when it is gone: nothing but its end takes an attempt away. */
#define LEASE_NS (24 * 3600 * REA_NS_PER_S)

/* A task of the file while the runner has it. */
struct job {
	char name[24];      /* its id as text: what events call it; "" = free */
	uint64_t id;        /* in the store */
	uint64_t claim;     /* of the attempt under way; 0 = there is none */
	uint64_t start_ns;  /* of that attempt */
	int claimed;        /* what the store said to the claim */
	const char *reason; /* why it is over */
};

static struct rea_store *store; /* one thread at a time: under mutex, as all that follows */
static struct rea_store_reader *reader;
static struct rea_runner *runner;
static struct job jobs[JOBS_MAX];
static size_t jobs_len, asked; /* in use; operations of main's that nothing was heard of yet */
static bool more = true;       /* in the file, beyond the jobs */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static sem_t news; /* main has something to do */
static in_port_t port;

static struct rea_text text_of(const char *text)
{
	return (struct rea_text){text, strlen(text)};
}

static void complain(const char *what, const char *who, int error)
{
	if (error != 0)
		fprintf(stderr, "%s %s: %s\n", what, who, rea_error_text(error));
}

/* ---- the handlers: one attempt, in a thread of the runner's ---- */

/* Sends the key and the text; the server says ok or busy. */
static struct rea_report tell(const struct rea_attempt *attempt)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint64_t left_ms = rea_time_to_ms(rea_time_sub(attempt->deadline_ns, rea_runner_now()));
	struct timeval patience = {(time_t)(left_ms / 1000), (suseconds_t)(left_ms % 1000 * 1000 + 1)};
	struct rea_report report;
	char answer[8] = "";
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		report = rea_report_from_errno(errno, REA_PHASE_CONNECT);
	else if (dprintf(fd, "%.*s\n", (int)attempt->key.length, attempt->key.text) < 0 ||
		 recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL) <= 0)
		report = rea_report_fail(REA_OUTCOME_AMBIGUOUS);
	else
		report = strcmp(answer, "ok") == 0 ? rea_report_ok() : rea_report_fail(REA_OUTCOME_UNAVAILABLE);
	close(fd);
	return report;
}

static void on_claimed(const struct rea_store_result *result, void *user_data)
{
	struct job *job = user_data;

	job->claimed = result->error;
	job->claim = result->error == 0 ? result->task.claim : 0;
	pthread_cond_broadcast(&told);
}

/* The file says that the attempt is under way before it is. */
static bool on_attempt(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct job *job = attempt->task_data;
	struct rea_store_claim claim = {.id = job->id, .lease_ns = LEASE_NS};
	int error;

	(void)user_data;
	pthread_mutex_lock(&mutex);
	job->start_ns = rea_runner_now();
	job->claimed = UNTOLD;
	error = rea_store_claim(store, &claim, job->start_ns, on_claimed, job);
	while (error == 0 && job->claimed == UNTOLD)
		pthread_cond_wait(&told, &mutex);
	error = error != 0 ? error : job->claimed;
	pthread_mutex_unlock(&mutex);
	complain("claiming", job->name, error);
	*ret_report = error == 0 ? tell(attempt) : rea_report_fail(REA_OUTCOME_NEVER_SENT);
	return true;
}

static const struct {
	struct rea_handler handler;
	enum rea_permission permission;
} kinds[] = {
    {{.name = "tell", .attempt = on_attempt}, REA_PERMISSION_IDEMPOTENT_WITH_KEY},
    {{.name = "tell-once", .attempt = on_attempt}, REA_PERMISSION_UNKNOWN},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- what the runner decided goes into the file ---- */

static struct rea_store_attempt attempt_of(const struct job *job, enum rea_outcome outcome, uint64_t now_ns)
{
	return (struct rea_store_attempt){
	    .outcome = outcome, .start_ns = job->start_ns, .cost_ns = rea_time_sub(now_ns, job->start_ns)};
}

static void on_rescheduled(const struct rea_store_result *result, void *user_data)
{
	complain("rescheduling", ((struct job *)user_data)->name, result->error);
}

static void on_event(struct rea_event *event, void *user_data)
{
	struct rea_store_reschedule later = {0};
	struct rea_store_attempt attempt;
	struct job *job = jobs;
	uint64_t now_ns;

	(void)user_data;
	if (event->type != REA_EVENT_RETRY)
		return; /* on_done says the rest */
	pthread_mutex_lock(&mutex);
	while (strncmp(job->name, event->call_id.text, event->call_id.length) != 0 || job->name[event->call_id.length] != '\0')
		job++;
	now_ns = rea_runner_now(); /* not before the lock: the store's time goes on with every operation, and delays run from there */
	attempt = attempt_of(job, event->outcome, now_ns);
	later.id = job->id;
	later.delay_ns = rea_time_sub(rea_time_add(event->time_ns, event->next_delay_ns), now_ns);
	later.claim = job->claim; /* none: an attempt that was interrupted is to be repeated */
	later.attempted = job->claim != 0;
	later.attempt = job->claim != 0 ? &attempt : NULL;
	job->claim = 0;
	complain("rescheduling", job->name, rea_store_reschedule(store, &later, now_ns, on_rescheduled, job));
	pthread_mutex_unlock(&mutex);
}

static void leave(struct job *job)
{
	*job = (struct job){0};
	jobs_len--;
	sem_post(&news);
}

static void on_finished(const struct rea_store_result *result, void *user_data)
{
	struct job *job = user_data;

	complain("finishing", job->name, result->error);
	if (result->error == 0)
		printf("%s %s%s%s\n", job->name, rea_store_state_name(result->task.state),
		    job->reason[0] != '\0' ? " " : "", job->reason);
	leave(job);
}

static void on_done(const struct rea_task_end *end, void *user_data)
{
	struct job *job = user_data;
	struct rea_store_finish finish = {0};
	struct rea_store_attempt attempt;
	uint64_t now_ns;
	int error;

	pthread_mutex_lock(&mutex);
	now_ns = rea_runner_now();
	attempt = attempt_of(job, end->task->past.report.outcome, now_ns);
	job->reason = rea_reason_name(end->reason);
	finish.id = job->id;
	finish.reason = text_of(job->reason);
	finish.claim = job->claim;
	finish.state = end->state == REA_TASK_SUCCESS ? REA_STORE_SUCCESS : REA_STORE_GIVEN_UP;
	finish.attempted = job->claim != 0;
	finish.attempt = job->claim != 0 ? &attempt : NULL;
	error = rea_store_finish(store, &finish, now_ns, on_finished, job);
	complain("finishing", job->name, error);
	if (error != 0)
		leave(job); /* the next start finds it */
	pthread_mutex_unlock(&mutex);
}

/* ---- what is in the file goes to the runner ---- */

static void start(const struct rea_store_task *stored)
{
	struct job *job = jobs;
	char handler[REA_STORE_TEXT_MAX + 1];
	struct rea_error_info info;
	struct rea_task task;
	uint64_t id;

	while (job->name[0] != '\0')
		job++;
	job->id = stored->id;
	snprintf(job->name, sizeof(job->name), "%llu", (unsigned long long)stored->id);
	jobs_len++;
	snprintf(handler, sizeof(handler), "%.*s", (int)stored->target.length, stored->target.text);
	rea_task_init(&task);
	task.handler = handler;
	task.name = text_of(job->name);
	task.key = stored->key;
	task.payload = stored->payload.text;
	task.payload_len = stored->payload.length;
	for (size_t i = 0; i < KINDS; i++)
		if (strcmp(kinds[i].handler.name, handler) == 0)
			task.grant = (struct rea_grant){kinds[i].permission, REA_PERMISSION_SOURCE_CALLER};
	task.not_before_ns = stored->due_ns;
	task.past.attempts = stored->attempt;
	task.past.interrupted = stored->crashes > 0;
	task.done = on_done;
	task.user_data = job;
	if (rea_runner_submit(runner, &task, &id, &info) != 0) {
		fprintf(stderr, "starting %s: %s\n", job->name, info.message);
		leave(job);
	}
}

static void on_due(const struct rea_store_result *result, void *user_data)
{
	(void)user_data;
	asked--;
	more = result->error == 0 && result->more;
	complain("asking for", "tasks", result->error);
	for (size_t i = 0; i < result->tasks_len; i++) {
		struct rea_store_task task;
		int error = rea_store_get(reader, result->tasks[i].id, &task);

		complain("reading", "a task", error);
		if (error == 0)
			start(&task);
	}
}

static void on_accepted(const struct rea_store_result *result, void *user_data)
{
	asked--;
	complain("accepting", user_data, result->error);
	if (result->error == 0)
		printf("%llu %s\n", (unsigned long long)result->task.id, result->existed ? "is known" : "is accepted");
}

static void accept_task(const char *handler, char *text)
{
	struct rea_store_submit submit = {.spec = {.target = text_of(handler), .payload = text_of(text)}};
	char key[REA_STORE_TEXT_MAX];
	int error;

	snprintf(key, sizeof(key), "%s:%s", handler, text);
	submit.spec.key = text_of(key);
	error = rea_store_submit(store, &submit, rea_runner_now(), on_accepted, text);
	complain("accepting", text, error);
	asked += error == 0;
}

/* As many as there is room for, once all new ones are in the file. */
static void ask_for_more(void)
{
	size_t room = JOBS_MAX - jobs_len;
	int error;

	if (!more || asked > 0 || room == 0)
		return;
	error = rea_store_due(store, REA_NEVER, (uint32_t)(room < REA_STORE_DUE_MAX ? room : REA_STORE_DUE_MAX),
	    rea_runner_now(), on_due, NULL);
	complain("asking for", "tasks", error);
	more = error == 0;
	asked += error == 0;
}

static void on_news(void *user_data)
{
	(void)user_data;
	sem_post(&news);
}

static int open_all(const char *path)
{
	struct rea_store_sqlite_options store_options;
	struct rea_runner_options runner_options;
	struct rea_error_info info;
	int error;

	rea_store_sqlite_options_init(&store_options);
	store_options.path = path;
	store_options.store.wake = on_news;
	error = rea_store_sqlite_open(&store_options, &store, &info);
	if (error != 0) {
		fprintf(stderr, "%s: %s\n", path, info.message);
		return error;
	}
	rea_runner_options_init(&runner_options);
	runner_options.executor.event = on_event;
	error = rea_store_reader_new(store, &reader);
	if (error == 0)
		error = rea_runner_new(&runner_options, NULL, &runner, NULL);
	for (size_t i = 0; i < KINDS && error == 0; i++)
		error = rea_runner_handle(runner, &kinds[i].handler, NULL);
	complain("opening", path, error);
	return error;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: tasks FILE PORT [tell|tell-once TEXT]...\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&news, 0, 0);
	port = htons((uint16_t)atoi(argv[2]));
	if (open_all(argv[1]) != 0)
		return 1;
	pthread_mutex_lock(&mutex);
	for (int i = 3; i + 1 < argc; i += 2)
		accept_task(argv[i], argv[i + 1]);
	for (;;) {
		rea_store_drain(store);
		ask_for_more();
		if (jobs_len == 0 && asked == 0)
			break;
		pthread_mutex_unlock(&mutex);
		while (sem_wait(&news) != 0)
			;
		pthread_mutex_lock(&mutex);
	}
	pthread_mutex_unlock(&mutex);
	rea_runner_free(runner);
	rea_store_reader_free(reader);
	rea_store_close(store);
	return 0;
}
