/* Two TLS sessions back to back in memory: who is believed, who is refused and with which words, what is sent when, what is resumed. */
#include "loop/tls.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define DAY 86400L
#define FILES 64

static char directory[64];
static char *files[FILES];
static size_t files_len;

/* ------------------------------------------------------------------ certificates */

struct identity {
	X509 *certificate;
	EVP_PKEY *key;
	const char *certificate_file;
	const char *key_file;
};

static struct identity authority, stranger, good, expired, early, elsewhere, by_stranger, ours, address_only, nameless;

static const char *file_named(const char *name)
{
	char *path = malloc(128);

	snprintf(path, 128, "%s/%s", directory, name);
	assert_true(files_len < FILES);
	files[files_len++] = path;
	return path;
}

static const char *write_file(const char *name, const char *text)
{
	const char *path = file_named(name);
	FILE *file = fopen(path, "w");

	fputs(text, file);
	fclose(file);
	return path;
}

static void write_identity(struct identity *identity, const char *name)
{
	char text[64];
	FILE *file;

	snprintf(text, sizeof(text), "%s.pem", name);
	identity->certificate_file = file_named(text);
	file = fopen(identity->certificate_file, "w");
	PEM_write_X509(file, identity->certificate);
	fclose(file);
	snprintf(text, sizeof(text), "%s.key", name);
	identity->key_file = file_named(text);
	file = fopen(identity->key_file, "w");
	PEM_write_PrivateKey(file, identity->key, NULL, NULL, 0, NULL, NULL);
	fclose(file);
	chmod(identity->key_file, 0600);
}

/* issuer NULL = itself. names: as "DNS:a, IP:1.2.3.4"; NULL = none. */
static void make(struct identity *identity, const char *name, const struct identity *issuer, const char *names,
    long from_s, long to_s)
{
	static long serial = 1;
	X509 *certificate = X509_new();
	X509_NAME *subject = X509_get_subject_name(certificate);
	X509_EXTENSION *extension;

	identity->certificate = certificate;
	identity->key = EVP_EC_gen("P-256");
	X509_set_version(certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
	X509_gmtime_adj(X509_getm_notBefore(certificate), from_s);
	X509_gmtime_adj(X509_getm_notAfter(certificate), to_s);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(certificate, issuer != NULL ? X509_get_subject_name(issuer->certificate) : subject);
	X509_set_pubkey(certificate, identity->key);
	extension = names != NULL ? X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names)
				  : X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints,
					issuer == NULL ? "critical,CA:TRUE" : "CA:FALSE");
	X509_add_ext(certificate, extension, -1);
	X509_EXTENSION_free(extension);
	assert_true(X509_sign(certificate, issuer != NULL ? issuer->key : identity->key, EVP_sha256()) > 0);
	write_identity(identity, name);
}

static struct identity *const identities[] = {
    &authority, &stranger, &good, &expired, &early, &elsewhere, &by_stranger, &ours, &address_only, &nameless};

static int set_up(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "rea-tls-test-XXXXXX");
	assert_non_null(mkdtemp(directory));
	make(&authority, "authority", NULL, NULL, -DAY, DAY);
	make(&stranger, "stranger", NULL, NULL, -DAY, DAY);
	make(&good, "good", &authority, "DNS:users.internal, IP:10.0.0.7", -DAY, DAY);
	make(&expired, "expired", &authority, "DNS:users.internal", -2 * DAY, -DAY);
	make(&early, "early", &authority, "DNS:users.internal", DAY, 2 * DAY);
	make(&elsewhere, "elsewhere", &authority,
	    "DNS:a.example, DNS:*.b.example, IP:10.0.0.8, DNS:c.example, DNS:d.example", -DAY, DAY);
	make(&by_stranger, "by-stranger", &stranger, "DNS:users.internal", -DAY, DAY);
	make(&ours, "ours", &authority, "DNS:rea.internal", -DAY, DAY);
	make(&address_only, "address", &authority, "IP:10.0.0.7", -DAY, DAY);
	make(&nameless, "nameless", &authority, NULL, -DAY, DAY);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(identities) / sizeof(identities[0]); i++) {
		X509_free(identities[i]->certificate);
		EVP_PKEY_free(identities[i]->key);
	}
	for (size_t i = 0; i < files_len; i++) {
		unlink(files[i]);
		free(files[i]);
	}
	rmdir(directory);
	return 0;
}

