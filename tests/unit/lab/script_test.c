#include "lab/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct lab_script parsed(const char *text)
{
	struct lab_script script;
	struct rea_error_info info = {0};

	if (lab_script_parse("test", text, strlen(text), &script, &info) != 0)
		fail_msg("%s:%u:%u: %s", info.file, info.line, info.column, info.message);
	return script;
}

static void assert_refused(const char *text, int error, uint32_t line, uint32_t column, const char *message)
{
	struct lab_script script = {.refuse_ns = 77};
	struct rea_error_info info = {0};

	assert_int_equal(lab_script_parse("test", text, strlen(text), &script, &info), error);
	assert_string_equal(info.file, "test");
	assert_int_equal(info.line, line);
	assert_int_equal(info.column, column);
	assert_non_null(strstr(info.message, message));
	assert_int_equal(script.refuse_ns, 77);
}

static void assert_slice(struct rea_slice slice, const char *text)
{
	assert_int_equal(slice.length, strlen(text));
	assert_memory_equal(slice.data, text, slice.length);
}

static const struct lab_step *next(struct lab_script *script, const char *method, const char *path)
{
	struct rea_random random;

	rea_random_init(&random, 1);
	return lab_script_next(script, rea_slice_of(method), rea_slice_of(path), &random);
}

static void test_an_empty_script_echoes(void **state)
{
	struct lab_script script = parsed("\n# nothing\n   \n");
	const struct lab_step *step = next(&script, "GET", "/");

	(void)state;
	assert_true(step->echo);
	assert_int_equal(step->status, 200);
	assert_int_equal(step->reset_after, UINT64_MAX);
	assert_int_equal(script.refuse_ns, 0);
	lab_script_fini(&script);
}

static void test_every_action(void **state)
{
	struct lab_script script = parsed("status 503 header Retry-After: 2 header \"x-a\" \"b \\\"c\\\" \\\\\" body "
					  "\"so\\nrry\" delay 200ms pause 5us "
					  "drip 3 every 2s interim 103 trailer t v close-after early # why\n"
					  "body-bytes 64k chunked reset-after 0\n"
					  "short body x\n"
					  "no-read hang\n");
	const struct lab_step *step = next(&script, "GET", "/");

	(void)state;
	assert_int_equal(step->status, 503);
	assert_int_equal(step->fields_len, 2);
	assert_slice(step->fields[0].name, "Retry-After");
	assert_slice(step->fields[0].value, "2");
	assert_int_equal(step->fields[0].id, HTTP_FIELD_OTHER);
	assert_slice(step->fields[1].name, "x-a");
	assert_slice(step->fields[1].value, "b \"c\" \\");
	assert_slice(step->body, "so\nrry");
	assert_int_equal(step->delay_ns, 200 * REA_NS_PER_MS);
	assert_int_equal(step->pause_ns, 5 * REA_NS_PER_US);
	assert_int_equal(step->drip_bytes, 3);
	assert_int_equal(step->drip_ns, 2 * REA_NS_PER_S);
	assert_int_equal(step->interim, 103);
	assert_int_equal(step->trailers_len, 1);
	assert_true(step->chunked);
	assert_true(step->close_after);
	assert_true(step->early);
	assert_false(step->no_read);
	assert_int_equal(step->end, LAB_REPLY);
	assert_slice(rea_slice_make(step->text.data + step->text.length - 5, 5), "early");

	step = next(&script, "GET", "/");
	assert_int_equal(step->body_bytes, 65536);
	assert_int_equal(step->reset_after, 0);
	assert_true(step->chunked);
	assert_true(next(&script, "GET", "/")->cut);
	step = next(&script, "GET", "/");
	assert_int_equal(step->end, LAB_HANG);
	assert_true(step->no_read);
	lab_script_fini(&script);
}

