/*
 * rea run: a command, repeated by its exit code, under the same decisions as a call. Who writes `rea run -- CMD` declares that CMD may be repeated; the
 * budget is shared by all such processes of the user on this host, so that a thousand cron jobs cannot storm.
 */
#include "cmd.h"

#include "base/format.h"
#include "policy_values.h"
#include "terminal.h"
#include "run/child.h"
#include "run/codes.h"

#include <rea/config.h>
#include <rea/event.h>
#include <rea/guard.h>
#include <rea/host_budget.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BUDGET_DEFAULT "run"
#define GRACE_NS_DEFAULT (5 * REA_NS_PER_S)
#define SECONDS_MAX 3600
#define KEY_BYTES 33

/* What holds unless a policy says otherwise. Deadlines are the longest that a policy may have: a command takes as long as it takes. */
static const struct policy_value defaults[] = {
    {"enabled", "true"},
    {"max-retry-next-instance", "2"},
    {"min-backoff-ms", "1000"},
    {"max-backoff-ms", "30000"},
    {"attempt-timeout-ms", "3600000"},
    {"deadline-ms", "3600000"},
    {"retry-on", "[never_sent, unavailable, ambiguous, failed]"},
    {"budget", "{rule: ratio, ratio: 0.2, reserve: 10}"},
};

#define KEYS_MAX 64

struct options {
	const char *file;             /* --policy FILE */
	const char *values[KEYS_MAX]; /* --policy KEY=VALUE, "KEY=VALUE" */
	size_t values_len;
	char shorthands[4][64]; /* --retries and such, as KEY=VALUE */
	size_t shorthands_len;
	const char *budget;
	struct run_codes codes;
	uint64_t grace_ns;
	bool no_input, verbose, quiet;
	char **argv;
};

/* Everything that lives as long as the command is tried. */
struct runner {
	const struct options *options;
	struct rea_policy policy;
	struct rea_budget *budget;
	struct rea_call call;
	struct rea_random random;
	struct run_signals signals;
	struct run_input input;
	struct rea_timeline timeline;
	struct rea_buffer told; /* lines that wait for the end, which may be a good one */
	char key[KEY_BYTES];
	char line[REA_EVENT_TEXT_MAX]; /* the command */
};

static int usage(FILE *out)
{
	fprintf(out,
	    "usage: rea run [OPTION]... [--] COMMAND [ARGUMENT]...\n\n"
	    "Runs COMMAND until it succeeds or the policy gives it up, and ends with the exit code of its last run.\n\n"
	    "  -p, --policy KEY=VALUE      a key of rea.yaml's retry block; may be repeated\n"
	    "  -p, --policy FILE           the global policy of a rea.yaml\n"
	    "  -r, --retries N             max-retry-next-instance (default: 2, that is 3 attempts)\n"
	    "  -t, --timeout SECONDS       attempt-timeout-ms (default: 3600 s)\n"
	    "  -d, --deadline SECONDS      deadline-ms, over all attempts and waits (default: 3600 s)\n"
	    "  -b, --budget NAME|FILE      the budget that processes share (default: " BUDGET_DEFAULT ")\n"
	    "  -R, --retry-codes LIST      retry these exit codes and no others, such as 1,75,100-110\n"
	    "  -P, --permanent-codes LIST  never retry these\n"
	    "  -k, --kill-after SECONDS    from SIGTERM to SIGKILL (default: 5)\n"
	    "  -n, --no-stdin              the command's standard input is /dev/null\n"
	    "  -v, --verbose               tell each attempt as it ends; else what happened is told after a failure\n"
	    "  -q, --quiet                 tell nothing\n"
	    "  -h, --help                  print this\n\n"
	    "Exit codes: the command's; 124 timed out, 125 rea run itself failed, 126 and 127 as a shell's, 128+n "
	    "ended\n"
	    "by signal n.\n");
	return out == stderr ? RUN_OWN_FAILURE : 0;
}

static int wrong(const char *message, const char *what)
{
	fprintf(stderr, "rea run: %s%s%s\n", message, what ? ": " : "", what ? what : "");
	return RUN_OWN_FAILURE;
}

static int tell(const struct rea_error_info *info)
{
	fprintf(stderr, "rea run: ");
	if (info->file[0] != '\0' && info->line > 0)
		fprintf(stderr, "%s:%u:%u: ", info->file, info->line, info->column);
	else if (info->file[0] != '\0')
		fprintf(stderr, "%s: ", info->file);
	fprintf(stderr, "%s%s%s\n", info->key, info->key[0] != '\0' ? ": " : "", info->message);
	return RUN_OWN_FAILURE;
}

