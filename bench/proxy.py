"""rea beside HAProxy and nginx as proxies: CPU per request, latency and memory, as ratios to HAProxy in the same round.

Every proxy has one thread on CPU 0; the backend (nginx) and wrk share CPU 1. In a round each proxy gets the same load once, one after the
other, in an order that rotates. A ratio is taken within a round. CPU time is exact (schedstat); its parts in user and system mode are shares of
the kernel's ticks, which are coarse.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from common import BUILD, LOAD_CPU, SERVER_CPU, Cpu, Process, ask, bars_table, free_port, median, ratio, rotated, say, table, version_of, wait_until, words

INSTANCES = 3
CONNECTIONS = [1, 8, 32, 200]

BACKEND = """
worker_processes 1; daemon off; pid {dir}/backend.pid; error_log {dir}/backend.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; client_body_temp_path {dir}/body;
    server {{ {listen} location / {{ return 200 '{{"id":42,"name":"Ada Lovelace"}}'; }} }}
}}
"""

HAPROXY = """
global
    nbthread 1
    maxconn 4096
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    http-reuse always
{options}
frontend calls
    bind 127.0.0.1:{port}
{route}
backend users
{servers}
"""

HAPROXY_RETRY_OPTIONS = """
    retries 3
    retry-on all-retryable-errors
    option redispatch 1
    unique-id-format %{+X}o\\ %ci:%cp_%fi:%fp_%Ts_%rt:%pid
    unique-id-header X-Request-Id
"""

NGINX = """
worker_processes 1; daemon off; pid {dir}/{name}.pid; error_log {dir}/{name}.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
    client_body_temp_path {dir}/{name}-body; proxy_temp_path {dir}/{name}-proxy;
    upstream users {{ {servers} keepalive 256; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://users; proxy_http_version 1.1; proxy_set_header Connection ""; {retry} }}
    }}
}}
"""

NGINX_RETRY = """
            proxy_next_upstream error timeout http_502 http_503 http_504; proxy_next_upstream_tries 3;
            proxy_set_header X-Request-Id $request_id;
"""

REA = """
listen: 127.0.0.1:{port}
admin: 127.0.0.1:{admin}
threads: 1
events:
  file: {dir}/events.jsonl
services:
  user-service:
    instances: [{instances}]
contracts:
  user-service:
    context: user-api
    operations:
      - {{get: "/users/{{id}}", id: getUserInfo, retryable: true}}
      - {{post: /users, id: createUser, retryable: true}}
rpc:
  feign:
    retry:
      enabled: true
      max-retry-next-instance: 2
      service-configs:
        user-service:
          breaker: {{enabled: true}}
