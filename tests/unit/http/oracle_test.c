/*
 * The table of messages: each is understood, or refused with its error, the same however it is cut; and other readers
 * agree, or the table says why they do not.
 */
#include "http/http.h"
#include "http_parser_reader.h"
#include "recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum kind { REQUEST, RESPONSE, RESPONSE_HEAD };

struct message {
	enum kind kind;
	char name[64];
	char expect[64];
	char *bytes;
	size_t length;
	char reason[512]; /* "READER...: why" */
};

static struct message messages[512];
static size_t messages_len;

/* ---- the table ---- */

static size_t unescape(const char *text, const char *end, char *out)
{
	char *p = out;

	for (; text < end; text++) {
		unsigned byte;

		if (*text != '\\') {
			*p++ = *text;
			continue;
		}
		text++;
		if (*text == 'x' && sscanf(text + 1, "%2x", &byte) == 1) {
			*p++ = (char)byte;
			text += 2;
		} else {
			*p++ = (char)(*text == 'r' ? '\r' : *text == 'n' ? '\n' : *text == 't' ? '\t' : *text);
		}
	}
	return (size_t)(p - out);
}

static void read_message(const char *line, struct message *m)
{
	char kind[32];
	const char *first = strchr(line, '"'), *last = strrchr(line, '"');

	if (first == NULL || first == last || sscanf(line, "%31s %63s %63s", kind, m->name, m->expect) != 3)
		fail_msg("not a message: %s", line);
	m->kind = strcmp(kind, "request") == 0 ? REQUEST : strcmp(kind, "response") == 0 ? RESPONSE : RESPONSE_HEAD;
	m->bytes = malloc((size_t)(last - first));
	assert_non_null(m->bytes);
	m->length = unescape(first + 1, last, m->bytes);
}

static int read_table(void **state)
{
	FILE *file = fopen(MESSAGES, "r");
	char line[2048];

	(void)state;
	if (file == NULL)
		return -1;
	while (fgets(line, sizeof(line), file) != NULL) {
		if (line[0] == '\t' && messages_len > 0)
			snprintf(messages[messages_len - 1].reason, sizeof(messages[0].reason), "%.500s", line + 1);
		else if (line[0] != '#' && line[0] != '\n' && messages_len < sizeof(messages) / sizeof(*messages))
			read_message(line, &messages[messages_len++]);
	}
	fclose(file);
	return messages_len > 100 ? 0 : -1;
}

static int drop_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < messages_len; i++)
		free(messages[i].bytes);
	return 0;
}

/* ---- ours ---- */

static enum http_error error_named(const char *name)
{
	static const char *const names[] = {"ok",
#define X(id, english, status) #id,
	    HTTP_ERROR_MAP(X)
#undef X
	};

	for (unsigned i = 0; i < HTTP_ERROR_COUNT; i++)
		if (strcmp(name, names[i]) == 0)
			return (enum http_error)i;
	fail_msg("no such error: %s", name);
	return HTTP_ERROR_NONE;
}

/*
 * The session's log after the message came in pieces: the first cut bytes, then step by step. Then what the server
 * sent.
 */
static char *log_of_request(const struct message *m, size_t cut, size_t step)
{
	struct recorder recorder = {.answer = "bye"};
	struct http_server *server = h1_server_new(&server_events, &limits, &recorder);
	size_t at = cut;
	char *log;
	const char *text;

	(void)http_server_receive(server, m->bytes, cut);
	for (; at < m->length; at += step)
		(void)http_server_receive(server, m->bytes + at, m->length - at < step ? m->length - at : step);
	text = recorder_text(&recorder);
	log = malloc(strlen(text) + rea_buffer_length(&server->out) * 4 + 64);
	assert_non_null(log);
	sprintf(log, "%serror %u close %d\n%s", text, (unsigned)server->error, server->want_close, taken(&server->out));
	http_server_free(server);
	recorder_fini(&recorder);
	return log;
}

