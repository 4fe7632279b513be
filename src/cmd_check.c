/* rea check: what retry configuration comes to, and what is dangerous about it. */
#include "cmd.h"
#include "terminal.h"

#include "check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHAINS_MAX 64

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SARIF };

struct command {
	struct check_options options;
	enum format format;
	bool fix;
	const char *classpath;
	const char *chains[CHAINS_MAX];
	size_t chains_len;
	struct rea_buffer *texts; /* of the files, and at the end of the class path */
	size_t texts_len;
};

static int usage(FILE *out)
{
	fprintf(out,
	    "usage: rea check [OPTION]... FILE...\n\n"
	    "Tells what one call can become under the retry settings of these files, and what is dangerous about "
	    "them.\n"
	    "Spring (.yml, .properties), rea.yaml, Istio, Envoy, nginx, HAProxy and gRPC service configs.\n\n"
	    "  -f, --format FORMAT        text, json or sarif (default: text)\n"
	    "  -c, --chain 'A>B'          requests go from A to B, as the hops are named in the report\n"
	    "  -p, --profile NAME[,NAME]  Spring profiles that are active together (default: none, then each that is "
	    "named)\n"
	    "      --classpath FILE       what `mvn dependency:list` or `dependency:tree` printed\n"
	    "      --cloud-version V      version of Spring Cloud, such as 2022.0.3\n"
	    "      --boot-version V       version of Spring Boot, when that of Cloud is not known\n"
	    "      --retryer P,MAX,N      a Retryer bean in code: period and maximum in ms, attempts\n"
	    "      --retryable D,N        @Retryable around the calls in code: delay in ms, attempts\n"
	    "      --instances SERVICE=N  so many instances has a service, where the files do not say\n"
	    "      --keyed                writes carry an Idempotency-Key\n"
	    "      --limit N              requests for one call that are still well (default: 4)\n"
	    "  -k, --kind KIND            read every file as spring, rea, istio, envoy, grpc, nginx or haproxy\n"
	    "      --fix                  write a corrected file beside each that can be corrected (NAME.fixed.EXT)\n"
	    "  -h, --help                 print this\n\n"
	    "Exit status: 0 nothing, or notes alone; 1 an error; 3 warnings; 2 wrong usage, or a file that cannot be "
	    "read.\n");
	return out == stderr ? 2 : 0;
}

static int wrong(const char *option, const char *value, const char *expected)
{
	fprintf(stderr, "rea: %s: expected %s, got \"%s\"\n", option, expected, value);
	return 2;
}

/* ------------------------------------------------------------------ options */

static bool read_number(const char *text, unsigned long max, unsigned long *ret_number, const char **ret_end)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret_number = strtoul(text, &end, 10);
	*ret_end = end;
	return errno == 0 && *ret_number <= max;
}

static bool read_retryer(const char *text, struct check_retryer *ret_retryer)
{
	unsigned long period, max, requests;
	const char *end;

	if (!read_number(text, 3600000, &period, &end) || *end != ',' || !read_number(end + 1, 3600000, &max, &end) ||
	    *end != ',' || !read_number(end + 1, 1000, &requests, &end) || *end != '\0' || requests < 1)
		return false;
	*ret_retryer = (struct check_retryer){true, period * UINT64_C(1000000), max * UINT64_C(1000000), (uint32_t)requests};
	return true;
}

static bool read_retryable(const char *text, struct check_retryable *ret_retryable)
{
	unsigned long delay, requests;
	const char *end;

	if (!read_number(text, 3600000, &delay, &end) || *end != ',' || !read_number(end + 1, 1000, &requests, &end) ||
	    *end != '\0' || requests < 1)
		return false;
	*ret_retryable = (struct check_retryable){delay * UINT64_C(1000000), (uint32_t)requests};
	return true;
}

