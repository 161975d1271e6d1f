"""CPU time of a chat behind `ChatApp`, and behind a bare Starlette endpoint that streams the same agent.

`python bench/web_layer.py` serves both from one process, asks them in turns over the loopback, and
prints the CPU time of the server for one answer of each, by how many pieces the answer has. Other
programs can only add to it, so the best turn of each side counts.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import StreamingResponse
from starlette.routing import Mount, Route

from handrail import Text
from handrail.agent import Agent
from handrail.messages import Delta, Reply, Request, StreamItem
from handrail.net import serve_app
from handrail.web import ChatApp, Visitor

MOST = 1.15
PIECES = (100, 300)
TURNS = 15
ANSWERS = 10
"""At once, in one turn of each side."""
PAUSE_SECONDS = 0.005
"""Between two pieces: a fast model."""
_NANOSECONDS = 1e9


async def model(request: Request) -> AsyncIterator[StreamItem]:
    """Answers with as many words as the prompt says, each some time after the one before."""
    [*_, last] = request.messages
    many = int(last.parts[0].text)  # type: ignore[union-attr]
    for _ in range(many):
        await anyio.sleep(PAUSE_SECONDS)
        yield Delta("word ")
    yield Reply((Text("word " * many),))


def make_app(folder: Path) -> Starlette:
    agent = Agent(model)

    async def bare(request: HttpRequest) -> StreamingResponse:
        text = (await request.json())["text"]

        async def pieces() -> AsyncIterator[str]:
            async with agent.stream(text, principal="ada") as events:
                async for event in events:
                    if isinstance(event, Delta):
                        yield f"event: text\ndata: {json.dumps({'text': event.text})}\n\n"
            yield "event: end\ndata: {}\n\n"

        return StreamingResponse(pieces(), media_type="text/event-stream")

    def identify(_request: Any) -> Visitor:
        return Visitor(principal="ada")

    chat = ChatApp(agent, identify, origins=["http://x"], database=str(folder / "chats.db"))
    return Starlette(routes=[Mount("/api", chat), Route("/bare", bare, methods=["POST"])])


def used_by(process: int) -> float:
    """The CPU seconds of a process, of all its threads."""
    tasks = Path(f"/proc/{process}/task")
    return (
        sum(
            int((one / "schedstat").read_text(encoding="ascii").split()[0])
            for one in tasks.iterdir()
        )
        / _NANOSECONDS
    )


async def ask(client: httpx2.AsyncClient, path: str, pieces: int) -> None:
    done = await client.post(path, json={"text": str(pieces)})
    assert "event: end" in done.text, done.text
    assert done.text.count("word ") == pieces, done.text


async def measure(process: int, url: str, pieces: int) -> tuple[float, float, float]:
    """The server's CPU seconds for one answer, in the best turn: of the bare endpoint, and of the chat.

    And how many times as long as its model a turn took: a busy machine adds what a chat does each second.
    """
    spent: dict[str, list[float]] = {"/bare": [], "/api/chat": []}
    began = time.perf_counter()
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        for turn in range(TURNS + 1):
            for path in sorted(spent, reverse=turn % 2 == 0):
                before = used_by(process)
                async with anyio.create_task_group() as group:
                    for _ in range(ANSWERS):
                        group.start_soon(ask, client, path, pieces)
                if turn:  # the first one loads modules
                    spent[path].append((used_by(process) - before) / ANSWERS)
    late = (time.perf_counter() - began) / (2 * (TURNS + 1) * pieces * PAUSE_SECONDS)
    return min(spent["/bare"]), min(spent["/api/chat"]), late


def main() -> int:
    listening = socket.create_server(("127.0.0.1", 0))
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if not child:
            anyio.run(serve_app, make_app(Path(folder)), listening)
        try:
            url, worst = f"http://127.0.0.1:{listening.getsockname()[1]}", 0.0
            for pieces in PIECES:
                bare, chat, late = anyio.run(measure, child, url, pieces)
                worst = max(worst, chat / bare)
                sys.stdout.write(
                    f"{pieces} pieces: bare {bare * 1000:.1f} ms, chat {chat * 1000:.1f} ms, "
                    f"ratio {chat / bare:.2f} (at most {MOST}), "
                    f"a turn took {late:.1f} times as long as the model\n"
                )
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