/* ---- options ---- */

/* "1.5" as 1500. */
static bool read_seconds(const char *text, uint64_t *ret_ms)
{
	char *end;
	double seconds = strtod(text, &end);

	if (text[0] < '0' || text[0] > '9' || *end != '\0' || !(seconds >= 0.001 && seconds <= SECONDS_MAX))
		return false;
	*ret_ms = (uint64_t)(seconds * 1000 + 0.5);
	return true;
}

static void shorthand(struct options *options, const char *key, uint64_t value)
{
	char *text = options->shorthands[options->shorthands_len];

	snprintf(text, sizeof(options->shorthands[0]), "%s=%llu", key, (unsigned long long)value);
	options->values[options->values_len++] = text;
	options->shorthands_len++;
}

static int add_number(struct options *options, int option, const char *value)
{
	uint64_t number;

	if (options->values_len == KEYS_MAX ||
	    options->shorthands_len == sizeof(options->shorthands) / sizeof(options->shorthands[0]))
		return wrong("too many options", NULL);
	if (option == 'r') {
		if (!rea_slice_to_u64(rea_slice_of(value), &number))
			return wrong("--retries is a number", value);
		shorthand(options, "max-retry-next-instance", number);
		return 0;
	}
	if (!read_seconds(value, &number))
		return wrong("a number of seconds from 0.001 to 3600 is expected", value);
	if (option == 'k')
		options->grace_ns = rea_time_from_ms(number);
	else
		shorthand(options, option == 't' ? "attempt-timeout-ms" : "deadline-ms", number);
	return 0;
}

static int add_policy(struct options *options, const char *value)
{
	if (!policy_value_is_one(value)) {
		options->file = value;
		return 0;
	}
	if (options->values_len == KEYS_MAX)
		return wrong("too many options", NULL);
	options->values[options->values_len++] = value;
	return 0;
}

static int add_codes(struct options *options, int option, const char *value)
{
	struct rea_error_info info;
	int error = option == 'R' ? run_codes_retry(&options->codes, value, &info)
				  : run_codes_permanent(&options->codes, value, &info);

	return error != 0 ? tell(&info) : 0;
}

static int parse_option(struct options *options, int option, const char *value)
{
	switch (option) {
	case 'p':
		return add_policy(options, value);
	case 'r':
	case 't':
	case 'd':
	case 'k':
		return add_number(options, option, value);
	case 'b':
		options->budget = value;
		return 0;
	case 'R':
	case 'P':
		return add_codes(options, option, value);
	case 'n':
		options->no_input = true;
		return 0;
	case 'v':
		options->verbose = true;
		return 0;
	case 'q':
		options->quiet = true;
		return 0;
	default:
		return usage(stderr);
	}
}

/* Returns 0, the exit code, or -1 after --help. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {{"policy", required_argument, NULL, 'p'},
	    {"retries", required_argument, NULL, 'r'}, {"timeout", required_argument, NULL, 't'},
	    {"deadline", required_argument, NULL, 'd'}, {"budget", required_argument, NULL, 'b'},
	    {"retry-codes", required_argument, NULL, 'R'}, {"permanent-codes", required_argument, NULL, 'P'},
	    {"kill-after", required_argument, NULL, 'k'}, {"no-stdin", no_argument, NULL, 'n'},
	    {"verbose", no_argument, NULL, 'v'}, {"quiet", no_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0}};
	int option, error = 0;

	/* The command's own options are not ours: the first word that is none ends them. */
	while (error == 0 && (option = getopt_long(argc, argv, "+p:r:t:d:b:R:P:k:nvqh", names, NULL)) != -1) {
		if (option == 'h') {
			usage(stdout);
			return -1;
		}
		error = parse_option(options, option, optarg);
	}
	if (error == 0 && optind == argc)
		return usage(stderr);
	if (error == 0 && options->file != NULL && options->values_len > 0)
		return wrong("--policy FILE stands alone: what else is to hold, write there", options->file);
	options->argv = argv + optind;
	return error;
}

/* ---- the policy ---- */

static int load_policy(const struct options *options, struct rea_policy *ret_policy)
{
	struct rea_error_info info;
	struct rea_config *config;

	if (options->file == NULL)
		return policy_values_read(options->values, options->values_len, defaults,
			   sizeof(defaults) / sizeof(defaults[0]), ret_policy, &info) == 0
			   ? 0
			   : tell(&info);
	if (rea_config_load(options->file, NULL, &config, &info) != 0)
		return tell(&info);
	rea_config_policy(config, NULL, NULL, ret_policy);
	rea_config_unref(config);
	return 0;
}

