#include "admin/route.h"

#include <assert.h>
#include <stdio.h>

static size_t segment_length(const char *path, size_t length)
{
	const char *slash = length > 0 ? memchr(path, '/', length) : NULL;

	return slash != NULL ? (size_t)(slash - path) : length;
}

bool route_matches(const char *pattern, struct rea_slice path, struct rea_slice ret_parameters[ADMIN_PARAMETERS_MAX])
{
	size_t at = 0, parameters = 0;

	for (; *pattern != '\0'; pattern++) {
		if (*pattern != '{') {
			if (at == path.length || path.data[at++] != *pattern)
				return false;
			continue;
		}
		assert(parameters < ADMIN_PARAMETERS_MAX && pattern[1] == '}');
		ret_parameters[parameters] =
		    rea_slice_make(path.data + at, segment_length(path.data + at, path.length - at));
		if (ret_parameters[parameters].length == 0)
			return false;
		at += ret_parameters[parameters++].length;
		pattern++;
	}
	return at == path.length;
}

static const char *allowed_methods(enum http_method method)
{
	switch (method) {
	case HTTP_GET:
		return "GET, HEAD";
	case HTTP_POST:
		return "POST";
	case HTTP_PUT:
		return "PUT";
	case HTTP_DELETE:
		return "DELETE";
	case HTTP_PATCH:
		return "PATCH";
	case HTTP_HEAD:
	case HTTP_OPTIONS:
	case HTTP_TRACE:
	case HTTP_CONNECT:
	case HTTP_OTHER:
		break;
	}
	return "";
}

void route_allow(char allow[ROUTE_ALLOW_MAX], enum http_method method)
{
	size_t used = strlen(allow);

	snprintf(allow + used, ROUTE_ALLOW_MAX - used, "%s%s", used ? ", " : "", allowed_methods(method));
}

void route_split(struct rea_slice target, struct rea_slice *ret_path, struct rea_slice *ret_query)
{
	const char *question = target.length > 0 ? memchr(target.data, '?', target.length) : NULL;
	size_t path_length = question ? (size_t)(question - target.data) : target.length;

	*ret_path = rea_slice_make(target.data, path_length);
	*ret_query = question ? rea_slice_make(question + 1, target.length - path_length - 1) : rea_slice_make(NULL, 0);
}
