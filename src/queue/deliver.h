/* What the two kinds of deliveries share, and how each begins. */
#ifndef REA_SRC_QUEUE_DELIVER_H
#define REA_SRC_QUEUE_DELIVER_H

#include "proxy/deliver.h"
#include "queue/delivery.h"
#include "queue/sign.h"
#include "queue/vet.h"

/* The first member of both kinds. */
struct delivery {
	void (*cancel)(struct delivery *delivery);
};

/* ---- what rea adds to a request ---- */

#define DELIVERY_FIELDS_MAX 4

struct delivery_fields {
	struct http_field items[DELIVERY_FIELDS_MAX];
	size_t len;
	char attempt[24];
	char deadline[24];
};
/* Idempotency-Key, rea-attempt and rea-deadline-ms (what is left at request->start_ns); with biz_id_header the business id under that name, unless
 * the request has such a field. Points into request. */
void delivery_fields_make(struct delivery_fields *fields, const struct delivery_request *request, const char *biz_id_header);
/* A redirect is nobody's success: the target has not done it, and nobody goes where it leads. Unless the policy's classify says so.
 * Returns the detail of such a report, else "". */
const char *delivery_judge_redirect(const struct delivery_request *request, struct rea_report *report);

/* ---- to an instance of a service ---- */

/* route: need not outlive this call. instance: index into its instances. NULL = out of memory. */
struct delivery *deliver_to_service(const struct proxy_route *route, size_t instance,
    const struct delivery_request *request, delivery_done done, void *user_data);

/* ---- to a URL: deliver_url.c ---- */

/* Connections to targets outside, and libcurl with them, which is not touched before the first delivery. */
struct deliver_urls;

/* What the operator allows for a target. */
struct deliver_url_rule {
	struct vet_allowed allowed;  /* addresses of private networks and of this machine */
	const char *ca_file;         /* PEM, in place of the system's authorities; NULL = those */
	const struct sign_key *keys; /* Standard Webhooks: every one signs; the current one first */
	size_t keys_len;             /* 0 = not signed */
};

/* loop: borrowed while it lives. header_bytes_max: of one reply's head. NULL = out of memory. */
struct deliver_urls *deliver_urls_new(struct loop *loop, size_t header_bytes_max);
/* No delivery is left. */
void deliver_urls_free(struct deliver_urls *urls);
/* rule, url: borrowed while the delivery lives; request->target is not looked at. id: the same on every delivery of a task, for webhook-id; no "."
 * in it. NULL = out of memory. */
struct delivery *deliver_to_url(struct deliver_urls *urls, const struct deliver_url_rule *rule, const struct vet_url *url,
    struct rea_slice id, const struct delivery_request *request, delivery_done done, void *user_data);

#endif
