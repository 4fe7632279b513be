/*
 * `rea explain`: what holds for a method, where each value was written, and what it comes to.
 *
 * Nothing is worked out here that decides anything: policies are the ones calls run under, waits are asked of the
 * backoff itself.
 */
#include "config/snapshot.h"

#include <rea/backoff.h>
#include <rea/time.h>

#include <stdarg.h>
#include <stdio.h>

#define VALUE_SIZE 768

struct out {
	void (*write)(const char *text, size_t length, void *user_data);
	void *user_data;
};

__attribute__((format(printf, 2, 3))) static void put(const struct out *out, const char *format, ...)
{
	char text[1024];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length > 0)
		out->write(text, (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1, out->user_data);
}

/* What is asked about, found. */
struct subject {
	const struct rea_config *config;
	const char *service;
	const char *method;
	const struct rea_config_service *served; /* NULL = not in `services` */
	const struct rea_operation *operation;   /* NULL = no contract declares it */
	const struct rea__service_config *own;
	const struct rea__method_config *own_method;
	bool grpc; /* it is about gRPC calls */
	struct rea__stack stack;
	struct rea_policy policy;
};

/* ------------------------------------------------------------------ one value */

static const char *value_text(const struct rea__field *field, const void *value, char text[VALUE_SIZE])
{
	struct rea_format format;

	rea_format_init(&format, text, VALUE_SIZE);
	field->type->format(field, value, &format);
	return text;
}

static const char *place_name(enum rea__place place)
{
	switch (place) {
	case REA__PLACE_GLOBAL:
		return "global";
	case REA__PLACE_SERVICE:
		return "service";
	case REA__PLACE_METHOD:
		return "method";
	case REA__PLACE_WISH:
		return "wish";
	case REA__PLACE_PROFILE:
		break;
	}
	return "profile";
}

/* "global, line 5", "profile critical (line 30) of service, line 9", "default". */
static const char *source_text(const struct rea__stack_item *item, enum rea_policy_key key, char *text, size_t size)
{
	if (item == NULL)
		snprintf(text, size, "default");
	else if (item->profile == NULL)
		snprintf(text, size, "%s, line %u", item->file ? item->file : place_name(item->place),
		    rea__lines_of(item->lines, item->keys->set, key));
	else if (item->lines == NULL)
		snprintf(text, size, "profile %s of %s, line %u", item->profile->name, place_name(item->place),
		    item->profile_line);
	else
		snprintf(text, size, "profile %s (line %u) of %s, line %u", item->profile->name,
		    rea__lines_of(item->lines, item->keys->set, key), place_name(item->place), item->profile_line);
	return text;
}

static void put_policy_key(const struct out *out, const struct subject *subject, enum rea_policy_key key)
{
	const struct rea__field *field = &rea__policy_block.fields[key];
	char value[VALUE_SIZE], source[192];

	if (key == REA_POLICY_JITTER && subject->policy.jitter_kind == REA_JITTER_FULL) {
		key = REA_POLICY_JITTER_KIND;
		snprintf(value, sizeof(value), "full");
	} else {
		value_text(field, (const char *)&subject->policy + field->offset, value);
	}
	source_text(rea__stack_source(&subject->stack, key), key, source, sizeof(source));
	put(out, "  %-24s  %-12s  %s\n", field->name, value, source);
}

static void put_policy(const struct out *out, const struct subject *subject)
{
	for (int key = 0; key < REA_POLICY_JITTER_KIND; key++)
		put_policy_key(out, subject, (enum rea_policy_key)key);
}

/* ------------------------------------------------------------------ what it comes to */

/* Milliseconds, to the microsecond where there is a part of one. */
static const char *ms_text(uint64_t ns, char *text, size_t size)
{
	uint64_t us = rea_time_add(ns, 500) / REA_NS_PER_US;
	struct rea_format format;

	rea_format_init(&format, text, size);
	if (us % 1000 == 0)
		rea_format_u64(&format, us / 1000);
	else
		rea_format_fixed(&format, us, 3);
	rea_format_text(&format, " ms");
	return text;
}

