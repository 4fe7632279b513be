/*
 * nginx: proxy_next_upstream and what belongs to it. Directives are read into a tree as nginx reads them; a location inherits what the blocks around it say.
 * Files that it includes are not followed: give them as well.
 */
#include "check/model.h"

#include <stdio.h>

#define DEPTH_MAX 64
#define WORDS_MAX 200000 /* of one file */
#define TIMEOUT_NS (60 * REA_NS_PER_S)

struct word {
	struct word *next;
	struct rea_slice text;
	uint32_t line, column;
};

struct directive {
	struct directive *next;
	const struct directive *parent; /* NULL = stands at the top */
	struct directive *first, *last; /* of a block */
	struct word *words;             /* the name first */
};

struct reader {
	struct check *check;
	struct check_file *file;
	struct rea_error_info *info;
	const char *at;
	const char *end;
	const char *line_start;
	uint32_t line;
	size_t words;
	size_t targets;
	struct directive *root;
};

/* ------------------------------------------------------------------ words */

static uint32_t column(const struct reader *reader, const char *at)
{
	uint32_t column = 1;

	for (const char *c = reader->line_start; c < at; c++)
		column += ((unsigned char)*c & 0xc0) != 0x80;
	return column;
}

static void next_line(struct reader *reader)
{
	reader->line++;
	reader->line_start = reader->at + 1;
}

static void skip(struct reader *reader)
{
	while (reader->at < reader->end && strchr(" \t\r\n#", *reader->at) != NULL && *reader->at != '\0') {
		if (*reader->at == '#')
			while (reader->at + 1 < reader->end && reader->at[1] != '\n')
				reader->at++;
		else if (*reader->at == '\n')
			next_line(reader);
		reader->at++;
	}
}

static int nomem(struct reader *reader)
{
	reader->check->error = REA_ERR_NOMEM;
	return check_refuse(reader->info, reader->file, REA_ERR_NOMEM, check_place_at(reader->file, 0, 0), "%s",
	    rea_error_text(REA_ERR_NOMEM));
}

static int refuse(struct reader *reader, uint32_t line, uint32_t at, const char *message)
{
	return check_refuse(reader->info, reader->file, REA_ERR_SYNTAX, check_place_at(reader->file, line, at), "%s", message);
}

/* A word in quotes, which are not part of it. */
static int read_quoted(struct reader *reader, struct word *word)
{
	char quote = *reader->at++;
	const char *start = reader->at;

	while (reader->at < reader->end && *reader->at != quote) {
		if (*reader->at == '\\' && reader->at + 1 < reader->end)
			reader->at++;
		if (*reader->at == '\n')
			next_line(reader);
		reader->at++;
	}
	if (reader->at == reader->end)
		return refuse(reader, word->line, word->column, "the quote that begins here does not end");
	word->text = rea_slice_make(start, (size_t)(reader->at - start));
	reader->at++;
	return 0;
}

/* A brace after '$' belongs to a variable. */
static void read_plain(struct reader *reader, struct word *word)
{
	const char *start = reader->at;

	while (reader->at < reader->end && !check_is_one_of(*reader->at, " \t\r\n;{}")) {
		if (*reader->at == '\\' && reader->at + 1 < reader->end && reader->at[1] != '\n')
			reader->at++;
		else if (reader->at[0] == '$' && reader->at + 1 < reader->end && reader->at[1] == '{')
			while (reader->at < reader->end && *reader->at != '}' && *reader->at != '\n')
				reader->at++;
		if (reader->at < reader->end && *reader->at != '\n')
			reader->at++;
	}
	word->text = rea_slice_make(start, (size_t)(reader->at - start));
}

static int read_word(struct reader *reader, struct word **ret_word)
{
	struct word *word;

	if (reader->words++ == WORDS_MAX)
		return check_refuse(reader->info, reader->file, REA_ERR_LIMIT,
		    check_place_at(reader->file, reader->line, column(reader, reader->at)),
		    "the file has more than 200000 words");
	word = check_alloc(reader->check, sizeof(*word));
	if (word == NULL)
		return nomem(reader);
	word->line = reader->line;
	word->column = column(reader, reader->at);
	*ret_word = word;
	if (*reader->at == '"' || *reader->at == '\'')
		return read_quoted(reader, word);
	read_plain(reader, word);
	return 0;
}

/* ------------------------------------------------------------------ directives */

/* A block of Lua is nobody's directives: over it, by its braces. */
static bool is_foreign(const struct directive *directive)
{
	struct rea_slice name = directive->words->text;

	return name.length > 13 && check_is(rea_slice_make(name.data + name.length - 13, 13), "_by_lua_block");
}

