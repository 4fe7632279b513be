/* What a call tells its budget and asks of it, beyond what rea/budget.h offers to everybody. */
#ifndef REA_CORE_BUDGET_H
#define REA_CORE_BUDGET_H

#include <rea/budget.h>

/* An attempt that has ended. */
struct rea__budget_attempt {
	enum rea_budget_result result;
	bool stop;           /* its reply forbids another try */
	uint64_t latency_ns; /* 0 = not measured */
	uint32_t instance;   /* index of its instance, 0 with a single target */
	uint32_t instances;  /* how many there are; >= 1 */
};

/* Who asks for a retry. */
struct rea__budget_question {
	enum rea_budget_result failure;
	bool pushback;       /* the reply says "not executed" */
	uint32_t refused_by; /* how many instances could not be reached by this call */
	uint32_t instances;  /* >= 1 */
	bool unserved;       /* no attempt of it has reached an instance */
	bool parked;         /* since parked_ns */
	bool spread;         /* it has waited for others already after life returned */
	uint64_t parked_ns;
	uint64_t park_max_ns; /* how long it may be parked in all; 0 = not at all */
};

enum rea__budget_answer {
	REA__BUDGET_GRANTED,
	REA__BUDGET_REFUSED,
	REA__BUDGET_PARK,  /* ask again in a moment */
	REA__BUDGET_SPREAD /* life has returned: ask again after a random part of twice the time since parked_ns */
};

/* The numbers that hold; those of its rule alone. */
void rea__budget_policy(const struct rea_budget *budget, struct rea_budget_policy *ret_policy);
/* Does it follow the rule evidence? */
bool rea__budget_is_evidence(const struct rea_budget *budget);
/* As rea_budget_report. */
void rea__budget_report(struct rea_budget *budget, uint32_t shard, const struct rea__budget_attempt *attempt,
    struct rea_budget_lease *lease, uint64_t now_ns);
/* ret_lease NULL: only ask. It is written when granted; ret_says unless granted. Only the shard's own thread. */
enum rea__budget_answer rea__budget_ask(struct rea_budget *budget, uint32_t shard, const struct rea__budget_question *question,
    uint64_t now_ns, struct rea_budget_lease *ret_lease, struct rea_evidence *ret_says);

#endif
