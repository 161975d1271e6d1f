"""The tiny model of tests/tiny_server.py, for the client of a framework.

It calls a tool only if the request forces it to, and writes without an end. So a server on loopback passes requests on
to llama.cpp: one that follows a prompt must call a tool, one that follows a result may not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from handrail import READ, Executor, Toolset, tool

URL = os.environ.get("TINY_URL", "")
PROMPT = "What is 2 plus 3?"
CALL = {"tool_choice": "required", "chat_template_kwargs": {"call_first": True}, "max_tokens": 200}
TALK = {"tool_choice": "none", "max_tokens": 12}


class Adder:
    """A tool, and the sums that it returned."""

    def __init__(self) -> None:
        self.sums: list[int] = []

    def executor(self) -> Executor:
        @tool(effect=READ)
        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            self.sums.append(a + b)
            return a + b

        return Executor(Toolset(add))


@contextmanager
def serving() -> Iterator[tuple[str, list[Any]]]:
    """Yield the address for a client, and the messages of each request."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(body["messages"])
            forced = body["messages"][-1]["role"] != "tool"
            body |= {"temperature": 0, "parallel_tool_calls": False, **(CALL if forced else TALK)}
            request = Request(f"{URL}{self.path}", json.dumps(body).encode())  # noqa: S310  loopback
            request.add_header("Content-Type", "application/json")
            with urlopen(request, timeout=300) as response:  # noqa: S310
                answer = response.read()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen
        finally:
            server.shutdown()


def read_result(seen: list[Any]) -> Any:
    """Return what the model read after its call."""
    content = seen[-1][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]
