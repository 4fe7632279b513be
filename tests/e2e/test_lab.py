"""rea lab: policies side by side in planned faults, in virtual time and on sockets."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from rig import REA

SCENARIOS = pathlib.Path(__file__).resolve().parents[2] / "scenarios"
SMALL = """
name: small
about: half of all answers are 503, then one instance is gone
load: 0.5
duration-s: 12
warm-up-s: 3
clients: 10
layers:
  - {name: orders, instances: 4, workers: 8, queue: 100, service-ms: 40, sigma: 0.5}
faults:
  - {kind: error, share: 0.5, at-ms: 4000, for-ms: 4000}
  - {kind: refuse, instance: B, at-ms: 9000, for-ms: 2000}
goals:
  - {figure: success-inside, value: 0.99}
  - {figure: peak, value: 3}
"""
LAYERS = """
name: layers
about: half of the answers of the last of three layers are 503, then it is gone
load: 0.5
duration-s: 12
warm-up-s: 3
clients: 10
layers:
  - {name: edge, instances: 2, workers: 64, queue: 500, service-ms: 2, sigma: 0.3}
  - {name: shop, instances: 2, workers: 64, queue: 500, service-ms: 2, sigma: 0.3}
  - {name: orders, instances: 4, workers: 8, queue: 100, service-ms: 40, sigma: 0.5}
faults:
  - {kind: error, share: 0.5, at-ms: 4000, for-ms: 4000}
  - {kind: refuse, at-ms: 9000, for-ms: 1000}
"""


def lab(*arguments, code=0, timeout=120):
    result = subprocess.run([REA, "lab", *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    assert result.returncode == code, result.stderr
    return result


def figures(text):
    """policy -> figure -> median, of the first scenario."""
    return {policy["policy"]: {name: value["median"] for name, value in policy["figures"].items()} for policy in json.loads(text)[0]["policies"]}


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def test_equal_seeds_give_equal_runs(small):
    run = ("sim", small, "--seeds", 2, "--policy", "adaptive", "--json", "-")
    first = lab(*run).stdout
    assert lab(*run).stdout == first
    assert lab(*run, "--seed", 7).stdout != first


def test_the_table_tells_goal_result_bound_and_peer(small):
    text = lab("sim", small, "--seeds", 2, "--policy", "exponential", "--policy", "adaptive").stdout
    assert "small: half of all answers are 503, then one instance is gone" in text
    assert "seeds 1 to 2; 10 clients" in text
    assert re.search(r"^success-inside +>= 99.000 % +\d+\.\d+ %.* +99\.935 % +\d+\.\d+ % exponential$", text, re.M), text
    assert re.search(r"^best possible ", text, re.M)


def test_a_missed_goal_is_told_and_checked(small):
    result = lab("sim", small, "--seeds", 1, "--policy", "exponential", "--check", code=1)
    assert re.search(r"^success-inside .* MISSED$", result.stdout, re.M)
    lab("sim", small, "--seeds", 1, "--policy", "adaptive", "--check")


def test_all_policies_and_both_reports(small, tmp_path):
    lab("sim", small, "--seeds", 1, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
    names = [policy["policy"] for policy in json.loads((tmp_path / "r.json").read_text())[0]["policies"]]
    assert names == ["none", "fixed", "exponential", "full-jitter", "ratio", "grpc", "aws", "envoy", "resilience4j", "adaptive"]
    page = (tmp_path / "r.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 4
    assert not re.search(r"(src|href)=|url\(|@import|<script", page)
    assert "| adaptive |" in (tmp_path / "r.md").read_text()


def test_a_policy_from_a_file(small, tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text("rpc:\n  feign:\n    retry: {enabled: true, max-retry-next-instance: 2, min-backoff-ms: 20}\n")
    result = figures(lab("sim", small, "--seeds", 1, "--policy", policy, "--json", "-").stdout)
    assert list(result) == ["none", str(policy)]
    assert result[str(policy)]["attempts-inside"] > 1.2


def test_a_sweep(small, tmp_path):
    text = lab("sweep", small, "--seeds", 1, "--policy", "adaptive", "--vary", "clients=4..200/3", "--html", tmp_path / "s.html").stdout
    assert re.search(r"^clients +4 +102 +200$", text, re.M), text
    assert (tmp_path / "s.html").read_text().count("<svg") == 2 + 3 * 4


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["sim"], "name a scenario file"),
        (["sim", "SMALL", "--policy", "nonsense"], "no built-in policy"),
        (["sim", "SMALL", "--set", "clients=0"], "clients: expected a whole number from 1"),
        (["sim", "SMALL", "--set", "color=red"], "color=red is no KEY=VALUE"),
        (["sim", "SMALL", "--seeds", "0"], "--seeds is a number from 1 to 100"),
        (["sim", "SMALL", "--vary", "load=1..2"], "--vary belongs to sweep"),
        (["sweep", "SMALL"], "sweep needs --vary"),
        (["sweep", "SMALL", "--vary", "load"], "--vary is KEY=A..B"),
        (["sim", "SMALL", "--port", "9"], "belong to run"),
        (["sim", "/there/is/none.yaml"], "cannot be read"),
    ],
)
def test_wrong_usage(small, arguments, message):
    result = lab(*[small if argument == "SMALL" else argument for argument in arguments], code=2)
    assert message in result.stderr


def test_a_mistake_in_a_scenario_has_its_place(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(SMALL.replace("instance: B", "instance: E"))
    assert f"{path}:12:" in lab("sim", path, code=2).stderr.replace(f"{path}:11:", f"{path}:12:")
    assert "there is no instance E: the layer orders has A to D" in lab("sim", path, code=2).stderr


CHAIN = """
name: chain
about: every call fails at the last layer, and every other request at the one above
load: 0.1
duration-s: 3
warm-up-s: 0
clients: 10
deadline-ms: 5000
attempt-timeout-ms: 5000
layers:
  - {name: edge, instances: 3, workers: 0, service-ms: 1, sigma: 0}
  - {name: shop, instances: 3, workers: 0, service-ms: 1, sigma: 0}
  - {name: orders, instances: 3, workers: 20, service-ms: 30, sigma: 0}
