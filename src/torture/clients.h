/* Threads that hand tasks in for as long as there is somebody who takes them. */
#ifndef REA_SRC_TORTURE_CLIENTS_H
#define REA_SRC_TORTURE_CLIENTS_H

#include "torture/ledger.h"

struct clients;

/* count threads, rate_per_s submits in all. NULL: they could not be started. */
struct clients *clients_start(struct ledger *ledger, uint32_t count, uint32_t rate_per_s, uint64_t seed);
/* There is a server: go on there. */
void clients_resume(struct clients *clients, const char *admin);
/* There is none any more: none of the threads is in a request when this returns. */
void clients_pause(struct clients *clients);
/* They end. */
void clients_free(struct clients *clients);

/* ---- one request, for whoever has to ask ---- */

struct asker;
struct asker *asker_new(void);
void asker_free(struct asker *asker);
/* The reply's status, or 0 when none came. body NULL: GET. ret_reply: of the last request, borrowed until the next one; may be NULL. */
long asker_ask(struct asker *asker, const char *admin, const char *path, const char *body, const char **ret_reply);

#endif
