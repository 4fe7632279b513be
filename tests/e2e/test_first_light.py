"""What a newcomer sees: the example of `make run`, and the configurations that the documents show, are true."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from rig import REA

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORTS = (7070, 7071, 9001, 9002, 9003, 9011, 9012)


def check(path):
    return subprocess.run([REA, "serve", "--check", "--config", str(path)], capture_output=True, text=True, timeout=10)


@pytest.mark.parametrize("name", ["examples/first-light/rea.yaml", "packaging/rea.yaml"])
def test_shipped_configurations_are_good(name):
    done = check(ROOT / name)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_readme_shows_a_good_configuration(tmp_path):
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert len(blocks) == 1
    (tmp_path / "rea.yaml").write_text(blocks[0])
    done = check(tmp_path / "rea.yaml")
    assert (done.returncode, done.stderr) == (0, "")


def ports_are_free():
    for port in PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return False
    return True


def group_is_gone(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.skipif(not ports_are_free(), reason="a port of the example is taken")
def test_make_run_shows_a_healed_call_and_a_refused_payment():
    script = subprocess.Popen(
        [ROOT / "tools/first-light"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        lines = []
        for line in script.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        text = "".join(lines)
        assert re.search(r"#1/3 .*9001 .*unavailable 503 .*retry in \d+ ms\n.*#2/3 .*9002 .*never_sent ECONNREFUSED .*retry in \d+ ms\n"
                         r".*#3/3 .*9003 .*ok 200 .*success after 3 attempts \(2 retries\)\n", text), text
        assert re.search(r"503 in .*something went wrong\n", text), text
        assert re.search(r"#1/3 .*9011 .*unavailable 503 .*give up: forbidden", text), text
        os.killpg(script.pid, signal.SIGINT)
        assert script.wait(10) == 0
        end = time.monotonic() + 5
        while not group_is_gone(script.pid):
            assert time.monotonic() < end, "first-light left a process behind"
            time.sleep(0.02)
    finally:
        if not group_is_gone(script.pid):
            os.killpg(script.pid, signal.SIGKILL)
