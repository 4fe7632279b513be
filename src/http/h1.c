/*
 * The HTTP/1.1 codec.
 *
 * A head is searched for its end with memchr as it comes in, then read in one pass: names by table, values eight bytes
 * at a time. Every line of a section ends in CRLF and the last one is empty when it gets here, so a scan that stops at
 * CR cannot run past the end.
 */
#include "http/h1.h"

#include <rea/error.h>

#include <assert.h>

/* ---- characters ---- */

enum {
	TOKEN = 1,  /* tchar of RFC 9110 */
	TARGET = 2, /* visible ASCII but '#': a fragment is never sent */
	HOST = 4,   /* unreserved and sub-delims of RFC 3986: a name or an IPv4 address, but for %xx */
	HEX = 8,
};

/* clang-format off */
static const uint8_t classes[256] = {
	 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0, /* 00 */
	 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0, /* 10 */
	 0,  7,  2,  1,  7,  3,  7,  7,  6,  6,  7,  7,  6,  7,  7,  2, /* 20 */
	15, 15, 15, 15, 15, 15, 15, 15, 15, 15,  2,  6,  2,  6,  2,  2, /* 30 */
	 2, 15, 15, 15, 15, 15, 15,  7,  7,  7,  7,  7,  7,  7,  7,  7, /* 40 */
	 7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  2,  2,  2,  3,  7, /* 50 */
	 3, 15, 15, 15, 15, 15, 15,  7,  7,  7,  7,  7,  7,  7,  7,  7, /* 60 */
	 7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  2,  3,  2,  7,  0, /* 70 */
};
/* clang-format on */

static bool is(char c, unsigned class)
{
	return (classes[(unsigned char)c] & class) != 0;
}

static const char *skip(const char *p, unsigned class)
{
	while (is(*p, class))
		p++;
	return p;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Some byte of the word is below 0x20 or is 0x7f. Exact as a whole; which byte it is the caller finds. */
static bool has_control(uint64_t word)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
	uint64_t del = word ^ ones * 0x7f;

	return (((word - ones * 0x20) & ~word) | ((del - ones) & ~del)) & highs;
}

/* The first byte that no value may hold: a control character but HTAB. There is one before end: the line's CR. */
static const char *skip_text(const char *p, const char *end)
{
	for (;;) {
		uint64_t word;

		while (end - p >= 8 && (memcpy(&word, p, 8), !has_control(word)))
			p += 8;
		for (int i = 0; i < 8 && ((unsigned char)*p >= ' ' || *p == '\t') && *p != 0x7f; i++)
			p++;
		if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
			return p;
	}
}

/* p is where something else was expected inside a line. */
static enum http_error error_at(const char *p, enum http_error otherwise)
{
	return *p == '\r' && p[1] != '\n' ? HTTP_ERROR_BAD_LINE_END : otherwise;
}

/* ---- sections ---- */

void h1_section_fini(struct h1_section *section)
{
	rea_buffer_fini(&section->bytes);
	section->line = 0;
}

void h1_section_clear(struct h1_section *section)
{
	rea_buffer_clear(&section->bytes);
	section->line = 0;
}

/* How many bytes of data end the section (one_line: its first line); 0 = the end is not there. */
static size_t find_end(struct h1_section *section, bool one_line, const char *data, size_t length, enum http_error *ret_error)
{
	size_t had = rea_buffer_length(&section->bytes), at = 0;
	const char *lf;

	while (at < length && (lf = memchr(data + at, '\n', length - at)) != NULL) {
		char before = lf > data ? lf[-1] : had > 0 ? rea_buffer_data(&section->bytes)[had - 1] : '\0';

		at = (size_t)(lf - data) + 1;
		if (before != '\r') {
			*ret_error = HTTP_ERROR_BAD_LINE_END;
			return 0;
		}
		if (one_line || had + at == section->line + 2)
			return at;
		section->line = had + at;
	}
	return 0;
}

static enum http_error take(
    struct h1_section *section, size_t max, bool one_line, bool keep, struct rea_slice *in, struct rea_slice *ret_whole)
{
	size_t had = rea_buffer_length(&section->bytes), room = max - had;
	size_t length = in->length < room ? in->length : room, used;
	enum http_error error = HTTP_ERROR_NONE;

	*ret_whole = rea_slice_make(NULL, 0);
	used = find_end(section, one_line, in->data, length, &error);
	if (error != HTTP_ERROR_NONE)
		return error;
	if (used == 0 && in->length >= room)
		return HTTP_ERROR_HEAD_TOO_LARGE;
	if (used > 0 && had == 0 && !keep) {
		*ret_whole = rea_slice_make(in->data, used);
	} else {
		if (rea_buffer_append(&section->bytes, in->data, used > 0 ? used : length) != 0)
			return HTTP_ERROR_NOMEM;
		if (used > 0)
			*ret_whole = rea_slice_make(rea_buffer_data(&section->bytes), had + used);
	}
	if (used == 0)
		used = length;
	in->data += used;
	in->length -= used;
	return HTTP_ERROR_NONE;
}

enum http_error h1_section_take(
    struct h1_section *section, size_t max, bool keep, struct rea_slice *in, struct rea_slice *ret_whole)
{
	return take(section, max, false, keep, in, ret_whole);
}

/* ---- fields ---- */

