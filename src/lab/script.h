/*
 * The script of an upstream: rules, each with the steps that answer its requests one after the other. The format is told by rea-upstream(1).
 *
 * Sans-IO: text in, steps out; the random generator is the caller's. One thread at a time.
 */
#ifndef REA_SRC_LAB_SCRIPT_H
#define REA_SRC_LAB_SCRIPT_H

#include "http/http.h"

#include <rea/error.h>
#include <rea/random.h>
#include <rea/time.h>

#define LAB_BYTES_MAX (1024 * 1024) /* of a script */
#define LAB_FIELDS_MAX 16           /* `header` actions of a step, and as many `trailer` */
#define LAB_PPM UINT32_C(1000000)

/* How a request ends; a step has one. */
enum lab_end { LAB_REPLY, LAB_RESET, LAB_CLOSE, LAB_HANG, LAB_GARBAGE, LAB_ENDLESS_HEADERS, LAB_UPGRADE };

struct lab_step {
	struct rea_slice text; /* as written */
	uint32_t chance_ppm;   /* 0 = stands in the sequence, else it takes this share of all requests of its rule */
	uint32_t times;        /* requests that it answers before the next step does; >= 1 */
	enum lab_end end;
	uint16_t status;
	uint16_t interim; /* 1xx before the reply; 0 = none */
	bool echo;
	bool chunked;
	bool cut;     /* `short`: the end of the body is missing */
	bool early;   /* replies to the head, reads the body nevertheless */
	bool no_read; /* replies to the head, leaves the body in the socket */
	bool close_after;
	struct rea_slice body;
	uint64_t body_bytes;  /* of pattern, when body is empty */
	uint64_t reset_after; /* bytes of body; UINT64_MAX = never */
	uint64_t delay_ns;    /* before the reply */
	uint64_t pause_ns;    /* between its head and its body */
	uint64_t drip_bytes;  /* pieces of the body; 0 = as fast as it goes */
	uint64_t drip_ns;
	struct http_field fields[LAB_FIELDS_MAX];
	size_t fields_len;
	struct http_field trailers[LAB_FIELDS_MAX];
	size_t trailers_len;
};

struct lab_rule {
	struct rea_slice method; /* "*" = any */
	struct rea_slice prefix;
	bool loop; /* after the last step the first again; else the last one repeats */
	struct lab_step *steps;
	size_t steps_len;
	size_t at;     /* the step in turn */
	uint32_t used; /* requests that it has answered */
};

struct lab_script {
	uint64_t refuse_ns; /* from the start: 0 = listens at once, REA_NEVER = refuses for good */
	struct lab_rule *rules;
	size_t rules_len;
	char *source; /* private: what the texts of the steps point into */
	char *words;  /* private: and their values */
	size_t words_len;
};

/* name: for messages. Returns 0, REA_ERR_SYNTAX, REA_ERR_INVALID, REA_ERR_LIMIT or REA_ERR_NOMEM with the position in ret_info; nothing is left to free then. */
int lab_script_parse(
    const char *name, const char *text, size_t length, struct lab_script *ret_script, struct rea_error_info *ret_info);
void lab_script_fini(struct lab_script *script);

/* The step that answers this request, and move on. Never NULL: what no rule matches is echoed. Borrowed while the script lives. */
const struct lab_step *lab_script_next(
    struct lab_script *script, struct rea_slice method, struct rea_slice path, struct rea_random *random);

#endif
