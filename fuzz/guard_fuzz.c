/* Sequences of public calls on a guard, a shared breaker, a limiter and a budget, against the models of tests/unit/guard/drive.h. */
#include "../tests/unit/guard/drive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	drive(data, size);
	return 0;
}
