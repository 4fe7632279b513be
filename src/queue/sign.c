#include "queue/sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <stdio.h>
#include <string.h>

#define ED25519_KEY_BYTES 32
#define ED25519_SIGNATURE_BYTES 64
#define SHA256_BYTES 32

/* ---- keys ---- */

static bool starts_with(struct rea_slice text, struct rea_slice prefix)
{
	return text.length >= prefix.length && memcmp(text.data, prefix.data, prefix.length) == 0;
}

static int refuse(struct rea_error_info *ret_info, const char *message)
{
	if (ret_info != NULL) {
		memset(ret_info, 0, sizeof(*ret_info));
		snprintf(ret_info->message, sizeof(ret_info->message), "%s", message);
	}
	return REA_ERR_INVALID;
}

static int digit_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Strict: nothing but base64, with its padding or without. False = not that, or more than size bytes. */
static bool decode(struct rea_slice text, uint8_t *ret_bytes, size_t size, size_t *ret_len)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t len = 0, padding = 0;

	while (padding < 2 && text.length > 0 && text.data[text.length - 1] == '=') {
		text.length--;
		padding++;
	}
	if (text.length % 4 == 1 || (padding > 0 && (text.length + padding) % 4 != 0))
		return false;
	for (size_t i = 0; i < text.length; i++) {
		int digit = digit_of(text.data[i]);

		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		if (len == size)
			return false;
		ret_bytes[len++] = (uint8_t)(bits >> have);
	}
	*ret_len = len;
	return (bits & ((1U << have) - 1)) == 0;
}

static EVP_PKEY *private_key(const struct sign_key *key)
{
	return EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, key->bytes, ED25519_KEY_BYTES);
}

static bool fits_public_half(const struct sign_key *key)
{
	uint8_t half[ED25519_KEY_BYTES];
	size_t len = sizeof(half);
	EVP_PKEY *pkey = private_key(key);
	bool fits = pkey != NULL && EVP_PKEY_get_raw_public_key(pkey, half, &len) == 1 &&
		    memcmp(half, key->bytes + ED25519_KEY_BYTES, sizeof(half)) == 0;

	EVP_PKEY_free(pkey);
	return fits;
}

int sign_key_parse(struct rea_slice text, struct sign_key *ret_key, struct rea_error_info *ret_info)
{
	static const struct rea_slice symmetric = REA_SLICE_LIT("whsec_"), asymmetric = REA_SLICE_LIT("whsk_");
	struct sign_key key = {.ed25519 = starts_with(text, asymmetric)};
	size_t prefix = key.ed25519 ? asymmetric.length : symmetric.length;

	if (!key.ed25519 && !starts_with(text, symmetric))
		return refuse(ret_info, "a signing secret begins with whsec_ (HMAC-SHA256) or whsk_ (ed25519)");
	if (!decode(rea_slice_make(text.data + prefix, text.length - prefix), key.bytes, sizeof(key.bytes), &key.len))
		return refuse(ret_info, "what follows whsec_ or whsk_ is base64 of at most 64 bytes");
	if (!key.ed25519 && key.len < SIGN_KEY_MIN)
		return refuse(ret_info, "a whsec_ secret has 24 to 64 bytes (32 to 88 characters of base64)");
	if (key.ed25519 && key.len != ED25519_KEY_BYTES && (key.len != SIGN_KEY_MAX || !fits_public_half(&key)))
		return refuse(ret_info,
		    "a whsk_ key is an ed25519 private key: 32 bytes, or 64 with the public half that belongs to it");
	*ret_key = key;
	return 0;
}

/* ---- signatures ---- */

/* What is signed: id "." timestamp "." body, as they are sent. */
static int make_message(struct rea_buffer *message, struct rea_slice id, int64_t timestamp_s, struct rea_slice body)
{
	int error = rea_buffer_append_slice(message, id);

	if (error == 0)
		error = rea_buffer_append(message, ".", 1);
	if (error == 0)
		error = rea_buffer_append_u64(message, (uint64_t)timestamp_s);
	if (error == 0)
		error = rea_buffer_append(message, ".", 1);
	return error == 0 ? rea_buffer_append_slice(message, body) : error;
}

static bool hmac(const struct sign_key *key, const struct rea_buffer *message, uint8_t *ret_signature)
{
	return HMAC(EVP_sha256(), key->bytes, (int)key->len, (const uint8_t *)rea_buffer_data(message),
		   rea_buffer_length(message), ret_signature, NULL) != NULL;
}

static bool ed25519(const struct sign_key *key, const struct rea_buffer *message, uint8_t *ret_signature)
{
	EVP_PKEY *pkey = private_key(key);
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	size_t len = ED25519_SIGNATURE_BYTES;
	bool made = pkey != NULL && context != NULL && EVP_DigestSignInit(context, NULL, NULL, NULL, pkey) == 1 &&
		    EVP_DigestSign(context, ret_signature, &len, (const uint8_t *)rea_buffer_data(message),
			rea_buffer_length(message)) == 1;

	EVP_MD_CTX_free(context);
	EVP_PKEY_free(pkey);
	return made;
}

static int append_one(struct rea_buffer *out, const struct sign_key *key, const struct rea_buffer *message)
{
	uint8_t bytes[ED25519_SIGNATURE_BYTES], text[ED25519_SIGNATURE_BYTES / 3 * 4 + 8];
	int text_len;

	/* With a key that was parsed OpenSSL fails at neither, but for memory. */
	if (!(key->ed25519 ? ed25519(key, message, bytes) : hmac(key, message, bytes)))
		return REA_ERR_NOMEM;
	text_len = EVP_EncodeBlock(text, bytes, key->ed25519 ? ED25519_SIGNATURE_BYTES : SHA256_BYTES);
	if (rea_buffer_append_slice(out, key->ed25519 ? REA_SLICE_LIT("v1a,") : REA_SLICE_LIT("v1,")) != 0)
		return REA_ERR_NOMEM;
	return rea_buffer_append(out, (const char *)text, (size_t)text_len);
}

int sign_append(struct rea_buffer *out, const struct sign_key *keys, size_t keys_len, struct rea_slice id,
    int64_t timestamp_s, struct rea_slice body)
{
	struct rea_buffer message = {0};
	int error = make_message(&message, id, timestamp_s, body);

	for (size_t i = 0; error == 0 && i < keys_len; i++) {
		if (i > 0)
			error = rea_buffer_append(out, " ", 1);
		if (error == 0)
			error = append_one(out, &keys[i], &message);
	}
	rea_buffer_fini(&message);
	return error;
}
