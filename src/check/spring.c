/* From Spring properties to layers. */
#include "check/spring.h"

#include <stdio.h>

#define MS REA_NS_PER_MS
#define FEIGN_CONNECT_NS (10 * REA_NS_PER_S)
#define FEIGN_READ_NS (60 * REA_NS_PER_S)

/* ------------------------------------------------------------------ reading values */

static struct spring_value value_of(struct spring *spring, const struct check_setting *setting)
{
	struct spring_value value = {setting, NULL};

	if (setting == NULL)
		return value;
	value.text = check_view_resolve(spring->check, &spring->view, setting->value);
	if (value.text == NULL) {
		spring->unknown = true;
		check_find(spring->check, "RC26", CHECK_INFO, setting->value_place, "",
		    check_text(spring->check, "%s is %s, which stands in none of these files", setting->written,
			check_shown(spring->check, rea_slice_of(setting->value))),
		    "give the file that sets it as well, or read the result with this in mind: counts that depend on "
		    "it are the least");
	}
	return value;
}

struct spring_value spring_get(struct spring *spring, const char *pattern, const char *name)
{
	return value_of(spring, check_view_get(&spring->view, pattern, name));
}

static const struct check_setting *client_setting(struct spring *spring, const char *name, const char *key)
{
	char pattern[CHECK_KEY_MAX];
	const struct check_setting *found = NULL;
	uint32_t cloud = spring->check->facts.cloud;

	if (cloud == CHECK_CLOUD_UNKNOWN || cloud >= CHECK_CLOUD_2022) {
		snprintf(pattern, sizeof(pattern), SPRING_CLIENT "*.%s", key);
		found = check_view_get(&spring->view, pattern, name);
	}
	if (found == NULL && cloud < CHECK_CLOUD_2022) {
		snprintf(pattern, sizeof(pattern), SPRING_CLIENT_OLD "*.%s", key);
		found = check_view_get(&spring->view, pattern, name);
	}
	return found;
}

struct spring_value spring_client(struct spring *spring, const char *name, const char *key)
{
	const struct check_setting *setting = name ? client_setting(spring, name, key) : NULL;

	return value_of(spring, setting ? setting : client_setting(spring, spring->default_config, key));
}

struct spring_value spring_retry(struct spring *spring, const char *name, const char *key)
{
	char pattern[CHECK_KEY_MAX];
	const struct check_setting *setting = NULL;

	if (name != NULL) {
		snprintf(pattern, sizeof(pattern), SPRING_CLIENT_RETRY ".%s", key);
		setting = check_view_get(&spring->view, pattern, name);
	}
	if (setting == NULL) {
		snprintf(pattern, sizeof(pattern), SPRING_RETRY ".%s", key);
		setting = check_view_get(&spring->view, pattern, NULL);
	}
	return value_of(spring, setting);
}

static void refuse_value(struct spring *spring, struct spring_value value, const char *expected, const char *instead)
{
	check_find(spring->check, "RC19", CHECK_ERROR, value.setting->value_place, "",
	    check_text(spring->check, "%s: expected %s, got \"%s\"", value.setting->written, expected,
		check_shown(spring->check, rea_slice_of(value.text))),
	    instead);
	spring->unknown = true;
}

bool spring_bool(struct spring *spring, struct spring_value value, bool fallback)
{
	static const char *const yes[] = {"true", "on", "yes", "1"}, *const no[] = {"false", "off", "no", "0"};

	if (value.text == NULL)
		return fallback;
	for (size_t i = 0; i < 4; i++) {
		if (check_is(check_trim(rea_slice_of(value.text)), yes[i]))
			return true;
		if (check_is(check_trim(rea_slice_of(value.text)), no[i]))
			return false;
	}
	refuse_value(spring, value, "true or false", "write true or false; Spring does not start with this");
	return fallback;
}

uint64_t spring_number(struct spring *spring, struct spring_value value, uint64_t fallback)
{
	uint64_t number;

	if (value.text == NULL)
		return fallback;
	if (rea_slice_to_u64(check_trim(rea_slice_of(value.text)), &number) && number <= INT32_MAX)
		return number;
	refuse_value(spring, value, "a whole number", "write a number; Spring does not start with this");
	return fallback;
}

uint64_t spring_time(struct spring *spring, struct spring_value value, uint64_t bare_ns, uint64_t fallback)
{
	uint64_t ns;

	if (value.text == NULL)
		return fallback;
	if (check_duration(rea_slice_of(value.text), bare_ns, &ns))
		return ns;
	refuse_value(spring, value, "a duration", "write a number of milliseconds, or a duration such as 5s or PT5S");
	return fallback;
}

static double decimal(struct spring *spring, struct spring_value value, double fallback)
{
	double number;

	if (value.text == NULL)
		return fallback;
	if (check_decimal(check_trim(rea_slice_of(value.text)), &number))
		return number;
	refuse_value(spring, value, "a number", "write a number; Spring does not start with this");
	return fallback;
}

struct check_place spring_place(struct spring_value value)
{
	return value.setting->place;
}

/* ------------------------------------------------------------------ names */

bool spring_same_name(const char *a, const char *b)
{
	return check_same_name(rea_slice_of(a), rea_slice_of(b));
}

void spring_names_add(struct spring *spring, struct spring_names *names, const char *pattern)
{
	size_t before = names->count, count, kept = before;

	count = check_view_names(spring->check, &spring->view, pattern, names->names + before, SPRING_NAMES_MAX - before);
	for (size_t i = before; i < before + count; i++) {
		size_t same = 0;

		while (same < before && !spring_same_name(names->names[same], names->names[i]))
			same++;
		if (same == before)
			names->names[kept++] = names->names[i];
	}
	names->count = kept;
}

