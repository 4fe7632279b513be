/*
 * What a transfer came to. Guarantee: whatever libcurl or a peer said, the answer is one outcome, and one that may have
 * run at the callee is never called never_sent.
 */
#include "curl/internal.h"

#include <errno.h>
#include <time.h>

/* ---- what a CURLcode means ---- */

enum fault {
	FAULT_IO = 0, /* the network or the peer: what was sent decides. So is every code that stands in no row below. */
	FAULT_OURS,   /* the program broke off, or this machine has no memory */
	FAULT_LASTING /* an answer that cannot be used, or settings that no repetition changes */
};

static const uint8_t faults[] = {
    [CURLE_WRITE_ERROR] = FAULT_OURS,
    [CURLE_READ_ERROR] = FAULT_OURS,
    [CURLE_OUT_OF_MEMORY] = FAULT_OURS,
    [CURLE_ABORTED_BY_CALLBACK] = FAULT_OURS,

    [CURLE_UNSUPPORTED_PROTOCOL] = FAULT_LASTING,
    [CURLE_FAILED_INIT] = FAULT_LASTING,
    [CURLE_URL_MALFORMAT] = FAULT_LASTING,
    [CURLE_NOT_BUILT_IN] = FAULT_LASTING,
    [CURLE_WEIRD_SERVER_REPLY] = FAULT_LASTING,
    [CURLE_REMOTE_ACCESS_DENIED] = FAULT_LASTING,
    [CURLE_RANGE_ERROR] = FAULT_LASTING,
    [CURLE_HTTP_POST_ERROR] = FAULT_LASTING,
    [CURLE_BAD_DOWNLOAD_RESUME] = FAULT_LASTING,
    [CURLE_BAD_FUNCTION_ARGUMENT] = FAULT_LASTING,
    [CURLE_INTERFACE_FAILED] = FAULT_LASTING,
    [CURLE_TOO_MANY_REDIRECTS] = FAULT_LASTING,
    [CURLE_UNKNOWN_OPTION] = FAULT_LASTING,
    [CURLE_SETOPT_OPTION_SYNTAX] = FAULT_LASTING,
    [CURLE_SSL_ENGINE_NOTFOUND] = FAULT_LASTING,
    [CURLE_SSL_ENGINE_SETFAILED] = FAULT_LASTING,
    [CURLE_SSL_CERTPROBLEM] = FAULT_LASTING,
    [CURLE_SSL_CIPHER] = FAULT_LASTING,
    [CURLE_BAD_CONTENT_ENCODING] = FAULT_LASTING,
    [CURLE_FILESIZE_EXCEEDED] = FAULT_LASTING,
    [CURLE_SSL_ENGINE_INITFAILED] = FAULT_LASTING,
    [CURLE_LOGIN_DENIED] = FAULT_LASTING,
    [CURLE_SSL_CACERT_BADFILE] = FAULT_LASTING,
    [CURLE_SSL_CRL_BADFILE] = FAULT_LASTING,
    [CURLE_RECURSIVE_API_CALL] = FAULT_LASTING,
    [CURLE_AUTH_ERROR] = FAULT_LASTING,
};

static enum rea_outcome outcome_of(CURLcode code, enum rea_phase phase)
{
	switch ((size_t)code < sizeof(faults) ? (enum fault)faults[code] : FAULT_IO) {
	case FAULT_OURS:
		return REA_OUTCOME_CANCELLED;
	case FAULT_LASTING:
		return REA_OUTCOME_PERMANENT;
	case FAULT_IO:
		break;
	}
	return rea_outcome_from_phase(phase);
}

/* The errno to show, 0 = none. libcurl's own is from an earlier transfer unless connecting failed; an orderly end in
 * the wrong place is told like a reset. */
static uint32_t errno_of(CURL *easy, CURLcode code)
{
	switch ((int)code) {
	case CURLE_COULDNT_CONNECT:
		return (uint32_t)rea__curl_long(easy, CURLINFO_OS_ERRNO);
	case CURLE_OPERATION_TIMEDOUT:
		return ETIMEDOUT;
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		return ECONNRESET;
	default:
		return 0;
	}
}

/* ---- what a reply says about repeating the call ---- */

