"""What the suites share: processes and their CPU time, programs that are there or not, tables."""
import dataclasses
import os
import pathlib
import platform
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SERVER_CPU, LOAD_CPU = 0, 1


def say(text):
    print(text, file=sys.stderr, flush=True)


def words(text):
    return [word for word in text.split(",") if word]


def numbers(text):
    return [int(word) for word in words(text)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclasses.dataclass
class Cpu:
    total_ns: int
    system_share: float  # of ticks, so only good for seconds of work

    @staticmethod
    def between(before, after):
        ticks = [late - early for early, late in zip(before[1], after[1])]
        return Cpu(after[0] - before[0], ticks[1] / max(1, sum(ticks)))


class Process:
    """A child on one CPU, with its threads and its own children counted."""

    def __init__(self, command, cpu, log):
        self.log = log
        pin = lambda: os.sched_setaffinity(0, {cpu}) if cpu is not None else None
        self.child = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, preexec_fn=pin)

    def pids(self):
        children = pathlib.Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text()
        return [self.child.pid, *map(int, children.split())]

    def cpu(self):
        """Nanoseconds, exact, and the ticks in user and system mode."""
        total_ns, ticks = 0, [0, 0]
        for pid in self.pids():
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                total_ns += int((task / "schedstat").read_text().split()[0])
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks = [ticks[0] + int(fields[11]), ticks[1] + int(fields[12])]
        return total_ns, ticks

    def anonymous_kib(self):
        status = "".join(pathlib.Path(f"/proc/{pid}/status").read_text() for pid in self.pids())
        return sum(map(int, re.findall(r"^RssAnon:\s+(\d+)", status, re.M)))

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def wait_until(process, name, is_ready):
    for _ in range(200):
        if process.child.poll() is not None:
            break
        try:
            if is_ready():
                return
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit(f"bench: {name} does not serve:\n{pathlib.Path(process.log.name).read_text()[-2000:]}")


def ask(port, message, size=64):
    with socket.create_connection(("127.0.0.1", port), 0.1) as client:
        client.sendall(message)
        return client.recv(size)


def run(command, cpu=None, **options):
    pin = (lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, preexec_fn=pin, **options)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def realtime():
    """The words that put a command before everybody else's; none where that is not allowed."""
    words = ["chrt", "-f", "1"]
    try:
        return words if subprocess.run([*words, "true"], capture_output=True).returncode == 0 else []
    except OSError:
        return []


def rotated(items, number):
    shift = number % len(items)
    return items[shift:] + items[:shift]


def median(values):
    return statistics.median(values)


def ratio(rounds, name, base, key):
    """The median of the ratios within each round."""
    return f"{median([result[name][key] / result[base][key] for result in rounds]):.2f}"


def table(title, rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [f"### {title}", ""]
    for i, row in enumerate(rows):
        cells = [cell.ljust(width) if c == 0 else cell.rjust(width) for c, (cell, width) in enumerate(zip(row, widths))]
        lines.append("| " + " | ".join(cells) + " |")
        if i == 0:
            rules = ("-" * (width + 2) if c == 0 else "-" * (width + 1) + ":" for c, width in enumerate(widths))
            lines.append("|" + "|".join(rules) + "|")
    return "\n".join(lines) + "\n"


def bars_table(bars):
    """bars: (what, measured, bound, form); a bound is at most, or with a minus sign at least."""
    rows = [["bar", "measured", "wanted", "met"]]
    for what, measured, bound, form in bars:
        met = measured <= bound if bound > 0 else measured >= -bound
        sign = "<=" if bound > 0 else ">="
        rows.append([what, form.format(measured), f"{sign} {form.format(abs(bound))}", "yes" if met else "**no**"])
    return table("Bars", rows)


def version_of(*command):
    """The first line that a program says of itself; None where it is not installed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return ((done.stdout + done.stderr).splitlines() or [""])[0].strip()


def machine():
    model = re.search(r"^model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    name = model.group(1) if model else platform.machine()
    load = os.getloadavg()[0]
    return f"{name}, {os.cpu_count()} CPUs, {platform.system()} {platform.release().split('-')[0]}, load {load:.1f} at the start"


def disk(options):
    where = os.path.realpath(options.dir or tempfile.gettempdir())
    return f"disk: {version_of('findmnt', '-no', 'FSTYPE,SOURCE', '-T', where) or 'unknown'}"
