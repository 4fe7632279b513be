/*
 * What is said to the linter beside files: a class path, versions, a chain, a profile. The first line is a version, the second a profile, the third a chain; all
 * that follows is what Maven printed. Whatever it is, the report stands.
 */
#include "check/model.h"

#include <stdlib.h>

#define LINE_MAX ((size_t)255)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char application[] =
    "spring.application.name: a\n"
    "spring.cloud.openfeign.client.config.b: {retryer: feign.Retryer$Default, read-timeout: 500}\n"
    "feign.client.config.b.read-timeout: 700\n"
    "spring.cloud.loadbalancer.retry.max-retries-on-next-service-instance: 2\n"
    "b.ribbon.MaxAutoRetries: 1\n";

static void must(bool good)
{
	if (!good)
		abort();
}

/* The next line, cut to a C string. */
static void take_line(const char **at, const char *end, char line[LINE_MAX + 1])
{
	const char *stop = memchr(*at, '\n', (size_t)(end - *at));
	size_t length = (size_t)((stop != NULL ? stop : end) - *at), kept = length < LINE_MAX ? length : LINE_MAX;

	memcpy(line, *at, kept);
	line[kept] = '\0';
	*at += length + (stop != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;
	char version[LINE_MAX + 1], profile[LINE_MAX + 1], chain[LINE_MAX + 1];
	struct check_options options = {.product_max = CHECK_PRODUCT_MAX_DEFAULT};
	struct rea_buffer text = {.data = NULL};
	struct rea_error_info info = {.message = ""};
	struct check *check = NULL;

	if (size == 0)
		return 0;
	take_line(&at, end, version);
	take_line(&at, end, profile);
	take_line(&at, end, chain);
	options.cloud = check_version_is_known(version, NULL) ? version : NULL;
	options.boot = check_version_is_known(NULL, version) ? version : NULL;
	options.profiles = profile[0] != '\0' ? profile : NULL;
	must(check_new(&options, NULL, &check) == 0);
	must(check_classpath(check, at, (size_t)(end - at)) == 0);
	must(check_add(check, "a/application.yml", application, sizeof(application) - 1, &info) == 0);
	must(check_add(check, "b/application.yml", application, sizeof(application) - 1, &info) == 0);
	must(check_chain(check, chain, &info) == 0 || info.message[0] != '\0');
	must(check_run(check) == 0);
	must(check_report_text(check, false, &text) == 0);
	must(check_report_json(check, &text) == 0);
	must(memchr(rea_buffer_data(&text), '\0', rea_buffer_length(&text)) == NULL);
	rea_buffer_fini(&text);
	check_free(check);
	return 0;
}