/* ------------------------------------------------------------------ two ends */

struct end {
	struct tls_session *session;
	struct rea_buffer got; /* plaintext */
};

static struct tls_context *context(const struct rea_config_tls *config, enum tls_side side)
{
	struct tls_context *made = NULL;
	struct rea_error_info info = {.message = ""};

	if (tls_context_new(config, side, &made, &info) != 0)
		fail_msg("%s: %s", info.file, info.message);
	return made;
}

static struct tls_context *server_with(const struct identity *identity)
{
	const struct rea_config_tls config = {
	    .certificate_file = identity->certificate_file, .key_file = identity->key_file, .verify = true};

	return context(&config, TLS_SERVER);
}

static struct tls_context *client_of_authority(void)
{
	const struct rea_config_tls config = {.ca_file = authority.certificate_file, .verify = true};

	return context(&config, TLS_CLIENT);
}

/* What stands on the wire of one arrives at the other, in pieces of at most step bytes. Returns whether there was something. */
static bool carry(struct end *from, struct end *to, size_t step)
{
	struct rea_buffer *wire = tls_wire(from->session);
	char plain[4096];
	size_t length, got;

	if (rea_buffer_length(wire) == 0)
		return false;
	while ((length = rea_buffer_length(wire)) > 0) {
		length = length < step ? length : step;
		tls_give(to->session, rea_buffer_data(wire), length);
		tls_handshake(to->session);
		while ((got = tls_read(to->session, plain, sizeof(plain))) > 0)
			rea_buffer_append(&to->got, plain, got);
		rea_buffer_consume(wire, length);
	}
	return true;
}

static void talk_in_steps(struct end *client, struct end *server, size_t step)
{
	bool more = true;

	tls_handshake(client->session);
	while (more) {
		more = carry(client, server, step);
		more = carry(server, client, step) || more;
	}
}

static void talk(struct end *client, struct end *server)
{
	talk_in_steps(client, server, SIZE_MAX);
}

static void say(struct end *end, const char *text)
{
	struct rea_buffer plain = {.alloc = NULL};

	rea_buffer_append(&plain, text, strlen(text));
	assert_true(tls_seal(end->session, &plain));
	assert_int_equal(rea_buffer_length(&plain), 0);
	rea_buffer_fini(&plain);
}

static void end_free(struct end *end)
{
	tls_session_free(end->session);
	rea_buffer_fini(&end->got);
	memset(end, 0, sizeof(*end));
}

#define assert_heard(end, text)                                                       \
	do {                                                                          \
		assert_int_equal(rea_buffer_length(&(end).got), strlen(text));        \
		assert_memory_equal(rea_buffer_data(&(end).got), text, strlen(text)); \
	} while (0)

/* ------------------------------------------------------------------ who is believed */

static void both_ends_hear_each_other_and_the_end(void **state)
{
	struct tls_context *for_server = server_with(&good), *for_client = client_of_authority();

	(void)state;
	for (size_t step = 1; step < 5000; step *= 7) {
		struct end client = {.session = tls_session_client(for_client, "users.internal", false, NULL)},
			   server = {.session = tls_session_server(for_server)};

		talk_in_steps(&client, &server, step);
		assert_int_equal(tls_session_state(client.session), TLS_OPEN);
		assert_int_equal(tls_session_state(server.session), TLS_OPEN);
		say(&client, "request");
		talk_in_steps(&client, &server, step);
		assert_heard(server, "request");
		say(&server, "reply");
		tls_close(server.session);
		talk_in_steps(&client, &server, step);
		assert_heard(client, "reply");
		assert_int_equal(tls_session_state(client.session), TLS_PEER_CLOSED);
		assert_string_equal(tls_session_trouble(client.session), "");
		/* The end of one direction is not that of the other. */
		say(&client, "!");
		tls_close(client.session);
		talk_in_steps(&client, &server, step);
		assert_heard(server, "request!");
		assert_int_equal(tls_session_state(server.session), TLS_PEER_CLOSED);
		/* The socket's end is nothing new then. */
		tls_end(server.session, "the peer closed the connection");
		assert_int_equal(tls_session_state(server.session), TLS_PEER_CLOSED);
		end_free(&client);
		end_free(&server);
	}
	tls_context_unref(for_server);
	tls_context_unref(for_client);
}

