#include "loop/loop.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const uint8_t v4_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

void loop_address_from_id(const struct rea_instance_id *id, struct sockaddr_storage *ret_address)
{
	memset(ret_address, 0, sizeof(*ret_address));
	if (memcmp(id->address, v4_mapped, sizeof(v4_mapped)) == 0) {
		struct sockaddr_in *in = (struct sockaddr_in *)ret_address;

		in->sin_family = AF_INET;
		in->sin_port = htons(id->port);
		memcpy(&in->sin_addr, id->address + sizeof(v4_mapped), 4);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_address;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(id->port);
		memcpy(&in6->sin6_addr, id->address, 16);
	}
}

/* Unlike an instance's, a port to listen on may be 0. */
int loop_address_parse(const char *text, struct sockaddr_storage *ret_address)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon != NULL ? (size_t)(colon - text) : 0;
	bool v6 = length >= 2 && text[0] == '[' && text[length - 1] == ']';
	char host[INET6_ADDRSTRLEN];
	uint64_t port;

	if (v6) {
		text++;
		length -= 2;
	}
	if (length == 0 || length >= sizeof(host) || !rea_slice_to_u64(rea_slice_of(colon + 1), &port) || port > UINT16_MAX)
		return UV_EINVAL;
	memcpy(host, text, length);
	host[length] = '\0';
	memset(ret_address, 0, sizeof(*ret_address));
	return v6 ? uv_ip6_addr(host, (int)port, (struct sockaddr_in6 *)ret_address)
		  : uv_ip4_addr(host, (int)port, (struct sockaddr_in *)ret_address);
}

void loop_address_host(const struct sockaddr *address, char *ret_text, size_t size)
{
	ret_text[0] = '\0';
	if (address->sa_family == AF_INET)
		uv_ip4_name((const struct sockaddr_in *)(const void *)address, ret_text, size);
	else if (address->sa_family == AF_INET6)
		uv_ip6_name((const struct sockaddr_in6 *)(const void *)address, ret_text, size);
}

void loop_address_format(const struct sockaddr *address, char *ret_text, size_t size)
{
	char host[INET6_ADDRSTRLEN];
	bool v6 = address->sa_family == AF_INET6;
	in_port_t port = v6 ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
			    : ((const struct sockaddr_in *)(const void *)address)->sin_port;

	loop_address_host(address, host, sizeof(host));
	snprintf(ret_text, size, v6 ? "[%s]:%u" : "%s:%u", host, ntohs(port));
}
