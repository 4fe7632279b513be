/* Follows the list of instances of one service at a Nacos server, by asking for it as often as the server says. */
#ifndef REA_SRC_NACOS_NAMING_H
#define REA_SRC_NACOS_NAMING_H

#include "discovery/nacos_account.h"
#include "discovery/roster.h"

struct nacos_naming;

/* Every call is made on the loop, never from inside the start. */
struct nacos_naming_events {
	/* The list as the server has it now, on each look, changed or not. Who takes it leaves an empty one. */
	void (*listed)(struct roster_list *list, void *user_data);
	/* All servers were asked and none gave an answer, or one refused us. */
	void (*failed)(const char *why, void *user_data);
	void (*notice)(const char *text, void *user_data);
	void *user_data;
};

/* account, discovery: borrowed while it lives. events: copied. NULL = out of memory. */
struct nacos_naming *nacos_naming_start(struct loop *loop, struct nacos_account *account,
    const struct rea_config_discovery *discovery, const struct nacos_naming_events *events);
/* No more events. NULL is a no-op. */
void nacos_naming_stop(struct nacos_naming *naming);

#endif
