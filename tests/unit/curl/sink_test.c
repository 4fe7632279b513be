/* Pieces in their order, each once, none before it is time. */
#include "curl/sink.h"
#include "../fail_alloc.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Bodies as they are, header lines in brackets. */
static char got[100000];
static size_t got_length, pieces;
static size_t answer; /* of the write function; SIZE_MAX = it takes everything */

static void take(const char *data, size_t length)
{
	memcpy(got + got_length, data, length);
	got_length += length;
	got[got_length] = '\0';
}

static size_t on_write(char *data, size_t size, size_t items, void *user_data)
{
	(void)user_data;
	if (answer != SIZE_MAX)
		return answer;
	pieces++;
	take(data, size * items);
	return size * items;
}

static size_t on_header(char *data, size_t size, size_t items, void *user_data)
{
	(void)user_data;
	take("[", 1);
	take(data, size * items);
	take("]", 1);
	return size * items;
}

static struct rea__sink sink;

static void init(size_t held_max, const struct rea_alloc *alloc)
{
	struct rea_curl_call call;

	rea_curl_call_init(&call);
	call.write = on_write;
	call.header = on_header;
	call.held_bytes_max = held_max;
	rea__sink_init(&sink, &call, alloc);
	got_length = pieces = 0;
	got[0] = '\0';
	answer = SIZE_MAX;
}

static size_t put(enum rea__sink_kind kind, const char *text, bool hold)
{
	char copy[64];

	memcpy(copy, text, strlen(text) + 1);
	return rea__sink_put(&sink, kind, copy, strlen(text), hold);
}

static void what_is_held_comes_in_order_at_release(void **state)
{
	(void)state;
	init(100, NULL);
	assert_int_equal(put(REA__SINK_HEADER, "a", true), 1);
	assert_int_equal(put(REA__SINK_BODY, "bc", true), 2);
	assert_int_equal(put(REA__SINK_HEADER, "d", true), 1);
	assert_string_equal(got, "");
	assert_false(sink.open);
	assert_true(rea__sink_release(&sink));
	assert_string_equal(got, "[a]bc[d]");
	assert_true(rea__sink_release(&sink));
	assert_string_equal(got, "[a]bc[d]");
	rea__sink_fini(&sink);
}

static void what_is_not_to_be_held_opens_it(void **state)
{
	(void)state;
	init(100, NULL);
	put(REA__SINK_HEADER, "a", true);
	assert_int_equal(put(REA__SINK_BODY, "b", false), 1);
	assert_string_equal(got, "[a]b");
	put(REA__SINK_HEADER, "c", true);
	assert_string_equal(got, "[a]b[c]");
	rea__sink_fini(&sink);
}

static void the_limit_has_two_sides(void **state)
{
	(void)state;
	init(4, NULL);
	put(REA__SINK_HEADER, "a", true);
	put(REA__SINK_BODY, "bcd", true);
	assert_string_equal(got, "");
	put(REA__SINK_BODY, "e", true);
	assert_string_equal(got, "[a]bcde");
	rea__sink_fini(&sink);
	init(0, NULL);
	put(REA__SINK_BODY, "e", true);
	assert_string_equal(got, "e");
	rea__sink_fini(&sink);
}

static void what_was_dropped_never_comes(void **state)
{
	(void)state;
	init(4, NULL);
	put(REA__SINK_BODY, "abcd", true);
	rea__sink_drop(&sink);
	put(REA__SINK_BODY, "efgh", true);
	assert_string_equal(got, "");
	rea__sink_release(&sink);
	assert_string_equal(got, "efgh");
	rea__sink_fini(&sink);
}

static void without_memory_it_is_passed_on(void **state)
{
	struct fail_alloc failing;

	(void)state;
	fail_alloc_init(&failing, 0, true);
	init(100, &failing.alloc);
	assert_int_equal(put(REA__SINK_BODY, "ab", true), 2);
	assert_string_equal(got, "ab");
	assert_true(sink.open);
	rea__sink_fini(&sink);
}

static void a_pause_brings_the_same_piece_again(void **state)
{
	(void)state;
	init(3, NULL);
	put(REA__SINK_BODY, "abc", true);
	answer = CURL_WRITEFUNC_PAUSE;
	assert_int_equal(put(REA__SINK_BODY, "d", true), CURL_WRITEFUNC_PAUSE);
	answer = SIZE_MAX;
	assert_int_equal(put(REA__SINK_BODY, "d", true), 1);
	assert_string_equal(got, "abcd");
	rea__sink_fini(&sink);
}

static void a_refusal_breaks_off(void **state)
{
	(void)state;
	init(3, NULL);
	put(REA__SINK_BODY, "abc", true);
	answer = 2;
	assert_int_equal(put(REA__SINK_BODY, "d", true), CURL_WRITEFUNC_ERROR);
	assert_false(rea__sink_release(&sink));
	answer = SIZE_MAX;
	assert_true(rea__sink_release(&sink));
	assert_string_equal(got, "abc");
	rea__sink_fini(&sink);
}

static void bodies_come_in_pieces_that_libcurl_makes(void **state)
{
	static char large[40000];

	(void)state;
	init(sizeof(large), NULL);
	memset(large, 'x', sizeof(large));
	assert_int_equal(rea__sink_put(&sink, REA__SINK_BODY, large, sizeof(large), true), sizeof(large));
	assert_true(rea__sink_release(&sink));
	assert_int_equal(pieces, 3);
	assert_int_equal(got_length, sizeof(large));
	rea__sink_fini(&sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_held_comes_in_order_at_release),
	    cmocka_unit_test(what_is_not_to_be_held_opens_it),
	    cmocka_unit_test(the_limit_has_two_sides),
	    cmocka_unit_test(what_was_dropped_never_comes),
	    cmocka_unit_test(without_memory_it_is_passed_on),
	    cmocka_unit_test(a_pause_brings_the_same_piece_again),
	    cmocka_unit_test(a_refusal_breaks_off),
	    cmocka_unit_test(bodies_come_in_pieces_that_libcurl_makes),
	};

	return cmocka_run_group_tests_name("sink", tests, NULL, NULL);
}