static int skip_foreign(struct reader *reader, const struct directive *directive)
{
	size_t depth = 0;

	for (; reader->at < reader->end; reader->at++) {
		if (*reader->at == '\n')
			next_line(reader);
		depth += *reader->at == '{';
		if (*reader->at == '}' && --depth == 0) {
			reader->at++;
			return 0;
		}
	}
	return refuse(reader, directive->words->line, directive->words->column, "the block that begins here does not end");
}

static int read_directive(struct reader *reader, struct directive *parent, struct directive **ret_open)
{
	struct directive *directive = check_alloc(reader->check, sizeof(*directive));
	struct word **tail = directive ? &directive->words : NULL;
	int error = 0;

	*ret_open = NULL;
	if (directive == NULL)
		return nomem(reader);
	directive->parent = parent;
	while (error == 0) {
		skip(reader);
		if (reader->at == reader->end)
			return refuse(reader, directive->words->line, directive->words->column,
			    "the directive that begins here does not end with ';'");
		if (*reader->at == ';' || *reader->at == '{')
			break;
		if (*reader->at == '}')
			return refuse(reader, reader->line, column(reader, reader->at), "expected ';' before '}'");
		error = read_word(reader, tail);
		tail = error == 0 ? &(*tail)->next : tail;
	}
	if (error != 0)
		return error;
	if (parent->last == NULL)
		parent->first = directive;
	else
		parent->last->next = directive;
	parent->last = directive;
	if (*reader->at == '{' && is_foreign(directive))
		return skip_foreign(reader, directive);
	*ret_open = *reader->at == '{' ? directive : NULL;
	reader->at++;
	return 0;
}

static int read_all(struct reader *reader)
{
	struct directive *open = reader->root, *block;
	size_t depth = 0;
	int error = 0;

	for (skip(reader); reader->at < reader->end && error == 0; skip(reader)) {
		uint32_t at = column(reader, reader->at);

		if (*reader->at == '}') {
			if (depth == 0)
				return refuse(reader, reader->line, at, "unexpected '}'");
			depth--;
			open = (struct directive *)open->parent;
			reader->at++;
			continue;
		}
		if (*reader->at == ';' || *reader->at == '{')
			return refuse(reader, reader->line, at, "expected a directive");
		error = read_directive(reader, open, &block);
		if (error == 0 && block != NULL) {
			if (++depth == DEPTH_MAX)
				return refuse(reader, reader->line, at, "blocks are nested more than 64 levels deep");
			open = block;
		}
	}
	if (error == 0 && depth > 0)
		return refuse(
		    reader, open->words->line, open->words->column, "the block that begins here does not end with '}'");
	return error;
}

/* ------------------------------------------------------------------ questions */

static bool is_named(const struct directive *directive, const char *name)
{
	return directive->words != NULL && check_is(directive->words->text, name);
}

/* In this block or the nearest around it that has one. */
static const struct directive *find_up(const struct directive *block, const char *name)
{
	for (; block != NULL; block = block->parent)
		for (const struct directive *directive = block->first; directive != NULL; directive = directive->next)
			if (is_named(directive, name))
				return directive;
	return NULL;
}

static struct rea_slice argument(const struct directive *directive)
{
	return directive != NULL && directive->words->next != NULL ? directive->words->next->text : rea_slice_make("", 0);
}

static struct check_place place_of(const struct reader *reader, const struct word *word)
{
	return check_place_at(reader->file, word->line, word->column);
}

static uint64_t read_time(struct reader *reader, const struct directive *directive, uint64_t fallback)
{
	uint64_t ns;

	if (directive == NULL)
		return fallback;
	if (check_duration(argument(directive), REA_NS_PER_S, &ns))
		return ns;
	check_find(reader->check, "RC19", CHECK_ERROR, place_of(reader, directive->words), "",
	    check_text(reader->check, "%s: expected a time, got \"%s\"",
		check_shown(reader->check, directive->words->text), check_shown(reader->check, argument(directive))),
	    "a time such as 5s or 500ms");
	return fallback;
}

/* "http://users/path": users. */
static struct rea_slice upstream_of(struct rea_slice url)
{
	size_t at = 0, end;

	for (size_t i = 0; i + 2 < url.length; i++)
		if (memcmp(url.data + i, "://", 3) == 0)
			at = i + 3;
	for (end = at; end < url.length && url.data[end] != '/' && url.data[end] != ':'; end++)
		;
	return rea_slice_make(url.data + at, end - at);
}

/* Servers of an upstream, 0 = it is not in this file. */
static uint32_t servers_of(const struct directive *block, struct rea_slice name)
{
	for (; block != NULL; block = block->parent)
		for (const struct directive *upstream = block->first; upstream != NULL; upstream = upstream->next) {
			uint32_t count = 0;

			if (!is_named(upstream, "upstream") || !rea_slice_equal(argument(upstream), name))
				continue;
			for (const struct directive *server = upstream->first; server != NULL; server = server->next) {
				bool down = false;

				for (const struct word *word = server->words; word != NULL; word = word->next)
					down = down || check_is(word->text, "down");
				count += is_named(server, "server") && !down;
			}
			return count;
		}
	return 0;
}

