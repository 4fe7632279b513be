"""Timelines that outlive the process, events as they come, and what happens when their database has a bad day."""
import json
import re
import signal
import sqlite3
import subprocess

import pytest

from rig import REA, Connection, head, service, wait_for


def database(directory):
    return str(directory / "events.db")


def start(rig, upstream, db, **events):
    return rig.serve(service(*upstream.addresses.values(), events={"sqlite": db, **events}))


def written(rea):
    """Everything that was recorded is in the database."""
    wait_for(lambda: rea.metric("rea_event_sqlite_written_total") >= rea.metric("rea_events_written_total"), what="events are in the database")


def timeline(rea, biz_id):
    reply = rea.get_admin(f"/v1/timelines/{biz_id}")
    assert reply.status == 200, reply
    return json.loads(reply.text)


def steps(events):
    return [(event["type"], event["attempt"]) for event in events]


RETRY_SUCCESS = [("Retry", 1), ("Success", 2)]


def test_a_timeline_outlives_a_restart(rig, tmp_path):
    upstream, db = rig.upstream(A="status 503", B="echo"), database(tmp_path)
    rea = start(rig, upstream, db)
    assert rea.request("GET", "/user-service/users/42", biz_id="order-1").status == 200
    assert steps(timeline(rea, "order-1")["events"]) == RETRY_SUCCESS
    assert rea.stop() == 0
    rea = start(rig, upstream, db)
    assert rea.request("GET", "/user-service/users/42", biz_id="order-2").status == 200
    document = timeline(rea, "order-1")
    assert steps(document["events"]) == RETRY_SUCCESS and document["left_out"] == 0 and document["tasks"] == []
    # Half of it from the database, half from memory, and each event once, also when both have it.
    assert rea.request("GET", "/user-service/users/43", biz_id="order-1").status == 200
    assert steps(timeline(rea, "order-1")["events"]) == 2 * RETRY_SUCCESS
    written(rea)
    document = timeline(rea, "order-1")
    assert steps(document["events"]) == 2 * RETRY_SUCCESS
    assert [event["detail"] for event in document["events"]] == 2 * ["GET /users/42"] + 2 * ["GET /users/43"]
    text = rea.get_admin("/v1/timelines/order-1?format=text").text
    assert text.count("call ") == 2 and text.count("success after 2 attempts (1 retry)") == 2
    assert rea.get_admin("/v1/timelines/order-9").status == 404
    rig.unchecked = True  # two processes for one set of instances


def test_what_memory_has_forgotten_the_database_tells(rig, tmp_path):
    upstream = rig.upstream(A="status 503", B="echo")
    rea = start(rig, upstream, database(tmp_path), ring=4)
    for i in range(20):
        assert rea.request("GET", "/user-service/users/42", biz_id=f"order-{i}").status == 200
    written(rea)
    for i in range(20):
        assert steps(timeline(rea, f"order-{i}")["events"]) == RETRY_SUCCESS
    # I9 of the database: recorded = written + dropped, none twice.
    assert rea.metric("rea_event_sqlite_dropped_total") == 0
    assert rea.metric("rea_event_sqlite_written_total") == rea.metric("rea_events_written_total") == 40
    with sqlite3.connect(database(tmp_path)) as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT id) FROM event").fetchone() == (40, 40)
        words = connection.execute("SELECT type, outcome, verdict, permission FROM event WHERE biz_id = 'order-7' ORDER BY id").fetchall()
        assert words == [("Retry", "unavailable", "retry", "idempotent"), ("Success", "ok", "success", "idempotent")]


def test_a_killed_process_leaves_its_timelines(rig, tmp_path):
    upstream, db = rig.upstream(A="status 503", B="echo"), database(tmp_path)
    rig.unchecked = True
    for i in range(3):
        rea = start(rig, upstream, db)
        assert rea.request("GET", "/user-service/users/42", biz_id="order-1").status == 200
        written(rea)
        rea.signal(signal.SIGKILL)
        rea.wait()
        rig.serves.remove(rea)
    rea = start(rig, upstream, db)
    assert steps(timeline(rea, "order-1")["events"]) == 3 * RETRY_SUCCESS


