"""
The retry policy from Nacos (scenarios S12, S16, S17, S20, S21): what is published applies to the calls that begin after it, whatever the server, its
network or its operators do wrong. The server is tests/e2e/nacos.py, whose every byte on the wire is in the hands of the test.
"""
import json
import os
import stat
import subprocess
import time

import pytest

from nacos import LOGIN_V1, LOGIN_V3, Nacos, md5
from rig import REA, service, wait_for

LISTENER = "/v1/cs/configs/listener"
CONFIG_V1 = "/v1/cs/configs"
CONFIG_V3 = "/v3/client/cs/config"


def policy(retries=1, service_retries=None, methods=None, enabled=True):
    retry = {
        "enabled": enabled,
        "max-retry-next-instance": retries,
        "min-backoff-ms": 20,
        "max-backoff-ms": 50,
        "budget": {"rule": "ratio", "ratio": 1.0, "reserve": 100000},
    }
    if service_retries is not None or methods:
        own = {} if service_retries is None else {"max-retry-next-instance": service_retries}
        retry["service-configs"] = {"user-service": {**own, "method-configs": methods or {}}}
    return json.dumps({"rpc": {"feign": {"retry": retry}}}, indent=1)


@pytest.fixture
def nacos(request):
    made = []

    def make(*arguments, **more):
        made.append(Nacos(*arguments, **more))
        return made[-1]

    yield make
    for server in made:
        server.close()


class Bed:
    """rea before four instances that all answer 503, so that a call makes as many attempts as it may."""

    kind = "nacos"

    def __init__(self, rig, servers, directory, **source):
        upstream = rig.upstream(A="status 503", B="status 503", C="status 503", D="status 503")
        self.upstream = upstream
        self.directory = directory / "kept"
        config = service(*(upstream.address(name) for name in "ABCD"))
        del config["rpc"]
        addresses = [server if isinstance(server, str) else server.address for server in servers]
        config["sources"] = {
            "snapshot-dir": str(self.directory),
            "policy": self.sources({self.kind: {"servers": addresses, **({"data-id": "rpc-retry.yml"} if self.kind == "nacos" else {}), **source}}),
        }
        self.config = config
        self.rig = rig
        self.rea = rig.serve(config)

    def sources(self, first):
        return [first]

    def attempts(self):
        """Of one call."""
        biz_id = self.rea.new_biz_id()
        assert self.rea.request("GET", "/user-service/users/42", biz_id=biz_id).status == 503
        return len([r for r in self.upstream.requests() if r.field("x-biz-id") == biz_id])

    def wait_attempts(self, count, timeout=5):
        wait_for(lambda: self.attempts() == count, timeout, f"{count} attempts a call")

    def details(self, part):
        return [event["detail"] for event in self.rea.config_events() if part in event.get("detail", "")]

    def kept(self):
        return list(self.directory.glob(f"{self.kind}-*.yaml"))

    def again(self):
        """The same rea, started anew."""
        assert self.rea.stop() == 0
        for key in ("listen", "admin", "events"):
            del self.config[key]
        self.rea = self.rig.serve(self.config)
        return self


# ---------------------------------------------------------------- how a change comes


@pytest.mark.parametrize("apis", [("v1",), ("v1", "v3")], ids=["2.x", "3.0"])
def test_a_push_applies_within_a_second(rig, tmp_path, nacos, apis):
    server = nacos(apis)
    server.publish(policy(1))
    bed = Bed(rig, [server], tmp_path)
    assert bed.attempts() == 2
    assert len(bed.details("followed by long polling (v1)")) == 1
    for retries in (3, 0, 2):
        begin = time.monotonic()
        server.publish(policy(retries))
        bed.wait_attempts(retries + 1)
        assert time.monotonic() - begin < 1
    assert len(bed.details(f"policy of nacos public/DEFAULT_GROUP/rpc-retry.yml from http://{server.address}")) == 4
    # One poll at a time, and each of its own length: none was answered at once and asked again.
    listens = server.seen(LISTENER)
    assert len(listens) == 1 + 4 and len(server.seen(CONFIG_V1)) <= 4
    assert listens[0].headers["Long-Pulling-Timeout-No-Hangup"] == "true"
    assert {seen.headers["Long-Pulling-Timeout"] for seen in listens} == {"30000"}
    expected = f"rpc-retry.yml\x02DEFAULT_GROUP\x02{md5(policy(2).encode())}\x01"
    assert listens[-1].form == {"Listening-Configs": expected}


