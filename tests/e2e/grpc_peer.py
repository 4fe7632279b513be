"""
Real gRPC on both sides of rea: servers and clients of grpcio, without generated code (messages are plain bytes), descriptor sets made by hand, and a server
that speaks just enough HTTP/2 to do what no gRPC library does.
"""
import concurrent.futures
import hashlib
import socket
import struct
import threading
import time

import grpc

OWN_FIELDS = ("rea-attempt", "grpc-previous-rpc-attempts", "rea-deadline-ms")


class Request:
    """A call as a server saw it; looks like rig.Seen."""

    def __init__(self, instance, method, metadata):
        self.instance, self.method = instance, method
        self.fields = [(key, value) for key, value in metadata]
        self.messages = []
        self.time_remaining = None
        self.begin_ns = time.monotonic_ns()
        self.complete = False

    def __getitem__(self, key):
        if key == "body_sha256":
            return hashlib.sha256(b"".join(self.messages)).hexdigest()
        if key == "headers_sha256":
            return hashlib.sha256(repr(sorted(field for field in self.fields if field[0] not in OWN_FIELDS)).encode()).hexdigest()
        return getattr(self, key)

    def __repr__(self):
        return f"<{self.instance} {self.method} {self.fields} {len(self.messages)} messages>"

    def field(self, name):
        return next((value for key, value in self.fields if key == name), None)


class Server(grpc.GenericRpcHandler):
    """handle(request, messages, context): a generator of replies; messages: those of the request, as they come."""

    def __init__(self, name, handle, port=0, workers=64, message_max=-1, tls=None):
        self.name, self.handle = name, handle
        self.seen = []
        self.lock = threading.Lock()
        self.server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(workers), handlers=[self], options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", message_max)])
        address = f"127.0.0.1:{port}"
        self.port = self.server.add_insecure_port(address) if tls is None else self.server.add_secure_port(address, tls)
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def service(self, details):
        request = Request(self.name, details.method, details.invocation_metadata)
        with self.lock:
            self.seen.append(request)
        if details.method.endswith("/Unimplemented"):
            return None

        def run(messages, context):
            request.time_remaining = context.time_remaining()

            def record():
                for message in messages:
                    request.messages.append(message)
                    yield message
                request.complete = True

            yield from self.handle(request, record(), context)

        return grpc.stream_stream_rpc_method_handler(run)

    def requests(self, instance=None, path=None):
        with self.lock:
            return [request for request in self.seen if path in (None, request.method)]

    def close(self, grace=None):
        self.server.stop(grace).wait()


def one(messages):
    """The only message of a unary request."""
    (message,) = list(messages)
    return message


def echo(request, messages, context):
    yield from messages


def fails(code, details="", trailers=(), initial=False, first=()):
    """Every call ends with this status: trailers-only, or behind the head, or behind messages."""

    def handle(request, messages, context):
        one(messages)
        if initial:
            context.send_initial_metadata((("x-head", "1"),))
        yield from first
        if trailers:
            context.set_trailing_metadata(tuple(trailers))
        context.abort(code, details)

    return handle


class Client:
    """A channel to rea. service: :authority; None = the address."""

    def __init__(self, address, service="users", **options):
        more = [("grpc.default_authority", service)] if service else []
        self.channel = grpc.insecure_channel(
            address, options=[("grpc.enable_retries", 0), ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
                              ("grpc.use_local_subchannel_pool", 1), *more, *options.items()])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def unary(self, method, message=b"", biz_id=None, metadata=(), **options):
        """(messages, call) or the error, which is a call too."""
        return self.unary_future(method, message, biz_id, metadata, **options)

    def unary_future(self, method, message=b"", biz_id=None, metadata=(), timeout=10):
        call = self.channel.unary_unary(method).future(message, timeout=timeout, metadata=with_biz_id(biz_id, metadata))
        call.exception()
        return call

    def start(self, method, message=b"", biz_id=None, metadata=(), timeout=10):
        return self.channel.unary_unary(method).future(message, timeout=timeout, metadata=with_biz_id(biz_id, metadata))

    def client_stream(self, method, messages, biz_id=None, metadata=(), timeout=10):
        call = self.channel.stream_unary(method).future(iter(messages), timeout=timeout, metadata=with_biz_id(biz_id, metadata))
        call.exception()
        return call

    def server_stream(self, method, message=b"", biz_id=None, metadata=(), timeout=10):
        return self.channel.unary_stream(method)(message, timeout=timeout, metadata=with_biz_id(biz_id, metadata))

    def bidi(self, method, messages, biz_id=None, metadata=(), timeout=10):
        return self.channel.stream_stream(method)(messages, timeout=timeout, metadata=with_biz_id(biz_id, metadata))


def with_biz_id(biz_id, metadata):
    return (*metadata, ("x-biz-id", biz_id)) if biz_id else tuple(metadata)


# ---------------------------------------------------------------- descriptor sets


def tag(number, kind):
    return varint(number << 3 | kind)


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def text(number, value):
    data = value if isinstance(value, bytes) else value.encode()
    return tag(number, 2) + varint(len(data)) + data


def descriptor_set(package, service, methods):
    """methods: name -> (idempotency_level, client_streaming, server_streaming)."""
    described = b""
    for name, (level, client, server) in methods.items():
        method = text(1, name) + text(2, ".M") + text(3, ".M")
        if level:
            method += text(4, tag(34, 0) + varint(level))
        method += (tag(5, 0) + b"\1" if client else b"") + (tag(6, 0) + b"\1" if server else b"")
        described += text(2, method)
    return text(1, text(1, "x.proto") + text(2, package) + text(6, text(1, service) + described))


# ---------------------------------------------------------------- HTTP/2 without a library


class RefusingServer:
    """Answers each stream's head with RST_STREAM of this code (None: not at all), and counts what of its body came."""

    PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    def __init__(self, code=7):
        self.code = code
        self.streams = self.data_bytes = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def requests(self, instance=None, path=None):
        # REFUSED_STREAM says that it was not.
        return [] if self.code == 7 else [Request("refusing", "", ())] * self.streams

    def close(self, grace=None):
        self.socket.close()
        for connection in self.connections:
            connection.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def _serve(self, connection):
        stream = connection.makefile("rb")
        try:
            if stream.read(len(self.PREFACE)) != self.PREFACE:
                return
            connection.sendall(self.frame(4, 0, 0))
            while head := stream.read(9):
                length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
                payload = stream.read(length)
                number = int.from_bytes(head[5:], "big")
                if kind == 4 and not flags & 1:
                    connection.sendall(self.frame(4, 1, 0))
                elif kind == 6 and not flags & 1:
                    connection.sendall(self.frame(6, 1, 0, payload))
                elif kind == 0:
                    self.data_bytes += length
                elif kind == 1:
                    self.streams += 1
                    if self.code is not None:
                        connection.sendall(self.frame(3, 0, number, struct.pack(">I", self.code)))
        except OSError:
            pass
