/*
 * Spring's properties: the keys and values of an application's documents, under one set of profiles.
 *
 * A key is kept as it is written and in a canonical form, in which `max-retries`, `maxRetries` and `MAX_RETRIES` are one: lower case, without '-' and '_',
 * and `[a.b]`, which is one element, without its brackets.
 */
#ifndef REA_SRC_CHECK_SETTINGS_H
#define REA_SRC_CHECK_SETTINGS_H

#include "check/model.h"

#define CHECK_SETTINGS_MAX 100000 /* of one file */
#define CHECK_KEY_MAX 512
#define CHECK_LIST_MAX 256

struct check_setting {
	struct check_setting *next;
	const char *key;     /* canonical */
	const char *written; /* "a.b-c[0]" */
	const char *value;   /* "" = nothing */
	struct check_place place;
	struct check_place value_place;
	uint32_t last_line;
	bool flow; /* shares its lines with others */
	const struct check_document *document;
	size_t order; /* of two with one key the greater counts */
};

struct check_document {
	struct check_document *next;
	const struct check_file *file;
	const char *file_profile; /* application-PROFILE.yml; "" = none */
	const char *on_profile;   /* an expression; "" = always */
	bool properties;
	struct check_setting *settings, **settings_tail;
	size_t settings_len;
};

struct check_view {
	const char *profiles;                  /* "a,b"; "" = none */
	const struct check_setting **settings; /* by key, then by order */
	size_t settings_len;
	const struct check_document **documents; /* those that are active, the strongest last */
	size_t documents_len;
};

/* Read the documents of a file into its app. */
int check_settings_yaml(struct check *check, struct check_file *file, const char *file_profile, struct rea_error_info *info);
int check_settings_properties(
    struct check *check, struct check_file *file, const char *file_profile, struct rea_error_info *info);

/* What holds under these profiles. Returns false when memory has run out. */
bool check_view_make(struct check *check, const struct check_app *app, const char *profiles, struct check_view *ret_view);
/* The expression of on-profile ("a & !b, c") holds under the profiles. */
bool check_profile_matches(const char *expression, const char *profiles);

/* The setting that counts, NULL = none. pattern: canonical; '*' in it stands for name. */
const struct check_setting *check_view_get(const struct check_view *view, const char *pattern, const char *name);
/* One below that key is set, or the key itself; the first by name. */
const struct check_setting *check_view_below(const struct check_view *view, const char *pattern, const char *name);
/* All that are set below it. */
const struct check_setting *const *check_view_all_below(
    const struct check_view *view, const char *pattern, const char *name, size_t *ret_count);
/* The distinct names that stand where the pattern, which ends with '*', has it. Returns how many were written to ret_names. */
size_t check_view_names(
    struct check *check, const struct check_view *view, const char *pattern, const char **ret_names, size_t names_max);
/* The items of a list, which may be one text with commas. item->value is trimmed. */
size_t check_view_list(struct check *check, const struct check_view *view, const char *pattern, const char *name,
    struct check_setting ret_items[CHECK_LIST_MAX]);
/* A value with its placeholders put in; NULL = one of them is not known here. */
const char *check_view_resolve(struct check *check, const struct check_view *view, const char *value);

#endif
