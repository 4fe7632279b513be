#include "config/suggest.h"

#include <stdio.h>

/* Longer names are not compared. */
#define LENGTH_MAX 96

/* The name as it is compared: case, "-" and "_" make no difference. Returns its length, or SIZE_MAX when it is too
 * long. */
static size_t normalize(struct rea_slice name, char ret_text[LENGTH_MAX])
{
	size_t length = 0;

	for (size_t i = 0; i < name.length; i++) {
		if (name.data[i] == '-' || name.data[i] == '_')
			continue;
		if (length == LENGTH_MAX)
			return SIZE_MAX;
		ret_text[length++] = rea_ascii_lower(name.data[i]);
	}
	return length;
}

static size_t least(size_t a, size_t b, size_t c)
{
	size_t d = a < b ? a : b;

	return d < c ? d : c;
}

/* Insertions, deletions, substitutions and swaps of neighbours that lead from a to b. */
static size_t edit_distance(struct rea_slice a, struct rea_slice b)
{
	size_t rows[3][LENGTH_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= b.length; j++)
		last[j] = j;
	for (size_t i = 1; i <= a.length; i++) {
		size_t *reused = before;

		row[0] = i;
		for (size_t j = 1; j <= b.length; j++) {
			bool equal = a.data[i - 1] == b.data[j - 1];

			row[j] = least(last[j] + 1, row[j - 1] + 1, last[j - 1] + !equal);
			if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1] &&
			    before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		before = last;
		last = row;
		row = reused;
	}
	return last[b.length];
}

void rea__suggest_init(struct rea__suggest *suggest, struct rea_slice wanted)
{
	suggest->wanted = wanted;
	suggest->nearest = NULL;
	suggest->distance = wanted.length < 6 ? 1 : wanted.length / 3;
}

void rea__suggest_offer(struct rea__suggest *suggest, const char *candidate)
{
	char wanted[LENGTH_MAX], offered[LENGTH_MAX];
	size_t wanted_len = normalize(suggest->wanted, wanted),
	       offered_len = normalize(rea_slice_of(candidate), offered), distance;

	if (wanted_len == SIZE_MAX || offered_len == SIZE_MAX || wanted_len == 0)
		return;
	distance = edit_distance(rea_slice_make(wanted, wanted_len), rea_slice_make(offered, offered_len));
	/* A distance as long as the name would make it another name. */
	if (distance < offered_len && distance < wanted_len && distance < suggest->distance + (suggest->nearest == NULL)) {
		suggest->nearest = candidate;
		suggest->distance = distance;
	}
}

const char *rea__suggest_text(const struct rea__suggest *suggest, char buffer[REA__SUGGEST_SIZE])
{
	buffer[0] = '\0';
	if (suggest->nearest != NULL)
		snprintf(buffer, REA__SUGGEST_SIZE, "; did you mean %s?", suggest->nearest);
	return buffer;
}
