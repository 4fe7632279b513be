/* The trace's format, and the script of tests/data/decision_trace.txt. `trace_test --print` prints that file as this build would have it. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_line(const struct rea_decision *decision, const struct rea_report *report,
    const struct rea_instance_id *instance, uint64_t now_ns, const char *expected)
{
	char line[REA_TRACE_LINE_MAX];

	assert_int_equal(rea_trace_line(decision, report, instance, S(1000), now_ns, line, sizeof(line)), strlen(expected));
	assert_string_equal(line, expected);
}

static void the_format(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE, .code_kind = REA_CODE_HTTP, .code = 503};
	struct rea_decision decision = {
	    .step = REA_STEP_WAIT, .verdict = REA_VERDICT_RETRY, .attempt = 1, .attempts_max = 2, .wait_ns = MS(104)};
	struct rea_instance_id id = rig_id(0);

	(void)state;
	assert_line(&decision, &report, &id,
	    S(1000) + 12345678, "t=12.345ms attempt=1/2 instance=127.0.0.1:9001 outcome=unavailable code=503 verdict=retry reason=- wait=104.000ms");
	report.code_kind = REA_CODE_GRPC;
	report.code = 14;
	decision.step = REA_STEP_DONE;
	decision.verdict = REA_VERDICT_GIVE_UP;
	decision.reason = REA_REASON_BUDGET_EXHAUSTED;
	assert_line(&decision, &report, &id,
	    S(1000), "t=0.000ms attempt=1/2 instance=127.0.0.1:9001 outcome=unavailable code=grpc:14 verdict=give_up reason=budget_exhausted wait=-");
	decision =
	    (struct rea_decision){.step = REA_STEP_ATTEMPT, .verdict = REA_VERDICT_RETRY, .attempt = 2, .attempts_max = 2};
	assert_line(&decision, NULL, &id, S(1001),
	    "t=1000.000ms attempt=2/2 instance=127.0.0.1:9001 outcome=- code=- verdict=- reason=- wait=-");
	/* Before the base: 0. */
	decision = (struct rea_decision){.step = REA_STEP_DONE, .verdict = REA_VERDICT_SUCCESS, .attempts_max = 2};
	assert_line(&decision, NULL, NULL, 0,
	    "t=0.000ms attempt=0/2 instance=- outcome=- code=- verdict=success reason=- wait=-");
}

static void the_longest_line_fits(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE, .code_kind = REA_CODE_ERRNO, .code = UINT32_MAX};
	struct rea_decision decision = {.step = REA_STEP_WAIT,
	    .verdict = REA_VERDICT_GIVE_UP,
	    .reason = REA_REASON_NO_UNTRIED_INSTANCE,
	    .would_retry = true,
	    .attempt = UINT32_MAX,
	    .attempts_max = UINT32_MAX,
	    .wait_ns = UINT64_MAX};
	struct rea_instance_id id = {.port = UINT16_MAX};
	char line[REA_TRACE_LINE_MAX], cut[10];

	(void)state;
	memset(id.address, 0xff, sizeof(id.address));
	assert_in_range(rea_trace_line(&decision, &report, &id, 0, UINT64_MAX, line, sizeof(line)), 200, sizeof(line) - 1);
	assert_int_equal(rea_trace_line(&decision, &report, &id, 0, UINT64_MAX, cut, sizeof(cut)), strlen(line));
	assert_memory_equal(cut, line, sizeof(cut) - 1);
	assert_int_equal(cut[sizeof(cut) - 1], '\0');
}

/* ---- the script ---- */

struct player {
	struct rig rig;
	struct rea_budget *budget; /* of this case, or NULL */
	uint64_t now_ns;
	bool begun;
	struct rea_instance_id instance; /* of the last attempt */
	FILE *expected, *printed;        /* one of them */
	unsigned line_number;
};

static void emit(struct player *player, const struct rea_report *report)
{
	const struct rea_instance_id *instance = player->rig.decision.attempt > 0 ? &player->instance : NULL;
	char line[REA_TRACE_LINE_MAX], expected[REA_TRACE_LINE_MAX + 3];

	rea_trace_line(&player->rig.decision, report, instance, player->rig.base_ns, player->now_ns, line, sizeof(line));
	if (player->printed) {
		fprintf(player->printed, "> %s\n", line);
		return;
	}
	player->line_number++;
	assert_non_null(fgets(expected, sizeof(expected), player->expected));
	expected[strcspn(expected, "\n")] = '\0';
	if (strncmp(expected, "> ", 2) != 0 || strcmp(expected + 2, line) != 0)
		fail_msg("line %u:\n  expected %s\n  but got  > %s", player->line_number, expected, line);
}

