/* Submits and payloads while memory runs out, once at every place where it can. */
#include "queue/task.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

static size_t left = SIZE_MAX; /* allocations that still succeed */
static bool for_good;          /* after the first failure all fail; else only that one */
static bool failed;

static bool fails(void)
{
	if (left > 0) {
		left -= left != SIZE_MAX;
		return false;
	}
	if (failed && !for_good)
		return false;
	return failed = true;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
	return fails() ? NULL : __real_realloc(ptr, size);
}

static const char encoded[] =
    "{\"service\":\"pay\",\"path\":\"/orders?x=1\",\"headers\":{\"x-b\":\"2\",\"X-A\":\"1\"},\"body_base64\":\"AAEC\","
    "\"biz_id\":\"b\",\"key\":\"k\",\"policy\":{\"max-attempts\":7,\"retry-on\":[\"failed\"],\"classify\":{\"409\":"
    "\"unavailable\"}}}";

/* True: all of it went well, and came back as it was. */
static bool round_trip(struct rea_slice text, size_t body_bytes, const struct rea_config_settings *settings)
{
	struct task_document document;
	struct task_problem problem = {.status = 0};
	struct rea_buffer payload = {.alloc = NULL};
	struct task_submit submit;
	struct task_request request;
	bool good;

	if (!task_document_load(&document, text, JSON_ALLOW_NUL, NULL))
		return false;
	if (!task_submit_read(&submit, document, REA_SLICE_LIT("k"), settings, &problem)) {
		assert_int_equal(problem.status, 503);
		assert_string_equal(problem.field, "");
		return false;
	}
	good = task_encode(&submit.request, &payload) == 0;
	if (good) {
		assert_true(task_decode(rea_slice_make(payload.data, rea_buffer_length(&payload)), &request));
		assert_int_equal(request.fields_len, 2);
		assert_int_equal(request.body.length, body_bytes);
	}
	rea_buffer_fini(&payload);
	task_submit_fini(&submit);
	return good;
}

/* Returns how often it was refused; a body that cannot be read apart for want of memory may be read all the same. */
static size_t refusals(struct rea_slice text, size_t body_bytes, const struct rea_config_settings *settings)
{
	size_t refused = 0;

	for (size_t n = 0;; n++) {
		bool done;

		left = n;
		failed = false;
		done = round_trip(text, body_bytes, settings);
		left = SIZE_MAX;
		if (!failed) {
			assert_true(done);
			return refused;
		}
		refused += !done;
	}
}

static void every_allocation_may_fail(void **state)
{
	static char plain[1024];
	struct rea_config_settings settings;
	int length = snprintf(plain,
	    sizeof(plain), "{\"service\":\"pay\",\"path\":\"/\",\"headers\":{\"a\":\"\",\"b\":\"\"},\"key\":\"k\",\"body\":\"%0600d\"}",
	    1);

	(void)state;
	rea_config_settings_defaults(&settings);
	json_set_alloc_funcs(__wrap_malloc, free);
	for (int good = 0; good < 2; good++) {
		for_good = good;
		assert_in_range(refusals(rea_slice_of(encoded), 3, &settings), 20, 500);
		assert_in_range(refusals(rea_slice_make(plain, (size_t)length), 600, &settings), good ? 15 : 1, 500);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
