/*
 * The budget's rule `evidence`: each piece of evidence by its numbers, who is parked, and a naive reading of the formulas that knows no batches and no
 * slots, against which random services are played in virtual time.
 */
#include "core/evidence.h"

#include <rea/event.h>
#include <rea/random.h>
#include <rea/time.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

static const struct rea_budget_policy policy = {.rule = REA_BUDGET_EVIDENCE};
static struct rea_budget *budget;
static uint64_t now_ns;
static enum rea__budget_answer answer;
static struct rea_budget_lease lease;
static struct rea_evidence says;

static void begin(uint32_t shards)
{
	assert_int_equal(rea_budget_new(&policy, shards, NULL, &budget, NULL), 0);
	now_ns = S(1000);
	says = (struct rea_evidence){.kind = REA_EVIDENCE_NONE};
}

static int tear_down(void **state)
{
	(void)state;
	rea_budget_free(budget);
	budget = NULL;
	return 0;
}

static void first(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		rea_budget_deposit(budget, 0, now_ns);
}

static void end(enum rea_budget_result result, uint64_t latency_ns, uint32_t instance, uint32_t instances)
{
	const struct rea__budget_attempt attempt = {
	    .result = result, .latency_ns = latency_ns, .instance = instance, .instances = instances};

	rea__budget_report(budget, 0, &attempt, NULL, now_ns);
}

static void fails(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		end(REA_BUDGET_TRANSIENT, 0, 0, 1);
}

static void succeeds(uint32_t times, uint64_t latency_ns)
{
	for (uint32_t i = 0; i < times; i++)
		end(REA_BUDGET_SUCCESS, latency_ns, 0, 1);
}

static enum rea__budget_answer ask(const struct rea__budget_question *question)
{
	struct rea__budget_question asked = *question;

	asked.failure = REA_BUDGET_TRANSIENT;
	asked.instances = asked.instances == 0 ? 1 : asked.instances;
	answer = rea__budget_ask(budget, 0, &asked, now_ns, &lease, &says);
	return answer;
}

static bool take(void)
{
	return ask(&(struct rea__budget_question){.parked = false}) == REA__BUDGET_GRANTED;
}

/* What this thread has counted is part of the evidence from here on. */
static void bring_in(void)
{
	static const struct rea__budget_question nobody = {.failure = REA_BUDGET_TRANSIENT, .instances = 1};

	rea__budget_ask(budget, 0, &nobody, now_ns, NULL, &says);
}

static uint32_t drain(void)
{
	uint64_t promised;
	uint32_t taken = 0;

	bring_in();
	promised = rea_budget_available(budget, now_ns);
	while (take())
		taken++;
	assert_int_equal(taken, promised);
	return taken;
}

static void assert_says(const char *text)
{
	char said[REA_EVIDENCE_TEXT_MAX];

	assert_int_equal(rea_evidence_format(&says, said, sizeof(said)), strlen(text));
	assert_string_equal(said, text);
}

static struct rea_budget_view look(void)
{
	struct rea_budget_view view;

	bring_in();
	rea_budget_look(budget, now_ns, &view);
	return view;
}

/* Ten seconds of calls that take 10 ms each: the baseline. */
static void quiet_times(void)
{
	for (uint32_t i = 0; i < 120; i++) {
		now_ns += MS(100);
		succeeds(1, MS(10));
	}
	assert_true(fabs(look().baseline_ns / (double)MS(10) - 1) < 1.3e-4);
}

/* ---- what is always there ---- */

static void two_tokens_and_one_for_ten_first_attempts(void **state)
{
	(void)state;
	begin(1);
	fails(12);
	assert_true(fabs(look().success - pow(0.85, 12)) < 1e-12);
	assert_int_equal(drain(), 2);
	assert_says("success 14 %, tokens 0");
	first(9);
	assert_int_equal(drain(), 0);
	assert_says("success 14 %, tokens 0.9");
	first(1);
	assert_int_equal(drain(), 1);
	first(1000);
	assert_int_equal(drain(), 2);
	assert_says("success 14 %, tokens 0");
	rea_budget_refund(budget, &lease, now_ns);
	assert_int_equal(drain(), 1);
}

