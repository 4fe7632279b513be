/* The rules about Spring's own settings. */
#include "check/spring.h"

#include <stdio.h>

/* A client of that name has LoadBalancer's retry settings of its own, or the global ones hold. */
struct retry_keys {
	const char *prefix; /* "spring.cloud.loadbalancer.retry" or a client's */
	const char *name;   /* of the client; NULL = the global ones */
};

static const struct check_setting *key_of(struct spring *spring, const struct retry_keys *keys, const char *key)
{
	char pattern[CHECK_KEY_MAX];

	snprintf(pattern, sizeof(pattern), "%s.%s", keys->prefix, key);
	return check_view_get(&spring->view, pattern, keys->name);
}

static void each_retry(struct spring *spring, void (*visit)(struct spring *spring, const struct retry_keys *keys))
{
	struct spring_names clients = {.count = 0};
	struct retry_keys keys = {SPRING_RETRY, NULL};

	visit(spring, &keys);
	spring_names_add(spring, &clients, "spring.cloud.loadbalancer.clients.*");
	for (size_t i = 0; i < clients.count; i++) {
		keys = (struct retry_keys){SPRING_CLIENT_RETRY, clients.names[i]};
		visit(spring, &keys);
	}
}

static const char *of_client(struct spring *spring, const char *name)
{
	return name ? check_text(spring->check, "the client %s", check_shown(spring->check, rea_slice_of(name)))
		    : "every client";
}

static void comment_out(struct check *check, struct check_finding *finding, const struct check_setting *setting)
{
	if (!setting->flow)
		check_comment_out(check, finding, setting->place.file, setting->place.line, setting->last_line);
}

/* Whatever stands below that key: commented out, or in .properties with another beginning. */
static void correct_below(struct spring *spring, struct check_finding *finding, const char *pattern, const char *name,
    const char *old, const char *new)
{
	size_t count;
	const struct check_setting *const *settings = check_view_all_below(&spring->view, pattern, name, &count);

	/* All of them or none: half a correction looks like a whole one. */
	for (size_t i = 0; i < count; i++)
		if (new == NULL && settings[i]->flow)
			return;
	for (size_t i = 0; i < count; i++)
		if (new == NULL)
			comment_out(spring->check, finding, settings[i]);
		else if (settings[i]->document->properties)
			check_correct(spring->check, finding, settings[i]->place, old, new);
}

/* ------------------------------------------------------------------ LoadBalancer */

static void rc02(struct spring *spring, const struct retry_keys *keys)
{
	const struct check_setting *all = key_of(spring, keys, "retryonalloperations");
	struct check_finding *finding;

	if (all == NULL || !check_is(rea_slice_of(all->value), "true") || !spring_retry_enabled(spring, keys->name) ||
	    spring->check->facts.spring_retry == CHECK_NO || spring->check->options.keyed ||
	    (keys->name != NULL &&
		check_writes_declared(spring->check, check_canonical(spring->check, rea_slice_of(keys->name)))))
		return;
	finding = check_find(spring->check, "RC02", CHECK_ERROR, all->value_place, keys->name ? keys->name : "",
	    check_text(spring->check, "POST, PUT, PATCH and DELETE of %s are repeated, whatever they do",
		of_client(spring, keys->name)),
	    "retry-on-all-operations: false; repeat a write only where the callee declares that it may be, and with an "
	    "Idempotency-Key");
	check_correct(spring->check, finding, all->value_place, all->value, "false");
}

static void rc03(struct spring *spring, const struct retry_keys *keys)
{
	static const char *const names[] = {"enabled", "minbackoff", "maxbackoff", "jitter"};

	if (spring->reactive || !spring->has_feign)
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char key[64];
		const struct check_setting *setting;

		snprintf(key, sizeof(key), "backoff.%s", names[i]);
		setting = key_of(spring, keys, key);
		if (setting != NULL)
			comment_out(spring->check,
			    check_find(spring->check, "RC03", CHECK_WARNING, setting->place, keys->name ? keys->name : "",
				check_text(spring->check,
				    "%s does nothing for a Feign client: its retries follow at once", setting->written),
				"take it out; a wait needs a LoadBalancedRetryFactory bean with a BackOffPolicy, or a "
				"Retryer in place of this layer"),
			    setting);
	}
}

