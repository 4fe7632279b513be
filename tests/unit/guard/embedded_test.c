/* examples/embedded keeps to the RAM that it states: its main runs on a painted stack, and what it has touched is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

int embedded_main(void);
static int print(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define printf print
#define main embedded_main
#include "../../../examples/embedded/main.c"
#undef main
#undef printf

enum { STACK_ROOM = 65536, PAINT = 0xa5 };

static _Alignas(16) uint8_t stack[STACK_ROOM];
static ucontext_t here, there;
static size_t stack_used;
static int exit_code;

static size_t count_used(void)
{
	size_t untouched = 0;

	while (untouched < STACK_ROOM && stack[untouched] == PAINT)
		untouched++;
	return STACK_ROOM - untouched;
}

/* In place of printf, which no microcontroller has, and which comes when all the work is done: it would use more than all of that. */
static int print(const char *format, ...)
{
	char line[256];
	va_list args;

	if (stack_used == 0)
		stack_used = count_used();
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	print_message("%s", line);
	return 0;
}

static void run(void)
{
	exit_code = embedded_main();
}

static void it_keeps_to_its_ram(void **state)
{
	(void)state;
	memset(stack, PAINT, sizeof(stack));
	assert_int_equal(getcontext(&there), 0);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &here;
	makecontext(&there, run, 0);
	assert_int_equal(swapcontext(&here, &there), 0);
	assert_int_equal(exit_code, 0);
	print_message("stack: %zu of %d bytes\n", stack_used, STACK_BYTES);
	assert_in_range(stack_used, 1, STACK_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_keeps_to_its_ram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
