/* `tls` of listeners and of services. */
#include "refusal.h"

#define LISTEN "listen: {address: '127.0.0.1:1', tls: "
#define USERS "services: {users: {instances: ['127.0.0.1:9'], tls: "

static struct rea_config *parse_named(const char *name, const char *text)
{
	struct rea_config *config = NULL;
	struct rea_error_info info;

	if (rea_config_parse(name, text, strlen(text), NULL, &config, &info) != 0)
		fail_msg("%u:%u: %s: %s", info.line, info.column, info.key, info.message);
	return config;
}

static void every_key_of_a_listener(void **state)
{
	struct rea_config *config =
	    parse_named("/etc/rea/rea.yaml", "listen:\n"
					     "  - 127.0.0.1:7070\n"
					     "  - address: 0.0.0.0:7443\n"
					     "    tls:\n"
					     "      certificate-file: rea.pem\n"
					     "      keyFile: /run/secrets/rea.key\n"
					     "      client-ca-file: clients.pem\n"
					     "      min-version: 1.3\n"
					     "      names:\n"
					     "        Users.Example.com: {certificate-file: u.pem, key-file: u.key}\n"
					     "        '*.example.com': {certificate-file: s.pem, key-file: s.key}\n");
	const struct rea_config_settings *settings = rea_config_settings(config);
	const struct rea_config_tls *tls = settings->listen[1].tls;

	(void)state;
	assert_int_equal(settings->listen_len, 2);
	assert_null(settings->listen[0].tls);
	assert_string_equal(settings->listen[1].address, "0.0.0.0:7443");
	assert_string_equal(tls->certificate_file, "/etc/rea/rea.pem");
	assert_string_equal(tls->key_file, "/run/secrets/rea.key");
	assert_string_equal(tls->ca_file, "/etc/rea/clients.pem");
	assert_int_equal(tls->min_version, REA_TLS_1_3);
	assert_true(tls->verify);
	assert_int_equal(tls->line, 4);
	assert_int_equal(tls->names_len, 2);
	assert_string_equal(tls->names[0].name, "users.example.com");
	assert_string_equal(tls->names[0].certificate_file, "/etc/rea/u.pem");
	assert_string_equal(tls->names[0].key_file, "/etc/rea/u.key");
	assert_int_equal(tls->names[0].line, 10);
	assert_string_equal(tls->names[1].name, "*.example.com");
	rea_config_unref(config);
}

static void every_key_of_a_service(void **state)
{
	struct rea_config *config =
	    parse_named("rea.yaml", "services:\n"
				    "  users:\n"
				    "    tls:\n"
				    "      ca-file: ca.pem\n"
				    "      server-name: users.internal\n"
				    "      certificate-file: rea.pem\n"
				    "      key-file: rea.key\n"
				    "      min-version: '1.2'\n"
				    "    instances: []\n"
				    "  pay: {tls: true, instances: []}\n"
				    "  old: {tls: false, instances: []}\n"
				    "  lab: {tls: {verify: false, server-name: '10.0.0.7'}, instances: []}\n"
				    "  plain: {instances: []}\n");
	const struct rea_config_tls *users = rea_config_service(config, 0)->tls,
				    *pay = rea_config_service(config, 1)->tls, *lab = rea_config_service(config, 3)->tls;

	(void)state;
	assert_string_equal(users->ca_file, "ca.pem");
	assert_string_equal(users->server_name, "users.internal");
	assert_string_equal(users->certificate_file, "rea.pem");
	assert_string_equal(users->key_file, "rea.key");
	assert_int_equal(users->min_version, REA_TLS_1_2);
	assert_true(users->verify);
	assert_int_equal(users->line, 3);
	assert_null(pay->ca_file);
	assert_null(pay->server_name);
	assert_true(pay->verify);
	assert_null(rea_config_service(config, 2)->tls);
	assert_false(lab->verify);
	assert_string_equal(lab->server_name, "10.0.0.7");
	assert_null(rea_config_service(config, 4)->tls);
	rea_config_unref(config);
}

