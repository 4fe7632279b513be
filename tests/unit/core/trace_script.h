/* Plays the script of a decision trace (tests/data/decision_trace.txt says how it reads) through one face of rea. */
#ifndef REA_TESTS_CORE_TRACE_SCRIPT_H
#define REA_TESTS_CORE_TRACE_SCRIPT_H

#include "rig.h"

#include <rea/explain.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct player;

/* Whatever is to give the same trace. Each fills rig.decision. */
struct face {
	/* A new case: policy, options, seed and list are there. */
	void (*begin)(struct player *player);
	/* The next attempt, if any; also fills instance. */
	void (*attempt)(struct player *player);
	void (*report)(struct player *player, const struct rea_report *report);
	void (*cancel)(struct player *player);
	/* The case is over. NULL = nothing to do. */
	void (*end)(struct player *player);
};

struct player {
	const struct face *face;
	void *user_data; /* of the face */
	struct rig rig;
	uint64_t seed;
	struct rea_budget *budget; /* of this case, or NULL */
	uint64_t now_ns;
	bool begun;
	struct rea_instance_id instance; /* of the last attempt */
	FILE *expected, *printed;        /* one of them */
	unsigned line_number;
};

static inline void script_emit(struct player *player, const struct rea_report *report)
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

static inline void script_next_attempt(struct player *player)
{
	player->face->attempt(player);
	script_emit(player, NULL);
}

static inline void script_begin(struct player *player)
{
	if (player->begun)
		return;
	player->begun = true;
	player->face->begin(player);
	script_next_attempt(player);
}

static inline void script_end_case(struct player *player)
{
	if (player->begun && player->face->end != NULL)
		player->face->end(player);
	rea_budget_free(player->budget);
	player->budget = NULL;
}

static inline void script_new_case(struct player *player)
{
	script_end_case(player);
	rig_init(&player->rig, 0);
	rea_policy_defaults(&player->rig.policy);
	player->rig.policy.enabled = true;
	player->seed = 1;
	player->now_ns = player->rig.base_ns;
	player->begun = false;
}

static inline void script_set_policy(struct player *player, const char *key, const char *value)
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

static inline void script_set_grant(struct player *player, const char *name)
{
	for (int i = 0; i < REA_PERMISSION_COUNT; i++) {
		if (strcmp(name, rea_permission_name((enum rea_permission)i)) == 0) {
			player->rig.options.grant.permission = (enum rea_permission)i;
			return;
		}
	}
	fail_msg("line %u: unknown permission %s", player->line_number, name);
}

static inline void script_empty_budget(struct player *player)
{
	struct rea_budget_policy none = {.ratio_permille = 0, .reserve_per_s = 0, .window_ms = 1000};

	assert_int_equal(rea_budget_new(&none, 1, NULL, &player->budget, NULL), 0);
	player->rig.options.budget = player->budget;
}

static inline void script_set_list(struct player *player, char *rest)
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

static inline void script_add_to_report(struct rea_report *report, const char *word)
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

static inline void script_reply(struct player *player, char *rest)
{
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
		script_add_to_report(&report, word);
	player->face->report(player, &report);
	script_emit(player, &report);
}

/* The next attempt begins when the script shows that the wait was not the end of it. */
static inline void script_wait_over(struct player *player)
{
	if (player->begun && player->rig.decision.step == REA_STEP_WAIT) {
		player->now_ns = player->rig.decision.wait_until_ns;
		script_next_attempt(player);
	}
}

static inline void script_cancel(struct player *player, const char *after_ms)
{
	player->now_ns += MS(atoi(after_ms));
	player->face->cancel(player);
	script_emit(player, NULL);
}

static inline void script_play_line(struct player *player, char *line)
{
	size_t length = strcspn(line, " ");
	char *rest = line + length + (line[length] == ' ');

	line[length] = '\0';
	if (strcmp(line, "case") == 0) {
		script_new_case(player);
	} else if (strcmp(line, "seed") == 0) {
		player->seed = (uint64_t)atoi(rest);
	} else if (strcmp(line, "policy") == 0) {
		char *value = rest + strcspn(rest, " ");

		*value = '\0';
		script_set_policy(player, rest, value + 1);
	} else if (strcmp(line, "grant") == 0) {
		script_set_grant(player, rest);
	} else if (strcmp(line, "key") == 0) {
		player->rig.options.has_key = true;
	} else if (strcmp(line, "chained") == 0) {
		player->rig.options.chained = true;
	} else if (strcmp(line, "budget") == 0) {
		script_empty_budget(player);
	} else if (strcmp(line, "list") == 0) {
		script_set_list(player, rest);
		script_begin(player);
	} else if (strcmp(line, "reply") == 0) {
		script_wait_over(player);
		script_reply(player, rest);
	} else if (strcmp(line, "cancel") == 0) {
		script_cancel(player, rest);
	} else {
		fail_msg("line %u: what is %s?", player->line_number, line);
	}
}

static inline void script_play(struct player *player, FILE *script)
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
			script_play_line(player, line);
	}
	script_end_case(player);
}

static inline FILE *script_open(void)
{
	FILE *script = fopen(TRACE_SCRIPT, "r");

	assert_non_null(script);
	return script;
}

static inline void assert_script(const struct face *face, void *user_data)
{
	struct player player = {.face = face, .user_data = user_data, .expected = script_open()};

	script_play(&player, player.expected);
	assert_in_range(player.line_number, 150, 1000);
	fclose(player.expected);
}

#endif
