"""A provider on the loopback: it sends the answers of a test, and records the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

Ending = Literal["complete", "cut", "unframed", "open"]
"""How a response ends: as it should; in the middle of its framing; with the connection, so that
nothing shows whether that was all; or not before the client hangs up."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The provider's answer to one request."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    ending: Ending = "complete"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_headers(self) -> dict[str, str]:
        framed = self.ending != "unframed"
        framing = {"transfer-encoding": "chunked"} if framed else {"connection": "close"}
        return {"content-type": self.kind, **self.headers, **framing}

    @property
    def framed_body(self) -> bytes:
        if self.ending == "unframed":
            return self.body
        end = b"0\r\n\r\n" if self.ending == "complete" else b""
        return f"{len(self.body):x}\r\n".encode() + self.body + b"\r\n" + end

    @staticmethod
    def plain(body: Any, status: int = 200) -> Answer:
        return Answer(status=status, body=json.dumps(body).encode())

    @staticmethod
    def stream(*events: Mapping[str, Any] | str, ending: Ending = "complete") -> Answer:
        """Server-sent events, each named by its type if it has one."""
        return Answer(body=b"".join(map(_sent, events)), kind="text/event-stream", ending=ending)


def _sent(event: Mapping[str, Any] | str) -> bytes:
    if isinstance(event, str):
        return f"data: {event}\n\n".encode()
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


class Asked(NamedTuple):
    """One received request."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Stage:
    """The running provider."""

    url: str
    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when a client closes a connection."""
    connections: int = 0
    """How many connections there were."""


@contextmanager
def provider(*answers: Answer) -> Iterator[Stage]:
    """Answers requests in this order. The last answer is repeated."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            stage.connections += 1
            super().setup()

        def finish(self) -> None:
            super().finish()
            stage.gone.set()

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            stage.asked.append(Asked(self.path, headers, json.loads(self.rfile.read(length))))
            self._say(stage.answers.pop(0) if len(stage.answers) > 1 else stage.answers[0])

        def _say(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.all_headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.framed_body)
            self.wfile.flush()
            self.close_connection = answer.ending != "complete"
            if answer.ending == "open":
                self.rfile.read(1)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base's name
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stage = Stage(f"http://127.0.0.1:{server.server_port}", list(answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stage
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
