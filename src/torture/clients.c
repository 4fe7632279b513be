#include "torture/clients.h"

#include "base/buffer.h"

#include <rea/time.h>

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define URL_MAX 256
#define TIMEOUT_S 30L
#define REPLY_MAX ((size_t)256 << 20)
#define CLIENTS_MAX 64

/* ---- one request ---- */

struct asker {
	CURL *curl;
	struct curl_slist *headers;
	struct rea_buffer reply;
};

static size_t take(char *data, size_t size, size_t count, void *user_data)
{
	struct rea_buffer *reply = user_data;

	(void)size;
	if (rea_buffer_length(reply) + count > REPLY_MAX || rea_buffer_append(reply, data, count) != 0)
		return 0;
	return count;
}

struct asker *asker_new(void)
{
	struct asker *asker = calloc(1, sizeof(*asker));

	if (asker == NULL)
		return NULL;
	asker->curl = curl_easy_init();
	asker->headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (asker->curl == NULL || asker->headers == NULL) {
		asker_free(asker);
		return NULL;
	}
	curl_easy_setopt(asker->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(asker->curl, CURLOPT_PROXY, "");
	curl_easy_setopt(asker->curl, CURLOPT_TIMEOUT, TIMEOUT_S);
	curl_easy_setopt(asker->curl, CURLOPT_HTTPHEADER, asker->headers);
	curl_easy_setopt(asker->curl, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(asker->curl, CURLOPT_WRITEDATA, &asker->reply);
	return asker;
}

void asker_free(struct asker *asker)
{
	if (asker == NULL)
		return;
	curl_slist_free_all(asker->headers);
	curl_easy_cleanup(asker->curl);
	rea_buffer_fini(&asker->reply);
	free(asker);
}

long asker_ask(struct asker *asker, const char *admin, const char *path, const char *body, const char **ret_reply)
{
	char url[URL_MAX];
	long status = 0;

	snprintf(url, sizeof(url), "http://%s%s", admin, path);
	rea_buffer_clear(&asker->reply);
	curl_easy_setopt(asker->curl, CURLOPT_URL, url);
	curl_easy_setopt(asker->curl, CURLOPT_HTTPGET, 1L);
	if (body != NULL) {
		curl_easy_setopt(asker->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
		curl_easy_setopt(asker->curl, CURLOPT_POSTFIELDS, body);
	}
	/* A reply that is not whole is none: nobody was told anything. */
	if (curl_easy_perform(asker->curl) != CURLE_OK || rea_buffer_append(&asker->reply, "", 1) != 0)
		return 0;
	curl_easy_getinfo(asker->curl, CURLINFO_RESPONSE_CODE, &status);
	if (ret_reply != NULL)
		*ret_reply = rea_buffer_data(&asker->reply);
	return status;
}

/* ---- threads ---- */

struct client {
	struct clients *clients;
	pthread_t thread;
	uint64_t seed;
};

struct clients {
	struct ledger *ledger;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool serving, ending;
	uint32_t busy; /* threads in a request */
	char admin[64];
	uint64_t period_ns;
	uint32_t count;
	struct client list[CLIENTS_MAX];
};

/* Wait for a server, and be counted as busy with it. False: it is over. */
static bool enter(struct clients *clients, char admin[64])
{
	bool going;

	pthread_mutex_lock(&clients->mutex);
	while (!clients->serving && !clients->ending)
		pthread_cond_wait(&clients->changed, &clients->mutex);
	going = !clients->ending;
	if (going) {
		clients->busy++;
		memcpy(admin, clients->admin, sizeof(clients->admin));
	}
	pthread_mutex_unlock(&clients->mutex);
	return going;
}

static void leave(struct clients *clients)
{
	pthread_mutex_lock(&clients->mutex);
	clients->busy--;
	pthread_cond_broadcast(&clients->changed);
	pthread_mutex_unlock(&clients->mutex);
}

static void cancel(struct clients *clients, struct asker *asker, const char *admin, uint32_t number, const char *id)
{
	char path[80];
	long status;

	snprintf(path, sizeof(path), "/v1/tasks/%s/cancel", id);
	status = asker_ask(asker, admin, path, "", NULL);
	/* 409: an earlier cancel did it, whose answer was lost. */
	if (status == 200 || status == 409)
		ledger_cancelled(clients->ledger, number);
}

static void take_answer(
    struct clients *clients, struct asker *asker, const char *admin, const struct ledger_task *task, const char *reply)
{
	json_t *document = json_loads(reply, 0, NULL);
	const char *id = json_string_value(json_object_get(document, "id"));

	ledger_acknowledged(clients->ledger, task->number, id != NULL ? strtoull(id, NULL, 10) : 0,
	    json_is_true(json_object_get(document, "existed")));
	/* Half of those that wait. */
	if (id != NULL && task->kind == LEDGER_LATER && task->number / 8 % 2 == 0)
		cancel(clients, asker, admin, task->number, id);
	json_decref(document);
}

static void refused(struct clients *clients, const struct ledger_task *task, long status, const char *reply)
{
	json_t *document = json_loads(reply, 0, NULL);
	const char *detail = json_string_value(json_object_get(document, "detail"));

	ledger_refused(clients->ledger, task->number, status, detail != NULL ? detail : "no reason given");
	json_decref(document);
}

static void hand_in(struct clients *clients, struct asker *asker, const char *admin, const struct ledger_task *task)
{
	static const char *const paths[] = {[LEDGER_AGAIN] = "/again", [LEDGER_ONCE] = "/once", [LEDGER_LATER] = "/later"};
	char body[LEDGER_BODY_MAX + 256];
	const char *reply = "";
	long status;

	snprintf(body, sizeof(body), "{\"service\":\"target\",\"path\":\"%s\",\"key\":\"%s\",\"delay_ms\":%s,\"body\":\"%s\"}",
	    paths[task->kind], task->key, task->kind == LEDGER_LATER ? "3600000" : "0", task->body);
	status = asker_ask(asker, admin, "/v1/tasks", body, &reply);
	if (status == 200 || status == 202)
		take_answer(clients, asker, admin, task, reply);
	else if (status != 0 && status != 503 && status != 429)
		refused(clients, task, status, reply);
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Time that was lost is not made up for. */
static void keep_pace(uint64_t *due_ns, uint64_t period_ns)
{
	uint64_t now_ns = clock_ns();
	struct timespec until;

	*due_ns = rea_time_max(*due_ns + period_ns, now_ns);
	until = (struct timespec){.tv_sec = (time_t)(*due_ns / REA_NS_PER_S), .tv_nsec = (long)(*due_ns % REA_NS_PER_S)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void *run(void *arg)
{
	struct client *client = arg;
	struct clients *clients = client->clients;
	struct asker *asker = asker_new();
	struct ledger_task *task = malloc(sizeof(*task));
	struct rea_random random;
	uint64_t due_ns = clock_ns();
	char admin[64];

	rea_random_init(&random, client->seed);
	while (asker != NULL && task != NULL && enter(clients, admin)) {
		if (ledger_next(clients->ledger, &random, task))
			hand_in(clients, asker, admin, task);
		leave(clients);
		keep_pace(&due_ns, clients->period_ns);
	}
	free(task);
	asker_free(asker);
	return NULL;
}

struct clients *clients_start(struct ledger *ledger, uint32_t count, uint32_t rate_per_s, uint64_t seed)
{
	struct clients *clients = calloc(1, sizeof(*clients));

	if (clients == NULL)
		return NULL;
	pthread_mutex_init(&clients->mutex, NULL);
	pthread_cond_init(&clients->changed, NULL);
	clients->ledger = ledger;
	clients->period_ns = REA_NS_PER_S * count / rate_per_s;
	for (; clients->count < count && clients->count < CLIENTS_MAX; clients->count++) {
		struct client *client = &clients->list[clients->count];

		*client = (struct client){.clients = clients, .seed = seed + clients->count};
		if (pthread_create(&client->thread, NULL, run, client) != 0) {
			clients_free(clients);
			return NULL;
		}
	}
	return clients;
}

void clients_resume(struct clients *clients, const char *admin)
{
	pthread_mutex_lock(&clients->mutex);
	snprintf(clients->admin, sizeof(clients->admin), "%s", admin);
	clients->serving = true;
	pthread_cond_broadcast(&clients->changed);
	pthread_mutex_unlock(&clients->mutex);
}

void clients_pause(struct clients *clients)
{
	pthread_mutex_lock(&clients->mutex);
	clients->serving = false;
	while (clients->busy > 0)
		pthread_cond_wait(&clients->changed, &clients->mutex);
	pthread_mutex_unlock(&clients->mutex);
}

void clients_free(struct clients *clients)
{
	if (clients == NULL)
		return;
	pthread_mutex_lock(&clients->mutex);
	clients->ending = true;
	pthread_cond_broadcast(&clients->changed);
	pthread_mutex_unlock(&clients->mutex);
	for (uint32_t i = 0; i < clients->count; i++)
		pthread_join(clients->list[i].thread, NULL);
	pthread_cond_destroy(&clients->changed);
	pthread_mutex_destroy(&clients->mutex);
	free(clients);
}
