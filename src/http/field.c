/* Names of fields that somebody acts on, and look-ups in a list of fields. */
#include "http/http.h"

/* Length and one letter tell the known names apart; the compiler refuses two equal cases. */
#define KEY(length, letter) ((unsigned)(length) << 8 | (unsigned char)(letter))
#define KEY_INDEX 4

static const struct rea_slice names[] = {{NULL, 0},
#define X(id, text) {text, sizeof(text) - 1},
    HTTP_FIELD_MAP(X)
#undef X
};

static enum http_field_id candidate(struct rea_slice name)
{
	size_t index = name.length > KEY_INDEX ? KEY_INDEX : name.length - 1;

	/* clang-format off */
	switch (KEY(name.length, rea_ascii_lower(name.data[index]))) {
	case KEY(2, 'e'): return HTTP_FIELD_TE;
	case KEY(3, 'a'): return HTTP_FIELD_VIA;
	case KEY(4, 't'): return HTTP_FIELD_HOST;
	case KEY(4, 'e'): return HTTP_FIELD_DATE;
	case KEY(6, 'c'): return HTTP_FIELD_EXPECT;
	case KEY(7, 'l'): return HTTP_FIELD_TRAILER;
	case KEY(7, 'a'): return HTTP_FIELD_UPGRADE;
	case KEY(9, 'r'): return HTTP_FIELD_REA_RETRY;
	case KEY(10, 'e'): return HTTP_FIELD_CONNECTION;
	case KEY(10, '-'): return HTTP_FIELD_KEEP_ALIVE;
	case KEY(10, 'r'): return HTTP_FIELD_REA_REASON;
	case KEY(11, 'y'): return HTTP_FIELD_RETRY_AFTER;
	case KEY(11, 'e'): return HTTP_FIELD_TRACEPARENT;
	case KEY(11, 'a'): return HTTP_FIELD_REA_ATTEMPT;
	case KEY(11, '-'): return HTTP_FIELD_GRPC_STATUS;
	case KEY(12, 'e'): return HTTP_FIELD_CONTENT_TYPE;
	case KEY(12, '-'): return HTTP_FIELD_GRPC_TIMEOUT;
	case KEY(13, 'o'): return HTTP_FIELD_AUTHORIZATION;
	case KEY(14, 'e'): return HTTP_FIELD_CONTENT_LENGTH;
	case KEY(15, 'r'): return HTTP_FIELD_X_FORWARDED_FOR;
	case KEY(15, 'p'): return HTTP_FIELD_IDEMPOTENCY_KEY;
	case KEY(15, 'd'): return HTTP_FIELD_REA_DEADLINE_MS;
	case KEY(15, 's'): return HTTP_FIELD_AMZ_SDK_REQUEST;
	case KEY(16, 'y'): return HTTP_FIELD_PROXY_CONNECTION;
	case KEY(17, 's'): return HTTP_FIELD_TRANSFER_ENCODING;
	case KEY(18, 'y'): return HTTP_FIELD_PROXY_AUTHENTICATE;
	case KEY(19, 'y'): return HTTP_FIELD_PROXY_AUTHORIZATION;
	case KEY(20, 'p'): return HTTP_FIELD_RPC_PERSIST_RETRYREQ;
	case KEY(21, 'v'): return HTTP_FIELD_X_ENVOY_ATTEMPT_COUNT;
	case KEY(22, '-'): return HTTP_FIELD_GRPC_RETRY_PUSHBACK_MS;
	case KEY(26, '-'): return HTTP_FIELD_GRPC_PREVIOUS_RPC_ATTEMPTS;
	default: return HTTP_FIELD_OTHER;
	}
	/* clang-format on */
}

enum http_field_id http_field_id_of(struct rea_slice name)
{
	enum http_field_id id = name.length > 0 ? candidate(name) : HTTP_FIELD_OTHER;

	return id != HTTP_FIELD_OTHER && rea_slice_equal_nocase(name, names[id]) ? id : HTTP_FIELD_OTHER;
}

const struct http_field *http_field_find(const struct http_field *fields, size_t fields_len, enum http_field_id id)
{
	for (size_t i = 0; i < fields_len; i++)
		if (fields[i].id == id)
			return &fields[i];
	return NULL;
}

const struct http_field *http_field_named(const struct http_field *fields, size_t fields_len, struct rea_slice name)
{
	for (size_t i = 0; i < fields_len; i++)
		if (rea_slice_equal_nocase(fields[i].name, name))
			return &fields[i];
	return NULL;
}
