/*
 * One HTTP request to a server of configurations, on the loop or while the caller waits. Nothing of the environment counts, no redirect is followed,
 * and what comes back is bounded in size and time.
 */
#ifndef REA_SRC_FETCH_H
#define REA_SRC_FETCH_H

#include "base/buffer.h"
#include "loop/transfer.h"

/* Of one reply, as of any other configuration. */
#define FETCH_REPLY_MAX ((size_t)16 * 1024 * 1024)
#define FETCH_MD5_SIZE 33

struct fetch_request {
	const char *url;            /* copied */
	const char *method;         /* NULL = POST with a body, GET without */
	const char *body;           /* copied; NULL = none */
	const char *const *headers; /* "Name: value"; copied */
	size_t headers_len;
	uint64_t timeout_ns; /* for all of it; 0 = as long as the connection lives */
	const char *ca_file; /* PEM; NULL = the system's authorities */
};

/* Zero-initialise with transfers and done set. */
struct fetch {
	struct transfers *transfers;
	/* It is over: status, error and reply say how, until the next begins. May begin another. */
	void (*done)(struct fetch *fetch);
	void (*more)(struct fetch *fetch); /* some more of the reply is in, to be consumed by whoever can; NULL = nobody */
	void *user_data;
	long status;                 /* 0 = no reply came */
	bool timed_out;              /* nothing came in time, or not all of it */
	char error[CURL_ERROR_SIZE]; /* why there is no whole reply; "" = there is one */
	char md5[FETCH_MD5_SIZE];    /* what Content-MD5 says; "" = nothing */
	struct rea_buffer reply;
	struct transfer transfer;   /* private */
	struct curl_slist *headers; /* private */
	bool too_large;             /* private */
};

/* 0 = done will be called; REA_ERR_NOMEM = it will not. */
int fetch_begin(struct fetch *fetch, const struct fetch_request *request);
/* The same in one go; done is not called, transfers not needed. */
int fetch_wait(struct fetch *fetch, const struct fetch_request *request);
/* No done any more; nothing of it is left. */
void fetch_end(struct fetch *fetch);
static inline bool fetch_busy(const struct fetch *fetch)
{
	return fetch->transfer.transfers != NULL;
}

#endif
