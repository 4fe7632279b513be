/*
 *   LOGIN ─▶ RANGE ─▶ WATCH ─▶ RANGE …
 *
 * LOGIN  only with a user name; again when the token is refused
 * RANGE  reads the key, and the revision that the answer holds for
 * WATCH  an endless reply: what changed after that revision, as it changes
 * PAUSE  nobody is asked until the timer fires
 *
 * However a watch ends (the server goes away, cancels it, or has compacted the revision it began at), what follows is a RANGE: it tells the present
 * whatever was missed. It follows every few minutes anyway, for connections that died without a word.
 */
#include "discovery/etcd.h"

#include "base/container.h"
#include "discovery/etcd_wire.h"
#include "discovery/nacos_wire.h"
#include "discovery/servers.h"

#include <rea/error.h>

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define ASK_TIMEOUT_NS (3 * REA_NS_PER_S)
#define WATCH_NS_MIN (180 * REA_NS_PER_S)
#define WATCH_NS_SPREAD (120 * REA_NS_PER_S)
/* A watch that ended this early is not begun at once again. */
#define WATCH_NS_LEAST (1 * REA_NS_PER_S)
#define LOGIN_AGAIN_NS (60 * REA_NS_PER_S)
#define WHY_SIZE 400

enum doing { PAUSE, LOGIN, RANGE, WATCH };

struct etcd {
	struct loop *loop;
	const struct rea_config_source *source;
	const char *name; /* the key, or the prefix */
	struct source_events events;
	struct servers servers;
	struct fetch fetch;
	struct wheel_timer timer; /* the end of PAUSE, or of WATCH */
	enum doing doing;
	char *token;
	uint64_t login_again_ns, watch_ns;
	uint64_t revision; /* what the last RANGE holds for */
	struct rea_buffer value;
	bool watch_over; /* its last message is in */
};

static void next(struct etcd *etcd, enum doing doing);

static void pause_for(struct etcd *etcd, uint64_t pause_ns)
{
	etcd->doing = PAUSE;
	loop_timer_start(etcd->loop, &etcd->timer, rea_time_add(loop_now(etcd->loop), pause_ns));
}