def test_a_change_is_named_and_a_source_is_measured(rig, tmp_path, nacos):
    server = nacos(("v1",))
    server.publish(policy(1))
    bed = Bed(rig, [server], tmp_path)
    source = "nacos public/DEFAULT_GROUP/rpc-retry.yml"
    (first,) = [m.labels["version"] for m in bed.rea.metrics() if m.name == "rea_source_document_info" and m.labels["source"] == source]
    server.publish(policy(3))
    bed.wait_attempts(4)
    assert bed.details("changed ") == [
        "changed keys: rpc.feign.retry.max-retry-next-instance: 3, was 1",
        "changed methods: user-service user-api_getUserInfo (policy), user-service user-api_pay (policy)",
    ]
    (second,) = [m.labels["version"] for m in bed.rea.metrics() if m.name == "rea_source_document_info"]
    assert second != first
    assert 0 < time.time() - bed.rea.metric("rea_source_last_success_timestamp_seconds", source=source) < 60
    assert bed.rea.metric("rea_source_errors_total", source=source) == 0
    # A broken one: one event, one count, however often it is told.
    server.publish(policy(99))
    wait_for(lambda: bed.rea.metric("rea_source_errors_total", source=source, kind="refused") == 1, what="it is counted")
    assert len(bed.details("rejected")) == 1
    server.close()
    wait_for(lambda: bed.rea.metric("rea_source_errors_total", source=source, kind="unreachable") >= 1, what="the server is missed")
    assert bed.rea.metric("rea_source_age_seconds", source=source) >= 0



def test_s21_a_server_without_v1_is_polled(rig, tmp_path, nacos):
    server = nacos(("v3",))
    server.publish(policy(1))
    bed = Bed(rig, [server], tmp_path, **{"poll-ms": 1000})
    assert bed.attempts() == 2
    server.publish(policy(3))
    bed.wait_attempts(4)
    assert len(bed.details("asked every 1000 ms (v3)")) == 1
    assert len(server.seen(LISTENER)) == 1
    assert server.seen(CONFIG_V3)[0].query == {"dataId": "rpc-retry.yml", "groupName": "DEFAULT_GROUP", "namespaceId": "public"}


def test_s21_a_server_that_loses_v1_is_polled_from_then_on(rig, tmp_path, nacos):
    server = nacos()
    server.publish(policy(1))
    bed = Bed(rig, [server], tmp_path, **{"poll-ms": 1000})
    wait_for(lambda: len(server.seen(LISTENER)) == 2)
    server.apis = {"v3"}
    server.publish(policy(2))  # wakes the long poll, and the next one finds nothing there
    bed.wait_attempts(3, 10)
    server.publish(policy(3))
    bed.wait_attempts(4)
    assert len(bed.details("asked every 1000 ms (v3)")) == 1


@pytest.mark.parametrize("mode,path", [("v1", CONFIG_V1), ("v3", CONFIG_V3)])
def test_the_mode_can_be_set(rig, tmp_path, nacos, mode, path):
    server = nacos()
    server.publish(policy(2))
    bed = Bed(rig, [server], tmp_path, mode=mode)
    assert bed.attempts() == 3
    assert {seen.path for seen in server.log} <= {path, LISTENER} and server.seen(path)
    assert mode == "v1" or not server.seen(LISTENER)


