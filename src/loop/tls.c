#include "loop/tls.h"

#include "base/address.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEM_MAX ((size_t)4 * 1024 * 1024)
#define TROUBLE_MAX 256
/* Of names that a certificate is for, in a message. */
#define NAMES_SHOWN 3
/* Forward secrecy and authenticated encryption, which is also what HTTP/2 demands of 1.2. */
#define CIPHERS_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20"
#define ALERT_CERTIFICATE_REQUIRED 116

struct tls_context {
	atomic_uint refs;
	SSL_CTX *ctx;
	BIO_METHOD *bio;
	enum tls_side side;
	bool verify;
	char *authorities; /* who vouches for peers, for messages */
	uint64_t digest;
	struct tls_certificate *certificates; /* 0: the main one, 1 + i: of names[i] */
	size_t certificates_len;
	SSL_CTX **names;
	size_t names_len;
	struct rea_map by_name; /* its keys are the context's own */
};

struct tls_session {
	struct tls_context *context;
	SSL *ssl;
	struct rea_buffer wire;
	const char *in; /* what was given and is not used up */
	size_t in_length;
	enum tls_state state;
	bool heard;    /* the peer has said something that a refused handshake rules out */
	bool rejected; /* tls_session_rejected */
	bool plainly;
	bool h2;      /* a client that speaks nothing else */
	bool asked;   /* for a certificate of ours */
	bool touched; /* something has come */
	char *name;   /* a client's */
	struct tls_tickets *tickets;
	char *trouble; /* NULL = none, or no memory for it */
};

/* ------------------------------------------------------------------ files */

__attribute__((format(printf, 4, 5))) static int refuse(
    struct rea_error_info *info, int error, const char *file, const char *format, ...)
{
	va_list args;

	if (info == NULL)
		return error;
	memset(info, 0, sizeof(*info));
	snprintf(info->file, sizeof(info->file), "%s", file);
	va_start(args, format);
	vsnprintf(info->message, sizeof(info->message), format, args);
	va_end(args);
	return error;
}

static int refuse_nomem(struct rea_error_info *info)
{
	return refuse(info, REA_ERR_NOMEM, "", "out of memory");
}

static int refuse_errno(struct rea_error_info *info, const char *file, int number)
{
	char text[128];

	return refuse(info, REA_ERR_IO, file, "cannot be read: %s", strerror_r(number, text, sizeof(text)));
}

/* What OpenSSL says of the error that came last. */
static const char *last_reason(void)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	return reason != NULL ? reason : "unknown error";
}

/* ret_open: may others than its owner read it? */
static int read_file(const char *path, struct rea_buffer *content, bool *ret_open, struct rea_error_info *info)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), number = 0;
	struct stat status;
	ssize_t got = 1;

	if (fd < 0)
		return refuse_errno(info, path, errno);
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		number = EINVAL;
	else
		*ret_open = (status.st_mode & (S_IRWXG | S_IRWXO)) != 0;
	while (number == 0 && got != 0) {
		if (rea_buffer_length(content) > PEM_MAX || rea_buffer_reserve(content, 4096) != 0)
			number = rea_buffer_length(content) > PEM_MAX ? EFBIG : ENOMEM;
		else if ((got = read(fd, content->data + content->end, content->capacity - content->end)) > 0)
			content->end += (size_t)got;
		else if (got < 0 && errno != EINTR)
			number = errno;
	}
	close(fd);
	return number == 0 ? 0 : refuse_errno(info, path, number);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return text != NULL ? rea_hash_more(hash, text, strlen(text) + 1) : rea_hash_byte(hash, 1);
}

static bool hash_file(const char *path, uint64_t *hash)
{
	struct rea_buffer content = {.alloc = NULL};
	bool open_to_all, ok = true;

	*hash = hash_text(*hash, path);
	if (path == NULL)
		return true;
	ok = read_file(path, &content, &open_to_all, NULL) == 0;
	*hash = rea_hash_more(*hash, rea_buffer_data(&content), rea_buffer_length(&content));
	rea_buffer_fini(&content);
	return ok;
}

