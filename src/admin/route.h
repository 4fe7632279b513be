/* Which resource a path names: patterns, and the methods that there are. */
#ifndef REA_SRC_ADMIN_ROUTE_H
#define REA_SRC_ADMIN_ROUTE_H

#include "admin/admin.h"

/* Methods of a resource, as they stand in Allow. */
#define ROUTE_ALLOW_MAX 64

/* Does the path fit the pattern, in which each {} stands for one whole segment that is not empty? ret_parameters: those segments as received. */
bool route_matches(const char *pattern, struct rea_slice path, struct rea_slice ret_parameters[ADMIN_PARAMETERS_MAX]);
/* Adds a method to the text of Allow. GET brings HEAD. */
void route_allow(char allow[ROUTE_ALLOW_MAX], enum http_method method);
/* The path and the query of a target as received. */
void route_split(struct rea_slice target, struct rea_slice *ret_path, struct rea_slice *ret_query);
/* GET answers HEAD too. */
static inline enum http_method route_method(enum http_method method)
{
	return method == HTTP_HEAD ? HTTP_GET : method;
}

#endif