void h1_fields_fini(struct h1_fields *fields)
{
	const struct rea_alloc *alloc = rea_alloc_default();

	alloc->free(fields->items, alloc->user_data);
	*fields = (struct h1_fields){NULL, 0, 0};
}

static enum http_error grow(struct h1_fields *fields, size_t max)
{
	const struct rea_alloc *alloc = rea_alloc_default();
	size_t capacity = fields->capacity ? fields->capacity * 2 : 24;
	struct http_field *items;

	if (fields->length >= max)
		return HTTP_ERROR_TOO_MANY_FIELDS;
	if (capacity > max)
		capacity = max;
	items = alloc->realloc(fields->items, capacity * sizeof(*items), alloc->user_data);
	if (items == NULL)
		return HTTP_ERROR_NOMEM;
	fields->items = items;
	fields->capacity = capacity;
	return HTTP_ERROR_NONE;
}

#define MASK(id) (UINT64_C(1) << HTTP_FIELD_##id)
#define CONNECTION_LEVEL                                                                           \
	(MASK(CONNECTION) | MASK(KEEP_ALIVE) | MASK(PROXY_CONNECTION) | MASK(PROXY_AUTHENTICATE) | \
	    MASK(PROXY_AUTHORIZATION) | MASK(TE) | MASK(TRAILER) | MASK(TRANSFER_ENCODING) | MASK(UPGRADE))
_Static_assert(HTTP_FIELD_COUNT <= 64, "a set of field ids fits in 64 bits");

static bool in_set(uint8_t id, uint64_t set)
{
	return (set >> id & 1) != 0;
}

/* One line from *at, its CRLF included. */
static enum http_error read_field(const char **at, const char *end, struct http_field *ret_field)
{
	const char *name = *at, *colon = skip(name, TOKEN), *value, *stop;

	if (is_blank(*name))
		return HTTP_ERROR_OBS_FOLD;
	if (colon == name || *colon != ':')
		return error_at(colon, HTTP_ERROR_BAD_FIELD);
	for (value = colon + 1; is_blank(*value); value++)
		;
	stop = skip_text(value, end);
	if (*stop != '\r' || stop[1] != '\n')
		return error_at(stop, HTTP_ERROR_BAD_FIELD);
	*at = stop + 2;
	while (stop > value && is_blank(stop[-1]))
		stop--;
	ret_field->name = rea_slice_make(name, (size_t)(colon - name));
	ret_field->value = rea_slice_make(value, (size_t)(stop - value));
	ret_field->id = (uint8_t)http_field_id_of(ret_field->name);
	ret_field->hop_by_hop = in_set(ret_field->id, CONNECTION_LEVEL);
	return HTTP_ERROR_NONE;
}

/* The lines from p to the empty one that ends at end. */
static enum http_error read_fields(const char *p, const char *end, size_t max, struct h1_fields *fields)
{
	enum http_error error = HTTP_ERROR_NONE;

	fields->length = 0;
	while (end - p > 2) {
		if (fields->length == fields->capacity || fields->length >= max)
			error = grow(fields, max);
		if (error == HTTP_ERROR_NONE)
			error = read_field(&p, end, &fields->items[fields->length]);
		if (error != HTTP_ERROR_NONE)
			return error;
		fields->length++;
	}
	return HTTP_ERROR_NONE;
}

/* ---- what the fields of a head say together ---- */

struct facts {
	uint64_t length; /* Content-Length, when has_length */
	bool has_length;
	bool chunked;
	bool close; /* options of Connection */
	bool keep_alive;
	bool upgrade;
	bool has_upgrade;
	bool expects;
	bool expects_unknown;
	unsigned connection_options;
	unsigned hosts;
	struct rea_slice host;
};

static void mark_hop_by_hop(struct h1_fields *fields, struct rea_slice name)
{
	for (size_t i = 0; i < fields->length; i++)
		if (rea_slice_equal_nocase(fields->items[i].name, name))
			fields->items[i].hop_by_hop = true;
}

static void connection_option(struct rea_slice option, struct h1_fields *fields, struct facts *facts)
{
	if (rea_slice_equal_nocase(option, REA_SLICE_LIT("close")))
		facts->close = true;
	else if (rea_slice_equal_nocase(option, REA_SLICE_LIT("keep-alive")))
		facts->keep_alive = true;
	else if (rea_slice_equal_nocase(option, REA_SLICE_LIT("upgrade")))
		facts->upgrade = true;
	else if (http_field_id_of(option) == HTTP_FIELD_OTHER)
		mark_hop_by_hop(fields, option);
	/* The known ones are connection-level already, or not for Connection to remove. */
}

/* A list of tokens, separated by commas and blanks; empty elements are allowed. */
static enum http_error connection_options(struct rea_slice value, struct h1_fields *fields, struct facts *facts)
{
	const char *p = value.data, *end = p + value.length;

	while (p < end) {
		const char *option = p, *after = skip(p, TOKEN); /* the line's CR stops it at the latest */

		for (p = after; p < end && is_blank(*p); p++)
			;
		if (p < end && *p++ != ',')
			return HTTP_ERROR_BAD_FIELD;
		while (p < end && is_blank(*p))
			p++;
		if (after == option)
			continue;
		if (++facts->connection_options > H1_CONNECTION_OPTIONS_MAX)
			return HTTP_ERROR_BAD_FIELD;
		connection_option(rea_slice_make(option, (size_t)(after - option)), fields, facts);
	}
	return HTTP_ERROR_NONE;
}

