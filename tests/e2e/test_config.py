"""Configuration through the program: refused with its place, reloaded without losing a call, explained."""
import contextlib
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from rig import GET_USER, REA, head, service, wait_for

DOCUMENT = """\
services: {{ user-service: {{ instances: [ "127.0.0.1:9" ] }} }}
rpc:
  feign:
    retry:
      enabled: true
      {line}
"""

BAD = {
    "retry-on: timeoutt": "retry-on",
    "attempt-timeout-ms: 3000\n      deadline-ms: 1000": "attempt-timeout-ms",
    "budget: { ratio: 150 }": "budget.ratio",
    "jitter: 0": "jitter",
    "min-backoff-ms: 5": "min-backoff-ms",
    "max-retry-next-instance: 11": "max-retry-next-instance",
    "max-retry-nxt-instance: 1": "max-retry-nxt-instance",
    "enabled: true": "enabled",
    "jitter: [": None,
}


def run(*arguments):
    return subprocess.run([REA, *arguments], capture_output=True, text=True, timeout=10)


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("command", [["serve"], ["serve", "--check"], ["explain"]])
def test_p15_a_bad_configuration_is_refused_with_its_place(tmp_path, command, line):
    path = tmp_path / "rea.yaml"
    path.write_text(DOCUMENT.format(line=line))
    done = run(*command, "--config", str(path))
    assert done.returncode == 2 and done.stdout == ""
    first = done.stderr.splitlines()[0]
    _, _, place = first.partition(str(path) + ":")
    number = int(place.split(":")[0])
    assert 4 <= number <= 8, first
    assert BAD[line] is None or BAD[line] in first


def test_p15_a_list_in_one_string_is_accepted_or_refused_never_ignored(tmp_path):
    path = tmp_path / "rea.yaml"
    path.write_text(DOCUMENT.format(line='retry-on: "never_sent, unavailable"'))
    done = run("explain", "--config", str(path), "user-service")
    if done.returncode == 0:
        (line,) = [line for line in done.stdout.splitlines() if "retry-on" in line]
        assert "never_sent" in line and "unavailable" in line and "ambiguous" not in line
    else:
        assert done.returncode == 2 and "retry-on" in done.stderr


def test_a_missing_configuration(tmp_path):
    done = run("serve", "--config", str(tmp_path / "nowhere.yaml"))
    assert done.returncode == 2 and "nowhere.yaml" in done.stderr


def test_an_address_in_use(rig, tmp_path):
    _, rea = rig.pair("echo")
    path = tmp_path / "second.yaml"
    path.write_text(json.dumps({"listen": rea.calls, "admin": "127.0.0.1:0", "services": {}}))
    done = run("serve", "--config", str(path))
    assert done.returncode == 1 and rea.calls in done.stderr


class Stream:
    """Calls at a steady rate over keep-alive connections, from begin to end."""

    def __init__(self, rea, rate=500, connections=5):
        self.rea = rea
        self.interval = connections / rate
        self.statuses = []
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.send) for _ in range(connections)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_for(lambda: len(self.statuses) > 50, what="the stream flows")
        return self

    def __exit__(self, *_):
        so_far = len(self.statuses)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: len(self.statuses) > so_far + 200)
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def send(self):
        due = time.monotonic()
        with self.rea.connect() as connection:
            while not self.ended.is_set():
                connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", self.rea.new_biz_id())]))
                self.statuses.append(connection.reply().status)
                due += self.interval
                time.sleep(max(0, due - time.monotonic()))


@pytest.mark.parametrize("line", ["jitter: 0", "jitter: ["])
def test_p15_a_bad_reload_leaves_the_running_configuration(rig, line):
    upstream, rea = rig.pair("body A", "body B")
    before = len(rea.config_events())
    with Stream(rea) as stream:
        event = rea.reload(DOCUMENT.format(line=line))
        wait_for(lambda: rea.metric("rea_config_rejects_total") == 1)
    assert set(stream.statuses) == {200} and len(stream.statuses) > 250
    assert len(rea.config_events()) == before + 1
    assert f"{rea.config_path}:6" in event["detail"] or f"{rea.config_path}:7" in event["detail"]
    assert rea.metric("rea_config_reloads_total") == 0
    assert upstream.requests("B") == []


def test_p15_a_good_reload_under_load_loses_nothing(rig):
    upstream, rea = rig.pair("body A", "body B")
    with Stream(rea) as stream:
        for name in "BABABABABA":
            before = len(upstream.requests(name))
            rea.reload(service(upstream.address(name)))
            wait_for(lambda: len(upstream.requests(name)) > before, what=f"calls reach {name}")
    assert set(stream.statuses) == {200}
    assert rea.metric("rea_config_reloads_total") >= 10  # the watcher may see a change before the signal does


def test_a_reload_takes_effect(rig):
    upstream, rea = rig.pair("body A", "body B")
    rig.unchecked = True  # the counters of a service go with it
    assert rea.request("GET", "/user-service/users/42").text == "A"
    rea.reload(service(upstream.address("B"), name="other"))
    assert rea.request("GET", "/other/users/42").text == "B"
    assert rea.request("GET", "/user-service/users/42").status == 404


