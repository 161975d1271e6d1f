"""What tests of the agent share: tools that note what they did, models, and what every end owes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import anyio.lowlevel

from handrail import READ, Call, Result, Text, Tool, Toolset, read_file, tool, write_file
from handrail.messages import (
    Cut,
    Delta,
    Message,
    Model,
    Piece,
    Prompt,
    Reply,
    Request,
    Results,
    Thought,
)
from providers.wires import WIRES


class World:
    """Three tools, and what they did: one reads, one writes, one writes and may be repeated."""

    def __init__(self) -> None:
        self.did: list[str] = []

        @tool(effect=READ, touches=read_file)
        async def look(path: str) -> str:
            """Look at something."""
            await anyio.lowlevel.checkpoint()
            self.did.append(f"look {path}")
            return f"seen {path}"

        @tool(touches=write_file)
        async def put(path: str) -> str:
            """Put something somewhere."""
            await anyio.lowlevel.checkpoint()
            self.did.append(f"put {path}")
            await anyio.lowlevel.checkpoint()
            return f"put {path}"

        @tool(idempotent=True, touches=write_file)
        async def fill(path: str) -> str:
            """Fill something up."""
            await anyio.lowlevel.checkpoint()
            self.did.append(f"fill {path}")
            return f"full {path}"

        self.tools = Toolset(look, put, fill)


def look(path: str, call_id: str) -> Call:
    return Call("look", f'{{"path":"{path}"}}', call_id)


def put(path: str, call_id: str) -> Call:
    return Call("put", f'{{"path":"{path}"}}', call_id)


def fill(path: str, call_id: str) -> Call:
    return Call("fill", f'{{"path":"{path}"}}', call_id)


def calls(*parts: Call | Cut | str) -> Reply:
    """A reply of words and calls."""
    return Reply(tuple(Text(one) if isinstance(one, str) else one for one in parts), "calls")


def says(text: str) -> Reply:
    return Reply((Text(text),))


def by_turn(*replies: Reply) -> Model:
    """A model that goes by the history alone: asked again, it says the same again."""

    async def model(request: Request) -> Reply:
        await anyio.lowlevel.checkpoint()
        return replies[turn_of(request)]

    return model


def turn_of(request: Request) -> int:
    return sum(isinstance(one, Reply) for one in request.messages)


def streamed(model: Callable[[Request], Any]) -> Model:
    """The same model, piece by piece, with a wait before each piece."""

    async def pieces(request: Request) -> AsyncIterator[Piece]:
        reply = await model(request)
        for part in reply.parts:
            await anyio.lowlevel.checkpoint()
            match part:
                case Text(text):
                    for letter in text:
                        yield Delta(letter)
                case Thought(text):
                    yield Delta(text, thought=True)
                case Call():
                    yield part
                case Cut():
                    pass
        await anyio.lowlevel.checkpoint()
        yield reply

    return pieces


def owed(messages: tuple[Message, ...]) -> None:
    """What every transcript owes: exactly one result for each call; taken by every wire."""
    for message, after in pairwise([Prompt(()), *messages, Prompt(())]):
        parts = message.parts if isinstance(message, Reply) else ()
        asked = [one.id for one in parts if isinstance(one, Call | Cut)]
        given = [one.call_id for one in after.results] if isinstance(after, Results) else []
        assert asked == given
    for wire in WIRES.values():
        assert wire.encode_messages(messages)


def results(messages: tuple[Message, ...]) -> list[Result]:
    return [one for message in messages if isinstance(message, Results) for one in message.results]


def kinds(messages: tuple[Message, ...]) -> list[str]:
    """What became of each call: its text where it is good, its kind where it failed."""
    return [one.failure.kind.value if one.failure else one.text for one in results(messages)]


def named(tools: Toolset, name: str) -> Tool[..., Any]:
    found = tools.find(name)
    assert found is not None
    return found
