/* HAProxy: `retries`, `retry-on` and what belongs to them, of each backend with what its defaults say. */
#include "check/model.h"

#include <stdio.h>

#define WORDS_MAX 64
#define LINES_MAX 200000
#define RETRIES 3 /* when nothing says otherwise */

struct value {
	struct rea_slice words[WORDS_MAX]; /* the keyword first */
	size_t words_len;
	uint32_t line;
	uint32_t columns[WORDS_MAX];
};

/* What a section says of retries; a backend begins as a copy of its defaults. */
struct section {
	struct section *next;
	const char *name;
	struct check_place place;
	uint64_t retries;
	struct check_place retries_place;
	bool retries_set;
	uint32_t failures;    /* of retry-on */
	const char *retry_on; /* as written; NULL = default */
	struct check_place retry_on_place;
	uint32_t no_retry_methods; /* http-request disable-l7-retry */
	bool redispatch, keyed;
	uint64_t connect_ns, server_ns;
	struct check_place server_place;
	uint32_t servers;
	bool calls; /* backend or listen */
};

struct reader {
	struct check *check;
	struct check_file *file;
	struct rea_error_info *info;
	struct section *defaults; /* all, the latest first */
	struct section *section;
	struct section *sections, **sections_tail;
};

static struct check_place place_of(const struct reader *reader, const struct value *value, size_t word)
{
	return check_place_at(reader->file, value->line, value->columns[word]);
}

static bool word_is(const struct value *value, size_t index, const char *word)
{
	return index < value->words_len && check_is(value->words[index], word);
}

/* ------------------------------------------------------------------ lines */

static uint32_t column_of(struct rea_slice line, size_t at)
{
	uint32_t column = 1;

	for (size_t i = 0; i < at; i++)
		column += ((unsigned char)line.data[i] & 0xc0) != 0x80;
	return column;
}

/* Words in quotes keep them: no keyword that matters here is quoted. */
static int read_words(struct reader *reader, struct rea_slice line, struct value *value)
{
	size_t at = 0;

	value->words_len = 0;
	while (value->words_len < WORDS_MAX) {
		size_t start;
		char quote = 0;

		while (at < line.length && check_is_one_of(line.data[at], " \t\r"))
			at++;
		if (at == line.length || line.data[at] == '#')
			return 0;
		for (start = at; at < line.length && (quote != 0 || !check_is_one_of(line.data[at], " \t\r#")); at++) {
			char c = line.data[at];

			if (c == '\\' && quote != '\'' && at + 1 < line.length)
				at++;
			else if (quote == 0 && (c == '"' || c == '\''))
				quote = c;
			else if (c == quote)
				quote = 0;
		}
		value->columns[value->words_len] = column_of(line, start);
		if (quote != 0)
			return check_refuse(reader->info, reader->file, REA_ERR_SYNTAX,
			    check_place_at(reader->file, value->line, value->columns[value->words_len]),
			    "the quote in this word does not end on its line");
		value->words[value->words_len++] = rea_slice_make(line.data + start, at - start);
	}
	return 0;
}

/* ------------------------------------------------------------------ sections */

static const struct section *defaults_named(const struct reader *reader, struct rea_slice name)
{
	for (const struct section *section = reader->defaults; section != NULL; section = section->next)
		if (rea_slice_equal(rea_slice_of(section->name), name))
			return section;
	return NULL;
}

static int open_section(struct reader *reader, const struct value *value)
{
	struct section *section = check_alloc(reader->check, sizeof(*section));
	const struct section *from = reader->defaults;
	bool defaults = word_is(value, 0, "defaults");

	if (section == NULL)
		return REA_ERR_NOMEM;
	for (size_t i = 1; i + 1 < value->words_len; i++)
		if (word_is(value, i, "from"))
			from = defaults_named(reader, value->words[i + 1]);
	if (from != NULL && (!defaults || word_is(value, 2, "from")))
		*section = *from;
	else
		*section = (struct section){
		    .retries = RETRIES, .failures = CHECK_BIT(CHECK_ON_CONNECT), .connect_ns = REA_NEVER, .server_ns = REA_NEVER};
	section->next = NULL;
	section->name = value->words_len > 1 ? check_shown(reader->check, value->words[1]) : "";
	section->place = place_of(reader, value, 0);
	section->calls = word_is(value, 0, "backend") || word_is(value, 0, "listen");
	reader->section = section;
	if (defaults) {
		section->next = reader->defaults;
		reader->defaults = section;
	} else {
		*reader->sections_tail = section;
		reader->sections_tail = &section->next;
	}
	return reader->check->error;
}

