/*
 * What an attempt adds to the program's request, where it goes, and how often it really goes out.
 *
 * Nothing here is copied into libcurl: the fields of rea stand as list nodes in front of the program's own list, which
 * is never written.
 */
#include "curl/internal.h"

#include "base/bounds.h"

#include <stdio.h>

/* ---- the URL ---- */

static CURLUcode copy_part(CURLU *url, CURLUPart part, unsigned flags, char *ret_text, size_t size)
{
	struct rea_format text;
	char *value;
	CURLUcode code = curl_url_get(url, part, &value, flags);

	if (code != CURLUE_OK)
		return code;
	rea_format_init(&text, ret_text, size);
	rea_format_text(&text, value);
	curl_free(value);
	/* Only a path may be cut. */
	return text.length < size || part == CURLUPART_PATH ? CURLUE_OK : CURLUE_BAD_HOSTNAME;
}

static CURLUcode parse_url(struct rea__transfer *transfer, CURLU *url)
{
	char *text = NULL;
	CURLUcode code;

	curl_easy_getinfo(transfer->easy, CURLINFO_EFFECTIVE_URL, &text);
	code = curl_url_set(url, CURLUPART_URL, text != NULL ? text : "", CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME);
	if (code == CURLUE_OK)
		code = copy_part(url, CURLUPART_PATH, 0, transfer->path, sizeof(transfer->path));
	if (code == CURLUE_OK)
		code = copy_part(url, CURLUPART_HOST, 0, transfer->host, sizeof(transfer->host));
	if (code == CURLUE_OK)
		code = copy_part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT, transfer->port, sizeof(transfer->port));
	return code;
}

int rea__request_read_url(struct rea__transfer *transfer, struct rea_error_info *info)
{
	CURLU *url = curl_url();
	CURLUcode code;

	if (url == NULL)
		return REA_ERR_NOMEM;
	code = parse_url(transfer, url);
	curl_url_cleanup(url);
	if (code == CURLUE_OUT_OF_MEMORY)
		return REA_ERR_NOMEM;
	/* Without instances an unusable URL is libcurl's to refuse. */
	if (code == CURLUE_OK || transfer->call.instances == NULL)
		return 0;
	return rea__refuse(info, "instances", REA_ERR_INVALID,
	    "the handle's URL cannot be read; with instances it must be whole, with its scheme");
}

/* ---- fields ---- */

static struct rea_slice trim(struct rea_slice text)
{
	while (text.length > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
		text = rea_slice_make(text.data + 1, text.length - 1);
	while (text.length > 0 && (text.data[text.length - 1] == ' ' || text.data[text.length - 1] == '\t'))
		text.length--;
	return text;
}

/* The value of a field in the program's list; empty = none. */
static struct rea_slice find_field(const struct curl_slist *list, struct rea_slice name)
{
	for (; list != NULL; list = list->next) {
		struct rea_slice line = rea_slice_of(list->data);

		if (line.length > name.length && line.data[name.length] == ':' &&
		    rea_slice_equal_nocase(rea_slice_make(line.data, name.length), name))
			return trim(rea_slice_make(line.data + name.length + 1, line.length - name.length - 1));
	}
	return rea_slice_make(NULL, 0);
}

static bool is_visible(struct rea_slice text)
{
	for (size_t i = 0; i < text.length; i++)
		if (text.data[i] < '!' || text.data[i] > '~')
			return false;
	return true;
}

static void put_hex(struct rea_random *random, char *text, size_t digits)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < digits; i++) {
		if (i % 16 == 0)
			bits = rea_random_next(random);
		text[i] = "0123456789abcdef"[bits & 15];
		bits >>= 4;
	}
}

/* A UUID version 4 as the structured-field string that the Idempotency-Key draft asks for. */
static void make_key(struct rea_random *random, char ret_key[39])
{
	put_hex(random, ret_key + 1, 36);
	ret_key[0] = ret_key[37] = '"';
	ret_key[9] = ret_key[14] = ret_key[19] = ret_key[24] = '-';
	ret_key[15] = '4';
	ret_key[20] = "89ab"[rea_random_below(random, 4)];
	ret_key[38] = '\0';
}