uint64_t tls_digest(const struct rea_config_tls *config, enum tls_side side)
{
	uint64_t hash = REA_HASH_INIT;
	bool ok;

	hash = rea_hash_byte(hash,
	    (unsigned char)((unsigned)side << 2 | (unsigned)config->verify << 1 | (config->min_version == REA_TLS_1_3)));
	ok = hash_file(config->certificate_file, &hash) && hash_file(config->key_file, &hash) &&
	     hash_file(config->ca_file, &hash);
	for (size_t i = 0; ok && i < config->names_len; i++) {
		hash = hash_text(hash, config->names[i].name);
		ok = hash_file(config->names[i].certificate_file, &hash) && hash_file(config->names[i].key_file, &hash);
	}
	return ok ? hash | 1 : 0;
}

/* ------------------------------------------------------------------ our certificates */

/* Nobody is there to be asked. */
static int no_password(char *buffer, int size, int writing, void *user_data)
{
	(void)buffer;
	(void)size;
	(void)writing;
	*(bool *)user_data = true;
	return -1;
}

static int64_t unix_of(const ASN1_TIME *time)
{
	ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
	int days = 0, seconds = 0;

	ASN1_TIME_diff(&days, &seconds, epoch, time);
	ASN1_TIME_free(epoch);
	return (int64_t)days * 86400 + seconds;
}

static int use_chain(
    SSL_CTX *ctx, BIO *bio, const char *file, struct tls_certificate *ret_certificate, struct rea_error_info *info)
{
	bool asked;
	X509 *certificate = PEM_read_bio_X509_AUX(bio, NULL, no_password, &asked);

	if (certificate == NULL)
		return refuse(info, REA_ERR_INVALID, file, "holds no certificate in PEM form");
	ret_certificate->not_before_s = unix_of(X509_get0_notBefore(certificate));
	ret_certificate->not_after_s = unix_of(X509_get0_notAfter(certificate));
	if (SSL_CTX_use_certificate(ctx, certificate) != 1) {
		X509_free(certificate);
		return refuse(info, REA_ERR_INVALID, file, "cannot be used: %s", last_reason());
	}
	X509_free(certificate);
	while ((certificate = PEM_read_bio_X509(bio, NULL, no_password, &asked)) != NULL)
		if (SSL_CTX_add0_chain_cert(ctx, certificate) != 1) {
			X509_free(certificate);
			return refuse_nomem(info);
		}
	ERR_clear_error();
	return 0;
}

static int use_key(SSL_CTX *ctx, BIO *bio, const char *file, const char *certificate_file, struct rea_error_info *info)
{
	bool asked = false;
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, &asked);
	bool good;

	if (key == NULL)
		return refuse(info, REA_ERR_INVALID, file,
		    asked ? "is encrypted, and nobody is there to give the password" : "holds no private key in PEM form");
	good = SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1;
	EVP_PKEY_free(key);
	return good ? 0 : refuse(info, REA_ERR_INVALID, file, "is not the key of %s", certificate_file);
}

static int use_pair(SSL_CTX *ctx, const char *certificate_file, const char *key_file,
    struct tls_certificate *certificate, struct rea_error_info *info)
{
	struct rea_buffer chain = {.alloc = NULL}, key = {.alloc = NULL};
	BIO *chain_bio = NULL, *key_bio = NULL;
	bool open_to_all = false;
	int error = read_file(certificate_file, &chain, &open_to_all, info);

	if (error == 0)
		error = read_file(key_file, &key, &open_to_all, info);
	if (error == 0) {
		chain_bio = BIO_new_mem_buf(rea_buffer_data(&chain), (int)rea_buffer_length(&chain));
		key_bio = BIO_new_mem_buf(rea_buffer_data(&key), (int)rea_buffer_length(&key));
		if (chain_bio == NULL || key_bio == NULL)
			error = refuse_nomem(info);
	}
	if (error == 0)
		error = use_chain(ctx, chain_bio, certificate_file, certificate, info);
	if (error == 0)
		error = use_key(ctx, key_bio, key_file, certificate_file, info);
	if (error == 0) {
		certificate->file = strdup(certificate_file);
		certificate->open_key = open_to_all ? strdup(key_file) : NULL;
		if (certificate->file == NULL || (open_to_all && certificate->open_key == NULL))
			error = refuse_nomem(info);
	}
	BIO_free(chain_bio);
	BIO_free(key_bio);
	if (key.data != NULL)
		OPENSSL_cleanse(key.data, key.capacity);
	rea_buffer_fini(&chain);
	rea_buffer_fini(&key);
	return error;
}

