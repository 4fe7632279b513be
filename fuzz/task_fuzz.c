/*
 * Submits as JSON: what is read can be written as a payload and read again as the same; what is refused names a status and says why. The same bytes as
 * a payload: refused, or a policy that the engine takes.
 */
#include "queue/task.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int good)
{
	if (!good)
		abort();
}

static void as_payload(const char *data, size_t size)
{
	struct task_request request;
	struct rea_policy policy;

	if (!task_decode(rea_slice_make(data, size), &request))
		return;
	task_policy(NULL, &request.policy, false, NULL, &policy);
	check(rea_policy_validate_task(&policy, REA_TASK_ATTEMPTS_MAX, NULL) == 0);
}

static void round_trip(const struct task_submit *submit)
{
	struct task_submit again = *submit;
	struct rea_buffer payload = {.alloc = NULL};
	uint8_t before[16], after[16];

	check(task_encode(&submit->request, &payload) == 0);
	check(task_decode(rea_slice_make(payload.data, rea_buffer_length(&payload)), &again.request));
	task_fingerprint(submit, before);
	task_fingerprint(&again, after);
	check(memcmp(before, after, sizeof(before)) == 0);
	rea_buffer_fini(&payload);
}

/* With its body put back, what was read in two parts is what was read in one. */
static void check_alike(const struct task_document *document, json_t *whole)
{
	json_t *body = document->cut ? json_object_get(whole, "body") : NULL, *shallow;

	if (!document->cut) {
		check(json_equal(document->json, whole));
		return;
	}
	check(json_is_string(body) &&
	      rea_slice_equal(rea_slice_make(json_string_value(body), json_string_length(body)),
		  rea_slice_make(rea_buffer_data(&document->body), rea_buffer_length(&document->body))));
	shallow = json_copy(whole);
	json_object_set_new(shallow, "body", json_string(""));
	check(json_equal(document->json, shallow));
	json_decref(shallow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rea_config_settings settings;
	struct task_problem problem = {.status = 0};
	struct task_submit submit;
	struct task_document document, whole = {.json = NULL};
	json_error_t wrong;

	as_payload((const char *)data, size);
	whole.json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	check(task_document_load(&document, rea_slice_make((const char *)data, size),
		  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &wrong) == (whole.json != NULL));
	if (whole.json == NULL)
		return 0;
	check_alike(&document, whole.json);
	task_document_fini(&whole);
	rea_config_settings_defaults(&settings);
	settings.limits.task_attempts = REA_TASK_ATTEMPTS_MAX;
	if (task_submit_read(&submit, document, rea_slice_make(NULL, 0), &settings, &problem)) {
		round_trip(&submit);
		task_submit_fini(&submit);
	} else {
		check(problem.status >= 400 && problem.detail[0] != '\0');
	}
	return 0;
}
