"""
gRPC's own interop programs in Go, and grpc-js, through rea. They are fetched by their package managers, so this runs only where REA_GRPC_INTEROP=1 asks for it.
"""
import os
import shutil
import socket
import subprocess

import pytest

from rig import wait_for

GRPC_GO = "v1.66.2"
CASES = ["empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream", "cancel_after_begin", "cancel_after_first_response",
         "timeout_on_sleeping_server", "status_code_and_message", "special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service"]

pytestmark = pytest.mark.skipif(os.environ.get("REA_GRPC_INTEROP") != "1", reason="REA_GRPC_INTEROP=1 is not set: grpc-go and grpc-js are not fetched")


def fetch(command, **options):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        pytest.skip(f"{command[0]} could not fetch it: {done.stderr[-200:]}")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("grpc-go")
    env = {**os.environ, "GOBIN": str(directory), "GOFLAGS": "-modcacherw"}
    fetch(["go", "install", *(f"google.golang.org/grpc/interop/{name}@{GRPC_GO}" for name in ("client", "server"))], env=env)
    return directory


@pytest.fixture
def interop(rig, programs):
    port = free_port()
    server = subprocess.Popen([programs / "server", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rig.unchecked = True  # the server does not tell what it saw
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, 10)
        yield rig.serve({"services": {"testing": {"grpc-services": ["grpc.testing.*"], "instances": [f"127.0.0.1:{port}"]}}}), programs
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("case", CASES)
def test_grpc_go(interop, case):
    serve, programs = interop
    host, port = serve.calls.rsplit(":", 1)
    done = subprocess.run([programs / "client", "--server_host", host, "--server_port", port, "--test_case", case], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


JS = """
const grpc = require('@grpc/grpc-js');
const raw = v => v, path = m => '/grpc.testing.TestService/' + m;
const client = new grpc.Client(process.argv[2], grpc.credentials.createInsecure(), {'grpc.enable_retries': 0});
client.makeUnaryRequest(path('EmptyCall'), raw, raw, Buffer.alloc(0), (error, reply) => {
	if (error || reply.length !== 0) throw error || new Error('a reply with ' + reply.length + ' bytes');
	client.makeUnaryRequest(path('UnimplementedCall'), raw, raw, Buffer.alloc(0), error => {
		if (!error || error.code !== grpc.status.UNIMPLEMENTED) throw new Error('not unimplemented: ' + error);
		// ResponseParameters {size: 9}, {size: 31415}: StreamingOutputCallRequest.response_parameters = 2
		const sizes = [];
		const stream = client.makeServerStreamRequest(path('StreamingOutputCall'), raw, raw, Buffer.from([0x12, 2, 8, 9, 0x12, 4, 8, 0xb7, 0xf5, 1]));
		stream.on('data', data => sizes.push(data.length));
		stream.on('error', error => { throw error; });
		stream.on('end', () => {
			if (sizes.length !== 2 || sizes[1] < 31415) throw new Error('sizes ' + sizes);
			const call = client.makeBidiStreamRequest(path('FullDuplexCall'), raw, raw);
			call.on('error', error => {
				if (error.code !== grpc.status.CANCELLED) throw error;
				console.log('well');
				client.close();
			});
			call.on('data', () => call.cancel());
			call.write(Buffer.from([0x12, 2, 8, 9]));
		});
	});
});
"""


def test_grpc_js(interop, tmp_path):
    serve, _ = interop
    (tmp_path / "client.js").write_text(JS)
    fetch(["npm", "install", "--no-audit", "--no-fund", "--silent", "@grpc/grpc-js@1.11.3"], cwd=tmp_path)
    done = subprocess.run(["node", "client.js", serve.calls], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "well\n", done.stderr
