/* Named sets of policy keys. */
#include "refusal.h"

#include <rea/time.h>

static struct rea_policy policy_of(struct rea_config *config, const char *service, const char *method)
{
	struct rea_policy policy;

	assert_int_equal(rea_config_policy(config, service, method, &policy), 0);
	return policy;
}

/* A layer's own keys override its profile's, and both override what is inherited. */
static void at_every_layer(void **state)
{
	struct rea_config *config =
	    parse("profiles:\n"
		  "  critical: {max-retry-next-instance: 4, mode: observe}\n"
		  "  quiet: {profile: critical, max-retry-next-instance: 0}\n" RETRY "      enabled: true\n"
		  "      profile: critical\n"
		  "      max-retry-next-instance: 2\n"
		  "      service-configs:\n"
		  "        a:\n"
		  "          profile: critical\n"
		  "          method-configs:\n"
		  "            m: {profile: quiet}\n"
		  "            n: {profile: quiet, max-retry-next-instance: 1}\n"
		  "            o: {profile: conservative}\n");

	(void)state;
	assert_int_equal(policy_of(config, NULL, NULL).max_retry_next_instance, 2);
	assert_int_equal(policy_of(config, NULL, NULL).mode, REA_MODE_OBSERVE);
	assert_int_equal(policy_of(config, "a", NULL).max_retry_next_instance, 4);
	assert_int_equal(policy_of(config, "a", "m").max_retry_next_instance, 0);
	assert_int_equal(policy_of(config, "a", "n").max_retry_next_instance, 1);
	/* The numbers of the table again, but for `enabled`. */
	assert_int_equal(policy_of(config, "a", "o").max_retry_next_instance, 1);
	assert_int_equal(policy_of(config, "a", "o").mode, REA_MODE_ENFORCE);
	assert_true(policy_of(config, "a", "o").enabled);
	rea_config_unref(config);
}

static void built_in(void **state)
{
	struct rea_config *config = parse(RETRY "      profile: adaptive\n"
						"      min-backoff-ms: 10\n"
						"      service-configs: {a: {profile: connect-only}}\n");
	struct rea_policy global = policy_of(config, NULL, NULL), service = policy_of(config, "a", NULL);

	(void)state;
	assert_int_equal(rea_policy_attempts(&global), 10);
	assert_int_equal(global.jitter_kind, REA_JITTER_FULL);
	assert_true(global.min_backoff_ns == 10 * REA_NS_PER_MS);
	assert_int_equal(service.retry_on, REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT));
	assert_int_equal(service.jitter_kind, REA_JITTER_FULL);
	rea_config_unref(config);
}

/* A jitter that was set for others does not forbid one service to be adaptive; its profile covers it. */
static void jitter_below_an_adaptive_service(void **state)
{
	struct rea_config *config = parse(RETRY "      jitter: 0.3\n"
						"      service-configs: {a: {profile: adaptive}}\n");

	(void)state;
	assert_true(policy_of(config, NULL, NULL).jitter == 0.3);
	assert_int_equal(policy_of(config, "a", NULL).jitter_kind, REA_JITTER_FULL);
	rea_config_unref(config);
}

/* `enabled: false` in a profile is an ordinary value: the master switch is what stands at the global layer itself. */
static void profile_is_no_master_switch(void **state)
{
	struct rea_config *config = parse("profiles: {off: {enabled: false}}\n" RETRY "      profile: off\n"
					  "      service-configs: {a: {enabled: true}}\n");

	(void)state;
	assert_false(policy_of(config, NULL, NULL).enabled);
	assert_true(policy_of(config, "a", NULL).enabled);
	rea_config_unref(config);
}

