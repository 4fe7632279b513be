/* The table of rules, and those that look at the model alone. */
#include "check/model.h"

#include <stdio.h>

const struct check_rule check_rules[] = {
    {"RC01", CHECK_ERROR,
	"retries multiply", "each layer repeats all that the layers inside it repeat; when the callee is down, this is its load times the product"},
    {"RC02", CHECK_ERROR, "every operation is repeated",
	"a write whose reply was lost may have been executed; the second one executes it again"},
    {"RC03", CHECK_WARNING, "a wait that is not made", "retries without a wait hit a callee that has had no time to recover"},
    {"RC04", CHECK_WARNING, "a switch that does nothing", "what holds is not what is written"},
    {"RC05", CHECK_WARNING, "keys that nobody reads", "what holds are the defaults, not what is written"},
    {"RC06", CHECK_ERROR, "the TimeLimiter ends the retries",
	"its time is over before the retries are: the caller gets a timeout, and the requests go on for nobody"},
    {"RC07", CHECK_WARNING, "a timeout is not set", "one slow callee holds the caller's threads for the default, which is long"},
    {"RC08", CHECK_WARNING, "an instance of resilience4j that nothing uses",
	"the client runs with the defaults, not with what is written"},
    {"RC09", CHECK_WARNING, "breaker and retry stand in each other's way",
	"what protects the callee sees too little, or is asked in vain"},
    {"RC10", CHECK_WARNING, "a library repeats by itself",
	"nobody configured these retries, and they multiply with those that somebody did"},
    {"RC11", CHECK_WARNING, "failures that should not be repeated",
	"what fails for a reason fails again, and costs the callee each time"},
    {"RC12", CHECK_INFO, "a retryer is named", "its numbers stand in code, not here"},
    {"RC13", CHECK_WARNING, "more tries than instances",
	"LoadBalancer avoids the instance tried last and no other: it returns to one that has failed"},
    {"RC14", CHECK_ERROR, "rea refuses this policy",
	"a program that runs keeps its last good configuration, and one that starts does not start"},
    {"RC15", CHECK_WARNING, "one number, two meanings",
	"attempts count the first request, retries do not: the same number is not the same load"},
    {"RC16", CHECK_WARNING, "settings of a load balancer that is not there", "what holds is not what is written"},
    {"RC17", CHECK_WARNING, "a route is repeated twice", "the two multiply when the service is down"},
    {"RC18", CHECK_WARNING, "retries that came along",
	"nobody decided that calls are repeated, and the next upgrade may end it"},
    {"RC19", CHECK_ERROR, "a value that cannot be read", "the program that reads it refuses it, or takes something else for it"},
    {"RC20", CHECK_ERROR,
	"timeouts in the wrong order", "an attempt has to end before all attempts, those before a limit around them, and that before the caller gives up; else work goes on for nobody"},
    {"RC21", CHECK_WARNING, "retries take too long",
	"who waits longer than three attempts takes has given up, or waits in a queue that grows"},
    {"RC22", CHECK_ERROR,
	"writes are repeated without a key", "a write whose reply was lost may have been executed; without an Idempotency-Key the callee cannot tell the second from a new one"},
    {"RC23", CHECK_ERROR, "retries multiply across hops",
	"each hop repeats all that the hops behind it repeat; the last one gets the product"},
    {"RC24", CHECK_WARNING, "retries without a bound",
	"nothing stops retries when every request fails, and that is when they do harm"},
    {"RC25", CHECK_WARNING, "a setting that does nothing", "what holds is not what is written"},
    {"RC26", CHECK_INFO, "a value from elsewhere", "it is not guessed"},
    {"RC27", CHECK_WARNING, "nobody is verified", "TLS keeps out who listens, and not who answers in a service's place"},
};
const size_t check_rules_len = sizeof(check_rules) / sizeof(check_rules[0]);

/* ------------------------------------------------------------------ in words */

static const char *or_profile(struct check *check, const struct check_target *target)
{
	return target->profile[0] != '\0'
		   ? check_text(check, " (profile %s)", check_shown(check, rea_slice_of(target->profile)))
		   : "";
}

static const char *title(struct check *check, const struct check_target *target)
{
	return check_text(check, "%s %s%s", target->kind, target->name, or_profile(check, target));
}