__attribute__((format(printf, 3, 4))) static void fail(struct etcd *etcd, bool denied, const char *format, ...)
{
	const char *server = servers_url(&etcd->servers);
	uint64_t pause_ns = servers_failed(&etcd->servers, &etcd->loop->random);
	char what[WHY_SIZE / 2], why[WHY_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(why, sizeof(why), "%s: %s", server, what);
	pause_for(etcd, pause_ns);
	if (denied || pause_ns > 0)
		etcd->events.failed(why, denied, etcd->events.user_data);
}

/* ---- requests ---- */

/* body: taken over. */
static void ask(struct etcd *etcd, enum doing doing, const char *path, char *body)
{
	char *url = NULL, *authorization = NULL;
	const char *headers[1];
	struct fetch_request request = {.body = body,
	    .headers = headers,
	    .timeout_ns = doing == WATCH ? 0 : ASK_TIMEOUT_NS,
	    .ca_file = etcd->source->ca_file};
	bool good = body != NULL && asprintf(&url, "%s%s", servers_url(&etcd->servers), path) >= 0;

	if (!good)
		url = NULL;
	if (good && etcd->token != NULL && doing != LOGIN) {
		good = asprintf(&authorization, "Authorization: %s", etcd->token) >= 0;
		if (!good)
			authorization = NULL;
		headers[request.headers_len++] = authorization;
	}
	request.url = url;
	etcd->doing = doing;
	if (!good || fetch_begin(&etcd->fetch, &request) != 0)
		fail(etcd, false, "out of memory");
	free(authorization);
	free(url);
	free(body);
}

static void login(struct etcd *etcd)
{
	const char *why;
	char *password = nacos_secret(etcd->source->password, &why);
	json_t *body;

	if (password == NULL) {
		fail(etcd, true, "%s", why);
		return;
	}
	body = json_pack("{s:s, s:s}", "name", etcd->source->username, "password", password);
	ask(etcd, LOGIN, ETCD_LOGIN, body != NULL ? json_dumps(body, JSON_COMPACT) : NULL);
	json_decref(body);
	OPENSSL_cleanse(password, strlen(password));
	free(password);
}

static void watch(struct etcd *etcd)
{
	uint64_t now_ns = loop_now(etcd->loop);

	etcd->watch_over = false;
	etcd->watch_ns = now_ns;
	ask(etcd, WATCH, ETCD_WATCH, etcd_watch_body(etcd->name, etcd->events.listed != NULL, etcd->revision + 1));
	if (etcd->doing == WATCH)
		loop_timer_start(etcd->loop, &etcd->timer,
		    rea_time_add(now_ns, WATCH_NS_MIN + rea_random_below(&etcd->loop->random, WATCH_NS_SPREAD)));
}

static void next(struct etcd *etcd, enum doing doing)
{
	if (etcd->source->username != NULL && etcd->token == NULL)
		login(etcd);
	else if (doing == WATCH)
		watch(etcd);
	else
		ask(etcd, RANGE, ETCD_RANGE, etcd_range_body(etcd->name, etcd->events.listed != NULL, 0));
}

/* ---- replies ---- */

static void tell_present(struct etcd *etcd)
{
	const char *text = rea_buffer_length(&etcd->value) > 0 ? rea_buffer_data(&etcd->value) : "";

	etcd->events.present(text, rea_buffer_length(&etcd->value), servers_url(&etcd->servers), etcd->events.user_data);
}

static void on_login(struct etcd *etcd, const json_t *answer)
{
	const char *token = json_string_value(json_object_get(answer, "token"));

	if (etcd->fetch.status == 200 && token != NULL && strpbrk(token, "\r\n") == NULL)
		etcd->token = strdup(token);
	if (etcd->token != NULL) {
		next(etcd, RANGE);
		return;
	}
	token = etcd_message(answer);
	fail(etcd, etcd->fetch.status != 200, "user %s is refused: %s", etcd->source->username,
	    token != NULL ? token : "no token in the answer");
	pause_for(etcd, LOGIN_AGAIN_NS);
}

/* A wrong token is 401 from some versions and 400 with a text from others. */
static bool is_denied(long status, const char *said)
{
	static const char *const denials[] = {"permission denied", "auth token", "user name is empty"};

	for (size_t i = 0; said != NULL && i < sizeof(denials) / sizeof(denials[0]); i++)
		if (strstr(said, denials[i]) != NULL)
			return true;
	return status == 401 || status == 403;
}

static void refuse(struct etcd *etcd, const char *said)
{
	uint64_t now_ns = loop_now(etcd->loop);

	if (etcd->token != NULL && now_ns >= etcd->login_again_ns) {
		etcd->login_again_ns = rea_time_add(now_ns, LOGIN_AGAIN_NS);
		free(etcd->token);
		etcd->token = NULL;
		next(etcd, RANGE);
		return;
	}
	fail(etcd, true, "access denied: %s", said != NULL ? said : "no reason given");
}

static void on_range(struct etcd *etcd, const json_t *answer)
{
	const char *said = etcd_message(answer);
	struct etcd_value value;

	if (etcd->fetch.status != 200) {
		if (is_denied(etcd->fetch.status, said))
			refuse(etcd, said);
		else
			fail(etcd, false, "HTTP %ld: %s", etcd->fetch.status,
			    said != NULL ? said : "not what etcd's v3 gateway answers");
		return;
	}
	if (etcd_range_read(answer, &value, &etcd->value) != 0) {
		fail(etcd, false, "its answer is not what etcd's v3 gateway answers");
		return;
	}
	servers_worked(&etcd->servers);
	etcd->revision = value.revision;
	if (etcd->events.listed != NULL)
		etcd->events.listed(answer, servers_url(&etcd->servers), etcd->events.user_data);
	else if (value.present)
		tell_present(etcd);
	else
		etcd->events.absent(servers_url(&etcd->servers), etcd->events.user_data);
	next(etcd, WATCH);
}

static void on_message(struct etcd *etcd, const json_t *message)
{
	char why[WHY_SIZE];
	enum etcd_news news;

	if (etcd_watch_read(message, &news, &etcd->value, why, sizeof(why)) != 0)
		news = ETCD_ENDED;
	/* Of many keys one has changed: all are looked at. */
	if (etcd->events.listed != NULL && news != ETCD_NOTHING)
		news = ETCD_ENDED;
	switch (news) {
	case ETCD_NOTHING:
		break;
	case ETCD_PUT:
		tell_present(etcd);
		break;
	case ETCD_DELETED:
		etcd->events.absent(servers_url(&etcd->servers), etcd->events.user_data);
		break;
	case ETCD_ENDED:
		etcd->watch_over = true;
		break;
	}
}

/* Half a message is not worth a try: large ones come in many pieces. */
static bool may_be_whole(const struct rea_buffer *reply)
{
	char last = rea_buffer_length(reply) > 0 ? reply->data[reply->end - 1] : ' ';

	return last == '}' || last == '\n';
}

/* Messages follow each other, one a line in practice; where one ends the parser says. Inside a callback of libcurl: nothing is ended here. */
static void on_more(struct fetch *fetch)
{
	struct etcd *etcd = fetch->user_data;

	while (etcd->doing == WATCH && fetch->status == 200 && !etcd->watch_over && may_be_whole(&fetch->reply)) {
		json_error_t error;
		json_t *message = json_loadb(
		    rea_buffer_data(&fetch->reply), rea_buffer_length(&fetch->reply), JSON_DISABLE_EOF_CHECK, &error);

		if (message == NULL) {
			etcd->watch_over = json_error_code(&error) != json_error_premature_end_of_input;
			break;
		}
		rea_buffer_consume(&fetch->reply, (size_t)error.position);
		on_message(etcd, message);
		json_decref(message);
	}
	/* A watch that was canceled may stay open. */
	if (etcd->watch_over)
		loop_timer_start(etcd->loop, &etcd->timer, loop_now(etcd->loop));
}

/* Nothing is lost: a RANGE follows. */
static void end_watch(struct etcd *etcd)
{
	uint64_t waited_ns = rea_time_sub(loop_now(etcd->loop), etcd->watch_ns);

	fetch_end(&etcd->fetch);
	if (waited_ns < WATCH_NS_LEAST)
		pause_for(etcd, WATCH_NS_LEAST);
	else
		next(etcd, RANGE);
}

static void on_fetched(struct fetch *fetch)
{
	struct etcd *etcd = fetch->user_data;
	json_t *answer;

	loop_timer_stop(etcd->loop, &etcd->timer);
	if (etcd->doing == WATCH) {
		end_watch(etcd);
		return;
	}
	if (fetch->error[0] != '\0') {
		fail(etcd, false, "%s", fetch->error);
		return;
	}
	answer = rea_buffer_length(&fetch->reply) > 0
		     ? json_loadb(rea_buffer_data(&fetch->reply), rea_buffer_length(&fetch->reply), 0, NULL)
		     : NULL;
	if (etcd->doing == LOGIN)
		on_login(etcd, answer);
	else
		on_range(etcd, answer);
	json_decref(answer);
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct etcd *etcd = REA_CONTAINER_OF(timer, struct etcd, timer);

	(void)now_ns;
	if (etcd->doing == WATCH)
		end_watch(etcd);
	else
		next(etcd, RANGE);
}

struct etcd *etcd_start(struct loop *loop, struct transfers *transfers, const struct rea_config_source *source,
    const char *name, const struct source_events *events)
{
	struct etcd *etcd = calloc(1, sizeof(*etcd));

	if (etcd == NULL)
		return NULL;
	etcd->loop = loop;
	etcd->source = source;
	etcd->name = name;
	etcd->events = *events;
	etcd->fetch = (struct fetch){.transfers = transfers, .done = on_fetched, .more = on_more, .user_data = etcd};
	etcd->timer.fire = on_timer;
	servers_init(&etcd->servers, source->servers, source->servers_len, &loop->random);
	pause_for(etcd, 0);
	return etcd;
}

void etcd_stop(struct etcd *etcd)
{
	if (etcd == NULL)
		return;
	loop_timer_stop(etcd->loop, &etcd->timer);
	fetch_end(&etcd->fetch);
	rea_buffer_fini(&etcd->value);
	if (etcd->token != NULL)
		OPENSSL_cleanse(etcd->token, strlen(etcd->token));
	free(etcd->token);
	free(etcd);
}
