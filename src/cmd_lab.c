/* rea lab: retry policies side by side, in faults that were planned. */
#include "cmd.h"

#include "base/slice.h"
#include "lab/report.h"
#include "lab/run.h"
#include "lab/sim.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define STUDIES_MAX 64
#define SETTINGS_MAX 32
#define STEPS_MAX 32
#define STEPS 5

struct options {
	const char *policies[LAB_POLICIES_MAX];
	uint32_t policies_len;
	const char *settings[SETTINGS_MAX + 2]; /* KEY=VALUE; one more for --vary; ends with NULL */
	uint32_t settings_len;
	uint64_t seeds, seed;
	const char *vary; /* KEY=A..B or KEY=A..B/STEPS */
	const char *json, *html, *markdown;
	bool check;
	bool sockets;
	struct lab_run_options run;
};

/* One scenario, or one value of a sweep. */
struct job {
	struct lab_scenario scenario;
	const struct lab_entry *judged;
	double value;
};

struct jobs {
	struct job *items;
	struct lab_study *studies;
	uint32_t len;
};

static int usage(FILE *out)
{
	fprintf(out,
	    "usage: rea lab sim SCENARIO... [OPTION]...\n"
	    "       rea lab run SCENARIO... [--port N] [--through ADDRESS] [OPTION]...\n"
	    "       rea lab sweep SCENARIO --vary KEY=A..B [OPTION]...\n\n"
	    "  sim    in virtual time\n"
	    "  run    on sockets of this machine, in real time\n"
	    "  sweep  in virtual time, for several values of a key\n\n"
	    "  -p, --policy NAME|FILE  a built-in policy, or the global level of a rea.yaml; may be repeated; else "
	    "all\n"
	    "                          built-in ones. The last one is held against the scenario's goals\n"
	    "  -n, --seeds N           runs of each policy; else 5\n"
	    "  -r, --seed N            the first seed; else 1\n"
	    "  -s, --set KEY=VALUE     a key of the scenario, of its last layer or of its faults; may be repeated\n"
	    "  -v, --vary KEY=A..B     the same for values from A to B; A..B/N takes N of them, else 5\n"
	    "  -j, --json FILE         all figures for programs; - is standard output, which then has nothing else\n"
	    "  -w, --html FILE         a page with plots\n"
	    "  -m, --markdown FILE     tables for a document\n"
	    "  -c, --check             exit with 1 when a goal is missed\n"
	    "  -P, --port N            run: where the first instance listens, the others follow; else anywhere\n"
	    "  -t, --through ADDRESS   run: requests go to a proxy there, which retries as it is told to\n\n"
	    "built-in policies:\n");
	for (size_t i = 0; lab_policy_name(i) != NULL; i++)
		fprintf(out, "  %s\n", lab_policy_name(i));
	fprintf(out, "\nrea-lab(1) tells what a scenario says, and what the figures mean.\n");
	return out == stderr ? 2 : 0;
}

static int wrong(const char *message, const char *what)
{
	fprintf(stderr, "rea lab: %s%s%s\n", message, what ? ": " : "", what ? what : "");
	return 2;
}

/* ---- options ---- */

static int parse_number(const char *name, const char *value, uint64_t min, uint64_t max, uint64_t *ret_value)
{
	uint64_t number;

	if (!rea_slice_to_u64(rea_slice_of(value), &number) || number < min || number > max) {
		fprintf(stderr, "rea lab: %s is a number from %llu to %llu, not %s\n", name, (unsigned long long)min,
		    (unsigned long long)max, value);
		return 2;
	}
	*ret_value = number;
	return 0;
}

static int parse_port(const char *value, uint16_t *ret_port)
{
	uint64_t port = 0;
	int error = parse_number("--port", value, 1, 65535 - LAB_LAYERS_MAX * LAB_INSTANCES_MAX, &port);

	*ret_port = (uint16_t)port;
	return error;
}

