/*
 * IP addresses as text: IPv4 in dotted decimal, IPv6 as RFC 5952 writes it. An address is 16 bytes; IPv4 is kept as ::ffff:a.b.c.d.
 */
#ifndef REA_BASE_ADDRESS_H
#define REA_BASE_ADDRESS_H

#include "base/format.h"
#include "base/slice.h"

bool rea_address_is_ipv4(const uint8_t *address);
/* "127.0.0.1", "::1". */
void rea_address_format(const uint8_t *address, struct rea_format *text);
/* The reverse; no brackets, port or zone. False for anything else. */
bool rea_address_parse(struct rea_slice text, uint8_t *ret_address);

#endif