static char *log_of_response(const struct message *m, size_t cut, size_t step)
{
	struct recorder recorder = {0};
	struct http_client *client = h1_client_new(&client_events, &limits, &recorder);
	struct http_request_head head = {.method = m->kind == RESPONSE_HEAD ? REA_SLICE_LIT("HEAD") : REA_SLICE_LIT("GET"),
	    .authority = REA_SLICE_LIT("a"),
	    .path = REA_SLICE_LIT("/")};
	size_t at = cut;
	char *log;

	assert_int_equal(http_client_finish(http_client_begin(client, &head, NULL), NULL, 0), 0);
	(void)http_client_receive(client, m->bytes, cut);
	for (; at < m->length; at += step)
		(void)http_client_receive(client, m->bytes + at, m->length - at < step ? m->length - at : step);
	http_client_eof(client);
	log = strdup(recorder_text(&recorder));
	http_client_free(client);
	recorder_fini(&recorder);
	return log;
}

static char *log_of(const struct message *m, size_t cut, size_t step)
{
	return m->kind == REQUEST ? log_of_request(m, cut, step) : log_of_response(m, cut, step);
}

static bool contains(const char *text, const char *what)
{
	return strstr(text, what) != NULL;
}

static void each_message_is_understood_or_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < messages_len; i++) {
		const struct message *m = &messages[i];
		enum http_error expect = error_named(m->expect);
		char *log = log_of(m, m->length, 1), wanted[128];

		if (expect == HTTP_ERROR_NONE)
			snprintf(wanted, sizeof(wanted), "end");
		else if (m->kind == REQUEST)
			snprintf(wanted, sizeof(wanted), "HTTP/1.1 %u ", (unsigned)http_error_status(expect));
		else
			snprintf(wanted, sizeof(wanted), "error: %s\n", http_error_text(expect));
		if (!contains(log, wanted) || (expect != HTTP_ERROR_NONE && !contains(log, http_error_text(expect))) ||
		    (expect == HTTP_ERROR_NONE &&
			(contains(log, "error: ") || (m->kind == REQUEST && !contains(log, "HTTP/1.1 200 OK\\r\\n") &&
							 !contains(log, "HTTP/1.1 405 ")))))
			fail_msg("%s: expected %s, got\n%s", m->name, m->expect, log);
		free(log);
	}
}

static void cuts_change_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < messages_len; i++) {
		const struct message *m = &messages[i];
		char *whole = log_of(m, m->length, 1);

		for (size_t cut = 0; cut < m->length; cut++) {
			char *once = log_of(m, cut, m->length), *drip = log_of(m, cut, 1);

			if (strcmp(whole, once) != 0 || strcmp(whole, drip) != 0)
				fail_msg("%s cut at %zu: whole\n%s\nin two\n%s\nbyte by byte\n%s", m->name, cut, whole,
				    once, drip);
			free(once);
			free(drip);
		}
		free(whole);
	}
}

/* ---- what a message means: "METHOD TARGET [name:value]... body=...", or "STATUS ..." ---- */

struct meaning {
	struct rea_buffer target; /* as received, or as we split and joined it */
	struct rea_buffer rest;
	bool complete;
};

static void meaning_fini(struct meaning *meaning)
{
	rea_buffer_fini(&meaning->target);
	rea_buffer_fini(&meaning->rest);
}

static void add(struct rea_buffer *buffer, const char *data, size_t length)
{
	assert_int_equal(rea_buffer_append(buffer, data, length), 0);
}

static void add_fields(struct rea_buffer *buffer, const struct http_field *fields, size_t fields_len)
{
	for (size_t i = 0; i < fields_len; i++) {
		add(buffer, " [", 2);
		add(buffer, fields[i].name.data, fields[i].name.length);
		add(buffer, ":", 1);
		add(buffer, fields[i].value.data, fields[i].value.length);
		add(buffer, "]", 1);
	}
	add(buffer, " body=", 6);
}

