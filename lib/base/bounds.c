/* Bounds of numbers, and the sentence that refuses one. */
#include "base/bounds.h"

#include <float.h>

struct rea_format rea__begin_refusal(struct rea_error_info *info, const char *key)
{
	struct rea_format text;

	if (info == NULL) {
		rea_format_init(&text, NULL, 0);
		return text;
	}
	info->file[0] = '\0';
	info->line = info->column = 0;
	rea_format_init(&text, info->key, sizeof(info->key));
	rea_format_text(&text, key);
	rea_format_init(&text, info->message, sizeof(info->message));
	return text;
}

int rea__refuse(struct rea_error_info *info, const char *key, int error, const char *message)
{
	struct rea_format text = rea__begin_refusal(info, key);

	rea_format_text(&text, message);
	return error;
}

/* "max-backoff-ms is 50; it must be at least 100 (min-backoff-ms)" */
static int refuse(const struct rea__bound *bound, struct rea_error_info *info)
{
	struct rea_format text = rea__begin_refusal(info, bound->key);
	bool is_low = !(bound->value >= bound->min); /* or no number at all */
	bool has_min = bound->min > 0 || bound->above_min || is_low, has_max = bound->max < DBL_MAX;

	rea_format_text(&text, bound->what);
	rea_format_text(&text, " is ");
	rea_format_double(&text, bound->value);
	rea_format_text(&text, "; it must be ");
	if (has_min) {
		rea_format_text(&text, bound->above_min ? "above " : "at least ");
		rea_format_double(&text, bound->min);
	}
	if (has_min && has_max)
		rea_format_text(&text, " and ");
	if (has_max) {
		rea_format_text(&text, "at most ");
		rea_format_double(&text, bound->max);
	} else if (bound->value > DBL_MAX) {
		rea_format_text(&text, " and finite");
	}
	if (bound->note) {
		rea_format_text(&text, " (");
		rea_format_text(&text, bound->note);
		rea_format_text(&text, ")");
	}
	return REA_ERR_INVALID;
}

int rea__check_bounds(const struct rea__bound *bounds, size_t bounds_len, struct rea_error_info *info)
{
	for (size_t i = 0; i < bounds_len; i++) {
		const struct rea__bound *b = &bounds[i];

		/* Written so that NaN fails it. */
		if (!((b->above_min ? b->value > b->min : b->value >= b->min) && b->value <= b->max))
			return refuse(b, info);
	}
	return 0;
}
