"""The admin API is what its OpenAPI document says, and bears what the document forbids."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from rig import Connection, head, service, wait_for

SCHEMATHESIS = "schemathesis==4.32.5"


@pytest.fixture(scope="session")
def schemathesis():
    """The program, in an environment of its own outside the tree; it is no Debian package."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "rea" / SCHEMATHESIS.replace("==", "-")
    program = cache / "bin" / "schemathesis"
    if not program.exists():
        for command in ([sys.executable, "-m", "venv", "--clear", cache], [cache / "bin" / "pip", "install", "--quiet", SCHEMATHESIS]):
            result = subprocess.run(command, capture_output=True, text=True, timeout=600)
            if result.returncode != 0:
                pytest.skip(f"{SCHEMATHESIS} cannot be installed: {(result.stderr or result.stdout).strip().splitlines()[-1]}")
    return program


def serve_tasks(rig, tmp_path):
    upstream = rig.upstream(A="status 503", B="echo")
    rig.unchecked = True  # what becomes of the tasks is not what is looked at
    return rig.serve(
        service(
            *upstream.addresses.values(),
            events={"sqlite": str(tmp_path / "events.db")},
            tasks={"file": str(tmp_path / "tasks.db")},
        )
    )


def document_of(rea):
    reply = rea.get_admin("/v1/openapi.json")
    assert reply.status == 200 and reply.field("content-type") == "application/json"
    return json.loads(reply.text)


def test_the_program_serves_its_document(rig, tmp_path):
    rea = serve_tasks(rig, tmp_path)
    source = pathlib.Path(__file__).parents[2] / "doc/api/openapi.json"
    assert document_of(rea) == json.loads(source.read_text())


def test_what_stands_in_a_path_is_itself(rig, tmp_path):
    """/v1/tasks/replay is no task: the methods of the one are not those of the other."""
    rea = serve_tasks(rig, tmp_path)
    for path, allow in (("/v1/tasks/replay", "POST"), ("/v1/tasks/7", "GET, HEAD"), ("/v1/events/stream", "GET, HEAD")):
        with Connection(rea.admin) as connection:
            connection.send(head("DELETE", path, [("Host", rea.admin), ("Connection", "close")]))
            reply = connection.reply()
            assert (reply.status, reply.field("allow")) == (405, allow), path


def test_lists_may_be_percent_encoded(rig, tmp_path):
    rea = serve_tasks(rig, tmp_path)
    assert rea.get_admin("/v1/tasks?state=PENDING%2CSUCCESS").status == 200
    for wrong in ("", "PENDING,", "%2C", "pending", "PENDING%2"):
        expected = 200 if wrong == "PENDING," else 400
        assert rea.get_admin(f"/v1/tasks?state={wrong}").status == expected, wrong


def submit(rea, **task):
    body = json.dumps(task).encode()
    with Connection(rea.admin) as connection:
        connection.send(head("POST", "/v1/tasks", [("Host", rea.admin), ("Content-Length", len(body)), ("Connection", "close")]) + body)
        reply = connection.reply()
        assert reply.status == 202, reply
        return json.loads(reply.text)["id"]


def test_calls_and_tasks_on_one_timeline(rig, tmp_path):
    upstream = rig.upstream(A="status 503", B="echo")
    rig.unchecked = True
    configuration = service(
        *upstream.addresses.values(), events={"sqlite": str(tmp_path / "events.db"), "ring": 50}, tasks={"file": str(tmp_path / "tasks.db")}
    )

    def look():
        document = json.loads(rea.get_admin("/v1/timelines/order-1").text)
        return document if document["tasks"] and document["tasks"][0]["state"] == "SUCCESS" else None

    rea = rig.serve(json.loads(json.dumps(configuration)))
    assert rea.request("GET", "/user-service/users/42", biz_id="order-1").status == 200
    id = submit(rea, service="user-service", path="/users/42", method="GET", biz_id="order-1")
    before = wait_for(look)
    calls = [event for event in before["events"] if event["call_id"] != id]
    task = [event for event in before["events"] if event["call_id"] == id]
    assert [event["type"] for event in calls] == ["Retry", "Success"]
    assert task and task[-1]["type"] == "Success" and [event["attempt"] for event in task] == list(range(1, len(task) + 1))
    assert [task["id"] for task in before["tasks"]] == [id] and before["tasks"][0]["path"] == "/users/42"
    text = rea.get_admin("/v1/timelines/order-1?format=text").text
    assert f"\ntask {id}  SUCCESS  user-service  GET /users/42  " in text
    assert rea.stop() == 0

    rea = rig.serve(json.loads(json.dumps(configuration)))
    after = look()
    shape = lambda document: [(event["call_id"], event["type"], event.get("attempt"), event.get("outcome")) for event in document["events"]]
    assert sorted(shape(after)) == sorted(shape(before))
    assert after["tasks"] == before["tasks"]
    assert rea.stop() == 0

    # Without the database of events the tasks still tell their own attempts.
    del configuration["events"]["sqlite"]
    rea = rig.serve(json.loads(json.dumps(configuration)))
    alone = look()
    assert [event["call_id"] for event in alone["events"]] == [id] * len(task) and alone["tasks"] == before["tasks"]
    assert [event["type"] for event in alone["events"]] == [event["type"] for event in task]


@pytest.mark.long
def test_schemathesis(rig, tmp_path, schemathesis):
    """Left out: an endless stream, and the rule that what fits the schema must be accepted, since a document cannot say which services there are."""
    rea = serve_tasks(rig, tmp_path)
    document = document_of(rea)
    # With a service that exists, and a method that it declares, some of what is handed in becomes a task.
    submit_schema = document["components"]["schemas"]["TaskSubmit"]
    submit_schema["properties"]["service"] = {"const": "user-service"}
    submit_schema["oneOf"] = [{"required": ["service", "path"], "not": {"required": ["url"]}}]
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document))
    for i in range(3):
        submit(rea, service="user-service", path=f"/users/{i}", method="GET", biz_id=f"order-{i}")
    settings = tmp_path / "schemathesis.toml"  # 413 refuses, too
    settings.write_text('[checks.negative_data_rejection]\nexpected-statuses = ["4xx", "5xx"]\n')
    command = [schemathesis, "--config-file", settings, "run", path, "--url", f"http://{rea.admin}", "--exclude-path", "/v1/events/stream", "--max-examples", "20", "--seed", "1"]
    command += ["--exclude-checks", "positive_data_acceptance", "--suppress-health-check=all", "--no-color", "--generation-database", "none"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    listed = json.loads(rea.get_admin("/v1/tasks?limit=1000").text)["tasks"]
    assert len(listed) > 20, "nearly nothing that was handed in was taken"
    assert rea.popen.poll() is None and rea.stderr_text() == ""
