/*
 * Events as rows, and reading them again.
 *
 *   event  one row each, words as words, so that a person with sqlite3(1) sees what the timeline shows
 *   boot   which boots the monotonic times of rows belong to
 *
 * The file may be damaged, or somebody else may have written in it: a row that is no event is left out and counted.
 */
#include "store/sqlite/event_sink.h"

#include "base/arena.h"
#include "event/record.h"

#include <rea/store.h>
#include <rea/time.h>

#include <stdio.h>
#include <sys/stat.h>

/* ---- the schema ---- */

#define APPLICATION_ID 0x72656102 /* "rea", 2 */
_Static_assert(APPLICATION_ID == 1919246594, "as in the first migration");

/* What stands here is in files out there and is never changed. */
/* clang-format off */
static const char *const migrations[] = {
    "PRAGMA application_id=1919246594;"
    "CREATE TABLE boot (id INTEGER PRIMARY KEY, boot_id TEXT NOT NULL UNIQUE) STRICT;"
    "CREATE TABLE event (id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, boot INTEGER NOT NULL, start_ns INTEGER NOT NULL,"
    " end_ns INTEGER NOT NULL, type TEXT NOT NULL, call_id TEXT NOT NULL, biz_id TEXT NOT NULL, key TEXT NOT NULL,"
    " trace_id TEXT NOT NULL, service TEXT NOT NULL, method TEXT NOT NULL, instance TEXT NOT NULL, detail TEXT NOT NULL,"
    " attempt INTEGER NOT NULL, attempts_max INTEGER NOT NULL, outcome TEXT NOT NULL, code_kind TEXT NOT NULL, code INTEGER NOT NULL,"
    " cost_ns INTEGER NOT NULL, retryable INTEGER NOT NULL, next_delay_ns INTEGER NOT NULL, verdict TEXT NOT NULL,"
    " reason TEXT NOT NULL, evidence TEXT NOT NULL, permission TEXT NOT NULL, permission_source TEXT NOT NULL) STRICT;"
    "CREATE INDEX event_biz_id ON event (biz_id) WHERE biz_id <> '';"
    "CREATE INDEX event_time ON event (time_ns);",
};
/* clang-format on */

const struct rea__schema rea__events_schema = {APPLICATION_ID, migrations, sizeof(migrations) / sizeof(migrations[0])};

#define COLUMNS                                                                                                  \
	"id, time_ns, boot, start_ns, end_ns, type, call_id, biz_id, key, trace_id, service, method, instance, " \
	"detail, "                                                                                               \
	"attempt, attempts_max, outcome, code_kind, code, cost_ns, retryable, next_delay_ns, verdict, reason, "  \
	"evidence, permission, permission_source"

const char rea__events_insert_sql[] = "INSERT OR IGNORE INTO event (" COLUMNS ") VALUES "
				      "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
				      "?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)";

/* ---- words ---- */

#define WORD(name, text) text,
static const char *const types[] = {REA_EVENT_TYPE_MAP(WORD)};
static const char *const outcomes[] = {REA_OUTCOME_MAP(WORD)};
static const char *const reasons[] = {REA_REASON_MAP(WORD)};
static const char *const permissions[] = {REA_PERMISSION_MAP(WORD)};
static const char *const sources[] = {REA_PERMISSION_SOURCE_MAP(WORD)};
static const char *const verdicts[] = {
    [REA_VERDICT_SUCCESS] = "success", [REA_VERDICT_RETRY] = "retry", [REA_VERDICT_GIVE_UP] = "give_up"};
static const char *const code_kinds[] = {
    [REA_CODE_NONE] = "", [REA_CODE_HTTP] = "http", [REA_CODE_GRPC] = "grpc", [REA_CODE_ERRNO] = "errno"};

#define WORDS(words) words, sizeof(words) / sizeof((words)[0])

/* ---- writing ---- */

/* Binds one column after the other. */
struct binding {
	sqlite3_stmt *statement;
	int next;
};

static void bind_number(struct binding *binding, uint64_t value)
{
	rea__bind_u64(binding->statement, binding->next++, value <= INT64_MAX ? value : INT64_MAX);
}

static void bind_text(struct binding *binding, struct rea_text text)
{
	rea__bind_text(binding->statement, binding->next++, text);
}

static void bind_word(struct binding *binding, const char *const *words, size_t count, size_t word)
{
	const char *text = word < count ? words[word] : "";

	bind_text(binding, (struct rea_text){text, strlen(text)});
}

