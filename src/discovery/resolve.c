#include "discovery/resolve.h"

#include "base/slice.h"

#include <rea/call.h>

#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#define NAME_MAX_BYTES 254

__attribute__((format(printf, 3, 4))) static int refuse(struct rea_error_info *info, int error, const char *format, ...)
{
	va_list args;

	if (info != NULL) {
		memset(info, 0, sizeof(*info));
		va_start(args, format);
		vsnprintf(info->message, sizeof(info->message), format, args);
		va_end(args);
	}
	return error;
}

static bool split(const char *address, char ret_name[NAME_MAX_BYTES], uint16_t *ret_port)
{
	const char *colon = strrchr(address, ':');
	uint64_t port;

	if (colon == NULL || colon == address || (size_t)(colon - address) >= NAME_MAX_BYTES)
		return false;
	if (!rea_slice_to_u64(rea_slice_of(colon + 1), &port) || port == 0 || port > UINT16_MAX)
		return false;
	memcpy(ret_name, address, (size_t)(colon - address));
	ret_name[colon - address] = '\0';
	*ret_port = (uint16_t)port;
	return true;
}

/* IPv4 as ::ffff:a.b.c.d. Returns false for other families. */
static bool to_id(const struct sockaddr *address, uint16_t port, struct rea_instance_id *ret_id)
{
	memset(ret_id, 0, sizeof(*ret_id));
	ret_id->port = port;
	if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 v6;

		memcpy(&v6, address, sizeof(v6));
		memcpy(ret_id->address, &v6.sin6_addr, sizeof(ret_id->address));
		return true;
	}
	if (address->sa_family == AF_INET) {
		struct sockaddr_in v4;

		memcpy(&v4, address, sizeof(v4));
		ret_id->address[10] = ret_id->address[11] = 0xff;
		memcpy(ret_id->address + 12, &v4.sin_addr, 4);
		return true;
	}
	return false;
}

static bool is_known(const struct rea_instance_id *ids, size_t count, const struct rea_instance_id *id)
{
	for (size_t i = 0; i < count; i++)
		if (rea_instance_id_equal(&ids[i], id))
			return true;
	return false;
}

static size_t collect(const struct addrinfo *found, uint16_t port, struct rea_instance_id *ret_ids, size_t max)
{
	size_t count = 0;

	for (; found != NULL && count < max; found = found->ai_next) {
		struct rea_instance_id id;

		if (to_id(found->ai_addr, port, &id) && !is_known(ret_ids, count, &id))
			ret_ids[count++] = id;
	}
	return count;
}

int resolve_address(const char *address, struct rea_instance_id *ret_ids, size_t max, size_t *ret_count,
    struct rea_error_info *ret_info)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char name[NAME_MAX_BYTES];
	uint16_t port;
	int failure;

	if (!split(address, name, &port))
		return refuse(ret_info, REA_ERR_INVALID, "%s is no address with a port from 1 to 65535", address);
	if (rea_instance_id_parse(address, strlen(address), ret_ids)) {
		*ret_count = 1;
		return 0;
	}
	failure = getaddrinfo(name, NULL, &hints, &found);
	if (failure != 0)
		return refuse(ret_info, REA_ERR_NOT_FOUND, "%s cannot be resolved: %s", address, gai_strerror(failure));
	*ret_count = collect(found, port, ret_ids, max);
	freeaddrinfo(found);
	return *ret_count > 0 ? 0 : refuse(ret_info, REA_ERR_NOT_FOUND, "%s has no IPv4 or IPv6 address", address);
}
