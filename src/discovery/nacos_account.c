/*
 *             no token             token
 *   ask ─▶ wait for the login ─▶ request ─▶ reply
 *                  ▲                │
 *                  └── 401 or 403, once a minute
 */
#include "discovery/nacos_account.h"

#include "base/container.h"
#include "discovery/nacos_wire.h"

#include <rea/error.h>

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_NS (3 * REA_NS_PER_S)
#define LOGIN_AGAIN_NS (60 * REA_NS_PER_S)

struct nacos_account {
	struct loop *loop;
	struct transfers *transfers;
	const struct rea_config_source *source;
	struct servers servers;
	struct fetch fetch; /* the login */
	bool login_v1;
	char *token;
	uint64_t token_ends_ns;
	uint64_t login_again_ns; /* a token that is refused before is not asked for anew */
	uint64_t locked_ns;      /* a login was refused: none before */
	struct nacos_ask *waiting;
	struct wheel_timer timer; /* who waits is told what is known already */
	enum nacos_asked known;
	char why[400];
};

const struct rea_config_source *nacos_account_source(const struct nacos_account *account)
{
	return account->source;
}

/* ---- who waits ---- */

static void send_request(struct nacos_ask *ask);

static void remove_waiting(struct nacos_ask *ask)
{
	struct nacos_ask **place = &ask->account->waiting;

	while (*place != ask)
		place = &(*place)->next;
	*place = ask->next;
	ask->waiting = false;
}

/* NACOS_ASK_REPLIED: the login is good. Each may end others, or ask again: so one at a time, and only those that wait now. */
static void tell_waiting(struct nacos_account *account, enum nacos_asked asked)
{
	struct nacos_ask *last = account->waiting, *ask;

	if (last == NULL)
		return;
	do {
		ask = account->waiting;
		while (ask->next != NULL)
			ask = ask->next;
		remove_waiting(ask);
		if (asked == NACOS_ASK_REPLIED) {
			send_request(ask);
		} else {
			snprintf(ask->why, sizeof(ask->why), "%s", account->why);
			ask->done(ask, asked);
		}
	} while (ask != last && account->waiting != NULL);
}

static void tell_soon(struct nacos_account *account, enum nacos_asked asked)
{
	account->known = asked;
	loop_timer_start(account->loop, &account->timer, loop_now(account->loop));
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct nacos_account *account = REA_CONTAINER_OF(timer, struct nacos_account, timer);

	(void)now_ns;
	tell_waiting(account, account->known);
}

/* ---- the login ---- */

static void login(struct nacos_account *account)
{
	const char *path = account->login_v1 ? NACOS_LOGIN_V1 : NACOS_LOGIN_V3, *why = "out of memory";
	char *password = nacos_secret(account->source->password, &why), *url = NULL;
	struct rea_buffer form = {.alloc = NULL};
	struct fetch_request request = {.timeout_ns = TIMEOUT_NS, .ca_file = account->source->ca_file};
	bool good = password != NULL && nacos_form_add(&form, "username", rea_slice_of(account->source->username)) == 0 &&
		    nacos_form_add(&form, "password", rea_slice_of(password)) == 0 && rea_buffer_append(&form, "", 1) == 0;

	if (good)
		url = nacos_url(account->source, servers_url(&account->servers), path, "", "");
	request.url = url;
	request.body = rea_buffer_data(&form);
	if (url == NULL || fetch_begin(&account->fetch, &request) != 0) {
		snprintf(account->why, sizeof(account->why), "%s", password == NULL ? why : "out of memory");
		tell_soon(account, password == NULL ? NACOS_ASK_DENIED : NACOS_ASK_FAILED);
	}
	if (form.data != NULL)
		OPENSSL_cleanse(form.data, form.capacity);
	rea_buffer_fini(&form);
	if (password != NULL)
		OPENSSL_cleanse(password, strlen(password));
	free(password);
	free(url);
}