/* Eight profiles in a row are the limit; a ninth is refused below. */
static void longest_chain(void **state)
{
	struct rea_config *config =
	    parse("profiles: {b0: {mode: observe}, b1: {profile: b0}, b2: {profile: b1}, b3: {profile: b2}, b4: "
		  "{profile: b3}, "
		  "b5: {profile: b4}, b6: {profile: b5}, b7: {profile: b6}}\n" RETRY "      profile: b7\n"
		  "      service-configs: {a: {profile: b7, method-configs: {m: {profile: b7}}}}\n");

	(void)state;
	assert_int_equal(policy_of(config, "a", "m").mode, REA_MODE_OBSERVE);
	rea_config_unref(config);
}

static const struct refusal refusals[] = {
    {"profiles: [a]\n", REA_ERR_INVALID, 1, 11, "profiles", "expected a mapping of keys to values, got a list"},
    {"profiles: {adaptive: {}}\n", REA_ERR_INVALID, 1, 12,
	"profiles.adaptive", "adaptive is built in and cannot be changed: give yours another name and, if it should begin there, `profile: adaptive`"},
    {"profiles: {a: {profile: b}}\n", REA_ERR_INVALID, 1, 25, "profiles.a.profile", "there is no profile \"b\""},
    {"profiles: {a: {profile: adaptve}}\n", REA_ERR_INVALID, 1, 25, "profiles.a.profile",
	"there is no profile \"adaptve\"; did you mean adaptive?"},
    {"profiles: {a: {profile: a}}\n", REA_ERR_INVALID, 1, 25, "profiles.a.profile", "the profile a is based on itself"},
    {"profiles: {a: {profile: b}, b: {profile: c}, c: {profile: a}}\n", REA_ERR_INVALID, 1, 59, "profiles.c.profile",
	"the profile c is based on itself"},
    {"profiles: {a: {service-configs: {}}}\n", REA_ERR_INVALID, 1, 16, "profiles.a.service-configs",
	"service-configs stands directly under `retry`, and nowhere else"},
    {"profiles: {a: {method-configs: {}}}\n", REA_ERR_INVALID, 1, 16, "profiles.a.method-configs",
	"method-configs stands under service-configs.<service>, and nowhere else"},
    {"profiles: {a: {max-retrys: 2}}\n", REA_ERR_INVALID, 1, 16, "profiles.a.max-retrys",
	"a retry policy has no key \"max-retrys\""},
    {"profiles: {a: {jitter: 0}}\n", REA_ERR_INVALID, 1, 24, "profiles.a.jitter",
	"expected a number above 0 and at most 1, got \"0\"; it is a share of the wait, and cannot be turned off"},
    {"profiles: {a: {profile: }}\n", REA_ERR_INVALID, 1, 25, "profiles.a.profile",
	"expected the name of a profile, got nothing"},
    {"profiles: {\"\": {}}\n", REA_ERR_INVALID, 1, 12, "profiles.", "a profile needs a name"},
    {"profiles: {b0: {}, b1: {profile: b0}, b2: {profile: b1}, b3: {profile: b2}, b4: {profile: b3}, b5: {profile: "
     "b4}, b6: {profile: b5}, b7: {profile: b6}, b8: {profile: b7}}\n",
	REA_ERR_INVALID, 1, 167, "profiles.b8.profile", "more than 8 profiles are based on one another"},
    {"profiles: {full: {profile: adaptive, jitter: 0.3}}\nrpc: {feign: {retry: {profile: full}}}\n", REA_ERR_INVALID, 2,
	32, "rpc.feign.retry.profile", "`jitter` is not accepted under the profile adaptive, whose jitter is always full"},
    {"profiles: {slow: {attempt-timeout-ms: 5000}}\nrpc: {feign: {retry: {profile: slow}}}\n", REA_ERR_INVALID, 2, 32,
	"rpc.feign.retry.profile", "attempt-timeout-ms is 5000; it must be above 0 and at most 3000 (deadline-ms)"},
};

static void refused(void **state)
{
	(void)state;
	CHECK_REFUSALS(refusals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(at_every_layer),
	    cmocka_unit_test(built_in),
	    cmocka_unit_test(jitter_below_an_adaptive_service),
	    cmocka_unit_test(profile_is_no_master_switch),
	    cmocka_unit_test(longest_chain),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
