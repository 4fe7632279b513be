/*
 *   LOOK (v1) ─▶ PAUSE ─▶ LOOK …        for as long as the server has v1, which tells how long a list may be kept and whether health still means something
 *      └──▶ LOOK (v3) ─▶ PAUSE ─▶ …     else, every poll-ms
 */
#include "discovery/nacos_naming.h"

#include "base/container.h"
#include "discovery/naming_wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct nacos_naming {
	struct loop *loop;
	struct nacos_account *account;
	const struct rea_config_discovery *discovery;
	struct nacos_naming_events events;
	struct nacos_ask ask;
	struct wheel_timer timer;
	bool v3;
	bool told; /* which interface it is */
};

static void pause_for(struct nacos_naming *naming, uint64_t pause_ns)
{
	loop_timer_start(naming->loop, &naming->timer, rea_time_add(loop_now(naming->loop), pause_ns));
}

static void pause_about(struct nacos_naming *naming, uint64_t pause_ms)
{
	uint64_t pause_ns = rea_time_from_ms(pause_ms);

	pause_for(naming, pause_ns - pause_ns / 5 + rea_random_below(&naming->loop->random, pause_ns / 5 * 2 + 1));
}

static void fail(struct nacos_naming *naming, bool denied, const char *why)
{
	uint64_t pause_ns = servers_failed(&naming->ask.servers, &naming->loop->random);

	pause_for(naming, denied && pause_ns == 0 ? REA_NS_PER_S : pause_ns);
	if (denied || pause_ns > 0)
		naming->events.failed(why, naming->events.user_data);
}

__attribute__((format(printf, 2, 3))) static void fail_reply(struct nacos_naming *naming, const char *format, ...)
{
	char what[256], why[400];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(why, sizeof(why), "%s: %s", servers_url(&naming->ask.servers), what);
	fail(naming, false, why);
}

/* ---- requests ---- */

static char *query_of(const struct nacos_naming *naming)
{
	const struct rea_config_discovery *of = naming->discovery;
	struct rea_buffer query = {.alloc = NULL};
	struct rea_slice space = rea_slice_of(of->namespace_id[0] != '\0' ? of->namespace_id : "public");
	char *name = NULL, *text = NULL;
	int error = 0;

	if (asprintf(&name, "%s%s%s", naming->v3 ? "" : of->group, naming->v3 ? "" : "@@", of->name) < 0)
		return NULL;
	error = nacos_form_add(&query, "serviceName", rea_slice_of(name));
	if (error == 0)
		error = nacos_form_add(&query, "groupName", rea_slice_of(of->group));
	if (error == 0)
		error = nacos_form_add(&query, "namespaceId", space);
	if (error == 0 && of->clusters[0] != '\0')
		error = nacos_form_add(&query, naming->v3 ? "clusterName" : "clusters", rea_slice_of(of->clusters));
	if (error == 0 && !naming->v3)
		error = nacos_form_add(&query, "healthyOnly", REA_SLICE_LIT("false"));
	if (error == 0)
		text = strndup(rea_buffer_data(&query), rea_buffer_length(&query));
	rea_buffer_fini(&query);
	free(name);
	return text;
}

static void look(struct nacos_naming *naming)
{
	nacos_ask_begin(&naming->ask, "GET", naming->v3 ? NACOS_LIST_V3 : NACOS_LIST_V1, query_of(naming));
}

/* ---- replies ---- */

static void tell_mode(struct nacos_naming *naming)
{
	char text[160];

	if (naming->told)
		return;
	naming->told = true;
	if (naming->v3)
		snprintf(text, sizeof(text),
		    "asked every %u ms (v3): this interface does not tell whether health still means something",
		    nacos_account_source(naming->account)->poll_ms);
	else
		snprintf(text, sizeof(text), "asked as often as the server says (v1)");
	naming->events.notice(text, naming->events.user_data);
}

static void take(struct nacos_naming *naming, int error, struct roster_list *list, uint64_t next_ms)
{
	if (error == REA_ERR_NOMEM) {
		fail_reply(naming, "out of memory");
	} else if (error == REA_ERR_LIMIT) {
		fail_reply(naming, "it lists more than %d instances", ROSTER_INSTANCES_MAX);
	} else if (error != 0) {
		fail_reply(naming, "its answer is no list of instances");
	} else {
		servers_worked(&naming->ask.servers);
		tell_mode(naming);
		pause_about(naming, next_ms);
		naming->events.listed(list, naming->events.user_data);
	}
	roster_list_fini(list);
}

static void on_list_v1(struct nacos_naming *naming)
{
	long status = naming->ask.fetch.status;
	struct roster_list list = {.items = NULL};
	uint64_t cache_ms;
	int error;

	if ((status == 404 || status == 405 || status == 410 || status == 501) &&
	    nacos_account_source(naming->account)->mode == REA_NACOS_AUTO) {
		naming->v3 = true;
		naming->told = false;
		look(naming);
		return;
	}
	if (status != 200) {
		fail_reply(naming, "HTTP %ld", status);
		return;
	}
	error = naming_read_nacos_v1(nacos_ask_reply(&naming->ask), &list, &cache_ms);
	take(naming, error, &list, cache_ms);
}

static void on_list_v3(struct nacos_naming *naming)
{
	struct roster_list list = {.items = NULL};
	char message[200];
	json_t *data;
	enum nacos_answer answer =
	    nacos_v3_read(naming->ask.fetch.status, nacos_ask_reply(&naming->ask), &data, message, sizeof(message));

	if (answer == NACOS_PRESENT) {
		take(naming, naming_read_nacos(data, &list), &list, nacos_account_source(naming->account)->poll_ms);
	} else if (answer == NACOS_ABSENT) {
		take(naming, 0, &list, nacos_account_source(naming->account)->poll_ms);
	} else {
		/* It may be that another server answers here by now. */
		if (nacos_account_source(naming->account)->mode == REA_NACOS_AUTO)
			naming->v3 = false;
		fail_reply(naming, "%s%s", answer == NACOS_FOREIGN ? "it has neither v1 nor v3 of the interface: " : "",
		    message);
	}
	json_decref(data);
}

static void on_asked(struct nacos_ask *ask, enum nacos_asked asked)
{
	struct nacos_naming *naming = ask->user_data;

	if (asked != NACOS_ASK_REPLIED)
		fail(naming, asked == NACOS_ASK_DENIED, ask->why);
	else if (naming->v3)
		on_list_v3(naming);
	else
		on_list_v1(naming);
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	(void)now_ns;
	look(REA_CONTAINER_OF(timer, struct nacos_naming, timer));
}

struct nacos_naming *nacos_naming_start(struct loop *loop, struct nacos_account *account,
    const struct rea_config_discovery *discovery, const struct nacos_naming_events *events)
{
	struct nacos_naming *naming = calloc(1, sizeof(*naming));

	if (naming == NULL)
		return NULL;
	naming->loop = loop;
	naming->account = account;
	naming->discovery = discovery;
	naming->events = *events;
	naming->v3 = nacos_account_source(account)->mode == REA_NACOS_V3;
	naming->ask.done = on_asked;
	naming->ask.user_data = naming;
	naming->timer.fire = on_timer;
	nacos_ask_init(&naming->ask, account);
	pause_for(naming, 0);
	return naming;
}

void nacos_naming_stop(struct nacos_naming *naming)
{
	if (naming == NULL)
		return;
	loop_timer_stop(naming->loop, &naming->timer);
	nacos_ask_end(&naming->ask);
	free(naming);
}
