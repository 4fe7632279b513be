/*
 * What a configuration is made of inside. Everything but the contracts and the tables stands in the snapshot's
 * arena, so it is freed as one.
 *
 * A level (global, a service, a method) is a set of policy keys as the document states them. Levels with equal
 * keys share one struct rea__layer, and equal combinations of layers one policy: a document with ten thousand
 * methods has a handful of both.
 */
#ifndef REA_CONFIG_SNAPSHOT_H
#define REA_CONFIG_SNAPSHOT_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/map.h"
#include "config/reader.h"

#include <rea/config.h>

#include <stdatomic.h>

/* ------------------------------------------------------------------ policies */

/* How many profiles may be based on one another. */
#define REA__PROFILE_DEPTH_MAX 8
/* A caller's wish; global, service and method, each with its profiles below it. */
#define REA__STACK_MAX (1 + 3 * (1 + REA__PROFILE_DEPTH_MAX))

/* WISH: a gRPC service config or a document of Kitex, below all that our own documents say. */
enum rea__place { REA__PLACE_PROFILE, REA__PLACE_GLOBAL, REA__PLACE_SERVICE, REA__PLACE_METHOD, REA__PLACE_WISH };

struct rea__profile {
	const char *name;
	const struct rea_policy_layer *keys;
	const uint32_t *lines;           /* see struct rea__level; NULL = built in */
	const struct rea__profile *base; /* stands just below; NULL = none */
	uint32_t line;
};

struct rea__layer {
	struct rea__layer_key {
		struct rea_policy_layer keys;
		const struct rea__profile *profile; /* stands just below; NULL = none */
	} key;                                      /* compared byte by byte: zeroed, then written member by member */
	const struct rea__layer *parent;            /* the last level above it that this layer was merged with … */
	const struct rea_policy *policy;            /* … and what came out; NULL = not yet */
};

/* A layer where a document states it. */
struct rea__level {
	struct rea__layer *layer; /* NULL = the document says nothing */
	const uint32_t *lines;    /* of its set keys in the order of their bits, then of `profile` */
};

struct rea__method_config {
	const char *key;
	struct rea__level level;
	const struct rea_policy *policy;
	uint32_t line;
};

struct rea__service_config {
	const char *name;
	struct rea__level level;
	const struct rea_policy *policy;
	struct rea__method_config *methods;
	size_t methods_len;
	struct rea_map by_key;
	uint32_t line;
};

/* One `retry` block. */
struct rea__retry {
	struct rea__level global;
	const struct rea_policy *policy;
	struct rea__service_config *services;
	size_t services_len;
	struct rea_map by_name;
	uint32_t line; /* 0 = the document has none */
};

extern const struct rea__block rea__policy_block; /* out is a struct rea__policy_reading */
/* Keys of a task's policy; out is a struct rea_policy. rea__task_policy_keys: the key that each field sets. */
extern const struct rea__block rea__task_policy_block;
#define REA__TASK_POLICY_FIELDS 10
extern const enum rea_policy_key rea__task_policy_keys[REA__TASK_POLICY_FIELDS];
extern const struct rea__block rea__budget_block;
extern const struct rea__block rea__breaker_block;
/* The defaults as an object that lives for ever, so that values are copied from it with padding and all. */
const struct rea_policy *rea__policy_default_values(void);

struct rea__policy_reading {
	struct rea_policy values; /* first, so that a field's offset is that in a struct rea_policy */
	const struct rea__node *profile;
	const struct rea__node *service_configs;
	const struct rea__node *method_configs;
};
/* Fields of rea__policy_block after the keys of REA_POLICY_KEY_MAP that a document can write. */
enum {
	REA__FIELD_PROFILE = REA_POLICY_JITTER_KIND,
	REA__FIELD_SERVICE_CONFIGS,
	REA__FIELD_METHOD_CONFIGS,
	REA__POLICY_FIELDS
};

