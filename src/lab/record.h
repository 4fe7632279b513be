/* What an upstream saw, as JSON lines. The fields are told by rea-upstream(1). */
#ifndef REA_SRC_LAB_RECORD_H
#define REA_SRC_LAB_RECORD_H

#include "http/http.h"

#include <openssl/evp.h>
#include <stdio.h>

struct lab_record {
	uint64_t t_ns;   /* the request's head was here */
	uint64_t end_ns; /* and its end, or when it was given up */
	const char *instance;
	uint64_t connection; /* unique in the process */
	uint32_t n;          /* of the connection's requests; 1-based */
	const struct http_request *request;
	const struct http_field *trailers;
	size_t trailers_len;
	uint64_t body_bytes;
	EVP_MD_CTX *body; /* SHA-256 of the body so far; used up by writing */
	bool complete;    /* the whole body was received */
	struct rea_slice action;
};

/* A line on a request. log NULL = none. */
void lab_record_request(FILE *log, const struct lab_record *record);
/* A line on an exchange that the client broke off, or on a connection (request NULL) that sent no HTTP. */
void lab_record_broken(FILE *log, const char *event, const struct lab_record *record, const char *why);

#endif