static void much_is_many_records(void **state)
{
	struct tls_context *for_server = server_with(&good), *for_client = client_of_authority();
	struct end client = {.session = tls_session_client(for_client, "users.internal", false, NULL)},
		   server = {.session = tls_session_server(for_server)};
	char *text = malloc(100001);

	(void)state;
	for (size_t i = 0; i < 100000; i++)
		text[i] = (char)('a' + i % 23);
	text[100000] = '\0';
	talk(&client, &server);
	say(&client, text);
	talk_in_steps(&client, &server, 16384);
	assert_heard(server, text);
	free(text);
	end_free(&client);
	end_free(&server);
	tls_context_unref(for_server);
	tls_context_unref(for_client);
}

/* The client refuses: it has nothing to seal into, and the server reads nothing. */
static void refused(const struct identity *shown, const char *name, const char *pattern)
{
	struct tls_context *for_server = server_with(shown), *for_client = client_of_authority();
	struct end client = {.session = tls_session_client(for_client, name, false, NULL)},
		   server = {.session = tls_session_server(for_server)};
	struct rea_buffer plain = {.alloc = NULL};
	char words[256], date[32];
	struct tm tm;

	talk(&client, &server);
	assert_int_equal(tls_session_state(client.session), TLS_FAILED);
	assert_int_equal(tls_session_state(server.session), TLS_FAILED);
	assert_int_equal(
	    ASN1_TIME_to_tm(
		shown == &early ? X509_get0_notBefore(shown->certificate) : X509_get0_notAfter(shown->certificate), &tm),
	    1);
	strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm);
	snprintf(words, sizeof(words), "%.*s%s%s", (int)strcspn(pattern, "@"), pattern,
	    strchr(pattern, '@') ? date : "", strchr(pattern, '@') ? strchr(pattern, '@') + 1 : "");
	assert_string_equal(tls_session_trouble(client.session), words);
	rea_buffer_append(&plain, "secret", 6);
	assert_false(tls_seal(client.session, &plain));
	assert_int_equal(rea_buffer_length(tls_wire(client.session)), 0);
	assert_int_equal(rea_buffer_length(&server.got), 0);
	assert_false(tls_session_asked_plainly(server.session));
	rea_buffer_fini(&plain);
	end_free(&client);
	end_free(&server);
	tls_context_unref(for_server);
	tls_context_unref(for_client);
}

static void a_wrong_certificate_is_refused_with_the_reason(void **state)
{
	char unknown[256];

	(void)state;
	snprintf(unknown, sizeof(unknown),
	    "the certificate is not vouched for by %s (unable to get local issuer certificate)", authority.certificate_file);
	refused(&expired, "users.internal", "the certificate has expired (@)");
	refused(&early, "users.internal", "the certificate is not valid yet (from @)");
	refused(&elsewhere, "users.internal",
	    "the certificate is for a.example, *.b.example, 10.0.0.8 and 2 more, not for users.internal");
	refused(&elsewhere, "a.b.b.example",
	    "the certificate is for a.example, *.b.example, 10.0.0.8 and 2 more, not for a.b.b.example");
	refused(&good, "10.0.0.8", "the certificate is for users.internal, 10.0.0.7, not for 10.0.0.8");
	refused(&address_only, "users.internal", "the certificate is for 10.0.0.7, not for users.internal");
	refused(&nameless, "users.internal", "the certificate is for no name at all, not for users.internal");
	refused(&by_stranger, "users.internal", unknown);
}

/* client certificates: shown NULL = none. Returns what the server had to say. */
static struct end meet(struct tls_context *for_server, const struct rea_config_tls *config, const char *name, bool h2,
    struct tls_tickets *tickets, struct end *client)
{
	struct tls_context *for_client = context(config, TLS_CLIENT);
	struct end server = {.session = tls_session_server(for_server)};

	*client = (struct end){.session = tls_session_client(for_client, name, h2, tickets)};
	talk(client, &server);
	tls_context_unref(for_client);
	return server;
}

