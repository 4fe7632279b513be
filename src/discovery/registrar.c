/*
 * One struct registration per provider:
 *
 *             registered                     unknown there
 *   REGISTER ───────────▶ PAUSE ─▶ BEAT ──┬──────────────▶ REGISTER
 *      ▲                    ▲             │ alive
 *      └── failed: PAUSE    └─────────────┘
 *
 *   LEAVE  taken back; then it is gone, whatever came of it
 *
 * With etcd REGISTER is two requests (a lease, the key under it), and three with a login. A failed heartbeat is asked again like any other request; it
 * is the registry that says whether it has forgotten us.
 */
#include "discovery/registrar.h"

#include "base/container.h"
#include "discovery/etcd_wire.h"
#include "discovery/nacos_account.h"
#include "discovery/naming_wire.h"
#include "discovery/permits.h"

#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BEAT_MS_DEFAULT 5000
#define TIMEOUT_NS (3 * REA_NS_PER_S)
#define CONNECTIONS_KEPT 8L
#define LINE_SIZE 640

enum doing { PAUSE, LOGIN, GRANT, REGISTER, BEAT, LEAVE };

struct registration {
	struct registrar *registrar;
	struct rea_config *config; /* a reference: what follows borrows from it */
	const struct rea_config_registration *spec;
	const struct rea_config_source *source;
	json_t *metadata;
	char *identity;  /* which entry of which registry */
	char *signature; /* all that is told of it */
	struct naming_provider provider;
	struct wheel_timer timer;
	enum doing doing, after; /* after: what the end of PAUSE begins */
	uint64_t beat_ms;
	bool registered, troubled;
	bool was_registered; /* there may be something to take back */
	uint64_t failures;
	struct nacos_account *account;
	struct nacos_ask ask;
	bool v3;
	struct servers servers; /* etcd's, as what follows */
	struct fetch fetch;
	char *token;
	char *key, *value;
	uint64_t lease;
	struct registration *next;
};

struct registrar {
	struct loop *loop;
	struct registrar_events events;
	struct transfers transfers;
	struct registration *items;
	struct registration *leaving;
	struct wheel_timer stop_timer;
	void (*stopped)(void *user_data);
	void *stopped_user_data;
};

static void go_on(struct registration *registration, enum doing doing);

/* ---- telling ---- */

