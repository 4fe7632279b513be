/*
 * Reads, on connections of their own. Every call is one short transaction, so that a reader never keeps the log from being written back, and
 * looks at a bounded number of rows.
 */
#include "store/sqlite/sqlite.h"

enum statement {
	BEGIN,
	COMMIT,
	GET_TASK,
	GET_DONE,
	GET_SPEC,
	GET_SPEC_HEAD,
	LIST_OPEN,
	LIST_OVER,
	LIST_ALL,
	LIST_NAMED,
	LIST_RECENT,
	FOLDED_ID,
	SEED,
	ATTEMPTS,
	STATEMENT_COUNT
};

static const char *const statements[] = {
    [BEGIN] = "BEGIN",
    [COMMIT] = "COMMIT",
    [GET_TASK] = "SELECT " REA__TASK_COLUMNS " FROM task WHERE id = ?1",
    [GET_DONE] = "SELECT " REA__DONE_COLUMNS " FROM done WHERE id = ?1",
    [GET_SPEC] = "SELECT " REA__SPEC_COLUMNS " FROM spec WHERE id = ?1",
    [GET_SPEC_HEAD] = "SELECT submitted_ns, biz_id, key FROM spec WHERE id = ?1",
    [LIST_OPEN] = "SELECT " REA__TASK_COLUMNS " FROM task WHERE id < ?1 ORDER BY id DESC",
    [LIST_OVER] = "SELECT " REA__DONE_COLUMNS " FROM done WHERE id < ?1 ORDER BY id DESC",
    [LIST_ALL] = "SELECT " REA__TASK_COLUMNS " FROM task WHERE id < ?1 UNION ALL SELECT " REA__DONE_COLUMNS
		 " FROM done WHERE id < ?1 ORDER BY 1 DESC",
    [LIST_NAMED] = "SELECT id FROM name WHERE hash = ?2 AND id < ?1 ORDER BY id DESC",
    [LIST_RECENT] = "SELECT " REA__NAME_COLUMNS " FROM spec WHERE id >= ?2 AND id < ?1 ORDER BY id DESC",
    [FOLDED_ID] = "SELECT value FROM meta WHERE name = 'folded_id'",
    [SEED] = "SELECT value FROM meta WHERE name = 'seed'",
    [ATTEMPTS] = "SELECT " REA__ATTEMPT_COLUMNS " FROM attempt WHERE id = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
};

_Static_assert(sizeof(statements) / sizeof(statements[0]) == STATEMENT_COUNT, "one text each");
_Static_assert(STATEMENT_COUNT <= REA__STATEMENTS_MAX, "they fit");

struct sqlite_reader {
	struct rea_store_reader reader;
	struct rea__db db;
};

static struct sqlite_reader *reader_of(struct rea_store_reader *reader)
{
	return (struct sqlite_reader *)reader;
}

int rea__sqlite_reader_new(struct rea_store *store, struct rea_store_reader **ret_reader)
{
	struct rea__db_options options = ((struct rea__sqlite *)store)->db_options;
	struct sqlite_reader *reader = store->alloc.realloc(NULL, sizeof(*reader), store->alloc.user_data);
	char message[160];
	int error;

	if (reader == NULL)
		return REA_ERR_NOMEM;
	options.writes = false;
	options.cache_bytes /= 4;
	error = rea__db_open(&reader->db, &options, message, sizeof(message));
	if (error == 0)
		error = rea__db_prepare(&reader->db, statements, STATEMENT_COUNT);
	if (error != 0) {
		rea__db_close(&reader->db);
		store->alloc.free(reader, store->alloc.user_data);
		return error == REA_ERR_NOMEM ? error : REA_ERR_IO;
	}
	reader->reader.store = store;
	rea_arena_init(&reader->reader.arena, &store->alloc);
	*ret_reader = &reader->reader;
	return 0;
}

void rea__sqlite_reader_free(struct rea_store_reader *reader)
{
	const struct rea_alloc *alloc = &reader->store->alloc;

	rea__db_close(&reader_of(reader)->db);
	rea_arena_fini(&reader->arena);
	alloc->free(reader, alloc->user_data);
}

