/* What hangs on `tasks`: its policy, the URLs that tasks may go to, and what services take of them. */
#include "config/snapshot.h"

#define FIELDS(fields) fields, sizeof(fields) / sizeof((fields)[0])
#define PATTERN_MAX 1024

/* ------------------------------------------------------------------ policy */

/* The keys that the document sets, weighed against the defaults of tasks. */
static int check_policy(struct rea__reader *reader, const struct rea__node *node, const struct rea__node *const *seen,
    const struct rea_config *config)
{
	struct rea_policy_layer defaults = {.set = (UINT32_C(1) << REA_POLICY_KEY_COUNT) - 1};
	const struct rea_policy_layer *const layers[] = {&defaults, &config->settings.tasks.policy};
	struct rea_policy policy;
	struct rea_error_info wrong;
	const struct rea__node *at = node;

	rea_policy_task_defaults(&defaults.values);
	rea_policy_merge(layers, 2, SIZE_MAX, &policy);
	memset(&wrong, 0, sizeof(wrong));
	if (rea_policy_validate_task(&policy, config->settings.limits.task_attempts, &wrong) == 0)
		return 0;
	for (size_t i = 0; i < REA__TASK_POLICY_FIELDS; i++)
		if (seen[i] != NULL && (at == node || strcmp(rea__task_policy_block.fields[i].name, wrong.key) == 0))
			at = seen[i];
	return rea__refuse(reader, at, "%s", wrong.message);
}

static int read_policy(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX], *by_key[REA__BLOCK_FIELDS_MAX] = {NULL};
	struct rea_policy_layer *layer = &config->settings.tasks.policy;
	int error = rea__block_read(reader, node, &rea__task_policy_block, &layer->values, seen);

	if (error != 0)
		return error;
	for (size_t i = 0; i < REA__TASK_POLICY_FIELDS; i++)
		if (seen[i] != NULL) {
			layer->set |= UINT32_C(1) << rea__task_policy_keys[i];
			by_key[rea__task_policy_keys[i]] = seen[i];
		}
	error = check_policy(reader, node, seen, config);
	return error ? error : rea__lines_new(reader, layer->set, by_key, &config->task_policy_lines);
}

/* ------------------------------------------------------------------ urls */

struct url_reading {
	const char *pattern;
	int permission;
	struct rea__ranges allow_private;
	const char *ca_file;
	const struct rea__node *secrets;
	uint32_t concurrency;
	double rate_per_s;
};

#define PATTERN_EXPECTED "a pattern such as https://hooks.example.com/*"

/* Only what no pattern is; what it means is for whoever compares URLs with it. */
static bool is_pattern(struct rea_slice text)
{
	bool has_scheme = (text.length > 8 && memcmp(text.data, "https://", 8) == 0) ||
			  (text.length > 7 && memcmp(text.data, "http://", 7) == 0);

	for (size_t i = 0; i < text.length; i++)
		if ((unsigned char)text.data[i] <= ' ' || text.data[i] == 0x7f)
			return false;
	return has_scheme && text.length <= PATTERN_MAX;
}

static int read_pattern(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	struct rea_slice text;
	int error = rea__expect_text(reader, node, PATTERN_EXPECTED, &text);

	(void)field;
	if (error != 0)
		return error;
	return is_pattern(text) ? rea__copy_text(reader, text, ret_value)
				: rea__refuse_value(reader, node, PATTERN_EXPECTED, "");
}

static const struct rea__type type_pattern = {read_pattern, rea__format_text};

static const struct rea__choice permission_choices[] = {{"none", REA_PERMISSION_NONE}, {"safe", REA_PERMISSION_SAFE},
    {"idempotent", REA_PERMISSION_IDEMPOTENT}, {"with-key", REA_PERMISSION_IDEMPOTENT_WITH_KEY}, {NULL, 0}};

#define URL(member) offsetof(struct url_reading, member)

static const struct rea__field sign_fields[] = {
    {.name = "secrets", .type = &rea__type_node},
};
const struct rea__block rea__sign_block = {"sign", FIELDS(sign_fields), REA__NO_LINES};

static const struct rea__field url_fields[] = {
    {.name = "pattern", .type = &type_pattern, .offset = URL(pattern)},
    {.name = "permission", .type = &rea__type_choice, .offset = URL(permission), .choices = permission_choices},
    {.name = "allow-private", .type = &rea__type_private, .offset = URL(allow_private)},
    {.name = "ca-file", .type = &rea__type_text, .offset = URL(ca_file)},
    {.name = "sign", .type = &rea__type_block, .offset = URL(secrets), .block = &rea__sign_block},
    {.name = "concurrency", .type = &rea__type_u32, .offset = URL(concurrency), .min = 1, .max = 10000},
    {.name = "rate-per-s", .type = &rea__type_double, .offset = URL(rate_per_s), .max = 100000, .above_min = true},
};
const struct rea__block rea__url_block = {"a url", FIELDS(url_fields), REA__NO_LINES};

#define SECRETS_MAX 8
#define SECRET_EXPECTED "a secret such as whsec_..., or file:PATH of a file that holds one"

