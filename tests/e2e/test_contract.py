"""Contracts from the documents that callees publish: through the sidecar, changed while it runs, and on the command line."""
import json
import subprocess

import pytest

from rig import REA, service, wait_for

OPENAPI = """openapi: 3.1.0
paths:
  /users/{{id}}:
    get: {{operationId: getUserInfo, tags: [user-api]{word}}}
"""
RETRYABLE, FORBIDDEN, SILENT = ", x-rpc-retryable: true", ", x-rpc-retryable: false", ""


def contract(*arguments, code=0):
    done = subprocess.run([REA, "contract", *map(str, arguments)], capture_output=True, text=True, timeout=30)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def write(path, word):
    draft = path.with_suffix(".new")
    draft.write_text(OPENAPI.format(word=word))
    draft.rename(path)
    return path


def pair_with(rig, word):
    """A flaky and a good instance behind a rea whose only contract is a document."""
    upstream = rig.upstream(A="status 503", B="status 200")
    path = write(rig.directory / "users.yaml", word)
    config = service(*upstream.addresses.values())
    config["contracts"]["user-service"] = {"files": ["users.yaml"]}
    return path, rig.serve(config)


# The four cases of DESIGN.md: what the callee permits decides where the caller's policy is on, and the reason says who spoke.
@pytest.mark.parametrize("word, status, reason", [(RETRYABLE, 200, None), (FORBIDDEN, 503, "forbidden"), (SILENT, 503, "not_declared")])
def test_a_document_permits(rig, word, status, reason):
    _, rea = pair_with(rig, word)
    assert rea.request("GET", "/user-service/users/42", biz_id="doc").status == status
    events = rea.timeline("doc")
    assert events[-1].get("permission") == {RETRYABLE: "idempotent", FORBIDDEN: "forbid", SILENT: None}[word]
    assert events[-1].get("permission_source") == (None if word == SILENT else "openapi")
    assert events[-1].get("reason") == reason


def test_a_document_that_changes_holds_for_new_calls(rig):
    path, rea = pair_with(rig, RETRYABLE)
    assert rea.request("GET", "/user-service/users/42", biz_id="before").status == 200
    write(path, FORBIDDEN)
    wait_for(lambda: rea.metric("rea_config_reloads_total") == 1, what="the document is read again")
    assert rea.request("GET", "/user-service/users/42", biz_id="after").status == 503
    assert rea.timeline("after")[-1]["reason"] == "forbidden"
    # A broken one changes nothing, and says where.
    path.write_text(OPENAPI.format(word=", x-rpc-retryable: maybe"))
    wait_for(lambda: rea.metric("rea_config_rejects_total") == 1, what="the broken document is refused")
    assert "users.yaml:4:" in rea.stderr_text() and "expected true, false or with-key" in rea.stderr_text()
    assert rea.request("GET", "/user-service/users/42", biz_id="still").status == 503
    write(path, RETRYABLE)
    wait_for(lambda: rea.metric("rea_config_reloads_total") == 2, what="the mended document is read")
    assert rea.request("GET", "/user-service/users/42", biz_id="again").status == 200


def details(rea):
    return [event["detail"] for event in rea.config_events()]


def test_what_changes_is_named(rig):
    path, rea = pair_with(rig, RETRYABLE)
    write(path, FORBIDDEN)
    wait_for(lambda: rea.metric("rea_config_reloads_total") == 1, what="the document is read again")
    assert details(rea)[-1] == "changed methods: user-service user-api_getUserInfo (permission forbid, was idempotent)"


# A document that names a file which is not there, or broken, is refused; once that file is well, all of it holds, and nobody has to touch the document again.
def test_a_file_that_was_named_too_early(rig):
    path, rea = pair_with(rig, RETRYABLE)
    before = len(details(rea))
    rea.config_path.write_text(rea.config_path.read_text().replace('"users.yaml"', '"new.yaml"'))
    wait_for(lambda: rea.metric("rea_config_rejects_total") == 1, what="the file is missing")
    new = path.with_name("new.yaml")
    write(new, ", x-rpc-retryable: maybe")
    wait_for(lambda: rea.metric("rea_config_rejects_total") == 2, what="the file is broken")
    assert rea.request("GET", "/user-service/users/42", biz_id="still").status == 200
    write(new, FORBIDDEN)
    wait_for(lambda: rea.metric("rea_config_reloads_total") == 1, what="the file is well")
    assert rea.request("GET", "/user-service/users/42", biz_id="now").status == 503
    rejected, broken, loaded, *changed = details(rea)[before:]
    assert "new.yaml" in rejected and "new.yaml:4:" in broken and loaded.startswith("loaded version ") and changed
    # What the running configuration no longer names is not read any more.
    write(path, RETRYABLE)
    assert rea.metric("rea_config_reloads_total") == 1


def test_a_document_that_is_missing_refuses_the_start(tmp_path):
    config = service("127.0.0.1:9")
    config["contracts"]["user-service"] = {"files": ["gone.yaml"]}
    path = tmp_path / "rea.yaml"
    path.write_text(json.dumps(config))
    done = subprocess.run([REA, "serve", "--check", "--config", str(path)], capture_output=True, text=True, timeout=10)
    assert done.returncode == 2 and f"{tmp_path}/gone.yaml cannot be read: No such file or directory" in done.stderr


def test_show_diff_import(tmp_path):
    old, new = write(tmp_path / "old.yaml", RETRYABLE), write(tmp_path / "new.yaml", FORBIDDEN)
    assert contract("show", old).stdout == (
        "KEY                   METHOD  PATH         PERMISSION          SOURCE\n"
        "user-api_getUserInfo  GET     /users/{id}  idempotent          openapi\n"
        "1 operations, 1 of them may be repeated\n")
    assert json.loads(contract("show", "--json", old).stdout) == [
        {"key": "user-api_getUserInfo", "method": "GET", "path": "/users/{id}", "permission": "idempotent", "source": "openapi",
         "retryable": True, "generate_key": False, "line": 4}]
    assert contract("diff", old, old).stdout == ""
    assert contract("diff", old, new, code=1).stdout == "user-api_getUserInfo  GET /users/{id}: idempotent -> forbid  (stopped being retryable)\n"
    (change,) = json.loads(contract("diff", "--json", new, old, code=1).stdout)
    assert change["change"] == "became retryable"
    plain = tmp_path / "plain.yaml"
    plain.write_text(contract("import", new).stdout)
    assert contract("diff", new, plain).stdout == ""
    # Both together: the more restrictive one.
    assert "forbid" in contract("show", old, new).stdout


def test_refusals(tmp_path):
    assert contract(code=2).stderr.startswith("usage: ")
    assert "No such file or directory" in contract("show", tmp_path / "none", code=2).stderr
    bad = tmp_path / "bad.yaml"
    bad.write_text("openapi: 2.0.0\n")
    assert contract("show", bad, code=2).stderr == f"rea: {bad}:1:10: openapi: only OpenAPI 3.0 and 3.1 are read; converters from 2.0 are many\n"
