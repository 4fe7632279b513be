/*
 * Deliveries to URLs, through libcurl's multi interface on the loop.
 *
 *   deliver_to_url ─▶ LOOKUP (a name) ─▶ TRANSFER ─▶ done
 *        └───────────── an address ────────▲
 *
 * One attempt is one request (rea/curl.h: rea_curl_once). A name is looked up here and given to libcurl with its addresses, so that libcurl never asks
 * anybody; and whatever it then connects to is judged in the very call that makes the socket, and once more when a standing connection is about to
 * carry a request. Nothing of the environment counts: no proxy, no netrc, no cookies.
 *
 * What a target can make us keep is bounded: a head by header_bytes_max, a body by reply_max, time by the deadline.
 */
#include "loop/transfer.h"
#include "queue/deliver.h"
#include "queue/lookup.h"

#include "base/container.h"

#include <errno.h>
#include <netinet/in.h>
#include <rea/curl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define DETAIL_MAX 512
/* Of a name; more are left. */
#define ADDRESSES_MAX 16
/* Idle connections to all targets together. */
#define CONNECTIONS_KEPT 128L

#define FIELD_BIT(name) (UINT64_C(1) << HTTP_FIELD_##name)
/* Of a task's own fields: those of a connection, and what rea or libcurl writes. */
#define SKIP                                                                                                      \
	(FIELD_BIT(HOST) | FIELD_BIT(CONNECTION) | FIELD_BIT(KEEP_ALIVE) | FIELD_BIT(PROXY_CONNECTION) |          \
	    FIELD_BIT(PROXY_AUTHENTICATE) | FIELD_BIT(PROXY_AUTHORIZATION) | FIELD_BIT(TE) | FIELD_BIT(TRAILER) | \
	    FIELD_BIT(TRANSFER_ENCODING) | FIELD_BIT(UPGRADE) | FIELD_BIT(CONTENT_LENGTH) | FIELD_BIT(EXPECT) |   \
	    FIELD_BIT(IDEMPOTENCY_KEY) | FIELD_BIT(REA_ATTEMPT) | FIELD_BIT(REA_DEADLINE_MS))

struct deliver_urls {
	struct loop *loop;
	struct lookups lookups;
	size_t header_bytes_max;
	struct transfers transfers;
};

struct url_delivery {
	struct delivery delivery;
	struct deliver_urls *urls;
	const struct deliver_url_rule *rule;
	const struct delivery_request *request;
	const struct vet_url *url;
	struct lookup_wait wait;
	struct wheel_timer timer; /* its deadline */
	struct transfer transfer;
	struct curl_slist *headers, *addresses;
	struct rea_curl_once once;
	const char *blocked; /* what the last refused address is; NULL = none was */
	bool may_connect;    /* one of its addresses was not refused */
	bool head_too_large;
	bool replied; /* a final head is in */
	bool reply_cut;
	size_t head_bytes;
	struct rea_buffer reply;
	char instance[LOOP_ADDRESS_MAX];
	char error[CURL_ERROR_SIZE];
	delivery_done done;
	void *user_data;
};

/* ---- the end of a delivery ---- */

static void delivery_free(struct url_delivery *delivery)
{
	loop_timer_stop(delivery->urls->loop, &delivery->timer);
	lookup_leave(&delivery->wait);
	transfer_end(&delivery->transfer);
	curl_easy_cleanup(delivery->transfer.easy);
	curl_slist_free_all(delivery->headers);
	curl_slist_free_all(delivery->addresses);
	rea_buffer_fini(&delivery->reply);
	free(delivery);
}

static void on_cancel(struct delivery *base)
{
	delivery_free(REA_CONTAINER_OF(base, struct url_delivery, delivery));
}