/* Attempts of a call under the policy, were the callee to permit retries. service NULL = it is not in `services`. */
static uint32_t attempts_of(const struct rea_policy *policy, const struct rea_config_service *service)
{
	if (!policy->enabled || policy->mode != REA_MODE_ENFORCE)
		return 1;
	return service ? rea_config_attempts(service, policy) : rea_policy_attempts(policy);
}

static const char *attempts_text(uint32_t attempts, char *text, size_t size)
{
	uint32_t retries = attempts - 1;

	if (retries == 0)
		snprintf(text, size, "1 attempt, no retries");
	else
		snprintf(text, size, "%u attempts, %u %s", attempts, retries, retries == 1 ? "retry" : "retries");
	return text;
}

static void put_attempts(const struct out *out, const struct subject *subject)
{
	const struct rea__stack_item *enabled = rea__stack_source(&subject->stack, REA_POLICY_ENABLED);
	const struct rea_policy *policy = &subject->policy;
	uint32_t attempts = attempts_of(policy, subject->served);
	char text[96], source[192];

	put(out, "\nattempts: %s", attempts_text(attempts, text, sizeof(text)));
	if (!policy->enabled)
		put(out, ": enabled is false (%s%s%s)", source_text(enabled, REA_POLICY_ENABLED, source, sizeof(source)),
		    enabled && enabled->note ? ": " : "", enabled && enabled->note ? enabled->note : "");
	else if (policy->mode == REA_MODE_OBSERVE)
		put(out, ": mode observe only tells what it would do (%u attempts)", rea_policy_attempts(policy));
	else if (attempts < rea_policy_attempts(policy))
		put(out, ": the policy has %u, but there %s, and when-all-tried is %s", rea_policy_attempts(policy),
		    subject->served->instances_len == 1 ? "is one instance" : "are fewer instances",
		    policy->when_all_tried == REA_ALL_TRIED_STOP ? "stop" : "cycle, which never asks one twice in a row");
	put(out, "\n");
}

/* The waits at most, in all. */
static uint64_t put_schedule(const struct out *out, const struct rea_policy *policy, uint32_t attempts)
{
	struct rea_backoff backoff;
	uint64_t total = 0;
	char exponential[40], low[40], high[40];

	rea_policy_backoff(policy, &backoff);
	put(out, "\n  before retry  exponential  with jitter\n");
	for (uint32_t retry = 1; retry < attempts; retry++) {
		uint64_t high_ns = rea_backoff_delay(&backoff, retry, UINT64_MAX);

		put(out, "  %-12u  %-11s  %s to %s\n", retry,
		    ms_text(rea_backoff_exponential(&backoff, retry), exponential, sizeof(exponential)),
		    ms_text(rea_backoff_delay(&backoff, retry, 0), low, sizeof(low)), ms_text(high_ns, high, sizeof(high)));
		total = rea_time_add(total, high_ns);
	}
	return total;
}

static void put_worst_case(const struct out *out, const struct rea_policy *policy, uint32_t attempts, uint64_t waits_ns)
{
	uint64_t sum_ns = rea_time_add(rea_time_mul(policy->attempt_timeout_ns, attempts), waits_ns);
	char timeout[40], waits[40], sum[40], deadline[40];

	ms_text(policy->attempt_timeout_ns, timeout, sizeof(timeout));
	ms_text(waits_ns, waits, sizeof(waits));
	ms_text(sum_ns, sum, sizeof(sum));
	ms_text(policy->deadline_ns, deadline, sizeof(deadline));
	if (sum_ns > policy->deadline_ns)
		put(out, "\nworst case: %s: the deadline cuts off %u x attempt-timeout %s + waits %s = %s\n", deadline,
		    attempts, timeout, waits, sum);
	else
		put(out, "\nworst case: %s: %u x attempt-timeout %s + waits %s, within the deadline of %s\n", sum,
		    attempts, timeout, waits, deadline);
}

