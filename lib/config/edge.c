/*
 * Ranges of addresses: whose word counts (`trusted-edge`), and where tasks may go (`allow-private`).
 *
 * Every address is 16 bytes, IPv4 as ::ffff:a.b.c.d, so one comparison serves both families.
 */
#include "config/snapshot.h"

#include "base/address.h"

bool rea_config_range_has(const struct rea_config_range *range, const uint8_t address[16])
{
	uint32_t bytes = range->bits / 8, rest = range->bits % 8;

	return memcmp(range->address, address, bytes) == 0 &&
	       (rest == 0 || (range->address[bytes] ^ address[bytes]) >> (8 - rest) == 0);
}

/* "10.0.0.0/8", "fd00::/8", or an address alone. */
static bool parse_range(struct rea_slice text, struct rea_config_range *ret_range)
{
	const char *slash = text.length > 0 ? memchr(text.data, '/', text.length) : NULL;
	struct rea_slice address = rea_slice_make(text.data, slash != NULL ? (size_t)(slash - text.data) : text.length);
	bool ipv6 = address.length > 0 && memchr(address.data, ':', address.length) != NULL;
	uint64_t bits = UINT64_MAX;
	uint32_t family = ipv6 ? 128 : 32;

	if (!rea_address_parse(address, ret_range->address))
		return false;
	if (slash == NULL)
		bits = family;
	else if (!rea_slice_to_u64(rea_slice_make(slash + 1, text.length - address.length - 1), &bits))
		return false;
	if (bits > family)
		return false;
	ret_range->bits = (uint32_t)bits + 128 - family;
	return true;
}

/* What stands behind the first bits is a slip of the pen, or another range than was meant. */
static bool is_whole(const struct rea_config_range *range)
{
	for (uint32_t bit = range->bits; bit < 128; bit++)
		if (range->address[bit / 8] >> (7 - bit % 8) & 1)
			return false;
	return true;
}

static int read_range(struct rea__reader *reader, const struct rea__node *node, struct rea_config_range *ret_range)
{
	static const char expected[] = "an address range such as 10.0.0.0/8 or fd00::/8";
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	if (error != 0)
		return error;
	if (!parse_range(text, ret_range))
		return rea__refuse_value(reader, node, expected, "");
	if (!is_whole(ret_range))
		return rea__refuse_value(reader, node, expected, ": the address has bits behind the range's");
	return rea__copy_text(reader, text, &ret_range->text);
}

static int read_ranges(struct rea__reader *reader, const struct rea__node *node, struct rea__ranges *ret_ranges)
{
	struct rea_config_range *ranges;
	const struct rea__node *item;
	int error = rea__expect_sequence(reader, node, "a list of address ranges", &item);

	if (error != 0)
		return error;
	ranges = rea_arena_array(reader->arena, node->length, sizeof(*ranges));
	if (ranges == NULL)
		return rea__nomem(reader);
	for (size_t i = 0; item != NULL && error == 0; item = item->next, i++)
		error = read_range(reader, item, &ranges[i]);
	*ret_ranges = (struct rea__ranges){ranges, node->length};
	return error;
}

/* Written to the whole settings, as two members change. */
static int read_edge(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	struct rea_config_settings *settings = ret_value;
	struct rea__ranges ranges = {NULL, 0};
	int error = read_ranges(reader, node, &ranges);

	(void)field;
	settings->trusted_edge = ranges.items;
	settings->trusted_edge_len = ranges.len;
	return error;
}

/* `true` is every address, `false` none. */
static int read_private(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const struct rea_config_range everywhere = {.text = "private addresses"};
	struct rea__ranges *ranges = ret_value;
	bool all = false;
	int error;

	if (node->kind == REA__SEQUENCE)
		return read_ranges(reader, node, ranges);
	error = rea__type_bool.read(reader, node, field, &all);
	*ranges = (struct rea__ranges){&everywhere, all};
	return error;
}

static void format_edge(const struct rea__field *field, const void *value, struct rea_format *text)
{
	const struct rea_config_settings *settings = value;

	(void)field;
	if (settings->trusted_edge_len == 0)
		rea_format_text(text, "none");
	for (size_t i = 0; i < settings->trusted_edge_len; i++) {
		rea_format_text(text, i > 0 ? ", " : "");
		rea_format_text(text, settings->trusted_edge[i].text);
	}
}

const struct rea__type rea__type_edge = {read_edge, format_edge};
const struct rea__type rea__type_private = {read_private, NULL};

bool rea_config_trusts(const struct rea_config_settings *settings, const char *address, size_t length)
{
	uint8_t bytes[16];

	if (!rea_address_parse(rea_slice_make(address, length), bytes))
		return false;
	for (size_t i = 0; i < settings->trusted_edge_len; i++)
		if (rea_config_range_has(&settings->trusted_edge[i], bytes))
			return true;
	return false;
}