static void evidence_grants_two_for_each_first_attempt(void **state)
{
	(void)state;
	begin(1);
	fails(11); /* 0.85^11 is 16.7 % */
	assert_int_equal(drain(), 6);
	assert_says("6 retries in 2 s, tokens 0");
	first(3);
	assert_int_equal(drain(), 4);
	now_ns += MS(1900);
	assert_int_equal(drain(), 0);
	/* What was granted leaves the window, and the first attempts with it. */
	now_ns += MS(100);
	assert_int_equal(drain(), 4);
	rea_budget_refund(budget, &lease, now_ns);
	rea_budget_refund(budget, &lease, now_ns);
	assert_int_equal(drain(), 1);
}

static void a_reply_that_forbids_another_try_is_not_counted(void **state)
{
	const struct rea__budget_attempt stop = {.result = REA_BUDGET_TRANSIENT, .stop = true, .instances = 1};

	(void)state;
	begin(1);
	for (int i = 0; i < 100; i++)
		rea__budget_report(budget, 0, &stop, NULL, now_ns);
	end(REA_BUDGET_NEUTRAL, 0, 0, 1);
	assert_true(look().success == 1 && look().outcomes == 100);
}

/* ---- congestion ---- */

static void latency_above_the_baseline(void **state)
{
	(void)state;
	begin(1);
	succeeds(1000, MS(500));
	assert_true(look().baseline_ns == 0 && look().congested_ns == 0);
	tear_down(NULL);
	begin(1);
	quiet_times();
	assert_true(fabs(look().latency_ratio_max - 2) < 1e-9);
	/* ln 3 · (1 - 0.88^n) passes ln 2 with the eighth. */
	succeeds(7, MS(30));
	assert_true(look().congested_ns == 0);
	succeeds(1, MS(30));
	assert_true(look().congested_ns == MS(300));
	assert_int_equal(drain(), 2);
	assert_says("latency 2x baseline, tokens 0");
	succeeds(20, MS(30));
	assert_int_equal(drain(), 0);
	assert_says("latency 2.9x baseline, tokens 0");
	/* Good calls bring the average down; 300 ms after the last that was above it is over. */
	succeeds(30, MS(10));
	now_ns += MS(299);
	assert_int_equal(drain(), 0);
	now_ns += MS(1);
	assert_true(look().congested_ns == 0);
	assert_true(take());
}

static void scatter_widens_the_band(void **state)
{
	(void)state;
	begin(1);
	for (uint32_t i = 0; i < 240; i++) {
		now_ns += MS(50);
		succeeds(1, i % 2 ? MS(1) : MS(100));
	}
	/* ln 1 ms and ln 100 ms: a standard deviation of 2.30. */
	assert_true(fabs(log(look().latency_ratio_max) - 4.5 * log(100) / 2 * sqrt(0.12 / 1.88)) < 0.02);
}

static void timeouts_on_most_instances(void **state)
{
	(void)state;
	begin(1);
	succeeds(3, MS(1));
	for (uint32_t i = 0; i < 4; i++)
		end(REA_BUDGET_TIMEOUT, 0, i % 2, 3);
	assert_true(look().congested_ns == 0); /* 7 outcomes */
	end(REA_BUDGET_TIMEOUT, 0, 0, 3);
	assert_true(look().congested_ns == MS(300)); /* 5 of 8, on 2 of 3 */
	assert_int_equal(drain(), 2);
	assert_says("timeouts 63 %, tokens 0");
	tear_down(NULL);
	/* One sick instance is no congestion. */
	begin(1);
	for (uint32_t i = 0; i < 20; i++)
		end(REA_BUDGET_TIMEOUT, 0, 1, 3);
	assert_true(look().congested_ns == 0);
	tear_down(NULL);
	/* Half of them are not most of them. */
	begin(1);
	for (uint32_t i = 0; i < 20; i++)
		end(REA_BUDGET_TIMEOUT, 0, i % 2, 4);
	assert_true(look().congested_ns == 0);
	end(REA_BUDGET_TIMEOUT, 0, 2, 4);
	assert_true(look().congested_ns == MS(300));
	tear_down(NULL);
	/* Half as many will do if the latency rises as well: 0.6 of its band. */
	begin(1);
	quiet_times();
	end(REA_BUDGET_TIMEOUT, 0, 0, 1);
	end(REA_BUDGET_TIMEOUT, 0, 0, 1);
	now_ns += MS(100);
	succeeds(4, MS(30)); /* ln 3 · (1 - 0.88^4) = 0.44 > 0.416 */
	assert_true(look().congested_ns == MS(300));
}

