/*
 * What the threads of a process have ejected. A load belongs to one thread; here is what all of them tell the others' readers, by address, across
 * snapshots.
 */
#include "proxy/internal.h"

#include <stdlib.h>

uint32_t instance_bucket(const struct rea_instance_id *id)
{
	uint32_t hash = id->port;

	for (size_t i = 0; i < sizeof(id->address); i++)
		hash = hash * 31 + id->address[i];
	return hash % INSTANCE_BUCKETS;
}

static struct instance_state *find(const struct proxy *proxy, const struct rea_instance_id *id)
{
	struct instance_state *state = proxy->instances[instance_bucket(id)];

	while (state != NULL && !rea_instance_id_equal(&state->id, id))
		state = state->next;
	return state;
}

struct instance_state *instance_get(struct proxy *proxy, const struct rea_instance_id *id)
{
	struct instance_state *state;

	uv_mutex_lock(&proxy->lock);
	state = find(proxy, id);
	if (state == NULL) {
		state = calloc(1, sizeof(*state));
		if (state != NULL) {
			state->id = *id;
			state->next = proxy->instances[instance_bucket(id)];
			proxy->instances[instance_bucket(id)] = state;
		}
	}
	if (state != NULL)
		state->refs++;
	uv_mutex_unlock(&proxy->lock);
	return state;
}

void instance_unref(struct proxy *proxy, struct instance_state *state)
{
	struct instance_state **place = &proxy->instances[instance_bucket(&state->id)];
	bool last;

	uv_mutex_lock(&proxy->lock);
	last = --state->refs == 0;
	if (last) {
		while (*place != state)
			place = &(*place)->next;
		*place = state->next;
	}
	uv_mutex_unlock(&proxy->lock);
	if (last)
		free(state);
}

void upstream_tell(struct upstream *upstream, const char *service)
{
	struct instance_state *state = upstream->state;
	bool ejected = rea_load_ejected(&upstream->load);

	if (ejected == upstream->ejected)
		return;
	upstream->ejected = ejected;
	if (ejected) {
		atomic_fetch_add_explicit(&state->ejected, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&state->ejections, 1, memory_order_relaxed);
	} else {
		atomic_fetch_sub_explicit(&state->ejected, 1, memory_order_relaxed);
	}
	record_ejection(upstream, service);
}
