/* Named sets of policy keys: the built-in ones and the user's. */
#include "config/snapshot.h"

static const char *const built_in[] = {"conservative", "adaptive", "connect-only"};

#define BUILT_IN (sizeof(built_in) / sizeof(built_in[0]))

static const struct rea__profile *profile_called(const struct rea_config *config, struct rea_slice name)
{
	for (size_t i = 0; i < config->profiles_len; i++)
		if (rea_slice_equal(rea_slice_of(config->profiles[i].name), name))
			return &config->profiles[i];
	return NULL;
}

int rea__profile_find(struct rea__reader *reader, const struct rea__node *node, const struct rea_config *config,
    const struct rea__profile **ret_profile)
{
	struct rea__suggest suggest;
	struct rea_slice name;
	char hint[REA__SUGGEST_SIZE], quote[REA__QUOTE_SIZE];
	int error = rea__expect_text(reader, node, "the name of a profile", &name);

	if (error != 0)
		return error;
	*ret_profile = profile_called(config, name);
	if (*ret_profile != NULL)
		return 0;
	rea__suggest_init(&suggest, name);
	for (size_t i = 0; i < config->profiles_len; i++)
		rea__suggest_offer(&suggest, config->profiles[i].name);
	return rea__refuse(
	    reader, node, "there is no profile %s%s", rea__quote(name, quote), rea__suggest_text(&suggest, hint));
}

static void add_built_in(struct rea_config *config)
{
	for (size_t i = 0; i < BUILT_IN; i++)
		config->profiles[config->profiles_len++] = (struct rea__profile){
		    .name = built_in[i], .keys = rea_policy_profile(built_in[i], strlen(built_in[i]))};
}

/* Its keys; its base is found when all profiles have a name. */
static int read_profile(struct rea__reader *reader, const struct rea__node *node, struct rea__profile *profile,
    const struct rea__node **ret_base)
{
	struct rea_policy_layer *keys = rea_arena_alloc(reader->arena, sizeof(*keys));
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	struct rea__policy_reading reading;
	int error;

	if (keys == NULL)
		return rea__nomem(reader);
	error = rea__policy_read(reader, node, REA__PLACE_PROFILE, &reading, &keys->set, seen);
	if (error != 0)
		return error;
	keys->values = reading.values;
	profile->keys = keys;
	profile->line = node->key->line;
	*ret_base = reading.profile;
	error = rea__copy_text(reader, rea__node_text(node->key), &profile->name);
	return error ? error : rea__lines_new(reader, keys->set, seen, &profile->lines);
}

static int find_base(struct rea__reader *reader, const struct rea__node *base, const struct rea_config *config,
    struct rea__profile *profile)
{
	const struct rea__profile *below;
	int error = rea__profile_find(reader, base, config, &profile->base);
	size_t depth = 1;

	for (below = profile->base; error == 0 && below != NULL; below = below->base, depth++) {
		if (below == profile)
			return rea__refuse(reader, base, "the profile %s is based on itself", profile->name);
		if (depth == REA__PROFILE_DEPTH_MAX)
			return rea__refuse(
			    reader, base, "more than %d profiles are based on one another", REA__PROFILE_DEPTH_MAX);
	}
	return error;
}

int rea__profiles_read(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	const struct rea__node *first = NULL, **bases;
	size_t count;
	int error = node ? rea__expect_mapping(reader, node, &first) : 0;

	if (error != 0)
		return error;
	count = first ? node->length : 0;
	config->profiles = rea_arena_array(reader->arena, BUILT_IN + count, sizeof(*config->profiles));
	bases = rea_arena_array(reader->arena, BUILT_IN + count, sizeof(const struct rea__node *));
	if (config->profiles == NULL || bases == NULL)
		return rea__nomem(reader);
	add_built_in(config);
	for (const struct rea__node *child = first; child != NULL && error == 0; child = child->next) {
		struct rea__profile *profile = &config->profiles[config->profiles_len];

		if (child->key->length == 0)
			return rea__refuse_key(reader, child, "a profile needs a name");
		if (rea_policy_profile(child->key->text, child->key->length) != NULL)
			return rea__refuse_key(reader, child,
			    "%s is built in and cannot be changed: give yours another name and, if it should begin "
			    "there, "
			    "`profile: %s`",
			    child->key->text, child->key->text);
		error = read_profile(reader, child, profile, &bases[config->profiles_len]);
		config->profiles_len++;
	}
	for (size_t i = BUILT_IN; i < config->profiles_len && error == 0; i++)
		if (bases[i] != NULL)
			error = find_base(reader, bases[i], config, &config->profiles[i]);
	return error;
}
