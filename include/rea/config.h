/*
 * rea.yaml: parsed, validated, merged. A rea_config is one immutable snapshot, counted by reference; any thread
 * may read it.
 */
#ifndef REA_CONFIG_H
#define REA_CONFIG_H

#include <rea/alloc.h>
#include <rea/balancer.h>
#include <rea/contract.h>
#include <rea/error.h>
#include <rea/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_config;

enum rea_config_tls_version { REA_TLS_1_2, REA_TLS_1_3 };

/* A certificate for one name that clients ask for. */
struct rea_config_tls_name {
	const char *name; /* lower case; "*.example.com": every name with one label more */
	const char *certificate_file;
	const char *key_file;
	uint32_t line;
};

/* How TLS is spoken at a listener, or with the instances of a service. Files are PEM; a relative path of the document stands here as it begins beside it. */
struct rea_config_tls {
	const char *certificate_file; /* with its chain. A listener's: never NULL; a service's: what rea shows to instances, NULL = nothing */
	const char *key_file;
	const char *ca_file; /* who vouches for the peer. A listener's: NULL = clients need no certificate; a service's: NULL = the system's authorities */
	const char *server_name; /* a service's: whom the instances' certificates must name; NULL = the host of each one's address */
	bool verify;                             /* a service's; default true */
	enum rea_config_tls_version min_version; /* default 1.2 */
	const struct rea_config_tls_name *names; /* a listener's: other certificates, by the name that is asked for (SNI) */
	size_t names_len;
	uint32_t line;
};

struct rea_config_instance {
	const char *address; /* "127.0.0.1:9001", "[::1]:9001" or "name:9001" */
	uint32_t weight;     /* 1..1000, default 1 */
	const char *host;    /* Host sent to it; NULL = the service's */
	uint32_t line;
};

/* Where the instances of a service come from. */
enum rea_config_discovery_kind {
	REA_DISCOVERY_LIST, /* `instances` of the document */
	REA_DISCOVERY_FILE,
	REA_DISCOVERY_DNS,
	REA_DISCOVERY_NACOS,
	REA_DISCOVERY_ETCD
};

/* Texts that mean nothing for its kind are "". */
struct rea_config_discovery {
	enum rea_config_discovery_kind kind;
	const char *name;  /* path of the file, name to look up, name of the service at Nacos, or prefix of the keys */
	uint32_t port;     /* DNS; 0 = the records say it (SRV) */
	const char *group; /* Nacos; default "DEFAULT_GROUP" */
	const char *namespace_id; /* Nacos; "" = public; default that of sources.nacos */
	const char *clusters;     /* Nacos; names with commas between; "" = all, the default */
	uint32_t empty_grace_ms;  /* for so long the last list holds after an empty one; 0..86400000, default 60000 */
	uint32_t line;
};

/* What is spoken with the instances of a service; calls of gRPC go by HTTP/2 whatever is said here. */
enum rea_config_protocol {
	REA_PROTOCOL_HTTP1,
	REA_PROTOCOL_H2 /* with prior knowledge, without TLS as well */
};

enum rea_config_health_protocol { REA_HEALTH_HTTP, REA_HEALTH_GRPC };

/* How the instances of a service are asked whether they are well. */
struct rea_config_health {
	enum rea_config_health_protocol protocol; /* default HTTP */
	const char *path;                         /* HTTP: GET it, 2xx is well; default "/health" */
	const char *service;                      /* gRPC: asked of grpc.health.v1.Health/Check; default "" */
	uint32_t interval_ms;                     /* 100..3600000, default 5000 */
	uint32_t timeout_ms;                      /* 1..60000 and <= interval, default 1000 */
	uint32_t unhealthy_after;                 /* failed checks in a row, 1..100, default 3 */
	uint32_t healthy_after;                   /* passed ones, 1..100, default 2 */
	uint32_t line;
};

