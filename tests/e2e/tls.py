"""Certificates made on the spot by openssl(1), and instances that speak TLS."""
import contextlib
import socket
import ssl
import subprocess
import threading


def openssl(*arguments, **more):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, **more)


class Pair:
    """A certificate and its key."""

    def __init__(self, directory, name):
        self.certificate = directory / f"{name}.pem"
        self.key = directory / f"{name}.key"

    def files(self):
        return {"certificate-file": str(self.certificate), "key-file": str(self.key)}

    def serial(self):
        return openssl("x509", "-in", self.certificate, "-noout", "-serial").stdout.decode().strip().split("=")[1]


class Authority(Pair):
    def __init__(self, directory, name="authority"):
        super().__init__(directory, name)
        self.directory = directory
        self.ca = str(self.certificate)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key,
                "-out", self.certificate, "-subj", f"/CN={name}", "-days", "2")  # fmt: skip

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", days=2):
        """A pair for these names. Negative days: it has expired."""
        pair = Pair(self.directory, name)
        request = self.directory / f"{name}.csr"
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", pair.key,
                "-out", request, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}")  # fmt: skip
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                "-copy_extensions", "copy", "-days", days, "-out", pair.certificate)  # fmt: skip
        pair.key.chmod(0o600)
        return pair


def server_context(pair, client_ca=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context


REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LAST_REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"


class TlsInstance:
    """A server in threads. reply: bytes, or a function (its connection) that does everything itself."""

    def __init__(self, context, reply=REPLY):
        self.context = context
        self.reply = reply
        self.handshakes = 0
        self.resumed = 0
        self.failed = 0
        self.requests = []
        self.names = []
        self.client_names = []
        self.lock = threading.Lock()
        self.open = set()
        if context is not None:
            context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self._accept)
        self.thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with self.lock:
                    self.open.add(connection)
                threading.Thread(target=self._run, args=(connection,)).start()

    def _run(self, plain):
        plain.settimeout(20)
        try:
            if self.context is None:
                self.reply(plain)
                return
            try:
                connection = self.context.wrap_socket(plain, server_side=True)
            except OSError:
                with self.lock:
                    self.failed += 1
                return
            with self.lock:
                self.handshakes += 1
                self.resumed += connection.session_reused
                certificate = connection.getpeercert()
                self.client_names.append(certificate and certificate["subject"][0][0][1])
                self.open.add(connection)
            self._serve(connection)
        except OSError:
            pass
        finally:
            plain.close()

    def _serve(self, connection):
        text = b""
        while True:
            while b"\r\n\r\n" not in text:
                piece = connection.recv(65536)
                if not piece:
                    return
                text += piece
            head, text = text.split(b"\r\n\r\n", 1)
            with self.lock:
                self.requests.append(head.split(b"\r\n")[0].decode())
            if callable(self.reply):
                self.reply(connection)
                return
            connection.sendall(self.reply)
            if b"connection: close" in self.reply:
                connection.unwrap()
                return

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.close()
        self.thread.join()