static void addresses_and_stars_are_names(void **state)
{
	const struct rea_config_tls config = {.ca_file = authority.certificate_file, .verify = true};
	static const struct {
		const struct identity *shown;
		const char *name;
	} rows[] = {{&good, "10.0.0.7"}, {&elsewhere, "x.b.example"}, {&elsewhere, "X.B.EXAMPLE"}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tls_context *for_server = server_with(rows[i].shown);
		struct end client, server = meet(for_server, &config, rows[i].name, false, NULL, &client);

		assert_string_equal(tls_session_trouble(client.session), "");
		assert_int_equal(tls_session_state(server.session), TLS_OPEN);
		end_free(&client);
		end_free(&server);
		tls_context_unref(for_server);
	}
}

static void who_does_not_verify_believes_all(void **state)
{
	const struct rea_config_tls config = {.verify = false};
	struct tls_context *for_server = server_with(&by_stranger);
	struct end client, server = meet(for_server, &config, "other.internal", false, NULL, &client);

	(void)state;
	assert_int_equal(tls_session_state(client.session), TLS_OPEN);
	assert_int_equal(tls_session_state(server.session), TLS_OPEN);
	end_free(&client);
	end_free(&server);
	tls_context_unref(for_server);
}

/* ------------------------------------------------------------------ client certificates */

static struct tls_context *demanding_server(void)
{
	const struct rea_config_tls config = {.certificate_file = good.certificate_file,
	    .key_file = good.key_file,
	    .ca_file = authority.certificate_file,
	    .verify = true};

	return context(&config, TLS_SERVER);
}

static void a_server_that_demands_a_certificate_gets_it(void **state)
{
	const struct rea_config_tls config = {.certificate_file = ours.certificate_file,
	    .key_file = ours.key_file,
	    .ca_file = authority.certificate_file,
	    .verify = true};
	struct tls_context *for_server = demanding_server();
	struct end client, server = meet(for_server, &config, "users.internal", false, NULL, &client);

	(void)state;
	assert_int_equal(tls_session_state(server.session), TLS_OPEN);
	say(&client, "request");
	talk(&client, &server);
	assert_heard(server, "request");
	assert_false(tls_session_rejected(client.session));
	end_free(&client);
	end_free(&server);
	tls_context_unref(for_server);
}

/* In 1.3 the client has finished before it hears that it may not: what it has sent by then, the server has not read. */
static void without_a_certificate_nothing_is_read(void **state)
{
	const struct identity *const shown[] = {NULL, &by_stranger};
	static const char *const server_says[] = {"the client shows no certificate",
	    "the certificate is not vouched for by %s (unable to get local issuer certificate)"};
	static const char *const client_hears[] = {
	    "the peer asks for a certificate, and there is none to show", "the peer refused (its alert: unknown CA)"};
	char words[256];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct rea_config_tls config = {.certificate_file = shown[i] ? shown[i]->certificate_file : NULL,
		    .key_file = shown[i] ? shown[i]->key_file : NULL,
		    .ca_file = authority.certificate_file,
		    .verify = true};
		struct tls_context *for_server = demanding_server(), *for_client = context(&config, TLS_CLIENT);
		struct end client = {.session = tls_session_client(for_client, "users.internal", false, NULL)},
			   server = {.session = tls_session_server(for_server)};

		tls_handshake(client.session);
		carry(&client, &server, SIZE_MAX);
		carry(&server, &client, SIZE_MAX);
		assert_int_equal(tls_session_state(client.session), TLS_OPEN);
		say(&client, "request");
		talk(&client, &server);
		if (i == 0)
			snprintf(words, sizeof(words), "%s", server_says[i]);
		else
			snprintf(words, sizeof(words),
			    "the certificate is not vouched for by %s (unable to get local issuer certificate)",
			    authority.certificate_file);
		assert_string_equal(tls_session_trouble(server.session), words);
		assert_int_equal(rea_buffer_length(&server.got), 0);
		assert_int_equal(tls_session_state(client.session), TLS_FAILED);
		assert_string_equal(tls_session_trouble(client.session), client_hears[i]);
		assert_true(tls_session_rejected(client.session));
		end_free(&client);
		end_free(&server);
		tls_context_unref(for_server);
		tls_context_unref(for_client);
	}
}

/* ------------------------------------------------------------------ names and protocols */

