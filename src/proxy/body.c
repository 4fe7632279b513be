/*
 * The request's body. Up to the replay limit all of it is kept, so that another attempt can be given the same bytes; past the limit, or when no retry
 * can come, only what the present attempt has not taken yet.
 */
#include "proxy/internal.h"

/* How much may wait for an attempt that takes nothing yet. */
#define WAITING_BYTES_MAX ((size_t)64 * 1024)

static void forget_given(struct exchange *exchange, uint64_t given)
{
	if (given > exchange->body_base) {
		rea_buffer_consume(&exchange->body, (size_t)(given - exchange->body_base));
		rea_buffer_trim(&exchange->body, 0);
		exchange->body_base = given;
	}
}

/* Behind an upgrade the request has ended, and bytes still go that way. */
static bool in_tunnel(const struct exchange *exchange)
{
	return exchange->tunnel && exchange->responded;
}

static bool takes_body(const struct attempt *attempt)
{
	return attempt != NULL && attempt->stream != NULL && (!attempt->request_finished || in_tunnel(attempt->exchange));
}

static void pause_caller(struct exchange *exchange)
{
	if (exchange->paused || (exchange->body_complete && !in_tunnel(exchange)))
		return;
	exchange->paused = true;
	http_server_pause(exchange->downstream);
	loop_http_conn_flush(loop_http_conn_of(exchange->downstream));
}

static void resume_caller(struct exchange *exchange)
{
	struct http_server_stream *downstream = exchange->downstream;
	struct loop_http_conn *conn = loop_http_conn_of(downstream);

	if (!exchange->paused)
		return;
	exchange->paused = false;
	/* May bring more body, or its end, before it returns. */
	http_server_resume(downstream);
	loop_http_conn_flush(conn);
}

static void finish_request(struct attempt *attempt)
{
	struct exchange *exchange = attempt->exchange;

	if (!exchange->body_complete || attempt->request_finished || attempt->given < exchange->received)
		return;
	attempt->request_finished = true;
	http_client_finish(attempt->stream, exchange->trailers, exchange->trailers_len);
	loop_http_client_flush(attempt->link->client);
}

void body_pump(struct exchange *exchange)
{
	struct attempt *attempt = exchange->current;
	size_t waiting;

	if (!takes_body(attempt))
		return;
	waiting = (size_t)(exchange->received - attempt->given);
	if (waiting > 0 && !loop_http_client_congested(attempt->stream)) {
		const char *data = rea_buffer_data(&exchange->body) + (attempt->given - exchange->body_base);

		/* Out of memory here reads as an instance that takes nothing: the attempt's timeout ends it. */
		if (http_client_write(attempt->stream, data, waiting) == 0)
			attempt->given += waiting;
		loop_http_client_flush(attempt->link->client);
		if (exchange->body_streamed)
			forget_given(exchange, attempt->given);
	}
	finish_request(attempt);
	if (loop_http_client_congested(attempt->stream))
		pause_caller(exchange);
	else
		resume_caller(exchange);
}

/* The usual case of a body that is not kept: straight from one connection to the other. */
static bool pass_through(struct exchange *exchange, const char *data, size_t length)
{
	struct attempt *attempt = exchange->current;

	if (!exchange->body_streamed || rea_buffer_length(&exchange->body) > 0 || !takes_body(attempt) ||
	    loop_http_client_congested(attempt->stream) || http_client_write(attempt->stream, data, length) != 0)
		return false;
	exchange->received += length;
	attempt->given = exchange->body_base = exchange->received;
	loop_http_client_flush(attempt->link->client);
	if (loop_http_client_congested(attempt->stream))
		pause_caller(exchange);
	return true;
}

void body_receive(struct exchange *exchange, const char *data, size_t length)
{
	exchange->progress_ns = loop_now(exchange->worker->loop);
	if (pass_through(exchange, data, length))
		return;
	if (rea_buffer_append(&exchange->body, data, length) != 0) {
		exchange_abandon(exchange);
		return;
	}
	exchange->received += length;
	if (!exchange->body_streamed && exchange->received > exchange->policy->replay_limit_bytes) {
		exchange->body_streamed = exchange->over_limit = true;
		rea_service_stats_over_limit(exchange->service->stats);
		if (takes_body(exchange->current))
			forget_given(exchange, exchange->current->given);
	}
	body_pump(exchange);
	if (exchange->current == NULL || exchange->current->stream == NULL) {
		if (rea_buffer_length(&exchange->body) >= WAITING_BYTES_MAX && exchange->body_streamed)
			pause_caller(exchange);
	}
}
