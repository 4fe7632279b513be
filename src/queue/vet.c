#include "queue/vet.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#define LABEL_MAX 63

static int refuse(struct rea_error_info *ret_info, int error, const char *message)
{
	if (ret_info != NULL) {
		memset(ret_info, 0, sizeof(*ret_info));
		snprintf(ret_info->message, sizeof(ret_info->message), "%s", message);
	}
	return error;
}

static struct rea_slice cut_front(struct rea_slice text, size_t length)
{
	return rea_slice_make(text.data + length, text.length - length);
}

/* The part before the first of these bytes, or all. */
static struct rea_slice until(struct rea_slice text, const char *stops)
{
	size_t length = 0;

	while (length < text.length && strchr(stops, text.data[length]) == NULL)
		length++;
	return rea_slice_make(text.data, length);
}

/* ---- a URL as it is read, and as it is written anew ---- */

struct parts {
	bool https;
	bool has_port;
	struct rea_slice host;  /* with brackets */
	struct rea_slice port;  /* digits, or "*" in a pattern */
	struct rea_slice path;  /* may be empty */
	struct rea_slice query; /* with its "?", or empty */
};

static int check_bytes(struct rea_slice text, struct rea_error_info *ret_info)
{
	if (text.length > VET_URL_MAX)
		return refuse(ret_info, REA_ERR_LIMIT, "a URL has at most 8192 bytes");
	for (size_t i = 0; i < text.length; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c > '~')
			return refuse(ret_info, REA_ERR_INVALID,
			    "a URL is ASCII: write the host in punycode (xn--…) and percent-encode the rest");
		if (c <= ' ' || c == '\\')
			return refuse(ret_info, REA_ERR_INVALID, "a URL has no blanks, control characters or backslashes");
	}
	return 0;
}

static int split_authority(struct rea_slice authority, struct parts *ret_parts, struct rea_error_info *ret_info)
{
	size_t host = authority.length > 0 && authority.data[0] == '[' ? until(authority, "]").length + 1
								       : until(authority, ":").length;

	if (memchr(authority.data, '@', authority.length) != NULL)
		return refuse(ret_info, REA_ERR_INVALID, "no user or password in a URL: send credentials as a header");
	if (host > authority.length || (host < authority.length && authority.data[host] != ':'))
		return refuse(ret_info, REA_ERR_INVALID, "an IPv6 address stands in brackets, with nothing but a port behind");
	ret_parts->host = rea_slice_make(authority.data, host);
	ret_parts->has_port = host < authority.length;
	ret_parts->port = ret_parts->has_port ? cut_front(authority, host + 1) : rea_slice_make(NULL, 0);
	return 0;
}

static int split(struct rea_slice text, struct parts *ret_parts, struct rea_error_info *ret_info)
{
	static const struct rea_slice http = REA_SLICE_LIT("http://"), https = REA_SLICE_LIT("https://");
	struct rea_slice authority;
	int error = check_bytes(text, ret_info);

	if (error != 0)
		return error;
	*ret_parts = (struct parts){.https = rea_slice_equal_nocase(until(text, "/"), REA_SLICE_LIT("https:"))};
	if (text.length < https.length ||
	    !rea_slice_equal_nocase(rea_slice_make(text.data, ret_parts->https ? https.length : http.length),
		ret_parts->https ? https : http))
		return refuse(ret_info, REA_ERR_INVALID, "a URL begins with http:// or https://");
	text = cut_front(text, ret_parts->https ? https.length : http.length);
	if (memchr(text.data, '#', text.length) != NULL)
		return refuse(ret_info, REA_ERR_INVALID, "no fragment (#…) in a URL: it is never sent");
	authority = until(text, "/?");
	text = cut_front(text, authority.length);
	ret_parts->path = until(text, "?");
	ret_parts->query = cut_front(text, ret_parts->path.length);
	return split_authority(authority, ret_parts, ret_info);
}

/* ---- the host ---- */

static int hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = rea_ascii_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A number as inet_aton reads one: 0x hexadecimal, 0 octal, else decimal. */
static bool parse_number(struct rea_slice text, uint64_t *ret_value)
{
	unsigned base = 10;
	uint64_t value = 0;

	if (text.length > 1 && text.data[0] == '0') {
		base = rea_ascii_lower(text.data[1]) == 'x' ? 16 : 8;
		text = cut_front(text, base == 16 ? 2 : 1);
	}
	/* "0x" is a zero, too; and no number that fits has more digits. */
	if (text.length > 16)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		int digit = hex_of(text.data[i]);

		if (digit < 0 || (unsigned)digit >= base)
			return false;
		value = value * base + (unsigned)digit;
	}
	*ret_value = value;
	return true;
}