static void the_name_that_is_asked_for_picks_the_certificate(void **state)
{
	const struct rea_config_tls_name names[] = {{"rea.internal", ours.certificate_file, ours.key_file, 1},
	    {"*.b.example", elsewhere.certificate_file, elsewhere.key_file, 2}};
	const struct rea_config_tls config = {
	    .certificate_file = good.certificate_file, .key_file = good.key_file, .verify = true, .names = names, .names_len = 2};
	const struct rea_config_tls of_client = {.ca_file = authority.certificate_file, .verify = true};
	struct tls_context *for_server = context(&config, TLS_SERVER);
	static const struct {
		const char *name, *trouble;
	} rows[] = {{"users.internal", ""}, {"rea.internal", ""}, {"REA.internal", ""}, {"x.b.example", ""},
	    {"10.0.0.7", ""}, {"b.example", "the certificate is for users.internal, 10.0.0.7, not for b.example"},
	    {"y.x.b.example", "the certificate is for users.internal, 10.0.0.7, not for y.x.b.example"},
	    {"internal", "the certificate is for users.internal, 10.0.0.7, not for internal"}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct end client, server = meet(for_server, &of_client, rows[i].name, false, NULL, &client);

		assert_string_equal(tls_session_trouble(client.session), rows[i].trouble);
		end_free(&client);
		end_free(&server);
	}
	assert_string_equal(tls_context_certificate(for_server, 0)->file, good.certificate_file);
	assert_string_equal(tls_context_certificate(for_server, 2)->file, elsewhere.certificate_file);
	assert_null(tls_context_certificate(for_server, 3));
	assert_int_equal(
	    tls_context_certificate(for_server, 0)->not_after_s - tls_context_certificate(for_server, 0)->not_before_s,
	    2 * DAY);
	tls_context_unref(for_server);
}

static void http2_is_agreed_on_or_not_spoken(void **state)
{
	const struct rea_config_tls of_client = {.ca_file = authority.certificate_file, .verify = true};
	/* By the certificate of a name, too. */
	const struct rea_config_tls_name names[] = {{"users.internal", good.certificate_file, good.key_file, 1}};
	const struct rea_config_tls of_server = {
	    .certificate_file = ours.certificate_file, .key_file = ours.key_file, .verify = true, .names = names, .names_len = 1};

	(void)state;
	for (int h2 = 0; h2 < 2; h2++) {
		struct tls_context *for_server = context(&of_server, TLS_SERVER);
		struct end client, server = meet(for_server, &of_client, "users.internal", h2, NULL, &client);

		assert_int_equal(tls_session_state(client.session), TLS_OPEN);
		assert_int_equal(tls_session_h2(client.session), h2);
		assert_int_equal(tls_session_h2(server.session), h2);
		end_free(&client);
		end_free(&server);
		tls_context_unref(for_server);
	}
}

static void a_server_without_alpn_speaks_no_http2(void **state)
{
	const struct rea_config_tls of_client = {.ca_file = authority.certificate_file, .verify = true};
	struct tls_context *for_client = context(&of_client, TLS_CLIENT);
	struct end client = {.session = tls_session_client(for_client, "users.internal", true, NULL)};
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	SSL *server = SSL_new(ctx);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	char *bytes;
	long length;

	(void)state;
	SSL_use_certificate(server, good.certificate);
	SSL_use_PrivateKey(server, good.key);
	SSL_set_bio(server, in, out);
	tls_handshake(client.session);
	BIO_write(in, rea_buffer_data(tls_wire(client.session)), (int)rea_buffer_length(tls_wire(client.session)));
	SSL_accept(server);
	length = BIO_get_mem_data(out, &bytes);
	tls_give(client.session, bytes, (size_t)length);
	assert_int_equal(tls_handshake(client.session), TLS_FAILED);
	assert_string_equal(tls_session_trouble(client.session), "the peer does not agree to HTTP/2");
	end_free(&client);
	SSL_free(server);
	SSL_CTX_free(ctx);
	tls_context_unref(for_client);
}

