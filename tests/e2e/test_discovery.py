"""
Where instances come from: files, DNS, Nacos and etcd (scenarios S11 and S19, and what instances permit themselves). Nacos is tests/e2e/nacos.py, the
others are the real ones: dnsmasq, etcd.
"""
import base64
import collections
import contextlib
import json
import math
import os
import shutil
import socket
import subprocess
import time

import pytest

from conftest import sanitized
from nacos import BEAT_V1, LIST_V1, LIST_V3, Nacos
from rig import REA, service, wait_for
from test_etcd import Etcd, encoded, free_port

GET_USER = {"get": "/users/{id}", "id": "getUserInfo"}  # the contract names the operation and says nothing of it


@pytest.fixture
def nacos():
    made = []

    def make(*arguments, **more):
        made.append(Nacos(*arguments, **more))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def etcd(tmp_path):
    if shutil.which("etcd") is None:
        pytest.fail("etcd is not installed: tools/bootstrap test")
    server = Etcd(tmp_path)
    yield server
    server.stop()


# ---------------------------------------------------------------- the sources, alike to tests


class File:
    def __init__(self, directory):
        self.path = directory / "instances.json"
        self.listed = {}
        self.write()

    def write(self):
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps(list(self.listed.values())))
        draft.rename(self.path)

    def set(self, address, **more):
        self.listed[address] = {"address": address, **more}
        self.write()

    def remove(self, address):
        self.listed.pop(address)
        self.write()

    def place(self):
        return {"instances-file": str(self.path)}, {}


class FromNacos:
    def __init__(self, server):
        self.server = server

    def set(self, address, **more):
        self.server.instance(address, **more)

    def remove(self, address):
        self.server.forget(address)

    def place(self):
        return {"nacos": {}}, {"nacos": {"servers": [self.server.address], "poll-ms": 1000}}


class FromEtcd:
    prefix = "/services/user-service/"

    def __init__(self, server):
        self.server = server

    def set(self, address, **more):
        self.server.ask("/v3/kv/put", {"key": encoded(self.prefix + address), "value": encoded(json.dumps({"address": address, **more}))})

    def remove(self, address):
        self.server.ask("/v3/kv/deleterange", {"key": encoded(self.prefix + address)})

    def place(self):
        return {"etcd": {"prefix": self.prefix}}, {"etcd": {"servers": [self.server.address]}}


@pytest.fixture(params=["file", "nacos-v1", "nacos-v3", "etcd"])
def source(request, tmp_path, nacos):
    if request.param == "file":
        return File(tmp_path)
    if request.param == "etcd":
        return FromEtcd(request.getfixturevalue("etcd"))
    return FromNacos(nacos(("v1", "v3") if request.param == "nacos-v1" else ("v3",)))


def configure(source, operations=(GET_USER,), retry=None, balance="least-loaded", grace_ms=60000, **more):
    config = service(operations=operations, retry=retry, **more)
    of, servers = source.place()
    del config["services"]["user-service"]["instances"]
    config["services"]["user-service"].update({"balance": balance, "empty-grace-ms": grace_ms, **of})
    if servers:
        config["sources"] = servers
    return config


def details(rea, part):
    return [event["detail"] for event in rea.config_events() if part in event.get("detail", "")]


def call(rea, path="/user-service/users/42"):
    """The status, and the events of the call, whose last one has the reason."""
    biz_id = rea.new_biz_id()
    status = rea.request("GET", path, biz_id=biz_id).status
    return status, rea.timeline(biz_id) if status != 200 else rea.events(biz_id)


def instances(rea):
    return rea.metric("rea_discovery_instances", service="user-service")


def listed(rea, name="user-service"):
    """What calls may go to, by address, as the admin API has it."""
    return {instance["address"]: instance for instance in json.loads(rea.get_admin(f"/v1/services/{name}").text)["instances"]}


def wait_instances(rea, count, timeout=10):
    wait_for(lambda: len(listed(rea)) == count, timeout, f"{count} instances")
    assert instances(rea) == count


# ---------------------------------------------------------------- lists come and change


def test_instances_come_and_go(rig, source):
    upstream = rig.upstream(A="body a", B="body b", C="body c")
    a, b, c = (upstream.address(name) for name in "ABC")
    source.set(a)
    rea = rig.serve(configure(source))
    assert rea.request("GET", "/user-service/users/42").body == b"a"
    source.set(b)
    source.set(c)
    wait_instances(rea, 3)
    source.remove(a)
    wait_instances(rea, 2)
    bodies = collections.Counter(rea.request("GET", "/user-service/users/42").body for _ in range(40))
    assert set(bodies) == {b"b", b"c"}
    assert details(rea, f"1 instance from") and details(rea, f"0 added, 1 removed, 0 changed, {a}")
    assert rea.metric("rea_discovery_age_seconds", service="user-service") < 6


