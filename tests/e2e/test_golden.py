"""
`rea check` beside the real thing: tests/golden/requests.tsv has the requests that real Spring applications made, which tests/golden/record counted.

A cell of `rea check` is a range, as one row of it stands for several ways to fail: with a body and without, on a new connection and on a kept one. Its ends
must be the fewest and the most that were seen.
"""
import collections
import csv
import json
import pathlib
import re
import shlex
import subprocess

import pytest

from rig import REA

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
METHODS = {"GET": "GET", "PUT with body": "PUT/DELETE", "PUT": "PUT/DELETE", "DELETE": "PUT/DELETE", "POST with body": "POST", "POST": "POST"}
CONFIGURATIONS = sorted(path.stem for path in (GOLDEN / "configurations").glob("*.yml"))


def recorded():
    """Of each configuration, failure and method the counts that were seen."""
    counts = collections.defaultdict(lambda: collections.defaultdict(set))
    with open(GOLDEN / "requests.tsv", newline="") as table:
        for row in csv.DictReader(table, delimiter="\t"):
            for kind, method in METHODS.items():
                counts[row["configuration"]][row["failure"], method].add(int(row[kind]))
    return counts


RECORDED = recorded()


def say(text, word):
    found = re.search(rf"^# {word}: (.*)$", text, re.M)
    return shlex.split(found.group(1)) if found else []


def checked(name, tmp_path):
    """What `rea check` tells of the client, under the libraries that it ran with."""
    path = GOLDEN / "configurations" / f"{name}.yml"
    text = path.read_text()
    without = [f":{word}:" for word in say(text, "without")]
    lines = [line for line in (GOLDEN / "libraries.txt").read_text().splitlines() if not any(word in line for word in without)]
    (tmp_path / "libraries.txt").write_text("\n".join(lines))
    command = [REA, "check", "-f", "json", "--classpath", tmp_path / "libraries.txt", *say(text, "rea check"), path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = {finding["rule"] for finding in json.loads(done.stdout)["findings"] if "no request is sent" in finding["message"]}
    targets = {target["name"]: target for target in json.loads(done.stdout)["targets"]}
    wrapped = '(every) within @Retry("users")'
    target = targets.get("users") or (targets.get(wrapped) if say(text, "caller") == ["WithRetry"] else None) or targets.get("(every)") or targets["(every other)"]
    counts = {(row["failure"], method): {row[method]["least"], row[method]["most"]} for row in target["requests"] for method in set(METHODS.values())}
    return {key: {0} for key in counts} if found else counts


def test_every_configuration_is_recorded():
    assert sorted(RECORDED) == CONFIGURATIONS


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_check_agrees_with_the_real_thing(name, tmp_path):
    seen = {key: {min(counts), max(counts)} for key, counts in RECORDED[name].items()}
    assert checked(name, tmp_path) == seen


def test_the_guide_shows_what_runs():
    """The Java of doc/guide/spring.md is that of tests/spring, which `make test-spring` compiles and runs."""
    blocks = re.findall(r"```java\n(.*?)```", (GOLDEN.parent.parent / "doc/guide/spring.md").read_text(), re.S)
    sources = [path.read_text() for path in (GOLDEN.parent / "spring").glob("*.java")]
    assert len(blocks) == 3
    for block in blocks:
        assert any(block in source for source in sources), block