static void who_speaks_no_tls_is_told_apart(void **state)
{
	static const char *const requests[] = {
	    "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\n", "CONNECT a:1 HTTP/1.1\r\n"};
	struct tls_context *for_server = server_with(&good), *for_client = client_of_authority();
	struct end client = {.session = tls_session_client(for_client, "users.internal", false, NULL)};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct end server = {.session = tls_session_server(for_server)};

		tls_give(server.session, requests[i], strlen(requests[i]));
		assert_int_equal(tls_handshake(server.session), TLS_FAILED);
		assert_true(tls_session_asked_plainly(server.session));
		assert_string_equal(tls_session_trouble(server.session), "a request without TLS");
		assert_int_equal(rea_buffer_length(tls_wire(server.session)), 0);
		end_free(&server);
	}
	tls_handshake(client.session);
	tls_give(client.session, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
	assert_int_equal(tls_handshake(client.session), TLS_FAILED);
	assert_string_equal(tls_session_trouble(client.session), "the peer does not speak TLS");
	end_free(&client);
	tls_context_unref(for_server);
	tls_context_unref(for_client);
}

static void an_end_without_its_alert_is_a_cut(void **state)
{
	struct tls_context *for_server = server_with(&good), *for_client = client_of_authority();
	struct end client = {.session = tls_session_client(for_client, "users.internal", false, NULL)},
		   server = {.session = tls_session_server(for_server)};

	(void)state;
	tls_end(client.session, "the peer closed the connection");
	assert_string_equal(
	    tls_session_trouble(client.session), "the handshake was broken off: the peer closed the connection");
	end_free(&client);
	client.session = tls_session_client(for_client, "users.internal", false, NULL);
	talk(&client, &server);
	tls_end(client.session, "the peer closed the connection");
	assert_int_equal(tls_session_state(client.session), TLS_FAILED);
	assert_string_equal(
	    tls_session_trouble(client.session), "cut without a closing alert: the peer closed the connection");
	assert_false(tls_session_rejected(client.session));
	end_free(&client);
	end_free(&server);
	tls_context_unref(for_server);
	tls_context_unref(for_client);
}

/* ------------------------------------------------------------------ resuming */

static size_t kept(const struct tls_tickets *tickets)
{
	size_t count = 0;

	for (size_t i = 0; i < sizeof(tickets->kept) / sizeof(tickets->kept[0]); i++)
		count += tickets->kept[i].session != NULL;
	return count;
}

static bool resumes(
    struct tls_context *for_client, struct tls_context *for_server, const char *name, struct tls_tickets *tickets)
{
	struct end client = {.session = tls_session_client(for_client, name, false, tickets)},
		   server = {.session = tls_session_server(for_server)};
	bool resumed;

	talk(&client, &server);
	assert_int_equal(tls_session_state(client.session), TLS_OPEN);
	resumed = tls_session_resumed(client.session);
	assert_int_equal(tls_session_resumed(server.session), resumed);
	end_free(&client);
	end_free(&server);
	return resumed;
}

static void a_ticket_is_used_once_and_by_its_own(void **state)
{
	const struct rea_config_tls demanding = {
	    .ca_file = authority.certificate_file, .verify = true, .min_version = REA_TLS_1_3};
	struct tls_context *for_server = server_with(&good), *for_client = client_of_authority(),
			   *other = context(&demanding, TLS_CLIENT), *restarted = server_with(&good);
	struct tls_tickets tickets = {.next = 0};

	(void)state;
	assert_false(resumes(for_client, for_server, "users.internal", &tickets));
	assert_int_equal(kept(&tickets), 2);
	/* Another name, another configuration: a handshake of its own, and tickets of its own. */
	assert_false(resumes(for_client, for_server, "10.0.0.7", &tickets));
	assert_false(resumes(other, for_server, "users.internal", &tickets));
	tls_tickets_fini(&tickets);
	assert_int_equal(kept(&tickets), 0);
	assert_false(resumes(for_client, for_server, "users.internal", &tickets));
	assert_true(resumes(for_client, for_server, "users.internal", &tickets));
	/* One was used up, and a resumed handshake brings one. */
	assert_int_equal(kept(&tickets), 2);
	for (int i = 0; i < 10; i++)
		assert_true(resumes(for_client, for_server, "users.internal", &tickets));
	assert_int_equal(kept(&tickets), 2);
	/* A server with other keys knows none of them: the handshake is a whole one, and good. */
	assert_false(resumes(for_client, restarted, "users.internal", &tickets));
	tls_tickets_fini(&tickets);
	tls_context_unref(for_server);
	tls_context_unref(for_client);
	tls_context_unref(other);
	tls_context_unref(restarted);
}

/* ------------------------------------------------------------------ files */

