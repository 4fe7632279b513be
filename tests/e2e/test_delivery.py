"""What deliveries of tasks do to targets, and targets to them: one attempt is one request, hostile ones harm nobody, nothing goes where it may not."""
import base64
import collections
import gzip
import hashlib
import hmac
import re
import socket
import threading

import pytest

from rig import wait_for
from tasks import Tasks, config

SECRETS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ONCE = {"min-backoff-ms": 20, "max-backoff-ms": 50, "max-attempts": 3, "attempt-timeout-ms": 400, "deadline-ms": 20000}


class Target:
    """A server on a real socket; `answer` gets each whole request and its connection, and returns whether the connection goes on."""

    def __init__(self, answer):
        self.answer, self.requests, self.accepted = answer, [], 0
        self.lock, self.closing = threading.Lock(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.accepted += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        data = b""
        with connection:
            try:
                while True:
                    while b"\r\n\r\n" not in data:
                        piece = connection.recv(65536)
                        if not piece:
                            return
                        data += piece
                    head, data = data.split(b"\r\n\r\n", 1)
                    fields = dict(re.findall(r"\r\n([^:]+): ?([^\r]*)", head.decode()))
                    fields = {name.lower(): value for name, value in fields.items()}
                    length = int(fields.get("content-length", 0))
                    while len(data) < length:
                        data += connection.recv(65536)
                    request = (head.split(b"\r\n")[0].decode(), fields, data[:length])
                    data = data[length:]
                    with self.lock:
                        self.requests.append(request)
                    if not self.answer(connection, request, self):
                        return
            except OSError:
                return

    def url(self, path="/hook", host="127.0.0.1", scheme="http"):
        return f"{scheme}://{host}:{self.port}{path}"

    def close(self):
        self.closing.set()
        self.listener.close()


@pytest.fixture
def target():
    made = []

    def make(answer=lambda connection, request, target: connection.sendall(OK) or True):
        made.append(Target(answer))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def start(rig):
    rig.unchecked = True

    def make(urls, policy=ONCE, tasks=None, **more):
        document = config(rig.directory, [], tasks={"policy": policy, "urls": urls, **(tasks or {})}, **more)
        return Tasks(rig.serve(document)), document

    return make


def anywhere(**more):
    return [{"pattern": "http://*:*", "permission": "with-key", "allow-private": True, **more}, {"pattern": "https://*:*", "allow-private": True}]


# ---- one attempt is one request


def closes_at_once(connection, request, target):
    connection.sendall(OK)
    return False


def dies_on_the_second(connection, request, target):
    """Reads the second request of a connection and closes without a word: what libcurl would send again by itself."""
    seen = target.__dict__.setdefault("seen", collections.Counter())
    seen[connection.fileno(), connection.getpeername()] += 1
    if seen[connection.fileno(), connection.getpeername()] == 2:
        return False
    connection.sendall(OK)
    return True


@pytest.mark.parametrize("answer", [closes_at_once, dies_on_the_second])
def test_a_server_that_closes_connections_sees_as_many_requests_as_attempts(start, target, answer):
    webhook = target(answer)
    tasks, _ = start(anywhere(), policy={**ONCE, "max-attempts": 10}, tasks={"target-concurrency": 1})
    ids = [tasks.submit(url=webhook.url(f"/{n}"), key=f"k{n}", biz_id=f"b{n}")["id"] for n in range(30)]
    for task in ids:
        tasks.until(task, "SUCCESS", "GIVEN_UP")
    attempts = {n: tasks.attempts(task) for n, task in enumerate(ids)}
    seen = collections.Counter(request[0].split()[1] for request in webhook.requests)
    sent = {f"/{n}": sum(a["outcome"] != "never_sent" for a in each) for n, each in attempts.items()}
    # What went into a connection that was just being closed may have been read by nobody: unknown, and recorded so.
    unknown = {f"/{n}": sum(a["outcome"] == "ambiguous" for a in each) for n, each in attempts.items()}
    assert all(sent[path] - unknown[path] <= seen[path] <= sent[path] for path in sent) and len(seen) == 30
    if answer is dies_on_the_second:
        assert seen == sent  # it reads every request
        assert {a["outcome"] for each in attempts.values() for a in each} == {"ok", "ambiguous"}
    for n in range(30):
        assert {request[1]["idempotency-key"] for request in webhook.requests if request[0].split()[1] == f"/{n}"} == {f"k{n}"}


# ---- signatures


def test_every_delivery_is_signed_with_every_secret_and_keeps_its_id(start, target):
    def second_time(connection, request, target):
        connection.sendall(OK if len(target.requests) > 1 else b"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n")
        return True

    webhook = target(second_time)
    tasks, _ = start(anywhere(sign={"secrets": SECRETS}))
    task = tasks.submit(url=webhook.url(), key="k", body='{"test": 2432232314}')["id"]
    tasks.until(task, "SUCCESS")
    tasks.post(f"/v1/tasks/{task}/replay", {"force": True})
    tasks.until(task, "SUCCESS")
    wait_for(lambda: len(webhook.requests) == 3)
    assert len({fields["webhook-id"] for _, fields, _ in webhook.requests}) == 1
    for _, fields, body in webhook.requests:
        signed = f"{fields['webhook-id']}.{fields['webhook-timestamp']}.".encode() + body
        expected = ["v1," + base64.b64encode(hmac.new(base64.b64decode(secret[6:]), signed, hashlib.sha256).digest()).decode() for secret in SECRETS]
        assert fields["webhook-signature"].split(" ") == expected


# ---- hostile targets


def until_left(connection, target, piece, pause):
    while not target.closing.wait(pause):
        connection.sendall(piece)


def drip(connection, request, target):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    until_left(connection, target, b"d", 0.01)


def drip_head(connection, request, target):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    until_left(connection, target, b"x", 0.01)


def endless_body(connection, request, target):
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    until_left(connection, target, b"e" * 65536, 0)


def header_bomb(connection, request, target):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    until_left(connection, target, b"x-bomb: " + b"b" * 1000 + b"\r\n", 0)


BOMB = gzip.compress(bytes(64 << 20))


def gzip_bomb(connection, request, target):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB)
    return True