static enum http_error learn(const struct http_field *field, struct h1_fields *fields, struct facts *facts)
{
	switch (field->id) {
	case HTTP_FIELD_CONTENT_LENGTH:
		if (facts->has_length || !rea_slice_to_u64(field->value, &facts->length) || facts->length > INT64_MAX)
			return HTTP_ERROR_BAD_LENGTH;
		facts->has_length = true;
		return HTTP_ERROR_NONE;
	case HTTP_FIELD_TRANSFER_ENCODING:
		if (facts->chunked || !rea_slice_equal_nocase(field->value, REA_SLICE_LIT("chunked")))
			return HTTP_ERROR_BAD_ENCODING;
		facts->chunked = true;
		return HTTP_ERROR_NONE;
	case HTTP_FIELD_CONNECTION:
		return connection_options(field->value, fields, facts);
	case HTTP_FIELD_UPGRADE:
		facts->has_upgrade = true;
		return HTTP_ERROR_NONE;
	case HTTP_FIELD_HOST:
		facts->host = field->value;
		facts->hosts++;
		return HTTP_ERROR_NONE;
	case HTTP_FIELD_EXPECT:
		if (rea_slice_equal_nocase(field->value, REA_SLICE_LIT("100-continue")))
			facts->expects = true;
		else
			facts->expects_unknown = true;
		return HTTP_ERROR_NONE;
	default:
		return HTTP_ERROR_NONE;
	}
}

static enum http_error learn_all(struct h1_fields *fields, uint8_t version, struct facts *ret_facts)
{
	*ret_facts = (struct facts){0};
	for (size_t i = 0; i < fields->length; i++) {
		enum http_error error;

		if (fields->items[i].id == HTTP_FIELD_OTHER)
			continue;
		error = learn(&fields->items[i], fields, ret_facts);
		if (error != HTTP_ERROR_NONE)
			return error;
	}
	if (ret_facts->has_length && ret_facts->chunked)
		return HTTP_ERROR_LENGTH_AND_ENCODING;
	if (ret_facts->chunked && version == 10)
		return HTTP_ERROR_BAD_ENCODING;
	return HTTP_ERROR_NONE;
}

static bool persistent(const struct facts *facts, uint8_t version)
{
	return !facts->close && (version == 11 || facts->keep_alive);
}

/* "HTTP/1.1", nothing after it. */
static enum http_error read_version(const char *p, enum http_error malformed, uint8_t *ret_version)
{
	static const char prefix[] = "HTTP/";

	for (size_t i = 0; i < sizeof(prefix) - 1; i++, p++)
		if (*p != prefix[i])
			return error_at(p, malformed);
	if (*p < '0' || *p > '9' || p[1] != '.' || p[2] < '0' || p[2] > '9')
		return malformed;
	if (*p != '1' || p[2] > '1')
		return HTTP_ERROR_BAD_VERSION;
	*ret_version = p[2] == '1' ? 11 : 10;
	return HTTP_ERROR_NONE;
}
#define VERSION_LENGTH 8

/* ---- requests ---- */

bool h1_request_may_begin(char c)
{
	return is(c, TOKEN) || c == '\r' || c == '\n';
}

/* Which of two methods of the same length. */
static enum http_method which(struct rea_slice m, const char *a, enum http_method a_id, const char *b, enum http_method b_id)
{
	if (memcmp(m.data, a, m.length) == 0)
		return a_id;
	return memcmp(m.data, b, m.length) == 0 ? b_id : HTTP_OTHER;
}

enum http_method h1_method_of(struct rea_slice m)
{
	switch (m.length) {
	case 3:
		return which(m, "GET", HTTP_GET, "PUT", HTTP_PUT);
	case 4:
		return which(m, "POST", HTTP_POST, "HEAD", HTTP_HEAD);
	case 5:
		return which(m, "PATCH", HTTP_PATCH, "TRACE", HTTP_TRACE);
	case 6:
		return memcmp(m.data, "DELETE", 6) == 0 ? HTTP_DELETE : HTTP_OTHER;
	case 7:
		return which(m, "OPTIONS", HTTP_OPTIONS, "CONNECT", HTTP_CONNECT);
	default:
		return HTTP_OTHER;
	}
}

static bool port_valid(const char *p, const char *end)
{
	uint64_t port;

	if (end - p > 5 || !rea_slice_to_u64(rea_slice_make(p, (size_t)(end - p)), &port))
		return false;
	return port >= 1 && port <= UINT16_MAX;
}

/* Where the host that begins at p ends; NULL when it is malformed. */
static const char *host_end(const char *p, const char *end)
{
	const char *begin = p;

	if (p < end && *p == '[') {
		for (p++; p < end && (is(*p, HEX) || *p == ':' || *p == '.'); p++)
			;
		return p < end && *p == ']' && p > begin + 1 ? p + 1 : NULL;
	}
	while (p < end && (is(*p, HOST) || *p == '%')) {
		if (*p == '%' && (end - p < 3 || !is(p[1], HEX) || !is(p[2], HEX)))
			return NULL;
		p += *p == '%' ? 3 : 1;
	}
	return p > begin ? p : NULL;
}

bool h1_target_valid(struct rea_slice target)
{
	for (size_t i = 0; i < target.length; i++)
		if (!is(target.data[i], TARGET))
			return false;
	return true;
}

