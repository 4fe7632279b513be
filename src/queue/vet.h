/*
 * Where tasks may go. A URL is brought into one form before it is compared with anything, and is sent in that form; what could be read
 * in two ways is refused. An address is judged when a connection to it is about to be made, whatever name led there. Sans-IO.
 */
#ifndef REA_SRC_QUEUE_VET_H
#define REA_SRC_QUEUE_VET_H

#include "base/slice.h"

#include <rea/config.h>
#include <rea/error.h>

#include <sys/socket.h>

#define VET_URL_MAX 8192 /* bytes of a URL or a pattern */
#define VET_HOST_MAX 253 /* of its host */

/*
 * In normal form: scheme and host in lower case, no trailing dot, IPv4 as four decimal numbers, IPv6 as short as it goes, no default port, no dot
 * segments, no %XX for what needs none, "/" for no path. All slices lie in text.
 */
struct vet_url {
	char *text;              /* owned, terminated */
	struct rea_slice origin; /* "https://hooks.example.com:8443" */
	struct rea_slice host;   /* IPv6 without brackets */
	struct rea_slice path;   /* without query */
	uint16_t port;
	bool https;
	bool is_address; /* host is one, not a name */
};

/* Only http and https; no user, no fragment, nothing but ASCII. Returns 0, REA_ERR_INVALID or REA_ERR_LIMIT with message, or REA_ERR_NOMEM. */
int vet_url_parse(struct rea_slice text, struct vet_url *ret_url, struct rea_error_info *ret_info);
void vet_url_fini(struct vet_url *url);

/*
 * scheme://host[:port][/path] in which `*` stands for the whole host ("https://" "*"), for its leading labels ("*.example.com", not
 * example.com itself), for the port (":*"), and at its end for the rest of the path. Without a port the scheme's own; without a path every path.
 * The query is not looked at.
 */
struct vet_pattern {
	struct vet_url url; /* with the stars taken out */
	bool any_host;
	bool any_labels;
	bool any_port;
	bool any_rest;
};

/* As vet_url_parse. */
int vet_pattern_parse(struct rea_slice text, struct vet_pattern *ret_pattern, struct rea_error_info *ret_info);
void vet_pattern_fini(struct vet_pattern *pattern);
bool vet_pattern_matches(const struct vet_pattern *pattern, const struct vet_url *url);

struct vet_allowed {
	const struct rea_config_range *ranges; /* borrowed */
	size_t len;
};

/* Why no connection may be made to this address: "a loopback address" … static; NULL = it may. allowed: parts of this machine
 * and of private networks that it may go to too, but never what is no single host (multicast, unspecified, reserved). An IPv4 address within an IPv6
 * one is judged as what it is. Anything but IPv4 and IPv6 is refused. */
const char *vet_address(const struct sockaddr *address, const struct vet_allowed *allowed);

#endif
