/* gRPC's fields and frames, value by value: doc/PROTOCOL-HTTP2.md and statuscodes of the gRPC project. */
#include "http/grpc.h"

#include <rea/random.h>
#include <rea/time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void content_types(void **state)
{
	static const struct {
		const char *text;
		bool is;
	} rows[] = {{"application/grpc", true}, {"application/grpc+proto", true}, {"application/grpc+json", true},
	    {"application/grpc;charset=utf-8", true}, {"Application/GRPC", true}, {"application/grpc ; a=b", true},
	    {"application/grpc-web", false}, {"application/grpc-web+proto", false}, {"application/grpcx", false},
	    {"application/grp", false}, {"application/json", false}, {"", false}, {" application/grpc", false}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(grpc_is_content_type(rea_slice_of(rows[i].text)), rows[i].is);
}

static void statuses(void **state)
{
	static const struct {
		const char *text;
		int status; /* -1 = refused */
	} rows[] = {{"0", 0}, {"1", 1}, {"9", 9}, {"14", 14}, {"16", 16}, {"17", GRPC_UNKNOWN}, {"99", GRPC_UNKNOWN},
	    {"4294967296", GRPC_UNKNOWN}, {"18446744073709551615", GRPC_UNKNOWN}, {"18446744073709551616", -1},
	    {"014", 14}, {"", -1}, {"-1", -1}, {"+1", -1}, {"1 ", -1}, {"OK", -1}, {"0x1", -1}, {"1,2", -1}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		enum grpc_status status = GRPC_DATA_LOSS;

		assert_int_equal(grpc_status_parse(rea_slice_of(rows[i].text), &status), rows[i].status >= 0);
		assert_int_equal(status, rows[i].status >= 0 ? rows[i].status : GRPC_DATA_LOSS);
	}
	assert_int_equal(GRPC_STATUS_COUNT, 17);
}

static void statuses_of_http(void **state)
{
	static const struct {
		uint16_t http;
		enum grpc_status status;
	} rows[] = {{400, GRPC_INTERNAL}, {401, GRPC_UNAUTHENTICATED}, {403, GRPC_PERMISSION_DENIED},
	    {404, GRPC_UNIMPLEMENTED}, {429, GRPC_UNAVAILABLE}, {502, GRPC_UNAVAILABLE}, {503, GRPC_UNAVAILABLE},
	    {504, GRPC_UNAVAILABLE}, {200, GRPC_UNKNOWN}, {302, GRPC_UNKNOWN}, {402, GRPC_UNKNOWN}, {500, GRPC_UNKNOWN},
	    {501, GRPC_UNKNOWN}, {0, GRPC_UNKNOWN}, {999, GRPC_UNKNOWN}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(grpc_status_from_http(rows[i].http), rows[i].status);
}

static void statuses_of_streams(void **state)
{
	/* By error code: NO_ERROR to HTTP_1_1_REQUIRED. */
	static const enum grpc_status rows[] = {GRPC_INTERNAL, GRPC_INTERNAL, GRPC_INTERNAL, GRPC_INTERNAL,
	    GRPC_INTERNAL, GRPC_INTERNAL, GRPC_INTERNAL, GRPC_UNAVAILABLE, GRPC_CANCELLED, GRPC_INTERNAL, GRPC_INTERNAL,
	    GRPC_RESOURCE_EXHAUSTED, GRPC_PERMISSION_DENIED, GRPC_INTERNAL, GRPC_INTERNAL};

	(void)state;
	for (uint32_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(grpc_status_from_h2(i), rows[i]);
}

static void timeouts_are_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns; /* REA_NEVER = refused */
	} rows[] = {{"1n", 1}, {"1u", 1000}, {"1m", 1000000}, {"1S", 1000000000}, {"1M", UINT64_C(60000000000)},
	    {"1H", UINT64_C(3600000000000)}, {"0S", 0}, {"00000000n", 0}, {"99999999n", 99999999},
	    {"99999999S", UINT64_C(99999999000000000)}, {"99999999M", UINT64_C(5999999940000000000)},
	    {"5124095H", UINT64_C(18446742000000000000)}, {"", REA_NEVER}, {"S", REA_NEVER}, {"1", REA_NEVER},
	    {"100000000n", REA_NEVER}, {"1s", REA_NEVER}, {"1h", REA_NEVER}, {"1 S", REA_NEVER}, {"-1S", REA_NEVER},
	    {"+1S", REA_NEVER}, {"1.5S", REA_NEVER}, {"1SS", REA_NEVER}, {" 1S", REA_NEVER}, {"1S ", REA_NEVER}};
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		ns = 77;
		assert_int_equal(grpc_timeout_parse(rea_slice_of(rows[i].text), &ns), rows[i].ns != REA_NEVER);
		assert_true(ns == (rows[i].ns == REA_NEVER ? 77 : rows[i].ns));
	}
	/* Longer than 64 bits of ns have: as good as never. */
	assert_true(grpc_timeout_parse(REA_SLICE_LIT("99999999H"), &ns));
	assert_true(ns == REA_NEVER);
}