static void test_every_end(void **state)
{
	static const struct {
		const char *text;
		enum lab_end end;
	} ends[] = {{"reset", LAB_RESET}, {"close", LAB_CLOSE}, {"hang", LAB_HANG}, {"garbage", LAB_GARBAGE},
	    {"endless-headers", LAB_ENDLESS_HEADERS}, {"upgrade", LAB_UPGRADE}};

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct lab_script script = parsed(ends[i].text);

		assert_int_equal(next(&script, "GET", "/")->end, ends[i].end);
		lab_script_fini(&script);
	}
}

static void test_the_last_step_repeats_and_loop_begins_anew(void **state)
{
	static const uint16_t last[] = {501, 502, 502, 503, 503, 503}, loop[] = {501, 502, 502, 503, 501, 502};
	struct lab_script script = parsed("status 501\n2x status 502\nstatus 503");
	struct lab_script looping = parsed("status 501\n2x status 502\nstatus 503\nloop");

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(next(&script, "GET", "/")->status, last[i]);
		assert_int_equal(next(&looping, "GET", "/")->status, loop[i]);
	}
	lab_script_fini(&script);
	lab_script_fini(&looping);
}

static void test_the_first_matching_rule_answers(void **state)
{
	struct lab_script script = parsed("on GET /users/\n  status 501\n  status 502\non * /pay\n\tstatus 503\non "
					  "OPTIONS *\nstatus 504\non PUT /\n");

	(void)state;
	assert_int_equal(next(&script, "GET", "/users/42")->status, 501);
	assert_int_equal(next(&script, "POST", "/pay")->status, 503);
	assert_int_equal(next(&script, "GET", "/users/")->status, 502);
	assert_int_equal(next(&script, "OPTIONS", "*")->status, 504);
	assert_true(next(&script, "GET", "/users")->echo);
	assert_true(next(&script, "PUT", "/x")->echo);
	lab_script_fini(&script);
}

static void test_chances_take_their_share_and_leave_the_sequence_alone(void **state)
{
	struct lab_script script = parsed("10% reset\n0.5% hang\nstatus 201\nstatus 202");
	struct rea_random random;
	unsigned resets = 0, hangs = 0, sequence = 0;

	(void)state;
	rea_random_init(&random, 42);
	for (unsigned i = 0; i < 100000; i++) {
		const struct lab_step *step = lab_script_next(&script, REA_SLICE_LIT("GET"), REA_SLICE_LIT("/"), &random);

		resets += step->end == LAB_RESET;
		hangs += step->end == LAB_HANG;
		if (step->end == LAB_REPLY)
			assert_int_equal(step->status, sequence++ == 0 ? 201 : 202);
	}
	assert_in_range(resets, 9700, 10300);
	assert_in_range(hangs, 420, 580);
	lab_script_fini(&script);
}

static void test_refusing(void **state)
{
	struct lab_script ever = parsed("refuse"), time = parsed("status 201\nrefuse 2s\n");

	(void)state;
	assert_true(ever.refuse_ns == REA_NEVER);
	assert_int_equal(time.refuse_ns, 2 * REA_NS_PER_S);
	assert_int_equal(next(&time, "GET", "/")->status, 201);
	lab_script_fini(&ever);
	lab_script_fini(&time);
}

