/*
 * One request at a time, and after each one a look at what is missing next:
 *
 *   LOGIN ─▶ LOOK (v3) ─▶ PROBE (v1) ─┬─▶ long polling: LISTEN ─▶ LOOK (v1) ─▶ LISTEN …
 *                                     └─▶ polling:      PAUSE ─▶ LOOK (v3) ─▶ PAUSE …
 *
 * LOGIN       only with a user name, and again before the token ends or when it is refused
 * LOOK        asks for the document
 * PROBE       a long poll that must not wait: does the server have it?
 * LISTEN      a long poll that waits for 30 s
 * PAUSE       nobody is asked until the timer fires: after a failed round of servers, or between two polls
 *
 * Which interface is used (api) is found out once, and again when the server turns out not to have it any more. Whatever makes the server answer at
 * once instead of waiting must not make us ask at once: such answers are counted, and slowed down.
 */
#include "discovery/nacos.h"

#include "base/container.h"
#include "discovery/nacos_wire.h"
#include "discovery/servers.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define LISTEN_TIMEOUT_MS "30000"
/* A server holds a little less than it is asked to; half as much again, and the connection is dead. */
#define LISTEN_TIMEOUT_NS (45 * REA_NS_PER_S)
#define LOOK_TIMEOUT_NS (3 * REA_NS_PER_S)
/* An answer that came this early was not waited for. */
#define LISTEN_NS_MIN (1 * REA_NS_PER_S)
/* Pushes get lost between the nodes of a cluster: look anyway. */
#define RELOOK_NS_MIN (180 * REA_NS_PER_S)
#define RELOOK_NS_SPREAD (120 * REA_NS_PER_S)
#define SLOW_NS (30 * REA_NS_PER_S)
#define LOGIN_AGAIN_NS (60 * REA_NS_PER_S)
/* So many times the same content: it will not change by asking. */
#define SAME_MAX 3
#define WHY_SIZE 400

enum doing { PAUSE, LOGIN, LOOK, PROBE, LISTEN };
enum api { API_UNKNOWN, API_V1, API_V3 };

struct nacos {
	struct loop *loop;
	const struct rea_config_source *source;
	struct source_events events;
	struct servers servers;
	struct fetch fetch;
	struct wheel_timer timer;
	enum doing doing;
	enum api api;
	bool has_v3;   /* the server has answered in v3; while api is unknown */
	bool asked_v3; /* whether it has is known; while api is unknown */
	bool look_due;
	bool woken; /* the look that is due was asked for by the server */
	bool login_v1;
	char *token; /* NULL = none */
	uint64_t token_ends_ns, login_again_ns;
	uint64_t listen_ns, relook_ns;
	char md5[FETCH_MD5_SIZE];       /* of the content seen last; "" = there is none */
	char probe_md5[FETCH_MD5_SIZE]; /* what the server is told of it */
	char odd_md5[FETCH_MD5_SIZE];   /* of a content whose sum is not what the server says */
	unsigned odd;                   /* how often in a row it came */
	unsigned futile;                /* changes in a row that were none */
};

static void next(struct nacos *nacos);

static void pause_for(struct nacos *nacos, uint64_t pause_ns)
{
	nacos->doing = PAUSE;
	loop_timer_start(nacos->loop, &nacos->timer, rea_time_add(loop_now(nacos->loop), pause_ns));
}

/* ---- failures ---- */

