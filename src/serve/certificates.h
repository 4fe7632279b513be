/*
 * The TLS contexts that the running configuration needs: made of its files, made anew when these change. What replaces a good one must be good itself:
 * until it is, the older one stays.
 *
 * Belongs to the main loop's thread.
 */
#ifndef REA_SRC_SERVE_CERTIFICATES_H
#define REA_SRC_SERVE_CERTIFICATES_H

#include "loop/tls.h"

#include <rea/metrics.h>

struct certificates;
struct loop;

struct certificates_events {
	/* A file that is in use may have changed: prepare again. */
	void (*changed)(void *user_data);
	/* One line for whoever runs this. */
	void (*notice)(const char *text, void *user_data);
	void *user_data;
};

/* loop NULL = nothing is watched. events: copied. NULL = out of memory. */
struct certificates *certificates_new(struct loop *loop, const struct certificates_events *events);
void certificates_free(struct certificates *certificates); /* NULL is fine */
/* Make what config needs and is not there in its present state. Returns 1 when something of it is new, 0 when nothing is, or an error with ret_info when a file
 * is not good and there is no older one in its place: then what there was stays. now_s: seconds since 1970. */
int certificates_prepare(
    struct certificates *certificates, const struct rea_config *config, int64_t now_s, struct rea_error_info *ret_info);
/* config is in force: what it does not need goes, and its files are watched. */
void certificates_settle(struct certificates *certificates, const struct rea_config *config);
/* Of a prepared configuration; NULL for NULL. Borrowed until the next prepare. */
struct tls_context *certificates_listener(const struct certificates *certificates, const struct rea_config_tls *tls);
struct tls_context *certificates_service(const struct certificates *certificates, const struct rea_config_service *service);
void certificates_metrics(const struct certificates *certificates, struct rea_prometheus *out);

#endif