static void test_what_is_refused(void **state)
{
	(void)state;
	assert_refused("status 200\n  stauts 503", REA_ERR_SYNTAX, 2, 3, "no action \"stauts\"");
	assert_refused("status", REA_ERR_SYNTAX, 1, 7, "expected a status");
	assert_refused("status 199", REA_ERR_INVALID, 1, 8, "from 200 to 599");
	assert_refused("status 600", REA_ERR_INVALID, 1, 8, "from 200 to 599");
	assert_refused("interim 101x", REA_ERR_INVALID, 1, 9, "from 102 to 199");
	assert_refused("delay 200", REA_ERR_INVALID, 1, 7, "no time");
	assert_refused("delay -1ms", REA_ERR_INVALID, 1, 7, "no time");
	assert_refused("delay 99999999999999999999s", REA_ERR_INVALID, 1, 7, "no time");
	assert_refused("delay 18446744073709551615s", REA_ERR_INVALID, 1, 7, "no time");
	assert_refused("body-bytes 1t", REA_ERR_INVALID, 1, 12, "no number of bytes");
	assert_refused("body \"open\nstatus 200", REA_ERR_SYNTAX, 1, 6, "quote");
	assert_refused("body \"\\x\"", REA_ERR_SYNTAX, 1, 6, "escape");
	assert_refused("header \"a b\" c", REA_ERR_INVALID, 1, 8, "no field name");
	assert_refused("header a", REA_ERR_SYNTAX, 1, 9, "expected the value");
	assert_refused("drip 0 every 1s", REA_ERR_INVALID, 1, 6, "at least one byte");
	assert_refused("drip 5 1s", REA_ERR_SYNTAX, 1, 8, "every");
	assert_refused("reset hang", REA_ERR_INVALID, 1, 7, "one way");
	assert_refused("echo body x", REA_ERR_INVALID, 1, 11, "one body");
	assert_refused("echo no-read", REA_ERR_INVALID, 1, 6, "echo goes with none");
	assert_refused("10%", REA_ERR_SYNTAX, 1, 4, "expected an action");
	assert_refused("0% reset", REA_ERR_SYNTAX, 1, 1, "no action \"0%\"");
	assert_refused("100.1% reset", REA_ERR_SYNTAX, 1, 1, "no action");
	assert_refused("60% reset\n60% hang", REA_ERR_INVALID, 2, 5, "more than 100%");
	assert_refused("0x reset", REA_ERR_SYNTAX, 1, 1, "no action");
	assert_refused("on GET", REA_ERR_SYNTAX, 1, 7, "expected the beginning of a path");
	assert_refused("on GET users", REA_ERR_INVALID, 1, 8, "begins with /");
	assert_refused("on GET \"\"", REA_ERR_INVALID, 1, 8, "begins with /");
	assert_refused("on G/T /", REA_ERR_INVALID, 1, 4, "no method");
	assert_refused("on GET / x", REA_ERR_SYNTAX, 1, 10, "should end");
	assert_refused("echo\non GET /", REA_ERR_SYNTAX, 2, 1, "every request");
	assert_refused("loop", REA_ERR_SYNTAX, 1, 1, "after the steps");
	assert_refused("refuse soon", REA_ERR_INVALID, 1, 8, "no time");
}

static void test_limits_on_each_side(void **state)
{
	static char text[LAB_BYTES_MAX + 1], fields[64 * (LAB_FIELDS_MAX + 1)];
	struct lab_script script;
	struct rea_error_info info;

	(void)state;
	memset(text, '\n', sizeof(text));
	assert_int_equal(lab_script_parse("test", text, LAB_BYTES_MAX, &script, NULL), 0);
	lab_script_fini(&script);
	assert_int_equal(lab_script_parse("test", text, LAB_BYTES_MAX + 1, &script, &info), REA_ERR_LIMIT);

	for (size_t i = 0; i < LAB_FIELDS_MAX; i++)
		strcat(fields, "header a b ");
	script = parsed(fields);
	assert_int_equal(next(&script, "GET", "/")->fields_len, LAB_FIELDS_MAX);
	lab_script_fini(&script);
	strcat(fields, "header a b ");
	assert_int_equal(lab_script_parse("test", fields, strlen(fields), &script, &info), REA_ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_an_empty_script_echoes),
	    cmocka_unit_test(test_every_action),
	    cmocka_unit_test(test_every_end),
	    cmocka_unit_test(test_the_last_step_repeats_and_loop_begins_anew),
	    cmocka_unit_test(test_the_first_matching_rule_answers),
	    cmocka_unit_test(test_chances_take_their_share_and_leave_the_sequence_alone),
	    cmocka_unit_test(test_refusing),
	    cmocka_unit_test(test_what_is_refused),
	    cmocka_unit_test(test_limits_on_each_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
