/* The OpenAPI document of this API: doc/api/openapi.json, made part of the program by the build (tools/embed). */
#ifndef REA_SRC_ADMIN_OPENAPI_H
#define REA_SRC_ADMIN_OPENAPI_H

#include <stddef.h>

extern const char admin_openapi[]; /* one line, and a NUL */
extern const size_t admin_openapi_length;

#endif