static void next_attempt(struct player *player)
{
	struct rig *rig = &player->rig;

	rea_call_attempt(&rig->call, &rig->list, &rig->random, player->now_ns, &rig->decision);
	if (rig->decision.step == REA_STEP_ATTEMPT)
		player->instance = rig->items[rig->decision.instance].id;
	emit(player, NULL);
}

static void begin(struct player *player)
{
	if (player->begun)
		return;
	player->begun = true;
	rea_call_begin(&player->rig.call, &player->rig.options, player->now_ns);
	next_attempt(player);
}

static void new_case(struct player *player)
{
	rea_budget_free(player->budget);
	player->budget = NULL;
	rig_init(&player->rig, 0);
	rea_policy_defaults(&player->rig.policy);
	player->rig.policy.enabled = true;
	rea_random_init(&player->rig.random, 1);
	player->now_ns = player->rig.base_ns;
	player->begun = false;
}

static void set_policy(struct player *player, const char *key, const char *value)
{
	struct rea_policy *policy = &player->rig.policy;
	const struct rea_policy_layer *profile = rea_policy_profile(value, strlen(value));

	if (strcmp(key, "profile") == 0) {
		assert_non_null(profile);
		rea_policy_merge(&profile, 1, SIZE_MAX, policy);
		policy->enabled = true;
	} else if (strcmp(key, "enabled") == 0) {
		policy->enabled = strcmp(value, "true") == 0;
	} else if (strcmp(key, "max-retry-next-instance") == 0) {
		policy->max_retry_next_instance = (uint32_t)atoi(value);
	} else if (strcmp(key, "max-retry-same-instance") == 0) {
		policy->max_retry_same_instance = (uint32_t)atoi(value);
	} else if (strcmp(key, "deadline-ms") == 0) {
		policy->deadline_ns = MS(atoi(value));
	} else if (strcmp(key, "never-sent") == 0) {
		policy->never_sent = strcmp(value, "allow") == 0 ? REA_NEVER_SENT_ALLOW : REA_NEVER_SENT_STRICT;
	} else if (strcmp(key, "mode") == 0) {
		policy->mode = strcmp(value, "observe") == 0 ? REA_MODE_OBSERVE : REA_MODE_ENFORCE;
	} else {
		fail_msg("line %u: unknown key %s", player->line_number, key);
	}
	assert_int_equal(rea_policy_validate(policy, NULL), 0);
}

static void set_grant(struct player *player, const char *name)
{
	for (int i = 0; i < REA_PERMISSION_COUNT; i++) {
		if (strcmp(name, rea_permission_name((enum rea_permission)i)) == 0) {
			player->rig.options.grant.permission = (enum rea_permission)i;
			return;
		}
	}
	fail_msg("line %u: unknown permission %s", player->line_number, name);
}

static void empty_budget(struct player *player)
{
	struct rea_budget_policy none = {.ratio_permille = 0, .reserve_per_s = 0, .window_ms = 1000};

	assert_int_equal(rea_budget_new(&none, 1, NULL, &player->budget), 0);
	player->rig.options.budget = player->budget;
}

static void set_list(struct player *player, char *rest)
{
	struct rig *rig = &player->rig;

	rig->list.count = 0;
	for (char *word = strtok(rest, " "); word != NULL; word = strtok(NULL, " ")) {
		struct rea_instance *item = &rig->items[rig->list.count++];
		size_t length = strcspn(word, "!");

		*item = (struct rea_instance){.weight = 1};
		if (word[length] == '!')
			item->grant = (struct rea_grant){REA_PERMISSION_FORBID, REA_PERMISSION_SOURCE_REGISTRY};
		assert_true(rea_instance_id_parse(word, length, &item->id));
	}
}