@pytest.mark.parametrize("configured", ["public", "", "team-a"])
@pytest.mark.parametrize("echo", [False, True])
def test_s16_names_of_the_namespace(rig, tmp_path, nacos, configured, echo):
    server = nacos(("v1",))
    server.echo_namespace = echo
    sent = configured if configured == "team-a" else ""
    server.publish(policy(1), namespace=sent)
    bed = Bed(rig, [server], tmp_path, namespace=configured)
    assert bed.attempts() == 2
    server.publish(policy(2), namespace=sent)
    bed.wait_attempts(3)
    wait_for(lambda: len(server.seen(LISTENER)) == 3)
    assert len(server.seen(CONFIG_V1)) == 2
    entry = server.seen(LISTENER)[-1].form["Listening-Configs"][:-1].split("\x02")
    assert entry[3:] == ([sent] if sent else [])
    assert all(seen.query.get("tenant", "") == sent for seen in server.seen(CONFIG_V1))


# ---------------------------------------------------------------- what stands in it


def test_s12_a_key_that_is_removed_is_gone(rig, tmp_path, nacos):
    server = nacos(("v1",))
    server.publish(policy(1, 2, {"user-api_getUserInfo": {"max-retry-next-instance": 3}}))
    bed = Bed(rig, [server], tmp_path)
    assert bed.attempts() == 4
    server.publish(policy(1, 2))
    bed.wait_attempts(3)
    server.publish(policy(1))
    bed.wait_attempts(2)
    path = tmp_path / "pulled.yaml"
    pulled = subprocess.run([REA, "config", "pull", "--config", str(bed.rea.config_path)], capture_output=True, timeout=10)
    assert pulled.returncode == 0 and pulled.stdout == policy(1).encode()
    path.write_bytes(pulled.stdout)
    explained = subprocess.run(
        [REA, "explain", "--config", str(bed.rea.config_path), "--policy", str(path), "user-service", "user-api_getUserInfo"],
        capture_output=True, text=True, timeout=10,
    )
    (line,) = [line for line in explained.stdout.splitlines() if "max-retry-next-instance" in line]
    assert line.split()[1] == "1" and "global" in line


def test_s20_a_broken_document_never_replaces_a_good_one(rig, tmp_path, nacos):
    server = nacos(("v1",))
    server.publish(policy(2))
    bed = Bed(rig, [server], tmp_path)
    (kept,) = bed.kept()
    server.publish("rpc:\n  feign:\n    retry:\n      jitter: 0\n")
    (detail,) = wait_for(lambda: bed.details("rejected"))
    assert "nacos public/DEFAULT_GROUP/rpc-retry.yml:4:15: rpc.feign.retry.jitter" in detail
    assert bed.attempts() == 3 and bed.rea.metric("rea_config_rejects_total") == 1
    polls = len(server.seen(LISTENER))
    wait_for(lambda: len(server.seen(LISTENER)) >= polls)
    assert len(bed.details("rejected")) == 1 and len(server.seen(CONFIG_V1)) == 2
    assert kept.read_text() == policy(2)
    server.publish("]")
    wait_for(lambda: len(bed.details("rejected")) == 2)
    server.publish(policy(3))
    bed.wait_attempts(4)
    # At the next start the last good one holds, not the broken one.
    server.publish("rpc: {feign: {retry: {enabled: tru}}}")
    wait_for(lambda: len(bed.details("rejected")) == 3)
    bed.again()
    assert bed.attempts() == 4
    assert bed.details("what the server has is refused")


def test_s20_however_often_it_is_looked_at(rig, tmp_path, nacos):
    server = nacos(("v3",))
    server.publish(policy(2))
    bed = Bed(rig, [server], tmp_path, **{"poll-ms": 1000})
    server.publish("]")
    wait_for(lambda: bed.details("rejected"))
    looks = len(server.seen(CONFIG_V3))
    wait_for(lambda: len(server.seen(CONFIG_V3)) >= looks + 2)
    assert len(bed.details("rejected")) == 1 and bed.rea.metric("rea_config_rejects_total") == 1
    assert bed.attempts() == 3


