"""Bodies: replayed byte for byte up to the limit, streamed beyond it, framed anew, never held whole."""
import concurrent.futures
import hashlib
import os
import pathlib
import resource
import threading

import pytest

from rig import MS, chunked, head, now_ns, pattern, service, wait_for

LIMIT = 16384
MIB = 1024 * 1024


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def post_in_pieces(rea, body, size, biz_id):
    with rea.connect() as connection:
        connection.send(head("POST", "/user-service/pay", [("Host", "x"), ("x-biz-id", biz_id), ("Content-Length", len(body))]))
        for at in range(0, len(body), size):
            connection.send(body[at : at + size])
        return connection.reply("POST")


@pytest.mark.parametrize("size", [8192, LIMIT])
@pytest.mark.parametrize("piece", [1 << 20, 500])
def test_p03_within_the_limit_the_body_is_sent_again(rig, size, piece):
    upstream, rea = rig.pair("status 503", retry={"replay-limit-bytes": LIMIT})
    body = os.urandom(size)
    reply = post_in_pieces(rea, body, piece, "p03")
    assert reply.status == 200 and reply.body == body
    assert [(seen["instance"], seen["body_sha256"]) for seen in upstream.requests()] == [("A", sha256(body)), ("B", sha256(body))]


@pytest.mark.parametrize("size", [LIMIT + 1, MIB])
@pytest.mark.parametrize("piece", [1 << 20, 5000])
def test_p03_beyond_the_limit_it_is_streamed_and_not_retried(rig, size, piece):
    upstream, rea = rig.pair("status 503 body no", retry={"replay-limit-bytes": LIMIT})
    body = os.urandom(size)
    reply = post_in_pieces(rea, body, piece, "p03")
    assert (reply.status, reply.text) == (503, "no")
    assert [(seen["instance"], seen["body_sha256"]) for seen in upstream.requests()] == [("A", sha256(body))]
    assert [(event["type"], event["reason"]) for event in rea.timeline("p03")] == [("GiveUp", "body_over_limit")]
    assert rea.metric("rea_replay_over_limit_total", service="user-service") == 1


@pytest.mark.memory
def test_p03_memory_of_a_hundred_streams(rig):
    upstream, rea = rig.pair("status 503", retry={"replay-limit-bytes": LIMIT, "deadline-ms": 20000, "attempt-timeout-ms": 20000})
    post_in_pieces(rea, b"warm", 4, "warm")
    pathlib.Path(f"/proc/{rea.pid}/clear_refs").write_text("5")
    before = rea.memory_kib("VmRSS")
    body = os.urandom(MIB)
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        replies = list(pool.map(lambda i: post_in_pieces(rea, body, 65536, f"p03-{i}"), range(100)))
    assert [reply.status for reply in replies] == [503] * 100
    assert {seen["body_sha256"] for seen in upstream.requests("A") if seen["body_bytes"] > 4} == {sha256(body)}
    assert (rea.memory_kib("VmHWM") - before) * 1024 <= 100 * LIMIT + 5_000_000


def test_a_chunked_body_is_counted_like_any_other(rig):
    upstream, rea = rig.pair("status 503", retry={"replay-limit-bytes": LIMIT})
    fields = [("Transfer-Encoding", "chunked")]
    within, beyond = b"x" * LIMIT, b"x" * (LIMIT + 1)
    assert rea.request("POST", "/user-service/pay", chunked(within[:5], within[5:]), fields, biz_id="within").status == 200
    assert rea.request("POST", "/user-service/pay", chunked(beyond[:5], beyond[5:]), fields, biz_id="beyond").status == 503
    assert rea.timeline("beyond")[-1]["reason"] == "body_over_limit"


def test_chunked_both_ways_with_trailers(rig):
    upstream, rea = rig.pair("echo")
    fields = [("Transfer-Encoding", "chunked"), ("Trailer", "x-sum"), ("TE", "trailers")]
    reply = rea.request("POST", "/user-service/pay", chunked(b"hello ", b"world", trailers=[("x-sum", "11")]), fields)
    assert (reply.status, reply.body) == (200, b"hello world")
    assert reply.field("transfer-encoding") == "chunked" and reply.field("content-length") is None
    assert reply.trailers == [("x-sum", "11")]
    (seen,) = upstream.requests()
    assert seen["trailers"] == [["x-sum", "11"]] and seen["body_sha256"] == sha256(b"hello world")


def test_trailers_are_sent_again(rig):
    upstream, rea = rig.pair("status 503")
    fields = [("Transfer-Encoding", "chunked")]
    assert rea.request("POST", "/user-service/pay", chunked(b"abc", trailers=[("x-sum", "3")]), fields).status == 200
    assert [seen["trailers"] for seen in upstream.requests()] == [[["x-sum", "3"]]] * 2


