/* Documents that are refused, with every word of the refusal. */
#ifndef REA_TESTS_REFUSAL_H
#define REA_TESTS_REFUSAL_H

#include <rea/config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Beginnings of documents. */
#define SERVICE "services:\n  users:\n    instances: [127.0.0.1:9001]\n"
#define OPERATION "contracts:\n  users:\n    operations:\n      - "
#define RETRY "rpc:\n  feign:\n    retry:\n"

struct refusal {
	const char *text;
	int error;
	uint32_t line;
	uint32_t column;
	const char *key;
	const char *message;
};

#define CHECK_REFUSALS(table) check_refusals(table, sizeof(table) / sizeof((table)[0]))

static inline void check_refusals(const struct refusal *table, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct rea_config *config = NULL;
		struct rea_error_info info;
		int error = rea_config_parse("rea.yaml", table[i].text, strlen(table[i].text), NULL, &config, &info);

		if (error != table[i].error)
			fail_msg("%s for:\n%s", rea_error_name(error), table[i].text);
		assert_null(config);
		assert_string_equal(info.message, table[i].message);
		assert_string_equal(info.key, table[i].key);
		assert_string_equal(info.file, "rea.yaml");
		if (info.line != table[i].line || info.column != table[i].column)
			fail_msg("at %u:%u, not %u:%u:\n%s", info.line, info.column, table[i].line, table[i].column,
			    table[i].text);
	}
}

/* A document that is good. Returns its configuration. */
static inline struct rea_config *parse(const char *text)
{
	struct rea_config *config = NULL;
	struct rea_error_info info;
	int error = rea_config_parse("rea.yaml", text, strlen(text), NULL, &config, &info);

	if (error != 0)
		fail_msg("%u:%u: %s: %s", info.line, info.column, info.key, info.message);
	return config;
}

#endif
