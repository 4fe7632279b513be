/*
 * One attempt is one request: libcurl sends again by itself on a reused connection that ended without a reply, and what an HTTP/2 server has
 * refused. It asks CURLOPT_PREREQFUNCTION before each, and there it is stopped.
 */
#include "curl/internal.h"

enum resend {
	RESEND_NONE,
	RESEND_REUSED, /* the connection was reused and ended without a reply */
	RESEND_REFUSED /* the connection was new: libcurl sends again only what the peer has refused */
};

/* A request is about to go out although nothing was heard of the one before. True: that must not be. If no byte of that
 * one went out, this is not the second but still the first. */
static bool is_resend(const struct rea_curl_once *once, CURL *easy)
{
	return once->requests > 0 && rea__curl_long(easy, CURLINFO_HEADER_SIZE) == once->header_seen &&
	       rea__curl_long(easy, CURLINFO_REQUEST_SIZE) > once->request_seen;
}

bool rea_curl_once_allows(struct rea_curl_once *once, CURL *easy)
{
	int64_t connects = rea__curl_long(easy, CURLINFO_NUM_CONNECTS);

	if (is_resend(once, easy)) {
		once->resend = once->fresh ? RESEND_REFUSED : RESEND_REUSED;
		return false;
	}
	once->requests++;
	once->fresh = connects > once->connects_seen;
	once->connects_seen = connects;
	once->header_seen = rea__curl_long(easy, CURLINFO_HEADER_SIZE);
	once->request_seen = rea__curl_long(easy, CURLINFO_REQUEST_SIZE);
	return true;
}

enum rea_phase rea__once_phase(const struct rea_curl_once *once, CURL *easy)
{
	/* What a proxy was asked before is no request. */
	if (once->requests == 0)
		return REA_PHASE_CONNECT;
	switch ((enum resend)once->resend) {
	case RESEND_REFUSED:
		return REA_PHASE_UNSENT;
	case RESEND_REUSED:
		return REA_PHASE_SENT;
	case RESEND_NONE:
		break;
	}
	return rea__curl_phase(easy);
}

CURLcode rea__once_code(const struct rea_curl_once *once, CURLcode code)
{
	switch ((enum resend)once->resend) {
	case RESEND_REFUSED:
		return CURLE_HTTP2_STREAM;
	case RESEND_REUSED:
		return CURLE_GOT_NOTHING;
	case RESEND_NONE:
		break;
	}
	return code;
}

void rea_curl_once_report(const struct rea_curl_once *once, CURL *easy, CURLcode code, const struct rea_policy *policy,
    struct rea_report *ret_report)
{
	rea__curl_judge(easy, rea__once_code(once, code), rea__once_phase(once, easy), policy, ret_report);
	ret_report->latency_ns = rea__curl_total_ns(easy);
}