/* detail: "" = the code says it. */
static void finish(struct url_delivery *delivery, const struct rea_report *report, const char *detail)
{
	char *content_type = NULL;
	struct delivery_result result = {
	    .report = *report,
	    .instance = rea_slice_of(delivery->instance),
	    .reply_cut = delivery->reply_cut,
	    .detail = detail,
	};

	transfer_end(&delivery->transfer);
	if (rea_buffer_length(&delivery->reply) > 0)
		result.reply = rea_slice_make(rea_buffer_data(&delivery->reply), rea_buffer_length(&delivery->reply));
	curl_easy_getinfo(delivery->transfer.easy, CURLINFO_CONTENT_TYPE, &content_type);
	result.content_type = rea_slice_of(content_type);
	result.report.latency_ns = rea_time_sub(loop_now(delivery->urls->loop), delivery->request->start_ns);
	delivery->done(&result, delivery->user_data);
	delivery_free(delivery);
}

static void finish_blocked(struct url_delivery *delivery)
{
	static const struct rea_report report = {.outcome = REA_OUTCOME_PERMANENT, .flags = REA_REPORT_BLOCKED};
	char detail[DETAIL_MAX];

	snprintf(detail, sizeof(detail), "%.*s is at %s, which its pattern does not allow",
	    (int)delivery->url->host.length, delivery->url->host.data, delivery->blocked);
	finish(delivery, &report, detail);
}

/* Why, when there is no usable reply. */
static const char *describe(const struct url_delivery *delivery, CURLcode code, char text[DETAIL_MAX])
{
	const char *why = delivery->error[0] != '\0' ? delivery->error : curl_easy_strerror(code);

	/* A second request that was stopped: the first one's end is what counts. */
	if (code == CURLE_ABORTED_BY_CALLBACK)
		why = "the connection ended without a reply";
	if (code == CURLE_OPERATION_TIMEDOUT)
		why = delivery->once.requests == 0 ? "not connected in time"
		      : delivery->replied          ? "the reply did not end in time"
						   : "no reply in time";
	snprintf(text, DETAIL_MAX, "%.*s: %s", (int)delivery->url->origin.length, delivery->url->origin.data, why);
	return text;
}

/* The transfer is over, or its time is up. */
static void judge(struct url_delivery *delivery, CURLcode code)
{
	const struct rea_policy *policy = delivery->request->policy;
	struct rea_report report = {.outcome = REA_OUTCOME_OK};
	char detail[DETAIL_MAX];

	if (delivery->blocked != NULL && !delivery->may_connect) {
		finish_blocked(delivery);
		return;
	}
	if (delivery->head_too_large) {
		report.outcome = REA_OUTCOME_PERMANENT;
		snprintf(detail, sizeof(detail), "%.*s: the reply cannot be read: %s", (int)delivery->url->origin.length,
		    delivery->url->origin.data, http_error_text(HTTP_ERROR_HEAD_TOO_LARGE));
		finish(delivery, &report, detail);
		return;
	}
	/* A failure that the reply's head has told stays what it is, and a success is one when as much of it is in as is kept. */
	if (delivery->replied || code == CURLE_OK)
		rea_curl_once_report(&delivery->once, delivery->transfer.easy, CURLE_OK, policy, &report);
	if (code == CURLE_OK || delivery->reply_cut || (delivery->replied && report.outcome != REA_OUTCOME_OK)) {
		delivery->reply_cut = code != CURLE_OK;
		finish(delivery, &report, delivery_judge_redirect(delivery->request, &report));
		return;
	}
	/* Our own lack of memory is nobody's wish to end the task. */
	rea_curl_once_report(&delivery->once, delivery->transfer.easy,
	    code == CURLE_OUT_OF_MEMORY ? CURLE_RECV_ERROR : code, policy, &report);
	if (code == CURLE_OUT_OF_MEMORY)
		report.code = ENOMEM;
	delivery->reply_cut = delivery->replied;
	finish(delivery, &report, describe(delivery, code, detail));
}

static void on_deadline(struct wheel_timer *timer, uint64_t now_ns)
{
	struct url_delivery *delivery = REA_CONTAINER_OF(timer, struct url_delivery, timer);

	(void)now_ns;
	transfer_end(&delivery->transfer);
	judge(delivery, CURLE_OPERATION_TIMEDOUT);
}

static void on_transfer_done(struct transfer *transfer, CURLcode code)
{
	judge(REA_CONTAINER_OF(transfer, struct url_delivery, transfer), code);
}

/* ---- all of them ---- */

