/* Building the model, and what its numbers come to. */
#include "check/model.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

/* ------------------------------------------------------------------ names */

const char *check_method_name(enum check_method method)
{
	static const char *const names[] = {
#define X(name, column) [CHECK_##name] = column,
	    CHECK_METHOD_MAP(X)
#undef X
	};

	return names[method];
}

const char *check_failure_name(enum check_failure failure)
{
	static const char *const names[] = {
#define X(name, row, english) [CHECK_ON_##name] = row,
	    CHECK_FAILURE_MAP(X)
#undef X
	};

	return names[failure];
}

const char *check_failure_english(enum check_failure failure)
{
	static const char *const names[] = {
#define X(name, row, english) [CHECK_ON_##name] = english,
	    CHECK_FAILURE_MAP(X)
#undef X
	};

	return names[failure];
}

uint32_t check_failures_of_status(uint64_t status)
{
	switch (status) {
	case 429:
		return CHECK_BIT(CHECK_ON_429);
	case 500:
		return CHECK_BIT(CHECK_ON_500);
	case 502:
		return CHECK_BIT(CHECK_ON_502);
	case 503:
		return CHECK_BIT(CHECK_ON_503) | CHECK_BIT(CHECK_ON_503_AFTER);
	case 504:
		return CHECK_BIT(CHECK_ON_504);
	default:
		return 0;
	}
}

/* ------------------------------------------------------------------ memory */

void *check_alloc(struct check *check, size_t size)
{
	void *piece = rea_arena_alloc(&check->arena, size);

	if (piece == NULL)
		check->error = REA_ERR_NOMEM;
	return piece;
}

char *check_copy(struct check *check, struct rea_slice text)
{
	char *copy = check_alloc(check, text.length + 1);

	if (copy != NULL && text.length > 0)
		memcpy(copy, text.data, text.length);
	return copy;
}

const char *check_text(struct check *check, const char *format, ...)
{
	va_list args;
	char *text;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length <= 0)
		return "";
	text = check_alloc(check, (size_t)length + 1);
	if (text == NULL)
		return "";
	va_start(args, format);
	vsnprintf(text, (size_t)length + 1, format, args);
	va_end(args);
	return text;
}

