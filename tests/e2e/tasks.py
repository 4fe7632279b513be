"""Tasks, for tests: a client of the task API, and the invariants of DESIGN.md section 11 as they hold for tasks."""
import collections
import datetime
import http.client
import json
import time
import urllib.parse

from rig import FINAL, wait_for

OVER = ("SUCCESS", "GIVEN_UP", "CANCELLED")

OPERATIONS = [
    {"post": "/orders", "id": "create", "retryable": "with-key"},
    {"put": "/orders/{id}", "id": "put", "retryable": True},
    {"post": "/refunds", "id": "refund"},
    {"post": "/never", "id": "never", "retryable": False},
]


def config(directory, instances, name="pay", operations=OPERATIONS, retry=None, tasks=None, **more):
    document = {
        "services": {name: {"balance": "listed", "instances": list(instances)}},
        "contracts": {name: {"context": "pay", "operations": list(operations)}},
        "rpc": {"feign": {"retry": {"budget": {"ratio": 1.0, "reserve": 100000}, **(retry or {})}}},
        "tasks": {"file": str(directory / "tasks.db"), **(tasks or {})},
    }
    document.update(more)
    return document


class Tasks:
    """One connection to the admin API of a rea, made anew when it was closed."""

    def __init__(self, rea):
        self.rea = rea
        self.connection = None
        self.acked = []

    def ask(self, method, path, body=None, fields=None, timeout=20):
        host, port = self.rea.admin.rsplit(":", 1)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        try:
            connection.request(method, path, data, fields or {})
            reply = connection.getresponse()
            text = reply.read()
            document = json.loads(text) if text else None
            return reply.status, document, {name.lower(): value for name, value in reply.getheaders()}
        finally:
            connection.close()

    def submit(self, status=202, **task):
        task.setdefault("service", "pay")
        if "url" in task:
            del task["service"]
        else:
            task.setdefault("path", "/orders")
        got, document, _ = self.ask("POST", "/v1/tasks", task)
        assert got == status, (got, document)
        if got < 300 and document["id"] is not None:
            self.acked.append(document["id"])
        return document

    def get(self, task):
        status, document, _ = self.ask("GET", f"/v1/tasks/{task}")
        assert status == 200, document
        return document

    def attempts(self, task):
        status, document, _ = self.ask("GET", f"/v1/tasks/{task}/attempts?limit=1000")
        assert status == 200, document
        return document["attempts"]

    def until(self, task, *states, timeout=10):
        def look():
            document = self.get(task)
            return document["state"] in states and document

        return wait_for(look, timeout, f"task {task} is {states}; it is {self.get(task)}")

    def post(self, path, body=None, status=200):
        got, document, _ = self.ask("POST", path, body)
        assert got == status, (got, document)
        return document

    def list(self, query=""):
        """All pages."""
        tasks, cursor = [], None
        while True:
            status, page, _ = self.ask("GET", f"/v1/tasks?limit=500{query}" + (f"&cursor={cursor}" if cursor else ""))
            assert status == 200, page
            tasks += page["tasks"]
            cursor = page["next"]
            if cursor is None:
                return tasks

    def target(self, name="pay"):
        status, document, _ = self.ask("GET", f"/v1/targets/{name}")
        assert status == 200, document
        return document


def events_of(rea, task):
    return [event for event in rea.events() if event.get("call_id") == str(task)]


def requests_of(upstreams):
    """By business id."""
    seen = collections.defaultdict(list)
    for upstream in upstreams:
        for request in upstream.requests():
            if request.field("x-biz-id"):
                seen[request.field("x-biz-id")].append(request)
    return seen


def was_sent(attempt):
    """For sure."""
    blocked = attempt["reason"] == "blocked"
    return attempt["outcome"] not in ("never_sent", "cancelled") and not attempt["interrupted"] and not blocked


