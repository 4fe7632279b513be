/*
 * One service of the configuration, of which members.h has all. What its source lists becomes instances in three steps, after each of which the next is due only
 * if something may have changed:
 *
 *   take     the source has told its list
 *   resolve  every name in it is known, or was looked for once
 *   offer    roster.h says what of that holds
 *
 * member.c has these steps, member_names.c the names, member_sources.c the sources.
 */
#ifndef REA_SRC_MEMBER_H
#define REA_SRC_MEMBER_H

#include "discovery/dns.h"
#include "discovery/etcd.h"
#include "discovery/members.h"
#include "discovery/nacos_account.h"
#include "discovery/nacos_naming.h"
#include "discovery/watch.h"

#define MEMBER_SOURCE_SIZE 320

struct member;

/* A name in a list. */
struct lookup {
	struct roster_name name;
	struct dns_query query;
	struct member *member;
	bool troubled;
};

struct member {
	struct members *members;
	struct rea_config *config; /* what follows it borrows from; a reference */
	const struct rea_config_service *service;
	char *signature; /* all that says where its instances are found */
	char source[MEMBER_SOURCE_SIZE];
	struct roster_list list;
	struct roster roster;
	struct lookup **lookups; /* by name */
	size_t lookups_len;
	struct wheel_timer timer; /* the next look at a name or for SRV records, or the end of the grace time */
	struct dns_query srv;
	uint64_t srv_due_ns;
	uint32_t srv_failures;
	struct watch *watch;
	struct nacos_naming *nacos;
	struct etcd *etcd;
	uint64_t answered_ns; /* 0 = never */
	uint64_t failures;
	bool resolved; /* what the roster has is of the list and the names as they are */
	bool settled, troubled, protection;
	char problem[ROSTER_PROBLEM_SIZE]; /* told last */
	struct member *next;               /* in the order of the configuration */
};

/* What is shared by all that ask one registry. */
struct shared {
	struct rea_config *config; /* what the account borrows from; a reference */
	char *signature;
	struct nacos_account *account;
	struct dns *dns;
};

struct members {
	struct loop *loop;
	const char *only; /* NULL = all */
	struct members_events events;
	struct transfers transfers;
	struct shared shared;
	struct member *items;
	struct wheel_timer change_timer; /* 0 = now */
	struct wheel_timer settle_timer;
	bool settled;
};

/* ---- member.c ---- */

/* signature: taken over in any case. NULL = out of memory. */
struct member *member_new(struct members *members, struct rea_config *config, const struct rea_config_service *service,
    const struct shared *shared, char *signature);
/* NULL is a no-op. */
void member_free(struct member *member);
__attribute__((format(printf, 2, 3))) void member_notice(struct member *member, const char *format, ...);
/* The source, or a name, gave no answer. */
void member_trouble(struct member *member, const char *why);
/* The source has answered. */
void member_well(struct member *member);
/* It has listed this. Leaves an empty list. */
void member_listed(struct member *member, struct roster_list *list);
/* It has not, for now. */
void member_failed(struct member *member, const char *why);
/* The names may be others, or have other addresses. */
void member_resolve(struct member *member);
void member_set_timer(struct member *member);

/* ---- member_names.c ---- */

/* The names of its list, and no others, are looked up. Returns 0 or REA_ERR_NOMEM, the names as they were. */
int member_want_names(struct member *member);
/* Of roster_resolve; user_data: a struct member. */
const struct roster_name *member_find_name(const char *text, void *user_data);
/* Ask for those that are due. */
void member_look_up(struct member *member, uint64_t now_ns);
void member_forget_names(struct member *member);

/* ---- member_sources.c ---- */

/* All that says where the instances of a service are found; freed by the caller. NULL = out of memory. */
char *member_signature(const struct rea_config_service *service, const struct rea_config_settings *settings);
/* The same of what all share. */
char *member_shared_signature(const struct rea_config_settings *settings);
/* Follow the source. Returns 0 or REA_ERR_NOMEM. */
int member_begin(struct member *member, const struct shared *shared);
/* Ask for SRV records now, if they are due. */
void member_look_for_srv(struct member *member, uint64_t now_ns);

/* ---- members.c ---- */

void members_change(struct members *members);
/* A member knows what there is to know. */
void members_settle(struct member *member);

#endif