def test_the_file_is_watched(rig):
    """No signal: an editor's replacement is enough, and so is writing in place."""
    upstream, rea = rig.pair("body A", "body B")
    rea.write_config(service(upstream.address("B")))
    wait_for(lambda: rea.request("GET", "/user-service/users/42").text == "B", what="the replaced file is read")
    text = rea.config_path.read_text().replace(upstream.address("B"), upstream.address("A"))
    rea.config_path.write_text(text)
    wait_for(lambda: rea.request("GET", "/user-service/users/42").text == "A", what="the rewritten file is read")


def test_a_config_map_is_watched(rig):
    """Kubernetes swings a link: rea.yaml -> ..data/rea.yaml, ..data -> a directory by date."""
    upstream = rig.upstream(A="body A", B="body B")
    mount = rig.directory / "mount"
    mount.mkdir()

    def publish(name, config):
        config.update(listen="127.0.0.1:0", admin="127.0.0.1:0", events={"file": str(rig.directory / "rea0-events.jsonl")})
        (mount / name).mkdir()
        (mount / name / "rea.yaml").write_text(json.dumps(config))
        os.symlink(name, mount / "..data_tmp")
        os.rename(mount / "..data_tmp", mount / "..data")

    publish("..1", service(upstream.address("A")))
    os.symlink("..data/rea.yaml", mount / "rea.yaml")
    rea = rig.serve(path=mount / "rea.yaml")
    assert rea.request("GET", "/user-service/users/42").text == "A"
    publish("..2", service(upstream.address("B")))
    wait_for(lambda: rea.request("GET", "/user-service/users/42").text == "B", what="the swung link is followed")


def test_sighup_reopens_the_event_log(rig):
    _, rea = rig.pair("status 503")
    rea.request("GET", "/user-service/users/42", biz_id="one")
    rea.timeline("one")
    rotated = rea.events_path.with_suffix(".1")
    rea.events_path.rename(rotated)
    rea.signal(signal.SIGHUP)
    wait_for(rea.events_path.exists, what="the log is opened anew")
    rea.request("GET", "/user-service/users/42", biz_id="two")
    assert len(rea.timeline("two")) == 2
    rig.unchecked = True  # half of the events are in the old file


Y01 = """\
services: { user-service: { instances: [ "127.0.0.1:9001" ] }, order-service: { instances: [ "127.0.0.1:9002" ] } }
rpc:
  feign:
    retry:
      enabled: true
      max-retry-same-instance: 0
      max-retry-next-instance: 2
      min-backoff-ms: 100
      max-backoff-ms: 1000
      backoff-multiplier: 2.0
      service-configs:
        user-service:
          enabled: true
          max-retry-next-instance: 3
          method-configs:
            user-api_getUserInfo:
              enabled: true
              max-retry-next-instance: 2
            user-api_updateUserBalance:
              enabled: false
"""


def explained(path, *names):
    done = run("explain", "--config", str(path), *names)
    assert done.returncode == 0, done.stderr
    values = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if words and (words[0] in ("enabled", "jitter") or "-" in words[0]):
            values.setdefault(words[0].rstrip(":"), words[1] if len(words) > 1 else "")
    return values, done.stdout


@pytest.mark.parametrize(
    "names, enabled, retries",
    [
        (["user-service", "user-api_getUserInfo"], True, 2),
        (["user-service", "user-api_anything"], True, 3),
        (["user-service"], True, 3),
        (["user-service", "user-api_updateUserBalance"], False, 3),
        (["order-service", "any_method"], True, 2),
    ],
)
def test_y01_the_models_own_configuration(tmp_path, names, enabled, retries):
    path = tmp_path / "rea.yaml"
    path.write_text(Y01)
    values, text = explained(path, *names)
    assert values["enabled"] == ("true" if enabled else "false")
    assert values["max-retry-next-instance"] == str(retries)
    assert (values["max-retry-same-instance"], values["min-backoff-ms"], values["max-backoff-ms"]) == ("0", "100", "1000")
    assert float(values["jitter"]) == 0.2 and values["deadline-ms"] == "3000"


def test_explain_names_an_unknown_service(tmp_path):
    path = tmp_path / "rea.yaml"
    path.write_text(Y01)
    done = run("explain", "--config", str(path), "user-servise")
    assert done.returncode == 2 and "user-service" in done.stderr


def test_y02_a_written_false_at_the_global_layer_is_the_master_switch(rig):
    upstream = rig.upstream(A="status 503", B="echo")
    methods = {"user-service": {"method-configs": {"user-api_getUserInfo": {"enabled": True}}}}
    rea = rig.serve(service(*upstream.addresses.values(), retry={"enabled": False, "service-configs": methods}))
    assert rea.request("GET", "/user-service/users/1", biz_id="off").status == 503
    assert rea.timeline("off")[-1]["reason"] == "not_enabled"
    rea.reload(service(*upstream.addresses.values(), retry={"enabled": None, "service-configs": methods}))
    assert rea.request("GET", "/user-service/users/1", biz_id="on").status == 200


def test_a_method_that_sets_only_a_count_inherits_the_rest(rig):
    upstream = rig.upstream(A="status 503", B="status 503", C="status 503")
    methods = {"user-service": {"method-configs": {"user-api_getUserInfo": {"max-retry-next-instance": 2}}}}
    rea = rig.serve(service(*upstream.addresses.values(), operations=[GET_USER], retry={"service-configs": methods}))
    assert rea.request("GET", "/user-service/users/1").status == 503
    assert len(upstream.requests()) == 3
