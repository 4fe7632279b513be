"""Kitex's retry documents, Client.Server.retry, from each kind of source: below what rea.yaml says, beside one another, live."""
import json

from rig import service, wait_for
from test_etcd import EtcdBed, encoded, etcd  # noqa: F401
from test_nacos import nacos, policy  # noqa: F401

DATA_ID = "shop.user-service.retry"
NAME = f"nacos public/DEFAULT_GROUP/{DATA_ID}"


def wish(retries, enable=True, kind=0, **methods):
    failure = {"stop_policy": {"max_retry_times": retries}, "backoff_policy": {"backoff_type": "fixed", "cfg_items": {"fix_ms": 20}}}
    return json.dumps({"*": {"enable": enable, "type": kind, "failure_policy": failure}, **methods})


class KitexBed:
    """rea before four instances of user-service, and one of pay-service, that answer 502: a call makes as many attempts as it may."""

    def __init__(self, rig, directory, policies, retry=None, **sources):
        self.upstream = rig.upstream(A="status 502", B="status 502", C="status 502", D="status 502")
        addresses = [self.upstream.address(name) for name in "ABCD"]
        config = service(*addresses)
        retry = dict(retry or {}, budget={"rule": "ratio", "ratio": 1.0, "reserve": 100000})
        config["rpc"] = {"feign": {"retry": retry}}
        config["services"]["pay-service"] = {"instances": addresses}
        config["services"]["idle-service"] = {"instances": []}
        config["contracts"]["pay-service"] = {"context": "pay", "operations": [{"get": "/p", "id": "getPay", "retryable": True}]}
        config["sources"] = {"snapshot-dir": str(directory / "kept"), "policy": policies, **sources}
        self.config, self.rig = config, rig
        self.rea = rig.serve(config)

    def attempts(self, path="/user-service/users/42"):
        biz_id = self.rea.new_biz_id()
        assert self.rea.request("GET", path, biz_id=biz_id).status == 502
        return len([r for r in self.upstream.requests() if r.field("x-biz-id") == biz_id])

    def wait_attempts(self, count, path="/user-service/users/42"):
        wait_for(lambda: self.attempts(path) == count, 5, f"{count} attempts a call")

    def details(self, part):
        return [event["detail"] for event in self.rea.config_events() if part in event.get("detail", "")]


def source(server, data_id=DATA_ID):
    return {"nacos": {"servers": [server.address], "data-id": data_id}}


def test_nacos_tells_it_live_and_the_change_is_named(rig, tmp_path, nacos):  # noqa: F811
    server = nacos(("v1",))
    server.publish(wish(1), data_id=DATA_ID)
    bed = KitexBed(rig, tmp_path, [source(server)], retry={"max-backoff-ms": 300})
    assert bed.attempts() == 2
    assert bed.attempts("/pay-service/p") == 1
    assert len(bed.details(f": policy of {NAME} from http://{server.address}")) == 1
    server.publish(wish(3), data_id=DATA_ID)
    bed.wait_attempts(4)
    assert bed.details("changed methods")[-1].startswith("changed methods: user-service user-api_getUserInfo (policy)")
    assert not [line for line in bed.details("changed methods") if "pay-service" in line]
    # One method named by Kitex's own name, which sends backup requests: no retries for it, the others as they were.
    server.publish(wish(3, getUserInfo={"enable": True, "type": 1, "backup_policy": {"retry_delay_ms": 10}}), data_id=DATA_ID)
    bed.wait_attempts(1)
    # What is refused changes nothing, is told once with its place, and is counted.
    server.publish(wish(9), data_id=DATA_ID)
    wait_for(lambda: bed.rea.metric("rea_source_errors_total", source=NAME, kind="refused") == 1, what="it is counted")
    (refused,) = bed.details("rejected")
    assert f"{NAME}:1:" in refused and 'max_retry_times' in refused and 'expected a number from 0 to 5, got "9"' in refused
    server.publish(wish(2), data_id=DATA_ID)
    bed.wait_attempts(3)
    server.remove(data_id=DATA_ID)
    bed.wait_attempts(1)
    assert len(bed.details("it is gone")) == 1