/* ------------------------------------------------------------------ whom to believe */

static int add_authority(SSL_CTX *ctx, X509 *authority, enum tls_side side)
{
	/* A server also names them, so that a client knows what to show. */
	return X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), authority) == 1 &&
		       (side == TLS_CLIENT || SSL_CTX_add_client_CA(ctx, authority) == 1)
		   ? 0
		   : REA_ERR_NOMEM;
}

static int believe_file(SSL_CTX *ctx, const char *file, enum tls_side side, struct rea_error_info *info)
{
	struct rea_buffer content = {.alloc = NULL};
	bool open_to_all, asked;
	int error = read_file(file, &content, &open_to_all, info);
	BIO *bio = error == 0 ? BIO_new_mem_buf(rea_buffer_data(&content), (int)rea_buffer_length(&content)) : NULL;
	X509 *authority;
	size_t count = 0;

	if (error == 0 && bio == NULL)
		error = refuse_nomem(info);
	while (error == 0 && (authority = PEM_read_bio_X509(bio, NULL, no_password, &asked)) != NULL) {
		count++;
		if (add_authority(ctx, authority, side) != 0)
			error = refuse_nomem(info);
		X509_free(authority);
	}
	if (error == 0 && count == 0)
		error = refuse(info, REA_ERR_INVALID, file, "holds no certificate in PEM form");
	ERR_clear_error();
	BIO_free(bio);
	rea_buffer_fini(&content);
	return error;
}

static int on_verify(int good, X509_STORE_CTX *store);

static int believe(struct tls_context *context, const struct rea_config_tls *config, struct rea_error_info *info)
{
	bool server = context->side == TLS_SERVER;

	if (server ? config->ca_file == NULL : !config->verify)
		return 0;
	context->verify = true;
	SSL_CTX_set_verify(context->ctx, SSL_VERIFY_PEER | (server ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), on_verify);
	if (config->ca_file != NULL)
		return believe_file(context->ctx, config->ca_file, context->side, info);
	return SSL_CTX_set_default_verify_paths(context->ctx) == 1 ? 0 : refuse_nomem(info);
}

/* ------------------------------------------------------------------ names that clients ask for */

static SSL_CTX *find_name(const struct tls_context *context, const char *asked)
{
	char lower[256], *dot;
	size_t length = strnlen(asked, sizeof(lower));
	uint32_t index;

	if (length == 0 || length == sizeof(lower))
		return NULL;
	for (size_t i = 0; i < length; i++)
		lower[i] = rea_ascii_lower(asked[i]);
	if (rea_map_find(&context->by_name, rea_slice_make(lower, length), &index))
		return context->names[index];
	/* "*.example.com" stands for one label more. */
	dot = memchr(lower, '.', length);
	if (dot == NULL || dot == lower)
		return NULL;
	dot[-1] = '*';
	return rea_map_find(&context->by_name, rea_slice_make(dot - 1, length - (size_t)(dot - 1 - lower)), &index)
		   ? context->names[index]
		   : NULL;
}

