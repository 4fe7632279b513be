/* The reader works line by line, word by word; a table tells what each action takes and sets. */
#include "lab/script.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct reader {
	struct lab_script *script;
	const char *name;
	const char *at;  /* next byte */
	const char *end; /* of the text */
	const char *line_start;
	const char *word_start; /* of the word read last */
	uint32_t line;
	bool rule_is_default;        /* the rule in work was made by steps that stand before any `on` */
	struct rea_error_info *info; /* never NULL */
};

static __attribute__((format(printf, 3, 4))) int fail(const struct reader *reader, int error, const char *format, ...)
{
	va_list args;

	snprintf(reader->info->file, sizeof(reader->info->file), "%s", reader->name);
	reader->info->line = reader->line;
	reader->info->column = (uint32_t)(reader->word_start - reader->line_start) + 1;
	reader->info->key[0] = '\0';
	va_start(args, format);
	vsnprintf(reader->info->message, sizeof(reader->info->message), format, args);
	va_end(args);
	return error;
}

/* ---- words ---- */

static bool at_line_end(struct reader *reader)
{
	while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r'))
		reader->at++;
	return reader->at == reader->end || *reader->at == '\n' || *reader->at == '#';
}

static int unescape(const struct reader *reader, char c, char *ret_char)
{
	switch (c) {
	case 'n':
		*ret_char = '\n';
		return 0;
	case 'r':
		*ret_char = '\r';
		return 0;
	case 't':
		*ret_char = '\t';
		return 0;
	case '"':
	case '\\':
		*ret_char = c;
		return 0;
	default:
		return fail(reader, REA_ERR_SYNTAX, "\\%c is no escape: there are \\n, \\r, \\t, \\\" and \\\\", c);
	}
}

static int read_quoted(struct reader *reader)
{
	struct lab_script *script = reader->script;

	for (reader->at++; reader->at < reader->end && *reader->at != '\n'; reader->at++) {
		char c = *reader->at;

		if (c == '"') {
			reader->at++;
			return 0;
		}
		if (c == '\\' && reader->end - reader->at > 1) {
			int error = unescape(reader, *++reader->at, &c);

			if (error != 0)
				return error;
		}
		script->words[script->words_len++] = c;
	}
	return fail(reader, REA_ERR_SYNTAX, "the quote that begins here does not end on this line");
}

static void read_plain(struct reader *reader)
{
	struct lab_script *script = reader->script;

	while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) == NULL)
		script->words[script->words_len++] = *reader->at++;
}

/* The next word of the line. At its end: an error that says what was expected. Values never outgrow the source, which bounds `words`. */
static int read_word(struct reader *reader, const char *expected, struct rea_slice *ret_word)
{
	size_t start = reader->script->words_len;

	if (at_line_end(reader)) {
		reader->word_start = reader->at;
		return fail(reader, REA_ERR_SYNTAX, "expected %s", expected);
	}
	reader->word_start = reader->at;
	if (*reader->at == '"') {
		int error = read_quoted(reader);

		if (error != 0)
			return error;
	} else {
		read_plain(reader);
	}
	*ret_word = rea_slice_make(reader->script->words + start, reader->script->words_len - start);
	return 0;
}

/* ---- values ---- */

static bool slice_is(struct rea_slice slice, const char *text)
{
	return rea_slice_equal(slice, rea_slice_of(text));
}

/* Digits and a unit out of a list of pairs. */
struct unit {
	const char *name;
	uint64_t factor;
};

static bool parse_with_unit(struct rea_slice word, const struct unit *units, uint64_t *ret_value)
{
	size_t digits = 0;
	uint64_t value;

	while (digits < word.length && word.data[digits] >= '0' && word.data[digits] <= '9')
		digits++;
	if (!rea_slice_to_u64(rea_slice_make(word.data, digits), &value))
		return false;
	for (; units->name != NULL; units++) {
		if (!slice_is(rea_slice_make(word.data + digits, word.length - digits), units->name))
			continue;
		*ret_value = rea_time_mul(value, units->factor);
		return *ret_value != REA_NEVER;
	}
	return false;
}

