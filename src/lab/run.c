#include "lab/run.h"

#include "base/container.h"
#include "lab/bed.h"
#include "lab/draw.h"
#include "lab/links.h"

#include <stdio.h>
#include <stdlib.h>

/* Before the first call, for threads and listeners to be there. */
#define BEGIN_NS (50 * REA_NS_PER_MS)
/* A run whose calls do not end is not waited for. */
#define BEHIND_NS (5 * REA_NS_PER_S)
/* Later than this, or than a tenth of the last layer's service time, 1 of 100 requests must not be sent. */
#define LATE_MS 1.0

struct world {
	const struct lab_scenario *scenario;
	const struct lab_run_options *options;
	struct loop loop;
	struct lab_agenda agenda;
	struct lab_pacer pacer;
	struct lab_sockets *sockets;
	struct lab_caller *clients;
	struct lab_links links;
	struct lab_timer arrival, end;
	struct rea_random random;
	double rate;
	uint64_t due_ns, end_ns, calls, open;
	bool offered;              /* all calls were begun */
	struct lab_latencies late; /* when requests should have been sent, and were */
	struct lab_measure *measure;
	int error;
};

static void fail(struct world *world, int error)
{
	world->error = error;
	loop_stop(&world->loop);
}

static void on_failed(struct lab_links *links, int error)
{
	fail(REA_CONTAINER_OF(links, struct world, links), error);
}

/* ---- the end of calls ---- */

static void check_end(struct world *world)
{
	if (world->offered && world->open == 0)
		loop_stop(&world->loop);
}

static void on_done(struct lab_call *lab, const struct rea_decision *decision, uint64_t now_ns)
{
	struct lab_socket_call *call = (struct lab_socket_call *)lab;
	struct world *world = REA_CONTAINER_OF(call->links, struct world, links);

	lab_measure_done(world->measure, lab_sockets_callee(world->sockets), lab->begin_ns,
	    rea_call_attempts(&lab->core), decision->verdict, decision->reason, now_ns);
	lab_links_give_back(call);
	world->open--;
	check_end(world);
}

static const struct lab_wire wire = {lab_links_send, lab_links_abandon, on_done};

/* ---- the load: drawn in advance, whatever comes of it ---- */

static void begin_call(struct world *world, uint64_t due_ns, uint64_t now_ns)
{
	struct lab_socket_call *call = lab_links_take(&world->links);

	if (call == NULL)
		return;
	call->lab.caller = &world->clients[rea_random_below(&world->random, world->scenario->clients)];
	call->lab.operation = lab_draw_operation(world->scenario, &world->random);
	call->lab.number = world->calls++;
	world->open++;
	lab_latencies_add(&world->late, rea_time_sub(now_ns, due_ns));
	lab_measure_begun(world->measure, due_ns);
	/* A call is as old as it was planned to be: its delay is not hidden from anybody. */
	if (lab_call_begin(&call->lab, REA_NEVER, false, due_ns) != 0)
		fail(world, REA_ERR_NOMEM);
}

static void on_arrival(struct lab_timer *timer, uint64_t now_ns)
{
	struct world *world = REA_CONTAINER_OF(timer, struct world, arrival);
	uint64_t due_ns = world->due_ns;

	world->due_ns = rea_time_add(due_ns, lab_draw_gap_ns(world->rate, &world->random));
	world->offered = world->due_ns >= world->end_ns;
	if (!world->offered)
		lab_agenda_set(&world->agenda, timer, world->due_ns);
	begin_call(world, due_ns, now_ns);
	check_end(world);
}

static void on_end(struct lab_timer *timer, uint64_t now_ns)
{
	(void)now_ns;
	loop_stop(&REA_CONTAINER_OF(timer, struct world, end)->loop);
}

/* ---- the whole ---- */

/* Where the clients' requests go. */
static int find_instances(struct world *world)
{
	const char *through = world->options->through;
	uint32_t count = through != NULL ? 1 : world->scenario->layers[0].instances,
		 bins = lab_sockets_callee(world->sockets)->bins;
	int error = 0;

	for (uint32_t i = 0; error == 0 && i < count; i++)
		error = lab_links_add(&world->links, through != NULL ? through : lab_sockets_address(world->sockets, i), bins);
	return error;
}

