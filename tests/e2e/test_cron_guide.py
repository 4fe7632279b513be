"""doc/guide/from-cron-to-tasks.md does what it says: its rea.yaml is served, and its commands are run in their order."""
import os
import pathlib
import re
import shutil
import subprocess

from rig import REA, wait_for

GUIDE = pathlib.Path(__file__).parents[2] / "doc/guide/from-cron-to-tasks.md"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)


def test_the_guide_is_true(rig, tmp_path):
    rig.unchecked = True  # its invariants are of calls
    upstream = rig.upstream(A="status 503\nstatus 200")
    (config,) = blocks("yaml")
    config = config.replace("127.0.0.1:9001", upstream.address("A")).replace("127.0.0.1:707", "127.0.0.1:0 #").replace("/var/lib/rea", str(tmp_path))
    serve = rig.serve(config)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rea").symlink_to(pathlib.Path(shutil.which(REA)).resolve())
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "REA_ADMIN": serve.admin, "XDG_RUNTIME_DIR": str(tmp_path)}

    def sh(text):
        text = text.replace("http://127.0.0.1:9001", f"http://{upstream.address('A')}").replace("rea timeline", f"rea timeline --admin {serve.admin}")
        return subprocess.run(["sh", "-e", "-c", text], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    def requests():
        return upstream.requests(path="/invoices")

    run, submit, look, pause, replay, bulk = blocks("sh")

    # 1. The first request is answered with 503, and curl's 22 is repeated.
    result = sh(run)
    assert (result.returncode, result.stderr.count("curl: (22)")) == (0, 1), result.stderr
    assert [seen["body_bytes"] for seen in requests()] == [14, 14]
    assert (tmp_path / "rea" / "invoices.budget").exists()

    # 2. Once, with its key, however often it is handed in.
    for _ in range(2):
        assert sh(submit).returncode == 0
    wait_for(lambda: len(requests()) == 3)
    assert requests()[2].field("idempotency-key") == "invoices-2026-11-30"

    # 3. What is there to see.
    wait_for(lambda: "SUCCESS" in sh(look).stdout)
    assert sh(look).returncode == 0
    result = sh(pause)
    assert result.returncode == 0 and "deployment" in result.stdout
    result = sh(replay)
    assert result.stdout == "0 matched, 0 replayed\n0 matched, 0 replayed\n"

    # Many, twice.
    result = sh(bulk)
    assert result.returncode == 0
    assert result.stderr.splitlines() == [f"rea tasks: 3 lines: {counts}, 0 refused" for counts in ("3 taken, 0 there already", "0 taken, 3 there already")]
    wait_for(lambda: len(requests()) == 6)
