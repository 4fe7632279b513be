"""Instances that break the protocol, and callers that leave."""
import datetime
import socket
import time

import pytest

from rig import MS, S, head, now_ns, service, wait_for

FIXED_BACKOFF = {"min-backoff-ms": 450, "max-backoff-ms": 450, "jitter": 0.1}


def outcome(rea, biz_id):
    return [(event["type"], event["outcome"], event.get("reason")) for event in rea.timeline(biz_id)]


@pytest.mark.parametrize("fault", ["reset", "close"])
def test_a_broken_connection_is_ambiguous_and_retried(rig, fault):
    _, rea = rig.pair(fault)
    assert rea.request("GET", "/user-service/users/42", biz_id="broken").status == 200
    assert outcome(rea, "broken") == [("Retry", "ambiguous", None), ("Success", "ok", None)]


def test_a_broken_connection_without_permission(rig):
    upstream, rea = rig.pair("reset", operations=[])
    reply = rea.request("GET", "/user-service/users/42", biz_id="broken")
    assert (reply.status, reply.field("rea-reason")) == (502, "not_declared")
    assert upstream.requests("B") == []


@pytest.mark.parametrize("fault", ["garbage", "endless-headers"])
def test_what_cannot_be_decoded_is_permanent(rig, fault):
    upstream, rea = rig.pair(fault)
    reply = rea.request("GET", "/user-service/users/42", biz_id="undecodable")
    assert (reply.status, reply.field("rea-reason")) == (502, "permanent")
    assert outcome(rea, "undecodable") == [("GiveUp", "permanent", "permanent")]
    assert upstream.requests("B") == []


@pytest.mark.parametrize("framing", ["", "chunked"])
def test_a_short_body_is_shown_to_the_caller_as_cut(rig, framing):
    _, rea = rig.pair(f'short body "not all" {framing} pause 1s')
    reply = rea.request("GET", "/user-service/users/42", biz_id="short")
    assert reply.status == 200 and not reply.complete
    assert outcome(rea, "short") == [("GiveUp", "ambiguous", "response_started")]


def test_a_short_failed_reply_can_still_be_retried(rig):
    """Nothing of a failed reply was passed on: its short body costs nothing."""
    _, rea = rig.pair('status 503 short body "not all"')
    assert rea.request("GET", "/user-service/users/42", biz_id="short").status == 200
    assert outcome(rea, "short") == [("Retry", "unavailable", None), ("Success", "ok", None)]


