"""What configuration costs: finding operations, reloads of a document with ten thousand methods, and how soon a push is seen while calls flow.

What a reload costs the calls that flow beside it is what it costs their thread: that thread's CPU time, measured while nothing else flows. Pushes come from
etcd itself and from the tests' Nacos, which is answered by long polling; beside them h2load keeps up its rate of calls.
"""
import base64
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from common import BUILD, ROOT, Process, bars_table, free_port, median, run, say, table, wait_until

sys.path.append(str(ROOT / "tests/e2e"))

METHODS = 10000
RELOADS = 20
PUSHES = 100
RATE = 5000
KEY = "/rea/policy.yaml"


def arguments(parser):
    parser.add_argument_group("config").add_argument("--pushes", type=int, default=PUSHES)


def percentile(values, share):
    return sorted(values)[math.ceil(share * len(values)) - 1]


# ---------------------------------------------------------------- rea and what stands around it


def policy(on, methods=0):
    retry = {"enabled": on, "min-backoff-ms": 20, "max-backoff-ms": 20, "budget": {"rule": "ratio", "ratio": 1.0, "reserve": 1000000}}
    if methods:
        # Not one of them is called: what counts is that they are there.
        retry["service-configs"] = {"many": {"method-configs": {f"many-api_method{i}": {"enabled": on, "deadline-ms": 1000 + i % 7} for i in range(methods)}}}
    return json.dumps({"rpc": {"feign": {"retry": retry}}})