static void rc04(struct spring *spring, const struct retry_keys *keys)
{
	const struct check_facts *facts = &spring->check->facts;
	const struct check_setting *enabled = key_of(spring, keys, "enabled");
	bool global = spring_bool(spring, spring_get(spring, SPRING_RETRY ".enabled", NULL), true), own;
	bool deaf = facts->cloud != CHECK_CLOUD_UNKNOWN &&
		    (facts->cloud < CHECK_CLOUD_2021 || (facts->cloud == CHECK_CLOUD_2021 && facts->cloud_service < 5));

	if (keys->name == NULL || enabled == NULL)
		return;
	own = spring_bool(spring, spring_retry(spring, keys->name, "enabled"), true);
	if (own && !global)
		comment_out(spring->check,
		    check_find(spring->check, "RC04", CHECK_WARNING, enabled->place, keys->name,
			check_text(spring->check,
			    "%s is true, but retries are off globally, and no client turns them on again", enabled->written),
			"retry.enabled: true globally and false for each client that must not repeat, or take this "
			"line out"),
		    enabled);
	/* Recorded with 2025.0.0: the retrying client is made all the same, and finds no request in its context. */
	if (!own && global && !spring->reactive && facts->spring_retry != CHECK_NO &&
	    (facts->cloud == CHECK_CLOUD_UNKNOWN || facts->cloud >= CHECK_CLOUD_2025) &&
	    spring_client(spring, keys->name, "url").setting == NULL)
		check_find(spring->check, "RC04",
		    facts->cloud != CHECK_CLOUD_UNKNOWN && facts->spring_retry == CHECK_YES ? CHECK_ERROR : CHECK_WARNING,
		    enabled->place, keys->name,
		    check_text(spring->check, "%s is false: with spring-retry on the class path every call of the Feign client %s then fails with a NullPointerException, and no request is sent (seen with Spring Cloud 2025.0.0)",
			enabled->written, check_shown(spring->check, rea_slice_of(keys->name))),
		    "retry.max-retries-on-next-service-instance: 0 for this client");
	if (!own && global && deaf)
		check_find(spring->check, "RC04", CHECK_WARNING, enabled->place, keys->name,
		    check_text(spring->check,
			"%s is false, which Feign clients do not heed before Spring Cloud 2021.0.5: %s still repeats",
			enabled->written, check_shown(spring->check, rea_slice_of(keys->name))),
		    "update, or set max-retries-on-next-service-instance: 0 for this client");
}

static bool is_bad_status(const char *text, const char **ret_why)
{
	uint64_t status;

	if (!rea_slice_to_u64(rea_slice_of(text), &status))
		return false;
	*ret_why = status == 429                   ? "asks for less, and gets more"
		   : status == 500                 ? "says that the request was executed up to its failure"
		   : status >= 400 && status < 500 ? "will be answered the same the next time"
						   : NULL;
	return *ret_why != NULL;
}

/* A list in one text, without what should not be in it; "" = nothing would be left. */
static const char *without_bad(struct check *check, const struct check_setting *items, size_t count)
{
	const char *text = "", *why;

	for (size_t i = 0; i < count; i++)
		if (!is_bad_status(items[i].value, &why))
			text = check_text(check, "%s%s%s", text, text[0] != '\0' ? "," : "", items[i].value);
	return text;
}

static void rc11_statuses(struct spring *spring, const struct retry_keys *keys)
{
	struct check_setting items[CHECK_LIST_MAX];
	char pattern[CHECK_KEY_MAX];
	const struct check_setting *whole = key_of(spring, keys, "retryablestatuscodes");
	const char *rest, *why;
	size_t count;

	snprintf(pattern, sizeof(pattern), "%s.retryablestatuscodes", keys->prefix);
	count = check_view_list(spring->check, &spring->view, pattern, keys->name, items);
	rest = without_bad(spring->check, items, count);
	for (size_t i = 0; i < count; i++) {
		struct check_finding *finding;

		if (!is_bad_status(items[i].value, &why))
			continue;
		finding = check_find(spring->check, "RC11", CHECK_WARNING, items[i].value_place,
		    keys->name ? keys->name : "", check_text(spring->check, "a %s is repeated: it %s", items[i].value, why),
		    "keep to 503, or 502, 503 and 504 for calls that may be repeated");
		if (strchr(items[i].key, '[') != NULL)
			comment_out(spring->check, finding, &items[i]);
		else if (whole != NULL && rest[0] != '\0')
			check_correct(spring->check, finding, whole->value_place, whole->value, rest);
	}
}