/* Whether resolvers may take a host for an IPv4 address: its last label is a number. */
static bool ends_in_number(struct rea_slice host)
{
	size_t begin = host.length, digits = 0;
	uint64_t value;

	while (begin > 0 && host.data[begin - 1] != '.')
		begin--;
	host = cut_front(host, begin);
	while (digits < host.length && host.data[digits] >= '0' && host.data[digits] <= '9')
		digits++;
	return host.length > 0 && (digits == host.length || parse_number(host, &value));
}

/* One to four numbers; the last one fills what is left. */
static bool parse_ipv4(struct rea_slice host, uint32_t *ret_address)
{
	uint64_t address = 0, value;
	unsigned shift = 32;

	for (unsigned i = 0; i < 4; i++) {
		struct rea_slice part = until(host, ".");
		bool last = part.length == host.length;

		if (part.length == 0 || !parse_number(part, &value))
			return false;
		if (last) {
			*ret_address = (uint32_t)(address | value);
			return value >> shift == 0;
		}
		if (value > 255)
			return false;
		shift -= 8;
		address |= value << shift;
		host = cut_front(host, part.length + 1);
	}
	return false;
}

static bool is_name(struct rea_slice host)
{
	size_t label = 0;

	for (size_t i = 0; i < host.length; i++) {
		char c = rea_ascii_lower(host.data[i]);

		if (c == '.' && label == 0)
			return false;
		label = c == '.' ? 0 : label + 1;
		if (label > LABEL_MAX || ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'))
			return false;
	}
	return host.length > 0 && host.length <= VET_HOST_MAX && label > 0;
}

/* Writes the normal form, brackets and all. Returns its length, 0 = no host. */
static size_t write_host(struct rea_slice host, char ret_text[VET_HOST_MAX + 3], bool *ret_is_address)
{
	char inner[INET6_ADDRSTRLEN];
	struct in6_addr ipv6;
	uint32_t ipv4;

	*ret_is_address = true;
	if (host.length > 2 && host.data[0] == '[') {
		if (host.length - 2 >= sizeof(inner))
			return 0;
		memcpy(inner, host.data + 1, host.length - 2);
		inner[host.length - 2] = '\0';
		if (inet_pton(AF_INET6, inner, &ipv6) != 1)
			return 0;
		inet_ntop(AF_INET6, &ipv6, inner, sizeof(inner));
		return (size_t)snprintf(ret_text, VET_HOST_MAX + 3, "[%s]", inner);
	}
	if (host.length > 1 && host.data[host.length - 1] == '.')
		host.length--;
	if (ends_in_number(host))
		return !parse_ipv4(host, &ipv4) ? 0
						: (size_t)snprintf(ret_text, VET_HOST_MAX + 3, "%u.%u.%u.%u",
						      ipv4 >> 24, ipv4 >> 16 & 255, ipv4 >> 8 & 255, ipv4 & 255);
	*ret_is_address = false;
	if (!is_name(host))
		return 0;
	for (size_t i = 0; i < host.length; i++)
		ret_text[i] = rea_ascii_lower(host.data[i]);
	ret_text[host.length] = '\0';
	return host.length;
}

static int read_port(const struct parts *parts, uint16_t *ret_port, struct rea_error_info *ret_info)
{
	uint64_t port = parts->https ? 443 : 80;

	if (parts->port.length > 0 && (!rea_slice_to_u64(parts->port, &port) || port == 0 || port > UINT16_MAX))
		return refuse(ret_info, REA_ERR_INVALID, "a port is a number from 1 to 65535");
	*ret_port = (uint16_t)port;
	return 0;
}

/* ---- the path ---- */

static bool is_unreserved(char c)
{
	return hex_of(c) >= 0 || (rea_ascii_lower(c) >= 'a' && rea_ascii_lower(c) <= 'z') || c == '-' || c == '.' ||
	       c == '_' || c == '~';
}

/* %XX: what needs no encoding decoded, the rest in upper case. Returns the length written, never more than was read; SIZE_MAX = not two digits. */
static size_t write_decoded(struct rea_slice path, char *at)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t length = 0;

	for (size_t i = 0; i < path.length; i++) {
		int high, low;
		char c;

		if (path.data[i] != '%') {
			at[length++] = path.data[i];
			continue;
		}
		high = i + 2 < path.length ? hex_of(path.data[i + 1]) : -1;
		low = high >= 0 ? hex_of(path.data[i + 2]) : -1;
		if (low < 0)
			return SIZE_MAX;
		i += 2;
		c = (char)(high << 4 | low);
		if (is_unreserved(c)) {
			at[length++] = c;
			continue;
		}
		at[length++] = '%';
		at[length++] = digits[high];
		at[length++] = digits[low];
	}
	return length;
}

