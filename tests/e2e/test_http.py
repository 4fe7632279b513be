"""HTTP/1.1 at the caller's side and at the instances': addressing, connections, fields, interim replies, framing attacks."""
import os
import random
import socket
import threading
import time

import pytest

from rig import MS, S, chunked, head, now_ns, service, wait_for

def get(biz_id, *more):
    return head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", biz_id), *more])


# ---- addressing


@pytest.mark.parametrize(
    "target, host, path",
    [
        ("/user-service/users/42?q=1", "127.0.0.1", "/users/42?q=1"),
        ("/users/42", "user-service", "/users/42"),
        ("/users/42", "user-service:8080", "/users/42"),
        ("/users/42", "USER-service", "/users/42"),
        ("http://user-service/users/42?q=1", "user-service", "/users/42?q=1"),
        ("http://user-service", "user-service", "/"),
        ("http://user-service?q=1", "user-service", "/?q=1"),
        ("http://user-service:80/users/42", "other", "/users/42"),
        ("/user-service", "127.0.0.1", "/"),
        ("/user-service?q=1", "127.0.0.1", "/?q=1"),
        ("/user-service/", "127.0.0.1", "/"),
    ],
)
def test_three_ways_to_name_a_service(rig, target, host, path):
    upstream, rea = rig.pair("body ok")
    reply = rea.request("GET", target, fields=[("Host", host)])
    assert (reply.status, reply.text) == (200, "ok")
    assert [seen["path"] for seen in upstream.requests()] == [path]


@pytest.mark.parametrize("target, host", [("/nobody/users", "127.0.0.1"), ("/users", "nobody"), ("http://nobody/users", "nobody"), ("/user-servicex/users", "y"), ("*", "nobody")])
def test_an_unknown_service(rig, target, host):
    upstream, rea = rig.pair("body ok")
    method = "OPTIONS" if target == "*" else "GET"
    reply = rea.request(method, target, fields=[("Host", host)])
    assert reply.status == 404 and reply.field("content-type") == "application/problem+json"
    assert upstream.requests() == []


def test_host_of_the_instance(rig):
    upstream = rig.upstream(A="status 503", B="body ok")
    config = service({"address": upstream.address("A"), "host": "a.example"}, upstream.address("B"))
    rea = rig.serve(config)
    assert rea.request("GET", "/users/42", fields=[("Host", "user-service")]).status == 200
    assert [seen.values("host") for seen in upstream.requests()] == [["a.example"], ["user-service"]]
    rea.request("GET", "/user-service/users/42")
    assert upstream.requests("B")[-1].values("host") == [upstream.address("B")]


# ---- connections


def test_keep_alive_on_both_sides(rig):
    upstream, rea = rig.pair("echo")
    with rea.connect() as connection:
        for i in range(20):
            connection.send(get(f"keep-{i}"))
            assert connection.reply().status == 200
    seen = upstream.requests()
    assert [request["n"] for request in seen] == list(range(1, 21))
    assert len({request["connection"] for request in seen}) == 1


def test_pipelined_requests_are_answered_in_order(rig):
    upstream, rea = rig.pair("on GET /users/1\nbody one delay 100ms\non GET /users/2\nbody two\non POST /pay\necho\n")
    requests = head("GET", "/user-service/users/1", [("Host", "x"), ("x-biz-id", "p1")])
    requests += head("POST", "/user-service/pay", [("Host", "x"), ("x-biz-id", "p2"), ("Content-Length", 3)]) + b"abc"
    requests += head("GET", "/user-service/users/2", [("Host", "x"), ("x-biz-id", "p3")])
    with rea.connect() as connection:
        connection.send(requests)
        assert [connection.reply(method).text for method in ("GET", "POST", "GET")] == ["one", "abc", "two"]


def test_pipelined_calls_heal_one_by_one(rig):
    upstream, rea = rig.pair("status 503", "echo")
    with rea.connect() as connection:
        connection.send(b"".join(get(f"heal-{i}") for i in range(5)))
        assert [connection.reply().status for _ in range(5)] == [200] * 5
    assert [seen["instance"] for seen in upstream.requests()] == ["A", "B"] * 5


def test_connection_close_is_honoured(rig):
    _, rea = rig.pair("body ok")
    with rea.connect() as connection:
        connection.send(get("close", ("Connection", "close")))
        reply = connection.reply()
        assert reply.status == 200 and reply.field("connection") == "close"
        assert connection.at_end()