def test_no_document_means_no_retries(rig, tmp_path, nacos):
    server = nacos(("v1",))
    bed = Bed(rig, [server], tmp_path)
    assert bed.attempts() == 1
    assert bed.details("has no such document") and bed.details("retries are off")
    server.publish(policy(2))
    bed.wait_attempts(3)
    assert len(bed.kept()) == 1
    server.remove()
    bed.wait_attempts(1)
    wait_for(lambda: bed.kept() == [])


# ---------------------------------------------------------------- what goes wrong


def test_s17_a_sum_that_is_never_right(rig, tmp_path, nacos):
    server = nacos(("v1",))
    server.publish(policy(1))
    bed = Bed(rig, [server], tmp_path)
    server.wrong_md5 = "0" * 32
    server.publish(policy(3))
    bed.wait_attempts(4, 20)
    assert len(bed.details("for ever")) == 1
    wait_for(lambda: server.seen(LISTENER)[-1].form["Listening-Configs"].split("\x02")[2] == "0" * 32 + "\x01")
    looks = len(server.seen(CONFIG_V1))
    assert looks <= 5
    bed.attempts()
    assert len(server.seen(CONFIG_V1)) == looks


def test_half_a_document_is_not_taken(rig, tmp_path, nacos):
    server = nacos(("v1",))
    server.publish(policy(2))

    def cut(server, handler, path):
        if path != CONFIG_V1:
            return False
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        handler.wfile.write(b"rpc:\n")
        handler.close_connection = True
        server.fault = None
        return True

    server.fault = cut
    bed = Bed(rig, [server], tmp_path)
    bed.wait_attempts(3, 10)
    assert not bed.details("rejected")


@pytest.mark.parametrize("fault", [409, 500, 503])
def test_a_server_that_fails_for_a_while(rig, tmp_path, nacos, fault):
    server = nacos(("v1",))
    server.publish(policy(2))
    bed = Bed(rig, [server], tmp_path)

    def fail(server, handler, path):
        server.reply(handler, fault)
        return True

    server.fault = fail
    server.publish(policy(3))
    (detail,) = wait_for(lambda: bed.details(f"HTTP {fault}"))
    assert server.address in detail and bed.attempts() == 3
    server.fault = None
    bed.wait_attempts(4, 10)
    assert len(bed.details("answers again")) == 1


def test_another_server_is_asked(rig, tmp_path, nacos):
    a, b = nacos(("v1",)), nacos(("v1",))
    for server in (a, b):
        server.publish(policy(1))
    bed = Bed(rig, [a, b], tmp_path)
    used, other = (a, b) if a.log else (b, a)
    assert not other.log
    other.publish(policy(3))
    used.close()
    bed.wait_attempts(4)
    # The round went on at once: nothing was wrong enough to tell.
    assert not bed.details("connect") and not bed.details("answers again")


def test_the_snapshot_holds_when_no_server_is_there(rig, tmp_path, nacos):
    server = nacos(("v1",))
    server.publish(policy(2))
    bed = Bed(rig, [server], tmp_path)
    (kept,) = wait_for(bed.kept)
    assert kept.read_text() == policy(2) and stat.S_IMODE(kept.stat().st_mode) == 0o600
    port = int(server.address.split(":")[1])
    server.close()
    os.utime(kept, (time.time() - 7300, time.time() - 7300))
    bed.again()
    assert bed.attempts() == 3
    (detail,) = bed.details("its snapshot, 2 h old")
    assert server.address in detail
    again = nacos(("v1",), port=port)
    again.publish(policy(3))
    bed.wait_attempts(4, 10)
    assert kept.read_text() == policy(3) and time.time() - kept.stat().st_mtime < 60


def test_without_server_and_snapshot_nothing_is_retried(rig, tmp_path, nacos):
    server = nacos()
    server.close()
    bed = Bed(rig, [server], tmp_path)
    assert bed.attempts() == 1 and bed.details("retries are off, nothing is known of it")


