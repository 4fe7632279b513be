/*
 * A Spring application under one set of profiles: its settings, and the targets that they come to. The numbers are those that the real stack showed, where
 * its documentation says something else.
 */
#ifndef REA_SRC_CHECK_SPRING_H
#define REA_SRC_CHECK_SPRING_H

#include "check/settings.h"

#define SPRING_NAMES_MAX CHECK_TARGETS_MAX
#define SPRING_ROUTES_MAX CHECK_TARGETS_MAX
#define SPRING_FILTERS_MAX 64

#define SPRING_FEIGN "spring.cloud.openfeign"
#define SPRING_CLIENT SPRING_FEIGN ".client.config."
#define SPRING_CLIENT_OLD "feign.client.config."
#define SPRING_RETRY "spring.cloud.loadbalancer.retry"
#define SPRING_CLIENT_RETRY "spring.cloud.loadbalancer.clients.*.retry"

struct spring {
	struct check *check;
	struct check_app *app;
	struct check_view view;
	const char *profile;           /* "" = none */
	struct check_target **targets; /* the end of those that other profiles brought: this one's stand here */
	const char *default_config;    /* the entry of client.config that holds for every client */
	bool has_feign;                /* there are Feign clients, or nothing says that there are none */
	bool reactive;                 /* calls are made by WebClient or the gateway */
	bool unknown;                  /* set when a value was asked for that is not in the files */
};

/* A setting with the value that counts. */
struct spring_value {
	const struct check_setting *setting; /* NULL = is not set */
	const char *text;                    /* NULL = is not set, or not known */
};

struct spring_value spring_get(struct spring *spring, const char *pattern, const char *name);
/* Of a Feign client: its own, or that of the default entry; in the new or the old spelling of the prefix. key: "readtimeout". */
struct spring_value spring_client(struct spring *spring, const char *name, const char *key);
/* Of LoadBalancer's retry: the client's, or the global one. key: "enabled". */
struct spring_value spring_retry(struct spring *spring, const char *name, const char *key);
/* Values of a kind; the fallback when it is not set, not known, or (told as RC19) not of that kind. */
bool spring_bool(struct spring *spring, struct spring_value value, bool fallback);
uint64_t spring_number(struct spring *spring, struct spring_value value, uint64_t fallback);
uint64_t spring_time(struct spring *spring, struct spring_value value, uint64_t bare_ns, uint64_t fallback);

struct check_place spring_place(struct spring_value value);
/* LoadBalancer may retry calls to that service; NULL = to those without settings of their own. */
bool spring_retry_enabled(struct spring *spring, const char *name);
/* 0 = that many are not known. */
size_t spring_instances(struct spring *spring, const char *name);
/* Distinct names of what the pattern has, up to SPRING_NAMES_MAX. */
struct spring_names {
	const char *names[SPRING_NAMES_MAX];
	size_t count;
};
void spring_names_add(struct spring *spring, struct spring_names *names, const char *pattern);
/* The clients that the files name; without the default entry. */
void spring_clients(struct spring *spring, struct spring_names *ret_names);
bool spring_same_name(const char *a, const char *b);
/* Of resilience4j: the instance's own, that of its base-config, or of configs.default. module: "retry". */
struct spring_value spring_r4j(struct spring *spring, const char *module, const char *instance, const char *key);
/* The failures that an exception class stands for. *ret_known: false = it is not known here. */
uint32_t spring_failures_of(const char *exception, bool *ret_known);

/* What carries the requests of Feign clients. */
enum spring_transport { SPRING_JDK, SPRING_HC5, SPRING_OKHTTP, SPRING_TRANSPORT_UNKNOWN /* JDK or HC5 */ };
/* ret_place: of the setting that chooses it, unchanged where none does. */
enum spring_transport spring_transport(struct spring *spring, struct check_place *ret_place);

bool spring_is_default_retryer(const char *class);
/* Where a client is configured (NULL: those without an entry of their own), or else the application. */
struct check_place spring_client_place(struct spring *spring, const char *name);

void spring_targets(struct spring *spring);
void spring_rules(struct spring *spring);

#endif