/* Read the mapping of one level. ret_set: bits of the keys it states. */
int rea__policy_read(struct rea__reader *reader, const struct rea__node *node, enum rea__place place,
    struct rea__policy_reading *ret_reading, uint32_t *ret_set, const struct rea__node *ret_seen[REA__BLOCK_FIELDS_MAX]);
/* The lines array of a level. */
int rea__lines_new(struct rea__reader *reader, uint32_t set, const struct rea__node *const *seen, const uint32_t **ret_lines);
uint32_t rea__lines_of(const uint32_t *lines, uint32_t set, enum rea_policy_key key);
uint32_t rea__lines_of_profile(const uint32_t *lines, uint32_t set);

/* Read a `retry` block, from rea.yaml or from a document that holds nothing else: layers, and every effective
 * policy, checked. config: gives the profiles and, with knows_contracts, the contracts that method keys must be
 * found in. ret_retry: zeroed; to be given to rea__retry_fini in any case. */
int rea__retry_read(struct rea__reader *reader, const struct rea__node *node, const struct rea_config *config,
    bool knows_contracts, struct rea__retry *ret_retry);
/* Put each service's gRPC service config below what config->grpc says: methods that have one get their policy anew, and config->grpc_services is made.
 * node: the `retry` block, for what does not fit together; NULL = there is none. */
int rea__grpc_join(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config);
void rea__retry_fini(struct rea__retry *retry);
/* The same once more, so that policies can be put in its place. from: lives longer. ret_retry: as above. */
int rea__retry_copy(struct rea__reader *reader, const struct rea__retry *from, struct rea__retry *ret_retry);
const struct rea__service_config *rea__retry_service(const struct rea__retry *retry, struct rea_slice name);
const struct rea__method_config *rea__service_method(const struct rea__service_config *service, struct rea_slice key);

/* The layers that make a policy, the lowest first. */
struct rea__stack {
	struct rea__stack_item {
		const struct rea_policy_layer *keys;
		const uint32_t *lines;
		const struct rea__profile *profile; /* NULL = the level itself */
		enum rea__place place;
		uint32_t profile_line; /* where the level names the profile */
		const char *file;      /* of a wish */
		const char *note;      /* of a wish */
	} items[REA__STACK_MAX];
	size_t len;
	size_t global_index; /* SIZE_MAX = none */
};
void rea__stack_push(struct rea__stack *stack, enum rea__place place, const struct rea__level *level);
void rea__stack_merge(const struct rea__stack *stack, struct rea_policy *ret_policy);
/* The item that decides a key, or NULL when the default holds. */
const struct rea__stack_item *rea__stack_source(const struct rea__stack *stack, enum rea_policy_key key);

/* ------------------------------------------------------------------ documents of other programs */

/* What such a document says of a method, of a service or of all. */
struct rea__wish {
	const char *name; /* gRPC: "package.Service/Method", "package.Service/" or ""; Kitex: "Method" or "", which is "*" */
	struct rea_policy_layer keys;
	const uint32_t *lines; /* see struct rea__level */
	const char *note;      /* why retries are off though the document is not; NULL = no word */
};

/* A gRPC service config, or a document of Kitex. */
struct rea__wishes {
	const char *file;
	struct rea__wish *entries; /* the first one is "" */
	size_t entries_len;
	struct rea_map by_name;
};

/* What holds for the gRPC calls of a service. */
struct rea__grpc_service {
	const struct rea__service_config *own;  /* of rpc.grpc.retry; NULL = nothing */
	const struct rea__wishes *config;       /* NULL = none */
	const struct rea_policy **policies;     /* one per entry of config, with all that stands above it but methods */
	const struct rea_budget_policy *budget; /* NULL = nothing of gRPC's says one */
};

/* services.<name>.grpc-service-config: read the document that node names. */
int rea__grpc_config_read(
    struct rea__reader *reader, const struct rea__node *node, struct rea_config *config, struct rea__wishes *ret_grpc);
