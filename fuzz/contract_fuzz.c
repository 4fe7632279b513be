/*
 * Templates and requests against the naive matcher. The input is lines: "+METHOD path" adds an operation, "METHOD
 * path" asks.
 */
#include "../tests/unit/contract/naive.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINE_MAX_BYTES 512

static void add(struct rea_contract *contract, const char *line, size_t number)
{
	struct rea_error_info info;
	char method[LINE_MAX_BYTES], key[24];
	const char *blank = strchr(line, ' ');
	struct rea_operation operation = {.key = key, .http_method = method, .path = blank ? blank + 1 : ""};
	size_t count = rea_contract_count(contract);

	snprintf(method, sizeof(method), "%.*s", blank ? (int)(blank - line) : 0, line);
	snprintf(key, sizeof(key), "k%zu", number);
	if (rea_contract_add(contract, &operation, &info) == 0)
		count++;
	else if (info.message[0] == '\0')
		abort();
	if (rea_contract_count(contract) != count)
		abort();
}

static void ask(const struct rea_contract *contract, const char *line)
{
	const char *blank = strchr(line, ' '), *path = blank ? blank + 1 : "";
	size_t method_length = blank ? (size_t)(blank - line) : 0;

	if (rea_contract_match(contract, line, method_length, path, strlen(path)) !=
	    naive_match(contract, line, method_length, path, strlen(path)))
		abort();
}

/* Hand each line to add, or to ask. */
static void each_line(struct rea_contract *contract, const uint8_t *data, size_t size, bool adding)
{
	size_t number = 0;

	for (size_t at = 0; at < size; number++) {
		char line[LINE_MAX_BYTES];
		const uint8_t *newline = memchr(data + at, '\n', size - at);
		size_t length = newline ? (size_t)(newline - data) - at : size - at;

		snprintf(line, sizeof(line), "%.*s", (int)(length < sizeof(line) ? length : sizeof(line) - 1),
		    (const char *)data + at);
		if (line[0] == '+' && adding)
			add(contract, line + 1, number);
		else if (line[0] != '+' && !adding)
			ask(contract, line);
		at += length + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rea_contract *contract;

	if (rea_contract_new(NULL, &contract) != 0)
		return 0;
	each_line(contract, data, size, true);
	rea_contract_finish(contract);
	each_line(contract, data, size, false);
	rea_contract_free(contract);
	return 0;
}
