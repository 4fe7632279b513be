/*
 * Policy: what the caller configures. Three layers (method, service, global), each key on its own: absent = inherit.
 *
 * A layer is a set of keys with their values. A profile is a layer too: it stands just below the layer that names it, so a layer's
 * explicit keys override its profile's, and both override what is inherited. Below the global layer stand the defaults.
 */
#ifndef REA_POLICY_H
#define REA_POLICY_H

#include <rea/backoff.h>
#include <rea/error.h>
#include <rea/outcome.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REA_ATTEMPTS_MAX 10
#define REA_CLASSIFY_RULES_MAX 32
#define REA_POLICY_BACKOFF_NS_MIN UINT64_C(20000000)          /* of min_backoff_ns */
#define REA_POLICY_BACKOFF_NS_MIN_ADAPTIVE UINT64_C(10000000) /* the same under full jitter */
#define REA_POLICY_DEADLINE_NS_MAX UINT64_C(3600000000000)    /* one hour */
#define REA_TASK_ATTEMPTS_MAX 100                             /* the most that a task's bound may be raised to */
#define REA_TASK_MANY_BACKOFF_NS_MIN \
	UINT64_C(1000000000) /* of min_backoff_ns with more than REA_ATTEMPTS_MAX attempts */
#define REA_TASK_DEADLINE_NS_MAX UINT64_C(2592000000000000) /* 30 days */
#define REA_POLICY_REPLAY_BYTES_MAX (UINT32_C(16) << 20)
#define REA_BUDGET_RATIO_PERMILLE_MAX 1000
#define REA_BUDGET_WINDOW_MS_MIN 1000
#define REA_BUDGET_WINDOW_MS_MAX 60000
#define REA_BUDGET_MAX_TOKENS_MAX 1000
#define REA_BUDGET_TOKEN_RATIO_PERMILLE_MAX 1000000
#define REA_BUDGET_CAPACITY_MAX 1000000

enum rea_never_sent { REA_NEVER_SENT_STRICT, REA_NEVER_SENT_ALLOW };
enum rea_when_all_tried { REA_ALL_TRIED_STOP, REA_ALL_TRIED_CYCLE };
enum rea_mode { REA_MODE_ENFORCE, REA_MODE_OBSERVE };

/* How a budget lets retries through: rea/budget.h says what each rule counts. */
enum rea_budget_rule { REA_BUDGET_RATIO, REA_BUDGET_GRPC, REA_BUDGET_AWS, REA_BUDGET_EVIDENCE };

/* The retry budget of a service. Only the keys of its rule mean anything; EVIDENCE has none. */
struct rea_budget_policy {
	enum rea_budget_rule rule; /* default EVIDENCE */
	/* RATIO */
	uint32_t ratio_permille; /* retries per 1000 first attempts; 0..1000; default 200 */
	uint32_t reserve_per_s;  /* retries a second that are always there; default 10 */
	uint32_t window_ms;      /* 1000..60000; default 10000 */
	/* GRPC: a failure takes one token, a success gives token_ratio back; retries go above half of max_tokens */
	uint32_t max_tokens;           /* 1..1000; default 10 */
	uint32_t token_ratio_permille; /* thousandths of a token; 1..1000000; default 100 */
	/* AWS: what a retry costs, by the failure that it follows. The SDKs' numbers of 2026; until then 5, 10, 5 */
	uint32_t capacity;        /* tokens, full at first; 1..1000000; default 500 */
	uint32_t cost_transient;  /* 1..capacity; default 14 */
	uint32_t cost_timeout;    /* 1..capacity; default 14 */
	uint32_t cost_throttling; /* 1..capacity; default 5 */
};

enum rea_breaker_window { REA_BREAKER_COUNT_BASED, REA_BREAKER_TIME_BASED };

/* The circuit breaker, in Resilience4j's words and with its defaults. */
struct rea_breaker_policy {
	bool enabled;                        /* default false */
	double failure_rate_threshold;       /* percent, (0, 100]; default 50 */
	double slow_call_rate_threshold;     /* percent, (0, 100]; default 100 */
	uint64_t slow_call_duration_ns;      /* default 60 s */
	enum rea_breaker_window window_type; /* default COUNT_BASED */
	uint32_t window_size;                /* calls, or seconds; 1..10000 / 1..3600; default 100 */
	uint32_t minimum_calls;              /* default 100 */
	uint64_t wait_in_open_ns;            /* default 60 s */
	uint32_t permitted_in_half_open;     /* 1..1000; default 10 */
	uint64_t max_wait_in_half_open_ns;   /* 0 = no limit; default 0 */
};