static struct curl_header *field(CURL *easy, const char *name, size_t index)
{
	struct curl_header *header;

	return curl_easy_header(easy, name, index, CURLH_HEADER, -1, &header) == CURLHE_OK ? header : NULL;
}

static void read_retry_after(CURL *easy, struct rea_report *report)
{
	struct curl_header *after = field(easy, "retry-after", 0), *other;
	/* libcurl uses the header's memory again for the next. */
	const char *value = after != NULL ? after->value : NULL;
	uint64_t wait_ns;

	if (value == NULL || !rea_retry_after_parse(value, strlen(value), time(NULL), &wait_ns) || wait_ns == 0)
		return;
	/* Two that differ say nothing. */
	for (size_t i = 1; (other = field(easy, "retry-after", i)) != NULL; i++)
		if (strcmp(other->value, value) != 0)
			return;
	report->flags |= REA_REPORT_AFTER;
	report->after_ns = wait_ns;
}

static void read_hints(CURL *easy, struct rea_report *report)
{
	struct curl_header *hint;
	uint64_t wait_ns;

	for (size_t i = 0; (hint = field(easy, "rea-retry", i)) != NULL; i++) {
		if (rea_hint_parse(hint->value, strlen(hint->value), &wait_ns) == REA_HINT_STOP) {
			report->flags |= REA_REPORT_STOP;
		} else {
			report->outcome = REA_OUTCOME_PUSHBACK;
			report->flags |= REA_REPORT_AFTER;
			report->after_ns = wait_ns;
		}
	}
}

/* ---- the whole ---- */

long rea__curl_long(CURL *easy, CURLINFO info)
{
	long value = 0;

	curl_easy_getinfo(easy, info, &value);
	return value;
}

enum rea_phase rea__curl_phase(CURL *easy)
{
	return rea__curl_long(easy, CURLINFO_REQUEST_SIZE) > 0 ? REA_PHASE_SENT : REA_PHASE_UNSENT;
}

enum rea_outcome rea__curl_status_outcome(CURL *easy, const struct rea_policy *policy)
{
	long status = rea__curl_long(easy, CURLINFO_RESPONSE_CODE);

	/* HTTP/0.9, where the program allows it, has none. */
	if (status == 0)
		return REA_OUTCOME_OK;
	return rea_outcome_from_http(
	    (uint32_t)status, policy != NULL ? policy->classify : NULL, policy != NULL ? policy->classify_len : 0);
}

static void judge_reply(CURL *easy, const struct rea_policy *policy, struct rea_report *report)
{
	report->outcome = rea__curl_status_outcome(easy, policy);
	report->code = (uint32_t)rea__curl_long(easy, CURLINFO_RESPONSE_CODE);
	report->code_kind = report->code != 0 ? REA_CODE_HTTP : REA_CODE_NONE;
	if (report->outcome == REA_OUTCOME_OK)
		return;
	read_retry_after(easy, report);
	read_hints(easy, report);
}

void rea__curl_judge(
    CURL *easy, CURLcode code, enum rea_phase phase, const struct rea_policy *policy, struct rea_report *ret_report)
{
	*ret_report = (struct rea_report){0};
	if (code == CURLE_OK || code == CURLE_HTTP_RETURNED_ERROR) {
		judge_reply(easy, policy, ret_report);
		return;
	}
	ret_report->outcome = outcome_of(code, phase);
	ret_report->code = errno_of(easy, code);
	ret_report->code_kind = ret_report->code != 0 ? REA_CODE_ERRNO : REA_CODE_NONE;
	if (code == CURLE_SEND_FAIL_REWIND)
		ret_report->flags |= REA_REPORT_BODY_OVER_LIMIT;
}

uint64_t rea__curl_total_ns(CURL *easy)
{
	curl_off_t total_us = 0;

	curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME_T, &total_us);
	return rea_time_mul((uint64_t)total_us, REA_NS_PER_US);
}

void rea_curl_report(CURL *easy, CURLcode code, const struct rea_policy *policy, struct rea_report *ret_report)
{
	rea__curl_judge(easy, code, rea__curl_phase(easy), policy, ret_report);
	ret_report->latency_ns = rea__curl_total_ns(easy);
}
