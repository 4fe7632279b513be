#include "queue/deliver.h"

#include "base/format.h"

#include <rea/policy.h>
#include <rea/time.h>

void delivery_cancel(struct delivery *delivery)
{
	delivery->cancel(delivery);
}

static void add(struct delivery_fields *fields, struct rea_slice name, struct rea_slice value)
{
	fields->items[fields->len++] =
	    (struct http_field){.name = name, .value = value, .id = (uint8_t)http_field_id_of(name)};
}

void delivery_fields_make(struct delivery_fields *fields, const struct delivery_request *request, const char *biz_id_header)
{
	const struct rea_slice biz_id_name = rea_slice_of(biz_id_header);
	struct rea_format attempt, deadline;

	fields->len = 0;
	if (request->key.length > 0)
		add(fields, REA_SLICE_LIT("idempotency-key"), request->key);
	rea_format_init(&attempt, fields->attempt, sizeof(fields->attempt));
	rea_format_u64(&attempt, request->attempt);
	rea_format_text(&attempt, "/");
	rea_format_u64(&attempt, request->attempts_max);
	add(fields, REA_SLICE_LIT("rea-attempt"), rea_slice_of(fields->attempt));
	rea_format_init(&deadline, fields->deadline, sizeof(fields->deadline));
	rea_format_u64(&deadline, rea_time_to_ms(rea_time_sub(request->deadline_ns, request->start_ns)));
	add(fields, REA_SLICE_LIT("rea-deadline-ms"), rea_slice_of(fields->deadline));
	if (biz_id_name.length > 0 && request->biz_id.length > 0 &&
	    http_field_named(request->fields, request->fields_len, biz_id_name) == NULL)
		add(fields, biz_id_name, request->biz_id);
}

static bool is_classified(const struct rea_policy *policy, uint32_t status)
{
	for (size_t i = 0; i < policy->classify_len; i++)
		if (policy->classify[i].kind == REA_CODE_HTTP && policy->classify[i].code == status)
			return true;
	return false;
}

const char *delivery_judge_redirect(const struct delivery_request *request, struct rea_report *report)
{
	if (report->outcome != REA_OUTCOME_OK || report->code_kind != REA_CODE_HTTP || report->code < 300 ||
	    report->code >= 400 || is_classified(request->policy, report->code))
		return "";
	report->outcome = REA_OUTCOME_PERMANENT;
	return "a redirect, which is not followed";
}