def test_the_failover_file_wins(rig, tmp_path, nacos):
    failover = tmp_path / "failover.yaml"
    server = nacos(("v1",))
    server.publish(policy(1))
    bed = Bed(rig, [server], tmp_path, **{"failover-file": str(failover)})
    assert bed.attempts() == 2
    failover.write_text(policy(3))
    bed.wait_attempts(4)
    assert len(bed.details("the failover file")) == 1
    server.publish(policy(0))
    wait_for(lambda: len(server.seen(LISTENER)) == 3)
    assert bed.attempts() == 4
    failover.unlink()
    bed.wait_attempts(1, 10)


# ---------------------------------------------------------------- several sources


class TwoSources(Bed):
    """A data id, and a file behind it."""

    def __init__(self, rig, servers, directory, local):
        self.local = local
        super().__init__(rig, servers, directory)

    def sources(self, first):
        return [first, {"file": str(self.local)}]


def test_the_first_source_that_has_a_document_gives_it(rig, tmp_path, nacos):
    server = nacos(("v1",))
    local = tmp_path / "local.yaml"
    local.write_text(policy(1))
    bed = TwoSources(rig, [server], tmp_path, local)
    assert bed.attempts() == 2
    server.publish(policy(3))
    bed.wait_attempts(4)
    local.write_text(policy(2))
    server.remove()
    bed.wait_attempts(3)
    local.unlink()
    bed.wait_attempts(1, 10)
    assert bed.details("retries are off, no source has a document")


def test_a_source_that_has_not_spoken_is_not_passed_over(rig, tmp_path, nacos):
    server = nacos(("v1",))
    port = int(server.address.split(":")[1])
    server.close()
    local = tmp_path / "local.yaml"
    local.write_text(policy(1))
    bed = TwoSources(rig, [server], tmp_path, local)
    assert bed.attempts() == 1 and bed.details("nothing is known of it")
    nacos(("v1",), port=port)
    bed.wait_attempts(2, 10)


def test_a_new_document_of_the_machine_keeps_the_policy(rig, tmp_path, nacos):
    server = nacos(("v1",))
    server.publish(policy(3))
    bed = Bed(rig, [server], tmp_path)
    assert bed.attempts() == 4
    bed.config["services"]["other"] = {"instances": ["127.0.0.1:9"]}
    assert "loaded version" in bed.rea.reload(bed.config)["detail"]
    assert bed.attempts() == 4
    # What was refused for want of a service, or of a profile, is looked at again.
    server.publish(policy(2).replace('"enabled"', '"profile": "ours", "enabled"', 1))
    wait_for(lambda: bed.details("rejected"))
    bed.config["profiles"] = {"ours": {"deadline-ms": 2500}}
    bed.rea.reload(bed.config)
    bed.wait_attempts(3)


# ---------------------------------------------------------------- who may


USERS = {"rea": "s3cret&+ %"}


@pytest.mark.parametrize("apis,login", [(("v1",), LOGIN_V1), (("v1", "v3"), LOGIN_V3)])
def test_logins(rig, tmp_path, nacos, apis, login):
    (tmp_path / "password").write_text(USERS["rea"] + "\n")
    server = nacos(apis, users=USERS)
    server.publish(policy(2))
    bed = Bed(rig, [server], tmp_path, username="rea", password=f"file:{tmp_path}/password")
    assert bed.attempts() == 3
    assert len(server.seen(login)) == 1
    # Neither a password nor a token in a URL, nor anywhere it could be read.
    assert not any("token" in key.lower() or "password" in key for seen in server.log for key in seen.query)
    told = bed.rea.stderr_text() + json.dumps(bed.rea.events())
    assert USERS["rea"] not in told and "token-" not in told
    server.tokens.clear()
    server.publish(policy(3))
    bed.wait_attempts(4)
    assert len(server.seen(login)) == 2


def test_a_token_is_renewed_before_it_ends(rig, tmp_path, nacos):
    server = nacos(("v3",), users=USERS, token_ttl_s=2)
    server.publish(policy(2))
    bed = Bed(rig, [server], tmp_path, username="rea", password=USERS["rea"], **{"poll-ms": 1000})
    wait_for(lambda: len(server.seen(LOGIN_V3)) >= 2, 10)
    assert bed.attempts() == 3 and not bed.details("access denied")


