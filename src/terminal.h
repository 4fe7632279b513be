/* What the subcommands know of where they print. */
#ifndef REA_SRC_TERMINAL_H
#define REA_SRC_TERMINAL_H

#include <stdbool.h>

/* Colour only where a person looks at it: a terminal that has it, unless NO_COLOR is set. */
bool terminal_wants_color(int fd);

#endif