/* A name that is not ours gets the main certificate: the client judges. */
static int on_server_name(SSL *ssl, int *alert, void *user_data)
{
	const struct tls_context *context = user_data;
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	SSL_CTX *own = name != NULL ? find_name(context, name) : NULL;

	(void)alert;
	if (own != NULL && SSL_set_SSL_CTX(ssl, own) == NULL)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_length, const unsigned char *in,
    unsigned in_length, void *user_data)
{
	static const unsigned char protocols[] = "\x02h2\x08http/1.1";
	unsigned char *chosen;

	(void)ssl;
	(void)user_data;
	if (SSL_select_next_proto(&chosen, out_length, protocols, sizeof(protocols) - 1, in, in_length) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static int add_names(struct tls_context *context, const struct rea_config_tls *config, struct rea_error_info *info)
{
	int error = 0;

	if (config->names_len == 0)
		return 0;
	context->names = calloc(config->names_len, sizeof(SSL_CTX *));
	if (context->names == NULL || rea_map_reserve(&context->by_name, config->names_len) != 0)
		return refuse_nomem(info);
	for (size_t i = 0; i < config->names_len && error == 0; i++) {
		const struct rea_config_tls_name *name = &config->names[i];
		char *key = strdup(name->name);

		if (key == NULL || rea_map_insert(&context->by_name, rea_slice_of(key), (uint32_t)i) != 0) {
			free(key);
			return refuse_nomem(info);
		}
		context->names[i] = SSL_CTX_new(TLS_server_method());
		if (context->names[i] == NULL)
			return refuse_nomem(info);
		/* Asked of the context that the name has picked. */
		SSL_CTX_set_alpn_select_cb(context->names[i], on_alpn, NULL);
		context->names_len = i + 1;
		context->certificates_len = i + 2;
		error = use_pair(
		    context->names[i], name->certificate_file, name->key_file, &context->certificates[i + 1], info);
	}
	SSL_CTX_set_tlsext_servername_callback(context->ctx, on_server_name);
	SSL_CTX_set_tlsext_servername_arg(context->ctx, context);
	return error;
}

/* ------------------------------------------------------------------ contexts */

static int bio_read(BIO *bio, char *data, size_t size, size_t *ret_length)
{
	struct tls_session *session = BIO_get_data(bio);
	size_t length = size < session->in_length ? size : session->in_length;

	BIO_clear_retry_flags(bio);
	if (length == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(data, session->in, length);
	session->in += length;
	session->in_length -= length;
	*ret_length = length;
	return 1;
}

static int bio_write(BIO *bio, const char *data, size_t length, size_t *ret_written)
{
	struct tls_session *session = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	if (rea_buffer_append(&session->wire, data, length) != 0)
		return 0;
	*ret_written = length;
	return 1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_bio(void)
{
	BIO_METHOD *bio = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "rea");

	if (bio == NULL)
		return NULL;
	BIO_meth_set_read_ex(bio, bio_read);
	BIO_meth_set_write_ex(bio, bio_write);
	BIO_meth_set_ctrl(bio, bio_ctrl);
	return bio;
}

static int on_new_session(SSL *ssl, SSL_SESSION *session);

/* Called when the server asks for our certificate; the one there is, or none, is shown. */
static int on_asked(SSL *ssl, void *user_data)
{
	struct tls_session *session = SSL_get_app_data(ssl);

	(void)user_data;
	session->asked = true;
	return 1;
}

static int configure(struct tls_context *context, const struct rea_config_tls *config, struct rea_error_info *info)
{
	static const unsigned char id[] = "rea";
	SSL_CTX *ctx = context->ctx;

	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (SSL_CTX_set_min_proto_version(ctx, config->min_version == REA_TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, CIPHERS_1_2) != 1 || SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1) != 1)
		return refuse_nomem(info);
	if (context->side == TLS_SERVER) {
		/* Tickets hold everything: a client costs no memory between its connections. */
		SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
		SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
	} else {
		SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(ctx, on_new_session);
		SSL_CTX_set_cert_cb(ctx, on_asked, NULL);
	}
	return 0;
}

static void context_free(struct tls_context *context)
{
	for (size_t i = 0; i < context->names_len; i++)
		SSL_CTX_free(context->names[i]);
	free(context->names);
	for (size_t i = 0; i < context->certificates_len; i++) {
		free((void *)(uintptr_t)context->certificates[i].file);
		free((void *)(uintptr_t)context->certificates[i].open_key);
	}
	free(context->certificates);
	for (size_t i = 0; i < context->by_name.capacity; i++)
		free((void *)(uintptr_t)context->by_name.slots[i].key);
	rea_map_fini(&context->by_name);
	SSL_CTX_free(context->ctx);
	BIO_meth_free(context->bio);
	free(context->authorities);
	free(context);
}

int tls_context_new(const struct rea_config_tls *config, enum tls_side side, struct tls_context **ret_context,
    struct rea_error_info *ret_info)
{
	struct tls_context *context = calloc(1, sizeof(*context));
	int error;

	if (context == NULL)
		return refuse_nomem(ret_info);
	ERR_clear_error();
	atomic_init(&context->refs, 1);
	context->side = side;
	/* Before the files are read: a change in between shows as another digest. */
	context->digest = tls_digest(config, side);
	context->certificates = calloc(1 + config->names_len, sizeof(*context->certificates));
	context->ctx = SSL_CTX_new(side == TLS_SERVER ? TLS_server_method() : TLS_client_method());
	context->bio = make_bio();
	context->authorities = strdup(config->ca_file != NULL ? config->ca_file : "the system's authorities");
	error = context->certificates == NULL || context->ctx == NULL || context->bio == NULL || context->authorities == NULL
		    ? refuse_nomem(ret_info)
		    : configure(context, config, ret_info);
	if (error == 0 && config->certificate_file != NULL) {
		context->certificates_len = 1;
		error = use_pair(
		    context->ctx, config->certificate_file, config->key_file, &context->certificates[0], ret_info);
	}
	if (error == 0)
		error = believe(context, config, ret_info);
	if (error == 0)
		error = add_names(context, config, ret_info);
	if (error != 0)
		context_free(context);
	else
		*ret_context = context;
	return error;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
	if (context != NULL)
		atomic_fetch_add_explicit(&context->refs, 1, memory_order_relaxed);
	return context;
}

void tls_context_unref(struct tls_context *context)
{
	if (context != NULL && atomic_fetch_sub(&context->refs, 1) == 1)
		context_free(context);
}

const struct tls_certificate *tls_context_certificate(const struct tls_context *context, size_t index)
{
	return context != NULL && index < context->certificates_len ? &context->certificates[index] : NULL;
}

uint64_t tls_context_digest(const struct tls_context *context)
{
	return context->digest;
}

/* ------------------------------------------------------------------ sessions to resume */

static void ticket_free(struct tls_ticket *ticket)
{
	SSL_SESSION_free(ticket->session);
	tls_context_unref(ticket->context);
	free(ticket->name);
	memset(ticket, 0, sizeof(*ticket));
}

void tls_tickets_fini(struct tls_tickets *tickets)
{
	for (size_t i = 0; i < sizeof(tickets->kept) / sizeof(tickets->kept[0]); i++)
		ticket_free(&tickets->kept[i]);
}

/* Returns 1 when the session is kept. */
static int on_new_session(SSL *ssl, SSL_SESSION *resumable)
{
	struct tls_session *session = SSL_get_app_data(ssl);
	struct tls_ticket *ticket;
	char *name;

	/* Only a server that has taken our Finished, and our certificate with it, makes one. */
	session->heard = true;
	if (session->tickets == NULL || (name = strdup(session->name)) == NULL)
		return 0;
	ticket = &session->tickets->kept[session->tickets->next++ % (sizeof(session->tickets->kept) / sizeof(*ticket))];
	ticket_free(ticket);
	*ticket = (struct tls_ticket){tls_context_ref(session->context), name, resumable};
	return 1;
}

/* The latest one. Those of 1.3 are used once, as the RFC asks, so that nobody can tell which connections belong together. */
static void resume(struct tls_session *session)
{
	struct tls_tickets *tickets = session->tickets;
	unsigned size = sizeof(tickets->kept) / sizeof(tickets->kept[0]), newest = tickets->next + size - 1;

	for (unsigned i = 0; i < size; i++) {
		struct tls_ticket *ticket = &tickets->kept[(newest - i) % size];

		if (ticket->session == NULL || ticket->context != session->context || strcmp(ticket->name, session->name) != 0)
			continue;
		if (SSL_SESSION_is_resumable(ticket->session))
			SSL_set_session(session->ssl, ticket->session);
		if (!SSL_SESSION_is_resumable(ticket->session) ||
		    SSL_SESSION_get_protocol_version(ticket->session) >= TLS1_3_VERSION)
			ticket_free(ticket);
		/* Its place is the next one's. */
		if (ticket->session == NULL && newest - i == tickets->next + size - 1)
			tickets->next--;
		if (SSL_get_session(session->ssl) != NULL)
			return;
	}
}

/* ------------------------------------------------------------------ what went wrong */

/* The first thing that is said holds: what follows is its consequence. */
__attribute__((format(printf, 2, 3))) static void say(struct tls_session *session, const char *format, ...)
{
	va_list args;

	if (session->trouble != NULL)
		return;
	session->trouble = malloc(TROUBLE_MAX);
	if (session->trouble == NULL)
		return;
	va_start(args, format);
	vsnprintf(session->trouble, TROUBLE_MAX, format, args);
	va_end(args);
	/* Names from certificates: nothing that a terminal, a log or a JSON text would obey. */
	for (char *c = session->trouble; *c != '\0'; c++)
		if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
			*c = '?';
}

static void put_name(struct rea_format *text, const GENERAL_NAME *name)
{
	uint8_t address[16] = {[10] = 0xff, [11] = 0xff};
	const ASN1_STRING *value = name->d.ia5;
	size_t length = (size_t)ASN1_STRING_length(value);

	if (name->type == GEN_DNS) {
		rea_format_bytes(text, (const char *)ASN1_STRING_get0_data(value), length);
	} else if (length == 4 || length == 16) {
		memcpy(address + 16 - length, ASN1_STRING_get0_data(value), length);
		rea_address_format(address, text);
	}
}

/* "users.internal, 10.0.0.7 and 3 more" */
static void put_names(struct rea_format *text, X509 *certificate)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	int count = names != NULL ? sk_GENERAL_NAME_num(names) : 0, known = 0;

	for (int i = 0; i < count; i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

		if (name->type != GEN_DNS && name->type != GEN_IPADD)
			continue;
		if (known < NAMES_SHOWN) {
			rea_format_text(text, known > 0 ? ", " : "");
			put_name(text, name);
		}
		known++;
	}
	if (known == 0)
		rea_format_text(text, "no name at all");
	if (known > NAMES_SHOWN) {
		rea_format_text(text, " and ");
		rea_format_u64(text, (uint64_t)(known - NAMES_SHOWN));
		rea_format_text(text, " more");
	}
	GENERAL_NAMES_free(names);
}

static const char *date_of(const ASN1_TIME *time, char text[32])
{
	struct tm tm;

	if (ASN1_TIME_to_tm(time, &tm) != 1 || strftime(text, 32, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
		return "an unknown time";
	return text;
}

static void say_unverified(struct tls_session *session, X509_STORE_CTX *store)
{
	int code = X509_STORE_CTX_get_error(store);
	X509 *certificate = X509_STORE_CTX_get_current_cert(store);
	char names[TROUBLE_MAX], date[32];
	struct rea_format text;

	rea_format_init(&text, names, sizeof(names));
	switch (code) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		put_names(&text, certificate);
		say(session, "the certificate is for %s, not for %s", names, session->name);
		break;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		say(session, "the certificate has expired (%s)", date_of(X509_get0_notAfter(certificate), date));
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		say(session, "the certificate is not valid yet (from %s)", date_of(X509_get0_notBefore(certificate), date));
		break;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		say(session, "the certificate is not vouched for by %s (%s)", session->context->authorities,
		    X509_verify_cert_error_string(code));
		break;
	default:
		say(session, "the certificate is not good: %s", X509_verify_cert_error_string(code));
	}
}

static int on_verify(int good, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());

	if (!good)
		say_unverified(SSL_get_app_data(ssl), store);
	return good;
}

/* Alerts that say: your certificate, or the lack of one. A server sends them before it has read anything else. */
static bool rejects_certificate(int alert)
{
	return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) || alert == SSL_AD_UNKNOWN_CA ||
	       alert == SSL_AD_ACCESS_DENIED || alert == SSL_AD_DECRYPT_ERROR || alert == SSL_AD_HANDSHAKE_FAILURE ||
	       alert == ALERT_CERTIFICATE_REQUIRED;
}