def test_weights_and_what_is_switched_off(rig, source):
    upstream = rig.upstream(A="body a", B="body b", C="echo", D="echo")
    a, b, c, d = (upstream.address(name) for name in "ABCD")
    source.set(a, weight=9)
    source.set(b, weight=1)
    source.set(c, weight=0)
    source.set(d, healthy=False)
    rea = rig.serve(configure(source))
    assert {address: instance["weight"] for address, instance in listed(rea).items()} == {a: 900, b: 100}
    assert {rea.request("GET", "/user-service/users/42").body for _ in range(20)} <= {b"a", b"b"}
    source.set(d, healthy=True)
    wait_instances(rea, 3)
    source.set(a, enabled=False)
    wait_instances(rea, 2)


# ---------------------------------------------------------------- permission, per instance


@pytest.mark.parametrize("enabled", [False, True], ids=["policy-off", "policy-on"])
@pytest.mark.parametrize("permits", [False, True], ids=["undeclared", "declared"])
def test_permission_and_policy(rig, source, permits, enabled):
    upstream = rig.upstream(A="status 503", B="status 503")
    metadata = {"rea.retryable": "user-api_getUserInfo"} if permits else {"version": "1"}
    for name in "AB":
        source.set(upstream.address(name), metadata=metadata)
    rea = rig.serve(configure(source, retry={"enabled": enabled}))
    status, events = call(rea)
    assert status == 503
    assert len(upstream.requests()) == (2 if permits and enabled else 1)
    assert events[-1]["reason"] == ("not_declared" if not permits else "not_enabled" if not enabled else "attempts_exhausted")
    if permits:
        assert (events[-1]["permission"], events[-1]["permission_source"]) == ("idempotent", "registry")


def test_the_more_restrictive_of_contract_and_instance(rig, source):
    upstream = rig.upstream(A="status 503", B="status 503")
    for name in "AB":
        source.set(upstream.address(name), metadata={"rea.retryable": "true", "rea.retryable.user-api_pay": "false"})
    operations = [{**GET_USER, "retryable": False}, {"get": "/pay", "id": "pay", "retryable": True}, {"get": "/open", "id": "open"}]
    rea = rig.serve(configure(source, operations=operations))
    assert call(rea)[1][-1]["reason"] == "forbidden"
    assert call(rea, "/user-service/pay")[1][-1]["reason"] == "forbidden"
    assert call(rea, "/user-service/open")[1][-1]["reason"] == "attempts_exhausted"
    assert call(rea, "/user-service/elsewhere")[1][-1]["reason"] == "attempts_exhausted"


def test_a_body_is_kept_where_instances_alone_permit(rig, source):
    """The contract says nothing, so what decides whether a body may have to be sent again is what the instances say."""
    upstream = rig.upstream(A="status 503", B="echo")
    for name in "AB":
        source.set(upstream.address(name), metadata={"rea.retryable": "user-api_pay"})
    rea = rig.serve(configure(source, operations=[{"post": "/pay", "id": "pay"}]))
    for _ in range(10):
        reply = rea.request("POST", "/user-service/pay", body=b"a body")
        assert (reply.status, reply.body) == (200, b"a body")
    assert {request["instance"] for request in upstream.requests()} == {"A", "B"}


def test_a_rolling_revocation(rig, source):
    """One instance after the other withdraws its permission: no call is repeated at one that has, nor after a failure there."""
    names = "ABCD"
    upstream = rig.upstream(**{name: "status 503" for name in names})
    places = [upstream.address(name) for name in names]
    allowed = {"rea.retryable": "user-api_getUserInfo"}
    for place in places:
        source.set(place, metadata=allowed)
    rea = rig.serve(configure(source, retry={"max-retry-next-instance": 3}))
    assert call(rea)[1][-1]["reason"] == "attempts_exhausted"
    for count in range(1, len(places) + 1):
        before = len(details(rea, "1 changed"))
        source.set(places[count - 1], metadata={"rea.retryable": ""})
        wait_for(lambda: len(details(rea, "1 changed")) > before, 10)
        withdrawn = set(places[:count])
        # The thread of calls has it a moment later: from the first call on that meets it.
        wait_for(lambda: (events := call(rea)[1])[0].get("instance") == places[count - 1] and len(events) == 1, 10)
        for _ in range(25):
            status, events = call(rea)
            met = [event["instance"] for event in events if "instance" in event]
            assert status == 503 and not withdrawn & set(met[1:]), (withdrawn, met)
            if met[0] in withdrawn:
                assert len(met) == 1 and events[-1]["reason"] == "not_declared"
            else:
                assert set(met) == set(places) - withdrawn
                # The rest of them permit nothing, or there is no other.
                assert events[-1]["reason"] == ("not_declared" if count else "no_untried_instance")


