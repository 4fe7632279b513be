"""
HTTP/2 without a library: frames written and read as they are, for a client that does what none would do. Header blocks are literals; of what comes back only
what needs no table is understood: the status, when it stands alone at the beginning.
"""
import contextlib
import socket
import struct
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED = 0, 1, 2, 3, 5
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 7, 8, 9, 11
STATUSES = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def number(prefix, value):
    """A length of HPACK in 7 bits and more."""
    if value < 127:
        return bytes([prefix | value])
    out, value = bytes([prefix | 127]), value - 127
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def block(*fields):
    return b"".join(b"\0" + number(0, len(name)) + name.encode() + number(0, len(str(value))) + str(value).encode() for name, value in fields)


def request(method, path, *fields, authority="rea"):
    return block((":method", method), (":scheme", "http"), (":authority", authority), (":path", path), *fields)


class Server:
    """
    An instance of HTTP/2 that allows so many streams, and refuses what is more. serve(self, connection, number, nth): what to do for the nth
    request; None = 200 and nothing else, after a short while. accepts: False = who connects is hung up on, once `go` is set, as it is from the start.
    """

    def __init__(self, allowed=100, serve=None, accepts=True):
        self.allowed, self.serve, self.accepts = allowed, serve, accepts
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.lock = threading.Lock()
        self.go = threading.Event()
        self.go.set()
        self.connections, self.taken, self.refused, self.open, self.open_most = [], 0, 0, 0, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def requests(self, instance=None, path=None):
        return []

    def close(self):
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
            threading.Thread(target=self._connection, args=(connection,), daemon=True).start()

    def _answer(self, connection, number, nth):
        with contextlib.suppress(OSError):
            if self.serve is not None:
                self.serve(self, connection, number, nth)
                return
            time.sleep(0.005)
            with self.lock:
                self.open -= 1
                connection.sendall(frame(HEADERS, END_HEADERS | END_STREAM, number, b"\x88"))

    def _connection(self, connection):
        stream = connection.makefile("rb")
        try:
            stream.read(len(PREFACE))
            if not self.accepts:
                self.go.wait(10)
                connection.close()
                return
            connection.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", 3, self.allowed)))
            while head := stream.read(9):
                payload, number = stream.read(int.from_bytes(head[:3], "big")), int.from_bytes(head[5:], "big")
                with self.lock:
                    if head[3] == SETTINGS and not head[4] & ACK:
                        connection.sendall(frame(SETTINGS, ACK))
                    elif head[3] == PING and not head[4] & ACK:
                        connection.sendall(frame(PING, ACK, 0, payload))
                    if head[3] != HEADERS:
                        continue
                    if self.open == self.allowed:
                        self.refused += 1
                        connection.sendall(frame(RST_STREAM, 0, number, struct.pack(">I", REFUSED_STREAM)))
                        continue
                    self.open += 1
                    self.open_most = max(self.open, self.open_most)
                    self.taken += 1
                    nth = self.taken
                threading.Thread(target=self._answer, args=(connection, number, nth), daemon=True).start()
        except OSError:
            pass


class Stream:
    def __init__(self):
        self.status = None
        self.body = bytearray()
        self.ended = False
        self.reset = None  # the code


class Client:
    """A connection to rea that says what it is told to. windows: give back what has been read."""

    def __init__(self, address, windows=True, timeout=10, greet=True):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout
        self.windows = windows
        self.input = bytearray()
        self.streams = {}
        self.goaways = []  # (last stream, code)
        self.settings = {}
        self.pings = 0  # answered
        self.closed = False
        if greet:
            self.send(PREFACE + frame(SETTINGS))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, stream, method, path, *fields, body=None, end=True):
        """A request; body None: the head ends it."""
        flags = END_HEADERS | (END_STREAM if body is None and end else 0)
        data = frame(HEADERS, flags, stream, request(method, path, *fields))
        if body is not None:
            data += frame(DATA, END_STREAM if end else 0, stream, body)
        self.send(data)
        self.streams[stream] = Stream()

    def _take(self, kind, flags, number_, payload):
        stream = self.streams.setdefault(number_, Stream()) if number_ else None
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at : at + 6])
                self.settings[name] = value
            self.send(frame(SETTINGS, ACK))
        elif kind == PING and flags & ACK:
            self.pings += 1
        elif kind == PING:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.goaways.append(struct.unpack(">II", payload[:8]))
        elif kind == RST_STREAM:
            stream.reset = struct.unpack(">I", payload)[0]
        elif kind == HEADERS:
            while payload and payload[0] & 0xE0 == 0x20:  # the size of the table
                payload = payload[1:]
            if stream.status is None and payload:
                stream.status = STATUSES.get(payload[0], payload[0])
            stream.ended = stream.ended or bool(flags & END_STREAM)
        elif kind == DATA:
            stream.body += payload
            stream.ended = stream.ended or bool(flags & END_STREAM)
            if self.windows and payload:
                update = struct.pack(">I", len(payload))
                self.send(frame(WINDOW_UPDATE, 0, 0, update) + (b"" if stream.ended else frame(WINDOW_UPDATE, 0, number_, update)))

    def _frames(self):
        while len(self.input) >= 9:
            length = int.from_bytes(self.input[:3], "big")
            if len(self.input) < 9 + length:
                return
            kind, flags = self.input[3], self.input[4]
            stream = int.from_bytes(self.input[5:9], "big")
            payload = bytes(self.input[9 : 9 + length])
            del self.input[: 9 + length]
            self._take(kind, flags, stream, payload)

    def until(self, predicate, timeout=None):
        """Read until predicate is true, or the peer has closed; then that it is true."""
        end = time.monotonic() + (timeout or self.timeout)
        while not predicate() and not self.closed:
            self.socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            except TimeoutError:
                break
            self.closed = not data
            self.input += data
            try:
                self._frames()
            except (BrokenPipeError, ConnectionResetError):
                self.closed = True
        return predicate()

    def reply(self, stream):
        """The whole reply on a stream."""
        assert self.until(lambda: self.streams[stream].ended or self.streams[stream].reset is not None or self.closed), "no reply"
        return self.streams[stream]

    def end(self):
        """Until the peer has closed."""
        self.until(lambda: False)
        assert self.closed, "the connection is still open"
