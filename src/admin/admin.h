/*
 * The admin API: health, version, metrics, events and timelines, on a listener of its own.
 *
 * It knows nothing of what it shows: whoever makes it hands in where to look. Everything belongs to the loop's thread.
 */
#ifndef REA_SRC_ADMIN_H
#define REA_SRC_ADMIN_H

#include "loop/loop.h"

#include <rea/error.h>
#include <rea/event.h>
#include <rea/metrics.h>

/* X(NAME, "name") */
#define ADMIN_READINESS_MAP(X) X(STARTING, "starting") X(READY, "ready") X(DRAINING, "draining")

enum admin_readiness {
#define X(name, text) ADMIN_##name,
	ADMIN_READINESS_MAP(X)
#undef X
};

/* The configuration that is in force. Everything is borrowed until the callback's caller returns to the loop. */
struct admin_config {
	const char *path;
	const char *version; /* identifies the document's bytes */
	int64_t loaded_unix_ns;
	uint64_t reloads;                        /* loads that succeeded after the first */
	uint64_t rejects;                        /* loads that were refused */
	const struct rea_error_info *last_error; /* why the latest load was refused; NULL = it was not */
};

/* Where to look. */
struct admin_sources {
	const struct rea_event_ring *ring; /* borrowed while the admin lives; NULL = no events are kept */
	enum admin_readiness (*readiness)(void *user_data);
	void (*metrics)(struct rea_prometheus *out, void *user_data); /* writes everything there is to count */
	void (*config)(struct admin_config *ret_config, void *user_data);
	void *user_data;
};

struct admin;

/* Listens on address ("127.0.0.1:7071"; port 0: the kernel chooses). sources: copied. Returns 0, REA_ERR_NOMEM or
 * REA_ERR_IO with ret_info. */
int admin_new(struct loop *loop, const char *address, const struct admin_sources *sources, struct admin **ret_admin,
    struct rea_error_info *ret_info);
/* Where it listens. */
const char *admin_address(const struct admin *admin);
/* Stop listening, cut open connections, free. closed (may be NULL) is called once nothing is left; not from inside
 * this call. NULL admin: no-op. */
void admin_close(struct admin *admin, void (*closed)(void *arg), void *arg);

#endif