static void rc11_exceptions(struct spring *spring, const char *pattern, const char *name)
{
	struct check_setting items[CHECK_LIST_MAX];
	size_t count = check_view_list(spring->check, &spring->view, pattern, name, items);

	for (size_t i = 0; i < count; i++) {
		bool known;

		if (spring_failures_of(items[i].value, &known) != CHECK_ALL_FAILURES ||
		    strstr(items[i].value, "FeignException") != NULL)
			continue;
		check_find(spring->check, "RC11", CHECK_WARNING, items[i].value_place, name ? name : "",
		    check_text(spring->check, "%s stands for every failure, programming errors included",
			check_shown(spring->check, rea_slice_of(items[i].value))),
		    "name what can pass by itself: java.io.IOException, java.util.concurrent.TimeoutException");
	}
}

static void rc11(struct spring *spring, const struct retry_keys *keys)
{
	char pattern[CHECK_KEY_MAX];

	rc11_statuses(spring, keys);
	snprintf(pattern, sizeof(pattern), "%s.retryableexceptions", keys->prefix);
	rc11_exceptions(spring, pattern, keys->name);
}

static void rc13(struct spring *spring, const struct retry_keys *keys)
{
	const struct check_options *options = &spring->check->options;
	struct spring_names services = {.count = 0};
	struct spring_value next;

	for (size_t i = 0; i < options->instances_len; i++)
		services.names[services.count++] = options->instances[i].service;
	spring_names_add(spring, &services, "spring.cloud.discovery.client.simple.instances.*");
	for (size_t i = 0; i < services.count; i++) {
		const char *name = services.names[i];
		size_t instances = spring_instances(spring, name);
		struct check_finding *finding;
		uint64_t number;

		if (keys->name != NULL && !spring_same_name(keys->name, name))
			continue;
		next = spring_retry(spring, name, "maxretriesonnextserviceinstance");
		number = spring_number(spring, next, 1);
		if (next.setting == NULL || number < instances ||
		    next.setting != key_of(spring, keys, "maxretriesonnextserviceinstance"))
			continue;
		finding = check_find(spring->check, "RC13", CHECK_WARNING, next.setting->value_place, name,
		    check_text(spring->check, "%llu more instances are tried, but %s has %zu: only the one tried last is avoided, so a failed one is asked again",
			(unsigned long long)number, check_shown(spring->check, rea_slice_of(name)), instances),
		    check_text(spring->check, "max-retries-on-next-service-instance: %zu", instances - 1));
		check_correct(spring->check, finding, next.setting->value_place, next.setting->value,
		    check_text(spring->check, "%zu", instances - 1));
	}
}

static void rc16(struct spring *spring, const struct retry_keys *keys)
{
	const struct check_setting *setting;
	struct spring_value url;

	if (keys->name == NULL)
		return;
	setting = check_view_below(&spring->view, SPRING_CLIENT_RETRY, keys->name);
	url = spring_client(spring, keys->name, "url");
	if (setting == NULL || url.setting == NULL)
		return;
	correct_below(spring,
	    check_find(spring->check, "RC16", CHECK_WARNING, setting->place, keys->name,
		check_text(spring->check, "%s does nothing: %s has a url, and so no LoadBalancer in front of it",
		    setting->written, check_shown(spring->check, rea_slice_of(keys->name))),
		"take the url out, so that its instances are looked up, or take these settings out"),
	    SPRING_CLIENT_RETRY, keys->name, NULL, NULL);
}

/* ------------------------------------------------------------------ clients */

