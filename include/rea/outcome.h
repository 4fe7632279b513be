/*
 * Outcomes: what one attempt came to. A timeout is not a failure but not knowing: AMBIGUOUS is a value of its own.
 */
#ifndef REA_OUTCOME_H
#define REA_OUTCOME_H

#include <rea/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "name") in the order of DESIGN.md section 2. */
#define REA_OUTCOME_MAP(X)                                                                               \
	X(OK, "ok")                   /* success status */                                               \
	X(NEVER_SENT, "never_sent")   /* provably not executed: nothing was sent */                      \
	X(PUSHBACK, "pushback")       /* a reply that says "not executed" */                             \
	X(THROTTLED, "throttled")     /* 429, RESOURCE_EXHAUSTED */                                      \
	X(UNAVAILABLE, "unavailable") /* 503, UNAVAILABLE: not proven */                                 \
	X(AMBIGUOUS, "ambiguous")     /* may have run: timeout, reset after a byte was sent, 502, 504 */ \
	X(FAILED, "failed")           /* 500, 501, other 5xx: likely ran */                              \
	X(PERMANENT, "permanent")     /* other 4xx, undecodable reply: answered */                       \
	X(CANCELLED, "cancelled")     /* the caller left, or a shutdown */

enum rea_outcome {
#define X(name, text) REA_OUTCOME_##name,
	REA_OUTCOME_MAP(X)
#undef X
	    REA_OUTCOME_COUNT /* number of values, none itself */
};

/* A set of outcomes, one bit each. */
#define REA_OUTCOME_BIT(outcome) (UINT32_C(1) << (outcome))
#define REA_RETRY_ON_DEFAULT                                                               \
	(REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT) | REA_OUTCOME_BIT(REA_OUTCOME_PUSHBACK) | \
	    REA_OUTCOME_BIT(REA_OUTCOME_UNAVAILABLE) | REA_OUTCOME_BIT(REA_OUTCOME_AMBIGUOUS))

/* "ok", "never_sent", …; "unknown" when out of range. Static. */
REA_API const char *rea_outcome_name(enum rea_outcome outcome);
/* The outcome called name (length bytes), or -1. */
REA_API int rea_outcome_parse(const char *name, size_t length);

enum rea_code_kind {
	REA_CODE_NONE = 0, /* no code: timeout, cancelled, no instance */
	REA_CODE_HTTP,     /* an HTTP status */
	REA_CODE_GRPC,     /* a gRPC status */
	REA_CODE_ERRNO,    /* a positive errno value */
	REA_CODE_EXIT      /* the exit status of a command; 128 + n when signal n ended it */
};

/* One entry of a policy's `classify`: this code means that outcome here. */
struct rea_classify_rule {
	enum rea_code_kind kind; /* HTTP or GRPC */
	uint32_t code;
	enum rea_outcome outcome;
};

/* How far an attempt had come when an I/O error ended it. */
enum rea_phase {
	REA_PHASE_CONNECT, /* no connection yet */
	REA_PHASE_UNSENT,  /* connected, not one byte of the request was handed to the kernel */
	REA_PHASE_SENT     /* at least one byte was */
};

/* The outcome of an HTTP status. rules: borrowed until return, may be NULL with rules_len 0; the first match wins.
 * 1xx (a switch of protocols), 2xx and 3xx are OK. A status outside 100..599 is PERMANENT. */
REA_API enum rea_outcome rea_outcome_from_http(uint32_t status, const struct rea_classify_rule *rules, size_t rules_len);
/* The outcome of a gRPC status: that of the HTTP status it stands for (0..16; others count as UNKNOWN = FAILED); CANCELLED, when a callee says it, is
 * AMBIGUOUS. */
REA_API enum rea_outcome rea_outcome_from_grpc(uint32_t status, const struct rea_classify_rule *rules, size_t rules_len);
/* The outcome of an I/O error or a timeout: CONNECT and UNSENT are NEVER_SENT, SENT is AMBIGUOUS. */
REA_API enum rea_outcome rea_outcome_from_phase(enum rea_phase phase);

/* A server's wait in a Retry-After field: delay-seconds, IMF-fixdate, RFC 850 or asctime date (RFC 9110 10.2.3).
 * now_unix_s: wall clock, seconds since 1970, for the dates. Returns true and the wait (a date in the past: 0; a number too large:
 * saturated at REA_NEVER - 1), or false for anything else (signs, fractions, empty, text): then ignore it. */
REA_API bool rea_retry_after_parse(const char *value, size_t length, int64_t now_unix_s, uint64_t *ret_wait_ns);

/* What a reply's `rea-retry` field asks. */
enum rea_hint { REA_HINT_NONE, REA_HINT_STOP, REA_HINT_AFTER };
/* `stop` or `after=MS`, case-insensitive, surrounding blanks allowed. Anything else is REA_HINT_STOP: what cannot be understood
 * stops retries (gRFC A6 treats pushback so). ret_wait_ns is written for AFTER only. */
REA_API enum rea_hint rea_hint_parse(const char *value, size_t length, uint64_t *ret_wait_ns);

/* Flags of a report. */
#define REA_REPORT_STOP UINT32_C(0x01)    /* the reply forbids another try: `rea-retry: stop`, negative pushback */
#define REA_REPORT_AFTER UINT32_C(0x02)   /* the server asks for a wait: after_ns holds it */
#define REA_REPORT_BLOCKED UINT32_C(0x04) /* PERMANENT because the address is not allowed */
#define REA_REPORT_BODY_OVER_LIMIT \
	UINT32_C(0x08) /* the request body outgrew the replay buffer: it cannot be sent again */
#define REA_REPORT_BODY_INCOMPLETE UINT32_C(0x10)  /* a reply came before the whole request body was received */
#define REA_REPORT_RESPONSE_STARTED UINT32_C(0x20) /* a part of the reply was passed on to the caller */

/* What is known of a finished attempt. */
struct rea_report {
	enum rea_outcome outcome;
	enum rea_code_kind code_kind;
	uint32_t code;       /* of code_kind */
	uint32_t flags;      /* REA_REPORT_… */
	uint64_t after_ns;   /* with REA_REPORT_AFTER */
	uint64_t latency_ns; /* from the attempt's start to its reply or end */
};

#ifdef __cplusplus
}
#endif
#endif