@pytest.mark.parametrize("apis", [("v1",), ("v3",)])
@pytest.mark.parametrize("credentials", [{}, {"username": "rea", "password": "wrong"}])
def test_who_is_not_let_in_retries_nothing(rig, tmp_path, nacos, apis, credentials):
    server = nacos(apis, users=USERS)
    server.publish(policy(2))
    server.users = None
    bed = Bed(rig, [server], tmp_path, **credentials)  # leaves a snapshot
    if not credentials:
        assert bed.attempts() == 3 and bed.kept()
    server.users = USERS
    bed.again()
    assert bed.attempts() == 1
    assert bed.details("access denied") or bed.details("user rea is refused: HTTP ")
    assert "s3cret" not in bed.rea.stderr_text() and "wrong" not in bed.rea.stderr_text()


# ---------------------------------------------------------------- rea config


def config(bed, *arguments, **more):
    return subprocess.run([REA, "config", arguments[0], "--config", str(bed.rea.config_path), *arguments[1:]], capture_output=True, text=True, timeout=20, **more)


@pytest.mark.parametrize("apis", [("v1",), ("v1", "v3"), ("v3",)], ids=["2.x", "3.0", "3.2"])
def test_push_pull_history(rig, tmp_path, nacos, apis):
    server = nacos(apis, users=USERS)
    server.publish(policy(1))
    bed = Bed(rig, [server], tmp_path, username="rea", password=USERS["rea"], **{"poll-ms": 1000})
    pulled = config(bed, "pull")
    assert pulled.returncode == 0 and pulled.stdout == policy(1) and md5(policy(1).encode()) in pulled.stderr
    path = tmp_path / "mine.yaml"
    path.write_text(policy(3))
    pushed = config(bed, "push", "--over", md5(policy(1).encode()), str(path))
    assert pushed.returncode == 0, pushed.stderr
    assert md5(policy(3).encode()) in pushed.stdout
    bed.wait_attempts(4)
    # Somebody who has read what stood there before does not overwrite it.
    path.write_text(policy(2))
    late = config(bed, "push", "--over", md5(policy(1).encode()), str(path))
    assert late.returncode == 1 and "has changed" in late.stderr and bed.attempts() == 4
    path.write_text("rpc: {feign: {retry: {jitter: 0}}}")
    refused = config(bed, "push", str(path))
    assert refused.returncode == 2 and f"{path}:1:31: rpc.feign.retry.jitter" in refused.stderr
    assert server.items[("rpc-retry.yml", "DEFAULT_GROUP", "")].content == policy(3).encode()
    history = config(bed, "history")
    assert history.returncode == 0
    assert [line.split()[0] for line in history.stdout.splitlines()[1:]] == ["2", "1"] or len(history.stdout.splitlines()) == 3


@pytest.mark.parametrize("apis", [("v1",), ("v1", "v3"), ("v3",)], ids=["2.x", "3.0", "3.2"])
def test_a_push_that_loses_the_race(rig, tmp_path, nacos, apis):
    server = nacos(apis)
    server.publish(policy(1))
    bed = Bed(rig, [server], tmp_path, **{"poll-ms": 1000})
    path = tmp_path / "mine.yaml"
    path.write_text(policy(3))

    def meanwhile(server, handler, path):
        if handler.command == "POST" and path in (CONFIG_V1, "/v3/admin/cs/config"):
            server.fault = None
            server.publish(policy(2))
        return False

    server.fault = meanwhile
    lost = config(bed, "push", str(path))
    assert lost.returncode == 1 and "has changed" in lost.stderr
    bed.wait_attempts(3)


def test_the_first_push_makes_the_document(rig, tmp_path, nacos):
    server = nacos(("v1",))
    bed = Bed(rig, [server], tmp_path)
    assert config(bed, "pull").returncode == 1
    path = tmp_path / "mine.yaml"
    path.write_text(policy(1))
    assert config(bed, "push", str(path)).returncode == 0
    bed.wait_attempts(2)
