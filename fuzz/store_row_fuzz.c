/*
 * Any values as the columns of a row: decoded to what the machine could have written, or refused. The input is a list of values: one byte for the
 * type (its low two bits: null, integer, text, blob), then eight bytes of an integer, or one of a length and so many bytes.
 */
#include "store/sqlite/sqlite.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COLUMNS 12

static void check(bool good)
{
	if (!good)
		abort();
}

static size_t bind(sqlite3_stmt *statement, int index, const uint8_t *data, size_t size)
{
	int64_t integer = 0;
	size_t length;

	if (size < 2)
		return size;
	switch (data[0] & 3) {
	case 0:
		sqlite3_bind_null(statement, index);
		return 1;
	case 1:
		length = size - 1 < sizeof(integer) ? size - 1 : sizeof(integer);
		memcpy(&integer, data + 1, length);
		sqlite3_bind_int64(statement, index, data[0] & 4 ? integer : integer & 7);
		return 1 + length;
	default:
		length = size - 2 < data[1] ? size - 2 : data[1];
		if ((data[0] & 3) == 2)
			sqlite3_bind_text64(statement, index, (const char *)data + 2, length, SQLITE_STATIC, SQLITE_UTF8);
		else
			sqlite3_bind_blob64(statement, index, data + 2, length, SQLITE_STATIC);
		return 2 + length;
	}
}

static void check_text(struct rea_text text)
{
	size_t sum = 0;

	check(text.length <= REA_STORE_PAYLOAD_MAX);
	for (size_t i = 0; i < text.length; i++)
		sum += (unsigned char)text.text[i];
	check(sum <= text.length * 255);
}

static void decode(sqlite3_stmt *statement)
{
	struct rea_store_task task = {0};
	struct rea_store_attempt attempt;
	struct rea__row row;

	if (rea__decode_row(statement, &row) == 0)
		check(rea__row_valid(&row));
	if (rea__decode_texts(statement, &task) == 0) {
		check_text(task.target);
		check_text(task.reason);
	}
	if (rea__decode_spec(statement, &task) == 0)
		check_text(task.payload);
	if (rea__decode_names(statement, &task) == 0) {
		check_text(task.biz_id);
		check_text(task.key);
	}
	if (rea__decode_attempt(statement, &attempt) == 0) {
		check(attempt.number > 0 && (unsigned)attempt.outcome < REA_OUTCOME_COUNT &&
		      attempt.code_kind <= REA_CODE_ERRNO);
		check_text(attempt.instance);
		check_text(attempt.reason);
		check_text(attempt.detail);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static sqlite3 *handle;
	static sqlite3_stmt *statement;

	if (handle == NULL) {
		check(sqlite3_open(":memory:", &handle) == SQLITE_OK);
		check(sqlite3_prepare_v2(handle, "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12", -1,
			  &statement, NULL) == SQLITE_OK);
	}
	for (int i = 1; i <= COLUMNS; i++) {
		size_t used = bind(statement, i, data, size);

		data += used;
		size -= used;
	}
	check(sqlite3_step(statement) == SQLITE_ROW);
	decode(statement);
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return 0;
}