def test_nothing_of_one_exchange_leaks_into_the_next(rig):
    """An instance says more than it declared: the surplus is nobody's reply."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        rig.unchecked = True  # this instance keeps no log
        rea = rig.serve(service("127.0.0.1:%d" % server.getsockname()[1], operations=[]))
        for i in range(5):
            with rea.connect() as connection:
                connection.send(head("GET", "/user-service/users/42", [("Host", "x")]))
                peer, _ = server.accept()
                with peer:
                    peer.recv(65536)
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
                    assert connection.reply().text == "ok"


# ---- callers that leave


def leave_after(rea, biz_id, seconds, reset=False):
    """Send a call, leave, and say when."""
    connection = rea.connect()
    connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", biz_id)]))
    time.sleep(seconds)
    left_ns = now_ns()
    if reset:
        connection.reset()
    else:
        connection.close()
    return left_ns


@pytest.mark.parametrize("reset", [False, True])
def test_p13_a_caller_leaves_in_backoff(rig, reset):
    upstream, rea = rig.pair("status 503", "hang", retry=FIXED_BACKOFF)
    left_ns = leave_after(rea, "p13a", 0.1, reset)
    events = rea.timeline("p13a")
    assert now_ns() - left_ns < 300 * MS
    assert [(event["type"], event["outcome"], event.get("reason")) for event in events] == [("Retry", "unavailable", None), ("GiveUp", "cancelled", "cancelled")]
    assert 400 <= events[0]["next_delay_ms"] <= 500
    time.sleep(0.6)  # past the time at which the second attempt would have begun
    assert upstream.requests("B") == []


def test_p13_a_caller_leaves_during_an_attempt(rig):
    upstream, rea = rig.pair("status 503", "hang", retry={**FIXED_BACKOFF, "deadline-ms": 5000, "attempt-timeout-ms": 5000})
    connection = rea.connect()
    connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", "p13b")]))
    wait_for(lambda: upstream.requests("B"), what="the second attempt")
    time.sleep(0.2)
    left_ns = now_ns()
    connection.close()
    (aborted,) = wait_for(lambda: upstream.aborted("B"), what="the second attempt is cancelled")
    assert aborted["end_ns"] - left_ns < 2 * S  # not at the attempt's timeout
    assert outcome(rea, "p13b")[-1] == ("GiveUp", "cancelled", "cancelled")
    time.sleep(0.6)
    assert len(upstream.requests()) == 2


@pytest.mark.long
def test_p13_nothing_happens_for_five_seconds(rig):
    upstream, rea = rig.pair("status 503", "hang", retry=FIXED_BACKOFF)
    leave_after(rea, "p13", 0.1)
    rea.timeline("p13")
    time.sleep(5)
    assert len(upstream.requests()) == 1 and len(rea.events("p13")) == 2


def test_s05_cancelling_in_backoff_is_immediate(rig):
    upstream, rea = rig.pair("status 503", retry=FIXED_BACKOFF)
    connections = []
    for i in range(20):
        connection = rea.connect()
        connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", f"s05-{i}")]))
        connections.append(connection)
    wait_for(lambda: len(rea.events()) == 20, what="all calls are in backoff")
    left_ns = now_ns()
    wall_left = time.time_ns()
    for connection in connections:
        connection.close()
    wait_for(lambda: len(rea.events()) == 40, what="all calls are cancelled")
    assert now_ns() - left_ns < 300 * MS
    finals = [event for event in rea.events() if event["type"] == "GiveUp"]
    assert {event["reason"] for event in finals} == {"cancelled"} and len(finals) == 20
    times = [datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp() * S for event in finals]
    assert max(times) - wall_left < 10 * MS
    time.sleep(0.6)
    assert len(upstream.requests()) == 20


def test_a_caller_that_leaves_during_its_body_cancels_upstream(rig):
    upstream, rea = rig.pair("echo")
    connection = rea.connect()
    connection.send(head("POST", "/user-service/pay", [("Host", "x"), ("x-biz-id", "half"), ("Content-Length", 1000)]) + b"half")
    wait_for(lambda: rea.metric("rea_calls_in_flight") == 1)
    connection.close()
    assert outcome(rea, "half") == [("GiveUp", "cancelled", "cancelled")]
    wait_for(lambda: rea.metric("rea_calls_in_flight") == 0)
    assert all(not seen["complete"] for seen in upstream.requests())
    rig.unchecked = True  # the instance may or may not have seen the cut request's head


def test_a_caller_that_leaves_during_the_reply_cancels_upstream(rig):
    upstream, rea = rig.pair("body-bytes 1g")
    connection = rea.connect()
    connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", "reading")]))
    connection.head()
    connection.close()
    wait_for(lambda: upstream.aborted("A"), what="the instance sees that the caller left")
    assert outcome(rea, "reading")[-1][1:] == ("cancelled", "cancelled")


def test_a_caller_that_leaves_with_requests_in_the_pipe_cancels_all(rig):
    """The second request waits in our memory: that must not hide that its sender has left."""
    upstream, rea = rig.pair("status 503", "hang", retry=FIXED_BACKOFF)
    connection = rea.connect()
    for i in range(2):
        connection.send(head("GET", "/user-service/users/42", [("Host", "x"), ("x-biz-id", f"pipe-{i}")]))
    wait_for(lambda: rea.events("pipe-0"), what="the first call is in backoff")
    connection.close()
    events = rea.timeline("pipe-0", timeout=2)
    assert events[-1]["reason"] == "cancelled" and events[-1]["attempt"] == 2
    time.sleep(0.6)
    assert upstream.requests("B") == []


def test_an_instance_whose_head_is_too_large(rig):
    fields = " ".join(f"header x-{i} {'v' * 3000}" for i in range(15))
    upstream, rea = rig.pair(fields + " body ok")
    reply = rea.request("GET", "/user-service/users/42", biz_id="large")
    assert (reply.status, reply.field("rea-reason")) == (502, "permanent")
    assert upstream.requests("B") == []


def test_an_instance_that_dies_and_returns(rig):
    """Pooled connections to the dead one are not given to the next call."""
    upstream = rig.upstream(A="body ok")
    rea = rig.serve(service(upstream.address("A"), operations=[]))
    for i in range(3):
        assert rea.request("GET", "/user-service/users/42").status == 200
    upstream.kill()
    assert rea.request("GET", "/user-service/users/42", biz_id="dead").status == 502
    assert rea.timeline("dead")[-1]["outcome"] == "never_sent"
