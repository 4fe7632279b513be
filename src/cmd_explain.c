/* rea explain [--config FILE] [SERVICE [METHOD]] */
#include "cmd.h"

#include <rea/config.h>

#include <getopt.h>
#include <stdio.h>

#define CONFIG_DEFAULT "rea.yaml"

static int usage(FILE *out)
{
	fprintf(out, "usage: rea explain [--config FILE] [SERVICE [METHOD]]\n\n"
		     "Prints what holds for a method, a service or everything, and where each value was written.\n\n"
		     "  -c, --config FILE  the configuration (default: " CONFIG_DEFAULT ")\n"
		     "  -h, --help         print this\n");
	return out == stderr ? 2 : 0;
}

static int fail(const struct rea_error_info *info)
{
	fprintf(stderr, "rea: ");
	if (info->file[0] != '\0' && info->line > 0)
		fprintf(stderr, "%s:%u:%u: ", info->file, info->line, info->column);
	else if (info->file[0] != '\0')
		fprintf(stderr, "%s: ", info->file);
	fprintf(stderr, "%s%s%s\n", info->key, info->key[0] != '\0' ? ": " : "", info->message);
	return 2;
}

static void write_out(const char *text, size_t length, void *user_data)
{
	fwrite(text, 1, length, user_data);
}

static int explain(const char *path, const char *service, const char *method)
{
	struct rea_error_info info;
	struct rea_config *config;
	int error = rea_config_load(path, NULL, &config, &info);

	if (error != 0)
		return fail(&info);
	error = rea_config_explain(config, service, method, write_out, stdout, &info);
	rea_config_unref(config);
	if (error != 0)
		return fail(&info);
	return fflush(stdout) == 0 ? 0 : 1;
}

int cmd_explain(int argc, char **argv)
{
	static const struct option options[] = {
	    {"config", required_argument, NULL, 'c'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *path = CONFIG_DEFAULT;
	int option;

	while ((option = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout);
		if (option != 'c')
			return usage(stderr);
		path = optarg;
	}
	if (argc - optind > 2)
		return usage(stderr);
	return explain(path, argc > optind ? argv[optind] : NULL, argc > optind + 1 ? argv[optind + 1] : NULL);
}