struct deliver_urls *deliver_urls_new(struct loop *loop, size_t header_bytes_max)
{
	struct deliver_urls *urls = calloc(1, sizeof(*urls));

	if (urls == NULL)
		return NULL;
	urls->loop = loop;
	urls->lookups.loop = loop;
	urls->header_bytes_max = header_bytes_max;
	urls->transfers = (struct transfers){.loop = loop, .connections_kept = CONNECTIONS_KEPT};
	return urls;
}

void deliver_urls_free(struct deliver_urls *urls)
{
	if (urls == NULL)
		return;
	lookups_fini(&urls->lookups);
	transfers_fini(&urls->transfers);
	free(urls);
}

/* ---- callbacks of a transfer ---- */

static curl_socket_t on_open(void *user_data, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct url_delivery *delivery = user_data;
	const char *refused = vet_address(&address->addr, &delivery->rule->allowed);

	(void)purpose;
	if (refused != NULL) {
		delivery->blocked = refused;
		return CURL_SOCKET_BAD;
	}
	delivery->may_connect = true;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Before each request, on a connection that stands: a pooled one may have been made for a pattern that allows more. */
static int on_request(void *user_data, char *ip, char *local_ip, int port, int local_port)
{
	struct url_delivery *delivery = user_data;
	bool v6 = strchr(ip, ':') != NULL;
	struct sockaddr_storage address;

	(void)local_ip;
	(void)local_port;
	snprintf(delivery->instance, sizeof(delivery->instance), v6 ? "[%s]:%d" : "%s:%d", ip, port);
	delivery->blocked = loop_address_parse(delivery->instance, &address) != 0
				? "an unknown address"
				: vet_address((struct sockaddr *)&address, &delivery->rule->allowed);
	delivery->may_connect = delivery->blocked == NULL;
	if (delivery->blocked != NULL)
		return CURL_PREREQFUNC_ABORT;
	return rea_curl_once_allows(&delivery->once, delivery->transfer.easy) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* One line of a head, or of a trailer. An answer other than length ends the transfer. */
static size_t on_header(char *line, size_t size, size_t length, void *user_data)
{
	struct url_delivery *delivery = user_data;
	long status = 0;

	(void)size;
	delivery->head_bytes += length;
	delivery->head_too_large = delivery->head_bytes > delivery->urls->header_bytes_max;
	if (delivery->head_too_large)
		return 0;
	if (line[0] == '\r' || line[0] == '\n') {
		curl_easy_getinfo(delivery->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
		delivery->replied = status >= 200;
	}
	return length;
}

static size_t on_body(char *data, size_t size, size_t length, void *user_data)
{
	struct url_delivery *delivery = user_data;
	size_t room = delivery->request->reply_max - rea_buffer_length(&delivery->reply);

	(void)size;
	delivery->reply_cut = length > room;
	if (rea_buffer_append(&delivery->reply, data, length > room ? room : length) != 0)
		delivery->reply_cut = true;
	return delivery->reply_cut ? 0 : length;
}

/* ---- the request ---- */

static bool add_line(struct url_delivery *delivery, const char *line)
{
	struct curl_slist *list = curl_slist_append(delivery->headers, line);

	if (list == NULL)
		return false;
	delivery->headers = list;
	return true;
}

/* libcurl takes "Name;" for a field with nothing in it. */
static bool add_field(struct url_delivery *delivery, struct rea_slice name, struct rea_slice value)
{
	struct rea_buffer line = {0};
	bool added = rea_buffer_append_slice(&line, name) == 0 &&
		     rea_buffer_append_slice(&line, value.length > 0 ? REA_SLICE_LIT(": ") : REA_SLICE_LIT(";")) == 0 &&
		     rea_buffer_append_slice(&line, value) == 0 && rea_buffer_append(&line, "", 1) == 0 &&
		     add_line(delivery, rea_buffer_data(&line));

	rea_buffer_fini(&line);
	return added;
}

static bool is_ours(const struct url_delivery *delivery, const struct http_field *field)
{
	static const struct rea_slice signing[] = {
	    REA_SLICE_LIT("webhook-id"), REA_SLICE_LIT("webhook-timestamp"), REA_SLICE_LIT("webhook-signature")};

	if ((SKIP >> http_field_id_of(field->name) & 1) != 0)
		return true;
	for (size_t i = 0; delivery->rule->keys_len > 0 && i < sizeof(signing) / sizeof(signing[0]); i++)
		if (rea_slice_equal_nocase(field->name, signing[i]))
			return true;
	return false;
}

static bool add_signature(struct url_delivery *delivery, struct rea_slice id)
{
	const struct deliver_url_rule *rule = delivery->rule;
	int64_t timestamp_s = loop_wall_ns(delivery->urls->loop) / (int64_t)REA_NS_PER_S;
	struct rea_buffer signature = {0}, timestamp = {0};
	bool added = rea_buffer_append_u64(&timestamp, (uint64_t)timestamp_s) == 0 &&
		     sign_append(&signature, rule->keys, rule->keys_len, id, timestamp_s, delivery->request->body) == 0 &&
		     add_field(delivery, REA_SLICE_LIT("webhook-id"), id) &&
		     add_field(delivery, REA_SLICE_LIT("webhook-timestamp"),
			 rea_slice_make(rea_buffer_data(&timestamp), rea_buffer_length(&timestamp))) &&
		     add_field(delivery, REA_SLICE_LIT("webhook-signature"),
			 rea_slice_make(rea_buffer_data(&signature), rea_buffer_length(&signature)));

	rea_buffer_fini(&signature);
	rea_buffer_fini(&timestamp);
	return added;
}

static bool has_field(const struct delivery_request *request, struct rea_slice name)
{
	return http_field_named(request->fields, request->fields_len, name) != NULL;
}

static bool add_fields(struct url_delivery *delivery, struct rea_slice id)
{
	const struct delivery_request *request = delivery->request;
	struct delivery_fields ours;
	/* No pause before a body, and no content type that libcurl makes up. */
	bool added = add_line(delivery, "Expect:") &&
		     (has_field(request, REA_SLICE_LIT("content-type")) || add_line(delivery, "Content-Type:"));

	/* The business id is nobody's business outside. */
	delivery_fields_make(&ours, request, NULL);
	for (size_t i = 0; added && i < request->fields_len; i++)
		added = is_ours(delivery, &request->fields[i]) ||
			add_field(delivery, request->fields[i].name, request->fields[i].value);
	for (size_t i = 0; added && i < ours.len; i++)
		added = add_field(delivery, ours.items[i].name, ours.items[i].value);
	return added && (delivery->rule->keys_len == 0 || add_signature(delivery, id));
}

static bool set_method(struct url_delivery *delivery)
{
	const struct delivery_request *request = delivery->request;
	struct rea_slice method = request->method;
	bool sends = request->body.length > 0 || rea_slice_equal(method, REA_SLICE_LIT("POST")) ||
		     rea_slice_equal(method, REA_SLICE_LIT("PUT")) || rea_slice_equal(method, REA_SLICE_LIT("PATCH"));
	char *name = strndup(method.data, method.length);
	CURL *easy = delivery->transfer.easy;
	bool set;

	if (name == NULL)
		return false;
	if (rea_slice_equal(method, REA_SLICE_LIT("HEAD"))) {
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	} else if (sends) {
		/* Borrowed: not one copy of a large body. */
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.length > 0 ? request->body.data : "");
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.length);
	}
	set = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, name) == CURLE_OK;
	free(name);
	return set;
}