static void say_alert(struct tls_session *session, int alert)
{
	if (alert == ALERT_CERTIFICATE_REQUIRED)
		say(session, "the peer asks for a certificate, and there is none to show");
	else if (alert == SSL_AD_PROTOCOL_VERSION)
		say(session, "the peer speaks no version of TLS that is wanted here (its alert: protocol version)");
	else
		say(session, "the peer refused (its alert: %s)", SSL_alert_desc_string_long(alert));
}

/* OpenSSL has given up. */
static void fail(struct tls_session *session)
{
	unsigned long error = ERR_peek_error();
	int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
	/* Only in 1.3 a server looks at our certificate after we have finished; it reads on only if it takes it. */
	bool early = session->state == TLS_HANDSHAKE ||
		     (session->asked && !session->heard && SSL_version(session->ssl) == TLS1_3_VERSION);

	session->state = TLS_FAILED;
	session->in_length = 0;
	if (reason > SSL_AD_REASON_OFFSET) {
		session->rejected = early && rejects_certificate(reason - SSL_AD_REASON_OFFSET);
		say_alert(session, reason - SSL_AD_REASON_OFFSET);
		return;
	}
	switch (reason) {
	case SSL_R_HTTP_REQUEST:
	case SSL_R_HTTPS_PROXY_REQUEST:
		session->plainly = true;
		say(session, "a request without TLS");
		break;
	case SSL_R_WRONG_VERSION_NUMBER:
		say(session, "the peer does not speak TLS");
		break;
	case SSL_R_UNSUPPORTED_PROTOCOL:
		say(session, "the peer speaks only versions of TLS that are too old");
		break;
	case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
		say(session, "the client shows no certificate");
		break;
	default:
		say(session, "%s", error != 0 ? last_reason() : "out of memory");
	}
}

