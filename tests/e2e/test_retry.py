"""Scenarios of SCENARIOS.md on retries: who is asked again, how often, how soon, and what is told of it."""
import concurrent.futures
import hashlib
import time

import pytest

from rig import GET_USER, MS, PAY, head, now_ns, service, wait_for

UNDECLARED = {"get": "/users/{id}", "id": "getUserInfo"}


def reasons(events):
    return [(event["type"], event.get("attempt"), event.get("outcome"), event.get("reason")) for event in events]


def test_a_failed_call_heals_on_the_next_instance(rig):
    upstream, rea = rig.pair("status 503", 'body "hello"')
    reply = rea.request("GET", "/user-service/users/42", biz_id="order-1")
    assert (reply.status, reply.text) == (200, "hello")
    first, second = rea.timeline("order-1")
    assert (first["type"], first["instance"], first["outcome"], first["error_code"], first["verdict"]) == (
        "Retry",
        upstream.address("A"),
        "unavailable",
        503,
        "retry",
    )
    assert (second["type"], second["instance"], second["outcome"], second["attempt"], second["verdict"]) == (
        "Success",
        upstream.address("B"),
        "ok",
        2,
        "success",
    )
    assert first["permission"] == "idempotent" and first["permission_source"] == "config"
    assert first["method"] == "user-api_getUserInfo" and first["service"] == "user-service"
    assert first["attempts_max"] == 2
    assert 20 <= first["next_delay_ms"] <= 60
    assert [request.field("rea-attempt") for request in upstream.requests()] == ["1/2", "2/2"]


def post_late(rea, biz_id):
    with rea.connect() as connection:
        connection.send(head("POST", "/user-service/pay", [("Host", "x"), ("x-biz-id", biz_id), ("Content-Length", 5)]))
        time.sleep(0.5)
        connection.send(b"hello")
        return connection.reply("POST")


def test_p01_replay_before_any_body_was_read(rig):
    upstream, rea = rig.pair("refuse")
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(lambda i: post_late(rea, f"p01-{i}"), range(100)))
    assert [(reply.status, reply.body) for reply in replies] == [(200, b"hello")] * 100
    assert upstream.requests("A") == []
    seen = upstream.requests("B")
    assert len(seen) == 100 and len({request.field("x-biz-id") for request in seen}) == 100
    assert {(request["body_bytes"], request["complete"]) for request in seen} == {(5, True)}
    assert reasons(rea.timeline("p01-7")) == [("Retry", 1, "never_sent", None), ("Success", 2, "ok", None)]


@pytest.mark.parametrize(
    "declared, enabled, arrivals, reason",
    [(False, False, (1, 0), "not_declared"), (False, True, (1, 0), "not_declared"), (True, False, (1, 0), "not_enabled"), (True, True, (1, 1), None)],
)
def test_p06_both_sides_must_agree(rig, declared, enabled, arrivals, reason):
    pay = dict(PAY) if declared else {"post": "/pay", "id": "pay"}
    upstream, rea = rig.pair("status 503 body broke", "body paid", operations=[pay], retry={"enabled": enabled})
    reply = rea.request("POST", "/user-service/pay", b"100", biz_id="payout")
    assert (len(upstream.requests("A")), len(upstream.requests("B"))) == arrivals
    if reason is None:
        assert (reply.status, reply.text) == (200, "paid")
        return
    assert (reply.status, reply.text) == (503, "broke")
    assert reasons(rea.timeline("payout")) == [("GiveUp", 1, "unavailable", reason)]


