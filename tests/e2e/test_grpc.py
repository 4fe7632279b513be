"""gRPC through rea, with real clients and servers: the interop cases, retries by grpc-status wherever it stands, times, pushback, and rea's own statuses."""
import concurrent.futures
import itertools
import json
import socket
import threading
import time

import pytest

grpc = pytest.importorskip("grpc", reason="python3-grpcio is not installed")

from grpc_peer import Client, RefusingServer, Server, descriptor_set, echo, fails, one, tag, text  # noqa: E402
from tls import Authority  # noqa: E402
from rig import FINAL, MS, WIDE_BUDGET, Connection, by_call, check_calls, check_counters, head, now_ns, wait_for  # noqa: E402
import subprocess  # noqa: E402

Code = grpc.StatusCode
GET, PUT, UPLOAD, LIST, CHAT = (f"/test.Users/{name}" for name in ("Get", "Put", "Upload", "List", "Chat"))
METHODS = {"Get": (2, False, False), "Put": (0, False, False), "Upload": (2, True, False), "List": (1, False, True), "Chat": (2, True, True)}


def configuration(rig, *instances, retry=None, budget=WIDE_BUDGET, **service):
    (rig.directory / "users.pb").write_bytes(descriptor_set("test", "Users", METHODS))
    policy = {"enabled": True, "max-retry-next-instance": 1, "min-backoff-ms": 20, "max-backoff-ms": 50, "attempt-timeout-ms": 1000, "deadline-ms": 2000, "budget": budget}
    policy.update(retry or {})
    return {
        "services": {"users": {"balance": "listed", "ejection": False, "instances": [getattr(instance, "address", instance) for instance in instances], **service}},
        "contracts": {"users": {"files": ["users.pb"]}},
        "rpc": {"grpc": {"retry": {key: value for key, value in policy.items() if value is not None}}},
    }


@pytest.fixture
def pair(rig):
    """Servers by their handlers, and rea before them."""

    def make(*handlers, service=None, **options):
        servers = [handler if isinstance(handler, RefusingServer) else Server(name, handler) for name, handler in zip("ABCDEF", handlers)]
        rig.peers += servers
        return servers, rig.serve(configuration(rig, *servers, **options, **(service or {})))

    return make


def outcomes(serve, biz_id):
    return [(event["type"], event["attempt"], event["outcome"]) for event in serve.timeline(biz_id)]


def final(serve, biz_id):
    return serve.timeline(biz_id)[-1]


# ---------------------------------------------------------------- the interop cases

LARGE_REQUEST, LARGE_RESPONSE = 271828, 314159
SIZES_UP, SIZES_DOWN = (27182, 8, 1828, 45904), (31415, 9, 2653, 58979)
SPECIAL = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"


def test_service(request, messages, context):
    method = request.method.rsplit("/", 1)[1]
    if request.field("x-grpc-test-echo-initial"):
        context.send_initial_metadata((("x-grpc-test-echo-initial", request.field("x-grpc-test-echo-initial")),))
        context.set_trailing_metadata((("x-grpc-test-echo-trailing-bin", request.field("x-grpc-test-echo-trailing-bin")),))
    if method == "Empty":
        assert one(messages) == b""
        yield b""
    elif method == "Large":
        assert one(messages) == b"\0" * LARGE_REQUEST
        yield b"\0" * LARGE_RESPONSE
    elif method == "Upload":
        yield str(sum(map(len, messages))).encode()
    elif method == "List":
        yield from (b"\0" * size for size in json.loads(one(messages)))
    elif method == "Chat":
        for message in messages:
            yield b"\0" * int(message[:8])
    elif method == "Status":
        wanted = json.loads(one(messages))
        context.abort(Code[wanted["code"]], wanted["message"])
    elif method == "Sleep":
        for message in messages:
            context._state.condition  # the call lives
            time.sleep(0)
        wait_for(lambda: not context.is_active(), 5)
    else:
        yield from messages


test_service.__test__ = False


@pytest.fixture
def interop(pair):
    (server,), serve = pair(test_service)
    with Client(serve.calls) as client:
        yield client, server, serve


def test_empty_unary(interop):
    assert interop[0].unary("/t.S/Empty").result() == b""


def test_large_unary(interop):
    assert interop[0].unary("/t.S/Large", b"\0" * LARGE_REQUEST).result() == b"\0" * LARGE_RESPONSE


def test_client_streaming(interop):
    assert interop[0].client_stream("/t.S/Upload", [b"\0" * size for size in SIZES_UP]).result() == b"74922"


def test_server_streaming(interop):
    assert [len(message) for message in interop[0].server_stream("/t.S/List", json.dumps(SIZES_DOWN).encode())] == list(SIZES_DOWN)


def test_ping_pong(interop):
    answered = threading.Semaphore(1)

    def ask():
        for up, down in zip(SIZES_UP, SIZES_DOWN):
            assert answered.acquire(timeout=5)  # the next one only when the last was answered
            yield b"%08d" % down + b"\0" * up

    sizes = []
    for message in interop[0].bidi("/t.S/Chat", ask()):
        sizes.append(len(message))
        answered.release()
    assert sizes == list(SIZES_DOWN)