static bool is_dots(struct rea_slice segment, size_t count)
{
	return segment.length == count && memcmp(segment.data, "..", count) == 0;
}

/* RFC 3986 5.2.4, in place. path begins with "/". Returns its new length. */
static size_t remove_dot_segments(char *path, size_t length)
{
	struct rea_slice rest = rea_slice_make(path, length);
	size_t out = 0;

	while (rest.length > 0) {
		struct rea_slice segment = until(cut_front(rest, 1), "/");
		bool last = segment.length + 1 == rest.length, dot = is_dots(segment, 1), dots = is_dots(segment, 2);

		rest = cut_front(rest, segment.length + 1);
		if (dots)
			while (out > 0 && path[--out] != '/')
				continue;
		if (!dot && !dots) {
			path[out] = '/';
			memmove(path + out + 1, segment.data, segment.length);
			out += segment.length + 1;
		} else if (last) {
			path[out++] = '/';
		}
	}
	return out;
}

/* Some servers take %2F for "/", and then see dot segments where nobody else does. */
static bool hides_dot_segments(struct rea_slice path)
{
	size_t begin = 0;

	for (size_t i = 0; i <= path.length; i++) {
		bool slash = i == path.length || path.data[i] == '/';
		bool coded = !slash && i + 2 < path.length &&
			     (memcmp(path.data + i, "%2F", 3) == 0 || memcmp(path.data + i, "%5C", 3) == 0);
		struct rea_slice part = rea_slice_make(path.data + begin, i - begin);

		if (!slash && !coded)
			continue;
		if (is_dots(part, 1) || is_dots(part, 2))
			return true;
		begin = i + (coded ? 3 : 1);
	}
	return false;
}

static int write_path(struct rea_slice path, char *at, size_t *ret_length, struct rea_error_info *ret_info)
{
	size_t length = write_decoded(path, at);

	if (length == SIZE_MAX)
		return refuse(ret_info, REA_ERR_INVALID, "a % in a path is followed by two hexadecimal digits");
	if (length == 0)
		at[length++] = '/';
	length = remove_dot_segments(at, length);
	if (hides_dot_segments(rea_slice_make(at, length)))
		return refuse(ret_info, REA_ERR_INVALID, "no dot segments behind %2F or %5C in a path");
	*ret_length = length;
	return 0;
}

/* ---- the whole ---- */

static int write_url(const struct parts *parts, struct vet_url *ret_url, struct rea_error_info *ret_info)
{
	struct vet_url url = {.https = parts->https};
	char host[VET_HOST_MAX + 3], port[8] = "";
	size_t host_len = write_host(parts->host, host, &url.is_address), origin, path = 0;
	bool brackets = host_len > 0 && host[0] == '[';
	int error = read_port(parts, &url.port, ret_info);

	if (error != 0)
		return error;
	if (host_len == 0)
		return refuse(ret_info,
		    REA_ERR_INVALID, "the host of a URL is a name of letters, digits, - and _ in labels of at most 63, or an IP address");
	if (url.port != (url.https ? 443 : 80))
		snprintf(port, sizeof(port), ":%u", (unsigned)url.port);
	/* Nothing grows but an empty path, and IPv4 addresses. */
	url.text = malloc(sizeof("https://") + host_len + sizeof(port) + parts->path.length + 1 + parts->query.length);
	if (url.text == NULL)
		return REA_ERR_NOMEM;
	origin = (size_t)sprintf(url.text, "%s://%s%s", url.https ? "https" : "http", host, port);
	error = write_path(parts->path, url.text + origin, &path, ret_info);
	if (error != 0) {
		free(url.text);
		return error;
	}
	if (parts->query.length > 0)
		memcpy(url.text + origin + path, parts->query.data, parts->query.length);
	url.text[origin + path + parts->query.length] = '\0';
	url.origin = rea_slice_make(url.text, origin);
	url.host = rea_slice_make(url.text + (url.https ? 8 : 7) + (brackets ? 1 : 0), host_len - (brackets ? 2 : 0));
	url.path = rea_slice_make(url.text + origin, path);
	*ret_url = url;
	return 0;
}