void spring_clients(struct spring *spring, struct spring_names *ret_names)
{
	size_t kept = 0;

	ret_names->count = 0;
	spring_names_add(spring, ret_names, SPRING_CLIENT "*");
	spring_names_add(spring, ret_names, SPRING_CLIENT_OLD "*");
	spring_names_add(spring, ret_names, "spring.cloud.loadbalancer.clients.*");
	for (size_t i = 0; i < ret_names->count; i++)
		if (!spring_same_name(ret_names->names[i], spring->default_config))
			ret_names->names[kept++] = ret_names->names[i];
	ret_names->count = kept;
}

size_t spring_instances(struct spring *spring, const char *name)
{
	const struct check_options *options = &spring->check->options;
	char pattern[CHECK_KEY_MAX];
	size_t count = 0;

	for (size_t i = 0; i < options->instances_len; i++)
		if (spring_same_name(options->instances[i].service, name))
			return options->instances[i].count;
	do
		snprintf(pattern, sizeof(pattern), "spring.cloud.discovery.client.simple.instances.*[%zu]", count);
	while (check_view_below(&spring->view, pattern, name) != NULL && ++count < SPRING_NAMES_MAX);
	return count;
}

/* ------------------------------------------------------------------ resilience4j */

static struct spring_value r4j_get(
    struct spring *spring, const char *module, const char *kind, const char *name, const char *key)
{
	char pattern[CHECK_KEY_MAX];

	snprintf(pattern, sizeof(pattern), "resilience4j.%s.%s.*.%s", module, kind, key);
	return spring_get(spring, pattern, name);
}

struct spring_value spring_r4j(struct spring *spring, const char *module, const char *instance, const char *key)
{
	struct spring_value value = {NULL, NULL}, base = {NULL, NULL};

	if (instance != NULL) {
		value = r4j_get(spring, module, "instances", instance, key);
		if (value.setting == NULL)
			value = r4j_get(spring, module, "backends", instance, key);
		base = r4j_get(spring, module, "instances", instance, "baseconfig");
		if (value.setting == NULL && base.text != NULL)
			value = r4j_get(spring, module, "configs", base.text, key);
	}
	return value.setting != NULL ? value : r4j_get(spring, module, "configs", "default", key);
}

uint32_t spring_failures_of(const char *exception, bool *ret_known)
{
	static const struct {
		const char *name;
		uint32_t failures;
	} classes[] = {
	    {"Throwable", CHECK_ALL_FAILURES},
	    {"Exception", CHECK_ALL_FAILURES},
	    {"RuntimeException", CHECK_ALL_FAILURES},
	    {"FeignException", CHECK_ALL_FAILURES},
	    {"RestClientException", CHECK_ALL_FAILURES},
	    {"IOException", CHECK_ON_IO},
	    {"RetryableException", CHECK_ON_IO | CHECK_BIT(CHECK_ON_503_AFTER)},
	    {"ResourceAccessException", CHECK_ON_IO},
	    {"WebClientRequestException", CHECK_ON_IO},
	    {"ConnectException", CHECK_BIT(CHECK_ON_CONNECT)},
	    {"UnknownHostException", CHECK_BIT(CHECK_ON_CONNECT)},
	    {"ConnectTimeoutException", CHECK_BIT(CHECK_ON_CONNECT)},
	    {"SocketException", CHECK_BIT(CHECK_ON_CONNECT) | CHECK_BIT(CHECK_ON_CLOSED)},
	    {"SocketTimeoutException", CHECK_BIT(CHECK_ON_TIMEOUT) | CHECK_BIT(CHECK_ON_CONNECT)},
	    {"ReadTimeoutException", CHECK_BIT(CHECK_ON_TIMEOUT)},
	    {"TimeoutException", CHECK_BIT(CHECK_ON_TIMEOUT)},
	    {"HttpServerErrorException", CHECK_ON_5XX},
	    {"FeignServerException", CHECK_ON_5XX & ~CHECK_BIT(CHECK_ON_503_AFTER)}, /* which is a RetryableException */
	    {"InternalServerError", CHECK_BIT(CHECK_ON_500)},
	    {"BadGateway", CHECK_BIT(CHECK_ON_502)},
	    {"ServiceUnavailable", CHECK_BIT(CHECK_ON_503) | CHECK_BIT(CHECK_ON_503_AFTER)},
	    {"GatewayTimeout", CHECK_BIT(CHECK_ON_504)},
	    {"TooManyRequests", CHECK_BIT(CHECK_ON_429)},
	    {"CallNotPermittedException", 0},
	    {"BulkheadFullException", 0},
	    {"RequestNotPermitted", 0},
	};
	const char *name = exception + strlen(exception);

	while (name > exception && name[-1] != '.' && name[-1] != '$')
		name--;
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (strcmp(name, classes[i].name) == 0) {
			*ret_known = true;
			return classes[i].failures;
		}
	*ret_known = false;
	return 0;
}

/* What a list of exception classes names; `fallback` when it is not set. */
static uint32_t listed_failures(struct spring *spring, const char *pattern, const char *name, uint32_t fallback)
{
	struct check_setting items[CHECK_LIST_MAX];
	size_t count = check_view_list(spring->check, &spring->view, pattern, name, items);
	uint32_t failures = 0;

	if (count == 0)
		return fallback;
	for (size_t i = 0; i < count; i++) {
		bool known;

		failures |= spring_failures_of(items[i].value, &known);
		spring->unknown = spring->unknown || !known;
	}
	return failures;
}

/* A list of an instance, of its base-config, or of the default one. */
static uint32_t r4j_failures(struct spring *spring, const char *instance, const char *key, uint32_t fallback)
{
	struct spring_value base = r4j_get(spring, "retry", "instances", instance, "baseconfig");
	char pattern[CHECK_KEY_MAX];
	uint32_t failures;

	snprintf(pattern, sizeof(pattern), "resilience4j.retry.configs.*.%s", key);
	failures = listed_failures(spring, pattern, "default", fallback);
	if (base.text != NULL)
		failures = listed_failures(spring, pattern, base.text, failures);
	snprintf(pattern, sizeof(pattern), "resilience4j.retry.instances.*.%s", key);
	return listed_failures(spring, pattern, instance, failures);
}

