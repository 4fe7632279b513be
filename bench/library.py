"""librea in a program beside the libraries of other languages: a guarded call, a refusal, what waits.

Each library does the same thing in its own language: a call of a function that returns at once, through a circuit breaker over the last 100 calls
(alone, then below a retry policy with backoff, then with a rate limiter too); refused by an open breaker; by one thread, and by two that share it
all. In a round everybody is measured once, one after the other; the tables give medians over the rounds. CPU time is that of the process, with
garbage collector and compiler; for rea that of the thread, which has neither.
"""
import json
import os
import shutil
import subprocess

from common import BUILD, ROOT, SERVER_CPU, bars_table, median, ratio, rotated, run, say, table, version_of, words

CASES = {
    "breaker": "A breaker alone, the call succeeds",
    "guard": "A guarded call that succeeds: retry policy, budget where there is one, breaker, record",
    "guard+rate": "The same with a rate limiter",
    "breaker-refused": "Refused by a breaker alone",
    "guard-refused": "A guarded call that is refused by its breaker",
    "pending": "A million wait: any of them cancelled, another submitted; bytes for each that waits",
}

DIFFERENCES = """
What differs. rea, the Go libraries and Resilience4j share one guard among threads; cockatiel lives on one thread. rea, Resilience4j and gobreaker
read the clock twice for a call (or are given the time), failsafe-go and cockatiel's breaker over a count do not need to. gobreaker counts since the
last interval instead of over a window, and has no retries. Resilience4j and gobreaker have no budget; cockatiel neither, nor a rate limiter; the budget
of failsafe-go is by calls in flight. A refusal is a value in C and Go and an exception in Java (here without its stack trace) and JavaScript. rea's
record is the statistics of the service; Resilience4j's are its metrics and events, with nobody listening. What waits is a whole task with policy and
name in rea, a bare timer elsewhere. JMH and Go report means of a run, rea's programs medians of runs.
"""


class Unavailable(Exception):
    pass


def fetched(command, directory, **options):
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600, **options)
    except FileNotFoundError:
        raise Unavailable(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command)} took too long") from None
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["failed"]
        raise Unavailable(f"{' '.join(command)}: {next((line for line in lines if 'error' in line.lower()), lines[-1])}")
    return done.stdout


def sources(name):
    """Peers are fetched and built outside the source tree."""
    directory = BUILD / "bench-peers" / name
    shutil.copytree(ROOT / "bench/peers" / name, directory, dirs_exist_ok=True)
    return directory


def rows_of(text):
    lines = (line.split("\t") for line in text.splitlines())
    return [(who, what, int(threads), *map(float, numbers)) for who, what, threads, *numbers in lines]


class Rea:
    def __init__(self):
        self.versions = [version_of(str(BUILD / "src/rea"), "version")]

    def measure(self, seconds):
        guard = run([BUILD / "bench/guard"])
        return rows_of(guard + run([BUILD / "bench/executor"], SERVER_CPU))


class Java:
    """Resilience4j by JMH, and the executor that it waits with."""

    def __init__(self):
        self.directory = sources("java")
        fetched(["mvn", "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=classpath"], self.directory)
        self.classpath = f"target/classes:{(self.directory / 'classpath').read_text().strip()}"
        jars = [os.path.basename(path).removesuffix(".jar") for path in self.classpath.split(":")]
        self.versions = [version_of("java", "-version")]
        self.versions.append(", ".join(jar for jar in jars if jar.startswith(("resilience4j-circuit", "jmh-core"))))

    def jmh(self, what, threads, seconds):
        options = ["-t", str(threads), "-f", "1", "-wi", "2", "-w", "1s", "-i", "3", "-r", f"{int(seconds * 1000)}ms"]
        options += ["-prof", "gc", "-prof", "rea.bench.CpuProfiler", "-rf", "json", "-rff", "out.json", "-foe", "true"]
        command = ["java", "-cp", self.classpath, "org.openjdk.jmh.Main", what, *options]
        text = run(command, cwd=self.directory)
        for result in json.loads((self.directory / "out.json").read_text()):
            name = result["benchmark"].rpartition(".")[2]
            more = result["secondaryMetrics"]
            bytes_for_each = more["gc.alloc.rate.norm"]["score"]
            if name == "pending":
                bytes_for_each = float(text.partition("pending-bytes ")[2].split()[0])
            yield name, threads, more["cpu"]["score"], result["primaryMetric"]["score"], bytes_for_each

    def measure(self, seconds):
        names = {"guardRate": "guard+rate", "breakerRefused": "breaker-refused", "guardRefused": "guard-refused"}
        for threads in (1, 2):
            for name, *figures in self.jmh("Calls", threads, seconds):
                yield "Resilience4j", names.get(name, name), *figures
        for name, *figures in self.jmh("Pending", 1, seconds):
            yield "Java, ScheduledThreadPoolExecutor", name, *figures


