/*
 * The reply on its way to the program: held until it is known whether it is the last, then handed over in order, each
 * piece once.
 */
#ifndef REA_CURL_SINK_H
#define REA_CURL_SINK_H

#include <rea/curl.h>

#include "base/buffer.h"

enum rea__sink_kind { REA__SINK_BODY, REA__SINK_HEADER };

struct rea__sink {
	curl_write_callback write;
	void *write_data;
	curl_write_callback header; /* NULL = nobody wants the lines */
	void *header_data;
	struct rea_buffer held; /* records: a length and a kind, then as many bytes */
	size_t held_max;
	size_t held_bytes;             /* in records, while nothing was handed over */
	size_t rest;                   /* of the record that is being handed over; it is in held without its head */
	enum rea__sink_kind rest_kind; /* of that record */
	bool open;                     /* nothing is held back any more */
};

/* call->write must be set. alloc: borrowed while the sink lives. */
void rea__sink_init(struct rea__sink *sink, const struct rea_curl_call *call, const struct rea_alloc *alloc);
void rea__sink_fini(struct rea__sink *sink);

/* A piece has arrived. hold: keep it back if there is room. Returns what a write function returns. */
size_t rea__sink_put(struct rea__sink *sink, enum rea__sink_kind kind, char *data, size_t length, bool hold);
/* It is the last reply, and whole: hand over what is held. False when the program did not take it. */
bool rea__sink_release(struct rea__sink *sink);
/* Another reply follows: forget what is held. Only while the sink is not open. */
void rea__sink_drop(struct rea__sink *sink);

#endif