static void add_r4j_retry(struct spring *spring, struct check_target *target, const char *instance)
{
	struct spring_value count = spring_r4j(spring, "retry", instance, "maxattempts"), factor;
	const struct check_setting *first = check_view_below(&spring->view, "resilience4j.retry.instances.*", instance);
	struct check_layer *layer = check_layer_new(spring->check, target, "Resilience4j Retry",
	    count.setting ? spring_place(count)
	    : first       ? first->place
			  : target->place);
	uint32_t requests = (uint32_t)spring_number(spring, count, 3), failures;
	uint64_t wait = spring_time(spring, spring_r4j(spring, "retry", instance, "waitduration"), MS, 500 * MS), cap;
	double multiplier = 1;

	if (layer == NULL)
		return;
	spring->unknown = false;
	failures = r4j_failures(spring, instance, "retryexceptions", CHECK_ALL_FAILURES);
	failures &= ~r4j_failures(spring, instance, "ignoreexceptions", 0);
	factor = spring_r4j(spring, "retry", instance, "exponentialbackoffmultiplier");
	if (spring_bool(spring, spring_r4j(spring, "retry", instance, "enableexponentialbackoff"), false))
		multiplier = decimal(spring, factor, 1.5);
	if (spring_bool(spring, spring_r4j(spring, "retry", instance, "enablerandomizedwait"), false))
		wait += (uint64_t)((double)wait *
				   decimal(spring, spring_r4j(spring, "retry", instance, "randomizedwaitfactor"), 0.5));
	cap = spring_time(spring, spring_r4j(spring, "retry", instance, "exponentialmaxwaitduration"), MS, REA_NEVER);
	layer->number = requests;
	layer->key = "max-attempts";
	layer->written = count.setting != NULL;
	layer->unknown = spring->unknown;
	check_layer_repeats(layer, failures, CHECK_ALL_METHODS, requests > 0 ? requests : 1, true);
	check_layer_waits(layer, CHECK_ALL_FAILURES, check_waits(requests, wait, multiplier, cap));
}

/* @Retryable in code, which spring-retry or Spring itself heeds: any exception, a wait that stays the same. */
static void add_retryable(struct spring *spring, struct check_target *target)
{
	const struct check_retryable *numbers = &spring->check->options.retryable;
	struct check_layer *layer;

	if (numbers->requests == 0)
		return;
	layer = check_layer_new(spring->check, target, "@Retryable", target->place);
	if (layer == NULL)
		return;
	layer->number = numbers->requests;
	layer->key = "maxAttempts";
	check_layer_repeats(layer, CHECK_ALL_FAILURES, CHECK_ALL_METHODS, numbers->requests, true);
	check_layer_waits(layer, CHECK_ALL_FAILURES, check_waits(numbers->requests, numbers->delay_ns, 1, REA_NEVER));
}

/* ------------------------------------------------------------------ Feign */

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bool spring_is_default_retryer(const char *class)
{
	return strncmp(class, "feign.", 6) == 0 &&
	       (ends_with(class, "Retryer$Default") || ends_with(class, "Retryer.Default") ||
		   ends_with(class, ".DefaultRetryer"));
}

/* min(trunc(period · 1.5^k), max) before retry k, as feign.Retryer.Default waits. */
static uint64_t retryer_waits(const struct check_retryer *retryer)
{
	uint64_t sum = 0;
	double ms = (double)retryer->period_ns / MS;

	for (uint32_t k = 1; k < retryer->requests; k++) {
		ms *= 1.5;
		if (ms >= (double)retryer->max_ns / MS)
			return rea_time_add(sum, rea_time_mul(retryer->max_ns, retryer->requests - k));
		sum += (uint64_t)ms * MS;
	}
	return sum;
}

static void add_retryer(struct spring *spring, struct check_target *target, const char *client)
{
	struct spring_value class = spring_client(spring, client, "retryer");
	struct check_retryer numbers = {true, 100 * MS, 1000 * MS, 5};
	struct check_layer *layer;

	if (class.text == NULL && !spring->check->options.retryer.given)
		return;
	layer = check_layer_new(spring->check, target, "Feign Retryer", class.setting ? spring_place(class) : target->place);
	if (layer == NULL)
		return;
	if (class.text == NULL)
		numbers = spring->check->options.retryer;
	else if (!spring_is_default_retryer(class.text)) {
		layer->unknown = true;
		return;
	}
	layer->number = numbers.requests;
	layer->key = "maxAttempts";
	check_layer_repeats(layer, CHECK_ON_IO | CHECK_BIT(CHECK_ON_503_AFTER), CHECK_ALL_METHODS, numbers.requests, true);
	check_layer_waits(layer, CHECK_ON_IO, retryer_waits(&numbers));
	/* It waits as the server asks, but never longer than its own maximum. */
	check_layer_waits(layer, CHECK_BIT(CHECK_ON_503_AFTER), rea_time_mul(numbers.max_ns, numbers.requests - 1));
}

static void add_time_limiter(struct spring *spring, struct check_target *target, const char *client)
{
	struct spring_value enabled = spring_get(spring, SPRING_FEIGN ".circuitbreaker.enabled", NULL), limit;
	struct check_layer *layer;
	bool group;

	if (enabled.setting == NULL)
		enabled = spring_get(spring, "feign.circuitbreaker.enabled", NULL);
	if (!spring_bool(spring, enabled, false) ||
	    spring_bool(spring, spring_get(spring, "spring.cloud.circuitbreaker.resilience4j.disabletimelimiter", NULL), false))
		return;
	group = spring_bool(spring, spring_get(spring, SPRING_FEIGN ".circuitbreaker.group.enabled", NULL), false);
	limit = spring_r4j(spring, "timelimiter", group ? client : NULL, "timeoutduration");
	layer = check_layer_new(spring->check, target, "TimeLimiter", spring_place(limit.setting ? limit : enabled));
	if (layer == NULL)
		return;
	layer->total_ns = spring_time(spring, limit, MS, REA_NS_PER_S);
	layer->total_place = layer->place;
	layer->written = limit.setting != NULL;
}

