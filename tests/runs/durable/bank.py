"""A bank in a process of its own: `python bank.py FILE` records each effect.

It makes a transfer with the same key once, as banks do: a worker that was frozen in the middle of one
does not know that another worker has made it. It refuses no payment.
"""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from runs.durable.shop import Ledger

LEDGER = Ledger(Path(sys.argv[1]))
ONE_AT_A_TIME = threading.Lock()


class Teller(BaseHTTPRequestHandler):
    """Adds a line for each POST, and says for each GET whether it has one."""

    def do_POST(self) -> None:
        line = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with ONE_AT_A_TIME:
            if not line.startswith("wire ") or not LEDGER.has(line):
                LEDGER.add(line)
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