faults:
  - {layer: shop, kind: error, share: 0.5, at-ms: 0, for-ms: 3000}
  - {layer: orders, kind: error, share: 1, at-ms: 0, for-ms: 3000}
"""
THREE_ATTEMPTS = "rpc:\n  feign:\n    retry: {enabled: true, max-retry-next-instance: 2, min-backoff-ms: 20, max-backoff-ms: 20, budget: {rule: ratio, ratio: 1, reserve: 100000}}\n"


def requests_for_a_call(text):
    """Those that the last layer saw."""
    first = {policy["policy"]: policy["first_seed"] for policy in json.loads(text)[0]["policies"]}
    return {name: sum(run["requests_per_s"]) / sum(run["calls_per_s"]) for name, run in first.items()}


@pytest.mark.parametrize("way", ["sim", "run"])
def test_layers_tell_each_other_who_has_retried(tmp_path, way):
    """
    What a layer has retried nobody above retries (rea-retry: stop), and what is a retry already nobody below does (rea-attempt): a call of shop's makes 3 requests,
    unless it is a retry of edge's. So 1/2 of 3, 1/4 of 1 and 1/8 of 1 for each call; with the answer's word alone 2.6, with neither 10.7, as for those who know neither.
    No time is measured, but calls have a deadline: on a machine that cannot hold the schedule on sockets the counts mean nothing.
    """
    scenario, policy = tmp_path / "chain.yaml", tmp_path / "three.yaml"
    scenario.write_text(CHAIN)
    policy.write_text(THREE_ATTEMPTS)
    text = lab(way, scenario, "--seeds", 1, "--policy", "full-jitter", "--policy", policy, "--json", "-").stdout
    if not all(policy["valid"] for policy in json.loads(text)[0]["policies"]):
        pytest.skip("the machine could not hold the schedule")
    seen = requests_for_a_call(text)
    assert abs(seen["none"] - 0.5) < 0.1
    assert abs(seen[str(policy)] - 1.875) < 0.25
    assert seen["full-jitter"] > 8


def agree(sim, run):
    """Load and success within 15 %, P99 within 25 % of the same seed in virtual time; says by how much."""
    apart = {}
    for policy in ("none", "exponential", "adaptive"):
        for figure, most in (("success", 0.15), ("success-inside", 0.15), ("load-inside", 0.15), ("peak", 0.15), ("p99-ms", 0.25), ("p99-inside-ms", 0.25)):
            apart[policy, figure] = (run[policy][figure] / sim[policy][figure] - 1, most)
    print({" ".join(key): f"{difference:+.1%}" for key, (difference, _) in apart.items()})
    return {key: difference for key, (difference, most) in apart.items() if abs(difference) > most}


def run_on_sockets(scenario, *options):
    """Figures of a run that could hold its schedule: a busy machine has three tries, and says so when it was busy all the time."""
    for _ in range(3):
        run = lab("run", scenario, *options).stdout
        late = {policy["policy"]: policy["seeds"][0]["schedule-p99-ms"] for policy in json.loads(run)[0]["policies"] if not policy["valid"]}
        if not late:
            return figures(run)
        print("the schedule was not held; 99 of 100 requests were sent within, ms:", late)
    pytest.skip(f"the machine is too busy to hold the schedule, three times; 99 of 100 requests were sent within, ms: {late}")


@pytest.mark.long
@pytest.mark.parametrize("layers", [1, 3])
def test_sockets_agree_with_virtual_time(tmp_path, layers):
    """Equal seeds have equal faults and equal calls: what differs is how they are played."""
    scenario = tmp_path / "small.yaml"
    scenario.write_text(SMALL if layers == 1 else LAYERS)
    options = ("--set", "workers=16", "--policy", "exponential", "--policy", "adaptive", "--seeds", 1, "--json", "-")
    sim = figures(lab("sim", scenario, *options).stdout)
    assert not agree(sim, run_on_sockets(scenario, *options))


@pytest.mark.long
def test_through_a_proxy(small, tmp_path):
    """Another program sits in the policy's seat: here nginx, which tries the next server."""
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    if not os.path.exists(nginx):
        pytest.skip("nginx is missing")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        front = probe.getsockname()[1]
    base = 20000 + front % 10000
    servers = "".join(f"server 127.0.0.1:{base + i} max_fails=0;" for i in range(4))
    config = tmp_path / "nginx.conf"
    config.write_text(
        f"daemon off; worker_processes 1; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{ worker_connections 4000; }}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}/b; proxy_temp_path {tmp_path}/p; fastcgi_temp_path {tmp_path}/f; uwsgi_temp_path {tmp_path}/u;"
        f" scgi_temp_path {tmp_path}/s; upstream lab {{ {servers} keepalive 64; }}\n"
        f"server {{ listen 127.0.0.1:{front}; location / {{ proxy_pass http://lab; proxy_http_version 1.1; proxy_set_header Connection ''; "
        f"proxy_next_upstream error timeout http_503; proxy_next_upstream_tries 3; }} }} }}\n"
    )
    proxy = subprocess.Popen([nginx, "-c", config, "-e", tmp_path / "error.log"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", front)) == 0:
                    break
            time.sleep(0.05)
        result = json.loads(lab("run", small, "--seeds", 1, "--port", base, "--through", f"127.0.0.1:{front}", "--json", "-").stdout)[0]
    finally:
        proxy.send_signal(signal.SIGQUIT)
        proxy.wait(10)
    entry = result["policies"][0]
    assert entry["policy"] == f"127.0.0.1:{front}"
    if not entry["valid"]:
        pytest.skip("the machine is too busy to hold the schedule")
    # It retries: more requests reach the instances than calls are made, and more calls succeed than half.
    assert entry["figures"]["load-inside"]["median"] > 1.2
    assert entry["figures"]["success-inside"]["median"] > 0.7
