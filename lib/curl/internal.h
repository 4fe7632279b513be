/* What the files of this room share. */
#ifndef REA_CURL_INTERNAL_H
#define REA_CURL_INTERNAL_H

#include "curl/body.h"
#include "curl/schedule.h"
#include "curl/sink.h"

#define REA__CURL_HOST_MAX 255
#define REA__CURL_KEY_NAME "Idempotency-Key: "

/* The attempt under way, or the last one. */
struct rea__attempt {
	uint32_t number;
	uint64_t start_ns;
	size_t instance;
	struct rea_load *load;     /* of the instance; NULL = not measured */
	struct rea_instance_id id; /* where it goes; meaningless without instances */
	struct rea_curl_once once;
	bool misplaced; /* it would have reached another address than its instance's */
};

/* The fields that attempts add, in front of the program's own list. */
struct rea__fields {
	struct curl_slist nodes[3];
	char attempt[32];
	char deadline[48];
	char key[sizeof(REA__CURL_KEY_NAME) + REA_CURL_KEY_MAX];
};

enum rea__transfer_state { REA__TRANSFER_READY, REA__TRANSFER_FLYING, REA__TRANSFER_WAITING, REA__TRANSFER_ENDED };

struct rea__transfer {
	struct rea_curl *curl;
	struct rea__transfer *next; /* in its bucket */
	uint32_t number;            /* in the schedule */
	bool scheduled;             /* it has a time there */
	enum rea__transfer_state state;
	bool cancelled;
	CURL *easy;
	struct rea_curl_call call;
	struct rea_call decide;
	struct rea_slice key;            /* on every attempt; empty = none */
	struct rea_slice passed_attempt; /* the caller's own rea-attempt, for the first attempt */
	struct rea__attempt attempt;
	struct rea__body body;
	struct rea__sink sink;
	struct rea_curl_result result;
	void (*done)(CURL *easy, const struct rea_curl_result *result, void *user_data);
	void *done_data;
	uint64_t id;
	struct rea__fields fields;
	char host[REA__CURL_HOST_MAX + 1]; /* of the URL, with brackets around IPv6 */
	char port[6];
	struct curl_slist connect_node;
	char connect_to[REA__CURL_HOST_MAX + 80];
	char path[REA_EVENT_TEXT_MAX]; /* of the URL, without query, cut */
};

#define REA__CURL_BUCKETS 256

struct rea_curl {
	struct rea_alloc alloc;
	struct rea_random random;
	CURLM *multi;
	bool own_multi;
	struct rea__schedule schedule;
	struct rea__transfer *buckets[REA__CURL_BUCKETS]; /* by handle */
};

/* curl.c: rea_curl_start with any multi */
int rea__curl_start(struct rea_curl *curl, CURL *easy, const struct rea_curl_call *call, uint64_t now_ns,
    void (*done)(CURL *easy, const struct rea_curl_result *result, void *user_data), void *user_data,
    struct rea_error_info *info);

/* once.c */
enum rea_phase rea__once_phase(const struct rea_curl_once *once, CURL *easy);
/* What libcurl would have said had it not tried again. */
CURLcode rea__once_code(const struct rea_curl_once *once, CURLcode code);

/* judge.c */
long rea__curl_long(CURL *easy, CURLINFO info);
/* CURLINFO_TOTAL_TIME_T. */
uint64_t rea__curl_total_ns(CURL *easy);
/* Whether a byte of a request went out, as CURLINFO tells. */
enum rea_phase rea__curl_phase(CURL *easy);
/* What the status that has arrived means. */
enum rea_outcome rea__curl_status_outcome(CURL *easy, const struct rea_policy *policy);
/* All but the latency. */
void rea__curl_judge(
    CURL *easy, CURLcode code, enum rea_phase phase, const struct rea_policy *policy, struct rea_report *ret_report);

/* request.c: what is sent, and where */
/* Read the URL. Returns 0, REA_ERR_NOMEM, or REA_ERR_INVALID when there are instances and the URL names no place. */
int rea__request_read_url(struct rea__transfer *transfer, struct rea_error_info *info);
/* The key and the mark of a layer above. Returns 0 or REA_ERR_INVALID. */
int rea__request_read_fields(struct rea__transfer *transfer, struct rea_error_info *info);
/* Put fields and target of the coming attempt on the handle. */
void rea__request_prepare(struct rea__transfer *transfer, const struct rea_decision *decision, uint64_t now_ns);
/* Put callbacks on the handle, and at the end what the program had there. */
void rea__request_take_handle(struct rea__transfer *transfer);
void rea__request_give_handle_back(struct rea__transfer *transfer);
/* Nothing was passed on yet of the reply under way. */
bool rea__request_unanswered(const struct rea__transfer *transfer);

/* record.c */
/* attempted: the decision is about an attempt that was made. report: of it, or what stands for it. */
void rea__record(struct rea__transfer *transfer, const struct rea_decision *decision, const struct rea_report *report,
    bool attempted, uint64_t now_ns);

#endif