/* ------------------------------------------------------------------ sessions */

static struct tls_session *session_new(struct tls_context *context)
{
	struct tls_session *session = calloc(1, sizeof(*session));
	BIO *bio;

	if (session == NULL)
		return NULL;
	session->context = tls_context_ref(context);
	session->ssl = SSL_new(context->ctx);
	bio = BIO_new(context->bio);
	if (session->ssl == NULL || bio == NULL) {
		BIO_free(bio);
		tls_session_free(session);
		return NULL;
	}
	BIO_set_data(bio, session);
	BIO_set_init(bio, 1);
	SSL_set_bio(session->ssl, bio, bio);
	SSL_set_app_data(session->ssl, session);
	return session;
}

/* The certificate must name it. A name is also told to the server (SNI), an address is not. */
static bool expect_name(struct tls_session *session, const char *name)
{
	X509_VERIFY_PARAM *expected = SSL_get0_param(session->ssl);
	uint8_t address[16];
	bool is_address = rea_address_parse(rea_slice_of(name), address), ipv4 = is_address && rea_address_is_ipv4(address);

	if (!is_address && SSL_set_tlsext_host_name(session->ssl, name) != 1)
		return false;
	if (!session->context->verify)
		return true;
	X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return is_address ? X509_VERIFY_PARAM_set1_ip(expected, address + (ipv4 ? 12 : 0), ipv4 ? 4 : 16) == 1
			  : X509_VERIFY_PARAM_set1_host(expected, name, 0) == 1;
}

