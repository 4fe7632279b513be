"""The budget's rule `evidence` and the profile `adaptive`: outages park calls, recovery brings them back, events name what was seen."""
import concurrent.futures
import re
import subprocess
import time

from rig import REA, head, service, wait_for

ADAPTIVE = {"profile": "adaptive", "max-retry-next-instance": None, "min-backoff-ms": None, "max-backoff-ms": None}
EVIDENCE = r"success \d+ %, tokens 0(\.\d)?"


def call_every(rea, pause_s, count, name):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        futures = []
        for i in range(count):
            futures.append(pool.submit(rea.request, "GET", "/user-service/users/1", biz_id=f"{name}-{i}"))
            time.sleep(pause_s)
        return [future.result() for future in futures]


def test_s3_an_outage_parks_calls_and_recovery_brings_them_back(rig):
    upstream = rig.upstream(A='32x status 503\nbody "ok"', B='8x status 503\nbody "ok"')
    rea = rig.serve(service(*upstream.addresses.values(), retry=ADAPTIVE, budget=None))
    rea.cycle = True
    replies = call_every(rea, 0.01, 60, "s3")
    wait_for(lambda: rea.metric("rea_calls_in_flight") == 0, 5, "all calls are over")
    parked = [event for event in rea.events() if event.get("reason") == "parked"]
    assert parked and {event["type"] for event in parked} == {"Retry"}
    assert all(re.fullmatch(EVIDENCE, event["evidence"]) for event in parked)
    assert all(50 <= event["next_delay_ms"] <= 100 for event in parked)
    back = {event["biz_id"] for event in parked}
    assert {rea.timeline(biz_id)[-1]["type"] for biz_id in back} == {"Success"}
    assert [reply.status for reply in replies] == [200] * 60
    assert {event.get("reason") for event in rea.events() if event.get("evidence")} <= {"parked", "budget_exhausted"}
    assert rea.metric("rea_parked_calls") == 0
    shown = subprocess.run([REA, "timeline", "--admin", rea.admin, parked[0]["biz_id"]], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"look again in \d+ ms: parked \(waiting until user-service recovers; {EVIDENCE}\)", shown), shown
    live = subprocess.run([REA, "explain", "--live", "--admin", rea.admin, "user-service"], capture_output=True, text=True, check=True).stdout
    assert "budget              evidence, " in live and "parked calls        0 of 1000" in live, live


def test_an_outage_without_end_is_given_up(rig):
    upstream, rea = rig.pair("status 503", "status 503", retry=ADAPTIVE, budget=None)
    rea.cycle = True
    replies = call_every(rea, 0.01, 40, "down")
    assert {(reply.status, reply.field("rea-retry")) for reply in replies} == {(503, "stop")}
    ends = [event for event in rea.events() if event["type"] == "GiveUp"]
    assert {event["reason"] for event in ends} <= {"budget_exhausted", "attempts_exhausted"}
    exhausted = [event for event in ends if event["reason"] == "budget_exhausted"]
    assert exhausted and all(re.fullmatch(EVIDENCE, event["evidence"]) for event in exhausted)
    # A tenth and two, beside what was granted before the evidence was gone.
    assert len(upstream.requests()) <= 40 + 4 + 2 + 20


def test_a_caller_that_leaves_leaves_its_place(rig):
    _, rea = rig.pair("status 503", "status 503", retry={**ADAPTIVE, "deadline-ms": 20000}, budget=None, limits={"parked-calls": 1})
    rea.cycle = True
    with rea.connect() as connection:
        for i in range(40):
            other = rea.connect()
            other.send(head("GET", "/user-service/users/1", [("Host", "x"), ("x-biz-id", f"left-{i}")]))
            wait_for(lambda: rea.metric("rea_parked_calls") == 1 or rea.metric("rea_calls_in_flight") == 0, what="parked or over")
            if rea.metric("rea_parked_calls") == 1:
                break
            other.close()
        connection.send(head("GET", "/user-service/users/1", [("Host", "x"), ("x-biz-id", "full")]))
        assert connection.reply("GET").status == 503
        assert rea.timeline("full")[-1]["evidence"] == "1 calls parked"
        other.close()
        wait_for(lambda: rea.metric("rea_parked_calls") == 0, what="its place is free")
    assert rea.timeline(f"left-{i}")[-1]["reason"] == "cancelled"