static int read_time(struct reader *reader, uint64_t *ret_ns)
{
	static const struct unit units[] = {{"us", REA_NS_PER_US}, {"ms", REA_NS_PER_MS}, {"s", REA_NS_PER_S}, {NULL, 0}};
	struct rea_slice word = {0};
	int error = read_word(reader, "a time such as 200ms or 2s", &word);

	if (error != 0)
		return error;
	if (!parse_with_unit(word, units, ret_ns))
		return fail(reader, REA_ERR_INVALID, "\"%.*s\" is no time: write 500us, 200ms or 2s", (int)word.length,
		    word.data);
	return 0;
}

static int read_size(struct reader *reader, uint64_t *ret_bytes)
{
	static const struct unit units[] = {{"", 1}, {"k", 1024}, {"m", 1024 * 1024}, {"g", 1024 * 1024 * 1024}, {NULL, 0}};
	struct rea_slice word = {0};
	int error = read_word(reader, "a number of bytes such as 5 or 64k", &word);

	if (error != 0)
		return error;
	if (!parse_with_unit(word, units, ret_bytes))
		return fail(reader, REA_ERR_INVALID, "\"%.*s\" is no number of bytes: write 5, 64k, 1m or 1g",
		    (int)word.length, word.data);
	return 0;
}

static int read_status(struct reader *reader, uint16_t min, uint16_t max, uint16_t *ret_status)
{
	struct rea_slice word = {0};
	uint64_t value;
	int error = read_word(reader, "a status", &word);

	if (error != 0)
		return error;
	if (!rea_slice_to_u64(word, &value) || value < min || value > max)
		return fail(reader, REA_ERR_INVALID, "\"%.*s\" is no status from %u to %u", (int)word.length, word.data,
		    min, max);
	*ret_status = (uint16_t)value;
	return 0;
}

static bool is_token(struct rea_slice word)
{
	for (size_t i = 0; i < word.length; i++) {
		unsigned char c = (unsigned char)word.data[i];

		if (c <= ' ' || c >= 127 || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL)
			return false;
	}
	return word.length > 0;
}

/* `NAME: VALUE` or `NAME VALUE`. The field gets no id: then the session sends it as it is, even one that it would write itself. */
static int read_field(struct reader *reader, struct http_field *fields, size_t *fields_len)
{
	struct http_field *field = &fields[*fields_len];
	int error;

	if (*fields_len == LAB_FIELDS_MAX)
		return fail(reader, REA_ERR_LIMIT, "a step has at most %d of these", LAB_FIELDS_MAX);
	*field = (struct http_field){0};
	error = read_word(reader, "the name of a field", &field->name);
	if (error != 0)
		return error;
	if (field->name.length > 0 && field->name.data[field->name.length - 1] == ':')
		field->name.length--;
	if (!is_token(field->name))
		return fail(reader, REA_ERR_INVALID, "\"%.*s\" is no field name", (int)field->name.length, field->name.data);
	error = read_word(reader, "the value of the field (in quotes when it has blanks)", &field->value);
	if (error == 0)
		(*fields_len)++;
	return error;
}

/* ---- actions ---- */

static int read_end(struct reader *reader, struct lab_step *step, enum lab_end end)
{
	if (step->end != LAB_REPLY)
		return fail(reader, REA_ERR_INVALID, "a request ends in one way: the step says two");
	step->end = end;
	return 0;
}

static int read_drip(struct reader *reader, struct lab_step *step)
{
	struct rea_slice word = {0};
	int error = read_size(reader, &step->drip_bytes);

	if (error == 0 && step->drip_bytes == 0)
		return fail(reader, REA_ERR_INVALID, "a drip has at least one byte");
	if (error == 0)
		error = read_word(reader, "every", &word);
	if (error == 0 && !slice_is(word, "every"))
		return fail(reader, REA_ERR_SYNTAX, "expected: drip BYTES every TIME");
	return error != 0 ? error : read_time(reader, &step->drip_ns);
}