/* Bytes of the UTF-8 sequence that begins here, 0 = malformed. */
static size_t sequence_length(const unsigned char *at, size_t left)
{
	size_t length = at[0] < 0x80   ? 1
			: at[0] < 0xc2 ? 0
			: at[0] < 0xe0 ? 2
			: at[0] < 0xf0 ? 3
			: at[0] < 0xf5 ? 4
				       : 0;

	if (length > left)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, beyond U+10FFFF. */
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
	    (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return length;
}

const char *check_shown(struct check *check, struct rea_slice text)
{
	char *copy = check_copy(check, text);

	if (copy == NULL)
		return "";
	for (size_t i = 0; i < text.length;) {
		unsigned char *at = (unsigned char *)copy + i;
		size_t length = sequence_length(at, text.length - i);

		if (length <= 1 && (length == 0 || *at < 0x20 || *at == 0x7f))
			*at = '?';
		i += length > 0 ? length : 1;
	}
	return copy;
}

const char *check_canonical(struct check *check, struct rea_slice text)
{
	char *copy = check_copy(check, text), *to = copy;

	if (copy == NULL)
		return "";
	for (size_t i = 0; i < text.length; i++)
		if (text.data[i] != '-' && text.data[i] != '_')
			*to++ = rea_ascii_lower(text.data[i]);
	*to = '\0';
	return copy;
}

static bool next_letter(struct rea_slice text, size_t *at, char *ret_letter)
{
	while (*at < text.length && (text.data[*at] == '-' || text.data[*at] == '_'))
		(*at)++;
	if (*at == text.length)
		return false;
	*ret_letter = rea_ascii_lower(text.data[(*at)++]);
	return true;
}

bool check_same_name(struct rea_slice a, struct rea_slice b)
{
	size_t at_a = 0, at_b = 0;

	for (;;) {
		char letter_a = 0, letter_b = 0;
		bool more_a = next_letter(a, &at_a, &letter_a), more_b = next_letter(b, &at_b, &letter_b);

		if (!more_a || !more_b)
			return more_a == more_b;
		if (letter_a != letter_b)
			return false;
	}
}

/* ------------------------------------------------------------------ building */

struct check_place check_place_at(const struct check_file *file, uint32_t line, uint32_t column)
{
	return (struct check_place){file, line, column};
}

const char *check_hop_of(struct check *check, const struct check_file *file)
{
	static const char *const usual[] = {
	    "rea", "nginx", "haproxy", "envoy", "virtualservice", "service-config", "application"};
	const char *slash = strrchr(file->name, '/'), *base = slash ? slash + 1 : file->name, *parent;
	struct rea_slice stem = rea_slice_make(base, strcspn(base, "."));

	for (size_t i = 0; slash != NULL && i < sizeof(usual) / sizeof(usual[0]); i++) {
		if (!check_is(stem, usual[i]))
			continue;
		for (parent = slash; parent > file->name && parent[-1] != '/'; parent--)
			;
		if (parent < slash)
			return check_shown(check, rea_slice_make(parent, (size_t)(slash - parent)));
	}
	return check_shown(check, stem);
}

struct check_app *check_app_of(struct check *check, struct check_file *file, const char *path, const char *name)
{
	struct check_app *app;

	for (app = check->apps; app != NULL; app = app->next)
		if (app->kind == file->kind && strcmp(app->path, path) == 0)
			break;
	if (app == NULL) {
		app = check_alloc(check, sizeof(*app));
		if (app == NULL)
			return NULL;
		app->name = name;
		app->path = path;
		app->kind = file->kind;
		app->place = check_place_at(file, 0, 0);
		app->targets_tail = &app->targets;
		app->documents_tail = &app->documents;
		*check->apps_tail = app;
		check->apps_tail = &app->next;
	}
	file->app = app;
	return app;
}

struct check_target *check_target_new(struct check *check, struct check_app *app, const char *kind, const char *name,
    const char *service, struct check_place place)
{
	struct check_target *target = check_alloc(check, sizeof(*target));

	if (target == NULL)
		return NULL;
	target->app = app;
	target->kind = kind;
	target->name = name;
	target->service = service;
	target->profile = target->note = "";
	target->place = place;
	target->connect_ns = target->read_ns = REA_NEVER;
	*app->targets_tail = target;
	app->targets_tail = &target->next;
	return target;
}

struct check_layer *check_layer_new(
    struct check *check, struct check_target *target, const char *name, struct check_place place)
{
	struct check_layer *layer = check_alloc(check, sizeof(*layer)), **end = &target->layers;

	if (layer == NULL)
		return NULL;
	layer->name = name;
	layer->place = place;
	layer->attempt_ns = layer->total_ns = REA_NEVER;
	for (size_t failure = 0; failure < CHECK_FAILURES; failure++)
		for (size_t method = 0; method < CHECK_METHODS; method++)
			layer->most[failure][method] = layer->least[failure][method] = 1;
	while (*end != NULL)
		end = &(*end)->inner;
	*end = layer;
	return layer;
}

void check_layer_repeats(struct check_layer *layer, uint32_t failures, uint32_t methods, uint32_t requests, bool certain)
{
	for (size_t failure = 0; failure < CHECK_FAILURES; failure++)
		for (size_t method = 0; method < CHECK_METHODS; method++)
			if (failures & CHECK_BIT(failure) && methods & CHECK_BIT(method)) {
				layer->most[failure][method] = requests;
				layer->least[failure][method] = certain ? requests : 1;
			}
}

void check_layer_waits(struct check_layer *layer, uint32_t failures, uint64_t wait_ns)
{
	for (size_t failure = 0; failure < CHECK_FAILURES; failure++)
		if (failures & CHECK_BIT(failure))
			layer->wait_ns[failure] = wait_ns;
}

uint32_t check_layer_requests(const struct check_layer *layer)
{
	uint32_t most = 1;

	for (size_t failure = 0; failure < CHECK_FAILURES; failure++)
		for (size_t method = 0; method < CHECK_METHODS; method++)
			most = layer->most[failure][method] > most ? layer->most[failure][method] : most;
	return most;
}

uint64_t check_waits(uint32_t requests, uint64_t first_ns, double factor, uint64_t cap_ns)
{
	uint64_t sum = 0, wait = rea_time_min(first_ns, cap_ns);

	for (uint32_t i = 1; i < requests; i++) {
		double next = (double)wait * factor;

		sum = rea_time_add(sum, wait);
		/* From here on every wait is the cap. */
		if (factor <= 1 || wait == cap_ns || sum == REA_NEVER)
			return rea_time_add(sum, rea_time_mul(wait, requests - 1 - i));
		wait = next < (double)cap_ns ? (uint64_t)next : cap_ns;
	}
	return sum;
}

bool check_writes_declared(const struct check *check, const char *service)
{
	bool any = false;

	for (const struct check_app *app = check->apps; app != NULL; app = app->next)
		for (const struct check_declared *declared = app->declared; declared != NULL; declared = declared->next) {
			if (strcmp(declared->service, service) != 0 || !declared->write)
				continue;
			if (!declared->repeatable)
				return false;
			any = true;
		}
	return any;
}

void check_problem_add(struct check *check, const struct rea_error_info *info)
{
	struct check_problem *problem = check_alloc(check, sizeof(*problem));

	if (problem == NULL)
		return;
	problem->info = *info;
	*check->problems_tail = problem;
	check->problems_tail = &problem->next;
}

int check_refuse(struct rea_error_info *info, const struct check_file *file, int error, struct check_place place,
    const char *format, ...)
{
	va_list args;

	memset(info, 0, sizeof(*info));
	snprintf(info->file, sizeof(info->file), "%s", file->shown);
	info->line = place.line;
	info->column = place.column;
	va_start(args, format);
	vsnprintf(info->message, sizeof(info->message), format, args);
	va_end(args);
	return error;
}

/* ------------------------------------------------------------------ amounts */

uint64_t check_requests_most(const struct check_target *target, enum check_failure failure, enum check_method method)
{
	uint64_t product = 1;

	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner)
		product = rea_time_mul(product, layer->most[failure][method]);
	return product;
}

