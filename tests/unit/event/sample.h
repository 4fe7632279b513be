/* An event with something in every field. */
#ifndef REA_TESTS_EVENT_SAMPLE_H
#define REA_TESTS_EVENT_SAMPLE_H

#include <rea/event.h>
#include <rea/time.h>

#include <string.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)

static inline struct rea_text text_of(const char *text)
{
	return (struct rea_text){text, strlen(text)};
}

static inline struct rea_event sample_event(void)
{
	return (struct rea_event){
	    .type = REA_EVENT_RETRY,
	    .time_unix_ns = INT64_C(1767323045678901234), /* 2026-01-02T03:04:05.678Z */
	    .attempt_start_ns = MS(5000),
	    .time_ns = MS(5012),
	    .call_id = text_of("7f3a2c"),
	    .biz_id = text_of("order-42"),
	    .key = text_of("k-1"),
	    .trace_id = text_of("4bf92f3577b34da6a3ce929d0e0e4736"),
	    .service = text_of("user-service"),
	    .method = text_of("users_get"),
	    .instance = text_of("127.0.0.1:9001"),
	    .detail = text_of("GET /users/42"),
	    .attempt = 1,
	    .attempts_max = 2,
	    .outcome = REA_OUTCOME_UNAVAILABLE,
	    .code_kind = REA_CODE_HTTP,
	    .code = 503,
	    .cost_ns = MS(12),
	    .retryable = true,
	    .next_delay_ns = MS(104),
	    .verdict = REA_VERDICT_RETRY,
	    .reason = REA_REASON_NONE,
	    .grant = {REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CONFIG},
	};
}

#endif
