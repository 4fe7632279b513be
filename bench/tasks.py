"""Durable tasks over the network, rea beside beanstalkd, both with a sync before every acknowledgement (`beanstalkd -f0`).

Taken: `put` of a job and `POST /v1/tasks` with the same payload, while nothing is delivered. Done: put, reserve and delete on one connection, and a
task submitted, delivered to a target in the load program and answered by it. One request is under way on each connection. Every measurement has a
new server with an empty directory and half a second of warm-up; neither is bound to a CPU. rea has a thread for its connections and one
for its disk, beanstalkd one for both.
"""
import contextlib
import pathlib
import shutil
import sys
import tempfile

from common import BUILD, Process, ask, bars_table, disk, free_port, median, ratio, realtime, rotated, run, say, table, version_of, wait_until, words

CONNECTIONS = [1, 16, 32, 256]
PAYLOADS = [128, 1024]
WARM_UP_S = 0.5

# What is asked of rea: its configuration, how deliveries are held back, and a task. %P is the payload, %L the number of the connection.
REA = """
listen: 127.0.0.1:{port}
admin: 127.0.0.1:{admin}
threads: 1
services:
  bench:
    instances: [127.0.0.1:{target}]
tasks:
  file: {dir}/tasks.db
  concurrency: 1024
  target-concurrency: 1024
"""
HOLD = "POST /v1/targets/bench/pause HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
SUBMIT = """POST /v1/tasks HTTP/1.1
Host: 127.0.0.1
Content-Type: application/json

{"service":"bench","method":"POST","path":"/done/%L","headers":{},"body":"%P"}"""


class Beanstalkd:
    name = "beanstalkd -f0"
    verbs = {"taken": "put", "done": "cycle"}

    def __init__(self, directory, first, hold):
        self.port = free_port()
        command = [*first, "beanstalkd", "-l", "127.0.0.1", "-p", self.port, "-b", directory, "-f0"]
        self.process = Process(command, None, open(directory / "out", "w"))
        wait_until(self.process, self.name, lambda: ask(self.port, b"list-tubes\r\n").startswith(b"OK"))

    def arguments(self):
        return []


class Rea:
    name = "rea"
    verbs = {"taken": "post", "done": "deliver"}

    def __init__(self, directory, first, hold):
        self.port, self.target = free_port(), free_port()
        self.request = directory / "request"
        self.request.write_text(SUBMIT)
        config = directory / "rea.yaml"
        config.write_text(REA.format(port=free_port(), admin=self.port, target=self.target, dir=directory))
        command = [*first, BUILD / "src/rea", "serve", "--config", config]
        self.process = Process(command, None, open(directory / "out", "w"))
        ready = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        wait_until(self.process, self.name, lambda: ask(self.port, ready).startswith(b"HTTP/1.1 200"))
        answer = ask(self.port, HOLD.encode(), 2000) if hold else b"HTTP/1.1 200"
        if not answer.startswith(b"HTTP/1.1 20"):
            self.process.stop()
            sys.exit(f"bench: rea does not hold deliveries back: {answer.decode(errors='replace')}")

    def arguments(self):
        return [self.request]


SERVERS = {"beanstalkd": Beanstalkd, "rea": Rea}


@contextlib.contextmanager
def served(options, name, first, hold):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="rea-bench-", dir=options.dir))
    server = None
    try:
        server = SERVERS[name](directory, first, hold)
        yield server
    finally:
        if server is not None:
            server.process.stop()
        shutil.rmtree(directory, ignore_errors=True)


def measure_one(options, name, what, connections, payload, seconds, first):
    with served(options, name, first, what == "taken") as server:
        more = server.arguments() + ([server.target] if server.verbs[what] == "deliver" else [])
        load = lambda time: run([*first, BUILD / "bench/tasks", server.verbs[what], server.port, connections, time, payload, *more])
        load(WARM_UP_S)
        before = server.process.cpu()[0]
        rate, p50, p99, count = map(float, load(seconds).split())
        spent = server.process.cpu()[0] - before
        return {"rate": rate, "cpu": spent / 1000 / max(1, count), "p50": p50, "p99": p99, "memory": server.process.anonymous_kib()}


def measure_rounds(options, what, connections, payload, seconds, first):
    rounds = []
    for number in range(options.rounds):
        names = rotated(options.servers, number)
        rounds.append({name: measure_one(options, name, what, connections, payload, seconds, first) for name in names})
        line = "  ".join(f"{name} {rounds[-1][name]['rate']:.0f}" for name in options.servers)
        say(f"tasks: {what}, {payload} bytes, {connections:3} connections, round {number + 1}: per second: {line}")
    return rounds


def load_table(title, rounds, names):
    rows = [["server", "per second", "min..max", "x", "CPU us each", "x", "p50 us", "p99 us", "memory KiB"]]
    for name in names:
        of = lambda key: [result[name][key] for result in rounds]
        row = [SERVERS[name].name, f"{median(of('rate')):.0f}", f"{min(of('rate')):.0f}..{max(of('rate')):.0f}"]
        row += [ratio(rounds, name, names[0], "rate"), f"{median(of('cpu')):.1f}", ratio(rounds, name, names[0], "cpu")]
        rows.append([*row, *(f"{median(of(key)):.0f}" for key in ("p50", "p99", "memory"))])
    return table(title, rows)


def bars(results):
    found = []
    for (what, connections, payload), rounds in results.items():
        where = f"{payload} bytes, {connections} connections"
        times = lambda key: median([result["rea"][key] / result["beanstalkd"][key] for result in rounds])
        found.append((f"{what}, {where}, of beanstalkd's rate", times("rate"), -3 if what == "taken" else -1, "{:.2f} x"))
        if what == "taken":
            found.append((f"{what}, {where}, of beanstalkd's CPU", times("cpu"), 0.6, "{:.2f} x"))
            if connections == 32:
                found.append((f"{what}, {where}, p99", median([result["rea"]["p99"] for result in rounds]) / 1000, 3, "{:.1f} ms"))
    return bars_table(found)


def arguments(parser):
    group = parser.add_argument_group("tasks")
    group.add_argument("--servers", type=words, default=list(SERVERS), help="beanstalkd,rea")


def measure(options):
    seconds, first, results = options.seconds or 3, realtime(), {}
    for what in ("taken", "done"):
        for payload in PAYLOADS:
            for connections in options.conns or CONNECTIONS:
                results[what, connections, payload] = measure_rounds(options, what, connections, payload, seconds, first)
    parts = [bars(results)] if set(SERVERS) <= set(options.servers) else []
    for (what, connections, payload), rounds in results.items():
        title = "Taken durably" if what == "taken" else "Submitted, delivered, done"
        parts.append(load_table(f"{title}, {payload} bytes, {connections} connection{'s' * (connections > 1)}", rounds, options.servers))
    how = f"{options.rounds} rounds of {seconds} s" + (f", under `{' '.join(first)}`" if first else ", without real-time priority")
    return how, [version_of("beanstalkd", "-v"), disk(options)], parts
