"""The durable store beside SQLite itself on the same disk, and what a million waiting tasks cost.

In a round everybody gets a new database and the same number of tasks under way; the peers are SQLite with one table and one thread, and SQLite with
the same rows that the store writes. Neither hands anything from thread to thread nor answers anybody, so they are what the disk and SQLite allow.
"""
import shutil
import sqlite3
import tempfile

from common import BUILD, bars_table, disk, median, ratio, realtime, rotated, run, say, table

UNDER_WAY = [1, 16, 32, 64, 256]
SUBMITS = ["sqlite", "sqlite-rows", "submits", "keyed-submits"]
LIFE_CYCLES = ["life-cycles", "keyed-life-cycles"]
TITLES = {
    "sqlite": "SQLite, one table",
    "sqlite-rows": "SQLite, the same rows",
    "submits": "rea",
    "keyed-submits": "rea, with key and biz_id",
    "life-cycles": "rea",
    "keyed-life-cycles": "rea, with key and biz_id",
}
WAITING_UNDER_WAY = 64


def figures(line):
    return dict(zip(("rate", "cpu", "group", "p50", "p99"), map(float, line.split())))


def measure_rounds(options, call, kinds, under_way):
    rounds = []
    for number in range(options.rounds):
        rounds.append({kind: figures(call(kind, under_way)) for kind in rotated(kinds, number)})
        line = "  ".join(f"{kind} {rounds[-1][kind]['rate']:.0f}" for kind in kinds)
        say(f"store: {under_way:3} under way, round {number + 1}: tasks/s: {line}")
    return rounds


def rates_table(title, rounds, kinds, bases):
    rows = [["", "tasks/s", "min..max", *(f"x {TITLES[base]}" for base in bases), "CPU us", "per commit", "p50 us", "p99 us"]]
    for kind in kinds:
        of = lambda key: [result[kind][key] for result in rounds]
        row = [TITLES[kind], f"{median(of('rate')):.0f}", f"{min(of('rate')):.0f}..{max(of('rate')):.0f}"]
        row += [ratio(rounds, kind, base, "rate") for base in bases]
        rows.append([*row, f"{median(of('cpu')):.1f}", *(f"{median(of(key)):.0f}" for key in ("group", "p50", "p99"))])
    return table(title, rows)


def waiting_table(runs):
    openings = [list(map(float, line.split())) for lines in runs for line in lines[:-1]]
    beside = [figures(lines[-1]) for lines in runs]
    ready, resident = (median(column) for column in zip(*openings))
    rows = [["a million tasks that wait", ""]]
    rows.append(["from opening to the first page of what is due", f"{ready:.2f} s"])
    rows.append(["resident then", f"{resident:.1f} MiB"])
    rows.append([f"life cycles beside them, {WAITING_UNDER_WAY} under way", f"{median([run['rate'] for run in beside]):.0f}/s"])
    rows.append(["CPU of one", f"{median([run['cpu'] for run in beside]):.1f} us"])
    return table("A million that wait", rows), ready, resident


def bars(submits, ready, resident):
    found = []
    for under_way, rounds in submits.items():
        for base in ("sqlite", "sqlite-rows"):
            rate = median([result["submits"]["rate"] / result[base]["rate"] for result in rounds])
            found.append((f"submits, {under_way} under way, of {TITLES[base]}", rate, -0.8, "{:.2f} x"))
        if under_way == 32:
            found.append(("submits, 32 under way, p99", median([result["submits"]["p99"] for result in rounds]) / 1000, 3, "{:.1f} ms"))
    found.append(("a million that wait: ready", ready, 2, "{:.2f} s"))
    found.append(("a million that wait: resident", resident, 64, "{:.1f} MiB"))
    return bars_table(found)


def arguments(parser):
    group = parser.add_argument_group("store, tasks")
    group.add_argument("--dir", help="on the disk to measure; default: the temporary directory")


def measure(options):
    seconds, first = options.seconds or 2, realtime()
    under_way = options.conns or UNDER_WAY
    directory = tempfile.mkdtemp(prefix="rea-bench-", dir=options.dir)
    call = lambda kind, count: run([*first, BUILD / "bench/store", directory, kind, count, seconds])
    try:
        submits = {count: measure_rounds(options, call, SUBMITS, count) for count in under_way}
        cycles = {count: measure_rounds(options, call, LIFE_CYCLES, count) for count in under_way}
        waiting = [call("waiting", WAITING_UNDER_WAY).splitlines() for _ in range(min(options.rounds, 3))]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    opening, ready, resident = waiting_table(waiting)
    parts = [bars(submits, ready, resident)]
    for count, rounds in submits.items():
        parts.append(rates_table(f"Durable submits of 512 bytes, {count} under way", rounds, SUBMITS, ["sqlite", "sqlite-rows"]))
    for count, rounds in cycles.items():
        parts.append(rates_table(f"Submitted, claimed, finished, {count} under way", rounds, LIFE_CYCLES, []))
    parts.append(opening)
    how = f"{options.rounds} rounds of {seconds} s" + (f", under `{' '.join(first)}`" if first else ", without real-time priority")
    return how, [f"SQLite {sqlite3.sqlite_version}", disk(options)], parts