static sqlite3_stmt *statement_of(struct sqlite_reader *reader, enum statement which)
{
	return reader->db.statements[which];
}

static int begin(struct sqlite_reader *reader)
{
	return rea__run(statement_of(reader, BEGIN));
}

/* Reads leave nothing behind, however they went. */
static int end(struct sqlite_reader *reader, int error)
{
	int end_error = rea__run(statement_of(reader, COMMIT));

	return error != 0 ? error : end_error;
}

/* ---- one task ---- */

/* The statement is on a row: its numbers, target and reason. */
static int take_row(struct sqlite_reader *reader, sqlite3_stmt *statement, struct rea_store_task *ret_task)
{
	struct rea__row row;
	int error = rea__decode_row(statement, &row);

	if (error != 0)
		return error;
	*ret_task = rea__task_of(reader->reader.store, &row);
	return rea__decode_texts(statement, ret_task);
}

/* The rest, and all of it copied. */
static int complete(struct sqlite_reader *reader, enum statement spec, struct rea_store_task *task)
{
	sqlite3_stmt *statement = statement_of(reader, spec);
	int error;

	rea__bind_u64(statement, 1, task->id);
	error = rea__step(statement);
	if (error != 1)
		return error != 0 ? error : REA_ERR_CORRUPT;
	error = rea__decode_spec(statement, task);
	if (error == 0)
		error = rea__task_copy(&reader->reader.arena, task);
	sqlite3_reset(statement);
	return error;
}

static int find_in(struct sqlite_reader *reader, enum statement which, enum statement spec, uint64_t id,
    struct rea_store_task *ret_task)
{
	sqlite3_stmt *statement = statement_of(reader, which);
	int error;

	rea__bind_u64(statement, 1, id);
	error = rea__step(statement);
	if (error != 1)
		return error != 0 ? error : REA_ERR_NOT_FOUND;
	error = take_row(reader, statement, ret_task);
	if (error == 0)
		error = complete(reader, spec, ret_task);
	sqlite3_reset(statement);
	return error;
}

static int find(struct sqlite_reader *reader, enum statement spec, uint64_t id, struct rea_store_task *ret_task)
{
	int error = find_in(reader, GET_TASK, spec, id, ret_task);

	return error == REA_ERR_NOT_FOUND ? find_in(reader, GET_DONE, spec, id, ret_task) : error;
}

int rea__sqlite_get(struct rea_store_reader *base, uint64_t id, struct rea_store_task *ret_task)
{
	struct sqlite_reader *reader = reader_of(base);
	struct rea_store_task task;
	int error;

	if (id == 0 || id > INT64_MAX)
		return REA_ERR_NOT_FOUND;
	error = begin(reader);
	if (error != 0)
		return error;
	error = end(reader, find(reader, GET_SPEC, id, &task));
	if (error == 0)
		*ret_task = task;
	return error;
}

/* ---- many ---- */

/* A page being filled, by one statement or by two one after the other. */
struct listing {
	struct sqlite_reader *reader;
	const struct rea_store_filter *filter;
	uint64_t before_id;
	size_t looked;
	struct rea_store_task *tasks;
	sqlite3_blob *payload; /* of one row after the other; NULL = none was wanted yet */
	struct rea_store_page page;
};

static enum statement list_statement(const struct rea_store_filter *filter)
{
	uint32_t states = filter->states != 0 ? filter->states : REA_STORE_STATES_ALL;

	if ((states & ~REA_STORE_STATES_OPEN) == 0)
		return LIST_OPEN;
	return (states & REA_STORE_STATES_OPEN) == 0 ? LIST_OVER : LIST_ALL;
}