static bool set_up(struct url_delivery *delivery, struct rea_slice id)
{
	CURL *easy = delivery->transfer.easy;

	/* Each of these can fail for lack of memory; the others cannot fail. */
	if (!set_method(delivery) || !add_fields(delivery, id) ||
	    curl_easy_setopt(easy, CURLOPT_URL, delivery->url->text) != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_PROXY, "") != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_USERAGENT, "rea") != CURLE_OK ||
	    (delivery->rule->ca_file != NULL && curl_easy_setopt(easy, CURLOPT_CAINFO, delivery->rule->ca_file) != CURLE_OK))
		return false;
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, delivery->headers);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, delivery->error);
	/* One request at a time on a connection; none is refused by a server that saw it beside others. */
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	/* A reply stays as it came: nothing in it unfolds. */
	curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, delivery);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_request);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, delivery);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, delivery);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, delivery);
	return true;
}

/* ---- the beginning ---- */

/* The report of what did not even begin. */
static void finish_unsent(struct url_delivery *delivery, uint32_t code, const char *why)
{
	const struct rea_report report = {
	    .outcome = REA_OUTCOME_NEVER_SENT, .code_kind = code != 0 ? REA_CODE_ERRNO : REA_CODE_NONE, .code = code};
	char detail[DETAIL_MAX];

	snprintf(detail, sizeof(detail), "%.*s: %s", (int)delivery->url->origin.length, delivery->url->origin.data, why);
	finish(delivery, &report, detail);
}

