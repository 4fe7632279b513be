/*
 * rea.yaml(5) and the reader know the same keys, with the same defaults and bounds.
 *
 * In the page each block of keys stands under a heading of its own, each key in a line ".It Ic key", and what can
 * be compared in a line "Default: value." or "Default: value, from min to max.".
 */
#include "config/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *page_path;
static char *page;

struct described {
	const char *heading;
	const struct rea__block *block;
	const void *defaults; /* NULL = none of its keys has one that stands here */
};

static struct rea_config_settings settings;
static struct rea_policy policy, task_policy;
static struct rea_config_health health;
static const struct rea_config_instance instance = {.weight = 1};
static struct rea_config_tls tls;

static const struct described blocks[] = {
    {".Sh THE DOCUMENT\n", &rea__root_block, &settings},
    {".Ss A LISTENER\n", &rea__listen_block, NULL},
    {".Ss TLS OF A LISTENER\n", &rea__listen_tls_block, &tls},
    {".Ss A NAME\n", &rea__tls_name_block, NULL},
    {".Ss HTTP\n", &rea__http_block, &settings},
    {".Ss EVENTS\n", &rea__events_block, &settings},
    {".Ss LIMITS\n", &rea__limits_block, &settings},
    {".Ss TIMEOUTS\n", &rea__timeouts_block, &settings},
    {".Ss TASKS\n", &rea__tasks_block, &settings},
    {".Ss TASK POLICY\n", &rea__task_policy_block, &task_policy},
    {".Ss URLS\n", &rea__url_block, NULL},
    {".Ss SIGN\n", &rea__sign_block, NULL},
    {".Ss TARGETS\n", &rea__target_block, NULL},
    {".Ss SOURCES\n", &rea__sources_block, &settings},
    {".Ss A SOURCE\n", &rea__source_block, NULL},
    {".Ss NACOS SERVERS\n", &rea__nacos_server_block, NULL},
    {".Ss ETCD SERVERS\n", &rea__etcd_server_block, NULL},
    {".Ss DNS SERVERS\n", &rea__dns_server_block, NULL},
    {".Ss NACOS\n", &rea__nacos_block, NULL},
    {".Ss ETCD\n", &rea__etcd_block, NULL},
    {".Ss DNS\n", &rea__dns_names_block, NULL},
    {".Ss NACOS NAMES\n", &rea__nacos_names_block, NULL},
    {".Ss ETCD NAMES\n", &rea__etcd_names_block, NULL},
    {".Sh REGISTER\n", &rea__registration_block, NULL},
    {".Sh SERVICES\n", &rea__service_block, NULL},
    {".Ss TLS OF A SERVICE\n", &rea__service_tls_block, &tls},
    {".Ss HEALTH CHECK\n", &rea__health_block, &health},
    {".Ss INSTANCES\n", &rea__instance_block, &instance},
    {".Sh CONTRACTS\n", &rea__contract_block, NULL},
    {".Ss OPERATIONS\n", &rea__operation_block, NULL},
    {".Ss RPC\n", &rea__rpc_block, NULL},
    {".Ss POLICY KEYS\n", &rea__policy_block, &policy},
    {".Ss BUDGET\n", &rea__budget_block, &policy.budget},
    {".Ss BREAKER\n", &rea__breaker_block, &policy.breaker},
};

#define BLOCKS (sizeof(blocks) / sizeof(blocks[0]))

/* A section's text, to the next heading. Freed by the caller. */
static char *section(const char *heading)
{
	const char *start = strstr(page, heading), *end, *other;

	if (start == NULL)
		fail_msg("rea.yaml(5) has no heading %s", heading);
	start += strlen(heading);
	end = strstr(start, "\n.Sh ");
	other = strstr(start, "\n.Ss ");
	if (other != NULL && (end == NULL || other < end))
		end = other;
	return strndup(start, (size_t)((end ? end : start + strlen(start)) - start) + 1);
}

static const char *item_of(const char *text, const char *key)
{
	char line[96];

	snprintf(line, sizeof(line), ".It Ic %s\n", key);
	return strstr(text, line);
}

static void every_key_of_the_reader_is_in_the_page(void **state)
{
	(void)state;
	for (size_t i = 0; i < BLOCKS; i++) {
		char *text = section(blocks[i].heading);

		for (size_t j = 0; j < blocks[i].block->fields_len; j++)
			if (item_of(text, blocks[i].block->fields[j].name) == NULL)
				fail_msg("%sdoes not describe %s", blocks[i].heading, blocks[i].block->fields[j].name);
		free(text);
	}
}

