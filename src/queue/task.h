/*
 * What a task is: a submit as JSON, read and checked; the payload under which the store keeps it; and back.
 *
 * A submit that is not good is refused with the field that is wrong; nothing of it is kept. Sans-IO.
 */
#ifndef REA_SRC_QUEUE_TASK_H
#define REA_SRC_QUEUE_TASK_H

#include "base/buffer.h"
#include "http/http.h"
#include "queue/document.h"

#include <rea/config.h>
#include <rea/store.h>

#define TASK_FIELDS_MAX 64
#define TASK_FIELD_BYTES_MAX 8192 /* of one header, name and value */
#define TASK_PATH_MAX 8192

/* Why a submit, or another document, is refused. */
struct task_problem {
	uint16_t status; /* 400: not understood; 422: understood, and wrong */
	char field[160]; /* JSON pointer; "" = the whole */
	char detail[320];
};
void task_problem_set(struct task_problem *problem, uint16_t status, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What is sent, and under which policy. Slices point into what it was decoded from. */
struct task_request {
	bool is_url;
	struct rea_slice method;
	struct rea_slice path; /* with query; of a URL the whole of it */
	struct http_field fields[TASK_FIELDS_MAX];
	size_t fields_len;
	struct rea_slice body;
	uint64_t max_age_ns;            /* since it was handed in; 0 = none */
	uint64_t message_id;            /* random; the same on every attempt, whatever the task is called */
	struct rea_policy_layer policy; /* what the task itself sets */
};

/* A submit as it was asked for. */
struct task_submit {
	struct task_document document; /* what the slices point into */
	struct rea_slice target;       /* a service; of a URL set by whoever checks it */
	struct rea_slice biz_id;
	struct rea_slice key;
	struct task_request request;
	struct rea_buffer decoded; /* what body_base64 stands for */
	char *url;                 /* owned: a URL in its normal form, once it was checked */
	char made_key[33];         /* where rea makes one */
	bool has_body;
	bool sync_first;
	uint64_t delay_ns;
	int64_t not_before_unix_ns; /* INT64_MAX = none: delay_ns is what was said */
};

/* document: taken over, however this ends. header_key: of the request, "" = none; borrowed while ret_submit lives.
 * settings: limits and the policy of tasks. False: refused, ret_submit needs no fini. */
bool task_submit_read(struct task_submit *ret_submit, struct task_document document, struct rea_slice header_key,
    const struct rea_config_settings *settings, struct task_problem *ret_problem);
void task_submit_fini(struct task_submit *submit);
/* All that makes two submits the same. */
void task_fingerprint(const struct task_submit *submit, uint8_t ret_fingerprint[16]);

/* The payload of a request. Returns 0 or REA_ERR_NOMEM. */
int task_encode(const struct task_request *request, struct rea_buffer *payload);
/* Bytes of a payload within which method and path stand. */
#define TASK_HEAD_MAX 16384
/* Of a payload, or of its first TASK_HEAD_MAX bytes. path: of a URL the whole of it. False: damaged. */
bool task_decode_head(struct rea_slice payload, struct rea_slice *ret_method, struct rea_slice *ret_path);
/* False: damaged. */
bool task_decode(struct rea_slice payload, struct task_request *ret_request);

/* The policy that holds: defaults of tasks, tasks.policy (NULL = none), the task's own keys; classify from calls of that method (NULL = none) where
 * neither says anything. A default or configured key that does not fit to the task's own gives way. */
void task_policy(const struct rea_policy_layer *configured, const struct rea_policy_layer *own, bool retries_off,
    const struct rea_policy *calls, struct rea_policy *ret_policy);

/* 1000, and 1000.0 too, as JSON has one kind of number. False: not whole, or beyond 2^53 with a fraction's point. */
bool task_integer(const json_t *value, int64_t *ret_integer);

/* RFC 3339, to the nanosecond; false: not one, or outside the years 1970 to 2261. */
bool task_time_parse(struct rea_slice text, int64_t *ret_unix_ns);
#define TASK_TIME_SIZE 32
/* "2026-01-02T03:04:05.678Z" */
void task_time_format(int64_t unix_ns, char ret_text[TASK_TIME_SIZE]);

#endif
