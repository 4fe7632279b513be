/*
 * Operations as statements inside the writer's transaction.
 *
 * There is one writer, so a row is read, changed by the machine, and written where it still has the id, the claim and the state it was read
 * with. A statement that then touches no row, or more than one, is damage.
 */
#include "store/sqlite/sqlite.h"

#include <assert.h>

#define RESERVE UINT64_C(65536) /* numbers written down ahead at a time: after a crash, so many are skipped at most */
#define NUMBER_MAX ((uint64_t)INT64_MAX - 2 * RESERVE)
#define RECOVER_ROWS 256
#define FREE_PAGES_MIN 1000
#define PAGES_GIVEN_BACK "64" /* per maintenance */

enum statement {
	FIND_TASK,
	FIND_DONE,
	FIND_SPEC,
	FIND_SUBMITTED,
	FIND_NAMES,
	ADD_TASK,
	ADD_SPEC,
	ADD_ATTEMPT,
	CHANGE_TASK,
	COPY_TO_DONE,
	DELETE_TASK,
	COPY_TO_TASK,
	DELETE_DONE,
	LATER_SAME_TIME,
	LATER,
	RUNNING_BEFORE,
	ALL_LATER,
	OLD,
	DELETE_ATTEMPTS,
	DELETE_SPEC,
	COUNT_PAGES,
	COUNT_FREE_PAGES,
	GIVE_BACK_PAGES,
	GET_META,
	SET_META,
	TOUCH,
	KEY_OF,
	FIND_NAME,
	ADD_NAME,
	DELETE_NAME,
	NAMES_SINCE,
	STATEMENT_COUNT
};

static const char *const statements[] = {
    [FIND_TASK] = "SELECT " REA__TASK_COLUMNS " FROM task WHERE id = ?1",
    [FIND_DONE] = "SELECT " REA__DONE_COLUMNS " FROM done WHERE id = ?1",
    [FIND_SPEC] = "SELECT " REA__SPEC_COLUMNS " FROM spec WHERE id = ?1",
    [FIND_SUBMITTED] = "SELECT submitted_ns, biz_id, key FROM spec WHERE id = ?1",
    [FIND_NAMES] = "SELECT " REA__NAME_COLUMNS " FROM spec WHERE id = ?1",
    [ADD_TASK] = "INSERT INTO task VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    [ADD_SPEC] = "INSERT INTO spec VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [ADD_ATTEMPT] = "INSERT INTO attempt VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    [CHANGE_TASK] =
	"UPDATE task SET state = ?4, generation = ?5, attempt = ?6, attempts_before = ?7, crashes = ?8, claim = ?9,"
	" due_ns = ?10, updated_ns = ?11, later = ?12 WHERE id = ?1 AND claim = ?2 AND state = ?3",
    [COPY_TO_DONE] = "INSERT INTO done SELECT id, ?4, ?5, ?6, ?7, ?8, ?9, target, ?10 FROM task"
		     " WHERE id = ?1 AND claim = ?2 AND state = ?3",
    [DELETE_TASK] = "DELETE FROM task WHERE id = ?1",
    [COPY_TO_TASK] = "INSERT INTO task SELECT id, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, target FROM done"
		     " WHERE id = ?1 AND state = ?2",
    [DELETE_DONE] = "DELETE FROM done WHERE id = ?1",
    [LATER_SAME_TIME] = "SELECT " REA__TASK_COLUMNS " FROM task INDEXED BY task_later"
			" WHERE later = 1 AND due_ns = ?1 AND id > ?2 ORDER BY id",
    [LATER] = "SELECT " REA__TASK_COLUMNS " FROM task INDEXED BY task_later"
	      " WHERE later = 1 AND due_ns > ?1 AND due_ns < ?2 ORDER BY due_ns, id",
    [RUNNING_BEFORE] = "SELECT " REA__TASK_COLUMNS " FROM task INDEXED BY task_running"
		       " WHERE state = 1 AND due_ns <= ?1 AND (due_ns, id) > (?2, ?3) ORDER BY due_ns, id LIMIT ?4",
    [ALL_LATER] = "UPDATE task SET later = 1 WHERE later = 0 AND state <> 1",
    [OLD] = "SELECT id, updated_ns, state FROM done WHERE id > ?1 ORDER BY id LIMIT ?2",
    [DELETE_ATTEMPTS] = "DELETE FROM attempt WHERE id = ?1",
    [DELETE_SPEC] = "DELETE FROM spec WHERE id = ?1",
    [COUNT_PAGES] = "PRAGMA page_count",
    [COUNT_FREE_PAGES] = "PRAGMA freelist_count",
    [GIVE_BACK_PAGES] = "PRAGMA incremental_vacuum(" PAGES_GIVEN_BACK ")",
    [GET_META] = "SELECT value FROM meta WHERE name = ?1",
    [SET_META] = "UPDATE meta SET value = ?2 WHERE name = ?1",
    [TOUCH] = "UPDATE meta SET value = value + 1 WHERE name = 'touched'",
    [KEY_OF] = "SELECT key, fingerprint FROM spec WHERE id = ?1",
    [FIND_NAME] = "SELECT id FROM name WHERE hash = ?1",
    [ADD_NAME] = "INSERT OR IGNORE INTO name VALUES (?1, ?2)",
    [DELETE_NAME] = "DELETE FROM name WHERE hash = ?1 AND id = ?2",
    [NAMES_SINCE] = "SELECT " REA__NAME_COLUMNS " FROM spec WHERE id >= ?1",
};