struct rea_config_service {
	const char *name;
	const char *const *hosts; /* further names for Host and http_proxy addressing */
	size_t hosts_len;
	const char *host; /* Host sent upstream; NULL = the authority the caller used, or ip:port when addressed by prefix */
	const struct rea_config_instance *instances; /* of REA_DISCOVERY_LIST */
	size_t instances_len;
	struct rea_config_discovery discovery;
	enum rea_balance balance;
	enum rea_config_protocol protocol;
	const struct rea_config_tls *tls; /* NULL = none is spoken with its instances */
	bool ejection; /* instances that do worse than the others are left out for a while; default true */
	const struct rea_config_health *health; /* NULL = nobody asks them */
	const struct rea_policy *policy;        /* of methods without own settings */
	const struct rea_policy *grpc_policy;   /* the same for gRPC calls: rea_config_grpc_policy */
	/* Of the service as a whole: rpc.grpc.retry or a gRPC service config says it, else rpc.feign.retry */
	const struct rea_budget_policy *budget;
	const struct rea_contract *contract;                /* NULL = none declared */
	const struct rea_policy *const *operation_policies; /* one per operation of the contract, by index */
	size_t index;                                       /* 0 .. services-1 */
	uint32_t line;
};

struct rea_config_listen {
	const char *address;              /* "127.0.0.1:7070" */
	const struct rea_config_tls *tls; /* NULL = none */
	uint32_t line;
};

/* Addresses that begin with the same bits. */
struct rea_config_range {
	const char *text;    /* "10.0.0.0/8", "fd00::/8" or "::1" */
	uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t bits;       /* of the 16 bytes: 104 of 10.0.0.0/8 */
};

enum rea_config_tunnel { REA_TUNNEL_REFUSE, REA_TUNNEL_ALLOW };

/* URLs that a task may go to: all that the pattern matches. */
struct rea_config_url {
	const char *pattern;            /* scheme://host[:port][/path], stars as rea.yaml(5) says */
	enum rea_permission permission; /* SAFE, IDEMPOTENT or IDEMPOTENT_WITH_KEY; NONE = not declared, so one attempt */
	const struct rea_config_range *allow_private; /* where it may go though the address is not public: this machine, networks of one's own */
	size_t allow_private_len; /* default 0 = nowhere; `true` is one range without bits: everywhere */
	const char *ca_file; /* PEM: who vouches for these targets, in place of the system's authorities; NULL = those */
	const char *const *secrets; /* Standard Webhooks: each signs; "whsec_…" */
	size_t secrets_len;
	uint32_t concurrency; /* attempts under way at once, of each origin; 0 = tasks.target_concurrency */
	double rate_per_s;    /* attempts a second, of each origin; 0 = no limit */
	uint32_t line;
};

/* What a service takes of tasks. */
struct rea_config_target {
	const char *service;
	uint32_t concurrency; /* as above */
	double rate_per_s;
	uint32_t line;
};

enum rea_config_source_kind { REA_SOURCE_FILE, REA_SOURCE_NACOS, REA_SOURCE_ETCD };

/* Which interface of a Nacos server is used. */
enum rea_config_nacos_mode {
	REA_NACOS_AUTO, /* what the server turns out to have */
	REA_NACOS_V1,   /* long polling: servers 1.x to 3.1 */
	REA_NACOS_V3    /* polling every poll_ms: servers since 3.0 */
};

/* A place where a policy document is kept. Texts that mean nothing for its kind are "" or NULL. */
struct rea_config_source {
	enum rea_config_source_kind kind;
	const char *name;           /* path of the file, data id, or key */
	const char *const *servers; /* URLs without a path; NULL of a file */
	size_t servers_len;         /* 1..16 */
	const char *group;          /* Nacos; default "DEFAULT_GROUP" */
	const char *namespace_id;   /* Nacos; "" = public, the default */
	const char *context_path;   /* Nacos; default "/nacos", "" for / */
	enum rea_config_nacos_mode mode;
	uint32_t poll_ms;          /* Nacos without long polling; 1000..3600000, default 5000 */
	const char *username;      /* NULL = nobody logs in */
	const char *password;      /* as written: it may be "file:PATH" */
	const char *ca_file;       /* PEM, in place of the system's authorities; NULL = those */
	const char *failover_file; /* holds in place of what the servers say, as long as it is there; NULL = none */
	bool kitex; /* it is called "Client.Server.retry": a document of Kitex, which is asked beside the others */
	uint32_t line;
};