int vet_url_parse(struct rea_slice text, struct vet_url *ret_url, struct rea_error_info *ret_info)
{
	struct parts parts;
	int error = split(text, &parts, ret_info);

	return error != 0 ? error : write_url(&parts, ret_url, ret_info);
}

void vet_url_fini(struct vet_url *url)
{
	free(url->text);
	*url = (struct vet_url){0};
}

/* ---- patterns ---- */

static bool ends_in_dots(struct rea_slice path)
{
	size_t begin = path.length;

	while (begin > 0 && path.data[begin - 1] != '/')
		begin--;
	path = cut_front(path, begin);
	return is_dots(path, 1) || is_dots(path, 2);
}

static bool has_star(struct rea_slice text)
{
	return until(text, "*").length < text.length;
}

static void take_stars_out(struct parts *parts, struct vet_pattern *pattern)
{
	/* A name that stands for any. */
	if (rea_slice_equal(parts->host, REA_SLICE_LIT("*"))) {
		pattern->any_host = true;
		parts->host = REA_SLICE_LIT("any");
	} else if (parts->host.length > 2 && parts->host.data[0] == '*' && parts->host.data[1] == '.') {
		pattern->any_labels = true;
		parts->host = cut_front(parts->host, 2);
	}
	if (rea_slice_equal(parts->port, REA_SLICE_LIT("*"))) {
		pattern->any_port = true;
		parts->port = rea_slice_make(NULL, 0);
	}
	if (parts->path.length == 0) {
		pattern->any_rest = true;
	} else if (parts->path.data[parts->path.length - 1] == '*') {
		pattern->any_rest = true;
		parts->path.length--;
	}
}

int vet_pattern_parse(struct rea_slice text, struct vet_pattern *ret_pattern, struct rea_error_info *ret_info)
{
	struct vet_pattern pattern = {0};
	struct parts parts;
	int error = split(text, &parts, ret_info);

	if (error != 0)
		return error;
	take_stars_out(&parts, &pattern);
	if (has_star(parts.path) || has_star(parts.host))
		return refuse(ret_info,
		    REA_ERR_INVALID, "a * stands for the host, for its leading labels (*.example.com), for the port, or at the end for the rest of the path");
	if (parts.query.length > 0 || (pattern.any_rest && ends_in_dots(parts.path)))
		return refuse(ret_info, REA_ERR_INVALID, "a pattern ends with its path: no query, and no dots before the *");
	error = write_url(&parts, &pattern.url, ret_info);
	if (error != 0)
		return error;
	if (pattern.any_labels && pattern.url.is_address) {
		vet_pattern_fini(&pattern);
		return refuse(ret_info, REA_ERR_INVALID, "an address has no leading labels: write it in full");
	}
	*ret_pattern = pattern;
	return 0;
}

void vet_pattern_fini(struct vet_pattern *pattern)
{
	vet_url_fini(&pattern->url);
}

static bool host_matches(const struct vet_pattern *pattern, const struct vet_url *url)
{
	struct rea_slice domain = pattern->url.host, host = url->host;

	if (pattern->any_host)
		return true;
	if (!pattern->any_labels)
		return rea_slice_equal(domain, host);
	return !url->is_address && host.length > domain.length + 1 && host.data[host.length - domain.length - 1] == '.' &&
	       memcmp(host.data + host.length - domain.length, domain.data, domain.length) == 0;
}

bool vet_pattern_matches(const struct vet_pattern *pattern, const struct vet_url *url)
{
	struct rea_slice path = url->path;

	if (pattern->url.https != url->https || (!pattern->any_port && pattern->url.port != url->port) ||
	    !host_matches(pattern, url))
		return false;
	if (pattern->any_rest && path.length > pattern->url.path.length)
		path.length = pattern->url.path.length;
	return rea_slice_equal(path, pattern->url.path);
}

/* ---- addresses ---- */

enum kind {
	KIND_PRIVATE, /* reachable where the operator says so */
	KIND_NEVER    /* no single host, or nobody's */
};

struct range {
	uint32_t base;
	unsigned bits;
	enum kind kind;
	const char *name;
};

