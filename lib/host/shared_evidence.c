#include "host/shared_evidence.h"

#include <rea/time.h>

#include <float.h>
#include <string.h>

/* 12 bits of epoch; the rest is the value and 1. */
#define VALUE_BITS 52
#define VALUE_MAX ((UINT64_C(1) << VALUE_BITS) - 2)
#define ONE (UINT64_C(1) << 40)
#define FLOAT_BITS 32
#define WINDOW_MS 2000
/* A clock may have been read later than ours by so much; a time that lies further ahead is none. */
#define AHEAD_NS REA_NS_PER_S
/*
 * One that lies so far ahead is left over from a boot that could not be told from this one, and is written over. Not sooner: who was stopped for a minute
 * finds times of those who were not, and must not set them back.
 */
#define STRANGE_MS UINT64_C(600000)

/* A value above the most that there can be is damaged, or of another boot: it is not there. */
static uint64_t value_in(uint64_t word, uint32_t epoch, uint64_t otherwise, uint64_t most)
{
	uint64_t value = word & (VALUE_MAX + 1);

	return word >> VALUE_BITS == epoch && value != 0 && value - 1 <= most ? value - 1 : otherwise;
}

static uint64_t value_of(const uint64_t *word, uint32_t epoch, uint64_t otherwise, uint64_t most)
{
	return value_in(__atomic_load_n(word, __ATOMIC_SEQ_CST), epoch, otherwise, most);
}

/* What becomes of a value; false: it stays. */
typedef bool change(uint64_t *value, uint64_t by);