def test_p09_no_hidden_pause_when_switching(rig):
    upstream, rea = rig.pair("refuse", retry={"min-backoff-ms": 40, "max-backoff-ms": 50})
    begun = {}
    for i in range(100):
        begun[f"p09-{i}"] = now_ns()
        assert rea.request("GET", "/user-service/users/1", biz_id=f"p09-{i}").status == 200
    seen = upstream.requests("B")
    waits = {request.field("x-biz-id"): (request["t_ns"] - begun[request.field("x-biz-id")]) / MS for request in seen}
    assert len(waits) == 100
    # The median: a busy machine delays some of them, a pause of our own would delay all.
    assert sorted(waits.values())[50] <= 60
    rea.timeline("p09-99")
    planned = [event["next_delay_ms"] for event in rea.events() if event["type"] == "Retry"]
    assert len(planned) == 100 and len({round(wait) for wait in planned}) >= 10
    assert 32 <= min(planned) and max(planned) <= 48


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_p10_exact_counts(rig, retries):
    upstream = rig.upstream(A="status 503", B="status 503", C="status 503", D="status 503")
    rea = rig.serve(service(*upstream.addresses.values(), retry={"max-retry-next-instance": retries}))
    reply = rea.request("GET", "/user-service/users/42", biz_id="p10")
    assert reply.status == 503
    attempts = retries + 1
    seen = upstream.requests()
    assert [request.field("rea-attempt") for request in seen] == [f"{n}/{attempts}" for n in range(1, attempts + 1)]
    assert len({request["instance"] for request in seen}) == attempts
    assert reply.values("rea-retry") == (["stop"] if retries else [])
    events = rea.timeline("p10")
    assert [event["type"] for event in events] == ["Retry"] * retries + ["GiveUp"]
    assert events[-1]["reason"] == "attempts_exhausted" and events[-1]["attempt"] == attempts


def test_the_last_reply_passes_as_it_came(rig):
    _, rea = rig.pair("status 503", 'status 503 header x-a: 1 header x-a: 2 header Retry-After: 7 body "last words"')
    reply = rea.request("GET", "/user-service/users/42")
    assert (reply.status, reply.text) == (503, "last words")
    assert reply.values("x-a") == ["1", "2"] and reply.field("retry-after") == "7"
    assert reply.values("rea-retry") == ["stop"]


def test_an_earlier_reply_is_passed_on_when_nothing_was_sent_after_it(rig):
    _, rea = rig.pair("status 503 body busy", "refuse")
    reply = rea.request("GET", "/user-service/users/42", biz_id="none")
    assert (reply.status, reply.text, reply.values("rea-retry")) == (503, "busy", ["stop"])
    assert reasons(rea.timeline("none"))[-1] == ("GiveUp", 2, "never_sent", "attempts_exhausted")


def test_an_earlier_reply_says_nothing_of_a_later_attempt_that_broke(rig):
    """"Busy" would be a lie once a second instance may have acted."""
    _, rea = rig.pair("status 503 body busy", "reset")
    reply = rea.request("GET", "/user-service/users/42", biz_id="none")
    assert (reply.status, reply.field("rea-reason"), reply.values("rea-retry")) == (502, "attempts_exhausted", ["stop"])
    assert reasons(rea.timeline("none"))[-1] == ("GiveUp", 2, "ambiguous", "attempts_exhausted")


def test_without_any_reply_rea_answers_itself(rig):
    _, rea = rig.pair("reset", "reset")
    reply = rea.request("GET", "/user-service/users/42", biz_id="mute")
    assert (reply.status, reply.field("rea-reason"), reply.field("rea-retry")) == (502, "attempts_exhausted", "stop")
    assert reply.field("content-type") == "application/problem+json"
    assert reasons(rea.timeline("mute")) == [("Retry", 1, "ambiguous", None), ("GiveUp", 2, "ambiguous", "attempts_exhausted")]


def test_a_wait_past_the_deadline_ends_at_once(rig):
    _, rea = rig.pair("status 503 header Retry-After: 3 body later")
    begun = now_ns()
    reply = rea.request("GET", "/user-service/users/42", biz_id="late")
    assert (reply.status, reply.text) == (503, "later")
    assert now_ns() - begun < 2500 * MS
    assert reasons(rea.timeline("late")) == [("GiveUp", 1, "unavailable", "deadline")]


def test_a_hanging_instance_is_left_at_its_timeout(rig):
    upstream, rea = rig.pair("hang", retry={"attempt-timeout-ms": 200})
    begun = now_ns()
    assert rea.request("GET", "/user-service/users/42", biz_id="hang").status == 200
    assert 200 * MS <= now_ns() - begun < 950 * MS
    assert reasons(rea.timeline("hang"))[0] == ("Retry", 1, "ambiguous", None)
    wait_for(lambda: upstream.aborted("A"), what="the first attempt is cancelled")


def test_the_deadline_spans_the_attempts(rig):
    _, rea = rig.pair("hang", "hang", retry={"attempt-timeout-ms": 400, "deadline-ms": 600})
    begun = now_ns()
    reply = rea.request("GET", "/user-service/users/42", biz_id="deadline")
    assert reply.status == 504
    assert 580 * MS <= now_ns() - begun < 1500 * MS
    assert rea.timeline("deadline")[-1]["type"] == "GiveUp"