_Static_assert(sizeof(statements) / sizeof(statements[0]) == STATEMENT_COUNT, "one text each");
_Static_assert(STATEMENT_COUNT <= REA__STATEMENTS_MAX, "they fit");

int rea__ops_prepare(struct rea__db *db)
{
	return rea__db_prepare(db, statements, STATEMENT_COUNT);
}

static sqlite3_stmt *statement_of(const struct rea__sqlite *sqlite, enum statement which)
{
	return sqlite->db.statements[which];
}

sqlite3_stmt *rea__names_statement(const struct rea__sqlite *sqlite, enum rea__names_statement which)
{
	return statement_of(sqlite, (enum statement)(KEY_OF + which));
}

_Static_assert(NAMES_SINCE - KEY_OF == REA__NAMES_SINCE && DELETE_NAME - KEY_OF == REA__NAMES_DELETE, "in one order");

/* Of a statement that has to touch one row. */
static int run_on_one(const struct rea__sqlite *sqlite, sqlite3_stmt *statement)
{
	int error = rea__run(statement);

	if (error != 0)
		return error;
	return sqlite3_changes(sqlite->db.handle) == 1 ? 0 : REA_ERR_CORRUPT;
}

/* ---- numbers and names about the file ---- */

static struct rea_text text_of(const char *text)
{
	return (struct rea_text){text, strlen(text)};
}

int rea__ops_set_number(struct rea__sqlite *sqlite, const char *name, int64_t value)
{
	sqlite3_stmt *statement = statement_of(sqlite, SET_META);

	rea__bind_text(statement, 1, text_of(name));
	sqlite3_bind_int64(statement, 2, value);
	return run_on_one(sqlite, statement);
}

static int set_name(struct rea__sqlite *sqlite, const char *name, const char *value)
{
	sqlite3_stmt *statement = statement_of(sqlite, SET_META);

	rea__bind_text(statement, 1, text_of(name));
	rea__bind_text(statement, 2, text_of(value));
	return run_on_one(sqlite, statement);
}

static int get_number(struct rea__sqlite *sqlite, const char *name, int64_t *ret_value)
{
	sqlite3_stmt *statement = statement_of(sqlite, GET_META);
	bool number;
	int error;

	rea__bind_text(statement, 1, text_of(name));
	error = rea__step(statement);
	if (error != 1)
		return error != 0 ? error : REA_ERR_CORRUPT;
	number = sqlite3_column_type(statement, 0) == SQLITE_INTEGER;
	*ret_value = sqlite3_column_int64(statement, 0);
	sqlite3_reset(statement);
	return number ? 0 : REA_ERR_CORRUPT;
}

static int get_name(struct rea__sqlite *sqlite, const char *name, char *ret_value, size_t size)
{
	sqlite3_stmt *statement = statement_of(sqlite, GET_META);
	const unsigned char *text;
	int error;

	rea__bind_text(statement, 1, text_of(name));
	error = rea__step(statement);
	if (error != 1)
		return error != 0 ? error : REA_ERR_CORRUPT;
	text = sqlite3_column_text(statement, 0);
	sqlite3_snprintf((int)size, ret_value, "%s", text != NULL ? (const char *)text : "");
	sqlite3_reset(statement);
	return 0;
}

static int take_number(struct rea__sqlite *sqlite, struct rea__sequence *sequence, const char *name, uint64_t *ret_number)
{
	int error;

	if (sequence->next >= sequence->reserved) {
		if (sequence->next >= NUMBER_MAX)
			return REA_ERR_LIMIT;
		error = rea__ops_set_number(sqlite, name, (int64_t)(sequence->next + RESERVE));
		if (error != 0)
			return error;
		sequence->reserved = sequence->next + RESERVE;
	}
	*ret_number = sequence->next++;
	return 0;
}