/* The service's name is cut off in place: the text is an argument of the program. */
static bool read_instances(char *text, struct check_options *options)
{
	char *equals = strrchr(text, '=');
	unsigned long count;
	const char *end;

	if (equals == NULL || equals == text || options->instances_len == CHECK_INSTANCES_MAX ||
	    !read_number(equals + 1, 100000, &count, &end) || *end != '\0' || count < 1)
		return false;
	*equals = '\0';
	options->instances[options->instances_len++] = (struct check_instances){text, count};
	return true;
}

static bool read_kind(const char *text, enum check_kind *ret_kind)
{
	static const struct {
		const char *name;
		enum check_kind kind;
	} kinds[] = {
#define X(name, text, english) {text, CHECK_KIND_##name},
	    CHECK_KIND_MAP(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(text, kinds[i].name) == 0) {
			*ret_kind = kinds[i].kind;
			return true;
		}
	return false;
}

static bool read_format(const char *text, enum format *ret_format)
{
	static const char *const names[] = {[FORMAT_TEXT] = "text", [FORMAT_JSON] = "json", [FORMAT_SARIF] = "sarif"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i]) == 0) {
			*ret_format = (enum format)i;
			return true;
		}
	return false;
}

enum {
	OPTION_CLASSPATH = 256,
	OPTION_CLOUD,
	OPTION_BOOT,
	OPTION_RETRYER,
	OPTION_RETRYABLE,
	OPTION_INSTANCES,
	OPTION_KEYED,
	OPTION_LIMIT,
	OPTION_FIX
};

/* Returns 0, or the exit code. */
static int read_option(struct command *command, int option, char *value)
{
	unsigned long number;
	const char *end;

	switch (option) {
	case 'f':
		return read_format(value, &command->format) ? 0 : wrong("--format", value, "text, json or sarif");
	case 'c':
		if (command->chains_len == CHAINS_MAX)
			return wrong("--chain", value, "at most 64 chains");
		command->chains[command->chains_len++] = value;
		return 0;
	case 'p':
		command->options.profiles = value;
		return 0;
	case 'k':
		return read_kind(value, &command->options.kind)
			   ? 0
			   : wrong("--kind", value, "spring, rea, istio, envoy, grpc, nginx or haproxy");
	case OPTION_CLASSPATH:
		command->classpath = value;
		return 0;
	case OPTION_CLOUD:
		command->options.cloud = value;
		return check_version_is_known(value, NULL)
			   ? 0
			   : wrong("--cloud-version", value, "a version such as 2022.0.3 or Hoxton.SR12");
	case OPTION_BOOT:
		command->options.boot = value;
		return check_version_is_known(NULL, value) ? 0 : wrong("--boot-version", value, "a version such as 3.2.1");
	case OPTION_RETRYER:
		return read_retryer(value, &command->options.retryer)
			   ? 0
			   : wrong("--retryer", value, "PERIOD,MAX,ATTEMPTS, up to 3600000 ms and 1000 attempts");
	case OPTION_RETRYABLE:
		return read_retryable(value, &command->options.retryable)
			   ? 0
			   : wrong("--retryable", value, "DELAY,ATTEMPTS, up to 3600000 ms and 1000 attempts");
	case OPTION_INSTANCES:
		return read_instances(value, &command->options)
			   ? 0
			   : wrong("--instances", value, "SERVICE=N, up to 100000 instances and 64 services");
	case OPTION_KEYED:
		command->options.keyed = true;
		return 0;
	case OPTION_LIMIT:
		if (!read_number(value, 1000000, &number, &end) || *end != '\0' || number < 1)
			return wrong("--limit", value, "a number from 1 to 1000000");
		command->options.product_max = (uint32_t)number;
		return 0;
	case OPTION_FIX:
		command->fix = true;
		return 0;
	default:
		return usage(stderr);
	}
}

/* ------------------------------------------------------------------ files */