def test_a_callers_deadline_shortens_ours(rig):
    _, rea = rig.pair("hang", "hang")
    begun = now_ns()
    reply = rea.request("GET", "/user-service/users/42", fields=[("rea-deadline-ms", "150")])
    assert reply.status == 504
    assert 140 * MS <= now_ns() - begun < 950 * MS


def test_observe_mode_retries_nothing_and_tells(rig):
    upstream, rea = rig.pair("status 503", retry={"mode": "observe"})
    assert rea.request("GET", "/user-service/users/42", biz_id="observe").status == 503
    wait_for(lambda: [event for event in rea.events("observe") if event["type"] == "WouldRetry"])
    assert len(upstream.requests()) == 1


# ---- L14: stacked layers


def test_l14_two_layers_make_two_requests_not_ten(rig):
    backend = rig.upstream(A="status 503", B="status 503", C="status 503")
    inner = rig.serve(service(*backend.addresses.values()))
    operations = [{"get": "/user-service/users/{id}", "id": "getUserInfo", "retryable": True}]
    outer = rig.serve(service(inner.calls, operations=operations, retry={"max-retry-same-instance": 4, "max-retry-next-instance": 0}))
    reply = outer.request("GET", "/user-service/user-service/users/42", biz_id="l14")
    assert (reply.status, reply.field("rea-retry")) == (503, "stop")
    assert len(backend.requests()) == 2
    assert reasons(inner.timeline("l14"))[-1] == ("GiveUp", 2, "unavailable", "attempts_exhausted")
    assert reasons(outer.timeline("l14")) == [("GiveUp", 1, "unavailable", "server_refused")]


@pytest.mark.parametrize(
    "field",
    [("rea-attempt", "2/3"), ("x-envoy-attempt-count", "2"), ("grpc-previous-rpc-attempts", "1"), ("rpc-persist-retryreq", "1"), ("amz-sdk-request", "attempt=2; max=3")],
)
def test_l14_a_retry_of_a_layer_above_is_not_retried(rig, field):
    upstream, rea = rig.pair("status 503")
    assert rea.request("GET", "/user-service/users/42", fields=[field], biz_id="chained").status == 503
    assert reasons(rea.timeline("chained")) == [("GiveUp", 1, "unavailable", "chain_stopped")]
    assert upstream.requests("B") == []


MARKS = [
    ("Rea-Attempt", "2/3"),
    ("REA-DEADLINE-MS", "1"),
    ("X-Envoy-Attempt-Count", "2"),
    ("Grpc-Previous-Rpc-Attempts", "1"),
    ("RPC-Persist-RetryReq", "1"),
    ("Amz-Sdk-Request", "attempt=2; max=3"),
]


@pytest.mark.parametrize("edge", [["10.0.0.0/8", "fd00::/8"], [], ["127.0.0.2"]])
def test_marks_from_outside_the_trusted_edge_are_nothing(rig, edge):
    upstream, rea = rig.pair("status 503", **{"trusted-edge": edge})
    fields = [*MARKS, ("Idempotency-Key", "mine"), ("X-Mine", "1")]
    assert rea.request("GET", "/user-service/users/42", fields=fields, biz_id="outside").status == 200
    assert reasons(rea.timeline("outside")) == [("Retry", 1, "unavailable", None), ("Success", 2, "ok", None)]
    a, b = upstream.requests("A")[0], upstream.requests("B")[0]
    for request, attempt in ((a, "1/2"), (b, "2/2")):
        assert request.field("rea-attempt") == attempt
        assert int(request.field("rea-deadline-ms")) > 1000
        assert [request.field(name.lower()) for name, _ in MARKS[2:]] == [None] * 4
        assert (request.field("idempotency-key"), request.field("x-mine")) == ("mine", "1")