def test_empty_stream(interop):
    assert list(interop[0].bidi("/t.S/Chat", iter(()))) == []


@pytest.mark.parametrize("code, message", [("UNKNOWN", "test status message"), ("OUT_OF_RANGE", SPECIAL), ("ABORTED", "100%41 % %zz")])
def test_status_code_and_message(interop, code, message):
    call = interop[0].unary("/t.S/Status", json.dumps({"code": code, "message": message}).encode())
    assert (call.code(), call.details()) == (Code[code], message)
    stream = interop[0].bidi("/t.S/Status", iter([json.dumps({"code": code, "message": message}).encode()]))
    assert (stream.code(), stream.details()) == (Code[code], message)


def test_unimplemented_method(interop):
    assert interop[0].unary("/t.S/Unimplemented").code() == Code.UNIMPLEMENTED


def test_custom_metadata(interop):
    binary = bytes(range(256))
    metadata = (("x-grpc-test-echo-initial", "it"), ("x-grpc-test-echo-trailing-bin", binary))
    stream = interop[0].bidi("/t.S/Chat", iter([b"00000001"]), metadata=metadata)
    assert list(stream) == [b"\0"]
    for call in interop[0].unary("/t.S/Other", b"x", metadata=metadata), stream:
        assert call.code() == Code.OK
        assert ("x-grpc-test-echo-initial", "it") in call.initial_metadata()
        assert ("x-grpc-test-echo-trailing-bin", binary) in call.trailing_metadata()


def test_cancel_after_begin(interop):
    client, server, serve = interop
    release = threading.Event()

    def ask():
        yield b"00000001"
        release.wait(10)

    call = client.channel.stream_unary("/t.S/Upload").future(ask(), metadata=(("x-biz-id", "begin"),), timeout=10)
    wait_for(lambda: server.seen and server.seen[0].messages, what="the first message arrives while the request goes on")
    call.cancel()
    release.set()
    assert call.code() == Code.CANCELLED
    assert final(serve, "begin")["outcome"] == "cancelled"
    assert final(serve, "begin")["reason"] == "cancelled"


def test_cancel_after_first_response(interop):
    client, server, serve = interop
    release = threading.Event()

    def ask():
        yield b"00000005"
        release.wait(10)

    call = client.bidi("/t.S/Chat", ask(), biz_id="first")
    assert next(call) == b"\0" * 5
    call.cancel()
    release.set()
    assert call.code() == Code.CANCELLED
    assert final(serve, "first")["outcome"] == "cancelled"


def test_timeout_on_sleeping_server(interop):
    client, server, serve = interop
    begin = now_ns()
    call = client.bidi("/t.S/Sleep", iter([b"x"]), timeout=0.2)
    assert call.code() == Code.DEADLINE_EXCEEDED
    assert now_ns() - begin < 5_000 * MS
    assert server.seen[0].time_remaining <= 0.201


# ---------------------------------------------------------------- what is retried


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_p10_exact_counts(pair, retries):
    servers, serve = pair(*[fails(Code.UNAVAILABLE)] * 4, retry={"max-retry-next-instance": retries})
    with Client(serve.calls) as client:
        call = client.unary(GET, b"m", "p10")
    assert call.code() == Code.UNAVAILABLE
    seen = [request for server in servers for request in server.seen]
    assert [request.field("rea-attempt") for request in seen] == [f"{n}/{retries + 1}" for n in range(1, retries + 2)]
    assert [request.field("grpc-previous-rpc-attempts") for request in seen] == [None] + [str(n) for n in range(1, retries + 1)]
    assert [request.messages for request in seen] == [[b"m"]] * (retries + 1)
    assert len(serve.timeline("p10")) == retries + 1
    assert final(serve, "p10")["reason"] == "attempts_exhausted"
    assert (("rea-retry", "stop") in call.trailing_metadata()) == (retries > 0)
    assert (("grpc-retry-pushback-ms", "-1") in call.trailing_metadata()) == (retries > 0)


@pytest.mark.parametrize("initial", [False, True], ids=["trailers-only", "trailers-after-head"])
def test_p11_status_before_any_message_is_retried(pair, initial):
    (a, b), serve = pair(fails(Code.UNAVAILABLE, initial=initial), echo)
    with Client(serve.calls) as client:
        for n in range(50):
            call = client.unary(GET, b"m%d" % n, f"p11-{n}")
            assert call.result() == b"m%d" % n
            assert "x-head" not in dict(call.initial_metadata())
    assert (len(a.seen), len(b.seen)) == (50, 50)
    assert outcomes(serve, "p11-7") == [("Retry", 1, "unavailable"), ("Success", 2, "ok")]
    assert serve.timeline("p11-7")[0]["method"] == "test.Users_Get"


