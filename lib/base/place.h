/* Is a path any good? Asked when a file cannot be opened: a name that is wrong tomorrow as well is somebody's mistake, a disk that has its troubles is not. */
#ifndef REA_BASE_PLACE_H
#define REA_BASE_PLACE_H

#include <stdbool.h>

/* Could a file be there, regular and ours to write, on a disk that is well? False: its directory is missing, it is something else, or there is no permission. */
bool rea_place_is_sound(const char *path);

#endif