def test_a_damaged_database_does_not_keep_rea_from_starting(rig, tmp_path):
    db = tmp_path / "events.db"
    db.write_bytes(b"this was a database once " * 1000)
    upstream = rig.upstream(A="status 503", B="echo")
    rea = start(rig, upstream, str(db))
    assert "rea: events.sqlite: the file was damaged and set aside; its name ends in .damaged-1 now" in rea.stderr_text()
    assert (tmp_path / "events.db.damaged-1").stat().st_size == 25000
    assert rea.metric("rea_event_sqlite_set_aside_total") == 1
    assert rea.request("GET", "/user-service/users/42", biz_id="order-1").status == 200
    assert steps(timeline(rea, "order-1")["events"]) == RETRY_SUCCESS


@pytest.mark.parametrize(
    "case, message",
    [
        ("no directory", "no/such/events.db: its lock file cannot be opened"),
        ("another program's", "events.db: this is a database of another program"),
        ("in use", "events.db: another process has it open"),
    ],
)
def test_a_database_that_cannot_be_ours(rig, tmp_path, case, message):
    upstream, db = rig.upstream(A="echo"), database(tmp_path)
    if case == "no directory":
        db = str(tmp_path / "no/such/events.db")
    elif case == "another program's":
        with sqlite3.connect(db) as connection:
            connection.execute("CREATE TABLE own (x)")
    else:
        start(rig, upstream, db)
    path = tmp_path / "second.yaml"
    path.write_text(json.dumps({"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "events": {"sqlite": db}}))
    result = subprocess.run([REA, "serve", "--config", path], capture_output=True, text=True, timeout=20)
    assert result.returncode == 1 and message in result.stderr, result


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two megabytes, and a file on it that can be made to fill it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True).returncode == 0
    if not mounted:
        pytest.skip("only root may mount a small file system")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk):
    with open(disk / "junk", "wb", buffering=0) as junk:
        try:
            while True:
                junk.write(b"x" * 4096)
        except OSError:
            pass


def test_a_full_disk_loses_no_call_and_is_got_over(rig, small_disk):
    upstream = rig.upstream(A="status 503", B="echo")
    rea = start(rig, upstream, str(small_disk / "events.db"))
    fill(small_disk)
    for i in range(60):
        assert rea.request("GET", "/user-service/users/42", biz_id=f"order-{i}").status == 200
    wait_for(lambda: rea.metric("rea_event_sqlite_failing") == 1)
    assert "rea: events cannot be written to events.sqlite: " in rea.stderr_text()
    assert rea.metric("rea_event_sqlite_waiting") > 0
    assert steps(timeline(rea, "order-59")["events"]) == RETRY_SUCCESS  # from memory
    (small_disk / "junk").unlink()
    written(rea)
    assert rea.metric("rea_event_sqlite_failing") == 0
    wait_for(lambda: "rea: events are written to events.sqlite again" in rea.stderr_text())
    assert rea.metric("rea_event_sqlite_dropped_total") == 0
    with sqlite3.connect(small_disk / "events.db") as connection:
        assert connection.execute("SELECT count(DISTINCT id) FROM event").fetchone() == (120,)
    connection.close()
    assert rea.stop() == 0
    rig.unchecked = True  # it has ended


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_disk_that_takes_nothing_at_the_start_keeps_no_call_from_being_carried(rig, small_disk, trouble):
    upstream = rig.upstream(A="status 503", B="echo")
    if trouble == "full":
        fill(small_disk)
    else:
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    rea = start(rig, upstream, str(small_disk / "events.db"))
    assert rea.request("GET", "/user-service/users/42", biz_id="order-1").status == 200
    wait_for(lambda: rea.metric("rea_event_sqlite_failing") == 1)
    ready = rea.get_admin("/readyz")
    assert ready.status == 200 and ready.text.startswith("ready\nevents: they cannot be written to events.sqlite: "), ready.text
    assert steps(timeline(rea, "order-1")["events"]) == RETRY_SUCCESS  # from memory
    if trouble == "full":
        (small_disk / "junk").unlink()
    else:
        subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    wait_for(lambda: rea.metric("rea_event_sqlite_failing") == 0, 20)
    written(rea)
    assert rea.get_admin("/readyz").text == "ready" and rea.metric("rea_event_sqlite_dropped_total") == 0
    with sqlite3.connect(small_disk / "events.db") as connection:
        assert connection.execute("SELECT count(DISTINCT id) FROM event").fetchone() == (2,)
    connection.close()
    assert rea.stop() == 0
    rig.unchecked = True  # it has ended


# ---- rea timeline


def run_timeline(*arguments):
    return subprocess.run([REA, "timeline", *arguments], capture_output=True, text=True, timeout=20)


def lines_of(result):
    """But for the first one, whose time of day is exact to the millisecond of either source, and costs, which JSON has rounded once already."""
    return [re.sub(r"\d+\.\d ms", "? ms", line) for line in result.stdout.splitlines()[1:]]


def test_rea_timeline_reads_the_database(rig, tmp_path):
    upstream, db = rig.upstream(A="status 503", B="echo"), database(tmp_path)
    rea = start(rig, upstream, db)
    assert rea.request("GET", "/user-service/users/42", biz_id="order-1").status == 200
    written(rea)
    for _ in range(2):  # while rea runs, and after it
        result = run_timeline("--file", db, "order-1")
        assert result.returncode == 0 and "success after 2 attempts (1 retry)" in result.stdout, result
        document = json.loads(run_timeline("--json", "--file", db, "order-1").stdout)
        assert steps(document["events"]) == RETRY_SUCCESS and document["biz_id"] == "order-1" and document["left_out"] == 0
        result = run_timeline("--file", db, "order-2")
        assert result.returncode == 1 and result.stderr == f"rea: {db} has no event of biz_id order-2\n"
        if rea.popen.poll() is None:
            rig.check_invariants()
            assert rea.stop() == 0
    rig.unchecked = True
    (tmp_path / "torn.db").write_bytes((tmp_path / "events.db").read_bytes()[:100])
    result = run_timeline("--file", str(tmp_path / "torn.db"), "order-1")
    assert result.returncode == 1 and result.stderr.startswith(f"rea: cannot read {tmp_path}/torn.db: "), result


def test_rea_timeline_reads_the_configuration(rig, tmp_path):
    upstream, db = rig.upstream(A="status 503", B="echo"), database(tmp_path)
    rea = start(rig, upstream, db)
    assert rea.request("GET", "/user-service/users/42", biz_id="order-1").status == 200
    written(rea)
    config = json.loads(rea.config_path.read_text())
    config["admin"] = rea.admin
    path = tmp_path / "fixed.yaml"
    path.write_text(json.dumps(config))
    asked = run_timeline("--config", path, "order-1")
    assert asked.returncode == 0 and asked.stderr == "" and "success after 2 attempts" in asked.stdout, asked
    rig.check_invariants()
    assert rea.stop() == 0
    read = run_timeline("--config", path, "order-1")
    assert read.returncode == 0 and lines_of(read) == lines_of(asked), read
    assert read.stderr == f"rea: nothing answers at {rea.admin}; this is what {db} has\n"
    del config["events"]["sqlite"]
    path.write_text(json.dumps(config))
    read = run_timeline("--config", path, "order-1")
    assert read.returncode == 0 and f"this is what {rea.events_path} has" in read.stderr and lines_of(read) == lines_of(asked), read
    config["events"] = {}
    path.write_text(json.dumps(config))
    read = run_timeline("--config", path, "order-1")
    assert read.returncode == 1 and f"cannot ask the admin API at {rea.admin}" in read.stderr, read
    path.write_text("events: {sqlite-max-mb: 7}")
    read = run_timeline("--config", path, "order-1")
    assert read.returncode == 2 and "events.sqlite-max-mb: expected a whole number from 8 to 1048576" in read.stderr, read
    rig.unchecked = True


# ---- GET /v1/events/stream


class Stream:
    """Server-sent events as they come."""

    def __init__(self, rea, query="", fields=()):
        self.connection = Connection(rea.admin)
        self.connection.send(head("GET", "/v1/events/stream" + query, [("Host", rea.admin), *fields]))
        self.text = ""
        self.wait("retry: 2000\n\n")

    def fill(self):
        assert self.connection.fill(), f"ended: {self.connection.buffer}"
        self.text = "".join(line for line in self.connection.buffer.decode().split("\r\n") if "\n" in line)

    def wait(self, text):
        while text not in self.text:
            self.fill()

    def wait_for(self, count):
        while len(self.events()) < count:
            self.fill()

    def events(self):
        """(id, type, data) of each."""
        blocks = [dict(line.split(": ", 1) for line in block.split("\n") if ": " in line) for block in self.text.split("\n\n")]
        return [(int(block["id"]), block["event"], json.loads(block["data"])) for block in blocks if "data" in block]


def test_events_as_they_come(rig):
    _, rea = rig.pair("status 503")
    everything, one = Stream(rea), Stream(rea, "?biz_id=order-2&type=Success,GiveUp")
    for i in range(3):
        assert rea.request("GET", "/user-service/users/42", biz_id=f"order-{i}").status == 200
    everything.wait_for(6)
    assert [(type, data["biz_id"]) for _, type, data in everything.events()] == [
        (type, f"order-{i}") for i in range(3) for type in ("Retry", "Success")
    ]
    ids = [id for id, _, _ in everything.events()]
    assert ids == sorted(set(ids))
    assert [data for _, _, data in everything.events()] == rea.events()
    one.wait_for(1)
    assert [(type, data["biz_id"]) for _, type, data in one.events()] == [("Success", "order-2")]
    # It goes on where it stopped.
    again = Stream(rea, fields=[("Last-Event-ID", ids[3])])
    again.wait(f"id: {ids[5]}\n")
    assert [id for id, _, _ in again.events()] == ids[4:]
    assert rea.metric("rea_event_followers") == 3


def test_a_stream_ends_with_rea(rig):
    upstream = rig.upstream(A="status 503", B="echo")
    rea = rig.serve(service(*upstream.addresses.values()))
    stream = Stream(rea)
    assert rea.request("GET", "/user-service/users/42", biz_id="order-1").status == 200
    stream.wait("event: Success")
    last = stream.events()[-1][0]
    rig.check_invariants()
    assert rea.stop() == 0
    while stream.connection.fill():
        pass
    assert stream.connection.buffer.endswith(b"\r\n0\r\n\r\n")
    # Whoever comes back to its successor learns that it may have missed something.
    rea = rig.serve(service(*upstream.addresses.values()))
    stream = Stream(rea, fields=[("Last-Event-ID", last)])
    assert rea.request("GET", "/user-service/users/42", biz_id="order-2").status == 200
    stream.wait("event: Success")
    assert [type for _, type, _ in stream.events()] == ["lost", "Retry", "Success"]
    assert stream.events()[0][2] == {"lost": 0, "restarted": True}
    rig.unchecked = True


def test_events_of_a_ring_of_none(rig):
    _, rea = rig.pair("echo", events={"ring": 0})
    reply = rea.get_admin("/v1/events/stream")
    assert reply.status == 404 and "events.ring is 0" in reply.text