static void rc05(struct spring *spring)
{
	const struct check_setting *old = check_view_below(&spring->view, "feign.client", NULL);
	const struct check_setting *new = check_view_below(&spring->view, SPRING_FEIGN, NULL);
	uint32_t cloud = spring->check->facts.cloud;
	struct spring_names tops = {.count = 0};
	struct check_finding *finding;

	if (old != NULL && (cloud >= CHECK_CLOUD_2022 || (cloud == CHECK_CLOUD_UNKNOWN && new != NULL))) {
		finding = check_find(spring->check, "RC05", CHECK_WARNING, old->place, "",
		    cloud != CHECK_CLOUD_UNKNOWN
			? "feign.client.* is not read since Spring Cloud 2022.0"
			: "feign.client.* and spring.cloud.openfeign.* in one application: one of them is not read",
		    "spring.cloud.openfeign.client.* since Spring Cloud 2022.0, feign.client.* before");
		if (cloud != CHECK_CLOUD_UNKNOWN)
			correct_below(spring, finding, "feign.client", NULL, "feign.client", SPRING_FEIGN ".client");
	}
	if (new != NULL && cloud !=
			       CHECK_CLOUD_UNKNOWN &&cloud <
				   CHECK_CLOUD_2022 &&check_view_below(&spring->view, SPRING_FEIGN ".client", NULL) !=
			       NULL) {
		new = check_view_below(&spring->view, SPRING_FEIGN ".client", NULL);
		finding = check_find(spring->check, "RC05", CHECK_WARNING, new->place, "",
		    "spring.cloud.openfeign.client.* is not read before Spring Cloud 2022.0", "feign.client.*, or update");
		correct_below(spring, finding, SPRING_FEIGN ".client", NULL, SPRING_FEIGN ".client", "feign.client");
	}
	if (cloud != CHECK_CLOUD_UNKNOWN && cloud < CHECK_CLOUD_2020)
		return;
	spring_names_add(spring, &tops, "*");
	for (size_t i = 0; i < tops.count; i++) {
		bool top = strcmp(tops.names[i], "ribbon") == 0;
		const struct check_setting *ribbon =
		    check_view_below(&spring->view, top ? "ribbon" : "*.ribbon", tops.names[i]);

		if (ribbon != NULL)
			correct_below(spring,
			    check_find(spring->check, "RC05", CHECK_WARNING, ribbon->place, "",
				check_text(spring->check, "%s is not read: Ribbon is gone since Spring Cloud 2020.0",
				    ribbon->written),
				"spring.cloud.loadbalancer.retry.*, where the numbers mean the same; or say "
				"--cloud-version, if it is older"),
			    top ? "ribbon" : "*.ribbon", tops.names[i], NULL, NULL);
	}
}

static void rc07_of(struct spring *spring, const char *name)
{
	static const struct {
		const char *key, *written, *limit;
	} keys[] = {{"readtimeout", "readTimeout", "60 s"}, {"connecttimeout", "connectTimeout", "10 s"}};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (spring_client(spring, name, keys[i].key).setting == NULL)
			check_find(spring->check, "RC07", CHECK_WARNING, spring_client_place(spring, name), name ? name : "",
			    check_text(spring->check, "%s of %s is not set: it is %s", keys[i].written,
				of_client(spring, name), keys[i].limit),
			    check_text(spring->check, "%s: a little more than the callee's slowest good answer takes",
				keys[i].written));
}

static void rc07(struct spring *spring)
{
	struct spring_names clients = {.count = 0};

	spring_clients(spring, &clients);
	if (!spring->has_feign)
		return;
	if (clients.count == 0)
		rc07_of(spring, NULL);
	for (size_t i = 0; i < clients.count; i++)
		rc07_of(spring, clients.names[i]);
}

static void rc10_find(struct spring *spring, struct check_place place, const char *message, const char *instead)
{
	check_find(spring->check, "RC10", CHECK_WARNING, place, "", message, instead);
}

static void rc10(struct spring *spring)
{
	struct check_place place = spring->app->place;

	if (!spring->has_feign)
		return;
	switch (spring_transport(spring, &place)) {
	case SPRING_OKHTTP:
		rc10_find(spring,
		    place, "OkHttp sends a request again by itself when a kept connection turns out to be dead, a POST too, and at once when a 503 says Retry-After: 0",
		    "an OkHttpClient bean with retryOnConnectionFailure(false)");
		break;
	case SPRING_HC5:
		rc10_find(spring,
		    place, "Apache HttpClient 5 repeats by itself on a 429 or 503, a POST too, after 1 s or after as long as Retry-After asks, which no timeout ends; and GET, PUT and DELETE when the connection is lost",
		    "an HttpClient5FeignConfiguration.HttpClientBuilderCustomizer bean with "
		    "builder.disableAutomaticRetries()");
		break;
	case SPRING_JDK:
		if (spring->check->facts.classpath)
			rc10_find(spring,
			    place, "HttpURLConnection sends a request without a body again by itself when the connection is lost, a POST too",
			    "feign-hc5 with disableAutomaticRetries(), or -Dsun.net.http.retryPost=false, which stops "
			    "it for "
			    "POST");
		break;
	case SPRING_TRANSPORT_UNKNOWN:
		break;
	}
}