/* "Feign Retryer 5 x LoadBalancer retry 2" */
static const char *product(
    struct check *check, const struct check_target *target, enum check_failure failure, enum check_method method)
{
	const char *text = "";

	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner)
		if (layer->most[failure][method] > 1)
			text = check_text(check, "%s%s%s %u", text, text[0] != '\0' ? " x " : "", layer->name,
			    layer->most[failure][method]);
	return text;
}

/* ------------------------------------------------------------------ one target */

/* What holds without a profile is not told once more for each. */
static struct check_finding *find(struct check *check, const char *rule, enum check_severity severity,
    struct check_place place, const struct check_target *target, const char *message, const char *instead)
{
	for (const struct check_finding *told = check->findings; told != NULL && target->profile[0] != '\0'; told = told->next)
		if (strcmp(told->rule->id, rule) == 0 && told->place.file == place.file && told->place.line == place.line &&
		    told->place.column == place.column && strcmp(told->subject, target->name) == 0)
			return NULL;
	return check_find(check, rule, severity, place, target->name, message, instead);
}

/* The cell with the most requests; the first of equals. */
static void worst_cell(const struct check_target *target, enum check_failure *ret_failure, enum check_method *ret_method)
{
	uint64_t worst = 0;

	for (int failure = 0; failure < CHECK_FAILURES; failure++)
		for (int method = 0; method < CHECK_METHODS; method++) {
			uint64_t requests =
			    check_requests_most(target, (enum check_failure)failure, (enum check_method)method);

			if (requests > worst) {
				worst = requests;
				*ret_failure = (enum check_failure)failure;
				*ret_method = (enum check_method)method;
			}
		}
}

static const struct check_layer *written_layer(
    const struct check_target *target, enum check_failure failure, enum check_method method)
{
	const struct check_layer *best = NULL;

	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner)
		if (layer->most[failure][method] > 1 && layer->place.line > 0 &&
		    (best == NULL || (layer->written && !best->written)))
			best = layer;
	return best;
}

/* Layers that somebody configured, or that are there by default, and that repeat on this. */
static size_t active_layers(const struct check_target *target, enum check_failure failure, enum check_method method, bool least)
{
	size_t count = 0;

	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner)
		count += !layer->hidden && (least ? layer->least : layer->most)[failure][method] > 1;
	return count;
}

static void rc01(struct check *check, const struct check_target *target)
{
	enum check_failure failure = CHECK_ON_CONNECT, stacked = CHECK_ON_CONNECT;
	enum check_method method = CHECK_GET, stacked_method = CHECK_GET;
	const struct check_layer *layer;
	bool certain = false, too_many, two = false;
	uint64_t requests;

	worst_cell(target, &failure, &method);
	requests = check_requests_most(target, failure, method);
	too_many = requests > check->options.product_max;
	if (too_many)
		certain = check_requests_least(target, failure, method) > check->options.product_max;
	for (int f = 0; f < CHECK_FAILURES; f++)
		for (int m = 0; m < CHECK_METHODS; m++) {
			enum check_failure on = (enum check_failure)f;
			enum check_method of = (enum check_method)m;

			if (active_layers(target, on, of, false) > 1 && !two) {
				two = true;
				stacked = on;
				stacked_method = of;
			}
			certain = certain || active_layers(target, on, of, true) > 1;
		}
	if (!too_many && two) {
		failure = stacked;
		method = stacked_method;
		requests = check_requests_most(target, failure, method);
	}
	if (!too_many && !two)
		return;
	layer = written_layer(target, failure, method);
	find(check, "RC01", certain ? CHECK_ERROR : CHECK_WARNING, layer ? layer->place : target->place, target,
	    check_text(check, "%s: one %s becomes %s%llu requests when %s: %s", title(check, target),
		target->app->kind == CHECK_KIND_GRPC ? "call" : check_method_name(method), certain ? "" : "up to ",
		(unsigned long long)requests, check_failure_english(failure), product(check, target, failure, method)),
	    two ? "one layer that repeats, the one that knows what may be repeated; the others turned off"
		: check_text(check, "fewer retries: %u requests for one call at most", check->options.product_max));
}