int rea__events_insert(sqlite3_stmt *insert, const struct rea_event *event, int64_t boot)
{
	struct binding binding = {insert, 1};

	bind_number(&binding, event->id);
	sqlite3_bind_int64(insert, binding.next++, event->time_unix_ns);
	sqlite3_bind_int64(insert, binding.next++, boot);
	bind_number(&binding, event->attempt_start_ns);
	bind_number(&binding, event->time_ns);
	bind_word(&binding, WORDS(types), event->type);
	bind_text(&binding, event->call_id);
	bind_text(&binding, event->biz_id);
	bind_text(&binding, event->key);
	bind_text(&binding, event->trace_id);
	bind_text(&binding, event->service);
	bind_text(&binding, event->method);
	bind_text(&binding, event->instance);
	bind_text(&binding, event->detail);
	bind_number(&binding, event->attempt);
	bind_number(&binding, event->attempts_max);
	bind_word(&binding, WORDS(outcomes), event->outcome);
	bind_word(&binding, WORDS(code_kinds), event->code_kind);
	bind_number(&binding, event->code);
	bind_number(&binding, event->cost_ns);
	bind_number(&binding, event->retryable);
	bind_number(&binding, event->next_delay_ns);
	bind_word(&binding, WORDS(verdicts), event->verdict);
	bind_word(&binding, WORDS(reasons), event->reason);
	bind_text(&binding, event->evidence);
	bind_word(&binding, WORDS(permissions), event->grant.permission);
	bind_word(&binding, WORDS(sources), event->grant.source);
	return rea__run(insert);
}

/* ---- reading ---- */

enum statement { BEGIN, COMMIT, PAGE, COUNT, BOOT, STATEMENT_COUNT };

static const char *const statements[] = {
    [BEGIN] = "BEGIN",
    [COMMIT] = "COMMIT",
    [PAGE] = "SELECT " COLUMNS " FROM event WHERE biz_id <> '' AND biz_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
    [COUNT] = "SELECT count(*) FROM event WHERE biz_id <> '' AND biz_id = ?1 AND id < ?2",
    [BOOT] = "SELECT id FROM boot WHERE boot_id = ?1",
};

struct rea_event_sqlite_reader {
	struct rea_alloc alloc;
	char *path;
	struct rea__db db; /* closed until the first read */
	dev_t device;
	ino_t inode;
	struct rea_arena arena; /* of the latest page */
};

/* Reads columns one after the other; after the first wrong one the row is none of ours. */
struct columns {
	struct rea_arena *arena;
	sqlite3_stmt *statement;
	int next;
	bool wrong;
	bool no_memory;
};

static int64_t integer(struct columns *columns, int64_t min, int64_t max)
{
	int index = columns->next++;
	int64_t value = sqlite3_column_int64(columns->statement, index);

	if (sqlite3_column_type(columns->statement, index) == SQLITE_INTEGER && value >= min && value <= max)
		return value;
	columns->wrong = true;
	return 0;
}

static uint64_t number(struct columns *columns)
{
	return (uint64_t)integer(columns, 0, INT64_MAX);
}

static uint32_t number_u32(struct columns *columns)
{
	return (uint32_t)integer(columns, 0, UINT32_MAX);
}

static struct rea_text borrowed_text(struct columns *columns)
{
	int index = columns->next++;
	struct rea_text text = {NULL, 0};

	if (sqlite3_column_type(columns->statement, index) == SQLITE_TEXT) {
		text.text = (const void *)sqlite3_column_text(columns->statement, index);
		text.length = (size_t)sqlite3_column_bytes(columns->statement, index);
		if (text.text != NULL && text.length <= REA_EVENT_TEXT_MAX)
			return text;
	}
	columns->wrong = true;
	return (struct rea_text){NULL, 0};
}

static struct rea_text copied_text(struct columns *columns)
{
	struct rea_text text = borrowed_text(columns);

	if (text.length == 0)
		return text;
	text.text = rea_arena_string(columns->arena, rea_slice_make(text.text, text.length));
	columns->no_memory |= text.text == NULL;
	return text;
}

static size_t word(struct columns *columns, const char *const *words, size_t count)
{
	struct rea_text text = borrowed_text(columns);

	for (size_t i = 0; i < count; i++)
		if (text.length == strlen(words[i]) && memcmp(text.length > 0 ? text.text : "", words[i], text.length) == 0)
			return i;
	columns->wrong = true;
	return 0;
}

