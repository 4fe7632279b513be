"""TLS on both sides: who is believed, who is refused and in which words, and that nothing is sent where it is refused."""
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

import frames
import tasks
from rig import REA, Closed, Connection, head, service, wait_for
from tls import LAST_REPLY, Authority, TlsInstance, server_context

GET = head("GET", "/user-service/users/42", [("Host", "localhost")])


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def instance(rig):
    """Makes instances, and ends them."""
    rig.unchecked = True  # what they saw is counted here
    made = []

    def make(*arguments):
        made.append(TlsInstance(*arguments))
        return made[-1]

    yield make
    for each in made:
        each.close()


def behind_tls(rig, authority, *instances, tls=None, retry=None):
    """rea, which speaks TLS with these."""
    config = service(*[each if isinstance(each, (str, dict)) else each.address for each in instances], retry=retry)
    config["services"]["user-service"]["tls"] = {"ca-file": authority.ca, **(tls or {})}
    return rig.serve(config)


def get(serve):
    with serve.connect() as connection:
        connection.send(GET)
        return connection.reply()


def the_events(serve, count):
    def look():
        found = [event for event in serve.events() if event["type"] != "Config"]
        return found[:count] if len(found) >= count else None

    return wait_for(look)


# ---------------------------------------------------------------- upstream: who is refused


def expired(authority, _stranger):
    return server_context(authority.issue("bad", days=-1)), "the certificate has expired (20"


def wrong_host(authority, _stranger):
    return server_context(authority.issue("bad", "DNS:a.example,DNS:b.example")), "the certificate is for a.example, b.example, not for 127.0.0.1"


def unknown_authority(authority, stranger):
    return server_context(stranger.issue("bad")), f"the certificate is not vouched for by {authority.ca} (unable to get local issuer certificate)"


def no_client_certificate(authority, _stranger):
    return server_context(authority.issue("bad"), authority.ca), "the peer asks for a certificate, and there is none to show"


def wrong_client_certificate(authority, stranger):
    return server_context(authority.issue("bad"), stranger.ca), "the peer asks for a certificate, and there is none to show"


def too_old(authority, _stranger):
    context = server_context(authority.issue("bad"))
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context, "the peer speaks no version of TLS that is wanted here (its alert: protocol version)"


BAD = [expired, wrong_host, unknown_authority, no_client_certificate, wrong_client_certificate, too_old]


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_not_good_is_refused_with_host_and_cause_and_nothing_is_sent(rig, tmp_path, authority, instance, case):
    context, cause = case(authority, Authority(tmp_path, "stranger"))
    bad, good = instance(context), instance(server_context(authority.issue("good")))
    serve = behind_tls(rig, authority, bad, good)
    reply = get(serve)
    assert (reply.status, reply.body) == (200, b"ok")
    first, second = the_events(serve, 2)
    assert (first["type"], first["outcome"], first["instance"], first["attempt"]) == ("Retry", "never_sent", bad.address, 1)
    assert f"TLS to 127.0.0.1 ({bad.address}): {cause}"[:180] in first["detail"], first
    assert (second["type"], second["outcome"], second["instance"]) == ("Success", "ok", good.address)
    assert (bad.requests, len(good.requests)) == ([], 1)
    assert serve.metric("rea_tls_failed_total", side="upstream") + (bad.handshakes == 0 and case is not too_old) >= 1
    # Alone, it is what the caller is told.
    alone = behind_tls(rig, authority, bad)
    reply = get(alone)
    assert (reply.status, reply.field("content-type")) == (502, "application/problem+json")
    assert f"TLS to 127.0.0.1 ({bad.address}): {cause}" in reply.text
    assert bad.requests == []


def test_a_host_that_hangs_in_the_handshake_ends_with_the_attempt(rig, authority, instance):
    silent = instance(None, lambda connection: connection.recv(1) and time.sleep(20))
    good = instance(server_context(authority.issue("good")))
    serve = behind_tls(rig, authority, silent, good, retry={"attempt-timeout-ms": 300})
    assert get(serve).status == 200
    first, second = the_events(serve, 2)
    assert (first["type"], first["outcome"], first["instance"], first["error_code"]) == ("Retry", "never_sent", silent.address, 110), first
    assert (second["outcome"], second["instance"]) == ("ok", good.address)


