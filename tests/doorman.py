"""A model's server that refuses every key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread


class _Doorman(BaseHTTPRequestHandler):
    keys: list[str | None]

    def do_POST(self) -> None:
        self.keys.append(self.headers["Authorization"])
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def doorman() -> Iterator[tuple[str, list[str | None]]]:
    """A server that takes nobody's key; its address, and the keys."""
    keys: list[str | None] = []
    with HTTPServer(("127.0.0.1", 0), type("", (_Doorman,), {"keys": keys})) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", keys
        finally:
            server.shutdown()
            thread.join()
