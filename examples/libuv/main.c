/*
 * A libuv server on a UDP port that calls a backend on another through a guard: what a client asks is asked there, again when no answer comes,
 * and the answer goes back. When the backend fails too often the breaker opens, and clients hear so at once.
 *   cc main.c -o relay $(pkg-config --cflags --libs rea libuv) && ./relay 9000 9001
 */
#include <rea/guard.h>

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { CALLS = 64, TEXT_MAX = 1400 };

struct relayed {
	struct rea_guard_call call;
	struct rea_decision decision; /* the last; DONE = free for another one */
	uv_timer_t timer;             /* the attempt's time is up, or the wait is over */
	struct sockaddr client;
	char text[TEXT_MAX + 1]; /* the question, then the answer */
};

static struct relayed calls[CALLS];
static struct rea_guard_call_options options; /* the same for all of them: they may be asked again */
static struct rea_guard_thread thread;
static uv_udp_t clients, backend;
static char packet[TEXT_MAX + 16];
static void on_timer(uv_timer_t *timer);

/* One step of the call (report NULL: it is due), and what that asks for. */
static void step(struct relayed *relayed, const struct rea_report *report)
{
	struct rea_decision *decision = &relayed->decision;
	uint64_t now_ns = uv_hrtime(), due_ns;
	uv_buf_t buffer = {.base = packet};

	if (report != NULL)
		rea_guard_report(&relayed->call, &thread, report, NULL, now_ns, decision);
	else
		rea_guard_next(&relayed->call, &thread, NULL, now_ns, decision);
	due_ns = decision->step == REA_STEP_ATTEMPT ? decision->attempt_deadline_ns : decision->wait_until_ns;
	uv_timer_start(&relayed->timer, on_timer, rea_time_to_ms(rea_time_sub(due_ns, now_ns)), 0);
	if (decision->step == REA_STEP_ATTEMPT) {
		buffer.len = (size_t)snprintf(packet, sizeof(packet), "%d %s", (int)(relayed - calls), relayed->text);
		uv_udp_try_send(&backend, &buffer, 1, NULL);
	} else if (decision->step == REA_STEP_DONE) {
		uv_timer_stop(&relayed->timer);
		buffer.len = (size_t)snprintf(packet, sizeof(packet), "%s",
		    decision->verdict == REA_VERDICT_SUCCESS ? relayed->text : rea_reason_name(decision->reason));
		uv_udp_try_send(&clients, &buffer, 1, &relayed->client);
	}
}

static void on_timer(uv_timer_t *timer)
{
	const struct rea_report timeout = rea_report_fail(REA_OUTCOME_AMBIGUOUS);
	struct relayed *relayed = timer->data;

	step(relayed, relayed->decision.step == REA_STEP_ATTEMPT ? &timeout : NULL);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret_buffer)
{
	(void)handle, (void)size;
	*ret_buffer = uv_buf_init(packet, TEXT_MAX);
}

/* A question, or an answer with the number of its question before it. */
static void on_packet(uv_udp_t *udp, ssize_t length, const uv_buf_t *buffer, const struct sockaddr *from, unsigned flags)
{
	struct relayed *relayed = calls;
	char *text = buffer->base;

	(void)flags;
	if (length <= 0)
		return;
	text[length] = '\0';
	if (udp == &backend)
		relayed += strtoul(text, &text, 10) % CALLS;
	while (udp == &clients && relayed < calls + CALLS && relayed->decision.step != REA_STEP_DONE)
		relayed++;
	if (relayed == calls + CALLS || (udp == &backend && relayed->decision.step != REA_STEP_ATTEMPT))
		return; /* too many questions at once; an answer that comes too late */
	snprintf(relayed->text, sizeof(relayed->text), "%s", text);
	if (udp == &backend) {
		step(relayed, &(struct rea_report){.outcome = REA_OUTCOME_OK});
		return;
	}
	relayed->client = *from;
	rea_guard_begin(&relayed->call, &thread, &options, uv_hrtime());
	step(relayed, NULL);
}

int main(int argc, char **argv)
{
	struct rea_guard_options guard_options;
	uv_loop_t *loop = uv_default_loop();
	struct sockaddr_in address;
	struct rea_guard *guard;

	rea_guard_options_init(&guard_options);
	guard_options.policy.enabled = guard_options.policy.breaker.enabled = true;
	guard_options.policy.breaker.window_size = guard_options.policy.breaker.minimum_calls = 10;
	guard_options.policy.attempt_timeout_ns = 200 * REA_NS_PER_MS;
	rea_guard_call_options_init(&options);
	options.grant = (struct rea_grant){REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CALLER};
	for (int i = 0; i < CALLS; i++) {
		calls[i].decision.step = REA_STEP_DONE;
		calls[i].timer.data = &calls[i];
		uv_timer_init(loop, &calls[i].timer);
	}
	if (argc < 3 || rea_guard_new(&guard_options, NULL, &guard, NULL) != 0 ||
	    rea_guard_join(guard, rea_seed(), &thread) != 0 || uv_ip4_addr("127.0.0.1", atoi(argv[1]), &address) ||
	    uv_udp_init(loop, &clients) || uv_udp_bind(&clients, (struct sockaddr *)&address, 0) ||
	    uv_udp_recv_start(&clients, on_alloc, on_packet) || uv_ip4_addr("127.0.0.1", atoi(argv[2]), &address) ||
	    uv_udp_init(loop, &backend) || uv_udp_connect(&backend, (struct sockaddr *)&address) ||
	    uv_udp_recv_start(&backend, on_alloc, on_packet))
		return 1;
	return uv_run(loop, UV_RUN_DEFAULT);
}