/* A name and a value. */
struct rea_config_pair {
	const char *name;
	const char *value;
};

/* A provider that rea makes known to a registry for as long as it runs. */
struct rea_config_registration {
	enum rea_config_source_kind in; /* REA_SOURCE_NACOS or REA_SOURCE_ETCD: sources.nacos or sources.etcd says where that is */
	const char *service;            /* its name there */
	const char *address;            /* "10.0.0.7:9001", no name */
	double weight;                  /* above 0 up to 10000, default 1 */
	const char *group;              /* Nacos; default "DEFAULT_GROUP" */
	const char *cluster;            /* Nacos; default "DEFAULT" */
	const char *prefix;             /* etcd: what stands before service/address; default "/services/" */
	uint32_t ttl_s;                 /* it is forgotten so long after the last word of us; 5..300, default 15 */
	const char *contract; /* the service of this document whose permissions are told; NULL = the one of this name, if there is one */
	const struct rea_config_pair *metadata;
	size_t metadata_len; /* 0..64 */
	uint32_t line;
};

/* Everything outside the services. Defaults stand in rea_config_settings_defaults alone. */
struct rea_config_settings {
	const struct rea_config_listen *listen; /* default one: 127.0.0.1:7070 */
	size_t listen_len;
	const char *admin;              /* default "127.0.0.1:7071" */
	const char *const *admin_hosts; /* names in Host that mean the admin API, besides addresses and localhost; default none */
	size_t admin_hosts_len;
	uint32_t threads;          /* 1..64, default 1 */
	const char *biz_id_header; /* default "x-biz-id" */
	/* Whose retry marks and deadlines count; default loopback, private and link-local addresses. */
	const struct rea_config_range *trusted_edge;
	size_t trusted_edge_len;
	struct {
		const char *file;      /* JSON lines; "-" = standard output; NULL (`off`) = none; default NULL */
		uint32_t ring;         /* events kept in memory, 0..1000000, default 4096 */
		double sample_success; /* share of first-try successes that are recorded, 0..1, default 0 */
		uint32_t queue_bytes;  /* per thread, a power of two 4096..64 MiB, default 256 KiB */
		const char *sqlite;    /* a database of events; NULL (`off`) = none; default NULL */
		uint32_t sqlite_retention_hours; /* older events leave it, 1..87600, default 168 */
		uint32_t sqlite_max_mb; /* its size in MiB; beyond it the oldest leave, 8..1048576, default 1024 */
	} events;
	struct {
		uint32_t concurrent_retries;   /* 1..1000000, default 256 */
		uint32_t parked_calls;         /* 1..1000000, default 1000 */
		uint32_t header_bytes;         /* of one message head, 1024..1 MiB, default 32 KiB */
		uint32_t headers;              /* fields of one message, 8..1000, default 100 */
		uint32_t connections;          /* open client connections per thread, default 10000 */
		uint32_t upstream_connections; /* per instance and thread, in all, default 1024 */
		uint32_t upstream_idle;        /* kept per instance and thread, default 64 */
		uint32_t admin_connections;    /* open connections to the admin API, 8..100000, default 512 */
		uint32_t task_queue;           /* tasks that are not over, 1..100000000, default 1000000 */
		uint32_t task_bytes;           /* of a request that hands tasks in, 1024..64 MiB, default 1 MiB */
		uint32_t task_attempts;        /* attempts that a task's policy may have, 1..100, default 10 */
	} limits;
	struct {
		uint32_t request_head_ms;  /* from the first byte to the whole head, default 10000 */
		uint32_t keep_alive_ms;    /* idle client connection, default 60000 */
		uint32_t stream_idle_ms;   /* a body that does not move, either way, default 30000 */
		uint32_t upstream_idle_ms; /* idle pooled connection, default 30000 */
		uint32_t drain_ms;         /* graceful shutdown, default 10000 */
	} timeouts;
	struct {
		const char *snapshot_dir; /* where the last good document of each server is kept; NULL (`off`) = nowhere; default NULL */
		const struct rea_config_source *policy; /* the first that has a document gives it; none = `rpc` of this document holds */
		size_t policy_len;                      /* 0..8 */
		/* The servers that services and registrations name, and policies without `servers` of their own; name is NULL. NULL = none. */
		const struct rea_config_source *nacos;
		const struct rea_config_source *etcd; /* the same */
		const char *const *dns_servers;       /* "127.0.0.1:53"; none = those of the system */
		size_t dns_servers_len;               /* 0..8 */
	} sources;
	const struct rea_config_registration *registrations;
	size_t registrations_len;       /* 0..64 */
	enum rea_config_tunnel upgrade; /* default REFUSE */
	enum rea_config_tunnel connect; /* default REFUSE */
	struct {
		const char *file;            /* the store; NULL (`off`) = no tasks; default NULL */
		uint32_t concurrency;        /* attempts under way at once, 1..10000, default 64 */
		uint32_t target_concurrency; /* the same at one target, 1..10000, default 16 */
		uint32_t retention_hours; /* how long a task is kept that is over, with its key, 1..87600, default 168 */
		uint32_t reply_bytes;     /* of a reply's body that is read, 0..1 MiB, default 16 KiB */
		/* What tasks.policy sets, over rea_policy_task_defaults and under what a task sets itself. */
		struct rea_policy_layer policy;
		const struct rea_config_url *urls; /* in the order of the document: the first that matches holds */
		size_t urls_len;
		const struct rea_config_target *targets;
		size_t targets_len;
		bool retries_off; /* `enabled: false` stands at the global level of rpc.feign.retry: the master switch is for tasks too */
	} tasks;
};
REA_API void rea_config_settings_defaults(struct rea_config_settings *settings);
/* Does the address ("10.0.0.7", "::1", without a port) belong to the trusted edge? */
REA_API bool rea_config_trusts(const struct rea_config_settings *settings, const char *address, size_t length);
/* Does the range have this address? IPv4 as ::ffff:a.b.c.d. */
REA_API bool rea_config_range_has(const struct rea_config_range *range, const uint8_t address[16]);