/* host [":" port], no user in front. */
bool h1_authority_valid(struct rea_slice authority, bool need_port)
{
	const char *end = authority.data + authority.length, *p = host_end(authority.data, end);

	if (p == NULL)
		return false;
	return p == end ? !need_port : *p == ':' && port_valid(p + 1, end);
}

static bool starts_nocase(struct rea_slice s, struct rea_slice prefix)
{
	return s.length >= prefix.length && rea_slice_equal_nocase(rea_slice_make(s.data, prefix.length), prefix);
}

static size_t scheme_length(struct rea_slice target)
{
	if (starts_nocase(target, REA_SLICE_LIT("http://")))
		return 4;
	return starts_nocase(target, REA_SLICE_LIT("https://")) ? 5 : 0;
}

/* http://authority[/path][?query] */
static bool absolute_form(char *target, size_t length, struct http_request *request)
{
	size_t scheme = scheme_length(rea_slice_make(target, length));
	size_t begin = scheme + 3, at = begin;

	if (scheme == 0)
		return false;
	while (at < length && target[at] != '/' && target[at] != '?')
		at++;
	request->absolute_form = true;
	request->scheme = rea_slice_make(target, scheme);
	request->authority = rea_slice_make(target + begin, at - begin);
	request->path = rea_slice_make(target + at, length - at);
	if (at == length) {
		request->path = request->method_id == HTTP_OPTIONS ? REA_SLICE_LIT("*") : REA_SLICE_LIT("/");
	} else if (target[at] == '?') {
		memmove(target + begin - 1, target + begin, at - begin);
		target[at - 1] = '/';
		request->authority.data--;
		request->path = rea_slice_make(target + at - 1, length - at + 1);
	}
	return h1_authority_valid(request->authority, false);
}

static bool read_target(char *target, size_t length, struct http_request *request)
{
	request->path = rea_slice_make(target, length);
	if (request->method_id == HTTP_CONNECT) {
		request->authority = request->path;
		request->path = rea_slice_make(target, 0);
		return h1_authority_valid(request->authority, true);
	}
	if (*target == '/')
		return true;
	if (*target == '*')
		return length == 1 && request->method_id == HTTP_OPTIONS;
	return absolute_form(target, length, request);
}

/* method SP target SP version CRLF; *at moves to the first field. */
static enum http_error read_request_line(char **at, struct http_request *request)
{
	char *method = *at, *target, *version;
	const char *end = skip(method, TOKEN);
	enum http_error error;

	if (end == method || *end != ' ')
		return error_at(end, HTTP_ERROR_BAD_REQUEST_LINE);
	request->method = rea_slice_make(method, (size_t)(end - method));
	request->method_id = h1_method_of(request->method);
	target = method + request->method.length + 1;
	end = skip(target, TARGET);
	if (*end == '#' || (unsigned char)*end >= 0x80)
		return HTTP_ERROR_BAD_TARGET;
	if (end == target || *end != ' ')
		return error_at(end, HTTP_ERROR_BAD_REQUEST_LINE);
	version = target + (end - target) + 1;
	error = read_version(version, HTTP_ERROR_BAD_REQUEST_LINE, &request->version);
	if (error != HTTP_ERROR_NONE)
		return error;
	if (version[VERSION_LENGTH] != '\r' || version[VERSION_LENGTH + 1] != '\n')
		return error_at(version + VERSION_LENGTH, HTTP_ERROR_BAD_REQUEST_LINE);
	*at = version + VERSION_LENGTH + 2;
	return read_target(target, (size_t)(end - target), request) ? HTTP_ERROR_NONE : HTTP_ERROR_BAD_TARGET;
}

static bool hosts_valid(const struct facts *facts, uint8_t version)
{
	if (facts->hosts == 0)
		return version == 10;
	return facts->hosts == 1 && h1_authority_valid(facts->host, false);
}

static enum http_error judge_request(const struct facts *facts, struct http_request *request)
{
	bool body = facts->chunked || facts->length > 0;

	if (!hosts_valid(facts, request->version))
		return HTTP_ERROR_BAD_HOST;
	/* What follows is the tunnel's: no two readers agree on such a body. */
	if (request->method_id == HTTP_CONNECT && body)
		return HTTP_ERROR_BAD_LENGTH;
	if (request->version == 11 && facts->expects_unknown)
		return HTTP_ERROR_EXPECTATION;
	if (!request->absolute_form && request->method_id != HTTP_CONNECT)
		request->authority = facts->host;
	request->body_length = facts->chunked ? HTTP_LENGTH_UNKNOWN : facts->length;
	request->expect_continue = request->version == 11 && facts->expects && body;
	request->upgrade = request->version == 11 && facts->upgrade && facts->has_upgrade;
	return HTTP_ERROR_NONE;
}

enum http_error h1_request_parse(char *head, size_t length, const struct http_limits *limits, struct h1_fields *fields,
    struct http_request *ret_request, enum h1_framing *ret_framing, bool *ret_persistent)
{
	struct http_request request = {0};
	struct facts facts;
	char *at = head;
	enum http_error error = read_request_line(&at, &request);

