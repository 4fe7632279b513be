/* `tls` of a listener and of a service: which files, whom to believe. The files themselves are read by those who speak TLS. */
#include "config/snapshot.h"

#include "config/contract_document.h"

#define FIELDS(fields) fields, sizeof(fields) / sizeof((fields)[0])
#define NAMES_MAX 1000

const char *rea__beside(struct rea_arena *arena, const char *document, struct rea_slice path)
{
	const char *slash = strrchr(document, '/');

	if (path.data[0] == '/' || slash == NULL)
		return rea_arena_string(arena, path);
	return rea__join(arena, rea_arena_string(arena, rea_slice_make(document, (size_t)(slash - document) + 1)), "", path);
}

static int read_pem(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	struct rea_slice text;
	const char *path;
	int error = rea__expect_text(reader, node, "the path of a PEM file", &text);

	(void)field;
	if (error != 0)
		return error;
	path = rea__beside(reader->arena, reader->tree->file, text);
	if (path == NULL)
		return rea__nomem(reader);
	*(const char **)ret_value = path;
	return 0;
}

static const struct rea__type type_pem = {read_pem, NULL};

static int read_server_name(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const char expected[] = "a name or an address such as users.internal, without a port";
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	(void)field;
	if (error != 0)
		return error;
	return rea__is_host(text) ? rea__copy_text(reader, text, ret_value) : rea__refuse_value(reader, node, expected, "");
}

static const struct rea__type type_server_name = {read_server_name, NULL};

static const struct rea__choice version_choices[] = {{"1.2", REA_TLS_1_2}, {"1.3", REA_TLS_1_3}, {NULL, 0}};

struct reading {
	struct rea_config_tls tls; /* first: a field's offset is that in a struct rea_config_tls */
	const struct rea__node *names;
};

#define TLS(member) offsetof(struct reading, tls.member)
#define PAIR                                                                              \
	{.name = "certificate-file", .type = &type_pem, .offset = TLS(certificate_file)}, \
	{                                                                                 \
		.name = "key-file", .type = &type_pem, .offset = TLS(key_file)            \
	}
#define VERSION                                                                                                          \
	{                                                                                                                \
		.name = "min-version", .type = &rea__type_choice, .offset = TLS(min_version), .choices = version_choices \
	}

static const struct rea__field listen_tls_fields[] = {
    PAIR,
    {.name = "client-ca-file", .type = &type_pem, .offset = TLS(ca_file)},
    VERSION,
    {.name = "names", .type = &rea__type_node, .offset = offsetof(struct reading, names)},
};
const struct rea__block rea__listen_tls_block = {"tls", FIELDS(listen_tls_fields), REA__NO_LINES};

static const struct rea__field tls_name_fields[] = {
    {.name = "certificate-file", .type = &type_pem, .offset = offsetof(struct rea_config_tls_name, certificate_file)},
    {.name = "key-file", .type = &type_pem, .offset = offsetof(struct rea_config_tls_name, key_file)},
};
const struct rea__block rea__tls_name_block = {"a name", FIELDS(tls_name_fields), REA__NO_LINES};

static const struct rea__field service_tls_fields[] = {
    {.name = "ca-file", .type = &type_pem, .offset = TLS(ca_file)},
    {.name = "server-name", .type = &type_server_name, .offset = TLS(server_name)},
    PAIR,
    {.name = "verify", .type = &rea__type_bool, .offset = TLS(verify)},
    VERSION,
};
const struct rea__block rea__service_tls_block = {"tls", FIELDS(service_tls_fields), REA__NO_LINES};

const struct rea_config_tls *rea__tls_defaults(void)
{
	static const struct rea_config_tls defaults = {.verify = true, .min_version = REA_TLS_1_2};

	return &defaults;
}

static int check_pair(struct rea__reader *reader, const struct rea__node *node, const char *certificate, const char *key)
{
	return (certificate == NULL) == (key == NULL)
		   ? 0
		   : rea__refuse(reader, node, "`certificate-file` and `key-file` are given together, or neither is");
}