/* ------------------------------------------------------------------ layers */

struct conditions {
	uint32_t failures; /* before or after the request was sent */
	uint32_t statuses;
	bool off;
	const struct word *non_idempotent;
};

static void read_condition(struct reader *reader, const struct word *word, struct conditions *conditions)
{
	static const char *const others[] = {"updating", "http_403", "http_404", "denied", "http_401"};
	uint64_t status;

	if (check_is(word->text, "off"))
		conditions->off = true;
	else if (check_is(word->text, "error"))
		conditions->failures |= CHECK_BIT(CHECK_ON_CONNECT) | CHECK_BIT(CHECK_ON_CLOSED);
	else if (check_is(word->text, "timeout"))
		conditions->failures |= CHECK_BIT(CHECK_ON_TIMEOUT) | CHECK_BIT(CHECK_ON_CONNECT);
	else if (check_is(word->text, "invalid_header"))
		conditions->failures |= CHECK_BIT(CHECK_ON_CLOSED);
	else if (check_is(word->text, "non_idempotent"))
		conditions->non_idempotent = word;
	else if (word->text.length == 8 && memcmp(word->text.data, "http_", 5) == 0 &&
		 rea_slice_to_u64(rea_slice_make(word->text.data + 5, 3), &status) && check_failures_of_status(status) != 0)
		conditions->statuses |= check_failures_of_status(status);
	else {
		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
			if (check_is(word->text, others[i]))
				return;
		check_find(reader->check, "RC19", CHECK_ERROR, place_of(reader, word), "",
		    check_text(reader->check, "%s is no condition of proxy_next_upstream",
			check_shown(reader->check, word->text)),
		    "error, timeout, invalid_header, http_500, http_502, http_503, http_504, http_429, non_idempotent "
		    "or off");
	}
}

static struct conditions read_conditions(struct reader *reader, const struct directive *directive)
{
	struct conditions conditions = {.failures = 0};

	if (directive == NULL)
		conditions.failures = CHECK_ON_IO;
	for (const struct word *word = directive ? directive->words->next : NULL; word != NULL; word = word->next)
		read_condition(reader, word, &conditions);
	return conditions;
}

static uint32_t read_tries(struct reader *reader, const struct directive *directive)
{
	uint64_t tries;

	if (directive == NULL)
		return 0;
	if (rea_slice_to_u64(argument(directive), &tries) && tries < UINT32_MAX)
		return (uint32_t)tries;
	check_find(reader->check, "RC19", CHECK_ERROR, place_of(reader, directive->words), "",
	    check_text(reader->check, "%s: expected a whole number", check_shown(reader->check, directive->words->text)),
	    "a number of tries");
	return 0;
}

/* A variable in its value: another key for each request, and one for all its tries. */
static bool has_key(const struct directive *block, const char *set_header)
{
	for (; block != NULL; block = block->parent) {
		bool any = false;

		for (const struct directive *directive = block->first; directive != NULL; directive = directive->next) {
			if (!is_named(directive, set_header))
				continue;
			any = true;
			if (check_is(argument(directive), "Idempotency-Key") && directive->words->next->next != NULL &&
			    check_contains(directive->words->next->next->text, "$"))
				return true;
		}
		/* Headers are inherited only by blocks that set none. */
		if (any)
			return false;
	}
	return false;
}

static const struct directive *sibling(const struct directive *block, const char *module, const char *name)
{
	char full[64];

	snprintf(full, sizeof(full), "%s_%s", module, name);
	return find_up(block, full);
}

static const char *block_name(struct check *check, const struct directive *block)
{
	const char *text = "";

	for (const struct word *word = block->words ? block->words->next : NULL; word != NULL; word = word->next)
		text = check_text(check, "%s%s%s", text, text[0] != '\0' ? " " : "", check_shown(check, word->text));
	return text[0] != '\0' ? text : "(unnamed)";
}

static void bound_is_missing(struct reader *reader, const struct check_target *target, const struct directive *on,
    const struct check_layer *layer, bool tries_set, uint32_t servers)
{
	if (tries_set || servers > 0 || on == NULL || layer->total_ns != REA_NEVER)
		return;
	check_find(reader->check, "RC24", CHECK_WARNING, place_of(reader, on->words), target->name,
	    "there is no limit on tries, and the servers are not in this file: every one of them is asked",
	    "proxy_next_upstream_tries 2; and proxy_next_upstream_timeout");
}