/* Rounded to so many digits after the point. */
static const char *percent_text(double share, double unit, char *text, size_t size)
{
	struct rea_format format;

	double percent = (double)(uint64_t)(share * 100 * unit + 0.5) / unit;

	rea_format_init(&format, text, size);
	/* What rounds up to certainty is none. */
	if (share < 1 && percent == 100) {
		rea_format_text(&format, "> ");
		percent -= 1 / unit;
	}
	rea_format_double(&format, percent);
	rea_format_text(&format, " %");
	return text;
}

static void put_price(const struct out *out, uint32_t attempts)
{
	static const double rates[] = {0.01, 0.1, 0.5};
	char rate[16], success[32], load[32];

	put(out, "\n  failure rate  success without  with retries  added load\n");
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		double all_fail = 1, p = rates[i];
		char once[32];

		for (uint32_t attempt = 0; attempt < attempts; attempt++)
			all_fail *= p;
		put(out, "  %-12s  %-15s  %-12s  %s\n", percent_text(p, 1, rate, sizeof(rate)),
		    percent_text(1 - p, 1, once, sizeof(once)), percent_text(1 - all_fail, 10000, success, sizeof(success)),
		    percent_text((1 - all_fail) / (1 - p) - 1, 100, load, sizeof(load)));
	}
	put(out, "  (where failures are independent of one another, and budget and breaker let every retry through)\n");
}

static void put_consequences(const struct out *out, const struct subject *subject)
{
	uint32_t attempts = attempts_of(&subject->policy, subject->served);
	uint64_t waits_ns = 0;

	put_attempts(out, subject);
	if (attempts > 1)
		waits_ns = put_schedule(out, &subject->policy, attempts);
	put_worst_case(out, &subject->policy, attempts, waits_ns);
	if (attempts > 1)
		put_price(out, attempts);
}

/* ------------------------------------------------------------------ permission */

static const char *what_permission_means(enum rea_permission permission)
{
	switch (permission) {
	case REA_PERMISSION_SAFE:
	case REA_PERMISSION_IDEMPOTENT:
		return "may be repeated";
	case REA_PERMISSION_IDEMPOTENT_WITH_KEY:
		return "may be repeated when the call carries an Idempotency-Key";
	case REA_PERMISSION_FORBID:
		return "must not be repeated, whatever the policy says";
	case REA_PERMISSION_NONE:
	case REA_PERMISSION_UNKNOWN:
	case REA_PERMISSION_COUNT:
		break;
	}
	return "is not repeated";
}

static bool permits_nothing(enum rea_permission permission)
{
	return permission == REA_PERMISSION_NONE || permission == REA_PERMISSION_UNKNOWN;
}

static const char *permission_word(enum rea_permission permission)
{
	return rea_permission_name(permission == REA_PERMISSION_NONE ? REA_PERMISSION_UNKNOWN : permission);
}

static void put_permission(const struct out *out, const struct subject *subject)
{
	const struct rea_operation *operation = subject->operation;
	enum rea_permission permission = operation ? operation->grant.permission : REA_PERMISSION_NONE;

	put(out, "\npermission: %s: it %s", permission_word(permission), what_permission_means(permission));
	if (operation == NULL)
		put(out, "; no contract declares it\n");
	else
		put(out, "; from %s, line %u: %s %s%s\n", rea_permission_source_name(operation->grant.source),
		    operation->line, operation->http_method, operation->path,
		    operation->generate_key ? ", rea makes a key where the caller sent none" : "");
	if (permits_nothing(permission) && subject->policy.never_sent == REA_NEVER_SENT_ALLOW)
		put(out, "  but never-sent: allow repeats what provably never ran (never_sent, pushback)\n");
}

static bool forbids(const struct rea_operation *operation)
{
	return operation != NULL && operation->grant.permission == REA_PERMISSION_FORBID;
}