/* The IANA registries of special-purpose and multicast addresses. */
static const struct range ranges4[] = {
    {0x00000000, 8, KIND_NEVER, "an unspecified address"},
    {0x0a000000, 8, KIND_PRIVATE, "a private address"},
    {0x64400000, 10, KIND_PRIVATE, "a carrier's private address"},
    {0x7f000000, 8, KIND_PRIVATE, "a loopback address"},
    {0xa9fe0000, 16, KIND_PRIVATE, "a link-local address"},
    {0xac100000, 12, KIND_PRIVATE, "a private address"},
    {0xc0000000, 24, KIND_NEVER, "a reserved address"},
    {0xc0000200, 24, KIND_NEVER, "a documentation address"},
    {0xc0586300, 24, KIND_NEVER, "a reserved address"},
    {0xc0a80000, 16, KIND_PRIVATE, "a private address"},
    {0xc6120000, 15, KIND_PRIVATE, "a benchmarking address"},
    {0xc6336400, 24, KIND_NEVER, "a documentation address"},
    {0xcb007100, 24, KIND_NEVER, "a documentation address"},
    {0xe0000000, 4, KIND_NEVER, "a multicast address"},
    {0xf0000000, 4, KIND_NEVER, "a reserved address"},
};

static const char *judge(enum kind kind, const char *name, const uint8_t address[16], const struct vet_allowed *allowed)
{
	for (size_t i = 0; kind == KIND_PRIVATE && i < allowed->len; i++)
		if (rea_config_range_has(&allowed->ranges[i], address))
			return NULL;
	return name;
}

static const char *vet_ipv4(uint32_t address, const struct vet_allowed *allowed)
{
	const uint8_t mapped[16] = {
	    [10] = 0xff, [11] = 0xff, [12] = (uint8_t)(address >> 24), [13] = (uint8_t)(address >> 16), [14] = (uint8_t)(address >> 8), [15] = (uint8_t)address};

	for (size_t i = 0; i < sizeof(ranges4) / sizeof(ranges4[0]); i++)
		if ((address ^ ranges4[i].base) >> (32 - ranges4[i].bits) == 0)
			return judge(ranges4[i].kind, ranges4[i].name, mapped, allowed);
	return NULL;
}

static bool has_bits(const uint8_t address[16], const char *prefix, unsigned bits)
{
	struct in6_addr base;
	int parsed = inet_pton(AF_INET6, prefix, &base);

	assert(parsed == 1);
	for (unsigned i = 0; i < bits; i++)
		if (((address[i / 8] ^ base.s6_addr[i / 8]) >> (7 - i % 8) & 1) != 0)
			return false;
	return true;
}

static uint32_t ipv4_at(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static const char *vet_ipv6(const uint8_t address[16], const struct vet_allowed *allowed)
{
	static const struct {
		const char *prefix;
		unsigned bits;
		enum kind kind;
		const char *name;
	} ranges[] = {
	    {"::", 128, KIND_NEVER, "an unspecified address"},
	    {"::1", 128, KIND_PRIVATE, "a loopback address"},
	    {"fc00::", 7, KIND_PRIVATE, "a private address"},
	    {"fe80::", 10, KIND_PRIVATE, "a link-local address"},
	    {"fec0::", 10, KIND_PRIVATE, "a private address"},
	    {"64:ff9b:1::", 48, KIND_PRIVATE, "a private translation address"},
	    {"ff00::", 8, KIND_NEVER, "a multicast address"},
	    {"2001::", 23, KIND_NEVER, "a reserved address"},
	    {"2001:db8::", 32, KIND_NEVER, "a documentation address"},
	    {"3fff::", 20, KIND_NEVER, "a documentation address"},
	};
	/* An IPv4 address at a fixed place. */
	static const struct {
		const char *prefix;
		unsigned bits;
		size_t at;
	} embedded[] = {{"::ffff:0:0", 96, 12}, {"64:ff9b::", 96, 12}, {"2002::", 16, 2}};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (has_bits(address, ranges[i].prefix, ranges[i].bits))
			return judge(ranges[i].kind, ranges[i].name, address, allowed);
	for (size_t i = 0; i < sizeof(embedded) / sizeof(embedded[0]); i++)
		if (has_bits(address, embedded[i].prefix, embedded[i].bits))
			return vet_ipv4(ipv4_at(address + embedded[i].at), allowed);
	return has_bits(address, "2000::", 3) ? NULL : "a reserved address";
}

const char *vet_address(const struct sockaddr *address, const struct vet_allowed *allowed)
{
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;

	switch (address->sa_family) {
	case AF_INET:
		memcpy(&ipv4, address, sizeof(ipv4));
		return vet_ipv4(ntohl(ipv4.sin_addr.s_addr), allowed);
	case AF_INET6:
		memcpy(&ipv6, address, sizeof(ipv6));
		return vet_ipv6(ipv6.sin6_addr.s6_addr, allowed);
	default:
		return "no IP address";
	}
}