/* The entry for "package.Service/Method", the most special one there is. */
size_t rea__grpc_config_find(const struct rea__wishes *grpc, struct rea_slice path);
/* The same for a method key, "package.Service_Method". */
size_t rea__grpc_config_find_key(const struct rea__wishes *grpc, struct rea_slice key);
void rea__stack_push_wish(struct rea__stack *stack, const struct rea__wishes *wishes, size_t entry);

/* Is this what Kitex calls a retry document, "Client.Server.retry" behind the last slash? */
bool rea__kitex_is_name(struct rea_slice name);
/* The service that such a name means: the longest that the name has before ".retry". NULL = none of these. */
const struct rea_config_service *rea__kitex_service(const struct rea_config *config, struct rea_slice name);
/* Read one. name: copied. ret_wishes: zeroed; its map is to be freed in any case. */
int rea__kitex_read(struct rea__reader *reader, struct rea_slice name, struct rea__wishes *ret_wishes);
/* The wish for a method key, "echo" or "Echo_echo". */
size_t rea__kitex_find_key(const struct rea__wishes *wishes, struct rea_slice key);
/* Put config->kitex below what config->feign and config->grpc say: policies of services that have such wishes are made anew. */
int rea__kitex_join(struct rea__reader *reader, struct rea_config *config);

/* ------------------------------------------------------------------ the rest of the document */

/* Where each settings block's lines stand. */
enum {
	REA__LINES_ROOT = 0,
	REA__LINES_HTTP = REA__LINES_ROOT + REA__BLOCK_FIELDS_MAX,
	REA__LINES_EVENTS = REA__LINES_HTTP + 2,
	REA__LINES_LIMITS = REA__LINES_EVENTS + 7,
	REA__LINES_TIMEOUTS = REA__LINES_LIMITS + 11,
	REA__LINES_TASKS = REA__LINES_TIMEOUTS + 5,
	REA__LINES_COUNT = REA__LINES_TASKS + 8
};

struct rea__document {
	struct rea_config_settings settings; /* first, as above */
	const struct rea__node *services;
	const struct rea__node *contracts;
	const struct rea__node *profiles;
	const struct rea__node *rpc;
	const struct rea__node *task_policy;
	const struct rea__node *task_urls;
	const struct rea__node *task_targets;
	const struct rea__node *sources;
	const struct rea__node *nacos; /* of sources, as the next two */
	const struct rea__node *etcd;
	const struct rea__node *dns;
	const struct rea__node *registrations;
};
extern const struct rea__type rea__type_edge; /* of the whole settings */
struct rea__ranges {
	const struct rea_config_range *items;
	size_t len;
};
extern const struct rea__type rea__type_private; /* struct rea__ranges */
extern const struct rea__block rea__root_block;  /* out is a struct rea__document */
extern const struct rea__block rea__http_block;
extern const struct rea__block rea__events_block;
extern const struct rea__block rea__limits_block;
extern const struct rea__block rea__timeouts_block;
extern const struct rea__block rea__tasks_block;
extern const struct rea__block rea__sources_block;
extern const struct rea__block rea__source_block;
extern const struct rea__block rea__nacos_block;
extern const struct rea__block rea__etcd_block;
extern const struct rea__block rea__nacos_server_block;
extern const struct rea__block rea__etcd_server_block;
extern const struct rea__block rea__dns_server_block;
extern const struct rea__block rea__dns_names_block;
extern const struct rea__block rea__nacos_names_block;
extern const struct rea__block rea__etcd_names_block;
extern const struct rea__block rea__registration_block;
extern const struct rea__block rea__sign_block;
extern const struct rea__block rea__url_block;
extern const struct rea__block rea__target_block;
extern const struct rea__block rea__service_block;
extern const struct rea__block rea__instance_block;
extern const struct rea__block rea__health_block;
extern const struct rea__block rea__listen_block;
extern const struct rea__block rea__listen_tls_block;
extern const struct rea__block rea__tls_name_block;
extern const struct rea__block rea__service_tls_block;
extern const struct rea__block rea__contract_block;
extern const struct rea__block rea__operation_block;
extern const struct rea__block rea__rpc_block;

