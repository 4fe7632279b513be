#include "http/grpc.h"

#include <rea/time.h>

bool grpc_is_content_type(struct rea_slice value)
{
	static const struct rea_slice name = REA_SLICE_LIT("application/grpc");
	char after;

	if (value.length < name.length || !rea_slice_equal_nocase(rea_slice_make(value.data, name.length), name))
		return false;
	after = value.length == name.length ? ';' : value.data[name.length];
	return after == '+' || after == ';' || after == ' ' || after == '\t';
}

bool grpc_status_parse(struct rea_slice value, enum grpc_status *ret_status)
{
	uint64_t number;

	if (!rea_slice_to_u64(value, &number))
		return false;
	*ret_status = number < GRPC_STATUS_COUNT ? (enum grpc_status)number : GRPC_UNKNOWN;
	return true;
}

enum grpc_status grpc_status_from_http(uint16_t status)
{
	switch (status) {
	case 400:
		return GRPC_INTERNAL;
	case 401:
		return GRPC_UNAUTHENTICATED;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}

enum grpc_status grpc_status_from_h2(uint32_t error_code)
{
	switch (error_code) {
	case 0x7: /* REFUSED_STREAM */
		return GRPC_UNAVAILABLE;
	case 0x8: /* CANCEL */
		return GRPC_CANCELLED;
	case 0xb: /* ENHANCE_YOUR_CALM */
		return GRPC_RESOURCE_EXHAUSTED;
	case 0xc: /* INADEQUATE_SECURITY */
		return GRPC_PERMISSION_DENIED;
	default:
		return GRPC_INTERNAL;
	}
}

/* ---- times ---- */

/* The finest first: what a unit is in ns. */
static const struct {
	char letter;
	uint64_t ns;
} units[] = {{'n', 1}, {'u', REA_NS_PER_US}, {'m', REA_NS_PER_MS}, {'S', REA_NS_PER_S}, {'M', 60 * REA_NS_PER_S},
    {'H', 3600 * REA_NS_PER_S}};
#define UNITS (sizeof(units) / sizeof(units[0]))
#define TIMEOUT_DIGITS 8
#define TIMEOUT_NUMBER_MAX UINT64_C(99999999)

bool grpc_timeout_parse(struct rea_slice value, uint64_t *ret_ns)
{
	uint64_t number;

	if (value.length < 2 || value.length > TIMEOUT_DIGITS + 1 ||
	    !rea_slice_to_u64(rea_slice_make(value.data, value.length - 1), &number))
		return false;
	for (size_t i = 0; i < UNITS; i++) {
		if (units[i].letter == value.data[value.length - 1]) {
			*ret_ns = rea_time_mul(units[i].ns, number);
			return true;
		}
	}
	return false;
}

size_t grpc_timeout_format(uint64_t ns, char ret_text[GRPC_TIMEOUT_SIZE])
{
	char digits[TIMEOUT_DIGITS];
	size_t unit = 0, at = TIMEOUT_DIGITS, length = 0;
	uint64_t number = ns;

	while (number > TIMEOUT_NUMBER_MAX && unit + 1 < UNITS) {
		unit++;
		number = ns / units[unit].ns + (ns % units[unit].ns != 0);
	}
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number != 0);
	while (at < TIMEOUT_DIGITS)
		ret_text[length++] = digits[at++];
	ret_text[length++] = units[unit].letter;
	return length;
}

bool grpc_pushback_parse(struct rea_slice value, uint64_t *ret_wait_ns)
{
	uint64_t wait_ms;

	if (!rea_slice_to_u64(value, &wait_ms) || wait_ms > INT32_MAX)
		return false;
	*ret_wait_ns = rea_time_from_ms(wait_ms);
	return true;
}

/* ---- texts ---- */

size_t grpc_message_encode(struct rea_slice text, char *ret_text, size_t size)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t length = 0;

	for (size_t i = 0; i < text.length; i++) {
		unsigned char c = (unsigned char)text.data[i];
		bool plain = c >= 0x20 && c <= 0x7e && c != '%';

		if (size - length < (plain ? 1 : 3))
			break;
		if (plain) {
			ret_text[length++] = (char)c;
		} else {
			ret_text[length++] = '%';
			ret_text[length++] = hex[c >> 4];
			ret_text[length++] = hex[c & 15];
		}
	}
	return length;
}

bool grpc_path_split(struct rea_slice path, struct rea_slice *ret_service, struct rea_slice *ret_method)
{
	const char *slash;

	if (path.length < 4 || path.data[0] != '/')
		return false;
	slash = memchr(path.data + 1, '/', path.length - 1);
	if (slash == NULL)
		return false;
	*ret_service = rea_slice_make(path.data + 1, (size_t)(slash - path.data) - 1);
	*ret_method = rea_slice_make(slash + 1, path.length - ret_service->length - 2);
	return ret_service->length > 0 && ret_method->length > 0 && memchr(ret_method->data, '/', ret_method->length) == NULL;
}

/* ---- messages ---- */

void grpc_frames_init(struct grpc_frames *frames, uint32_t limit)
{
	*frames = (struct grpc_frames){.limit = limit};
}

static bool take_prefix(struct grpc_frames *frames, struct rea_slice *data)
{
	while (frames->prefix_len < GRPC_PREFIX_BYTES && data->length > 0) {
		frames->prefix[frames->prefix_len++] = (uint8_t)*data->data++;
		data->length--;
	}
	if (frames->prefix_len < GRPC_PREFIX_BYTES)
		return false;
	if (frames->prefix[0] > 1) {
		frames->error = GRPC_FRAME_BAD_FLAG;
		return false;
	}
	frames->length = (uint32_t)frames->prefix[1] << 24 | (uint32_t)frames->prefix[2] << 16 |
			 (uint32_t)frames->prefix[3] << 8 | frames->prefix[4];
	if (frames->length > frames->limit) {
		frames->error = GRPC_FRAME_TOO_LARGE;
		return false;
	}
	frames->compressed = frames->prefix[0] == 1;
	frames->left = frames->length;
	frames->messages++;
	return true;
}

bool grpc_frames_next(struct grpc_frames *frames, struct rea_slice *data, struct rea_slice *ret_piece, bool *ret_complete)
{
	bool whole = frames->prefix_len == GRPC_PREFIX_BYTES;
	size_t take;

	if (frames->error != GRPC_FRAME_OK || (!whole && !take_prefix(frames, data)))
		return false;
	/* An empty message is told of at once, with its prefix. */
	if (frames->left > 0 && data->length == 0)
		return false;
	take = data->length < frames->left ? data->length : frames->left;
	*ret_piece = rea_slice_make(data->data, take);
	data->data += take;
	data->length -= take;
	frames->left -= (uint32_t)take;
	*ret_complete = frames->left == 0;
	if (*ret_complete)
		frames->prefix_len = 0;
	return true;
}

bool grpc_frames_at_end(const struct grpc_frames *frames)
{
	return frames->error == GRPC_FRAME_OK && frames->prefix_len == 0;
}

void grpc_prefix_make(uint32_t length, char ret_prefix[GRPC_PREFIX_BYTES])
{
	ret_prefix[0] = 0;
	for (int i = 0; i < 4; i++)
		ret_prefix[1 + i] = (char)(uint8_t)(length >> (24 - 8 * i));
}
