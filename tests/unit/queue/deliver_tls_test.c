/* Deliveries over TLS: only to who proves to be the one that the URL names. */
#include "queue/deliver.h"

#include "peer.h"

#include <rea/policy.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const struct rea_config_range everywhere = {.bits = 0};
static struct rig {
	struct loop loop;
	struct deliver_urls *urls;
	struct rea_policy policy;
	struct deliver_url_rule rule;
	char ca_file[64];
	int listener;
	uint16_t port;
	SSL_CTX *tls;
	pthread_t thread;
	atomic_uint handshakes, requests;
	bool done;
	struct rea_report report;
	char detail[512];
} rig;

/* A certificate for hooks.example that signs itself, and so is its own authority. */
static X509 *make_certificate(EVP_PKEY *key)
{
	X509 *certificate = X509_new();
	X509_NAME *name = X509_get_subject_name(certificate);
	X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:hooks.example");

	X509_set_version(certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"rea test", -1, -1, 0);
	X509_set_issuer_name(certificate, name);
	X509_set_pubkey(certificate, key);
	X509_add_ext(certificate, names, -1);
	X509_EXTENSION_free(names);
	assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
	return certificate;
}

static void make_tls(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = make_certificate(key);
	FILE *file;
	int fd;

	snprintf(rig.ca_file, sizeof(rig.ca_file), "rea-test-ca-XXXXXX");
	fd = mkstemp(rig.ca_file);
	file = fdopen(fd, "w");
	assert_int_equal(PEM_write_X509(file, certificate), 1);
	fclose(file);
	rig.tls = SSL_CTX_new(TLS_server_method());
	SSL_CTX_use_certificate(rig.tls, certificate);
	SSL_CTX_use_PrivateKey(rig.tls, key);
	X509_free(certificate);
	EVP_PKEY_free(key);
}

static void serve(int fd)
{
	static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
	SSL *tls = SSL_new(rig.tls);
	char request[4096];

	SSL_set_fd(tls, fd);
	if (SSL_accept(tls) == 1) {
		rig.handshakes++;
		while (SSL_read(tls, request, sizeof(request)) > 0) {
			rig.requests++;
			SSL_write(tls, reply, sizeof(reply) - 1);
		}
	}
	SSL_free(tls);
	close(fd);
}

static void *run_server(void *arg)
{
	int fd;

	(void)arg;
	while ((fd = accept(rig.listener, NULL, NULL)) >= 0)
		serve(fd);
	return NULL;
}

static int set_up(void **state)
{
	static const char *const here[] = {"127.0.0.1", NULL};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);

	(void)state;
	memset(&rig, 0, sizeof(rig));
	loop_init(&rig.loop, 1);
	rig.urls = deliver_urls_new(&rig.loop, 8192);
	rea_policy_task_defaults(&rig.policy);
	rig.rule.allowed = (struct vet_allowed){&everywhere, 1};
	names_answers = here;
	make_tls();
	rig.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bind(rig.listener, (struct sockaddr *)&address, length);
	getsockname(rig.listener, (struct sockaddr *)&address, &length);
	rig.port = ntohs(address.sin_port);
	listen(rig.listener, 16);
	pthread_create(&rig.thread, NULL, run_server, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	deliver_urls_free(rig.urls);
	loop_fini(&rig.loop);
	shutdown(rig.listener, SHUT_RDWR);
	pthread_join(rig.thread, NULL);
	close(rig.listener);
	SSL_CTX_free(rig.tls);
	unlink(rig.ca_file);
	return 0;
}

static void on_done(const struct delivery_result *result, void *user_data)
{
	(void)user_data;
	/* Whoever waits looks before the loop sleeps again. */
	uv_stop(&rig.loop.uv);
	rig.done = true;
	rig.report = result->report;
	snprintf(rig.detail, sizeof(rig.detail), "%s", result->detail);
}

static void deliver_to(const char *host)
{
	struct delivery_request request = {
	    .method = REA_SLICE_LIT("POST"),
	    .body = REA_SLICE_LIT("{}"),
	    .attempt = 1,
	    .attempts_max = 1,
	    .start_ns = loop_now(&rig.loop),
	    .reply_max = 10,
	    .policy = &rig.policy,
	};
	struct vet_url url;
	char text[64];

	request.deadline_ns = rea_time_add(request.start_ns, 20 * REA_NS_PER_S);
	snprintf(text, sizeof(text), "https://%s:%u/", host, (unsigned)rig.port);
	assert_int_equal(vet_url_parse(rea_slice_of(text), &url, NULL), 0);
	rig.done = false;
	assert_non_null(deliver_to_url(rig.urls, &rig.rule, &url, REA_SLICE_LIT("1"), &request, on_done, NULL));
	peer_run_until(&rig.loop, rig.done);
	vet_url_fini(&url);
}

static void a_known_authority_is_trusted_for_the_name_it_vouches_for(void **state)
{
	(void)state;
	rig.rule.ca_file = rig.ca_file;
	deliver_to("hooks.example");
	assert_string_equal(rig.detail, "");
	assert_int_equal(rig.report.code, 200);
	deliver_to("hooks.example");
	assert_int_equal(rig.report.code, 200);
	assert_int_equal(rig.handshakes, 1);
	assert_int_equal(rig.requests, 2);
}

static void assert_distrusted(void)
{
	assert_int_equal(rig.report.outcome, REA_OUTCOME_NEVER_SENT);
	assert_non_null(strstr(rig.detail, "SSL"));
	assert_int_equal(rig.requests, 0);
}

static void an_unknown_authority_gets_nothing(void **state)
{
	(void)state;
	deliver_to("hooks.example");
	assert_distrusted();
}

static void another_name_gets_nothing(void **state)
{
	(void)state;
	rig.rule.ca_file = rig.ca_file;
	deliver_to("other.example");
	assert_distrusted();
	deliver_to("127.0.0.1");
	assert_distrusted();
}

/* A connection that one rule's authority vouched for is not another's. */
static void trust_is_not_shared_through_the_pool(void **state)
{
	(void)state;
	rig.rule.ca_file = rig.ca_file;
	deliver_to("hooks.example");
	assert_int_equal(rig.requests, 1);
	rig.rule.ca_file = NULL;
	deliver_to("hooks.example");
	assert_int_equal(rig.report.outcome, REA_OUTCOME_NEVER_SENT);
	assert_int_equal(rig.requests, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_known_authority_is_trusted_for_the_name_it_vouches_for, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(an_unknown_authority_gets_nothing, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(another_name_gets_nothing, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(trust_is_not_shared_through_the_pool, set_up, tear_down),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
