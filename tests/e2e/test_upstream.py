"""`rea upstream` by itself: each action does what its manual says. The other tests stand on this."""
import hashlib
import json
import socket
import subprocess

import pytest

from rig import MS, REA, S, Closed, Connection, chunked, head, now_ns, pattern, wait_for


@pytest.fixture
def ask(rig):
    """Send one request to an instance with this script and return its reply."""

    def ask(script, request=head("GET", "/", [("Host", "x")]), method="GET"):
        upstream = rig.upstream(A=script)
        with Connection(upstream.address("A")) as connection:
            connection.send(request)
            reply = connection.reply(method)
            reply.log = upstream
            return reply

    return ask


POST = head("POST", "/x?y=1", [("Host", "h"), ("Content-Length", 5), ("rea-attempt", "1/2"), ("X-A", "b")]) + b"hello"


def test_replies(ask):
    reply = ask('status 503 header Retry-After: 2 header "x-a" "b c" body "so sorry"')
    assert (reply.status, reply.text, reply.field("retry-after"), reply.field("x-a"), reply.field("x-upstream")) == (503, "so sorry", "2", "b c", "A")
    assert ask("body-bytes 70000").body == pattern(70000)
    assert ask("echo", POST).body == b"hello"
    reply = ask("body abc trailer x-sum: 3")
    assert (reply.body, reply.trailers, reply.field("content-length")) == (b"abc", [("x-sum", "3")], None)
    reply = ask("interim 103 body ok")
    assert [interim.status for interim in reply.interims] == [103] and reply.text == "ok"
    reply = ask("body-bytes 100", head("HEAD", "/", [("Host", "x")]), "HEAD")
    assert (reply.field("content-length"), reply.body) == ("100", b"")


def test_what_is_recorded(ask):
    log = ask("2x status 503\necho", POST).log
    (line,) = log.requests()
    assert (line["instance"], line["method"], line["path"], line["n"], line["complete"]) == ("A", "POST", "/x?y=1", 1, True)
    assert line["body_bytes"] == 5 and line["body_sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert line["fields"] == [["Host", "h"], ["Content-Length", "5"], ["rea-attempt", "1/2"], ["X-A", "b"]]
    assert line["headers_sha256"] == hashlib.sha256(b"Content-Length: 5\nX-A: b\n").hexdigest()
    assert line["action"] == "2x status 503"
    assert abs(line["t_ns"] - now_ns()) < 10 * S and line["t_ns"] <= line["end_ns"]


def test_echo_streams_and_returns_trailers(ask):
    body = pattern(3_000_000)
    reply = ask("echo", head("POST", "/", [("Host", "x"), ("Content-Length", len(body))]) + body)
    assert reply.body == body
    reply = ask("echo", head("POST", "/", [("Host", "x"), ("Transfer-Encoding", "chunked")]) + chunked(b"ab", b"c", trailers=[("t", "1")]))
    assert (reply.body, reply.trailers) == (b"abc", [("t", "1")])
    reply = ask("echo delay 100ms", head("POST", "/", [("Host", "x"), ("Content-Length", len(body))]) + body)
    assert reply.body == body


def test_times(ask):
    begun = now_ns()
    assert ask("delay 200ms body ok").text == "ok"
    assert now_ns() - begun >= 200 * MS
    begun = now_ns()
    reply = ask("pause 200ms body ok")
    assert reply.end_ns - begun >= 200 * MS
    begun = now_ns()
    reply = ask("body abcdef drip 2 every 100ms")
    assert reply.text == "abcdef" and reply.end_ns - begun >= 200 * MS


@pytest.mark.parametrize("script", ["close", "delay 50ms close"])
def test_close(ask, script):
    with pytest.raises(Closed):
        ask(script)


def test_reset(ask):
    with pytest.raises(ConnectionResetError):
        ask("reset")


def test_cut_bodies(ask):
    for script in ("short body abc", "short chunked body abc", "body-bytes 10 reset-after 3", "body-bytes 10 chunked reset-after 3"):
        reply = ask(script)
        assert reply.status == 200 and not reply.complete and len(reply.body) == 3, script


def test_a_reply_without_a_body_cannot_be_cut(rig):
    upstream = rig.upstream(A="short body abc\nbody-bytes 9 reset-after 3\nshort status 204")
    with Connection(upstream.address("A")) as connection:
        for method in ("HEAD", "HEAD", "GET", "HEAD"):
            connection.send(head(method, "/", [("Host", "x")]))
            assert connection.reply(method).status in (200, 204)


def test_reset_after_the_head(rig):
    upstream = rig.upstream(A="body-bytes 10 reset-after 0 pause 100ms")
    with Connection(upstream.address("A")) as connection:
        connection.send(head("GET", "/", [("Host", "x")]))
        assert connection.head().status == 200
        with pytest.raises(ConnectionResetError):
            connection.socket.recv(1)


def test_hang_notices_that_the_client_left(rig):
    upstream = rig.upstream(A="hang")
    with Connection(upstream.address("A")) as connection:
        connection.send(head("GET", "/", [("Host", "x")]))
        wait_for(upstream.requests)
    (line,) = wait_for(upstream.aborted)
    assert line["why"] == "the client left"


def test_garbage_and_endless_headers(rig):
    upstream = rig.upstream(A="garbage\nendless-headers")
    with Connection(upstream.address("A")) as connection:
        connection.send(head("GET", "/", [("Host", "x")]))
        while connection.fill():
            pass
        assert not connection.buffer.startswith(b"HTTP")
    with Connection(upstream.address("A")) as connection:
        connection.send(head("GET", "/", [("Host", "x")]))
        while len(connection.buffer) < 4_000_000:
            assert connection.fill()
        assert b"\r\n\r\n" not in connection.buffer


def test_early_and_no_read(rig):
    upstream = rig.upstream(A="status 503 early body busy\nstatus 413 no-read body big")
    request = head("POST", "/", [("Host", "x"), ("Content-Length", 10)]) + b"12345"
    for status, complete in ((503, True), (413, False)):
        with Connection(upstream.address("A")) as connection:
            connection.send(request)
            assert connection.reply("POST").status == status
            if complete:
                connection.send(b"67890")
        line = wait_for(lambda: [line for line in upstream.requests() if str(status) in line["action"]])[0]
        assert line["complete"] is complete


def test_upgrade_and_connect(rig):
    upstream = rig.upstream(A="upgrade")
    for request, status in (
        (head("GET", "/", [("Host", "x"), ("Connection", "upgrade"), ("Upgrade", "echo")]), 101),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 200),
    ):
        with Connection(upstream.address("A")) as connection:
            connection.send(request)
            assert connection.head().status == status
            connection.send(b"ping")
            wait_for(lambda: connection.buffer == b"ping" or not connection.fill())
    with Connection(upstream.address("A")) as connection:
        connection.send(head("GET", "/", [("Host", "x")]))
        assert connection.reply().status == 426


