/*
 * What a program can see of its calls: two threads call a flaky service through one guard, and main tells what happened, as JSON lines, as the
 * timeline of one order, as metrics, and as what the guard and its breaker have to say.
 *   cc main.c -o observed $(pkg-config --cflags --libs rea) -pthread && ./observed events.jsonl order-17
 */
#include <rea/guard.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 2, EXPLAIN_MAX = 4096 };

struct worker {
	pthread_t thread;
	struct rea_event_queue *queue; /* this thread writes, main reads */
	const char *const *orders;     /* NULL at their end */
};

static struct rea_guard *guard;
static _Thread_local struct rea_event_queue *my_queue;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- where events come from ---- */

static void on_event(struct rea_event *event, void *user_data)
{
	(void)user_data;
	event->time_unix_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	rea_event_queue_push(my_queue, event);
}

/* The service: busy for the first two attempts of order-17, and it does not know order-18. */
static struct rea_report ask(const struct rea_guard_attempt *attempt, void *arg)
{
	const char *order = arg;

	if (strcmp(order, "order-17") == 0 && attempt->number < 3)
		return rea_report_from_http(503, attempt->policy);
	return rea_report_from_http(strcmp(order, "order-18") == 0 ? 404 : 200, attempt->policy);
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct rea_guard_run_options run;
	struct rea_guard_thread thread;

	my_queue = worker->queue;
	if (rea_guard_join(guard, rea_seed(), &thread) != 0)
		return NULL;
	for (const char *const *order = worker->orders; *order != NULL; order++) {
		rea_guard_run_options_init(&run);
		run.call.grant = (struct rea_grant){REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CALLER};
		run.call.biz_id = (struct rea_text){*order, strlen(*order)};
		run.call.method = (struct rea_text){"orders_get", 10};
		rea_guard_run(&thread, ask, (void *)*order, &run, NULL);
	}
	rea_guard_leave(&thread);
	return NULL;
}

/* ---- where they go ---- */

static void collect(struct rea_event_queue *queue, struct rea_event_ring *ring, struct rea_event_log *log)
{
	struct rea_event event;

	while (rea_event_queue_peek(queue, &event)) {
		rea_event_ring_add(ring, &event);
		rea_event_log_add(log, &event);
		rea_event_queue_pop(queue);
	}
	rea_event_log_flush(log);
}

static void print(const char *text, size_t length, void *user_data)
{
	fwrite(text, 1, length, user_data);
}

static bool add_to_timeline(const struct rea_event *event, void *user_data)
{
	rea_timeline_event(user_data, event);
	return true;
}

static void print_timeline(const struct rea_event_ring *ring, const char *order)
{
	struct rea_timeline timeline;

	rea_timeline_begin(&timeline, print, stdout);
	rea_event_ring_each(ring, (struct rea_text){order, strlen(order)}, add_to_timeline, &timeline);
}

static bool write_metrics(const char *text, size_t length, void *user_data)
{
	return fwrite(text, 1, length, user_data) == length;
}

static void print_metrics(const struct worker *workers)
{
	struct rea_prometheus out = {.write = write_metrics, .user_data = stdout};
	const char *const names[] = {"orders"};
	struct rea_service_stats stats;
	uint64_t dropped = 0;

	rea_guard_stats(guard, &stats);
	rea_prometheus_services(&out, names, &stats, 1);
	for (int i = 0; i < THREADS; i++)
		dropped += rea_event_queue_dropped(workers[i].queue);
	rea_prometheus_family(&out, "orders_events_dropped_total", REA_METRIC_COUNTER, "Events that found their queue full.");
	rea_prometheus_sample(&out, "orders_events_dropped_total", NULL, 0, (double)dropped);
}

static void explain(void)
{
	struct rea_shared_breaker *breaker = rea_guard_breaker(guard);
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	char text[EXPLAIN_MAX];
	enum rea_breaker_state state;
	double failing;

	rea_guard_explain(guard, now_ns, text, sizeof(text));
	fputs(text, stdout);
	rea_shared_breaker_explain(breaker, now_ns, text, sizeof(text));
	fputs(text, stdout);
	state = rea_shared_breaker_state(breaker);
	failing = rea_shared_breaker_failure_rate(breaker, now_ns);
	printf("breaker: %s, %.0f %% of its window failed\n", rea_breaker_state_name(state), failing);
}

/* ---- all of it ---- */

static void make_guard(void)
{
	struct rea_guard_options options;
	struct rea_error_info info;

	rea_guard_options_init(&options);
	options.name = "orders";
	options.threads = THREADS;
	options.policy.enabled = true;
	options.policy.max_retry_next_instance = 2;
	options.policy.breaker.enabled = true;
	options.policy.breaker.minimum_calls = 5;
	options.event = on_event;
	if (rea_guard_new(&options, NULL, &guard, &info) != 0) {
		fprintf(stderr, "%s: %s\n", info.key, info.message);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static const char *const some[] = {"order-16", "order-17", "order-19", NULL}, *const others[] = {
											  "order-18", "order-20", NULL};
	struct worker workers[THREADS] = {{.orders = some}, {.orders = others}};
	struct rea_event_ring *ring;
	struct rea_event_log *log;
	struct rea_error_info info;

	make_guard();
	if (rea_event_ring_new(10000, NULL, &ring, NULL) != 0)
		return 1;
	if (rea_event_log_open(argc > 1 ? argv[1] : "-", NULL, &log, &info) != 0) {
		fprintf(stderr, "%s: %s\n", info.file, info.message);
		return 1;
	}
	for (int i = 0; i < THREADS; i++)
		if (rea_event_queue_new(65536, NULL, &workers[i].queue, NULL) != 0 ||
		    pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			return 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		collect(workers[i].queue, ring, log); /* a server does so every few milliseconds */
	}
	print_timeline(ring, argc > 2 ? argv[2] : "order-17");
	print_metrics(workers);
	explain();
	for (int i = 0; i < THREADS; i++)
		rea_event_queue_free(workers[i].queue);
	rea_event_log_close(log);
	rea_event_ring_free(ring);
	rea_guard_free(guard);
	return 0;
}