static int read_key(struct rea__transfer *transfer, struct rea_error_info *info)
{
	char *text = transfer->fields.key + sizeof(REA__CURL_KEY_NAME) - 1;
	struct rea_slice given = rea_slice_of(transfer->call.key);
	const struct rea__bound bound = {
	    "key", "the length of the key", (double)given.length, 0, REA_CURL_KEY_MAX, false, NULL};
	int error;

	transfer->key = find_field(transfer->call.headers, REA_SLICE_LIT("idempotency-key"));
	if (transfer->key.length > 0)
		return 0;
	error = rea__check_bounds(&bound, 1, info);
	if (error != 0)
		return error;
	if (!is_visible(given))
		return rea__refuse(
		    info, "key", REA_ERR_INVALID, "the key has other bytes than visible ASCII; it must have none");
	if (given.length > 0)
		memcpy(text, given.data, given.length + 1);
	else if (transfer->call.make_key)
		make_key(&transfer->curl->random, text);
	else
		return 0;
	memcpy(transfer->fields.key, REA__CURL_KEY_NAME, sizeof(REA__CURL_KEY_NAME) - 1);
	transfer->key = rea_slice_of(text);
	return 0;
}

/* "2/3": an attempt above the first means that a layer above is retrying. */
static void read_incoming(struct rea__transfer *transfer)
{
	struct rea_slice mark = trim(rea_slice_of(transfer->call.incoming_attempt));
	size_t digits = 0;

	while (digits < mark.length && mark.data[digits] >= '0' && mark.data[digits] <= '9')
		digits++;
	if (digits == 0 || (digits == 1 && mark.data[0] <= '1'))
		return;
	transfer->call.options.chained = true;
	if (is_visible(mark) && mark.length + sizeof("rea-attempt: ") <= sizeof(transfer->fields.attempt))
		transfer->passed_attempt = mark;
}

int rea__request_read_fields(struct rea__transfer *transfer, struct rea_error_info *info)
{
	int error = read_key(transfer, info);

	if (error != 0)
		return error;
	transfer->call.options.has_key = transfer->key.length > 0;
	read_incoming(transfer);
	return 0;
}

static void write_attempt(struct rea__transfer *transfer, const struct rea_decision *decision)
{
	struct rea_format line;

	rea_format_init(&line, transfer->fields.attempt, sizeof(transfer->fields.attempt));
	rea_format_text(&line, "rea-attempt: ");
	/* A retry of a layer above stays one for the layers below. */
	if (decision->attempt == 1 && transfer->passed_attempt.length > 0) {
		rea_format_bytes(&line, transfer->passed_attempt.data, transfer->passed_attempt.length);
		return;
	}
	rea_format_u64(&line, decision->attempt);
	rea_format_text(&line, "/");
	rea_format_u64(&line, decision->attempts_max);
}

static void write_deadline(struct rea__transfer *transfer, uint64_t now_ns)
{
	struct rea_format line;

	rea_format_init(&line, transfer->fields.deadline, sizeof(transfer->fields.deadline));
	rea_format_text(&line, "rea-deadline-ms: ");
	rea_format_u64(&line, rea_time_to_ms(rea_time_sub(rea_call_deadline(&transfer->decide), now_ns)));
}

/* ---- the target ---- */

/* host:port:address:port */
static void write_connect_to(struct rea__transfer *transfer)
{
	struct rea_format entry;
	char address[64];

	rea_instance_id_format(&transfer->attempt.id, address, sizeof(address));
	rea_format_init(&entry, transfer->connect_to, sizeof(transfer->connect_to));
	rea_format_text(&entry, transfer->host);
	rea_format_text(&entry, ":");
	rea_format_text(&entry, transfer->port);
	rea_format_text(&entry, ":");
	rea_format_text(&entry, address);
	transfer->connect_node = (struct curl_slist){transfer->connect_to, transfer->call.connect_to};
}

void rea__request_prepare(struct rea__transfer *transfer, const struct rea_decision *decision, uint64_t now_ns)
{
	struct rea__fields *fields = &transfer->fields;
	bool own_key = fields->key[0] != '\0';

	write_attempt(transfer, decision);
	write_deadline(transfer, now_ns);
	fields->nodes[0] = (struct curl_slist){fields->attempt, &fields->nodes[1]};
	fields->nodes[1] = (struct curl_slist){fields->deadline, own_key ? &fields->nodes[2] : transfer->call.headers};
	fields->nodes[2] = (struct curl_slist){fields->key, transfer->call.headers};
	curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, &fields->nodes[0]);
	if (transfer->call.instances == NULL)
		return;
	write_connect_to(transfer);
	curl_easy_setopt(transfer->easy, CURLOPT_CONNECT_TO, &transfer->connect_node);
}

/* ---- callbacks ---- */

static bool is_at_instance(const struct rea__transfer *transfer, const char *ip, int port)
{
	bool brackets = strchr(ip, ':') != NULL;
	struct rea_instance_id id;
	struct rea_format text;
	char address[80];

	rea_format_init(&text, address, sizeof(address));
	rea_format_text(&text, brackets ? "[" : "");
	rea_format_text(&text, ip);
	rea_format_text(&text, brackets ? "]:" : ":");
	rea_format_u64(&text, (uint64_t)port);
	return text.length < sizeof(address) && rea_instance_id_parse(address, text.length, &id) &&
	       rea_instance_id_equal(&id, &transfer->attempt.id);
}

/* libcurl calls this on a connection that stands, before each request it sends on its own or on our behalf. */
static int on_request(void *user_data, char *ip, char *local_ip, int port, int local_port)
{
	struct rea__transfer *transfer = user_data;
	struct rea__attempt *attempt = &transfer->attempt;

	/* Redirects may lead elsewhere. */
	if (transfer->call.instances != NULL && attempt->once.requests == 0 && !is_at_instance(transfer, ip, port)) {
		attempt->misplaced = true;
		return CURL_PREREQFUNC_ABORT;
	}
	if (!rea_curl_once_allows(&attempt->once, transfer->easy))
		return CURL_PREREQFUNC_ABORT;
	return transfer->call.prereq != NULL
		   ? transfer->call.prereq(transfer->call.prereq_data, ip, local_ip, port, local_port)
		   : CURL_PREREQFUNC_OK;
}

static size_t on_write(char *data, size_t size, size_t items, void *user_data)
{
	struct rea__transfer *transfer = user_data;
	bool failed = rea__curl_status_outcome(transfer->easy, transfer->call.options.policy) != REA_OUTCOME_OK;

	return rea__sink_put(&transfer->sink, REA__SINK_BODY, data, size * items, failed);
}

/* Whether more attempts can follow shows when a body begins, or at the end. */
static size_t on_header(char *data, size_t size, size_t items, void *user_data)
{
	struct rea__transfer *transfer = user_data;

	return rea__sink_put(&transfer->sink, REA__SINK_HEADER, data, size * items, true);
}

void rea__request_take_handle(struct rea__transfer *transfer)
{
	CURL *easy = transfer->easy;

	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_request);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, rea__body_read);
	curl_easy_setopt(easy, CURLOPT_READDATA, &transfer->body);
	curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, rea__body_seek);
	curl_easy_setopt(easy, CURLOPT_SEEKDATA, &transfer->body);
	if (transfer->call.write != NULL) {
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
		curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	}
	if (transfer->call.header != NULL) {
		curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
		curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	}
}

void rea__request_give_handle_back(struct rea__transfer *transfer)
{
	const struct rea_curl_call *call = &transfer->call;
	CURL *easy = transfer->easy;

	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, call->prereq);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, call->prereq_data);
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, call->read);
	curl_easy_setopt(easy, CURLOPT_READDATA, call->read != NULL || call->read_data != NULL ? call->read_data : stdin);
	curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, call->seek);
	curl_easy_setopt(easy, CURLOPT_SEEKDATA, call->seek_data);
	if (call->instances != NULL)
		curl_easy_setopt(easy, CURLOPT_CONNECT_TO, call->connect_to);
	if (call->write != NULL) {
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, call->write);
		curl_easy_setopt(easy, CURLOPT_WRITEDATA, call->write_data);
	}
	if (call->header != NULL) {
		curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, call->header);
		curl_easy_setopt(easy, CURLOPT_HEADERDATA, call->header_data);
	}
}

bool rea__request_unanswered(const struct rea__transfer *transfer)
{
	curl_off_t received = 0;

	if (transfer->call.write != NULL)
		return !transfer->sink.open;
	curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_DOWNLOAD_T, &received);
	return received == 0;
}