int rea__ops_touch(struct rea__sqlite *sqlite)
{
	return run_on_one(sqlite, statement_of(sqlite, TOUCH));
}

int rea__ops_settle(struct rea__sqlite *sqlite)
{
	int error = rea__ops_set_number(sqlite, "ids", (int64_t)sqlite->ledger.ids.next);

	return error != 0 ? error : rea__ops_set_number(sqlite, "claims", (int64_t)sqlite->ledger.claims.next);
}

/* ---- rows ---- */

/* 1 and the row with the statement on it, 0 if there is none, else an error. */
static int find_in(struct rea__sqlite *sqlite, enum statement which, uint64_t id, struct rea__row *ret_row)
{
	sqlite3_stmt *statement = statement_of(sqlite, which);
	int found, error;

	rea__bind_u64(statement, 1, id);
	found = rea__step(statement);
	if (found != 1)
		return found;
	error = rea__decode_row(statement, ret_row);
	if (error == 0)
		return 1;
	sqlite->damaged++;
	sqlite3_reset(statement);
	return error;
}

/* 0, REA_ERR_NOT_FOUND or an error of the database. */
static int find_row(struct rea__sqlite *sqlite, uint64_t id, struct rea__row *ret_row)
{
	static const enum statement places[] = {FIND_TASK, FIND_DONE};

	if (id == 0 || id > INT64_MAX)
		return REA_ERR_NOT_FOUND;
	for (size_t i = 0; i < 2; i++) {
		int found = find_in(sqlite, places[i], id, ret_row);

		if (found == 1)
			sqlite3_reset(statement_of(sqlite, places[i]));
		if (found != 0)
			return found == 1 ? 0 : found;
	}
	return REA_ERR_NOT_FOUND;
}

/* The values of a row from `index` on, as the tables have them. */
static int bind_row(sqlite3_stmt *statement, int index, const struct rea__row *row)
{
	sqlite3_bind_int(statement, index++, (int)row->state);
	sqlite3_bind_int64(statement, index++, row->generation);
	sqlite3_bind_int64(statement, index++, row->attempt);
	sqlite3_bind_int64(statement, index++, row->attempts_before);
	sqlite3_bind_int64(statement, index++, row->crashes);
	return index;
}

static int bind_open_row(sqlite3_stmt *statement, int index, const struct rea__row *row)
{
	index = bind_row(statement, index, row);
	rea__bind_u64(statement, index++, row->claim);
	sqlite3_bind_int64(statement, index++, row->due_ns);
	sqlite3_bind_int64(statement, index++, row->updated_ns);
	sqlite3_bind_int(statement, index++, row->later);
	return index;
}

static void bind_match(sqlite3_stmt *statement, const struct rea__row *row)
{
	rea__bind_u64(statement, 1, row->id);
	rea__bind_u64(statement, 2, row->claim);
	sqlite3_bind_int(statement, 3, (int)row->state);
}

static int change_task(struct rea__sqlite *sqlite, const struct rea__row *from, const struct rea__row *to)
{
	sqlite3_stmt *statement = statement_of(sqlite, CHANGE_TASK);

	bind_match(statement, from);
	bind_open_row(statement, 4, to);
	return run_on_one(sqlite, statement);
}

static int delete_row(struct rea__sqlite *sqlite, enum statement which, uint64_t id)
{
	rea__bind_u64(statement_of(sqlite, which), 1, id);
	return run_on_one(sqlite, statement_of(sqlite, which));
}

static int move_to_done(
    struct rea__sqlite *sqlite, const struct rea__row *from, const struct rea__row *to, struct rea_text reason)
{
	sqlite3_stmt *statement = statement_of(sqlite, COPY_TO_DONE);
	int index, error;

	bind_match(statement, from);
	index = bind_row(statement, 4, to);
	sqlite3_bind_int64(statement, index++, to->updated_ns);
	rea__bind_text(statement, index, reason);
	error = run_on_one(sqlite, statement);
	return error != 0 ? error : delete_row(sqlite, DELETE_TASK, from->id);
}

static int move_to_task(struct rea__sqlite *sqlite, const struct rea__row *from, const struct rea__row *to)
{
	sqlite3_stmt *statement = statement_of(sqlite, COPY_TO_TASK);
	int error;

	rea__bind_u64(statement, 1, from->id);
	sqlite3_bind_int(statement, 2, (int)from->state);
	bind_open_row(statement, 3, to);
	error = run_on_one(sqlite, statement);
	return error != 0 ? error : delete_row(sqlite, DELETE_DONE, from->id);
}