"""

POST_SCRIPT = """
wrk.method = "POST"
wrk.path = "/users"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"name":"' .. string.rep("x", 501) .. '"}'
"""



def serves(port):
    return ask(port, b"GET /users/42 HTTP/1.1\r\nHost: user-service\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200")


def start(directory, name, command, text, port, cpu):
    config = directory / f"{name}.conf"
    config.write_text(text)
    process = Process([word.format(config=config) for word in command], cpu, open(directory / f"{name}.out", "w"))
    wait_until(process, name, lambda: serves(port))
    return process


def start_backend(directory):
    ports = [free_port() for _ in range(INSTANCES)]
    listen = " ".join(f"listen 127.0.0.1:{port};" for port in ports)
    text = BACKEND.format(dir=directory, listen=listen)
    return start(directory, "backend", ["nginx", "-e", "stderr", "-c", "{config}"], text, ports[0], LOAD_CPU), ports


def haproxy_text(port, backends, retry):
    observe = "check inter 2s observe layer7" if retry else ""
    servers = "\n".join(f"    server s{i} 127.0.0.1:{backend} {observe}" for i, backend in enumerate(backends))
    route = "    use_backend users if { path_beg /users }" if retry else "    default_backend users"
    return HAPROXY.format(port=port, servers=servers, route=route, options=HAPROXY_RETRY_OPTIONS if retry else "")


def nginx_text(directory, name, port, backends, retry):
    servers = " ".join(f"server 127.0.0.1:{backend};" for backend in backends)
    return NGINX.format(dir=directory, name=name, port=port, servers=servers, retry=NGINX_RETRY if retry else "")


def rea_text(directory, port, backends):
    instances = ", ".join(f"127.0.0.1:{backend}" for backend in backends)
    return REA.format(dir=directory, port=port, admin=free_port(), instances=instances)


def start_proxy(directory, name, backends):
    port = free_port()
    kind, _, features = name.partition("+")
    if kind == "haproxy":
        command, text = ["haproxy", "-db", "-f", "{config}"], haproxy_text(port, backends, bool(features))
    elif kind == "nginx":
        command, text = ["nginx", "-e", "stderr", "-c", "{config}"], nginx_text(directory, name, port, backends, bool(features))
    else:
        command, text = [str(BUILD / "src/rea"), "serve", "--config", "{config}"], rea_text(directory, port, backends)
    return start(directory, name, command, text, port, SERVER_CPU), port


def microseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6}[unit]


def load(directory, port, connections, seconds, kind):
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-H", "Host: user-service"]
    if kind == "post":
        script = directory / "post.lua"
        script.write_text(POST_SCRIPT)
        command += ["-s", str(script)]
    command.append(f"http://127.0.0.1:{port}/users/42")
    out = subprocess.run(
        command, capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, {LOAD_CPU})
    ).stdout
    wrong = re.search(r"Non-2xx or 3xx responses: \d+|Socket errors: .*", out)
    if wrong:
        sys.exit(f"bench: the load went wrong: {wrong.group(0)}")
    percentile = lambda p: microseconds(re.search(rf"^\s+{p}%\s+(\S+)", out, re.M).group(1))
    return int(re.search(r"(\d+) requests in", out).group(1)), percentile(50), percentile(99)


def measure_one(directory, process, port, connections, seconds, kind):
    load(directory, port, connections, 1, kind)
    before = process.cpu()
    requests, p50, p99 = load(directory, port, connections, seconds, kind)
    cpu = Cpu.between(before, process.cpu())
    total = cpu.total_ns / 1000 / requests
    return {
        "cpu": total,
        "user": total * (1 - cpu.system_share),
        "system": total * cpu.system_share,
        "p50": p50,
        "p99": p99,
        "loaded": process.anonymous_kib(),
    }


def load_table(title, rounds, names):
    of = lambda name, key: [result[name][key] for result in rounds]
    bases = [base for base in ("haproxy", "haproxy+retry") if base in names]
    rows = [["proxy", "CPU us/req", "min..max", "user", "system", *(f"x {base}" for base in bases), "p50 us", "x haproxy", "p99 us", "x haproxy"]]
    for name in names:
        cpu = of(name, "cpu")
        row = [name, f"{median(cpu):.1f}", f"{min(cpu):.1f}..{max(cpu):.1f}"]
        row += [f"{median(of(name, key)):.1f}" for key in ("user", "system")]
        row += [ratio(rounds, name, base, "cpu") for base in bases]
        for key in ("p50", "p99"):
            row += [f"{median(of(name, key)):.0f}", ratio(rounds, name, "haproxy", key)]
        rows.append(row)
    return table(title, rows)


def memory_table(idle, loaded, names):
    rows = [["proxy", "idle KiB", "loaded KiB"]]
    rows += [[name, str(idle[name]), str(loaded[name])] for name in names]
    return table("Anonymous resident memory", rows)


def bars(results, idle, names):
    found = []
    for (kind, connections), rounds in results.items():
        times = lambda base: median([result["rea"]["cpu"] / result[base]["cpu"] for result in rounds])
        for base, bound in (("haproxy", 1.0), ("haproxy+retry", 0.8), ("nginx+retry", 0.8)):
            if base in names:
                found.append((f"CPU, {kind}, {connections} conns, of {base}'s", times(base), bound, "{:.2f} x"))
    found.append(("idle memory", idle["rea"] / 1024, 4, "{:.1f} MiB"))
    return bars_table(found)


def report(results, idle, loaded, names):
    parts = [bars(results, idle, names)] if "rea" in names else []
    for (kind, connections), rounds in results.items():
        title = "GET, small reply" if kind == "get" else "POST, 512 bytes"
        parts.append(load_table(f"{title}, {connections} connection{'s' * (connections > 1)}", rounds, names))
    return [*parts, memory_table(idle, loaded, names)]


def run(options, seconds, directory, processes):
    backend, backends = start_backend(directory)
    processes.append(backend)
    proxies = {}
    for name in options.proxies:
        proxies[name] = start_proxy(directory, name, backends)
        processes.append(proxies[name][0])
    time.sleep(1)
    idle = {name: process.anonymous_kib() for name, (process, _) in proxies.items()}
    loaded = dict(idle)
    results = {}
    for kind in options.requests:
        for connections in options.conns or CONNECTIONS:
            rounds = results.setdefault((kind, connections), [])
            for number in range(options.rounds):
                result = {}
                for name in rotated(options.proxies, number):
                    process, port = proxies[name]
                    result[name] = measure_one(directory, process, port, connections, seconds, kind)
                    loaded[name] = max(loaded[name], result[name]["loaded"])
                rounds.append(result)
                line = "  ".join(f"{name} {result[name]['cpu']:.1f}" for name in options.proxies)
                say(f"proxy: {kind} {connections:3} round {number + 1}: CPU us/req: {line}")
    return report(results, idle, loaded, options.proxies)


def arguments(parser):
    group = parser.add_argument_group("proxy")
    group.add_argument("--requests", type=words, default=["get", "post"])
    group.add_argument("--proxies", type=words, default=["haproxy", "haproxy+retry", "nginx", "nginx+retry", "rea"])


def measure(options):
    if "haproxy" not in options.proxies:
        sys.exit("bench: --proxies needs haproxy: every ratio is to it")
    if not {SERVER_CPU, LOAD_CPU} <= os.sched_getaffinity(0):
        sys.exit("bench: proxy needs CPUs 0 and 1")
    seconds = max(1, round(options.seconds or 4))
    directory = pathlib.Path(tempfile.mkdtemp(prefix="rea-bench-"))
    processes = []
    try:
        parts = run(options, seconds, directory, processes)
    finally:
        for process in reversed(processes):
            process.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return f"{options.rounds} rounds of {seconds} s", [version_of("haproxy", "-v"), version_of("nginx", "-v"), version_of("wrk", "-v")], parts
