/* A store under test, and its operations as calls that wait for their result. */
#ifndef REA_TESTS_STORE_RIG_H
#define REA_TESTS_STORE_RIG_H

#include <rea/store_sqlite.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)
#define LEASE S(30)

struct rig {
	bool sqlite;
	struct rea_store_sqlite_options options; /* for the next rig_open */
	struct rea_store *store;
	struct rea_store_reader *reader;
	uint64_t now_ns;
	char directory[32]; /* of the SQLite files */
	char path[48];
	pthread_mutex_t mutex;
	pthread_cond_t woken;
	uint64_t wakes;
};

/* What a result was, with its texts. */
struct outcome {
	int error;
	struct rea_store_task task;
	bool existed;
	bool soon;
	bool more;
	bool told;
	uint32_t expired;
	uint32_t purged;
	size_t tasks_len;
	struct rea_store_task tasks[REA_STORE_DUE_MAX]; /* texts: target alone */
	char targets[REA_STORE_DUE_MAX][32];
	char texts[4][2048]; /* of task: target, biz_id, key, payload */
};

/* An empty directory, and options with a clock that stands at now_ns = 1000 s, wall clock 1,700,000,000 s, boot "boot-1" since 5000 s. */
void rig_init(struct rig *rig, bool sqlite);
/* The files are gone. */
void rig_fini(struct rig *rig);
void rig_open(struct rig *rig);
int rig_try_open(struct rig *rig, struct rea_error_info *ret_info);
void rig_close(struct rig *rig);
void rig_path(const struct rig *rig, const char *name, char *ret_path, size_t size);
/* Run one statement on the file from outside. */
void rig_sql(const struct rig *rig, const char *sql);
int64_t rig_sql_number(const struct rig *rig, const char *sql);
/* The store has changed its mind about failing; drains meanwhile. */
void rig_wait_failing(struct rig *rig, bool failing);

/* done for an outcome, as user_data. */
void rig_note(const struct rea_store_result *result, void *user_data);
/* Drain until the outcome was told. */
void rig_wait(struct rig *rig, const struct outcome *outcome);

struct rea_text text(const char *text);
/* A spec for key (may be ""), target "users", biz_id "order-7"; the fingerprint follows from the payload. */
struct rea_store_submit submission(const char *key, const char *payload);
struct rea_store_attempt unavailable(uint64_t start_ns);

struct outcome *do_submit(struct rig *rig, const struct rea_store_submit *submit);
/* submission("", "payload") after a delay; its id. */
uint64_t new_task(struct rig *rig, uint64_t delay_ns);
struct outcome *do_claim(struct rig *rig, uint64_t id);
struct outcome *do_claim_with(struct rig *rig, const struct rea_store_claim *claim);
/* Claims and asserts that it went well; the claim. */
uint64_t claimed(struct rig *rig, uint64_t id);
struct outcome *do_heartbeat(struct rig *rig, uint64_t id, uint64_t claim, uint64_t lease_ns);
struct outcome *do_record(struct rig *rig, uint64_t id, uint64_t claim);
/* An attempt was made, UNAVAILABLE. */
struct outcome *do_reschedule(struct rig *rig, uint64_t id, uint64_t claim, uint64_t delay_ns);
struct outcome *do_reschedule_with(struct rig *rig, const struct rea_store_reschedule *reschedule);
/* An attempt was made, without a record for SUCCESS, else PERMANENT with reason "permanent". */
struct outcome *do_finish(struct rig *rig, uint64_t id, uint64_t claim, enum rea_store_state state);
struct outcome *do_finish_with(struct rig *rig, const struct rea_store_finish *finish);
struct outcome *do_cancel(struct rig *rig, uint64_t id);
struct outcome *do_replay(struct rig *rig, uint64_t id, uint32_t generation, bool force);
struct outcome *do_due(struct rig *rig, uint64_t until_ns, uint32_t max);
struct outcome *do_maintain(struct rig *rig, uint64_t keep_ns, uint32_t rows_max);
struct outcome *do_backup(struct rig *rig, const char *path);

/* The state of a task as read; REA_STORE_STATE_COUNT = there is none. */
enum rea_store_state state_of(struct rig *rig, uint64_t id);
struct rea_store_task task_of(struct rig *rig, uint64_t id);
/* Attempts of a task, all of them. */
size_t attempts_of(struct rig *rig, uint64_t id, const struct rea_store_attempt **ret_attempts);
void assert_text_is(struct rea_text actual, const char *expected);

#endif