def test_a_withdrawal_counts_for_calls_under_way(rig, nacos, source):
    """The call waits for its next attempt while B withdraws its permission."""
    upstream = rig.upstream(A="status 503", B="status 503")
    allowed = {"rea.retryable": "true"}
    source.set(upstream.address("A"), metadata=allowed)
    rea = rig.serve(configure(source, retry={"min-backoff-ms": 4000, "max-backoff-ms": 4000, "deadline-ms": 20000}))
    source.set(upstream.address("B"), metadata=allowed)
    wait_instances(rea, 2)
    first = []
    while "A" not in first:
        with rea.connect() as connection:
            biz_id = rea.new_biz_id()
            connection.send(f"GET /user-service/users/42 HTTP/1.1\r\nHost: x\r\nx-biz-id: {biz_id}\r\n\r\n".encode())
            wait_for(lambda: [r for r in upstream.requests() if r.field("x-biz-id") == biz_id])
            first = [r["instance"] for r in upstream.requests() if r.field("x-biz-id") == biz_id]
            if "A" not in first:
                continue
            changed = len(details(rea, "1 changed"))
            source.set(upstream.address("B"), metadata={"rea.retryable": "false"})
            wait_for(lambda: len(details(rea, "1 changed")) > changed, 10)
            assert connection.reply().status == 503
    events = rea.timeline(biz_id)
    assert [event["type"] for event in events] == ["Retry", "GiveUp"] and events[-1]["reason"] == "forbidden"
    assert [r["instance"] for r in upstream.requests() if r.field("x-biz-id") == biz_id] == ["A"]


def test_s11_a_refreshed_list_is_the_same_list(rig, source):
    """A failed, and the list was told anew, in other objects and another order: B is next, and A never again."""
    upstream = rig.upstream(A="status 503", B="status 503")
    for name in "AB":
        source.set(upstream.address(name), metadata={"rea.retryable": "true"}, weight=1)
    rea = rig.serve(configure(source, retry={"max-retry-next-instance": 5, "min-backoff-ms": 1500, "max-backoff-ms": 1500, "deadline-ms": 20000}))
    with rea.connect() as connection:
        biz_id = rea.new_biz_id()
        connection.send(f"GET /user-service/users/42 HTTP/1.1\r\nHost: x\r\nx-biz-id: {biz_id}\r\n\r\n".encode())
        wait_for(lambda: upstream.requests())
        for name in "BA":
            source.remove(upstream.address(name))
            source.set(upstream.address(name), metadata={"rea.retryable": "true"}, weight=2)
        assert connection.reply().status == 503
    assert rea.timeline(biz_id)[-1]["reason"] == "no_untried_instance"
    assert sorted(request["instance"] for request in upstream.requests()) == ["A", "B"]


# ---------------------------------------------------------------- empty lists, lost registries


def test_s19_an_empty_list_is_held_then_honoured(rig, source):
    upstream = rig.upstream(A="echo")
    source.set(upstream.address("A"))
    rea = rig.serve(configure(source, grace_ms=3000))
    begin = time.monotonic()
    source.remove(upstream.address("A"))
    wait_for(lambda: details(rea, "empty-list-held"), 10)
    assert rea.request("GET", "/user-service/users/42").status == 200
    assert rea.metric("rea_discovery_empty_held", service="user-service") == 1
    wait_for(lambda: details(rea, "none is left"), 10)
    assert time.monotonic() - begin >= 3
    wait_for(lambda: rea.request("GET", "/user-service/users/42").status == 503, 5)
    assert call(rea)[1][-1]["reason"] == "no_untried_instance"
    assert len(details(rea, "empty-list-held")) == 1
    source.set(upstream.address("A"))
    wait_instances(rea, 1)
    assert rea.request("GET", "/user-service/users/42").status == 200


def test_an_empty_list_that_fills_again_in_time_was_nothing(rig, nacos):
    server = nacos()
    upstream = rig.upstream(A="echo")
    source = FromNacos(server)
    source.set(upstream.address("A"))
    rea = rig.serve(configure(source))
    server.forget()  # as after a restart, before providers came back
    wait_for(lambda: details(rea, "empty-list-held"), 10)
    source.set(upstream.address("A"))
    wait_for(lambda: rea.metric("rea_discovery_empty_held", service="user-service") == 0, 10)
    assert rea.request("GET", "/user-service/users/42").status == 200
    assert rea.metric("rea_discovery_changes_total", service="user-service") == 1


def test_a_registry_that_goes_away(rig, nacos):
    server = nacos(("v1",))
    upstream = rig.upstream(A="echo", B="echo")
    for name in "AB":
        server.instance(upstream.address(name))
    rea = rig.serve(configure(FromNacos(server)))
    port = int(server.address.split(":")[1])
    server.close()
    line = wait_for(lambda: details(rea, "its last list holds, 2 instances,"), 10)[0]
    assert "s old" in line
    wait_for(lambda: rea.metric("rea_discovery_age_seconds", service="user-service") > 2, 10)
    assert rea.metric("rea_discovery_failures_total", service="user-service") >= 1
    assert rea.request("GET", "/user-service/users/42").status == 200
    back = nacos(("v1",), port=port)
    back.instance(upstream.address("A"))
    wait_for(lambda: details(rea, "answers again"), 20)
    wait_instances(rea, 1)