__attribute__((format(printf, 3, 4))) static void fail(struct nacos *nacos, bool denied, const char *format, ...)
{
	const char *server = servers_url(&nacos->servers);
	uint64_t pause_ns = servers_failed(&nacos->servers, &nacos->loop->random);
	char what[WHY_SIZE / 2], why[WHY_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(why, sizeof(why), "%s: %s", server, what);
	pause_for(nacos, pause_ns);
	if (denied || pause_ns > 0)
		nacos->events.failed(why, denied, nacos->events.user_data);
}

static void fail_reply(struct nacos *nacos)
{
	const struct fetch *fetch = &nacos->fetch;

	if (fetch->error[0] != '\0')
		fail(nacos, false, "%s", fetch->error);
	else
		fail(nacos, false, "HTTP %ld", fetch->status);
}

static bool is_denied(long status)
{
	return status == 401 || status == 403;
}

static bool is_missing(long status)
{
	return status == 404 || status == 405 || status == 410 || status == 501;
}

/* A token may have been withdrawn: once a minute a new one is asked for. */
static void refuse(struct nacos *nacos, const char *what)
{
	uint64_t now_ns = loop_now(nacos->loop);

	if (nacos->token != NULL && now_ns >= nacos->login_again_ns) {
		nacos->login_again_ns = rea_time_add(now_ns, LOGIN_AGAIN_NS);
		free(nacos->token);
		nacos->token = NULL;
		next(nacos);
		return;
	}
	fail(nacos, true, "access denied: %s", what);
}

/* The server is not what it was. */
static void forget_api(struct nacos *nacos)
{
	nacos->api = API_UNKNOWN;
	nacos->has_v3 = nacos->asked_v3 = false;
}

/* ---- requests ---- */

static void ask(struct nacos *nacos, enum doing doing, char *url, const char *body, const char *const *more,
    size_t more_len, uint64_t timeout_ns)
{
	const char *headers[4];
	char *authorization = NULL;
	struct fetch_request request = {
	    .url = url, .body = body, .headers = headers, .timeout_ns = timeout_ns, .ca_file = nacos->source->ca_file};
	bool good = url != NULL;

	for (size_t i = 0; i < more_len; i++)
		headers[request.headers_len++] = more[i];
	/* In a header, not in the URL: those end up in logs. */
	if (good && nacos->token != NULL && doing != LOGIN) {
		good = asprintf(&authorization, "Authorization: Bearer %s", nacos->token) >= 0;
		headers[request.headers_len++] = authorization;
	}
	nacos->doing = doing;
	if (!good || fetch_begin(&nacos->fetch, &request) != 0)
		fail(nacos, false, "out of memory");
	if (good)
		free(authorization);
	free(url);
}

static void login(struct nacos *nacos)
{
	const char *path = nacos->login_v1 ? NACOS_LOGIN_V1 : NACOS_LOGIN_V3, *why;
	char *password = nacos_secret(nacos->source->password, &why);
	struct rea_buffer form = {.alloc = NULL};

	if (password == NULL) {
		fail(nacos, true, "%s", why);
		return;
	}
	if (nacos_form_add(&form, "username", rea_slice_of(nacos->source->username)) != 0 ||
	    nacos_form_add(&form, "password", rea_slice_of(password)) != 0 || rea_buffer_append(&form, "", 1) != 0)
		fail(nacos, false, "out of memory");
	else
		ask(nacos, LOGIN, nacos_url(nacos->source, servers_url(&nacos->servers), path, "", ""),
		    rea_buffer_data(&form), NULL, 0, LOOK_TIMEOUT_NS);
	if (form.data != NULL)
		OPENSSL_cleanse(form.data, form.capacity);
	OPENSSL_cleanse(password, strlen(password));
	rea_buffer_fini(&form);
	free(password);
}

static void look(struct nacos *nacos)
{
	bool v1 = nacos->api == API_V1;
	char *query = nacos_query(nacos->source, !v1);

	ask(nacos, LOOK,
	    query == NULL
		? NULL
		: nacos_url(nacos->source, servers_url(&nacos->servers), v1 ? NACOS_CONFIG_V1 : NACOS_CONFIG_V3, query, ""),
	    NULL, NULL, 0, LOOK_TIMEOUT_NS);
	free(query);
}

static void listen_for(struct nacos *nacos, bool probe)
{
	static const char *const headers[] = {
	    "Long-Pulling-Timeout: " LISTEN_TIMEOUT_MS, "Long-Pulling-Timeout-No-Hangup: true"};
	char *form = nacos_listen_form(nacos->source, nacos->probe_md5);

	nacos->listen_ns = loop_now(nacos->loop);
	ask(nacos, probe ? PROBE : LISTEN,
	    form == NULL ? NULL : nacos_url(nacos->source, servers_url(&nacos->servers), NACOS_LISTENER_V1, "", ""),
	    form, headers, probe ? 2 : 1, probe ? LOOK_TIMEOUT_NS : LISTEN_TIMEOUT_NS);
	free(form);
}

static void poll_later(struct nacos *nacos)
{
	uint64_t pause_ns = rea_time_from_ms(nacos->source->poll_ms);

	if (nacos->odd >= SAME_MAX)
		pause_ns = rea_time_max(pause_ns, SLOW_NS);
	nacos->look_due = true;
	pause_for(nacos, pause_ns - pause_ns / 5 + rea_random_below(&nacos->loop->random, pause_ns / 5 * 2 + 1));
}

static void next(struct nacos *nacos)
{
	uint64_t now_ns = loop_now(nacos->loop);

	if (nacos->source->username != NULL && (nacos->token == NULL || now_ns >= nacos->token_ends_ns))
		login(nacos);
	else if (nacos->api == API_UNKNOWN && nacos->source->mode != REA_NACOS_V1 && !nacos->asked_v3)
		look(nacos);
	else if (nacos->api == API_UNKNOWN)
		listen_for(nacos, true);
	else if (nacos->look_due)
		look(nacos);
	else if (nacos->api == API_V1)
		listen_for(nacos, false);
	else
		poll_later(nacos);
}

/* ---- the document ---- */

static void schedule_look(struct nacos *nacos)
{
	nacos->look_due = nacos->woken = false;
	nacos->relook_ns =
	    rea_time_add(loop_now(nacos->loop), RELOOK_NS_MIN + rea_random_below(&nacos->loop->random, RELOOK_NS_SPREAD));
}

/* Whether a content can be taken whose sum is, or is not, what the server says of it. Half a change looks so, and passes; what stays so for ever
 * (documents that a server encrypts, or dumps that somebody touched) is taken as it is, and watched by the server's sum. */
static bool take_sum(struct nacos *nacos, const char *own, const char *server_md5)
{
	char text[WHY_SIZE];

	if (server_md5[0] == '\0' || own[0] == '\0' || strcmp(own, server_md5) == 0) {
		nacos->odd = 0;
		snprintf(nacos->probe_md5, sizeof(nacos->probe_md5), "%s", own);
		return true;
	}
	nacos->odd = nacos->odd > 0 && strcmp(own, nacos->odd_md5) == 0 ? nacos->odd + 1 : 1;
	snprintf(nacos->odd_md5, sizeof(nacos->odd_md5), "%s", own);
	if (nacos->odd < SAME_MAX) {
		fail(nacos, false, "the content's MD5 is %s, not %s as the server says", own, server_md5);
		return false;
	}
	snprintf(nacos->probe_md5, sizeof(nacos->probe_md5), "%s", server_md5);
	if (nacos->odd == SAME_MAX) {
		snprintf(text, sizeof(text),
		    "the content's MD5 is %s for ever, not %s as the server says: it is taken as it is", own, server_md5);
		nacos->events.notice(text, nacos->events.user_data);
	} else {
		nacos->odd = SAME_MAX + 1;
	}
	return true;
}

/* A server that says "changed" and has nothing new, again and again. Returns whether to slow down. */
static bool is_futile(struct nacos *nacos, const char *own, const char *server_md5)
{
	nacos->futile = nacos->woken && strcmp(own, nacos->md5) == 0 ? nacos->futile + 1 : 0;
	if (nacos->futile < SAME_MAX)
		return false;
	if (nacos->futile == SAME_MAX)
		nacos->events.notice(
		    "the server tells of changes that are none: it is asked every 30 s", nacos->events.user_data);
	if (server_md5[0] != '\0')
		snprintf(nacos->probe_md5, sizeof(nacos->probe_md5), "%s", server_md5);
	return true;
}

static void go_on(struct nacos *nacos, bool slowly)
{
	if (slowly)
		pause_for(nacos, SLOW_NS);
	else
		next(nacos);
}

static void take_content(struct nacos *nacos, const char *text, size_t length, const char *server_md5)
{
	char own[FETCH_MD5_SIZE];
	bool slowly;

	nacos_md5(text, length, own);
	if (!take_sum(nacos, own, server_md5))
		return;
	servers_worked(&nacos->servers);
	slowly = is_futile(nacos, own, server_md5);
	snprintf(nacos->md5, sizeof(nacos->md5), "%s", own);
	schedule_look(nacos);
	nacos->events.present(text, length, servers_url(&nacos->servers), nacos->events.user_data);
	go_on(nacos, slowly);
}

static void take_absence(struct nacos *nacos)
{
	bool slowly = is_futile(nacos, "", "");

	servers_worked(&nacos->servers);
	nacos->md5[0] = nacos->probe_md5[0] = '\0';
	nacos->odd = 0;
	schedule_look(nacos);
	nacos->events.absent(servers_url(&nacos->servers), nacos->events.user_data);
	go_on(nacos, slowly);
}

/* ---- replies ---- */

static struct rea_slice reply_of(const struct nacos *nacos)
{
	const char *data = rea_buffer_data(&nacos->fetch.reply);

	return data != NULL ? rea_slice_make(data, rea_buffer_length(&nacos->fetch.reply)) : REA_SLICE_LIT("");
}

static void refuse_login(struct nacos *nacos, long status)
{
	nacos->login_v1 = false;
	/* A wrong password is 403 in most versions and 500 in some: to take that for a weak moment would be to go on without knowing who we are. */
	if (!is_denied(status) && status != 400 && status != 500) {
		fail_reply(nacos);
		return;
	}
	fail(nacos, true, "user %s is refused: HTTP %ld", nacos->source->username, status);
	/* Servers lock out whoever tries again and again. */
	if (status != 500)
		pause_for(nacos, LOGIN_AGAIN_NS);
}

static void on_login(struct nacos *nacos)
{
	uint64_t ttl_s, ttl_ns;

	if (is_missing(nacos->fetch.status) && !nacos->login_v1) {
		nacos->login_v1 = true;
		next(nacos);
		return;
	}
	if (nacos->fetch.status != 200) {
		refuse_login(nacos, nacos->fetch.status);
		return;
	}
	free(nacos->token);
	nacos->token = nacos_login_read(reply_of(nacos), &ttl_s);
	if (nacos->token == NULL) {
		fail(nacos, false, "the answer of the login has no accessToken");
		return;
	}
	ttl_ns = rea_time_mul(ttl_s, REA_NS_PER_S);
	/* Not all clients at once, and not too late. */
	nacos->token_ends_ns = rea_time_add(loop_now(nacos->loop),
	    ttl_ns - ttl_ns / 15 - rea_random_below(&nacos->loop->random, ttl_ns / 10 - ttl_ns / 15 + 1));
	next(nacos);
}

static void tell_mode(struct nacos *nacos)
{
	char text[WHY_SIZE];

	if (nacos->api == API_V1)
		snprintf(text, sizeof(text), "followed by long polling (v1)");
	else
		snprintf(text, sizeof(text), "asked every %u ms (v3): %s", nacos->source->poll_ms,
		    nacos->source->mode == REA_NACOS_V3
			? "as mode says"
			: "the server has no long polling, so a change takes that long");
	nacos->events.notice(text, nacos->events.user_data);
}

static void set_api(struct nacos *nacos, enum api api)
{
	nacos->api = api;
	tell_mode(nacos);
}

static void on_look_v3(struct nacos *nacos)
{
	char message[WHY_SIZE / 2], md5[FETCH_MD5_SIZE];
	json_t *data;
	const json_t *content;
	enum nacos_answer answer = nacos_v3_read(nacos->fetch.status, reply_of(nacos), &data, message, sizeof(message));
	bool probing = nacos->api == API_UNKNOWN, may_be_v1 = nacos->source->mode == REA_NACOS_AUTO;

	if (probing && may_be_v1 && (answer == NACOS_FOREIGN || answer == NACOS_BARRED)) {
		nacos->asked_v3 = true;
		next(nacos);
		return;
	}
	if (answer != NACOS_PRESENT && answer != NACOS_ABSENT) {
		if (answer == NACOS_DENIED || answer == NACOS_BARRED)
			refuse(nacos, message);
		else
			fail(nacos, false, "%s%s", answer == NACOS_FOREIGN ? "it has no v3 interface: " : "", message);
		if (answer == NACOS_FOREIGN)
			forget_api(nacos);
		return;
	}
	nacos->asked_v3 = nacos->has_v3 = true;
	if (probing && !may_be_v1)
		set_api(nacos, API_V3);
	content = json_object_get(data, "content");
	snprintf(md5, sizeof(md5), "%s",
	    json_is_string(json_object_get(data, "md5")) ? json_string_value(json_object_get(data, "md5")) : "");
	if (answer == NACOS_ABSENT)
		take_absence(nacos);
	else if (json_is_string(content))
		take_content(nacos, json_string_value(content), json_string_length(content), md5);
	else
		fail(nacos, false, "its answer has no content");
	json_decref(data);
}

static void on_look_v1(struct nacos *nacos)
{
	struct rea_slice reply = reply_of(nacos);
	char md5[FETCH_MD5_SIZE];

	memcpy(md5, nacos->fetch.md5, sizeof(md5));
	if (nacos->fetch.status == 200)
		take_content(nacos, reply.data, reply.length, md5);
	else if (nacos->fetch.status == 404)
		take_absence(nacos);
	else if (is_denied(nacos->fetch.status))
		refuse(nacos, nacos->fetch.status == 401 ? "HTTP 401" : "HTTP 403");
	else {
		if (is_missing(nacos->fetch.status))
			forget_api(nacos);
		fail_reply(nacos);
	}
}

/* Returns whether the server was waiting with us, and so has this interface. */
static bool on_listened(struct nacos *nacos)
{
	enum nacos_changed changed;

	if (nacos->fetch.status != 200) {
		if (is_denied(nacos->fetch.status))
			refuse(nacos, nacos->fetch.status == 401 ? "HTTP 401" : "HTTP 403");
		else
			fail_reply(nacos);
		return false;
	}
	servers_worked(&nacos->servers);
	changed = nacos_listen_read(nacos->source, reply_of(nacos));
	if (changed != NACOS_UNCHANGED)
		nacos->look_due = nacos->woken = true;
	return true;
}

static void on_probe(struct nacos *nacos)
{
	if (is_missing(nacos->fetch.status)) {
		if (!nacos->has_v3) {
			forget_api(nacos);
			fail(nacos, false, "HTTP %ld: it has neither v1 nor v3 of the interface; is `context-path` right?",
			    nacos->fetch.status);
			return;
		}
		set_api(nacos, API_V3);
		next(nacos);
		return;
	}
	if (!on_listened(nacos))
		return;
	set_api(nacos, API_V1);
	nacos->woken = false;
	nacos->look_due = nacos->look_due || !nacos->has_v3;
	next(nacos);
}

static void on_listen(struct nacos *nacos)
{
	uint64_t now_ns = loop_now(nacos->loop), waited_ns = rea_time_sub(now_ns, nacos->listen_ns);

	if (nacos->fetch.timed_out) {
		/* No failure yet: the look will tell. */
		nacos->look_due = true;
		next(nacos);
		return;
	}
	if (is_missing(nacos->fetch.status)) {
		forget_api(nacos);
		next(nacos);
		return;
	}
	if (!on_listened(nacos))
		return;
	if (now_ns >= nacos->relook_ns)
		nacos->look_due = true;
	if (!nacos->look_due && waited_ns < LISTEN_NS_MIN)
		pause_for(nacos, LISTEN_NS_MIN);
	else
		next(nacos);
}

static void on_fetched(struct fetch *fetch)
{
	struct nacos *nacos = fetch->user_data;

	if (fetch->error[0] != '\0' && !(nacos->doing == LISTEN && fetch->timed_out)) {
		fail_reply(nacos);
		return;
	}
	switch (nacos->doing) {
	case PAUSE:
		break;
	case LOGIN:
		on_login(nacos);
		break;
	case LOOK:
		if (nacos->api == API_V1)
			on_look_v1(nacos);
		else
			on_look_v3(nacos);
		break;
	case PROBE:
		on_probe(nacos);
		break;
	case LISTEN:
		on_listen(nacos);
		break;
	}
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	(void)now_ns;
	next(REA_CONTAINER_OF(timer, struct nacos, timer));
}

struct nacos *nacos_start(struct loop *loop, struct transfers *transfers, const struct rea_config_source *source,
    const struct source_events *events)
{
	struct nacos *nacos = calloc(1, sizeof(*nacos));

	if (nacos == NULL)
		return NULL;
	nacos->loop = loop;
	nacos->source = source;
	nacos->events = *events;
	nacos->fetch = (struct fetch){.transfers = transfers, .done = on_fetched, .user_data = nacos};
	nacos->timer.fire = on_timer;
	nacos->look_due = true;
	servers_init(&nacos->servers, source->servers, source->servers_len, &loop->random);
	pause_for(nacos, 0);
	return nacos;
}

void nacos_stop(struct nacos *nacos)
{
	if (nacos == NULL)
		return;
	loop_timer_stop(nacos->loop, &nacos->timer);
	fetch_end(&nacos->fetch);
	if (nacos->token != NULL)
		OPENSSL_cleanse(nacos->token, strlen(nacos->token));
	free(nacos->token);
	free(nacos);
}
