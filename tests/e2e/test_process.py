"""The process: draining, running out of descriptors, admin listener, timelines."""
import concurrent.futures
import contextlib
import json
import resource
import shutil
import signal
import socket
import subprocess
import time

import pytest

from rig import MS, REA, S, Connection, head, now_ns, service, wait_for


def get(biz_id, path="/user-service/users/42"):
    return head("GET", path, [("Host", "x"), ("x-biz-id", biz_id)])


# ---- drain


def test_sigterm_finishes_open_calls(rig):
    upstream, rea = rig.pair("status 503", "delay 300ms body done")
    with rea.connect() as busy, rea.connect() as idle:
        idle.send(get("first"))
        assert idle.reply().status == 200
        busy.send(get("busy"))
        wait_for(lambda: len(upstream.requests("A")) == 2)
        rea.signal(signal.SIGTERM)
        reply = busy.reply()
        assert (reply.status, reply.text, reply.complete) == (200, "done", True)
        assert busy.at_end() and idle.at_end()
    assert rea.wait() == 0
    assert rea.timeline("busy")[-1]["type"] == "Success"
    with pytest.raises(ConnectionRefusedError):
        rea.connect()


def test_sigterm_waits_for_a_backoff(rig):
    upstream, rea = rig.pair("status 503", "body B", retry={"min-backoff-ms": 400, "max-backoff-ms": 400})
    with rea.connect() as connection:
        connection.send(get("backoff"))
        wait_for(lambda: rea.events("backoff"))
        rea.signal(signal.SIGTERM)
        assert connection.reply().text == "B"
    assert rea.wait() == 0


def test_a_drain_has_an_end(rig):
    _, rea = rig.pair("hang", retry={"attempt-timeout-ms": 30000, "deadline-ms": 60000}, timeouts={"drain-ms": 300})
    with rea.connect() as connection:
        connection.send(get("stuck"))
        wait_for(lambda: rea.metric("rea_calls_in_flight") == 1)
        begun = now_ns()
        assert rea.stop() == 0
        assert 250 * MS < now_ns() - begun < 3 * S
    assert rea.timeline("stuck")[-1]["reason"] == "cancelled"


def test_a_drain_ends_on_several_addresses(rig):
    """The second listener is gone at once; the first has a call that does not end."""
    _, rea = rig.pair(
        "hang",
        retry={"attempt-timeout-ms": 30000, "deadline-ms": 60000},
        timeouts={"drain-ms": 300},
        listen=["127.0.0.1:0", "127.0.0.1:0"],
    )
    with rea.connect() as connection:
        connection.send(get("stuck"))
        wait_for(lambda: rea.metric("rea_calls_in_flight") == 1)
        assert rea.stop() == 0
    assert rea.timeline("stuck")[-1]["reason"] == "cancelled"


def test_an_idle_rea_ends_at_once(rig):
    _, rea = rig.pair("body ok")
    rea.request("GET", "/user-service/users/42")
    begun = now_ns()
    assert rea.stop() == 0
    assert now_ns() - begun < 4 * S


def test_readiness_follows_the_drain(rig):
    _, rea = rig.pair("delay 1s", retry={"attempt-timeout-ms": 5000, "deadline-ms": 5000})
    assert rea.get_admin("/readyz").status == 200
    with rea.connect() as connection:
        connection.send(get("slow"))
        wait_for(lambda: rea.metric("rea_calls_in_flight") == 1)
        rea.signal(signal.SIGTERM)
        wait_for(lambda: rea.get_admin("/readyz").status == 503, what="not ready while draining")
        assert rea.get_admin("/healthz").status == 200
        assert connection.reply().status == 200
    assert rea.wait() == 0


# ---- descriptors


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))


def test_descriptors_run_out_and_come_back(rig):
    upstream = rig.upstream(A="body ok")
    rea = rig.serve(service(upstream.address("A"), operations=[]), preexec=few_files)
    crowd = []
    with contextlib.ExitStack() as stack:
        for i in range(200):
            connection = stack.enter_context(rea.connect())
            connection.send(get(f"crowd-{i}"))
            crowd.append(connection)
        served = 0
        for connection in crowd:
            connection.socket.settimeout(0.3)
            try:
                assert connection.reply().status == 200
                served += 1
            except socket.timeout:
                break
        assert 10 <= served < 200
        assert rea.get_admin("/healthz").status == 200
        before = rea.cpu_ns()
        begun = now_ns()
        time.sleep(1)
        assert rea.cpu_ns() - before < (now_ns() - begun) / 20, "it spins while it cannot accept"
        for connection in crowd[:served]:
            connection.close()
        # Those that waited in the kernel are served as places become free.
        for connection in crowd[served:]:
            connection.socket.settimeout(5)
            assert connection.reply().status == 200
            connection.close()
    assert rea.request("GET", "/user-service/users/42").status == 200
    assert rea.popen.poll() is None