def test_over_tls_without_a_word_of_the_protocol(rig, tmp_path):
    """gRPC goes by HTTP/2 whatever `protocol` says, so that is what its connections offer (ALPN); other calls to the same service go by HTTP/1.1."""
    authority = Authority(tmp_path)
    pair = authority.issue("users")
    server = Server("A", echo, tls=grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.certificate.read_bytes())]))
    rig.peers.append(server)
    serve = rig.serve(configuration(rig, server, **{"tls": {"ca-file": authority.ca}}))
    with Client(serve.calls) as client:
        assert [client.unary(GET, b"x", biz_id=serve.new_biz_id()).result() for _ in range(3)] == [b"x"] * 3
    assert serve.metric("rea_tls_handshakes_total", side="upstream") == 1
    # It does not agree to HTTP/1.1, which is what another call asks for, and says nothing of what it was sent.
    rig.unchecked = True
    with serve.connect() as connection:
        connection.send(head("GET", "/users/x", [("Host", "localhost")]))
        assert (connection.reply().status, len(server.seen)) == (502, 3)


def test_what_is_idle_keeps_no_other_protocol_out(rig):
    """One connection may be open: an idle one of HTTP/1.1 makes room for a call of gRPC, and the reverse."""
    rig.unchecked = True  # one rea behind the other
    server = Server("A", echo)
    rig.peers.append(server)
    inner = rig.serve(configuration(rig, server))
    config = configuration(rig, inner.calls, retry={"enabled": False}, host="users")
    outer = rig.serve({**config, "limits": {"upstream-connections": 1}})
    with Client(outer.calls) as client, outer.connect() as connection:
        for _ in range(3):
            connection.send(head("GET", "/users/nothing", [("Host", "users")]))
            assert "could not be reached" not in connection.reply().text
            assert client.unary(GET, b"x").result() == b"x"
    assert len(server.seen) >= 3


def test_p11_500_streams_that_pause_before_their_trailers(pair):
    def slowly(request, messages, context):
        one(messages)
        context.send_initial_metadata((("x-head", request.field("x-n")),))
        yield b"12345"
        time.sleep(0.02)
        context.set_trailing_metadata((("x-tail", request.field("x-n")),))

    (server, _), serve = pair(slowly, fails(Code.INTERNAL))
    with Client(serve.calls) as client:

        def ask(n):
            call = client.unary(GET, b"", metadata=(("x-n", str(n)),))
            return call.result(), dict(call.initial_metadata())["x-head"], dict(call.trailing_metadata())

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            results = list(pool.map(ask, range(500)))
    assert results == [(b"12345", str(n), {"x-tail": str(n)}) for n in range(500)]
    assert len(server.seen) == 500


WEB_MESSAGE, WEB_TRAILERS = b"\0\0\0\0\5hello", b"\x80\0\0\0\x0fgrpc-status:0\r\n"