static void our_request(struct http_server_stream *stream, const struct http_request *request)
{
	struct meaning *meaning = http_server_owner(stream->session);

	add(&meaning->target, request->method.data, request->method.length);
	add(&meaning->target, " ", 1);
	if (request->absolute_form) {
		add(&meaning->target, request->scheme.data, request->scheme.length);
		add(&meaning->target, "://", 3);
	}
	if (request->absolute_form || request->method_id == HTTP_CONNECT)
		add(&meaning->target, request->authority.data, request->authority.length);
	add(&meaning->target, request->path.data, request->path.length);
	add_fields(&meaning->rest, request->fields, request->fields_len);
}

static void our_body(struct http_server_stream *stream, const char *data, size_t length)
{
	add(&((struct meaning *)http_server_owner(stream->session))->rest, data, length);
}

static void our_end(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	(void)trailers;
	(void)trailers_len;
	((struct meaning *)http_server_owner(stream->session))->complete = true;
}

static void our_abort(struct http_server_stream *stream, enum http_error error)
{
	(void)stream;
	(void)error;
}

static void our_response(struct http_client_stream *stream, const struct http_response *response)
{
	struct meaning *meaning = http_client_owner(stream->session);

	assert_int_equal(rea_buffer_append_u64(&meaning->target, response->status), 0);
	add_fields(&meaning->rest, response->fields, response->fields_len);
}

static void our_interim(struct http_client_stream *stream, const struct http_response *response)
{
	(void)stream;
	(void)response;
}

static void our_response_body(struct http_client_stream *stream, const char *data, size_t length)
{
	add(&((struct meaning *)http_client_owner(stream->session))->rest, data, length);
}

static void our_response_end(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	(void)trailers;
	(void)trailers_len;
	((struct meaning *)http_client_owner(stream->session))->complete = true;
}

static void our_error(struct http_client_stream *stream, enum http_error error)
{
	(void)stream;
	(void)error;
}

static void understand(const struct message *m, struct meaning *meaning)
{
	static const struct http_server_events server = {
	    .on_request = our_request, .on_body = our_body, .on_body_end = our_end, .on_abort = our_abort};
	static const struct http_client_events client = {.on_interim = our_interim,
	    .on_response = our_response,
	    .on_body = our_response_body,
	    .on_body_end = our_response_end,
	    .on_error = our_error};

	if (m->kind == REQUEST) {
		struct http_server *s = h1_server_new(&server, &limits, meaning);

		(void)http_server_receive(s, m->bytes, m->length);
		http_server_free(s);
	} else {
		struct http_client *c = h1_client_new(&client, &limits, meaning);
		struct http_request_head head = {
		    .method = m->kind == RESPONSE_HEAD ? REA_SLICE_LIT("HEAD") : REA_SLICE_LIT("GET")};

		assert_int_equal(http_client_finish(http_client_begin(c, &head, NULL), NULL, 0), 0);
		(void)http_client_receive(c, m->bytes, m->length);
		http_client_eof(c);
		http_client_free(c);
	}
}

/* ---- agreeing ---- */

/* Their target is as received; ours has lost whether an absolute one had a path. */
static bool same_target(const char *ours, const char *theirs)
{
	const char *authority = strstr(ours, "://"), *path = authority ? strpbrk(authority + 3, "/*") : NULL;
	size_t before = path ? (size_t)(path - ours) : 0;

	if (strcmp(ours, theirs) == 0)
		return true;
	return path && strncmp(ours, theirs, before) == 0 && strcmp(path + 1, theirs + before) == 0;
}

static bool same_meaning(struct meaning *ours, const char *theirs)
{
	char *target = strdup(taken(&ours->target)), *rest = strdup(taken(&ours->rest)), *copy = strdup(theirs);
	size_t target_len = strlen(copy) - (strlen(copy) < strlen(rest) ? strlen(copy) : strlen(rest));
	bool same = strcmp(copy + target_len, rest) == 0;

	copy[target_len] = '\0';
	same = same && same_target(target, copy);
	if (!same)
		print_error("ours:   %s%s\ntheirs: %s\n", target, rest, theirs);
	free(target);
	free(rest);
	free(copy);
	return same;
}

