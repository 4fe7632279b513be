"""
The rig of the end-to-end tests: scripted upstreams (`rea upstream`), `rea serve` between, and a plain client, all on loopback ports that the kernel chose.

Tests wait for what they expect to happen (`wait_for`), never for time to pass. After each test `Rig.check_invariants` compares what the client asked for, what the
instances saw and what rea recorded (DESIGN.md section 11). All times are CLOCK_MONOTONIC nanoseconds, in this process and in the programs.
"""
import collections
import contextlib
import itertools
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time

MS = 1_000_000
S = 1_000_000_000
REA = os.environ.get("REA_BIN", "rea")
FINAL = ("Success", "GiveUp", "WouldRetry")  # the last event of a call; WouldRetry stands for the retry that observe mode does not make


def now_ns():
    return time.monotonic_ns()


def wait_for(predicate, timeout=5.0, what=None):
    """The first true value of predicate; fails the test after timeout seconds."""
    end = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what or predicate}")
        time.sleep(0.004)


def read_json_lines(path):
    """The whole lines of a file that is being written."""
    try:
        text = pathlib.Path(path).read_bytes()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]


def pattern(size):
    """What an instance sends for `body-bytes size`."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


# ---------------------------------------------------------------- processes


class Process:
    """A program of ours: started with its output in files, ended by its pid."""

    def __init__(self, directory, name, arguments, preexec=None):
        self.stdout_path = directory / f"{name}.out"
        self.stderr_path = directory / f"{name}.err"
        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self.popen = subprocess.Popen([REA, *arguments], stdout=out, stderr=err, stdin=subprocess.DEVNULL, preexec_fn=preexec)
        self.name = name

    @property
    def pid(self):
        return self.popen.pid

    def stdout_lines(self):
        text = self.stdout_path.read_text()
        return text[: text.rfind("\n") + 1].splitlines()

    def stderr_text(self):
        return self.stderr_path.read_text()

    def wait_for_lines(self, predicate, timeout=10):
        def look():
            if self.popen.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self.popen.returncode}: {self.stderr_text()}")
            return predicate(self.stdout_lines())

        return wait_for(look, timeout, f"{self.name} is ready")

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout=15):
        return self.popen.wait(timeout)

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()

    def cpu_ns(self):
        """User and system time so far."""
        return int(pathlib.Path(f"/proc/{self.pid}/schedstat").read_text().split()[0])

    def memory_kib(self, key):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1])
        raise KeyError(key)

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Seen:
    """A request as an instance saw it: a line of the upstream's log."""

    def __init__(self, line):
        self.line = line

    def __getitem__(self, key):
        return self.line[key]

    def __repr__(self):
        return repr(self.line)

    def values(self, name):
        return [value for key, value in self["fields"] if key.lower() == name.lower()]

    def field(self, name):
        values = self.values(name)
        return values[0] if values else None


class Upstream(Process):
    """Instances in one process. scripts: name -> script text."""

    def __init__(self, directory, name, scripts, seed=1):
        self.log = directory / f"{name}.jsonl"
        arguments = ["upstream", "--log", str(self.log), "--seed", str(seed)]
        for instance, script in scripts.items():
            path = directory / f"{name}-{instance}.script"
            path.write_text(script)
            arguments += ["--listen", "127.0.0.1:0", "--name", instance, "--script", str(path)]
        super().__init__(directory, name, arguments)
        lines = self.wait_for_lines(lambda lines: len(lines) == len(scripts) and lines)
        self.addresses = {line.split()[0]: line.split()[-1] for line in lines}

    def address(self, instance):
        return self.addresses[instance]

    def lines(self, event, instance=None, path=None):
        return [
            Seen(line)
            for line in read_json_lines(self.log)
            if line["event"] == event and instance in (None, line["instance"]) and path in (None, line.get("path"))
        ]

    def requests(self, instance=None, path=None):
        return self.lines("request", instance, path)

    def aborted(self, instance=None):
        return self.lines("aborted", instance)


# ---------------------------------------------------------------- the client


