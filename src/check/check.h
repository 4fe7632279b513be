/*
 * The linter: texts of configuration files in, layers of retries and findings out.
 *
 * Sans-IO: who calls it reads the files and writes what the reports give. A check belongs to one thread. Memory that runs out is remembered: every later
 * call returns REA_ERR_NOMEM, and check_free gives everything back.
 */
#ifndef REA_SRC_CHECK_CHECK_H
#define REA_SRC_CHECK_CHECK_H

#include "base/buffer.h"

#include <rea/alloc.h>
#include <rea/error.h>

#define CHECK_FILE_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define CHECK_FILES_MAX 1000
#define CHECK_PRODUCT_MAX_DEFAULT 4 /* requests for one call that nobody complains about */

/* What kind of file it is. X(NAME, "name on the command line", "in a sentence") */
#define CHECK_KIND_MAP(X)                        \
	X(SPRING, "spring", "Spring properties") \
	X(REA, "rea", "rea configuration")       \
	X(ISTIO, "istio", "Istio resource")      \
	X(ENVOY, "envoy", "Envoy configuration") \
	X(GRPC, "grpc", "gRPC service config")   \
	X(NGINX, "nginx", "nginx configuration") \
	X(HAPROXY, "haproxy", "HAProxy configuration")

enum check_kind {
	CHECK_KIND_AUTO,
#define X(name, text, english) CHECK_KIND_##name,
	CHECK_KIND_MAP(X)
#undef X
};

/* Not known, or a Retryer in code: what `--retryer PERIOD,MAX,ATTEMPTS` says. */
struct check_retryer {
	bool given;
	uint64_t period_ns;
	uint64_t max_ns;
	uint32_t requests; /* the first included */
};

/* @Retryable around the calls, in code: what `--retryable DELAY,ATTEMPTS` says. */
struct check_retryable {
	uint64_t delay_ns;
	uint32_t requests; /* the first included; 0 = there is none */
};

/* How many instances a service has, where the files do not say: `--instances SERVICE=N`. */
struct check_instances {
	const char *service;
	size_t count;
};

#define CHECK_INSTANCES_MAX 64

/* All texts are borrowed while the check lives. */
struct check_options {
	enum check_kind kind; /* AUTO = by name and content */
	uint32_t product_max; /* requests for one call; default CHECK_PRODUCT_MAX_DEFAULT */
	const char *cloud;    /* Spring Cloud version, "2022.0.3" or "Hoxton.SR12"; NULL = unknown */
	const char *boot;     /* Spring Boot version, when cloud is NULL */
	const char *profiles; /* "a,b": active together; NULL = none, then each that the files name by itself */
	bool keyed;           /* writes carry an Idempotency-Key */
	struct check_retryer retryer;
	struct check_retryable retryable;
	struct check_instances instances[CHECK_INSTANCES_MAX];
	size_t instances_len;
};

enum check_severity { CHECK_INFO, CHECK_WARNING, CHECK_ERROR, CHECK_SEVERITIES };

struct check;

/* These versions of Spring Cloud and Boot, either of which may be NULL, can be read. */
bool check_version_is_known(const char *cloud, const char *boot);

/* options: copied. Returns 0 or REA_ERR_NOMEM. alloc: borrowed while the check lives; NULL = malloc. */
int check_new(const struct check_options *options, const struct rea_alloc *alloc, struct check **ret_check);
void check_free(struct check *check); /* NULL is a no-op */

/* What `mvn dependency:list` or `dependency:tree` printed; text: borrowed while the check lives. May be called once, before files are added. */
int check_classpath(struct check *check, const char *text, size_t length);
/* Read a file. name and text: borrowed while the check lives. Returns 0; REA_ERR_SYNTAX, INVALID, LIMIT or NOMEM with ret_info filled: the file is then
 * left out, and the reports say so. */
int check_add(struct check *check, const char *name, const char *text, size_t length, struct rea_error_info *ret_info);
/* A file that could not be read: the reports tell it. */
int check_unreadable(struct check *check, const char *name, const char *message);
/* "a>b>c": requests go from a's calls to b on to b's calls to c. After the last check_add. REA_ERR_INVALID with a message. */
int check_chain(struct check *check, const char *chain, struct rea_error_info *ret_info);
/* Apply the rules. After the last check_add and check_chain. */
int check_run(struct check *check);

/* After check_run. 0 nothing above INFO, 1 an error, 3 warnings, 2 a file that could not be read. */
int check_exit_code(const struct check *check);

/* Reports, appended. Return 0 or REA_ERR_NOMEM. */
int check_report_text(struct check *check, bool color, struct rea_buffer *ret_text);
int check_report_json(struct check *check, struct rea_buffer *ret_text);
int check_report_sarif(struct check *check, struct rea_buffer *ret_text);

/* The corrected text of the file `name`. ret_changes: how many findings it takes away; 0 = nothing to correct, ret_text unchanged. */
int check_fix(struct check *check, const char *name, struct rea_buffer *ret_text, size_t *ret_changes);

#endif