/* Is the reader, or the kind of reader it is a version of, among the words before the colon? */
static bool explained(const struct message *m, const char *reader)
{
	size_t end = strcspn(m->reason, ":"), length;

	for (const char *word = m->reason; word < m->reason + end; word += length + 1) {
		length = strcspn(word, " :");
		if (strncmp(word, reader, length) == 0 && (reader[length] == '\0' || strcmp(reader + length, "-6") == 0))
			return true;
	}
	return false;
}

/* theirs: "refused", or the meaning, escaped. 1 = they do not agree, and it was said how. */
static unsigned compare(const struct message *m, const char *reader, const char *theirs)
{
	struct meaning ours = {0};
	bool accepted = strcmp(theirs, "refused") != 0;
	const char *complaint = NULL;

	understand(m, &ours);
	assert_int_equal(ours.complete, strcmp(m->expect, "ok") == 0);
	if (ours.complete && !accepted)
		complaint = "refuses what we accept";
	else if (ours.complete && !same_meaning(&ours, theirs))
		complaint = "understands something else";
	else if (!ours.complete && accepted && !explained(m, reader))
		complaint = "accepts what we refuse, and the table does not say why";
	else if (explained(m, reader) && !accepted)
		complaint = "refuses it too: the table is out of date";
	if (complaint != NULL)
		print_error("%s: %s %s\n", m->name, reader, complaint);
	meaning_fini(&ours);
	return complaint != NULL;
}

/* ---- llhttp ---- */

static const struct message *message_named(const char *name)
{
	for (size_t i = 0; i < messages_len; i++)
		if (strcmp(messages[i].name, name) == 0)
			return &messages[i];
	fail_msg("no message %s", name);
	return NULL;
}

static void llhttp_agrees(void **state)
{
	const char *reader;
	FILE *node = NULL;
	char line[8192];
	size_t seen = 0;
	unsigned complaints = 0;

	(void)state;
	if (system("node --version >/dev/null 2>&1") == 0)
		node = popen("node --no-deprecation " LLHTTP_JS " " MESSAGES, "r");
	if (node == NULL) {
		print_message("SKIPPED: no node, no comparison with llhttp\n");
		skip();
	}
	assert_non_null(fgets(line, sizeof(line), node));
	reader = strncmp(line, "6.", 2) == 0 ? "llhttp-6" : "llhttp";
	while (fgets(line, sizeof(line), node) != NULL) {
		char *tab = strchr(line, '\t');

		assert_non_null(tab);
		*tab = '\0';
		tab[strcspn(tab + 1, "\n") + 1] = '\0';
		complaints += compare(message_named(line), reader, tab + 1);
		seen++;
	}
	assert_int_equal(pclose(node), 0);
	assert_int_equal(seen, messages_len);
	assert_int_equal(complaints, 0);
}

/* ---- http-parser ---- */

static void http_parser_agrees(void **state)
{
	(void)state;
#ifdef HAVE_HTTP_PARSER
	unsigned complaints = 0;

	for (size_t i = 0; i < messages_len; i++) {
		struct rea_buffer text = {0};
		bool accepted = http_parser_reads(messages[i].kind == REQUEST, messages[i].kind == RESPONSE_HEAD,
		    messages[i].bytes, messages[i].length, &text);
		char *theirs = strdup(accepted ? taken(&text) : "refused");

		complaints += compare(&messages[i], "http-parser", theirs);
		free(theirs);
		rea_buffer_fini(&text);
	}
	assert_int_equal(complaints, 0);
#else
	print_message("SKIPPED: built without http_parser.h, no comparison with http-parser\n");
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_message_is_understood_or_refused),
	    cmocka_unit_test(cuts_change_nothing),
	    cmocka_unit_test(llhttp_agrees),
	    cmocka_unit_test(http_parser_agrees),
	};

	return cmocka_run_group_tests(tests, read_table, drop_table);
}