static int store_row(struct rea__sqlite *sqlite, const struct rea__row *from, const struct rea__row *to, struct rea_text reason)
{
	int error;

	if (!rea__state_open(from->state))
		error = move_to_task(sqlite, from, to);
	else if (!rea__state_open(to->state))
		error = move_to_done(sqlite, from, to, reason);
	else
		error = change_task(sqlite, from, to);
	if (error != 0)
		return error;
	sqlite->ledger.counts[from->state]--;
	sqlite->ledger.counts[to->state]++;
	return 0;
}

static int add_attempt(struct rea__sqlite *sqlite, uint64_t id, const struct rea_store_attempt *attempt)
{
	sqlite3_stmt *statement = statement_of(sqlite, ADD_ATTEMPT);

	rea__bind_u64(statement, 1, id);
	sqlite3_bind_int64(statement, 2, attempt->number);
	sqlite3_bind_int64(statement, 3, attempt->generation);
	sqlite3_bind_int(statement, 4, attempt->interrupted);
	rea__bind_text(statement, 5, text_of(rea_outcome_name(attempt->outcome)));
	sqlite3_bind_int(statement, 6, (int)attempt->code_kind);
	sqlite3_bind_int64(statement, 7, attempt->code);
	sqlite3_bind_int64(statement, 8, attempt->start_unix_ns);
	rea__bind_u64(statement, 9, attempt->cost_ns);
	rea__bind_text(statement, 10, attempt->instance);
	rea__bind_text(statement, 11, attempt->reason);
	rea__bind_text(statement, 12, attempt->detail);
	return rea__run(statement);
}

/* ---- claim … replay ---- */

static struct rea_text reason_of(const struct rea__op *op)
{
	if (op->type == REA__OP_FINISH)
		return op->in.finish.reason;
	return op->type == REA__OP_CANCEL ? op->in.cancel.reason : (struct rea_text){"", 0};
}

/* The statement is on the row of the task. */
static int load_spec(struct rea__sqlite *sqlite, struct rea__op *op, uint64_t id)
{
	sqlite3_stmt *task = statement_of(sqlite, FIND_TASK), *spec = statement_of(sqlite, FIND_SPEC);
	struct rea__row row;
	int error = find_in(sqlite, FIND_TASK, id, &row);

	if (error != 1)
		return error != 0 ? error : REA_ERR_CORRUPT;
	rea__bind_u64(spec, 1, id);
	error = rea__decode_texts(task, &op->result.task);
	if (error == 0)
		error = rea__step(spec) == 1 ? rea__decode_spec(spec, &op->result.task) : REA_ERR_CORRUPT;
	if (error == 0)
		error = rea__task_copy(&op->arena, &op->result.task);
	sqlite3_reset(spec);
	sqlite3_reset(task);
	return error;
}

static int change_row(struct rea__sqlite *sqlite, struct rea__op *op)
{
	struct rea__change change = {
	    .now_ns = op->now_ns, .horizon = sqlite->ledger.horizon, .token = sqlite->ledger.claims.next};
	struct rea__row from, to;
	int error = find_row(sqlite, rea__op_id(op), &from);

	if (error == REA_ERR_NOT_FOUND) {
		op->result.error = error;
		return 0;
	}
	if (error != 0)
		return error;
	to = from;
	error = rea__op_apply(op, &to, &change);
	rea__op_conclude(&sqlite->store, op, &to, error);
	if (error != 0)
		return 0;
	if (op->type == REA__OP_CLAIM)
		error = take_number(sqlite, &sqlite->ledger.claims, "claims", &change.token);
	if (error == 0)
		error = store_row(sqlite, &from, &to, reason_of(op));
	if (error == 0 && change.logged)
		error = add_attempt(sqlite, to.id, &change.attempt);
	if (error == 0 && op->type == REA__OP_CLAIM && op->in.claim.load)
		error = load_spec(sqlite, op, to.id);
	return error;
}

/* ---- submit ---- */

static int tell_submitted(struct rea__sqlite *sqlite, uint64_t id, struct rea_store_task *task)
{
	sqlite3_stmt *statement = statement_of(sqlite, FIND_SUBMITTED);
	struct rea_store_task read;
	int error;

	rea__bind_u64(statement, 1, id);
	error = rea__step(statement);
	error = error == 1 ? rea__decode_spec(statement, &read) : error != 0 ? error : REA_ERR_CORRUPT;
	sqlite3_reset(statement);
	if (error == 0)
		task->submitted_unix_ns = read.submitted_unix_ns;
	return error;
}

