/*
 * Transfers of libcurl under a policy: rea_curl_perform stands beside curl_easy_perform. The same easy handle, now with
 * retries on other instances, a budget, a breaker, a deadline over all attempts, one idempotency key for all of them,
 * and an event for each.
 *
 *   struct rea_curl_call call;
 *
 *   rea_curl_call_init(&call);
 *   call.options.policy = &policy;
 *   call.options.grant = (struct rea_grant){REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CALLER};
 *   code = rea_curl_perform(curl, easy, &call, NULL);
 *
 * One attempt is one request. By itself libcurl sends a request a second time when a reused connection ends without a
 * reply, and up to six times when an HTTP/2 server refuses the stream; under rea such an attempt ends, is judged, and
 * the policy decides. Only what was provably not sent goes out again within an attempt. Redirects that the handle
 * follows, and rounds of authentication, stay inside their attempt.
 *
 * libcurl cannot be asked what is set on a handle, so whatever rea has to replace for the time of a call is said in
 * struct rea_curl_call, under its name in libcurl, and set to that again when the call ends. These options of the
 * handle are touched, no others:
 *   HTTPHEADER, READFUNCTION, READDATA, SEEKFUNCTION, SEEKDATA, PREREQFUNCTION, PREREQDATA    always
 *   WRITEFUNCTION, WRITEDATA                                                                   with `write`
 *   HEADERFUNCTION, HEADERDATA                                                                 with `header`
 *   CONNECT_TO                                                                                 with `instances`
 *
 * Time: an attempt has the policy's attempt_timeout_ns until its reply begins to be passed on, and all of it has until
 * the deadline; the handle's own limits (CURLOPT_TIMEOUT_MS and such) hold for each attempt. An attempt that ends while
 * libcurl resolves a name with a thread of its own ends when that thread does; instances are addresses, no names.
 *
 * curl_global_init is the program's business, before anything here. HTTP and HTTPS; libcurl 7.87 or later.
 */
#ifndef REA_CURL_H
#define REA_CURL_H

#include <rea/call.h>
#include <rea/event.h>

#include <curl/curl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- where calls run ---- */

/* Connections, random numbers and the calls under way. One thread at a time. */
struct rea_curl;

struct rea_curl_options {
	uint32_t version;              /* set by rea_curl_options_init */
	const struct rea_alloc *alloc; /* copied; NULL = malloc */
	uint64_t seed;                 /* of waits, keys and choices; 0 = from the system */
	CURLM *multi; /* borrowed while the object lives, for rea_curl_start; NULL = one of its own, for rea_curl_perform */
};
#define REA_CURL_OPTIONS_VERSION 1
REA_API void rea_curl_options_init(struct rea_curl_options *options);

/* options: copied; NULL = as initialised. Returns 0, REA_ERR_NOMEM, or REA_ERR_IO with ret_info (may be NULL) when the
 * system gives no seed. */
REA_API int rea_curl_new(const struct rea_curl_options *options, struct rea_curl **ret_curl, struct rea_error_info *ret_info);
/* Calls under way end without a word: their handles are taken out and set back, their `done` is not called. */
REA_API void rea_curl_free(struct rea_curl *curl);

/* ---- one call ---- */

#define REA_CURL_HELD_BYTES 65536 /* default of held_bytes_max */
#define REA_CURL_KEY_MAX 255      /* bytes of an idempotency key */

/* Copied; what it points to is borrowed until the call ends. */
struct rea_curl_call {
	uint32_t version; /* set by rea_curl_call_init */
	/* Policy, permission, deadline, budget, breaker, limit. `policy` must be set; has_key and chained follow from
	 * what stands below. */
	struct rea_call_options options;
	/* Where attempts may go, instead of where the URL's host and port lead; Host, SNI and certificate checks stay
	 * those of the URL. The handle needs CURLOPT_URL with its scheme (CURLOPT_CURLU and CURLOPT_PORT are not seen),
	 * and no proxy: an attempt that is about to reach another address than its instance's ends before it is sent,
	 * reason `blocked`. NULL: the URL's own host is the only instance, so that retries are max_retry_same_instance.
	 * The list may be exchanged between turns. */
	const struct rea_instances *instances;
	/* The Idempotency-Key of all attempts, visible ASCII, at most REA_CURL_KEY_MAX bytes; one in `headers` goes
	 * before. NULL: with make_key a random UUID, else none. */
	const char *key;
	bool make_key;
	/* `rea-attempt` of the request that the program is serving, if there is one: a retry there allows none here
	 * (chain-stop), and is passed on. NULL = none. */
	const char *incoming_attempt;