static int read_action(struct reader *reader, struct rea_slice word, struct lab_step *step)
{
	static const struct {
		const char *name;
		enum lab_end end;
	} ends[] = {{"reset", LAB_RESET}, {"close", LAB_CLOSE}, {"hang", LAB_HANG}, {"garbage", LAB_GARBAGE},
	    {"endless-headers", LAB_ENDLESS_HEADERS}, {"upgrade", LAB_UPGRADE}};
	struct {
		const char *name;
		bool *flag;
	} flags[] = {{"echo", &step->echo}, {"chunked", &step->chunked}, {"short", &step->cut}, {"early", &step->early},
	    {"no-read", &step->no_read}, {"close-after", &step->close_after}};
	struct {
		const char *name;
		uint64_t *ns;
	} times[] = {{"delay", &step->delay_ns}, {"pause", &step->pause_ns}};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (slice_is(word, ends[i].name))
			return read_end(reader, step, ends[i].end);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (slice_is(word, flags[i].name)) {
			*flags[i].flag = true;
			return 0;
		}
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (slice_is(word, times[i].name))
			return read_time(reader, times[i].ns);
	if (slice_is(word, "status"))
		return read_status(reader, 200, 599, &step->status);
	if (slice_is(word, "interim"))
		return read_status(reader, 102, 199, &step->interim);
	if (slice_is(word, "header"))
		return read_field(reader, step->fields, &step->fields_len);
	if (slice_is(word, "trailer"))
		return read_field(reader, step->trailers, &step->trailers_len);
	if (slice_is(word, "body"))
		return read_word(reader, "a text (in quotes when it has blanks)", &step->body);
	if (slice_is(word, "body-bytes"))
		return read_size(reader, &step->body_bytes);
	if (slice_is(word, "reset-after"))
		return read_size(reader, &step->reset_after);
	if (slice_is(word, "drip"))
		return read_drip(reader, step);
	return fail(reader, REA_ERR_SYNTAX, "there is no action \"%.*s\"", (int)word.length, word.data);
}

/* What only the whole step shows. */
static int check_step(const struct reader *reader, struct lab_step *step)
{
	if (step->echo + (step->body.length > 0) + (step->body_bytes > 0) > 1)
		return fail(reader, REA_ERR_INVALID, "a reply has one body: echo, body or body-bytes");
	if (step->echo && (step->no_read || step->drip_bytes > 0 || step->reset_after != UINT64_MAX || step->cut))
		return fail(reader, REA_ERR_INVALID, "echo goes with none of no-read, drip, reset-after and short");
	if (step->reset_after != UINT64_MAX && step->cut)
		return fail(reader, REA_ERR_INVALID, "the reply is either reset or short");
	step->chunked |= step->trailers_len > 0;
	return 0;
}

/* ---- lines ---- */

/* `10%` and `0.5%` in parts per million. */
static bool parse_chance(struct rea_slice word, uint32_t *ret_ppm)
{
	uint64_t ppm = 0, scale = LAB_PPM / 100;
	bool point = false, digits = false;

	if (word.length < 2 || word.data[word.length - 1] != '%')
		return false;
	for (size_t i = 0; i + 1 < word.length; i++) {
		if (word.data[i] == '.' && !point) {
			point = true;
			continue;
		}
		if (word.data[i] < '0' || word.data[i] > '9' || (point && scale == 1) || ppm > LAB_PPM)
			return false;
		digits = true;
		if (point)
			scale /= 10;
		ppm = point ? ppm + (uint64_t)(word.data[i] - '0') * scale
			    : ppm * 10 + (uint64_t)(word.data[i] - '0') * scale;
	}
	*ret_ppm = (uint32_t)ppm;
	return digits && ppm > 0 && ppm <= LAB_PPM;
}

/* `3x`: answers three requests. */
static bool parse_times(struct rea_slice word, uint32_t *ret_times)
{
	uint64_t times;

	if (word.length < 2 || word.data[word.length - 1] != 'x' ||
	    !rea_slice_to_u64(rea_slice_make(word.data, word.length - 1), &times))
		return false;
	*ret_times = (uint32_t)times;
	return times > 0 && times <= UINT32_MAX;
}

static void *grow(void *items, size_t count, size_t size)
{
	/* Doubles at powers of two. */
	if (count > 0 && (count & (count - 1)) != 0)
		return items;
	return realloc(items, (count > 0 ? 2 * count : 1) * size);
}