/* ---- telling ---- */

static void write_told(const char *text, size_t length, void *user_data)
{
	struct runner *runner = user_data;

	if (runner->options->quiet)
		return;
	/* Without memory it is better told at once than never. */
	if (runner->options->verbose || rea_buffer_append(&runner->told, text, length) != 0)
		fwrite(text, 1, length, stderr);
}

static enum rea_event_type type_of(const struct rea_decision *decision)
{
	if (decision->would_retry)
		return REA_EVENT_WOULD_RETRY;
	switch (decision->verdict) {
	case REA_VERDICT_RETRY:
		return REA_EVENT_RETRY;
	case REA_VERDICT_SUCCESS:
		return REA_EVENT_SUCCESS;
	case REA_VERDICT_GIVE_UP:
		break;
	}
	return REA_EVENT_GIVE_UP;
}

static int64_t wall_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * (int64_t)REA_NS_PER_S + now.tv_nsec;
}

static struct rea_text text_of(const char *text)
{
	return (struct rea_text){text, strlen(text)};
}

/* end NULL: of no attempt. */
static void record(struct runner *runner, const struct rea_decision *decision, const struct rea_report *report,
    const struct run_end *end, uint64_t start_ns, uint64_t now_ns)
{
	const char *base = strrchr(runner->options->budget, '/');
	char instance[32] = "";
	struct rea_event event;

	if (end != NULL && end->pid != 0)
		snprintf(instance, sizeof(instance), "pid %ld", (long)end->pid);
	event = (struct rea_event){
	    .type = type_of(decision),
	    .time_unix_ns = wall_clock_ns(),
	    .attempt_start_ns = start_ns,
	    .time_ns = now_ns,
	    .call_id = {runner->key, 16},
	    .key = text_of(runner->key),
	    .service = text_of(base != NULL ? base + 1 : runner->options->budget),
	    .detail = text_of(runner->line),
	    .instance = text_of(instance),
	    .attempt = end != NULL ? decision->attempt : rea_call_attempts(&runner->call) + 1,
	    .attempts_max = decision->attempts_max,
	    .outcome = report->outcome,
	    .code_kind = report->code_kind,
	    .code = report->code,
	    .cost_ns = rea_time_sub(now_ns, start_ns),
	    .retryable = decision->retryable,
	    .next_delay_ns = decision->wait_ns,
	    .verdict = decision->verdict,
	    .reason = decision->reason,
	    .grant = decision->grant,
	};
	rea_timeline_event(&runner->timeline, &event);
}

/* ---- attempts ---- */

static struct rea_report report_of(const struct runner *runner, const struct run_end *end, uint64_t latency_ns)
{
	struct rea_report report = {.code_kind = REA_CODE_EXIT,
	    .code = (uint32_t)end->status,
	    .outcome = (enum rea_outcome)runner->options->codes.outcomes[end->status],
	    .flags = runner->input.lost ? REA_REPORT_BODY_OVER_LIMIT : 0,
	    .latency_ns = latency_ns};

	if (end->timed_out) {
		report.code_kind = REA_CODE_ERRNO;
		report.code = ETIMEDOUT;
		report.outcome = REA_OUTCOME_AMBIGUOUS;
	}
	return report;
}

/* One run of the command; what to do then. Returns its exit code. */
static int make_attempt(struct runner *runner, struct rea_decision *decision)
{
	struct run_attempt attempt = {.argv = runner->options->argv,
	    .number = decision->attempt,
	    .attempts_max = decision->attempts_max,
	    .key = runner->key,
	    .deadline_ns = decision->attempt_deadline_ns,
	    .grace_ns = runner->options->grace_ns};
	uint64_t start_ns = run_now(), now_ns;
	struct rea_report report;
	struct run_end end;

	run_attempt(&attempt, &runner->input, &runner->signals, &end);
	now_ns = run_now();
	report = report_of(runner, &end, now_ns - start_ns);
	if (runner->signals.end != 0 && report.outcome != REA_OUTCOME_OK)
		report.outcome = REA_OUTCOME_CANCELLED;
	rea_call_report(&runner->call, &report, NULL, &runner->random, now_ns, decision);
	record(runner, decision, &report, &end, start_ns, now_ns);
	return end.status;
}

/* The call is over without another attempt. */
static void end_without(struct runner *runner, const struct rea_decision *decision)
{
	struct rea_report report = {
	    .outcome = decision->reason == REA_REASON_CANCELLED ? REA_OUTCOME_CANCELLED : REA_OUTCOME_NEVER_SENT};
	uint64_t now_ns = run_now();

	record(runner, decision, &report, NULL, now_ns, now_ns);
}