static int parse_option(struct options *options, int option, const char *value)
{
	switch (option) {
	case 'p':
		/* One place is kept for "none". */
		if (options->policies_len + 1 == LAB_POLICIES_MAX)
			return wrong("too many policies", NULL);
		options->policies[options->policies_len++] = value;
		return 0;
	case 's':
		if (options->settings_len == SETTINGS_MAX)
			return wrong("too many settings", NULL);
		options->settings[options->settings_len++] = value;
		return 0;
	case 'n':
		return parse_number("--seeds", value, 1, LAB_SEEDS_MAX, &options->seeds);
	case 'r':
		return parse_number("--seed", value, 0, UINT64_MAX - LAB_SEEDS_MAX, &options->seed);
	case 'v':
		options->vary = value;
		return 0;
	case 'j':
		options->json = value;
		return 0;
	case 'w':
		options->html = value;
		return 0;
	case 'm':
		options->markdown = value;
		return 0;
	case 'c':
		options->check = true;
		return 0;
	case 'P':
		return parse_port(value, &options->run.port);
	case 't':
		options->run.through = value;
		return 0;
	default:
		return usage(stderr);
	}
}

/* Returns 0, the exit code, or -1 after --help. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {{"policy", required_argument, NULL, 'p'},
	    {"seeds", required_argument, NULL, 'n'}, {"seed", required_argument, NULL, 'r'},
	    {"set", required_argument, NULL, 's'}, {"vary", required_argument, NULL, 'v'},
	    {"json", required_argument, NULL, 'j'}, {"html", required_argument, NULL, 'w'},
	    {"markdown", required_argument, NULL, 'm'}, {"check", no_argument, NULL, 'c'},
	    {"port", required_argument, NULL, 'P'}, {"through", required_argument, NULL, 't'},
	    {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int option, error = 0;

	while (error == 0 && (option = getopt_long(argc, argv, "p:n:r:s:v:j:w:m:cP:t:h", names, NULL)) != -1) {
		if (option == 'h') {
			usage(stdout);
			return -1;
		}
		error = parse_option(options, option, optarg);
	}
	return error;
}

/* ---- studies ---- */

static void say_error(const struct rea_error_info *info)
{
	if (info->line > 0)
		fprintf(stderr, "%s:%u:%u: ", info->file, info->line, info->column);
	else
		fprintf(stderr, "%s: ", info->file);
	fprintf(stderr, "%s%s%s\n", info->key, info->key[0] != '\0' ? ": " : "", info->message);
}

static int add_policy(struct lab_study *study, const char *name)
{
	struct lab_policy *policy = &study->entries[study->entries_len].policy;
	struct rea_error_info info;

	if (lab_policy_find(name, study->scenario, policy) != 0) {
		if (strchr(name, '/') == NULL && strchr(name, '.') == NULL)
			return wrong("there is no built-in policy of that name, and it is no file", name);
		if (lab_policy_load(name, study->scenario, policy, &info) != 0) {
			say_error(&info);
			return 2;
		}
	}
	study->entries_len++;
	return 0;
}

/* Without a list all of the usual ones; "none" is always there, since harm is measured from it. */
static int add_policies(struct lab_study *study, const struct options *options)
{
	int error = add_policy(study, "none");

	for (size_t i = 1; error == 0 && options->policies_len == 0 && lab_policy_name(i) != NULL; i++) {
		error = add_policy(study, lab_policy_name(i));
		study->entries_len -= !study->entries[study->entries_len - 1].policy.usual;
	}
	for (uint32_t i = 0; error == 0 && i < options->policies_len; i++)
		if (strcmp(options->policies[i], "none") != 0)
			error = add_policy(study, options->policies[i]);
	return error;
}

/* The clients make one attempt; what is between does the rest. */
static int add_through(struct lab_study *study, const char *address)
{
	int error = add_policy(study, "none");

	study->entries[0].policy.name = address;
	study->entries[0].policy.about = "what is there: the clients make one attempt";
	study->entries[0].policy.core.attempt_timeout_ns = study->scenario->deadline_ns;
	return error;
}

static void show_progress(const struct lab_study *study, uint32_t done, uint32_t all)
{
	char bar[31] = "                              ";

	for (uint32_t i = 0; i < 30 * done / all; i++)
		bar[i] = '#';
	fprintf(stderr, "\r%-16s [%s] %u/%u%s", study->scenario->name, bar, done, all, done == all ? "\n" : "");
}

/* A file, or the name of one that is installed. */
static const char *find_scenario(const char *name, char *buffer, size_t size)
{
	if (strchr(name, '/') != NULL || access(name, F_OK) == 0)
		return name;
	snprintf(buffer, size, "%s/%s.yaml", REA_SCENARIOS, name);
	return access(buffer, F_OK) == 0 ? buffer : name;
}