/* Returns 0, or an errno. One byte more than the limit is enough: the check refuses it. */
static int read_file(const char *path, struct rea_buffer *buffer)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error = fd < 0 ? errno : 0;

	while (error == 0 && rea_buffer_length(buffer) <= CHECK_FILE_BYTES_MAX) {
		ssize_t got;

		if (rea_buffer_reserve(buffer, 65536) != 0) {
			error = ENOMEM;
			break;
		}
		got = read(fd, buffer->data + buffer->end, buffer->capacity - buffer->end);
		if (got == 0)
			break;
		if (got < 0 && errno != EINTR)
			error = errno;
		if (got > 0)
			buffer->end += (size_t)got;
	}
	if (fd >= 0)
		close(fd);
	return error;
}

static void tell(const struct rea_error_info *info)
{
	if (info->file[0] == '\0')
		fprintf(stderr, "rea: %s\n", info->message);
	else if (info->line > 0)
		fprintf(stderr, "rea: %s:%u:%u: %s\n", info->file, info->line, info->column, info->message);
	else
		fprintf(stderr, "rea: %s: %s\n", info->file, info->message);
}

/* A file that cannot be read is told, and the others are checked. Returns 0 or REA_ERR_NOMEM. */
static int add_file(struct check *check, const char *path, struct rea_buffer *buffer)
{
	struct rea_error_info info;
	char text[160];
	int error = read_file(path, buffer);

	if (error != 0) {
		snprintf(text, sizeof(text), "cannot be read: %s", strerror(error));
		fprintf(stderr, "rea: %s: %s\n", path, text);
		return check_unreadable(check, path, text);
	}
	error = check_add(check, path, rea_buffer_length(buffer) > 0 ? rea_buffer_data(buffer) : "",
	    rea_buffer_length(buffer), &info);
	if (error != 0 && error != REA_ERR_NOMEM)
		tell(&info);
	return error == REA_ERR_NOMEM ? error : 0;
}

static bool write_all(int fd, const char *data, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, data, length);

		if (written < 0 && errno != EINTR)
			return false;
		if (written > 0) {
			data += written;
			length -= (size_t)written;
		}
	}
	return true;
}

/* "a/b.yml": "a/b.fixed.yml". */
static char *fixed_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
	size_t length = dot != NULL && dot > base ? (size_t)(dot - path) : strlen(path);
	size_t size = strlen(path) + sizeof(".fixed");
	char *name = malloc(size);

	if (name != NULL)
		snprintf(name, size, "%.*s.fixed%s", (int)length, path, path + length);
	return name;
}

/* Nothing that is there is written over. Returns 0, or the exit code. */
static int write_fixed(const char *path, const struct rea_buffer *text, size_t changes)
{
	char *name = fixed_name(path);
	int fd, result = 0;

	if (name == NULL) {
		fprintf(stderr, "rea: out of memory\n");
		return 2;
	}
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0 || !write_all(fd, rea_buffer_data(text), rea_buffer_length(text)) || close(fd) != 0) {
		fprintf(stderr, "rea: %s: cannot be written: %s\n", name, strerror(errno));
		result = 2;
	} else {
		fprintf(stderr, "rea: %s: %zu finding%s corrected\n", name, changes, changes == 1 ? "" : "s");
	}
	free(name);
	return result;
}

static int fix_file(struct check *check, const char *path)
{
	struct rea_buffer text = {.data = NULL};
	size_t changes = 0;
	int result = 0;

	if (check_fix(check, path, &text, &changes) != 0) {
		fprintf(stderr, "rea: out of memory\n");
		result = 2;
	} else if (changes > 0) {
		result = write_fixed(path, &text, changes);
	}
	rea_buffer_fini(&text);
	return result;
}

/* ------------------------------------------------------------------ all of it */