/* Where only the first bytes are wanted, the pages of the rest are not read. */
static int read_head(struct listing *listing, struct rea_store_task *task)
{
	sqlite3_int64 id = (sqlite3_int64)task->id;
	int code = listing->payload != NULL
		       ? sqlite3_blob_reopen(listing->payload, id)
		       : sqlite3_blob_open(listing->reader->db.handle, "main", "spec", "payload", id, 0, &listing->payload);
	int bytes = code == SQLITE_OK ? sqlite3_blob_bytes(listing->payload) : 0;
	char *text;

	if (bytes > (int)listing->filter->payload_max)
		bytes = (int)listing->filter->payload_max;
	text = rea_arena_alloc(&listing->reader->reader.arena, (size_t)bytes + 1);
	if (text == NULL)
		return REA_ERR_NOMEM;
	if (code == SQLITE_OK)
		code = sqlite3_blob_read(listing->payload, text, bytes, 0);
	if (code == SQLITE_OK) {
		task->payload = (struct rea_text){text, (size_t)bytes};
		return 0;
	}
	/* A handle that has failed once serves no other row. */
	sqlite3_blob_close(listing->payload);
	listing->payload = NULL;
	return code == SQLITE_ERROR ? REA_ERR_CORRUPT : rea__db_error(code);
}

/* 1, with the payload that is wanted of it. */
static int take_wanted(struct listing *listing, struct rea_store_task *task)
{
	int error = listing->filter->payload_max > 0 ? read_head(listing, task) : 0;

	return error != 0 ? error : 1;
}

/* The task of the row that LIST_OPEN, LIST_OVER or LIST_ALL is on: 1 if the filter wants it, 0 if not. */
static int take_listed(struct listing *listing, sqlite3_stmt *statement, struct rea_store_task *ret_task)
{
	int error = take_row(listing->reader, statement, ret_task);

	if (error != 0)
		return error;
	if (!rea__filter_matches(listing->filter, ret_task->state, ret_task->target))
		return 0;
	error = complete(listing->reader, GET_SPEC_HEAD, ret_task);
	return error != 0 ? error : take_wanted(listing, ret_task);
}

/* The same for a row of LIST_RECENT or LIST_NAMED: its first column is an id, its second, if it has one, the biz_id. */
static int take_named(struct listing *listing, sqlite3_stmt *statement, struct rea_store_task *ret_task)
{
	int64_t id = sqlite3_column_int64(statement, 0);
	int error = 0;

	if (sqlite3_column_count(statement) > 1) {
		error = rea__decode_names(statement, ret_task);
		if (error != 0 || !rea__text_equal(ret_task->biz_id, listing->filter->biz_id))
			return error;
	}
	error = id > 0 ? find(listing->reader, GET_SPEC_HEAD, (uint64_t)id, ret_task) : REA_ERR_CORRUPT;
	if (error == REA_ERR_NOT_FOUND)
		return 0; /* the name of a task that is gone */
	if (error != 0)
		return error;
	if (!rea__text_equal(ret_task->biz_id, listing->filter->biz_id) ||
	    !rea__filter_matches(listing->filter, ret_task->state, ret_task->target))
		return 0;
	return take_wanted(listing, ret_task);
}

static int fill_page(struct listing *listing, sqlite3_stmt *statement,
    int (*take)(struct listing *listing, sqlite3_stmt *statement, struct rea_store_task *ret_task))
{
	struct rea_store_page *page = &listing->page;
	int error;

	for (; (error = rea__step(statement)) == 1; listing->looked++) {
		if (page->tasks_len == listing->filter->max || listing->looked == REA__LIST_SCAN_MAX) {
			page->next = (uint64_t)sqlite3_column_int64(statement, 0) + 1;
			error = 0;
			break;
		}
		error = take(listing, statement, &listing->tasks[page->tasks_len]);
		if (error == 1)
			page->tasks_len++;
		else if (error == REA_ERR_CORRUPT)
			page->damaged++;
		else if (error != 0)
			break;
	}
	sqlite3_reset(statement);
	return error;
}