static int add_rule(struct reader *reader, struct rea_slice method, struct rea_slice prefix)
{
	struct lab_script *script = reader->script;
	struct lab_rule *rules = grow(script->rules, script->rules_len, sizeof(*rules));

	if (rules == NULL)
		return fail(reader, REA_ERR_NOMEM, "out of memory");
	script->rules = rules;
	rules[script->rules_len++] = (struct lab_rule){.method = method, .prefix = prefix};
	return 0;
}

static int add_step(struct reader *reader, const struct lab_step *step)
{
	struct lab_rule *rule = &reader->script->rules[reader->script->rules_len - 1];
	struct lab_step *steps = grow(rule->steps, rule->steps_len, sizeof(*steps));

	if (steps == NULL)
		return fail(reader, REA_ERR_NOMEM, "out of memory");
	rule->steps = steps;
	steps[rule->steps_len++] = *step;
	return 0;
}

static int check_chances(const struct reader *reader)
{
	const struct lab_rule *rule = &reader->script->rules[reader->script->rules_len - 1];
	uint64_t sum = 0;

	for (size_t i = 0; i < rule->steps_len; i++)
		sum += rule->steps[i].chance_ppm;
	if (sum > LAB_PPM)
		return fail(reader, REA_ERR_INVALID, "the chances of this rule add up to more than 100%%");
	return 0;
}

/* [CHANCE%|COUNTx] ACTION… */
static int read_step(struct reader *reader, struct rea_slice word)
{
	struct lab_step step = {.times = 1, .status = 200, .reset_after = UINT64_MAX};
	const char *start = reader->word_start;
	int error = 0;

	if (reader->script->rules_len == 0) {
		error = add_rule(reader, REA_SLICE_LIT("*"), REA_SLICE_LIT("*"));
		reader->rule_is_default = true;
	}
	if (error == 0 && (parse_chance(word, &step.chance_ppm) || parse_times(word, &step.times)))
		error = read_word(reader, "an action", &word);
	while (error == 0) {
		error = read_action(reader, word, &step);
		if (error != 0 || at_line_end(reader))
			break;
		error = read_word(reader, "an action", &word);
	}
	if (error == 0)
		error = check_step(reader, &step);
	while (reader->at > start && strchr(" \t\r", reader->at[-1]) != NULL)
		reader->at--;
	step.text = rea_slice_make(start, (size_t)(reader->at - start));
	if (error == 0)
		error = add_step(reader, &step);
	return error != 0 ? error : check_chances(reader);
}

static int read_rule(struct reader *reader)
{
	struct rea_slice method = {0}, prefix = {0};
	int error;

	if (reader->rule_is_default)
		return fail(reader, REA_ERR_SYNTAX, "steps stand before the first rule: they would take every request");
	error = read_word(reader, "a method, or * for any", &method);
	if (error == 0 && !is_token(method))
		return fail(reader, REA_ERR_INVALID, "\"%.*s\" is no method", (int)method.length, method.data);
	if (error == 0)
		error = read_word(reader, "the beginning of a path", &prefix);
	if (error == 0 && (prefix.length == 0 || prefix.data[0] != '/') && !slice_is(prefix, "*"))
		return fail(reader, REA_ERR_INVALID, "a path begins with /");
	return error != 0 ? error : add_rule(reader, method, prefix);
}

static int read_refuse(struct reader *reader)
{
	reader->script->refuse_ns = REA_NEVER;
	return at_line_end(reader) ? 0 : read_time(reader, &reader->script->refuse_ns);
}

static int read_loop(struct reader *reader)
{
	if (reader->script->rules_len == 0)
		return fail(reader, REA_ERR_SYNTAX, "loop stands after the steps of a rule");
	reader->script->rules[reader->script->rules_len - 1].loop = true;
	return 0;
}

static int read_line(struct reader *reader)
{
	struct rea_slice word = {0};
	int error = read_word(reader, "a word", &word);

	if (error != 0)
		return error;
	if (slice_is(word, "on"))
		error = read_rule(reader);
	else if (slice_is(word, "loop"))
		error = read_loop(reader);
	else if (slice_is(word, "refuse"))
		error = read_refuse(reader);
	else
		error = read_step(reader, word);
	if (error == 0 && !at_line_end(reader)) {
		reader->word_start = reader->at;
		return fail(reader, REA_ERR_SYNTAX, "the line should end here");
	}
	return error;
}