static void pushback_says_it_all(void **state)
{
	(void)state;
	begin(1);
	end(REA_BUDGET_THROTTLING, 0, 0, 1);
	assert_int_equal(drain(), 2);
	assert_says("pushback 10 %, tokens 0");
	/* 0.1 · 0.9^7 is below 5 %. */
	succeeds(6, MS(1));
	assert_true(look().pushback > 0.05);
	succeeds(1, MS(1));
	assert_true(look().pushback < 0.05);
}

/* ---- who waits ---- */

static const struct rea__budget_question hopeful = {.park_max_ns = MS(1000)};

static void parks_while_there_is_hope(void **state)
{
	struct rea__budget_question question = hopeful;

	(void)state;
	begin(1);
	succeeds(1, MS(1));
	fails(12);
	assert_int_equal(drain(), 2);
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	/* It has been parked as long as it may. */
	question.parked = question.spread = true;
	question.parked_ns = now_ns - MS(1000);
	assert_int_equal(ask(&question), REA__BUDGET_REFUSED);
	/* Nothing has succeeded for as long: newcomers are not parked. */
	now_ns += MS(999);
	assert_int_equal(ask(&hopeful), REA__BUDGET_PARK);
	now_ns += MS(1);
	assert_int_equal(ask(&hopeful), REA__BUDGET_REFUSED);
	assert_says("success 14 %, tokens 0");
	/* Congestion alone is hope enough. */
	succeeds(3, MS(1));
	end(REA_BUDGET_THROTTLING, 0, 0, 1);
	now_ns += MS(299);
	assert_int_equal(ask(&hopeful), REA__BUDGET_PARK);
	assert_says("pushback 10 %, tokens 0");
	/* Who cannot be parked, and whom the callee sends away, is not. */
	assert_int_equal(ask(&(struct rea__budget_question){.park_max_ns = 0}), REA__BUDGET_REFUSED);
	assert_int_equal(ask(&(struct rea__budget_question){.pushback = true, .park_max_ns = MS(1000)}), REA__BUDGET_REFUSED);
}

static void unreachable_instances_mean_dead(void **state)
{
	struct rea__budget_question question = hopeful;

	(void)state;
	begin(1);
	question.instances = 5;
	question.refused_by = 2;
	assert_int_equal(ask(&question), REA__BUDGET_GRANTED);
	assert_int_equal(lease.cost, 0);
	question.refused_by = 3;
	assert_int_equal(ask(&question), REA__BUDGET_GRANTED);
	assert_int_equal(lease.cost, 1);
	assert_int_equal(ask(&question), REA__BUDGET_GRANTED);
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	assert_says("unreachable at 3 instances, tokens 0");
	question.instances = question.refused_by = 1;
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	assert_says("unreachable at 1 instance, tokens 0");
}

static void the_backlog_spreads(void **state)
{
	struct rea__budget_question question = hopeful;

	(void)state;
	begin(1);
	fails(12);
	drain();
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	question.parked = true;
	question.parked_ns = now_ns;
	now_ns += MS(250);
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	now_ns += MS(90);
	succeeds(1, MS(1));
	assert_int_equal(ask(&question), REA__BUDGET_SPREAD);
	assert_says("recovering after 340 ms");
	question.spread = true;
	assert_int_equal(ask(&question), REA__BUDGET_GRANTED);
	/* A service that was alive all the time has no backlog. */
	tear_down(NULL);
	begin(1);
	end(REA_BUDGET_THROTTLING, 0, 0, 1);
	drain();
	question = hopeful;
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	question.parked = true;
	question.parked_ns = now_ns;
	now_ns += MS(300);
	succeeds(1, MS(1));
	succeeds(10, MS(1));
	now_ns += MS(300);
	assert_int_equal(ask(&question), REA__BUDGET_GRANTED);
}

