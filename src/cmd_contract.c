/* rea contract show|diff|import: what a callee's documents permit */
#include "cmd.h"

#include "base/buffer.h"

#include <rea/contract_document.h>
#include <rea/event.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define DOCUMENT_MAX ((size_t)16 * 1024 * 1024 + 1)

struct options {
	const char *context;
	const char *base_path;
	bool json;
};

static int usage(FILE *out)
{
	fprintf(out,
	    "usage: rea contract show   [OPTION]... FILE...\n"
	    "       rea contract diff   [OPTION]... OLD NEW\n"
	    "       rea contract import [OPTION]... FILE...\n\n"
	    "Reads OpenAPI 3.0 and 3.1, protobuf FileDescriptorSets, Smithy models and plain contract files. Several "
	    "files are\n"
	    "combined: the most restrictive one wins.\n\n"
	    "  show    prints each operation and what it permits\n"
	    "  diff    prints which operations became retryable and which stopped being so; exits with 1 if any did\n"
	    "  import  prints a plain contract file\n\n"
	    "  -c, --context ID      the first part of method keys, instead of the document's own\n"
	    "  -b, --base-path PATH  what stands before every path, instead of the document's own\n"
	    "      --json            show and diff: JSON\n"
	    "  -h, --help            print this\n");
	return out == stderr ? 2 : 0;
}

static int fail(const struct rea_error_info *info)
{
	fprintf(stderr, "rea: %s", info->file);
	if (info->line > 0)
		fprintf(stderr, ":%u:%u", info->line, info->column);
	fprintf(stderr, "%s%s%s%s\n", info->file[0] != '\0' ? ": " : "", info->key, info->key[0] != '\0' ? ": " : "",
	    info->message);
	return 2;
}

static int read_file(const char *path, struct rea_buffer *content)
{
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
	size_t got = 1;

	if (file == NULL) {
		fprintf(stderr, "rea: %s: %s\n", path, strerror(errno));
		return 2;
	}
	while (got > 0 && rea_buffer_length(content) < DOCUMENT_MAX && rea_buffer_reserve(content, 65536) == 0) {
		got = fread(content->data + content->end, 1, content->capacity - content->end, file);
		content->end += got;
	}
	if (ferror(file))
		fprintf(stderr, "rea: %s: %s\n", path, strerror(errno));
	got = (size_t)ferror(file);
	if (file != stdin)
		fclose(file);
	return got != 0 ? 2 : 0;
}

/* 0, or the exit code with the reason told. */
static int add_file(struct rea_contract *contract, const char *path, const struct options *options)
{
	struct rea_contract_document document;
	struct rea_buffer content = {.alloc = NULL};
	struct rea_error_info info;
	int error = read_file(path, &content);

	rea_contract_document_init(&document);
	document.name = path;
	document.text = rea_buffer_length(&content) > 0 ? rea_buffer_data(&content) : "";
	document.length = rea_buffer_length(&content);
	document.context = options->context;
	document.base_path = options->base_path;
	if (error == 0 && rea_contract_read(contract, &document, NULL, NULL, &info) != 0)
		error = fail(&info);
	rea_buffer_fini(&content);
	return error;
}

static struct rea_contract *read_all(char **paths, int count, const struct options *options)
{
	struct rea_contract *contract;

	if (rea_contract_new(NULL, &contract) != 0) {
		fprintf(stderr, "rea: out of memory\n");
		return NULL;
	}
	for (int i = 0; i < count; i++)
		if (add_file(contract, paths[i], options) != 0) {
			rea_contract_free(contract);
			return NULL;
		}
	rea_contract_finish(contract);
	return contract;
}

/* Undeclared is not retryable either: nothing permits it. */
static enum rea_permission effective(const struct rea_operation *operation)
{
	enum rea_permission permission = operation != NULL ? operation->grant.permission : REA_PERMISSION_NONE;

	return permission == REA_PERMISSION_NONE ? REA_PERMISSION_UNKNOWN : permission;
}

static bool retryable(enum rea_permission permission)
{
	return permission < REA_PERMISSION_UNKNOWN;
}

/* ---- JSON ---- */

static void print_json(const char *name, const char *text, const char *after)
{
	char json[6 * 4096 + 3];

	rea_json_string(text, strlen(text), json, sizeof(json));
	printf("\"%s\":%s%s", name, json, after);
}

