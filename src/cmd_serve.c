#include "cmd.h"

#include "serve/serve.h"

#include <getopt.h>
#include <stdio.h>

static int usage(FILE *out)
{
	fprintf(out, "usage: rea serve [--check] --config FILE\n\n"
		     "  -c, --config FILE  the configuration, rea.yaml(5); watched, and read again when it changes or "
		     "on SIGHUP\n"
		     "      --check        read the configuration, say what is wrong with it, and stop\n");
	return out == stderr ? 2 : 0;
}

int cmd_serve(int argc, char **argv)
{
	static const struct option options[] = {
	    {"config", required_argument, NULL, 'c'},
	    {"check", no_argument, NULL, 'k'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	struct rea_config *config;
	struct rea_error_info error;
	const char *path = NULL;
	bool check = false;
	int option, result;

	while ((option = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (option == 'c')
			path = optarg;
		else if (option == 'k')
			check = true;
		else
			return usage(option == 'h' ? stdout : stderr);
	}
	if (path == NULL || optind < argc)
		return usage(stderr);
	if (rea_config_load(path, NULL, &config, &error) != 0) {
		serve_print_error(&error);
		return 2;
	}
	result = check ? serve_check(path, config) : serve_run(path, config);
	if (check && result == 0)
		printf("rea: %s is good\n", path);
	rea_config_unref(config);
	return result;
}