	/* What the handle has, or would have without rea. */
	struct curl_slist *headers;    /* CURLOPT_HTTPHEADER; not changed */
	struct curl_slist *connect_to; /* CURLOPT_CONNECT_TO; used for what is not the URL's host and port */
	curl_prereq_callback prereq;   /* CURLOPT_PREREQFUNCTION */
	void *prereq_data;
	/* The request's body is the handle's own (CURLOPT_POSTFIELDS, CURLOPT_MIMEPOST), or is read: with read_data
	 * alone from that FILE *, with `read` from the function. A FILE that can seek is repeated from where it stood,
	 * and `seek` set to 0 repeats what a function gives. Without either rea keeps what it reads, up to the policy's
	 * replay_limit_bytes; a body that is longer is sent once (body_over_limit). A read function that is set on the
	 * handle only is never called: the transfer ends with CURLE_ABORTED_BY_CALLBACK. */
	curl_read_callback read;
	void *read_data;
	curl_seek_callback seek;
	void *seek_data;
	/* The reply. `write` gets the body of the last attempt only, in order and once: a failed reply is held, up to
	 * held_bytes_max with its header lines, until it is known to be the last. Longer ones are passed on, and what
	 * was passed on is not repeated (response_started). `header` gets the lines, held back until a body begins that
	 * is passed on; needs `write`. A pause is possible while the transfer runs only. write NULL: the handle's own
	 * function gets everything, and a reply with a body is not repeated. */
	curl_write_callback write;
	void *write_data;
	curl_write_callback header;
	void *header_data;
	size_t held_bytes_max; /* default REA_CURL_HELD_BYTES */

	/* What its events say besides; NULL = nothing. Without biz_id it is trace_id, else the call's id. */
	const char *service;
	const char *method;
	const char *biz_id;
	const char *trace_id;
	/* Each event of rea/event.h: attempts that failed or followed a failure, and the end after them. code: of the
	 * attempt. The event and its texts are borrowed until return. May cancel the call. NULL = none. */
	void (*event)(const struct rea_event *event, CURLcode code, void *user_data);
	void *event_data;

	/* rea_curl_perform: a descriptor that becomes readable when the call shall end, from any thread: an eventfd, a
	 * pipe. Never read. -1 = none. */
	int cancel_fd;
};
#define REA_CURL_CALL_VERSION 1
REA_API void rea_curl_call_init(struct rea_curl_call *call);

/* How a call ended. */
struct rea_curl_result {
	/* Of the last attempt, as curl_easy_perform would have returned it. A time limit of the policy is
	 * CURLE_OPERATION_TIMEDOUT, a cancelled call CURLE_ABORTED_BY_CALLBACK, one that made no attempt
	 * CURLE_COULDNT_CONNECT (CURLE_OPERATION_TIMEDOUT past its deadline). */
	CURLcode code;
	struct rea_decision decision; /* the last: verdict, reason, attempts */
	struct rea_report report;     /* of the last attempt; NEVER_SENT when none was made */
};

/* ---- blocking ---- */

/* Make the call in this thread: attempts, and waits in between. Returns as curl_easy_perform (see rea_curl_result), or
 * CURLE_OUT_OF_MEMORY or CURLE_BAD_FUNCTION_ARGUMENT for what rea_curl_start calls REA_ERR_NOMEM and REA_ERR_INVALID:
 * then nothing was touched, and of the latter ret_info (may be NULL) has key and message. CURLINFO_... and
 * curl_easy_header tell of the last attempt. ret_result may be NULL; written if the call was begun. Only with a multi of
 * its own. */
