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

struct rea_config_instance {
	const char *address; /* "127.0.0.1:9001", "[::1]:9001" or "name:9001" */
	uint32_t weight;     /* 1..1000, default 1 */
	const char *host;    /* Host sent to it; NULL = the service's */
	uint32_t line;
};

struct rea_config_service {
	const char *name;
	const char *const *hosts; /* further names for Host and http_proxy addressing */
	size_t hosts_len;
	const char *host; /* Host sent upstream; NULL = the authority the caller used, or ip:port when addressed by prefix */
	const struct rea_config_instance *instances;
	size_t instances_len;
	enum rea_balance balance;
	const struct rea_policy *policy;                    /* of methods without own settings */
	const struct rea_contract *contract;                /* NULL = none declared */
	const struct rea_policy *const *operation_policies; /* one per operation of the contract, by index */
	size_t index;                                       /* 0 .. services-1 */
	uint32_t line;
};

struct rea_config_listen {
	const char *address; /* "127.0.0.1:7070" */
	uint32_t line;
};

enum rea_config_tunnel { REA_TUNNEL_REFUSE, REA_TUNNEL_ALLOW };

/* Everything outside the services. Defaults stand in rea_config_settings_defaults alone. */
struct rea_config_settings {
	const struct rea_config_listen *listen; /* default one: 127.0.0.1:7070 */
	size_t listen_len;
	const char *admin;         /* default "127.0.0.1:7071" */
	uint32_t threads;          /* 1..64, default 1 */
	const char *biz_id_header; /* default "x-biz-id" */
	struct {
		const char *file;      /* JSON lines; "-" = standard output; NULL (`off`) = none; default NULL */
		uint32_t ring;         /* events kept in memory, 0..1000000, default 4096 */
		double sample_success; /* share of first-try successes that are recorded, 0..1, default 0 */
		uint32_t queue_bytes;  /* per thread, a power of two 4096..64 MiB, default 256 KiB */
	} events;
	struct {
		uint32_t concurrent_retries;   /* 1..1000000, default 256 */
		uint32_t header_bytes;         /* of one message head, 1024..1 MiB, default 32 KiB */
		uint32_t headers;              /* fields of one message, 8..1000, default 100 */
		uint32_t connections;          /* open client connections per thread, default 10000 */
		uint32_t upstream_connections; /* per instance and thread, in all, default 1024 */
		uint32_t upstream_idle;        /* kept per instance and thread, default 64 */
	} limits;
	struct {
		uint32_t request_head_ms;  /* from the first byte to the whole head, default 10000 */
		uint32_t keep_alive_ms;    /* idle client connection, default 60000 */
		uint32_t stream_idle_ms;   /* a body that does not move, either way, default 30000 */
		uint32_t upstream_idle_ms; /* idle pooled connection, default 30000 */
		uint32_t drain_ms;         /* graceful shutdown, default 10000 */
	} timeouts;
	enum rea_config_tunnel upgrade; /* default REFUSE */
	enum rea_config_tunnel connect; /* default REFUSE */
};
REA_API void rea_config_settings_defaults(struct rea_config_settings *settings);

/* Parse a document. name: for messages, may be NULL; text: borrowed until return. libyaml allocates with malloc of
 * its own while it parses; whatever lives longer comes from alloc. On error returns REA_ERR_SYNTAX, INVALID, LIMIT
 * or NOMEM with ret_info filled, and *ret_config is untouched. alloc NULL = malloc. The result has one reference. */
REA_API int rea_config_parse(const char *name, const char *text, size_t length, const struct rea_alloc *alloc,
    struct rea_config **ret_config, struct rea_error_info *ret_info);
/* Read a file (at most 16 MiB) and parse it. REA_ERR_IO too. */
REA_API int rea_config_load(
    const char *path, const struct rea_alloc *alloc, struct rea_config **ret_config, struct rea_error_info *ret_info);
REA_API struct rea_config *rea_config_ref(struct rea_config *config);
REA_API void rea_config_unref(struct rea_config *config); /* NULL is a no-op */

REA_API const struct rea_config_settings *rea_config_settings(const struct rea_config *config);
REA_API size_t rea_config_services_count(const struct rea_config *config);
REA_API const struct rea_config_service *rea_config_service(const struct rea_config *config, size_t index);
/* By service name, exact. */
REA_API const struct rea_config_service *rea_config_find_service(
    const struct rea_config *config, const char *name, size_t length);
/* By authority: service names and `hosts`, case-insensitive, a port in it is ignored unless `hosts` names it. */
REA_API const struct rea_config_service *rea_config_find_host(
    const struct rea_config *config, const char *authority, size_t length);
/* The effective policy of a method key (it need not be in a contract). service NULL = an unknown service: global
 * level. */
REA_API int rea_config_policy(
    const struct rea_config *config, const char *service, const char *method_key, struct rea_policy *ret_policy);
/* Identifies the document's bytes, for events: 16 hex digits of a hash. */
REA_API const char *rea_config_version(const struct rea_config *config);

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