/* ------------------------------------------------------------------ LoadBalancer, Ribbon */

bool spring_retry_enabled(struct spring *spring, const char *name)
{
	const struct check_facts *facts = &spring->check->facts;
	struct spring_value own = {NULL, NULL};
	bool heeds_own = facts->cloud == CHECK_CLOUD_UNKNOWN || facts->cloud > CHECK_CLOUD_2021 ||
			 (facts->cloud == CHECK_CLOUD_2021 && facts->cloud_service >= 5);

	/* WebClient retries only where it is written; Feign unless it is forbidden. */
	if (!spring_bool(spring, spring_retry(spring, NULL, "enabled"), !spring->reactive))
		return false;
	if (name != NULL)
		own = spring_get(spring, SPRING_CLIENT_RETRY ".enabled", name);
	return !heeds_own || spring_bool(spring, own, true);
}

static uint32_t status_failures(struct spring *spring, const char *name)
{
	struct check_setting items[CHECK_LIST_MAX];
	size_t count =
	    name ? check_view_list(spring->check, &spring->view, SPRING_CLIENT_RETRY ".retryablestatuscodes", name, items)
		 : 0;
	uint32_t failures = 0;
	uint64_t status;

	if (count == 0)
		count = check_view_list(spring->check, &spring->view, SPRING_RETRY ".retryablestatuscodes", NULL, items);
	for (size_t i = 0; i < count; i++)
		if (rea_slice_to_u64(rea_slice_of(items[i].value), &status))
			failures |= check_failures_of_status(status);
	return failures;
}

static void add_load_balancer(struct spring *spring, struct check_target *target, const char *name)
{
	enum check_known there = spring->reactive ? CHECK_YES : spring->check->facts.spring_retry;
	struct spring_value next = spring_retry(spring, name, "maxretriesonnextserviceinstance");
	struct spring_value same = spring_retry(spring, name, "maxretriesonsameserviceinstance");
	uint64_t requests;
	uint32_t on_exception, on_status, methods = CHECK_BIT(CHECK_GET);
	struct check_layer *layer;

	if (there == CHECK_NO || !spring_retry_enabled(spring, name))
		return;
	layer = check_layer_new(spring->check, target, "LoadBalancer retry",
	    next.setting   ? spring_place(next)
	    : same.setting ? spring_place(same)
			   : target->place);
	if (layer == NULL)
		return;
	spring->unknown = false;
	requests = rea_time_mul(1 + spring_number(spring, same, 0), 1 + spring_number(spring, next, 1));
	requests = requests < UINT32_MAX ? requests : UINT32_MAX;
	on_exception = CHECK_ON_IO;
	if (!spring_bool(spring, spring_retry(spring, name, "retryonallexceptions"), false)) {
		on_exception = listed_failures(spring, SPRING_RETRY ".retryableexceptions", NULL, on_exception) & CHECK_ON_IO;
		if (name != NULL)
			on_exception =
			    listed_failures(spring, SPRING_CLIENT_RETRY ".retryableexceptions", name, on_exception) &
			    CHECK_ON_IO;
	}
	on_status = status_failures(spring, name);
	if (spring_bool(spring, spring_retry(spring, name, "retryonalloperations"), false))
		methods = CHECK_ALL_METHODS;
	layer->number = (uint32_t)spring_number(spring, next, 1);
	layer->key = "max-retries-on-next-service-instance";
	layer->counts_retries = true;
	layer->written = next.setting != NULL;
	layer->unknown = spring->unknown;
	layer->when = there == CHECK_UNKNOWN ? "with spring-retry on the class path" : NULL;
	/* WebClient does not look at the method when there was no reply. */
	check_layer_repeats(layer, on_exception, spring->reactive ? CHECK_ALL_METHODS : methods, (uint32_t)requests,
	    there == CHECK_YES);
	check_layer_repeats(layer, on_status, methods, (uint32_t)requests, there == CHECK_YES);
	if (spring->reactive && spring_bool(spring, spring_retry(spring, name, "backoff.enabled"), false))
		check_layer_waits(layer, CHECK_ALL_FAILURES,
		    check_waits((uint32_t)requests,
			spring_time(spring, spring_retry(spring, name, "backoff.minbackoff"), MS, 5 * MS), 2,
			spring_time(spring, spring_retry(spring, name, "backoff.maxbackoff"), MS, REA_NEVER)));
}

/* True: Ribbon chooses the instances of this client, and not LoadBalancer. */
static bool add_ribbon(struct spring *spring, struct check_target *target, const char *name)
{
	const struct check_setting *same, *next, *all;
	struct check_layer *layer;
	uint64_t requests;

	if (name == NULL || spring->check->facts.cloud == CHECK_CLOUD_UNKNOWN ||
	    spring->check->facts.cloud >= CHECK_CLOUD_2020 || check_view_below(&spring->view, "*.ribbon", name) == NULL)
		return false;
	same = check_view_get(&spring->view, "*.ribbon.maxautoretries", name);
	next = check_view_get(&spring->view, "*.ribbon.maxautoretriesnextserver", name);
	all = check_view_get(&spring->view, "*.ribbon.oktoretryonalloperations", name);
	layer = check_layer_new(spring->check, target, "Ribbon",
	    next   ? next->place
	    : same ? same->place
		   : target->place);
	if (layer == NULL)
		return true;
	requests = rea_time_mul(
	    1 + spring_number(spring, value_of(spring, same), 0), 1 + spring_number(spring, value_of(spring, next), 1));
	requests = requests < UINT32_MAX ? requests : UINT32_MAX;
	layer->number = (uint32_t)spring_number(spring, value_of(spring, next), 1);
	layer->key = "MaxAutoRetriesNextServer";
	layer->counts_retries = true;
	layer->written = next != NULL;
	check_layer_repeats(layer, CHECK_ON_IO,
	    spring_bool(spring, value_of(spring, all), false) ? CHECK_ALL_METHODS : CHECK_BIT(CHECK_GET),
	    (uint32_t)requests, true);
	return true;
}