static void add_to_report(struct rea_report *report, const char *word)
{
	static const struct {
		const char *prefix;
		enum rea_code_kind kind;
	} kinds[] = {{"grpc:", REA_CODE_GRPC}, {"errno:", REA_CODE_ERRNO}, {"", REA_CODE_HTTP}};
	static const struct {
		const char *word;
		uint32_t flag;
	} flags[] = {{"stop", REA_REPORT_STOP}, {"incomplete", REA_REPORT_BODY_INCOMPLETE},
	    {"over-limit", REA_REPORT_BODY_OVER_LIMIT}, {"started", REA_REPORT_RESPONSE_STARTED}};

	for (size_t i = 0; i < 4; i++) {
		if (strcmp(word, flags[i].word) == 0) {
			report->flags |= flags[i].flag;
			return;
		}
	}
	if (strncmp(word, "after=", 6) == 0) {
		report->flags |= REA_REPORT_AFTER;
		report->after_ns = MS(atoi(word + 6));
		return;
	}
	for (size_t i = 0; report->code_kind == REA_CODE_NONE; i++) {
		if (strncmp(word, kinds[i].prefix, strlen(kinds[i].prefix)) == 0) {
			report->code_kind = kinds[i].kind;
			report->code = (uint32_t)atoi(word + strlen(kinds[i].prefix));
		}
	}
}

static void reply(struct player *player, char *rest)
{
	struct rig *rig = &player->rig;
	struct rea_report report = {0};
	char *word = strtok(rest, " ");
	int outcome;

	player->now_ns += MS(atoi(word));
	report.latency_ns = MS(atoi(word));
	word = strtok(NULL, " ");
	outcome = rea_outcome_parse(word, strlen(word));
	assert_true(outcome >= 0);
	report.outcome = (enum rea_outcome)outcome;
	while ((word = strtok(NULL, " ")) != NULL)
		add_to_report(&report, word);
	rea_call_report(&rig->call, &report, &rig->list, &rig->random, player->now_ns, &rig->decision);
	emit(player, &report);
}

/* The next attempt begins when the script shows that the wait was not the end of it. */
static void wait_over(struct player *player)
{
	if (player->begun && player->rig.decision.step == REA_STEP_WAIT) {
		player->now_ns = player->rig.decision.wait_until_ns;
		next_attempt(player);
	}
}

static void cancel(struct player *player, const char *after_ms)
{
	player->now_ns += MS(atoi(after_ms));
	rea_call_cancel(&player->rig.call, player->now_ns, &player->rig.decision);
	emit(player, NULL);
}

static void play_line(struct player *player, char *line)
{
	size_t length = strcspn(line, " ");
	char *rest = line + length + (line[length] == ' ');

	line[length] = '\0';
	if (strcmp(line, "case") == 0) {
		new_case(player);
	} else if (strcmp(line, "seed") == 0) {
		rea_random_init(&player->rig.random, (uint64_t)atoi(rest));
	} else if (strcmp(line, "policy") == 0) {
		char *value = rest + strcspn(rest, " ");

		*value = '\0';
		set_policy(player, rest, value + 1);
	} else if (strcmp(line, "grant") == 0) {
		set_grant(player, rest);
	} else if (strcmp(line, "key") == 0) {
		player->rig.options.has_key = true;
	} else if (strcmp(line, "chained") == 0) {
		player->rig.options.chained = true;
	} else if (strcmp(line, "budget") == 0) {
		empty_budget(player);
	} else if (strcmp(line, "list") == 0) {
		set_list(player, rest);
		begin(player);
	} else if (strcmp(line, "reply") == 0) {
		wait_over(player);
		reply(player, rest);
	} else if (strcmp(line, "cancel") == 0) {
		cancel(player, rest);
	} else {
		fail_msg("line %u: what is %s?", player->line_number, line);
	}
}

static void play(struct player *player, FILE *script)
{
	char line[REA_TRACE_LINE_MAX + 3];

	while (fgets(line, sizeof(line), script) != NULL) {
		player->line_number++;
		if (player->printed && line[0] != '>')
			fputs(line, player->printed);
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '>' && player->printed == NULL)
			fail_msg("line %u: one line too many: %s", player->line_number, line);
		if (line[0] != '\0' && line[0] != '#' && line[0] != '>')
			play_line(player, line);
	}
	rea_budget_free(player->budget);
}

static FILE *open_script(void)
{
	FILE *script = fopen(TRACE_SCRIPT, "r");

	assert_non_null(script);
	return script;
}

static void the_script(void **state)
{
	struct player player = {.expected = open_script()};

	(void)state;
	play(&player, player.expected);
	assert_in_range(player.line_number, 150, 1000);
	fclose(player.expected);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_format),
	    cmocka_unit_test(the_longest_line_fits),
	    cmocka_unit_test(the_script),
	};

	if (argc == 2 && strcmp(argv[1], "--print") == 0) {
		struct player player = {.printed = stdout};

		play(&player, open_script());
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