static bool update(uint64_t *word, uint32_t epoch, uint64_t otherwise, uint64_t most, change *how, uint64_t by)
{
	uint64_t before = __atomic_load_n(word, __ATOMIC_SEQ_CST), value;

	do {
		value = value_in(before, epoch, otherwise, most);
		if (!how(&value, by))
			return false;
		value = (uint64_t)epoch << VALUE_BITS | (rea_time_min(value, most) + 1);
	} while (!__atomic_compare_exchange_n(word, &before, value, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return true;
}

static bool add(uint64_t *value, uint64_t by)
{
	*value += by;
	return true;
}

static bool take(uint64_t *value, uint64_t by)
{
	bool enough = *value >= by;

	*value -= enough ? by : 0;
	return enough;
}

static bool raise(uint64_t *value, uint64_t by)
{
	bool more = *value < by;

	*value = by;
	return more;
}

static bool put(uint64_t *value, uint64_t by)
{
	*value = by;
	return true;
}

/* Towards `by`, by the weight of one outcome. */
static bool approach(uint64_t *value, uint64_t by)
{
	*value = (uint64_t)((double)*value + REA__EVIDENCE_SUCCESS_WEIGHT * ((double)by - (double)*value));
	return true;
}

#define TOKENS(shared) &(shared)->tokens, epoch, REA__EVIDENCE_TOKENS_MAX, REA__EVIDENCE_TOKENS_MAX

/* ---- what has been seen ---- */

static uint64_t to_ms(uint64_t ns)
{
	return ns / REA_NS_PER_MS;
}

static uint64_t time_of(const uint64_t *word, uint32_t epoch, uint64_t most_ns)
{
	uint64_t time_ms = value_of(word, epoch, 0, to_ms(rea_time_add(most_ns, AHEAD_NS)));

	return rea_time_min(rea_time_from_ms(time_ms), most_ns);
}

static struct rea_evidence heat_of(uint64_t value)
{
	uint32_t bits = (uint32_t)value, kind = (uint32_t)(value >> FLOAT_BITS);
	float number;

	memcpy(&number, &bits, sizeof(number));
	if (kind > REA_EVIDENCE_PUSHBACK || !(number >= 0 && number <= FLT_MAX))
		kind = REA_EVIDENCE_NONE;
	return (struct rea_evidence){.kind = kind == REA_EVIDENCE_NONE ? REA_EVIDENCE_LATENCY : (enum rea_evidence_kind)kind,
	    .value = kind == REA_EVIDENCE_NONE ? 0 : (double)number};
}

static uint64_t value_of_heat(struct rea_evidence heat)
{
	float number = (float)heat.value;
	uint32_t bits;

	memcpy(&bits, &number, sizeof(bits));
	return (uint64_t)heat.kind << FLOAT_BITS | bits;
}

void rea__shared_evidence_pull(const struct rea__shared_evidence *shared, struct rea__common_budget *common,
    uint32_t epoch, struct rea__evidence *evidence)
{
	uint64_t now_ns = evidence->now_ns,
		 congested_ns = time_of(&shared->congested, epoch, rea_time_add(now_ns, REA__EVIDENCE_CONGESTED_NS));

	evidence->tokens = (uint32_t)value_of(TOKENS(shared));
	evidence->success = (double)value_of(&shared->success, epoch, ONE, ONE) / (double)ONE;
	evidence->last_ok_ns = rea_time_max(evidence->last_ok_ns, time_of(&shared->ok, epoch, now_ns));
	evidence->trouble_ns = rea_time_max(evidence->trouble_ns, time_of(&shared->trouble, epoch, now_ns));
	if (congested_ns > evidence->congested_until_ns) {
		evidence->congested_until_ns = congested_ns;
		evidence->heat = heat_of(value_of(&shared->heat, epoch, 0, VALUE_MAX));
	}
	evidence->window.firsts = (uint32_t)rea__common_window_sum(&common->deposits, epoch, WINDOW_MS, to_ms(now_ns));
	evidence->window.retries = (uint32_t)rea__common_window_sum(&common->retries, epoch, WINDOW_MS, to_ms(now_ns));
}

void rea__shared_evidence_push(struct rea__shared_evidence *shared, struct rea__common_budget *common, uint32_t epoch,
    const struct rea__evidence *evidence, const struct rea__budget_attempt *attempt)
{
	bool ok = attempt != NULL && attempt->result == REA_BUDGET_SUCCESS;
	uint64_t most_ms = rea_time_add(to_ms(evidence->now_ns), STRANGE_MS);

	if (attempt == NULL) {
		rea__common_window_add(&common->deposits, epoch, to_ms(evidence->now_ns));
		update(TOKENS(shared), add, REA__EVIDENCE_TOKEN / 10);
		return;
	}
	if (ok || !attempt->stop)
		update(&shared->success, epoch, ONE, ONE, approach, ok ? ONE : 0);
	if (ok)
		update(&shared->ok, epoch, 0, most_ms, raise, to_ms(evidence->now_ns));
	update(&shared->trouble, epoch, 0, most_ms, raise, to_ms(evidence->trouble_ns));
	/* Rounded up, lest it ends before it does for who has seen it. What showed it is told first. */
	if (rea_time_from_ms(value_of(&shared->congested, epoch, 0, most_ms)) < evidence->congested_until_ns) {
		update(&shared->heat, epoch, 0, VALUE_MAX, put, value_of_heat(evidence->heat));
		update(&shared->congested, epoch, 0, most_ms, raise, to_ms(evidence->congested_until_ns) + 1);
	}
}

/* ---- retries ---- */

/* Written down first and looked at afterwards, as under the rule ratio: of those who take at the same moment the last one sees all. */
bool rea__shared_evidence_take(
    struct rea__shared_evidence *shared, struct rea__common_budget *common, uint32_t epoch, bool token, uint64_t now_ns)
{
	uint64_t now_ms = to_ms(now_ns);
	bool taken;

	rea__common_window_add(&common->retries, epoch, now_ms);
	taken = token ? update(TOKENS(shared), take, REA__EVIDENCE_TOKEN)
		      : rea__common_window_sum(&common->retries, epoch, WINDOW_MS, now_ms) <=
			    rea__evidence_room(rea__common_window_sum(&common->deposits, epoch, WINDOW_MS, now_ms));
	if (!taken)
		rea__common_window_remove(&common->retries, epoch, now_ms);
	return taken;
}

void rea__shared_evidence_give_back(struct rea__shared_evidence *shared, struct rea__common_budget *common,
    uint32_t epoch, bool token, uint64_t taken_ns)
{
	rea__common_window_remove(&common->retries, epoch, to_ms(taken_ns));
	if (token)
		update(TOKENS(shared), add, REA__EVIDENCE_TOKEN);
}