static int set_up(struct world *world, const struct lab_policy *policy, bool faults, uint64_t seed)
{
	const struct lab_scenario *scenario = world->scenario;
	struct rea_error_info info;
	uint64_t zero_ns = rea_time_add(loop_now(&world->loop), BEGIN_NS);
	int error = lab_sockets_start(scenario, policy, faults, world->options->port, zero_ns, seed, &world->sockets, &info);

	if (error != 0) {
		fprintf(stderr, "rea lab: %s\n", info.message);
		return error;
	}
	error = lab_pacer_init(&world->pacer, &world->loop, &world->agenda, zero_ns);
	if (error == 0)
		error = find_instances(world);
	if (error == 0)
		error = lab_measure_init(world->measure, scenario, lab_sockets_callee(world->sockets)->bins);
	if (error == 0)
		error = lab_callers_new(policy, scenario, 0, world->links.count, &wire, &world->agenda, seed, &world->clients);
	if (error == 0)
		error = lab_agenda_join(&world->agenda, &world->arrival, on_arrival);
	if (error == 0)
		error = lab_agenda_join(&world->agenda, &world->end, on_end);
	if (error != 0)
		return error;
	world->rate = lab_scenario_rate(scenario);
	world->end_ns = (uint64_t)(scenario->duration_s * REA_NS_PER_S);
	rea_random_init(&world->random, seed ^ UINT64_C(0x6c6f6164));
	world->due_ns = lab_draw_gap_ns(world->rate, &world->random);
	lab_agenda_set(&world->agenda, &world->arrival, world->due_ns);
	lab_agenda_set(&world->agenda, &world->end, rea_time_add(world->end_ns, scenario->deadline_ns + BEHIND_NS));
	return 0;
}

static void judge_schedule(struct world *world)
{
	const struct lab_scenario *scenario = world->scenario;
	double limit_ms = (double)scenario->layers[scenario->layers_len - 1].service_ns / REA_NS_PER_MS / 10;
	double sent_ms = lab_latencies_at(&world->late, 0.99),
	       served_ms = lab_latencies_at(lab_sockets_late(world->sockets), 0.99);

	world->measure->schedule_p99_ms = sent_ms;
	limit_ms = limit_ms > LATE_MS ? limit_ms : LATE_MS;
	world->measure->invalid = sent_ms > limit_ms || served_ms > limit_ms || world->open > 0;
}

static void tear_down(struct world *world)
{
	lab_links_close(&world->links);
	if (world->pacer.loop != NULL)
		lab_pacer_close(&world->pacer);
	lab_callers_free(world->clients, world->scenario, 0);
	loop_fini(&world->loop);
	lab_sockets_free(world->sockets);
	lab_links_fini(&world->links);
	lab_agenda_fini(&world->agenda);
}

int lab_run_run(const void *context, const struct lab_scenario *scenario, const struct lab_policy *policy, bool faults,
    uint64_t seed, struct lab_measure *ret_measure)
{
	struct world *world = calloc(1, sizeof(*world));
	int error;

	*ret_measure = (struct lab_measure){.scenario = NULL};
	if (world == NULL || loop_init(&world->loop, seed) != 0) {
		free(world);
		return REA_ERR_NOMEM;
	}
	world->scenario = scenario;
	world->options = context;
	world->measure = ret_measure;
	world->links = (struct lab_links){.scenario = scenario, .pacer = &world->pacer, .failed = on_failed};
	lab_links_init(&world->links);
	error = set_up(world, policy, faults, seed);
	if (error == 0) {
		loop_run(&world->loop);
		error = world->error;
	}
	if (world->sockets != NULL)
		lab_sockets_stop(world->sockets);
	if (error == 0)
		error = lab_sockets_callee(world->sockets)->error;
	if (error == 0) {
		judge_schedule(world);
		/* What a proxy was refused nobody here knows. */
		if (world->options->through == NULL)
			lab_links_tell_refused(&world->links, lab_sockets_callee(world->sockets), 0);
		lab_measure_finish(ret_measure, lab_sockets_callee(world->sockets),
		    lab_callers_ejections(world->clients, scenario, 0));
	} else {
		lab_measure_fini(ret_measure);
	}
	tear_down(world);
	free(world);
	return error;
}