def test_http_1_0(rig):
    upstream, rea = rig.pair("body old chunked")
    answer = rea.raw(b"GET /user-service/users/42 HTTP/1.0\r\nx-biz-id: old\r\n\r\n")
    start, _, body = answer.partition(b"\r\n\r\n")
    assert start.startswith(b"HTTP/1.1 200") and body == b"old"
    assert b"transfer-encoding" not in start.lower()
    assert upstream.requests()[0].values("via") == ["1.0 rea"]


def test_a_body_until_close_is_framed_for_the_caller(rig):
    """An HTTP/1.0 style instance ends its body by closing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        rig.unchecked = True  # this instance keeps no log
        rea = rig.serve(service("127.0.0.1:%d" % server.getsockname()[1]))
        with rea.connect() as connection:
            connection.send(get("until-close"))
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(b"HTTP/1.0 200 OK\r\n\r\nall of it")
            reply = connection.reply()
            assert (reply.status, reply.text, reply.complete) == (200, "all of it", True)
            assert reply.field("transfer-encoding") == "chunked"


def test_stale_pooled_connections_are_not_a_failure(rig):
    upstream, rea = rig.pair("body ok close-after", retry={"enabled": False})
    for i in range(30):
        assert rea.request("GET", "/user-service/users/42", biz_id=f"stale-{i}").status == 200
    assert rea.events() == []
    assert len({seen["connection"] for seen in upstream.requests("A")}) == 30


def test_connections_that_die_while_idle_are_replaced(rig):
    with socket.create_server(("127.0.0.1", 0)) as server:
        rig.unchecked = True  # this instance keeps no log
        rea = rig.serve(service("127.0.0.1:%d" % server.getsockname()[1], operations=[]))
        for i in range(20):
            with rea.connect() as connection:
                connection.send(get(f"idle-{i}"))
                peer, _ = server.accept()
                assert peer.recv(65536)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                reply = connection.reply()
                peer.close()  # after a whole keep-alive reply, without a word
            assert (reply.status, reply.text) == (200, "ok")
        assert rea.events() == []


# ---- messages


def test_head_has_no_body_but_its_length(rig):
    upstream, rea = rig.pair("body-bytes 1000")
    with rea.connect() as connection:
        connection.send(head("HEAD", "/user-service/users/42", [("Host", "x"), ("x-biz-id", "h1")]))
        reply = connection.reply("HEAD")
        assert (reply.status, reply.field("content-length"), reply.body) == (200, "1000", b"")
        connection.send(get("h2"))
        assert len(connection.reply().body) == 1000
    assert [seen["method"] for seen in upstream.requests()] == ["HEAD", "GET"]


@pytest.mark.parametrize("status", [204, 304])
def test_replies_without_a_body(rig, status):
    _, rea = rig.pair(f"status {status} header ETag: x")
    with rea.connect() as connection:
        for i in range(2):
            connection.send(get(f"empty-{i}"))
            reply = connection.reply()
            assert (reply.status, reply.field("etag"), reply.body) == (status, "x", b"")


def test_interim_replies_are_passed_on(rig):
    _, rea = rig.pair("interim 103 delay 50ms body ok")
    reply = rea.request("GET", "/user-service/users/42")
    assert (reply.status, reply.text) == (200, "ok")
    assert [(interim.status, interim.field("x-interim")) for interim in reply.interims] == [(103, "A")]


def test_hop_by_hop_fields_end_here(rig):
    upstream, rea = rig.pair('body ok header Connection: x-private header x-private: 1 header Keep-Alive: "timeout=7" header Proxy-Authenticate: Basic header x-public: 2')
    fields = [
        ("Connection", "keep-alive, X-Secret"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic Zm9vOmJhcg=="),
        ("X-Secret", "1"),
        ("TE", "trailers, deflate"),
        ("Upgrade", "h2c"),
        ("X-Kept", "1"),
    ]
    reply = rea.request("GET", "/user-service/users/42", fields=fields)
    assert reply.status == 200 and reply.field("x-public") == "2"
    assert [reply.field(name) for name in ("x-private", "keep-alive", "proxy-authenticate")] == [None] * 3
    (seen,) = upstream.requests()
    names = {name.lower() for name, _ in seen["fields"]}
    assert not names & {"keep-alive", "proxy-connection", "proxy-authorization", "x-secret", "upgrade"}
    assert "deflate" not in (seen.field("te") or "") and seen.field("x-kept") == "1"
    assert "x-secret" not in (seen.field("connection") or "").lower()


# What some clients send with every request: not a demand, and an answer over the connection as it is answers it.
@pytest.mark.parametrize("protocol", ["h2c", "TLS/1.2", "tls/1.3"])
def test_an_offer_of_another_protocol_is_let_lie(rig, protocol):
    upstream, rea = rig.pair("status 200")
    reply = rea.request("GET", "/user-service/users/42", fields=[("Connection", "Upgrade"), ("Upgrade", protocol)])
    assert reply.status == 200
    (seen,) = upstream.requests()
    assert seen.field("upgrade") is None


def test_via_and_forwarded_for_are_added_once(rig):
    upstream, rea = rig.pair("status 503")
    fields = [("Via", "1.1 edge"), ("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-For", "198.51.100.1")]
    assert rea.request("GET", "/user-service/users/42", fields=fields).status == 200
    for seen in upstream.requests():
        assert ", ".join(seen.values("via")) == "1.1 edge, 1.1 rea"
        assert ", ".join(seen.values("x-forwarded-for")) == "203.0.113.9, 198.51.100.1, 127.0.0.1"


@pytest.mark.parametrize("fields", ["header Content-Length: 3", "header Transfer-Encoding: chunked", "header Transfer-Encoding: gzip"])
def test_a_reply_with_two_framings_is_not_passed_on(rig, fields):
    """Response smuggling: whoever is next on the connection must not get the rest."""
    upstream, rea = rig.pair(f'body "abcdefgh" {fields}')
    reply = rea.request("GET", "/user-service/users/42", biz_id="smuggled")
    assert (reply.status, reply.field("rea-reason")) == (502, "permanent")
    assert rea.timeline("smuggled")[-1]["outcome"] == "permanent"


# ---- attacks on framing

ATTACKS = {
    "content-length and transfer-encoding": b"POST /user-service/pay HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two content-lengths": b"POST /user-service/pay HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "a list of content-lengths": b"POST /user-service/pay HTTP/1.1\r\nHost: x\r\nContent-Length: 4, 5\r\n\r\nabcde",
    "a signed content-length": b"POST /user-service/pay HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nabcd",
    "a huge content-length": b"POST /user-service/pay HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "a blank before the colon": b"GET /user-service/users/1 HTTP/1.1\r\nHost : x\r\n\r\n",
    "bare LF": b"GET /user-service/users/1 HTTP/1.1\nHost: x\n\n",
    "bare LF in a field": b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n",
    "bare CR": b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n",
    "NUL": b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n",
    "a folded line": b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "no host": b"GET /user-service/users/1 HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "chunked not last": b"POST /user-service/pay HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "an unknown encoding": b"POST /user-service/pay HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"POST /user-service/pay HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an encoding in HTTP/1.0": b"POST /user-service/pay HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no version": b"GET /user-service/users/1\r\nHost: x\r\n\r\n",
    "another version": b"GET /user-service/users/1 HTTP/3.0\r\nHost: x\r\n\r\n",
    "two blanks": b"GET  /user-service/users/1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank in the target": b"GET /user-service/users/1 x HTTP/1.1\r\nHost: x\r\n\r\n",
    "a control character in the target": b"GET /user-service/users/\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method that is no token": b"G{T /user-service/users/1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a field name that is no token": b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\nA(b): c\r\n\r\n",
    "no field name": b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\n: c\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_malformed_requests_are_answered_and_go_nowhere(rig, attack):
    upstream, rea = rig.pair("body ok")
    answer = rea.raw(ATTACKS[attack] + b"GET /user-service/smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
    status = int(answer.split(b" ")[1])
    assert 400 <= status <= 505 and answer.count(b"HTTP/1.1 ") == 1
    assert b"\r\nconnection: close\r\n" in answer.lower()
    assert upstream.requests() == [] and upstream.aborted() == []


CHUNK_ATTACKS = {
    "a size that is no number": b"xyz\r\nabc\r\n0\r\n\r\n",
    "a negative size": b"-1\r\n\r\n",
    "a huge size": b"fffffffffffffffff\r\n",
    "0x": b"0x3\r\nabc\r\n0\r\n\r\n",
    "more data than the size says": b"3\r\nabcd\r\n0\r\n\r\n",
    "bare LF": b"3\nabc\n0\n\n",
    "endless extensions": b"3;" + b"x" * 100000,
    "a bad trailer": b"3\r\nabc\r\n0\r\nA b: c\r\n\r\n",
}


@pytest.mark.parametrize("attack", CHUNK_ATTACKS)
def test_malformed_chunks_end_the_call(rig, attack):
    upstream, rea = rig.pair("body ok")
    request = b"POST /user-service/pay HTTP/1.1\r\nHost: x\r\nx-biz-id: chunks\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = rea.raw(request + CHUNK_ATTACKS[attack] + b"GET /user-service/smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
    assert int(answer.split(b" ")[1]) in (400, 413, 431) and answer.count(b"HTTP/1.1 ") == 1
    assert upstream.requests(path="/smuggled") == []
    assert all(not seen["complete"] for seen in upstream.requests())


@pytest.mark.parametrize(
    "request_head, status",
    [
        (b"GET /user-service/" + b"x" * 40000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (414, 431)),
        (b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 40000 + b"\r\n\r\n", (431,)),
        (b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", (431,)),
    ],
)
def test_oversized_heads(rig, request_head, status):
    upstream, rea = rig.pair("body ok")
    answer = rea.raw(request_head)
    assert int(answer.split(b" ")[1]) in status
    assert upstream.requests() == []


def mutations(count):
    """Requests that were damaged at random, the same ones on every run."""
    generator = random.Random(7)
    seeds = [
        head("GET", "/user-service/users/42?q=1", [("Host", "user-service"), ("x-biz-id", "m"), ("Connection", "keep-alive, x")]),
        head("POST", "/user-service/pay", [("Host", "x"), ("Content-Length", 5), ("Expect", "100-continue")]) + b"hello",
        head("POST", "/user-service/pay", [("Host", "x"), ("Transfer-Encoding", "chunked")]) + chunked(b"abc", b"defg", trailers=[("t", "1")]),
    ]
    alphabet = b"\r\n\t :;,/%?=0123456789abcdefGHOST\0\x7f\xff"
    for _ in range(count):
        data = bytearray(generator.choice(seeds) * generator.choice([1, 1, 3]))
        for _ in range(generator.randint(1, 6)):
            at = generator.randrange(len(data))
            kind = generator.randrange(4)
            if kind == 0:
                data[at] = generator.choice(alphabet)
            elif kind == 1:
                data.insert(at, generator.choice(alphabet))
            elif kind == 2:
                del data[at : at + generator.randint(1, 8)]
            else:
                data[at:at] = data[generator.randrange(len(data)) :][:20]
            data = data or bytearray(b"G")
        yield bytes(data)


def test_damaged_requests_break_nothing(rig):
    """Whatever arrives is answered, or the connection is closed; the next caller does not notice."""
    upstream, rea = rig.pair("echo", timeouts={"request-head-ms": 100, "stream-idle-ms": 100, "keep-alive-ms": 100})
    rig.unchecked = True  # damaged requests have damaged business ids
    for data in mutations(300):
        answer = rea.raw(data)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 "), (data, answer)
    assert rea.request("GET", "/user-service/users/42").status == 200
    wait_for(lambda: rea.metric("rea_calls_in_flight") == 0)
    assert upstream.lines("malformed") == []


# ---- slow and idle clients


def test_a_slow_head_is_answered_408(rig):
    _, rea = rig.pair("body ok", timeouts={"request-head-ms": 300})
    with rea.connect() as connection:
        connection.send(b"GET /user-service/users/1 HTTP/1.1\r\nHost: x\r\n")
        begun = now_ns()
        reply = connection.reply()
        assert reply.status == 408 and reply.field("connection") == "close"
        assert 200 * MS < now_ns() - begun < 2 * S
        assert connection.at_end()


def test_a_dripping_head_is_answered_408(rig):
    """The timeout counts from the first byte: more bytes do not move it."""
    _, rea = rig.pair("body ok", timeouts={"request-head-ms": 300})
    with rea.connect() as connection:
        begun = now_ns()
        try:
            for byte in b"GET /user-service/users/1 HTTP/1.1\r\n" * 10:
                connection.send(bytes([byte]))
                time.sleep(0.02)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert now_ns() - begun < 4 * S


def test_a_body_that_does_not_come_is_answered_408(rig):
    upstream, rea = rig.pair("echo", timeouts={"stream-idle-ms": 300})
    with rea.connect() as connection:
        connection.send(head("POST", "/user-service/pay", [("Host", "x"), ("x-biz-id", "stalled"), ("Content-Length", 10)]) + b"half")
        begun = now_ns()
        reply = connection.reply("POST")
        assert reply.status == 408 and 200 * MS < now_ns() - begun < 2 * S
        assert connection.at_end()
    assert [(event["type"], event["reason"]) for event in rea.timeline("stalled")] == [("GiveUp", "cancelled")]
    assert all(not seen["complete"] for seen in upstream.requests())


def test_a_slow_upload_is_not_the_instances_fault(rig):
    """Timeouts of an attempt count from the whole request."""
    upstream, rea = rig.pair("echo", retry={"attempt-timeout-ms": 200, "deadline-ms": 400})
    with rea.connect() as connection:
        connection.send(head("POST", "/user-service/pay", [("Host", "x"), ("x-biz-id", "slow"), ("Content-Length", 10)]))
        for byte in b"0123456789":
            time.sleep(0.06)
            connection.send(bytes([byte]))
        reply = connection.reply("POST")
    assert (reply.status, reply.body) == (200, b"0123456789")
    assert rea.events("slow") == [] and len(upstream.requests()) == 1


def test_an_idle_connection_is_closed(rig):
    _, rea = rig.pair("body ok", timeouts={"keep-alive-ms": 300})
    with rea.connect() as connection:
        connection.send(get("idle"))
        assert connection.reply().status == 200
        begun = now_ns()
        assert connection.at_end()
        assert 200 * MS < now_ns() - begun < 2 * S


# ---- upgrades and CONNECT


UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "echo")]


def test_an_upgrade_is_refused_by_default(rig):
    """Refusing an upgrade is answering as if it had not been asked for, or saying no: never a 101."""
    upstream, rea = rig.pair("body plain")
    reply = rea.request("GET", "/user-service/users/42", fields=UPGRADE)
    assert reply.status in (200, 501) and reply.field("upgrade") is None
    assert all(seen.field("upgrade") is None for seen in upstream.requests())


def test_an_upgrade_is_tunnelled_when_allowed(rig):
    rig.unchecked = True  # what goes through a tunnel is no call
    upstream, rea = rig.pair("upgrade", http={"upgrade": "tunnel"})
    with rea.connect() as connection:
        connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", "ws"), *UPGRADE]))
        reply = connection.reply()
        assert reply.status == 101 and reply.field("upgrade") == "echo"
        for message in (b"hello", b"\x00\xff" * 50000):
            connection.send(message)
            echoed = connection.buffer
            connection.buffer = b""
            while len(echoed) < len(message):
                echoed += connection.socket.recv(65536)
            assert echoed == message


def echo_through(connection, message):
    """Send in a thread of its own, so that both directions can be full."""
    sender = threading.Thread(target=connection.send, args=(message,))
    sender.start()
    echoed, connection.buffer = bytearray(connection.buffer), b""
    while len(echoed) < len(message):
        piece = connection.socket.recv(262144)
        assert piece, "the tunnel ended"
        echoed += piece
    sender.join()
    return bytes(echoed)


def test_a_tunnel_carries_much_and_ends_with_its_client(rig):
    rig.unchecked = True
    upstream, rea = rig.pair("upgrade", http={"upgrade": "tunnel"})
    message = os.urandom(8 * 1024 * 1024)
    with rea.connect() as connection:
        connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", "ws"), *UPGRADE]))
        assert connection.reply().status == 101
        assert echo_through(connection, message) == message
        assert upstream.aborted() == []
    wait_for(lambda: upstream.aborted("A"), what="the instance's end is closed, too")
    wait_for(lambda: rea.metric("rea_calls_in_flight") == 0)


def test_a_refused_upgrade_at_the_instance_is_an_ordinary_reply(rig):
    upstream, rea = rig.pair("body plain", http={"upgrade": "tunnel"})
    with rea.connect() as connection:
        for _ in range(2):
            connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", rea.new_biz_id()), *UPGRADE]))
            reply = connection.reply()
            assert (reply.status, reply.text) == (200, "plain")


def test_connect_is_refused_by_default(rig):
    upstream, rea = rig.pair("upgrade")
    answer = rea.raw(b"CONNECT user-service:80 HTTP/1.1\r\nHost: user-service:80\r\n\r\n")
    assert int(answer.split(b" ")[1]) in (403, 405, 501)
    assert upstream.requests() == []


def test_connect_is_tunnelled_when_allowed(rig):
    rig.unchecked = True
    upstream, rea = rig.pair("body inside", http={"connect": "tunnel"})
    with rea.connect() as connection:
        connection.send(b"CONNECT user-service:80 HTTP/1.1\r\nHost: user-service:80\r\n\r\n")
        reply = connection.head()
        assert reply.status == 200
        connection.send(b"GET /through HTTP/1.1\r\nHost: user-service\r\n\r\n")
        assert connection.reply().text == "inside"
    assert [seen["path"] for seen in upstream.requests()] == ["/through"]
    assert upstream.requests()[0].field("via") is None


def test_connect_to_a_stranger_is_refused(rig):
    upstream, rea = rig.pair("upgrade", http={"connect": "tunnel"})
    answer = rea.raw(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")
    assert int(answer.split(b" ")[1]) in (403, 404)