/* Where writes may be executed twice. */
static void rc22(struct check *check, const struct check_target *target)
{
	if (target->keyed || target->read_only || check_writes_declared(check, target->service))
		return;
	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner) {
		int failure = 0;
		struct check_finding *finding;
		bool certain;

		while (failure < CHECK_FAILURES &&
		       !(CHECK_BIT(failure) & CHECK_ON_EXECUTED && layer->most[failure][CHECK_POST] > 1))
			failure++;
		if (failure == CHECK_FAILURES || layer->hidden || layer->place.line == 0)
			continue;
		certain = layer->least[failure][CHECK_POST] > 1 && target->app->kind != CHECK_KIND_GRPC;
		finding = find(check, "RC22", certain ? CHECK_ERROR : CHECK_WARNING, layer->place, target,
		    check_text(check, "%s: %s repeats %s when %s, and it may have been executed", title(check, target),
			layer->name, target->app->kind == CHECK_KIND_GRPC ? "every call" : "a POST",
			check_failure_english((enum check_failure)failure)),
		    "repeat reads alone, or send an Idempotency-Key that is the same on every attempt and that the "
		    "callee heeds");
		if (layer->safer_old != NULL && layer->safer_new != NULL)
			check_correct(check, finding, layer->safer_place, layer->safer_old, layer->safer_new);
		else if (layer->safer_new != NULL)
			check_line_below(check, finding, layer->safer_place, layer->safer_new);
		return;
	}
}

/* What is inside a layer, without its own limit on all of it. */
static uint64_t time_of_all(const struct check_target *target, const struct check_layer *layer)
{
	struct check_layer open = *layer;
	struct check_target inside = *target;

	open.total_ns = REA_NEVER;
	inside.layers = &open;
	return check_time_worst(&inside);
}

static void limits(struct check *check, const struct check_target *target)
{
	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner) {
		uint64_t all = time_of_all(target, layer);
		bool limiter = strcmp(layer->name, "TimeLimiter") == 0;

		if (layer->total_ns == REA_NEVER || layer->deadline || all <= layer->total_ns)
			continue;
		/* A limit around a single request is what limits are for. */
		if (!limiter && check_layer_requests(layer) == 1)
			continue;
		find(check, limiter ? "RC06" : "RC20", all == REA_NEVER ? CHECK_WARNING : CHECK_ERROR,
		    layer->total_place, target,
		    all == REA_NEVER
			? check_text(check, "%s: one attempt has no limit of its own, so the first can use up all of the %s",
			      title(check, target), check_time_text(check, layer->total_ns))
			: check_text(check, "%s: all its attempts and waits take up to %s, but %s ends them after %s%s",
			      title(check, target), check_time_text(check, all), limiter ? "the TimeLimiter" : "its timeout",
			      check_time_text(check, layer->total_ns), limiter && !layer->written ? ", its default" : ""),
		    all == REA_NEVER
			? "a timeout for one attempt, so that all of them together fit"
			: check_text(check, "shorter timeouts or fewer retries, so that they fit into %s; or, if the caller waits that long, a limit above %s",
			      check_time_text(check, layer->total_ns), check_time_text(check, all)));
	}
}

static void rc21(struct check *check, const struct check_target *target)
{
	uint64_t attempt = check_attempt_time(target), all = check_time_configured(target);
	const struct check_layer *layer;
	enum check_failure failure = CHECK_ON_CONNECT;
	enum check_method method = CHECK_GET;

	worst_cell(target, &failure, &method);
	layer = written_layer(target, failure, method);
	if (attempt == REA_NEVER || all <= rea_time_mul(attempt, 3))
		return;
	find(check, "RC21", CHECK_WARNING, layer ? layer->place : target->place, target,
	    check_text(check, "%s: one attempt takes up to %s, all of them up to %s", title(check, target),
		check_time_text(check, attempt), check_time_text(check, all)),
	    check_text(check, "fewer retries or shorter waits: %s in all at most",
		check_time_text(check, rea_time_mul(attempt, 3))));
}

/* ------------------------------------------------------------------ one file */

static void rc15(struct check *check, const struct check_app *app)
{
	for (const struct check_target *a = app->targets; a != NULL; a = a->next)
		for (const struct check_layer *one = a->layers; one != NULL; one = one->inner) {
			if (!one->written || !one->counts_retries || one->number < 2 || one->key == NULL)
				continue;
			for (const struct check_target *b = app->targets; b != NULL; b = b->next)
				for (const struct check_layer *other = b->layers; other != NULL; other = other->inner)
					if (other->written && !other->counts_retries && other->key != NULL &&
					    other->number == one->number && other->place.file == one->place.file)
						check_find(check, "RC15", CHECK_WARNING, one->place, "",
						    check_text(check, "%s: %u makes %u requests, %s: %u on line %u makes %u",
							one->key, one->number, one->number + 1, other->key,
							other->number, other->place.line, other->number),
						    "numbers that make the same number of requests, or a comment that "
						    "says what each counts");
		}
}

