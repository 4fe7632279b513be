#include "lab/agenda.h"

#include <rea/error.h>

#include <stdlib.h>

void lab_agenda_fini(struct lab_agenda *agenda)
{
	rea_heap_fini(&agenda->heap, rea_alloc_default());
	free(agenda->timers);
	free(agenda->free);
	*agenda = (struct lab_agenda){.len = 0};
}

static int grow(struct lab_agenda *agenda)
{
	uint32_t capacity = agenda->capacity > 0 ? 2 * agenda->capacity : 256;
	struct lab_timer **timers = realloc(agenda->timers, capacity * sizeof(struct lab_timer *));
	uint32_t *numbers = NULL;

	if (timers == NULL)
		return REA_ERR_NOMEM;
	agenda->timers = timers;
	numbers = realloc(agenda->free, capacity * sizeof(*numbers));
	if (numbers == NULL)
		return REA_ERR_NOMEM;
	agenda->free = numbers;
	if (rea_heap_reserve(&agenda->heap, capacity, rea_alloc_default()) != 0)
		return REA_ERR_NOMEM;
	agenda->capacity = capacity;
	return 0;
}

int lab_agenda_join(struct lab_agenda *agenda, struct lab_timer *timer, void (*fire)(struct lab_timer *timer, uint64_t now_ns))
{
	if (agenda->free_len == 0 && agenda->len == agenda->capacity && grow(agenda) != 0)
		return REA_ERR_NOMEM;
	timer->number = agenda->free_len > 0 ? agenda->free[--agenda->free_len] : agenda->len++;
	timer->fire = fire;
	timer->set = false;
	agenda->timers[timer->number] = timer;
	return 0;
}

void lab_agenda_leave(struct lab_agenda *agenda, struct lab_timer *timer)
{
	lab_agenda_unset(agenda, timer);
	agenda->free[agenda->free_len++] = timer->number;
}

void lab_agenda_set(struct lab_agenda *agenda, struct lab_timer *timer, uint64_t due_ns)
{
	lab_agenda_unset(agenda, timer);
	rea_heap_push(&agenda->heap, timer->number, due_ns);
	timer->set = true;
}

void lab_agenda_unset(struct lab_agenda *agenda, struct lab_timer *timer)
{
	if (timer->set)
		rea_heap_remove(&agenda->heap, timer->number);
	timer->set = false;
}

uint64_t lab_agenda_next(const struct lab_agenda *agenda)
{
	return rea_heap_next(&agenda->heap);
}

void lab_agenda_fire(struct lab_agenda *agenda, uint64_t now_ns)
{
	struct lab_timer *timer = agenda->timers[rea_heap_pop(&agenda->heap)];

	timer->set = false;
	timer->fire(timer, now_ns);
}