	if (error == HTTP_ERROR_NONE)
		error = read_fields(at, head + length, limits->fields, fields);
	if (error == HTTP_ERROR_NONE)
		error = learn_all(fields, request.version, &facts);
	if (error == HTTP_ERROR_NONE)
		error = judge_request(&facts, &request);
	if (error != HTTP_ERROR_NONE)
		return error;
	request.fields = fields->items;
	request.fields_len = fields->length;
	*ret_request = request;
	*ret_framing = facts.length > 0 ? H1_FRAMING_LENGTH : H1_FRAMING_NONE;
	if (facts.chunked)
		*ret_framing = H1_FRAMING_CHUNKED;
	*ret_persistent = persistent(&facts, request.version);
	return HTTP_ERROR_NONE;
}

/* ---- responses ---- */

/*
 * version SP status [SP [reason]] CRLF; *at moves to the first field. Servers that leave the second SP out are common,
 * and nothing else can be meant.
 */
static enum http_error read_status_line(const char **at, const char *end, struct http_response *response)
{
	const char *p = *at, *stop;
	enum http_error error = read_version(p, HTTP_ERROR_BAD_STATUS_LINE, &response->version);

	if (error != HTTP_ERROR_NONE)
		return error;
	p += VERSION_LENGTH;
	if (*p++ != ' ')
		return error_at(p - 1, HTTP_ERROR_BAD_STATUS_LINE);
	for (int i = 0; i < 3; i++, p++) {
		if (*p < (i == 0 ? '1' : '0') || *p > '9')
			return error_at(p, HTTP_ERROR_BAD_STATUS_LINE);
		response->status = (uint16_t)(response->status * 10 + (*p - '0'));
	}
	if (*p == ' ')
		p++;
	else if (*p != '\r')
		return HTTP_ERROR_BAD_STATUS_LINE;
	stop = skip_text(p, end);
	if (*stop != '\r' || stop[1] != '\n')
		return error_at(stop, HTTP_ERROR_BAD_STATUS_LINE);
	response->reason = rea_slice_make(p, (size_t)(stop - p));
	*at = stop + 2;
	return HTTP_ERROR_NONE;
}

/* RFC 9112, 6.3. */
static enum http_error judge_response(
    const struct facts *facts, struct h1_asked asked, struct http_response *response, enum h1_framing *ret_framing)
{
	uint16_t status = response->status;

	response->body_length = HTTP_LENGTH_UNKNOWN;
	if (status == 101 || (asked.connect && status / 100 == 2)) {
		if (status == 101 && !asked.upgrade)
			return HTTP_ERROR_UNEXPECTED;
		response->upgraded = true;
		*ret_framing = H1_FRAMING_CLOSE;
		return HTTP_ERROR_NONE;
	}
	if (facts->has_length && status / 100 != 1 && status != 204)
		response->body_length = facts->length;
	response->has_body = !asked.head && status / 100 != 1 && status != 204 && status != 304;
	if (!response->has_body)
		*ret_framing = H1_FRAMING_NONE;
	else if (facts->chunked)
		*ret_framing = H1_FRAMING_CHUNKED;
	else if (facts->has_length)
		*ret_framing = facts->length > 0 ? H1_FRAMING_LENGTH : H1_FRAMING_NONE;
	else
		*ret_framing = H1_FRAMING_CLOSE;
	return HTTP_ERROR_NONE;
}

enum http_error h1_response_parse(const char *head, size_t length, const struct http_limits *limits, struct h1_asked asked,
    struct h1_fields *fields, struct http_response *ret_response, enum h1_framing *ret_framing, bool *ret_persistent)
{
	struct http_response response = {0};
	struct facts facts;
	enum h1_framing framing = H1_FRAMING_NONE;
	const char *at = head;
	enum http_error error = read_status_line(&at, head + length, &response);

	if (error == HTTP_ERROR_NONE)
		error = read_fields(at, head + length, limits->fields, fields);
	if (error == HTTP_ERROR_NONE)
		error = learn_all(fields, response.version, &facts);
	if (error == HTTP_ERROR_NONE)
		error = judge_response(&facts, asked, &response, &framing);
	if (error != HTTP_ERROR_NONE)
		return error;
	response.fields = fields->items;
	response.fields_len = fields->length;
	*ret_response = response;
	*ret_framing = framing;
	/* A 204 or 1xx that announces a body may send one: nothing after it can be trusted. */
	*ret_persistent = persistent(&facts, response.version) && framing != H1_FRAMING_CLOSE &&
			  !((response.status == 204 || response.status < 200) && (facts.chunked || facts.length > 0));
	return HTTP_ERROR_NONE;
}

/* ---- bodies, received ---- */

void h1_body_begin(struct h1_body *body, enum h1_framing framing, uint64_t length)
{
	body->framing = framing;
	body->chunk = H1_CHUNK_HEADER;
	body->left = framing == H1_FRAMING_LENGTH ? length : 0;
	body->trailers.length = 0;
	h1_section_clear(&body->section);
}

void h1_body_fini(struct h1_body *body)
{
	h1_section_fini(&body->section);
	h1_fields_fini(&body->trailers);
}

bool h1_body_ended(const struct h1_body *body)
{
	switch (body->framing) {
	case H1_FRAMING_NONE:
		return true;
	case H1_FRAMING_LENGTH:
		return body->left == 0;
	case H1_FRAMING_CHUNKED:
		return body->chunk == H1_CHUNK_DONE;
	case H1_FRAMING_CLOSE:
		return false;
	}
	return false;
}

/* A piece of at most most bytes. */
static enum h1_event piece(struct rea_slice *in, uint64_t most, struct rea_slice *ret_piece)
{
	if (in->length == 0)
		return H1_MORE;
	*ret_piece = rea_slice_make(in->data, in->length < most ? in->length : (size_t)most);
	in->data += ret_piece->length;
	in->length -= ret_piece->length;
	return H1_PIECE;
}

