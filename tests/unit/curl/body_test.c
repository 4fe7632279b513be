/* The same bytes again, whatever the source can do, and a clear no where they cannot be had. */
#include "curl/body.h"
#include "../fail_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char *source;
static size_t source_at, source_calls;

/* At most four bytes at a time. */
static size_t read_source(char *buffer, size_t size, size_t items, void *user_data)
{
	size_t left = strlen(source + source_at), length = left < 4 ? left : 4;

	(void)user_data;
	source_calls++;
	length = length < size * items ? length : size * items;
	memcpy(buffer, source + source_at, length);
	source_at += length;
	return length;
}

static struct rea__body body;

static void init(const char *text, size_t limit, const struct rea_alloc *alloc)
{
	struct rea_curl_call call;

	source = text;
	source_at = source_calls = 0;
	rea_curl_call_init(&call);
	call.read = read_source;
	rea__body_init(&body, &call, limit, alloc);
}

/* Read to the end, `piece` bytes at a time. */
static void assert_reads(const char *text, size_t piece)
{
	char got[256];
	size_t length = 0, n;

	while ((n = rea__body_read(got + length, 1, piece, &body)) > 0)
		length += n;
	got[length] = '\0';
	assert_string_equal(got, text);
}

static void what_was_read_is_read_again(void **state)
{
	(void)state;
	for (size_t piece = 1; piece < 8; piece++) {
		init("0123456789", 10, NULL);
		assert_reads("0123456789", piece);
		assert_true(rea__body_rewind(&body));
		assert_reads("0123456789", 8 - piece);
		assert_int_equal(source_at, 10);
		rea__body_fini(&body);
	}
}

static void a_source_is_not_asked_again_after_its_end(void **state)
{
	(void)state;
	init("01234567", 10, NULL);
	assert_reads("01234567", 8);
	assert_int_equal(source_calls, 3);
	assert_true(rea__body_rewind(&body));
	assert_reads("01234567", 8);
	assert_int_equal(source_calls, 3);
	rea__body_fini(&body);
}

static void a_part_is_read_again_and_then_the_rest(void **state)
{
	char first[4];

	(void)state;
	init("0123456789", 10, NULL);
	assert_int_equal(rea__body_read(first, 1, 4, &body), 4);
	assert_true(rea__body_rewind(&body));
	assert_reads("0123456789", 16);
	rea__body_fini(&body);
}

static void one_byte_too_many_is_not_had_again(void **state)
{
	(void)state;
	init("0123456789", 9, NULL);
	assert_reads("0123456789", 4);
	assert_false(rea__body_rewind(&body));
	rea__body_fini(&body);
}

static void what_nobody_read_can_always_be_had(void **state)
{
	(void)state;
	init("0123456789", 0, NULL);
	assert_true(rea__body_rewind(&body));
	rea__body_fini(&body);
}

static void without_memory_it_is_sent_once(void **state)
{
	struct fail_alloc failing;

	(void)state;
	fail_alloc_init(&failing, 0, true);
	init("0123456789", 10, &failing.alloc);
	assert_reads("0123456789", 4);
	assert_false(rea__body_rewind(&body));
	assert_true(failing.failed > 0);
	rea__body_fini(&body);
}

static void a_position_inside_what_is_kept(void **state)
{
	(void)state;
	init("0123456789", 10, NULL);
	assert_reads("0123456789", 4);
	assert_int_equal(rea__body_seek(&body, 7, SEEK_SET), CURL_SEEKFUNC_OK);
	assert_reads("789", 4);
	assert_int_equal(rea__body_seek(&body, 11, SEEK_SET), CURL_SEEKFUNC_CANTSEEK);
	assert_int_equal(rea__body_seek(&body, -1, SEEK_SET), CURL_SEEKFUNC_CANTSEEK);
	assert_int_equal(rea__body_seek(&body, 0, SEEK_END), CURL_SEEKFUNC_CANTSEEK);
	rea__body_fini(&body);
}

static size_t answer;

static size_t read_answer(char *buffer, size_t size, size_t items, void *user_data)
{
	(void)buffer;
	(void)size;
	(void)items;
	(void)user_data;
	return answer;
}

static void signals_of_the_function_go_through(void **state)
{
	static const size_t answers[] = {CURL_READFUNC_ABORT, CURL_READFUNC_PAUSE, 9};
	struct rea_curl_call call;
	char buffer[8];

	(void)state;
	rea_curl_call_init(&call);
	call.read = read_answer;
	rea__body_init(&body, &call, 100, NULL);
	for (size_t i = 0; i < 3; i++) {
		answer = answers[i];
		assert_int_equal(rea__body_read(buffer, 1, sizeof(buffer), &body), answers[i]);
	}
	assert_int_equal(rea_buffer_length(&body.kept), 0);
	rea__body_fini(&body);
}

static void a_file_that_cannot_be_read_ends_the_transfer(void **state)
{
	struct rea_curl_call call;
	FILE *file = fopen("/proc/self/mem", "r");
	char buffer[8];

	(void)state;
	rea_curl_call_init(&call);
	call.read_data = file;
	rea__body_init(&body, &call, 100, NULL);
	assert_int_equal(rea__body_read(buffer, 1, sizeof(buffer), &body), CURL_READFUNC_ABORT);
	rea__body_fini(&body);
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_was_read_is_read_again),
	    cmocka_unit_test(a_source_is_not_asked_again_after_its_end),
	    cmocka_unit_test(a_part_is_read_again_and_then_the_rest),
	    cmocka_unit_test(one_byte_too_many_is_not_had_again),
	    cmocka_unit_test(what_nobody_read_can_always_be_had),
	    cmocka_unit_test(without_memory_it_is_sent_once),
	    cmocka_unit_test(a_position_inside_what_is_kept),
	    cmocka_unit_test(signals_of_the_function_go_through),
	    cmocka_unit_test(a_file_that_cannot_be_read_ends_the_transfer),
	};

	return cmocka_run_group_tests_name("body", tests, NULL, NULL);
}
