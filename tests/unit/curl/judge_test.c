/* The outcome of every CURLcode, before a connection, before the first byte and after it. */
#include "curl/internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const CURLcode ours[] = {CURLE_WRITE_ERROR, CURLE_READ_ERROR, CURLE_OUT_OF_MEMORY, CURLE_ABORTED_BY_CALLBACK};
static const CURLcode lasting[] = {CURLE_UNSUPPORTED_PROTOCOL, CURLE_FAILED_INIT, CURLE_URL_MALFORMAT,
    CURLE_NOT_BUILT_IN, CURLE_WEIRD_SERVER_REPLY, CURLE_REMOTE_ACCESS_DENIED, CURLE_RANGE_ERROR, CURLE_HTTP_POST_ERROR,
    CURLE_BAD_DOWNLOAD_RESUME, CURLE_BAD_FUNCTION_ARGUMENT, CURLE_INTERFACE_FAILED, CURLE_TOO_MANY_REDIRECTS,
    CURLE_UNKNOWN_OPTION, CURLE_SETOPT_OPTION_SYNTAX, CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED,
    CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_BAD_CONTENT_ENCODING, CURLE_FILESIZE_EXCEEDED, CURLE_SSL_ENGINE_INITFAILED,
    CURLE_LOGIN_DENIED, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CRL_BADFILE, CURLE_RECURSIVE_API_CALL, CURLE_AUTH_ERROR};

static bool is_in(CURLcode code, const CURLcode *codes, size_t codes_len)
{
	for (size_t i = 0; i < codes_len; i++)
		if (codes[i] == code)
			return true;
	return false;
}

static enum rea_outcome expected(CURLcode code, enum rea_phase phase)
{
	if (is_in(code, ours, sizeof(ours) / sizeof(ours[0])))
		return REA_OUTCOME_CANCELLED;
	if (is_in(code, lasting, sizeof(lasting) / sizeof(lasting[0])))
		return REA_OUTCOME_PERMANENT;
	return phase == REA_PHASE_SENT ? REA_OUTCOME_AMBIGUOUS : REA_OUTCOME_NEVER_SENT;
}

static void every_code_in_every_phase(void **state)
{
	CURL *easy = curl_easy_init();

	(void)state;
	/* Codes that this libcurl does not have yet go by what was sent, too. */
	for (int code = CURLE_OK + 1; code < CURL_LAST + 10; code++)
		for (int phase = REA_PHASE_CONNECT; phase <= REA_PHASE_SENT; phase++) {
			struct rea_report report;

			if (code == CURLE_HTTP_RETURNED_ERROR)
				continue;
			rea__curl_judge(easy, (CURLcode)code, (enum rea_phase)phase, NULL, &report);
			if (report.outcome != expected((CURLcode)code, (enum rea_phase)phase))
				fail_msg("%s in phase %d is %s", curl_easy_strerror((CURLcode)code), phase,
				    rea_outcome_name(report.outcome));
			assert_int_equal(report.flags, code == CURLE_SEND_FAIL_REWIND ? REA_REPORT_BODY_OVER_LIMIT : 0);
		}
	curl_easy_cleanup(easy);
}

static void an_errno_is_told_where_it_is_known(void **state)
{
	static const struct {
		CURLcode code;
		uint32_t error;
	} rows[] = {{CURLE_OPERATION_TIMEDOUT, ETIMEDOUT}, {CURLE_RECV_ERROR, ECONNRESET}, {CURLE_SEND_ERROR, ECONNRESET},
	    {CURLE_GOT_NOTHING, ECONNRESET}, {CURLE_PARTIAL_FILE, ECONNRESET}, {CURLE_COULDNT_RESOLVE_HOST, 0},
	    {CURLE_SSL_CONNECT_ERROR, 0}, {CURLE_COULDNT_CONNECT, 0 /* nothing was tried */}};
	CURL *easy = curl_easy_init();

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rea_report report;

		rea__curl_judge(easy, rows[i].code, REA_PHASE_SENT, NULL, &report);
		assert_int_equal(report.code, rows[i].error);
		assert_int_equal(report.code_kind, rows[i].error != 0 ? REA_CODE_ERRNO : REA_CODE_NONE);
	}
	curl_easy_cleanup(easy);
}

static void a_reply_without_a_status_is_a_reply(void **state)
{
	CURL *easy = curl_easy_init();
	struct rea_report report;

	(void)state;
	rea__curl_judge(easy, CURLE_OK, REA_PHASE_SENT, NULL, &report);
	assert_int_equal(report.outcome, REA_OUTCOME_OK);
	assert_int_equal(report.code_kind, REA_CODE_NONE);
	curl_easy_cleanup(easy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_code_in_every_phase),
	    cmocka_unit_test(an_errno_is_told_where_it_is_known),
	    cmocka_unit_test(a_reply_without_a_status_is_a_reply),
	};

	curl_global_init(CURL_GLOBAL_ALL);
	return cmocka_run_group_tests_name("judge", tests, NULL, NULL);
}
