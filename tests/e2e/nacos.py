"""
A server that speaks Nacos's interfaces over HTTP as the servers of versions 1.x to 3.x do, in this process: configuration by v1 with long polling and by
v3 for clients and for administrators, history; naming by v1 and v3 with heartbeats; logins; and every fault that a client must survive, planted by a
test. What arrives is kept in `log`.
"""
import collections
import contextlib
import hashlib
import http.server
import itertools
import json
import socketserver
import threading
import time
import urllib.parse

Seen = collections.namedtuple("Seen", "time method path query form headers")
Item = collections.namedtuple("Item", "content md5 time")


def md5(content):
    return hashlib.md5(content).hexdigest()


class Nacos:
    """apis: which interfaces it has. users: name -> password; None = nobody logs in."""

    def __init__(self, apis=("v1", "v3"), users=None, port=0, token_ttl_s=18000):
        self.apis = set(apis)
        self.users = users
        self.token_ttl_s = token_ttl_s
        self.items = {}  # (data id, group, namespace) -> Item
        self.history = []
        self.services = {}  # (namespace, group, name) -> {(ip, port, cluster): instance as v1 tells it}
        self.thresholds = {}  # of services: the share of healthy instances below which all are told
        self.cache_ms = 1000
        self.tokens = set()
        self.log = []
        self.fault = None  # (server, handler, path) -> True when it has answered
        self.wrong_md5 = None  # what it says instead of the content's
        self.echo_namespace = False
        self.push = True  # a listener is woken by a change
        self.ids = itertools.count(1)
        self.changed = threading.Condition()
        self.closing = False
        nacos = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do(self):
                nacos.serve(self)

            do_GET = do_POST = do_PUT = do_DELETE = do

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self):
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()

    # ---- what tests do

    def publish(self, content, data_id="rpc-retry.yml", group="DEFAULT_GROUP", namespace=""):
        content = content if isinstance(content, bytes) else content.encode()
        with self.changed:
            key = (data_id, group, namespace)
            self.history.append((next(self.ids), key, "U" if key in self.items else "I", time.time()))
            self.items[key] = Item(content, md5(content), time.time())
            self.changed.notify_all()

    def remove(self, data_id="rpc-retry.yml", group="DEFAULT_GROUP", namespace=""):
        with self.changed:
            self.items.pop((data_id, group, namespace), None)
            self.changed.notify_all()

    def instance(self, address, service="user-service", group="DEFAULT_GROUP", namespace="public", cluster="DEFAULT", **more):
        """Register one as an operator would, or change it."""
        ip, _, port = address.rpartition(":")
        place = (ip, int(port), cluster)
        known = self.services.setdefault((namespace, group, service), {})
        made = {"weight": 1.0, "healthy": True, "enabled": True, "ephemeral": True, "metadata": {}, **known.get(place, {}), **more}
        known[place] = {
            **made,
            "instanceId": f"{ip}#{port}#{cluster}#{group}@@{service}",
            "ip": ip,
            "port": int(port),
            "clusterName": cluster,
            "serviceName": f"{group}@@{service}",
        }

    def forget(self, address=None, service="user-service", group="DEFAULT_GROUP", namespace="public"):
        """One instance, or all of them as a restart does."""
        known = self.services.get((namespace, group, service), {})
        for place in list(known):
            if address is None or address == f"{place[0]}:{place[1]}":
                del known[place]

    def instances(self, service="user-service", group="DEFAULT_GROUP", namespace="public"):
        return {f"{place[0]}:{place[1]}": instance for place, instance in self.services.get((namespace, group, service), {}).items()}

    def seen(self, path=None, method=None):
        return [entry for entry in self.log if path in (None, entry.path) and method in (None, entry.method)]

    # ---- HTTP

    def serve(self, handler):
        target = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(target.query, keep_blank_values=True))
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        form = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        path = target.path.removeprefix("/nacos")
        self.log.append(Seen(time.monotonic(), handler.command, path, query, form, dict(handler.headers.items())))
        if self.fault is not None and self.fault(self, handler, path):
            return
        if self.closing:
            handler.close_connection = True
            return
        route = self.routes().get((handler.command, path))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if route is None:
                self.reply(handler, 404, b'{"status":404,"error":"Not Found"}', "application/json")
            elif path not in (LOGIN_OLD, LOGIN_V1, LOGIN_V3) and not self.may(handler, {**query, **form}):
                self.deny(handler, path)
            else:
                route(handler, {**query, **form})

    def routes(self):
        routes = {}
        if "v1" in self.apis:
            routes |= {
                ("GET", "/v1/cs/configs"): self.get_v1,
                ("POST", "/v1/cs/configs"): self.publish_v1,
                ("DELETE", "/v1/cs/configs"): self.delete_v1,
                ("POST", "/v1/cs/configs/listener"): self.listen,
                ("GET", "/v1/cs/history"): self.gone if "v3" in self.apis else self.history_v1,
                ("GET", LIST_V1): self.list_v1,
                ("POST", INSTANCE_V1): self.register_v1,
                ("DELETE", INSTANCE_V1): self.deregister_v1,
                ("PUT", BEAT_V1): self.beat_v1,
                ("POST", LOGIN_V1): self.login,
                ("POST", LOGIN_OLD): self.login,
            }
        if "v3" in self.apis:
            routes |= {
                ("GET", "/v3/client/cs/config"): self.get_v3,
                ("GET", "/v3/admin/cs/config"): self.get_v3,
                ("POST", "/v3/admin/cs/config"): self.publish_v3,
                ("GET", "/v3/admin/cs/history/list"): self.history_v3,
                ("GET", LIST_V3): self.list_v3,
                ("POST", INSTANCE_V3): self.register_v3,
                ("DELETE", INSTANCE_V3): self.deregister_v3,
                ("POST", LOGIN_V3): self.login,
            }
        return routes

    def reply(self, handler, status, body=b"", kind="text/plain", fields=()):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in fields:
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def reply_json(self, handler, value, status=200):
        self.reply(handler, status, json.dumps(value).encode(), "application/json")

    # ---- who may

    def may(self, handler, values):
        if self.users is None:
            return True
        bearer = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        return bool({bearer, values.get("accessToken"), handler.headers.get("accessToken")} & self.tokens)

    def deny(self, handler, path):
        if path.startswith("/v3"):
            self.reply_json(handler, {"code": 403, "message": "access denied", "data": None}, 403)
        else:
            self.reply_json(handler, {"status": 403, "error": "Forbidden", "message": "authorization failed!"}, 403)

    def login(self, handler, values):
        if self.users is None or self.users.get(values.get("username")) != values.get("password"):
            known = self.users is not None and values.get("username") in self.users
            self.reply(handler, 500 if known and "v3" in self.apis else 403, b"unknown user!")
            return
        token = f"token-{next(self.ids)}"
        self.tokens.add(token)
        self.reply_json(handler, {"accessToken": token, "tokenTtl": self.token_ttl_s, "globalAdmin": True, "username": values["username"]})

    # ---- v1

    @staticmethod
    def key(values):
        namespace = values.get("tenant", values.get("namespaceId", ""))
        return values.get("dataId"), values.get("group", values.get("groupName")), "" if namespace == "public" else namespace

    def get_v1(self, handler, values):
        item = self.items.get(self.key(values))
        if item is None:
            self.reply(handler, 404, b"config data not exist")
        else:
            self.reply(handler, 200, item.content, fields=[("Content-MD5", self.wrong_md5 or item.md5), ("Config-Type", "yaml")])

    def cas(self, handler, values):
        """False: somebody else was faster."""
        expected = handler.headers.get("casMd5")
        item = self.items.get(self.key(values))
        return not expected or item is None or item.md5 == expected

    def publish_v1(self, handler, values):
        data_id, group, namespace = self.key(values)
        good = self.cas(handler, values)
        if good:
            self.publish(values["content"], data_id, group, namespace)
        refusal = b"false" if "v3" in self.apis else b"caused: Cas publish fail, server md5 may have changed.;"
        self.reply(handler, 200 if good else 500, b"true" if good else refusal)

    def gone(self, handler, values):
        """Of 3.x, whose v1 is for clients only."""
        self.reply_json(handler, {"status": 410, "error": "Gone", "path": handler.path}, 410)

    def delete_v1(self, handler, values):
        self.remove(*self.key(values))
        self.reply(handler, 200, b"true")

    def server_md5(self, key):
        item = self.items.get(key)
        return "" if item is None else self.wrong_md5 or item.md5

    def listen(self, handler, values):
        entries = []
        for entry in values["Listening-Configs"].split("\x01")[:-1]:
            data_id, group, known, *tenant = entry.split("\x02")
            entries.append((data_id, group, known, tenant[0] if tenant else None))
        timeout = handler.headers.get("Long-Pulling-Timeout")
        hold = max(0.05, int(timeout) / 1000 - 0.5) if timeout else 0
        if handler.headers.get("Long-Pulling-Timeout-No-Hangup") == "true":
            hold = 0
        end = time.monotonic() + hold

        def changed():
            return [
                (data_id, group, tenant)
                for data_id, group, known, tenant in entries
                if self.server_md5((data_id, group, "" if tenant in (None, "public") else tenant)) != known
            ]

        with self.changed:
            found = changed()
            while not found and not self.closing and time.monotonic() < end:
                self.changed.wait(end - time.monotonic())
                found = changed() if self.push else []
        text = ""
        for data_id, group, tenant in found:
            if self.echo_namespace and tenant is None:
                tenant = "public"
            text += "\x02".join([data_id, group] + ([tenant] if tenant else [])) + "\x01"
        if self.closing:
            handler.close_connection = True
            return
        self.reply(handler, 200, (urllib.parse.quote(text) + "\n").encode() if text else b"")

    def history_v1(self, handler, values):
        key = self.key(values)
        items = [
            {"id": str(number), "dataId": key[0], "group": key[1], "tenant": key[2], "srcUser": None, "srcIp": "127.0.0.1", "opType": f"{kind}         ", "lastModifiedTime": time.strftime("%Y-%m-%dT%H:%M:%S.000+00:00", time.gmtime(at))}
            for number, of, kind, at in reversed(self.history)
            if of == key
        ]
        self.reply_json(handler, {"totalCount": len(items), "pageNumber": 1, "pagesAvailable": 1, "pageItems": items})

    # ---- v3

    def get_v3(self, handler, values):
        item = self.items.get(self.key(values))
        if item is None:
            self.reply_json(handler, {"code": 20004, "message": "resource not found", "data": None}, 404 if "admin" in handler.path else 200)
        else:
            data = {"content": item.content.decode(), "contentType": "yaml", "md5": self.wrong_md5 or item.md5, "lastModified": int(item.time * 1000), "encryptedDataKey": None, "beta": False, "tag": None}
            self.reply_json(handler, {"code": 0, "message": "success", "data": data})

    def publish_v3(self, handler, values):
        data_id, group, namespace = self.key(values)
        if not self.cas(handler, values):
            self.reply_json(handler, {"code": 20005, "message": "resource conflict", "data": "Cas publish fail, server md5 may have changed."}, 500)
            return
        self.publish(values["content"], data_id, group, namespace)
        self.reply_json(handler, {"code": 0, "message": "success", "data": True})

    def history_v3(self, handler, values):
        key = self.key(values)
        items = [
            {"id": str(number), "dataId": key[0], "groupName": key[1], "namespaceId": key[2] or "public", "srcUser": "nacos", "srcIp": "127.0.0.1", "opType": f"{kind}         ", "publishType": "formal", "createTime": int(at * 1000), "modifyTime": int(at * 1000)}
            for number, of, kind, at in reversed(self.history)
            if of == key
        ]
        self.reply_json(handler, {"code": 0, "message": "success", "data": {"totalCount": len(items), "pageNumber": 1, "pagesAvailable": 1, "pageItems": items}})


    # ---- naming

    @staticmethod
    def service(values):
        group, _, name = values["serviceName"].rpartition("@@")
        return values.get("namespaceId") or "public", group or values.get("groupName", "DEFAULT_GROUP"), name

    @staticmethod
    def place(values):
        return values["ip"], int(values["port"]), values.get("clusterName") or values.get("cluster") or "DEFAULT"

    def told(self, values, clusters):
        """What of a service is listed, and whether that is under protection."""
        found = [
            dict(instance)
            for instance in self.services.get(self.service(values), {}).values()
            if instance["enabled"] and (not clusters or instance["clusterName"] in clusters.split(","))
        ]
        protected = bool(found) and len([i for i in found if i["healthy"]]) / len(found) <= self.thresholds.get(self.service(values), -1)
        return [{**instance, "healthy": instance["healthy"] or protected} for instance in found], protected

    def list_v1(self, handler, values):
        namespace, group, name = self.service(values)
        hosts, protected = self.told(values, values.get("clusters", ""))
        if values.get("healthyOnly") == "true":
            hosts = [host for host in hosts if host["healthy"]]
        self.reply_json(
            handler,
            {
                "name": f"{group}@@{name}",
                "groupName": group,
                "clusters": values.get("clusters", ""),
                "cacheMillis": self.cache_ms,
                "hosts": hosts,
                "lastRefTime": int(time.time() * 1000),
                "checksum": "",
                "allIPs": False,
                "reachProtectionThreshold": protected,
                "valid": True,
            },
        )

    def register_v1(self, handler, values):
        self.take(values)
        self.reply(handler, 200, b"ok")

    def take(self, values):
        namespace, group, name = self.service(values)
        ip, port, cluster = self.place(values)
        metadata = values.get("metadata") or "{}"
        self.instance(
            f"{ip}:{port}",
            name,
            group,
            namespace,
            cluster,
            weight=float(values.get("weight", 1)),
            enabled=values.get("enabled", "true") != "false",
            healthy=values.get("healthy", "true") != "false",
            ephemeral=values.get("ephemeral", "true") != "false",
            metadata=json.loads(metadata),
        )

    def drop(self, values):
        self.services.get(self.service(values), {}).pop(self.place(values), None)

    def deregister_v1(self, handler, values):
        self.drop(values)
        self.reply(handler, 200, b"ok")

    def beat_v1(self, handler, values):
        beat = json.loads(values.get("beat") or "{}")
        known = self.services.get(self.service(values), {})
        place = (beat["ip"], beat["port"], beat.get("cluster") or "DEFAULT") if beat else self.place(values)
        code = 10200
        if place not in known:
            # One that is whole is registered by it, as before 1.4; others have to register again.
            code = 20404
        else:
            known[place]["healthy"] = True
        self.reply_json(handler, {"clientBeatInterval": self.cache_ms, "code": code, "lightBeatEnabled": True})

    def list_v3(self, handler, values):
        hosts, _ = self.told(values, values.get("clusterName", ""))
        self.reply_json(handler, {"code": 0, "message": "success", "data": hosts})

    def register_v3(self, handler, values):
        if values.get("heartBeat") == "true" and self.place(values) not in self.services.get(self.service(values), {}):
            self.reply_json(handler, {"code": 21003, "message": "instance not found", "data": None}, 404)
            return
        self.take(values)
        self.reply_json(handler, {"code": 0, "message": "success", "data": "ok"})

    def deregister_v3(self, handler, values):
        self.drop(values)
        self.reply_json(handler, {"code": 0, "message": "success", "data": "ok"})


LIST_V1 = "/v1/ns/instance/list"
INSTANCE_V1 = "/v1/ns/instance"
BEAT_V1 = "/v1/ns/instance/beat"
LIST_V3 = "/v3/client/ns/instance/list"
INSTANCE_V3 = "/v3/client/ns/instance"
LOGIN_OLD = "/v1/auth/login"
LOGIN_V1 = "/v1/auth/users/login"
LOGIN_V3 = "/v3/auth/user/login"
