#include "queue/lookup.h"

#include <stdlib.h>

struct lookup {
	uv_getaddrinfo_t request;
	struct lookups *lookups; /* NULL = nobody is left to tell */
	struct loop *loop;
	struct lookup *next;
	struct lookup_wait *waits;
	char host[];
};

static void unlist(struct lookup *lookup)
{
	struct lookup **link = &lookup->lookups->first;

	while (*link != lookup)
		link = &(*link)->next;
	*link = lookup->next;
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
	struct lookup *lookup = request->data;
	struct loop *loop = lookup->loop;
	struct lookup_wait *wait;

	if (lookup->lookups != NULL)
		unlist(lookup);
	while ((wait = lookup->waits) != NULL) {
		lookup->waits = wait->next;
		wait->lookup = NULL;
		wait->done(wait, status == 0 ? found : NULL, status);
	}
	uv_freeaddrinfo(found);
	free(lookup);
	loop_flush(loop);
}

static int begin(struct lookups *lookups, struct rea_slice host, struct lookup **ret_lookup)
{
	static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct lookup *lookup = calloc(1, sizeof(*lookup) + host.length + 1);
	int error;

	if (lookup == NULL)
		return UV_ENOMEM;
	memcpy(lookup->host, host.data, host.length);
	lookup->loop = lookups->loop;
	lookup->request.data = lookup;
	error = uv_getaddrinfo(&lookups->loop->uv, &lookup->request, on_found, lookup->host, NULL, &hints);
	if (error != 0) {
		free(lookup);
		return error;
	}
	lookup->lookups = lookups;
	lookup->next = lookups->first;
	lookups->first = lookup;
	*ret_lookup = lookup;
	return 0;
}

int lookup_join(struct lookups *lookups, struct rea_slice host, struct lookup_wait *wait)
{
	struct lookup *lookup = lookups->first;
	int error = 0;

	while (lookup != NULL && !rea_slice_equal(rea_slice_of(lookup->host), host))
		lookup = lookup->next;
	if (lookup == NULL)
		error = begin(lookups, host, &lookup);
	if (error != 0)
		return error;
	wait->lookup = lookup;
	wait->next = lookup->waits;
	lookup->waits = wait;
	return 0;
}

void lookup_leave(struct lookup_wait *wait)
{
	struct lookup_wait **link;

	if (wait->lookup == NULL)
		return;
	link = &wait->lookup->waits;
	while (*link != wait)
		link = &(*link)->next;
	*link = wait->next;
	wait->lookup = NULL;
}

void lookups_fini(struct lookups *lookups)
{
	struct lookup *next;

	for (struct lookup *lookup = lookups->first; lookup != NULL; lookup = next) {
		next = lookup->next;
		lookup->lookups = NULL;
		/* One that a thread has taken up goes on to its end. */
		uv_cancel((uv_req_t *)&lookup->request);
	}
	lookups->first = NULL;
}
