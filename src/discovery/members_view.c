/* What members have, for whoever looks. */
#include "discovery/member.h"

const struct roster_instance *members_of(const struct members *members, const char *service, size_t *ret_len)
{
	const struct member *member = members->items;

	while (member != NULL && strcmp(member->service->name, service) != 0)
		member = member->next;
	*ret_len = member != NULL ? member->roster.len : 0;
	return member != NULL ? member->roster.items : NULL;
}

static void view(const struct member *member, struct members_view *ret_view)
{
	uint64_t now_ns = loop_now(member->members->loop);

	*ret_view = (struct members_view){
	    .source = member->source,
	    .age_ns = member->answered_ns != 0 ? rea_time_sub(now_ns, member->answered_ns) : REA_NEVER,
	    .failures = member->failures,
	    .held = member->roster.empty_since_ns != REA_NEVER,
	    .protection = member->protection,
	    .troubled = member->troubled,
	};
	/* What stands in the configuration does not grow old. */
	if (member->service->discovery.kind == REA_DISCOVERY_LIST && member->lookups_len == 0)
		ret_view->age_ns = 0;
}

bool members_look_at(const struct members *members, struct rea_slice service, struct members_view *ret_view)
{
	for (const struct member *member = members->items; member != NULL; member = member->next) {
		if (!rea_slice_equal(service, rea_slice_of(member->service->name)))
			continue;
		view(member, ret_view);
		return true;
	}
	return false;
}

static void write_family(const struct members *members, struct rea_prometheus *out, const char *name,
    enum rea_metric_type type, const char *help, double (*value)(const struct member *member))
{
	rea_prometheus_family(out, name, type, help);
	for (const struct member *member = members->items; member != NULL; member = member->next) {
		const char *const labels[] = {"service", member->service->name, "source", member->source};

		if (value(member) >= 0)
			rea_prometheus_sample(out, name, labels, 4, value(member));
	}
}

static double count_instances(const struct member *member)
{
	return (double)member->roster.len;
}

/* Below 0: it never had a list. */
static double age(const struct member *member)
{
	struct members_view seen;

	view(member, &seen);
	return seen.age_ns != REA_NEVER ? (double)seen.age_ns / 1e9 : -1;
}

static double failures(const struct member *member)
{
	return (double)member->failures;
}

static double changes(const struct member *member)
{
	return (double)member->roster.changes;
}

static double held(const struct member *member)
{
	return member->roster.empty_since_ns != REA_NEVER;
}

static double protection(const struct member *member)
{
	return member->protection;
}

void members_metrics(const struct members *members, struct rea_prometheus *out)
{
	write_family(members, out, "rea_discovery_instances", REA_METRIC_GAUGE,
	    "Instances that calls of the service may go to.", count_instances);
	write_family(members, out, "rea_discovery_age_seconds", REA_METRIC_GAUGE,
	    "Since the source of the service's instances last gave a list.", age);
	write_family(members, out, "rea_discovery_failures_total", REA_METRIC_COUNTER,
	    "How often the source was asked and gave no list.", failures);
	write_family(members, out, "rea_discovery_changes_total", REA_METRIC_COUNTER,
	    "How often the instances became others.", changes);
	write_family(members, out, "rea_discovery_empty_held", REA_METRIC_GAUGE,
	    "1 while the source lists none and the last instances hold.", held);
	write_family(members, out, "rea_discovery_protection", REA_METRIC_GAUGE,
	    "1 while the registry tells no health, as too few are healthy.", protection);
}