static void decode(struct columns *columns, struct rea_event *ret_event, int64_t *ret_boot)
{
	struct rea_event event = {0};

	event.id = (uint64_t)integer(columns, 1, INT64_MAX);
	event.time_unix_ns = integer(columns, INT64_MIN, INT64_MAX);
	*ret_boot = integer(columns, 0, INT64_MAX);
	event.attempt_start_ns = number(columns);
	event.time_ns = number(columns);
	event.type = (enum rea_event_type)word(columns, WORDS(types));
	event.call_id = copied_text(columns);
	event.biz_id = copied_text(columns);
	event.key = copied_text(columns);
	event.trace_id = copied_text(columns);
	event.service = copied_text(columns);
	event.method = copied_text(columns);
	event.instance = copied_text(columns);
	event.detail = copied_text(columns);
	event.attempt = number_u32(columns);
	event.attempts_max = number_u32(columns);
	event.outcome = (enum rea_outcome)word(columns, WORDS(outcomes));
	event.code_kind = (enum rea_code_kind)word(columns, WORDS(code_kinds));
	event.code = number_u32(columns);
	event.cost_ns = number(columns);
	event.retryable = integer(columns, 0, 1) != 0;
	event.next_delay_ns = number(columns);
	event.verdict = (enum rea_verdict)word(columns, WORDS(verdicts));
	event.reason = (enum rea_reason)word(columns, WORDS(reasons));
	event.evidence = copied_text(columns);
	event.grant.permission = (enum rea_permission)word(columns, WORDS(permissions));
	event.grant.source = (enum rea_permission_source)word(columns, WORDS(sources));
	*ret_event = event;
}

int rea_event_sqlite_reader_new(const char *path, const struct rea_alloc *alloc, struct rea_event_sqlite_reader **ret_reader)
{
	struct rea_event_sqlite_reader *reader;

	if (alloc == NULL)
		alloc = rea_alloc_default();
	reader = alloc->realloc(NULL, sizeof(*reader) + strlen(path) + 1, alloc->user_data);
	if (reader == NULL)
		return REA_ERR_NOMEM;
	memset(reader, 0, sizeof(*reader));
	reader->alloc = *alloc;
	reader->path = strcpy((char *)(reader + 1), path);
	rea_arena_init(&reader->arena, &reader->alloc);
	*ret_reader = reader;
	return 0;
}

void rea_event_sqlite_reader_free(struct rea_event_sqlite_reader *reader)
{
	if (reader == NULL)
		return;
	rea__db_close(&reader->db);
	rea_arena_fini(&reader->arena);
	reader->alloc.free(reader, reader->alloc.user_data);
}

static int open_file(struct rea_event_sqlite_reader *reader, char *message, size_t size)
{
	const struct rea__db_options options = {.path = reader->path, .cache_bytes = 1 << 20};
	int64_t application = 0, version = 0;
	int error = rea__db_open(&reader->db, &options, message, size);

	if (error != 0)
		return error;
	error = rea__db_number(&reader->db, "PRAGMA application_id", &application);
	if (error == 0)
		error = rea__db_number(&reader->db, "PRAGMA user_version", &version);
	if (error == 0 && (application != APPLICATION_ID || version < 1)) {
		snprintf(message, size, "this is no file of events");
		error = REA_ERR_INVALID;
	} else if (error == 0) {
		error = rea__db_prepare(&reader->db, statements, STATEMENT_COUNT);
	}
	if (error != 0 && message[0] == '\0')
		rea__db_describe(&reader->db, message, size);
	if (error != 0)
		rea__db_close(&reader->db);
	return error;
}

/* The path may lead to another file by now. */
static int ensure_open(struct rea_event_sqlite_reader *reader, char *message, size_t size)
{
	struct stat file;
	int error;

	if (stat(reader->path, &file) != 0) {
		rea__db_close(&reader->db);
		snprintf(message, size, "there is no such file");
		return REA_ERR_NOT_FOUND;
	}
	if (reader->db.handle != NULL && file.st_dev == reader->device && file.st_ino == reader->inode)
		return 0;
	rea__db_close(&reader->db);
	error = open_file(reader, message, size);
	if (error == 0) {
		reader->device = file.st_dev;
		reader->inode = file.st_ino;
	}
	return error;
}

struct page {
	struct rea_event *events; /* filled from the end */
	size_t max;
	size_t first;
	uint64_t damaged;
	int64_t boot; /* that runs now; 0 = none of the file's */
	bool other_boots;
};

/* The row of this boot. None: no event of it is in the file. */
static int find_boot(struct rea_event_sqlite_reader *reader, int64_t *ret_boot)
{
	sqlite3_stmt *statement = reader->db.statements[BOOT];
	struct rea_store_clock clock;
	int error;

	rea_store_clock_read(&clock);
	rea__bind_text(statement, 1, (struct rea_text){clock.boot_id, strlen(clock.boot_id)});
	error = rea__step(statement);
	*ret_boot = error == 1 ? sqlite3_column_int64(statement, 0) : 0;
	sqlite3_reset(statement);
	return error < 0 ? error : 0;
}

