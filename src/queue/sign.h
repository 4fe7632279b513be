/*
 * Standard Webhooks signatures: `webhook-signature` over id, timestamp and body, by every key that is valid now, so that a secret can be exchanged while
 * receivers still know only the old one. Sans-IO.
 */
#ifndef REA_SRC_QUEUE_SIGN_H
#define REA_SRC_QUEUE_SIGN_H

#include "base/buffer.h"

#include <rea/error.h>

#include <stdbool.h>
#include <stdint.h>

#define SIGN_KEY_MIN 24 /* bytes of a symmetric secret */
#define SIGN_KEY_MAX 64
#define SIGN_KEYS_MAX 8 /* for one target */

struct sign_key {
	uint8_t bytes[SIGN_KEY_MAX]; /* the secret; with ed25519 the 32 bytes that the key pair is made from */
	size_t len;
	bool ed25519; /* v1a, else HMAC-SHA256: v1 */
};

/* `whsec_` and 24 to 64 bytes in base64, or `whsk_` and an ed25519 private key of 32 bytes, or of 64 with its public half behind. Returns
 * 0 or REA_ERR_INVALID, with message (it never shows the secret). */
int sign_key_parse(struct rea_slice text, struct sign_key *ret_key, struct rea_error_info *ret_info);

/* Appends "v1,<base64>", one per key with a space between, over "<id>.<timestamp>.<body>". Returns 0 or REA_ERR_NOMEM, and then what was appended is
 * of no use. */
int sign_append(struct rea_buffer *out, const struct sign_key *keys, size_t keys_len, struct rea_slice id,
    int64_t timestamp_s, struct rea_slice body);

#endif