def check(tasks, upstreams=(), complete=True, killed=False, restarted=False):
    """I1 to I9. complete: every event and request since the tasks began is at hand. killed: an attempt may have been interrupted."""
    rea = tasks.rea
    states = [(tasks.get(task), tasks.attempts(task)) for task in tasks.acked]
    total = sum(was_sent(attempt) for _, attempts in states for attempt in attempts)
    if upstreams:
        wait_for(lambda: sum(len(upstream.requests()) for upstream in upstreams) >= total, 5, "I3: the instances have written down what they saw")
    seen = requests_of(upstreams)
    for task, (document, attempts) in zip(tasks.acked, states):
        assert document["state"] in OVER or document["state"] == "RUNNING" or document["due"], f"I1: {document}"
        numbers = [attempt["number"] for attempt in attempts]
        assert numbers == sorted(set(numbers)), f"I6: {attempts}"
        requests = seen.get(document.get("biz_id"), [])
        assert len({request.field("idempotency-key") for request in requests}) <= 1, f"I2: {requests}"
        assert len({request["body_sha256"] for request in requests if request["complete"]}) <= 1, f"I2: {requests}"
        if upstreams and document.get("biz_id") and document["state"] in OVER and "service" in document:
            sent = [attempt for attempt in attempts if was_sent(attempt)]
            unsure = [a for a in attempts if a["outcome"] == "cancelled" or a["interrupted"]]
            assert len(sent) <= len(requests) <= len(sent) + len(unsure), f"I3: {attempts} {requests}"
        check_rounds(attempts)
    if complete:
        check_all_events(rea, {task: document for task, (document, _) in zip(tasks.acked, states)}, killed)
    if not restarted:
        check_limits(tasks, states)
    if complete and not restarted:
        def written():
            recorded = sum(bool(event.get("call_id")) for event in rea.events())
            return rea.metric("rea_task_events_total") == recorded
        wait_for(written, 5, "I9: all events of tasks are in the file")


def check_all_events(rea, documents, killed, timeout=5):
    """A task is over when that is on disk; its event is told just after."""
    end = time.monotonic() + timeout
    while True:
        events = collections.defaultdict(list)
        for event in rea.events():
            events[event.get("call_id")].append(event)
        try:
            for task, document in documents.items():
                check_events(events[task], document, killed)
            return
        except AssertionError:
            if time.monotonic() > end:
                raise
        time.sleep(0.01)


def check_rounds(attempts):
    """I8, among the instances that the attempts of a generation show: none again before each has had its turn."""
    for generation in {attempt["generation"] for attempt in attempts}:
        places = [attempt["instance"] for attempt in attempts if attempt["generation"] == generation and attempt["instance"]]
        seen = set()
        for place in places:
            assert place not in seen, f"I8: {attempts}"
            seen.add(place)
            if seen == set(places):
                seen.clear()


def check_limits(tasks, states):
    """I5, from what is recorded. Times are cut to milliseconds, so each attempt may have ended one earlier."""
    edges = collections.defaultdict(list)
    for document, attempts in states:
        for attempt in attempts:
            begin = datetime.datetime.fromisoformat(attempt["start"].replace("Z", "+00:00")).timestamp() * 1000
            edges[document["target"]] += [(begin, 1), (max(begin, begin + attempt["cost_ms"] - 1), -1)]
    for target, list_of_edges in edges.items():
        level = 0
        for _, step in sorted(list_of_edges):
            level += step
            assert level <= tasks.target(urllib.parse.quote(target, safe=""))["concurrency"], f"I5: {target}"


def check_events(events, document, killed):
    finals = [event for event in events if event["type"] in FINAL]
    replays = [event for event in events if event["type"] == "Replay"]
    assert len(finals) <= document["generation"], f"I4: {events}"
    # Killed between the commit and the event, it tells less than there was, and never more.
    assert killed or len(replays) == document["generation"] - 1, f"I4: {events}"
    if document["state"] in OVER and document["attempts"] != 1 and not killed:
        assert events and events[-1]["type"] in FINAL, f"I4: {events}"
    for before, after in zip(events, events[1:]):
        assert killed or before["type"] not in FINAL or after["type"] == "Replay", f"I4: {events}"