__attribute__((format(printf, 2, 3))) static void notice(struct registration *registration, const char *format, ...)
{
	char text[LINE_SIZE], line[LINE_SIZE + 300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(line, sizeof(line), "provider %s %s in %s: %s", registration->spec->service,
	    registration->spec->address, registration->spec->in == REA_SOURCE_NACOS ? "nacos" : "etcd", text);
	registration->registrar->events.notice(line, registration->registrar->events.user_data);
}

static struct servers *servers_of(struct registration *registration)
{
	return registration->account != NULL ? &registration->ask.servers : &registration->servers;
}

static void pause_for(struct registration *registration, uint64_t pause_ns, enum doing after)
{
	struct loop *loop = registration->registrar->loop;

	registration->doing = PAUSE;
	registration->after = after;
	loop_timer_start(loop, &registration->timer, rea_time_add(loop_now(loop), pause_ns));
}

static void gone(struct registration *registration);

static void fail(struct registration *registration, const char *why)
{
	uint64_t pause_ns;

	if (registration->doing == LEAVE) {
		gone(registration);
		return;
	}
	pause_ns = servers_failed(servers_of(registration), &registration->registrar->loop->random);
	registration->failures++;
	pause_for(registration, pause_ns, registration->doing == BEAT ? BEAT : REGISTER);
	if (registration->troubled || pause_ns == 0)
		return;
	registration->troubled = true;
	notice(registration, "%s: %.400s; asked again until it works",
	    registration->registered ? "no heartbeat" : "not registered", why);
}

static void registered(struct registration *registration)
{
	bool news = !registration->registered || registration->troubled;

	servers_worked(servers_of(registration));
	registration->registered = registration->was_registered = true;
	registration->troubled = false;
	pause_for(registration, rea_time_from_ms(registration->beat_ms), BEAT);
	if (news)
		notice(registration, "registered");
}

/* The registry has forgotten us: it was restarted, or we were away too long. */
static void forgotten(struct registration *registration)
{
	servers_worked(servers_of(registration));
	registration->registered = false;
	notice(registration, "unknown there by now: registered again");
	go_on(registration, REGISTER);
}

/* ---- Nacos ---- */

static char *end_query(struct rea_buffer *query, int error)
{
	char *text = error == 0 ? strndup(rea_buffer_data(query), rea_buffer_length(query)) : NULL;

	rea_buffer_fini(query);
	return text;
}

static void ask_nacos(struct registration *registration, enum doing doing)
{
	struct rea_buffer query = {.alloc = NULL};
	bool v3 = registration->v3;
	const char *method = doing == LEAVE ? "DELETE" : doing == BEAT && !v3 ? "PUT" : "POST";
	const char *path = v3 ? NACOS_INSTANCE_V3 : doing == BEAT ? NACOS_BEAT_V1 : NACOS_INSTANCE_V1;
	int error = doing == BEAT ? naming_write_beat(&registration->provider, v3, &query)
				  : naming_write_nacos(&registration->provider, v3, &query);

	nacos_ask_begin(&registration->ask, method, path, end_query(&query, error));
}

static bool is_missing(long status)
{
	return status == 404 || status == 405 || status == 410 || status == 501;
}

static bool is_good(struct registration *registration)
{
	char message[8];
	json_t *data;
	bool good = registration->ask.fetch.status == 200;

	if (!registration->v3)
		return good;
	good = nacos_v3_read(registration->ask.fetch.status, nacos_ask_reply(&registration->ask), &data, message,
		   sizeof(message)) == NACOS_PRESENT;
	json_decref(data);
	return good;
}

static void fail_reply(struct registration *registration)
{
	struct rea_slice reply = nacos_ask_reply(&registration->ask);
	char why[400];

	snprintf(why, sizeof(why), "%s: HTTP %ld: %.*s", servers_url(&registration->ask.servers),
	    registration->ask.fetch.status, (int)(reply.length > 200 ? 200 : reply.length), reply.data);
	fail(registration, why);
}

static void on_registered(struct registration *registration)
{
	if (is_missing(registration->ask.fetch.status) && registration->source->mode == REA_NACOS_AUTO && !registration->v3) {
		registration->v3 = true;
		go_on(registration, REGISTER);
		return;
	}
	if (is_good(registration)) {
		registered(registration);
		return;
	}
	/* It may be that another server answers here by now. */
	if (registration->source->mode == REA_NACOS_AUTO)
		registration->v3 = false;
	fail_reply(registration);
}

static void on_beat(struct registration *registration)
{
	switch (naming_read_beat(registration->ask.fetch.status, nacos_ask_reply(&registration->ask), &registration->beat_ms)) {
	case NAMING_ALIVE:
		registered(registration);
		break;
	case NAMING_UNKNOWN:
		forgotten(registration);
		break;
	case NAMING_REFUSED:
		fail_reply(registration);
		break;
	}
}

static void on_asked(struct nacos_ask *ask, enum nacos_asked asked)
{
	struct registration *registration = ask->user_data;

	if (asked != NACOS_ASK_REPLIED)
		fail(registration, ask->why);
	else if (registration->doing == LEAVE)
		gone(registration);
	else if (registration->doing == BEAT)
		on_beat(registration);
	else
		on_registered(registration);
}

/* ---- etcd ---- */

static char *login_body(const struct registration *registration, const char **ret_why)
{
	char *password = nacos_secret(registration->source->password, ret_why), *text = NULL;
	json_t *body;

	if (password == NULL)
		return NULL;
	body = json_pack("{s:s, s:s}", "name", registration->source->username, "password", password);
	text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	OPENSSL_cleanse(password, strlen(password));
	free(password);
	return text;
}

static void ask_etcd(struct registration *registration, enum doing doing)
{
	const char *path = ETCD_LEASE_KEEP, *why = "out of memory", *headers[1];
	char *body = NULL, *url = NULL, *authorization = NULL;
	struct fetch_request request = {
	    .headers = headers, .timeout_ns = TIMEOUT_NS, .ca_file = registration->source->ca_file};
	bool good;

	if (doing == LOGIN) {
		path = ETCD_LOGIN;
		body = login_body(registration, &why);
	} else if (doing == GRANT) {
		path = ETCD_LEASE_GRANT;
		body = naming_grant_body(registration->spec->ttl_s);
	} else if (doing == REGISTER) {
		path = ETCD_KV_PUT;
		body = naming_put_body(registration->key, registration->value, registration->lease);
	} else {
		path = doing == LEAVE ? ETCD_LEASE_REVOKE : ETCD_LEASE_KEEP;
		body = naming_lease_body(registration->lease);
	}
	good = body != NULL && asprintf(&url, "%s%s", servers_url(&registration->servers), path) >= 0;
	if (!good)
		url = NULL;
	if (good && registration->token != NULL && doing != LOGIN) {
		good = asprintf(&authorization, "Authorization: %s", registration->token) >= 0;
		if (!good)
			authorization = NULL;
		headers[request.headers_len++] = authorization;
	}
	request.url = url;
	request.body = body;
	registration->doing = doing;
	if (!good || fetch_begin(&registration->fetch, &request) != 0)
		fail(registration, why);
	if (body != NULL && doing == LOGIN)
		OPENSSL_cleanse(body, strlen(body));
	free(authorization);
	free(url);
	free(body);
}

static void forget_token(struct registration *registration)
{
	if (registration->token != NULL)
		OPENSSL_cleanse(registration->token, strlen(registration->token));
	free(registration->token);
	registration->token = NULL;
}

static void fail_etcd(struct registration *registration, const json_t *answer)
{
	const char *said = etcd_message(answer);
	char why[400];

	/* A token that is not valid any more is asked for anew. */
	forget_token(registration);
	if (registration->fetch.error[0] != '\0')
		snprintf(why, sizeof(why), "%s: %.300s", servers_url(&registration->servers), registration->fetch.error);
	else
		snprintf(why, sizeof(why), "%s: HTTP %ld: %.300s", servers_url(&registration->servers),
		    registration->fetch.status, said != NULL ? said : "not what etcd's v3 gateway answers");
	fail(registration, why);
}

static void take_answer(struct registration *registration, const json_t *answer)
{
	const char *token = json_string_value(json_object_get(answer, "token"));
	const json_t *kept = json_object_get(answer, "result");

	switch (registration->doing) {
	case LOGIN:
		registration->token = token != NULL && strpbrk(token, "\r\n") == NULL ? strdup(token) : NULL;
		if (registration->token == NULL)
			fail_etcd(registration, answer);
		else
			ask_etcd(registration, GRANT);
		break;
	case GRANT:
		registration->lease = etcd_number(answer, "ID");
		if (registration->lease == 0)
			fail_etcd(registration, answer);
		else
			ask_etcd(registration, REGISTER);
		break;
	case REGISTER:
		registered(registration);
		break;
	case BEAT:
		/* A lease that has ended has no time left. */
		if (etcd_number(kept, "TTL") > 0)
			registered(registration);
		else
			forgotten(registration);
		break;
	case LEAVE:
		gone(registration);
		break;
	case PAUSE:
		break;
	}
}

static void on_fetched(struct fetch *fetch)
{
	struct registration *registration = fetch->user_data;
	const char *data = rea_buffer_data(&fetch->reply);
	json_t *answer =
	    data != NULL ? json_loadb(data, rea_buffer_length(&fetch->reply), JSON_DISABLE_EOF_CHECK, NULL) : NULL;

	if (registration->doing == LEAVE)
		gone(registration);
	else if (fetch->error[0] != '\0' || fetch->status != 200 || answer == NULL)
		fail_etcd(registration, answer);
	else
		take_answer(registration, answer);
	json_decref(answer);
}

/* ---- what is next ---- */

static void go_on(struct registration *registration, enum doing doing)
{
	registration->doing = doing;
	if (registration->account != NULL)
		ask_nacos(registration, doing);
	else if (registration->source->username != NULL && registration->token == NULL && doing != LEAVE)
		ask_etcd(registration, LOGIN);
	else
		ask_etcd(registration, doing == REGISTER ? GRANT : doing);
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct registration *registration = REA_CONTAINER_OF(timer, struct registration, timer);

	(void)now_ns;
	go_on(registration, registration->after);
}

/* ---- one of them ---- */

static void registration_free(struct registration *registration)
{
	if (registration == NULL)
		return;
	loop_timer_stop(registration->registrar->loop, &registration->timer);
	nacos_ask_end(&registration->ask);
	nacos_account_free(registration->account);
	fetch_end(&registration->fetch);
	forget_token(registration);
	free(registration->key);
	free(registration->value);
	free(registration->identity);
	free(registration->signature);
	json_decref(registration->metadata);
	rea_config_unref(registration->config);
	free(registration);
}

/* What is written, and what the contract permits. NULL = out of memory. */
static json_t *metadata_of(const struct rea_config_registration *spec, const struct rea_config *config)
{
	const char *name = spec->contract != NULL ? spec->contract : spec->service;
	const struct rea_config_service *service = rea_config_find_service(config, name, strlen(name));
	json_t *metadata = json_object();
	bool good = metadata != NULL;

	for (size_t i = 0; good && i < spec->metadata_len; i++)
		good = json_object_set_new(metadata, spec->metadata[i].name, json_string(spec->metadata[i].value)) == 0;
	if (good && service != NULL && service->contract != NULL && json_object_get(metadata, PERMITS_KEY) == NULL) {
		char *permits = permits_write(service->contract);

		good = permits != NULL && json_object_set_new(metadata, PERMITS_KEY, json_string(permits)) == 0;
		free(permits);
	}
	if (!good) {
		json_decref(metadata);
		return NULL;
	}
	return metadata;
}

/* Which entry it is, and all that is told of it. */
static bool name(struct registration *registration)
{
	const struct rea_config_registration *spec = registration->spec;
	char *metadata = json_dumps(registration->metadata, JSON_COMPACT | JSON_SORT_KEYS);
	struct rea_buffer servers = {.alloc = NULL};
	int error = rea_buffer_append(&servers, "", 0);

	for (size_t i = 0; error == 0 && i < registration->source->servers_len; i++) {
		error = rea_buffer_append_slice(&servers, rea_slice_of(registration->source->servers[i]));
		if (error == 0)
			error = rea_buffer_append(&servers, " ", 1);
	}
	if (error == 0)
		error = rea_buffer_append(&servers, "", 1);
	if (error != 0 || metadata == NULL ||
	    asprintf(&registration->identity, "%d %s%s %s %s %s %s %s %s", (int)spec->in, rea_buffer_data(&servers),
		registration->source->context_path, registration->source->namespace_id, spec->service, spec->address,
		spec->in == REA_SOURCE_NACOS ? spec->group : "", spec->in == REA_SOURCE_NACOS ? spec->cluster : "",
		spec->in == REA_SOURCE_ETCD ? spec->prefix : "") < 0)
		registration->identity = NULL;
	if (registration->identity == NULL ||
	    asprintf(&registration->signature, "%s %g %u %d %s %s %s", registration->identity, spec->weight, spec->ttl_s,
		(int)registration->source->mode, registration->source->username != NULL ? registration->source->username : "",
		registration->source->password != NULL ? registration->source->password : "", metadata) < 0)
		registration->signature = NULL;
	rea_buffer_fini(&servers);
	free(metadata);
	return registration->signature != NULL;
}

static bool prepare_etcd(struct registration *registration)
{
	const struct rea_config_registration *spec = registration->spec;

	registration->beat_ms = (uint64_t)spec->ttl_s * 1000 / 3;
	registration->fetch = (struct fetch){
	    .transfers = &registration->registrar->transfers, .done = on_fetched, .user_data = registration};
	servers_init(&registration->servers, registration->source->servers, registration->source->servers_len,
	    &registration->registrar->loop->random);
	if (asprintf(&registration->key, "%s%s/%s", spec->prefix, spec->service, spec->address) < 0)
		registration->key = NULL;
	registration->value = naming_write_etcd(&registration->provider);
	return registration->key != NULL && registration->value != NULL;
}

static bool prepare_nacos(struct registration *registration)
{
	struct registrar *registrar = registration->registrar;

	registration->beat_ms = BEAT_MS_DEFAULT;
	registration->v3 = registration->source->mode == REA_NACOS_V3;
	registration->ask.done = on_asked;
	registration->ask.user_data = registration;
	registration->account = nacos_account_new(registrar->loop, &registrar->transfers, registration->source);
	if (registration->account == NULL)
		return false;
	nacos_ask_init(&registration->ask, registration->account);
	return true;
}

/* NULL = out of memory. */
static struct registration *registration_new(
    struct registrar *registrar, struct rea_config *config, const struct rea_config_registration *spec)
{
	struct registration *registration = calloc(1, sizeof(*registration));
	const struct rea_config_settings *settings = rea_config_settings(config);

	if (registration == NULL)
		return NULL;
	registration->registrar = registrar;
	registration->config = rea_config_ref(config);
	registration->spec = spec;
	registration->source = spec->in == REA_SOURCE_NACOS ? settings->sources.nacos : settings->sources.etcd;
	registration->timer.fire = on_timer;
	registration->metadata = metadata_of(spec, config);
	registration->provider = (struct naming_provider){.service = spec->service,
	    .address = spec->address,
	    .group = spec->group,
	    .cluster = spec->cluster,
	    .namespace_id = registration->source->namespace_id,
	    .weight = spec->weight,
	    .metadata = registration->metadata};
	if (registration->metadata == NULL || !name(registration) ||
	    !(spec->in == REA_SOURCE_NACOS ? prepare_nacos(registration) : prepare_etcd(registration))) {
		registration_free(registration);
		return NULL;
	}
	return registration;
}

/* ---- leaving ---- */

static void stop_if_gone(struct registrar *registrar)
{
	if (registrar->stopped != NULL && registrar->leaving == NULL)
		loop_timer_start(registrar->loop, &registrar->stop_timer, loop_now(registrar->loop));
}

static void on_stop_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct registrar *registrar = REA_CONTAINER_OF(timer, struct registrar, stop_timer);
	void (*stopped)(void *user_data) = registrar->stopped;

	(void)now_ns;
	registrar->stopped = NULL;
	if (stopped != NULL)
		stopped(registrar->stopped_user_data);
}