class Go:
    """gobreaker and failsafe-go by the benchmarks of `go test`, and Go's timers."""

    def __init__(self):
        self.directory = sources("go")
        fetched(["go", "test", "-c", "-mod=mod", "-o", "calls.test", "."], self.directory, env={**os.environ, "CGO_ENABLED": "0"})
        self.versions = [version_of("go", "version")]
        modules = (self.directory / "go.mod").read_text().split()
        self.versions.append(", ".join(f"{word} {modules[i + 1]}" for i, word in enumerate(modules) if "gobreaker" in word or "failsafe" in word))

    def benchmarks(self, what, cpus, seconds):
        command = [self.directory / "calls.test", "-test.run", "^$", "-test.bench", what, "-test.cpu", cpus, "-test.benchtime", f"{seconds}s"]
        for line in run(command, cwd=self.directory).splitlines():
            words = line.split()
            if not words or not words[0].startswith("Benchmark"):
                continue
            who, _, what = words[0].removeprefix("Benchmark").partition("/")
            threads = 2 if what.endswith("-2") else 1
            figures = dict(zip(words[3::2], map(float, words[2::2])))
            yield who, what.removesuffix("-2"), threads, figures

    def measure(self, seconds):
        names = {"Gobreaker": "gobreaker", "Failsafe": "failsafe-go"}
        for who, what, threads, figures in self.benchmarks("Gobreaker|Failsafe", "1,2", seconds):
            yield names[who], what, threads, figures["cpu-ns/op"], figures["ns/op"] * threads, figures["B/op"]
        for _, what, threads, figures in self.benchmarks("Timer", "1", seconds):
            yield "Go, time.AfterFunc", what, threads, figures["cpu-ns/op"], figures["ns/op"], figures["pending-B"]


class Node:
    """cockatiel, and Node's timers."""

    def __init__(self):
        self.directory = sources("node")
        fetched(["npm", "ci", "--no-audit", "--no-fund"], self.directory)
        package = json.loads((self.directory / "node_modules/cockatiel/package.json").read_text())
        self.versions = [f"node {version_of('node', '--version')}, cockatiel {package['version']}"]

    def measure(self, seconds):
        return rows_of(run(["node", "--expose-gc", "calls.js", str(seconds)], cwd=self.directory))


PEERS = {"java": Java, "go": Go, "node": Node}


def measure_round(peers, number, seconds):
    result = {}
    for name, peer in rotated(list(peers.items()), number):
        for who, what, threads, cpu, wall, bytes_for_each in peer.measure(seconds):
            result[who, what, threads] = {"cpu": cpu, "wall": wall, "bytes": bytes_for_each}
        say(f"library: round {number + 1}: {name}")
    return result


