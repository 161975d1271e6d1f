"""A bank in a process of its own: `python bank.py FILE` records each effect, and refuses none."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from runs.durable.shop import Ledger

LEDGER = Ledger(Path(sys.argv[1]))


class Teller(BaseHTTPRequestHandler):
    """Adds a line for each POST, and says for each GET whether it has one."""

    def do_POST(self) -> None:
        LEDGER.add(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(204 if unquote(self.path[1:]) in LEDGER.count() else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Teller)
    print(server.server_address[1], flush=True)  # noqa: T201  its port
    server.serve_forever()