def early_close(connection, request, target):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf")


def silence(connection, request, target):
    target.closing.wait()


HOSTILE = {
    drip: ("ambiguous", 110), drip_head: ("ambiguous", 110), silence: ("ambiguous", 110), early_close: ("ambiguous", 104),
    endless_body: ("ok", 200), gzip_bomb: ("ok", 200), header_bomb: ("permanent", None),
}


@pytest.mark.parametrize("kind", ["service", "url"])
@pytest.mark.memory
def test_hostile_targets_cost_their_attempt_and_nothing_else(rig, start, target, kind):
    """Thirty tasks to each of them at once, and a good instance beside them."""
    bad = {answer: target(answer) for answer in HOSTILE}
    services = {f"bad-{n}": {"instances": [f"127.0.0.1:{each.port}"]} for n, each in enumerate(bad.values())}
    good = rig.upstream(i0="")
    services["pay"] = {"instances": [good.address("i0")]}
    tasks, _ = start(anywhere(), services=services, contracts={}, policy={**ONCE, "max-attempts": 1, "attempt-timeout-ms": 3000},
                     tasks={"target-concurrency": 30, "concurrency": 500})
    before = tasks.rea.memory_kib("VmRSS")
    batch = [{"url": each.url()} if kind == "url" else {"service": f"bad-{n}", "path": "/hook"} for n, each in enumerate(bad.values())]
    results = [tasks.post("/v1/tasks", [{**item, "body": "x"} for _ in range(30)])["results"] for item in batch]
    beside = [tasks.submit(service="pay", path="/orders", key=f"g{n}", biz_id=f"g{n}")["id"] for n in range(50)]
    for task in beside:
        tasks.until(task, "SUCCESS")
    for answer, result in zip(bad, results):
        outcome, code = HOSTILE[answer]
        for entry in result:
            task = entry["task"]["id"]
            tasks.until(task, "SUCCESS" if outcome == "ok" else "GIVEN_UP", timeout=30)
            attempt, = tasks.attempts(task)
            assert (attempt["outcome"], attempt["code"] or None) == (outcome, code), (answer, attempt)
            # Not before its time, either.
            assert code != 110 or attempt["cost_ms"] >= 2990, attempt
        assert len(bad[answer].requests) == 30
    grown = tasks.rea.memory_kib("VmHWM") - before
    # 210 attempts at once: 64 KiB for each, and what libcurl and OpenSSL are themselves.
    assert grown < 210 * 64 + 24 * 1024, f"{grown} KiB"


