/*
 * Requests to a Nacos server by somebody who may have to log in: one login for all that ask, renewed before it ends and when it is refused.
 *
 * Belongs to the loop's thread.
 */
#ifndef REA_SRC_NACOS_ACCOUNT_H
#define REA_SRC_NACOS_ACCOUNT_H

#include "discovery/fetch.h"
#include "discovery/servers.h"

#include <rea/config.h>

struct nacos_account;

enum nacos_asked {
	NACOS_ASK_REPLIED, /* fetch has the reply, whatever it says, but 401 and 403 */
	NACOS_ASK_FAILED,  /* no reply: why */
	NACOS_ASK_DENIED   /* we are not let in: why */
};

/* One who asks: one request at a time, of one server until that fails. Zero-initialise with done set. */
struct nacos_ask {
	/* Never from inside nacos_ask_begin; may begin another. */
	void (*done)(struct nacos_ask *ask, enum nacos_asked asked);
	void *user_data;
	char why[400];
	struct servers servers; /* its owner tells it what worked and what failed */
	struct fetch fetch;
	/* Private. */
	struct nacos_account *account;
	struct nacos_ask *next; /* who waits for the login */
	bool waiting, again;
	const char *method, *path;
	char *query;
};

/* source: servers and how to be let in; borrowed while it lives. NULL = out of memory. */
struct nacos_account *nacos_account_new(
    struct loop *loop, struct transfers *transfers, const struct rea_config_source *source);
/* Nobody asks any more. NULL is a no-op. */
void nacos_account_free(struct nacos_account *account);
const struct rea_config_source *nacos_account_source(const struct nacos_account *account);

void nacos_ask_init(struct nacos_ask *ask, struct nacos_account *account);
/* method, path: static. query: "name=value&…", taken over, NULL = there was no memory for it; the body of a POST. */
void nacos_ask_begin(struct nacos_ask *ask, const char *method, const char *path, char *query);
/* No done any more. */
void nacos_ask_end(struct nacos_ask *ask);
static inline struct rea_slice nacos_ask_reply(const struct nacos_ask *ask)
{
	const char *data = rea_buffer_data(&ask->fetch.reply);

	return data != NULL ? rea_slice_make(data, rea_buffer_length(&ask->fetch.reply)) : REA_SLICE_LIT("");
}

#endif
