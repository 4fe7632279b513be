/* Protocol Buffers' numbers of variable length: seven bits a byte, the lowest first. */
#ifndef REA_BASE_VARINT_H
#define REA_BASE_VARINT_H

#include "base/slice.h"

/* Takes one from the front. False: the bytes end before it, or it has more than 10. What lies above 64 bits is dropped, as protobuf's readers do. */
static inline bool rea_varint_take(struct rea_slice *bytes, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && bytes->length > 0; shift += 7) {
		uint8_t byte = (uint8_t)*bytes->data;

		bytes->data++;
		bytes->length--;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0) {
			*ret_value = value;
			return true;
		}
	}
	return false;
}

#endif