struct rea_config {
	struct rea_alloc alloc;
	atomic_uint references;
	struct rea_arena arena;
	const char *name;
	struct rea_config *base; /* whose everything but the policy this is; NULL = its own. Owned as a reference */
	const char *policy_name; /* the document that the policy stands in; NULL = this one */
	char version[REA_HASH_HEX_SIZE];
	struct rea_config_settings settings;
	uint32_t lines[REA__LINES_COUNT];
	const uint32_t *task_policy_lines; /* see struct rea__level */
	struct rea_config_service *services;
	size_t services_len;
	struct rea_map by_name;                  /* of services */
	struct rea_map by_host;                  /* names and hosts in lower case */
	struct rea_map by_grpc;                  /* "package.Service" and "package.*" */
	struct rea__wishes *grpc_configs;        /* one per service */
	struct rea__grpc_service *grpc_services; /* one per service */
	struct rea__wishes *kitex;               /* one per service; NULL = no document of Kitex */
	struct rea_contract **contracts;         /* one per service, owned; NULL = none */
	struct rea_config_contract_file *contract_files;
	size_t contract_files_len;
	uint64_t documents_hash;       /* of the document and its contract files, one after the other */
	struct rea__profile *profiles; /* the built-in ones first */
	size_t profiles_len;
	struct rea__retry feign;
	struct rea__retry grpc;
};

/* Each reads one part of the document into config, in this order. node NULL = absent. */
int rea__settings_check(struct rea__reader *reader, const struct rea__node *root, const struct rea_config_settings *settings);
/* A value of the key `health-check`. */
int rea__health_read(struct rea__reader *reader, const struct rea__node *node, const struct rea_config_health **ret_health);
const struct rea_config_health *rea__health_defaults(void);
/* What hangs on tasks: policy, urls, targets. After the services. */
int rea__tasks_read(struct rea__reader *reader, const struct rea__document *document, struct rea_config *config);
int rea__sources_read(struct rea__reader *reader, const struct rea__document *document, struct rea_config *config);
/* After the services: those that documents of Kitex are for must be there. */
int rea__sources_check(struct rea__reader *reader, const struct rea_config *config);
/* What a service says of its instances, but for a list of them. nodes: by enum rea_config_discovery_kind, NULL = absent; one of them is not. */
int rea__discovery_read(struct rea__reader *reader, const struct rea__node *const nodes[REA_DISCOVERY_ETCD + 1],
    const struct rea_config *config, struct rea_config_service *service);
int rea__registrations_read(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config);
/* Values that a Nacos server takes. */
extern const struct rea__type rea__type_nacos_name;
extern const struct rea__type rea__type_namespace;
/* A value of the key `tls`. ret_tls is written only where TLS is spoken. */
int rea__listen_tls_read(struct rea__reader *reader, const struct rea__node *node, const struct rea_config_tls **ret_tls);
int rea__service_tls_read(struct rea__reader *reader, const struct rea__node *node, const struct rea_config_tls **ret_tls);
const struct rea_config_tls *rea__tls_defaults(void);
/* A path that stands in a document: beside that document, unless it begins at the root. NULL = out of memory. */
const char *rea__beside(struct rea_arena *arena, const char *document, struct rea_slice path);
int rea__services_read(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config);
int rea__contracts_read(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config);
int rea__profiles_read(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config);
/* load.c: a whole file, at most one byte more than a document may have. Returns 0, REA_ERR_IO or REA_ERR_NOMEM; info may be NULL. */
int rea__file_read(const char *path, struct rea_buffer *content, struct rea_error_info *info);
/* A value of the key `profile`. */
int rea__profile_find(struct rea__reader *reader, const struct rea__node *node, const struct rea_config *config,
    const struct rea__profile **ret_profile);

#endif