def test_keep_alive_pipelining_and_close_after(rig):
    upstream = rig.upstream(A="2x body ok\nbody ok close-after")
    with Connection(upstream.address("A")) as connection:
        connection.send(head("GET", "/", [("Host", "x")]) * 3)
        assert [connection.reply().text for _ in range(3)] == ["ok"] * 3
        assert connection.at_end()
    assert [line["n"] for line in upstream.requests()] == [1, 2, 3]


def test_refusing(rig):
    upstream = rig.upstream(A="refuse", B="refuse 400ms\nbody ok")
    with pytest.raises(ConnectionRefusedError):
        Connection(upstream.address("A"))
    with pytest.raises(ConnectionRefusedError):
        Connection(upstream.address("B"))

    def connect():
        try:
            return Connection(upstream.address("B"))
        except ConnectionRefusedError:
            return None

    with wait_for(connect) as connection:
        connection.send(head("GET", "/", [("Host", "x")]))
        assert connection.reply().text == "ok"


def test_no_http(rig):
    upstream = rig.upstream(A="body ok")
    with Connection(upstream.address("A")) as connection:
        connection.send(b"nonsense\r\n\r\n")
        connection.fill()
    assert wait_for(lambda: upstream.lines("malformed"))


def test_chances_follow_the_seed(rig):
    def statuses(seed):
        upstream = rig.upstream(seed=seed, A="30% status 503\nbody ok")
        with Connection(upstream.address("A")) as connection:
            result = []
            for _ in range(50):
                connection.send(head("GET", "/", [("Host", "x")]))
                result.append(connection.reply().status)
            return result

    assert statuses(1) == statuses(1) != statuses(2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "usage:"),
        (["--name", "A"], "after the --listen"),
        (["--listen", "nonsense"], "cannot listen on nonsense"),
        (["--listen", "127.0.0.1:0", "--seed", "x"], "--seed is a number"),
        (["--listen", "127.0.0.1:0", "--script", "nowhere"], "cannot read the script: nowhere"),
        (["--listen", "127.0.0.1:0", "--step", "reset", "--script", "x"], "not both"),
        (["--listen", "127.0.0.1:0", "--step", "status 200", "--step", "delay 1"], "--step:2:7: \"1\" is no time"),
    ],
)
def test_wrong_usage(arguments, message):
    done = subprocess.run([REA, "upstream", *arguments], capture_output=True, text=True, timeout=5)
    assert done.returncode == (1 if "cannot listen" in message else 2)
    assert message in done.stderr and done.stdout == ""


def test_a_bad_script_file(tmp_path):
    script = tmp_path / "bad.script"
    script.write_text("on GET /a\n  status 200\non GET b\n")
    done = subprocess.run([REA, "upstream", "--listen", "127.0.0.1:0", "--script", script], capture_output=True, text=True, timeout=5)
    assert done.returncode == 2 and done.stderr == f"{script}:3:8: a path begins with /\n"


def test_log_to_standard_output(rig, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    process = subprocess.Popen([REA, "upstream", "--log", "-", "--listen", f"127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == f"A listening on 127.0.0.1:{port}\n"
        with Connection(f"127.0.0.1:{port}") as connection:
            connection.send(head("GET", "/", [("Host", "x")]))
            connection.reply()
        assert json.loads(process.stdout.readline())["path"] == "/"
        process.terminate()
        assert process.wait(5) == 0
    finally:
        process.kill()