/* Whatever the policy would do, this call is made once. */
static void put_forbidden(const struct out *out, const struct subject *subject)
{
	put(out, "\nattempts: 1 attempt, no retries: the callee forbids them\n");
	put_worst_case(out, &subject->policy, 1, 0);
}

/* ------------------------------------------------------------------ gRPC */

static const struct rea__wishes *grpc_config_of(const struct subject *subject)
{
	return subject->served ? subject->config->grpc_services[subject->served->index].config : NULL;
}

static const struct rea__wishes *kitex_of(const struct subject *subject)
{
	const struct rea_config *config = subject->config;

	return subject->served != NULL && config->kitex != NULL && config->kitex[subject->served->index].entries_len > 0
		   ? &config->kitex[subject->served->index]
		   : NULL;
}

/* An operation whose path, "/package.Service/Method", is its key. */
static bool is_grpc(const struct rea_operation *operation)
{
	const char *slash = operation ? strchr(operation->path + 1, '/') : NULL;
	size_t at = slash ? (size_t)(slash - operation->path) - 1 : 0;

	return slash != NULL && strlen(operation->key) == strlen(operation->path + 1) && operation->key[at] == '_' &&
	       memcmp(operation->key, operation->path + 1, at) == 0 && strcmp(operation->key + at + 1, slash + 1) == 0;
}

static const struct rea__service_config *own_of(const struct subject *subject, bool grpc)
{
	const struct rea__retry *retry = grpc ? &subject->config->grpc : &subject->config->feign;

	return subject->service ? rea__retry_service(retry, rea_slice_of(subject->service)) : NULL;
}

/* Does anything say how gRPC calls of this service, or of any, are retried? */
static bool has_grpc(const struct subject *subject)
{
	return subject->config->grpc.line > 0 || grpc_config_of(subject) != NULL;
}

/* ------------------------------------------------------------------ levels */

static void find_policy(struct subject *subject)
{
	const struct rea__wishes *grpc = subject->grpc ? grpc_config_of(subject) : NULL, *kitex = kitex_of(subject);

	subject->stack = (struct rea__stack){.global_index = SIZE_MAX};
	if (grpc != NULL)
		rea__stack_push_wish(&subject->stack, grpc,
		    subject->method ? rea__grpc_config_find_key(grpc, rea_slice_of(subject->method)) : 0);
	else if (kitex != NULL)
		rea__stack_push_wish(&subject->stack, kitex,
		    subject->method ? rea__kitex_find_key(kitex, rea_slice_of(subject->method)) : 0);
	rea__stack_push(&subject->stack, REA__PLACE_GLOBAL,
	    subject->grpc ? &subject->config->grpc.global : &subject->config->feign.global);
	if (subject->own != NULL)
		rea__stack_push(&subject->stack, REA__PLACE_SERVICE, &subject->own->level);
	if (subject->own_method != NULL)
		rea__stack_push(&subject->stack, REA__PLACE_METHOD, &subject->own_method->level);
	rea__stack_merge(&subject->stack, &subject->policy);
}

/* The same subject as its gRPC calls see it. */
static struct subject as_grpc(const struct subject *subject)
{
	struct subject other = *subject;

	other.grpc = true;
	other.own = own_of(subject, true);
	find_policy(&other);
	return other;
}

static void put_method_line(
    const struct out *out, const struct subject *subject, const char *key, const struct rea_operation *operation)
{
	struct rea_policy policy;
	char text[96];

	if (is_grpc(operation))
		policy =
		    *rea_config_grpc_policy(subject->config, subject->served, operation->path, strlen(operation->path));
	else
		rea_config_policy(subject->config, subject->service, key, &policy);
	if (forbids(operation))
		policy.enabled = false;
	put(out, "  %-32s  %-24s  %s%s%s\n", key, attempts_text(attempts_of(&policy, subject->served), text, sizeof(text)),
	    operation ? permission_word(operation->grant.permission) : "not declared", operation ? ", " : "",
	    operation ? operation->http_method : "");
}