static bool is_section(const struct value *value)
{
	static const char *const names[] = {"global", "defaults", "frontend", "backend", "listen", "peers", "resolvers",
	    "userlist", "mailers", "cache", "program", "http-errors", "ring", "log-forward", "fcgi-app", "crt-store",
	    "traces"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (word_is(value, 0, names[i]))
			return true;
	return false;
}

/* ------------------------------------------------------------------ keywords */

static void refuse_value(struct reader *reader, const struct value *value, size_t word, const char *message, const char *instead)
{
	check_find(reader->check, "RC19", CHECK_ERROR, place_of(reader, value, word < value->words_len ? word : 0),
	    reader->section->name, message, instead);
}

static void read_retries(struct reader *reader, const struct value *value)
{
	struct section *section = reader->section;
	uint64_t number;

	if (value->words_len < 2 || !rea_slice_to_u64(value->words[1], &number) || number > INT32_MAX) {
		refuse_value(reader, value, 1, "retries: expected a whole number", "a number of retries, such as 2");
		return;
	}
	section->retries = number;
	section->retries_set = true;
	section->retries_place = place_of(reader, value, 0);
}

static uint32_t failures_of(struct rea_slice word)
{
	static const struct {
		const char *name;
		uint32_t failures;
	} words[] = {
	    {"conn-failure", CHECK_BIT(CHECK_ON_CONNECT)},
	    {"empty-response", CHECK_BIT(CHECK_ON_CLOSED)},
	    {"junk-response", CHECK_BIT(CHECK_ON_CLOSED)},
	    {"response-timeout", CHECK_BIT(CHECK_ON_TIMEOUT)},
	    {"all-retryable-errors", CHECK_ON_IO | CHECK_ON_5XX},
	};
	uint64_t status;

	if (rea_slice_to_u64(word, &status))
		return check_failures_of_status(status);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (check_is(word, words[i].name))
			return words[i].failures;
	return 0;
}

static bool is_condition(struct rea_slice word)
{
	uint64_t status;

	return failures_of(word) != 0 || check_is(word, "none") || check_is(word, "0rtt-rejected") ||
	       (rea_slice_to_u64(word, &status) &&
		   (status == 401 || status == 403 || status == 404 || status == 408 || status == 425 || status == 501));
}

static void read_retry_on(struct reader *reader, const struct value *value)
{
	struct section *section = reader->section;
	const char *text = "";

	section->failures = 0;
	for (size_t i = 1; i < value->words_len; i++) {
		section->failures |= failures_of(value->words[i]);
		text = check_text(reader->check, "%s%s%.*s", text, i > 1 ? " " : "", (int)value->words[i].length,
		    value->words[i].data);
		if (!is_condition(value->words[i]))
			refuse_value(reader, value, i,
			    check_text(reader->check, "%s is no condition of retry-on",
				check_shown(reader->check, value->words[i])),
			    "conn-failure, empty-response, junk-response, response-timeout, 0rtt-rejected, a status "
			    "such as 503, or none");
	}
	section->retry_on = text;
	section->retry_on_place = place_of(reader, value, 0);
}

static void read_timeout(struct reader *reader, const struct value *value)
{
	struct section *section = reader->section;
	uint64_t ns;

	if (!word_is(value, 1, "connect") && !word_is(value, 1, "server"))
		return;
	if (value->words_len < 3 || !check_duration(value->words[2], REA_NS_PER_MS, &ns)) {
		refuse_value(reader, value, 2, "timeout: expected a time", "a time such as 5s, or a number of milliseconds");
		return;
	}
	if (word_is(value, 1, "connect"))
		section->connect_ns = ns;
	else {
		section->server_ns = ns;
		section->server_place = place_of(reader, value, 0);
	}
}

/* Which methods `http-request disable-l7-retry [if|unless …]` takes out. A condition that is not about methods takes out none for certain. */
static uint32_t methods_without_retry(const struct value *value)
{
	static const struct {
		const char *acl;
		uint32_t methods;
	} acls[] = {{"METH_GET", CHECK_BIT(CHECK_GET)}, {"METH_POST", CHECK_BIT(CHECK_POST)},
	    {"METH_PUT", CHECK_BIT(CHECK_PUT)}, {"METH_DELETE", CHECK_BIT(CHECK_PUT)}};
	bool inverted = word_is(value, 2, "unless");
	uint32_t named = 0;

	if (value->words_len == 2)
		return CHECK_ALL_METHODS;
	for (size_t i = 3; i < value->words_len; i++) {
		bool not = value->words[i].length > 1 && value->words[i].data[0] == '!';
		struct rea_slice acl = rea_slice_make(value->words[i].data + not, value->words[i].length - not );

		for (size_t j = 0; j < sizeof(acls) / sizeof(acls[0]); j++)
			if (check_is(acl, acls[j].acl))
				named |= not ? CHECK_ALL_METHODS & ~acls[j].methods : acls[j].methods;
	}
	return inverted && named != 0 ? CHECK_ALL_METHODS & ~named : inverted ? 0 : named;
}

static void read_http_request(struct reader *reader, const struct value *value)
{
	struct section *section = reader->section;

	if (word_is(value, 1, "disable-l7-retry"))
		section->no_retry_methods |= methods_without_retry(value);
	if ((word_is(value, 1, "set-header") || word_is(value, 1, "add-header")) &&
	    word_is(value, 2, "Idempotency-Key") && value->words_len > 3 && check_contains(value->words[3], "%"))
		section->keyed = true;
}

static void read_keyword(struct reader *reader, const struct value *value)
{
	struct section *section = reader->section;
	bool negated = word_is(value, 0, "no");

	if (word_is(value, 0, "retries"))
		read_retries(reader, value);
	else if (word_is(value, 0, "retry-on"))
		read_retry_on(reader, value);
	else if (word_is(value, 0, "timeout"))
		read_timeout(reader, value);
	else if (word_is(value, 0, "http-request"))
		read_http_request(reader, value);
	else if (word_is(value, negated, "option") && word_is(value, 1 + (size_t)negated, "redispatch"))
		section->redispatch = !negated;
	else if (word_is(value, 0, "server") || word_is(value, 0, "server-template"))
		section->servers++;
}

/* ------------------------------------------------------------------ layers */

static void without_effect(struct reader *reader, const struct section *section)
{
	if (section->retry_on != NULL && section->retries == 0)
		check_find(reader->check, "RC25", CHECK_WARNING, section->retry_on_place, section->name,
		    "retry-on without retries (retries 0) does nothing", "retries 1, or no retry-on");
	else if (section->retry_on != NULL && section->failures != 0 && !section->redispatch && section->servers > 1)
		check_find(reader->check, "RC25", CHECK_WARNING, section->retry_on_place,
		    section->name, "without option redispatch, a server that was chosen by persistence is asked again, the one that has just failed",
		    "option redispatch 1");
}

static void add_backend(struct reader *reader, const struct section *section)
{
	struct check_target *target = check_target_new(reader->check, reader->file->app, "backend", section->name,
	    check_canonical(reader->check, rea_slice_of(section->name)), section->place);
	uint32_t requests = (uint32_t)section->retries + 1, methods = CHECK_ALL_METHODS & ~section->no_retry_methods;
	uint32_t connect = section->failures & CHECK_BIT(CHECK_ON_CONNECT);
	struct check_layer *layer;

	if (target == NULL)
		return;
	target->keyed = section->keyed || reader->check->options.keyed;
	target->connect_ns = section->connect_ns;
	target->read_ns = section->server_ns;
	target->read_place = section->server_place.line > 0 ? section->server_place : section->place;
	without_effect(reader, section);
	if (section->retries == 0 || section->failures == 0)
		return;
	layer = check_layer_new(reader->check, target, "HAProxy retries",
	    section->retries_set ? section->retries_place
	    : section->retry_on  ? section->retry_on_place
				 : section->place);
	if (layer == NULL)
		return;
	layer->key = "retries";
	layer->number = (uint32_t)section->retries;
	layer->counts_retries = true;
	layer->written = section->retries_set;
	check_layer_repeats(layer, section->failures & ~connect, methods, requests, true);
	check_layer_repeats(layer, connect, CHECK_ALL_METHODS, requests, true);
	/* Only a connection to the same server is waited for. */
	check_layer_waits(layer, CHECK_BIT(CHECK_ON_CONNECT),
	    rea_time_mul(rea_time_min(section->connect_ns, REA_NS_PER_S), section->retries));
	/* In the backend itself: a section of defaults may not hold such a rule. */
	layer->safer_place = section->place;
	layer->safer_new = "    http-request disable-l7-retry unless METH_GET";
}

int check_read_haproxy(struct check *check, struct check_file *file, struct rea_error_info *info)
{
	struct reader reader = {.check = check, .file = file, .info = info};
	struct value *value = check_alloc(check, sizeof(*value));
	struct rea_slice rest = file->text;
	int error = value ? 0 : REA_ERR_NOMEM;
	size_t count = 0;

	reader.sections_tail = &reader.sections;
	while (error == 0 && rest.length > 0) {
		const char *end = memchr(rest.data, '\n', rest.length);
		struct rea_slice line = rea_slice_make(rest.data, end ? (size_t)(end - rest.data) : rest.length);

		rest = rea_slice_make(rest.data + line.length + (end != NULL), rest.length - line.length - (end != NULL));
		value->line++;
		error = read_words(&reader, line, value);
		if (error != 0 || value->words_len == 0)
			continue;
		if (is_section(value))
			error = ++count > CHECK_TARGETS_MAX ? check_refuse(info, file, REA_ERR_LIMIT,
								  place_of(&reader, value, 0), "more than 1000 sections")
							    : open_section(&reader, value);
		else if (reader.section != NULL)
			read_keyword(&reader, value);
		else
			error = check_refuse(info, file, REA_ERR_SYNTAX, place_of(&reader, value, 0),
			    "expected a section such as defaults or backend");
	}
	if (error != 0)
		return error;
	if (check_app_of(check, file, file->name, check_hop_of(check, file)) == NULL)
		return REA_ERR_NOMEM;
	for (const struct section *section = reader.sections; section != NULL; section = section->next)
		if (section->calls)
			add_backend(&reader, section);
	return check->error;
}
