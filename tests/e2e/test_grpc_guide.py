"""doc/guide/grpc.md does what it says: its files are written, and its commands are run in their order."""
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from rig import REA, wait_for

GUIDE = pathlib.Path(__file__).parents[2] / "doc/guide/grpc.md"

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="python3-grpcio is not installed"),
    pytest.mark.skipif(shutil.which("protoc") is None, reason="protoc is not installed"),
]


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def test_the_guide_is_true(tmp_path):
    ports = dict(zip(("9001", "9002", "7070", "7071"), free_ports(4)))

    def here(text):
        for written, port in ports.items():
            text = text.replace(f"127.0.0.1:{written}", f"127.0.0.1:{port}")
        return text

    for name, (kind, index) in {"users.proto": ("proto", 0), "server.py": ("python", 0), "client.py": ("python", 1), "rea.yaml": ("yaml", 0)}.items():
        (tmp_path / name).write_text(here(blocks(kind)[index]))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rea").symlink_to(pathlib.Path(shutil.which(REA)).resolve())
    (programs / "python3").symlink_to(sys.executable)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    started = []

    def sh(text):
        return subprocess.run(["sh", "-e", "-c", here(text)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    def start(text):
        for line in here(text).splitlines():
            assert line.endswith(" &")
            started.append(subprocess.Popen(line[:-2].split(), cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def listens(port):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", ports[port])) == 0

    protoc, servers, rea, call, timeline, explain = blocks("sh")
    try:
        assert sh(protoc).returncode == 0
        start(servers)
        wait_for(lambda: listens("9001") and listens("9002"), 20)
        start(rea)
        wait_for(lambda: listens("7070"), 20)
        result = sh(call)
        assert result.stdout == blocks("text")[0], result.stderr
        wait_for(lambda: "not_declared" in sh(timeline).stdout)
        result = sh(explain)
        assert "demo.Users_Get of users" in result.stdout and "permission: safe" in result.stdout, result.stderr
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(20)