REA_API CURLcode rea_curl_perform(struct rea_curl *curl, CURL *easy, const struct rea_curl_call *call,
    struct rea_curl_result *ret_result, struct rea_error_info *ret_info);

/* ---- in the program's own loop ---- */

/*
 * The program drives its CURLM as it always does (curl_multi_perform or curl_multi_socket_action) and tells three
 * things:
 *   each message of curl_multi_info_read ─▶ rea_curl_message
 *   the time has come that rea_curl_next named ─▶ rea_curl_run
 * It asks rea_curl_next after each turn. Times are those of one monotonic clock. Not inside a callback of libcurl but
 * for rea_curl_start, rea_curl_cancel and rea_curl_next.
 */

/* Begin a call with a handle that is in no multi; its first attempt begins at the next rea_curl_run. The handle belongs
 * to the call until `done`, which may free it or begin its next call. Returns 0, REA_ERR_NOMEM, or REA_ERR_INVALID with
 * key and message in ret_info (may be NULL): no policy or one that is out of its bounds, a key that is no key, `header`
 * without `write`, instances with a URL that cannot be read, or a handle whose call is under way. Only with a given
 * multi. */
REA_API int rea_curl_start(struct rea_curl *curl, CURL *easy, const struct rea_curl_call *call, uint64_t now_ns,
    void (*done)(CURL *easy, const struct rea_curl_result *result, void *user_data), void *user_data,
    struct rea_error_info *ret_info);
/* A transfer has ended. False: the handle is none of ours, nothing was done. message: read at once, and not valid
 * afterwards. */
REA_API bool rea_curl_message(struct rea_curl *curl, const CURLMsg *message, uint64_t now_ns);
/* When rea_curl_run has something to do: at once if that is not later than now, REA_NEVER = only after another call
 * here. */
REA_API uint64_t rea_curl_next(const struct rea_curl *curl);
/* Begin the attempts that are due, end those whose time is up. */
REA_API void rea_curl_run(struct rea_curl *curl, uint64_t now_ns);
/* End the call, in an attempt or in a wait; due at once. Returns 0, or REA_ERR_NOT_FOUND when no call has this
 * handle. */
REA_API int rea_curl_cancel(struct rea_curl *curl, CURL *easy);

/* ---- alone ---- */

/* What a finished transfer came to, for programs with retries of their own: outcome, status or errno, what the reply
 * asks (Retry-After, rea-retry). Whether anything was sent is read from CURLINFO_REQUEST_SIZE, which also counts what a
 * proxy was asked. policy: for `classify`; NULL = none. latency_ns is CURLINFO_TOTAL_TIME_T. */
REA_API void rea_curl_report(CURL *easy, CURLcode code, const struct rea_policy *policy, struct rea_report *ret_report);

/* One attempt is one request for such programs, too: zero-initialise one of these before each transfer, and ask from the
 * handle's CURLOPT_PREREQFUNCTION. Members are private. */
struct rea_curl_once {
	uint32_t requests; /* begun: more than one after redirects and rounds of authentication */
	uint32_t resend;
	int64_t connects_seen;             /* at the last of them, as CURLINFO counts */
	int64_t header_seen, request_seen; /* bytes */
	bool fresh;                        /* the last one has a new connection */
};
/* True: the request may go out. False: libcurl is about to send it a second time; return CURL_PREREQFUNC_ABORT. */
REA_API bool rea_curl_once_allows(struct rea_curl_once *once, CURL *easy);
/* As rea_curl_report, for a transfer that was asked about so: a second request that was stopped counts as what became of
 * the first (ambiguous, or never_sent where an HTTP/2 server had refused it), and so far as nothing was asked nothing was
 * sent. */
REA_API void rea_curl_once_report(const struct rea_curl_once *once, CURL *easy, CURLcode code,
    const struct rea_policy *policy, struct rea_report *ret_report);

#ifdef __cplusplus
}
#endif
#endif