def test_an_instance_without_tls_is_not_spoken_to(rig, authority, instance):
    plain = instance(None, lambda connection: (connection.recv(100), connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")))
    reply = get(behind_tls(rig, authority, plain))
    assert reply.status == 502
    assert f"TLS to 127.0.0.1 ({plain.address}): the peer does not speak TLS" in reply.text


def test_an_instance_that_closes_in_the_handshake_is_never_sent(rig, authority, instance):
    closing = instance(None, lambda connection: connection.recv(100))
    serve = behind_tls(rig, authority, closing)
    assert "the handshake was broken off" in get(serve).text
    assert the_events(serve, 1)[0]["outcome"] == "never_sent"


# ---------------------------------------------------------------- upstream: who is believed


def test_names_and_their_own_certificates(rig, authority, instance):
    users = instance(server_context(authority.issue("users", "DNS:users.internal")))
    local = instance(server_context(authority.issue("local", "DNS:localhost")))
    assert get(behind_tls(rig, authority, users, tls={"server-name": "users.internal"})).status == 200
    assert get(behind_tls(rig, authority, f"localhost:{local.port}")).status == 200
    assert get(behind_tls(rig, authority, local, tls={"server-name": "localhost", "min-version": "1.3"})).status == 200
    assert (users.names, local.names) == (["users.internal"], ["localhost", "localhost"])
    reply = get(behind_tls(rig, authority, users, tls={"server-name": "pay.internal"}))
    assert f"TLS to pay.internal ({users.address}): the certificate is for users.internal, not for pay.internal" in reply.text
    assert len(users.requests) == 1


def test_who_must_show_a_certificate_does(rig, authority, instance):
    demanding = instance(server_context(authority.issue("users"), authority.ca))
    ours = authority.issue("rea-itself")
    serve = behind_tls(rig, authority, demanding, tls=ours.files())
    assert get(serve).status == 200
    assert demanding.client_names == ["rea-itself"]


def test_without_verification_all_are_believed_and_that_is_said(rig, tmp_path, authority, instance):
    wrong = instance(server_context(Authority(tmp_path, "stranger").issue("bad", "DNS:other", days=-1)))
    config = service(wrong.address)
    config["services"]["user-service"]["tls"] = {"verify": False}
    serve = rig.serve(config)
    assert get(serve).status == 200
    said = "service user-service: the certificates of its instances are not verified"
    assert said in serve.stderr_text()
    assert any(said in event["detail"] for event in serve.config_events())
    explained = subprocess.run([REA, "explain", "--config", str(serve.config_path), "user-service"], capture_output=True, text=True)
    assert "NOT VERIFIED" in explained.stdout


def test_sessions_are_resumed(rig, authority, instance):
    users = instance(server_context(authority.issue("users")), LAST_REPLY)
    serve = behind_tls(rig, authority, users)
    for _ in range(6):
        assert get(serve).status == 200
    assert (users.handshakes, users.resumed, len(users.requests)) == (6, 5, 6)
    assert serve.metric("rea_tls_handshakes_total", side="upstream") == 6
    assert serve.metric("rea_tls_resumed_total", side="upstream") == 5


def test_a_reply_that_only_the_end_would_end_needs_an_end_in_order(rig, authority, instance):
    def whole(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        connection.unwrap()

    def cut(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nhalf of")
        os.close(connection.detach())

    context = server_context(authority.issue("users"))
    with behind_tls(rig, authority, instance(context, whole)).connect() as connection:
        connection.send(GET)
        reply = connection.reply()
        assert (reply.complete, reply.body) == (True, b"all of it")
    with behind_tls(rig, authority, instance(context, cut)).connect() as connection:
        connection.send(GET)
        reply = connection.reply()
        assert (reply.complete, reply.body) in ((False, b"half of"), (False, b""))


def test_bodies_of_any_size_go_through_both_sides(rig, authority):
    upstream = rig.upstream(A="echo")
    inner_config = service(upstream.address("A"), operations=[{"post": "/echo", "id": "echo", "retryable": False}])
    pair = authority.issue("inner")
    inner_config["listen"] = [{"address": "127.0.0.1:0", "tls": pair.files()}]
    inner = rig.serve(inner_config)
    outer = behind_tls(rig, authority, inner.calls)
    rig.unchecked = True
    for size in (1, 16384, 16385, 1000000):
        body = bytes(range(256)) * (size // 256 + 1)
        body = body[:size]
        with outer.connect() as connection:
            connection.send(head("POST", "/user-service/user-service/echo", [("Host", "x"), ("Content-Length", str(size))]) + body)
            reply = connection.reply()
        assert (reply.status, reply.body == body) == (200, True), (size, reply)


# ---------------------------------------------------------------- the listener


def tls_listener(rig, pair, more=None, upstream_script="echo", **tls):
    upstream = rig.upstream(A=upstream_script)
    config = service(upstream.address("A"), **(more or {}))
    config["listen"] = [{"address": "127.0.0.1:0", "tls": {**pair.files(), **tls}}]
    return upstream, rig.serve(config)


def curl(serve, authority, *more, host="localhost"):
    port = serve.calls.rsplit(":", 1)[1]
    return subprocess.run(
        ["curl", "-sS", "--cacert", authority.ca, "--resolve", f"{host}:{port}:127.0.0.1", "-w", "\n%{http_code} %{http_version}", *more,
         f"https://{host}:{port}/user-service/users/42"], capture_output=True, text=True, timeout=20)  # fmt: skip


def test_curl_is_served_in_both_versions_of_http(rig, authority):
    upstream, serve = tls_listener(rig, authority.issue("rea"))
    assert curl(serve, authority, "--http1.1").stdout.endswith("\n200 1.1")
    assert curl(serve, authority, "--http2").stdout.endswith("\n200 2")
    assert len(upstream.requests()) == 2
    assert serve.metric("rea_tls_handshakes_total", side="listener") == 2


def test_the_name_that_is_asked_for_picks_the_certificate(rig, authority):
    main, own = authority.issue("main", "DNS:main.example"), authority.issue("own", "DNS:own.example")
    star = authority.issue("star", "DNS:*.star.example")
    names = {"own.example": own.files(), "*.star.example": star.files()}
    _, serve = tls_listener(rig, main, names=names)
    for host in ("main.example", "own.example", "a.star.example"):
        assert curl(serve, authority, host=host).stdout.endswith("\n200 2"), host
    assert curl(serve, authority, host="other.example").returncode == 60
    shown = subprocess.run(["openssl", "s_client", "-connect", serve.calls, "-servername", "other.example"], input="", capture_output=True, text=True, timeout=20)
    assert "subject=CN = main\n" in shown.stdout


def test_who_shows_no_certificate_calls_nobody(rig, tmp_path, authority):
    upstream, serve = tls_listener(rig, authority.issue("rea"), **{"client-ca-file": authority.ca})
    ours, foreign = authority.issue("caller"), Authority(tmp_path, "stranger").issue("foreign")
    assert curl(serve, authority).returncode in (16, 35, 55, 56)
    assert curl(serve, authority, "--cert", str(foreign.certificate), "--key", str(foreign.key)).returncode in (16, 35, 55, 56)
    assert upstream.requests() == [] and serve.metric("rea_calls_total") == 0
    assert wait_for(lambda: serve.metric("rea_tls_failed_total", side="listener") == 2)
    assert "TLS with 127.0.0.1: the client shows no certificate" in serve.stderr_text()
    assert curl(serve, authority, "--cert", str(ours.certificate), "--key", str(ours.key)).stdout.endswith("\n200 2")
    assert len(upstream.requests()) == 1


def test_an_old_protocol_is_refused(rig, authority):
    _, serve = tls_listener(rig, authority.issue("rea"))
    done = subprocess.run(
        ["openssl", "s_client", "-connect", serve.calls, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"], input="", capture_output=True, text=True, timeout=20
    )
    assert done.returncode != 0 and "protocol version" in done.stderr
    wait_for(lambda: "TLS with 127.0.0.1: the peer speaks only versions of TLS that are too old" in serve.stderr_text())
    _, strict = tls_listener(rig, authority.issue("rea"), **{"min-version": "1.3"})
    done = subprocess.run(["openssl", "s_client", "-connect", strict.calls, "-tls1_2"], input="", capture_output=True, text=True, timeout=20)
    assert done.returncode != 0 and "protocol version" in done.stderr


def test_http_on_a_port_of_tls_is_answered_and_calls_nobody(rig, authority):
    upstream, serve = tls_listener(rig, authority.issue("rea"))
    with serve.connect() as connection:
        connection.send(GET)
        reply = connection.reply()
        assert (reply.status, reply.text) == (400, "This port speaks TLS: ask with https.\r\n")
        assert connection.at_end()
    with serve.connect() as connection:
        connection.send(b"\x00\x01\x02 garbage that is neither\r\n\r\n")
        with pytest.raises((Closed, ConnectionResetError)):
            while connection.fill():
                connection.buffer = b""
            raise Closed
    assert upstream.requests() == [] and serve.metric("rea_calls_total") == 0


def test_who_only_looks_whether_the_port_is_open_is_no_failure(rig, authority):
    _, serve = tls_listener(rig, authority.issue("rea"))
    serve.connect().close()
    with serve.connect() as connection:
        connection.send(b"\x16\x03\x01")
    wait_for(lambda: "TLS with 127.0.0.1: the handshake was broken off: the peer closed the connection" in serve.stderr_text())
    assert serve.metric("rea_tls_failed_total", side="listener") == 1
    assert serve.stderr_text().count("TLS with") == 1


def test_tls_on_a_port_without_it_is_refused(rig):
    upstream, serve = rig.pair("echo")
    done = subprocess.run(["openssl", "s_client", "-connect", serve.calls], input="", capture_output=True, text=True, timeout=20)
    assert done.returncode != 0
    assert upstream.requests() == []


def test_who_never_ends_its_handshake_is_left(rig, authority):
    _, serve = tls_listener(rig, authority.issue("rea"), more={"timeouts": {"request-head-ms": 200}})
    with serve.connect() as connection:
        connection.send(b"\x16\x03\x01")
        assert connection.at_end()
    assert serve.metric("rea_calls_total") == 0


def test_a_handshake_that_ends_within_a_drain_begins_nothing(rig, authority):
    rig.unchecked = True  # it has ended
    upstream, serve = tls_listener(rig, authority.issue("rea"), upstream_script="on GET /users/1\ndelay 500ms body ok\non GET /\nbody ok")
    context = ssl.create_default_context(cafile=authority.ca)
    address = ("127.0.0.1", int(serve.calls.rsplit(":", 1)[1]))
    context_h2 = ssl.create_default_context(cafile=authority.ca)
    context_h2.set_alpn_protocols(["h2"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context_h2.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(address, 10) as slow, context.wrap_socket(socket.create_connection(address, 10), server_hostname="localhost") as busy:
        finished = False
        while not finished:
            try:
                client.do_handshake()
                finished = True
            except ssl.SSLWantReadError:
                slow.sendall(outgoing.read())
                incoming.write(slow.recv(65536))
        busy.sendall(head("GET", "/user-service/users/1", [("Host", "localhost"), ("x-biz-id", "busy")]))
        wait_for(lambda: serve.metric("rea_calls_in_flight") == 1)
        serve.signal(signal.SIGTERM)
        assert slow.recv(1) == b""  # the drain has begun
        client.write(frames.PREFACE + frames.frame(frames.SETTINGS))
        client.write(frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, frames.request("GET", "/user-service/users/2")))
        slow.sendall(outgoing.read())  # the end of its handshake, and a request
        assert busy.recv(65536).startswith(b"HTTP/1.1 200 OK")
    assert serve.wait() == 0
    assert [request["path"] for request in upstream.requests()] == ["/users/1"]


def test_openssl_resumes_and_ends_in_order(rig, tmp_path, authority):
    _, serve = tls_listener(rig, authority.issue("rea"))
    ticket = tmp_path / "ticket"
    request = b"GET /user-service/users/42 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    def ask(*arguments):
        return subprocess.run(["openssl", "s_client", "-connect", serve.calls, "-ign_eof", *arguments], input=request, capture_output=True, timeout=20)

    first = ask("-sess_out", str(ticket))
    assert b"HTTP/1.1 200 OK" in first.stdout and first.stdout.rstrip().endswith(b"closed"), first.stdout
    assert b"New, TLSv1.3" in first.stdout and b"Reused, TLSv1.3" in ask("-sess_in", str(ticket)).stdout
    assert serve.metric("rea_tls_resumed_total", side="listener") == 1


# ---------------------------------------------------------------- other people's servers


def test_nginx_is_an_instance(rig, tmp_path, authority):
    pair = authority.issue("nginx")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    conf = tmp_path / "nginx.conf"
    conf.write_text(
        f"pid {tmp_path}/nginx.pid; error_log {tmp_path}/nginx.log; daemon off; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}; proxy_temp_path {tmp_path}; fastcgi_temp_path {tmp_path};\n"
        f"uwsgi_temp_path {tmp_path}; scgi_temp_path {tmp_path};\n"
        f"server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {pair.certificate}; ssl_certificate_key {pair.key};\n"
        f"keepalive_requests 1; location / {{ return 200 nginx; }} }} }}\n"
    )
    nginx = subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-p", str(tmp_path), "-c", str(conf)], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        serve = behind_tls(rig, authority, f"127.0.0.1:{port}")
        rig.unchecked = True
        for _ in range(4):
            reply = get(serve)
            assert (reply.status, reply.body) == (200, b"nginx")
        assert serve.metric("rea_tls_handshakes_total", side="upstream") == 4
        assert serve.metric("rea_tls_resumed_total", side="upstream") == 3
    finally:
        nginx.terminate()
        nginx.wait()


def test_http2_is_agreed_on_with_nghttpd_and_refused_where_it_is_not(rig, tmp_path, authority, instance):
    pair = authority.issue("nghttpd")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "42").write_text("nghttp2")
    peer = subprocess.Popen(
        [shutil.which("nghttpd"), "-a", "127.0.0.1", "-d", str(tmp_path), str(port), str(pair.key), str(pair.certificate)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        config = service(f"127.0.0.1:{port}")
        config["services"]["user-service"].update(protocol="h2", tls={"ca-file": authority.ca})
        serve = rig.serve(config)
        for _ in range(5):
            reply = get(serve)
            assert (reply.status, reply.body) == (200, b"nghttp2")
        assert serve.metric("rea_tls_handshakes_total", side="upstream") == 1
    finally:
        peer.terminate()
        peer.wait()
    context = server_context(authority.issue("h1-only"))
    for protocols, words in (([], "the peer does not agree to HTTP/2"), (["http/1.1"], "the peer does not agree to HTTP/2")):
        if protocols:
            context.set_alpn_protocols(protocols)
        config["services"]["user-service"]["instances"] = [instance(context).address]
        reply = get(rig.serve(config))
        assert reply.status == 502 and words in reply.text


def test_a_task_names_host_and_cause_too(rig, tmp_path, authority, instance):
    bad = instance(server_context(authority.issue("bad", "DNS:other.example")))
    good = instance(server_context(authority.issue("good")), LAST_REPLY)
    config = tasks.config(tmp_path, [bad.address, good.address])
    config["services"]["pay"].update(tls={"ca-file": authority.ca}, ejection=False)
    serve = rig.serve(config)
    client = tasks.Tasks(serve)
    document = client.submit(path="/orders/1", method="PUT")
    wait_for(lambda: len(good.requests) == 1)
    assert the_events(serve, 2)[0]["outcome"] == "never_sent"
    _, task, _ = client.ask("GET", f"/v1/tasks/{document['id']}/attempts")
    assert f"TLS to 127.0.0.1 ({bad.address}): the certificate is for other.example, not for 127.0.0.1" in str(task)
    assert bad.requests == []


# ---------------------------------------------------------------- certificates that change


def served_serial(serve, authority):
    port = int(serve.calls.rsplit(":", 1)[1])
    context = ssl.create_default_context(cafile=authority.ca)
    with socket.create_connection(("127.0.0.1", port), 10) as plain, context.wrap_socket(plain, server_hostname="localhost") as connection:
        return connection.getpeercert()["serialNumber"]


def replace(pair, other):
    for old, new in ((pair.certificate, other.certificate), (pair.key, other.key)):
        draft = old.with_suffix(".new")
        shutil.copy(new, draft)
        draft.chmod(0o600)
        draft.rename(old)


def test_new_certificates_are_taken_up_under_load_without_a_failed_call(rig, authority):
    pair = authority.issue("rea")
    upstream, serve = tls_listener(rig, pair)
    context = ssl.create_default_context(cafile=authority.ca)
    failures, done, stop = [], [0], threading.Event()

    def call_again_and_again():
        while not stop.is_set():
            try:
                with socket.create_connection(tuple(serve.calls.split(":")), 10) as plain:
                    with context.wrap_socket(plain, server_hostname="localhost") as connection:
                        for _ in range(3):
                            connection.sendall(GET)
                            text = b""
                            while b"\r\n\r\n" not in text:
                                text += connection.recv(65536)
                            assert text.startswith(b"HTTP/1.1 200"), text
                            done[0] += 1
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

    threads = [threading.Thread(target=call_again_and_again) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(3):
            other = authority.issue(f"next{number}")
            replace(pair, other)
            if number == 1:
                serve.signal(signal.SIGHUP)
            wait_for(lambda: served_serial(serve, authority) == other.serial(), 10, "the new certificate")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == [] and done[0] > 0
    assert wait_for(lambda: serve.metric("rea_tls_reloads_total") >= 3)


def test_what_is_not_good_leaves_the_old_certificate(rig, tmp_path, authority):
    pair = authority.issue("rea")
    first = pair.serial()
    _, serve = tls_listener(rig, pair)
    key = pair.key.read_bytes()
    other, late = authority.issue("other"), authority.issue("late", days=-1)

    def rejected(words):
        wait_for(lambda: any(words in event["detail"] for event in serve.config_events()), 10, words)
        assert served_serial(serve, authority) == first

    shutil.copy(other.key, pair.key)
    rejected(f"{pair.key}: is not the key of {pair.certificate}: the certificates in use stay")
    pair.key.unlink()
    rejected(f"{pair.key}: cannot be read: No such file or directory: the certificates in use stay")
    pair.key.write_bytes(key)
    replace(pair, late)
    rejected(f"{pair.certificate}: the certificate has expired: the certificates in use stay")
    assert serve.metric("rea_tls_rejects_total") >= 3 and serve.metric("rea_tls_reloads_total") == 0
    replace(pair, other)
    wait_for(lambda: served_serial(serve, authority) == other.serial(), 10)


def test_authorities_and_our_own_certificate_change_upstream(rig, tmp_path, authority, instance):
    users = instance(server_context(authority.issue("users")), LAST_REPLY)
    stranger = Authority(tmp_path, "stranger")
    believed = tmp_path / "believed.pem"
    shutil.copy(stranger.ca, believed)
    config = service(users.address)
    config["services"]["user-service"]["tls"] = {"ca-file": str(believed)}
    serve = rig.serve(config)
    assert get(serve).status == 502
    shutil.copy(authority.ca, believed)
    wait_for(lambda: get(serve).status == 200, 10)
    assert users.requests != []


@pytest.mark.parametrize("command", [["serve"], ["serve", "--check"]])
def test_files_that_are_not_good_are_named_at_the_start(tmp_path, authority, command):
    pair, other = authority.issue("rea"), authority.issue("other")
    path = tmp_path / "rea.yaml"
    path.write_text(f'listen: {{address: "127.0.0.1:0", tls: {{certificate-file: {pair.certificate.name}, key-file: {other.key.name}}}}}\nadmin: 127.0.0.1:0\n')
    done = subprocess.run([REA, *command, "--config", str(path)], capture_output=True, text=True, timeout=20)
    assert done.returncode != 0
    assert f"rea: {other.key}: is not the key of {pair.certificate}\n" == done.stderr


def test_the_end_of_a_certificate_is_told(rig, authority):
    pair = authority.issue("rea", days=3)
    pair.key.chmod(0o644)
    _, serve = tls_listener(rig, pair)
    assert f"{pair.certificate}: the certificate expires soon (" in serve.stderr_text()
    assert f"{pair.key}: the private key can be read by others than its owner" in serve.stderr_text()
    end = serve.metric("rea_tls_certificate_not_after_seconds", file=str(pair.certificate))
    assert 2 * 86400 < end - time.time() <= 3 * 86400
