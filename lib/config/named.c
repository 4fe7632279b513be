/*
 * The documents that a document names, whether it is taken up or not: what is refused today for a file beside it may be put right in that file.
 */
#include "config/snapshot.h"

struct naming {
	struct rea__tree tree;
	const struct rea_alloc *alloc;
	void (*tell)(const struct rea_config_contract_file *file, void *user_data);
	void *user_data;
};

static const struct rea__node *child_called(const struct rea__node *node, const char *name)
{
	if (node == NULL || node->kind != REA__MAPPING)
		return NULL;
	for (const struct rea__node *child = node->first; child != NULL; child = child->next)
		if (rea__key_equal(rea__node_text(child->key), name))
			return child;
	return NULL;
}

static int tell_file(struct naming *naming, const struct rea__node *node)
{
	struct rea_config_contract_file file = {.path = NULL};
	struct rea_buffer content = {.alloc = naming->alloc};
	int error;

	if (node->kind != REA__SCALAR || node->length == 0)
		return 0;
	file.path = rea__beside(&naming->tree.arena, naming->tree.file, rea__node_text(node));
	if (file.path == NULL)
		return REA_ERR_NOMEM;
	error = rea__file_read(file.path, &content, NULL);
	if (error == 0)
		rea_hash_hex(rea_hash(content.data ? content.data + content.start : "", rea_buffer_length(&content)),
		    file.version);
	rea_buffer_fini(&content);
	if (error != REA_ERR_NOMEM)
		naming->tell(&file, naming->user_data);
	return error == REA_ERR_NOMEM ? error : 0;
}

/* Of each entry of a mapping the files that stand under a key: one, or a list. */
static int tell_files(struct naming *naming, const struct rea__node *entries, const char *key)
{
	int error = 0;

	if (entries == NULL || entries->kind != REA__MAPPING)
		return 0;
	for (const struct rea__node *entry = entries->first; entry != NULL && error == 0; entry = entry->next) {
		const struct rea__node *files = child_called(entry, key);

		if (files != NULL && files->kind == REA__SCALAR)
			error = tell_file(naming, files);
		if (files == NULL || files->kind != REA__SEQUENCE)
			continue;
		for (const struct rea__node *file = files->first; file != NULL && error == 0; file = file->next)
			error = tell_file(naming, file);
	}
	return error;
}

int rea_config_named_files(const char *name, const char *text, size_t length, const struct rea_alloc *alloc,
    void (*tell)(const struct rea_config_contract_file *file, void *user_data), void *user_data)
{
	struct naming naming = {.alloc = alloc ? alloc : rea_alloc_default(), .tell = tell, .user_data = user_data};
	struct rea_error_info info;
	int error = rea__tree_parse(name, text, length, naming.alloc, &naming.tree, &info);

	if (error != 0)
		return error;
	error = tell_files(&naming, child_called(naming.tree.root, "contracts"), "files");
	if (error == 0)
		error = tell_files(&naming, child_called(naming.tree.root, "services"), "grpc-service-config");
	rea__tree_free(&naming.tree);
	return error;
}
