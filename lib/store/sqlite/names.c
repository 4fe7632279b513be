/*
 * Which task has this key, which tasks this biz_id.
 *
 * A name falls anywhere, so an index that is kept up to date row by row writes a page per name, which costs more than the whole rest of a task.
 * Here new names wait in memory, in buckets by the range of their hash, and one bucket after the other is folded into the table `name`: its names
 * are neighbours there, and a page is written for many of them at once. Names of purged tasks leave the table in the same way.
 *
 * Guarantees: what stands in `name` or in memory is a superset of the names of all tasks that are kept, and only a hint: the spec row tells.
 * Memory holds at most what two rounds over the buckets bring (65,536 tasks that came or went), and is made again from the spec rows since
 * `folded_id` after a crash or a transaction that was rolled back. (Purged names that were not folded then stay behind in the table, harmless.)
 */
#include "store/sqlite/sqlite.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>

#define BUCKET_BITS 9
#define TASKS_PER_FOLD 64
#define TASKS_PER_ROUND (TASKS_PER_FOLD * REA__NAME_BUCKETS)

_Static_assert(REA__NAME_BUCKETS == 1 << BUCKET_BITS, "a bucket per value of the top bits");

struct rea__name {
	uint64_t hash;
	uint64_t id;
	bool dead;
};

/* The last steps spread what the bytes did over all bits: the top ones choose the bucket. */
uint64_t rea__name_hash(uint64_t seed, enum rea__name_kind kind, struct rea_text text)
{
	uint64_t hash = rea_hash_byte(REA_HASH_INIT ^ seed, (unsigned char)kind);

	for (size_t i = 0; i < text.length; i++)
		hash = rea_hash_byte(hash, (unsigned char)text.text[i]);
	hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
	hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return hash ^ hash >> 33;
}

static struct rea__name_bucket *bucket_of(struct rea__names *names, uint64_t hash)
{
	return &names->buckets[hash >> (64 - BUCKET_BITS)];
}

void rea__names_fini(struct rea__names *names, const struct rea_alloc *alloc)
{
	for (size_t i = 0; i < REA__NAME_BUCKETS; i++)
		alloc->free(names->buckets[i].names, alloc->user_data);
	memset(names->buckets, 0, sizeof(names->buckets));
}

static int push(struct rea__name_bucket *bucket, struct rea__name name, const struct rea_alloc *alloc)
{
	uint32_t capacity = bucket->capacity ? bucket->capacity * 2 : 16;
	struct rea__name *bigger;

	if (bucket->len == bucket->capacity) {
		bigger = alloc->realloc(bucket->names, capacity * sizeof(*bigger), alloc->user_data);
		if (bigger == NULL)
			return REA_ERR_NOMEM;
		bucket->names = bigger;
		bucket->capacity = capacity;
	}
	bucket->names[bucket->len++] = name;
	return 0;
}

static int note(struct rea__sqlite *sqlite, enum rea__name_kind kind, struct rea_text text, uint64_t id, bool dead)
{
	uint64_t hash = rea__name_hash(sqlite->names.seed, kind, text);

	if (text.length == 0)
		return 0;
	return push(bucket_of(&sqlite->names, hash), (struct rea__name){hash, id, dead}, &sqlite->store.alloc);
}

int rea__names_add(struct rea__sqlite *sqlite, uint64_t id, struct rea_text key, struct rea_text biz_id)
{
	int error = note(sqlite, REA__NAME_KEY, key, id, false);

	sqlite->ledger.names.tasks++;
	return error != 0 ? error : note(sqlite, REA__NAME_BIZ_ID, biz_id, id, false);
}

int rea__names_remove(struct rea__sqlite *sqlite, uint64_t id, struct rea_text key, struct rea_text biz_id)
{
	int error = note(sqlite, REA__NAME_KEY, key, id, true);

	sqlite->ledger.names.tasks++;
	return error != 0 ? error : note(sqlite, REA__NAME_BIZ_ID, biz_id, id, true);
}

/* ---- find ---- */

static int is_it(struct rea__sqlite *sqlite, uint64_t id, struct rea_text key, uint8_t ret_fingerprint[16])
{
	sqlite3_stmt *statement = rea__names_statement(sqlite, REA__NAMES_KEY_OF);
	bool equal;
	int found;

	rea__bind_u64(statement, 1, id);
	found = rea__step(statement);
	if (found != 1)
		return found;
	equal = sqlite3_column_bytes(statement, 0) == (int)key.length &&
		memcmp(sqlite3_column_blob(statement, 0), key.text, key.length) == 0;
	found = equal ? 1 : 0;
	if (equal && sqlite3_column_bytes(statement, 1) == 16)
		memcpy(ret_fingerprint, sqlite3_column_blob(statement, 1), 16);
	else if (equal)
		found = REA_ERR_CORRUPT;
	sqlite3_reset(statement);
	return found;
}

static int find_in_memory(
    struct rea__sqlite *sqlite, uint64_t hash, struct rea_text key, uint64_t *ret_id, uint8_t ret_fingerprint[16])
{
	const struct rea__name_bucket *bucket = bucket_of(&sqlite->names, hash);
	int found = 0;

	for (uint32_t i = 0; i < bucket->len && found == 0; i++) {
		if (bucket->names[i].hash != hash || bucket->names[i].dead)
			continue;
		*ret_id = bucket->names[i].id;
		found = is_it(sqlite, *ret_id, key, ret_fingerprint);
	}
	return found;
}