static bool has_field(const struct rea__block *block, struct rea_slice name)
{
	for (size_t i = 0; i < block->fields_len; i++)
		if (rea_slice_equal(rea_slice_of(block->fields[i].name), name))
			return true;
	return false;
}

static void every_key_of_the_page_is_read(void **state)
{
	size_t items = 0, inside = 0;

	(void)state;
	for (const char *at = page; (at = strstr(at, ".It Ic ")) != NULL; at++)
		items++;
	for (size_t i = 0; i < BLOCKS; i++) {
		char *text = section(blocks[i].heading);

		for (const char *at = text; (at = strstr(at, ".It Ic ")) != NULL; inside++) {
			at += strlen(".It Ic ");
			if (!has_field(blocks[i].block, rea_slice_make(at, strcspn(at, "\n"))))
				fail_msg("nothing reads %.*s", (int)strcspn(at, "\n"), at);
		}
		free(text);
	}
	assert_int_equal(inside, items);
}

static bool is_number(const struct rea__field *field)
{
	return field->type == &rea__type_u32 || field->type == &rea__type_ms || field->type == &rea__type_double ||
	       field->max > 0;
}

/* The line that the page must have for a field. */
static void expected_line(const struct rea__field *field, const void *defaults, char *line, size_t size)
{
	struct rea_format text;

	rea_format_init(&text, line, size);
	rea_format_text(&text, "\nDefault: ");
	field->type->format(field, (const char *)defaults + field->offset, &text);
	if (is_number(field)) {
		rea_format_text(&text, field->above_min ? ", above " : ", from ");
		rea_format_double(&text, field->min);
		rea_format_text(&text, field->above_min ? " up to " : " to ");
		rea_format_double(&text, field->max);
	}
	rea_format_text(&text, ".\n");
}

static void check_default(const struct described *described, const struct rea__field *field, const char *text)
{
	const char *item = item_of(text, field->name), *next = strstr(item + 1, "\n.It "), *found;
	char line[256];

	if (field->type->format == NULL)
		return;
	expected_line(field, described->defaults, line, sizeof(line));
	found = strstr(item, line);
	if (found == NULL || (next != NULL && found > next))
		fail_msg("%s%s lacks the line%s", described->heading, field->name, line);
}

static void defaults_and_bounds(void **state)
{
	(void)state;
	for (size_t i = 0; i < BLOCKS; i++) {
		char *text = section(blocks[i].heading);

		for (size_t j = 0; blocks[i].defaults != NULL && j < blocks[i].block->fields_len; j++) {
			const struct rea__field *field = &blocks[i].block->fields[j];

			/* An instance's texts have no default. */
			if (blocks[i].defaults != &instance || field->type == &rea__type_u32)
				check_default(&blocks[i], field, text);
		}
		free(text);
	}
}

/* The example is one. */
static void the_example(void **state)
{
	static const char begin[] = ".Sh EXAMPLES\n.Bd -literal -offset indent\n";
	const char *start = strstr(page, begin), *end;
	struct rea_config *config = NULL;
	struct rea_error_info info;

	(void)state;
	assert_non_null(start);
	start += sizeof(begin) - 1;
	end = strstr(start, ".Ed\n");
	if (rea_config_parse("example", start, (size_t)(end - start), NULL, &config, &info) != 0)
		fail_msg("%u:%u: %s: %s", info.line, info.column, info.key, info.message);
	rea_config_unref(config);
}

static int set_up(void **state)
{
	FILE *file = fopen(page_path, "r");
	const size_t size = (size_t)1 << 20;

	(void)state;
	rea_config_settings_defaults(&settings);
	rea_policy_defaults(&policy);
	health = *rea__health_defaults();
	tls = *rea__tls_defaults();
	rea_policy_task_defaults(&task_policy);
	page = calloc(1, size);
	if (file == NULL || page == NULL || fread(page, 1, size - 1, file) == 0)
		return -1;
	return fclose(file);
}

static int tear_down(void **state)
{
	(void)state;
	free(page);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key_of_the_reader_is_in_the_page),
	    cmocka_unit_test(every_key_of_the_page_is_read),
	    cmocka_unit_test(defaults_and_bounds),
	    cmocka_unit_test(the_example),
	};

	if (argc != 2)
		return 2;
	page_path = argv[1];
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