static int read_lines(struct reader *reader)
{
	int error = 0;

	while (error == 0 && reader->at < reader->end) {
		if (!at_line_end(reader))
			error = read_line(reader);
		while (error == 0 && reader->at < reader->end && *reader->at != '\n')
			reader->at++; /* a comment */
		if (reader->at < reader->end)
			reader->at++;
		if (error == 0) {
			reader->line_start = reader->at;
			reader->line++;
		}
	}
	return error;
}

int lab_script_parse(
    const char *name, const char *text, size_t length, struct lab_script *ret_script, struct rea_error_info *ret_info)
{
	struct rea_error_info unused;
	struct lab_script script = {0};
	struct reader reader = {.script = &script,
	    .name = name,
	    .line_start = text,
	    .word_start = text,
	    .line = 1,
	    .info = ret_info ? ret_info : &unused};
	int error;

	if (length > LAB_BYTES_MAX)
		return fail(&reader, REA_ERR_LIMIT, "a script has at most %d bytes", LAB_BYTES_MAX);
	script.source = malloc(length + 1);
	script.words = malloc(length + 1);
	if (script.source == NULL || script.words == NULL) {
		lab_script_fini(&script);
		return fail(&reader, REA_ERR_NOMEM, "out of memory");
	}
	memcpy(script.source, text, length);
	reader.at = reader.line_start = reader.word_start = script.source;
	reader.end = script.source + length;
	error = read_lines(&reader);
	if (error != 0)
		lab_script_fini(&script);
	else
		*ret_script = script;
	return error;
}

void lab_script_fini(struct lab_script *script)
{
	for (size_t i = 0; i < script->rules_len; i++)
		free(script->rules[i].steps);
	free(script->rules);
	free(script->source);
	free(script->words);
	*script = (struct lab_script){0};
}

/* ---- choosing ---- */

static bool rule_matches(const struct lab_rule *rule, struct rea_slice method, struct rea_slice path)
{
	if (!slice_is(rule->method, "*") && !rea_slice_equal(rule->method, method))
		return false;
	return slice_is(rule->prefix, "*") ||
	       (path.length >= rule->prefix.length && memcmp(path.data, rule->prefix.data, rule->prefix.length) == 0);
}

/* One draw for all chances of the rule, so that each takes exactly its share. */
static const struct lab_step *step_by_chance(const struct lab_rule *rule, struct rea_random *random)
{
	uint64_t draw = REA_NEVER, sum = 0;

	for (size_t i = 0; i < rule->steps_len; i++) {
		if (rule->steps[i].chance_ppm == 0)
			continue;
		if (draw == REA_NEVER)
			draw = rea_random_below(random, LAB_PPM);
		sum += rule->steps[i].chance_ppm;
		if (draw < sum)
			return &rule->steps[i];
	}
	return NULL;
}

/* Index of the first step from `from` on that stands in the sequence; steps_len when there is none. */
static size_t step_after(const struct lab_rule *rule, size_t from)
{
	while (from < rule->steps_len && rule->steps[from].chance_ppm > 0)
		from++;
	return from;
}

static const struct lab_step *step_in_turn(struct lab_rule *rule)
{
	size_t at = step_after(rule, rule->at), next;

	if (at == rule->steps_len)
		return NULL;
	if (rule->used == rule->steps[at].times) {
		next = step_after(rule, at + 1);
		if (next < rule->steps_len || rule->loop) {
			at = next < rule->steps_len ? next : step_after(rule, 0);
			rule->used = 0;
		}
	}
	rule->at = at;
	if (rule->used < rule->steps[at].times)
		rule->used++;
	return &rule->steps[at];
}

const struct lab_step *lab_script_next(
    struct lab_script *script, struct rea_slice method, struct rea_slice path, struct rea_random *random)
{
	static const struct lab_step echo = {
	    .text = {"echo", 4}, .times = 1, .status = 200, .echo = true, .reset_after = UINT64_MAX};
	const struct lab_step *step = NULL;

	for (size_t i = 0; i < script->rules_len; i++) {
		if (!rule_matches(&script->rules[i], method, path))
			continue;
		step = step_by_chance(&script->rules[i], random);
		if (step == NULL)
			step = step_in_turn(&script->rules[i]);
		break;
	}
	return step != NULL ? step : &echo;
}