/* host:port:address,address of those that may be connected to: what is refused one by one costs libcurl 200 ms each. The plus lets it forget them in
 * time. False = out of memory. */
static bool give_addresses(struct url_delivery *delivery, const struct addrinfo *found)
{
	char entry[sizeof("+:65535:") + VET_HOST_MAX + ADDRESSES_MAX * (LOOP_ADDRESS_MAX + 1)], address[LOOP_ADDRESS_MAX];
	size_t length = (size_t)snprintf(entry, sizeof(entry), "+%.*s:%u", (int)delivery->url->host.length,
	    delivery->url->host.data, (unsigned)delivery->url->port);

	for (unsigned count = 0; found != NULL && count < ADDRESSES_MAX; found = found->ai_next) {
		const char *refused = vet_address(found->ai_addr, &delivery->rule->allowed);

		if (refused != NULL) {
			delivery->blocked = refused;
			continue;
		}
		loop_address_host(found->ai_addr, address, sizeof(address));
		length += (size_t)snprintf(entry + length, sizeof(entry) - length, "%c%s", count > 0 ? ',' : ':', address);
		delivery->may_connect = true;
		count++;
	}
	delivery->addresses = curl_slist_append(NULL, entry);
	curl_easy_setopt(delivery->transfer.easy, CURLOPT_RESOLVE, delivery->addresses);
	return delivery->addresses != NULL;
}

static void on_found(struct lookup_wait *wait, const struct addrinfo *found, int error)
{
	struct url_delivery *delivery = REA_CONTAINER_OF(wait, struct url_delivery, wait);

	if (found == NULL)
		finish_unsent(delivery, 0, uv_strerror(error));
	else if (!give_addresses(delivery, found))
		finish_unsent(delivery, ENOMEM, "out of memory");
	else if (!delivery->may_connect)
		finish_blocked(delivery);
	else if (!transfer_begin(&delivery->urls->transfers, &delivery->transfer))
		finish_unsent(delivery, ENOMEM, "out of memory");
}

static bool begin(struct url_delivery *delivery)
{
	if (delivery->url->is_address)
		return transfer_begin(&delivery->urls->transfers, &delivery->transfer);
	return lookup_join(&delivery->urls->lookups, delivery->url->host, &delivery->wait) == 0;
}

struct delivery *deliver_to_url(struct deliver_urls *urls, const struct deliver_url_rule *rule, const struct vet_url *url,
    struct rea_slice id, const struct delivery_request *request, delivery_done done, void *user_data)
{
	struct url_delivery *delivery = transfers_ready(&urls->transfers) ? calloc(1, sizeof(*delivery)) : NULL;

	if (delivery == NULL)
		return NULL;
	delivery->delivery.cancel = on_cancel;
	delivery->urls = urls;
	delivery->rule = rule;
	delivery->url = url;
	delivery->request = request;
	delivery->done = done;
	delivery->user_data = user_data;
	delivery->timer.fire = on_deadline;
	delivery->transfer.done = on_transfer_done;
	delivery->wait.done = on_found;
	delivery->transfer.easy = curl_easy_init();
	if (delivery->transfer.easy == NULL || !set_up(delivery, id) || !begin(delivery)) {
		delivery_free(delivery);
		return NULL;
	}
	loop_timer_start(urls->loop, &delivery->timer, request->deadline_ns);
	return &delivery->delivery;
}
