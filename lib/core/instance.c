/* The identity of an instance, and its text. */
#include <rea/call.h>

#include "base/address.h"
#include "core/internal.h"

#include <string.h>

bool rea_instance_id_equal(const struct rea_instance_id *a, const struct rea_instance_id *b)
{
	/* Member by member: padding has no value. */
	return a->port == b->port && memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

size_t rea__instance_find(const struct rea_instances *instances, const struct rea_instance_id *id)
{
	for (size_t i = 0; i < instances->count; i++)
		if (rea_instance_id_equal(&instances->items[i].id, id))
			return i;
	return SIZE_MAX;
}

bool rea__instance_id_in(const struct rea_instance_id *id, const struct rea_instance_id *ids, size_t ids_len)
{
	for (size_t i = 0; i < ids_len; i++)
		if (rea_instance_id_equal(id, &ids[i]))
			return true;
	return false;
}

size_t rea_instance_id_format(const struct rea_instance_id *id, char *ret_text, size_t size)
{
	bool ipv4 = rea_address_is_ipv4(id->address);
	struct rea_format text;

	rea_format_init(&text, ret_text, size);
	rea_format_text(&text, ipv4 ? "" : "[");
	rea_address_format(id->address, &text);
	rea_format_text(&text, ipv4 ? ":" : "]:");
	rea_format_u64(&text, id->port);
	return text.length;
}

/* Without leading zeros, which read as octal elsewhere. */
static bool parse_port(struct rea_slice s, uint16_t *ret_port)
{
	uint64_t value;

	if (!rea_slice_to_u64(s, &value) || value == 0 || value > UINT16_MAX || s.data[0] == '0')
		return false;
	*ret_port = (uint16_t)value;
	return true;
}

bool rea_instance_id_parse(const char *text, size_t length, struct rea_instance_id *ret_id)
{
	struct rea_instance_id id = {0};
	size_t colon = length;
	bool brackets;

	while (colon > 0 && text[colon - 1] != ':')
		colon--;
	if (colon == 0 || !parse_port(rea_slice_make(text + colon, length - colon), &id.port))
		return false;
	colon--;
	brackets = colon > 2 && text[0] == '[' && text[colon - 1] == ']';
	/* IPv6 stands in brackets, and nothing else does. */
	if (!rea_address_parse(rea_slice_make(text + brackets, colon - 2 * brackets), id.address) ||
	    brackets != (memchr(text, ':', colon) != NULL))
		return false;
	*ret_id = id;
	return true;
}
