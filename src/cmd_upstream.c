/* rea upstream: scripted HTTP/1.1 servers to try rea against. */
#include "cmd.h"

#include "lab/upstream.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>

#define INSTANCES_MAX 64

/* What one --listen and the options after it say. */
struct group {
	const char *address;
	const char *name;        /* NULL = A, B, C … in order */
	const char *script;      /* a file, or NULL */
	struct rea_buffer steps; /* lines of --step */
};

struct options {
	struct group groups[INSTANCES_MAX];
	size_t groups_len;
	const char *log;
	uint64_t seed;
};

struct signals {
	uv_signal_t term, interrupt;
};

static int usage(FILE *out)
{
	fprintf(out, "usage: rea upstream --listen ADDRESS [--name NAME] [--script FILE | --step STEP...] [--listen "
		     "ADDRESS ...]... [--log FILE] [--seed N]\n\n"
		     "  -l, --listen ADDRESS  one more instance; port 0 = the kernel chooses\n"
		     "  -n, --name NAME       its name; else A, B, C ... in order\n"
		     "  -s, --script FILE     how it answers\n"
		     "  -S, --step STEP       a line of its script instead of a file; may be repeated\n"
		     "  -o, --log FILE        a JSON line per request; - is standard output\n"
		     "  -r, --seed N          of the steps with a chance; else 1\n\n"
		     "Without a script an instance echoes. rea-upstream(1) tells the script's language.\n");
	return out == stderr ? 2 : 0;
}

static int wrong(const char *message, const char *what)
{
	fprintf(stderr, "rea upstream: %s%s%s\n", message, what ? ": " : "", what ? what : "");
	return 2;
}

static int add_step(struct group *group, const char *step)
{
	if (group->script != NULL)
		return wrong("an instance has a --script or --step options, not both", NULL);
	if (rea_buffer_append_slice(&group->steps, rea_slice_of(step)) != 0 || rea_buffer_append(&group->steps, "\n", 1) != 0)
		return wrong("out of memory", NULL);
	return 0;
}

static int parse_option(struct options *options, int option, const char *value)
{
	struct group *group = options->groups_len > 0 ? &options->groups[options->groups_len - 1] : NULL;

	if (group == NULL && (option == 'n' || option == 's' || option == 'S'))
		return wrong("--name, --script and --step stand after the --listen that they belong to", NULL);
	switch (option) {
	case 'l':
		if (options->groups_len == INSTANCES_MAX)
			return wrong("too many instances", NULL);
		options->groups[options->groups_len++].address = value;
		return 0;
	case 'n':
		group->name = value;
		return 0;
	case 's':
		if (rea_buffer_length(&group->steps) > 0)
			return wrong("an instance has a --script or --step options, not both", NULL);
		group->script = value;
		return 0;
	case 'S':
		return add_step(group, value);
	case 'o':
		options->log = value;
		return 0;
	case 'r':
		return rea_slice_to_u64(rea_slice_of(value), &options->seed) ? 0 : wrong("--seed is a number", value);
	default:
		return usage(stderr);
	}
}

