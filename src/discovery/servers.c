#include "discovery/servers.h"

#include <rea/time.h>

#define PAUSE_NS (2 * REA_NS_PER_S)
#define PAUSE_NS_MAX (30 * REA_NS_PER_S)

void servers_init(struct servers *servers, const char *const *urls, size_t len, struct rea_random *random)
{
	*servers = (struct servers){.urls = urls, .len = len, .at = (size_t)rea_random_below(random, len)};
}

void servers_worked(struct servers *servers)
{
	servers->failed = 0;
	servers->rounds = 0;
}

uint64_t servers_failed(struct servers *servers, struct rea_random *random)
{
	uint64_t pause_ns = PAUSE_NS;

	servers->at = (servers->at + 1) % servers->len;
	if (++servers->failed < servers->len)
		return 0;
	servers->failed = 0;
	for (uint32_t i = 0; i < servers->rounds && pause_ns < PAUSE_NS_MAX; i++)
		pause_ns *= 2;
	if (pause_ns > PAUSE_NS_MAX)
		pause_ns = PAUSE_NS_MAX;
	if (servers->rounds < UINT32_MAX)
		servers->rounds++;
	return pause_ns - pause_ns / 5 + rea_random_below(random, pause_ns / 5 * 2 + 1);
}