/* What the clients that have the config repeat, rea repeats once more. */
static void rc17_grpc(struct check *check, const struct check_target *target)
{
	for (const struct check_app *app = check->apps; app != NULL && target->grpc_requests > 1; app = app->next) {
		uint64_t requests = 1;

		if (app->kind != CHECK_KIND_GRPC || strcmp(app->path, target->grpc_config) != 0)
			continue;
		for (const struct check_target *method = app->targets; method != NULL; method = method->next)
			requests = rea_time_max(requests, check_requests_worst(method));
		if (requests > 1)
			check_find(check, "RC17", CHECK_WARNING, target->grpc_place, target->name,
			    check_text(check,
				"service %s: rea makes up to %u requests of each that it gets, and a client with the "
				"same config "
				"makes up to %llu of one call: together %llu",
				target->name, target->grpc_requests, (unsigned long long)requests,
				(unsigned long long)rea_time_mul(requests, target->grpc_requests)),
			    "the config here alone, and clients that do not repeat (grpc.enable_retries=0, "
			    "disableRetry)");
	}
}

/* ------------------------------------------------------------------ hops */

uint64_t check_chain_requests(const struct check_chain *chain, enum check_failure failure, enum check_method method)
{
	uint64_t product = 1;

	for (size_t i = 0; i < chain->apps_len; i++) {
		if (chain->targets[i] != NULL)
			product = rea_time_mul(product, check_requests_most(chain->targets[i], failure, method));
	}
	return product;
}

static const struct check_target *worst_target(const struct check_app *app)
{
	const struct check_target *worst = NULL;

	/* One with a name makes calls for certain; "(every other)" does so only where there is another. */
	for (const struct check_target *target = app->targets; target != NULL; target = target->next)
		if (worst == NULL || (worst->service[0] == '\0' && target->service[0] != '\0') ||
		    ((worst->service[0] == '\0') == (target->service[0] == '\0') &&
			check_requests_worst(target) > check_requests_worst(worst)))
			worst = target;
	return worst;
}

/* "order-service", "order-service.shop.svc.cluster.local" and "orderservice" are one name. */
static bool is_service(const char *service, const char *name)
{
	size_t length = strcspn(service, ".");

	return length > 0 && check_same_name(rea_slice_make(service, length), rea_slice_make(name, strcspn(name, ".")));
}

static void resolve_chain(struct check_chain *chain)
{
	for (size_t i = 0; i < chain->apps_len; i++) {
		const struct check_target *any = NULL, *named = NULL;

		for (const struct check_target *target = chain->apps[i]->targets;
		     target != NULL && i + 1 < chain->apps_len; target = target->next)
			if (is_service(target->service, chain->apps[i + 1]->name))
				named = named ? named : target;
			else if (target->service[0] == '\0')
				any = any ? any : target;
		chain->targets[i] = named ? named : any ? any : worst_target(chain->apps[i]);
		chain->hops[i] = chain->targets[i] == NULL  ? CHECK_HOP_NONE
				 : i + 1 == chain->apps_len ? CHECK_HOP_LAST
				 : named != NULL            ? CHECK_HOP_NAMED
				 : any != NULL              ? CHECK_HOP_GENERAL
							    : CHECK_HOP_WORST;
	}
}

const char *check_chain_hop(struct check *check, const struct check_chain *chain, size_t hop)
{
	const struct check_target *target = chain->targets[hop];
	const char *name = chain->apps[hop]->name, *taken;

	if (target == NULL)
		return check_text(check, "%s makes no calls", name);
	taken = check_text(check, "%s by its %s %s", name, target->kind, target->name);
	switch (chain->hops[hop]) {
	case CHECK_HOP_GENERAL:
		return check_text(check, "%s, as nothing of it is named %s", taken, chain->apps[hop + 1]->name);
	case CHECK_HOP_WORST:
		return check_text(check, "%s, the worst that it has, as nothing of it is named %s", taken,
		    chain->apps[hop + 1]->name);
	case CHECK_HOP_LAST:
		return check_text(check, "%s, the worst that it has", taken);
	case CHECK_HOP_NAMED:
	case CHECK_HOP_NONE:
		break;
	}
	return taken;
}