static void print_operation_json(const struct rea_operation *operation)
{
	printf("{");
	print_json("key", operation->key, ",");
	print_json("method", operation->http_method, ",");
	print_json("path", operation->path, ",");
	print_json("permission", rea_permission_name(effective(operation)), ",");
	print_json("source", rea_permission_source_name(operation->grant.source), ",");
	printf("\"retryable\":%s,\"generate_key\":%s", retryable(effective(operation)) ? "true" : "false",
	    operation->generate_key ? "true" : "false");
	if (operation->line > 0)
		printf(",\"line\":%u", operation->line);
	printf("}");
}

/* ---- show ---- */

static int show(char **paths, int count, const struct options *options)
{
	struct rea_contract *contract = read_all(paths, count, options);
	size_t operations = contract != NULL ? rea_contract_count(contract) : 0, repeatable = 0;
	int key = 3, path = 4;

	if (contract == NULL)
		return 2;
	for (size_t i = 0; i < operations; i++) {
		const struct rea_operation *operation = rea_contract_operation(contract, i);
		int k = (int)strlen(operation->key), p = (int)strlen(operation->path);

		repeatable += retryable(effective(operation));
		key = k > key && k <= 48 ? k : key;
		path = p > path && p <= 48 ? p : path;
	}
	if (options->json)
		printf("[");
	else
		printf("%-*s  %-7s %-*s  %-19s %s\n", key, "KEY", "METHOD", path, "PATH", "PERMISSION", "SOURCE");
	for (size_t i = 0; i < operations; i++) {
		const struct rea_operation *operation = rea_contract_operation(contract, i);

		if (options->json) {
			printf("%s\n", i > 0 ? "," : "");
			print_operation_json(operation);
		} else {
			printf("%-*s  %-7s %-*s  %-19s %s\n", key, operation->key, operation->http_method, path,
			    operation->path, rea_permission_name(effective(operation)),
			    rea_permission_source_name(operation->grant.source));
		}
	}
	if (options->json)
		printf("\n]\n");
	else
		printf("%zu operations, %zu of them may be repeated\n", operations, repeatable);
	rea_contract_free(contract);
	return 0;
}

/* ---- diff ---- */

/* What the change means for a caller; NULL = nothing. */
static const char *meaning(const struct rea_operation *old, const struct rea_operation *new)
{
	enum rea_permission before = effective(old), after = effective(new);

	if (retryable(before) && !retryable(after))
		return new == NULL ? "removed; was retryable" : "stopped being retryable";
	if (!retryable(before) && retryable(after))
		return old == NULL ? "new, and retryable" : "became retryable";
	if (before != after)
		return after > before ? "more restricted" : "less restricted";
	return NULL;
}

static bool print_change(
    const struct rea_operation *old, const struct rea_operation *new, const struct options *options, size_t printed)
{
	const char *what = meaning(old, new);
	const struct rea_operation *either = new != NULL ? new : old;

	if (what == NULL)
		return false;
	if (options->json) {
		printf("%s\n{", printed > 0 ? "," : "");
		print_json("key", either->key, ",");
		print_json("method", either->http_method, ",");
		print_json("path", either->path, ",");
		print_json("before", old != NULL ? rea_permission_name(effective(old)) : "", ",");
		print_json("after", new != NULL ? rea_permission_name(effective(new)) : "", ",");
		print_json("change", what, "}");
	} else {
		printf("%s  %s %s: %s -> %s  (%s)\n", either->key, either->http_method, either->path,
		    old != NULL ? rea_permission_name(effective(old)) : "-",
		    new != NULL ? rea_permission_name(effective(new)) : "-", what);
	}
	return true;
}

static int diff(char **paths, const struct options *options)
{
	struct rea_contract *old = read_all(&paths[0], 1, options),
			    *new = old != NULL ? read_all(&paths[1], 1, options) : NULL;
	size_t printed = 0;

	if (new == NULL) {
		rea_contract_free(old);
		return 2;
	}
	if (options->json)
		printf("[");
	for (size_t i = 0; i < rea_contract_count(old); i++) {
		const struct rea_operation *before = rea_contract_operation(old, i);

		printed +=
		    print_change(before, rea_contract_find_key(new, before->key, strlen(before->key)), options, printed);
	}
	for (size_t i = 0; i < rea_contract_count(new); i++) {
		const struct rea_operation *after = rea_contract_operation(new, i);

		if (rea_contract_find_key(old, after->key, strlen(after->key)) == NULL)
			printed += print_change(NULL, after, options, printed);
	}
	if (options->json)
		printf("%s]\n", printed > 0 ? "\n" : "");
	rea_contract_free(old);
	rea_contract_free(new);
	return printed > 0 ? 1 : 0;
}

