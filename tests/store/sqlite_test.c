#include "conformance.h"

int main(void)
{
	return conformance_run("sqlite", true);
}
