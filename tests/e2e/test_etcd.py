"""The retry policy from a real etcd (Debian's etcd-server), through its JSON gateway: changes, compaction, restarts, passwords, `rea config`."""
import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

from rig import wait_for
from test_nacos import Bed, config, policy

KEY = "/rea/policy.yaml"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def encoded(text):
    return base64.b64encode(text.encode()).decode()


class Etcd:
    def __init__(self, directory):
        self.directory = directory
        self.address, self.peer = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.token = None
        self.start()

    def start(self):
        url, peer = f"http://{self.address}", f"http://{self.peer}"
        command = ["etcd", "--name", "a", "--data-dir", str(self.directory / "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"a={peer}"]
        with open(self.directory / "etcd.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(self.is_up, 20, "etcd is up")

    def is_up(self):
        with contextlib.suppress(OSError):
            return self.ask("/v3/maintenance/status", {})

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def ask(self, path, body):
        request = urllib.request.Request(f"http://{self.address}{path}", json.dumps(body).encode())
        if self.token:
            request.add_header("Authorization", self.token)
        with urllib.request.urlopen(request, timeout=5) as reply:
            return json.load(reply)

    def publish(self, text):
        return int(self.ask("/v3/kv/put", {"key": encoded(KEY), "value": encoded(text)})["header"]["revision"])

    def remove(self):
        self.ask("/v3/kv/deleterange", {"key": encoded(KEY)})


@pytest.fixture
def etcd(tmp_path):
    if shutil.which("etcd") is None:
        pytest.fail("etcd is not installed: tools/bootstrap test")
    server = Etcd(tmp_path)
    yield server
    server.stop()


class EtcdBed(Bed):
    kind = "etcd"

    def __init__(self, rig, servers, directory, **source):
        super().__init__(rig, servers, directory, key=KEY, **source)


def test_changes_apply_within_a_second(rig, tmp_path, etcd):
    etcd.publish(policy(1))
    bed = EtcdBed(rig, [etcd], tmp_path)
    assert bed.attempts() == 2
    for retries in (3, 0, 2):
        begin = time.monotonic()
        etcd.publish(policy(retries))
        bed.wait_attempts(retries + 1)
        assert time.monotonic() - begin < 1
    assert len(bed.details(f"policy of etcd {KEY} from http://{etcd.address}")) == 4
    etcd.remove()
    bed.wait_attempts(1)
    etcd.publish("rpc: {feign: {retry: {jitter: 0}}}")
    assert "rpc.feign.retry.jitter" in wait_for(lambda: bed.details("rejected"))[0]
    etcd.publish(policy(2))
    bed.wait_attempts(3)


def test_large_documents_and_other_keys(rig, tmp_path, etcd):
    etcd.publish(policy(1))
    bed = EtcdBed(rig, [etcd], tmp_path)
    etcd.ask("/v3/kv/put", {"key": encoded(KEY + ".old"), "value": encoded("]")})
    etcd.publish(policy(3) + "\n" + "# a comment\n" * 80000)
    bed.wait_attempts(4)
    assert not bed.details("rejected")


def test_compaction_and_restarts_lose_nothing(rig, tmp_path, etcd):
    etcd.publish(policy(1))
    bed = EtcdBed(rig, [etcd], tmp_path)
    assert bed.attempts() == 2
    # While rea cannot watch, the revision that it would go on from is compacted.
    etcd.stop()
    wait_for(lambda: bed.details("onnect"), 10)
    etcd.start()
    for retries in (0, 2, 3):
        revision = etcd.publish(policy(retries))
    etcd.ask("/v3/kv/compaction", {"revision": str(revision), "physical": True})
    bed.wait_attempts(4, 15)
    etcd.publish(policy(1))
    bed.wait_attempts(2)
    # Two restarts, as the first one may fall into a wait of rea.
    etcd.stop()
    assert bed.attempts() == 2
    bed.again()
    assert bed.attempts() == 2 and bed.details("its snapshot, ")
    etcd.start()
    etcd.publish(policy(2))
    bed.wait_attempts(3, 15)


def test_a_watch_from_a_compacted_revision(rig, tmp_path, etcd):
    """The key is read, and before the watch is there its revision is gone: a proxy between them holds the watch back."""
    etcd.publish(policy(1))
    with Between(etcd) as between:
        bed = EtcdBed(rig, [between.address], tmp_path)
        assert bed.attempts() == 2
        wait_for(lambda: between.held)
        for retries in (0, 2, 3):
            revision = etcd.publish(policy(retries))
        etcd.ask("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        between.release()
        bed.wait_attempts(4)
        etcd.publish(policy(2))
        bed.wait_attempts(3)


class Between:
    """Forwards connections, and holds the first request for a watch until it is released."""

    def __init__(self, etcd):
        import threading

        self.etcd = etcd
        self.held = False
        self.free = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread_of = lambda target, *arguments: threading.Thread(target=target, args=arguments, daemon=True).start()
        self.thread_of(self.accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.free.set()
        self.listener.close()

    def release(self):
        self.free.set()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                host, port = self.etcd.address.split(":")
                server = socket.create_connection((host, int(port)))
                self.thread_of(self.pump, client, server, True)
                self.thread_of(self.pump, server, client, False)

    def pump(self, source, sink, forth):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if forth and b"/v3/watch" in data and not self.free.is_set():
                    self.held = True
                    self.free.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def test_users_and_passwords(rig, tmp_path, etcd):
    etcd.publish(policy(2))
    etcd.ask("/v3/auth/user/add", {"name": "root", "password": "toor"})
    etcd.ask("/v3/auth/user/grant", {"user": "root", "role": "root"})
    etcd.ask("/v3/auth/enable", {})
    etcd.token = etcd.ask("/v3/auth/authenticate", {"name": "root", "password": "toor"})["token"]
    bed = EtcdBed(rig, [etcd], tmp_path, username="root", password="toor")
    assert bed.attempts() == 3
    etcd.publish(policy(3))
    bed.wait_attempts(4)
    assert config(bed, "pull").stdout == policy(3)
    other = EtcdBed(rig, [etcd], tmp_path)
    assert other.attempts() == 1 and other.details("access denied")
    wrong = EtcdBed(rig, [etcd], tmp_path, username="root", password="wrong!")
    assert wrong.attempts() == 1 and wrong.details("user root is refused") and "wrong!" not in wrong.rea.stderr_text()


def test_push_pull_history(rig, tmp_path, etcd):
    bed = EtcdBed(rig, [etcd], tmp_path)
    path = tmp_path / "mine.yaml"
    path.write_text(policy(2))
    assert config(bed, "pull").returncode == 1
    first = config(bed, "push", str(path))
    assert first.returncode == 0, first.stderr
    bed.wait_attempts(3)
    pulled = config(bed, "pull")
    assert pulled.stdout == policy(2)
    version = pulled.stderr.split()[1]
    assert first.stdout.split()[1] == version
    path.write_text(policy(3))
    assert config(bed, "push", "--over", version, str(path)).returncode == 0
    bed.wait_attempts(4)
    late = config(bed, "push", "--over", version, str(path))
    assert late.returncode == 1 and "has changed" in late.stderr
    history = config(bed, "history").stdout.splitlines()[1:]
    assert [line.split()[1] for line in history] == ["update", "insert"] and history[1].split()[0] == version
    revision = int(history[0].split()[0])
    etcd.ask("/v3/kv/compaction", {"revision": str(revision), "physical": True})
    assert len(config(bed, "history").stdout.splitlines()) == 2