/* ---- import ---- */

static const char *word(enum rea_permission permission)
{
	switch (permission) {
	case REA_PERMISSION_SAFE:
		return ", safe: true";
	case REA_PERMISSION_IDEMPOTENT:
		return ", retryable: true";
	case REA_PERMISSION_IDEMPOTENT_WITH_KEY:
		return ", retryable: with-key";
	case REA_PERMISSION_FORBID:
		return ", retryable: false";
	case REA_PERMISSION_NONE:
	case REA_PERMISSION_UNKNOWN:
	case REA_PERMISSION_COUNT:
		break;
	}
	return "";
}

/* A JSON string is a YAML one. */
static void print_yaml(const char *before, const char *text, size_t length)
{
	char json[6 * 4096 + 3];

	rea_json_string(text, length, json, sizeof(json));
	printf("%s%s", before, json);
}

/* The context that every key begins with; 0 = there is none. */
static size_t common_context(const struct rea_contract *contract)
{
	const char *first = rea_contract_operation(contract, 0)->key, *underscore = strchr(first, '_');
	size_t length = underscore != NULL ? (size_t)(underscore - first) : 0;

	for (size_t i = 1; i < rea_contract_count(contract); i++)
		if (strncmp(rea_contract_operation(contract, i)->key, first, length + 1) != 0)
			return 0;
	return length;
}

static int import(char **paths, int count, const struct options *options)
{
	struct rea_contract *contract = read_all(paths, count, options);
	size_t context;
	int result = 2;

	if (contract == NULL)
		return 2;
	context = rea_contract_count(contract) > 0 ? common_context(contract) : 0;
	if (rea_contract_count(contract) == 0) {
		fprintf(stderr, "rea: there are no operations\n");
	} else if (context == 0) {
		fprintf(stderr,
		    "rea: the operations have different contexts, and a contract file has one: give --context\n");
	} else {
		print_yaml("context: ", rea_contract_operation(contract, 0)->key, context);
		printf("\noperations:\n");
		for (size_t i = 0; i < rea_contract_count(contract); i++) {
			const struct rea_operation *operation = rea_contract_operation(contract, i);

			printf("  - {");
			for (const char *at = operation->http_method; *at != '\0'; at++)
				putchar(*at >= 'A' && *at <= 'Z' ? *at + ('a' - 'A') : *at);
			print_yaml(": ", operation->path, strlen(operation->path));
			print_yaml(", id: ", operation->key + context + 1, strlen(operation->key) - context - 1);
			printf("%s%s}\n", word(operation->grant.permission),
			    operation->generate_key ? ", generate-key: true" : "");
		}
		result = 0;
	}
	rea_contract_free(contract);
	return result;
}

int cmd_contract(int argc, char **argv)
{
	static const struct option long_options[] = {{"context", required_argument, NULL, 'c'},
	    {"base-path", required_argument, NULL, 'b'}, {"json", no_argument, NULL, 'j'},
	    {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	struct options options = {NULL, NULL, false};
	const char *verb;
	int option, result, count;

	while ((option = getopt_long(argc, argv, "c:b:h", long_options, NULL)) != -1) {
		switch (option) {
		case 'c':
			options.context = optarg;
			break;
		case 'b':
			options.base_path = optarg;
			break;
		case 'j':
			options.json = true;
			break;
		default:
			return usage(option == 'h' ? stdout : stderr);
		}
	}
	verb = optind < argc ? argv[optind++] : "";
	count = argc - optind;
	if (strcmp(verb, "show") == 0 && count > 0)
		result = show(&argv[optind], count, &options);
	else if (strcmp(verb, "diff") == 0 && count == 2)
		result = diff(&argv[optind], &options);
	else if (strcmp(verb, "import") == 0 && count > 0 && !options.json)
		result = import(&argv[optind], count, &options);
	else
		return usage(stderr);
	return fflush(stdout) == 0 ? result : 1;
}