static bool offer(struct tls_session *session)
{
	const char *protocols = session->h2 ? "\x02h2" : "\x08http/1.1";

	/* It returns 0 for success. */
	return SSL_set_alpn_protos(session->ssl, (const unsigned char *)protocols, (unsigned)strlen(protocols)) == 0;
}

struct tls_session *tls_session_client(struct tls_context *context, const char *name, bool h2, struct tls_tickets *tickets)
{
	struct tls_session *session = session_new(context);

	if (session == NULL)
		return NULL;
	SSL_set_connect_state(session->ssl);
	session->h2 = h2;
	session->name = strdup(name);
	if (session->name == NULL || !expect_name(session, name) || !offer(session)) {
		tls_session_free(session);
		return NULL;
	}
	session->tickets = tickets;
	if (tickets != NULL)
		resume(session);
	return session;
}

struct tls_session *tls_session_server(struct tls_context *context)
{
	struct tls_session *session = session_new(context);

	if (session != NULL)
		SSL_set_accept_state(session->ssl);
	return session;
}

void tls_session_free(struct tls_session *session)
{
	if (session == NULL)
		return;
	/* A connection that was cut is no reason to distrust its tickets; one that failed is. */
	if (session->ssl != NULL && session->state != TLS_FAILED)
		SSL_set_shutdown(session->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(session->ssl);
	ERR_clear_error();
	tls_context_unref(session->context);
	rea_buffer_fini(&session->wire);
	free(session->name);
	free(session->trouble);
	free(session);
}

void tls_give(struct tls_session *session, const char *data, size_t length)
{
	session->touched = true;
	session->in = data;
	session->in_length = length;
}

void tls_end(struct tls_session *session, const char *why)
{
	if (session->state == TLS_PEER_CLOSED || session->state == TLS_FAILED)
		return;
	say(session,
	    session->state == TLS_HANDSHAKE ? "the handshake was broken off: %s" : "cut without a closing alert: %s", why);
	session->state = TLS_FAILED;
}

enum tls_state tls_handshake(struct tls_session *session)
{
	int result;

	if (session->state != TLS_HANDSHAKE)
		return session->state;
	ERR_clear_error();
	result = SSL_do_handshake(session->ssl);
	if (result == 1 && session->h2 && !tls_session_h2(session)) {
		say(session, "the peer does not agree to HTTP/2");
		session->state = TLS_FAILED;
	} else if (result == 1) {
		session->state = TLS_OPEN;
	} else if (SSL_get_error(session->ssl, result) != SSL_ERROR_WANT_READ) {
		fail(session);
	}
	return session->state;
}

enum tls_state tls_session_state(const struct tls_session *session)
{
	return session->state;
}

size_t tls_read(struct tls_session *session, char *buffer, size_t size)
{
	size_t length = 0;
	int result;

	if (session->state != TLS_OPEN)
		return 0;
	ERR_clear_error();
	result = SSL_read_ex(session->ssl, buffer, size, &length);
	if (result == 1) {
		session->heard = true;
		return length;
	}
	switch (SSL_get_error(session->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		break;
	case SSL_ERROR_ZERO_RETURN:
		session->state = TLS_PEER_CLOSED;
		break;
	default:
		fail(session);
	}
	return 0;
}

bool tls_seal(struct tls_session *session, struct rea_buffer *plain)
{
	size_t written;

	while (rea_buffer_length(plain) > 0) {
		ERR_clear_error();
		if (session->state == TLS_FAILED ||
		    SSL_write_ex(session->ssl, rea_buffer_data(plain), rea_buffer_length(plain), &written) != 1) {
			fail(session);
			return false;
		}
		rea_buffer_consume(plain, written);
	}
	return true;
}

void tls_close(struct tls_session *session)
{
	if (session->state != TLS_OPEN && session->state != TLS_PEER_CLOSED)
		return;
	ERR_clear_error();
	SSL_shutdown(session->ssl);
}

struct rea_buffer *tls_wire(struct tls_session *session)
{
	return &session->wire;
}

enum tls_side tls_session_side(const struct tls_session *session)
{
	return session->context->side;
}

bool tls_session_h2(const struct tls_session *session)
{
	const unsigned char *protocol;
	unsigned length;

	SSL_get0_alpn_selected(session->ssl, &protocol, &length);
	return length == 2 && memcmp(protocol, "h2", 2) == 0;
}

bool tls_session_resumed(const struct tls_session *session)
{
	return SSL_session_reused(session->ssl) == 1;
}

const char *tls_session_trouble(const struct tls_session *session)
{
	if (session->state != TLS_FAILED)
		return "";
	return session->trouble != NULL ? session->trouble : "out of memory";
}

bool tls_session_rejected(const struct tls_session *session)
{
	return session->rejected;
}

bool tls_session_untouched(const struct tls_session *session)
{
	return session->context->side == TLS_SERVER && !session->touched;
}

bool tls_session_asked_plainly(const struct tls_session *session)
{
	return session->plainly;
}
