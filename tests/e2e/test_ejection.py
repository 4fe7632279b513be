"""Ejection: an instance that does worse than the others is left out, told of, probed and readmitted; where all fail, none is."""
import concurrent.futures
import functools
import json
import re
import subprocess
import time

import rig as rigs
from rig import REA, wait_for

service = functools.partial(rigs.service, ejection=True)
GET = ("GET", "/user-service/users/1")


def calls(rea, count, prefix, parallel=1):
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(lambda i: rea.request(*GET, biz_id=f"{prefix}-{i}"), range(count)))


def changes(rea):
    return [event for event in rea.events() if event["type"] == "Breaker"]


def instances(rea):
    return {instance["address"]: instance for instance in json.loads(rea.get_admin("/v1/services/user-service").text)["instances"]}


def least_loaded(*addresses, **options):
    config = service(*addresses, **options)
    config["services"]["user-service"]["balance"] = "least-loaded"
    return config


def test_one_bad_of_four_is_left_out_after_three_failures_and_comes_back(rig):
    # The others are slower, so that nothing but the ejection keeps calls away from A.
    slow = {name: 'delay 20ms body "ok"' for name in "BCD"}
    upstream = rig.upstream(A='20x body "ok"\n3x status 503\nbody "back"', **slow)
    rea = rig.serve(least_loaded(*upstream.addresses.values()))
    a, b = upstream.address("A"), upstream.address("B")
    for i in range(400):
        assert rea.request(*GET, biz_id=f"call-{i}").status == 200
        if len(upstream.requests("A")) == 23:
            break
    event = wait_for(lambda: changes(rea), what="it is ejected")[0]
    assert (event["service"], event["instance"]) == ("user-service", a)
    assert re.fullmatch(re.escape(a) + r" ejected for (1\.[6-9]|2\.[0-4]) s: 3 failures in a row, 3 of its latest \d+ attempts, and the others do better", event["detail"])
    assert rea.metric("rea_instance_ejected", instance=a, service="user-service") == 1
    assert rea.metric("rea_instance_ejected") == 1
    assert rea.metric("rea_instance_ejections_total", instance=a) == 1
    assert instances(rea)[a] == {"address": a, "ejected": 1, "ejections": 1, "weight": 1, "tier": 0, "unhealthy": False}
    assert instances(rea)[b] == {"address": b, "ejected": 0, "ejections": 0, "weight": 1, "tier": 0, "unhealthy": False}
    live = subprocess.run([REA, "explain", "--live", "--admin", rea.admin, "user-service"], capture_output=True, text=True, check=True).stdout
    assert "found by            the configuration\n" in live and f"instances           {a}, ejected by 1 thread, 1 time so far\n                      {b}\n" in live, live
    # For 1.6 s at least nothing goes there. Then three calls, one after the other, show that it is well again.
    end = time.monotonic_ns() + 1_000_000_000
    while time.monotonic_ns() < end:
        calls(rea, 5, f"without-{time.monotonic_ns()}")
    assert len(upstream.requests("A")) == 23
    wait_for(lambda: calls(rea, 5, f"probe-{time.monotonic_ns()}") and len(changes(rea)) == 2, 20, "it is readmitted")
    assert changes(rea)[1]["detail"] == f"{a} readmitted: its probes were answered"
    assert instances(rea)[a] == {"address": a, "ejected": 0, "ejections": 1, "weight": 1, "tier": 0, "unhealthy": False}
    assert rea.metric("rea_instance_ejected") == 0


def test_a_primary_that_dies_gives_way_to_its_standby(rig):
    upstream = rig.upstream(A='status 503', B='body "ok"', C='body "ok"')
    rea = rig.serve(service(*upstream.addresses.values()))
    # The standby is known by the retries alone. It must have answered eleven times before it speaks against the primary.
    assert {reply.status for reply in calls(rea, 12, "dead")} == {200}
    wait_for(lambda: changes(rea), what="it is ejected")
    assert {reply.status for reply in calls(rea, 12, "standby")} == {200}
    assert (len(upstream.requests("A")), len(upstream.requests("B")), len(upstream.requests("C"))) == (12, 11 + 1 + 12, 0)


def test_nothing_is_ejected_while_all_fail(rig):
    coin = '50% status 503\nbody "ok"'
    upstream = rig.upstream(A=coin, B=coin, C=coin, D=coin)
    rea = rig.serve(least_loaded(*upstream.addresses.values()))
    calls(rea, 400, "coin", 8)
    assert not changes(rea)
    assert rea.metric("rea_instance_ejections_total") == 0
    assert [i["ejected"] for i in instances(rea).values()] == [0, 0, 0, 0]


def test_an_ejection_lives_on_through_a_reload(rig):
    upstream = rig.upstream(A='status 503', B='body "ok"')
    config = service(*upstream.addresses.values())
    rea = rig.serve(config)
    calls(rea, 12, "dead")
    wait_for(lambda: changes(rea), what="it is ejected")
    a = upstream.address("A")
    assert rea.reload({**config, "biz-id-header": "X-Biz-Id"})["detail"].startswith("loaded")
    assert instances(rea)[a] == {"address": a, "ejected": 1, "ejections": 1, "weight": 1, "tier": 0, "unhealthy": False}
    calls(rea, 3, "after")
    assert len(upstream.requests("A")) == 12
    # Without it in the list nobody tells of it.
    rea.reload(service(upstream.address("B")))
    assert instances(rea) == {upstream.address("B"): {"address": upstream.address("B"), "ejected": 0, "ejections": 0, "weight": 1, "tier": 0, "unhealthy": False}}
    # Alone it is used, ejected or not.
    rea.reload(service(a))
    assert rea.request(*GET, biz_id="alone").status == 503
    assert len(upstream.requests("A")) == 13


def test_without_ejection_the_list_stays_as_it_is(rig):
    upstream = rig.upstream(A="status 503", B='body "ok"')
    rea = rig.serve(service(*upstream.addresses.values(), ejection=False))
    assert {reply.status for reply in calls(rea, 40, "dead")} == {200}
    assert not changes(rea) and len(upstream.requests("A")) == 40
