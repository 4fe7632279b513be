"""rea run: a command, repeated by its exit code, under a budget that all such processes of the host share."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from rig import REA, wait_for

FAST = ["--policy", "min-backoff-ms=20", "--policy", "max-backoff-ms=40"]


class Runs:
    """Calls of `rea run` with a budget directory of their own."""

    def __init__(self, path):
        self.path = path
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(path)}
        for name in ("REA_ATTEMPT", "REA_ATTEMPTS_MAX", "REA_KEY"):
            self.env.pop(name, None)

    def __call__(self, *arguments, stdin=subprocess.DEVNULL, **more):
        if isinstance(stdin, bytes):
            more["input"], stdin = stdin, None
            return subprocess.run([REA, "run", *arguments], capture_output=True, env=self.env, cwd=self.path, timeout=60, **more)
        return subprocess.run([REA, "run", *arguments], stdin=stdin, capture_output=True, env=self.env, cwd=self.path, timeout=60, **more)

    def start(self, *arguments, **more):
        return subprocess.Popen(
            [REA, "run", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, cwd=self.path, **more
        )

    def lines(self, name="attempts"):
        path = self.path / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def run(tmp_path):
    return Runs(tmp_path)


def sh(text):
    return ["--", "sh", "-c", text]


def test_a_success_is_silent(run):
    result = run(*sh("echo out; echo err >&2"))
    assert (result.returncode, result.stdout, result.stderr) == (0, b"out\n", b"err\n")


def test_retries_until_it_succeeds(run):
    result = run(*FAST, *sh('echo "$REA_ATTEMPT/$REA_ATTEMPTS_MAX $REA_KEY" >>attempts; test "$REA_ATTEMPT" = 3'))
    assert (result.returncode, result.stderr) == (0, b"")
    lines = run.lines()
    assert [line.split()[0] for line in lines] == ["1/3", "2/3", "3/3"]
    keys = {line.split()[1] for line in lines}  # I2: one key for all attempts
    assert len(keys) == 1 and re.fullmatch("[0-9a-f]{32}", keys.pop())


def test_a_failure_tells_its_timeline_and_keeps_the_exit_code(run):
    result = run(*FAST, *sh("echo x >>attempts; exit $((10 + REA_ATTEMPT))"))
    assert result.returncode == 13
    lines = result.stderr.decode().splitlines()
    assert "permission idempotent (caller), at most 3 attempts (2 retries)" in lines[1]
    assert [re.search(r"#(\d/\d) +pid \d+ +(\w+ exit \d+)", line).groups() for line in lines[2:]] == [
        ("1/3", "failed exit 11"),
        ("2/3", "failed exit 12"),
        ("3/3", "failed exit 13"),
    ]
    assert lines[4].endswith("give up after 3 attempts (2 retries): attempts_exhausted (the policy allows 3 attempts (2 retries))")
    assert run("--quiet", *FAST, *sh("exit 1")).stderr == b""


def test_verbose_tells_a_success_too(run):
    lines = run("-v", *sh("true")).stderr.decode().splitlines()
    assert len(lines) == 3 and lines[2].endswith("success")


@pytest.mark.parametrize("code, attempts", [(1, 3), (2, 1), (64, 1), (69, 3), (70, 3), (75, 3), (77, 1), (78, 1), (126, 1), (127, 1), (255, 3)])
def test_which_exit_codes_are_retried(run, code, attempts):
    assert run(*FAST, *sh(f"echo x >>attempts; exit {code}")).returncode == code
    assert len(run.lines()) == attempts


@pytest.mark.parametrize("options, code, attempts", [(["-R", "3,7-9"], 8, 3), (["-R", "3,7-9"], 1, 1), (["-R", "2"], 2, 3), (["-P", "9-11"], 10, 1), (["-P", "9-11"], 12, 3)])
def test_exit_codes_can_be_chosen(run, options, code, attempts):
    assert run(*options, *FAST, *sh(f"echo x >>attempts; exit {code}")).returncode == code
    assert len(run.lines()) == attempts


def test_a_command_that_a_signal_ends_is_ambiguous_and_retried(run):
    result = run(*FAST, *sh("echo x >>attempts; kill -SEGV $$"))
    assert result.returncode == 128 + signal.SIGSEGV
    assert len(run.lines()) == 3
    assert b"ambiguous exit 139" in result.stderr


def test_what_cannot_be_run_is_not_tried_again(run):
    result = run(*FAST, "--", "./no-such-command")
    assert result.returncode == 127
    assert b"rea run: cannot run ./no-such-command: No such file or directory\n" in result.stderr
    assert result.stderr.count(b"permanent exit 127") == 1
    (run.path / "file").write_text("")
    assert run("--", "./file").returncode == 126


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-p", "min-backoff-ms=5"], "min-backoff-ms is 5; it must be at least 20"),
        (["-p", "jitter=0"], "jitter"),
        (["-r", "10"], "at most 10"),
        (["-t", "9", "-d", "3"], "attempt-timeout-ms"),
        (["-p", "bogus=1"], 'no key "bogus"'),
        (["-p", "budget={rule: off}"], "rule"),
        (["-t", "0"], "a number of seconds from 0.001 to 3600 is expected: 0"),
        (["-t", "3601"], "3601"),
        (["-r", "-1"], "--retries is a number: -1"),
        (["-R", "0"], "no list of exit codes"),
        (["-R", "1,"], "no list of exit codes"),
        (["-P", "5-3"], "no list of exit codes"),
        (["-R", "256"], "no list of exit codes"),
        (["-R", "100-130"], "126 and 127"),
        (["-p", "a=b\nenabled: false"], "control character"),
        (["-p", "missing.yaml"], "missing.yaml"),
        (["-p", "missing.yaml", "-r", "1"], "stands alone"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(run, arguments, message):
    result = run(*arguments, *sh("echo x >>attempts"))
    assert result.returncode == 125
    assert message in result.stderr.decode()
    assert run.lines() == []


def test_without_a_command(run):
    assert run().returncode == 125
    assert run("--help").returncode == 0


def test_a_policy_file(run):
    (run.path / "rea.yaml").write_text("rpc: {feign: {retry: {enabled: true, max-retry-next-instance: 3, min-backoff-ms: 20, max-backoff-ms: 20, retry-on: [failed]}}}")
    assert run("-p", "rea.yaml", *sh("echo x >>attempts; exit 1")).returncode == 1
    assert len(run.lines()) == 4
    (run.path / "rea.yaml").write_text("rpc: {feign: {retry: {max-retry-next-instance: 3}}}")
    assert b"not_retryable" in run("-p", "rea.yaml", *sh("exit 1")).stderr


def test_a_deadline_ends_it_before_a_wait_that_does_not_fit(run):
    begin = time.monotonic()
    result = run("-d", "2", "-t", "2", "-p", "min-backoff-ms=5000", "-p", "max-backoff-ms=5000", *sh("exit 1"))
    assert time.monotonic() - begin < 2  # no sleep towards it
    assert result.returncode == 1 and b"give up: deadline" in result.stderr


@pytest.mark.parametrize("leader", ["exec sleep 600", 'trap "" TERM; wait; sleep 600'])  # goes when it is told to, or not
def test_a_timeout_ends_the_whole_group(run, leader):
    result = run("-r", "1", *FAST, "-t", "0.2", "-k", "0.1", *sh(f'(trap "" TERM; exec sleep 600) & echo $! >>pids; {leader}'))
    assert result.returncode == 124
    assert result.stderr.count(b"ambiguous ETIMEDOUT") == 2
    assert len(run.lines("pids")) == 2
    for pid in run.lines("pids"):
        wait_for(lambda pid=pid: not pathlib.Path(f"/proc/{pid}").exists() or " Z " in pathlib.Path(f"/proc/{pid}/stat").read_text())


# ---------------------------------------------------------------- signals


def test_a_signal_goes_to_the_command_and_ends_the_retries(run):
    process = run.start(*FAST, *sh('echo x >>attempts; trap "echo got >>signals; exit 9" TERM; while :; do sleep 0.01; done'))
    wait_for(run.lines)
    time.sleep(0.05)  # the trap is set right after the line
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 9
    assert run.lines("signals") == ["got"]
    assert len(run.lines()) == 1 and b"give up: cancelled" in err


def test_a_command_that_does_not_heed_sigterm_is_killed_after_the_grace(run):
    process = run.start(*FAST, "-k", "0.2", *sh('trap "" TERM; echo x >>attempts; while :; do sleep 0.01; done'))
    wait_for(run.lines)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGKILL and len(run.lines()) == 1 and b"give up: cancelled" in err


def test_a_command_may_live_on_with_sigint(run):
    process = run.start(*FAST, "-k", "0.1", *sh('trap "" INT; echo x >>attempts; sleep 0.6; exit 0'))
    wait_for(run.lines)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 0


def test_a_signal_during_a_wait_ends_it_at_once(run):
    process = run.start("-p", "min-backoff-ms=30000", *sh("echo x >>attempts; exit 1"))
    wait_for(run.lines)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGINT
    assert len(run.lines()) == 1 and b"cancelled" in err


def test_another_signal_is_only_passed_on(run):
    process = run.start(*sh('trap "echo usr1 >>signals; exit 0" USR1; echo x >>attempts; while :; do sleep 0.01; done'))
    wait_for(run.lines)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(10) == 0
    assert run.lines("signals") == ["usr1"]


def test_killed_it_takes_the_command_along(run):
    process = run.start(*sh("echo $$ >>attempts; exec sleep 600"))
    pid = int(wait_for(run.lines)[0])
    process.kill()
    process.wait()
    wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists())


def test_a_chained_run_leaves_the_retries_to_the_one_above(run):
    inner = f"{REA} run -p min-backoff-ms=20 -- sh -c 'echo x >>attempts; exit 1'"
    result = run(*FAST, *sh(inner))
    # The first attempt above may retry below; its retries may not.
    assert result.returncode == 1 and len(run.lines()) == 3 + 1 + 1
    assert b"chain_stopped" in result.stderr


# ---------------------------------------------------------------- standard input


def test_input_from_a_pipe_is_repeated(run):
    body = bytes(range(256)) * 256  # the limit exactly
    result = run(*FAST, *sh("sha256sum; exit 1"), stdin=body)
    assert len(result.stdout.splitlines()) == 3 and len(set(result.stdout.splitlines())) == 1
    result = run(*FAST, *sh("sha256sum; exit 1"), stdin=body + b"x")
    assert len(result.stdout.splitlines()) == 1
    assert b"body_over_limit" in result.stderr


def test_a_long_input_arrives_whole(run):
    assert run(*sh("wc -c"), stdin=b"x" * 5_000_000).stdout.strip() == b"5000000"


def test_input_from_a_file_is_repeated_from_where_it_stood(run):
    path = run.path / "in"
    path.write_bytes(b"first\n" + b"x" * 200_000)
    with open(path, "rb") as file:
        os.lseek(file.fileno(), 6, os.SEEK_SET)
        result = run(*FAST, *sh("cat | wc -c; exit 1"), stdin=file)  # wc alone would only look at the size
    assert result.stdout.split() == [b"200000"] * 3


def test_a_command_that_does_not_read_is_no_reason_to_wait(run):
    reading, writing = os.pipe()  # nothing ever comes, and it does not end
    try:
        assert run(*FAST, *sh("exit 1"), stdin=reading).returncode == 1
    finally:
        os.close(reading)
        os.close(writing)


def test_without_input(run):
    assert run("-n", *sh("wc -c"), stdin=b"12345").stdout.strip() == b"0"


# ---------------------------------------------------------------- the budget


def storm(run, processes, *options):
    """As many `rea run` at once as a host's cron might start. Returns attempts and seconds."""
    with socket.socket() as refused:
        refused.bind(("127.0.0.1", 0))  # bound, and nobody listens
        command = f"printf x >>attempts; exec 3<>/dev/tcp/127.0.0.1/{refused.getsockname()[1]}"
        begin = time.monotonic()
        subprocess.run(
            ["xargs", "-P", "100", "-I", "{}", REA, "run", "--quiet", *FAST, *options, "--", "bash", "-c", command],
            input="\n".join(map(str, range(processes))),
            text=True,
            capture_output=True,
            env=run.env,
            cwd=run.path,
            timeout=120,
        )
        return (run.path / "attempts").stat().st_size, time.monotonic() - begin


