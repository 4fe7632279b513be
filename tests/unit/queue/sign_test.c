/* Standard Webhooks: the published vector, keys in their bounds, rotation. */
#include "queue/sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define VECTOR_SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define VECTOR_ID "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define VECTOR_TIME 1614265330
#define VECTOR_BODY "{\"test\": 2432232314}"
#define VECTOR_SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

/* RFC 8032 7.1, test 1: a private key, its public half. */
#define ED_PRIVATE "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
#define ED_BOTH "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg=="

static void assert_signature(const struct sign_key *keys, size_t keys_len, const char *expected)
{
	struct rea_buffer out = {0};

	assert_int_equal(
	    sign_append(&out, keys, keys_len, rea_slice_of(VECTOR_ID), VECTOR_TIME, rea_slice_of(VECTOR_BODY)), 0);
	assert_int_equal(rea_buffer_length(&out), strlen(expected));
	assert_memory_equal(rea_buffer_data(&out), expected, strlen(expected));
	rea_buffer_fini(&out);
}

static struct sign_key key_of(const char *text)
{
	struct rea_error_info error;
	struct sign_key key;

	if (sign_key_parse(rea_slice_of(text), &key, &error) != 0)
		fail_msg("%s: %s", text, error.message);
	return key;
}

static void assert_refused(const char *text, const char *word)
{
	struct sign_key key = {.len = 7};
	struct rea_error_info error;

	assert_int_equal(sign_key_parse(rea_slice_of(text), &key, &error), REA_ERR_INVALID);
	assert_non_null(strstr(error.message, word));
	assert_int_equal(key.len, 7);
	if (strlen(text) > 8)
		assert_null(strstr(error.message, text + 6));
}

static void the_published_vector(void **state)
{
	struct sign_key key = key_of(VECTOR_SECRET);

	(void)state;
	assert_int_equal(key.len, 24);
	assert_false(key.ed25519);
	assert_signature(&key, 1, VECTOR_SIGNATURE);
}

static void both_secrets_sign_while_one_replaces_the_other(void **state)
{
	/* The second signature by Python's hmac over the same message. */
	struct sign_key keys[] = {key_of(VECTOR_SECRET), key_of("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")};

	(void)state;
	assert_signature(keys, 2, VECTOR_SIGNATURE " v1,O4Gjv1HqPqsMrjmczoggs/sWA8gZD0VyHG+fLh4+ktI=");
}

static void an_ed25519_key_signs_as_v1a(void **state)
{
	struct sign_key half = key_of("whsk_" ED_PRIVATE), both = key_of("whsk_" ED_BOTH);

	(void)state;
	assert_true(half.ed25519);
	/* By Python's cryptography over the same message. */
	assert_signature(
	    &half, 1, "v1a,fldxM4gAKugP6nnt1hdz3sgGfZ6d99nzrMFnZOELIxbzEHoVmAb2ADpkJK7zgPePmPsle0zV9jSeGlHFG2NVAw==");
	assert_signature(
	    &both, 1, "v1a,fldxM4gAKugP6nnt1hdz3sgGfZ6d99nzrMFnZOELIxbzEHoVmAb2ADpkJK7zgPePmPsle0zV9jSeGlHFG2NVAw==");
}

static void an_empty_body_is_signed_too(void **state)
{
	struct sign_key key = key_of(VECTOR_SECRET);
	struct rea_buffer out = {0};

	(void)state;
	assert_int_equal(sign_append(&out, &key, 1, rea_slice_of("17"), 0, rea_slice_make(NULL, 0)), 0);
	assert_memory_equal(
	    rea_buffer_data(&out), "v1,NlcWYzEn+Oo6WiTpQUTuj4vVLQd/yfncTEf4mTq1EI0=", rea_buffer_length(&out));
	rea_buffer_fini(&out);
}

static void keys_have_bounds(void **state)
{
	(void)state;
	/* 23, 24, 64 and 65 bytes. */
	assert_refused("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "24 to 64");
	assert_int_equal(key_of("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").len, 24);
	assert_int_equal(
	    key_of("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==").len, 64);
	assert_refused("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
	    "at most 64");
	/* Without padding it is the same key. */
	assert_int_equal(key_of("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8").len, 32);
}

static void what_is_no_key_is_refused_without_showing_it(void **state)
{
	(void)state;
	assert_refused("", "whsec_");
	assert_refused("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_");
	assert_refused("whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_");
	assert_refused("whsec_", "24 to 64");
	assert_refused("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-_", "base64");
	assert_refused("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", "base64");
	assert_refused("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwA", "base64");
	assert_refused("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAB==X", "base64");
	/* Bits that no byte holds. */
	assert_refused("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAB==", "base64");
	assert_refused("whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "ed25519");
	/* The public half of another key. */
	assert_refused(
	    "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGw==", "belongs");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_published_vector),
	    cmocka_unit_test(both_secrets_sign_while_one_replaces_the_other),
	    cmocka_unit_test(an_ed25519_key_signs_as_v1a),
	    cmocka_unit_test(an_empty_body_is_signed_too),
	    cmocka_unit_test(keys_have_bounds),
	    cmocka_unit_test(what_is_no_key_is_refused_without_showing_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
