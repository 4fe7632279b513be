"""rea tasks: what it asks of the task API, and what it makes of the answers. A scripted API stands in here for what a healthy rea never does."""
import http.server
import json
import os
import socket
import subprocess
import threading

import pytest

from rig import REA, service, wait_for


class Api(http.server.ThreadingHTTPServer):
    """Answers from a script: a list of (status, document[, fields]) for each request, or a function of (method, path, body)."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.script = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.server_port}"

    def answer(self, method, path, body):
        self.seen.append((method, path, body))
        if callable(self.script):
            return self.script(method, path, body)
        return self.script.pop(0)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        text = self.rfile.read(int(self.headers.get("content-length") or 0))
        answer = self.server.answer(self.command, self.path, json.loads(text) if text else None)
        if answer is None:  # the reply is lost
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, document, *fields = answer
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in [("Content-Length", len(body)), *(fields[0] if fields else [])]:
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


@pytest.fixture
def api():
    server = Api()
    yield server
    server.shutdown()
    server.server_close()


def task(number, **more):
    return {
        "id": str(number),
        "state": "PENDING",
        "generation": 1,
        "attempts": 0,
        "target": "user-service",
        "service": "user-service",
        "method": "POST",
        "path": "/pay",
        "biz_id": None,
        "key": None,
        "due": "2026-01-02T03:04:05.678Z",
        "reason": "",
        **more,
    }


def problem(status, detail, **more):
    return {"type": "about:blank", "title": "Refused", "status": status, "detail": detail, **more}


def tasks(api, *arguments, stdin=b"", env=(), **more):
    environment = {**os.environ, "REA_ADMIN": api.address if api else "127.0.0.1:1", **dict(env)}
    return subprocess.run([REA, "tasks", *map(str, arguments)], input=stdin, capture_output=True, env=environment, timeout=60, **more)


# ---------------------------------------------------------------- submit


def test_submit(api):
    api.script = [(202, task(17))]
    result = tasks(
        api, "submit", "user-service/pay?x=1", "-X", "PUT", "-H", "X-A: b", "-H", "X-Empty:", "-d", "hello", "-k", "key-7", "-b", "order-7",
        "-p", "max-attempts=5", "-p", "jitter=0.5", "-p", "retry-on=never_sent,failed", "--delay-ms", 100, "--max-age-ms", 5000, "--sync-first",
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert api.seen == [
        (
            "POST",
            "/v1/tasks",
            {
                "service": "user-service",
                "path": "/pay?x=1",
                "method": "PUT",
                "headers": {"X-A": "b", "X-Empty": ""},
                "body": "hello",
                "key": "key-7",
                "biz_id": "order-7",
                "policy": {"max-attempts": 5, "jitter": 0.5, "retry-on": ["never_sent", "failed"]},
                "delay_ms": 100,
                "max_age_ms": 5000,
                "mode": "sync-first",
            },
        )
    ]
    assert dict(line.split() for line in result.stdout.decode().splitlines() if len(line.split()) == 2) == {
        "id": "17", "state": "PENDING", "generation": "1", "attempts": "0", "target": "user-service", "service": "user-service",
        "method": "POST", "path": "/pay", "due": "2026-01-02T03:04:05.678Z", "reason": "-",
    }


def test_submit_to_a_url_with_bytes(api, tmp_path):
    api.script = [(202, task(1))] * 3
    (tmp_path / "body").write_bytes(b"\xff\0\1")
    assert tasks(api, "submit", "https://hooks.example.com/a?b", "-d", f"@{tmp_path}/body", "--not-before", "2026-12-01T08:00:00Z").returncode == 0
    assert api.seen[0][2] == {"url": "https://hooks.example.com/a?b", "body_base64": "/wAB", "not_before": "2026-12-01T08:00:00Z"}
    for body, base64 in ((b"\xff", "/w=="), (b"\xff\xfe", "//4=")):
        tasks(api, "submit", "s/p", "-d", "@-", stdin=body)
        assert api.seen[-1][2] == {"service": "s", "path": "/p", "body_base64": base64}


def test_json_is_what_the_api_said(api):
    api.script = [(202, task(17))]
    assert json.loads(tasks(api, "submit", "-j", "s/p").stdout) == task(17)


def test_a_problem_is_a_sentence(api):
    api.script = [(422, problem(422, "jitter is 0; it must be above 0", field="/policy/jitter")), (503, problem(503, "the queue\x1b[31m is full")), (404, b"<html>")]
    result = tasks(api, "submit", "s/p", "-p", "jitter=0")
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == b"rea tasks: jitter is 0; it must be above 0 (field /policy/jitter, 422)\n"
    assert tasks(api, "submit", "s/p").stderr == b"rea tasks: the queue?[31m is full (503)\n"
    assert tasks(api, "submit", "s/p").stderr.startswith(b"rea tasks: what answers at ")


def test_nobody_there():
    result = tasks(None, "list")
    assert result.returncode == 1
    assert result.stderr.startswith(b"rea tasks: cannot ask the admin API at 127.0.0.1:1: Failed to connect")
    assert result.stdout == b""  # no title over nothing


def test_where_the_api_is(api):
    api.script = lambda *_: (200, {"tasks": [], "next": None})
    nowhere = [("REA_ADMIN", "127.0.0.1:1")]
    for admin in (api.address, f"http://{api.address}", f"http://{api.address}/"):
        assert tasks(api, "list", "--admin", admin, env=nowhere).returncode == 0
    assert tasks(api, "list", env=[("REA_ADMIN", f"http://{api.address}"), ("http_proxy", "http://127.0.0.1:1")]).returncode == 0
    assert {path for _, path, _ in api.seen} == {"/v1/tasks?limit=100"}


# ---------------------------------------------------------------- many at once


class Queue:
    """The least that a bulk submit can count on: keys."""

    def __init__(self):
        self.tasks = {}
        self.broken = None  # (method, path, body) -> answer, or False for none of its own

    def __call__(self, method, path, body):
        assert (method, path) == ("POST", "/v1/tasks") and 1 <= len(body) <= 1000
        answer = self.broken and self.broken(body)
        if answer:
            return answer
        return 200, {"results": [self.submit(entry) for entry in body]}

    def submit(self, entry):
        if entry.get("path") == "bad":
            return {"status": 422, "problem": problem(422, "a path begins with a slash", field="/path")}
        existed = entry["key"] in self.tasks
        if existed and self.tasks[entry["key"]] != entry:
            return {"status": 422, "problem": problem(422, "this key is another task's", field="/key")}
        self.tasks[entry["key"]] = entry
        return {"status": 202, "task": task(len(self.tasks), key=entry["key"], **({"existed": True} if existed else {}))}


def lines_of(*entries):
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


def entries(count):
    return [{"service": "s", "path": f"/{n}"} for n in range(count)]


def test_each_line_is_a_task_and_again_is_the_same(api, tmp_path):
    api.script = queue = Queue()
    path = tmp_path / "jobs.jsonl"
    path.write_bytes(lines_of(*entries(250)))
    result = tasks(api, "submit", "--file", path)
    assert result.returncode == 0
    assert result.stderr == b"rea tasks: 250 lines: 250 taken, 0 there already, 0 refused\n"
    assert [len(body) for _, _, body in api.seen] == [100, 100, 50]
    assert [entry["path"] for entry in queue.tasks.values()] == [f"/{n}" for n in range(250)]
    assert tasks(api, "submit", "--file", path).stderr == b"rea tasks: 250 lines: 0 taken, 250 there already, 0 refused\n"
    assert len(queue.tasks) == 250
    # A line more in front: only that one is new. Another prefix: all are.
    path.write_bytes(lines_of({"service": "s", "path": "/new"}, *entries(250)))
    assert b": 1 taken, 250 there already" in tasks(api, "submit", "-f", path).stderr
    assert b": 251 taken, 0 there already" in tasks(api, "submit", "-f", path, "--key-prefix", "again").stderr


def test_long_lines_make_short_batches(api):
    api.script = Queue()
    long = [{"service": "s", "path": f"/{n}", "body": "x" * size} for n, size in enumerate([200_000, 200_000, 200_000, 900_000, 10])]
    assert tasks(api, "submit", "-f", "-", stdin=lines_of(*long)).returncode == 0
    assert [[entry["path"] for entry in body] for _, _, body in api.seen] == [["/0", "/1"], ["/2"], ["/3"], ["/4"]]


def test_equal_lines_are_as_many_tasks_and_own_keys_are_kept(api):
    api.script = queue = Queue()
    text = lines_of({"service": "s", "path": "/a"}, {"service": "s", "path": "/a"}, {"service": "s", "path": "/b", "key": "mine"})
    assert tasks(api, "submit", "-f", "-", stdin=text).returncode == 0
    assert tasks(api, "submit", "-f", "-", stdin=text + b"\r\n\n").returncode == 0
    assert len(queue.tasks) == 3 and "mine" in queue.tasks


def test_a_bad_line_is_told_and_the_others_go(api):
    api.script = queue = Queue()
    text = lines_of({"service": "s", "path": "/a"}) + b"{nonsense\n[]\n" + lines_of({"service": "s", "path": "bad"}, {"service": "s", "path": "/b"})
    result = tasks(api, "submit", "-f", "-", stdin=text)
    assert result.returncode == 1 and len(queue.tasks) == 2
    errors = result.stderr.decode().splitlines()
    assert errors[0].startswith("rea tasks: standard input:2: ") and errors[0].endswith("(400)")
    assert errors[1:] == [
        "rea tasks: standard input:3: a line is a JSON object (400)",
        "rea tasks: standard input:4: a path begins with a slash (field /path, 422)",
        "rea tasks: 5 lines: 2 taken, 0 there already, 3 refused",
    ]


def test_a_full_queue_and_lost_replies_are_waited_for(api):
    queue = Queue()
    rounds = []

    def broken(body):
        rounds.append(len(body))
        if len(rounds) == 1:  # everything is taken, and nobody hears of it
            for entry in body:
                queue.submit(entry)
            return "lost"
        if len(rounds) == 2:
            return 503, problem(503, "the queue is full"), [("Retry-After", 1)]
        if len(rounds) == 3:  # half of it
            return 200, {"results": [queue.submit(entry) if n % 2 else {"status": 503, "problem": problem(503, "full")} for n, entry in enumerate(body)]}
        return False

    queue.broken = broken
    api.script = lambda *request: None if (answer := queue(*request)) == "lost" else answer
    result = tasks(api, "submit", "-f", "-", stdin=lines_of(*entries(10)))
    assert result.returncode == 0 and len(queue.tasks) == 10
    assert rounds == [10, 10, 10, 5]
    assert result.stderr == b"rea tasks: 10 lines: 0 taken, 10 there already, 0 refused\n"


def test_what_cannot_go_on_says_how_to(api):
    api.script = [(200, {"results": []}), (413, problem(413, "the body is too long"))]
    result = tasks(api, "submit", "-f", "-", stdin=lines_of(*entries(3)))
    assert result.returncode == 1
    assert b"what answers at" in result.stderr and b"not finished: hand the same file in again" in result.stderr
    assert b"the body is too long (413)" in tasks(api, "submit", "-f", "-", stdin=lines_of(*entries(3))).stderr


# ---------------------------------------------------------------- looking


def test_list(api):
    pages = {None: ([task(n) for n in range(500)], "c/500"), "c%2F500": ([task(n, reason="permanent") for n in range(500, 620)], None)}
    api.script = lambda method, path, body: (200, dict(zip(("tasks", "next"), pages[path.split("cursor=")[1] if "cursor=" in path else None])))
    result = tasks(api, "list", "--all", "-s", "GIVEN_UP,RETRYING", "-t", "https://a", "-b", "o 1")
    assert result.returncode == 0
    lines = result.stdout.decode().splitlines()
    assert lines[0].split() == ["ID", "STATE", "ATTEMPTS", "TARGET", "METHOD", "PATH", "DUE", "REASON"]
    assert len(lines) == 621 and lines[620].split() == ["619", "PENDING", "0", "user-service", "POST", "/pay", "2026-01-02T03:04:05.678Z", "permanent"]
    assert [path for _, path, _ in api.seen] == [
        f"/v1/tasks?state=GIVEN_UP%2CRETRYING&target=https%3A%2F%2Fa&biz_id=o%201&limit=500{cursor}" for cursor in ("", "&cursor=c%2F500")
    ]
    result = tasks(api, "list", "-n", 500, "-j")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [str(n) for n in range(500)]
    assert b"there are more" in tasks(api, "list", "-n", 500).stderr


def test_show(api):
    attempts = [
        {"number": 1, "generation": 1, "outcome": "unavailable", "code": 503, "start": "2026-01-02T03:04:05.678Z", "cost_ms": 12.34, "instance": "127.0.0.1:9001", "reason": "", "detail": ""},
        {"number": 2, "generation": 1, "start": "2026-01-02T03:04:06.678Z", "interrupted": True, "reason": "not_declared", "detail": "the process ended"},
    ]
    script = [(200, task(17, biz_id="order\x1b[31m")), (200, {"attempts": attempts[:1], "next": "1"}), (200, {"attempts": attempts[1:], "next": None})]
    api.script = list(script)
    result = tasks(api, "show", 17)
    assert [path for _, path, _ in api.seen] == ["/v1/tasks/17", "/v1/tasks/17/attempts", "/v1/tasks/17/attempts?after=1"]
    lines = result.stdout.decode().splitlines()
    assert "biz_id      order?[31m" in lines  # nothing that a terminal would obey
    assert lines[-3].split() == ["#", "START", "OUTCOME", "CODE", "COST", "MS", "INSTANCE", "REASON"]
    assert lines[-2].split() == ["1", "2026-01-02T03:04:05.678Z", "unavailable", "503", "12.3", "127.0.0.1:9001", "-"]
    assert lines[-1].split() == ["2", "2026-01-02T03:04:06.678Z", "interrupted", "-", "-", "-", "not_declared", "the", "process", "ended"]
    api.script = list(script)
    assert [json.loads(line) for line in tasks(api, "show", "-j", 17).stdout.splitlines()] == [script[0][1], *attempts]
    api.script = [(404, problem(404, "there is no task 18"))]
    result = tasks(api, "show", 18)
    assert (result.returncode, result.stdout, result.stderr) == (1, b"", b"rea tasks: there is no task 18 (404)\n")


def test_targets(api):
    target = {"name": "user-service", "paused": True, "paused_until": "2026-01-02T03:04:05.678Z", "why": "deploy", "draining": False, "running": 2, "waiting": 30, "concurrency": 8, "rate": None, "breaker": "closed"}
    api.script = [(200, {"targets": [target, {**target, "name": "b", "paused": False, "paused_until": None, "why": "", "draining": True}]})]
    lines = tasks(api, "targets").stdout.decode().splitlines()
    assert lines[1].split() == ["user-service", "paused", "2", "30", "8", "closed", "deploy,", "until", "2026-01-02T03:04:05.678Z"]
    assert lines[2].split() == ["b", "draining", "2", "30", "8", "closed", "-"]


# ---------------------------------------------------------------- changing


def test_cancel(api):
    api.script = [(200, task(1, state="CANCELLED")), (409, problem(409, "task 2 is over")), (200, task(3, state="CANCELLED"))]
    result = tasks(api, "cancel", 1, 2, 3)
    assert result.returncode == 1 and result.stderr == b"rea tasks: task 2 is over (409)\n"
    assert [line.split()[:2] for line in result.stdout.decode().splitlines()] == [["1", "CANCELLED"], ["3", "CANCELLED"]]
    assert api.seen == [("POST", f"/v1/tasks/{n}/cancel", None) for n in (1, 2, 3)]


def test_replay(api):
    api.script = [(200, task(1, generation=2)), (200, {"matched": 7, "replayed": 5, "next": "x"})]
    assert tasks(api, "replay", 1, "--force", "--delay-ms", 50).returncode == 0
    result = tasks(api, "replay", "-s", "GIVEN_UP,CANCELLED", "-t", "user-service", "-b", "o", "-n", 5, "--dry-run")
    assert result.stdout == b"7 matched, 5 replayed; there are more\n"
    assert api.seen == [
        ("POST", "/v1/tasks/1/replay", {"force": True, "delay_ms": 50}),
        ("POST", "/v1/tasks/replay", {"state": ["GIVEN_UP", "CANCELLED"], "target": "user-service", "biz_id": "o", "limit": 5, "dry_run": True}),
    ]


def test_pause_resume_drain(api):
    target = {"name": "https://a", "paused": True}
    api.script = [(200, target)] * 4
    assert tasks(api, "pause", "https://a", "--for", 60, "--why", "deploy").stdout.split()[:2] == [b"https://a", b"paused"]
    for arguments in (["pause", "b"], ["resume", "b"], ["drain", "b"]):
        assert tasks(api, *arguments).returncode == 0
    assert api.seen == [
        ("POST", "/v1/targets/https%3A%2F%2Fa/pause", {"for_ms": 60000, "why": "deploy"}),
        ("POST", "/v1/targets/b/pause", {}),
        ("POST", "/v1/targets/b/resume", None),
        ("POST", "/v1/targets/b/drain", None),
    ]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "usage"),
        (["frob"], "there is no command: frob"),
        (["submit"], "where to?"),
        (["submit", "user-service"], "where to?"),
        (["submit", "/path"], "where to?"),
        (["submit", "s/p", "-H", "x"], "a header is NAME: VALUE"),
        (["submit", "s/p", "-p", "x"], "--policy is KEY=VALUE"),
        (["submit", "s/p", "--delay-ms", "x"], "--delay-ms is a whole number: x"),
        (["submit", "s/p", "--key", b"\xff"], "not UTF-8: key"),
        (["submit", "s/p", "-f", "x"], "each line says for itself"),
        (["submit", "s/p", "--key-prefix", "x"], "--key-prefix is for"),
        (["submit", "s/p", "--state", "PENDING"], "does not belong to: submit"),
        (["list", "--dry-run"], "does not belong to: list"),
        (["list", "x"], "list"),
        (["list", "-n", "x"], "--limit is a whole number"),
        (["show"], "show"),
        (["replay"], "which?"),
        (["replay", "1", "-s", "GIVEN_UP"], "either IDs or a filter"),
        (["pause", "x", "--for", "-1"], "--for is a whole number"),
        (["pause"], "pause"),
    ],
)
def test_wrong_usage(api, arguments, message):
    result = subprocess.run([REA, "tasks", *arguments], capture_output=True, env={**os.environ, "REA_ADMIN": api.address}, timeout=30)
    assert result.returncode == 2 and message in result.stderr.decode(errors="replace")
    assert api.seen == []


# ---------------------------------------------------------------- a real one


@pytest.fixture
def real(rig, tmp_path):
    """A rea with tasks, and `rea tasks` for it."""
    upstream = rig.upstream(A="on POST /pay\nstatus 503\nstatus 200\non POST /bad\nstatus 400\non POST /ok\nstatus 200")
    operations = [{"post": path, "id": path[1:], "retryable": "with-key"} for path in ("/pay", "/bad", "/ok")]
    config = service(upstream.address("A"), operations=operations, tasks={"file": str(tmp_path / "tasks.db"), "policy": {"min-backoff-ms": 20}})
    serve = rig.serve(config)
    rig.unchecked = True  # its invariants are of calls

    def run(*arguments, stdin=b""):
        return tasks(None, *arguments, stdin=stdin, env=[("REA_ADMIN", serve.admin)])

    run.upstream = upstream
    return run


def state_of(real, number):
    return json.loads(real("show", "-j", number).stdout.splitlines()[0])["state"]


def test_the_life_of_a_task(real):
    result = real("submit", "user-service/pay", "-k", "key-1", "-b", "order-1", "-d", "hello")
    assert result.returncode == 0 and b"PENDING" in result.stdout
    wait_for(lambda: state_of(real, 1) == "SUCCESS")
    lines = real("show", 1).stdout.decode().splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["1", "2"] and "unavailable" in lines[-2] and " ok " in lines[-1]
    assert {seen.field("idempotency-key") for seen in real.upstream.requests()} == {"key-1"}
    assert json.loads(real("submit", "-j", "user-service/pay", "-k", "key-1", "-b", "order-1", "-d", "hello").stdout)["existed"] is True
    assert b"(field /key, 422)" in real("submit", "user-service/pay", "-k", "key-1", "-d", "other").stderr
    assert b"succeeded" in real("replay", 1).stderr
    assert real("replay", 1, "--force").returncode == 0
    wait_for(lambda: len(real.upstream.requests()) == 3)


def test_refused_for_good_and_replayed_by_filter(real):
    assert real("submit", "user-service/bad", "-k", "b").returncode == 0
    wait_for(lambda: state_of(real, 1) == "GIVEN_UP")
    assert b"permanent" in real("list", "-s", "GIVEN_UP").stdout
    assert real("replay", "-s", "GIVEN_UP", "--dry-run").stdout == b"1 matched, 0 replayed\n"
    assert real("replay", "-s", "GIVEN_UP", "-t", "user-service").stdout == b"1 matched, 1 replayed\n"
    wait_for(lambda: len(real.upstream.requests()) == 2)


def test_cancel_and_pause_a_real_one(real):
    assert real("submit", "user-service/ok", "-k", "c", "--delay-ms", 600000).returncode == 0
    assert b"CANCELLED" in real("cancel", 1).stdout
    assert b"over already (409)" in real("cancel", 1).stderr
    assert real("pause", "user-service", "--for", 600, "--why", "deploy").stdout.split()[1] == b"paused"
    assert b"deploy" in real("targets").stdout
    assert real("submit", "user-service/ok", "-k", "d").returncode == 0
    assert real("resume", "user-service").stdout.split()[1] == b"open"
    wait_for(lambda: state_of(real, 2) == "SUCCESS")


def test_many_at_once_and_again(real):
    text = lines_of(*({"service": "user-service", "path": "/ok", "body": "x" * 6000, "biz_id": f"o-{n}"} for n in range(250)), {"service": "nobody", "path": "/ok"})
    result = real("submit", "-f", "-", stdin=text)
    assert result.returncode == 1
    lines = result.stderr.decode().splitlines()
    assert lines[0].startswith("rea tasks: standard input:251: there is no such service (field /") and lines[0].endswith("service, 422)")
    assert lines[1:] == ["rea tasks: 251 lines: 250 taken, 0 there already, 1 refused"]
    assert b": 0 taken, 250 there already, 1 refused" in real("submit", "-f", "-", stdin=text).stderr
    wait_for(lambda: len(real.upstream.requests()) >= 250, 20)
    assert len(real("list", "--all", "-j").stdout.splitlines()) == 250
    assert json.loads(real("list", "-j", "-b", "o-7").stdout)["biz_id"] == "o-7"