def test_a_registry_that_is_not_there_at_the_start(rig, nacos):
    upstream = rig.upstream(A="echo")
    port = free_port()
    config = service(operations=(GET_USER,))
    config["services"]["user-service"] = {"nacos": {}}
    config["sources"] = {"nacos": {"servers": [f"127.0.0.1:{port}"]}}
    rea = rig.serve(config)
    assert rea.request("GET", "/user-service/users/42").status == 503
    assert details(rea, "no list is known yet")
    server = nacos(port=port)
    server.instance(upstream.address("A"))
    wait_instances(rea, 1)
    assert rea.request("GET", "/user-service/users/42").status == 200


# ---------------------------------------------------------------- Nacos


def test_nacos_protection_threshold(rig, nacos):
    server = nacos()
    upstream = rig.upstream(A="echo", B="echo", C="echo")
    server.thresholds[("public", "DEFAULT_GROUP", "user-service")] = 0.5
    for name in "ABC":
        server.instance(upstream.address(name))
    rea = rig.serve(configure(FromNacos(server)))
    server.instance(upstream.address("C"), healthy=False)
    wait_instances(rea, 2)
    assert rea.metric("rea_discovery_protection", service="user-service") == 0
    server.instance(upstream.address("B"), healthy=False)
    wait_instances(rea, 3)  # one of three is healthy: all are called so
    assert len(details(rea, "has reached its protection threshold")) == 1
    assert rea.metric("rea_discovery_protection", service="user-service") == 1
    server.instance(upstream.address("B"), healthy=True)
    wait_for(lambda: details(rea, "above its protection threshold again"), 10)


@pytest.mark.parametrize("status", [403, 409, 500, 503])
def test_nacos_wrong_status(rig, nacos, status):
    server = nacos(("v1",))
    upstream = rig.upstream(A="echo")
    server.instance(upstream.address("A"))
    rea = rig.serve(configure(FromNacos(server)))

    def refuse(_, handler, path):
        if path != LIST_V1:
            return False
        server.reply(handler, status, b"no")
        return True

    server.fault = refuse
    assert f"HTTP {status}" in wait_for(lambda: details(rea, "its last list holds"), 10)[0]
    assert rea.request("GET", "/user-service/users/42").status == 200
    server.fault = None
    wait_for(lambda: details(rea, "answers again"), 40)


WRONG = {
    "no JSON": b"<html>",
    "another shape": b'{"hosts": {}}',
    "too many": json.dumps({"hosts": [{"ip": "127.0.0.1", "port": 1}] * 10001}).encode(),
}


@pytest.mark.parametrize("kind", WRONG)
def test_nacos_wrong_bodies(rig, nacos, kind):
    server = nacos(("v1",))
    upstream = rig.upstream(A="echo")
    server.instance(upstream.address("A"))
    rea = rig.serve(configure(FromNacos(server)))

    def answer(_, handler, path):
        server.reply(handler, 200, WRONG[kind], "application/json")
        return True

    server.fault = answer
    wait_for(lambda: details(rea, "its last list holds"), 10)
    assert instances(rea) == 1 and rea.request("GET", "/user-service/users/42").status == 200


def test_nacos_truncated_replies(rig, nacos):
    server = nacos(("v1",))
    upstream = rig.upstream(A="echo")
    server.instance(upstream.address("A"))
    rea = rig.serve(configure(FromNacos(server)))

    def cut(_, handler, path):
        handler.send_response(200)
        handler.send_header("Content-Length", "500")
        handler.end_headers()
        handler.wfile.write(b'{"hosts": []')
        handler.close_connection = True
        return True

    server.fault = cut
    wait_for(lambda: details(rea, "its last list holds"), 10)
    assert instances(rea) == 1


def test_nacos_odd_instances(rig, nacos):
    server = nacos(("v1",))
    upstream = rig.upstream(A="echo")
    server.instance(upstream.address("A"))
    good = server.instances()[upstream.address("A")]
    odd = [{**good, "port": 0}, {**good, "port": 70000}, {**good, "port": "80"}, {**good, "ip": ""}, {**good, "ip": "a b"}, {**good, "weight": -1, "port": 5}]
    odd += [{**good, "weight": "heavy", "port": 6}, {}, 7, None]

    def answer(_, handler, path):
        server.reply_json(handler, {"hosts": odd + [good], "cacheMillis": 1000})
        return True

    server.fault = answer
    rea = rig.serve(configure(FromNacos(server)))
    assert instances(rea) == 1 and rea.request("GET", "/user-service/users/42").status == 200
    assert details(rea, "is left out")