@pytest.mark.parametrize("edge", [["127.0.0.0/8"], ["::1", "127.0.0.1"], ["0.0.0.0/0"], None])
def test_marks_from_the_trusted_edge_count_in_any_case(rig, edge):
    options = {} if edge is None else {"trusted-edge": edge}
    upstream, rea = rig.pair("status 503", **options)
    for i, mark in enumerate(MARKS):
        if mark[0].lower() == "rea-deadline-ms":
            continue
        assert rea.request("GET", "/user-service/users/42", fields=[mark], biz_id=f"edge-{i}").status == 503
        assert reasons(rea.timeline(f"edge-{i}")) == [("GiveUp", 1, "unavailable", "chain_stopped")]
        assert upstream.requests("A")[-1].field(mark[0].lower()) == mark[1]
    assert rea.request("GET", "/user-service/users/42", fields=[("REA-Deadline-MS", "5")], biz_id="late").status == 503
    assert reasons(rea.timeline("late"))[-1][3] == "deadline"
    assert upstream.requests("B") == []


def test_l14_never_sent_allow(rig):
    never_sent = {"never-sent": "allow", "attempt-timeout-ms": 200}
    upstream, rea = rig.pair("hang", operations=[GET_USER, {"post": "/pay", "id": "pay"}], retry=never_sent)
    rea.allow_never_sent = True
    assert rea.request("POST", "/user-service/pay", b"1", biz_id="undeclared").status == 504
    assert reasons(rea.timeline("undeclared")) == [("GiveUp", 1, "ambiguous", "not_declared")]
    assert len(upstream.requests(path="/pay")) == 1
    assert rea.request("GET", "/user-service/users/1", biz_id="declared").status == 200
    assert len(upstream.requests(path="/users/1")) == 2

    refusing = rig.upstream(A="refuse", B="echo")
    second = rig.serve(service(*refusing.addresses.values(), operations=[{"post": "/pay", "id": "pay"}], retry=never_sent))
    second.allow_never_sent = True
    assert second.request("POST", "/user-service/pay", b"1", biz_id="refused").status == 200
    assert reasons(second.timeline("refused")) == [("Retry", 1, "never_sent", None), ("Success", 2, "ok", None)]
    rig.check_invariants()


def test_l14_strict_retries_not_even_what_was_never_sent(rig):
    upstream, rea = rig.pair("refuse", operations=[UNDECLARED])
    reply = rea.request("GET", "/user-service/users/1", biz_id="strict")
    assert reply.status == 502 and reply.field("rea-reason") == "not_declared"
    assert reply.field("content-type") == "application/problem+json"
    assert upstream.requests() == []


def test_l14_the_key_is_the_same_on_all_attempts(rig):
    with_key = {"post": "/pay", "id": "pay", "retryable": "with-key"}
    upstream, rea = rig.pair("status 503", operations=[with_key])
    assert rea.request("POST", "/user-service/pay", b"1", fields=[("Idempotency-Key", '"k\xe4y 1"')], biz_id="key").status == 200
    assert [request.field("idempotency-key") for request in upstream.requests()] == ['"k\xe4y 1"'] * 2
    assert rea.timeline("key")[0]["permission"] == "idempotent_with_key"


def test_without_a_key_a_with_key_operation_is_not_retried(rig):
    with_key = {"post": "/pay", "id": "pay", "retryable": "with-key"}
    upstream, rea = rig.pair("status 503", operations=[with_key])
    assert rea.request("POST", "/user-service/pay", b"1", biz_id="keyless").status == 503
    assert reasons(rea.timeline("keyless")) == [("GiveUp", 1, "unavailable", "key_missing")]
    assert upstream.requests("B") == []


def test_a_generated_key_is_the_same_on_all_attempts(rig):
    operation = {"post": "/pay", "id": "pay", "retryable": "with-key", "generate-key": True}
    upstream, rea = rig.pair("status 503", operations=[operation])
    assert rea.request("POST", "/user-service/pay", b"1", biz_id="made").status == 200
    first, second = [request.values("idempotency-key") for request in upstream.requests()]
    assert first == second and len(first) == 1 and len(first[0]) >= 32
    assert rea.request("POST", "/user-service/pay", b"1").status == 200
    assert len({request.field("idempotency-key") for request in upstream.requests()}) == 2
    assert rea.request("POST", "/user-service/pay", b"1", [("Idempotency-Key", "mine")]).status == 200
    assert upstream.requests()[-1].values("idempotency-key") == ["mine"]


def test_two_waits_that_differ_say_nothing(rig):
    _, rea = rig.pair("status 503 header Retry-After: 1 header Retry-After: 30")
    assert rea.request("GET", "/user-service/users/42", biz_id="differ").status == 200
    assert rea.timeline("differ")[0]["next_delay_ms"] <= 60


