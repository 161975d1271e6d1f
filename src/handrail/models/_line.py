"""A line to a model: the request out in a provider's format, its reply back piece by piece."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

from handrail import Toolset
from handrail.messages import Message, Model, Piece, Reply, Request
from handrail.models._failures import Errors, broken_off, in_words

Options: TypeAlias = Mapping[str, Any]
"""More of a request's body, as a provider documents it."""
Body: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
"""One thing that a provider sends, as plain data."""

NO_OPTIONS: Options = MappingProxyType({})

T = TypeVar("T")
Make: TypeAlias = Callable[[str | None, str | None], AbstractAsyncContextManager[T]]
"""Makes a client, of an address and a key; where these are None, the SDK has its own ways."""


class Wire(Protocol):
    """What a module of ``handrail.providers`` has, as far as it is needed here."""

    def encode_messages(self, messages: Sequence[Message], *, system: str = "") -> Body:
        """A history as it goes out."""
        ...

    def encode_tools(self, tools: Toolset) -> list[Body]:
        """Tools as they go out."""
        ...

    def decode(self, response: Event, *, names: Mapping[str, str]) -> Reply:
        """A whole response."""
        ...

    def decode_stream(
        self, events: AsyncIterator[Event], *, names: Mapping[str, str]
    ) -> AsyncIterator[Piece]:
        """A response piece by piece."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(Generic[T]):
    """How one SDK is talked to."""

    name: str
    wire: Wire
    errors: Errors
    connect: Callable[[], AbstractAsyncContextManager[T]]
    body: Callable[[Request], Body]
    begin: Callable[[T, Body], Awaitable[AbstractAsyncContextManager[AsyncIterator[Any]]]]
    """Sends a body; the response is read while it comes."""
    ask: Callable[[T, Body], Awaitable[Any]]
    """Sends a body, and waits for all of the response."""
    plain: Callable[[Any], Event]
    """What an SDK gives, as plain data."""
    over: Callable[[Event], bool]
    """Whether an event, or a response, says that the reply is complete."""

    def model(self, *, stream: bool) -> Model:
        """The model at the other end."""
        return self._streamed if stream else self._whole

    @property
    def _who(self) -> str:
        return f"the model {self.name!r}"

    async def _whole(self, request: Request) -> Reply:
        body = self.body(request)
        with in_words(self._who, self.errors):
            async with self.connect() as client:
                response = self.plain(await self.ask(client, body))
        self.over(response)
        return self.wire.decode(response, names=request.tools.wire_names)

    async def _streamed(self, request: Request) -> AsyncIterator[Piece]:
        """The pieces. The reply comes when nothing is open any more: few read on after it."""
        last: list[Piece] = []
        async with self._pieces(request) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    last.append(piece)
                else:
                    yield piece
        for piece in last:
            yield piece

    @asynccontextmanager
    async def _pieces(self, request: Request) -> AsyncGenerator[AsyncIterator[Piece]]:
        """A response under way; whatever ends this, closes it."""
        body, names = self.body(request), request.tools.wire_names
        async with AsyncExitStack() as stack:
            with in_words(self._who, self.errors):
                client = await stack.enter_async_context(self.connect())
                heard = await stack.enter_async_context(await self.begin(client, body))
            events = await stack.enter_async_context(aclosing(self._read(heard)))
            pieces = self.wire.decode_stream(events, names=names)
            yield await stack.enter_async_context(aclosing(cast("AsyncGenerator[Piece]", pieces)))

    async def _read(self, heard: AsyncIterator[Any]) -> AsyncGenerator[Event]:
        over = midway = False
        while True:
            with in_words(self._who, self.errors, midway=midway):
                one = await anext(heard, None)
                event = None if one is None else self.plain(one)
            if event is None:
                break
            midway = True
            over = self.over(event) or over
            yield event
        if not over:
            raise broken_off(self._who)


def said(wire: Wire, request: Request) -> Body:
    """What most bodies have: the history, and the tools where there are any."""
    tools = wire.encode_tools(request.tools)
    told = wire.encode_messages(request.messages, system=request.system)
    return {**told, "tools": tools} if tools else told


def connection(
    make: Make[T],
    client: T | None,
    base_url: str | None,
    key: str | None,
) -> Callable[[], AbstractAsyncContextManager[T]]:
    """A way to a client: the caller's own, which stays open; or a new one for each request.

    What the environment has for a provider, as a key or headers, is not for another server: that
    is sent the key that it is given, or none that means anything.
    """
    if client is None:
        return lambda: make(base_url, key or (_NO_KEY if base_url else None))
    if base_url is not None or key is not None:
        raise ValueError("a client has its own base_url and key: give it, or these")
    return lambda: nullcontext(client)


def without_headers(variable: str, key: str | None, omit: Any) -> dict[str, Any]:
    """What keeps headers at home that an SDK takes from a variable: they are for its provider.

    One of them may have the place of the key; there, the key stays.
    """
    proofs = {"authorization": f"Bearer {key}", "x-api-key": key}
    lines = os.environ.get(variable, "").split("\n")
    names = [line.partition(":")[0].strip() for line in lines if ":" in line]
    return {name: proofs.get(name.lower(), omit) for name in names}


_NO_KEY = "none"