static const char *skip_quoted(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++) {
		if (*p == '\\')
			p++;
		if (p == end || ((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
			return NULL;
	}
	return p < end ? p + 1 : NULL;
}

/* *( ";" name [ "=" value ] ), without the blanks that RFC 9112 only lets bad senders add. */
static bool extensions_valid(const char *p, const char *end)
{
	while (p < end) {
		const char *name = p + 1, *value;

		if (*p != ';' || (p = skip(name, TOKEN)) == name)
			return false;
		if (*p != '=')
			continue;
		value = p + 1;
		p = *value == '"' ? skip_quoted(value, end) : skip(value, TOKEN);
		if (p == NULL || p == value)
			return false;
	}
	return true;
}

static unsigned hex_value(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* A whole line, CRLF included. */
static enum http_error read_chunk_header(struct rea_slice line, const struct http_limits *limits, uint64_t *ret_size)
{
	const char *p = line.data, *end = p + line.length - 2;
	uint64_t size = 0;

	for (; is(*p, HEX) && p - line.data < H1_CHUNK_DIGITS_MAX; p++)
		size = size << 4 | hex_value(*p);
	if (p == line.data || size > INT64_MAX || (p < end && *p != ';'))
		return HTTP_ERROR_BAD_CHUNK;
	if ((size_t)(end - p) > limits->chunk_ext_bytes)
		return HTTP_ERROR_CHUNK_EXT_TOO_LARGE;
	if (!extensions_valid(p, end))
		return HTTP_ERROR_BAD_CHUNK;
	*ret_size = size;
	return HTTP_ERROR_NONE;
}

/*
 * Not what a trailer must not carry (RFC 9110, 6.5.1): framing, routing, credentials, what says how to read the body;
 * and nothing that rea acts on before the end.
 */
bool h1_trailer_allowed(const struct http_field *field)
{
	/* clang-format off */
	static const struct rea_slice forbidden[] = {
		REA_SLICE_LIT("age"), REA_SLICE_LIT("cache-control"), REA_SLICE_LIT("content-encoding"), REA_SLICE_LIT("content-range"),
		REA_SLICE_LIT("cookie"), REA_SLICE_LIT("expires"), REA_SLICE_LIT("if-match"), REA_SLICE_LIT("if-modified-since"), REA_SLICE_LIT("if-none-match"),
		REA_SLICE_LIT("if-range"), REA_SLICE_LIT("if-unmodified-since"), REA_SLICE_LIT("location"), REA_SLICE_LIT("max-forwards"), REA_SLICE_LIT("pragma"),
		REA_SLICE_LIT("range"), REA_SLICE_LIT("set-cookie"), REA_SLICE_LIT("vary"), REA_SLICE_LIT("warning"), REA_SLICE_LIT("www-authenticate"),
	};
	/* clang-format on */

	if (field->id != HTTP_FIELD_OTHER)
		return in_set(
		    field->id, MASK(REA_RETRY) | MASK(REA_REASON) | MASK(GRPC_STATUS) | MASK(GRPC_RETRY_PUSHBACK_MS));
	for (size_t i = 0; i < sizeof(forbidden) / sizeof(*forbidden); i++)
		if (rea_slice_equal_nocase(field->name, forbidden[i]))
			return false;
	return true;
}

static enum http_error read_trailers(struct rea_slice section, const struct http_limits *limits, struct h1_fields *trailers)
{
	enum http_error error = read_fields(section.data, section.data + section.length, limits->fields, trailers);
	size_t kept = 0;

	if (error != HTTP_ERROR_NONE) {
		trailers->length = 0;
		return error;
	}
	for (size_t i = 0; i < trailers->length; i++)
		if (h1_trailer_allowed(&trailers->items[i]))
			trailers->items[kept++] = trailers->items[i];
	trailers->length = kept;
	return HTTP_ERROR_NONE;
}

static enum http_error too_large(enum http_error error, enum http_error instead)
{
	return error == HTTP_ERROR_HEAD_TOO_LARGE ? instead : error;
}

/* A chunk header, or the CRLF behind a chunk's data; what comes next is then set, when the line has arrived. */
static enum http_error chunk_line(struct h1_body *body, const struct http_limits *limits, struct rea_slice *in)
{
	bool header = body->chunk == H1_CHUNK_HEADER;
	size_t max = header ? (size_t)H1_CHUNK_DIGITS_MAX + limits->chunk_ext_bytes + 2 : 2;
	struct rea_slice line;
	enum http_error error = take(&body->section, max, true, false, in, &line);

	if (error != HTTP_ERROR_NONE)
		return too_large(error, header ? HTTP_ERROR_CHUNK_EXT_TOO_LARGE : HTTP_ERROR_BAD_CHUNK);
	if (line.length == 0)
		return HTTP_ERROR_NONE;
	if (header) {
		error = read_chunk_header(line, limits, &body->left);
		if (error != HTTP_ERROR_NONE)
			return error;
		body->chunk = body->left > 0 ? H1_CHUNK_DATA : H1_CHUNK_TRAILERS;
	} else {
		body->chunk = H1_CHUNK_HEADER;
	}
	h1_section_clear(&body->section);
	return HTTP_ERROR_NONE;
}

static enum http_error chunk_trailers(struct h1_body *body, const struct http_limits *limits, struct rea_slice *in)
{
	struct rea_slice section;
	enum http_error error = take(&body->section, limits->trailer_bytes, false, false, in, &section);

	if (error != HTTP_ERROR_NONE)
		return too_large(error, HTTP_ERROR_TRAILER_TOO_LARGE);
	if (section.length == 0)
		return HTTP_ERROR_NONE;
	body->chunk = H1_CHUNK_DONE;
	return read_trailers(section, limits, &body->trailers);
}

static enum h1_event chunked_next(struct h1_body *body, const struct http_limits *limits, struct rea_slice *in,
    struct rea_slice *ret_piece, enum http_error *ret_error)
{
	enum http_error error = HTTP_ERROR_NONE;

	while (in->length > 0 && body->chunk != H1_CHUNK_DONE) {
		switch (body->chunk) {
		case H1_CHUNK_HEADER:
		case H1_CHUNK_DATA_END:
			error = chunk_line(body, limits, in);
			break;
		case H1_CHUNK_DATA:
			(void)piece(in, body->left, ret_piece);
			body->left -= ret_piece->length;
			if (body->left == 0)
				body->chunk = H1_CHUNK_DATA_END;
			return H1_PIECE;
		case H1_CHUNK_TRAILERS:
			error = chunk_trailers(body, limits, in);
			break;
		case H1_CHUNK_DONE:
			break;
		}
		if (error != HTTP_ERROR_NONE) {
			*ret_error = error;
			return H1_BAD;
		}
	}
	return body->chunk == H1_CHUNK_DONE ? H1_END : H1_MORE;
}

enum h1_event h1_body_next(struct h1_body *body, const struct http_limits *limits, struct rea_slice *in,
    struct rea_slice *ret_piece, enum http_error *ret_error)
{
	enum h1_event event;

	switch (body->framing) {
	case H1_FRAMING_NONE:
		return H1_END;
	case H1_FRAMING_LENGTH:
		if (body->left == 0)
			return H1_END;
		event = piece(in, body->left, ret_piece);
		body->left -= event == H1_PIECE ? ret_piece->length : 0;
		return event;
	case H1_FRAMING_CHUNKED:
		return chunked_next(body, limits, in, ret_piece, ret_error);
	case H1_FRAMING_CLOSE:
		return piece(in, UINT64_MAX, ret_piece);
	}
	return H1_BAD;
}

/* ---- writing ---- */

#define DIGITS_MAX 20

static char *put(char *p, struct rea_slice s)
{
	if (s.length > 0)
		memcpy(p, s.data, s.length);
	return p + s.length;
}

#define PUT_LIT(p, text) put(p, REA_SLICE_LIT(text))

static char *put_number(char *p, uint64_t value, unsigned base)
{
	char digits[DIGITS_MAX];
	size_t i = sizeof(digits);

	do {
		digits[--i] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value != 0);
	return put(p, rea_slice_make(digits + i, sizeof(digits) - i));
}

static bool passes(const struct http_field *field, uint64_t except)
{
	return !in_set(field->id, except) && (!field->hop_by_hop || field->id == HTTP_FIELD_UPGRADE);
}

/* Connection-level ids, without Upgrade when that is asked for. */
static uint64_t stays_behind(bool upgrade)
{
	return upgrade ? CONNECTION_LEVEL & ~MASK(UPGRADE) : CONNECTION_LEVEL;
}

static size_t fields_size(const struct http_field *fields, size_t fields_len)
{
	size_t size = 0;

	for (size_t i = 0; i < fields_len; i++)
		size += fields[i].name.length + fields[i].value.length + 4;
	return size;
}

/* Those that pass but the except ones. Upgrade passes unless it is among them. */
static char *put_fields(char *p, const struct http_field *fields, size_t fields_len, uint64_t except)
{
	for (size_t i = 0; i < fields_len; i++) {
		if (!passes(&fields[i], except))
			continue;
		p = put(p, fields[i].name);
		p = PUT_LIT(p, ": ");
		p = put(p, fields[i].value);
		p = PUT_LIT(p, "\r\n");
	}
	return p;
}

static char *put_length(char *p, uint64_t length)
{
	p = PUT_LIT(p, "Content-Length: ");
	p = put_number(p, length, 10);
	return PUT_LIT(p, "\r\n");
}

static char *put_connection(char *p, enum h1_connection connection)
{
	switch (connection) {
	case H1_CONNECTION_DEFAULT:
		return p;
	case H1_CONNECTION_CLOSE:
		return PUT_LIT(p, "Connection: close\r\n");
	case H1_CONNECTION_KEEP_ALIVE:
		return PUT_LIT(p, "Connection: keep-alive\r\n");
	case H1_CONNECTION_UPGRADE:
		return PUT_LIT(p, "Connection: upgrade\r\n");
	}
	return p;
}

/* All that a head can hold beside its slices: the fixed words of a start line, Host, framing and Connection. */
#define HEAD_OVERHEAD 160

static char *begin_head(struct rea_buffer *out, size_t size)
{
	return rea_buffer_reserve(out, size + HEAD_OVERHEAD) == 0 ? out->data + out->end : NULL;
}

static void end_head(struct rea_buffer *out, const char *p)
{
	out->end = (size_t)(p - out->data);
	assert(out->end <= out->capacity);
}

int h1_request_write(struct rea_buffer *out, const struct http_request_head *head, enum h1_framing framing)
{
	uint64_t except = MASK(HOST) | MASK(CONTENT_LENGTH) | MASK(EXPECT) | stays_behind(head->upgrade);
	size_t size = head->method.length + head->path.length + 2 * head->authority.length;
	char *p;

	size += fields_size(head->fields, head->fields_len) + fields_size(head->more, head->more_len);
	p = begin_head(out, size);
	if (p == NULL)
		return REA_ERR_NOMEM;
	p = put(p, head->method);
	p = PUT_LIT(p, " ");
	p = put(p, h1_method_of(head->method) == HTTP_CONNECT ? head->authority : head->path);
	p = PUT_LIT(p, " HTTP/1.1\r\nHost: ");
	p = put(p, head->authority);
	p = PUT_LIT(p, "\r\n");
	p = put_fields(p, head->fields, head->fields_len, except | head->skip);
	p = put_fields(p, head->more, head->more_len, except);
	if (framing == H1_FRAMING_CHUNKED)
		p = PUT_LIT(p, "Transfer-Encoding: chunked\r\n");
	else if (framing == H1_FRAMING_LENGTH)
		p = put_length(p, head->body_length);
	if (head->upgrade)
		p = put_connection(p, H1_CONNECTION_UPGRADE);
	end_head(out, PUT_LIT(p, "\r\n"));
	return 0;
}

static char *put_status_line(char *p, uint16_t status, struct rea_slice reason)
{
	p = PUT_LIT(p, "HTTP/1.1 ");
	p = put_number(p, status, 10);
	p = PUT_LIT(p, " ");
	p = put(p, reason.length > 0 ? reason : rea_slice_of(http_status_reason(status)));
	return PUT_LIT(p, "\r\n");
}

int h1_response_write(struct rea_buffer *out, const struct http_response_head *head, enum h1_framing framing,
    enum h1_connection connection)
{
	uint64_t except = MASK(CONTENT_LENGTH) | stays_behind(connection == H1_CONNECTION_UPGRADE);
	size_t size = head->reason.length;
	char *p;

	size += fields_size(head->fields, head->fields_len) + fields_size(head->more, head->more_len);
	p = begin_head(out, size);
	if (p == NULL)
		return REA_ERR_NOMEM;
	p = put_status_line(p, head->status, head->reason);
	p = put_fields(p, head->fields, head->fields_len, except);
	p = put_fields(p, head->more, head->more_len, except);
	if (framing == H1_FRAMING_CHUNKED)
		p = PUT_LIT(p, "Transfer-Encoding: chunked\r\n");
	else if (framing == H1_FRAMING_LENGTH || (framing == H1_FRAMING_NONE && head->body_length != HTTP_LENGTH_UNKNOWN))
		p = put_length(p, head->body_length);
	p = put_connection(p, connection);
	end_head(out, PUT_LIT(p, "\r\n"));
	return 0;
}

int h1_interim_write(struct rea_buffer *out, uint16_t status, const struct http_field *fields, size_t fields_len)
{
	char *p = begin_head(out, fields_size(fields, fields_len));

	if (p == NULL)
		return REA_ERR_NOMEM;
	p = put_status_line(p, status, rea_slice_make(NULL, 0));
	p = put_fields(p, fields, fields_len, CONNECTION_LEVEL | MASK(CONTENT_LENGTH));
	end_head(out, PUT_LIT(p, "\r\n"));
	return 0;
}

static int write_chunk(struct rea_buffer *out, const char *data, size_t length)
{
	char *p;

	if (rea_buffer_reserve(out, DIGITS_MAX + 4 + length) != 0)
		return REA_ERR_NOMEM;
	p = put_number(out->data + out->end, length, 16);
	p = PUT_LIT(p, "\r\n");
	p = put(p, rea_slice_make(data, length));
	end_head(out, PUT_LIT(p, "\r\n"));
	return 0;
}

int h1_sending_write(struct h1_sending *sending, struct rea_buffer *out, const char *data, size_t length)
{
	int error;

	if (length == 0) /* a chunk of no bytes would be the last */
		return 0;
	switch (sending->framing) {
	case H1_FRAMING_NONE:
		return 0;
	case H1_FRAMING_LENGTH:
		if (length > sending->left)
			return REA_ERR_INVALID;
		error = rea_buffer_append(out, data, length);
		sending->left -= error == 0 ? length : 0;
		return error;
	case H1_FRAMING_CHUNKED:
		return write_chunk(out, data, length);
	case H1_FRAMING_CLOSE:
		return rea_buffer_append(out, data, length);
	}
	return REA_ERR_INVALID;
}

int h1_sending_finish(struct h1_sending *sending, struct rea_buffer *out, const struct http_field *trailers, size_t trailers_len)
{
	char *p;

	if (sending->framing == H1_FRAMING_LENGTH && sending->left > 0)
		return REA_ERR_INVALID;
	if (sending->framing != H1_FRAMING_CHUNKED)
		return 0;
	p = begin_head(out, fields_size(trailers, trailers_len));
	if (p == NULL)
		return REA_ERR_NOMEM;
	p = PUT_LIT(p, "0\r\n");
	p = put_fields(p, trailers, trailers_len, CONNECTION_LEVEL | MASK(CONTENT_LENGTH) | MASK(HOST));
	end_head(out, PUT_LIT(p, "\r\n"));
	return 0;
}