def test_no_descriptor_leaks(rig):
    upstream, rea = rig.pair("20% reset\n20% status 503 close-after\n10% garbage\nbody ok", "body ok")
    for i in range(20):
        rea.request("GET", "/user-service/users/42", biz_id=f"warm-{i}")
    before = rea.open_files()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda i: rea.request("GET", "/user-service/users/42", biz_id=f"leak-{i}"), range(500)))
    wait_for(lambda: rea.open_files() <= before + 22, what="connections are given back")


# ---- events that cannot be kept


def many_calls(rea, count):
    """In ten pipelines."""

    def pipeline(worker):
        with rea.connect() as connection:
            connection.send(b"".join(get(f"many-{worker}-{i}") for i in range(count // 10)))
            return [connection.reply().status for _ in range(count // 10)]

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        return {status for statuses in pool.map(pipeline, range(10)) for status in statuses}


def test_a_full_disk_loses_events_and_no_call(rig):
    upstream = rig.upstream(A="status 503", B="body ok")
    rig.unchecked = True  # there is no event file to check
    rea = rig.serve(service(*upstream.addresses.values(), events={"file": "/dev/full"}, limits={"concurrent-retries": 1000}))
    assert many_calls(rea, 500) == {200}
    wait_for(lambda: rea.metric("rea_event_log_dropped_total") > 0, what="lost events are counted")
    assert rea.metric("rea_events_written_total") == 1000 and rea.metric("rea_events_dropped_total") == 0
    assert rea.get_admin("/v1/timelines/many-9-49").status == 200  # the ring still knows


def test_a_full_queue_loses_events_and_no_call(rig):
    upstream = rig.upstream(A="status 503", B="body ok")
    rig.unchecked = True  # what was dropped is missing in the books
    rea = rig.serve(service(*upstream.addresses.values(), events={"queue-bytes": 4096}, limits={"concurrent-retries": 1000}))
    assert many_calls(rea, 500) == {200}
    wait_for(lambda: rea.metric("rea_events_written_total") + rea.metric("rea_events_dropped_total") == 1000, what="I9")


# ---- threads


def test_two_threads_share_the_work(rig):
    upstream = rig.upstream(A="status 503", B="body ok")
    rea = rig.serve(service(*upstream.addresses.values(), threads=2))
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        replies = list(pool.map(lambda i: rea.request("GET", "/user-service/users/1", biz_id=f"t-{i}"), range(200)))
    assert {reply.status for reply in replies} == {200}
    assert rea.stop() == 0


# ---- admin


def test_timelines(rig):
    upstream, rea = rig.pair("status 503", "body ok")
    rea.request("GET", "/user-service/users/42?secret=1", biz_id="order 7/ä".encode().decode("latin-1"))
    rea.request("GET", "/user-service/users/42", biz_id="plain-1")
    rea.timeline("plain-1")
    reply = rea.get_admin("/v1/timelines/plain-1")
    assert reply.status == 200
    document = json.loads(reply.text)
    events = document if isinstance(document, list) else document["events"]
    assert [event["type"] for event in events] == ["Retry", "Success"]
    reply = rea.get_admin("/v1/timelines/order%207%2F%C3%A4")
    assert reply.status == 200 and "secret" not in reply.text and "GET /users/42" in reply.text
    assert rea.get_admin("/v1/timelines/nobody").status == 404


def test_rea_timeline_prints_what_happened(rig):
    upstream, rea = rig.pair("status 503", "body ok")
    rea.request("GET", "/user-service/users/42", biz_id="order-1")
    rea.timeline("order-1")
    for source in (["--admin", rea.admin], ["--file", str(rea.events_path)]):
        done = subprocess.run([REA, "timeline", *source, "order-1"], capture_output=True, text=True, timeout=10)
        assert done.returncode == 0, done.stderr
        for word in ("order-1", "unavailable", "503", "retry", "success", upstream.address("A"), upstream.address("B")):
            assert word in done.stdout
    missing = subprocess.run([REA, "timeline", "--admin", rea.admin, "nobody"], capture_output=True, text=True, timeout=10)
    assert missing.returncode == 1 and missing.stdout == ""


def test_admin_speaks_for_itself(rig):
    _, rea = rig.pair("body ok")
    assert rea.get_admin("/healthz").status == 200
    assert rea.get_admin("/readyz").status == 200
    assert "0.1.0" in rea.get_admin("/version").text
    assert rea.get_admin("/nothing").status == 404
    with Connection(rea.admin) as connection:
        connection.send(head("POST", "/metrics", [("Host", "x"), ("Content-Length", 0)]))
        assert connection.reply("POST").status == 405


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_metrics_are_what_prometheus_reads(rig):
    _, rea = rig.pair("status 503", "body ok")
    rea.request("GET", "/user-service/users/42")
    done = subprocess.run(["promtool", "check", "metrics"], input=rea.get_admin("/metrics").text, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stdout + done.stderr


def test_counters_tell_what_happened(rig):
    upstream, rea = rig.pair("status 503\n2x body ok\nstatus 404", "body ok")
    for i in range(4):
        rea.request("GET", "/user-service/users/42", biz_id=f"count-{i}")
    rea.timeline("count-3")
    rea.request("GET", "/nobody/x")
    service_label = {"service": "user-service"}
    assert rea.metric("rea_calls_total", **service_label) == 4
    assert rea.metric("rea_first_try_successes_total", **service_label) == 2
    assert rea.metric("rea_retries_total", **service_label) == 1
    assert rea.metric("rea_attempts_total", outcome="ok", **service_label) == 3
    assert rea.metric("rea_attempts_total", outcome="unavailable", **service_label) == 1
    assert rea.metric("rea_attempts_total", outcome="permanent", **service_label) == 1
    assert rea.metric("rea_results_total", reason="permanent", **service_label) == 1
    assert rea.metric("rea_call_duration_seconds_count", **service_label) == 4
    assert rea.metric("rea_requests_refused_total") == 1
    assert rea.metric("rea_retries_in_flight") == 0


def test_sampled_first_try_successes_are_recorded(rig):
    upstream = rig.upstream(A="body ok")
    config = service(upstream.address("A"), events={"sample-success": 1.0})
    rea = rig.serve(config)
    for i in range(5):
        rea.request("GET", "/user-service/users/42", biz_id=f"sample-{i}")
    assert [event["type"] for event in rea.timeline("sample-4")] == ["Success"]
    assert rea.metric("rea_events_sampled_total") == 5


@pytest.mark.parametrize(
    "fields, biz_id",
    [
        ([("x-order", "o-1"), ("x-biz-id", "no")], "o-1"),
        ([("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), ("x-biz-id", "no")], "4bf92f3577b34da6a3ce929d0e0e4736"),
    ],
)
def test_where_a_business_id_comes_from(rig, fields, biz_id):
    upstream = rig.upstream(A="status 404")
    rea = rig.serve({**service(upstream.address("A")), "biz-id-header": "x-order"})
    rea.request("GET", "/user-service/users/42", fields=fields)
    (event,) = rea.timeline(biz_id)
    assert event.get("trace_id") == (biz_id if len(biz_id) == 32 else None)


@pytest.mark.memory
def test_small_when_idle(rig):
    _, rea = rig.pair("body ok")
    rea.request("GET", "/user-service/users/42")
    assert rea.memory_kib("RssAnon") <= 3 * 1024


def test_it_sleeps_when_idle(rig):
    _, rea = rig.pair("status 503", "body ok")
    for _ in range(3):
        rea.request("GET", "/user-service/users/42")
    before = rea.cpu_ns()
    time.sleep(1)
    assert rea.cpu_ns() - before < 10 * MS


@pytest.mark.memory
def test_memory_stands_still(rig):
    upstream, rea = rig.pair("2% reset\n2% status 503 close-after\nbody-bytes 3000", "body-bytes 3000", events={"ring": 100})

    def some_calls(count):
        with rea.connect() as connection:
            for _ in range(count):
                connection.send(get(rea.new_biz_id()))
                assert connection.reply().status == 200

    some_calls(1500)  # past the ring's size
    before = rea.memory_kib("RssAnon")
    some_calls(1500)
    assert rea.memory_kib("RssAnon") - before <= 256


# ---- what a disk or a stranger does to the main thread


def test_an_event_log_that_cannot_be_written_is_told_at_once(rig):
    rig.unchecked = True  # the events are lost: that is the point
    _, rea = rig.pair("status 503", "status 503", events={"file": "/dev/full"})
    assert rea.request("GET", "/user-service/users/42").status == 503
    wait_for(lambda: "events cannot be written to events.file" in rea.stderr_text())


def test_idle_admin_connections_do_not_keep_a_health_check_out(rig):
    _, rea = rig.pair("body ok")
    host, port = rea.admin.rsplit(":", 1)
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(socket.create_connection((host, int(port))))
        begun = now_ns()
        assert wait_for(lambda: rea.get_admin("/healthz").status == 200, timeout=9)
        assert now_ns() - begun < 8 * S
