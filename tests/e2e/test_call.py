"""rea call: one call through the engine, its reply on standard output, what happened on standard error, an exit code by result."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest

from rig import REA, GET_USER, PAY, service, wait_for

FAST = ["-p", "min-backoff-ms=20", "-p", "max-backoff-ms=40"]


def call(*arguments, stdin=b"", **more):
    env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    return subprocess.run([REA, "call", *map(str, arguments)], input=stdin, capture_output=True, env=env, timeout=30, **more)


@pytest.fixture
def config(rig):
    def write(*instances, **more):
        path = rig.directory / "rea.yaml"
        path.write_text(json.dumps(service(*instances, **more)))
        return path

    return write


def lines(result):
    return result.stderr.decode().splitlines()


def test_a_success_at_the_first_try_is_told_too(rig):
    upstream = rig.upstream(A="status 200 header x-a: b body hello")
    result = call(f"http://{upstream.address('A')}/x?y=1")
    assert (result.returncode, result.stdout) == (0, b"hello")
    assert lines(result)[1] == "call -  GET /x  permission none, at most 3 attempts (2 retries)"
    assert re.fullmatch(r" +\+0 ms  #1/3 +127\.0\.0\.1:\d+ +ok 200 +[\d.]+ ms  success", lines(result)[-1])
    assert [(seen["method"], seen["path"]) for seen in upstream.requests()] == [("GET", "/x?y=1")]
    assert call("-q", f"http://{upstream.address('A')}/x").stderr == b""
    included = call("-i", f"http://{upstream.address('A')}/x").stdout
    assert included.startswith(b"HTTP/1.1 200") and b"x-a: b\r\n" in included and included.endswith(b"\r\n\r\nhello")


def test_without_permission_nothing_is_retried_and_it_says_so(rig):
    upstream = rig.upstream(A="status 503 body sorry")
    result = call(*FAST, f"http://{upstream.address('A')}/x")
    assert (result.returncode, result.stdout) == (5, b"sorry")
    assert "give up: not_declared (GET /x is not declared repeatable)" in lines(result)[-1]
    assert len(upstream.requests()) == 1


def test_with_permission_it_is(rig):
    upstream = rig.upstream(A="status 503 body sorry\nstatus 503\nstatus 200 body good")
    result = call(*FAST, "-P", "idempotent", f"http://{upstream.address('A')}/x")
    assert (result.returncode, result.stdout) == (0, b"good")  # and nothing of the failed replies
    assert [re.search(r"#(\d/\d) .*(unavailable 503|ok 200)", line).groups() for line in lines(result)[2:]] == [
        ("1/3", "unavailable 503"),
        ("2/3", "unavailable 503"),
        ("3/3", "ok 200"),
    ]
    assert "permission idempotent (caller)" in lines(result)[1]


def test_with_key(rig):
    upstream = rig.upstream(A="status 503\nstatus 200")
    url = f"http://{upstream.address('A')}/pay"
    result = call(*FAST, "-P", "idempotent_with_key", "-d", "1", url)
    assert "key_missing" in lines(result)[-1] and result.returncode == 5
    assert call(*FAST, "-P", "idempotent_with_key", "-k", "key-7", "-d", "@-", url, stdin=b"\0\1").returncode == 0
    upstream = rig.upstream(A="status 503\nstatus 503\nstatus 200")
    assert call(*FAST, "-P", "idempotent_with_key", "-K", "-X", "PUT", "-d", "body", "-H", "X-A: b", f"http://{upstream.address('A')}/pay").returncode == 0
    requests = upstream.requests()
    assert len({seen.field("idempotency-key") for seen in requests}) == 1 and re.fullmatch('"[0-9a-f-]{36}"', requests[0].field("idempotency-key"))
    assert [(seen["method"], seen.field("x-a"), seen.field("rea-attempt")) for seen in requests] == [("PUT", "b", f"{n}/3") for n in (1, 2, 3)]


@pytest.mark.parametrize("script, code", [("status 404", 4), ("status 500", 5), ("status 429", 5), ("close", 6), ("hang", 6)])
def test_exit_codes(rig, script, code):
    upstream = rig.upstream(A=script)
    assert call("-p", "attempt-timeout-ms=200", f"http://{upstream.address('A')}/x").returncode == code


def test_never_sent(rig):
    with socket.socket() as refused:
        refused.bind(("127.0.0.1", 0))
        result = call(*FAST, "-P", "safe", f"http://127.0.0.1:{refused.getsockname()[1]}/")
    assert result.returncode == 3
    assert sum("never_sent ECONNREFUSED" in line for line in lines(result)) == 3
    assert lines(result)[-1].startswith("rea call: Failed to connect to 127.0.0.1")


def test_the_service_of_a_config(rig, config):
    upstream = rig.upstream(A="status 503", B="echo")
    path = config(upstream.address("A"), upstream.address("B"))
    result = call("-c", path, "-X", "POST", "-d", "hello", "-b", "order-7", "user-service/pay")
    assert (result.returncode, result.stdout) == (0, b"hello")
    assert lines(result)[0].startswith("biz_id order-7, from ")
    assert "user-service  user-api_pay" in lines(result)[1] and "(config), at most 2 attempts" in lines(result)[1]
    assert [re.search(r"127\.0\.0\.1:\d+", line).group() for line in lines(result)[2:]] == [upstream.address("A"), upstream.address("B")]
    assert {seen.field("x-biz-id") for seen in upstream.requests()} == {"order-7"}
    # The same by the service's name as a host; and what the contract does not name is not repeated.
    assert call("-c", path, "http://user-service/users/1").returncode == 0
    result = call("-c", path, "user-service/other")
    assert result.returncode == 5 and "not_declared" in lines(result)[-1]


def test_a_contract_that_forbids_wins_over_the_caller(rig, config):
    upstream = rig.upstream(A="status 503", B="echo")
    path = config(upstream.address("A"), upstream.address("B"), operations=[GET_USER, {**PAY, "retryable": False}])
    result = call("-c", path, "-P", "safe", "-X", "POST", "user-service/pay")
    assert result.returncode == 5 and "forbidden (POST /pay is declared not repeatable)" in lines(result)[-1]


def test_a_policy_that_is_off(rig, config):
    upstream = rig.upstream(A="status 503", B="echo")
    path = config(upstream.address("A"), upstream.address("B"), retry={"enabled": False})
    assert "not_enabled" in lines(call("-c", path, "user-service/users/1"))[-1]


def test_interrupted(rig):
    upstream = rig.upstream(A="hang")
    process = subprocess.Popen([REA, "call", f"http://{upstream.address('A')}/x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(upstream.requests)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130 and b"cancelled" in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "usage"),
        (["user-service/x"], "without --config a URL is expected: user-service/x"),
        (["-H", "nocolon", "http://127.0.0.1/"], "a header is NAME: VALUE"),
        (["-P", "maybe", "http://127.0.0.1/"], "--permission is"),
        (["-p", "jitter=0", "http://127.0.0.1/"], "jitter"),
        (["-c", "missing.yaml", "x/y"], "missing.yaml"),
        (["-c", "missing.yaml", "-p", "jitter=0.5", "x/y"], "--policy is for calls without --config"),
        (["-k", "a b", "http://127.0.0.1/"], "this cannot be called"),
        (["file:///etc/passwd"], "without --config a URL is expected"),
    ],
)
def test_bad_arguments(arguments, message):
    result = call(*arguments)
    assert result.returncode == 2 and message in result.stderr.decode()


def test_an_unknown_service(rig, config):
    result = call("-c", config("127.0.0.1:1"), "nobody/x")
    assert result.returncode == 2 and "has no service of this name: nobody/x" in result.stderr.decode()