static void rc23(struct check *check, const struct check_chain *chain)
{
	uint64_t worst = 1;
	int failure = 0, method = 0;
	size_t hops = 0;
	const char *text = "";

	for (int f = 0; f < CHECK_FAILURES; f++)
		for (int m = 0; m < CHECK_METHODS; m++) {
			uint64_t requests = check_chain_requests(chain, (enum check_failure)f, (enum check_method)m);

			if (requests > worst) {
				worst = requests;
				failure = f;
				method = m;
			}
		}
	for (size_t i = 0; i < chain->apps_len; i++) {
		const struct check_target *target = chain->targets[i];
		uint64_t requests =
		    target ? check_requests_most(target, (enum check_failure)failure, (enum check_method)method) : 1;

		hops += target != NULL &&
			active_layers(target, (enum check_failure)failure, (enum check_method)method, false) > 0;
		text = check_text(
		    check, "%s%s%s %llu", text, i > 0 ? " x " : "", chain->apps[i]->name, (unsigned long long)requests);
	}
	if (worst <= check->options.product_max || hops < 2)
		return;
	check_find(check, "RC23", CHECK_ERROR, chain->targets[0] ? chain->targets[0]->place : chain->apps[0]->place, "",
	    check_text(check, "%s: one %s becomes %llu requests behind %s when %s: %s", chain->text,
		check_method_name((enum check_method)method), (unsigned long long)worst,
		chain->apps[chain->apps_len - 1]->name, check_failure_english((enum check_failure)failure), text),
	    "retries at one hop, the one nearest to what fails; the others pass the failure on (rea-retry: stop, "
	    "chain-stop)");
}

/* The caller of a hop waits at least as long as the hop works. */
static void rc20_hops(struct check *check, const struct check_chain *chain)
{
	for (size_t i = 0; i + 1 < chain->apps_len; i++) {
		const struct check_target *caller = chain->targets[i], *callee = chain->targets[i + 1];
		uint64_t waits, works;

		if (caller == NULL || callee == NULL)
			continue;
		waits = check_attempt_time(caller);
		works = check_time_configured(callee);
		if (works <= waits)
			continue;
		check_find(check, "RC20", CHECK_ERROR, caller->read_place.line > 0 ? caller->read_place : caller->place,
		    caller->name,
		    check_text(check, "%s gives up on %s after %s, while %s goes on up to %s behind it",
			chain->apps[i]->name, chain->apps[i + 1]->name, check_time_text(check, waits),
			chain->apps[i + 1]->name, check_time_text(check, works)),
		    works == REA_NEVER ? check_text(check, "a timeout in %s", chain->apps[i + 1]->name)
				       : check_text(check, "a timeout above %s here, or less time in %s",
					     check_time_text(check, works), chain->apps[i + 1]->name));
	}
}

/* ------------------------------------------------------------------ all */

/* A mesh repeats what its services send: its layers stand inside those of the client. */
static void add_mesh(struct check *check, struct check_target *target)
{
	for (const struct check_app *app = check->apps; app != NULL && target->service[0] != '\0'; app = app->next) {
		if (app->kind != CHECK_KIND_ISTIO && app->kind != CHECK_KIND_ENVOY)
			continue;
		for (const struct check_target *route = app->targets; route != NULL; route = route->next) {
			if (!is_service(route->service, target->service))
				continue;
			for (const struct check_layer *layer = route->layers; layer != NULL; layer = layer->inner) {
				struct check_layer *copy = check_layer_new(check, target, layer->name, layer->place);

				if (copy == NULL)
					return;
				*copy = *layer;
				copy->inner = NULL;
			}
			return;
		}
	}
}

void check_rules_run(struct check *check)
{
	for (struct check_app *app = check->apps; app != NULL; app = app->next)
		for (struct check_target *target = app->targets; target != NULL; target = target->next)
			if (app->kind == CHECK_KIND_SPRING || app->kind == CHECK_KIND_REA)
				add_mesh(check, target);
	for (struct check_chain *chain = check->chains; chain != NULL; chain = chain->next)
		resolve_chain(chain);
	if (check->error != 0)
		return;
	for (const struct check_app *app = check->apps; app != NULL; app = app->next) {
		for (const struct check_target *target = app->targets; target != NULL; target = target->next) {
			rc01(check, target);
			limits(check, target);
			rc21(check, target);
			rc22(check, target);
			rc17_grpc(check, target);
		}
		rc15(check, app);
	}
	for (const struct check_chain *chain = check->chains; chain != NULL; chain = chain->next) {
		rc23(check, chain);
		rc20_hops(check, chain);
	}
}