def test_our_own_document_stands_above(rig, tmp_path, nacos):  # noqa: F811
    server = nacos(("v1",))
    server.publish(wish(3), data_id=DATA_ID)
    retry = {"service-configs": {"user-service": {"max-retry-next-instance": 2}}}
    bed = KitexBed(rig, tmp_path, [source(server)], retry=retry)
    assert bed.attempts() == 3
    bed.config["rpc"]["feign"]["retry"] = {"enabled": False}
    bed.rea.reload(bed.config)
    bed.wait_attempts(1)


def test_several_and_one_of_ours(rig, tmp_path, nacos):  # noqa: F811
    """Each service has its own; the policy document holds above both; one that is broken does not hold up the others."""
    server = nacos(("v1",))
    other = "shop.pay-service.retry"
    server.publish(wish(1), data_id=DATA_ID)
    server.publish(wish(2), data_id=other)
    server.publish(wish(1), data_id="shop.idle-service.retry")
    names = [DATA_ID, other, "rpc-retry.yml", "shop.idle-service.retry"]
    bed = KitexBed(rig, tmp_path, [source(server, name) for name in names])
    assert bed.attempts() == 2 and bed.attempts("/pay-service/p") == 3
    server.publish("{", data_id=DATA_ID)
    wait_for(lambda: bed.rea.metric("rea_source_errors_total", source=NAME, kind="refused") == 1, what="it is refused")
    server.publish(wish(1), data_id=other)
    bed.wait_attempts(2, "/pay-service/p")
    assert bed.attempts() == 2
    server.publish(policy(3))
    bed.wait_attempts(4, "/pay-service/p")
    assert bed.attempts() == 4
    server.remove()
    bed.wait_attempts(2, "/pay-service/p")
    assert bed.attempts() == 2
    # Without its service the document is left out; the others stay.
    del bed.config["services"]["idle-service"]
    bed.config["sources"]["policy"].pop()
    bed.rea.reload(bed.config)
    wait_for(lambda: bed.details("services.idle-service: gone"), what="it is gone")
    assert bed.attempts() == 2


def test_a_snapshot_holds_while_the_server_is_away(rig, tmp_path, nacos):  # noqa: F811
    server = nacos(("v1",))
    server.publish(wish(2), data_id=DATA_ID)
    bed = KitexBed(rig, tmp_path, [source(server)])
    assert bed.attempts() == 3
    (kept,) = (tmp_path / "kept").glob("nacos-*.yaml")
    assert json.loads(kept.read_text())["*"]["enable"]
    assert bed.rea.stop() == 0
    server.close()
    for key in ("listen", "admin", "events"):
        del bed.config[key]
    bed.rea = rig.serve(bed.config)
    assert bed.attempts() == 3
    assert len(bed.details("its snapshot")) == 1


def test_from_a_file(rig, tmp_path):
    path = tmp_path / DATA_ID
    path.write_text(wish(1))
    bed = KitexBed(rig, tmp_path, [{"file": str(path)}])
    assert bed.attempts() == 2
    path.write_text(wish(3))
    bed.wait_attempts(4)


def test_from_etcd(rig, tmp_path, etcd):  # noqa: F811
    key = f"/kitex/{DATA_ID}"

    def publish(text):
        etcd.ask("/v3/kv/put", {"key": encoded(key), "value": encoded(text)})

    publish(wish(1))
    bed = KitexBed(rig, tmp_path, [{"etcd": {"servers": [etcd.address], "key": key}}])
    assert bed.attempts() == 2
    publish(wish(3))
    bed.wait_attempts(4)
    assert bed.details(f"policy of etcd {key} from http://{etcd.address}")