uint64_t check_requests_least(const struct check_target *target, enum check_failure failure, enum check_method method)
{
	uint64_t product = 1;

	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner)
		product = rea_time_mul(product, layer->least[failure][method]);
	return product;
}

uint64_t check_requests_worst(const struct check_target *target)
{
	uint64_t worst = 1, product;

	for (int failure = 0; failure < CHECK_FAILURES; failure++)
		for (int method = 0; method < CHECK_METHODS; method++) {
			product = check_requests_most(target, (enum check_failure)failure, (enum check_method)method);
			worst = product > worst ? product : worst;
		}
	return worst;
}

uint64_t check_attempt_time(const struct check_target *target)
{
	uint64_t time = rea_time_add(target->connect_ns, target->read_ns);

	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner)
		time = rea_time_min(time, rea_time_min(layer->attempt_ns, layer->total_ns));
	return time;
}

/* What one request of the layer above takes. hidden: layers that nobody configured count as well. */
static uint64_t time_inside(const struct check_target *target, const struct check_layer *layer,
    enum check_failure failure, enum check_method method, bool hidden)
{
	uint64_t time;
	uint32_t most;

	while (layer != NULL && layer->hidden && !hidden)
		layer = layer->inner;
	if (layer == NULL)
		return failure == CHECK_ON_CONNECT ? target->connect_ns : rea_time_add(target->connect_ns, target->read_ns);
	most = layer->most[failure][method];
	time = rea_time_min(time_inside(target, layer->inner, failure, method, hidden), layer->attempt_ns);
	time = rea_time_mul(time, most);
	if (most > 1)
		time = rea_time_add(time, layer->wait_ns[failure]);
	return rea_time_min(time, layer->total_ns);
}

uint64_t check_time(const struct check_target *target, enum check_failure failure, enum check_method method)
{
	return time_inside(target, target->layers, failure, method, true);
}

static uint64_t worst_time(const struct check_target *target, bool hidden)
{
	uint64_t worst = 0;

	for (int failure = 0; failure < CHECK_FAILURES; failure++)
		for (int method = 0; method < CHECK_METHODS; method++)
			worst = rea_time_max(worst, time_inside(target, target->layers, (enum check_failure)failure,
							(enum check_method)method, hidden));
	return worst;
}

uint64_t check_time_worst(const struct check_target *target)
{
	return worst_time(target, true);
}

uint64_t check_time_configured(const struct check_target *target)
{
	return worst_time(target, false);
}