/* 1: there is a task with this key, and the result tells of it; 0: there is none. */
static int find_submitted(struct rea__sqlite *sqlite, struct rea__op *op)
{
	const struct rea_store_spec *spec = &op->in.submit.spec;
	uint8_t fingerprint[sizeof(spec->fingerprint)];
	struct rea__row row;
	uint64_t id;
	bool same;
	int found = spec->key.length > 0 ? rea__names_find_key(sqlite, spec->key, &id, fingerprint) : 0;

	if (found != 1)
		return found;
	found = find_row(sqlite, id, &row);
	if (found != 0)
		return found == REA_ERR_NOT_FOUND ? REA_ERR_CORRUPT : found;
	same = memcmp(fingerprint, spec->fingerprint, sizeof(fingerprint)) == 0;
	op->result.error = same ? 0 : REA_ERR_CONFLICT;
	op->result.existed = same;
	op->result.task = rea__task_of(&sqlite->store, &row);
	found = tell_submitted(sqlite, id, &op->result.task);
	return found != 0 ? found : 1;
}

static int add_task(struct rea__sqlite *sqlite, const struct rea__row *row, struct rea_text target)
{
	sqlite3_stmt *statement = statement_of(sqlite, ADD_TASK);

	rea__bind_u64(statement, 1, row->id);
	rea__bind_text(statement, bind_open_row(statement, 2, row), target);
	return rea__run(statement);
}

static int add_spec(struct rea__sqlite *sqlite, const struct rea__row *row, const struct rea_store_spec *spec)
{
	sqlite3_stmt *statement = statement_of(sqlite, ADD_SPEC);

	rea__bind_u64(statement, 1, row->id);
	sqlite3_bind_int64(statement, 2, row->updated_ns);
	rea__bind_text(statement, 3, spec->biz_id);
	rea__bind_text(statement, 4, spec->key);
	sqlite3_bind_blob(statement, 5, spec->fingerprint, sizeof(spec->fingerprint), SQLITE_STATIC);
	sqlite3_bind_blob64(
	    statement, 6, spec->payload.length > 0 ? spec->payload.text : "", spec->payload.length, SQLITE_STATIC);
	return rea__run(statement);
}

static int add_all(struct rea__sqlite *sqlite, const struct rea_store_submit *submit, const struct rea__row *row)
{
	int error = add_task(sqlite, row, submit->spec.target);

	if (error == 0)
		error = add_spec(sqlite, row, &submit->spec);
	if (error == 0)
		error = rea__names_add(sqlite, row->id, submit->spec.key, submit->spec.biz_id);
	for (size_t i = 0; error == 0 && i < submit->attempts_len; i++)
		error = add_attempt(sqlite, row->id, &submit->attempts[i]);
	return error != 0 ? error : rea__names_fold(sqlite);
}

static int submit(struct rea__sqlite *sqlite, struct rea__op *op)
{
	struct rea__change change = {.now_ns = op->now_ns, .horizon = sqlite->ledger.horizon};
	struct rea__row row;
	int error = find_submitted(sqlite, op);

	if (error != 0)
		return error == 1 ? 0 : error;
	if (op->in.submit.only_look) {
		op->result.error = REA_ERR_NOT_FOUND;
		return 0;
	}
	error = take_number(sqlite, &sqlite->ledger.ids, "ids", &row.id);
	if (error != 0)
		return error;
	rea__row_submit(&row, &op->in.submit, &change);
	error = add_all(sqlite, &op->in.submit, &row);
	if (error != 0)
		return error;
	sqlite->ledger.counts[row.state]++;
	rea__op_conclude(&sqlite->store, op, &row, 0);
	return 0;
}

/* ---- due ---- */

/* The statement is on a row. */
static int tell(struct rea__sqlite *sqlite, struct rea__op *op, struct rea_store_task *tasks,
    const struct rea__row *row, sqlite3_stmt *statement)
{
	struct rea_store_task *told = &tasks[op->result.tasks_len];
	int error;

	*told = rea__task_of(&sqlite->store, row);
	error = rea__decode_texts(statement, told);
	if (error == 0)
		error = rea__text_copy(&op->arena, &told->target);
	if (error == 0)
		op->result.tasks_len++;
	return error;
}

