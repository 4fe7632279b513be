"""
`rea check` as a person runs it.

tests/data/check/expected holds transcripts: a command, what it printed, its exit status. The files that they name stand beside that directory, and what `--fix`
makes of them in tests/data/check/fixed.
"""
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import subprocess

import pytest

from rig import REA

DATA = pathlib.Path(__file__).parent.parent / "data/check"
TRANSCRIPTS = sorted((DATA / "expected").glob("*.txt"))
FIXED = sorted((DATA / "fixed").glob("*"))
RULES = [f"RC{number:02}" for number in range(1, 28)]
FEIGN = "spring.cloud.openfeign.client.config.default: {connect-timeout: 500, read-timeout: 2000}\n"


def run(*arguments, cwd, **options):
    return subprocess.run([REA, "check", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=60, **options)


def command_of(transcript):
    """The arguments of its first line, "$ rea check ..."."""
    words = shlex.split(transcript.read_text().splitlines()[0])
    assert words[:3] == ["$", "rea", "check"]
    return words[3:]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(transcript):
    arguments = command_of(transcript)
    done = subprocess.run([REA, "check", *arguments], cwd=DATA, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert f"$ rea check {shlex.join(arguments)}\n{done.stdout}exit {done.returncode}\n" == transcript.read_text()


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_finds_and_spares(rule):
    found, clean = ([path.read_text() for path in TRANSCRIPTS if path.name.startswith(f"{rule}-{kind}")] for kind in ("found", "clean"))
    assert found and all(f"[{rule}]" in text for text in found)
    assert clean and not any(f"[{rule}]" in text for text in clean)


def test_the_rules_are_those_that_the_manual_tells():
    sarif = json.loads(run("-f", "sarif", "nothing.yml", cwd=DATA).stdout)
    assert [rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]] == RULES
    page = (DATA.parent.parent.parent / "doc/man/rea-check.1").read_text()
    assert re.findall(r"^\.It (RC\d\d)", page, re.M) == RULES


# ---------------------------------------------------------------- --fix


@pytest.mark.parametrize("fixed", FIXED, ids=lambda path: path.name)
def test_fix_writes_beside_and_the_finding_is_gone(tmp_path, fixed):
    stem, _, end = fixed.name.partition(".fixed")
    name = stem + end
    (transcript,) = [path for path in TRANSCRIPTS if path.stem == name]
    work = tmp_path / "work"
    shutil.copytree(DATA, work)
    before = (work / name).read_bytes()
    first = run("--fix", "-f", "json", *command_of(transcript), cwd=work)
    assert (work / name).read_bytes() == before
    assert (work / fixed.name).read_text() == fixed.read_text()
    corrected = [finding for finding in json.loads(first.stdout)["findings"] if finding["fixable"]]
    assert f"rea: {fixed.name}: {len(corrected)} finding{'s' if len(corrected) > 1 else ''} corrected" in first.stderr
    shutil.copy(work / fixed.name, work / name)
    left = json.loads(run("-f", "json", *command_of(transcript), cwd=work).stdout)["findings"]
    gone = {(finding["rule"], finding["message"]) for finding in corrected}
    assert not gone & {(finding["rule"], finding["message"]) for finding in left}


def test_fix_never_writes_over_a_file(tmp_path):
    (tmp_path / "a.yml").write_text((DATA / "RC02-found.yml").read_text())
    (tmp_path / "a.fixed.yml").write_text("mine")
    done = run("--fix", "a.yml", cwd=tmp_path)
    assert done.returncode == 2 and "a.fixed.yml: cannot be written: File exists" in done.stderr
    assert (tmp_path / "a.fixed.yml").read_text() == "mine"


def test_fix_of_what_needs_none_writes_nothing(tmp_path):
    (tmp_path / "a.yml").write_text(FEIGN)
    done = run("--fix", "a.yml", cwd=tmp_path)
    assert done.returncode == 0 and [path.name for path in tmp_path.iterdir()] == ["a.yml"]


# ---------------------------------------------------------------- reports


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_json_and_sarif_say_what_the_text_says(transcript):
    arguments = command_of(transcript)
    text = run(*arguments, cwd=DATA)
    report, sarif = (run("-f", name, *arguments, cwd=DATA) for name in ("json", "sarif"))
    assert text.returncode == report.returncode == sarif.returncode
    places = re.findall(r"^(\S+?)(?::(\d+):(\d+))?: (error|warning|info): (.*) \[(RC\d\d)\]$", text.stdout, re.M)
    written = [(file, int(line or 0), int(column or 0), severity, message, rule) for file, line, column, severity, message, rule in places]
    document = json.loads(report.stdout)
    keys = ("file", "line", "column", "severity", "message", "rule")
    assert [tuple(finding[key] for key in keys) for finding in document["findings"]] == written
    assert len(document["errors"]) == len(re.findall(r"^rea: ", text.stderr, re.M))
    (run_,) = json.loads(sarif.stdout)["runs"]
    assert [(result["ruleId"], result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) for result in run_["results"]] == [
        (rule, file) for file, _, _, _, _, rule in written
    ]
    for result in run_["results"]:
        assert run_["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1
    assert run_["invocations"][0]["executionSuccessful"] == (text.returncode != 2)
    assert len(run_["invocations"][0]["toolExecutionNotifications"]) == len(document["errors"])


def on_a_terminal(*arguments, **environment):
    """What it prints to a terminal."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen([REA, "check", *arguments], cwd=DATA, stdout=follower, env=environment)
    os.close(follower)
    text = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(leader)
    process.wait(timeout=30)
    return text


def test_colour_on_a_terminal_and_nowhere_else():
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    assert "\033[" not in run("RC02-found.yml", cwd=DATA, env=environment).stdout
    assert b"\033[31merror\033[0m" in on_a_terminal("RC02-found.yml", NO_COLOR="")
    assert b"\033[" not in on_a_terminal("RC02-found.yml", NO_COLOR="1")
    assert b"\033[" not in on_a_terminal("RC02-found.yml", NO_COLOR="", TERM="dumb")


# ---------------------------------------------------------------- what cannot be read


def test_others_are_checked_beside_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "good.yml").write_text((DATA / "RC02-found.yml").read_text())
    (tmp_path / "directory.yml").mkdir()
    done = run("nowhere.yml", "directory.yml", "good.yml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "rea: nowhere.yml: cannot be read: No such file or directory",
        "rea: directory.yml: cannot be read: Is a directory",
    ]
    assert "[RC02]" in done.stdout and "; 2 files could not be read\n" in done.stdout


HOSTILE = {
    "too large": (b"a: 1\n" * 1000000, "large.yml: the file is larger than 4 MiB"),
    "too many values": (b"- 1\n" * 200001, "large.yml:200000:3: the file has more than 200000 values"),
    "too deep": (b"[" * 65, "large.yml:1:65: the document is nested more than 64 levels deep"),
    "aliases of aliases": (
        b"a0: &a0 {x: 1, y: 2}\n" + b"".join(b"a%d: &a%d {l: *a%d, r: *a%d}\n" % (n, n, n - 1, n - 1) for n in range(1, 40)),
        "the file has more than 100000 settings",
    ),
    "an alias in itself": (b"a: &a {b: *a}\n", "large.yml:1:11: an alias inside of what it stands for"),
    "a long key": (b"k" * 600 + b": 1\n", "large.yml:1:603: a key of more than 500 bytes"),
    "no UTF-8": (b"a: \xff\xfe\n", "the document must be UTF-8 text"),
    "a NUL": (b'a: "\\0"\n', "large.yml:1:4: the text holds a NUL character"),
    "a list": (b"- a\n", "large.yml:1:1: expected a mapping of keys to values at the top of the document"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused_within_limits(tmp_path, name):
    text, message = HOSTILE[name]
    (tmp_path / "large.yml").write_bytes(text)
    done = run("large.yml", cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_a_placeholder_that_stands_for_many_ends(tmp_path):
    lines = [f"a{n}={'${a%d}' % (n + 1) * 40}" for n in range(20)]
    (tmp_path / "a.properties").write_text("\n".join(lines) + "\na20=1\nspring.cloud.openfeign.client.config.default.readTimeout=${a0}\n")
    done = run("a.properties", cwd=tmp_path)
    assert done.returncode in (0, 3) and "[RC26]" in done.stdout


def test_what_a_file_says_does_not_reach_the_terminal_as_it_is(tmp_path):
    (tmp_path / "a.yml").write_text('spring.cloud.openfeign.client.config."\\e[31mx".readTimeout: "\\e]0;title\\a"\n')
    (tmp_path / "b.conf").write_bytes(b"server { location /\xff\x1b[2J { proxy_pass http://\xffa; } }\n")
    done = subprocess.run([REA, "check", "a.yml", "b.conf"], cwd=tmp_path, capture_output=True, timeout=30)
    assert b"\x1b" not in done.stdout + done.stderr and b"\xff" not in done.stdout


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "usage: rea check"),
        (["--nothing", "a.yml"], "usage: rea check"),
        (["--format", "xml", "a.yml"], '--format: expected text, json or sarif, got "xml"'),
        (["--kind", "apache", "a.yml"], '--kind: expected spring, rea, istio, envoy, grpc, nginx or haproxy, got "apache"'),
        (["--limit", "0", "a.yml"], "--limit: expected a number from 1 to 1000000"),
        (["--limit", "4x", "a.yml"], "--limit: expected a number from 1 to 1000000"),
        (["--retryer", "100,1000", "a.yml"], "--retryer: expected PERIOD,MAX,ATTEMPTS"),
        (["--retryer", "100,1000,0", "a.yml"], "--retryer: expected PERIOD,MAX,ATTEMPTS"),
        (["--cloud-version", "new", "a.yml"], "--cloud-version: expected a version such as 2022.0.3 or Hoxton.SR12"),
        (["--boot-version", "3", "a.yml"], "--boot-version: expected a version such as 3.2.1"),
        (["--classpath", "nowhere.txt", "a.yml"], "nowhere.txt: cannot be read: No such file or directory"),
        (["--chain", "a>b", "a.yml"], "--chain a>b: no file is b; there are a"),
        (["--chain", "a", "a.yml"], "--chain a: expected at least two names, as in a>b"),
    ],
)
def test_wrong_usage(tmp_path, arguments, message):
    (tmp_path / "a.yml").write_text(FEIGN)
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr


def test_help(tmp_path):
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("usage: rea check")


def test_the_limit_is_the_users(tmp_path):
    assert "[RC01]" in run("--limit", "1", "RC01-clean.yml", "--classpath", "with-spring-retry.txt", cwd=DATA).stdout
    assert "[RC01]" not in run("--limit", "60", "nginx-many.conf", cwd=DATA).stdout


def test_files_of_one_application_are_read_together(tmp_path):
    """A profile's file is stronger than the plain one, .properties than .yml, whatever their order on the command line."""
    directory = tmp_path / "orders"
    directory.mkdir()
    (directory / "application.yml").write_text(FEIGN + "spring.cloud.loadbalancer.retry.max-retries-on-next-service-instance: 5\n")
    (directory / "application.properties").write_text("spring.cloud.loadbalancer.retry.max-retries-on-next-service-instance=2\n")
    (directory / "application-prod.yml").write_text("spring.cloud.loadbalancer.retry.max-retries-on-next-service-instance: 0\n")
    names = [f"orders/application{end}" for end in ("-prod.yml", ".properties", ".yml")]
    document = json.loads(run("-f", "json", *names, cwd=tmp_path).stdout)
    rows = {target["profile"]: target["requests"][2]["GET"]["most"] for target in document["targets"]}
    assert {target["hop"] for target in document["targets"]} == {"orders"} and rows == {"": 3, "prod": 1}


def test_l14_stacked_layers_are_found_on_paper(tmp_path):
    """Five attempts around two: ten requests, and the report names both layers and the limit."""
    document = """services: {{ {name}: {{ instances: ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5"] }} }}
contracts: {{ {name}: {{ operations: [ {{ get: /a, id: a, retryable: true }} ] }} }}
rpc: {{ feign: {{ retry: {{ enabled: true, max-retry-next-instance: {retries} }} }} }}
"""
    for name, retries in (("outer", 4), ("inner", 1)):
        (tmp_path / f"{name}.yaml").write_text(document.format(name=name, retries=retries))
    done = subprocess.run([REA, "check", "--kind", "rea", "--format", "json", "--chain", "outer>inner", "outer.yaml", "inner.yaml"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1, done.stderr
    (stacked,) = [finding for finding in json.loads(done.stdout)["findings"] if finding["rule"] == "RC23"]
    assert "10 requests" in stacked["message"] and "outer 5 x inner 2" in stacked["message"]
    (too_many,) = [finding for finding in json.loads(done.stdout)["findings"] if finding["rule"] == "RC01"]
    assert "4 requests for one call at most" in too_many["instead"]
