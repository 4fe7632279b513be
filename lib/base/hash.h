/* FNV-1a, 64 bits: for tables whose keys come from the operator, and to name a document. Not against an adversary
 * who chooses keys. */
#ifndef REA_BASE_HASH_H
#define REA_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define REA_HASH_INIT UINT64_C(0xcbf29ce484222325)
#define REA_HASH_HEX_SIZE 17

static inline uint64_t rea_hash_byte(uint64_t hash, unsigned char byte)
{
	return (hash ^ byte) * UINT64_C(0x100000001b3);
}

static inline uint64_t rea_hash_more(uint64_t hash, const void *data, size_t length)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < length; i++)
		hash = rea_hash_byte(hash, bytes[i]);
	return hash;
}

static inline uint64_t rea_hash(const void *data, size_t length)
{
	return rea_hash_more(REA_HASH_INIT, data, length);
}

/* 16 lower-case hex digits and a terminator. */
static inline void rea_hash_hex(uint64_t hash, char ret_text[REA_HASH_HEX_SIZE])
{
	for (size_t i = 0; i < 16; i++)
		ret_text[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
	ret_text[16] = '\0';
}

#endif
