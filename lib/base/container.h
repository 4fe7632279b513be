/* From a member to the object that holds it. */
#ifndef REA_BASE_CONTAINER_H
#define REA_BASE_CONTAINER_H

#include <stddef.h>

#define REA_CONTAINER_OF(member_ptr, type, member) ((type *)(void *)((char *)(member_ptr)-offsetof(type, member)))

#endif