static int add_job(struct jobs *jobs, const char *name, struct options *options)
{
	struct job *job = &jobs->items[jobs->len];
	struct lab_study *study = &jobs->studies[jobs->len];
	struct rea_error_info info;
	char buffer[1024];
	const char *path = find_scenario(name, buffer, sizeof(buffer));
	int error;

	if (lab_scenario_load(path, options->settings, &job->scenario, &info) != 0) {
		say_error(&info);
		return 2;
	}
	jobs->len++;
	*study = (struct lab_study){.scenario = &job->scenario,
	    .seeds = (uint32_t)options->seeds,
	    .first_seed = options->seed,
	    .how = options->sockets ? "sockets" : "virtual time",
	    .context = &options->run,
	    .run = options->sockets ? lab_run_run : lab_sim_run,
	    .progress = isatty(STDERR_FILENO) ? show_progress : NULL};
	error = options->run.through != NULL ? add_through(study, options->run.through) : add_policies(study, options);
	job->judged = &study->entries[study->entries_len - 1];
	return error;
}

/* ---- a sweep ---- */

struct sweep {
	char key[64];
	double from, to;
	uint64_t steps;
};

static int wrong_sweep(const char *text)
{
	return wrong("--vary is KEY=A..B or KEY=A..B/STEPS", text);
}

static int parse_sweep(const char *text, struct sweep *ret_sweep)
{
	const char *equals = strchr(text, '='), *dots = strstr(text, "..");
	char from[32], *end;

	*ret_sweep = (struct sweep){.steps = STEPS};
	if (equals == NULL || dots == NULL || dots <= equals + 1 || (size_t)(equals - text) >= sizeof(ret_sweep->key) ||
	    (size_t)(dots - equals) > sizeof(from))
		return wrong_sweep(text);
	memcpy(ret_sweep->key, text, (size_t)(equals - text));
	memcpy(from, equals + 1, (size_t)(dots - equals - 1));
	from[dots - equals - 1] = '\0';
	ret_sweep->from = strtod(from, &end);
	if (*end != '\0' || dots[2] == '\0')
		return wrong_sweep(text);
	ret_sweep->to = strtod(dots + 2, &end);
	if (*end == '/')
		return parse_number("the number of steps", end + 1, 2, STEPS_MAX, &ret_sweep->steps);
	return *end == '\0' ? 0 : wrong_sweep(text);
}

static int add_sweep(struct jobs *jobs, const char *path, struct options *options)
{
	struct sweep sweep;
	char setting[128];
	int error = parse_sweep(options->vary, &sweep);
	bool whole = error == 0 && round(sweep.from) == sweep.from && round(sweep.to) == sweep.to &&
		     fabs(sweep.to - sweep.from) >= 2;

	for (uint64_t i = 0; error == 0 && i < sweep.steps; i++) {
		double value = sweep.from + (sweep.to - sweep.from) * (double)i / (double)(sweep.steps - 1);

		if (whole)
			value = round(value);
		snprintf(setting, sizeof(setting), whole ? "%s=%.0f" : "%s=%.6f", sweep.key, value);
		options->settings[options->settings_len] = setting;
		error = add_job(jobs, path, options);
		if (error == 0)
			jobs->items[jobs->len - 1].value = value;
	}
	options->settings[options->settings_len] = NULL;
	return error;
}

/* ---- reports ---- */

static FILE *open_report(const char *path)
{
	FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");

	if (file == NULL)
		wrong("cannot be written", path);
	return file;
}

static int close_report(FILE *file, const char *path)
{
	bool failed = ferror(file) != 0;

	if (file != stdout)
		failed |= fclose(file) != 0;
	else
		failed |= fflush(file) != 0;
	return failed ? wrong("cannot be written", path), 1 : 0;
}

static bool is_quiet(const struct options *options)
{
	return options->json != NULL && strcmp(options->json, "-") == 0;
}