def test_an_early_reply_is_passed_on(rig):
    """The instance answers before the body is there: the caller hears it, nothing is retried."""
    upstream, rea = rig.pair("status 503 early body busy")
    with rea.connect() as connection:
        connection.send(head("POST", "/user-service/pay", [("Host", "x"), ("x-biz-id", "early"), ("Content-Length", 10)]))
        connection.send(b"12345")
        reply = connection.reply("POST")
    assert (reply.status, reply.text) == (503, "busy")
    assert rea.timeline("early")[-1]["reason"] == "body_incomplete"
    wait_for(lambda: len(upstream.requests("A")) == 1)
    assert upstream.requests("B") == []


def test_an_instance_that_reads_no_body(rig):
    upstream, rea = rig.pair("status 413 no-read body big")
    reply = post_in_pieces(rea, b"x" * (4 * MIB), 65536, "unread")
    assert (reply.status, reply.text) == (413, "big")


def test_expect_100_continue(rig):
    _, rea = rig.pair("echo")
    with rea.connect() as connection:
        connection.send(head("POST", "/user-service/pay", [("Host", "x"), ("x-biz-id", "e"), ("Content-Length", 5), ("Expect", "100-continue")]))
        interim = connection.head()
        assert interim.status == 100
        connection.send(b"hello")
        reply = connection.reply("POST")
    assert (reply.status, reply.body) == (200, b"hello")


def test_another_expectation_is_refused(rig):
    upstream, rea = rig.pair("echo")
    reply = rea.request("POST", "/user-service/pay", b"hello", [("Expect", "miracles")])
    assert reply.status == 417
    assert upstream.requests() == []


@pytest.mark.memory
@pytest.mark.parametrize("framing", ["", "chunked"])
def test_a_slow_reader_holds_the_instance_back(rig, framing):
    """Back-pressure: the whole body is never in our memory."""
    _, rea = rig.pair(f"body-bytes 64m {framing}")
    with rea.connect() as connection:
        connection.send(head("GET", "/user-service/users/1", [("Host", "x"), ("x-biz-id", "slow")]))
        connection.head()
        peak = received = 0
        while received < 32 * MIB:
            received += len(connection.socket.recv(65536))
            peak = max(peak, rea.memory_kib("RssAnon"))
    assert peak < 8 * 1024


def limited_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (64 * MIB, 64 * MIB))


def transfer(rig, size, framing):
    """Upload and download of size bytes, echoed, through a rea that may have 64 MiB."""
    upstream = rig.upstream(A="on POST /\necho\non GET /\nbody-bytes %d %s" % (size, framing))
    config = service(upstream.address("A"), retry={"attempt-timeout-ms": 100000, "deadline-ms": 600000})
    rea = rig.serve(config, preexec=limited_memory)
    piece = os.urandom(MIB)
    sent, received = hashlib.sha256(), hashlib.sha256()

    with rea.connect(timeout=60) as connection:

        def upload():
            frame = [("Transfer-Encoding", "chunked")] if framing else [("Content-Length", size)]
            connection.send(head("POST", "/user-service/pay", [("Host", "x"), ("x-biz-id", "up"), *frame]))
            for _ in range(size // MIB):
                connection.send(b"%x\r\n%s\r\n" % (MIB, piece) if framing else piece)
                sent.update(piece)
            if framing:
                connection.send(b"0\r\n\r\n")

        sender = threading.Thread(target=upload)
        sender.start()
        reply = connection.reply("POST", sink=received.update)
        sender.join()
    assert reply.status == 200 and reply.complete
    assert received.hexdigest() == sent.hexdigest()
    assert upstream.requests(path="/pay")[0]["body_sha256"] == sent.hexdigest()

    received, expected = hashlib.sha256(), hashlib.sha256()
    with rea.connect(timeout=60) as connection:
        connection.send(head("GET", "/user-service/users/1", [("Host", "x"), ("x-biz-id", "down")]))
        reply = connection.reply("GET", sink=received.update)
    block = pattern(251 * 4096)
    for _ in range(size // len(block)):
        expected.update(block)
    expected.update(block[: size % len(block)])
    assert reply.complete and received.hexdigest() == expected.hexdigest()
    assert rea.memory_kib("VmHWM") < 32 * 1024


@pytest.mark.memory
@pytest.mark.parametrize("framing", ["", "chunked"])
def test_transfers_of_64_mib_in_little_memory(rig, framing):
    transfer(rig, 64 * MIB, framing)


@pytest.mark.long
@pytest.mark.memory
def test_transfers_of_1_gib_in_little_memory(rig):
    transfer(rig, 1024 * MIB, "chunked")


def test_a_body_that_stops_moving_is_given_up(rig):
    _, rea = rig.pair("body-bytes 100 drip 50 every 30s", timeouts={"stream-idle-ms": 300})
    begun = now_ns()
    reply = rea.request("GET", "/user-service/users/1", biz_id="idle")
    assert reply.status == 200 and not reply.complete and len(reply.body) == 50
    assert 250 * MS < now_ns() - begun < 3000 * MS
    assert rea.timeline("idle")[-1]["reason"] == "response_started"

