/* rea torture DIR: does what is acknowledged survive here? */
#include "cmd.h"

#include "base/slice.h"
#include "torture/torture.h"

#include <rea/guard.h>

#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#define ROUNDS_DEFAULT 10
#define SECONDS_DEFAULT 20
#define CLIENTS_DEFAULT 8
#define RATE_DEFAULT 500

static int usage(FILE *out)
{
	fprintf(out, "usage: rea torture [OPTION]... DIR\n\n"
		     "Hands tasks in to a rea whose store is in DIR, kills it at random moments, restarts it, and "
		     "looks whether every\n"
		     "promise was kept. Prints the evidence, then PASS or what was broken.\n\n"
		     "  -r, --rounds N     kills (default: 10)\n"
		     "  -s, --seconds N    of handing in, all rounds together (default: 20)\n"
		     "  -c, --clients N    that hand in at once, 1 to 64 (default: 8)\n"
		     "  -R, --rate N       tasks a second, all clients together (default: 500)\n"
		     "  -S, --seed N       of what is handed in and when it is killed (default: random, and printed)\n"
		     "  -P, --power-cuts   a kill loses what was not synced (under a layer that does so): attempts may "
		     "be counted short\n"
		     "  -k, --keep         keep the files when all is well, too\n"
		     "  -h, --help         print this\n");
	return out == stderr ? 2 : 0;
}

static int read_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
	if (rea_slice_to_u64(rea_slice_of(text), ret_value) && *ret_value >= min && *ret_value <= max)
		return 0;
	fprintf(stderr, "rea torture: --%s is %s; it must be a number from %llu to %llu\n", option, text,
	    (unsigned long long)min, (unsigned long long)max);
	return 2;
}

static int read_u32(const char *option, const char *text, uint32_t max, uint32_t *ret_value)
{
	uint64_t value = 0;
	int error = read_number(option, text, 1, max, &value);

	*ret_value = (uint32_t)value;
	return error;
}

static int parse_option(struct torture_options *options, int option, const char *value)
{
	switch (option) {
	case 'r':
		return read_u32("rounds", value, 10000, &options->rounds);
	case 's':
		return read_u32("seconds", value, 86400, &options->seconds);
	case 'c':
		return read_u32("clients", value, 64, &options->clients);
	case 'R':
		return read_u32("rate", value, 100000, &options->rate_per_s);
	case 'S':
		return read_number("seed", value, 0, UINT64_MAX, &options->seed);
	case 'P':
		options->power_cuts = true;
		return 0;
	case 'k':
		options->keep = true;
		return 0;
	default:
		return usage(stderr);
	}
}

int cmd_torture(int argc, char **argv)
{
	static const struct option names[] = {{"rounds", required_argument, NULL, 'r'},
	    {"seconds", required_argument, NULL, 's'}, {"clients", required_argument, NULL, 'c'},
	    {"rate", required_argument, NULL, 'R'}, {"seed", required_argument, NULL, 'S'},
	    {"power-cuts", no_argument, NULL, 'P'}, {"keep", no_argument, NULL, 'k'}, {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0}};
	struct torture_options options = {.rounds = ROUNDS_DEFAULT,
	    .seconds = SECONDS_DEFAULT,
	    .clients = CLIENTS_DEFAULT,
	    .rate_per_s = RATE_DEFAULT,
	    .seed = rea_seed() >> 32,
	    .progress = isatty(STDERR_FILENO)};
	int option, error = 0;

	while (error == 0 && (option = getopt_long(argc, argv, "r:s:c:R:S:Pkh", names, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout);
		error = parse_option(&options, option, optarg);
	}
	if (error != 0)
		return error;
	if (optind != argc - 1)
		return usage(stderr);
	options.directory = argv[optind];
	return torture_run(&options);
}