/* ------------------------------------------------------------------ transports */

/* A switch of OpenFeign's that had another prefix before 2022.0. key: "okhttp.enabled". */
static struct spring_value feign_switch(struct spring *spring, const char *key, const char *old_key)
{
	char pattern[CHECK_KEY_MAX];
	struct spring_value value;

	snprintf(pattern, sizeof(pattern), SPRING_FEIGN ".%s", key);
	value = spring_get(spring, pattern, NULL);
	if (value.setting == NULL && spring->check->facts.cloud < CHECK_CLOUD_2022) {
		snprintf(pattern, sizeof(pattern), "feign.%s", old_key);
		value = spring_get(spring, pattern, NULL);
	}
	return value;
}

enum spring_transport spring_transport(struct spring *spring, struct check_place *ret_place)
{
	const struct check_facts *facts = &spring->check->facts;
	struct spring_value okhttp = feign_switch(spring, "okhttp.enabled", "okhttp.enabled");
	struct spring_value hc5 = feign_switch(spring, "httpclient.hc5.enabled", "httpclient.hc5.enabled");
	bool fallback = facts->hc5 == CHECK_YES && (facts->cloud == CHECK_CLOUD_UNKNOWN || facts->cloud >= CHECK_CLOUD_2022);

	/* OkHttp is used where somebody says so, and HttpClient 5 wherever it is. */
	if (facts->okhttp != CHECK_NO && spring_bool(spring, okhttp, false)) {
		*ret_place = spring_place(okhttp);
		return SPRING_OKHTTP;
	}
	if (hc5.setting != NULL)
		*ret_place = spring_place(hc5);
	if (facts->hc5 != CHECK_NO && spring_bool(spring, hc5, fallback))
		return SPRING_HC5;
	return facts->hc5 == CHECK_UNKNOWN && hc5.setting == NULL ? SPRING_TRANSPORT_UNKNOWN : SPRING_JDK;
}

/* HttpClient 5 repeats a refused request after a second, or when the service asks it to, however long that is; but not at all where a reply
 * may not take that second. */
static void add_hc5(struct check_layer *layer, const struct check_target *target, bool certain)
{
	uint32_t refused = CHECK_BIT(CHECK_ON_429) | CHECK_BIT(CHECK_ON_503) | CHECK_BIT(CHECK_ON_503_AFTER);

	if (target->read_ns < REA_NS_PER_S)
		return;
	check_layer_repeats(layer, refused, CHECK_ALL_METHODS, 2, certain);
	check_layer_waits(layer, refused, REA_NS_PER_S);
	check_layer_waits(layer, CHECK_BIT(CHECK_ON_503_AFTER), REA_NEVER);
}

/* Each repeats on its own, and nobody asked it to. */
static void add_transport(struct spring *spring, struct check_target *target)
{
	static const char *const names[] = {
	    [SPRING_OKHTTP] = "OkHttp", [SPRING_HC5] = "Apache HttpClient 5", [SPRING_JDK] = "HttpURLConnection", [SPRING_TRANSPORT_UNKNOWN] = "HTTP client"};
	uint32_t closed = CHECK_BIT(CHECK_ON_CLOSED), idempotent = CHECK_BIT(CHECK_GET) | CHECK_BIT(CHECK_PUT);
	struct check_place place = target->place;
	enum spring_transport transport = spring_transport(spring, &place);
	struct check_layer *layer = check_layer_new(spring->check, target, names[transport], place);

	if (layer == NULL)
		return;
	layer->hidden = true;
	layer->number = 1;
	layer->counts_retries = true;
	switch (transport) {
	case SPRING_OKHTTP:
		/* On a connection that was kept, and when asked to come back at once. */
		check_layer_repeats(layer, closed | CHECK_BIT(CHECK_ON_503_AFTER), CHECK_ALL_METHODS, 2, false);
		break;
	case SPRING_HC5:
		add_hc5(layer, target, true);
		check_layer_repeats(layer, closed, idempotent, 2, true);
		break;
	case SPRING_TRANSPORT_UNKNOWN:
		add_hc5(layer, target, false);
		if (check_layer_requests(layer) > 1)
			layer->when = "on 429 and 503 only with feign-hc5";
		/* fall through */
	case SPRING_JDK:
		/* Feign streams a body, which then cannot be sent again. */
		check_layer_repeats(layer, closed, CHECK_ALL_METHODS, 2, false);
		check_layer_repeats(layer, closed, CHECK_BIT(CHECK_GET), 2, true);
		break;
	}
}

/* ------------------------------------------------------------------ clients */

/* Where a client is configured, or else the application. */
struct check_place spring_client_place(struct spring *spring, const char *name)
{
	static const char *const where[] = {
	    SPRING_CLIENT "*", SPRING_CLIENT_OLD "*", "spring.cloud.loadbalancer.clients.*", "*.ribbon"};
	const char *entry = name ? name : spring->default_config;

	for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		const struct check_setting *setting = check_view_below(&spring->view, where[i], entry);

		if (setting != NULL)
			return setting->place;
	}
	return spring->app->place;
}