static bool is_secret(struct rea_slice text)
{
	return (text.length > 6 && memcmp(text.data, "whsec_", 6) == 0) ||
	       (text.length > 5 && memcmp(text.data, "whsk_", 5) == 0) ||
	       (text.length > 5 && memcmp(text.data, "file:", 5) == 0);
}

/* What is refused is not quoted: a message must not tell a secret. */
static int read_secrets(struct rea__reader *reader, const struct rea__node *node, struct rea_config_url *url)
{
	const struct rea__node *item;
	const char **secrets;
	int error = rea__expect_sequence(reader, node, "a list of secrets", &item);

	if (error != 0)
		return error;
	if (node->length > SECRETS_MAX)
		return rea__refuse(reader, node, "at most %d secrets sign one request", SECRETS_MAX);
	secrets = rea_arena_array(reader->arena, node->length, sizeof(*secrets));
	if (secrets == NULL)
		return rea__nomem(reader);
	for (; item != NULL && error == 0; item = item->next) {
		if (item->kind != REA__SCALAR || !is_secret(rea__node_text(item)))
			return rea__refuse(reader, item, "expected %s", SECRET_EXPECTED);
		error = rea__copy_text(reader, rea__node_text(item), &secrets[url->secrets_len++]);
	}
	url->secrets = secrets;
	return error;
}

static int read_url(struct rea__reader *reader, const struct rea__node *node, struct rea_config_url *url)
{
	struct url_reading reading = {.permission = REA_PERMISSION_NONE};
	int error = rea__block_read(reader, node, &rea__url_block, &reading, NULL);

	if (error != 0)
		return error;
	if (reading.pattern == NULL)
		return rea__refuse(reader, node, "a url needs a `pattern`");
	*url = (struct rea_config_url){
	    .pattern = reading.pattern,
	    .permission = (enum rea_permission)reading.permission,
	    .allow_private = reading.allow_private.items,
	    .allow_private_len = reading.allow_private.len,
	    .ca_file = reading.ca_file,
	    .concurrency = reading.concurrency,
	    .rate_per_s = reading.rate_per_s,
	    .line = node->line,
	};
	return reading.secrets != NULL ? read_secrets(reader, reading.secrets, url) : 0;
}

static int read_urls(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	const struct rea__node *item;
	struct rea_config_url *urls;
	int error = rea__expect_sequence(reader, node, "a list of urls", &item);

	if (error != 0)
		return error;
	urls = rea_arena_array(reader->arena, node->length, sizeof(*urls));
	if (urls == NULL)
		return rea__nomem(reader);
	for (; item != NULL && error == 0; item = item->next)
		error = read_url(reader, item, &urls[config->settings.tasks.urls_len++]);
	config->settings.tasks.urls = urls;
	return error;
}

/* ------------------------------------------------------------------ targets */

#define TARGET(member) offsetof(struct rea_config_target, member)

static const struct rea__field target_fields[] = {
    {.name = "concurrency", .type = &rea__type_u32, .offset = TARGET(concurrency), .min = 1, .max = 10000},
    {.name = "rate-per-s", .type = &rea__type_double, .offset = TARGET(rate_per_s), .max = 100000, .above_min = true},
};
const struct rea__block rea__target_block = {"a target", FIELDS(target_fields), REA__NO_LINES};

static int refuse_unknown(struct rea__reader *reader, const struct rea__node *node, const struct rea_config *config)
{
	struct rea__suggest suggest;
	char hint[REA__SUGGEST_SIZE], quote[REA__QUOTE_SIZE];

	rea__suggest_init(&suggest, rea__node_text(node->key));
	for (size_t i = 0; i < config->services_len; i++)
		rea__suggest_offer(&suggest, config->services[i].name);
	return rea__refuse_key(reader, node, "there is no service %s%s", rea__quote(rea__node_text(node->key), quote),
	    rea__suggest_text(&suggest, hint));
}

static int read_targets(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	const struct rea__node *child;
	struct rea_config_target *targets;
	int error = rea__expect_mapping(reader, node, &child);

	if (error != 0 || child == NULL)
		return error;
	targets = rea_arena_array(reader->arena, node->length, sizeof(*targets));
	if (targets == NULL)
		return rea__nomem(reader);
	for (; child != NULL && error == 0; child = child->next) {
		const struct rea_config_service *service =
		    rea_config_find_service(config, child->key->text, child->key->length);
		struct rea_config_target *target = &targets[config->settings.tasks.targets_len++];

		if (service == NULL)
			return refuse_unknown(reader, child, config);
		error = rea__block_read(reader, child, &rea__target_block, target, NULL);
		target->service = service->name;
		target->line = child->key->line;
	}
	config->settings.tasks.targets = targets;
	return error;
}

int rea__tasks_read(struct rea__reader *reader, const struct rea__document *document, struct rea_config *config)
{
	int error = document->task_policy ? read_policy(reader, document->task_policy, config) : 0;

	if (error == 0 && document->task_urls != NULL)
		error = read_urls(reader, document->task_urls, config);
	return error == 0 && document->task_targets != NULL ? read_targets(reader, document->task_targets, config) : error;
}
