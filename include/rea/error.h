/*
 * Errors: what went wrong with a request to the library itself.
 *
 * Refused, exhausted, too late are no errors but verdicts with a reason (rea/call.h). Every error is negative;
 * numbers are never reused. Functions that return int return 0 or one of these unless they say otherwise.
 */
#ifndef REA_ERROR_H
#define REA_ERROR_H

#include <rea/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, value, "name", "English") */
#define REA_ERROR_MAP(X)                                                          \
	X(NOMEM, -1, "nomem", "out of memory")                                    \
	X(INVALID, -2, "invalid", "a value is out of its bounds")                 \
	X(SYNTAX, -3, "syntax", "the document is malformed")                      \
	X(LIMIT, -4, "limit", "a size or depth limit was passed")                 \
	X(IO, -5, "io", "reading or writing failed")                              \
	X(NOT_FOUND, -6, "not_found", "no such object")                           \
	X(FULL, -7, "full", "a bounded buffer is full")                           \
	X(CLOSED, -8, "closed", "it is shutting down")                            \
	X(CONFLICT, -9, "conflict", "it is in another state, or somebody else's") \
	X(CORRUPT, -10, "corrupt", "stored data is damaged")                      \
	X(BUSY, -11, "busy", "somebody else has it open")

enum rea_error {
	REA_OK = 0,
#define X(name, value, text, english) REA_ERR_##name = value,
	REA_ERROR_MAP(X)
#undef X
};

/* Where and why a document or an option was refused. Filled by the functions that take one; such a pointer may
 * be NULL. Text is cut at the array's end, always terminated. */
struct rea_error_info {
	char file[256];    /* "" when the input had no file name */
	uint32_t line;     /* 1-based; 0 = no position */
	uint32_t column;   /* 1-based; 0 = no position */
	char key[160];     /* dotted path of the key, e.g. "rpc.feign.retry.jitter"; "" = none */
	char message[320]; /* one English sentence: what is wrong and what would be right */
};

/* "nomem" for REA_ERR_NOMEM, "ok" for 0, "unknown" for anything else. Static. */
REA_API const char *rea_error_name(int error);
/* The English of an error. Static. */
REA_API const char *rea_error_text(int error);

#ifdef __cplusplus
}
#endif
#endif