static void set_timeouts(struct spring *spring, struct check_target *target, const char *client)
{
	struct spring_value read = spring_client(spring, client, "readtimeout");

	spring->unknown = false;
	target->connect_ns = spring_time(spring, spring_client(spring, client, "connecttimeout"), MS, FEIGN_CONNECT_NS);
	target->read_ns = spring_time(spring, read, MS, FEIGN_READ_NS);
	if (spring->unknown)
		target->note = "a timeout of it is not known here: its default stands in for it";
	target->read_place = read.setting ? spring_place(read) : target->place;
}

static struct check_target *new_target(
    struct spring *spring, const char *kind, const char *name, const char *service, struct check_place place)
{
	struct check_target *target = check_target_new(spring->check, spring->app, kind,
	    check_shown(spring->check, rea_slice_of(name)), check_canonical(spring->check, rea_slice_of(service)), place);

	if (target != NULL) {
		target->profile = spring->profile;
		target->keyed = spring->check->options.keyed;
	}
	return target;
}

/* name NULL: a client that has no entry of its own. retry: an instance of Resilience4j around it; NULL = none. */
static void add_client(struct spring *spring, const char *name, const char *title, const char *retry)
{
	struct check_target *target = new_target(spring, spring->reactive ? "WebClient" : "client", title,
	    name ? name : "", spring_client_place(spring, name));

	if (target == NULL)
		return;
	add_retryable(spring, target);
	if (retry != NULL)
		add_r4j_retry(spring, target, retry);
	if (spring->reactive) {
		/* Its timeouts stand in code. */
		add_load_balancer(spring, target, name);
		return;
	}
	set_timeouts(spring, target, name);
	add_time_limiter(spring, target, name);
	add_retryer(spring, target, name);
	if (!add_ribbon(spring, target, name) && spring_client(spring, name, "url").setting == NULL)
		add_load_balancer(spring, target, name);
	add_transport(spring, target);
}

static const char *same_in(const struct spring_names *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++)
		if (spring_same_name(names->names[i], name))
			return names->names[i];
	return NULL;
}

static void add_ribbon_clients(struct spring *spring, struct spring_names *clients)
{
	struct spring_names tops = {.count = 0};

	spring_names_add(spring, &tops, "*");
	for (size_t i = 0; i < tops.count; i++)
		if (check_view_below(&spring->view, "*.ribbon", tops.names[i]) != NULL &&
		    same_in(clients, tops.names[i]) == NULL && clients->count < SPRING_NAMES_MAX)
			clients->names[clients->count++] = tops.names[i];
}

static void add_clients(struct spring *spring)
{
	struct spring_names clients = {.count = 0}, wrapped = {.count = 0};

	spring_clients(spring, &clients);
	if (!spring->reactive)
		add_ribbon_clients(spring, &clients);
	spring_names_add(spring, &wrapped, "resilience4j.retry.instances.*");
	spring_names_add(spring, &wrapped, "resilience4j.retry.backends.*");
	if (spring->has_feign || clients.count > 0 ||
	    (spring->reactive && check_view_below(&spring->view, SPRING_RETRY, NULL) != NULL))
		add_client(spring, NULL, clients.count > 0 ? "(every other)" : "(every)", NULL);
	for (size_t i = 0; i < clients.count; i++)
		add_client(spring, clients.names[i], clients.names[i], same_in(&wrapped, clients.names[i]));
	/* An annotated method with a name of its own, and whichever client it calls. */
	for (size_t i = 0; i < wrapped.count; i++)
		if (same_in(&clients, wrapped.names[i]) == NULL)
			add_client(spring, NULL,
			    check_text(spring->check, "(every) within @Retry(\"%s\")", wrapped.names[i]), wrapped.names[i]);
}

/* ------------------------------------------------------------------ gateway */

static uint32_t series_failures(struct rea_slice text)
{
	if (check_is(text, "SERVER_ERROR") || check_is(text, "5XX"))
		return CHECK_ON_5XX;
	return check_is(text, "CLIENT_ERROR") || check_is(text, "4XX") ? CHECK_BIT(CHECK_ON_429) : 0;
}

static uint32_t status_named(struct rea_slice text)
{
	static const struct {
		const char *name;
		uint64_t status;
	} names[] = {{"TOO_MANY_REQUESTS", 429}, {"INTERNAL_SERVER_ERROR", 500}, {"BAD_GATEWAY", 502},
	    {"SERVICE_UNAVAILABLE", 503}, {"GATEWAY_TIMEOUT", 504}};
	uint64_t status;

	if (rea_slice_to_u64(text, &status))
		return check_failures_of_status(status);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (check_is(text, names[i].name))
			return check_failures_of_status(names[i].status);
	return 0;
}