static void timeouts_are_written(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} rows[] = {{0, "0n"}, {1, "1n"}, {99999999, "99999999n"}, {100000000, "100000u"}, {100000001, "100001u"},
	    {UINT64_C(99999999000), "99999999u"}, {UINT64_C(99999999001), "100000m"}, {UINT64_C(3000000000), "3000000u"},
	    {UINT64_C(3600000000000), "3600000m"}, {UINT64_C(99999999000000), "99999999m"},
	    {UINT64_C(99999999000001), "100000S"}, {UINT64_C(99999999000000001), "1666667M"},
	    {UINT64_C(5999999940000000001), "1666667H"}, {REA_NEVER, "5124096H"}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[GRPC_TIMEOUT_SIZE + 1] = {0};

		assert_int_equal(grpc_timeout_format(rows[i].ns, text), strlen(rows[i].text));
		assert_string_equal(text, rows[i].text);
	}
}

static void timeouts_come_back_no_shorter(void **state)
{
	struct rea_random random;

	(void)state;
	rea_random_init(&random, 7);
	for (int i = 0; i < 10000; i++) {
		uint64_t ns = rea_random_next(&random) >> rea_random_below(&random, 64), back;
		char text[GRPC_TIMEOUT_SIZE];
		size_t length = grpc_timeout_format(ns, text);

		assert_in_range(length, 2, GRPC_TIMEOUT_SIZE);
		assert_true(grpc_timeout_parse(rea_slice_make(text, length), &back));
		assert_true(back >= ns);
		/* The unit is the finest that fits: six digits at least. */
		assert_true(back - ns <= ns / 100000 + 1);
	}
}

static void pushback(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns; /* REA_NEVER = refused */
	} rows[] = {{"0", 0}, {"1", 1000000}, {"0010", 10000000}, {"2147483647", UINT64_C(2147483647000000)},
	    {"2147483648", REA_NEVER}, {"-1", REA_NEVER}, {"-0", REA_NEVER}, {"", REA_NEVER}, {"10ms", REA_NEVER},
	    {"1.0", REA_NEVER}, {" 1", REA_NEVER}, {"99999999999999999999", REA_NEVER}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		uint64_t ns = 77;

		assert_int_equal(grpc_pushback_parse(rea_slice_of(rows[i].text), &ns), rows[i].ns != REA_NEVER);
		assert_true(ns == (rows[i].ns == REA_NEVER ? 77 : rows[i].ns));
	}
}

static void messages_are_encoded(void **state)
{
	static const struct {
		const char *text;
		size_t size;
		const char *encoded;
	} rows[] = {{"", 8, ""}, {"plain ~text!", 64, "plain ~text!"}, {"100%", 64, "100%25"},
	    {"a\tb\r\n", 64, "a%09b%0D%0A"}, {"\xe2\x98\xba", 64, "%E2%98%BA"}, {"\x7f", 64, "%7F"}, {"ab%", 4, "ab"},
	    {"ab%", 5, "ab%25"}, {"abc", 2, "ab"}, {"a", 0, ""}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[65] = {0};

		assert_int_equal(
		    grpc_message_encode(rea_slice_of(rows[i].text), text, rows[i].size), strlen(rows[i].encoded));
		assert_string_equal(text, rows[i].encoded);
	}
}

static void paths(void **state)
{
	static const struct {
		const char *path, *service, *method; /* NULL = refused */
	} rows[] = {{"/a.B/C", "a.B", "C"}, {"/B/C", "B", "C"},
	    {"/grpc.health.v1.Health/Check", "grpc.health.v1.Health", "Check"}, {"/a/b/c", NULL, NULL},
	    {"//C", NULL, NULL}, {"/a/", NULL, NULL}, {"/a", NULL, NULL}, {"a/b", NULL, NULL}, {"/", NULL, NULL},
	    {"", NULL, NULL}, {"*", NULL, NULL}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rea_slice service, method;

		assert_int_equal(grpc_path_split(rea_slice_of(rows[i].path), &service, &method), rows[i].service != NULL);
		if (rows[i].service == NULL)
			continue;
		assert_true(rea_slice_equal(service, rea_slice_of(rows[i].service)));
		assert_true(rea_slice_equal(method, rea_slice_of(rows[i].method)));
	}
}

