#include "serve/certificates.h"

#include "base/hash.h"
#include "discovery/watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A certificate that ends within this time is told of. */
#define SOON_S (INT64_C(14) * 86400)

struct entry {
	uint64_t identity; /* of what the document says, whatever is in the files */
	struct tls_context *context;
	uint64_t refused; /* the digest that was not good; 0 = none, or unreadable */
	bool unreadable;
	bool needed;
};

struct certificates {
	struct loop *loop;
	struct certificates_events events;
	struct entry *entries;
	size_t len;
	struct watch **watches;
	size_t watches_len;
	uint64_t reloads, rejects;
};

struct certificates *certificates_new(struct loop *loop, const struct certificates_events *events)
{
	struct certificates *certificates = calloc(1, sizeof(*certificates));

	if (certificates == NULL)
		return NULL;
	certificates->loop = loop;
	certificates->events = *events;
	return certificates;
}

static void unwatch(struct certificates *certificates)
{
	for (size_t i = 0; i < certificates->watches_len; i++)
		watch_stop(certificates->watches[i]);
	free(certificates->watches);
	certificates->watches = NULL;
	certificates->watches_len = 0;
}

void certificates_free(struct certificates *certificates)
{
	if (certificates == NULL)
		return;
	unwatch(certificates);
	for (size_t i = 0; i < certificates->len; i++)
		tls_context_unref(certificates->entries[i].context);
	free(certificates->entries);
	free(certificates);
}

/* ------------------------------------------------------------------ what a configuration needs */

/* A use of TLS. */
struct need {
	const struct rea_config_tls *tls;
	enum tls_side side;
};

static uint64_t put(uint64_t hash, const char *text)
{
	return text != NULL ? rea_hash_more(hash, text, strlen(text) + 1) : rea_hash_byte(hash, 1);
}

static uint64_t identity_of(const struct need *need)
{
	const struct rea_config_tls *tls = need->tls;
	unsigned flags = (unsigned)need->side << 2 | (unsigned)tls->verify << 1 | (tls->min_version == REA_TLS_1_3);
	uint64_t hash = rea_hash_byte(REA_HASH_INIT, (unsigned char)flags);

	hash = put(put(put(hash, tls->certificate_file), tls->key_file), tls->ca_file);
	for (size_t i = 0; i < tls->names_len; i++)
		hash = put(put(put(hash, tls->names[i].name), tls->names[i].certificate_file), tls->names[i].key_file);
	return hash;
}

static struct need listener_need(const struct rea_config_tls *tls)
{
	return (struct need){tls, TLS_SERVER};
}

static struct need service_need(const struct rea_config_service *service)
{
	return (struct need){service->tls, TLS_CLIENT};
}

static size_t needs_max(const struct rea_config *config)
{
	return rea_config_settings(config)->listen_len + rea_config_services_count(config);
}

/* The index-th of them. False = it speaks none. */
static bool need_at(const struct rea_config *config, size_t index, struct need *ret_need)
{
	const struct rea_config_settings *settings = rea_config_settings(config);

	*ret_need = index < settings->listen_len ? listener_need(settings->listen[index].tls)
						 : service_need(rea_config_service(config, index - settings->listen_len));
	return ret_need->tls != NULL;
}

static struct entry *find(const struct certificates *certificates, const struct need *need)
{
	uint64_t identity = identity_of(need);

	for (size_t i = 0; i < certificates->len; i++)
		if (certificates->entries[i].identity == identity)
			return &certificates->entries[i];
	return NULL;
}

static struct tls_context *context_of(const struct certificates *certificates, const struct need *need)
{
	const struct entry *entry = need->tls != NULL ? find(certificates, need) : NULL;

	return entry != NULL ? entry->context : NULL;
}

struct tls_context *certificates_listener(const struct certificates *certificates, const struct rea_config_tls *tls)
{
	const struct need need = listener_need(tls);

	return context_of(certificates, &need);
}

struct tls_context *certificates_service(const struct certificates *certificates, const struct rea_config_service *service)
{
	const struct need need = service_need(service);

	return context_of(certificates, &need);
}

/* ------------------------------------------------------------------ preparing */

__attribute__((format(printf, 2, 3))) static void tell(const struct certificates *certificates, const char *format, ...)
{
	char text[640];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	certificates->events.notice(text, certificates->events.user_data);
}