static void rc12(struct spring *spring)
{
	struct spring_names clients = {.count = 0};

	spring_clients(spring, &clients);
	for (size_t i = 0; i <= clients.count; i++) {
		struct spring_value class = spring_client(spring, i > 0 ? clients.names[i - 1] : NULL, "retryer");

		if (class.text == NULL)
			continue;
		if (spring_is_default_retryer(class.text))
			check_find(spring->check, "RC12", CHECK_INFO, class.setting->value_place, "",
			    check_text(spring->check, "%s: 5 requests (4 retries) of any method on every I/O error, with waits of 150, 225, 337 and 506 ms without jitter",
				check_shown(spring->check, rea_slice_of(class.text))),
			    "its numbers cannot be set here; a Retryer bean can");
		else
			check_find(spring->check, "RC12", CHECK_INFO, class.setting->value_place, "",
			    check_text(spring->check, "%s: unknown code, its requests are not counted",
				check_shown(spring->check, rea_slice_of(class.text))),
			    "say what it does with --retryer PERIOD,MAX,ATTEMPTS");
	}
}

static void rc18(struct spring *spring)
{
	const struct check_facts *facts = &spring->check->facts;

	if (facts->spring_retry != CHECK_YES || facts->spring_retry_direct != CHECK_NO || spring->reactive ||
	    !spring->has_feign || spring_get(spring, SPRING_RETRY ".enabled", NULL).setting != NULL)
		return;
	check_find(spring->check, "RC18", CHECK_WARNING, spring->app->place, "",
	    check_text(spring->check,
		"spring-retry is on the class path only because %s brings it, and that alone turns retries of GET on",
		facts->carrier ? facts->carrier : "something else"),
	    "spring.cloud.loadbalancer.retry.enabled: false, or true where it is meant");
}

/* ------------------------------------------------------------------ resilience4j */

static bool breaker_enabled(struct spring *spring)
{
	struct spring_value enabled = spring_get(spring, SPRING_FEIGN ".circuitbreaker.enabled", NULL);

	if (enabled.setting == NULL)
		enabled = spring_get(spring, "feign.circuitbreaker.enabled", NULL);
	return spring_bool(spring, enabled, false);
}

static bool is_alphanumeric(const char *name)
{
	for (; *name != '\0'; name++)
		if (!((*name >= '0' && *name <= '9') || (rea_ascii_lower(*name) >= 'a' && rea_ascii_lower(*name) <= 'z')))
			return false;
	return true;
}

static bool is_client(struct spring *spring, const char *name)
{
	struct spring_names clients = {.count = 0};

	spring_clients(spring, &clients);
	for (size_t i = 0; i < clients.count; i++)
		if (strcmp(clients.names[i], name) == 0)
			return true;
	return false;
}

static void rc08_name(struct spring *spring, const char *module, const char *name, bool group)
{
	char pattern[CHECK_KEY_MAX];
	const struct check_setting *setting;
	const char *shown = check_shown(spring->check, rea_slice_of(name)), *why = NULL;
	bool stripped = spring_bool(spring, spring_get(spring, SPRING_FEIGN ".circuitbreaker.alphanumericids.enabled", NULL),
	    spring->check->facts.cloud == CHECK_CLOUD_UNKNOWN || spring->check->facts.cloud >= CHECK_CLOUD_2022);

	if (group && !is_client(spring, name))
		why = "breakers are named after their clients (group.enabled), and there is no such client here";
	else if (!group && is_client(spring, name))
		why = "it is a client's name, and without circuitbreaker.group.enabled there is a breaker for each "
		      "method";
	else if (!group && stripped && !is_alphanumeric(name))
		why = "names of breakers have letters and digits alone, as in OrderClientgetOrderLong";
	if (why == NULL)
		return;
	snprintf(pattern, sizeof(pattern), "resilience4j.%s.instances.*", module);
	setting = check_view_below(&spring->view, pattern, name);
	if (setting != NULL)
		check_find(spring->check, "RC08", CHECK_WARNING, setting->place, "",
		    check_text(spring->check, "resilience4j.%s.instances.%s configures no Feign client: %s", module,
			shown, why),
		    group ? "a client's name" : "group.enabled: true, or the method's name with its class, without any signs");
}

