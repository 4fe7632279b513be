/* Deliveries to instances of services: what src/proxy does, with the fields of a task around it. */
#include "queue/deliver.h"

#include "base/container.h"

#include <stdlib.h>

struct service_delivery {
	struct delivery delivery;
	struct proxy_delivery *inner;
	const struct delivery_request *request;
	struct delivery_fields fields;
	delivery_done done;
	void *user_data;
};

static void on_done(const struct proxy_delivery_result *inner, void *user_data)
{
	struct service_delivery *delivery = user_data;
	struct delivery_result result = {
	    .report = inner->report,
	    .instance = rea_slice_of(inner->instance),
	    .content_type = inner->content_type,
	    .reply = inner->reply,
	    .reply_cut = inner->reply_cut,
	    .detail = inner->detail,
	};

	if (inner->detail[0] == '\0')
		result.detail = delivery_judge_redirect(delivery->request, &result.report);
	delivery->done(&result, delivery->user_data);
	free(delivery);
}

static void on_cancel(struct delivery *base)
{
	struct service_delivery *delivery = REA_CONTAINER_OF(base, struct service_delivery, delivery);

	proxy_delivery_cancel(delivery->inner);
	free(delivery);
}

struct delivery *deliver_to_service(const struct proxy_route *route, size_t instance,
    const struct delivery_request *request, delivery_done done, void *user_data)
{
	struct service_delivery *delivery = calloc(1, sizeof(*delivery));
	struct proxy_delivery_options options = {
	    .head = {.method = request->method,
		.path = request->target,
		.fields = request->fields,
		.fields_len = request->fields_len},
	    .body = request->body,
	    .instance = instance,
	    .is_retry = request->attempt > 1,
	    .deadline_ns = request->deadline_ns,
	    .reply_max = request->reply_max,
	    .policy = request->policy,
	};

	if (delivery == NULL)
		return NULL;
	delivery->delivery.cancel = on_cancel;
	delivery->request = request;
	delivery->done = done;
	delivery->user_data = user_data;
	delivery_fields_make(&delivery->fields, request, route->biz_id_header);
	options.head.more = delivery->fields.items;
	options.head.more_len = delivery->fields.len;
	delivery->inner = proxy_deliver(route, &options, on_done, delivery);
	if (delivery->inner != NULL)
		return &delivery->delivery;
	free(delivery);
	return NULL;
}