static int keep(struct rea__reader *reader, const struct rea__node *node, const struct reading *reading,
    const struct rea_config_tls **ret_tls)
{
	struct rea_config_tls *tls = rea_arena_array(reader->arena, 1, sizeof(*tls));

	if (tls == NULL)
		return rea__nomem(reader);
	*tls = reading->tls;
	tls->line = node->key->line;
	*ret_tls = tls;
	return 0;
}

/* ------------------------------------------------------------------ listeners */

/* A whole name, or one whose first label is a star. */
static bool is_sni_name(struct rea_slice text)
{
	if (text.length > 2 && text.data[0] == '*' && text.data[1] == '.')
		text = rea_slice_make(text.data + 2, text.length - 2);
	return rea__is_host(text) && text.data[0] != '[' && memchr(text.data, '*', text.length) == NULL;
}

static int read_name(struct rea__reader *reader, const struct rea__node *node, const struct rea_config_tls_name *before,
    size_t count, struct rea_config_tls_name *name)
{
	char *lower;
	int error;

	if (!is_sni_name(rea__node_text(node->key)))
		return rea__refuse_key(reader, node, "expected a host name such as users.example.com or *.example.com");
	lower = rea_arena_string(reader->arena, rea__node_text(node->key));
	if (lower == NULL)
		return rea__nomem(reader);
	for (char *c = lower; *c != '\0'; c++)
		*c = rea_ascii_lower(*c);
	name->name = lower;
	name->line = node->key->line;
	for (size_t i = 0; i < count; i++)
		if (strcmp(before[i].name, lower) == 0)
			return rea__refuse_key(reader, node, "%s stands here a second time; the first is on line %u",
			    lower, before[i].line);
	error = rea__block_read(reader, node, &rea__tls_name_block, name, NULL);
	if (error == 0 && (name->certificate_file == NULL || name->key_file == NULL))
		error = rea__refuse_key(reader, node, "a name needs `certificate-file` and `key-file`");
	return error;
}

static int read_names(struct rea__reader *reader, const struct rea__node *node, struct rea_config_tls *tls)
{
	struct rea_config_tls_name *names;
	const struct rea__node *child;
	int error = rea__expect_mapping(reader, node, &child);

	if (error != 0)
		return error;
	if (node->length > NAMES_MAX)
		return rea__refuse(reader, node, "at most %d names have certificates of their own", NAMES_MAX);
	names = rea_arena_array(reader->arena, node->length, sizeof(*names));
	if (names == NULL)
		return rea__nomem(reader);
	for (size_t i = 0; child != NULL && error == 0; child = child->next, i++)
		error = read_name(reader, child, names, i, &names[i]);
	tls->names = names;
	tls->names_len = node->length;
	return error;
}

int rea__listen_tls_read(struct rea__reader *reader, const struct rea__node *node, const struct rea_config_tls **ret_tls)
{
	struct reading reading = {.tls = *rea__tls_defaults()};
	int error = rea__block_read(reader, node, &rea__listen_tls_block, &reading, NULL);

	if (error == 0 && (reading.tls.certificate_file == NULL || reading.tls.key_file == NULL))
		error = rea__refuse_key(reader, node, "a listener's `tls` needs `certificate-file` and `key-file`");
	if (error == 0 && reading.names != NULL)
		error = read_names(reader, reading.names, &reading.tls);
	return error ? error : keep(reader, node, &reading, ret_tls);
}

/* ------------------------------------------------------------------ services */

/* `true` is all of the defaults, `false` no TLS. */
int rea__service_tls_read(struct rea__reader *reader, const struct rea__node *node, const struct rea_config_tls **ret_tls)
{
	struct reading reading = {.tls = *rea__tls_defaults()};
	bool spoken = true;
	int error = node->kind == REA__SCALAR ? rea__type_bool.read(reader, node, NULL, &spoken)
					      : rea__block_read(reader, node, &rea__service_tls_block, &reading, NULL);

	if (error == 0)
		error = check_pair(reader, node, reading.tls.certificate_file, reading.tls.key_file);
	if (error == 0 && !reading.tls.verify && reading.tls.ca_file != NULL)
		error = rea__refuse(
		    reader, node, "`ca-file` says who vouches for the instances, and `verify: false` that nobody need");
	if (error != 0 || !spoken)
		return error;
	return keep(reader, node, &reading, ret_tls);
}