class Web:
    """gRPC-Web over HTTP/1.1: a message, 20 ms, and the trailers as the body's last message, in chunks."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def requests(self, instance=None, path=None):
        return []

    def close(self, grace=None):
        self.socket.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    @staticmethod
    def _serve(connection):
        stream = connection.makefile("rb")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while stream.readline():
            while stream.readline() not in (b"\r\n", b""):
                pass
            stream.read(len(WEB_MESSAGE))
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/grpc-web+proto\r\ntransfer-encoding: chunked\r\n\r\n")
            connection.sendall(b"%x\r\n%s\r\n" % (len(WEB_MESSAGE), WEB_MESSAGE))
            time.sleep(0.02)
            connection.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(WEB_TRAILERS), WEB_TRAILERS))


def test_p11_grpc_web_over_http1_goes_through_as_it_is(rig):
    rig.unchecked = True  # the server tells nothing
    web = Web()
    rig.peers.append(web)
    serve = rig.serve(configuration(rig, web))
    fields = [("Host", "users"), ("Content-Type", "application/grpc-web+proto"), ("TE", "trailers"), ("Content-Length", str(len(WEB_MESSAGE)))]

    def call(_):
        with serve.connect() as connection:
            replies = []
            for _ in range(25):
                connection.send(head("POST", GET, fields) + WEB_MESSAGE)
                reply = connection.reply()
                replies.append((reply.status, reply.field("content-type"), reply.body))
            return replies

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        replies = [reply for some in pool.map(call, range(20)) for reply in some]
    assert replies == [(200, "application/grpc-web+proto", WEB_MESSAGE + WEB_TRAILERS)] * 500


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.DATA_LOSS])
def test_a_status_behind_a_message_is_passed_on_and_recorded(pair, code):
    (a, b), serve = pair(fails(code, "half", initial=True, first=[b"one", b"two"]), echo)
    with Client(serve.calls) as client:
        stream = client.server_stream(GET, b"", "half")
        assert next(stream) == b"one"
        assert next(stream) == b"two"
        with pytest.raises(grpc.RpcError):
            next(stream)
        assert (stream.code(), stream.details()) == (code, "half")
    assert len(b.seen) == 0
    assert len(serve.timeline("half")) == 1
    assert final(serve, "half")["reason"] == ("response_started" if code == Code.UNAVAILABLE else "not_retryable")
    assert (final(serve, "half")["outcome"]) == ("unavailable" if code == Code.UNAVAILABLE else "failed")


@pytest.mark.parametrize("code, attempts, outcome", [
    (Code.CANCELLED, 2, "ambiguous"), (Code.UNKNOWN, 1, "failed"), (Code.INVALID_ARGUMENT, 1, "permanent"), (Code.DEADLINE_EXCEEDED, 2, "ambiguous"),
    (Code.NOT_FOUND, 1, "permanent"), (Code.RESOURCE_EXHAUSTED, 1, "throttled"), (Code.ABORTED, 1, "permanent"), (Code.UNIMPLEMENTED, 1, "failed"),
    (Code.INTERNAL, 1, "failed"), (Code.UNAVAILABLE, 2, "unavailable"), (Code.DATA_LOSS, 1, "failed"), (Code.UNAUTHENTICATED, 1, "permanent")])
def test_which_statuses_are_retried(pair, code, attempts, outcome):
    (a, b), serve = pair(fails(code, "said so"), echo)
    with Client(serve.calls) as client:
        call = client.unary(GET, b"x", "status")
    assert call.code() == (code if attempts == 1 else Code.OK)
    assert call.details() == ("said so" if attempts == 1 else "")
    assert len(a.seen) + len(b.seen) == attempts
    assert serve.timeline("status")[0]["outcome"] == outcome


def test_classify_has_the_last_word(pair):
    (a, b), serve = pair(fails(Code.ABORTED), echo, retry={"classify": {10: "unavailable"}})
    with Client(serve.calls) as client:
        assert client.unary(GET, b"x").code() == Code.OK
    assert len(b.seen) == 1


@pytest.mark.parametrize("declared, enabled, sent, reason", [
    (False, False, 1, "not_declared"), (False, True, 1, "not_declared"), (True, False, 1, "not_enabled"), (True, True, 2, "")])
def test_p06_permission_and_policy(pair, declared, enabled, sent, reason):
    (a, b), serve = pair(fails(Code.UNAVAILABLE, "from A"), echo, retry={"enabled": enabled})
    with Client(serve.calls) as client:
        call = client.unary(GET if declared else PUT, b"pay", "matrix")
    assert len(a.seen) + len(b.seen) == sent
    assert (call.code(), call.details()) == ((Code.OK, "") if sent == 2 else (Code.UNAVAILABLE, "from A"))
    assert final(serve, "matrix").get("reason", "") == reason


def test_client_streaming_is_replayed_within_the_limit(pair):
    def refuse(request, messages, context):
        assert len(list(messages)) == 3
        context.abort(Code.UNAVAILABLE, "")
        yield

    (a, b), serve = pair(refuse, echo_all)
    with Client(serve.calls) as client:
        assert client.client_stream(UPLOAD, [b"a", b"b" * 1000, b"c"]).result() == b"a" + b"b" * 1000 + b"c"
    assert a.seen[0].messages == b.seen[0].messages == [b"a", b"b" * 1000, b"c"]


def echo_all(request, messages, context):
    yield b"".join(messages)


def test_a_request_over_the_replay_limit_is_sent_once(pair):
    (a, b), serve = pair(fails(Code.UNAVAILABLE, "full"), echo)
    size = 65536 - 5
    with Client(serve.calls) as client:
        assert client.unary(GET, b"x" * size, "fits").code() == Code.OK
        call = client.unary(GET, b"y" * (size + 1), "over")
        assert (call.code(), call.details()) == (Code.UNAVAILABLE, "full")
        huge = client.unary(GET, b"z" * (8 << 20), "huge")
        assert (huge.code(), huge.details()) == (Code.UNAVAILABLE, "full")
    assert [len(request.messages[0]) for request in a.seen] == [size, size + 1, 8 << 20]
    assert [len(request.messages[0]) for request in b.seen] == [size]
    assert final(serve, "over")["reason"] == final(serve, "huge")["reason"] == "body_over_limit"


def test_a_message_that_the_server_does_not_take(rig):
    a, b = Server("A", echo, message_max=1000), Server("B", echo)
    rig.peers += [a, b]
    serve = rig.serve(configuration(rig, a, b))
    with Client(serve.calls) as client:
        assert client.unary(GET, b"x" * 1000).code() == Code.OK
        call = client.unary(GET, b"x" * 1001, "large")
    assert call.code() == Code.RESOURCE_EXHAUSTED
    assert (len(a.seen), len(b.seen)) == (2, 0)
    assert final(serve, "large")["reason"] == "not_retryable"


@pytest.mark.parametrize("pushback, sent, reason", [("-1", 1, "server_refused"), ("soon", 1, "server_refused"), ("", 1, "server_refused"), ("2147483648", 1, "server_refused"), ("60", 2, ""), ("0", 2, ""), ("5000", 1, "deadline")])
@pytest.mark.parametrize("initial", [False, True], ids=["trailers-only", "trailers-after-head"])
def test_pushback(pair, pushback, sent, reason, initial):
    trailers = [("grpc-retry-pushback-ms", pushback)]
    (a, b), serve = pair(fails(Code.UNAVAILABLE, trailers=trailers, initial=initial), echo)
    with Client(serve.calls) as client:
        call = client.unary(GET, b"x", "push")
    assert len(a.seen) + len(b.seen) == sent
    assert call.code() == (Code.OK if sent == 2 else Code.UNAVAILABLE)
    assert final(serve, "push").get("reason", "") == reason
    if sent == 2 and pushback == "60":
        assert b.seen[0].begin_ns - a.seen[0].begin_ns >= 60 * MS
    if sent == 1:
        assert "grpc-retry-pushback-ms" in dict(call.trailing_metadata())  # the client shows what it made of it


def test_a_pushback_makes_a_status_retryable_that_is_not_by_itself(pair):
    (a, b), serve = pair(fails(Code.RESOURCE_EXHAUSTED, trailers=[("grpc-retry-pushback-ms", "30")]), echo)
    with Client(serve.calls) as client:
        assert client.unary(GET, b"x", "push").code() == Code.OK
    assert serve.timeline("push")[0]["outcome"] == "pushback"


def test_a_layer_above_that_retries_already(pair):
    (a, b), serve = pair(fails(Code.UNAVAILABLE), echo)
    with Client(serve.calls) as client:
        assert client.unary(GET, b"x", "chain", metadata=(("grpc-previous-rpc-attempts", "1"),)).code() == Code.UNAVAILABLE
    assert final(serve, "chain")["reason"] == "chain_stopped"
    assert a.seen[0].field("grpc-previous-rpc-attempts") == "1"


def test_p01_refused_before_the_body_was_there(pair):
    refusing = RefusingServer(code=7)
    (_, b), serve = pair(refusing, echo)

    def late():
        time.sleep(0.5)
        yield b"hello"

    with Client(serve.calls) as client:
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            results = list(pool.map(lambda n: client.client_stream(GET, late(), f"p01-{n}", timeout=20).result(), range(100)))
    assert results == [b"hello"] * 100
    assert [request.messages for request in b.seen] == [[b"hello"]] * 100
    assert refusing.streams == 100 and refusing.data_bytes == 0
    assert outcomes(serve, "p01-5") == [("Retry", 1, "never_sent"), ("Success", 2, "ok")]


@pytest.mark.parametrize("code, status", [(2, Code.INTERNAL), (8, Code.CANCELLED), (11, Code.RESOURCE_EXHAUSTED), (12, Code.PERMISSION_DENIED), (1, Code.INTERNAL)])
def test_a_stream_that_is_reset_has_a_status(pair, code, status):
    _, serve = pair(RefusingServer(code), retry={"max-retry-next-instance": 0})
    with Client(serve.calls) as client:
        call = client.unary(GET, b"x", "reset")
    assert call.code() == status
    assert call.details() == "rea: the connection to the instance broke; whether it acted is not known (attempts_exhausted)"
    assert final(serve, "reset")["outcome"] == "ambiguous"


# ---------------------------------------------------------------- time


def hang(request, messages, context):
    one(messages)
    wait_for(lambda: not context.is_active(), 10)
    yield from ()


def test_the_callers_time_is_enforced_over_all_attempts(pair):
    (a, b), serve = pair(hang, hang, retry={"attempt-timeout-ms": 150, "deadline-ms": 5000})
    with Client(serve.calls) as client:
        call = client.unary(GET, b"x", "late", timeout=0.4)
    assert call.code() == Code.DEADLINE_EXCEEDED
    assert 0 < a.seen[0].time_remaining <= 0.151
    assert 0 < b.seen[0].time_remaining <= 0.4 - 0.15


def test_rea_answers_when_the_policys_time_is_over(pair):
    _, serve = pair(RefusingServer(None), RefusingServer(None), retry={"attempt-timeout-ms": 100, "deadline-ms": 5000})
    with Client(serve.calls) as client:
        call = client.unary(GET, b"x", "late")
    assert call.code() == Code.DEADLINE_EXCEEDED
    assert call.details() == "rea: the instance did not answer in time; whether it acted is not known (attempts_exhausted)"
    assert ("rea-reason", "attempts_exhausted") in call.trailing_metadata()
    assert [event["outcome"] for event in serve.timeline("late")] == ["ambiguous", "ambiguous"]


def test_streams_and_what_is_not_declared_have_their_own_time(pair):
    def late(request, messages, context):
        list(messages)
        time.sleep(0.4)
        yield b"late"

    (a,), serve = pair(late, retry={"attempt-timeout-ms": 100, "deadline-ms": 200})
    with Client(serve.calls) as client:
        assert list(client.server_stream(LIST, b"")) == [b"late"]
        assert list(client.bidi(CHAT, iter([b""]))) == [b"late"]
        assert client.unary("/test.Others/Get", b"").result() == b"late"
        assert client.unary(GET, b"").code() == Code.DEADLINE_EXCEEDED
    assert len(a.seen) == 4


def test_a_caller_that_leaves_is_cancelled_upstream_and_in_backoff(pair):
    (a, b), serve = pair(fails(Code.UNAVAILABLE), hang, retry={"min-backoff-ms": 500, "max-backoff-ms": 500, "attempt-timeout-ms": 4000, "deadline-ms": 5000})
    with Client(serve.calls) as client:
        call = client.start(GET, b"x", "waiting")
        serve.timeline("waiting", 1)
        call.cancel()
        assert final(serve, "waiting")["outcome"] == "cancelled"
        assert len(b.seen) == 0
        call = client.start(GET, b"x", "flying")
        wait_for(lambda: b.seen)
        call.cancel()
        assert final(serve, "flying")["reason"] == "cancelled"


# ---------------------------------------------------------------- rea's own statuses


def test_own_statuses(rig):
    serve = rig.serve(configuration(rig, "127.0.0.1:1", retry={"max-retry-next-instance": 0}))
    with Client(serve.calls) as client:
        call = client.unary(GET, b"x")
    assert call.code() == Code.UNAVAILABLE
    assert call.details() == "rea: the instance could not be reached; nothing was sent (attempts_exhausted)"
    with Client(serve.calls, "nobody") as client:
        call = client.unary(GET, b"x")
    assert call.code() == Code.UNIMPLEMENTED
    assert call.details() == "rea: no service of that name: address one by :authority or name its package in grpc-services"


def test_nothing_to_send_it_to(rig):
    serve = rig.serve(configuration(rig))
    with Client(serve.calls) as client:
        call = client.unary(GET, b"x", "none")
    assert (call.code(), call.details()) == (Code.UNAVAILABLE, "rea: the service has no instance (no_untried_instance)")


def curl(serve, path, *arguments):
    """Head and body as they came, by a client that says what it likes."""
    return subprocess.run(
        ["curl", "-s", "-i", "--http2-prior-knowledge", "-X", "POST", "-H", "content-type: application/grpc", "-H", "te: trailers", *arguments, f"http://{serve.calls}{path}"],
        capture_output=True, timeout=10).stdout.decode()


@pytest.mark.parametrize("value", ["1", "x", "1x", "-1S", "1.5S", "100000000S", "1 S", "S"])
def test_a_grpc_timeout_that_is_none(pair, value):
    (a,), serve = pair(echo)
    reply = curl(serve, GET, "-H", "Host: users", "-H", f"grpc-timeout: {value}")
    assert "grpc-status: 13" in reply
    assert "grpc-message: rea: grpc-timeout is not 1 to 8 digits and one of H, M, S, m, u, n" in reply
    assert a.seen == []


@pytest.mark.parametrize("method", [GET, LIST, "/test.Others/Get"])
def test_rea_ends_a_call_whose_time_is_over_though_nobody_else_does(pair, method):
    _, serve = pair(RefusingServer(None))
    begin = now_ns()
    reply = curl(serve, method, "-H", "Host: users", "-H", "grpc-timeout: 150m")
    assert "grpc-status: 4" in reply and "grpc-message: rea: " in reply
    assert now_ns() - begin >= 150 * MS


def test_a_reply_of_something_that_is_no_grpc_server(rig):
    upstream = rig.upstream(A="echo")
    serve = rig.serve(configuration(rig, upstream.address("A")))
    with Client(serve.calls) as client:  # an instance that speaks HTTP/1.1 only: its reply cannot be read
        call = client.unary(GET, b"x", "h1")
    assert call.code() in (Code.INTERNAL, Code.UNAVAILABLE)
    assert call.details().startswith("rea: ")
    rig.unchecked = True  # what such an instance counts as a request is its own affair


def test_an_instance_that_dies_within_a_reply(pair, rig):
    (a, b), serve = pair(lambda request, messages, context: itertools.chain([b"one"], hang(request, messages, context)), echo)
    with Client(serve.calls) as client:
        stream = client.server_stream(GET, b"", "died")
        assert next(stream) == b"one"
        a.close()
        with pytest.raises(grpc.RpcError):
            next(stream)
        assert stream.code() in (Code.UNAVAILABLE, Code.CANCELLED)
    assert b.seen == []
    assert final(serve, "died")["reason"] in ("response_started", "permanent")


# ---------------------------------------------------------------- grpc.health.v1


CHECK = "/grpc.health.v1.Health/Check"
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


def asks(service):
    return text(1, service) if service else b""


def test_health(pair):
    (a,), serve = pair(echo)
    with Client(serve.admin, None) as client:
        assert client.unary(CHECK).result() == SERVING
        assert client.unary(CHECK, asks("users")).result() == SERVING
        assert client.unary(CHECK, tag(9, 0) + b"\1" + asks("users")).result() == SERVING  # what a newer client adds
        call = client.unary(CHECK, asks("nobody"))
        assert (call.code(), call.details()) == (Code.NOT_FOUND, "there is no service of this name")
        assert client.unary(CHECK, b"\x0a\x05ab").code() == Code.INTERNAL
        assert client.unary(CHECK, b"\x0b").code() == Code.INTERNAL
        assert client.unary(CHECK, b"\0" * 5000).code() == Code.RESOURCE_EXHAUSTED
        assert client.unary("/grpc.health.v1.Health/Watch").code() == Code.UNIMPLEMENTED
        assert client.client_stream(CHECK, [b"", b""]).code() == Code.INTERNAL
    with Connection(serve.admin) as connection:
        connection.send(head("POST", CHECK, [("Host", serve.admin), ("Content-Type", "application/grpc"), ("Content-Length", "0")]))
        assert connection.reply().status == 415


def test_health_of_a_service_without_instances(rig):
    serve = rig.serve(configuration(rig))
    with Client(serve.admin, None) as client:
        assert client.unary(CHECK, asks("users")).result() == NOT_SERVING
        assert client.unary(CHECK).result() == SERVING


# ---------------------------------------------------------------- checks of instances

QUICK = {"interval-ms": 100, "timeout-ms": 100, "unhealthy-after": 2, "healthy-after": 2}


def states(serve):
    return {instance["address"]: instance["unhealthy"] for instance in json.loads(serve.get_admin("/v1/services/users").text)["instances"]}


def changes(serve):
    return [event["detail"] for event in serve.events() if event["type"] == "Breaker"]


def test_an_unhealthy_instance_gets_no_calls_by_grpc(rig):
    well = {"A": True, "B": True}

    def serving(name):
        def handle(request, messages, context):
            got = one(messages)
            if request.method == CHECK:
                assert got == text(1, "test.Users")
                yield SERVING if well[name] else NOT_SERVING
            else:
                yield name.encode()

        return handle

    a, b = Server("A", serving("A")), Server("B", serving("B"))
    rig.peers += [a, b]
    rig.unchecked = True  # the servers see checks, which are no attempts
    serve = rig.serve(configuration(rig, a, b, **{"health-check": {"protocol": "grpc", "service": "test.Users", **QUICK}}))
    with Client(serve.calls) as client, Client(serve.admin, None) as admin:
        assert client.unary(GET).result() == b"A"
        well["A"] = False
        wait_for(lambda: states(serve) == {a.address: True, b.address: False})
        assert changes(serve) == [f"{a.address} unhealthy: 2 checks in a row failed; the last one with gRPC status 0"]
        wait_for(lambda: client.unary(GET).result() == b"B")
        assert [client.unary(GET).result() for _ in range(20)] == [b"B"] * 20
        well["B"] = False
        wait_for(lambda: states(serve) == {a.address: True, b.address: True})
        wait_for(lambda: client.unary(GET).result() == b"A")  # none is well: all are used
        assert admin.unary(CHECK, asks("users")).result() == NOT_SERVING
        assert admin.unary(CHECK).result() == SERVING
        well["A"] = well["B"] = True
        wait_for(lambda: states(serve) == {a.address: False, b.address: False})
        assert admin.unary(CHECK, asks("users")).result() == SERVING
        assert sorted(changes(serve))[::2] == sorted(f"{server.address} healthy again: 2 checks in a row passed" for server in (a, b)) or len(changes(serve)) == 4
    attempts = serve.metric("rea_attempts_total")
    calls = serve.metric("rea_calls_total")
    assert attempts == calls  # checks are none
    assert serve.metric("rea_instance_unhealthy") == 0
    assert serve.metric("rea_health_checks_total", result="failed") >= 4
    assert serve.metric("rea_health_checks_total", result="passed") >= 4


def test_an_unhealthy_instance_gets_no_calls_by_http(rig):
    upstream = rig.upstream(A="on GET /health\nstatus 503\non GET /\nstatus 200", B="status 200")
    rig.unchecked = True
    config = configuration(rig, upstream.address("A"), upstream.address("B"), "127.0.0.1:1", **{"health-check": {"path": "/health", **QUICK}})
    serve = rig.serve(config)
    wait_for(lambda: list(states(serve).values()) == [True, False, True])
    details = sorted(changes(serve))
    assert details == sorted([
        f"{upstream.address('A')} unhealthy: 2 checks in a row failed; the last one with status 503",
        "127.0.0.1:1 unhealthy: 2 checks in a row failed; the last one: 127.0.0.1:1: not reached: connection refused"])
    with Connection(serve.calls) as connection:
        connection.send(head("GET", "/users/x", [("Host", "rea"), ("Connection", "close")]))
        assert connection.reply().status == 200
    assert upstream.requests("A", "/x") == [] and len(upstream.requests("B", "/x")) == 1
    # A configuration without the check forgets what it found.
    del config["services"]["users"]["health-check"]
    serve.write_config(config)
    serve.signal(1)
    wait_for(lambda: list(states(serve).values()) == [False, False, False])


# ---------------------------------------------------------------- where a call goes, and what holds for it


def test_the_gRPC_service_in_the_path_leads_to_a_service(rig):
    a, b = Server("A", echo), Server("B", echo)
    rig.peers += [a, b]
    config = configuration(rig, a, **{"grpc-services": ["test.Users", "other.*"]})
    config["services"]["orders"] = {"instances": [b.address], "grpc-services": ["other.orders.*"]}
    serve = rig.serve(config)
    with Client(serve.calls, None) as client:
        for path in (GET, "/other.X/M", "/other.orders.X/M", "/other.orders.v2.X/M"):
            assert client.unary(path, b"x").code() == Code.OK
        assert client.unary("/test.Unknown/M", b"x").code() == Code.UNIMPLEMENTED
    with Client(serve.calls, "orders") as client:  # the authority comes first
        assert client.unary(GET, b"x").code() == Code.OK
    assert [request.method for request in a.seen] == [GET, "/other.X/M"]
    assert [request.method for request in b.seen] == ["/other.orders.X/M", "/other.orders.v2.X/M", GET]


def test_a_grpc_service_config(rig):
    a, b, c = Server("A", fails(Code.INTERNAL)), Server("B", fails(Code.INTERNAL)), Server("C", echo)
    rig.peers += [a, b, c]
    (rig.directory / "grpc.json").write_text(json.dumps({"methodConfig": [{
        "name": [{"service": "test.Users", "method": "Get"}], "timeout": "3s",
        "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.02s", "maxBackoff": "0.05s", "backoffMultiplier": 1.5, "retryableStatusCodes": ["INTERNAL"]}}]}))
    config = configuration(rig, a, b, c, **{"grpc-service-config": "grpc.json"})
    config["rpc"] = {}
    serve = rig.serve(config)
    with Client(serve.calls) as client:
        assert client.unary(GET, b"x", "configured").code() == Code.OK
        assert client.unary(PUT, b"x", "not").code() == Code.INTERNAL
    assert [event["attempt"] for event in serve.timeline("configured")] == [1, 2, 3]
    assert 0 < a.seen[0].time_remaining <= 3
    # A document that is refused changes nothing; a good one is taken up.
    (rig.directory / "grpc.json").write_text("{\"methodConfig\": [{\"name\": [{}], \"hedgingPolicy\": {}}]}")
    refused = wait_for(lambda: [event for event in serve.events() if event["type"] == "Config" and "hedge" in json.dumps(event)])
    assert "grpc.json" in json.dumps(refused[0])
    with Client(serve.calls) as client:
        assert client.unary(GET, b"x", "again").code() == Code.OK


def test_throttling_by_the_grpc_rule(pair):
    (a, b), serve = pair(fails(Code.UNAVAILABLE), fails(Code.UNAVAILABLE), budget={"rule": "grpc", "max-tokens": 10, "token-ratio": 0.1})
    with Client(serve.calls) as client:
        for n in range(4):
            client.unary(GET, b"x", f"t{n}")
    # Each failed attempt takes a token: 9 may retry, 8, 7 may, 6 …: the fifth failure leaves 5, which is not above half.
    assert [len(serve.timeline(f"t{n}")) for n in range(4)] == [2, 2, 1, 1]
    assert final(serve, "t2")["reason"] == final(serve, "t3")["reason"] == "budget_exhausted"


# ---------------------------------------------------------------- under load


def test_a_restart_of_an_instance_costs_no_idempotent_call(rig):
    servers = [Server("A", echo), Server("B", echo)]
    rig.peers += servers
    rig.unchecked = True  # I3 does not hold: what a server refuses while it ends, its handlers never see
    serve = rig.serve(configuration(rig, *servers, balance="least-loaded"))
    stop = threading.Event()
    failed, done = [], [0] * 4

    def ask(worker):
        with Client(serve.calls) as client:
            while not stop.is_set():
                call = client.unary(GET, b"x")
                if call.code() != Code.OK:
                    failed.append((call.code(), call.details()))
                done[worker] += 1

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(3):
        before = sum(done)
        wait_for(lambda: sum(done) > before + 50, 20)
        index = turn % 2
        servers[index].close(grace=5)
        again = Server("AB"[index], echo, port=servers[index].port)
        rig.peers.append(again)
        servers[index] = again
    before = sum(done)
    wait_for(lambda: sum(done) > before + 50, 20)
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == [] and sum(done) > 200
    assert all(server.seen for server in servers)
    rig._settle(serve)
    check_calls(serve)
    check_counters(serve)


def test_invariants_from_the_events(pair):
    """Fail, fail or answer at random: the rig checks I2, I3, I4, I6, I7, I8, I9 when the test is over."""
    turn = itertools.count()

    def moody(request, messages, context):
        got = list(messages)
        if next(turn) % 3 == 0:
            context.abort((Code.UNAVAILABLE, Code.NOT_FOUND, Code.DEADLINE_EXCEEDED)[next(turn) % 3], "moody")
        yield from got

    servers, serve = pair(moody, moody, moody, retry={"max-retry-next-instance": 2}, service={"balance": "least-loaded"})
    with Client(serve.calls) as client, concurrent.futures.ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda n: client.unary((GET, PUT)[n % 4 == 0], b"m%d" % n, f"i{n}", metadata=(("idempotency-key", f"k{n}"),)).code(), range(300)))
    assert len(codes) == 300 and codes.count(Code.OK) > 100
    assert serve.metric("rea_calls_total") == 300
    wait_for(lambda: sum(any(event["type"] in FINAL for event in events) for events in by_call(serve.events()).values()) >= 300 - codes.count(Code.OK))