static void refusals(void **state)
{
	static const struct refusal table[] = {
	    {LISTEN "{}}", REA_ERR_INVALID, 1, 34, "listen.tls", "a listener's `tls` needs `certificate-file` and `key-file`"},
	    {LISTEN "{certificate-file: a}}", REA_ERR_INVALID, 1, 34, "listen.tls",
		"a listener's `tls` needs `certificate-file` and `key-file`"},
	    {LISTEN "true}", REA_ERR_INVALID, 1, 39, "listen.tls", "expected a mapping of keys to values, got \"true\""},
	    {"listen: [{tls: {certificate-file: a, key-file: b}}]", REA_ERR_INVALID, 1, 10, "listen[0]",
		"a listener needs an `address`"},
	    {LISTEN "{certificate-file: a, key-file: b, verify: false}}", REA_ERR_INVALID, 1, 74, "listen.tls.verify",
		"tls has no key \"verify\""},
	    {LISTEN "{certificate-file: a, key-file: b, min-version: 1.1}}", REA_ERR_INVALID, 1, 87,
		"listen.tls.min-version", "expected 1.2 or 1.3, got \"1.1\"; did you mean 1.2?"},
	    {LISTEN "{certificate-file: a, key-file: b, names: {'a b': {}}}}", REA_ERR_INVALID, 1, 82,
		"listen.tls.names.a b", "expected a host name such as users.example.com or *.example.com"},
	    {LISTEN "{certificate-file: a, key-file: b, names: {a.*.c: {}}}}", REA_ERR_INVALID, 1, 82,
		"listen.tls.names.a.*.c", "expected a host name such as users.example.com or *.example.com"},
	    {LISTEN "{certificate-file: a, key-file: b, names: {a: {key-file: c}}}}", REA_ERR_INVALID, 1, 82,
		"listen.tls.names.a", "a name needs `certificate-file` and `key-file`"},
	    {LISTEN "{certificate-file: a, key-file: b, names: {a: {certificate-file: c, key-file: d}, A: {}}}}",
		REA_ERR_INVALID, 1, 121, "listen.tls.names.A", "a stands here a second time; the first is on line 1"},
	    {USERS "yes}}", REA_ERR_INVALID, 1, 53, "services.users.tls",
		"expected true or false, got \"yes\"; did you mean true?"},
	    {USERS "{certificate-file: a}}}", REA_ERR_INVALID, 1, 53, "services.users.tls",
		"`certificate-file` and `key-file` are given together, or neither is"},
	    {USERS "{verify: false, ca-file: a}}}", REA_ERR_INVALID, 1, 53, "services.users.tls",
		"`ca-file` says who vouches for the instances, and `verify: false` that nobody need"},
	    {USERS "{server-name: 'a:1'}}}", REA_ERR_INVALID, 1, 67, "services.users.tls.server-name",
		"expected a name or an address such as users.internal, without a port, got \"a:1\""},
	    {USERS "{ca: a}}}", REA_ERR_INVALID, 1, 54, "services.users.tls.ca", "tls has no key \"ca\""},
	};

	(void)state;
	CHECK_REFUSALS(table);
}

static struct explained {
	char text[16384];
	size_t length;
} explained;

static void keep(const char *text, size_t length, void *user_data)
{
	struct explained *out = user_data;

	assert_true(out->length + length < sizeof(out->text));
	memcpy(out->text + out->length, text, length);
	out->length += length;
	out->text[out->length] = '\0';
}

static void what_is_not_verified_is_said(void **state)
{
	struct rea_config *config = parse_named("rea.yaml",
	    "listen: {address: '127.0.0.1:1', tls: {certificate-file: a, key-file: b}}\n"
	    "services:\n"
	    "  lab: {tls: {verify: false}, instances: []}\n"
	    "  users: {tls: {ca-file: ca.pem, certificate-file: c, key-file: d, min-version: 1.3}, instances: []}\n");
	struct rea_error_info info;

	(void)state;
	memset(&explained, 0, sizeof(explained));
	assert_int_equal(rea_config_explain(config, "lab", NULL, keep, &explained, &info), 0);
	assert_non_null(strstr(explained.text,
	    "tls, line 3: 1.2 or later; NOT VERIFIED: whoever answers at an instance's address is believed\n"));
	memset(&explained, 0, sizeof(explained));
	assert_int_equal(rea_config_explain(config, "users", NULL, keep, &explained, &info), 0);
	assert_non_null(strstr(explained.text, "tls, line 4: 1.3 or later; certificates for the host of each address, "
					       "vouched for by ca.pem; ours is c\n"));
	memset(&explained, 0, sizeof(explained));
	assert_int_equal(rea_config_explain(config, NULL, NULL, keep, &explained, &info), 0);
	assert_non_null(strstr(explained.text, "127.0.0.1:1 (TLS)"));
	rea_config_unref(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key_of_a_listener),
	    cmocka_unit_test(every_key_of_a_service),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(what_is_not_verified_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