def test_a_handshake_that_stands_still_was_never_sent(start):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tasks, _ = start(anywhere())
        task = tasks.submit(url=f"https://127.0.0.1:{silent.getsockname()[1]}/")["id"]
        tasks.until(task, "GIVEN_UP")
        assert [(a["outcome"], a["code"]) for a in tasks.attempts(task)][0] == ("never_sent", 110)


# ---- where nothing goes


def test_urls_that_no_pattern_allows_are_refused_when_they_are_handed_in(start, target):
    webhook = target()
    tasks, _ = start([{"pattern": f"http://127.0.0.1:{webhook.port}/in/*", "allow-private": True}])
    for url in (webhook.url("/out"), webhook.url("/in/../out"), webhook.url("/in/%2e%2e/out"), webhook.url("/in/..%2fout"),
                f"http://user:secret@127.0.0.1:{webhook.port}/in/x", f"https://127.0.0.1:{webhook.port}/in/x", "http://127.0.0.1:1/in/x",
                "file:///etc/passwd", "gopher://127.0.0.1/in/x", f"http://127.0.0.1:{webhook.port}/in/x#y"):
        status, problem, _ = tasks.ask("POST", "/v1/tasks", {"url": url})
        assert status in (400, 403, 422) and problem["field"] == "/url", (url, status, problem)
    # The same place in other words.
    for host in ("127.1", "2130706433", "0x7f000001"):
        task = tasks.submit(url=f"http://{host}:{webhook.port}/x/../in/{host}")["id"]
        tasks.until(task, "SUCCESS")
    assert [request[0].split()[1] for request in webhook.requests] == ["/in/127.1", "/in/2130706433", "/in/0x7f000001"]


def test_private_addresses_are_blocked(start, target):
    webhook = target()
    tasks, _ = start([{"pattern": "http://*:*", "permission": "idempotent"}])
    for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "169.254.169.254"):
        assert tasks.submit(url=webhook.url(host=host), status=422)["field"] == "/url"
    # A name shows where it leads when the connection is made.
    task = tasks.submit(url=webhook.url(host="localhost"))["id"]
    document = tasks.until(task, "GIVEN_UP")
    assert document["reason"] == "blocked"
    attempt, = tasks.attempts(task)
    assert attempt["outcome"] == "permanent"
    assert webhook.accepted == 0


def test_what_is_forbidden_by_a_reload_is_not_reached_through_a_standing_connection(start, target):
    webhook = target()
    tasks, document = start(anywhere())
    url = webhook.url(host="localhost")
    tasks.until(tasks.submit(url=url, key="1")["id"], "SUCCESS")
    document["tasks"]["urls"] = [{"pattern": "http://*:*", "permission": "with-key"}]
    tasks.rea.reload(document)
    blocked = tasks.submit(url=url, key="2")["id"]
    assert tasks.until(blocked, "GIVEN_UP")["reason"] == "blocked"
    assert (len(webhook.requests), webhook.accepted) == (1, 1)


@pytest.mark.parametrize("kind", ["service", "url"])
def test_redirects_are_not_followed_and_no_success(start, target, kind):
    elsewhere = target()
    webhook = target(lambda connection, request, _: connection.sendall(
        b"HTTP/1.1 307 x\r\nLocation: " + elsewhere.url().encode() + b"\r\nContent-Length: 0\r\n\r\n") or True)
    tasks, _ = start(anywhere(), services={"pay": {"instances": [f"127.0.0.1:{webhook.port}"]}}, contracts={})
    task = tasks.submit(**({"url": webhook.url()} if kind == "url" else {}), key="k")["id"]
    assert tasks.until(task, "GIVEN_UP")["reason"] == "permanent"
    attempt, = tasks.attempts(task)
    assert (attempt["outcome"], attempt["code"]) == ("permanent", 307)
    assert len(webhook.requests) == 1 and elsewhere.accepted == 0