static void rc08(struct spring *spring)
{
	static const char *const modules[] = {"circuitbreaker", "timelimiter"};
	bool group = spring_bool(spring, spring_get(spring, SPRING_FEIGN ".circuitbreaker.group.enabled", NULL), false);
	char pattern[CHECK_KEY_MAX];

	if (!breaker_enabled(spring))
		return;
	for (size_t i = 0; i < 2; i++) {
		struct spring_names names = {.count = 0};

		snprintf(pattern, sizeof(pattern), "resilience4j.%s.instances.*", modules[i]);
		spring_names_add(spring, &names, pattern);
		for (size_t j = 0; j < names.count; j++)
			rc08_name(spring, modules[i], names.names[j], group);
	}
}

static void rc09_orders(struct spring *spring)
{
	struct spring_value retry = spring_get(spring, "resilience4j.retry.retryaspectorder", NULL);
	struct spring_value breaker = spring_get(spring, "resilience4j.circuitbreaker.circuitbreakeraspectorder", NULL);
	/* The defaults, of which the smaller is the outer one. */
	uint64_t retry_order = spring_number(spring, retry, INT32_MAX - 4),
		 breaker_order = spring_number(spring, breaker, INT32_MAX - 3);

	if (retry_order > breaker_order)
		check_find(spring->check, "RC09", CHECK_WARNING, spring_place(retry.setting ? retry : breaker),
		    "", "the circuit breaker stands around the retries: it counts a call that failed several times as one failure, and opens late",
		    "take the aspect orders out: by default each attempt is counted, and an open breaker ends the "
		    "retries' sense");
}

static bool lists_not_permitted(struct spring *spring, const char *pattern, const char *name)
{
	struct check_setting items[CHECK_LIST_MAX];
	size_t count = check_view_list(spring->check, &spring->view, pattern, name, items);

	for (size_t i = 0; i < count; i++)
		if (strstr(items[i].value, "CallNotPermittedException") != NULL)
			return true;
	return false;
}

static void rc09(struct spring *spring)
{
	struct spring_names names = {.count = 0};

	rc09_orders(spring);
	spring_names_add(spring, &names, "resilience4j.retry.instances.*");
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.names[i];
		const struct check_setting *setting =
		    check_view_below(&spring->view, "resilience4j.retry.instances.*", name);

		if (check_view_below(&spring->view, "resilience4j.circuitbreaker.instances.*", name) == NULL ||
		    check_view_below(&spring->view, "resilience4j.retry.instances.*.retryexceptions", name) != NULL ||
		    check_view_below(&spring->view, "resilience4j.retry.configs.default.retryexceptions", NULL) != NULL ||
		    lists_not_permitted(spring, "resilience4j.retry.instances.*.ignoreexceptions", name) ||
		    lists_not_permitted(spring, "resilience4j.retry.configs.default.ignoreexceptions", NULL))
			continue;
		check_find(spring->check, "RC09", CHECK_WARNING, setting->place, "",
		    check_text(spring->check, "the retry %s goes on against its own open circuit breaker: it does not ignore CallNotPermittedException",
			check_shown(spring->check, rea_slice_of(name))),
		    "ignore-exceptions: [io.github.resilience4j.circuitbreaker.CallNotPermittedException]");
	}
}

/* ------------------------------------------------------------------ gateway */

static void rc17(struct spring *spring)
{
	for (const struct check_target *target = *spring->targets; target != NULL; target = target->next) {
		const struct check_layer *filter = NULL, *inside = NULL;

		for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner)
			if (strcmp(layer->name, "Gateway Retry filter") == 0)
				filter = layer;
			else if (strcmp(layer->name, "LoadBalancer retry") == 0)
				inside = layer;
		if (filter != NULL && inside != NULL)
			check_find(spring->check, "RC17", CHECK_WARNING, filter->place, target->name,
			    check_text(spring->check,
				"the route %s is repeated by its Retry filter and, inside of it, by LoadBalancer",
				target->name),
			    "one of the two: spring.cloud.loadbalancer.retry.enabled: false, or no Retry filter on "
			    "this route");
	}
}

void spring_rules(struct spring *spring)
{
	each_retry(spring, rc02);
	each_retry(spring, rc03);
	each_retry(spring, rc04);
	rc05(spring);
	rc07(spring);
	rc08(spring);
	rc09(spring);
	rc10(spring);
	each_retry(spring, rc11);
	rc12(spring);
	each_retry(spring, rc13);
	each_retry(spring, rc16);
	rc17(spring);
	rc18(spring);
}
