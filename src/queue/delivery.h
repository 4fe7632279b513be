/*
 * One attempt of a task: a request sent once, and what came of it. Two kinds stand behind it: an instance of a service, through the pool of
 * src/proxy (deliver_service.c), and an allowed URL, through libcurl (deliver_url.c). Neither retries anything by itself.
 *
 * Everything belongs to the loop's thread. done fires exactly once unless the delivery is cancelled, never from inside the call that began it.
 */
#ifndef REA_SRC_QUEUE_DELIVERY_H
#define REA_SRC_QUEUE_DELIVERY_H

#include "http/http.h"

#include <rea/outcome.h>

struct delivery; /* made by the functions that begin one, gone after done or delivery_cancel */

/* What is sent. Borrowed while the delivery lives. */
struct delivery_request {
	struct rea_slice method;
	struct rea_slice target; /* to a service: path with query; else an absolute URL */
	const struct http_field *fields; /* the task's own, without those that rea sets: Host, Content-Length, Idempotency-Key, rea-attempt … */
	size_t fields_len;
	struct rea_slice body;
	struct rea_slice key; /* Idempotency-Key; empty = none */
	struct rea_slice biz_id;
	uint32_t attempt; /* for rea-attempt: n/max */
	uint32_t attempts_max;
	uint64_t start_ns;               /* now */
	uint64_t deadline_ns;            /* absolute; the delivery ends by then, however slow the target drips */
	size_t reply_max;                /* bytes of the reply's body that are kept; the rest is not read */
	const struct rea_policy *policy; /* its classify and retry-on read replies */
};

struct delivery_result {
	struct rea_report report;  /* outcome, code, server's wait, latency */
	struct rea_slice instance; /* "127.0.0.1:9001" that was connected to; empty = none */
	struct rea_slice content_type;
	struct rea_slice reply; /* first bytes of the body */
	bool reply_cut;
	const char *detail; /* for people: why it failed, with host and cause; "" = the code says it */
};
typedef void (*delivery_done)(const struct delivery_result *result, void *user_data);

/* No done any more. What is on its way is cut off. */
void delivery_cancel(struct delivery *delivery);

#endif
