"""
Nacos's own clients for Node.js and Python beside rea at one server: each finds what the other registers. They are fetched by their package managers, so this runs
only where REA_NACOS_CLIENTS=1 asks for it.
"""
import json
import os
import subprocess
import sys

import pytest

from nacos import BEAT_V1
from rig import wait_for
from test_discovery import FromNacos, configure, listed, nacos, provider  # noqa: F401
from test_grpc_interop import fetch

pytestmark = pytest.mark.skipif(os.environ.get("REA_NACOS_CLIENTS") != "1", reason="REA_NACOS_CLIENTS=1 is not set: the clients of npm and PyPI are not fetched")

JS = """
const { NacosNamingClient } = require('nacos');
(async () => {
	const [,, server, mode, address] = process.argv;
	const client = new NacosNamingClient({ logger: { ...console, info() {}, debug() {}, warn() {} }, serverList: server, namespace: 'public' });
	await client.ready();
	if (mode === 'find') {
		const found = await client.getAllInstances('user-service', 'DEFAULT_GROUP', 'DEFAULT', false);
		console.log(JSON.stringify(found.map(({ ip, port, weight, metadata }) => ({ address: `${ip}:${port}`, weight, metadata }))));
		process.exit(0);
	}
	const [ip, port] = address.split(':');
	const instance = { ip, port: Number(port), metadata: { 'rea.retryable': 'user-api_getUserInfo' }, weight: 3 };
	await client.registerInstance('user-service', instance);
	console.log('registered');
	process.stdin.on('end', async () => { await client.deregisterInstance('user-service', instance); process.exit(0); }).resume();
})().catch(error => { console.error(error); process.exit(1); });
"""

PYTHON = """
import json, sys, nacos
server, mode, *more = sys.argv[1:]
client = nacos.NacosClient(server, namespace="public")
if mode == "find":
    found = client.list_naming_instance("user-service", clusters="DEFAULT", namespace_id="public", group_name="DEFAULT_GROUP")["hosts"]
    print(json.dumps([{"address": f"{i['ip']}:{i['port']}", "weight": i["weight"], "metadata": i["metadata"]} for i in found]))
else:
    ip, port = more[0].split(":")
    client.add_naming_instance("user-service", ip, int(port), "DEFAULT", weight=3, metadata={"rea.retryable": "user-api_getUserInfo"})
    print("registered", flush=True)
    for _ in range(2):
        client.send_heartbeat("user-service", ip, int(port), "DEFAULT", weight=3)
    sys.stdin.read()
    client.remove_naming_instance("user-service", ip, int(port), "DEFAULT")
"""


@pytest.fixture(params=["npm", "PyPI"])
def command(request, tmp_path):
    if request.param == "npm":
        (tmp_path / "client.js").write_text(JS)
        fetch(["npm", "install", "--no-audit", "--no-fund", "--silent", "nacos@2.6.3"], cwd=tmp_path)
        return ["node", "client.js"]
    (tmp_path / "client.py").write_text(PYTHON)
    fetch([sys.executable, "-m", "venv", "venv"], cwd=tmp_path)
    fetch([str(tmp_path / "venv/bin/pip"), "install", "--quiet", "nacos-sdk-python==2.0.11"], cwd=tmp_path)
    return [str(tmp_path / "venv/bin/python"), "client.py"]


def test_each_finds_what_the_other_registers(rig, tmp_path, nacos, command):  # noqa: F811
    server = nacos(("v1",))
    upstream = rig.upstream(A="echo", B="echo")
    ours, theirs = upstream.address("A"), upstream.address("B")
    rea = rig.serve(provider(server, ours, weight=2.5))
    wait_for(lambda: server.instances().get(ours), 5, "it is registered")
    found = subprocess.run([*command, server.address, "find"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    (instance,) = json.loads(found.stdout)
    assert instance["address"] == ours and instance["weight"] == 2.5 and instance["metadata"]["version"] == "7"
    assert "user-api_getUserInfo" in instance["metadata"]["rea.retryable"]
    assert rea.stop() == 0
    client = subprocess.Popen([*command, server.address, "register", theirs], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout.readline() == "registered\n"
        caller = rig.serve(configure(FromNacos(server)))
        assert [*listed(caller)] == [theirs]
        wait_for(lambda: len(server.seen(BEAT_V1, "PUT")) >= 2, 15, "it beats")
    finally:
        client.stdin.close()
        client.wait(20)
    wait_for(lambda: theirs not in server.instances(), 5, "it is gone")
