/* Out of memory: whichever allocation fails, OpenSSL's or ours, a context is not made, a handshake fails or goes on, and nothing is lost. */
#include "loop/tls.h"

#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NEVER SIZE_MAX

static size_t left = NEVER; /* allocations that still succeed */
static char certificate_file[64], key_file[64];

static bool fails(void)
{
	if (left == NEVER)
		return false;
	if (left > 0)
		left--;
	return left == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

/* Of the object under test: strdup and realloc call the C library's own. */
void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

static void *crypto_malloc(size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return fails() ? NULL : __real_malloc(size);
}

static void *crypto_realloc(void *old, size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return fails() ? NULL : realloc(old, size);
}

static void crypto_free(void *old, const char *file, int line)
{
	(void)file;
	(void)line;
	free(old);
}

static int set_up(void **state)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();
	FILE *file;

	(void)state;
	X509_set_version(certificate, 2);
	X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_NAME_add_entry_by_txt(
	    X509_get_subject_name(certificate), "CN", MBSTRING_ASC, (const unsigned char *)"a.internal", -1, -1, 0);
	X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
	X509_set_pubkey(certificate, key);
	X509_sign(certificate, key, EVP_sha256());
	snprintf(certificate_file, sizeof(certificate_file), "rea-tls-oom-XXXXXX");
	file = fdopen(mkstemp(certificate_file), "w");
	PEM_write_X509(file, certificate);
	fclose(file);
	snprintf(key_file, sizeof(key_file), "rea-tls-oom-XXXXXX");
	file = fdopen(mkstemp(key_file), "w");
	PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
	fclose(file);
	X509_free(certificate);
	EVP_PKEY_free(key);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(certificate_file);
	unlink(key_file);
	return 0;
}

static void carry(struct tls_session *from, struct tls_session *to)
{
	char plain[256];

	tls_give(to, rea_buffer_data(tls_wire(from)), rea_buffer_length(tls_wire(from)));
	tls_handshake(to);
	while (tls_read(to, plain, sizeof(plain)) > 0)
		continue;
	rea_buffer_clear(tls_wire(from));
}

/* Returns whether the request arrived at an open end. */
static bool meet(struct tls_context *for_client, struct tls_context *for_server, struct tls_tickets *tickets)
{
	struct tls_session *client = tls_session_client(for_client, "a.internal", true, tickets),
			   *server = tls_session_server(for_server);
	struct rea_buffer plain = {.alloc = NULL};
	bool open = false;

	if (client != NULL && server != NULL) {
		tls_handshake(client);
		for (int i = 0; i < 4; i++) {
			carry(client, server);
			carry(server, client);
		}
		open = tls_session_state(client) == TLS_OPEN && tls_session_state(server) == TLS_OPEN;
		if (open && rea_buffer_append(&plain, "request", 7) == 0 && tls_seal(client, &plain))
			carry(client, server);
		assert_non_null(tls_session_trouble(client));
		tls_close(client);
	}
	rea_buffer_fini(&plain);
	tls_session_free(client);
	tls_session_free(server);
	return open;
}

static void contexts(void **state)
{
	const struct rea_config_tls_name names[] = {{"b.internal", certificate_file, key_file, 1}};
	const struct rea_config_tls config = {.certificate_file = certificate_file,
	    .key_file = key_file,
	    .ca_file = certificate_file,
	    .verify = true,
	    .names = names,
	    .names_len = 1};
	struct tls_context *first;
	bool made = false;

	(void)state;
	/* What is made once for the process is not made again where it has failed. */
	assert_int_equal(tls_context_new(&config, TLS_SERVER, &first, NULL), 0);
	tls_context_unref(first);
	for (size_t n = 1; !made; n += 1 + n / 32) {
		struct tls_context *context = NULL;
		struct rea_error_info info = {.message = ""};
		int error;

		assert_true(n < 100000);
		left = n;
		error = tls_context_new(&config, TLS_SERVER, &context, &info);
		made = left > 0;
		left = NEVER;
		assert_true((error == 0) == (context != NULL));
		assert_true(error == 0 || !made);
		assert_true(error == 0 || info.message[0] != '\0');
		tls_context_unref(context);
	}
}

static void sessions(void **state)
{
	const struct rea_config_tls of_client = {.ca_file = certificate_file, .verify = true},
				    of_server = {.certificate_file = certificate_file, .key_file = key_file, .verify = true};
	struct tls_context *for_client, *for_server;
	bool made = false;

	(void)state;
	assert_int_equal(tls_context_new(&of_client, TLS_CLIENT, &for_client, NULL), 0);
	assert_int_equal(tls_context_new(&of_server, TLS_SERVER, &for_server, NULL), 0);
	/* What OpenSSL makes once for the process. */
	assert_true(meet(for_client, for_server, NULL));
	for (size_t n = 1; !made; n += 1 + n / 32) {
		struct tls_tickets tickets = {.next = 0};

		left = n;
		meet(for_client, for_server, &tickets);
		meet(for_client, for_server, &tickets);
		made = left > 0;
		left = NEVER;
		/* Whatever it was, the next ones are whole. */
		assert_true(meet(for_client, for_server, &tickets));
		tls_tickets_fini(&tickets);
	}
	tls_context_unref(for_client);
	tls_context_unref(for_server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(contexts), cmocka_unit_test(sessions)};

	if (CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free) != 1)
		return 2;
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