static const char *date_of(int64_t unix_s, char text[32])
{
	time_t time = (time_t)unix_s;
	struct tm tm;

	if (gmtime_r(&time, &tm) == NULL || strftime(text, 32, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
		return "an unknown time";
	return text;
}

/* A certificate that nobody will believe now; NULL = there is none. */
static const struct tls_certificate *first_invalid(const struct tls_context *context, int64_t now_s)
{
	const struct tls_certificate *certificate;

	for (size_t i = 0; (certificate = tls_context_certificate(context, i)) != NULL; i++)
		if (now_s > certificate->not_after_s || now_s < certificate->not_before_s)
			return certificate;
	return NULL;
}

static void tell_new(const struct certificates *certificates, const struct tls_context *context, int64_t now_s)
{
	const struct tls_certificate *certificate;
	char date[32];

	for (size_t i = 0; (certificate = tls_context_certificate(context, i)) != NULL; i++) {
		if (now_s > certificate->not_after_s)
			tell(certificates, "%s: the certificate has expired (%s)", certificate->file,
			    date_of(certificate->not_after_s, date));
		else if (now_s < certificate->not_before_s)
			tell(certificates, "%s: the certificate is not valid before %s", certificate->file,
			    date_of(certificate->not_before_s, date));
		else if (certificate->not_after_s - now_s < SOON_S)
			tell(certificates, "%s: the certificate expires soon (%s)", certificate->file,
			    date_of(certificate->not_after_s, date));
		if (certificate->open_key != NULL)
			tell(certificates, "%s: the private key can be read by others than its owner", certificate->open_key);
	}
}

static struct entry *add(struct certificates *certificates, const struct need *need)
{
	struct entry *grown = realloc(certificates->entries, (certificates->len + 1) * sizeof(*grown));

	if (grown == NULL)
		return NULL;
	certificates->entries = grown;
	grown[certificates->len] = (struct entry){.identity = identity_of(need)};
	return &grown[certificates->len++];
}

/* The older one stays; told once of each state of the files. */
static void reject(struct certificates *certificates, struct entry *entry, uint64_t digest, const struct rea_error_info *why)
{
	if (digest == 0 ? entry->unreadable : entry->refused == digest)
		return;
	entry->refused = digest;
	entry->unreadable = digest == 0;
	certificates->rejects++;
	tell(certificates, "%s: %s: the certificates in use stay", why->file, why->message);
}

/* Returns as certificates_prepare. */
static int prepare(struct certificates *certificates, const struct need *need, int64_t now_s, struct rea_error_info *ret_info)
{
	struct entry *entry = find(certificates, need);
	uint64_t digest = tls_digest(need->tls, need->side);
	const struct tls_certificate *invalid;
	struct tls_context *context;
	struct rea_error_info why;
	int error;

	if (entry != NULL && entry->context != NULL && digest != 0 && tls_context_digest(entry->context) == digest) {
		entry->refused = 0;
		entry->unreadable = false;
		return 0;
	}
	error = tls_context_new(need->tls, need->side, &context, &why);
	if (error != 0 && (entry == NULL || error == REA_ERR_NOMEM)) {
		*ret_info = why;
		return error;
	}
	if (error != 0) {
		reject(certificates, entry, digest, &why);
		return 0;
	}
	invalid = first_invalid(context, now_s);
	if (entry != NULL && invalid != NULL && first_invalid(entry->context, now_s) == NULL) {
		memset(&why, 0, sizeof(why));
		snprintf(why.file, sizeof(why.file), "%s", invalid->file);
		snprintf(why.message, sizeof(why.message), "the certificate %s",
		    now_s > invalid->not_after_s ? "has expired" : "is not valid yet");
		reject(certificates, entry, digest, &why);
		tls_context_unref(context);
		return 0;
	}
	if (entry == NULL && (entry = add(certificates, need)) == NULL) {
		tls_context_unref(context);
		memset(ret_info, 0, sizeof(*ret_info));
		snprintf(ret_info->message, sizeof(ret_info->message), "out of memory");
		return REA_ERR_NOMEM;
	}
	certificates->reloads += entry->context != NULL;
	tls_context_unref(entry->context);
	entry->context = context;
	entry->refused = 0;
	entry->unreadable = false;
	tell_new(certificates, context, now_s);
	return 1;
}

int certificates_prepare(
    struct certificates *certificates, const struct rea_config *config, int64_t now_s, struct rea_error_info *ret_info)
{
	struct need need;
	int news = 0;

	for (size_t i = 0; i < needs_max(config); i++) {
		int result = need_at(config, i, &need) ? prepare(certificates, &need, now_s, ret_info) : 0;

		if (result < 0)
			return result;
		news |= result;
	}
	return news;
}

/* ------------------------------------------------------------------ settling */

static void on_file(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	const struct certificates *certificates = user_data;

	(void)text;
	(void)length;
	(void)error;
	certificates->events.changed(certificates->events.user_data);
}

struct paths {
	const char **items;
	size_t len, capacity;
};

static void add_path(struct paths *paths, const char *path)
{
	const char **grown;

	for (size_t i = 0; i < paths->len; i++)
		if (path != NULL && strcmp(paths->items[i], path) == 0)
			return;
	if (path == NULL)
		return;
	if (paths->len == paths->capacity) {
		grown = realloc(paths->items, (paths->capacity * 2 + 8) * sizeof(*grown));
		/* A file that is not watched is looked at with the next SIGHUP. */
		if (grown == NULL)
			return;
		paths->items = grown;
		paths->capacity = paths->capacity * 2 + 8;
	}
	paths->items[paths->len++] = path;
}

static void add_paths(struct paths *paths, const struct rea_config_tls *tls)
{
	add_path(paths, tls->certificate_file);
	add_path(paths, tls->key_file);
	add_path(paths, tls->ca_file);
	for (size_t i = 0; i < tls->names_len; i++) {
		add_path(paths, tls->names[i].certificate_file);
		add_path(paths, tls->names[i].key_file);
	}
}

static void watch(struct certificates *certificates, const struct paths *paths)
{
	unwatch(certificates);
	if (certificates->loop == NULL || paths->len == 0)
		return;
	certificates->watches = calloc(paths->len, sizeof(struct watch *));
	if (certificates->watches == NULL)
		return;
	certificates->watches_len = paths->len;
	/* Of no version yet, so that the first look tells: the file may have changed since it was read. */
	for (size_t i = 0; i < paths->len; i++)
		watch_start(certificates->loop, paths->items[i], "", on_file, certificates, &certificates->watches[i]);
}

void certificates_settle(struct certificates *certificates, const struct rea_config *config)
{
	struct paths paths = {NULL, 0, 0};
	struct need need;
	size_t kept = 0;

	for (size_t i = 0; i < needs_max(config); i++)
		if (need_at(config, i, &need)) {
			struct entry *entry = find(certificates, &need);

			add_paths(&paths, need.tls);
			if (entry != NULL)
				entry->needed = true;
		}
	for (size_t i = 0; i < certificates->len; i++) {
		struct entry *entry = &certificates->entries[i];

		if (!entry->needed) {
			tls_context_unref(entry->context);
			continue;
		}
		entry->needed = false;
		certificates->entries[kept++] = *entry;
	}
	certificates->len = kept;
	watch(certificates, &paths);
	free(paths.items);
}

/* ------------------------------------------------------------------ metrics */

/* Several uses may share a file; a series stands once. */
static bool told_before(const struct certificates *certificates, size_t entry, size_t index, const char *file)
{
	const struct tls_certificate *certificate;

	for (size_t i = 0; i <= entry; i++)
		for (size_t k = 0; (certificate = tls_context_certificate(certificates->entries[i].context, k)) != NULL; k++) {
			if (i == entry && k == index)
				return false;
			if (strcmp(certificate->file, file) == 0)
				return true;
		}
	return false;
}

void certificates_metrics(const struct certificates *certificates, struct rea_prometheus *out)
{
	const struct tls_certificate *certificate;

	rea_prometheus_family(out, "rea_tls_certificate_not_after_seconds", REA_METRIC_GAUGE,
	    "When a certificate in use ends, in seconds since 1970.");
	for (size_t i = 0; i < certificates->len; i++)
		for (size_t k = 0; (certificate = tls_context_certificate(certificates->entries[i].context, k)) != NULL; k++) {
			const char *const labels[] = {"file", certificate->file};

			if (!told_before(certificates, i, k, certificate->file))
				rea_prometheus_sample(out, "rea_tls_certificate_not_after_seconds", labels, 2,
				    (double)certificate->not_after_s);
		}
	rea_prometheus_family(out, "rea_tls_reloads_total", REA_METRIC_COUNTER,
	    "Certificates and authorities that were read again and taken up.");
	rea_prometheus_sample(out, "rea_tls_reloads_total", NULL, 0, (double)certificates->reloads);
	rea_prometheus_family(out, "rea_tls_rejects_total", REA_METRIC_COUNTER,
	    "Those that were read again and were not good; the older ones stayed.");
	rea_prometheus_sample(out, "rea_tls_rejects_total", NULL, 0, (double)certificates->rejects);
}
