#include "lab/pacer.h"

#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

uint64_t lab_pacer_now(const struct lab_pacer *pacer)
{
	return rea_time_sub(loop_now(pacer->loop), pacer->zero_ns);
}

/* Before the loop sleeps: what was set meanwhile may be due sooner. */
static void on_prepare(uv_prepare_t *prepare)
{
	struct lab_pacer *pacer = prepare->data;
	uint64_t next_ns = lab_agenda_next(pacer->agenda), due_ns = rea_time_add(pacer->zero_ns, next_ns);
	struct itimerspec when = {.it_value.tv_nsec = 0};

	if (next_ns == pacer->armed_ns)
		return;
	pacer->armed_ns = next_ns;
	if (next_ns != REA_NEVER) {
		when.it_value.tv_sec = (time_t)(due_ns / REA_NS_PER_S);
		when.it_value.tv_nsec = (long)(due_ns % REA_NS_PER_S);
	}
	timerfd_settime(pacer->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_due(uv_poll_t *poll, int status, int events)
{
	struct lab_pacer *pacer = poll->data;
	uint64_t now_ns = lab_pacer_now(pacer), next_ns, expirations;

	(void)status;
	(void)events;
	if (read(pacer->fd, &expirations, sizeof(expirations)) < 0)
		return;
	pacer->armed_ns = REA_NEVER;
	while ((next_ns = lab_agenda_next(pacer->agenda)) <= now_ns) {
		lab_latencies_add(&pacer->late, now_ns - next_ns);
		lab_agenda_fire(pacer->agenda, now_ns);
	}
	loop_flush(pacer->loop);
}

int lab_pacer_init(struct lab_pacer *pacer, struct loop *loop, struct lab_agenda *agenda, uint64_t zero_ns)
{
	*pacer = (struct lab_pacer){.agenda = agenda, .zero_ns = zero_ns, .armed_ns = REA_NEVER};
	pacer->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (pacer->fd < 0)
		return REA_ERR_IO;
	if (uv_poll_init(&loop->uv, &pacer->poll, pacer->fd) != 0) {
		close(pacer->fd);
		return REA_ERR_IO;
	}
	uv_prepare_init(&loop->uv, &pacer->prepare);
	pacer->poll.data = pacer->prepare.data = pacer;
	uv_prepare_start(&pacer->prepare, on_prepare);
	pacer->loop = loop;
	if (uv_poll_start(&pacer->poll, UV_READABLE, on_due) == 0)
		return 0;
	lab_pacer_close(pacer);
	return REA_ERR_IO;
}

void lab_pacer_close(struct lab_pacer *pacer)
{
	uv_poll_stop(&pacer->poll);
	uv_close((uv_handle_t *)&pacer->poll, NULL);
	uv_close((uv_handle_t *)&pacer->prepare, NULL);
	close(pacer->fd);
	pacer->loop = NULL;
}
