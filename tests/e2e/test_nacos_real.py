"""
The same against a real Nacos server, where one is: REA_NACOS names it, REA_NACOS_PASSWORD is that of its user `nacos`. tests/nacos/run starts one.
What the server of tests/e2e/nacos.py answers was compared with this one.
"""
import os
import time

import pytest

from rig import wait_for
from test_discovery import listed
from test_nacos import Bed, config, policy

SERVER = os.environ.get("REA_NACOS")
pytestmark = pytest.mark.skipif(SERVER is None, reason="REA_NACOS names no server")


@pytest.fixture
def bed(rig, tmp_path, request):
    def make(**more):
        data_id = f"{request.node.name.replace('[', '.').replace(']', '')}-{time.time_ns()}.yml"
        return Bed(rig, [SERVER], tmp_path, **{"username": "nacos", "password": os.environ["REA_NACOS_PASSWORD"], "data-id": data_id, **more})

    return make


def push(bed, tmp_path, text, *options):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return config(bed, "push", *options, str(path))


@pytest.mark.parametrize("mode", ["auto", "v1", "v3"])
def test_documents_come_and_change(bed, tmp_path, mode):
    bed = bed(mode=mode, **{"poll-ms": 1000})
    assert bed.attempts() == 1 and bed.details("has no such document")
    for retries in (2, 0, 3):
        assert push(bed, tmp_path, policy(retries) + "# \u00e9 \u4e2d + % &\n").returncode == 0
        begin = time.monotonic()
        bed.wait_attempts(retries + 1)
        assert mode == "v3" or time.monotonic() - begin < 1
    assert len(bed.details("followed by long polling (v1)")) == (mode != "v3")
    assert push(bed, tmp_path, "rpc: {feign: {retry: {jitter: 0}}}").returncode == 2


@pytest.mark.parametrize("mode", ["v1", "v3"])
def test_compare_and_set(bed, tmp_path, mode):
    bed = bed(mode=mode)
    first = push(bed, tmp_path, policy(1))
    assert first.returncode == 0, first.stderr
    version = first.stdout.split()[1]
    pulled = config(bed, "pull")
    assert pulled.stdout == policy(1) and pulled.stderr.split()[1] == version
    assert push(bed, tmp_path, policy(2), "--over", version).returncode == 0
    late = push(bed, tmp_path, policy(3), "--over", version)
    assert late.returncode == 1 and "has changed" in late.stderr
    history = config(bed, "history")
    assert [line.split()[1] for line in history.stdout.splitlines()[1:]] == ["update", "insert"], history.stderr


def test_a_wrong_password(bed):
    bed = bed(password="wrong")
    assert bed.attempts() == 1
    wait_for(lambda: bed.details("user nacos is refused"))


def test_namespaces(bed, tmp_path):
    bed = bed(namespace="public")
    assert push(bed, tmp_path, policy(1)).returncode == 0
    bed.wait_attempts(2)
    assert push(bed, tmp_path, policy(3)).returncode == 0
    bed.wait_attempts(4)


# ---------------------------------------------------------------- naming


@pytest.mark.parametrize("mode", ["auto", "v1", "v3"])
def test_a_provider_is_registered_and_found(rig, mode):
    """One rea registers, another finds: weight, permissions, and that it is gone when the first one ends."""
    upstream = rig.upstream(A="echo", B="echo")
    name = f"users-{time.time_ns()}"
    login = {"servers": [SERVER], "username": "nacos", "password": os.environ["REA_NACOS_PASSWORD"], "mode": mode, "poll-ms": 1000}
    serves = []
    for instance in "AB":
        config = {"services": {name: {"instances": []}}, "contracts": {name: {"context": "api", "operations": [{"get": "/users/{id}", "id": "get", "retryable": True}]}}}
        config["sources"] = {"nacos": login}
        config["register"] = [{"in": "nacos", "service": name, "address": upstream.address(instance), "weight": 2, "metadata": {"version": "7"}}]
        serves.append(rig.serve(config))
        wait_for(lambda: serves[-1].metric("rea_registered") == 1, 20)
    config = {"services": {name: {"nacos": {}, "empty-grace-ms": 0}}, "sources": {"nacos": login}}
    config["contracts"] = {name: {"context": "api", "operations": [{"get": "/users/{id}", "id": "get"}]}}
    caller = rig.serve(config)
    rig.unchecked = True
    wait_for(lambda: sorted(listed(caller, name)) == sorted(upstream.address(instance) for instance in "AB"), 30)
    assert [instance["weight"] for instance in listed(caller, name).values()] == [200, 200]
    assert caller.request("GET", f"/{name}/users/1").status == 200
    # Longer than the server waits for heartbeats.
    begin = time.monotonic()
    wait_for(lambda: time.monotonic() - begin > 20 or len(listed(caller, name)) < 2, 30)
    assert len(listed(caller, name)) == 2
    assert serves[0].stop() == 0
    wait_for(lambda: list(listed(caller, name)) == [upstream.address("B")], 30)