static int report(struct check *check, enum format format)
{
	struct rea_buffer text = {.data = NULL};
	int error;

	switch (format) {
	case FORMAT_JSON:
		error = check_report_json(check, &text);
		break;
	case FORMAT_SARIF:
		error = check_report_sarif(check, &text);
		break;
	case FORMAT_TEXT:
	default:
		error = check_report_text(check, terminal_wants_color(STDOUT_FILENO), &text);
		break;
	}
	if (error == 0 && (fwrite(rea_buffer_data(&text), 1, rea_buffer_length(&text), stdout) != rea_buffer_length(&text) ||
			      fflush(stdout) != 0)) {
		fprintf(stderr, "rea: the report cannot be written: %s\n", strerror(errno));
		error = REA_ERR_IO;
	}
	rea_buffer_fini(&text);
	return error;
}

/* Returns 0, an error of rea, or 2 for what was told already. */
static int read_all(struct check *check, struct command *command, char **paths, size_t count)
{
	struct rea_error_info info;
	int error;

	if (command->classpath != NULL) {
		struct rea_buffer *text = &command->texts[count];

		error = read_file(command->classpath, text);
		if (error != 0) {
			fprintf(stderr, "rea: %s: cannot be read: %s\n", command->classpath, strerror(error));
			return 2;
		}
		error = check_classpath(
		    check, rea_buffer_length(text) > 0 ? rea_buffer_data(text) : "", rea_buffer_length(text));
		if (error != 0)
			return error;
	}
	for (size_t i = 0; i < count; i++) {
		error = add_file(check, paths[i], &command->texts[i]);
		if (error != 0)
			return error;
	}
	for (size_t i = 0; i < command->chains_len; i++) {
		error = check_chain(check, command->chains[i], &info);
		if (error == REA_ERR_INVALID) {
			tell(&info);
			return 2;
		}
		if (error != 0)
			return error;
	}
	return check_run(check);
}

static int run(struct command *command, char **paths, size_t count)
{
	struct check *check = NULL;
	int result = check_new(&command->options, NULL, &check);

	if (result == 0)
		result = read_all(check, command, paths, count);
	if (result == 0)
		result = report(check, command->format);
	for (size_t i = 0; i < count && result == 0 && command->fix; i++)
		result = fix_file(check, paths[i]);
	if (result == REA_ERR_NOMEM)
		fprintf(stderr, "rea: out of memory\n");
	if (result == 0)
		result = check_exit_code(check);
	check_free(check);
	return result < 0 ? 2 : result;
}

int cmd_check(int argc, char **argv)
{
	static const struct option options[] = {{"format", required_argument, NULL, 'f'},
	    {"chain", required_argument, NULL, 'c'}, {"profile", required_argument, NULL, 'p'},
	    {"kind", required_argument, NULL, 'k'}, {"classpath", required_argument, NULL, OPTION_CLASSPATH},
	    {"cloud-version", required_argument, NULL, OPTION_CLOUD},
	    {"boot-version", required_argument, NULL, OPTION_BOOT}, {"retryer", required_argument, NULL, OPTION_RETRYER},
	    {"retryable", required_argument, NULL, OPTION_RETRYABLE},
	    {"instances", required_argument, NULL, OPTION_INSTANCES}, {"keyed", no_argument, NULL, OPTION_KEYED},
	    {"limit", required_argument, NULL, OPTION_LIMIT}, {"fix", no_argument, NULL, OPTION_FIX},
	    {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	struct command command = {.options = {.product_max = CHECK_PRODUCT_MAX_DEFAULT}};
	size_t count;
	int option, result = 0;

	while ((option = getopt_long(argc, argv, "f:c:p:k:h", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout);
		result = read_option(&command, option, optarg);
		if (result != 0)
			return result;
	}
	if (optind == argc)
		return usage(stderr);
	count = (size_t)(argc - optind);
	command.texts = calloc(count + 1, sizeof(*command.texts));
	if (command.texts == NULL) {
		fprintf(stderr, "rea: out of memory\n");
		return 2;
	}
	result = run(&command, argv + optind, count);
	for (size_t i = 0; i <= count; i++)
		rea_buffer_fini(&command.texts[i]);
	free(command.texts);
	return result;
}
