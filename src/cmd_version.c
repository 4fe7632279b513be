#include "cmd.h"

#include <rea/api.h>

#include <stdio.h>

int cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("rea %s\n", rea_version());
	return 0;
}
