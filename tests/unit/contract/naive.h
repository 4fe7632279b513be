/*
 * The contract's matcher as one would write it with all the time in the world: decode, compare with every
 * operation, take the best. An oracle for tests and for the fuzzer; shares no code with the real one.
 */
#ifndef REA_TESTS_NAIVE_H
#define REA_TESTS_NAIVE_H

#include <rea/contract.h>

#include <stdlib.h>
#include <string.h>

#define NAIVE_BYTES_MAX 4096

struct naive_path {
	char bytes[NAIVE_BYTES_MAX];
	const char *segments[REA_CONTRACT_SEGMENTS_MAX];
	size_t lengths[REA_CONTRACT_SEGMENTS_MAX];
	size_t count;
};

static inline int naive_hex(char c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *found = c != '\0' ? strchr(digits, c) : NULL;

	return found ? (int)(found - digits) % 16 : -1;
}

/* One segment, decoded behind what is there already. */
static inline bool naive_segment(struct naive_path *path, size_t *used, const char *text, size_t length)
{
	char *start = path->bytes + *used;
	size_t decoded = 0;

	if (path->count == REA_CONTRACT_SEGMENTS_MAX)
		return false;
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '%') {
			if (i + 2 >= length || naive_hex(text[i + 1]) < 0 || naive_hex(text[i + 2]) < 0)
				return false;
			c = (unsigned char)(naive_hex(text[i + 1]) * 16 + naive_hex(text[i + 2]));
			i += 2;
			if (c == '/')
				return false;
		} else if (c == ';' || c == '#' || c == ' ') {
			return false;
		}
		if (c < 32 || c == 127 || c == '\\')
			return false;
		start[decoded++] = (char)c;
	}
	if (decoded == 0 || (decoded == 1 && start[0] == '.') || (decoded == 2 && start[0] == '.' && start[1] == '.'))
		return false;
	path->segments[path->count] = start;
	path->lengths[path->count++] = decoded;
	*used += decoded;
	return true;
}

/* False: nothing may match. */
static inline bool naive_split(struct naive_path *path, const char *text, size_t length)
{
	const char *query = memchr(text, '?', length);
	size_t used = 0;

	path->count = 0;
	if (query != NULL)
		length = (size_t)(query - text);
	if (length == 0 || text[0] != '/' || length > NAIVE_BYTES_MAX)
		return false;
	if (length == 1)
		return true;
	for (size_t at = 1;;) {
		const char *slash = memchr(text + at, '/', length - at);
		size_t end = slash ? (size_t)(slash - text) : length;

		if (!naive_segment(path, &used, text + at, end - at))
			return false;
		if (slash == NULL)
			return true;
		at = end + 1;
	}
}

/* A text that sorts before those of worse templates: 'l' for a literal, 'p' for a parameter; false = does not fit. */
static inline bool naive_fit(
    const struct naive_path *path, const char *template_text, char ret_rank[REA_CONTRACT_SEGMENTS_MAX + 1])
{
	static struct naive_path template_path;

	naive_split(&template_path, template_text, strlen(template_text));
	if (template_path.count != path->count)
		return false;
	for (size_t i = 0; i < path->count; i++) {
		/* A brace that stands there plainly is a parameter; an encoded one is a character. */
		const char *raw = template_text;

		for (size_t slashes = 0; slashes <= i; raw++)
			slashes += *raw == '/';
		ret_rank[i] = *raw == '{' ? 'p' : 'l';
		if (ret_rank[i] == 'l' && (template_path.lengths[i] != path->lengths[i] ||
					      memcmp(template_path.segments[i], path->segments[i], path->lengths[i]) != 0))
			return false;
	}
	ret_rank[path->count] = '\0';
	return true;
}

static inline const struct rea_operation *naive_match(
    const struct rea_contract *contract, const char *method, size_t method_length, const char *text, size_t length)
{
	static struct naive_path path;
	const struct rea_operation *best = NULL;
	char best_rank[REA_CONTRACT_SEGMENTS_MAX + 1] = "", rank[REA_CONTRACT_SEGMENTS_MAX + 1];

	if (!naive_split(&path, text, length))
		return NULL;
	for (size_t i = 0; i < rea_contract_count(contract); i++) {
		const struct rea_operation *operation = rea_contract_operation(contract, i);

		if (strlen(operation->http_method) != method_length ||
		    memcmp(operation->http_method, method, method_length) != 0)
			continue;
		if (naive_fit(&path, operation->path, rank) && (best == NULL || strcmp(rank, best_rank) < 0)) {
			best = operation;
			strcpy(best_rank, rank);
		}
	}
	return best;
}

#endif