static void forget_token(struct nacos_account *account)
{
	if (account->token != NULL)
		OPENSSL_cleanse(account->token, strlen(account->token));
	free(account->token);
	account->token = NULL;
}

static void take_token(struct nacos_account *account)
{
	uint64_t ttl_s, ttl_ns;

	forget_token(account);
	account->token = nacos_login_read(
	    rea_slice_make(rea_buffer_data(&account->fetch.reply), rea_buffer_length(&account->fetch.reply)), &ttl_s);
	ttl_ns = rea_time_mul(ttl_s, REA_NS_PER_S);
	/* Not all clients at once, and not too late. */
	account->token_ends_ns = rea_time_add(loop_now(account->loop),
	    ttl_ns - ttl_ns / 15 - rea_random_below(&account->loop->random, ttl_ns / 10 - ttl_ns / 15 + 1));
}

static void on_login(struct fetch *fetch)
{
	struct nacos_account *account = fetch->user_data;
	const char *server = servers_url(&account->servers);

	if ((fetch->status == 404 || fetch->status == 405 || fetch->status == 410 || fetch->status == 501) &&
	    !account->login_v1) {
		account->login_v1 = true;
		login(account);
		return;
	}
	if (fetch->status == 200 && fetch->error[0] == '\0' && rea_buffer_length(&fetch->reply) > 0)
		take_token(account);
	if (account->token != NULL) {
		servers_worked(&account->servers);
		tell_waiting(account, NACOS_ASK_REPLIED);
		return;
	}
	account->login_v1 = false;
	servers_failed(&account->servers, &account->loop->random);
	/* A wrong password is 403 in most versions, 400 or 500 in some. */
	if (fetch->error[0] == '\0' &&
	    (fetch->status == 401 || fetch->status == 403 || fetch->status == 400 || fetch->status == 500)) {
		snprintf(account->why, sizeof(account->why), "%s: user %s is refused: HTTP %ld", server,
		    account->source->username, fetch->status);
		/* Servers lock out whoever tries again and again. */
		if (fetch->status != 500)
			account->locked_ns = rea_time_add(loop_now(account->loop), LOGIN_AGAIN_NS);
		tell_waiting(account, NACOS_ASK_DENIED);
		return;
	}
	if (fetch->error[0] != '\0')
		snprintf(account->why, sizeof(account->why), "%s: %.300s", server, fetch->error);
	else
		snprintf(account->why, sizeof(account->why), "%s: the login was answered with HTTP %ld and no token",
		    server, fetch->status);
	tell_waiting(account, NACOS_ASK_FAILED);
}

static bool needs_login(struct nacos_account *account)
{
	return account->source->username != NULL &&
	       (account->token == NULL || loop_now(account->loop) >= account->token_ends_ns);
}

static void wait_for_login(struct nacos_ask *ask)
{
	struct nacos_account *account = ask->account;

	ask->waiting = true;
	ask->next = account->waiting;
	account->waiting = ask;
	if (fetch_busy(&account->fetch))
		return;
	if (loop_now(account->loop) < account->locked_ns)
		tell_soon(account, NACOS_ASK_DENIED);
	else
		login(account);
}

/* ---- requests ---- */

static void end_request(struct nacos_ask *ask)
{
	free(ask->query);
	ask->query = NULL;
}

/* Out of memory: told from the timer, as everything. */
static void fail_soon(struct nacos_ask *ask)
{
	struct nacos_account *account = ask->account;

	end_request(ask);
	snprintf(account->why, sizeof(account->why), "out of memory");
	ask->waiting = true;
	ask->next = account->waiting;
	account->waiting = ask;
	tell_soon(account, NACOS_ASK_FAILED);
}