static int find_in_table(
    struct rea__sqlite *sqlite, uint64_t hash, struct rea_text key, uint64_t *ret_id, uint8_t ret_fingerprint[16])
{
	sqlite3_stmt *statement = rea__names_statement(sqlite, REA__NAMES_FIND);
	int row, found = 0;

	sqlite3_bind_int64(statement, 1, (int64_t)hash);
	while (found == 0 && (row = rea__step(statement)) != 0) {
		int64_t id = row == 1 ? sqlite3_column_int64(statement, 0) : 0;

		*ret_id = (uint64_t)id;
		found = row != 1 ? row : id > 0 ? is_it(sqlite, *ret_id, key, ret_fingerprint) : 0;
	}
	sqlite3_reset(statement);
	return found;
}

int rea__names_find_key(struct rea__sqlite *sqlite, struct rea_text key, uint64_t *ret_id, uint8_t ret_fingerprint[16])
{
	uint64_t hash = rea__name_hash(sqlite->names.seed, REA__NAME_KEY, key);
	int found = find_in_memory(sqlite, hash, key, ret_id, ret_fingerprint);

	return found != 0 ? found : find_in_table(sqlite, hash, key, ret_id, ret_fingerprint);
}

/* ---- fold ---- */

static int by_hash(const void *a, const void *b)
{
	const struct rea__name *left = a, *right = b;

	if (left->hash != right->hash)
		return left->hash < right->hash ? -1 : 1;
	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	return (int)left->dead - (int)right->dead; /* a task is gone after it came */
}

static int fold_bucket(struct rea__sqlite *sqlite, struct rea__name_bucket *bucket)
{
	if (bucket->len > 1)
		qsort(bucket->names, bucket->len, sizeof(*bucket->names), by_hash);
	for (uint32_t i = 0; i < bucket->len; i++) {
		const struct rea__name *name = &bucket->names[i];
		sqlite3_stmt *statement = rea__names_statement(sqlite, name->dead ? REA__NAMES_DELETE : REA__NAMES_INSERT);
		int error;

		sqlite3_bind_int64(statement, 1, (int64_t)name->hash);
		rea__bind_u64(statement, 2, name->id);
		error = rea__run(statement);
		if (error != 0)
			return error;
	}
	bucket->len = 0;
	return 0;
}

int rea__names_fold(struct rea__sqlite *sqlite)
{
	struct rea__names_ledger *ledger = &sqlite->ledger.names;
	int error;

	if (ledger->tasks < TASKS_PER_FOLD)
		return 0;
	ledger->tasks = 0;
	error = fold_bucket(sqlite, &sqlite->names.buckets[ledger->next_bucket]);
	if (error != 0)
		return error;
	ledger->next_bucket = (ledger->next_bucket + 1) % REA__NAME_BUCKETS;
	if (ledger->next_bucket != 0)
		return 0;
	/* A round is complete: whatever came before it began is in the table. */
	ledger->folded_id = ledger->round_id;
	ledger->round_id = sqlite->ledger.ids.next;
	return rea__ops_set_number(sqlite, "folded_id", (int64_t)ledger->folded_id);
}

/* ---- begin again ---- */

int rea__names_load(struct rea__sqlite *sqlite)
{
	sqlite3_stmt *statement = rea__names_statement(sqlite, REA__NAMES_SINCE);
	int error;

	rea__names_fini(&sqlite->names, &sqlite->store.alloc);
	rea__bind_u64(statement, 1, sqlite->ledger.names.folded_id);
	while ((error = rea__step(statement)) == 1) {
		struct rea_store_task task;
		int64_t id = sqlite3_column_int64(statement, 0);

		/* A damaged row has no name that could be found; what it is shows when it is read. */
		if (id <= 0 || rea__decode_names(statement, &task) != 0)
			continue;
		error = note(sqlite, REA__NAME_KEY, task.key, (uint64_t)id, false);
		if (error == 0)
			error = note(sqlite, REA__NAME_BIZ_ID, task.biz_id, (uint64_t)id, false);
		if (error != 0)
			break;
	}
	sqlite3_reset(statement);
	sqlite->names.stale = error != 0;
	return error;
}

/* Processes that end before a round is complete must not leave ever more behind. */
static int fold_all(struct rea__sqlite *sqlite)
{
	int error = 0;

	for (size_t i = 0; i < REA__NAME_BUCKETS && error == 0; i++)
		error = fold_bucket(sqlite, &sqlite->names.buckets[i]);
	sqlite->ledger.names.folded_id = sqlite->ledger.ids.next;
	return error != 0 ? error : rea__ops_set_number(sqlite, "folded_id", (int64_t)sqlite->ledger.ids.next);
}

int rea__names_start(struct rea__sqlite *sqlite, uint64_t seed, uint64_t folded_id)
{
	uint64_t next_id = sqlite->ledger.ids.next;
	int error;

	sqlite->names.seed = seed;
	sqlite->ledger.names = (struct rea__names_ledger){.folded_id = folded_id, .round_id = next_id};
	error = rea__names_load(sqlite);
	return error == 0 && next_id > folded_id && next_id - folded_id > TASKS_PER_ROUND ? fold_all(sqlite) : error;
}
