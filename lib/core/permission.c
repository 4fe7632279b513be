#include <rea/permission.h>

/* The enum is ordered from the most permissive to the most restrictive value, with NONE below them all: the larger one wins. */
struct rea_grant rea_grant_combine(struct rea_grant a, struct rea_grant b)
{
	return b.permission > a.permission ? b : a;
}

const char *rea_permission_name(enum rea_permission permission)
{
	static const char *const names[] = {
#define X(name, text) text,
	    REA_PERMISSION_MAP(X)
#undef X
	};

	return permission < REA_PERMISSION_COUNT ? names[permission] : "unknown";
}

const char *rea_permission_source_name(enum rea_permission_source source)
{
	static const char *const names[] = {
#define X(name, text) text,
	    REA_PERMISSION_SOURCE_MAP(X)
#undef X
	};

	return source < REA_PERMISSION_SOURCE_COUNT ? names[source] : "unknown";
}
