#include <rea/error.h>

const char *rea_error_name(int error)
{
	switch (error) {
	case REA_OK:
		return "ok";
#define X(name, value, text, english) \
	case REA_ERR_##name:          \
		return text;
		REA_ERROR_MAP(X)
#undef X
	default:
		return "unknown";
	}
}

const char *rea_error_text(int error)
{
	switch (error) {
	case REA_OK:
		return "no error";
#define X(name, value, text, english) \
	case REA_ERR_##name:          \
		return english;
		REA_ERROR_MAP(X)
#undef X
	default:
		return "unknown error";
	}
}
