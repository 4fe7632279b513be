"""rea torture: passes on a disk that keeps what it says it has, and fails on one that does not."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import sanitized
from rig import REA, wait_for

HERE = pathlib.Path(__file__).parent
KEPT = ["acknowledged", "keys", "I1", "I2", "I3", "I4", "I5", "I6", "I7", "delivered", "cancelled"]


def torture(path, *arguments, env=(), timeout=120):
    return subprocess.run([REA, "torture", *map(str, arguments), str(path)], capture_output=True, text=True, env={**os.environ, **dict(env)}, timeout=timeout)


@pytest.fixture(scope="module")
def lying_disk(tmp_path_factory):
    if sanitized() or shutil.which("cc") is None:
        pytest.skip("a library is put in front of the C library")
    library = tmp_path_factory.mktemp("lying") / "lying_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, HERE / "lying_disk.c", "-ldl"], check=True)
    return lambda every: [("LD_PRELOAD", str(library)), ("LYING_DISK", str(every))]


def number(output, pattern):
    return int(re.search(pattern, output).group(1))


def test_passes_here(tmp_path):
    result = torture(tmp_path, "--rounds", 4, "--seconds", 3, "--seed", 11)
    assert result.returncode == 0 and result.stderr == "", result.stdout + result.stderr
    output = result.stdout
    assert output.endswith("\nPASS\n")
    assert re.findall(r"^(\w+) +kept  ", output, re.M) == KEPT
    assert "killed        4 times" in output
    acknowledged, stored = number(output, r"acknowledged  (\d+)\n"), number(output, r"stored        (\d+):")
    assert 50 < acknowledged <= stored <= number(output, r"handed in     (\d+) tasks")
    assert number(output, r"(\d+) SUCCESS") > 40 and number(output, r"(\d+) CANCELLED") > 0
    assert 0 < number(output, r"(\d+) of them waited") <= number(output, r"commits       (\d+)")
    assert list(tmp_path.iterdir()) == []  # nothing is left


def test_with_power_cuts_it_passes_while_syncs_are_honest(tmp_path, lying_disk):
    result = torture(tmp_path, "--power-cuts", "--rounds", 4, "--seconds", 3, "--seed", 12, env=lying_disk(1))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("every", [0, 2])  # no sync is one, or every other
def test_it_finds_a_disk_that_lies(tmp_path, lying_disk, every):
    result = torture(tmp_path, "--power-cuts", "--rounds", 6, "--seconds", 4, "--seed", 13, env=lying_disk(every))
    assert result.returncode == 1
    assert re.search(r"^FAIL: acknowledged: (\d+ of the acknowledged tasks are gone|rea serve does not come back)", result.stdout, re.M), result.stdout
    assert re.search(r"^acknowledged  BROKEN", result.stdout, re.M) and re.search(r"^I7 +-  ", result.stdout, re.M)
    kept = re.search(r"^seed 13; everything is in (.*)$", result.stdout, re.M).group(1)
    assert (pathlib.Path(kept) / "rea.yaml").exists()


def test_no_processes_outlive_it(tmp_path):
    process = subprocess.Popen([REA, "torture", "--seconds", "600", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def children():
        return [int(pid) for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]

    pids = wait_for(lambda: len(children()) == 2 and children(), 20)
    process.kill()
    process.wait()
    wait_for(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids))


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["--rounds", "0", "."], 2, "--rounds is 0; it must be a number from 1 to 10000"),
        (["--clients", "65", "."], 2, "--clients is 65"),
        (["--seed", "x", "."], 2, "--seed is x"),
        ([], 2, "usage"),
        (["a", "b"], 2, "usage"),
        (["/nonexistent/dir"], 1, "rea torture: /nonexistent/dir: No such file or directory"),
    ],
)
def test_wrong_usage(arguments, code, message):
    result = subprocess.run([REA, "torture", *arguments], capture_output=True, text=True, timeout=30)
    assert result.returncode == code and message in result.stderr


def test_a_full_disk_accuses_nobody(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("only root may mount a small file system")
    try:
        result = torture(disk, "--rounds", 3, "--seconds", 6, "--seed", 14)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
    assert result.returncode == 1 and "BROKEN" not in result.stdout and "FAIL" not in result.stdout, result.stdout
    assert re.search(r"^rea torture: .*: the disk is full: this says nothing of the store; give it room and try again$", result.stderr, re.M), result.stderr
