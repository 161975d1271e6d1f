"""Shared by tests of the agent: tools that record their calls, models, and checks of transcripts."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import Any

import anyio.lowlevel

from handrail import (
    READ,
    Call,
    Hook,
    LongResults,
    Result,
    Text,
    Tool,
    Toolset,
    Turn,
    reads_file,
    tool,
    writes_file,
)
from handrail.messages import (
    Delta,
    Message,
    Model,
    Prompt,
    Reasoning,
    Reply,
    Request,
    StreamItem,
    ToolResults,
    TruncatedCall,
)
from handrail.permissions import MemoryLedger
from providers.apis import APIS


class _AnyRun(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and re.fullmatch("[0-9a-f]{32}", other) is not None

    __hash__ = str.__hash__


ANY_RUN = _AnyRun()
"""Equal to any id that a run creates."""


class World:
    """Three tools and a record of their calls: one reads, one writes, one is idempotent."""

    def __init__(self) -> None:
        self.did: list[str] = []

        @tool(effect=READ, touches=reads_file)
        async def look(path: str) -> str:
            """Look at something."""
            await anyio.lowlevel.checkpoint()
            self.did.append(f"look {path}")
            return f"seen {path}"

        @tool(touches=writes_file)
        async def put(path: str) -> str:
            """Put something somewhere."""
            await anyio.lowlevel.checkpoint()
            self.did.append(f"put {path}")
            await anyio.lowlevel.checkpoint()
            return f"put {path}"

        @tool(idempotent=True, touches=writes_file)
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


def calls(*parts: Call | TruncatedCall | str) -> Reply:
    """A reply of text and calls."""
    return Reply(tuple(Text(one) if isinstance(one, str) else one for one in parts), "calls")


def says(text: str) -> Reply:
    return Reply((Text(text),))


def by_turn(*replies: Reply) -> Model:
    """A model whose reply depends only on the history."""

    async def model(request: Request) -> Reply:
        await anyio.lowlevel.checkpoint()
        return replies[turn_of(request)]

    return model


def turn_of(request: Request) -> int:
    return sum(isinstance(one, Reply) for one in request.messages)


def streamed(model: Callable[[Request], Any]) -> Model:
    """The same model as a stream, with a wait before each piece."""

    async def pieces(request: Request) -> AsyncIterator[StreamItem]:
        reply = await model(request)
        for part in reply.parts:
            await anyio.lowlevel.checkpoint()
            match part:
                case Text(text):
                    for letter in text:
                        yield Delta(letter)
                case Reasoning(text):
                    yield Delta(text, thought=True)
                case Call():
                    yield part
                case TruncatedCall():
                    pass
        await anyio.lowlevel.checkpoint()
        yield reply

    return pieces


def owed(messages: tuple[Message, ...]) -> None:
    """Check a transcript: one result for each call, and every API accepts it."""
    for message, after in pairwise([Prompt(()), *messages, Prompt(())]):
        parts = message.parts if isinstance(message, Reply) else ()
        asked = [one.id for one in parts if isinstance(one, Call | TruncatedCall)]
        given = [one.call_id for one in after.results] if isinstance(after, ToolResults) else []
        assert asked == given
    for api in APIS.values():
        assert api.encode_messages(messages)


def results(messages: tuple[Message, ...]) -> list[Result]:
    return [
        one for message in messages if isinstance(message, ToolResults) for one in message.results
    ]


def kinds(messages: tuple[Message, ...]) -> list[str]:
    """The outcome of each call: its text, or the kind of its failure."""
    return [one.failure.kind.value if one.failure else one.text for one in results(messages)]


def named(tools: Toolset, name: str) -> Tool[..., Any]:
    found = tools.find(name)
    assert found is not None
    return found


class Recorded:
    """Records steps in memory. What is recorded is not done again."""

    claimant = "segment"
    records = None
    hook = Hook()

    def __init__(self) -> None:
        self.known, self.ledger = dict[str, Result](), MemoryLedger()
        self.steps = self
        self.texts = list[str]()
        self._next = 0

    async def record(self, _name: str, work: Callable[[], Awaitable[str]], /) -> str:
        if self._next == len(self.texts):
            self.texts.append(await work())
        self._next += 1
        return self.texts[self._next - 1]

    def find_results(self, *, are_known: bool) -> LongResults:  # noqa: ARG002  a recorder's
        return LongResults()

    async def begin(self, _turn: Turn[Any], /, *, again: bool) -> None:
        pass

    def restart(self) -> None:
        self._next = 0
