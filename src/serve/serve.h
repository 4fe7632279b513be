/*
 * The process of `rea serve`: introduces the rooms to each other. The main thread keeps configuration, admin API, tasks, events and signals; workers
 * carry the calls.
 */
#ifndef REA_SRC_SERVE_SERVE_H
#define REA_SRC_SERVE_SERVE_H

#include <rea/config.h>

/* Until it is told to stop by a signal. config: read from path, which is watched. Returns the exit code; what went wrong is told on standard error. */
int serve_run(const char *path, struct rea_config *config);
/* Would it be taken? Its patterns and secrets, its certificates, keys and authorities are looked at. Returns the exit code, 0 or 2, likewise. */
int serve_check(const char *path, const struct rea_config *config);
void serve_print_error(const struct rea_error_info *error);

#endif