/* Hand out what the statement finds. A row that is damaged does not keep others waiting. */
static int hand_out(struct rea__sqlite *sqlite, struct rea__op *op, struct rea_store_task *tasks, sqlite3_stmt *statement)
{
	int error;

	while ((error = rea__step(statement)) == 1) {
		struct rea__row row;

		if (op->result.tasks_len == op->in.due.max) {
			op->result.more = true;
			break;
		}
		error = rea__decode_row(statement, &row);
		if (error == 0)
			error = tell(sqlite, op, tasks, &row, statement);
		if (error == 0)
			sqlite->ledger.horizon = (struct rea__horizon){row.due_ns, row.id};
		else if (error == REA_ERR_CORRUPT)
			sqlite->damaged++;
		else
			break;
	}
	sqlite3_reset(statement);
	return op->result.more || error == 1 ? 0 : error;
}

static int due(struct rea__sqlite *sqlite, struct rea__op *op)
{
	struct rea_store_task *tasks = rea_arena_array(&op->arena, op->in.due.max, sizeof(*tasks));
	sqlite3_stmt *same = statement_of(sqlite, LATER_SAME_TIME), *later = statement_of(sqlite, LATER);
	struct rea__horizon *horizon = &sqlite->ledger.horizon, all = {op->in.due.until_ns - 1, UINT64_MAX};
	int error = 0;

	if (tasks == NULL)
		return REA_ERR_NOMEM;
	op->result.tasks = tasks;
	if (!rea__after_horizon(*horizon, all.due_ns, all.id))
		return 0;
	if (horizon->id < INT64_MAX) {
		sqlite3_bind_int64(same, 1, horizon->due_ns);
		rea__bind_u64(same, 2, horizon->id);
		error = hand_out(sqlite, op, tasks, same);
	}
	if (error == 0 && !op->result.more) {
		sqlite3_bind_int64(later, 1, horizon->due_ns);
		sqlite3_bind_int64(later, 2, op->in.due.until_ns);
		error = hand_out(sqlite, op, tasks, later);
	}
	if (error == 0 && !op->result.more)
		*horizon = all;
	return error;
}

/* ---- maintain ---- */

static int interrupt(struct rea__sqlite *sqlite, const struct rea__row *from, int64_t now_ns, struct rea__row *ret_to)
{
	struct rea__change change = {.now_ns = now_ns, .horizon = sqlite->ledger.horizon};
	int error;

	*ret_to = *from;
	rea__row_interrupt(ret_to, &change);
	error = store_row(sqlite, from, ret_to, (struct rea_text){"", 0});
	return error != 0 ? error : add_attempt(sqlite, from->id, &change.attempt);
}

/* Where a walk over RUNNING rows stands. */
struct walk {
	int64_t until_ns; /* end of lease */
	int64_t due_ns;
	int64_t id;
	uint32_t max;
};

/* The next RUNNING rows, read before any of them is changed. Those that are damaged are passed over. */
static int read_running(
    struct rea__sqlite *sqlite, struct walk *walk, struct rea__row *ret_rows, uint32_t *ret_len, bool *ret_more)
{
	sqlite3_stmt *statement = statement_of(sqlite, RUNNING_BEFORE);
	uint32_t looked = 0;
	int error;

	sqlite3_bind_int64(statement, 1, walk->until_ns);
	sqlite3_bind_int64(statement, 2, walk->due_ns);
	sqlite3_bind_int64(statement, 3, walk->id);
	sqlite3_bind_int64(statement, 4, walk->max);
	*ret_len = 0;
	while ((error = rea__step(statement)) == 1) {
		looked++;
		walk->id = sqlite3_column_int64(statement, 0);
		walk->due_ns = sqlite3_column_int64(statement, 7);
		if (rea__decode_row(statement, &ret_rows[*ret_len]) == 0)
			++*ret_len;
		else
			sqlite->damaged++;
	}
	*ret_more = looked == walk->max;
	return error;
}

/* A task with an ended lease that is soon has to be told of: nobody else hands it out. */
static int tell_soon(struct rea__sqlite *sqlite, struct rea__op *op, struct rea_store_task *tasks, const struct rea__row *row)
{
	sqlite3_stmt *statement = statement_of(sqlite, FIND_TASK);
	struct rea__row again;
	int error = find_in(sqlite, FIND_TASK, row->id, &again);

	if (error != 1)
		return error != 0 ? error : REA_ERR_CORRUPT;
	error = tell(sqlite, op, tasks, &again, statement);
	sqlite3_reset(statement);
	return error;
}

static int expire(struct rea__sqlite *sqlite, struct rea__op *op)
{
	struct walk walk = {op->now_ns, INT64_MIN, 0, op->in.maintain.rows_max};
	struct rea_store_task *tasks = rea_arena_array(&op->arena, walk.max, sizeof(*tasks));
	struct rea__row *rows = rea_arena_array(&op->arena, walk.max, sizeof(*rows)), to;
	uint32_t len;
	int error =
	    tasks == NULL || rows == NULL ? REA_ERR_NOMEM : read_running(sqlite, &walk, rows, &len, &op->result.more);

	if (error != 0)
		return error;
	op->result.tasks = tasks;
	for (uint32_t i = 0; i < len && error == 0; i++) {
		error = interrupt(sqlite, &rows[i], op->now_ns, &to);
		if (error == 0 && rea__row_soon(&to))
			error = tell_soon(sqlite, op, tasks, &to);
	}
	op->result.expired = len;
	return error;
}

