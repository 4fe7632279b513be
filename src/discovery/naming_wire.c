#include "discovery/naming_wire.h"

#include "discovery/etcd_wire.h"
#include "discovery/permits.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CACHE_MS_MIN 1000
#define CACHE_MS_MAX 60000
#define BEAT_MS_MIN 1000
#define BEAT_MS_MAX 60000
#define CODE_NO_SUCH_INSTANCE 20404
#define CODE_NO_SUCH_INSTANCE_V3 21003
#define CODE_BEAT_GOOD 10200

/* ---- lists ---- */

__attribute__((format(printf, 2, 3))) static void tell(struct roster_list *list, const char *format, ...)
{
	va_list args;

	/* The first one is told: the others are mostly of its kind. */
	if (list->problem[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(list->problem, sizeof(list->problem), format, args);
	va_end(args);
	/* It quotes what others wrote, and becomes a line of a log. */
	for (char *at = list->problem; *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

/* Weights, when there is one, are numbers; some clients write texts. */
static double number_of(const json_t *value, double absent)
{
	char *end;
	double number;

	if (value == NULL || json_is_null(value))
		return absent;
	if (json_is_number(value))
		return json_number_value(value);
	if (!json_is_string(value))
		return NAN;
	number = strtod(json_string_value(value), &end);
	return end != json_string_value(value) && *end == '\0' ? number : NAN;
}

static bool is_off(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return json_is_false(value) || (json_is_string(value) && strcmp(json_string_value(value), "false") == 0);
}

/* host: of object, or NULL. */
static int add(struct roster_list *list, struct rea_slice name, uint16_t port, uint32_t weight, const json_t *metadata,
    const json_t *host)
{
	struct roster_entry entry = {.port = port, .weight = weight};
	char problem[ROSTER_PROBLEM_SIZE / 2] = "";
	int error;

	/* A Host that would end its line says something else than it seems to. */
	if (json_is_string(host) && json_string_length(host) > 0 && strpbrk(json_string_value(host), " \t\r\n/") == NULL)
		entry.host = (char *)(uintptr_t)json_string_value(host);
	else if (host != NULL)
		tell(list, "the host of %.*s:%u is none: it is left out", (int)name.length, name.data, port);
	error = permits_read(metadata, &entry.permits, problem, sizeof(problem));
	if (problem[0] != '\0')
		tell(list, "%.*s:%u: %s", (int)(name.length > 64 ? 64 : name.length), name.data, port, problem);
	if (error == 0)
		error = roster_list_add(list, name, &entry);
	free(entry.permits);
	return error;
}

static bool is_name(struct rea_slice text)
{
	for (size_t i = 0; i < text.length; i++) {
		char c = rea_ascii_lower(text.data[i]);

		if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != ':')
			return false;
	}
	return text.length > 0 && text.length <= 253;
}

/* What an instance of any of them has in common. */
static int take(struct roster_list *list, struct rea_slice name, json_int_t port, const json_t *object, const json_t *metadata)
{
	double weight = number_of(json_object_get(object, "weight"), 1);

	if (!is_name(name) || port < 1 || port > UINT16_MAX) {
		tell(list, "\"%.*s\" with port %lld is no address: it is left out",
		    (int)(name.length > 64 ? 64 : name.length), name.data, (long long)port);
		return 0;
	}
	list->listed++;
	if (!isfinite(weight) || weight < 0)
		tell(list, "the weight of %.*s:%lld is no number of 0 or more: it gets no calls", (int)name.length,
		    name.data, (long long)port);
	if (!isfinite(weight) || roster_weight(weight) == 0 || is_off(object, "healthy") || is_off(object, "enabled"))
		return 0;
	return add(list, name, (uint16_t)port, roster_weight(weight), metadata, json_object_get(object, "host"));
}

int naming_read_nacos(const json_t *instances, struct roster_list *list)
{
	int error = 0;
	size_t i;
	json_t *instance;

	if (!json_is_array(instances))
		return REA_ERR_SYNTAX;
	if (json_array_size(instances) > ROSTER_INSTANCES_MAX)
		return REA_ERR_LIMIT;
	json_array_foreach(instances, i, instance)
	{
		const json_t *port = json_object_get(instance, "port"), *ip = json_object_get(instance, "ip");

		if (error == 0)
			error = take(list, rea_slice_make(json_string_value(ip), json_string_length(ip)),
			    json_is_integer(port) ? json_integer_value(port) : -1, instance,
			    json_object_get(instance, "metadata"));
	}
	roster_list_sort(list);
	return error;
}

int naming_read_nacos_v1(struct rea_slice reply, struct roster_list *list, uint64_t *ret_cache_ms)
{
	json_t *answer = reply.length > 0 ? json_loadb(reply.data, reply.length, 0, NULL) : NULL;
	json_int_t cache_ms = json_integer_value(json_object_get(answer, "cacheMillis"));
	int error = naming_read_nacos(json_object_get(answer, "hosts"), list);

	*ret_cache_ms = (uint64_t)(cache_ms < CACHE_MS_MIN   ? CACHE_MS_MIN
				   : cache_ms > CACHE_MS_MAX ? CACHE_MS_MAX
							     : cache_ms);
	list->protection = json_is_true(json_object_get(answer, "reachProtectionThreshold"));
	json_decref(answer);
	return error;
}

/* {"address": "10.0.0.1:80", …}, with the names that other clients of etcd use for the same, or the address alone. */
static int take_written(struct roster_list *list, struct rea_slice text, const json_t *object)
{
	const json_t *address = json_object_get(object, "address"), *metadata = json_object_get(object, "metadata");
	struct rea_slice name;
	uint16_t port;

	if (address == NULL)
		address = json_object_get(object, "Addr");
	if (metadata == NULL)
		metadata = json_object_get(object, "Metadata");
	if (metadata == NULL)
		metadata = json_object_get(object, "tags");
	if (address != NULL)
		text = rea_slice_make(json_string_value(address), json_string_length(address));
	if (text.data == NULL || !roster_split(text, &name, &port)) {
		tell(list, "\"%.*s\" is no address with a port: it is left out",
		    (int)(text.length > 64 ? 64 : text.length), text.data != NULL ? text.data : "");
		return 0;
	}
	return take(list, name, port, object, metadata);
}

static int take_etcd(struct roster_list *list, const json_t *pair, struct rea_buffer *value)
{
	const char *encoded = json_string_value(json_object_get(pair, "value"));
	struct rea_slice text;
	json_t *object;
	int error;

	rea_buffer_clear(value);
	error = encoded != NULL ? etcd_decode(encoded, value) : 0;
	if (error != 0)
		return error;
	text = rea_buffer_length(value) > 0 ? rea_slice_make(rea_buffer_data(value), rea_buffer_length(value))
					    : REA_SLICE_LIT("");
	object = text.length > 0 ? json_loadb(text.data, text.length, 0, NULL) : NULL;
	error = take_written(list, text, object);
	json_decref(object);
	return error;
}

int naming_read_etcd(const json_t *answer, struct roster_list *list)
{
	const json_t *pairs = json_object_get(answer, "kvs");
	struct rea_buffer value = {.alloc = NULL};
	int error = 0;
	size_t i;
	json_t *pair;

	if (etcd_number(json_object_get(answer, "header"), "revision") == 0 || (pairs != NULL && !json_is_array(pairs)))
		return REA_ERR_SYNTAX;
	if (json_array_size(pairs) > ROSTER_INSTANCES_MAX)
		return REA_ERR_LIMIT;
	json_array_foreach(pairs, i, pair) if (error == 0) error = take_etcd(list, pair, &value);
	rea_buffer_fini(&value);
	roster_list_sort(list);
	return error;
}

int naming_read_file(struct rea_slice text, struct roster_list *list, struct rea_error_info *ret_info)
{
	json_error_t why;
	json_t *document = json_loadb(text.data, text.length, 0, &why), *instances = document, *instance;
	int error = 0;
	size_t i;

	memset(ret_info, 0, sizeof(*ret_info));
	if (document == NULL) {
		ret_info->line = (uint32_t)(why.line > 0 ? why.line : 1);
		ret_info->column = (uint32_t)(why.column > 0 ? why.column : 1);
		snprintf(ret_info->message, sizeof(ret_info->message), "it is no JSON: %.160s", why.text);
		return REA_ERR_SYNTAX;
	}
	if (json_is_object(document))
		instances = json_object_get(document, "instances");
	if (!json_is_array(instances) || json_array_size(instances) > ROSTER_INSTANCES_MAX) {
		snprintf(ret_info->message, sizeof(ret_info->message),
		    json_is_array(instances) ? "it has more than %d instances" : "it is no list of instances, %d at most",
		    ROSTER_INSTANCES_MAX);
		json_decref(document);
		return json_is_array(instances) ? REA_ERR_LIMIT : REA_ERR_SYNTAX;
	}
	json_array_foreach(instances, i, instance) if (error == 0) error =
	    take_written(list, rea_slice_make(json_string_value(instance), json_string_length(instance)), instance);
	json_decref(document);
	return error;
}

/* ---- DNS ---- */

#define DNS_HEADER_BYTES 12
#define DNS_QUESTION_BYTES 4
#define DNS_RECORD_BYTES 10
#define DNS_TYPE_SRV 33
#define DNS_CLASS_IN 1
#define DNS_NAME_BYTES 254
#define DNS_JUMPS_MAX 32

struct dns_reading {
	const unsigned char *data;
	size_t length;
	size_t at;
};

static unsigned get16(const struct dns_reading *reading, size_t at)
{
	return (unsigned)reading->data[at] << 8 | reading->data[at + 1];
}

/* A name, with the pointers in it followed; at goes behind it. ret_name: NULL = only skip it. */
static bool read_name(struct dns_reading *reading, char ret_name[DNS_NAME_BYTES])
{
	size_t at = reading->at, end = 0, length = 0;
	int jumps = 0;

	while (at < reading->length) {
		unsigned label = reading->data[at];

		if (label >= 0xc0) {
			if (at + 1 >= reading->length || ++jumps > DNS_JUMPS_MAX)
				return false;
			end = end != 0 ? end : at + 2;
			at = get16(reading, at) & 0x3fff;
			continue;
		}
		at++;
		if (label == 0) {
			reading->at = end != 0 ? end : at;
			if (ret_name != NULL)
				ret_name[length] = '\0';
			return true;
		}
		if (label > 63 || at + label > reading->length || length + label + 2 > DNS_NAME_BYTES)
			return false;
		if (ret_name != NULL) {
			if (length > 0)
				ret_name[length++] = '.';
			memcpy(ret_name + length, reading->data + at, label);
			length += label;
		}
		at += label;
	}
	return false;
}

static int read_srv(struct dns_reading *reading, size_t rdata, size_t rdata_end, struct roster_list *list)
{
	struct dns_reading target = {reading->data, rdata_end, rdata + 6};
	unsigned weight = get16(reading, rdata + 2), port = get16(reading, rdata + 4);
	struct roster_entry entry = {.port = (uint16_t)port, .tier = get16(reading, rdata)};
	char name[DNS_NAME_BYTES];

	/* Compression is not allowed here, but servers do it. */
	target.length = reading->length;
	if (!read_name(&target, name) || target.at > rdata_end)
		return REA_ERR_SYNTAX;
	list->listed++;
	/* "." says that there is no such service. */
	if (name[0] == '\0')
		return 0;
	if (port == 0 || !is_name(rea_slice_of(name))) {
		tell(list, "\"%.64s\" with port %u is no address: it is left out", name, port);
		return 0;
	}
	/* RFC 2782: zero is a very small chance beside others. */
	entry.weight = weight > 0 ? weight * ROSTER_WEIGHT_UNIT : 1;
	return roster_list_add(list, rea_slice_of(name), &entry);
}

int naming_read_srv(const unsigned char *answer, size_t length, struct roster_list *list, uint32_t *ret_ttl_s)
{
	struct dns_reading reading = {answer, length, DNS_HEADER_BYTES};
	unsigned questions, answers;
	int error = 0;

	*ret_ttl_s = UINT32_MAX;
	if (length < DNS_HEADER_BYTES)
		return REA_ERR_SYNTAX;
	questions = get16(&reading, 4);
	answers = get16(&reading, 6);
	for (unsigned i = 0; i < questions; i++, reading.at += DNS_QUESTION_BYTES)
		if (!read_name(&reading, NULL))
			return REA_ERR_SYNTAX;
	for (unsigned i = 0; i < answers && error == 0; i++) {
		size_t fixed, end;
		uint32_t ttl_s;

		if (!read_name(&reading, NULL) || reading.at + DNS_RECORD_BYTES > length)
			return REA_ERR_SYNTAX;
		fixed = reading.at;
		ttl_s = (uint32_t)get16(&reading, fixed + 4) << 16 | get16(&reading, fixed + 6);
		end = fixed + DNS_RECORD_BYTES + get16(&reading, fixed + 8);
		if (end > length)
			return REA_ERR_SYNTAX;
		/* The life of an alias counts, too. A sign makes no life (RFC 2181 8). */
		ttl_s = ttl_s > INT32_MAX ? 0 : ttl_s;
		*ret_ttl_s = ttl_s < *ret_ttl_s ? ttl_s : *ret_ttl_s;
		if (get16(&reading, fixed) == DNS_TYPE_SRV && get16(&reading, fixed + 2) == DNS_CLASS_IN)
			error = end - fixed - DNS_RECORD_BYTES < 7
				    ? REA_ERR_SYNTAX
				    : read_srv(&reading, fixed + DNS_RECORD_BYTES, end, list);
		reading.at = end;
	}
	if (error == 0 && list->listed == 0)
		return REA_ERR_NOT_FOUND;
	roster_list_sort(list);
	return error;
}

/* ---- providers ---- */

static int form_add(struct rea_buffer *out, const char *name, const char *value)
{
	return nacos_form_add(out, name, rea_slice_of(value));
}

static int add_json(struct rea_buffer *out, const char *name, const json_t *value)
{
	char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	int error = text != NULL ? form_add(out, name, text) : REA_ERR_NOMEM;

	free(text);
	return error;
}

/* v1 names a service with its group before it. */
static int add_service(const struct naming_provider *provider, bool v3, struct rea_buffer *out)
{
	char *name = NULL;
	int error = REA_ERR_NOMEM;

	if (asprintf(&name, "%s%s%s", v3 ? "" : provider->group, v3 ? "" : "@@", provider->service) < 0)
		return REA_ERR_NOMEM;
	error = form_add(out, "serviceName", name);
	free(name);
	if (error == 0)
		error = form_add(out, "groupName", provider->group);
	return error != 0
		   ? error
		   : form_add(out, "namespaceId", provider->namespace_id[0] != '\0' ? provider->namespace_id : "public");
}

static int add_place(const struct naming_provider *provider, struct rea_buffer *out)
{
	struct rea_slice ip;
	uint16_t port = 0;
	char text[8];
	int error =
	    roster_split(rea_slice_of(provider->address), &ip, &port) ? nacos_form_add(out, "ip", ip) : REA_ERR_INVALID;

	snprintf(text, sizeof(text), "%u", port);
	if (error == 0)
		error = form_add(out, "port", text);
	return error == 0 ? form_add(out, "clusterName", provider->cluster) : error;
}

int naming_write_nacos(const struct naming_provider *provider, bool v3, struct rea_buffer *out)
{
	char weight[32];
	int error = add_service(provider, v3, out);

	snprintf(weight, sizeof(weight), "%g", provider->weight);
	if (error == 0)
		error = add_place(provider, out);
	if (error == 0)
		error = form_add(out, "weight", weight);
	if (error == 0)
		error = form_add(out, "enabled", "true");
	if (error == 0)
		error = form_add(out, "healthy", "true");
	if (error == 0)
		error = form_add(out, "ephemeral", "true");
	return error == 0 ? add_json(out, "metadata", provider->metadata) : error;
}

/* What a v1 server makes an instance of that it does not know (any more). */
static json_t *beat_of(const struct naming_provider *provider)
{
	struct rea_slice ip;
	uint16_t port;

	if (!roster_split(rea_slice_of(provider->address), &ip, &port))
		return NULL;
	return json_pack("{s:s#, s:i, s:f, s:s++, s:s, s:O, s:b}", "ip", ip.data, (int)ip.length, "port", (int)port,
	    "weight", provider->weight, "serviceName", provider->group, "@@", provider->service, "cluster",
	    provider->cluster, "metadata", (json_t *)(uintptr_t)provider->metadata, "scheduled", 1);
}

int naming_write_beat(const struct naming_provider *provider, bool v3, struct rea_buffer *out)
{
	json_t *beat;
	int error;

	if (v3) {
		error = naming_write_nacos(provider, true, out);
		return error == 0 ? form_add(out, "heartBeat", "true") : error;
	}
	error = add_service(provider, false, out);
	if (error == 0)
		error = add_place(provider, out);
	if (error == 0)
		error = form_add(out, "ephemeral", "true");
	beat = beat_of(provider);
	if (error == 0)
		error = add_json(out, "beat", beat);
	json_decref(beat);
	return error;
}

enum naming_beat naming_read_beat(long status, struct rea_slice reply, uint64_t *interval_ms)
{
	json_t *answer = reply.length > 0 ? json_loadb(reply.data, reply.length, 0, NULL) : NULL;
	json_int_t code = json_integer_value(json_object_get(answer, "code"));
	json_int_t wanted = json_integer_value(json_object_get(answer, "clientBeatInterval"));

	json_decref(answer);
	if (code == CODE_NO_SUCH_INSTANCE || code == CODE_NO_SUCH_INSTANCE_V3 || status == 404)
		return NAMING_UNKNOWN;
	if (status != 200 || (code != 0 && code != CODE_BEAT_GOOD))
		return NAMING_REFUSED;
	if (wanted > 0)
		*interval_ms = (uint64_t)(wanted < BEAT_MS_MIN   ? BEAT_MS_MIN
					  : wanted > BEAT_MS_MAX ? BEAT_MS_MAX
								 : wanted);
	return NAMING_ALIVE;
}

char *naming_write_etcd(const struct naming_provider *provider)
{
	json_t *value = json_pack("{s:s, s:f, s:O}", "address", provider->address, "weight", provider->weight,
	    "metadata", (json_t *)(uintptr_t)provider->metadata);
	char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	json_decref(value);
	return text;
}

char *naming_put_body(const char *key, const char *value, uint64_t lease)
{
	char *encoded_key = etcd_encode(key, strlen(key)), *encoded = etcd_encode(value, strlen(value)), *body = NULL;

	if (encoded_key == NULL || encoded == NULL ||
	    asprintf(&body, "{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%llu\"}", encoded_key, encoded,
		(unsigned long long)lease) < 0)
		body = NULL;
	free(encoded_key);
	free(encoded);
	return body;
}

char *naming_grant_body(uint32_t ttl_s)
{
	char *body = NULL;

	return asprintf(&body, "{\"TTL\":\"%u\"}", ttl_s) >= 0 ? body : NULL;
}

char *naming_lease_body(uint64_t lease)
{
	char *body = NULL;

	return asprintf(&body, "{\"ID\":\"%llu\"}", (unsigned long long)lease) >= 0 ? body : NULL;
}
