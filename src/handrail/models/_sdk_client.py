"""A model that sends requests through an SDK and converts the replies."""

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
from handrail.messages import Message, Model, Reply, Request, StreamItem
from handrail.models._failures import Errors, as_model_errors, incomplete_reply
from handrail.providers._formats.tool_choice import encode_tool_choice

Options: TypeAlias = Mapping[str, Any]
"""Additional fields of a request body, as the provider documents them."""
Body: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
"""One event or response of a provider, as plain data."""

NO_OPTIONS: Options = MappingProxyType({})

T = TypeVar("T")
Make: TypeAlias = Callable[[str | None, str | None], AbstractAsyncContextManager[T]]
"""Creates a client from an address and a key. If these are None, the SDK uses its defaults."""


class ProviderModule(Protocol):
    """The functions of a module in ``handrail.providers`` that are used here."""

    def encode_messages(self, messages: Sequence[Message], *, system: str = "") -> Body:
        """Convert a history."""
        ...

    def encode_tools(self, tools: Toolset) -> list[Body]:
        """Convert tools."""
        ...

    def decode(self, response: Event, *, names: Mapping[str, str]) -> Reply:
        """Convert a complete response."""
        ...

    def decode_stream(
        self, events: AsyncIterator[Event], *, names: Mapping[str, str]
    ) -> AsyncIterator[StreamItem]:
        """Convert a streamed response."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkClient(Generic[T]):
    """The functions that connect handrail to one SDK."""

    name: str
    api: ProviderModule
    errors: Errors
    connect: Callable[[], AbstractAsyncContextManager[T]]
    body: Callable[[Request], Body]
    start_stream: Callable[[T, Body], Awaitable[AbstractAsyncContextManager[AsyncIterator[Any]]]]
    """Sends a body and returns the response as a stream."""
    send: Callable[[T, Body], Awaitable[Any]]
    """Sends a body and returns the complete response."""
    to_dict: Callable[[Any], Event]
    """Converts an event or a response of the SDK to plain data."""
    is_last: Callable[[Event], bool]
    """Whether an event or a response completes the reply."""

    def model(self, *, stream: bool) -> Model:
        """Return the model."""
        return self._stream if stream else self._whole

    async def _whole(self, request: Request) -> Reply:
        body = self.body(request)
        with as_model_errors(self.name, self.errors):
            async with self.connect() as client:
                response = self.to_dict(await self.send(client, body))
        self.is_last(response)
        return self.api.decode(response, names=request.tools.api_names)

    async def _stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Stream the items. The connection is closed before the reply is yielded.

        Few callers continue the iteration after the reply.
        """
        last: list[StreamItem] = []
        async with self._pieces(request) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    last.append(piece)
                else:
                    yield piece
        for piece in last:
            yield piece

    @asynccontextmanager
    async def _pieces(self, request: Request) -> AsyncGenerator[AsyncIterator[StreamItem]]:
        """Open a stream. It is closed at the end in any case."""
        body, names = self.body(request), request.tools.api_names
        async with AsyncExitStack() as stack:
            with as_model_errors(self.name, self.errors):
                client = await stack.enter_async_context(self.connect())
                response = await stack.enter_async_context(await self.start_stream(client, body))
            events = await stack.enter_async_context(aclosing(self._read(response)))
            pieces = self.api.decode_stream(events, names=names)
            yield await stack.enter_async_context(
                aclosing(cast("AsyncGenerator[StreamItem]", pieces))
            )

    async def _read(self, response: AsyncIterator[Any]) -> AsyncGenerator[Event]:
        complete = midway = False
        while True:
            with as_model_errors(self.name, self.errors, midway=midway):
                chunk = await anext(response, None)
                event = None if chunk is None else self.to_dict(chunk)
            if event is None:
                break
            midway = True
            complete = self.is_last(event) or complete
            yield event
        if not complete:
            raise incomplete_reply(self.name)


def base_body(api: ProviderModule, name: str, request: Request) -> Body:
    """Return the fields that most bodies have: the history and, if there are any, the tools."""
    tools = api.encode_tools(request.tools)
    history = api.encode_messages(request.messages, system=request.system)
    if not tools:
        return history
    return {**history, "tools": tools, **encode_tool_choice(name, request.tool_choice)}


def connection(
    make: Make[T],
    client: T | None,
    base_url: str | None,
    key: str | None,
) -> Callable[[], AbstractAsyncContextManager[T]]:
    """Return a function that opens a client: the given one, or a new one for each request.

    Keys and headers from the environment belong to the provider. Another server receives only the
    key that you pass, or a placeholder.
    """
    if client is None:
        return lambda: make(base_url, key or (_NO_KEY if base_url else None))
    if base_url is not None or key is not None:
        raise ValueError("Pass either a client, or base_url and key. A client has its own.")
    return lambda: nullcontext(client)


def without_headers(variable: str, key: str | None, omit: Any) -> dict[str, Any]:
    """Return headers that remove those which an SDK reads from a variable for its provider.

    A header that carries the key keeps the given key.
    """
    credentials = {"authorization": f"Bearer {key}", "x-api-key": key}
    lines = os.environ.get(variable, "").split("\n")
    names = [line.partition(":")[0].strip() for line in lines if ":" in line]
    return {name: credentials.get(name.lower(), omit) for name in names}


_NO_KEY = "none"
