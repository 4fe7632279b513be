/* Lists of instances as registries and files write them, and what a registry is told of a provider, without any I/O. */
#ifndef REA_SRC_NAMING_WIRE_H
#define REA_SRC_NAMING_WIRE_H

#include "base/buffer.h"
#include "discovery/nacos_wire.h"
#include "discovery/roster.h"

#include <rea/error.h>

#define NACOS_LIST_V1 "/v1/ns/instance/list"
#define NACOS_INSTANCE_V1 "/v1/ns/instance"
#define NACOS_BEAT_V1 "/v1/ns/instance/beat"
#define NACOS_LIST_V3 "/v3/client/ns/instance/list"
#define NACOS_INSTANCE_V3 "/v3/client/ns/instance"
#define ETCD_LEASE_GRANT "/v3/lease/grant"
#define ETCD_LEASE_KEEP "/v3/lease/keepalive"
#define ETCD_LEASE_REVOKE "/v3/lease/revoke"
#define ETCD_KV_PUT "/v3/kv/put"

/* ---- lists ---- */

/* The readers fill an empty list; what they took before they failed is the caller's to free. An entry that is no instance is left out and told in
 * list->problem; a reply that is no list is REA_ERR_SYNTAX, one with more than ROSTER_INSTANCES_MAX is REA_ERR_LIMIT. */

/* Instances of Nacos: `hosts` of v1, or `data` of v3. */
int naming_read_nacos(const json_t *instances, struct roster_list *list);
/* The answer of v1: its list, its flag, and how long it may be kept. */
int naming_read_nacos_v1(struct rea_slice reply, struct roster_list *list, uint64_t *ret_cache_ms);
/* An answer of etcd's range: each value an address, or an object with `address`. */
int naming_read_etcd(const json_t *answer, struct roster_list *list);
/* An instance file: JSON, a list of addresses and objects. */
int naming_read_file(struct rea_slice text, struct roster_list *list, struct rea_error_info *ret_info);
/* An answer of DNS to a question for SRV records, and the shortest life of them. REA_ERR_NOT_FOUND: there are none. */
int naming_read_srv(const unsigned char *answer, size_t length, struct roster_list *list, uint32_t *ret_ttl_s);

/* ---- providers ---- */

struct naming_provider {
	const char *service, *address, *group, *cluster, *namespace_id; /* namespace "" = public */
	double weight;
	const json_t *metadata; /* an object of texts */
};

/* "serviceName=…&ip=…" of the requests that register it, and that take it back. Returns 0 or REA_ERR_NOMEM; out: appended to, without an end. */
int naming_write_nacos(const struct naming_provider *provider, bool v3, struct rea_buffer *out);
/* The same of a heartbeat; v1 with all that makes an instance, so that a server that forgot it can make it anew. */
int naming_write_beat(const struct naming_provider *provider, bool v3, struct rea_buffer *out);

enum naming_beat { NAMING_ALIVE, NAMING_UNKNOWN /* register again */, NAMING_REFUSED };
/* What a server says to a heartbeat. interval_ms: when it wants the next; left alone when it does not say. */
enum naming_beat naming_read_beat(long status, struct rea_slice reply, uint64_t *interval_ms);

/* A provider as etcd keeps it. Freed by the caller; NULL = out of memory. */
char *naming_write_etcd(const struct naming_provider *provider);
/* Put under a lease; the others: bodies of requests about leases. */
char *naming_put_body(const char *key, const char *value, uint64_t lease);
char *naming_grant_body(uint32_t ttl_s);
char *naming_lease_body(uint64_t lease);

#endif
