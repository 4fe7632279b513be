/*
 * Any bytes as a configuration file of somebody else: refused with a message, or checked, with numbers that make sense, reports that are whole and a
 * correction that can be read again. The first byte says the kind of file.
 */
#include "check/model.h"

#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
	const char *name;
	enum check_kind kind;
} kinds[] = {{"a/application.yml", CHECK_KIND_SPRING}, {"a/application.properties", CHECK_KIND_SPRING},
    {"nginx.conf", CHECK_KIND_NGINX}, {"haproxy.cfg", CHECK_KIND_HAPROXY}, {"envoy.yaml", CHECK_KIND_ENVOY},
    {"vs.yaml", CHECK_KIND_ISTIO}, {"service.json", CHECK_KIND_GRPC}, {"rea.yaml", CHECK_KIND_REA}};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void must(bool good)
{
	if (!good)
		abort();
}

static void check_target_of(const struct check_target *target)
{
	for (int failure = 0; failure < CHECK_FAILURES; failure++)
		for (int method = 0; method < CHECK_METHODS; method++) {
			uint64_t least =
			    check_requests_least(target, (enum check_failure)failure, (enum check_method)method);

			must(least >= 1 && least <= check_requests_most(target, (enum check_failure)failure,
							(enum check_method)method));
		}
	must(check_time_configured(target) <= check_time_worst(target));
}

static struct check *run(const char *name, enum check_kind kind, const char *text, size_t length, bool *ret_read)
{
	struct check_options options = {.product_max = CHECK_PRODUCT_MAX_DEFAULT, .kind = kind};
	struct rea_error_info info;
	struct check *check = NULL;

	must(check_new(&options, NULL, &check) == 0);
	*ret_read = check_add(check, name, text, length, &info) == 0;
	must(*ret_read || info.message[0] != '\0');
	must(check_run(check) == 0);
	must((check_exit_code(check) == 2) == !*ret_read);
	return check;
}

static void check_reports(struct check *check)
{
	struct rea_buffer text = {.data = NULL};
	json_t *json;

	must(check_report_text(check, true, &text) == 0);
	must(memchr(rea_buffer_data(&text), '\0', rea_buffer_length(&text)) == NULL);
	rea_buffer_clear(&text);
	must(check_report_json(check, &text) == 0);
	json = json_loadb(rea_buffer_data(&text), rea_buffer_length(&text), 0, NULL);
	must(json != NULL);
	json_decref(json);
	rea_buffer_clear(&text);
	must(check_report_sarif(check, &text) == 0);
	rea_buffer_fini(&text);
}

/* The corrected file is as readable as the one before. */
static void check_correction(struct check *check, const char *name, enum check_kind kind)
{
	struct rea_buffer text = {.data = NULL};
	size_t changes = 0;
	bool read;

	must(check_fix(check, name, &text, &changes) == 0);
	must((changes > 0) == (rea_buffer_length(&text) > 0));
	if (changes > 0) {
		check_free(run(name, kind, rea_buffer_data(&text), rea_buffer_length(&text), &read));
		must(read);
	}
	rea_buffer_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t kind = size > 0 ? data[0] % KINDS : 0;
	struct check *check;
	bool read;

	if (size == 0)
		return 0;
	check = run(kinds[kind].name, kinds[kind].kind, (const char *)data + 1, size - 1, &read);
	for (const struct check_app *app = check->apps; app != NULL; app = app->next)
		for (const struct check_target *target = app->targets; target != NULL; target = target->next)
			check_target_of(target);
	check_reports(check);
	if (read)
		check_correction(check, kinds[kind].name, kinds[kind].kind);
	check_free(check);
	return 0;
}