def test_a_thousand_at_once_make_no_storm(run):
    attempts, seconds = storm(run, 1000)
    # A fifth of the first attempts, and 10 a second from one window before the first to the last.
    assert 1000 <= attempts <= 1000 + 200 + 10 * (10 + seconds)
    assert attempts >= 1100  # it is a budget, not a ban


def test_budgets_have_names(run):
    narrow = ["-p", "budget={rule: ratio, ratio: 0, reserve: 0}"]
    assert run("-b", "one", *narrow, *FAST, *sh("echo x >>attempts; exit 1")).stderr.count(b"budget_exhausted (the retry budget of one is used up)") == 1
    assert len(run.lines()) == 1
    for _ in range(2):  # five tokens, shared
        run("-b", "two", "-p", "budget={rule: aws, capacity: 5, cost-transient: 1, cost-timeout: 1, cost-throttling: 1}", "-r", "3", *FAST, *sh("echo x >>two; exit 1"))
    assert len(run.lines("two")) == 2 + 5
    assert (run.path / "rea" / "two.budget").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spoil, message", [(lambda path: path.write_bytes(b"short"), "cut short"), (lambda path: path.write_bytes(b"a" * 10320), "no budget of this version"), (lambda path: path.chmod(0o666), "others may write it")])
def test_a_file_that_is_no_budget_is_left_alone_and_told_once(run, spoil, message):
    path = run.path / "shared"
    path.write_bytes(b"")
    path.chmod(0o600)
    spoil(path)
    before = path.read_bytes()
    result = run("-b", str(path), *FAST, *sh("echo x >>attempts; exit 1"))
    assert result.returncode == 1 and len(run.lines()) == 3  # with a budget of its own
    errors = [line for line in result.stderr.decode().splitlines() if line.startswith("rea run:")]
    assert len(errors) == 1 and message in errors[0] and errors[0].endswith("this run has a budget of its own")
    assert path.read_bytes() == before
