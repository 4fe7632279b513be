"""Existing programs that know nothing of rea, pointed at it with http_proxy alone."""
import os
import shutil
import subprocess
import sys

import pytest

from rig import wait_for

requests = pytest.importorskip("requests")


@pytest.fixture
def environment(rig):
    """A service whose first instance is busy, and the environment of a program that should reach it."""
    upstream, rea = rig.pair("status 503", 'on GET /users/\nbody "{\\"name\\": \\"Ada\\"}" header Content-Type: application/json\non POST /pay\necho')
    clean = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    return upstream, rea, {**clean, "http_proxy": f"http://{rea.calls}"}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(environment):
    upstream, rea, env = environment
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--fail", "--max-time", "5", "-H", "x-biz-id: curl-1", "http://user-service/users/42?q=1"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"name": "Ada"}', "")
    assert [event["type"] for event in rea.timeline("curl-1")] == ["Retry", "Success"]
    assert [seen["path"] for seen in upstream.requests()] == ["/users/42?q=1"] * 2


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_with_a_large_body_and_expect(environment, tmp_path):
    upstream, _, env = environment
    payload = tmp_path / "payload"
    payload.write_bytes(os.urandom(50000))
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--fail", "--max-time", "5", "-H", "Expect: 100-continue", "--data-binary", f"@{payload}", "http://user-service/pay"],
        env=env,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout == payload.read_bytes()
    assert len({seen["body_sha256"] for seen in upstream.requests()}) == 1


PROGRAM = """
import requests
session = requests.Session()
for i in range(3):
    reply = session.get("http://user-service/users/%d" % i, headers={"x-biz-id": "py-%d" % i}, timeout=5)
    assert reply.status_code == 200 and reply.json() == {"name": "Ada"}, (reply.status_code, reply.text)
reply = session.post("http://user-service/pay", data=iter([b"one", b"two"]), headers={"x-biz-id": "py-chunked"}, timeout=5)
assert reply.content == b"onetwo", reply.content
"""


def test_python_requests(environment):
    upstream, rea, env = environment
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert [event["type"] for event in rea.timeline("py-2")] == ["Retry", "Success"]
    wait_for(lambda: len(upstream.requests("B")) == 4)