# ---- S: per-call state


@pytest.mark.parametrize("workers", [1, 100])
def test_s03_retry_state_is_not_shared(rig, workers):
    upstream = rig.upstream(A="status 503", B="status 503")
    rea = rig.serve(service(*upstream.addresses.values(), limits={"concurrent-retries": 200}))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        replies = list(pool.map(lambda i: rea.request("GET", f"/user-service/users/{i}", biz_id=f"s03-{i}"), range(100)))
    assert {reply.status for reply in replies} == {503}
    counts = {i: len(upstream.requests(path=f"/users/{i}")) for i in range(100)}
    assert set(counts.values()) == {2}


def test_s07_attempts_are_alike(rig):
    upstream, rea = rig.pair("status 503", operations=[{"post": "/pay", "id": "pay", "retryable": True}])
    fields = [
        ("Authorization", "Bearer one"),
        ("Authorization", "Bearer two"),
        ("X-Empty", ""),
        ("x-Case-Kept", "Value"),
        ("Cookie", "a=1; b=2"),
        ("Idempotency-Key", "k" * 5000),
        ("X-Forwarded-For", "203.0.113.9"),
    ]
    assert rea.request("POST", "/user-service/pay?a=1&b=%20&a=2", b"body" * 1000, fields=fields).status == 200
    first, second = upstream.requests()
    changing = ("rea-attempt", "rea-deadline-ms", "host")

    def alike(request):
        return [pair for pair in request["fields"] if pair[0].lower() not in changing]

    assert alike(first) == alike(second)
    assert first["path"] == second["path"] == "/pay?a=1&b=%20&a=2"
    assert first["body_sha256"] == second["body_sha256"] == hashlib.sha256(b"body" * 1000).hexdigest()
    assert first.values("authorization") == ["Bearer one", "Bearer two"]
    assert ["x-Case-Kept", "Value"] in first["fields"] and ["X-Empty", ""] in first["fields"]
    assert first.values("x-forwarded-for") == ["203.0.113.9, 127.0.0.1"]
    assert len(first.values("via")) == 1
    assert int(first.field("rea-deadline-ms")) <= 2000 and int(second.field("rea-deadline-ms")) < int(first.field("rea-deadline-ms"))


def test_s11_with_one_instance_there_is_nowhere_to_go(rig):
    upstream = rig.upstream(A="status 503")
    rea = rig.serve(service(upstream.address("A"), retry={"max-retry-next-instance": 3}))
    assert rea.request("GET", "/user-service/users/42", biz_id="one").status == 503
    assert reasons(rea.timeline("one")) == [("GiveUp", 1, "unavailable", "no_untried_instance")]
    assert len(upstream.requests()) == 1


def test_s11_a_reload_between_attempts_changes_nothing(rig):
    upstream = rig.upstream(A="status 503", B="status 503", C="status 503")
    a, b, c = (upstream.address(name) for name in "ABC")
    retry = {"max-retry-next-instance": 2, "min-backoff-ms": 400, "max-backoff-ms": 400, "jitter": 0.1}
    rea = rig.serve(service(a, b, c, retry=retry))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(rea.request, "GET", "/user-service/users/42", biz_id="s11")
        for attempt in (1, 2):
            wait_for(lambda: len(rea.events("s11")) == attempt)
            rea.reload(service(a, b, c, retry=retry, timeouts={"drain-ms": 9000 + attempt}))
        assert call.result().status == 503
    assert [request["instance"] for request in upstream.requests()] == ["A", "B", "C"]


def test_same_instance_retries_only_when_asked_for(rig):
    upstream = rig.upstream(A="2x status 503\necho", B="status 500")
    rea = rig.serve(service(*upstream.addresses.values(), retry={"max-retry-same-instance": 2, "max-retry-next-instance": 0}))
    rea.same_instance = True
    assert rea.request("GET", "/user-service/users/42", biz_id="same").status == 200
    assert [request["instance"] for request in upstream.requests()] == ["A", "A", "A"]
    assert [request.field("rea-attempt") for request in upstream.requests()] == ["1/3", "2/3", "3/3"]


# ---- S24: commit


