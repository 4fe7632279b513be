#include "run/codes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define CODES 256

void run_codes_init(struct run_codes *codes)
{
	static const uint8_t permanent[] = {2, EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_NOUSER, EX_PROTOCOL, EX_NOPERM,
	    EX_CONFIG, RUN_CANNOT_RUN, RUN_NOT_FOUND};

	for (int code = 0; code < CODES; code++)
		codes->outcomes[code] = code > RUN_SIGNALLED ? REA_OUTCOME_AMBIGUOUS : REA_OUTCOME_FAILED;
	for (size_t i = 0; i < sizeof(permanent); i++)
		codes->outcomes[permanent[i]] = REA_OUTCOME_PERMANENT;
	codes->outcomes[EX_UNAVAILABLE] = codes->outcomes[EX_TEMPFAIL] = REA_OUTCOME_UNAVAILABLE;
	codes->outcomes[0] = REA_OUTCOME_OK;
}

static int refuse(struct rea_error_info *info, const char *list)
{
	memset(info, 0, sizeof(*info));
	snprintf(info->message, sizeof(info->message),
	    "\"%.100s\" is no list of exit codes; expected numbers and ranges from 1 to 255 such as 1,75,100-110", list);
	return REA_ERR_INVALID;
}

/* A number 1..255 at *at, which moves behind it. */
static bool read_code(const char **at, unsigned *ret_code)
{
	unsigned code = 0;
	const char *start = *at;

	while (**at >= '0' && **at <= '9' && code < CODES)
		code = code * 10 + (unsigned)(*(*at)++ - '0');
	*ret_code = code;
	return *at > start && code >= 1 && code < CODES;
}

static int read_list(const char *list, bool named[CODES], struct rea_error_info *info)
{
	const char *at = list;
	unsigned first, last;

	memset(named, 0, CODES * sizeof(*named));
	do {
		if (!read_code(&at, &first))
			return refuse(info, list);
		last = first;
		if (*at == '-' && (at++, !read_code(&at, &last) || last < first))
			return refuse(info, list);
		for (unsigned code = first; code <= last; code++)
			named[code] = true;
	} while (*at == ',' && *++at != '\0');
	return *at == '\0' && at[-1] != ',' ? 0 : refuse(info, list);
}

int run_codes_retry(struct run_codes *codes, const char *list, struct rea_error_info *ret_info)
{
	bool named[CODES];
	int error = read_list(list, named, ret_info);

	if (error != 0)
		return error;
	if (named[RUN_CANNOT_RUN] || named[RUN_NOT_FOUND]) {
		memset(ret_info, 0, sizeof(*ret_info));
		snprintf(ret_info->message, sizeof(ret_info->message),
		    "126 and 127 say that there is nothing to run: they are never retried");
		return REA_ERR_INVALID;
	}
	for (int code = 1; code < CODES; code++)
		if (!named[code])
			codes->outcomes[code] = REA_OUTCOME_PERMANENT;
		else if (codes->outcomes[code] == REA_OUTCOME_PERMANENT)
			codes->outcomes[code] = REA_OUTCOME_FAILED;
	return 0;
}

int run_codes_permanent(struct run_codes *codes, const char *list, struct rea_error_info *ret_info)
{
	bool named[CODES];
	int error = read_list(list, named, ret_info);

	for (int code = 1; error == 0 && code < CODES; code++)
		if (named[code])
			codes->outcomes[code] = REA_OUTCOME_PERMANENT;
	return error;
}
