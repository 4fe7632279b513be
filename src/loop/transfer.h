/*
 * libcurl's multi interface on the loop. What a transfer is for, and what a reply means, is its owner's business; here it is driven.
 *
 * libcurl is not touched before the first transfer. Belongs to the loop's thread.
 */
#ifndef REA_SRC_TRANSFER_H
#define REA_SRC_TRANSFER_H

#include "loop/loop.h"

#include <curl/curl.h>

/* Zero-initialise with loop and connections_kept set. */
struct transfers {
	struct loop *loop;
	long connections_kept;    /* idle ones, to all hosts together */
	CURLM *multi;             /* private; NULL until transfers_ready */
	struct wheel_timer timer; /* private */
};

/* One request. Zero-initialise with done set. */
struct transfer {
	CURL *easy; /* the owner's: made after transfers_ready, cleaned up when not under way; CURLOPT_PRIVATE is taken */
	/* It is over, and not under way any more; may begin another, or free what it stands in. Never from inside transfer_begin. */
	void (*done)(struct transfer *transfer, CURLcode code);
	struct transfers *transfers; /* private; NULL = not under way */
};

/* False = libcurl cannot be had: out of memory. */
bool transfers_ready(struct transfers *transfers);
/* No transfer is under way. One that was never ready: no-op. */
void transfers_fini(struct transfers *transfers);

/* False = out of memory, and not under way. */
bool transfer_begin(struct transfers *transfers, struct transfer *transfer);
/* No done any more. One that is not under way: no-op. */
void transfer_end(struct transfer *transfer);

#endif