static int purge_names(struct rea__sqlite *sqlite, uint64_t id)
{
	sqlite3_stmt *statement = statement_of(sqlite, FIND_NAMES);
	struct rea_store_task task;
	int error;

	rea__bind_u64(statement, 1, id);
	error = rea__step(statement);
	if (error != 1)
		return error;
	error = rea__decode_names(statement, &task);
	if (error == 0)
		error = rea__names_remove(sqlite, id, task.key, task.biz_id);
	sqlite3_reset(statement);
	return error == REA_ERR_CORRUPT ? 0 : error; /* names that cannot be read cannot be found */
}

static int purge_task(struct rea__sqlite *sqlite, uint64_t id, enum rea_store_state state)
{
	static const enum statement parts[] = {DELETE_ATTEMPTS, DELETE_SPEC};
	int error = purge_names(sqlite, id);

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && error == 0; i++) {
		rea__bind_u64(statement_of(sqlite, parts[i]), 1, id);
		error = rea__run(statement_of(sqlite, parts[i]));
	}
	if (error == 0)
		error = delete_row(sqlite, DELETE_DONE, id);
	if (error == 0)
		sqlite->ledger.counts[state]--;
	return error != 0 ? error : rea__names_fold(sqlite);
}

struct old_row {
	uint64_t id;
	enum rea_store_state state;
};

/* The next rows of `done` that are old enough, read before any of them goes. */
static int read_old(struct rea__sqlite *sqlite, struct rea__op *op, struct old_row *ret_rows, uint32_t *ret_len)
{
	int64_t old_ns = op->now_ns - (int64_t)op->in.maintain.keep_ns;
	sqlite3_stmt *statement = statement_of(sqlite, OLD);
	uint32_t looked = 0;
	int error;

	rea__bind_u64(statement, 1, sqlite->ledger.purge_id);
	sqlite3_bind_int64(statement, 2, op->in.maintain.rows_max);
	*ret_len = 0;
	while ((error = rea__step(statement)) == 1) {
		int64_t id = sqlite3_column_int64(statement, 0), state = sqlite3_column_int64(statement, 2);

		looked++;
		sqlite->ledger.purge_id = id > 0 ? (uint64_t)id : 0;
		if (sqlite3_column_int64(statement, 1) > old_ns || id <= 0 || state < REA_STORE_SUCCESS ||
		    state > REA_STORE_CANCELLED)
			continue;
		ret_rows[(*ret_len)++] = (struct old_row){(uint64_t)id, (enum rea_store_state)state};
	}
	if (looked == op->in.maintain.rows_max)
		op->result.more = true;
	else
		sqlite->ledger.purge_id = 0;
	return error;
}

static int purge(struct rea__sqlite *sqlite, struct rea__op *op)
{
	struct old_row *rows = rea_arena_array(&op->arena, op->in.maintain.rows_max, sizeof(*rows));
	uint32_t len;
	int error = rows == NULL ? REA_ERR_NOMEM : read_old(sqlite, op, rows, &len);

	if (error != 0)
		return error;
	for (uint32_t i = 0; i < len && error == 0; i++)
		error = purge_task(sqlite, rows[i].id, rows[i].state);
	op->result.purged = len;
	return error;
}

static int read_count(struct rea__sqlite *sqlite, enum statement which, int64_t *ret_count)
{
	sqlite3_stmt *statement = statement_of(sqlite, which);
	int error = rea__step(statement);

	if (error != 1)
		return error != 0 ? error : REA_ERR_CORRUPT;
	*ret_count = sqlite3_column_int64(statement, 0);
	sqlite3_reset(statement);
	return 0;
}

/* Free pages are kept for what comes, up to a quarter of the file; the rest goes back to the disk, a little at a time. */
static int give_back_pages(struct rea__sqlite *sqlite, struct rea__op *op)
{
	sqlite3_stmt *statement = statement_of(sqlite, GIVE_BACK_PAGES);
	int64_t pages = 0, free_pages = 0;
	int error = read_count(sqlite, COUNT_PAGES, &pages);

	if (error == 0)
		error = read_count(sqlite, COUNT_FREE_PAGES, &free_pages);
	if (error != 0 || free_pages < FREE_PAGES_MIN || free_pages < pages / 4)
		return error;
	op->result.more = true;
	while ((error = rea__step(statement)) == 1)
		;
	return error;
}