/* On its last callback. */
static void gone(struct registration *registration)
{
	struct registrar *registrar = registration->registrar;
	struct registration **place = &registrar->leaving;

	while (*place != registration)
		place = &(*place)->next;
	*place = registration->next;
	registration_free(registration);
	stop_if_gone(registrar);
}

static void leave(struct registration *registration)
{
	struct registrar *registrar = registration->registrar;

	/* What was under way may still come: the registry forgets it. */
	if (!registration->was_registered) {
		registration_free(registration);
		return;
	}
	loop_timer_stop(registrar->loop, &registration->timer);
	registration->next = registrar->leaving;
	registrar->leaving = registration;
	go_on(registration, LEAVE);
}

/* ---- all of them ---- */

struct registrar *registrar_new(struct loop *loop, const struct registrar_events *events)
{
	struct registrar *registrar = calloc(1, sizeof(*registrar));

	if (registrar == NULL)
		return NULL;
	registrar->loop = loop;
	registrar->events = *events;
	registrar->transfers = (struct transfers){.loop = loop, .connections_kept = CONNECTIONS_KEPT};
	registrar->stop_timer.fire = on_stop_timer;
	return registrar;
}

static struct registration **find(struct registration **items, const struct registration *like, bool whole)
{
	while (*items != NULL &&
	       strcmp(whole ? (*items)->signature : (*items)->identity, whole ? like->signature : like->identity) != 0)
		items = &(*items)->next;
	return items;
}