/* Parse a document. name: for messages, may be NULL; text: borrowed until return. libyaml allocates with malloc of
 * its own while it parses; whatever lives longer comes from alloc. On error returns REA_ERR_SYNTAX, INVALID, LIMIT
 * or NOMEM with ret_info filled, and *ret_config is untouched. alloc NULL = malloc. The result has one reference. */
REA_API int rea_config_parse(const char *name, const char *text, size_t length, const struct rea_alloc *alloc,
    struct rea_config **ret_config, struct rea_error_info *ret_info);
/* Read a file (at most 16 MiB) and parse it. REA_ERR_IO too. */
REA_API int rea_config_load(
    const char *path, const struct rea_alloc *alloc, struct rea_config **ret_config, struct rea_error_info *ret_info);
/* The same configuration under another policy: `rpc` of this document, which has no other key, in place of what base has. An empty document has no
 * policy, so nothing is retried. base: the result holds a reference of it; it may itself be such a result, of which the policy is then replaced. The
 * rest is as for rea_config_parse. */
REA_API int rea_config_with_policy(struct rea_config *base, const char *name, const char *text, size_t length,
    const struct rea_alloc *alloc, struct rea_config **ret_config, struct rea_error_info *ret_info);
/* A document whose name ends in "Client.Server.retry", as Kitex keeps them, is read as Kitex's clients read it: for the one service of base that is the Server,
 * below all that `rpc` of base says, which then holds. The text may also be a bundle: REA_CONFIG_BUNDLE, then of each document its length in decimal, a
 * space, its name, a newline and its bytes; one of ours at most, in place of `rpc` of base, and those of Kitex; one whose Server is no service is left out. */
#define REA_CONFIG_BUNDLE '\x1e'
/* The same from a file (at most 16 MiB). REA_ERR_IO too. */
REA_API int rea_config_load_policy(struct rea_config *base, const char *path, const struct rea_alloc *alloc,
    struct rea_config **ret_config, struct rea_error_info *ret_info);
/* The line of `rpc.feign.retry` in the document that the policy comes from; 0 = it has none. */
REA_API uint32_t rea_config_policy_line(const struct rea_config *config);
REA_API struct rea_config *rea_config_ref(struct rea_config *config);
REA_API void rea_config_unref(struct rea_config *config); /* NULL is fine */