static int write_reports(const struct jobs *jobs, const struct options *options)
{
	const struct lab_entry *judged[STUDIES_MAX];
	double values[STUDIES_MAX];
	char key[64];
	const struct lab_sweep sweep = {.key = key, .values = values};
	FILE *file;
	int error = 0;

	for (uint32_t i = 0; i < jobs->len; i++) {
		judged[i] = jobs->items[i].judged;
		values[i] = jobs->items[i].value;
	}
	snprintf(key, sizeof(key), "%.*s", options->vary != NULL ? (int)strcspn(options->vary, "=") : 0, options->vary);
	if (options->vary != NULL && !is_quiet(options))
		lab_report_sweep(jobs->studies, jobs->len, &sweep, stdout);
	if (options->json != NULL) {
		if ((file = open_report(options->json)) == NULL)
			return 1;
		error |= lab_report_json(jobs->studies, judged, jobs->len, file) != 0;
		error |= close_report(file, options->json);
	}
	if (options->html != NULL) {
		if ((file = open_report(options->html)) == NULL)
			return 1;
		lab_report_html(jobs->studies, judged, jobs->len, options->vary != NULL ? &sweep : NULL, file);
		error |= close_report(file, options->html);
	}
	if (options->markdown != NULL) {
		if ((file = open_report(options->markdown)) == NULL)
			return 1;
		for (uint32_t i = 0; i < jobs->len; i++)
			lab_report_markdown(&jobs->studies[i], judged[i], file);
		error |= close_report(file, options->markdown);
	}
	return error;
}

static bool is_invalid(const struct lab_study *study)
{
	for (uint32_t i = 0; i < study->entries_len; i++)
		if (study->entries[i].invalid)
			return true;
	return false;
}

static int run_jobs(struct jobs *jobs, const struct options *options)
{
	bool quiet = is_quiet(options) || options->vary != NULL;
	uint32_t missed = 0;

	for (uint32_t i = 0; i < jobs->len; i++) {
		struct lab_study *study = &jobs->studies[i];
		int error = lab_study_run(study);

		if (error != 0)
			return wrong(rea_error_text(error), study->scenario->name), 1;
		missed += quiet ? lab_study_missed(study, jobs->items[i].judged)
				: lab_report_text(study, jobs->items[i].judged, isatty(STDOUT_FILENO), stdout);
		if (is_invalid(study))
			missed++;
	}
	if (write_reports(jobs, options) != 0)
		return 1;
	return options->check && missed > 0 ? 1 : 0;
}

/* ---- the command ---- */

static void free_jobs(struct jobs *jobs)
{
	for (uint32_t i = 0; i < jobs->len; i++) {
		lab_study_fini(&jobs->studies[i]);
		lab_scenario_fini(&jobs->items[i].scenario);
	}
	free(jobs->items);
	free(jobs->studies);
}

static int add_jobs(struct jobs *jobs, int argc, char **argv, struct options *options)
{
	int error = 0;

	jobs->items = calloc(STUDIES_MAX, sizeof(*jobs->items));
	jobs->studies = calloc(STUDIES_MAX, sizeof(*jobs->studies));
	if (jobs->items == NULL || jobs->studies == NULL)
		return wrong("out of memory", NULL);
	for (int i = 0; error == 0 && i < argc; i++) {
		if (jobs->len + (options->vary != NULL ? STEPS_MAX : 1) > STUDIES_MAX)
			return wrong("too many scenarios", NULL);
		error = options->vary != NULL ? add_sweep(jobs, argv[i], options) : add_job(jobs, argv[i], options);
	}
	return error;
}

int cmd_lab(int argc, char **argv)
{
	struct options options = {.seeds = 5, .seed = 1};
	struct jobs jobs = {.len = 0};
	bool sweep = argc > 1 && strcmp(argv[1], "sweep") == 0;
	int error;

	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return usage(stdout);
	options.sockets = argc > 1 && strcmp(argv[1], "run") == 0;
	if (!sweep && !options.sockets && (argc < 2 || strcmp(argv[1], "sim") != 0))
		return usage(stderr);
	error = parse_options(argc - 1, argv + 1, &options);
	if (error != 0)
		return error > 0 ? error : 0;
	if (optind == argc - 1)
		return wrong("name a scenario file", NULL);
	if (sweep != (options.vary != NULL))
		return wrong(sweep ? "sweep needs --vary" : "--vary belongs to sweep", NULL);
	if (sweep && optind < argc - 2)
		return wrong("a sweep takes one scenario", NULL);
	if (!options.sockets && (options.run.port != 0 || options.run.through != NULL))
		return wrong("--port and --through belong to run", NULL);
	if (options.run.through != NULL && options.policies_len > 0)
		return wrong("--through and --policy exclude one another: what is there has its own", NULL);
	error = add_jobs(&jobs, argc - 1 - optind, argv + 1 + optind, &options);
	if (error == 0)
		error = run_jobs(&jobs, &options);
	free_jobs(&jobs);
	return error;
}