static void read_pass(struct reader *reader, const struct directive *block, const struct directive *pass, const char *module)
{
	const struct directive *on = sibling(block, module, "next_upstream"),
			       *tries = sibling(block, module, "next_upstream_tries");
	const struct directive *until = sibling(block, module, "next_upstream_timeout"),
			       *read = sibling(block, module, "read_timeout");
	struct rea_slice service = upstream_of(argument(pass));
	struct conditions conditions = read_conditions(reader, on);
	uint32_t servers = servers_of(block, service), limit = read_tries(reader, tries), requests;
	char set_header[64];
	struct check_target *target;
	struct check_layer *layer;

	if (reader->targets++ >= CHECK_TARGETS_MAX)
		return;
	target = check_target_new(reader->check, reader->file->app, "location", block_name(reader->check, block),
	    check_canonical(reader->check, service), place_of(reader, block->words ? block->words : pass->words));
	if (target == NULL)
		return;
	snprintf(set_header, sizeof(set_header), "%s_set_header", module);
	target->keyed = reader->check->options.keyed || has_key(block, set_header);
	target->connect_ns = read_time(reader, sibling(block, module, "connect_timeout"), TIMEOUT_NS);
	target->read_ns = read_time(reader, read, TIMEOUT_NS);
	target->read_place = read ? place_of(reader, read->words) : target->place;
	if (conditions.off)
		return;
	layer = check_layer_new(reader->check, target, "nginx next upstream",
	    place_of(reader, tries ? tries->words
			     : on  ? on->words
				   : pass->words));
	if (layer == NULL)
		return;
	/* Each server once; how many, an upstream says, and a name may stand for several. */
	requests = servers > 0 ? servers : limit > 0 ? limit : 1;
	requests = limit > 0 && limit < requests ? limit : requests;
	layer->unknown = servers == 0 && limit == 0;
	layer->number = requests;
	layer->key = tries ? "tries" : NULL;
	layer->written = tries != NULL;
	check_layer_repeats(layer, conditions.failures | conditions.statuses,
	    CHECK_BIT(CHECK_GET) | CHECK_BIT(CHECK_PUT), requests, servers > 0);
	/* A POST that was not sent yet goes on in any case. */
	check_layer_repeats(layer,
	    (conditions.non_idempotent ? CHECK_ALL_FAILURES : CHECK_BIT(CHECK_ON_CONNECT)) &
		(conditions.failures | conditions.statuses),
	    CHECK_BIT(CHECK_POST), requests, servers > 0);
	if (conditions.non_idempotent != NULL) {
		layer->place = place_of(reader, conditions.non_idempotent);
		layer->safer_place = layer->place;
		layer->safer_old = " non_idempotent";
		layer->safer_place.column--;
		layer->safer_new = "";
	}
	bound_is_missing(reader, target, on, layer, limit > 0, servers);
	if (until != NULL && read_time(reader, until, 0) > 0)
		layer->total_ns =
		    rea_time_add(read_time(reader, until, 0), rea_time_add(target->connect_ns, target->read_ns));
	layer->deadline = true; /* after that time it begins no new try, and ends none */
	if (limit > servers && servers > 0)
		check_correct(reader->check,
		    check_find(reader->check, "RC25", CHECK_WARNING, place_of(reader, tries->words), target->name,
			check_text(reader->check, "%u tries, but the upstream has %u servers, and none is asked twice",
			    limit, servers),
			check_text(reader->check, "at most %u, or 2 whatever their number", servers)),
		    place_of(reader, tries->words->next), check_shown(reader->check, argument(tries)),
		    check_text(reader->check, "%u", servers));
}

static void walk(struct reader *reader, const struct directive *block)
{
	static const char *const modules[] = {"proxy", "grpc", "fastcgi", "uwsgi", "scgi"};

	for (const struct directive *directive = block->first; directive != NULL; directive = directive->next) {
		for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
			char pass[32];

			snprintf(pass, sizeof(pass), "%s_pass", modules[i]);
			if (is_named(directive, pass))
				read_pass(reader, block, directive, modules[i]);
		}
		if (directive->first != NULL)
			walk(reader, directive);
	}
}

int check_read_nginx(struct check *check, struct check_file *file, struct rea_error_info *info)
{
	struct reader reader = {.check = check,
	    .file = file,
	    .info = info,
	    .at = file->text.data,
	    .end = file->text.data + file->text.length,
	    .line_start = file->text.data,
	    .line = 1};
	int error;

	reader.root = check_alloc(check, sizeof(*reader.root));
	if (reader.root == NULL)
		return nomem(&reader);
	error = read_all(&reader);
	if (error != 0)
		return error;
	if (check_app_of(check, file, file->name, check_hop_of(check, file)) == NULL)
		return nomem(&reader);
	walk(&reader, reader.root);
	return 0;
}
