"""Many mixed calls with injected faults: every answer is right and the books balance."""
import concurrent.futures
import contextlib
import hashlib
import os
import random
import time

import pytest

from rig import PAY, Closed, chunked, head, service

FAULTS = "3% status 503\n2% reset\n2% close\n1% status 502\n1% short status 503 body cut\n1% status 504 close-after\necho"
MIXED = (
    {"get": "/users/{id}", "id": "getUserInfo", "retryable": True},
    PAY,
    {"put": "/files/{name}", "id": "putFile", "retryable": True},
    {"head": "/users/{id}", "id": "headUser", "retryable": True},
    {"delete": "/users/{id}", "id": "deleteUser", "retryable": True},
)


class Caller:
    """One keep-alive connection that makes calls of every kind and judges the answers."""

    def __init__(self, rea, seed):
        self.rea = rea
        self.random = random.Random(seed)
        self.connection = None
        self.wrong = []

    def call(self, biz_id):
        kind = self.random.choice(["get", "get", "post", "chunked", "put", "head", "delete", "trailers"])
        body = os.urandom(self.random.choice([0, 1, 10, 1000, 30000]))
        fields = [("Host", "user-service"), ("x-biz-id", biz_id)]
        if kind in ("post", "put"):
            method, path, expected = ("POST", "/pay", body) if kind == "post" else ("PUT", "/files/a%20b", body)
            data = head(method, path, fields + [("Content-Length", len(body))]) + body
        elif kind in ("chunked", "trailers"):
            method, path, expected = "POST", "/pay", body
            pieces = [body[i : i + 7000] for i in range(0, len(body), 7000)]
            trailers = [("x-sum", hashlib.md5(body).hexdigest())] if kind == "trailers" else []
            data = head(method, path, fields + [("Transfer-Encoding", "chunked")]) + chunked(*pieces, trailers=trailers)
        else:
            method, path, expected = kind.upper(), "/users/42", b""
            data = head(method, path, fields)
        if self.connection is None:
            self.connection = self.rea.connect()
        self.connection.send(data)
        reply = self.connection.reply(method)
        if reply.status != 200 or not reply.complete or reply.body != expected:
            self.wrong.append((biz_id, kind, len(body), reply))
        if kind == "trailers" and reply.trailers != trailers:
            self.wrong.append((biz_id, kind, "trailers", reply.trailers))
        if reply.field("connection") == "close" or self.random.random() < 0.02:
            self.connection.close()
            self.connection = None

    def close(self):
        if self.connection is not None:
            self.connection.close()


def mixed_calls(rig, calls, threads):
    """A fails one call in ten; B and C never do: every call must succeed, and each exactly as its fault says."""
    upstream = rig.upstream(A=FAULTS, B="echo", C="echo")
    rea = rig.serve(service(*upstream.addresses.values(), operations=MIXED, threads=threads, limits={"concurrent-retries": 1000}))

    def work(worker):
        caller = Caller(rea, worker)
        for i in range(calls // 10):
            caller.call(f"mix-{worker}-{i}")
        caller.close()
        return caller.wrong

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        wrong = [problem for problems in pool.map(work, range(10)) for problem in problems]
    assert wrong == []
    first = rea.metric("rea_first_try_successes_total")
    retried = len(upstream.requests("B"))
    assert upstream.requests("C") == []
    assert first + retried == calls
    assert 0.06 * calls < retried < 0.15 * calls
    assert rea.metric("rea_events_dropped_total") == 0


def test_2000_mixed_calls(rig):
    mixed_calls(rig, 2000, threads=1)


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
def test_10000_mixed_calls(rig, threads):
    mixed_calls(rig, 10000, threads)


@pytest.mark.long
def test_p01_and_p09_many_times(rig):
    """Every call's first attempt fails without being sent: not one may be lost or doubled."""
    upstream = rig.upstream(A="refuse", B="echo")
    rea = rig.serve(service(*upstream.addresses.values(), limits={"concurrent-retries": 1000}))
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda i: rea.request("POST", "/user-service/pay", b"%d" % i, biz_id=f"many-{i}"), range(3000)))
    assert [reply.body for reply in replies] == [b"%d" % i for i in range(3000)]
    assert len({seen.field("x-biz-id") for seen in upstream.requests("B")}) == len(upstream.requests("B")) == 3000


# Everything at once: what is asked here is that nothing breaks, not that every call succeeds.
CHAOS = """\
4% reset
4% close
4% hang
3% garbage
3% endless-headers
3% short body "not all"
3% short chunked body "not all" pause 20ms
3% body-bytes 100000 reset-after 50000
3% body-bytes 1000 drip 300 every 5ms
3% status 503 early
3% status 503 no-read
3% interim 103 echo
3% status 503 header rea-retry: stop
3% status 503 header rea-retry: after=30
3% status 502 close-after delay 10ms
3% body-bytes 3m
echo
"""


def chaotic_call(rea, generator, biz_id):
    """One call, perhaps in a pipeline, perhaps given up half-way by its caller."""
    body = os.urandom(generator.choice([0, 5, 20000, 100000]))
    fields = [("Host", "user-service"), ("x-biz-id", biz_id), ("Content-Length", len(body))]
    data = head("POST", "/pay", fields) + body
    if generator.random() < 0.2:
        data += head("GET", "/users/1", [("Host", "user-service"), ("x-biz-id", biz_id + "-second")])
    cut = generator.randrange(len(data)) if generator.random() < 0.2 else len(data)
    with rea.connect(timeout=10) as connection:
        with contextlib.suppress(ConnectionError, Closed):
            connection.send(data[:cut])
            if cut < len(data) or generator.random() < 0.2:
                time.sleep(generator.random() * 0.05)
                connection.reset() if generator.random() < 0.5 else connection.close()
                return
            connection.reply("POST")


def chaos(rig, calls, threads):
    upstream = rig.upstream(A=CHAOS, B=CHAOS, C="echo", D="refuse")
    a, b, c, d = upstream.addresses.values()
    retry = {"max-retry-next-instance": 2, "attempt-timeout-ms": 100, "deadline-ms": 500}
    configs = [
        service(a, b, c, operations=MIXED, retry=retry, threads=threads),
        service(d, b, a, operations=MIXED, retry=retry, threads=threads),
    ]
    rea = rig.serve(configs[0])

    def work(worker):
        generator = random.Random(worker)
        for i in range(calls // 20):
            chaotic_call(rea, generator, f"chaos-{worker}-{i}")

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        workers = [pool.submit(work, worker) for worker in range(20)]
        reloads = 0
        while not all(worker.done() for worker in workers):
            reloads += 1
            rea.reload(configs[reloads % 2])
        for worker in workers:
            worker.result()
    assert reloads > 3


@pytest.mark.parametrize("threads", [1, 2])
def test_chaos(rig, threads):
    chaos(rig, 600, threads)


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
def test_long_chaos(rig, threads):
    chaos(rig, 6000, threads)