static bool same_numbers(const struct check_target *a, const struct check_target *b)
{
	if (strcmp(a->kind, b->kind) != 0 || strcmp(a->name, b->name) != 0)
		return false;
	for (int failure = 0; failure < CHECK_FAILURES; failure++)
		for (int method = 0; method < CHECK_METHODS; method++) {
			enum check_failure on = (enum check_failure)failure;
			enum check_method of = (enum check_method)method;

			if (check_requests_most(a, on, of) != check_requests_most(b, on, of) ||
			    check_requests_least(a, on, of) != check_requests_least(b, on, of) ||
			    check_time(a, on, of) != check_time(b, on, of))
				return false;
		}
	return true;
}

bool check_target_is_news(const struct check_target *target)
{
	for (const struct check_target *before = target->app->targets; before != target; before = before->next)
		if (before->profile[0] == '\0' && same_numbers(before, target))
			return false;
	return true;
}

/* ------------------------------------------------------------------ values */

struct rea_slice check_trim(struct rea_slice text)
{
	while (text.length > 0 && check_is_one_of(text.data[0], " \t\r\n\f"))
		text = rea_slice_make(text.data + 1, text.length - 1);
	while (text.length > 0 && check_is_one_of(text.data[text.length - 1], " \t\r\n\f"))
		text.length--;
	return text;
}

bool check_word(struct rea_slice *rest, const char *separators, struct rea_slice *ret_word)
{
	size_t start = 0, end;

	while (start < rest->length && strchr(separators, rest->data[start]) != NULL)
		start++;
	for (end = start; end < rest->length && strchr(separators, rest->data[end]) == NULL; end++)
		;
	*ret_word = rea_slice_make(rest->data + start, end - start);
	*rest = rea_slice_make(rest->data + end, rest->length - end);
	return end > start;
}

bool check_contains(struct rea_slice text, const char *word)
{
	size_t length = strlen(word);

	for (size_t i = 0; i + length <= text.length; i++)
		if (rea_slice_equal_nocase(rea_slice_make(text.data + i, length), rea_slice_make(word, length)))
			return true;
	return false;
}

bool check_decimal(struct rea_slice text, double *ret_value)
{
	double value = 0, scale = 1;
	bool point = false, digit = false;

	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];

		if (c == '.' && !point) {
			point = true;
			continue;
		}
		if (c < '0' || c > '9')
			return false;
		digit = true;
		value = value * 10 + (c - '0');
		scale *= point ? 10 : 1;
	}
	if (digit)
		*ret_value = value / scale;
	return digit;
}

static bool unit_ns(struct rea_slice unit, double *ret_ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (check_is(unit, units[i].name)) {
			*ret_ns = units[i].ns;
			return true;
		}
	return false;
}

static bool is_digit(char c)
{
	return (c >= '0' && c <= '9') || c == '.';
}

bool check_duration(struct rea_slice text, uint64_t bare_ns, uint64_t *ret_ns)
{
	double sum = 0, number, unit;
	size_t at = 0;
	bool iso;

	text = check_trim(text);
	iso = text.length > 2 && rea_ascii_lower(text.data[0]) == 'p' && rea_ascii_lower(text.data[1]) == 't';
	if (iso)
		at = 2;
	if (at == text.length)
		return false;
	while (at < text.length) {
		size_t digits = at, letters;

		while (digits < text.length && is_digit(text.data[digits]))
			digits++;
		for (letters = digits; letters < text.length && !is_digit(text.data[letters]); letters++)
			;
		if (!check_decimal(rea_slice_make(text.data + at, digits - at), &number))
			return false;
		if (letters == digits && (at > 0 || letters < text.length))
			return false;
		unit = (double)bare_ns;
		if (letters > digits && !unit_ns(check_trim(rea_slice_make(text.data + digits, letters - digits)), &unit))
			return false;
		sum += number * unit;
		at = letters;
	}
	*ret_ns = sum < 9e18 ? (uint64_t)(sum + 0.5) : REA_NEVER;
	return true;
}

const char *check_time_text(struct check *check, uint64_t ns)
{
	double s = (double)ns / 1e9;

	if (ns == REA_NEVER)
		return "no limit";
	if (s < 1)
		return check_text(check, "%.9g ms", (double)rea_time_to_ms(ns));
	if (s < 120)
		return check_text(check, "%.9g s", (double)rea_time_to_ms(ns) / 1000);
	if (s < 7200)
		return check_text(check, "%.4g min", s / 60);
	return check_text(check, "%.4g h", s / 3600);
}