static uint32_t methods_named(struct rea_slice text)
{
	static const struct {
		const char *name;
		uint32_t methods;
	} names[] = {{"GET", CHECK_BIT(CHECK_GET)}, {"HEAD", CHECK_BIT(CHECK_GET)}, {"OPTIONS", CHECK_BIT(CHECK_GET)},
	    {"PUT", CHECK_BIT(CHECK_PUT)}, {"DELETE", CHECK_BIT(CHECK_PUT)}, {"POST", CHECK_BIT(CHECK_POST)},
	    {"PATCH", CHECK_BIT(CHECK_POST)}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (check_is(text, names[i].name))
			return names[i].methods;
	return 0;
}

/* The union of what a filter's argument lists; fallback when it is not there. */
static uint32_t argument_set(struct spring *spring, const char *filter, const char *key,
    uint32_t (*read)(struct rea_slice text), uint32_t fallback)
{
	struct check_setting items[CHECK_LIST_MAX];
	char pattern[CHECK_KEY_MAX];
	size_t count;
	uint32_t set = 0;

	snprintf(pattern, sizeof(pattern), "%s.args.%s", filter, key);
	count = check_view_list(spring->check, &spring->view, pattern, NULL, items);
	for (size_t i = 0; i < count; i++)
		set |= read(rea_slice_of(items[i].value));
	return count > 0 || check_view_get(&spring->view, pattern, NULL) != NULL ? set : fallback;
}

static struct spring_value argument(struct spring *spring, const char *filter, const char *key)
{
	char pattern[CHECK_KEY_MAX];

	snprintf(pattern, sizeof(pattern), "%s.args.%s", filter, key);
	return spring_get(spring, pattern, NULL);
}

/* "Retry=3,BAD_GATEWAY,GET", which has no room for waits. */
static void read_shortcut(struct rea_slice text, struct check_layer *layer, uint32_t *failures, uint32_t *methods)
{
	struct rea_slice word;
	uint64_t number;

	if (check_word(&text, ",", &word) && rea_slice_to_u64(check_trim(word), &number) && number < UINT32_MAX)
		layer->number = (uint32_t)number;
	if (check_word(&text, ",", &word))
		*failures |= status_named(check_trim(word));
	if (check_word(&text, ",", &word))
		*methods = methods_named(check_trim(word));
}

static void add_gateway_retry(
    struct spring *spring, struct check_target *target, const char *filter, const struct check_setting *setting)
{
	struct spring_value count = argument(spring, filter, "retries");
	struct check_layer *layer = check_layer_new(
	    spring->check, target, "Gateway Retry filter", count.setting ? spring_place(count) : setting->place);
	uint32_t failures, methods, requests;
	uint64_t first;

	if (layer == NULL)
		return;
	layer->number = (uint32_t)spring_number(spring, count, 3);
	layer->key = "retries";
	layer->counts_retries = true;
	layer->written = count.setting != NULL || strchr(setting->value, '=') != NULL;
	failures = argument_set(spring, filter, "series", series_failures, CHECK_ON_5XX);
	failures |= argument_set(spring, filter, "statuses", status_named, 0);
	methods = argument_set(spring, filter, "methods", methods_named, CHECK_BIT(CHECK_GET));
	if (strncmp(setting->value, "Retry=", 6) == 0)
		read_shortcut(rea_slice_of(setting->value + 6), layer, &failures, &methods);
	requests = layer->number < UINT32_MAX ? layer->number + 1 : UINT32_MAX;
	check_layer_repeats(layer, failures | CHECK_ON_IO, methods, requests, true);
	first = spring_time(spring, argument(spring, filter, "backoff.firstbackoff"), MS, 0);
	check_layer_waits(layer, CHECK_ALL_FAILURES,
	    check_waits(requests, first, decimal(spring, argument(spring, filter, "backoff.factor"), 2),
		spring_time(spring, argument(spring, filter, "backoff.maxbackoff"), MS, REA_NEVER)));
}

static bool is_retry_filter(const char *name)
{
	return strcmp(name, "Retry") == 0 || strncmp(name, "Retry=", 6) == 0;
}

static void add_filters(struct spring *spring, struct check_target *target, const char *list)
{
	for (size_t i = 0; i < SPRING_FILTERS_MAX; i++) {
		char filter[CHECK_KEY_MAX - 64], key[CHECK_KEY_MAX];
		const struct check_setting *setting;

		snprintf(filter, sizeof(filter), "%s[%zu]", list, i);
		if (check_view_below(&spring->view, filter, NULL) == NULL)
			return;
		setting = check_view_get(&spring->view, filter, NULL);
		snprintf(key, sizeof(key), "%s.name", filter);
		if (setting == NULL)
			setting = check_view_get(&spring->view, key, NULL);
		if (setting != NULL && is_retry_filter(setting->value))
			add_gateway_retry(spring, target, filter, setting);
	}
}

/* "lb://order-service/path": the service, and that LoadBalancer chooses its instance. */
static struct rea_slice host_of(const char *uri)
{
	const char *host = strstr(uri, "://");

	host = host ? host + 3 : uri;
	return rea_slice_make(host, strcspn(host, "/:?#"));
}

static void add_route(struct spring *spring, const char *gateway, const char *route)
{
	char key[CHECK_KEY_MAX];
	const struct check_setting *first = check_view_below(&spring->view, route, NULL);
	struct spring_value id, uri, timeout;
	struct check_target *target;
	const char *service;

	snprintf(key, sizeof(key), "%s.id", route);
	id = spring_get(spring, key, NULL);
	snprintf(key, sizeof(key), "%s.uri", route);
	uri = spring_get(spring, key, NULL);
	service = uri.text ? check_copy(spring->check, host_of(uri.text)) : "";
	target = new_target(spring, "route",
	    id.text   ? id.text
	    : service ? service
		      : "",
	    service ? service : "", id.setting ? spring_place(id) : first->place);
	if (target == NULL)
		return;
	snprintf(key, sizeof(key), "%s.metadata.connecttimeout", route);
	timeout = spring_get(spring, key, NULL);
	snprintf(key, sizeof(key), "%s.httpclient.connecttimeout", gateway);
	target->connect_ns =
	    spring_time(spring, timeout.setting ? timeout : spring_get(spring, key, NULL), MS, 45 * REA_NS_PER_S);
	snprintf(key, sizeof(key), "%s.metadata.responsetimeout", route);
	timeout = spring_get(spring, key, NULL);
	snprintf(key, sizeof(key), "%s.httpclient.responsetimeout", gateway);
	if (timeout.setting == NULL)
		timeout = spring_get(spring, key, NULL);
	target->read_ns = spring_time(spring, timeout, MS, REA_NEVER);
	target->read_place = timeout.setting ? spring_place(timeout) : target->place;
	snprintf(key, sizeof(key), "%s.defaultfilters", gateway);
	add_filters(spring, target, key);
	snprintf(key, sizeof(key), "%s.filters", route);
	add_filters(spring, target, key);
	if (uri.text != NULL && strncmp(uri.text, "lb:", 3) == 0)
		add_load_balancer(spring, target, service);
}

static void add_routes(struct spring *spring, const char *gateway)
{
	for (size_t i = 0; i < SPRING_ROUTES_MAX; i++) {
		char route[CHECK_KEY_MAX - 64];

		snprintf(route, sizeof(route), "%s.routes[%zu]", gateway, i);
		if (check_view_below(&spring->view, route, NULL) == NULL)
			return;
		add_route(spring, gateway, route);
	}
}

void spring_targets(struct spring *spring)
{
	bool reactive = spring->reactive;

	add_clients(spring);
	/* What the gateway calls, it calls without waiting threads. */
	spring->reactive = true;
	add_routes(spring, "spring.cloud.gateway");
	add_routes(spring, "spring.cloud.gateway.server.webflux");
	spring->reactive = reactive;
}

/* ------------------------------------------------------------------ applications */

static void look_around(struct spring *spring)
{
	struct check_facts *facts = &spring->check->facts;
	struct spring_value kind = spring_get(spring, "spring.main.webapplicationtype", NULL), named;
	bool gateway = check_view_below(&spring->view, "spring.cloud.gateway", NULL) != NULL;
	bool feign_keys = check_view_below(&spring->view, SPRING_FEIGN, NULL) != NULL ||
			  check_view_below(&spring->view, "feign", NULL) != NULL;

	named = spring_get(spring, SPRING_FEIGN ".client.defaultconfig", NULL);
	if (named.setting == NULL)
		named = spring_get(spring, "feign.client.defaultconfig", NULL);
	spring->default_config = named.text ? named.text : "default";
	spring->reactive = (kind.text != NULL && check_is(rea_slice_of(kind.text), "reactive")) ||
			   (!feign_keys && facts->openfeign != CHECK_YES && (gateway || facts->reactive == CHECK_YES));
	spring->has_feign =
	    feign_keys || facts->openfeign == CHECK_YES ||
	    (!gateway && !spring->reactive && check_view_below(&spring->view, "spring.cloud.loadbalancer", NULL) != NULL);
}

static void run_profile(struct check *check, struct check_app *app, const char *profiles)
{
	struct spring spring = {.check = check, .app = app, .profile = profiles, .targets = app->targets_tail};

	if (!check_view_make(check, app, profiles, &spring.view))
		return;
	look_around(&spring);
	spring_targets(&spring);
	spring_rules(&spring);
}

/* A profile that documents name: one word, no expression. */
static bool is_simple(const char *expression)
{
	return expression[0] != '\0' && strpbrk(expression, "!&|(), ") == NULL && strcmp(expression, "default") != 0;
}

static void run_each_profile(struct check *check, struct check_app *app)
{
	for (struct check_document *document = app->documents; document != NULL; document = document->next) {
		const char *profile = document->file_profile[0] != '\0' ? document->file_profile : document->on_profile;
		bool told = false;

		for (struct check_document *before = app->documents; before != document; before = before->next)
			told = told || strcmp(before->file_profile, profile) == 0 ||
			       strcmp(before->on_profile, profile) == 0;
		if (is_simple(profile) && !told)
			run_profile(check, app, profile);
	}
}

static void name_app(struct check *check, struct check_app *app)
{
	struct check_view view;
	const struct check_setting *name;

	if (!check_view_make(check, app, check->options.profiles ? check->options.profiles : "", &view))
		return;
	name = check_view_get(&view, "spring.application.name", NULL);
	if (name != NULL && name->value[0] != '\0' && check_view_resolve(check, &view, name->value) != NULL)
		app->name = check_shown(check, rea_slice_of(check_view_resolve(check, &view, name->value)));
}

void check_spring(struct check *check, struct check_app *app)
{
	name_app(check, app);
	run_profile(check, app, check->options.profiles ? check->options.profiles : "");
	if (check->options.profiles == NULL)
		run_each_profile(check, app);
}

/* "dir/application-prod.yml": application, prod. */
static void split_name(struct check *check, const struct check_file *file, const char **ret_path, const char **ret_name,
    const char **ret_profile)
{
	static const char *const stems[] = {"application", "bootstrap"};
	const char *slash = strrchr(file->name, '/'), *base = slash ? slash + 1 : file->name, *dot = strrchr(base, '.');
	size_t length = dot ? (size_t)(dot - base) : strlen(base);
	const char *directory = slash ? check_copy(check, rea_slice_make(file->name, (size_t)(slash - file->name))) : "";

	*ret_path = file->name; /* one file, one application */
	*ret_name = check_shown(check, rea_slice_make(base, length));
	*ret_profile = "";
	for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++) {
		size_t stem = strlen(stems[i]);

		if (length < stem || strncmp(base, stems[i], stem) != 0 || (length > stem && base[stem] != '-'))
			continue;
		*ret_path = directory ? directory : "";
		if (slash != NULL && directory != NULL) {
			const char *parent = strrchr(directory, '/');

			*ret_name = check_shown(check, rea_slice_of(parent ? parent + 1 : directory));
		}
		if (length > stem)
			*ret_profile = check_copy(check, rea_slice_make(base + stem + 1, length - stem - 1));
	}
}

int check_read_spring(struct check *check, struct check_file *file, struct rea_error_info *info)
{
	const char *path, *name, *profile, *dot = strrchr(file->name, '.');
	bool properties = dot != NULL && strcmp(dot, ".properties") == 0;

	split_name(check, file, &path, &name, &profile);
	if (profile == NULL || check_app_of(check, file, path, name) == NULL)
		return check_refuse(
		    info, file, REA_ERR_NOMEM, check_place_at(file, 0, 0), "%s", rea_error_text(REA_ERR_NOMEM));
	if (properties)
		return check_settings_properties(check, file, profile, info);
	return check_settings_yaml(check, file, profile, info);
}