/* The effective numbers of one method. Plain data, immutable once built. */
struct rea_policy {
	bool enabled;                           /* default false */
	uint32_t max_retry_same_instance;       /* default 0 */
	uint32_t max_retry_next_instance;       /* default 1 */
	uint64_t min_backoff_ns;                /* >= 20 ms, adaptive >= 10 ms; default 100 ms */
	uint64_t max_backoff_ns;                /* >= min; default 1 s */
	double backoff_multiplier;              /* >= 1; default 2.0 */
	double jitter;                          /* (0, 1]; default 0.2 */
	enum rea_jitter jitter_kind;            /* FULL under adaptive, else SYMMETRIC; set by the profile alone */
	uint64_t backoff_floor_ns;              /* smallest legal base of the profile: 20 ms, adaptive 10 ms */
	uint64_t attempt_timeout_ns;            /* <= deadline; default 1 s */
	uint64_t deadline_ns;                   /* a duration over all attempts and waits; default 3 s */
	uint32_t retry_on;                      /* REA_OUTCOME_BIT set; default REA_RETRY_ON_DEFAULT */
	enum rea_never_sent never_sent;         /* default STRICT */
	enum rea_when_all_tried when_all_tried; /* default STOP */
	enum rea_mode mode;                     /* default ENFORCE */
	bool chain_stop;                        /* default true */
	uint32_t replay_limit_bytes;            /* <= 16 MiB; default 64 KiB */
	struct rea_budget_policy budget;
	struct rea_breaker_policy breaker;
	size_t classify_len;
	struct rea_classify_rule classify[REA_CLASSIFY_RULES_MAX];
};

/* The keys of a layer, one bit each. X(NAME, bit, "yaml-name") */
#define REA_POLICY_KEY_MAP(X)                                    \
	X(ENABLED, 0, "enabled")                                 \
	X(MAX_RETRY_SAME_INSTANCE, 1, "max-retry-same-instance") \
	X(MAX_RETRY_NEXT_INSTANCE, 2, "max-retry-next-instance") \
	X(MIN_BACKOFF, 3, "min-backoff-ms")                      \
	X(MAX_BACKOFF, 4, "max-backoff-ms")                      \
	X(BACKOFF_MULTIPLIER, 5, "backoff-multiplier")           \
	X(JITTER, 6, "jitter")                                   \
	X(ATTEMPT_TIMEOUT, 7, "attempt-timeout-ms")              \
	X(DEADLINE, 8, "deadline-ms")                            \
	X(RETRY_ON, 9, "retry-on")                               \
	X(NEVER_SENT, 10, "never-sent")                          \
	X(WHEN_ALL_TRIED, 11, "when-all-tried")                  \
	X(MODE, 12, "mode")                                      \
	X(CLASSIFY, 13, "classify")                              \
	X(BUDGET, 14, "budget")                                  \
	X(BREAKER, 15, "breaker")                                \
	X(CHAIN_STOP, 16, "chain-stop")                          \
	X(REPLAY_LIMIT, 17, "replay-limit-bytes")                \
	X(JITTER_KIND, 18, "(jitter kind)") /* set by a profile, never by a document; brings backoff_floor_ns */

enum rea_policy_key {
#define X(name, bit, text) REA_POLICY_##name = bit,
	REA_POLICY_KEY_MAP(X)
#undef X
	    REA_POLICY_KEY_COUNT = 19
};

struct rea_policy_layer {
	uint32_t set;             /* bit per rea_policy_key that this layer says something about */
	struct rea_policy values; /* only the fields of set keys mean anything; budget, breaker and classify are taken whole */
};

/* The defaults: the one place where they stand. */
REA_API void rea_policy_defaults(struct rea_policy *policy);
/* Those of a task: enabled, 2 retries under cycle, backoff 200 ms x1.5 to 10 s, deadline 1 day, retry-on never_sent, unavailable and ambiguous; what is
 * not named is as above. */
REA_API void rea_policy_task_defaults(struct rea_policy *policy);
/* The built-in profiles as layers: "conservative" (every key but `enabled` at its default), "adaptive" (10 attempts, full jitter, floor 10 ms, 20 ms x1.5
 * to 250 ms, cycle, the budget's rule evidence), "connect-only" (retry-on never_sent). Returns NULL for an unknown name. Static. */
REA_API const struct rea_policy_layer *rea_policy_profile(const char *name, size_t length);

/* Merge layers onto the defaults, layers[0] the lowest (global); absent ones may be NULL. `enabled: false` set in layers[global_index] is the
 * master switch: nothing above turns it on. Pass global_index = SIZE_MAX for none. */
REA_API void rea_policy_merge(const struct rea_policy_layer *const *layers, size_t layers_len, size_t global_index,
    struct rea_policy *ret_policy);

/* (1 + same)·(1 + next), under cycle 1 + next. Saturates. */
REA_API uint32_t rea_policy_attempts(const struct rea_policy *policy);
/* Checks every bound, those between keys too. Returns 0, or REA_ERR_INVALID with key and message in ret_info (may be NULL). */
REA_API int rea_policy_validate(const struct rea_policy *policy, struct rea_error_info *ret_info);
/* The same for the keys of the budget's rule alone; key "budget". */
REA_API int rea_budget_policy_validate(const struct rea_budget_policy *policy, struct rea_error_info *ret_info);
/* The same for the breaker's; key "breaker". */
REA_API int rea_breaker_policy_validate(const struct rea_breaker_policy *policy, struct rea_error_info *ret_info);
/* The bounds of a task's policy: the deadline may be 30 days; attempts may be attempts_max (1..REA_TASK_ATTEMPTS_MAX) under cycle, but more than
 * REA_ATTEMPTS_MAX only with a backoff from 1 s on. Returns as rea_policy_validate. */
REA_API int rea_policy_validate_task(const struct rea_policy *policy, uint32_t attempts_max, struct rea_error_info *ret_info);
/* The policy's backoff. */
REA_API void rea_policy_backoff(const struct rea_policy *policy, struct rea_backoff *ret_backoff);

#ifdef __cplusplus
}
#endif
#endif