static void refuse(const struct rea_config_tls *config, enum tls_side side, const char *file, const char *message)
{
	struct tls_context *made = NULL;
	struct rea_error_info info = {.message = ""};

	assert_true(tls_context_new(config, side, &made, &info) < 0);
	assert_null(made);
	assert_string_equal(info.file, file);
	assert_string_equal(info.message, message);
}

static void files_that_are_not_good_are_named(void **state)
{
	const char *empty = write_file("empty.pem", ""), *missing = file_named("missing.pem"),
		   *locked = file_named("locked.key");
	struct rea_config_tls config = {.certificate_file = good.certificate_file, .key_file = ours.key_file, .verify = true};
	char message[128];
	FILE *file = fopen(locked, "w");

	(void)state;
	PEM_write_PrivateKey(file, good.key, EVP_aes_128_cbc(), NULL, 0, NULL, (void *)(uintptr_t) "secret");
	fclose(file);
	snprintf(message, sizeof(message), "is not the key of %s", good.certificate_file);
	refuse(&config, TLS_SERVER, ours.key_file, message);
	config.key_file = locked;
	refuse(&config, TLS_SERVER, locked, "is encrypted, and nobody is there to give the password");
	config.key_file = empty;
	refuse(&config, TLS_SERVER, empty, "holds no private key in PEM form");
	config.key_file = missing;
	refuse(&config, TLS_SERVER, missing, "cannot be read: No such file or directory");
	config.key_file = directory;
	refuse(&config, TLS_SERVER, directory, "cannot be read: Invalid argument");
	config.certificate_file = good.key_file;
	config.key_file = good.key_file;
	refuse(&config, TLS_SERVER, good.key_file, "holds no certificate in PEM form");
	config = (struct rea_config_tls){.ca_file = good.key_file, .verify = true};
	refuse(&config, TLS_CLIENT, good.key_file, "holds no certificate in PEM form");
	assert_int_equal(tls_digest(&(struct rea_config_tls){.ca_file = missing, .verify = true}, TLS_CLIENT), 0);
}

static void an_open_key_and_a_change_are_seen(void **state)
{
	const struct rea_config_tls config = {
	    .certificate_file = good.certificate_file, .key_file = file_named("copy.key"), .verify = true};
	struct tls_context *made;
	FILE *file = fopen(config.key_file, "w");
	uint64_t before;

	(void)state;
	PEM_write_PrivateKey(file, good.key, NULL, NULL, 0, NULL, NULL);
	fclose(file);
	chmod(config.key_file, 0640);
	made = context(&config, TLS_SERVER);
	assert_string_equal(tls_context_certificate(made, 0)->open_key, config.key_file);
	before = tls_context_digest(made);
	assert_true(before != 0);
	assert_true(before == tls_digest(&config, TLS_SERVER));
	tls_context_unref(made);
	chmod(config.key_file, 0600);
	made = context(&config, TLS_SERVER);
	assert_null(tls_context_certificate(made, 0)->open_key);
	tls_context_unref(made);
	file = fopen(config.key_file, "a");
	fputs("\n", file);
	fclose(file);
	assert_true(before != tls_digest(&config, TLS_SERVER));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(both_ends_hear_each_other_and_the_end),
	    cmocka_unit_test(much_is_many_records),
	    cmocka_unit_test(a_wrong_certificate_is_refused_with_the_reason),
	    cmocka_unit_test(addresses_and_stars_are_names),
	    cmocka_unit_test(who_does_not_verify_believes_all),
	    cmocka_unit_test(a_server_that_demands_a_certificate_gets_it),
	    cmocka_unit_test(without_a_certificate_nothing_is_read),
	    cmocka_unit_test(the_name_that_is_asked_for_picks_the_certificate),
	    cmocka_unit_test(http2_is_agreed_on_or_not_spoken),
	    cmocka_unit_test(a_server_without_alpn_speaks_no_http2),
	    cmocka_unit_test(who_speaks_no_tls_is_told_apart),
	    cmocka_unit_test(an_end_without_its_alert_is_a_cut),
	    cmocka_unit_test(a_ticket_is_used_once_and_by_its_own),
	    cmocka_unit_test(files_that_are_not_good_are_named),
	    cmocka_unit_test(an_open_key_and_a_change_are_seen),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