class Bed:
    def __init__(self, directory, sources=None, methods=0):
        self.directory, self.methods = directory, methods
        self.calls, self.admin, self.bad, self.good = (free_port() for _ in range(4))
        self.log = open(directory / "log", "ab")
        for name, script in (("bad", "status 503"), ("good", "status 200")):
            (directory / f"{name}.script").write_text(script)
        upstreams = [word for name, port in (("bad", self.bad), ("good", self.good)) for word in ("--listen", f"127.0.0.1:{port}", "--name", name, "--script", directory / f"{name}.script")]
        self.processes = [Process([BUILD / "src/rea", "upstream", *upstreams], None, self.log)]
        self.config = {
            "listen": f"127.0.0.1:{self.calls}",
            "admin": f"127.0.0.1:{self.admin}",
            "services": {
                "user-service": {"instances": [f"127.0.0.1:{self.bad}", f"127.0.0.1:{self.good}"], "balance": "listed", "ejection": False},
                "load": {"instances": [f"127.0.0.1:{self.good}"]},
            },
            "contracts": {"user-service": {"operations": [{"get": "/users/{id}", "id": "getUserInfo", "retryable": True}]}},
        }
        if sources:
            self.config["sources"] = sources
        self.write(False)
        self.rea = Process([BUILD / "src/rea", "serve", "--config", directory / "rea.yaml"], None, self.log)
        self.processes.append(self.rea)
        wait_until(self.rea, "rea", lambda: self.ask(self.admin, "/healthz") == 200)

    def write(self, on):
        document = dict(self.config) if "sources" in self.config else {**self.config, **json.loads(policy(on, self.methods))}
        draft = self.directory / "rea.new"
        draft.write_text(json.dumps(document))
        draft.rename(self.directory / "rea.yaml")

    @staticmethod
    def ask(port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code

    def wait_for(self, on):
        """Until a call is, or is not, retried."""
        end = time.monotonic() + 10
        while self.ask(self.calls, "/user-service/users/42") != (200 if on else 503):
            if time.monotonic() > end:
                sys.exit("bench: a change was never seen")

    def threads_ns(self):
        tasks = sorted(pathlib.Path(f"/proc/{self.rea.child.pid}/task").iterdir(), key=lambda task: int(task.name))
        return [int((task / "schedstat").read_text().split()[0]) for task in tasks]

    def stop(self):
        for process in self.processes:
            process.stop()
        self.log.close()


# ---------------------------------------------------------------- reloads


def reloads(directory):
    """CPU milliseconds of the main thread, and of all others together, for each reload."""
    bed = Bed(directory, methods=METHODS)
    main, others = [], []
    for i in range(RELOADS):
        bed.wait_for(i % 2 == 1)
        time.sleep(0.3)  # what the last call left behind is over
        before = bed.threads_ns()
        bed.write(i % 2 == 0)
        time.sleep(0.7)
        after = bed.threads_ns()
        main.append((after[0] - before[0]) / 1e6)
        others.append(sum(after[1:]) / 1e6 - sum(before[1:]) / 1e6)
    bed.stop()
    return main, others


# ---------------------------------------------------------------- pushes


class FromNacos:
    name = "Nacos, long polling"

    def __init__(self, directory):
        from nacos import Nacos

        self.server = Nacos(("v1",))
        self.sources = {"policy": [{"nacos": {"servers": [self.server.address], "data-id": "rpc-retry.yml"}}]}

    def publish(self, text):
        self.server.publish(text)

    def stop(self):
        self.server.close()


class FromEtcd:
    name = "etcd, watch"

    def __init__(self, directory):
        self.port, peer = free_port(), free_port()
        url, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{peer}"
        command = ["etcd", "--data-dir", directory / "etcd", "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer]
        self.log = open(directory / "etcd.log", "ab")
        self.process = Process([*command, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"], None, self.log)
        wait_until(self.process, "etcd", lambda: self.ask("/v3/maintenance/status", {}))
        self.sources = {"policy": [{"etcd": {"servers": [f"127.0.0.1:{self.port}"], "key": KEY}}]}

    def ask(self, path, body):
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode()), timeout=5) as reply:
            return json.load(reply)

    def publish(self, text):
        encoded = [base64.b64encode(word.encode()).decode() for word in (KEY, text)]
        self.ask("/v3/kv/put", {"key": encoded[0], "value": encoded[1]})

    def stop(self):
        self.process.stop()
        self.log.close()


def pushes(directory, kind, count):
    """Milliseconds from a publication to the first call that heeds it, and the calls that flowed beside: a second, and wrong ones."""
    source = kind(directory)
    source.publish(policy(False))
    bed = Bed(directory, source.sources)
    seconds = count // 4 + 10
    load = subprocess.Popen(["h2load", "--h1", f"--rps={RATE // 50}", "-c50", "-t1", f"-D{seconds}", f"http://127.0.0.1:{bed.calls}/load/x"], stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    took = []
    for i in range(count):
        bed.wait_for(i % 2 == 1)
        begin = time.monotonic()
        source.publish(policy(i % 2 == 0))
        bed.wait_for(i % 2 == 0)
        took.append((time.monotonic() - begin) * 1000)
        time.sleep(0.2)
    said = load.communicate()[0]
    bed.stop()
    source.stop()
    rate = float(re.search(r"finished in [^,]*, ([0-9.]+) req/s", said).group(1))
    failed = int(re.search(r"(\d+) failed", said).group(1))
    return took, rate, failed


# ---------------------------------------------------------------- the suite


def primitives(rounds):
    lines = [run([BUILD / "bench/config"]).splitlines() for _ in range(rounds)]
    rows = [["", "median"]]
    for of in zip(*lines):
        name = of[0].partition(":")[0]
        figures = [[float(word) for word in re.findall(r"([0-9.]+) (?:ns|ms)", line.partition(":")[2])] for line in of]
        units = re.findall(r"[0-9.]+ (ns|ms)", of[0].partition(":")[2])
        parts = ["", "compare ", "free "] if len(units) > 1 else [""]
        rows.append([name, ", ".join(f"{part}{median(column):.4g} {unit}" for part, column, unit in zip(parts, zip(*figures), units))])
    return rows


def measure(options):
    with tempfile.TemporaryDirectory() as place:
        rows = primitives(options.rounds)
        say("config: reloads")
        directory = pathlib.Path(place, "reloads")
        directory.mkdir()
        main, others = reloads(directory)
        results = {}
        for kind in (FromEtcd, FromNacos):
            say(f"config: pushes through {kind.name}")
            directory = pathlib.Path(place, kind.__name__)
            directory.mkdir()
            results[kind.name] = pushes(directory, kind, options.pushes)
    parts = [table("Operations and documents, CPU time", rows)]
    rows = [["", "median", "most"], ["main thread", f"{median(main):.1f} ms", f"{max(main):.1f} ms"], ["the thread of the calls", f"{median(others):.2f} ms", f"{max(others):.2f} ms"]]
    parts.append(table(f"A reload of {METHODS} methods in a running rea, CPU time", rows))
    rows = [["", "p50", "p99", "most", "calls beside", "failed"]]
    rows += [[name, *(f"{percentile(took, share):.0f} ms" for share in (0.5, 0.99)), f"{max(took):.0f} ms", f"{rate:.0f}/s", str(failed)] for name, (took, rate, failed) in results.items()]
    parts.append(table(f"From a publication to the first call that heeds it, {options.pushes} of them", rows))
    bars = [("a reload, the thread of the calls: most", max(others), 1, "{:.2f} ms")]
    bars += [(f"a push through {name}: p99", percentile(took, 0.99) / 1000, 1, "{:.3f} s") for name, (took, _, _) in results.items()]
    parts.append(bars_table(bars))
    return f"{RELOADS} reloads, {options.pushes} pushes through each source", [], parts