static void send_request(struct nacos_ask *ask)
{
	struct nacos_account *account = ask->account;
	bool in_body = strcmp(ask->method, "POST") == 0;
	const char *headers[1];
	char *authorization = NULL,
	     *url = nacos_url(account->source, servers_url(&ask->servers), ask->path, in_body ? "" : ask->query, "");
	struct fetch_request request = {.url = url,
	    .method = in_body || strcmp(ask->method, "GET") == 0 ? NULL : ask->method,
	    .body = in_body ? ask->query : NULL,
	    .headers = headers,
	    .timeout_ns = TIMEOUT_NS,
	    .ca_file = account->source->ca_file};
	bool good = url != NULL;

	/* In a header, not in the URL: those end up in logs. */
	if (good && account->token != NULL) {
		good = asprintf(&authorization, "Authorization: Bearer %s", account->token) >= 0;
		if (!good)
			authorization = NULL;
		headers[request.headers_len++] = authorization;
	}
	if (!good || fetch_begin(&ask->fetch, &request) != 0)
		fail_soon(ask);
	free(authorization);
	free(url);
}

static void on_fetched(struct fetch *fetch)
{
	struct nacos_ask *ask = fetch->user_data;
	struct nacos_account *account = ask->account;
	const char *server = servers_url(&ask->servers);
	uint64_t now_ns = loop_now(account->loop);

	if (fetch->error[0] != '\0') {
		snprintf(ask->why, sizeof(ask->why), "%s: %.300s", server, fetch->error);
		end_request(ask);
		ask->done(ask, NACOS_ASK_FAILED);
		return;
	}
	if (fetch->status != 401 && fetch->status != 403) {
		end_request(ask);
		ask->done(ask, NACOS_ASK_REPLIED);
		return;
	}
	/* The token may have been withdrawn. */
	if (account->token != NULL && !ask->again && now_ns >= account->login_again_ns) {
		account->login_again_ns = rea_time_add(now_ns, LOGIN_AGAIN_NS);
		forget_token(account);
	}
	if (account->source->username != NULL && !ask->again && account->token == NULL) {
		ask->again = true;
		wait_for_login(ask);
		return;
	}
	snprintf(ask->why, sizeof(ask->why), "%s: access denied: HTTP %ld", server, fetch->status);
	end_request(ask);
	ask->done(ask, NACOS_ASK_DENIED);
}

void nacos_ask_init(struct nacos_ask *ask, struct nacos_account *account)
{
	ask->account = account;
	ask->fetch = (struct fetch){.transfers = account->transfers, .done = on_fetched, .user_data = ask};
	servers_init(&ask->servers, account->source->servers, account->source->servers_len, &account->loop->random);
}

void nacos_ask_begin(struct nacos_ask *ask, const char *method, const char *path, char *query)
{
	end_request(ask);
	if (ask->waiting)
		remove_waiting(ask);
	ask->method = method;
	ask->path = path;
	ask->query = query;
	ask->again = false;
	if (query == NULL)
		fail_soon(ask);
	else if (needs_login(ask->account))
		wait_for_login(ask);
	else
		send_request(ask);
}

void nacos_ask_end(struct nacos_ask *ask)
{
	if (ask->account == NULL)
		return;
	if (ask->waiting)
		remove_waiting(ask);
	fetch_end(&ask->fetch);
	end_request(ask);
}

/* ---- lifetime ---- */

struct nacos_account *nacos_account_new(struct loop *loop, struct transfers *transfers, const struct rea_config_source *source)
{
	struct nacos_account *account = calloc(1, sizeof(*account));

	if (account == NULL)
		return NULL;
	account->loop = loop;
	account->transfers = transfers;
	account->source = source;
	account->fetch = (struct fetch){.transfers = transfers, .done = on_login, .user_data = account};
	account->timer.fire = on_timer;
	servers_init(&account->servers, source->servers, source->servers_len, &loop->random);
	return account;
}

void nacos_account_free(struct nacos_account *account)
{
	if (account == NULL)
		return;
	loop_timer_stop(account->loop, &account->timer);
	fetch_end(&account->fetch);
	forget_token(account);
	free(account);
}