def test_s24_before_the_head_was_passed_on_a_reset_is_retried(rig):
    upstream, rea = rig.pair("body-bytes 1000 reset-after 0", "body B")
    reply = rea.request("GET", "/user-service/users/42", biz_id="held")
    assert (reply.status, reply.text) == (200, "B")
    assert reasons(rea.timeline("held")) == [("Retry", 1, "ambiguous", None), ("Success", 2, "ok", None)]


@pytest.mark.parametrize("fault", ["pause 1s reset-after 0", "reset-after 100", "drip 100 every 50ms reset-after 300"])
@pytest.mark.parametrize("framing", ["", "chunked"])
def test_s24_after_the_head_was_passed_on_nothing_is_retried(rig, fault, framing):
    upstream, rea = rig.pair(f"body-bytes 1000 {fault} {framing}", "body B")
    reply = rea.request("GET", "/user-service/users/42", biz_id="committed")
    assert reply.status == 200 and reply.field("x-upstream") == "A"
    assert not reply.complete and len(reply.body) < 1000
    assert reasons(rea.timeline("committed")) == [("GiveUp", 1, "ambiguous", "response_started")]
    assert upstream.requests("B") == []


def test_s24_the_head_waits_for_its_body_ten_milliseconds_at_most(rig):
    _, rea = rig.pair("body-bytes 10 pause 1s")
    with rea.connect() as connection:
        begun = now_ns()
        connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", "slow")]))
        connection.head()
        assert now_ns() - begun < 900 * MS


def test_a_body_outlives_the_attempt_timeout(rig):
    """Timeouts judge the reply's beginning; a body that moves may take its time."""
    _, rea = rig.pair("body-bytes 100 drip 10 every 100ms", retry={"attempt-timeout-ms": 300, "deadline-ms": 600})
    begun = now_ns()
    reply = rea.request("GET", "/user-service/users/42")
    assert reply.complete and len(reply.body) == 100 and now_ns() - begun > 800 * MS


def test_the_budget_bounds_retries(rig):
    upstream, rea = rig.pair("status 503", budget={"ratio": 0.2, "reserve": 0})
    for i in range(50):
        rea.request("GET", "/user-service/users/42", biz_id=f"budget-{i}")
    rea.timeline("budget-49")
    retries = len(upstream.requests("B"))
    assert 8 <= retries <= 10
    refused = [event for event in rea.events() if event.get("reason") == "budget_exhausted"]
    assert len(refused) == 50 - retries


def test_concurrent_retries_are_limited(rig):
    upstream = rig.upstream(A="status 503", B="delay 500ms")
    rea = rig.serve(service(*upstream.addresses.values(), limits={"concurrent-retries": 3}))
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda i: rea.request("GET", "/user-service/users/1", biz_id=f"limit-{i}"), range(20)))
    assert sum(reply.status == 200 for reply in replies) == len(upstream.requests("B")) == 3
    assert sum(event.get("reason") == "overloaded" for event in rea.events()) == 17


def test_breaker_opens_and_recovers(rig):
    breaker = {"enabled": True, "minimum-number-of-calls": 4, "sliding-window-size": 4, "wait-duration-in-open-state-ms": 300, "permitted-number-of-calls-in-half-open-state": 1}
    upstream, rea = rig.pair("4x status 503\necho", retry={"max-retry-next-instance": 0, "breaker": breaker})
    for _ in range(4):
        assert rea.request("GET", "/user-service/users/1").status == 503
    begun = now_ns()
    reply = rea.request("GET", "/user-service/users/1", biz_id="open")
    assert reply.status == 503 and reply.field("rea-reason") == "breaker_open"
    assert len(upstream.requests()) == 4
    wait_for(lambda: rea.request("GET", "/user-service/users/1").status == 200, what="the breaker lets a probe through")
    assert now_ns() - begun > 200 * MS
    assert [event["detail"] for event in rea.events() if event["type"] == "Breaker"][:1] == ["closed to open"]


def test_a_slow_instance_gets_few_calls(rig):
    upstream = rig.upstream(A="delay 50ms body ok", B="delay 5ms body ok", C="delay 5ms body ok")
    config = service(*upstream.addresses.values())
    del config["services"]["user-service"]["balance"]
    rea = rig.serve(config)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        replies = list(pool.map(lambda i: rea.request("GET", "/user-service/users/1").status, range(1000)))
    assert set(replies) == {200}
    assert len(upstream.requests("A")) < 150
    assert min(len(upstream.requests("B")), len(upstream.requests("C"))) > 300
