"""A proxy that lends a connection to PostgreSQL for one transaction, as pgbouncer can."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_REQUESTS = {80877103, 80877104}
"""What a client asks before it begins: for TLS, or for GSSAPI."""


class Pooler:
    """Serves clients of one user and database.

    Args:
        url: The server.
        round_robin: Whether a client gets the connection that was idle for the longest time.
    """

    def __init__(self, url: str, *, round_robin: bool) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "", parts.port or 5432)
        self._begin = f"user\0{parts.username}\0database\0{parts.path[1:]}\0\0".encode()
        self._round_robin = round_robin
        self._idle: deque[socket.socket] = deque()
        self._servers: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{parts.port}", f":{self._listener.getsockname()[1]}")

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve_one, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def fill(self, count: int) -> None:
        """Have idle connections."""
        self._idle.extend(self._connect()[0] for _ in range(count))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(30)
        for server in self._servers:
            server.close()

    def _connect(self) -> tuple[socket.socket, bytes]:
        server = socket.create_connection(self._server)
        self._servers.append(server)
        server.sendall(struct.pack("!ii", len(self._begin) + 8, 196608) + self._begin)
        return server, _read_until_ready(server)[0]

    def _take(self) -> socket.socket:
        with self._lock:
            if not self._idle:
                return self._connect()[0]
            return self._idle.popleft() if self._round_robin else self._idle.pop()

    def _serve_one(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            while struct.unpack("!i", _read_start(client)[:4])[0] in _REQUESTS:
                client.sendall(b"N")
            server, greeting = self._connect()
            with self._lock:
                self._idle.append(server)
            client.sendall(greeting)
            held: socket.socket | None = None
            while (asked := client.recv(65536)) and asked[:1] != b"X":  # it says that it leaves
                held = held or self._take()
                held.sendall(asked)
                answer, state = _read_until_ready(held)
                client.sendall(answer)
                if state == b"I":
                    with self._lock:
                        self._idle.append(held)
                    held = None


def _read_start(client: socket.socket) -> bytes:
    [length] = struct.unpack("!i", _read(client, 4))
    return _read(client, length - 4)


def _read(stream: socket.socket, count: int) -> bytes:
    text = b""
    while len(text) < count:
        chunk = stream.recv(count - len(text))
        if not chunk:
            raise EOFError
        text += chunk
    return text


def _read_until_ready(server: socket.socket) -> tuple[bytes, bytes]:
    """Return what a server says until it is ready, and whether it is in a transaction."""
    said = b""
    while True:
        kind = _read(server, 1)
        size = _read(server, 4)
        body = _read(server, struct.unpack("!i", size)[0] - 4)
        said += kind + size + body
        if kind == b"Z":
            return said, body


@contextmanager
def pooling(url: str, *, round_robin: bool) -> Generator[Pooler]:
    pooler = Pooler(url, round_robin=round_robin)
    thread = threading.Thread(target=pooler.serve, daemon=True)
    thread.start()
    try:
        yield pooler
    finally:
        pooler.close()
        thread.join()