def test_nacos_polls_as_often_as_it_is_told(rig, nacos):
    server = nacos(("v1",))
    server.cache_ms = 3000
    upstream = rig.upstream(A="echo")
    server.instance(upstream.address("A"))
    rea = rig.serve(configure(FromNacos(server)))
    wait_for(lambda: len(server.seen(LIST_V1)) == 3, 10)
    times = [seen.time for seen in server.seen(LIST_V1)]
    assert all(2.4 <= later - earlier <= 4 for earlier, later in zip(times, times[1:]))
    assert server.seen(LIST_V1)[0].query == {
        "serviceName": "DEFAULT_GROUP@@user-service",
        "groupName": "DEFAULT_GROUP",
        "namespaceId": "public",
        "healthyOnly": "false",
    }
    assert details(rea, "asked as often as the server says (v1)")


def test_nacos_with_a_password(rig, nacos, tmp_path):
    server = nacos(users={"rea": "secret"})
    upstream = rig.upstream(A="echo")
    server.instance(upstream.address("A"), namespace="blue", group="G1", cluster="east")
    server.instance("127.0.0.1:1", namespace="blue", group="G1", cluster="west")
    (tmp_path / "password").write_text("secret\n")
    config = service(operations=(GET_USER,))
    config["services"] = {
        "user-service": {"nacos": {"group": "G1", "clusters": "east"}},
        "other": {"nacos": {"service": "user-service", "group": "G1"}},
    }
    del config["contracts"]
    config["sources"] = {"nacos": {"servers": [server.address], "namespace": "blue", "username": "rea", "password": f"file:{tmp_path}/password"}}
    rea = rig.serve(config)
    assert instances(rea) == 1 and rea.metric("rea_discovery_instances", service="other") == 2
    assert len([seen for seen in server.log if "login" in seen.path]) == 1  # one for both
    server.tokens.clear()  # withdrawn
    server.instance("127.0.0.1:2", namespace="blue", group="G1", cluster="east")
    wait_instances(rea, 2)
    assert "secret" not in rea.stderr_text() and not details(rea, "secret")


def test_nacos_a_server_that_loses_v1(rig, nacos):
    server = nacos()
    upstream = rig.upstream(A="echo", B="echo")
    server.instance(upstream.address("A"))
    rea = rig.serve(configure(FromNacos(server)))
    server.apis = {"v3"}
    server.instance(upstream.address("B"))
    wait_instances(rea, 2)
    assert details(rea, "(v3)") and server.seen(LIST_V3)


def test_a_thousand_instances_that_flap(rig, nacos):
    server = nacos(("v1",))
    upstream = rig.upstream(A="echo")
    server.instance(upstream.address("A"), weight=10000)
    for port in range(1, 1000):
        server.instance(f"127.1.0.1:{port}", weight=0.01, metadata={"rea.retryable": "user-api_getUserInfo"})
    rea = rig.serve(configure(FromNacos(server)))
    assert instances(rea) == 1000
    rea.request("GET", "/user-service/users/42")
    files, memory = rea.open_files(), None
    for turn in range(6):
        for port in range(1, 1000, 2):
            if turn % 2:
                server.instance(f"127.1.0.1:{port}", weight=0.01)
            else:
                server.forget(f"127.1.0.1:{port}")
        wait_instances(rea, 500 if turn % 2 == 0 else 1000)
        assert rea.open_files() <= files + 2
        if turn == 1:
            memory = rea.memory_kib("VmRSS")
    assert sanitized() or rea.memory_kib("VmRSS") < memory + 2048


# ---------------------------------------------------------------- DNS