/* Who has reached nobody yet comes once though the service is slow, when the others have gone first. */
static void the_backlog_comes_in_spite_of_congestion(void **state)
{
	struct rea__budget_question question = hopeful;

	(void)state;
	begin(1);
	first(20);
	end(REA_BUDGET_TRANSIENT, 0, 0, 1);
	question.parked = true;
	question.parked_ns = now_ns;
	question.refused_by = 1;
	now_ns += MS(300);
	succeeds(10, MS(1));
	for (int i = 0; i < 20; i++)
		end(REA_BUDGET_TIMEOUT, 0, 0, 1);
	succeeds(5, MS(1));
	drain();
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	assert_int_equal(says.kind, REA_EVIDENCE_TIMEOUTS);
	question.spread = true;
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	question.unserved = true;
	assert_int_equal(ask(&question), REA__BUDGET_GRANTED);
	assert_int_equal(lease.cost, 0);
	/* Not before life returned, ... */
	question.parked_ns = now_ns;
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	question.parked_ns = now_ns - MS(300);
	question.spread = false;
	assert_int_equal(ask(&question), REA__BUDGET_SPREAD);
	question.spread = true;
	/* ... not beyond two retries for each first attempt, ... */
	for (uint32_t i = 1; i < 2 * (20 + 2) - 2; i++)
		assert_int_equal(ask(&question), REA__BUDGET_GRANTED);
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	/* ... and not where everything fails. */
	first(20);
	assert_int_equal(ask(&question), REA__BUDGET_GRANTED);
	fails(10);
	while (take())
		;
	assert_int_equal(ask(&question), REA__BUDGET_PARK);
	assert_int_equal(says.kind, REA_EVIDENCE_SUCCESS);
}

/* ---- the logarithm ---- */

static void a_logarithm_that_is_near_enough(void **state)
{
	double last = -1, worst = 0;

	(void)state;
	assert_true(rea__evidence_log(1) == 0);
	for (uint64_t x = 1; x <= UINT64_C(1) << 62; x += 1 + x / 997) {
		double value = rea__evidence_log(x);

		assert_true(value > last);
		worst = fmax(worst, fabs(value - log((double)x)));
		last = value;
	}
	assert_true(worst > 1e-4 && worst < 1.3e-4);
	for (int i = 0; i < 64; i++)
		assert_true(fabs(rea__evidence_log(UINT64_C(1) << i) - i * log(2)) < 1e-7);
	assert_true(fabs(rea__evidence_log(UINT64_MAX) - 64 * log(2)) < 1e-7);
}

/* ---- a new rule begins anew, the same one goes on ---- */

static void a_reload_keeps_what_was_seen(void **state)
{
	struct rea_budget_policy ratio = {.rule = REA_BUDGET_RATIO, .reserve_per_s = 1, .window_ms = 1000};

	(void)state;
	begin(1);
	first(5);
	fails(12);
	drain();
	rea_budget_configure(budget, &policy);
	assert_true(look().success < 0.15);
	assert_false(take());
	rea_budget_configure(budget, &ratio);
	assert_true(take());
	rea_budget_configure(budget, &policy);
	assert_true(look().success == 1 && look().tokens == 2 && look().first_attempts == 0);
	succeeds(1, MS(1));
	assert_true(look().success == 1 && look().outcomes == 1);
}

static void the_words(void **state)
{
	const struct {
		struct rea_evidence evidence;
		const char *text;
	} rows[] = {
	    {{REA_EVIDENCE_NONE, 1, 1}, ""},
	    {{REA_EVIDENCE_TOKENS, 0, 0}, "tokens 0"},
	    {{REA_EVIDENCE_TOKENS, 4.96, 0}, "tokens 4.9"},
	    {{REA_EVIDENCE_LATENCY, 2.34, 0.999}, "latency 2.3x baseline, tokens 0.9"},
	    {{REA_EVIDENCE_TIMEOUTS, 0.6, 0}, "timeouts 60 %, tokens 0"},
	    {{REA_EVIDENCE_PUSHBACK, 0.12, 0}, "pushback 12 %, tokens 0"},
	    {{REA_EVIDENCE_SUCCESS, 0.09, 0.4}, "success 9 %, tokens 0.4"},
	    {{REA_EVIDENCE_DEAD, 1, 0}, "unreachable at 1 instance, tokens 0"},
	    {{REA_EVIDENCE_RETRIES, 24, 0}, "24 retries in 2 s, tokens 0"},
	    {{REA_EVIDENCE_RECOVERING, 7e7, 0}, "recovering after 70 ms"},
	    {{REA_EVIDENCE_PARKED, 1000, 0}, "1000 calls parked"},
	};
	char small[8];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		says = rows[i].evidence;
		assert_says(rows[i].text);
	}
	assert_int_equal(rea_evidence_format(&rows[4].evidence, small, sizeof(small)), 23);
	assert_string_equal(small, "timeout");
}

/* ---- the formulas, read naively ---- */