static void put_methods(const struct out *out, const struct subject *subject)
{
	const struct rea_contract *contract = subject->served ? subject->served->contract : NULL;
	size_t declared = contract ? rea_contract_count(contract) : 0,
	       configured = subject->own ? subject->own->methods_len : 0;

	put(out, "\nmethods\n");
	for (size_t i = 0; i < declared; i++)
		put_method_line(out, subject, rea_contract_operation(contract, i)->key, rea_contract_operation(contract, i));
	for (size_t i = 0; i < configured; i++) {
		const char *key = subject->own->methods[i].key;

		if (contract == NULL)
			put_method_line(out, subject, key, NULL);
	}
	put(out, "  any other method                  %s\n",
	    contract && subject->policy.never_sent == REA_NEVER_SENT_STRICT ? "1 attempt, no retries     not declared"
									    : "as above");
}

static void explain_method(const struct out *out, const struct subject *subject)
{
	put(out, "%s of %s\n\n", subject->method, subject->service);
	put_policy(out, subject);
	put_permission(out, subject);
	if (forbids(subject->operation))
		put_forbidden(out, subject);
	else
		put_consequences(out, subject);
}

/* What is not checked is said as loudly as a page of numbers can. */
static void put_tls(const struct out *out, const struct rea_config_tls *tls)
{
	put(out, "tls, line %u: %s or later; ", tls->line, tls->min_version == REA_TLS_1_3 ? "1.3" : "1.2");
	if (!tls->verify)
		put(out, "NOT VERIFIED: whoever answers at an instance's address is believed");
	else
		put(out, "certificates for %s, vouched for by %s",
		    tls->server_name ? tls->server_name : "the host of each address",
		    tls->ca_file ? tls->ca_file : "the system's authorities");
	put(out, "%s%s\n\n", tls->certificate_file ? "; ours is " : "", tls->certificate_file ? tls->certificate_file : "");
}

static void explain_service(const struct out *out, const struct subject *subject)
{
	put(out, "%s, for methods without settings of their own\n\n", subject->service);
	if (subject->served != NULL && subject->served->tls != NULL)
		put_tls(out, subject->served->tls);
	put_policy(out, subject);
	put_consequences(out, subject);
	put_methods(out, subject);
	if (has_grpc(subject)) {
		const struct subject grpc = as_grpc(subject);

		put(out, "\ngRPC calls of %s, for methods without settings of their own\n\n", subject->service);
		put_policy(out, &grpc);
		put_consequences(out, &grpc);
	}
}

/* ------------------------------------------------------------------ overview */

static void put_settings(const struct out *out, const struct rea_config *config)
{
	static const struct {
		const struct rea__block *block;
		const char *prefix;
	} blocks[] = {{&rea__root_block, ""}, {&rea__http_block, "http."}, {&rea__events_block, "events."},
	    {&rea__limits_block, "limits."}, {&rea__timeouts_block, "timeouts."}, {&rea__tasks_block, "tasks."}};
	char name[64], value[VALUE_SIZE], line[32];

	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		const struct rea__block *block = blocks[i].block;

		for (size_t j = 0; j < block->fields_len; j++) {
			const struct rea__field *field = &block->fields[j];
			uint32_t at = config->lines[block->lines_at + j];

			if (field->type->format == NULL)
				continue;
			snprintf(name, sizeof(name), "%s%s", blocks[i].prefix, field->name);
			snprintf(line, sizeof(line), "line %u", at);
			put(out, "  %-28s  %-16s  %s\n", name,
			    value_text(field, (const char *)&config->settings + field->offset, value),
			    at ? line : "default");
		}
	}
}