static int take_row(struct rea_event_sqlite_reader *reader, struct page *page)
{
	struct columns columns = {&reader->arena, reader->db.statements[PAGE], 0, false, false};
	struct rea_event event;
	int64_t boot;

	decode(&columns, &event, &boot);
	if (columns.no_memory)
		return REA_ERR_NOMEM;
	if (columns.wrong) {
		page->damaged++;
		return 0;
	}
	page->events[--page->first] = event;
	page->other_boots |= boot != page->boot;
	return 0;
}

static void bind_question(sqlite3_stmt *statement, struct rea_text biz_id, uint64_t before_id)
{
	rea__bind_text(statement, 1, (struct rea_text){biz_id.text, rea__text_kept(biz_id)});
	rea__bind_u64(statement, 2, before_id <= INT64_MAX ? before_id : INT64_MAX);
}

static int count_rows(struct rea_event_sqlite_reader *reader, struct rea_text biz_id, uint64_t before_id, uint64_t *ret_count)
{
	sqlite3_stmt *statement = reader->db.statements[COUNT];
	int error;

	bind_question(statement, biz_id, before_id);
	error = rea__step(statement);
	if (error == 1)
		*ret_count = (uint64_t)sqlite3_column_int64(statement, 0);
	sqlite3_reset(statement);
	return error == 1 ? 0 : error == 0 ? REA_ERR_CORRUPT : error;
}

static int read_rows(struct rea_event_sqlite_reader *reader, struct rea_text biz_id, uint64_t before_id,
    struct page *page, uint64_t *ret_count)
{
	sqlite3_stmt *statement = reader->db.statements[PAGE];
	int error = count_rows(reader, biz_id, before_id, ret_count);

	if (error != 0)
		return error;
	page->max = page->first = *ret_count < page->max ? (size_t)*ret_count : page->max;
	page->events = rea_arena_array(&reader->arena, page->max, sizeof(*page->events));
	if (page->events == NULL)
		return REA_ERR_NOMEM;
	bind_question(statement, biz_id, before_id);
	rea__bind_u64(statement, 3, page->max);
	while ((error = rea__step(statement)) == 1) {
		error = take_row(reader, page);
		if (error != 0)
			break;
	}
	sqlite3_reset(statement);
	return error;
}

static int read_page(struct rea_event_sqlite_reader *reader, struct rea_text biz_id, uint64_t before_id,
    struct page *page, uint64_t *ret_count)
{
	int error = rea__run(reader->db.statements[BEGIN]);

	if (error != 0)
		return error;
	error = find_boot(reader, &page->boot);
	if (error == 0)
		error = read_rows(reader, biz_id, before_id, page, ret_count);
	rea__run(reader->db.statements[COMMIT]);
	return error;
}

static void tell(struct rea_error_info *info, const char *path, const char *message)
{
	if (info == NULL)
		return;
	memset(info, 0, sizeof(*info));
	snprintf(info->file, sizeof(info->file), "%s", path);
	snprintf(info->message, sizeof(info->message), "%s", message);
}

int rea_event_sqlite_read(struct rea_event_sqlite_reader *reader, struct rea_text biz_id, uint64_t before_id,
    size_t max, struct rea_event_page *ret_page, struct rea_error_info *ret_info)
{
	struct page page = {.max = max};
	char message[256] = "";
	uint64_t count = 0;
	int error;

	if (biz_id.length == 0 || max < 1 || max > REA_EVENT_SQLITE_PAGE_MAX)
		return REA_ERR_INVALID;
	rea_arena_fini(&reader->arena);
	rea_arena_init(&reader->arena, &reader->alloc);
	error = ensure_open(reader, message, sizeof(message));
	if (error == 0)
		error = read_page(reader, biz_id, before_id, &page, &count);
	if (error != 0) {
		if (message[0] == '\0')
			rea__db_describe(&reader->db, message, sizeof(message));
		tell(ret_info, reader->path, message);
		rea__db_close(&reader->db); /* the next read begins afresh */
		return error;
	}
	for (size_t i = page.first; page.other_boots && i < page.max; i++)
		rea_event_use_wall_clock(&page.events[i]);
	*ret_page = (struct rea_event_page){
	    .events = page.events + page.first,
	    .events_len = page.max - page.first,
	    .left_out = count - page.max,
	    .damaged = page.damaged,
	    .wall_clock = page.other_boots,
	};
	return 0;
}