enum { THINGS = 200000 };
enum { FIRST, RETRY, OUTCOME, TIMED_OUT };

struct thing {
	uint64_t at_ns;
	int what;
	uint32_t instance;
};

static struct model {
	struct thing things[THINGS];
	size_t len, from;
	double tokens, s, p, l, b, v, theta, means[THINGS / 20];
	size_t means_len;
	double xs[THINGS], calm[THINGS]; /* of the slice */
	size_t xs_len, calm_len;
	uint64_t slice_ns, congested_ns, last_ok_ns;
	double centre;
	bool measured;
	uint64_t slot;
	double news; /* a latency above it is brought in at once */
} model;

static void note(int what, uint32_t instance)
{
	assert_true(model.len < THINGS);
	model.things[model.len++] = (struct thing){now_ns, what, instance};
}

static uint32_t count(int what)
{
	uint32_t counted = 0;

	for (size_t i = model.len; i-- > 0 && model.things[i].at_ns / MS(100) + 20 > now_ns / MS(100);)
		counted += model.things[i].what == what;
	return counted;
}

static uint32_t timed_out_instances(void)
{
	uint32_t set = 0, counted = 0;

	for (size_t i = model.len; i-- > 0 && model.things[i].at_ns / MS(100) + 20 > now_ns / MS(100);)
		if (model.things[i].what == TIMED_OUT)
			set |= UINT32_C(1) << model.things[i].instance;
	for (; set != 0; set &= set - 1)
		counted++;
	return counted;
}

static bool timeouts_everywhere(void)
{
	return count(OUTCOME) >= 8 && count(TIMED_OUT) > 0.05 * count(OUTCOME) && 2 * timed_out_instances() > 3;
}

static void model_tell(void)
{
	if (model.p > 0.05 || (timeouts_everywhere() && count(TIMED_OUT) > 0.5 * count(OUTCOME)))
		model.news = -INFINITY;
	else
		model.news = model.means_len >= 2 ? model.b + (timeouts_everywhere() ? 0.6 : 1) * model.theta : INFINITY;
}

/* Slices end when a batch is brought in: with the first thing in another tenth of a second, with a failure, when somebody asks, or with news. */
static void model_merge(void)
{
	double mean = 0, calm_mean = 0, variance = 0, low = INFINITY, next = INFINITY;

	model.slot = now_ns / MS(100);
	if (model.xs_len < 20 || now_ns - model.slice_ns < S(5)) {
		model_tell();
		return;
	}
	for (size_t i = 0; i < model.xs_len; i++)
		mean += model.xs[i] / (double)model.xs_len;
	for (size_t i = 0; i < model.calm_len; i++)
		calm_mean += model.calm[i] / (double)model.calm_len;
	for (size_t i = 0; i < model.calm_len; i++)
		variance += pow(model.calm[i] - calm_mean, 2) / (double)model.calm_len;
	if (model.calm_len >= 20)
		model.v = model.means_len == 0 ? variance : model.v + 0.25 * (variance - model.v);
	model.centre = mean;
	model.means[model.means_len++] = mean;
	for (size_t i = model.means_len > 12 ? model.means_len - 12 : 0; i < model.means_len; i++) {
		next = fmin(next, fmax(low, model.means[i]));
		low = fmin(low, model.means[i]);
	}
	model.b = next;
	model.theta = fmax(log(2), 4.5 * sqrt(model.v * 0.12 / 1.88));
	model.slice_ns = now_ns;
	model.xs_len = model.calm_len = 0;
	model_tell();
}

static void model_judge(void)
{
	double excess = model.means_len >= 2 ? model.l - model.b : 0;

	if ((model.means_len >= 2 && excess > model.theta) ||
	    (timeouts_everywhere() &&
		(count(TIMED_OUT) > 0.5 * count(OUTCOME) || (model.means_len >= 2 && excess > 0.6 * model.theta))) ||
	    model.p > 0.05)
		model.congested_ns = now_ns + MS(300);
}

static void model_ok(uint64_t latency_ns)
{
	double x = rea__evidence_log(latency_ns), clip = model.means_len > 0 ? 2.5 * sqrt(model.v) : INFINITY;

	note(OUTCOME, 0);
	model.s += 0.15 * (1 - model.s);
	model.p -= 0.1 * model.p;
	model.last_ok_ns = now_ns;
	model.l = model.measured ? model.l + 0.12 * (x - model.l) : x;
	model.measured = true;
	model.xs[model.xs_len++] = x;
	if (now_ns >= model.congested_ns)
		model.calm[model.calm_len++] = fmin(fmax(x, model.centre - clip), model.centre + clip);
	model_judge();
	if (model.l > model.news)
		model_merge();
}