static void free_all(struct registration *items)
{
	for (struct registration *item = items, *next; item != NULL; item = next) {
		next = item->next;
		registration_free(item);
	}
}

/* What is there already goes on as it is; what is told anew takes the place of the old without a gap. */
static void replace(struct registrar *registrar, struct registration *made)
{
	struct registration *items = NULL, **end = &items, *next;

	for (struct registration *registration = made; registration != NULL; registration = next) {
		struct registration **same = find(&registrar->items, registration, true),
				    **old = *same != NULL ? same : find(&registrar->items, registration, false);
		struct registration *before = *old, *stays = registration;

		next = registration->next;
		if (before != NULL)
			*old = before->next;
		if (*same == NULL && before == NULL) {
			pause_for(registration, 0, REGISTER);
		} else if (before != NULL && strcmp(before->signature, registration->signature) == 0) {
			registration_free(registration);
			stays = before;
		} else {
			registration->was_registered = before != NULL && before->was_registered;
			registration->lease = 0;
			registration_free(before);
			pause_for(registration, 0, REGISTER);
		}
		stays->next = NULL;
		*end = stays;
		end = &stays->next;
	}
	for (struct registration *registration = registrar->items; registration != NULL; registration = next) {
		next = registration->next;
		leave(registration);
	}
	registrar->items = items;
}

