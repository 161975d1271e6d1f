"""A web process that pays: `python paying_program.py DATABASE FOLDER PORT [forgetful]`.

A payment is a line in FOLDER/paid, and ends once FOLDER/go is there. Payments above 100 are asked for.
A forgetful process does not write what it is about to do.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio

from handrail import Allow, Ask, Call, Text, tool
from handrail.agent import Agent
from handrail.messages import Delta, Reply, Request, StreamItem, ToolResults
from handrail.net import serve_app
from handrail.web import ChatApp
from handrail.web._records import ChatRecord
from web.chats import ORIGIN, identify


async def model(request: Request) -> AsyncIterator[StreamItem]:
    """`pay SUM` pays. All else is answered with what became of the payments."""
    last: Any = request.messages[-1]
    if not isinstance(last, ToolResults) and last.parts[0].text.startswith("pay"):
        call = Call("pay", {"euros": int(last.parts[0].text.split()[1])}, "c1")
        yield call
        yield Reply((call,), "calls")
        return
    found = [
        one
        for message in request.messages
        if isinstance(message, ToolResults)
        for one in message.results
    ]
    told = " and ".join(str(one.failure.kind) if one.failure else one.text for one in found)
    yield Delta(told or "nothing")
    yield Reply((Text(told or "nothing"),))


def decide(call: Any) -> Any:
    return Ask("Pay?") if call.args["euros"] > 100 else Allow()


def make_app(database: str, folder: Path) -> ChatApp:
    @tool
    async def pay(euros: int) -> str:
        """Pay."""
        with (folder / "paid").open("a", encoding="utf-8") as paid:
            paid.write(f"{euros}\n")
        while not (folder / "go").exists():  # noqa: ASYNC110  another process makes it
            await anyio.sleep(0.02)
        return f"paid {euros}"

    agent = Agent(model, [pay], policy=decide)
    return ChatApp(agent, identify, origins=[ORIGIN], database=database)


async def forget(_record: ChatRecord, _state: Any) -> None: ...


if __name__ == "__main__":
    database, folder, port, *words = sys.argv[1:]
    if words:
        ChatRecord.save = forget  # type: ignore[method-assign]
    listening = socket.create_server(("127.0.0.1", int(port)))
    anyio.run(serve_app, make_app(database, Path(folder)), listening)