static void model_failure(enum rea_budget_result result, uint32_t instance)
{
	model_merge();
	note(OUTCOME, 0);
	if (result == REA_BUDGET_TIMEOUT)
		note(TIMED_OUT, instance);
	model.s -= 0.15 * model.s;
	model.p += 0.1 * ((result == REA_BUDGET_THROTTLING) - model.p);
	model_judge();
	model_tell();
}

/* Granted, and how; the invariants hold here or nowhere. */
static bool model_take(bool *ret_token)
{
	bool evidence = now_ns >= model.congested_ns && model.s >= 0.15 && count(RETRY) < 2 * (count(FIRST) + 2);

	*ret_token = !evidence;
	if (!evidence && model.tokens < 1 - 1e-9)
		return false;
	model.tokens -= !evidence;
	note(RETRY, 0);
	return true;
}

static void assert_near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-9 * (1 + fabs(b))))
		fail_msg("%.17g instead of %.17g at thing %zu", a, b, model.len);
}

/* A service that is well, slow, failing, timing out or pushing back for a while each. */
static void play(uint64_t seed)
{
	struct rea_random random;
	uint64_t mood = 0, firsts = 0, on_tokens = 0;

	rea_random_init(&random, seed);
	memset(&model, 0, sizeof(model));
	begin(1);
	model.tokens = 2;
	model.s = 1;
	model.slice_ns = now_ns;
	model.news = INFINITY;
	bring_in();
	for (int i = 0; i < 20000; i++) {
		uint64_t dice = rea_random_below(&random, 100), latency = MS(5) + rea_random_below(&random, MS(10));
		uint32_t instance = (uint32_t)rea_random_below(&random, 3);
		struct rea_budget_view view;
		bool token;

		if (rea_random_below(&random, 1500) == 0)
			mood = rea_random_below(&random, 5);
		now_ns += rea_random_below(&random, MS(10));
		if (model.slot != now_ns / MS(100))
			model_merge();
		if (dice < 50) {
			note(FIRST, 0);
			model.tokens = fmin(2, model.tokens + 0.1);
			firsts++;
			first(1);
		} else if (mood == 2 ? dice < 52 : mood == 0 || dice < 85) {
			latency *= mood == 1 ? 5 : 1;
			end(REA_BUDGET_SUCCESS, latency, 0, 3);
			model_ok(latency);
		} else {
			enum rea_budget_result result = mood == 3   ? REA_BUDGET_TIMEOUT
							: mood == 4 ? REA_BUDGET_THROTTLING
								    : REA_BUDGET_TRANSIENT;

			end(result, 0, instance, 3);
			model_failure(result, instance);
			model_merge();
			assert_int_equal(take(), model_take(&token));
			if (answer == REA__BUDGET_GRANTED) {
				assert_int_equal(lease.cost, token);
				on_tokens += token;
			}
		}
		rea_budget_look(budget, now_ns, &view);
		assert_true(on_tokens * 10 <= firsts + 20);
		if (dice >= 85 && mood != 0) {
			assert_near(view.success, model.s);
			assert_near(view.pushback, model.p);
			assert_near(view.tokens, model.tokens);
			assert_near(log(view.latency_ns), model.l);
			assert_int_equal(view.first_attempts, count(FIRST));
			assert_int_equal(view.retries, count(RETRY));
			assert_int_equal(view.outcomes, count(OUTCOME));
			assert_int_equal(view.timeouts, count(TIMED_OUT));
		}
	}
	assert_true(model.means_len > 5);
	tear_down(NULL);
}

static void every_service(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++)
		play(seed);
}

/* ---- threads bring their shards in one after the other ---- */

