/*
 * Any bytes as what a registry, a file or a server of names answers: taken or refused, and what is taken makes instances that make sense. The first byte
 * says which reader gets the rest.
 */
#include "discovery/etcd_wire.h"
#include "discovery/naming_wire.h"
#include "discovery/permits.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

static const struct roster_name *find_none(const char *text, void *user_data)
{
	(void)text;
	(void)user_data;
	return NULL;
}

static void check_list(struct roster_list *list, int error)
{
	struct roster_instance *items;
	size_t len;

	must(list->len <= ROSTER_INSTANCES_MAX && list->len <= list->listed);
	must(strlen(list->problem) < sizeof(list->problem));
	for (size_t i = 0; i < list->len; i++) {
		const struct roster_entry *entry = &list->items[i];

		must(entry->name[0] != '\0' && entry->port > 0 && entry->weight > 0);
		must(entry->host == NULL || strpbrk(entry->host, "\r\n ") == NULL);
		must(permits_of(entry->permits, REA_SLICE_LIT("m")) < REA_PERMISSION_COUNT);
	}
	if (error == 0) {
		must(roster_resolve(list, find_none, NULL, &items, &len) == 0 && len <= list->len);
		roster_instances_free(items, len);
	}
	roster_list_fini(list);
}

static void read_lists(struct rea_slice text)
{
	struct roster_list list = {.items = NULL};
	struct rea_error_info info;
	uint64_t number;
	uint32_t ttl_s;
	json_t *value = json_loadb(text.data, text.length, 0, NULL);

	check_list(&list, naming_read_nacos_v1(text, &list, &number));
	must(number >= 1000 && number <= 60000);
	check_list(&list, naming_read_nacos(value, &list));
	check_list(&list, naming_read_etcd(value, &list));
	check_list(&list, naming_read_file(text, &list, &info));
	check_list(&list, naming_read_srv((const unsigned char *)text.data, text.length, &list, &ttl_s));
	json_decref(value);
}

/* What was read is written and read again, with the same meaning. */
static void read_permits(struct rea_slice text)
{
	json_t *metadata = json_loadb(text.data, text.length, 0, NULL);
	char problem[200] = "", *permits;

	if (permits_read(metadata, &permits, problem, sizeof(problem)) == 0) {
		must(permits_of(permits, REA_SLICE_LIT("m")) < REA_PERMISSION_COUNT);
		must(permits == NULL || permits[0] != '\0');
		free(permits);
	}
	json_decref(metadata);
}

static void read_answers(struct rea_slice text)
{
	static const struct rea_config_source source = {.name = "d", .group = "g", .namespace_id = "n", .context_path = ""};
	json_t *value = json_loadb(text.data, text.length, 0, NULL), *data;
	struct rea_buffer out = {.alloc = NULL};
	struct etcd_value found;
	enum etcd_news news;
	uint64_t number = 1000;
	char message[200];
	char *token;

	if (etcd_range_read(value, &found, &out) == 0)
		must(found.revision > 0);
	if (etcd_watch_read(value, &news, &out, message, sizeof(message)) == 0)
		must(news <= ETCD_ENDED);
	rea_buffer_fini(&out);
	json_decref(value);
	must(nacos_v3_read(200, text, &data, message, sizeof(message)) <= NACOS_FOREIGN);
	json_decref(data);
	must(nacos_listen_read(&source, text) <= NACOS_CHANGED_OTHERS);
	token = nacos_login_read(text, &number);
	must(token == NULL || strpbrk(token, "\r\n") == NULL);
	free(token);
	number = 1000;
	must(naming_read_beat(200, text, &number) <= NAMING_REFUSED && number >= 1000 && number <= 60000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rea_slice text;

	if (size < 1)
		return 0;
	text = rea_slice_make((const char *)data + 1, size - 1);
	if (data[0] % 3 == 0)
		read_lists(text);
	else if (data[0] % 3 == 1)
		read_permits(text);
	else
		read_answers(text);
	return 0;
}