/* What tasks may do beside what their own policy says, and where they may go. */
static void put_tasks(const struct out *out, const struct rea_config *config)
{
	const struct rea_policy_layer *layer = &config->settings.tasks.policy;
	struct rea_policy_layer defaults = {.set = (UINT32_C(1) << REA_POLICY_KEY_COUNT) - 1};
	const struct rea_policy_layer *const layers[] = {&defaults, layer};
	struct rea_policy policy;
	char value[VALUE_SIZE], line[32];

	rea_policy_task_defaults(&defaults.values);
	rea_policy_merge(layers, 2, SIZE_MAX, &policy);
	put(out, "\ntasks.policy, for every task without keys of its own\n\n");
	for (size_t i = 0; i < REA__TASK_POLICY_FIELDS; i++) {
		const struct rea__field *field = &rea__task_policy_block.fields[i];
		enum rea_policy_key key = rea__task_policy_keys[i];
		bool set = (layer->set & (UINT32_C(1) << key)) != 0;

		snprintf(line, sizeof(line), "line %u", set ? rea__lines_of(config->task_policy_lines, layer->set, key) : 0);
		put(out, "  %-24s  %-12s  %s\n", field->name,
		    value_text(field, (const char *)&policy + field->offset, value), set ? line : "default");
	}
	for (size_t i = 0; i < config->settings.tasks.urls_len; i++) {
		const struct rea_config_url *url = &config->settings.tasks.urls[i];

		put(out, "  url %s  permission %s", url->pattern, permission_word(url->permission));
		for (size_t j = 0; j < url->allow_private_len; j++)
			put(out, "%s%s", j > 0 ? " " : ", ", url->allow_private[j].text);
		put(out, "%s%s, line %u\n", url->allow_private_len > 0 ? " allowed" : "",
		    url->secrets_len > 0 ? ", signed" : "", url->line);
	}
	if (config->settings.tasks.retries_off)
		put(out, "  rpc.feign.retry.enabled is false: tasks too are tried once\n");
}

static void put_service_line(const struct out *out, const struct subject *overview, const char *name, size_t instances)
{
	struct rea_policy policy;
	char text[96];

	rea_config_policy(overview->config, name, NULL, &policy);
	put(out, "  %-24s  %zu %s, %s\n", name, instances, instances == 1 ? "instance" : "instances",
	    attempts_text(attempts_of(&policy, rea_config_find_service(overview->config, name, strlen(name))), text,
		sizeof(text)));
}

static void put_services(const struct out *out, const struct subject *overview)
{
	const struct rea_config *config = overview->config;

	put(out, "\nservices\n");
	for (size_t i = 0; i < config->services_len; i++)
		put_service_line(out, overview, config->services[i].name, config->services[i].instances_len);
	for (size_t i = 0; i < config->feign.services_len; i++) {
		const char *name = config->feign.services[i].name;

		if (rea_config_find_service(config, name, strlen(name)) == NULL)
			put_service_line(out, overview, name, 0);
	}
	put(out, "\nprofiles:");
	for (size_t i = 0; i < config->profiles_len; i++)
		put(out, "%s %s", i > 0 ? "," : "", config->profiles[i].name);
	put(out, "\n");
}

static void explain_overview(const struct out *out, const struct subject *subject)
{
	put(out, "%s, version %s\n", subject->config->name, subject->config->version);
	if (subject->config->policy_name != NULL)
		put(out, "rpc stands in %s\n", subject->config->policy_name);
	for (size_t i = 0; subject->config->kitex != NULL && i < subject->config->services_len; i++)
		if (subject->config->kitex[i].entries_len > 0)
			put(out, "below rpc, for calls of %s: %s\n", subject->config->services[i].name,
			    subject->config->kitex[i].file);
	put(out, "\n");
	put_settings(out, subject->config);
	put(out, "\nrpc.feign.retry, for every service without settings of its own\n\n");
	put_policy(out, subject);
	put_consequences(out, subject);
	if (has_grpc(subject)) {
		const struct subject grpc = as_grpc(subject);

		put(out, "\nrpc.grpc.retry, for every gRPC call without settings of its own\n\n");
		put_policy(out, &grpc);
		put_consequences(out, &grpc);
	}
	if (subject->config->settings.tasks.file != NULL)
		put_tasks(out, subject->config);
	put_services(out, subject);
}