/* Returns 0, the exit code, or -1 after --help. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {{"listen", required_argument, NULL, 'l'},
	    {"name", required_argument, NULL, 'n'}, {"script", required_argument, NULL, 's'},
	    {"step", required_argument, NULL, 'S'}, {"log", required_argument, NULL, 'o'},
	    {"seed", required_argument, NULL, 'r'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int option, error = 0;

	while (error == 0 && (option = getopt_long(argc, argv, "l:n:s:S:o:r:h", names, NULL)) != -1) {
		if (option == 'h') {
			usage(stdout);
			return -1;
		}
		error = parse_option(options, option, optarg);
	}
	if (error == 0 && (optind < argc || options->groups_len == 0))
		return usage(stderr);
	return error;
}

static int read_file(const char *path, struct rea_buffer *text)
{
	FILE *file = fopen(path, "r");
	size_t length;

	if (file == NULL)
		return REA_ERR_IO;
	do {
		if (rea_buffer_reserve(text, 4096) != 0)
			break;
		length = fread(text->data + text->end, 1, 4096, file);
		text->end += length;
	} while (length > 0 && rea_buffer_length(text) <= LAB_BYTES_MAX);
	length = (size_t)ferror(file);
	fclose(file);
	return length != 0 ? REA_ERR_IO : 0;
}

static int load_script(struct group *group, struct lab_script *ret_script)
{
	struct rea_error_info info;
	const char *name = group->script != NULL ? group->script : "--step";

	if (group->script != NULL && read_file(group->script, &group->steps) != 0)
		return wrong("cannot read the script", group->script);
	if (lab_script_parse(name, rea_buffer_length(&group->steps) > 0 ? rea_buffer_data(&group->steps) : "",
		rea_buffer_length(&group->steps), ret_script, &info) == 0)
		return 0;
	fprintf(stderr, "%s:%u:%u: %s\n", info.file, info.line, info.column, info.message);
	return 2;
}

static int add_group(struct lab_bed *bed, struct group *group, size_t index)
{
	char name[2] = {(char)('A' + (char)(index % 26)), '\0'};
	struct rea_error_info info;
	struct lab_script script;
	int error = load_script(group, &script);

	if (error != 0)
		return error;
	if (lab_bed_add(bed, group->name != NULL ? group->name : name, group->address, &script, &info) == 0)
		return 0;
	fprintf(stderr, "rea upstream: %s\n", info.message);
	return 1;
}

static void on_signal(uv_signal_t *handle, int number)
{
	(void)number;
	loop_stop(handle->data);
}

static void catch_signals(struct loop *loop, struct signals *signals)
{
	uv_signal_init(&loop->uv, &signals->term);
	uv_signal_init(&loop->uv, &signals->interrupt);
	signals->term.data = signals->interrupt.data = loop;
	uv_signal_start(&signals->term, on_signal, SIGTERM);
	uv_signal_start(&signals->interrupt, on_signal, SIGINT);
	signal(SIGPIPE, SIG_IGN);
}

static int serve(struct options *options, struct loop *loop, struct lab_bed *bed)
{
	int error = 0;

	for (size_t i = 0; error == 0 && i < options->groups_len; i++)
		error = add_group(bed, &options->groups[i], i);
	if (error != 0)
		return error;
	lab_bed_print(bed, stdout);
	loop_run(loop);
	return 0;
}

static int serve_with_loop(struct options *options, FILE *log)
{
	struct signals signals;
	struct lab_bed *bed;
	struct loop loop;
	int error;

	if (loop_init(&loop, options->seed) != 0)
		return wrong("out of memory", NULL);
	bed = lab_bed_new(&loop, log, options->seed);
	catch_signals(&loop, &signals);
	error = bed != NULL ? serve(options, &loop, bed) : wrong("out of memory", NULL);
	lab_bed_close(bed);
	uv_close((uv_handle_t *)&signals.term, NULL);
	uv_close((uv_handle_t *)&signals.interrupt, NULL);
	loop_fini(&loop);
	lab_bed_free(bed);
	return error;
}

static int serve_with_log(struct options *options)
{
	FILE *log = options->log == NULL ? NULL : strcmp(options->log, "-") == 0 ? stdout : fopen(options->log, "a");
	int error;

	if (options->log != NULL && log == NULL)
		return wrong("cannot write the log", options->log);
	error = serve_with_loop(options, log);
	if (log != NULL && log != stdout)
		fclose(log);
	return error;
}

int cmd_upstream(int argc, char **argv)
{
	struct options options = {.seed = 1};
	int error = parse_options(argc, argv, &options);

	if (error == 0)
		error = serve_with_log(&options);
	for (size_t i = 0; i < options.groups_len; i++)
		rea_buffer_fini(&options.groups[i].steps);
	return error > 0 ? error : 0;
}