static void shards_add_up(void **state)
{
	const struct rea__budget_attempt ok = {.result = REA_BUDGET_SUCCESS, .latency_ns = MS(10), .instances = 1},
					 failure = {.result = REA_BUDGET_TRANSIENT, .instances = 1};
	struct rea_budget_view view;

	(void)state;
	begin(3);
	rea__budget_report(budget, 0, &failure, NULL, now_ns);
	for (uint32_t i = 0; i < 30; i++) {
		rea_budget_deposit(budget, i % 3, now_ns);
		rea__budget_report(budget, i % 3, &ok, NULL, now_ns);
	}
	/* Of shards 1 and 2 the first entries made them current; the rest waits for the next tenth of a second. */
	rea_budget_look(budget, now_ns, &view);
	assert_int_equal(view.first_attempts, 0);
	now_ns += MS(100);
	for (uint32_t i = 0; i < 3; i++)
		rea_budget_deposit(budget, i, now_ns);
	assert_int_equal(look().first_attempts, 31); /* and the latest of shard 0 */
	assert_int_equal(look().outcomes, 31);
	assert_true(fabs(look().success - (1 - 0.15 * pow(0.85, 30))) < 1e-12);
	assert_true(fabs(look().latency_ns / (double)MS(10) - 1) < 1.3e-4);
}

/* A slice ends while another thread still has samples whose deviations it took from the old slice's centre. */
static void a_slice_ends_under_a_batch(void **state)
{
	struct rea_budget_view view;
	uint64_t begun_ns;

	(void)state;
	begin(2);
	begun_ns = now_ns;
	for (uint32_t i = 0; i < 102; i++) {
		struct rea__budget_attempt ok = {
		    .result = REA_BUDGET_SUCCESS, .latency_ns = i % 2 ? MS(9) : MS(11), .instances = 1};

		now_ns = begun_ns + i * MS(100);
		rea__budget_report(budget, 0, &ok, NULL, now_ns);
		for (uint32_t k = 0; i == 49 && k < 30; k++)
			rea__budget_report(budget, 1, &ok, NULL, now_ns);
		if (i == 51)
			rea_budget_deposit(budget, 1, now_ns);
	}
	rea_budget_look(budget, now_ns, &view);
	assert_true(fabs(view.baseline_ns / (double)MS(10) - 1) < 0.1);
	assert_true(fabs(view.latency_ratio_max - 2) < 1e-9);
}

/* A thread that is behind the latest time brings nothing in until it has caught up: else it took the lock at every call. */
static void who_is_behind_is_not_due(void **state)
{
	struct rea__evidence_batch batch = {.slot = 1000};
	const uint64_t slot_ns = REA__EVIDENCE_SLOT_NS;

	(void)state;
	assert_true(rea__evidence_batch_due(&batch, 1000 * slot_ns)); /* never brought in */
	batch.generation = 1;
	assert_false(rea__evidence_batch_due(&batch, 900 * slot_ns));
	assert_false(rea__evidence_batch_due(&batch, 1001 * slot_ns - 1));
	assert_true(rea__evidence_batch_due(&batch, 1001 * slot_ns));
	/* The number wraps after 13 years. */
	batch.slot = UINT32_MAX;
	assert_false(rea__evidence_batch_due(&batch, UINT32_MAX * slot_ns));
	assert_true(rea__evidence_batch_due(&batch, (UINT64_C(1) << 32) * slot_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_is_behind_is_not_due),
	    cmocka_unit_test_teardown(two_tokens_and_one_for_ten_first_attempts, tear_down),
	    cmocka_unit_test_teardown(evidence_grants_two_for_each_first_attempt, tear_down),
	    cmocka_unit_test_teardown(a_reply_that_forbids_another_try_is_not_counted, tear_down),
	    cmocka_unit_test_teardown(latency_above_the_baseline, tear_down),
	    cmocka_unit_test_teardown(scatter_widens_the_band, tear_down),
	    cmocka_unit_test_teardown(timeouts_on_most_instances, tear_down),
	    cmocka_unit_test_teardown(pushback_says_it_all, tear_down),
	    cmocka_unit_test_teardown(parks_while_there_is_hope, tear_down),
	    cmocka_unit_test_teardown(unreachable_instances_mean_dead, tear_down),
	    cmocka_unit_test_teardown(the_backlog_spreads, tear_down),
	    cmocka_unit_test_teardown(the_backlog_comes_in_spite_of_congestion, tear_down),
	    cmocka_unit_test_teardown(a_reload_keeps_what_was_seen, tear_down),
	    cmocka_unit_test(a_logarithm_that_is_near_enough),
	    cmocka_unit_test(the_words),
	    cmocka_unit_test(every_service),
	    cmocka_unit_test_teardown(shards_add_up, tear_down),
	    cmocka_unit_test_teardown(a_slice_ends_under_a_batch, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
