/*
 * What configuration costs: finding the operation of a request among a thousand, and a reload of a document
 * with ten thousand methods.
 */
#include <rea/config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPERATIONS 1000
#define MATCHES 2000000
#define METHODS 10000
#define ROUNDS 7

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* A REST interface: two hundred resources, each with five operations. */
static struct rea_contract *make_contract(void)
{
	static const struct {
		const char *method;
		const char *rest;
	} operations[] = {{"GET", ""}, {"POST", ""}, {"GET", "/{id}"}, {"PUT", "/{id}"}, {"GET", "/{id}/history/{version}"}};
	struct rea_contract *contract;
	char key[32], path[64];

	if (rea_contract_new(NULL, &contract) != 0)
		exit(1);
	for (int i = 0; i < OPERATIONS; i++) {
		struct rea_operation operation = {.key = key, .http_method = operations[i % 5].method, .path = path};

		snprintf(key, sizeof(key), "api_operation%d", i);
		snprintf(path, sizeof(path), "/v1/resource%d%s", i / 5, operations[i % 5].rest);
		if (rea_contract_add(contract, &operation, NULL) != 0)
			exit(1);
	}
	rea_contract_finish(contract);
	return contract;
}

static double match_ns(const struct rea_contract *contract, const char *rest)
{
	static char paths[256][64];
	static size_t lengths[256];
	double best = 0;
	size_t found = 0;

	for (int i = 0; i < 256; i++)
		lengths[i] = (size_t)snprintf(paths[i], sizeof(paths[i]), "/v1/resource%d%s", i * 7 % 200, rest);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = cpu_ns();
		double each;

		for (size_t i = 0; i < MATCHES; i++)
			found += rea_contract_match(contract, "GET", 3, paths[i & 255], lengths[i & 255]) != NULL;
		each = (double)(cpu_ns() - start) / MATCHES;
		best = round == 0 || each < best ? each : best;
	}
	if (found != (size_t)MATCHES * ROUNDS)
		exit(1);
	return best;
}

/* Every method has words of its own kind; `kinds` of them differ. */
static char *make_document(int kinds, size_t *ret_length)
{
	char *text = malloc(METHODS * 128 + 256);
	size_t at;

	if (text == NULL)
		exit(1);
	at = (size_t)sprintf(
	    text, "rpc:\n  feign:\n    retry:\n      service-configs:\n        users:\n          method-configs:\n");
	for (int i = 0; i < METHODS; i++)
		at += (size_t)sprintf(
		    text + at, "            user-api_method%d: {enabled: true, max-retry-next-instance: 2, replay-limit-bytes: %d}\n",
		    i, i % kinds);
	*ret_length = at;
	return text;
}

static size_t allocated;

/* The size stands in front of each piece, so that what is in use can be counted. */
static void *count_realloc(void *ptr, size_t size, void *user_data)
{
	size_t *old = ptr ? (size_t *)ptr - 2 : NULL, before = old ? old[0] : 0;
	size_t *piece = realloc(old, size + 2 * sizeof(size_t));

	(void)user_data;
	if (piece == NULL)
		return NULL;
	piece[0] = size;
	allocated += size - before;
	return piece + 2;
}

static void count_free(void *ptr, void *user_data)
{
	(void)user_data;
	if (ptr == NULL)
		return;
	allocated -= ((size_t *)ptr - 2)[0];
	free((size_t *)ptr - 2);
}

static void on_change(enum rea_config_change kind, const char *text, void *user_data)
{
	(void)kind;
	(void)text;
	(void)user_data;
}

/* A whole reload: parse, compare with what is in force, let that go. other: the document after it. */
static void reload(int kinds, int other)
{
	static const struct rea_alloc counting = {NULL, count_realloc, count_free};
	size_t lengths[2], counts[REA_CONFIG_CHANGES];
	char *texts[] = {make_document(kinds, &lengths[0]), make_document(other, &lengths[1])};
	struct rea_config *config, *next;
	double best[3] = {0};

	if (rea_config_parse("bench", texts[0], lengths[0], &counting, &config, NULL) != 0)
		exit(1);
	for (int round = 1; round <= ROUNDS; round++) {
		uint64_t at[4] = {cpu_ns()};

		if (rea_config_parse("bench", texts[round % 2], lengths[round % 2], &counting, &next, NULL) != 0)
			exit(1);
		at[1] = cpu_ns();
		rea_config_compare(config, next, 20, on_change, NULL, counts);
		at[2] = cpu_ns();
		rea_config_unref(config);
		at[3] = cpu_ns();
		config = next;
		for (int i = 0; i < 3; i++) {
			double ms = (double)(at[i + 1] - at[i]) / 1e6;

			best[i] = round == 1 || ms < best[i] ? ms : best[i];
		}
	}
	printf("reload %d methods, %d kinds: parse %.1f ms, compare %.2f ms (%zu methods differ), free %.2f ms; %zu "
	       "KiB kept (document %zu KiB)\n",
	    METHODS, kinds, best[0], best[1], counts[REA_CHANGED_METHOD], best[2], allocated / 1024,
	    lengths[ROUNDS % 2] / 1024);
	rea_config_unref(config);
	free(texts[0]);
	free(texts[1]);
}

int main(void)
{
	struct rea_contract *contract = make_contract();

	printf("match among %d operations, literal end: %.0f ns\n", OPERATIONS, match_ns(contract, ""));
	printf("match among %d operations, parameter end: %.0f ns\n", OPERATIONS, match_ns(contract, "/4711?expand=all"));
	printf("match among %d operations, two parameters: %.0f ns\n", OPERATIONS, match_ns(contract, "/4711/history/12"));
	rea_contract_free(contract);
	reload(3, 4);
	reload(METHODS, METHODS - 1);
	return 0;
}
