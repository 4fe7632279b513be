/*
 * From columns to rows. The file may be damaged, or somebody else may have written in it: every value is checked for its type and its bounds,
 * and a row as a whole for what the machine leaves behind.
 */
#include "store/sqlite/sqlite.h"

_Static_assert(REA_CODE_NONE == 0 && REA_CODE_HTTP == 1 && REA_CODE_GRPC == 2 && REA_CODE_ERRNO == 3, "stored in rows");
_Static_assert(REA_STORE_PENDING == 0 && REA_STORE_RUNNING == 1 && REA_STORE_CANCELLED == 5, "stored in rows");

/* Reads columns one after the other; after the first wrong one all are 0. */
struct columns {
	sqlite3_stmt *statement;
	int next;
	bool wrong;
};

static int64_t integer(struct columns *columns, int64_t min, int64_t max)
{
	int index = columns->next++;
	int64_t value;

	if (sqlite3_column_type(columns->statement, index) != SQLITE_INTEGER) {
		columns->wrong = true;
		return 0;
	}
	value = sqlite3_column_int64(columns->statement, index);
	if (value >= min && value <= max)
		return value;
	columns->wrong = true;
	return 0;
}

static uint32_t u32(struct columns *columns)
{
	return (uint32_t)integer(columns, 0, UINT32_MAX);
}

static struct rea_text bytes(struct columns *columns, int type, size_t max)
{
	int index = columns->next++;
	struct rea_text text;

	if (sqlite3_column_type(columns->statement, index) != type) {
		columns->wrong = true;
		return (struct rea_text){NULL, 0};
	}
	/* Of a blob, too: no conversion takes place for the type that is there. */
	text.text = type == SQLITE_TEXT ? (const void *)sqlite3_column_text(columns->statement, index)
					: sqlite3_column_blob(columns->statement, index);
	text.length = (size_t)sqlite3_column_bytes(columns->statement, index);
	if (text.length <= max && (text.text != NULL || text.length == 0))
		return text;
	columns->wrong = true;
	return (struct rea_text){NULL, 0};
}

static struct rea_text text_of(struct columns *columns)
{
	return bytes(columns, SQLITE_TEXT, REA_STORE_TEXT_MAX);
}

static int verdict(const struct columns *columns)
{
	return columns->wrong ? REA_ERR_CORRUPT : 0;
}

int rea__decode_row(sqlite3_stmt *statement, struct rea__row *ret_row)
{
	struct columns columns = {statement, 0, false};
	struct rea__row row;

	row.id = (uint64_t)integer(&columns, 1, INT64_MAX);
	row.state = (enum rea_store_state)integer(&columns, 0, REA_STORE_STATE_COUNT - 1);
	row.generation = u32(&columns);
	row.attempt = u32(&columns);
	row.attempts_before = u32(&columns);
	row.crashes = u32(&columns);
	row.claim = (uint64_t)integer(&columns, 0, INT64_MAX);
	row.due_ns = integer(&columns, INT64_MIN, INT64_MAX);
	row.updated_ns = integer(&columns, INT64_MIN, INT64_MAX);
	row.later = integer(&columns, 0, 1) == 1;
	if (columns.wrong || !rea__row_valid(&row))
		return REA_ERR_CORRUPT;
	*ret_row = row;
	return 0;
}

int rea__decode_texts(sqlite3_stmt *statement, struct rea_store_task *task)
{
	struct columns columns = {statement, 10, false};

	task->target = text_of(&columns);
	task->reason = text_of(&columns);
	return verdict(&columns);
}

int rea__decode_spec(sqlite3_stmt *statement, struct rea_store_task *task)
{
	struct columns columns = {statement, 0, false};

	task->submitted_unix_ns = integer(&columns, INT64_MIN, INT64_MAX);
	task->biz_id = text_of(&columns);
	task->key = text_of(&columns);
	if (sqlite3_column_count(statement) > 3)
		task->payload = bytes(&columns, SQLITE_BLOB, REA_STORE_PAYLOAD_MAX);
	return verdict(&columns);
}

int rea__decode_names(sqlite3_stmt *statement, struct rea_store_task *task)
{
	struct columns columns = {statement, 1, false};

	task->biz_id = text_of(&columns);
	task->key = text_of(&columns);
	return verdict(&columns);
}

static enum rea_outcome outcome_of(struct columns *columns)
{
	struct rea_text name = text_of(columns);
	int outcome = columns->wrong ? -1 : rea_outcome_parse(name.text, name.length);

	if (outcome >= 0)
		return (enum rea_outcome)outcome;
	columns->wrong = true;
	return REA_OUTCOME_AMBIGUOUS;
}

int rea__decode_attempt(sqlite3_stmt *statement, struct rea_store_attempt *ret_attempt)
{
	struct columns columns = {statement, 0, false};
	struct rea_store_attempt attempt = {0};

	attempt.number = (uint32_t)integer(&columns, 1, UINT32_MAX);
	attempt.generation = (uint32_t)integer(&columns, 1, UINT32_MAX);
	attempt.interrupted = integer(&columns, 0, 1) == 1;
	attempt.outcome = outcome_of(&columns);
	attempt.code_kind = (enum rea_code_kind)integer(&columns, REA_CODE_NONE, REA_CODE_ERRNO);
	attempt.code = u32(&columns);
	attempt.start_unix_ns = integer(&columns, INT64_MIN, INT64_MAX);
	attempt.cost_ns = (uint64_t)integer(&columns, 0, INT64_MAX);
	attempt.instance = text_of(&columns);
	attempt.reason = text_of(&columns);
	attempt.detail = text_of(&columns);
	if (columns.wrong)
		return REA_ERR_CORRUPT;
	*ret_attempt = attempt;
	return 0;
}

int rea__task_copy(struct rea_arena *arena, struct rea_store_task *task)
{
	struct rea_text *texts[] = {&task->target, &task->biz_id, &task->key, &task->payload, &task->reason};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (rea__text_copy(arena, texts[i]) != 0)
			return REA_ERR_NOMEM;
	return 0;
}
