/*
 * Moves money from one account to another in PostgreSQL, as often as it takes:
 *   cc main.c -o transfer $(pkg-config --cflags --libs rea libpq) && ./transfer 'dbname=bank' alice bob 10
 *
 * To do that twice would be wrong, so nothing is granted, and the policy says `never-sent: allow`: only what was provably not executed is repeated.
 * That is a transaction that the server rolled back because it met another one (SQLSTATE 40001, 40P01), and one whose COMMIT was never sent. When
 * the connection is lost in a COMMIT nobody knows, and the program says so instead of trying again.
 */
#include <rea/guard.h>

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct transfer {
	PGconn *connection;
	const char *from, *to, *amount;
	char sqlstate[6]; /* of the last attempt; "" = it did not get that far */
};

/* What a statement that failed came to. */
static enum rea_outcome judge(const struct transfer *transfer, bool committing)
{
	if (PQstatus(transfer->connection) != CONNECTION_OK)
		return committing ? REA_OUTCOME_AMBIGUOUS : REA_OUTCOME_NEVER_SENT;
	if (strcmp(transfer->sqlstate, "40001") == 0 || strcmp(transfer->sqlstate, "40P01") == 0)
		return REA_OUTCOME_PUSHBACK;
	return REA_OUTCOME_PERMANENT;
}

/* One statement. Returns how many rows it changed or gave, or -1. */
static int execute(struct transfer *transfer, const char *sql, const char *const *values, int values_len)
{
	PGresult *result = PQexecParams(transfer->connection, sql, values_len, NULL, values, NULL, NULL, 0);
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	bool good = sqlstate == NULL && PQstatus(transfer->connection) == CONNECTION_OK;
	int rows = good ? atoi(PQcmdTuples(result)) : -1;

	if (!good)
		fputs(PQerrorMessage(transfer->connection), stderr);
	snprintf(transfer->sqlstate, sizeof(transfer->sqlstate), "%s", sqlstate != NULL ? sqlstate : "");
	PQclear(result);
	return rows;
}

/* The server ends what is not done by the attempt's deadline. */
static bool begin(struct transfer *transfer, const struct rea_guard_attempt *attempt)
{
	char left_ms[24];
	const char *values[] = {left_ms};
	struct timespec now;
	uint64_t now_ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ns = (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
	snprintf(left_ms, sizeof(left_ms), "%llu",
	    (unsigned long long)rea_time_to_ms(rea_time_sub(attempt->deadline_ns, now_ns)));
	return execute(transfer, "BEGIN ISOLATION LEVEL SERIALIZABLE", NULL, 0) >= 0 &&
	       execute(transfer, "SELECT set_config('statement_timeout', $1, true)", values, 1) == 1;
}

static bool move(struct transfer *transfer)
{
	const char *less[] = {transfer->amount, transfer->from}, *more[] = {transfer->amount, transfer->to};

	return execute(transfer, "UPDATE accounts SET balance = balance - $1 WHERE name = $2", less, 2) == 1 &&
	       execute(transfer, "UPDATE accounts SET balance = balance + $1 WHERE name = $2", more, 2) == 1;
}

/* One attempt: what the guard calls, as often as it takes. */
static struct rea_report attempt_transfer(const struct rea_guard_attempt *attempt, void *arg)
{
	struct transfer *transfer = arg;
	enum rea_outcome outcome;

	transfer->sqlstate[0] = '\0';
	if (PQstatus(transfer->connection) != CONNECTION_OK)
		PQreset(transfer->connection);
	if (PQstatus(transfer->connection) != CONNECTION_OK) {
		fputs(PQerrorMessage(transfer->connection), stderr);
		return rea_report_fail(REA_OUTCOME_NEVER_SENT);
	}
	if (!begin(transfer, attempt) || !move(transfer)) {
		outcome = judge(transfer, false);
		PQclear(PQexec(transfer->connection, "ROLLBACK"));
		return rea_report_fail(outcome);
	}
	return execute(transfer, "COMMIT", NULL, 0) >= 0 ? rea_report_ok() : rea_report_fail(judge(transfer, true));
}

static void on_event(struct rea_event *event, void *user_data)
{
	const struct transfer *transfer = user_data;

	fprintf(stderr, "attempt %u: %s%s%s, %s %s\n", event->attempt, transfer->sqlstate,
	    transfer->sqlstate[0] != '\0' ? " " : "", rea_outcome_name(event->outcome),
	    rea_verdict_name(event->verdict), rea_reason_name(event->reason));
}

/* Up to five attempts, all of them at the one database. */
static void set_options(struct rea_guard_options *options, struct transfer *transfer)
{
	rea_guard_options_init(options);
	options->name = "bank";
	options->policy.enabled = true;
	options->policy.max_retry_same_instance = 4;
	options->policy.max_retry_next_instance = 0;
	options->policy.never_sent = REA_NEVER_SENT_ALLOW;
	options->policy.min_backoff_ns = 20 * REA_NS_PER_MS;
	/* A conflict is no sign of a database in trouble, so its evidence is not what retries wait for. */
	options->policy.budget.rule = REA_BUDGET_RATIO;
	options->policy.attempt_timeout_ns = 5 * REA_NS_PER_S;
	options->policy.deadline_ns = 20 * REA_NS_PER_S;
	options->event = on_event;
	options->user_data = transfer;
}

static bool run(struct transfer *transfer)
{
	struct rea_guard_options options;
	struct rea_guard_thread thread;
	struct rea_guard *guard;
	bool done = false;

	set_options(&options, transfer);
	if (rea_guard_new(&options, NULL, &guard, NULL) != 0)
		return false;
	if (rea_guard_join(guard, rea_seed(), &thread) == 0) {
		done = rea_guard_run(&thread, attempt_transfer, transfer, NULL, NULL) == REA_VERDICT_SUCCESS;
		rea_guard_leave(&thread);
	}
	rea_guard_free(guard);
	return done;
}

int main(int argc, char **argv)
{
	struct transfer transfer;
	bool done;

	if (argc != 5) {
		fprintf(stderr, "usage: transfer CONNECTION FROM TO AMOUNT\n");
		return 2;
	}
	transfer = (struct transfer){.connection = PQconnectdb(argv[1]), .from = argv[2], .to = argv[3], .amount = argv[4]};
	done = run(&transfer);
	if (done)
		printf("%s has %s more, %s has %s less\n", transfer.to, transfer.amount, transfer.from, transfer.amount);
	PQfinish(transfer.connection);
	return !done;
}
