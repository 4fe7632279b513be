/* Export marks and the version of librea. */
#ifndef REA_API_H
#define REA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define REA_API __attribute__((visibility("default")))
#else
#define REA_API
#endif

#define REA_VERSION_MAJOR 0
#define REA_VERSION_MINOR 1
#define REA_VERSION_PATCH 0
#define REA_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is linked, as REA_VERSION of its build. Static; never NULL. */
REA_API const char *rea_version(void);

#ifdef __cplusplus
}
#endif
#endif