class Dnsmasq:
    """Answers for users.test from files that a test writes; each name and each life is as the test says."""

    def __init__(self, directory):
        if shutil.which("dnsmasq", path="/usr/sbin:" + os.environ["PATH"]) is None:
            pytest.fail("dnsmasq is not installed: tools/bootstrap test")
        self.directory = directory
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log = directory / "dnsmasq.log"
        self.process = None

    def serve(self, *options, ttl=1):
        """Start, or start anew with other records."""
        self.stop()
        command = [shutil.which("dnsmasq", path="/usr/sbin:" + os.environ["PATH"]), "--keep-in-foreground", "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]
        command += [f"--port={self.port}", "--listen-address=127.0.0.1", "--bind-interfaces", "--pid-file", "--log-queries", f"--log-facility={self.log}"]
        command += ["--local=/test/", f"--local-ttl={ttl}", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.is_up, 5, "dnsmasq is up")

    def is_up(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(0.2)
            with contextlib.suppress(OSError):
                client.sendto(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02up\x04test\x00\x00\x01\x00\x01", ("127.0.0.1", self.port))
                return client.recv(512)

    def queries(self, kind, name):
        return [line for line in self.log.read_text().splitlines() if f"query[{kind}] {name} " in line]

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
        self.process = None


@pytest.fixture
def dnsmasq(tmp_path):
    server = Dnsmasq(tmp_path)
    yield server
    server.stop()


def dns_config(server, instances_by, **more):
    config = service(operations=(GET_USER,))
    del config["services"]["user-service"]["instances"]
    config["services"]["user-service"].update({"balance": "least-loaded", **instances_by, **more})
    config["sources"] = {"dns": {"servers": [server.address]}}
    return config


def test_dns_addresses_and_their_life(rig, dnsmasq):
    upstream = rig.upstream(A="echo")
    port = int(upstream.address("A").split(":")[1])
    dnsmasq.serve("--host-record=users.test,127.0.0.1", ttl=2)
    rea = rig.serve(dns_config(dnsmasq, {"dns": {"name": "users.test", "port": port}}))
    assert instances(rea) == 1 and rea.request("GET", "/user-service/users/42").status == 200
    wait_for(lambda: len(dnsmasq.queries("A", "users.test")) >= 4, 15)
    # A life of 2 s: asked for after 1.6 s to 2 s.
    asked = len(dnsmasq.queries("A", "users.test"))
    begin = time.monotonic()
    wait_for(lambda: len(dnsmasq.queries("A", "users.test")) >= asked + 2, 10)
    assert 1.5 < time.monotonic() - begin < 5
    dnsmasq.serve("--host-record=users.test,127.0.0.1", "--host-record=users.test,127.0.0.2", ttl=2)
    wait_instances(rea, 2)
    assert details(rea, "1 added, 0 removed, 0 changed, 127.0.0.2:")


def test_dns_a_long_life_is_not_asked_for(rig, dnsmasq):
    dnsmasq.serve("--host-record=users.test,127.0.0.1", ttl=600)
    rea = rig.serve(dns_config(dnsmasq, {"dns": {"name": "users.test", "port": 1}}))
    other = rig.upstream(A="echo")
    assert instances(rea) == 1 and len(dnsmasq.queries("A", "users.test")) == 1
    rea.signal(1)  # SIGHUP: whoever asks gets
    wait_for(lambda: len(dnsmasq.queries("A", "users.test")) == 2, 5)


def test_dns_no_such_name_and_nobody_there(rig, dnsmasq):
    upstream = rig.upstream(A="echo")
    port = int(upstream.address("A").split(":")[1])
    dnsmasq.serve("--host-record=users.test,127.0.0.1", ttl=1)
    rea = rig.serve(dns_config(dnsmasq, {"dns": {"name": "users.test", "port": port}}, **{"empty-grace-ms": 3000}))
    dnsmasq.stop()
    wait_for(lambda: details(rea, "its last list holds, 1 instance,"), 20)
    time_held = rea.metric("rea_discovery_age_seconds", service="user-service")
    assert time_held > 1 and rea.request("GET", "/user-service/users/42").status == 200
    dnsmasq.serve("--host-record=others.test,127.0.0.1", ttl=1)  # it answers: there is no such name
    wait_for(lambda: details(rea, "users.test has no address"), 40)
    wait_for(lambda: details(rea, "empty-list-held"), 5)
    assert rea.request("GET", "/user-service/users/42").status == 200
    wait_for(lambda: details(rea, "none is left"), 10)
    wait_for(lambda: rea.request("GET", "/user-service/users/42").status == 503, 5)
    dnsmasq.serve("--host-record=users.test,127.0.0.1", ttl=1)
    wait_instances(rea, 1, 20)


def test_dns_srv_weights_and_priorities(rig, dnsmasq):
    upstream = rig.upstream(A="body a", B="body b", C="body c")
    ports = {name: int(upstream.address(name).split(":")[1]) for name in "ABC"}
    hosts = [f"--host-record={name.lower()}.test,127.0.0.1" for name in "ABC"]
    records = [f"--srv-host=_http._tcp.users.test,{name.lower()}.test,{ports[name]},{priority},{weight}" for name, priority, weight in (("A", 1, 80), ("B", 1, 20), ("C", 2, 100))]
    dnsmasq.serve(*hosts, *records, ttl=1)
    rea = rig.serve(dns_config(dnsmasq, {"dns": {"name": "_http._tcp.users.test", "srv": True}}))
    assert {address: (instance["tier"], instance["weight"]) for address, instance in listed(rea).items()} == {
        upstream.address("A"): (1, 8000),
        upstream.address("B"): (1, 2000),
        upstream.address("C"): (2, 10000),
    }
    assert {rea.request("GET", "/user-service/users/42").body for _ in range(40)} <= {b"a", b"b"}
    # Without the first group the second one is next.
    dnsmasq.serve(*hosts, records[2], ttl=1)
    wait_instances(rea, 1)
    assert rea.request("GET", "/user-service/users/42").body == b"c"


def test_dns_srv_a_standby_takes_the_retry(rig, dnsmasq):
    upstream = rig.upstream(A="status 503", B="status 503", C="echo")
    ports = {name: int(upstream.address(name).split(":")[1]) for name in "ABC"}
    hosts = [f"--host-record={name.lower()}.test,127.0.0.1" for name in "ABC"]
    records = [f"--srv-host=_http._tcp.users.test,{name.lower()}.test,{ports[name]},{priority},1" for name, priority in (("A", 1), ("B", 1), ("C", 2))]
    dnsmasq.serve(*hosts, *records)
    config = dns_config(dnsmasq, {"dns": {"name": "_http._tcp.users.test", "srv": True}})
    config["contracts"]["user-service"]["operations"] = [{**GET_USER, "retryable": True}]
    config["rpc"]["feign"]["retry"]["max-retry-next-instance"] = 2
    rea = rig.serve(config)
    for _ in range(20):
        assert rea.request("GET", "/user-service/users/42").status == 200
    seen = [request["instance"] for request in upstream.requests()]
    assert all(sorted(seen[i : i + 2]) == ["A", "B"] and seen[i + 2] == "C" for i in range(0, 60, 3))


def test_names_of_a_list_are_looked_up_again(rig, dnsmasq):
    upstream = rig.upstream(A="echo")
    port = upstream.address("A").split(":")[1]
    dnsmasq.serve("--host-record=a.test,127.0.0.1", ttl=1)
    rea = rig.serve(dns_config(dnsmasq, {"instances": [f"a.test:{port}", f"b.test:{port}", "127.0.0.9:1"]}))
    assert instances(rea) == 2 and details(rea, "b.test has no address")
    dnsmasq.serve("--host-record=a.test,127.0.0.1", "--host-record=b.test,127.0.0.3", ttl=1)
    wait_instances(rea, 3)


# ---------------------------------------------------------------- reloads


def test_another_source_takes_over_without_a_gap(rig, nacos, tmp_path):
    server = nacos()
    upstream = rig.upstream(A="body a", B="body b")
    file = File(tmp_path)
    file.set(upstream.address("A"))
    server.instance(upstream.address("B"))
    config = configure(file)
    rea = rig.serve(config)
    assert rea.request("GET", "/user-service/users/42").body == b"a"
    config["services"]["user-service"].pop("instances-file")
    config["services"]["user-service"]["nacos"] = {}
    config["sources"] = {"nacos": {"servers": [server.address]}}
    rea.write_config(config)
    rea.signal(1)
    bodies = set()
    wait_for(lambda: bodies.add(reply := rea.request("GET", "/user-service/users/42").body) or reply == b"b", 10)
    assert bodies == {b"a", b"b"} or bodies == {b"b"}


def test_an_unchanged_source_is_not_asked_anew(rig, nacos):
    server = nacos(("v1",))
    server.cache_ms = 60000
    upstream = rig.upstream(A="echo")
    server.instance(upstream.address("A"))
    config = configure(FromNacos(server))
    rea = rig.serve(config)
    config["rpc"]["feign"]["retry"]["max-retry-next-instance"] = 3
    assert "loaded version" in rea.reload(config)["detail"]
    assert rea.request("GET", "/user-service/users/42").status == 200
    assert len(server.seen(LIST_V1)) == 1


def test_a_broken_file_leaves_the_last_list(rig, tmp_path):
    upstream = rig.upstream(A="echo")
    file = File(tmp_path)
    file.set(upstream.address("A"))
    rea = rig.serve(configure(file))
    for text, part in (("[\n 1 2]", "2:4: it is no JSON"), ("{}", "it is no list"), ("7", "it is no JSON")):
        before = len(details(rea, "its last list holds"))
        file.path.write_text(text)
        assert part in wait_for(lambda: details(rea, "its last list holds")[before:], 10)[0]
        assert rea.request("GET", "/user-service/users/42").status == 200
        file.write()
        wait_for(lambda: len(details(rea, "answers again")) == before + 1, 10)
    file.path.write_text(json.dumps([upstream.address("A"), {"address": "nowhere"}, {"address": "127.0.0.1:3", "weight": math.nan}]).replace("NaN", '"NaN"'))
    wait_for(lambda: details(rea, '"nowhere" is no address'), 10)
    assert instances(rea) == 1


# ---------------------------------------------------------------- registering


def registered(server, address):
    return server.instances().get(address)


PERMITS = "user-api_getUserInfo,user-api_pay=with-key,user-api_erase=false"
OPERATIONS = [
    {**GET_USER, "retryable": True},
    {"post": "/pay", "id": "pay", "retryable": "with-key"},
    {"delete": "/all", "id": "erase", "retryable": False},
    {"get": "/open", "id": "open"},
]


def provider(server, address, kind="nacos", **more):
    config = service("127.0.0.1:1", operations=OPERATIONS)
    config["sources"] = {kind: {"servers": [server.address]}}
    config["register"] = [{"in": kind, "service": "user-service", "address": address, "metadata": {"version": "7"}, **more}]
    return config


@pytest.mark.parametrize("apis", [("v1", "v3"), ("v3",)], ids=["v1", "v3"])
def test_a_registered_provider(rig, nacos, apis):
    server = nacos(apis)
    upstream = rig.upstream(A="echo")
    address = upstream.address("A")
    rea = rig.serve(provider(server, address, weight=2.5))
    mine = wait_for(lambda: registered(server, address), 5)
    assert mine["weight"] == 2.5 and mine["ephemeral"] and mine["enabled"]
    assert mine["metadata"] == {"version": "7", "rea.retryable": PERMITS}
    wait_for(lambda: details(rea, f"provider user-service {address} in nacos: registered"), 5)
    assert rea.metric("rea_registered", address=address) == 1
    # Heartbeats, as often as the server asks; v3 every 5 s.
    beats = lambda: [s for s in server.log if s.path == BEAT_V1 or {**s.query, **s.form}.get("heartBeat") == "true"]
    wait_for(lambda: len(beats()) >= 2, 15)
    server.forget()  # it was restarted
    wait_for(lambda: registered(server, address), 10)
    assert registered(server, address)["metadata"]["rea.retryable"] == PERMITS
    assert details(rea, "unknown there by now")
    assert rea.stop() == 0
    assert registered(server, address) is None


def test_found_by_another_rea(rig, nacos):
    """What one rea registers, permissions and all, another one finds and goes by."""
    server = nacos()
    upstream = rig.upstream(A="status 503", B="status 503")
    for name in "AB":
        rig.serve(provider(server, upstream.address(name)))
    wait_for(lambda: len(server.instances()) == 2, 5)
    rig.unchecked = True
    silent = [{key: value for key, value in operation.items() if key != "retryable"} for operation in OPERATIONS]
    caller = rig.serve(configure(FromNacos(server), operations=silent))
    assert call(caller)[1][-1]["reason"] == "attempts_exhausted"
    assert call(caller, "/user-service/open")[1][-1]["reason"] == "not_declared"


def test_a_contract_that_changes_is_told(rig, nacos):
    server = nacos()
    upstream = rig.upstream(A="echo")
    address = upstream.address("A")
    config = provider(server, address)
    rea = rig.serve(config)
    wait_for(lambda: registered(server, address), 5)
    config["contracts"]["user-service"]["operations"] = [{**GET_USER, "retryable": False}]
    rea.reload(config)
    wait_for(lambda: registered(server, address)["metadata"]["rea.retryable"] == "user-api_getUserInfo=false", 5)
    assert not [seen for seen in server.log if seen.method == "DELETE"]
    config["register"] = []
    rea.reload(config)
    wait_for(lambda: registered(server, address) is None, 5)


def test_a_registry_that_is_away_stops_nothing(rig, nacos):
    port = free_port()
    upstream = rig.upstream(A="echo")
    address = upstream.address("A")

    class Nowhere:
        address = f"127.0.0.1:{port}"

    config = provider(Nowhere, address)
    config["services"]["user-service"]["instances"] = [address]
    rea = rig.serve(config)
    assert rea.request("GET", "/user-service/users/42").status == 200
    wait_for(lambda: details(rea, "not registered"), 10)
    assert rea.metric("rea_registered", address=address) == 0
    server = nacos(port=port)
    wait_for(lambda: registered(server, address), 40)
    wait_for(lambda: details(rea, "in nacos: registered"), 5)


def test_registered_in_etcd(rig, etcd):
    upstream = rig.upstream(A="echo")
    address = upstream.address("A")
    rea = rig.serve(provider(etcd, address, kind="etcd", **{"ttl-s": 5}))

    def kept():
        answer = etcd.ask("/v3/kv/range", {"key": encoded("/services/user-service/"), "range_end": encoded("/services/user-service0")})
        return answer.get("kvs", [])

    pair = wait_for(kept, 10)[0]
    assert base64.b64decode(pair["key"]).decode() == f"/services/user-service/{address}"
    assert json.loads(base64.b64decode(pair["value"])) == {"address": address, "weight": 1.0, "metadata": {"version": "7", "rea.retryable": PERMITS}}
    # The lease is kept: longer than its time it is there.
    begin = time.monotonic()
    wait_for(lambda: time.monotonic() - begin > 7 or not kept(), 10)
    assert kept()
    # Somebody ends it: registered again.
    etcd.ask("/v3/lease/revoke", {"ID": pair["lease"]})
    assert not kept()
    wait_for(kept, 10)
    # And a caller finds it.
    caller = rig.serve(configure(FromEtcd(etcd)))
    rig.unchecked = True
    assert caller.request("GET", "/user-service/users/42").status == 200
    assert rea.stop() == 0
    assert not kept()


# ---------------------------------------------------------------- rea call


def test_rea_call_finds_instances_as_serve_does(rig, source, tmp_path):
    upstream = rig.upstream(A="status 503", B="status 503")
    for name in "AB":
        source.set(upstream.address(name), metadata={"rea.retryable": "user-api_getUserInfo"})
    path = tmp_path / "rea.yaml"
    path.write_text(json.dumps(configure(source)))
    result = subprocess.run([REA, "call", "--config", str(path), "user-service/users/42"], capture_output=True, text=True, timeout=30)
    assert len(upstream.requests()) == 2, result.stderr
    assert "attempts_exhausted" in result.stderr
    for name in "AB":
        source.remove(upstream.address(name))
    result = subprocess.run([REA, "call", "--config", str(path), "user-service/users/42"], capture_output=True, text=True, timeout=30)
    assert result.returncode != 0 and "no_untried_instance" in result.stderr