static int read_number(struct sqlite_reader *reader, enum statement which, int64_t *ret_number)
{
	sqlite3_stmt *statement = statement_of(reader, which);
	int error = rea__step(statement);

	if (error != 1)
		return error != 0 ? error : REA_ERR_CORRUPT;
	*ret_number = sqlite3_column_int64(statement, 0);
	sqlite3_reset(statement);
	return 0;
}

static int fill_by_biz_id(struct listing *listing)
{
	struct sqlite_reader *reader = listing->reader;
	sqlite3_stmt *recent = statement_of(reader, LIST_RECENT), *named = statement_of(reader, LIST_NAMED);
	int64_t folded_id = 0, seed = 0;
	int error = read_number(reader, FOLDED_ID, &folded_id);

	if (error == 0)
		error = read_number(reader, SEED, &seed);
	if (error != 0)
		return error;
	rea__bind_u64(recent, 1, listing->before_id);
	sqlite3_bind_int64(recent, 2, folded_id);
	error = fill_page(listing, recent, take_named);
	if (error != 0 || listing->page.next != 0)
		return error;
	sqlite3_bind_int64(named, 1, (int64_t)listing->before_id < folded_id ? (int64_t)listing->before_id : folded_id);
	sqlite3_bind_int64(named, 2, (int64_t)rea__name_hash((uint64_t)seed, REA__NAME_BIZ_ID, listing->filter->biz_id));
	return fill_page(listing, named, take_named);
}

static int fill_by_id(struct listing *listing)
{
	sqlite3_stmt *statement = statement_of(listing->reader, list_statement(listing->filter));

	rea__bind_u64(statement, 1, listing->before_id);
	return fill_page(listing, statement, take_listed);
}

int rea__sqlite_list(struct rea_store_reader *base, const struct rea_store_filter *filter, struct rea_store_page *ret_page)
{
	struct sqlite_reader *reader = reader_of(base);
	struct rea_store_task *tasks = rea_arena_array(&base->arena, filter->max, sizeof(*tasks));
	struct listing listing = {.reader = reader, .filter = filter, .tasks = tasks, .page = {.tasks = tasks}};
	int error = tasks != NULL ? begin(reader) : REA_ERR_NOMEM;

	if (error != 0)
		return error;
	listing.before_id = filter->before_id == 0 || filter->before_id > INT64_MAX ? INT64_MAX : filter->before_id;
	error = filter->biz_id.length > 0 ? fill_by_biz_id(&listing) : fill_by_id(&listing);
	sqlite3_blob_close(listing.payload);
	error = end(reader, error);
	if (error == 0)
		*ret_page = listing.page;
	return error;
}

static int copy_texts(struct rea_arena *arena, struct rea_store_attempt *attempt)
{
	if (rea__text_copy(arena, &attempt->instance) != 0 || rea__text_copy(arena, &attempt->reason) != 0 ||
	    rea__text_copy(arena, &attempt->detail) != 0)
		return REA_ERR_NOMEM;
	return 0;
}

int rea__sqlite_attempts(struct rea_store_reader *base, uint64_t id, uint32_t after, uint32_t max,
    const struct rea_store_attempt **ret_attempts, size_t *ret_attempts_len)
{
	struct sqlite_reader *reader = reader_of(base);
	sqlite3_stmt *statement = statement_of(reader, ATTEMPTS);
	struct rea_store_attempt *attempts = rea_arena_array(&base->arena, max, sizeof(*attempts));
	size_t count = 0;
	int error = attempts != NULL ? 0 : REA_ERR_NOMEM;

	sqlite3_bind_int64(statement, 1, id <= INT64_MAX ? (int64_t)id : 0);
	sqlite3_bind_int64(statement, 2, after);
	sqlite3_bind_int64(statement, 3, max);
	while (error == 0 && (error = rea__step(statement)) == 1) {
		error = rea__decode_attempt(statement, &attempts[count]);
		if (error == 0)
			error = copy_texts(&base->arena, &attempts[count++]);
	}
	sqlite3_reset(statement);
	if (error == 0) {
		*ret_attempts = attempts;
		*ret_attempts_len = count;
	}
	return error;
}