def case_table(title, rounds, what):
    of = lambda key, name: [result[key][name] for result in rounds]
    bytes_title = "bytes each" if what == "pending" else "bytes a call"
    rows = [["library", "CPU ns", "min..max", "x rea", "wall ns", "two threads: CPU ns", "x one", "wall ns", bytes_title]]
    for who, case, threads in rounds[0]:
        if case != what or threads != 1:
            continue
        one, two = (who, what, 1), (who, what, 2)
        cpu = of(one, "cpu")
        row = [who, f"{median(cpu):.0f}", f"{min(cpu):.0f}..{max(cpu):.0f}", ratio(rounds, one, ("rea", what, 1), "cpu")]
        row.append(f"{median(of(one, 'wall')):.0f}")
        if two in rounds[0]:
            row += [f"{median(of(two, 'cpu')):.0f}", ratio(rounds, two, one, "cpu"), f"{median(of(two, 'wall')):.0f}"]
        else:
            row += ["-", "-", "-"]
        rows.append([*row, f"{median(of(one, 'bytes')):.0f}"])
    return table(title, rows)


def bars(rounds):
    given, own = "rea, time supplied", "rea"
    figure = lambda who, what, threads=1, key="cpu": median([result[who, what, threads][key] for result in rounds])
    times = lambda a, b: median([result[a]["cpu"] / result[b]["cpu"] for result in rounds])
    found = [
        ("guarded call, time supplied", figure(given, "guard"), 40, "{:.0f} ns"),
        ("guarded call, own clock reads", figure(own, "guard"), 120, "{:.0f} ns"),
        ("refusal, time supplied", figure(given, "guard-refused"), 25, "{:.0f} ns"),
        ("two threads on one guard, time supplied", times((given, "guard", 2), (given, "guard", 1)), 1.2, "{:.2f} x"),
        ("two threads on one guard, own clock reads", times((own, "guard", 2), (own, "guard", 1)), 1.2, "{:.2f} x"),
        ("allocated by a guarded call", figure(own, "guard", key="bytes"), 0.5, "{:.0f} bytes"),
        ("schedule: pop + push at a million", figure("rea, the heap alone", "pop+push"), 300, "{:.0f} ns"),
        ("schedule: an item", figure("rea, the heap alone", "pop+push", key="bytes"), 24, "{:.0f} bytes"),
        ("executor: on top of a pending task", figure(own, "run+submit", key="bytes"), 48, "{:.0f} bytes"),
        ("executor: run the next task, submit another", figure(own, "run+submit"), 450, "{:.0f} ns"),
    ]
    if ("cockatiel", "guard", 1) in rounds[0]:
        found.append(("breaker, of cockatiel's", times((own, "breaker", 1), ("cockatiel", "breaker", 1)), 0.25, "{:.2f} x"))
        found.append(("guarded call, of cockatiel's", times((own, "guard", 1), ("cockatiel", "guard", 1)), 0.1, "{:.2f} x"))
    return bars_table(found)


def alone(program, title):
    lines = run([BUILD / "bench" / program], SERVER_CPU).splitlines()
    return f"### {title}\n\n" + "".join(f"    {line}\n" for line in lines)


def arguments(parser):
    group = parser.add_argument_group("library")
    group.add_argument("--peers", type=words, default=list(PEERS), help="java,go,node")


def measure(options):
    seconds, peers, notes = options.seconds or 0.5, {"rea": Rea()}, []
    for name in options.peers:
        try:
            peers[name] = PEERS[name]()
        except Unavailable as reason:
            notes.append(f"left out: {name}: {reason}")
            say(f"library: {notes[-1]}")
    rounds = [measure_round(peers, number, seconds) for number in range(options.rounds)]
    rounds = [{key: result[key] for key in rounds[0]} for result in rounds]
    parts = [bars(rounds)] + [case_table(title, rounds, what) for what, title in CASES.items()]
    parts.append(DIFFERENCES.lstrip())
    parts.append(alone("decision", "Deciding, CPU time of one call with time supplied, best of several runs"))
    parts.append(alone("primitives", "Primitives, CPU time with time supplied, best of several runs"))
    versions = [line for peer in peers.values() for line in peer.versions if line] + notes
    return f"{options.rounds} rounds, {seconds} s for each case and peer", versions, parts
