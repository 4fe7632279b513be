/*
 * Makes providers known to registries for as long as the program runs: `register` of the configuration. What a registry refuses, or whoever
 * is not there, is asked again for ever; nothing of it stops anything else.
 *
 * Belongs to the loop's thread.
 */
#ifndef REA_SRC_REGISTRAR_H
#define REA_SRC_REGISTRAR_H

#include "loop/loop.h"

#include <rea/config.h>
#include <rea/metrics.h>

struct registrar;

struct registrar_events {
	/* One line for whoever runs this: registered, not registered and why. Told when it changes. */
	void (*notice)(const char *text, void *user_data);
	void *user_data;
};

/* events: copied. NULL = out of memory. */
struct registrar *registrar_new(struct loop *loop, const struct registrar_events *events);
/* Register what this configuration has, with what it says now; take back what it has no more. Takes references of config. No event from inside. Returns
 * 0, or REA_ERR_NOMEM and nothing has changed. */
int registrar_configure(struct registrar *registrar, struct rea_config *config);
/* Take all of it back. done: called once, soon: whoever does not answer is left to forget us. Not from inside. */
void registrar_stop(struct registrar *registrar, void (*done)(void *user_data), void *user_data);
/* NULL is a no-op. */
void registrar_free(struct registrar *registrar);
void registrar_metrics(const struct registrar *registrar, struct rea_prometheus *out);

#endif
