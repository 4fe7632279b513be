/* The table of subcommands. Options of a subcommand are its own business. */
#include "cmd.h"

#include <stdio.h>
#include <string.h>

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
    {"serve", cmd_serve, "run the sidecar"},
    {"call", cmd_call, "make one call and tell what happened"},
    {"check", cmd_check, "find dangerous retry settings in files of Spring, rea, Istio, Envoy, nginx, HAProxy and gRPC"},
    {"config", cmd_config, "read, replace and look back at the policy document of a configuration centre"},
    {"contract", cmd_contract, "print what a callee's documents permit, and what changed"},
    {"explain", cmd_explain, "print what holds for a method, and where it was written"},
    {"timeline", cmd_timeline, "print what happened to the calls of one business request"},
    {"run", cmd_run, "run a command until it succeeds, within a budget that all such commands share"},
    {"tasks", cmd_tasks, "hand in, list, cancel and replay durable tasks of a running rea"},
    {"torture", cmd_torture, "prove on your own disk that acknowledged tasks survive"},
    {"lab", cmd_lab, "try retry policies in faults that were planned, side by side"},
    {"upstream", cmd_upstream, "start scripted servers to try rea against"},
    {"version", cmd_version, "print the version"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int usage(FILE *out)
{
	fprintf(out, "usage: rea COMMAND [OPTION]...\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(out, "\n`rea COMMAND --help` tells its options; rea(1) tells everything.\n");
	return out == stderr ? 2 : 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage(stderr);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
		return usage(stdout);
	if (strcmp(argv[1], "--version") == 0)
		return cmd_version(0, NULL);
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "rea: there is no command %s\n\n", argv[1]);
	return usage(stderr);
}