int registrar_configure(struct registrar *registrar, struct rea_config *config)
{
	const struct rea_config_settings *settings = rea_config_settings(config);
	struct registration *made = NULL, **end = &made;

	for (size_t i = 0; i < settings->registrations_len; i++) {
		*end = registration_new(registrar, config, &settings->registrations[i]);
		if (*end == NULL) {
			free_all(made);
			return REA_ERR_NOMEM;
		}
		end = &(*end)->next;
	}
	replace(registrar, made);
	return 0;
}

void registrar_stop(struct registrar *registrar, void (*done)(void *user_data), void *user_data)
{
	struct registration *items = registrar->items, *next;

	registrar->items = NULL;
	registrar->stopped = done;
	registrar->stopped_user_data = user_data;
	for (struct registration *registration = items; registration != NULL; registration = next) {
		next = registration->next;
		leave(registration);
	}
	stop_if_gone(registrar);
}

void registrar_free(struct registrar *registrar)
{
	if (registrar == NULL)
		return;
	loop_timer_stop(registrar->loop, &registrar->stop_timer);
	free_all(registrar->items);
	free_all(registrar->leaving);
	transfers_fini(&registrar->transfers);
	free(registrar);
}

static void write_family(const struct registrar *registrar, struct rea_prometheus *out, const char *name,
    enum rea_metric_type type, const char *help, bool failures)
{
	if (registrar->items == NULL)
		return;
	rea_prometheus_family(out, name, type, help);
	for (const struct registration *item = registrar->items; item != NULL; item = item->next) {
		const char *const labels[] = {"service", item->spec->service, "address", item->spec->address,
		    "registry", item->spec->in == REA_SOURCE_NACOS ? "nacos" : "etcd"};

		rea_prometheus_sample(out, name, labels, 6, failures ? (double)item->failures : (double)item->registered);
	}
}

void registrar_metrics(const struct registrar *registrar, struct rea_prometheus *out)
{
	write_family(registrar, out, "rea_registered", REA_METRIC_GAUGE, "1 while the registry knows the provider.", false);
	write_family(registrar, out, "rea_registration_failures_total", REA_METRIC_COUNTER,
	    "Requests about the provider that a registry did not answer well.", true);
}