REA_API const struct rea_config_settings *rea_config_settings(const struct rea_config *config);
REA_API size_t rea_config_services_count(const struct rea_config *config);
REA_API const struct rea_config_service *rea_config_service(const struct rea_config *config, size_t index);
/* By service name, exact. */
REA_API const struct rea_config_service *rea_config_find_service(
    const struct rea_config *config, const char *name, size_t length);
/* By authority: service names and `hosts`, case-insensitive, a port in it is ignored unless `hosts` names it. */
REA_API const struct rea_config_service *rea_config_find_host(
    const struct rea_config *config, const char *authority, size_t length);
/* By the name of a gRPC service, "package.Service", as `grpc-services` has it: the whole name, else the longest package. NULL = none. */
REA_API const struct rea_config_service *rea_config_find_grpc(
    const struct rea_config *config, const char *name, size_t length);
/* The effective policy of a gRPC method of a service: path is "/package.Service/Method", whether a contract declares it or not; what is no such path
 * has the service's. service: of this config. Never NULL. */
REA_API const struct rea_policy *rea_config_grpc_policy(
    const struct rea_config *config, const struct rea_config_service *service, const char *path, size_t length);
/* The effective policy of a method key (it need not be in a contract). service NULL = an unknown service: global
 * level. */
REA_API int rea_config_policy(
    const struct rea_config *config, const char *service, const char *method_key, struct rea_policy *ret_policy);
/* The attempts that a call of the service comes to at most under a policy of it, retries enabled: those of the policy, or fewer where its instances stand in the
 * document by address and are too few, as each is tried once in a round, and never twice in a row. */
REA_API uint32_t rea_config_attempts(const struct rea_config_service *service, const struct rea_policy *policy);
/* A document that was read with the configuration: a contract, or a gRPC service config. */
struct rea_config_contract_file {
	const char *path;
	char version[17]; /* 16 hex digits of a hash of its bytes */
};
/* Those of all services, in the order in which they were read; NULL with a count of 0. */
REA_API const struct rea_config_contract_file *rea_config_contract_files(const struct rea_config *config, size_t *ret_count);
/* The documents that a document names beside it, also when it is refused: of each its path, borrowed until tell returns, and its version, "" when it cannot be
 * read. Returns 0; REA_ERR_SYNTAX, INVALID or LIMIT of what is no YAML that rea reads; REA_ERR_NOMEM. alloc NULL = malloc. */
REA_API int rea_config_named_files(const char *name, const char *text, size_t length, const struct rea_alloc *alloc,
    void (*tell)(const struct rea_config_contract_file *file, void *user_data), void *user_data);
/* Identifies the bytes of the document, of its contract files and of the policy document in place of its own, for events: 16 hex digits of a hash. */
REA_API const char *rea_config_version(const struct rea_config *config);

enum rea_config_change {
	REA_CHANGED_KEY,    /* "limits.concurrent-retries: 300, was 256" */
	REA_CHANGED_METHOD, /* "users user-api_getUser (permission forbid, was idempotent; policy)" */
	REA_CONFIG_CHANGES
};
/* What a configuration changes against the one before: keys that are stated otherwise, then methods whose effective policy or permission is another. The first
 * max of either kind are told, each as one text that is borrowed until tell returns; ret_counts has how many there are. */
REA_API void rea_config_compare(const struct rea_config *before, const struct rea_config *after, size_t max,
    void (*tell)(enum rea_config_change kind, const char *text, void *user_data), void *user_data,
    size_t ret_counts[REA_CONFIG_CHANGES]);

/* `rea explain`: every effective value with the layer and line it came from, waits, attempts and retries,
 * worst-case time, what retrying buys and costs. Text through write. method_key NULL = the service level, and its
 * methods; service NULL = the settings, the global level and the list of services. Returns REA_ERR_NOT_FOUND, with
 * a message that names a near one, for a service that stands neither in `services` nor in service-configs (a
 * document without `services` does not know what services there are, and accepts any), and for a method that the
 * service's contract does not declare. */
REA_API int rea_config_explain(const struct rea_config *config, const char *service, const char *method_key,
    void (*write)(const char *text, size_t length, void *user_data), void *user_data, struct rea_error_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif
