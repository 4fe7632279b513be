#include "discovery/fetch.h"

#include "base/container.h"

#include <rea/error.h>
#include <rea/time.h>

#include <stdio.h>
#include <stdlib.h>

#define CONNECT_TIMEOUT_MS 2000L

static size_t on_body(char *data, size_t size, size_t length, void *user_data)
{
	struct fetch *fetch = user_data;

	(void)size;
	fetch->too_large = rea_buffer_length(&fetch->reply) + length > FETCH_REPLY_MAX;
	if (fetch->too_large || rea_buffer_append(&fetch->reply, data, length) != 0)
		return 0;
	curl_easy_getinfo(fetch->transfer.easy, CURLINFO_RESPONSE_CODE, &fetch->status);
	if (fetch->more != NULL)
		fetch->more(fetch);
	return length;
}

static size_t on_header(char *line, size_t size, size_t length, void *user_data)
{
	static const struct rea_slice name = REA_SLICE_LIT("content-md5:");
	struct fetch *fetch = user_data;
	size_t at = name.length, end = length;

	(void)size;
	if (length < name.length || !rea_slice_equal_nocase(rea_slice_make(line, name.length), name))
		return length;
	while (at < length && line[at] == ' ')
		at++;
	while (end > at && (line[end - 1] == '\r' || line[end - 1] == '\n' || line[end - 1] == ' '))
		end--;
	if (end - at == FETCH_MD5_SIZE - 1) {
		memcpy(fetch->md5, line + at, end - at);
		fetch->md5[end - at] = '\0';
	}
	return length;
}

/* What the last request left. */
static void clear(struct fetch *fetch)
{
	transfer_end(&fetch->transfer);
	curl_easy_cleanup(fetch->transfer.easy);
	fetch->transfer.easy = NULL;
	curl_slist_free_all(fetch->headers);
	fetch->headers = NULL;
	rea_buffer_clear(&fetch->reply);
	fetch->status = 0;
	fetch->timed_out = fetch->too_large = false;
	fetch->error[0] = fetch->md5[0] = '\0';
}

static bool add_headers(struct fetch *fetch, const struct fetch_request *request)
{
	for (size_t i = 0; i <= request->headers_len; i++) {
		/* No pause before a body. */
		const char *line = i < request->headers_len ? request->headers[i] : "Expect:";
		struct curl_slist *list = curl_slist_append(fetch->headers, line);

		if (list == NULL)
			return false;
		fetch->headers = list;
	}
	return true;
}

static int set_up(struct fetch *fetch, const struct fetch_request *request)
{
	CURL *easy;

	clear(fetch);
	easy = fetch->transfer.easy = curl_easy_init();
	if (easy == NULL || !add_headers(fetch, request) || curl_easy_setopt(easy, CURLOPT_URL, request->url) != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_PROXY, "") != CURLE_OK ||
	    curl_easy_setopt(easy, CURLOPT_USERAGENT, "rea") != CURLE_OK ||
	    (request->body != NULL && curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request->body) != CURLE_OK) ||
	    (request->method != NULL && curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) != CURLE_OK) ||
	    (request->ca_file != NULL && curl_easy_setopt(easy, CURLOPT_CAINFO, request->ca_file) != CURLE_OK))
		return REA_ERR_NOMEM;
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fetch->headers);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)rea_time_to_ms(request->timeout_ns));
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	/* A sum is over the bytes as they came. */
	curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, fetch->error);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, fetch);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, fetch);
	return 0;
}

static void take(struct fetch *fetch, CURLcode code)
{
	curl_easy_getinfo(fetch->transfer.easy, CURLINFO_RESPONSE_CODE, &fetch->status);
	fetch->timed_out = code == CURLE_OPERATION_TIMEDOUT;
	if (code == CURLE_OK)
		fetch->error[0] = '\0';
	else if (fetch->too_large)
		snprintf(fetch->error, sizeof(fetch->error), "the reply is larger than 16 MiB");
	else if (fetch->error[0] == '\0')
		snprintf(fetch->error, sizeof(fetch->error), "%s", curl_easy_strerror(code));
}

static void on_transfer_done(struct transfer *transfer, CURLcode code)
{
	struct fetch *fetch = REA_CONTAINER_OF(transfer, struct fetch, transfer);

	take(fetch, code);
	fetch->done(fetch);
}

int fetch_begin(struct fetch *fetch, const struct fetch_request *request)
{
	fetch->transfer.done = on_transfer_done;
	if (!transfers_ready(fetch->transfers) || set_up(fetch, request) != 0 ||
	    !transfer_begin(fetch->transfers, &fetch->transfer)) {
		clear(fetch);
		return REA_ERR_NOMEM;
	}
	return 0;
}

int fetch_wait(struct fetch *fetch, const struct fetch_request *request)
{
	int error = set_up(fetch, request);

	if (error == 0)
		take(fetch, curl_easy_perform(fetch->transfer.easy));
	return error;
}

void fetch_end(struct fetch *fetch)
{
	clear(fetch);
	rea_buffer_fini(&fetch->reply);
}
