/*
 * Level l holds timers that are due within 64^(l+1) ticks, in the slot of their tick's l-th base-64 digit. When the tick's lower digits
 * all turn to zero, the next slot of the level above is spread over the levels below. A bitmap per level tells which slots
 * are in use, so that empty time is skipped.
 *
 * Timers that fall due in the same millisecond fire in no particular order.
 */
#include "loop/wheel.h"

#include <rea/time.h>

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define SLOT_BITS 6
#define SLOT_MASK (WHEEL_SLOTS - 1)
#define DETACHED UINT16_MAX

static uint64_t due_tick(uint64_t due_ns)
{
	return rea_time_to_ms(due_ns);
}

void wheel_init(struct wheel *wheel, uint64_t now_ns)
{
	memset(wheel, 0, sizeof(*wheel));
	wheel->tick = now_ns / REA_NS_PER_MS;
}

static void link_timer(struct wheel_timer **head, struct wheel_timer *timer)
{
	timer->next = *head;
	if (timer->next != NULL)
		timer->next->link = &timer->next;
	timer->link = head;
	*head = timer;
}

static void unlink_timer(struct wheel_timer *timer)
{
	*timer->link = timer->next;
	if (timer->next != NULL)
		timer->next->link = timer->link;
	timer->next = NULL;
	timer->link = NULL;
}

static void place(struct wheel *wheel, struct wheel_timer *timer, uint64_t tick)
{
	uint64_t ahead = tick - wheel->tick;
	unsigned level = 0, slot;

	while (level < WHEEL_LEVELS - 1 && ahead >> (SLOT_BITS * (level + 1)) != 0)
		level++;
	/* What lies beyond the wheel waits in its farthest slot and is placed anew from there. */
	if (ahead >> (SLOT_BITS * WHEEL_LEVELS) != 0)
		tick = wheel->tick + (UINT64_C(1) << (SLOT_BITS * WHEEL_LEVELS)) - 1;
	slot = (unsigned)(tick >> (SLOT_BITS * level)) & SLOT_MASK;
	timer->place = (uint16_t)(level * WHEEL_SLOTS + slot);
	link_timer(&wheel->slots[level][slot], timer);
	wheel->bitmap[level] |= UINT64_C(1) << slot;
}

void wheel_start(struct wheel *wheel, struct wheel_timer *timer, uint64_t due_ns)
{
	uint64_t tick = due_tick(due_ns);

	assert(timer->fire != NULL);
	wheel_stop(wheel, timer);
	timer->due_ns = due_ns;
	place(wheel, timer, tick > wheel->tick ? tick : wheel->tick + 1);
}

void wheel_stop(struct wheel *wheel, struct wheel_timer *timer)
{
	if (timer->link == NULL)
		return;
	unlink_timer(timer);
	if (timer->place != DETACHED) {
		unsigned level = timer->place / WHEEL_SLOTS, slot = timer->place & SLOT_MASK;

		if (wheel->slots[level][slot] == NULL)
			wheel->bitmap[level] &= ~(UINT64_C(1) << slot);
	}
}

/* The first tick after the present one at which a slot of this level is due or has to be spread; UINT64_MAX when it is empty. */
static uint64_t level_next(const struct wheel *wheel, unsigned level)
{
	uint64_t bits = wheel->bitmap[level], here = wheel->tick >> (SLOT_BITS * level);
	unsigned digit = (unsigned)(here + 1) & SLOT_MASK, steps;

	if (bits == 0)
		return UINT64_MAX;
	/* Rotate so that bit 0 is the slot one step ahead. */
	bits = digit == 0 ? bits : bits >> digit | bits << (WHEEL_SLOTS - digit);
	steps = (unsigned)__builtin_ctzll(bits) + 1;
	return (here + steps) << (SLOT_BITS * level);
}

static uint64_t next_tick(const struct wheel *wheel)
{
	uint64_t next = UINT64_MAX;

	for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
		uint64_t tick = level_next(wheel, level);

		if (tick < next)
			next = tick;
	}
	return next;
}

uint64_t wheel_next(const struct wheel *wheel)
{
	uint64_t tick = next_tick(wheel);

	return tick == UINT64_MAX ? UINT64_MAX : rea_time_from_ms(tick);
}

/* Take a slot's timers onto a private list. */
static void detach(struct wheel *wheel, unsigned level, unsigned slot, struct wheel_timer **list)
{
	struct wheel_timer *timer;

	while ((timer = wheel->slots[level][slot]) != NULL) {
		unlink_timer(timer);
		timer->place = DETACHED;
		link_timer(list, timer);
	}
	wheel->bitmap[level] &= ~(UINT64_C(1) << slot);
}

static void spread(struct wheel *wheel, unsigned level)
{
	unsigned slot = (unsigned)(wheel->tick >> (SLOT_BITS * level)) & SLOT_MASK;
	struct wheel_timer *list = NULL, *timer;

	detach(wheel, level, slot, &list);
	while ((timer = list) != NULL) {
		uint64_t tick = due_tick(timer->due_ns);

		unlink_timer(timer);
		/* Due at this very tick: slot 0 of level 0 is run right after. */
		place(wheel, timer, tick > wheel->tick ? tick : wheel->tick);
	}
}

static void run_tick(struct wheel *wheel, uint64_t now_ns)
{
	struct wheel_timer *list = NULL, *timer;

	for (unsigned level = WHEEL_LEVELS - 1; level > 0; level--)
		if ((wheel->tick & ((UINT64_C(1) << (SLOT_BITS * level)) - 1)) == 0)
			spread(wheel, level);
	detach(wheel, 0, (unsigned)wheel->tick & SLOT_MASK, &list);
	while ((timer = list) != NULL) {
		unlink_timer(timer);
		timer->fire(timer, now_ns);
	}
}

void wheel_run(struct wheel *wheel, uint64_t now_ns)
{
	uint64_t now = now_ns / REA_NS_PER_MS, next;

	while ((next = next_tick(wheel)) <= now) {
		wheel->tick = next;
		run_tick(wheel, now_ns);
	}
	if (now > wheel->tick)
		wheel->tick = now;
}