static int run_to_the_end(struct runner *runner)
{
	struct rea_decision decision;
	int status = RUN_OWN_FAILURE;

	for (;;) {
		rea_call_attempt(&runner->call, NULL, &runner->random, run_now(), &decision);
		if (decision.step == REA_STEP_ATTEMPT) {
			status = make_attempt(runner, &decision);
			if (decision.step == REA_STEP_DONE)
				return status;
		}
		if (decision.step == REA_STEP_DONE) {
			end_without(runner, &decision);
			return status;
		}
		if (!run_wait(&runner->signals, decision.wait_until_ns)) {
			rea_call_cancel(&runner->call, run_now(), &decision);
			end_without(runner, &decision);
			return RUN_SIGNALLED + runner->signals.end;
		}
	}
}

/* ---- around them ---- */

/* "rsync -a /a /b", cut where the text of an event is. */
static void write_line(const struct options *options, char *line, size_t size)
{
	struct rea_format text;

	rea_format_init(&text, line, size);
	for (char **word = options->argv; *word != NULL; word++) {
		rea_format_text(&text, word == options->argv ? "" : " ");
		rea_format_text(&text, *word);
	}
}

static void make_key(struct rea_random *random, char key[KEY_BYTES])
{
	snprintf(key, KEY_BYTES, "%016llx%016llx", (unsigned long long)rea_random_next(random),
	    (unsigned long long)rea_random_next(random));
}

/* One run sees a few outcomes, and no latency: a share of the runs says more than evidence would. */
static void make_shareable(struct rea_budget_policy *budget)
{
	if (budget->rule == REA_BUDGET_EVIDENCE)
		budget->rule = REA_BUDGET_RATIO; /* whose numbers stand at their defaults */
}

/* A budget that cannot be shared is better than none, and better than no run. */
static int open_budget(const struct options *options, struct rea_budget_policy *policy, struct rea_budget **ret_budget)
{
	struct rea_error_info info;

	make_shareable(policy);
	if (rea_host_budget_open(options->budget, policy, NULL, ret_budget, &info) == 0)
		return 0;
	if (!options->quiet)
		fprintf(stderr, "rea run: %s%s%s; this run has a budget of its own\n", info.file,
		    info.file[0] != '\0' ? ": " : "", info.message);
	return rea_budget_new(policy, 1, NULL, ret_budget, NULL) == 0 ? 0 : wrong("out of memory", NULL);
}

/* A layer above is at its second attempt or later: it is the one that retries. */
static bool is_chained(void)
{
	const char *attempt = getenv("REA_ATTEMPT");
	uint64_t number;

	return attempt != NULL && rea_slice_to_u64(rea_slice_of(attempt), &number) && number > 1;
}

static void begin(struct runner *runner)
{
	struct rea_call_options call;

	rea_call_options_init(&call);
	call.policy = &runner->policy;
	call.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CALLER};
	call.has_key = true;
	call.chained = is_chained();
	call.budget = runner->budget;
	call.single_target = true;
	rea_random_init(&runner->random, rea_seed());
	make_key(&runner->random, runner->key);
	write_line(runner->options, runner->line, sizeof(runner->line));
	rea_timeline_begin(&runner->timeline, write_told, runner);
	runner->timeline.color = terminal_wants_color(STDERR_FILENO);
	rea_call_begin(&runner->call, &call, run_now());
}

static int run(const struct options *options)
{
	struct runner runner = {.options = options};
	int status = load_policy(options, &runner.policy);

	if (status == 0)
		status = open_budget(options, &runner.policy.budget, &runner.budget);
	if (status != 0)
		return status;
	run_input_init(&runner.input, options->no_input, runner.policy.replay_limit_bytes);
	if (run_signals_init(&runner.signals)) {
		begin(&runner);
		status = run_to_the_end(&runner);
	} else
		status = wrong("cannot watch for signals", NULL);
	if (status != 0 && rea_buffer_length(&runner.told) > 0)
		fwrite(rea_buffer_data(&runner.told), 1, rea_buffer_length(&runner.told), stderr);
	rea_buffer_fini(&runner.told);
	run_input_fini(&runner.input);
	rea_budget_free(runner.budget);
	return status;
}

int cmd_run(int argc, char **argv)
{
	struct options options = {.budget = BUDGET_DEFAULT, .grace_ns = GRACE_NS_DEFAULT};
	int code;

	run_codes_init(&options.codes);
	code = parse_options(argc, argv, &options);
	if (code != 0)
		return code > 0 ? code : 0;
	return run(&options);
}