/* ------------------------------------------------------------------ finding */

static int refuse_name(struct rea_error_info *info, const struct rea_config *config, const char *kind, const char *name,
    const struct rea__suggest *suggest)
{
	char hint[REA__SUGGEST_SIZE], quote[REA__QUOTE_SIZE];

	if (info != NULL) {
		memset(info, 0, sizeof(*info));
		snprintf(info->file, sizeof(info->file), "%s", config->name);
		snprintf(info->message, sizeof(info->message), "there is no %s %s%s", kind,
		    rea__quote(rea_slice_of(name), quote), rea__suggest_text(suggest, hint));
	}
	return REA_ERR_NOT_FOUND;
}

static int find_service(struct subject *subject, const char *name, struct rea_error_info *info)
{
	const struct rea_config *config = subject->config;
	struct rea__suggest suggest;

	subject->service = name;
	subject->served = rea_config_find_service(config, name, strlen(name));
	subject->own = own_of(subject, false);
	/* A document without `services`, such as one from a registry, does not know what services there are. */
	if (subject->served != NULL || subject->own != NULL || own_of(subject, true) != NULL || config->services_len == 0)
		return 0;
	rea__suggest_init(&suggest, rea_slice_of(name));
	for (size_t i = 0; i < config->services_len; i++)
		rea__suggest_offer(&suggest, config->services[i].name);
	for (size_t i = 0; i < config->feign.services_len; i++)
		rea__suggest_offer(&suggest, config->feign.services[i].name);
	return refuse_name(info, config, "service", name, &suggest);
}

static int find_method(struct subject *subject, const char *key, struct rea_error_info *info)
{
	const struct rea_contract *contract = subject->served ? subject->served->contract : NULL;
	const struct rea__service_config *grpc = own_of(subject, true);
	const struct rea__method_config *grpc_method = grpc ? rea__service_method(grpc, rea_slice_of(key)) : NULL;
	struct rea__suggest suggest;

	subject->method = key;
	subject->operation = contract ? rea_contract_find_key(contract, key, strlen(key)) : NULL;
	subject->own_method = subject->own ? rea__service_method(subject->own, rea_slice_of(key)) : NULL;
	/* A gRPC method need not be declared for its settings to hold: the path of a call names it. */
	subject->grpc = is_grpc(subject->operation) ||
			(subject->operation == NULL && subject->own_method == NULL && grpc_method != NULL) ||
			(subject->operation == NULL && grpc_config_of(subject) != NULL &&
			    rea__grpc_config_find_key(grpc_config_of(subject), rea_slice_of(key)) > 0);
	if (subject->grpc) {
		subject->own = grpc;
		subject->own_method = grpc_method;
		return 0;
	}
	if (contract == NULL || subject->operation != NULL)
		return 0;
	rea__suggest_init(&suggest, rea_slice_of(key));
	for (size_t i = 0; i < rea_contract_count(contract); i++)
		rea__suggest_offer(&suggest, rea_contract_operation(contract, i)->key);
	return refuse_name(info, subject->config, "method", key, &suggest);
}

int rea_config_explain(const struct rea_config *config, const char *service, const char *method_key,
    void (*write)(const char *text, size_t length, void *user_data), void *user_data, struct rea_error_info *ret_info)
{
	const struct out out = {write, user_data};
	struct subject subject = {.config = config};
	int error = service ? find_service(&subject, service, ret_info) : 0;

	if (error == 0 && service != NULL && method_key != NULL)
		error = find_method(&subject, method_key, ret_info);
	if (error != 0)
		return error;
	find_policy(&subject);
	if (subject.method != NULL)
		explain_method(&out, &subject);
	else if (service != NULL)
		explain_service(&out, &subject);
	else
		explain_overview(&out, &subject);
	return 0;
}
