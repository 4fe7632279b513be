/*
 * Where the retry policy comes from: the sources of `sources.policy`, in their order. The first that has a document gives it, as a whole; one that says
 * "there is none" is passed over; one that has never said anything is not: until it speaks, nothing is retried that is not already.
 *
 * Belongs to the loop's thread.
 */
#ifndef REA_SRC_SOURCES_H
#define REA_SRC_SOURCES_H

#include "loop/loop.h"

#include <rea/config.h>
#include <rea/metrics.h>

struct sources;

struct sources_document {
	const char *name; /* "nacos public/DEFAULT_GROUP/rpc-retry.yml", as messages and events name it */
	const char *text; /* borrowed until return, as all here; "" with a length of 0: no source has a document, so retries are off */
	size_t length;
	const char *from; /* which server, failover file or snapshot, and how old */
};

struct sources_events {
	/* There is another document. Returns whether it is good: one that is not leaves the last one in force, and is not told again. */
	bool (*document)(const struct sources_document *document, void *user_data);
	/* One line for whoever runs this: what is used, what is wrong with a source, that it is well again. Told when it changes. */
	void (*notice)(const char *text, void *user_data);
	/* Once: every source has answered, or will not soon; `document` has been called. */
	void (*settled)(void *user_data);
	void *user_data;
};

/* settings: borrowed while it lives, with one source at least. events: copied. No event from inside. NULL = out of memory. */
struct sources *sources_start(
    struct loop *loop, const struct rea_config_settings *settings, const struct sources_events *events);
/* What documents are judged by has changed: one that was refused may be good now. */
void sources_again(struct sources *sources);
/* Look at the files now (SIGHUP). */
void sources_look(struct sources *sources);
/* Of each source: the version of its document, when it last spoke, how long ago, and what went wrong. */
void sources_metrics(const struct sources *sources, struct rea_prometheus *out);
/* No more events. NULL is a no-op. The memory goes when the loop has closed the handles of files. */
void sources_stop(struct sources *sources);

#endif