/* ---- frames ---- */

/* What a body of these pieces comes to: "5:hello 0: 3:abc" with a "c" before what is compressed, "+" behind what is not whole, "!1" for an error. */
static void read_body(const char *body, size_t length, size_t step, uint32_t limit, char *ret_text, struct grpc_frames *frames)
{
	bool begun = false;

	grpc_frames_init(frames, limit);
	*ret_text = '\0';
	for (size_t at = 0; at < length; at += step) {
		struct rea_slice data = rea_slice_make(body + at, length - at < step ? length - at : step), piece;
		bool complete;

		while (grpc_frames_next(frames, &data, &piece, &complete)) {
			if (!begun)
				sprintf(ret_text + strlen(ret_text), "%s%s%u:", frames->messages > 1 ? " " : "",
				    frames->compressed ? "c" : "", frames->length);
			begun = !complete;
			strncat(ret_text, piece.data, piece.length);
		}
		assert_true(data.length == 0 || frames->error != GRPC_FRAME_OK);
	}
	if (frames->error != GRPC_FRAME_OK)
		sprintf(ret_text + strlen(ret_text), "!%d", (int)frames->error);
	else if (!grpc_frames_at_end(frames))
		strcat(ret_text, "+");
}

static void frames_in_any_pieces(void **state)
{
	static const struct {
		struct rea_slice body;
		uint32_t limit;
		const char *text;
		uint64_t messages;
	} rows[] = {
	    {REA_SLICE_LIT("\0\0\0\0\5hello"), 100, "5:hello", 1},
	    {REA_SLICE_LIT("\0\0\0\0\0"), 100, "0:", 1},
	    {REA_SLICE_LIT("\0\0\0\0\5hello\1\0\0\0\3abc\0\0\0\0\0"), 100, "5:hello c3:abc 0:", 3},
	    {REA_SLICE_LIT(""), 100, "", 0},
	    {REA_SLICE_LIT("\0\0\0"), 100, "+", 0},
	    {REA_SLICE_LIT("\0\0\0\0\5hel"), 100, "5:hel+", 1},
	    {REA_SLICE_LIT("\0\0\0\0\5hello"), 5, "5:hello", 1},
	    {REA_SLICE_LIT("\0\0\0\0\6hello!"), 5, "!2", 0},
	    {REA_SLICE_LIT("\0\0\0\0\1x\0\377\377\377\377rest"), 100, "1:x!2", 1},
	    {REA_SLICE_LIT("\0\0\0\0\1x\2\0\0\0\1y"), 100, "1:x!1", 1},
	    {REA_SLICE_LIT("\200\0\0\0\0"), 100, "!1", 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		for (size_t step = 1; step <= rows[i].body.length + 1; step++) {
			struct grpc_frames frames;
			char text[100];

			read_body(rows[i].body.data, rows[i].body.length, step, rows[i].limit, text, &frames);
			assert_string_equal(text, rows[i].text);
			assert_int_equal(frames.messages, rows[i].messages);
		}
	}
}

static void prefixes_are_made(void **state)
{
	char prefix[GRPC_PREFIX_BYTES];

	(void)state;
	grpc_prefix_make(0x01020304, prefix);
	assert_memory_equal(prefix, "\0\1\2\3\4", 5);
	grpc_prefix_make(UINT32_MAX, prefix);
	assert_memory_equal(prefix, "\0\377\377\377\377", 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(content_types),
	    cmocka_unit_test(statuses),
	    cmocka_unit_test(statuses_of_http),
	    cmocka_unit_test(statuses_of_streams),
	    cmocka_unit_test(timeouts_are_read),
	    cmocka_unit_test(timeouts_are_written),
	    cmocka_unit_test(timeouts_come_back_no_shorter),
	    cmocka_unit_test(pushback),
	    cmocka_unit_test(messages_are_encoded),
	    cmocka_unit_test(paths),
	    cmocka_unit_test(frames_in_any_pieces),
	    cmocka_unit_test(prefixes_are_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
