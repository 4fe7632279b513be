/*
 * A Smithy 2.0 model as JSON AST. An operation that is bound to HTTP (smithy.api#http) gets a path; the traits readonly and idempotent, and a member
 * of its input with idempotencyToken, say what it permits.
 */
#include "config/contract_document.h"

#define TRAIT(name) "smithy.api#" name

struct smithy {
	struct rea__contract_reading *reading;
	const struct rea__tree *tree;
	const struct rea__node *shapes;
};

#define refuse(model, node, ...) \
	rea__refuse_at((model)->reading->info, (model)->tree->file, REA_ERR_INVALID, node, __VA_ARGS__)

static bool has_trait(const struct rea__node *shape, const char *name)
{
	return rea__node_child(rea__node_child(shape, "traits"), name) != NULL;
}

static bool has_token(const struct smithy *model, const struct rea__node *operation)
{
	const struct rea__node *target = rea__node_child(rea__node_child(operation, "input"), "target"), *members;

	if (target == NULL || target->kind != REA__SCALAR)
		return false;
	members = rea__node_child(rea__node_child(model->shapes, target->text), "members");
	for (const struct rea__node *member = members != NULL && members->kind == REA__MAPPING ? members->first : NULL;
	     member != NULL; member = member->next)
		if (has_trait(member, TRAIT("idempotencyToken")))
			return true;
	return false;
}

static enum rea_permission permission_of(const struct smithy *model, const struct rea__node *operation)
{
	if (has_trait(operation, TRAIT("readonly")))
		return REA_PERMISSION_SAFE;
	if (has_token(model, operation))
		return REA_PERMISSION_IDEMPOTENT_WITH_KEY;
	return has_trait(operation, TRAIT("idempotent")) ? REA_PERMISSION_IDEMPOTENT : REA_PERMISSION_NONE;
}

/* "ns.sub#Name" → the name, and the service or namespace that stands for its context. */
static const char *after_hash(const char *id)
{
	const char *hash = strchr(id, '#');

	return hash != NULL ? hash + 1 : id;
}

/* The only service of the model. */
static const char *service_name(const struct smithy *model)
{
	const char *name = NULL;

	for (const struct rea__node *shape = model->shapes->first; shape != NULL; shape = shape->next)
		if (rea__node_is(rea__node_child(shape, "type"), "service")) {
			if (name != NULL)
				return NULL;
			name = after_hash(shape->key->text);
		}
	return name;
}

/* A template without its query literals ("/items?paged"), its greedy label ("{key+}") not understood by the matcher. */
static const char *uri_path(const struct smithy *model, const struct rea__node *uri)
{
	size_t length = strcspn(uri->text, "?");
	const char *base = model->reading->document->base_path;

	return rea__join(model->reading->arena, base != NULL ? base : "", "", rea_slice_make(uri->text, length));
}

static int read_operation(const struct smithy *model, const struct rea__node *shape, const char *context)
{
	const struct rea__node *http = rea__node_child(rea__node_child(shape, "traits"), TRAIT("http")),
			       *method = rea__node_child(http, "method"), *uri = rea__node_child(http, "uri");
	struct rea_operation operation = {.line = shape->key->line};

	if (http == NULL)
		return 0;
	if (method == NULL || method->kind != REA__SCALAR || uri == NULL || uri->kind != REA__SCALAR)
		return refuse(model, http, "the trait http needs a method and a uri");
	if (strstr(uri->text, "+}") != NULL)
		return refuse(model, uri, "a greedy label takes several segments, which is not understood here");
	operation.http_method = method->text;
	operation.path = uri_path(model, uri);
	operation.key = rea__join(model->reading->arena, context, "_", rea_slice_of(after_hash(shape->key->text)));
	operation.grant.permission = permission_of(model, shape);
	operation.grant.source = operation.grant.permission != REA_PERMISSION_NONE ? REA_PERMISSION_SOURCE_SMITHY
										   : REA_PERMISSION_SOURCE_NONE;
	if (operation.path == NULL || operation.key == NULL)
		return rea__refuse_nomem(model->reading->info, model->tree->file);
	return rea__contract_put(model->reading, model->tree, shape, &operation);
}

int rea__smithy_read(struct rea__contract_reading *reading, const struct rea__tree *tree)
{
	struct smithy model = {.reading = reading, .tree = tree, .shapes = rea__node_child(tree->root, "shapes")};
	const char *context = reading->document->context;
	int error = 0;

	if (model.shapes == NULL || model.shapes->kind != REA__MAPPING)
		return refuse(&model, tree->root, "a Smithy model needs its `shapes`");
	if (context == NULL)
		context = service_name(&model);
	if (context == NULL)
		return refuse(&model,
		    model.shapes, "the model has no service, or several, so the first part of method keys is not known: give a context");
	for (const struct rea__node *shape = model.shapes->first; shape != NULL && error == 0; shape = shape->next)
		if (rea__node_is(rea__node_child(shape, "type"), "operation"))
			error = read_operation(&model, shape, context);
	return error;
}
