#include <rea/api.h>

const char *rea_version(void)
{
	return REA_VERSION;
}