static int maintain(struct rea__sqlite *sqlite, struct rea__op *op)
{
	int error = expire(sqlite, op);

	if (error == 0)
		error = purge(sqlite, op);
	return error != 0 ? error : give_back_pages(sqlite, op);
}

/* ---- all of them ---- */

int rea__op_execute(struct rea__sqlite *sqlite, struct rea__op *op)
{
	switch (op->type) {
	case REA__OP_SUBMIT:
		return submit(sqlite, op);
	case REA__OP_CLAIM:
	case REA__OP_HEARTBEAT:
	case REA__OP_RECORD:
	case REA__OP_RESCHEDULE:
	case REA__OP_FINISH:
	case REA__OP_CANCEL:
	case REA__OP_REPLAY:
		return change_row(sqlite, op);
	case REA__OP_DUE:
		return due(sqlite, op);
	case REA__OP_MAINTAIN:
		return maintain(sqlite, op);
	case REA__OP_BACKUP:
		break; /* the writer does it, between transactions */
	}
	assert(false && (const void *)"an operation of a transaction");
	return REA_ERR_INVALID;
}

/* ---- recovery ---- */

static int interrupt_running(struct rea__sqlite *sqlite, int64_t now_ns)
{
	struct walk walk = {INT64_MAX, INT64_MIN, 0, RECOVER_ROWS};
	struct rea__row rows[RECOVER_ROWS], to;
	bool more = true;
	int error = 0;

	while (more && error == 0) {
		uint32_t len;

		error = read_running(sqlite, &walk, rows, &len, &more);
		for (uint32_t i = 0; i < len && error == 0; i++)
			error = interrupt(sqlite, &rows[i], now_ns, &to);
		if (error == 0)
			sqlite->status.interrupted += len;
	}
	return error;
}

static int start_clock(struct rea__sqlite *sqlite, const struct rea_store_clock *now, int64_t seen_ns)
{
	struct rea__clock_past past = {.seen_ns = seen_ns}, present;
	int error = get_name(sqlite, "boot_id", past.boot_id, sizeof(past.boot_id));

	if (error == 0)
		error = get_number(sqlite, "boot_offset_ns", &past.boot_offset_ns);
	if (error != 0)
		return error;
	rea__clock_start(&sqlite->store.clock, now, &past, &present);
	error = set_name(sqlite, "boot_id", present.boot_id);
	return error != 0 ? error : rea__ops_set_number(sqlite, "boot_offset_ns", present.boot_offset_ns);
}

/* Numbers that rows have already are never given out, whatever the file says of them. */
static int start_sequence(struct rea__sqlite *sqlite, struct rea__sequence *sequence, const char *name, uint64_t above)
{
	int64_t next = 0;
	int error = get_number(sqlite, name, &next);

	if (error != 0)
		return error;
	sequence->next = next > 0 ? (uint64_t)next : 1;
	if (sequence->next <= above)
		sequence->next = above + 1;
	sequence->reserved = sequence->next;
	return 0;
}

static int start_names(struct rea__sqlite *sqlite)
{
	int64_t seed = 0, folded_id = 0;
	int error = get_number(sqlite, "seed", &seed);

	if (error == 0)
		error = get_number(sqlite, "folded_id", &folded_id);
	return error != 0 ? error : rea__names_start(sqlite, (uint64_t)seed, folded_id > 0 ? (uint64_t)folded_id : 1);
}

int rea__ops_recover(struct rea__sqlite *sqlite, const struct rea_store_clock *now)
{
	struct rea__census census;
	int error = rea__census(&sqlite->db, &census);

	if (error != 0)
		return error;
	memcpy(sqlite->ledger.counts, census.counts, sizeof(census.counts));
	sqlite->damaged = census.damaged;
	sqlite->ledger.horizon = REA__HORIZON_NONE;
	error = start_clock(sqlite, now, census.seen_ns);
	if (error == 0)
		error = start_sequence(sqlite, &sqlite->ledger.ids, "ids", census.id_max);
	if (error == 0)
		error = start_sequence(sqlite, &sqlite->ledger.claims, "claims", 0);
	if (error == 0)
		error = start_names(sqlite);
	if (error == 0)
		error = interrupt_running(sqlite, rea__clock_to_row(&sqlite->store.clock, sqlite->store.now_ns));
	return error != 0 ? error : rea__run(statement_of(sqlite, ALL_LATER));
}