class Reply:
    def __init__(self, status, fields, version="HTTP/1.1"):
        self.status = status
        self.version = version
        self.fields = fields
        self.body = b""
        self.trailers = []
        self.interims = []
        self.complete = False
        self.begin_ns = now_ns()
        self.end_ns = None

    def values(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def field(self, name):
        values = self.values(name)
        return values[0] if values else None

    @property
    def text(self):
        return self.body.decode()

    def __repr__(self):
        return f"<{self.status} {self.fields} {self.body[:80]!r}>"


class Closed(Exception):
    """The peer ended the connection where a reply should have begun."""


class Connection:
    """A client connection that shows everything that arrives."""

    def __init__(self, address, timeout=10):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def fill(self):
        """Read what there is, waiting for something; False at the peer's end."""
        data = self.socket.recv(262144)
        self.buffer += data
        return bool(data)

    def _line(self):
        while b"\r\n" not in self.buffer:
            if not self.fill():
                raise Closed(self.buffer)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line.decode("latin-1")

    def _fields(self):
        fields = []
        while True:
            line = self._line()
            if not line:
                return fields
            name, value = line.split(":", 1)
            fields.append((name, value.strip()))

    def _exactly(self, size, sink):
        left = size
        while left:
            if not self.buffer and not self.fill():
                raise Closed(b"in the middle of a body")
            sink(self.buffer[:left])
            taken = min(left, len(self.buffer))
            self.buffer = self.buffer[taken:]
            left -= taken

    def _chunks(self, reply, sink):
        while True:
            size = int(self._line().split(";")[0], 16)
            if size == 0:
                reply.trailers = self._fields()
                return
            self._exactly(size, sink)
            assert self._line() == ""

    def _body(self, reply, method, sink):
        if method == "HEAD" or reply.status in (204, 304):
            return
        if "chunked" in (reply.field("transfer-encoding") or ""):
            self._chunks(reply, sink)
        elif reply.field("content-length") is not None:
            self._exactly(int(reply.field("content-length")), sink)
        else:
            while self.buffer or self.fill():
                sink(self.buffer)
                self.buffer = b""

    def head(self):
        version, status, *_ = self._line().split(" ", 2)
        return Reply(int(status), self._fields(), version)

    def reply(self, method="GET", sink=None):
        """The next reply, its interim ones inside; sink takes the body's pieces instead of Reply.body."""
        interims = []
        reply = self.head()
        while 100 <= reply.status < 200 and reply.status != 101:
            interims.append(reply)
            reply = self.head()
        reply.interims = interims
        if reply.status == 101:
            return reply
        pieces = []
        try:
            self._body(reply, method, sink or pieces.append)
            reply.complete = True
        except (Closed, ConnectionResetError):
            pass
        reply.body = b"".join(pieces)
        reply.end_ns = now_ns()
        return reply

    def at_end(self):
        """Has the peer closed, with nothing more said?"""
        try:
            return not self.buffer and not self.fill()
        except ConnectionResetError:
            return True


def head(method, target, fields):
    lines = [f"{method} {target} HTTP/1.1"] + [f"{name}: {value}" for name, value in fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunked(*pieces, trailers=()):
    encoded = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return encoded + b"0\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in trailers) + b"\r\n"


# ---------------------------------------------------------------- rea serve

Metric = collections.namedtuple("Metric", "name labels value")


def parse_metrics(text):
    metrics = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        series, value = line.rsplit(" ", 1)
        name, _, rest = series.partition("{")
        labels = dict(pair.split("=", 1) for pair in rest.rstrip("}").split(",") if pair)
        metrics.append(Metric(name, {key: label.strip('"') for key, label in labels.items()}, float(value)))
    return metrics


class Serve(Process):
    """rea serve on a configuration: a dict, or the text of the document."""

    ids = itertools.count(1)

    def __init__(self, directory, name, config, preexec=None, path=None):
        self.config_path = path or directory / f"{name}.yaml"
        self.events_path = directory / f"{name}-events.jsonl"
        self.allow_never_sent = False
        self.same_instance = False
        self.cycle = False  # a call begins new rounds
        if path is None:
            self.write_config(config)
        super().__init__(directory, name, ["serve", "--config", str(self.config_path)], preexec)
        lines = self.wait_for_lines(lambda lines: "rea: ready" in lines and lines)
        self.calls = self._address(lines, "rea: calls on ")
        self.admin = self._address(lines, "rea: admin on ")

    @staticmethod
    def _address(lines, prefix):
        return next(line[len(prefix) :] for line in lines if line.startswith(prefix))

    def write_config(self, config):
        """Replace the document as an editor does, in one step."""
        if isinstance(config, dict):
            config.setdefault("listen", "127.0.0.1:0")
            config.setdefault("admin", "127.0.0.1:0")
            config.setdefault("events", {}).setdefault("file", str(self.events_path))
            config = json.dumps(config, indent=2)
        draft = self.config_path.with_suffix(".new")
        draft.write_text(config)
        draft.rename(self.config_path)

    def config_events(self):
        return [event for event in self.events() if event["type"] == "Config"]

    def reload(self, config):
        """Install another document and return the Config event that says what became of it."""
        before = len(self.config_events())
        self.write_config(config)
        self.signal(signal.SIGHUP)
        return wait_for(lambda: self.config_events()[before:], what="a Config event")[0]

    def connect(self, timeout=10):
        return Connection(self.calls, timeout)

    def request(self, method, target, body=None, fields=(), biz_id=None, timeout=10):
        """One call on a connection of its own. Every call has a business id, by which invariants are checked."""
        fields = list(fields)
        names = {name.lower() for name, _ in fields}
        if "host" not in names:
            fields.insert(0, ("Host", self.calls))
        if "x-biz-id" not in names:
            fields.append(("x-biz-id", biz_id or self.new_biz_id()))
        if body is not None and not names & {"content-length", "transfer-encoding"}:
            fields.append(("Content-Length", len(body)))
        with self.connect(timeout) as connection:
            connection.send(head(method, target, fields) + (body or b""))
            return connection.reply(method)

    def new_biz_id(self):
        return f"b-{self.name}-{next(self.ids)}"

    def raw(self, data, timeout=5):
        """Send bytes, return all that comes until the peer closes."""
        with self.connect(timeout) as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.send(data)
            with contextlib.suppress(ConnectionResetError):
                while connection.fill():
                    pass
            return connection.buffer

    def events(self, biz_id=None):
        return [event for event in read_json_lines(self.events_path) if biz_id is None or event.get("biz_id") == biz_id]

    def timeline(self, biz_id, count=None, timeout=5):
        """The events of a call once its final one is there (or count of them are)."""

        def look():
            events = self.events(biz_id)
            done = len(events) >= count if count is not None else any(event["type"] in FINAL for event in events)
            return done and events

        return wait_for(look, timeout, f"final event of {biz_id}")

    def get_admin(self, path):
        with Connection(self.admin) as connection:
            connection.send(head("GET", path, [("Host", self.admin), ("Connection", "close")]))
            return connection.reply()

    def metrics(self):
        reply = self.get_admin("/metrics")
        assert reply.status == 200
        return parse_metrics(reply.text)

    def metric(self, name, **labels):
        """The sum of the samples that have these labels."""
        return sum(m.value for m in self.metrics() if m.name == name and labels.items() <= m.labels.items())

    def stop(self):
        """Drain and end; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()


# ---------------------------------------------------------------- the rig

GET_USER = {"get": "/users/{id}", "id": "getUserInfo", "retryable": True}
PAY = {"post": "/pay", "id": "pay", "retryable": True}
WIDE_BUDGET = {"ratio": 1.0, "reserve": 100000}


def service(*instances, operations=(GET_USER, PAY), retry=None, name="user-service", budget=WIDE_BUDGET, ejection=False, **more):
    """A configuration with one service, in the words of SCENARIOS.md: enabled, one retry, wide budget, no ejection, backoff 20 to 50 ms, deadline 2 s."""
    policy = {
        "enabled": True,
        "max-retry-next-instance": 1,
        "min-backoff-ms": 20,
        "max-backoff-ms": 50,
        "attempt-timeout-ms": 1000,
        "deadline-ms": 2000,
        "budget": budget,
    }
    policy.update(retry or {})
    config = {
        "services": {name: {"balance": "listed", "ejection": ejection, "instances": list(instances)}},
        "contracts": {name: {"context": "user-api", "operations": list(operations)}},
        "rpc": {"feign": {"retry": {key: value for key, value in policy.items() if value is not None}}},
    }
    config.update(more)
    return config


class Rig:
    def __init__(self, directory):
        self.directory = directory
        self.upstreams = []
        self.serves = []
        self.peers = []  # instances that are no programs of ours; they tell what they saw, as an Upstream does
        self.unchecked = False  # a test that breaks an invariant's premise (kills rea, outer and inner) says so

    def upstream(self, seed=1, **scripts):
        """Instances by name, each with its script."""
        upstream = Upstream(self.directory, f"upstream{len(self.upstreams)}", scripts, seed)
        self.upstreams.append(upstream)
        return upstream

    def serve(self, config=None, preexec=None, path=None):
        """path: a document that is already there; else config is written to one."""
        serve = Serve(self.directory, f"rea{len(self.serves)}", config, preexec, path)
        self.serves.append(serve)
        return serve

    def pair(self, a, b="echo", seed=1, **options):
        """Instances A and B behind one rea."""
        upstream = self.upstream(seed=seed, A=a, B=b)
        return upstream, self.serve(service(upstream.address("A"), upstream.address("B"), **options))

    def end(self):
        """Every program ends when it is asked to, whatever it went through, and says nothing of leaks."""
        running = [process for process in self.serves + self.upstreams if process.popen.poll() is None]
        for process in running:
            process.signal(signal.SIGTERM)
        for process in running:
            assert process.wait() == 0, f"{process.name}: {process.stderr_text()}"

    def close(self):
        for process in self.serves + self.upstreams:
            process.kill()
        for peer in self.peers:
            peer.close()

    # ---- invariants

    def check_invariants(self):
        if self.unchecked:
            return
        for serve in self.serves:
            if serve.popen.poll() is None:
                self._settle(serve)
                check_counters(serve)
            check_calls(serve)
        if len(self.serves) == 1:
            check_seen(self.serves[0], self.upstreams + self.peers)
        check_attempts_alike(self.upstreams + self.peers)

    @staticmethod
    def _settle(serve):
        wait_for(lambda: serve.metric("rea_calls_in_flight") == 0, 10, "no call is open")
        wait_for(lambda: serve.metric("rea_events_written_total") == sum(event["type"] != "Config" for event in serve.events()), 5, "all events are in the file")


def by_call(events):
    calls = collections.defaultdict(list)
    for event in events:
        if event.get("call_id"):
            calls[event["call_id"]].append(event)
    return calls


def check_calls(serve):
    """I4, I6, I7, I8 on the recorded calls."""
    for call, events in by_call(serve.events()).items():
        finals = [event for event in events if event["type"] in FINAL]
        assert len(finals) == 1 and events[-1] is finals[0], f"I4: {call} {events}"
        attempts = [event["attempt"] for event in events if event.get("outcome") != "cancelled"]
        assert attempts == sorted(set(attempts)), f"I6: {call} {events}"
        if max(event.get("attempt", 0) for event in events) < 2:
            continue
        permission = events[0].get("permission", "unknown")
        assert permission in ("safe", "idempotent", "idempotent_with_key") or (serve.allow_never_sent and permission == "unknown"), f"I7: {events}"
        instances = [event["instance"] for event in events if event.get("instance") and event["type"] == "Retry"]
        instances += [event["instance"] for event in finals if event.get("instance") and event["attempt"] == len(instances) + 1]
        if serve.cycle:
            assert all(one != next for one, next in zip(instances, instances[1:])), f"I8: {call} {events}"
        else:
            assert serve.same_instance or len(instances) == len(set(instances)), f"I8: {call} {events}"


def check_counters(serve):
    """I9: every finished call is a first-try success or has a final event."""
    calls = serve.metric("rea_calls_total")
    first = unrecorded_successes(serve)
    dropped = serve.metric("rea_events_dropped_total")
    finals = sum(event["type"] in FINAL for event in serve.events())
    assert dropped > 0 or calls == first + finals, f"I9: {calls} calls, {first} first-try successes, {finals} final events"
    attempts = serve.metric("rea_attempts_total")
    of_calls = [event for event in serve.events() if event.get("call_id")]
    met = sum("instance" in event for event in of_calls)
    unmet = sum("instance" not in event for event in of_calls)  # cancelled in a wait or before a byte was sent, or no instance was left
    assert dropped > 0 or first + met <= attempts <= first + met + unmet, f"I9: {attempts} attempts, {first} first-try successes, {met} + {unmet} recorded"


def unrecorded_successes(serve):
    """First-try successes, less the sampled ones that have an event of their own."""
    return serve.metric("rea_first_try_successes_total") - serve.metric("rea_events_sampled_total")


def check_seen(serve, upstreams):
    """I3: requests that instances saw = recorded attempts that were sent + first-try successes. A cancelled attempt may not have been sent yet."""
    if serve.popen.poll() is not None:
        return
    sent, cancelled = set(), set()
    for event in serve.events():
        if event.get("call_id") and event.get("instance") and event["outcome"] != "never_sent":
            (cancelled if event["outcome"] == "cancelled" else sent).add((event["call_id"], event["attempt"]))
    least = len(sent) + unrecorded_successes(serve)
    wait_for(lambda: seen_requests(upstreams) >= least, 3, f"I3: {least} requests are seen")
    seen = seen_requests(upstreams)
    assert seen <= least + len(cancelled), f"I3: {seen} seen, {least} recorded as sent, {len(cancelled)} cancelled"


def seen_requests(upstreams):
    return sum(len(upstream.requests()) for upstream in upstreams)


def check_attempts_alike(upstreams):
    """I2 and S07: all attempts of a call carry the same key, body and end-to-end fields."""
    calls = collections.defaultdict(list)
    for upstream in upstreams:
        for request in upstream.requests():
            if request.field("x-biz-id") and request.field("rea-attempt"):
                calls[request.field("x-biz-id")].append(request)
    for call, attempts in calls.items():
        numbers = sorted(int(attempt.field("rea-attempt").split("/")[0]) for attempt in attempts)
        assert len(set(numbers)) == len(numbers), f"I6: {call} saw attempts {numbers}"
        assert len({attempt.field("idempotency-key") for attempt in attempts}) == 1, f"I2: keys of {call}"
        assert len({attempt["headers_sha256"] for attempt in attempts}) == 1, f"S07: fields of {call}: {[a['fields'] for a in attempts]}"
        assert len({attempt["body_sha256"] for attempt in attempts if attempt["complete"]}) <= 1, f"I2: bodies of {call}"
