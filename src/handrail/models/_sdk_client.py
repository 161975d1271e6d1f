"""A model sending requests through an SDK and converting the replies."""

from __future__ import annotations

import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

from handrail import Call
from handrail.messages import ModelError, Reply, Request, StreamItem
from handrail.models._failures import Errors, as_model_errors, incomplete_reply, to_model_error
from handrail.models._kept_clients import Clients, GivenClient, KeptClients
from handrail.models._native_output import read_answer

Body: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
"""A provider's event or response, as plain data."""

MAX_ANSWER_BYTES = 32 << 20
"""Bytes in one answer, streamed or not."""

T = TypeVar("T")
Make: TypeAlias = Callable[[str | None, str | None], AbstractAsyncContextManager[T]]
"""Creates a client from an address and a key. If these are None, the SDK uses its defaults."""


class StreamDecoder(Protocol):
    """Converts a stream, one event at a time."""

    def feed(self, event: Event) -> Iterable[StreamItem]:
        """Process one event, and return what is new."""
        ...

    def end(self) -> Reply:
        """Return the reply after the last event."""
        ...


class ProviderModule(Protocol):
    """The functions used here from a module in ``handrail.providers``."""

    @property
    def Stream(self) -> Callable[..., StreamDecoder]:  # noqa: N802 a class name
        """Converts a streamed response."""
        ...

    @property
    def encode_tools(self) -> Callable[..., list[Body]]:
        """Converts tools. Some APIs have more options."""
        ...

    def decode(self, response: Event, *, names: Mapping[str, str]) -> Reply:
        """Convert a complete response."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkClient(Generic[T]):
    """The functions connecting handrail to one SDK."""

    name: str
    api: ProviderModule
    errors: Errors
    clients: Clients[T]
    body: Callable[[Request], Body]
    start_stream: Callable[[T, Body], Awaitable[AbstractAsyncContextManager[AsyncIterator[Any]]]]
    """Sends a body and returns the response as a stream."""
    send: Callable[[T, Body], Awaitable[Any]]
    """Sends a body and returns the complete response."""
    to_dict: Callable[[Any], Event]
    """Converts an SDK event or response to plain data."""
    is_last: Callable[[Event], bool]
    """Whether an event or a response completes the reply."""
    must_stream: Callable[[Body], bool] = lambda _: False
    """Whether the provider answers a request only as a stream."""
    ask: Callable[[Body, Request], Body] | None = None
    """Asks for a typed answer without a tool, if it can."""

    def _make_body(self, request: Request) -> tuple[Body, Callable[[Reply], Reply]]:
        """Return a request's body, and what to do with the reply."""
        body = self.body(request)
        asked = body if self.ask is None else self.ask(body, request)
        return asked, _unchanged if asked is body else partial(read_answer, request=request)

    async def whole(self, request: Request) -> Reply:
        """Return a reply as a whole."""
        body, finish = self._make_body(request)
        if self.must_stream(body):
            async with aclosing(self.stream(request)) as items:
                replies = [item async for item in items if isinstance(item, Reply)]
            return replies[-1]
        with as_model_errors(self.name, self.errors):
            response = self.to_dict(await self.send(await self.clients.get(), body))
        self.is_last(response)
        return finish(self.api.decode(response, names=request.tools.api_names))

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        """Stream the items. The response is closed before the reply is yielded.

        Few callers continue the iteration after the reply.
        """
        decoder = self.api.Stream(names=request.tools.api_names)
        early: set[str] = set()
        body, finish = self._make_body(request)
        try:
            async with aclosing(self._events(body)) as events:
                async for event in events:
                    for item in decoder.feed(event):
                        if isinstance(item, Call):
                            early.add(item.id)
                        yield item
        except ModelError as error:
            error.usage = decoder.end().usage
            raise
        reply = finish(decoder.end())
        for call in reply.calls:
            if call.id not in early:
                yield call
        yield reply

    async def _events(self, body: Body) -> AsyncGenerator[Event]:
        complete = midway = False
        try:
            client = await self.clients.get()
            async with await self.start_stream(client, body) as response:
                while (chunk := await _next(response)) is not None:
                    event = self.to_dict(chunk)
                    midway = True
                    complete = self.is_last(event) or complete
                    yield event
        except Exception as error:
            converted = to_model_error(error, self.name, self.errors, midway=midway)
            if converted is error:
                raise
            raise converted from error
        if not complete:
            raise incomplete_reply(self.name)


def _unchanged(reply: Reply) -> Reply:
    return reply


async def _next(response: AsyncIterator[Any]) -> Any:
    """Return the next chunk, or None after the last."""
    try:
        return await response.__anext__()
    except StopAsyncIteration:
        return None


class ProviderModel:
    """A provider's model, called through the provider's SDK.

    Requests share one client for each event loop, which keeps its connections. It is closed when
    the event loop ends, when the model is garbage-collected, by ``aclose``, and when ``async with``
    ends.
    """

    __slots__ = ("__weakref__", "_client", "_replies")

    def __init__(self, client: SdkClient[Any], *, stream: bool) -> None:
        self._client = client
        self._replies = client.stream if stream else client.whole

    def __call__(self, request: Request) -> AsyncIterator[StreamItem] | Awaitable[Reply]:
        """Reply to a request."""
        return self._replies(request)

    @property
    def names(self) -> tuple[str, ...]:
        """The model name, to find its price."""
        return (self._client.name,)

    def __repr__(self) -> str:
        return f"<model {self._client.name!r}>"

    async def aclose(self) -> None:
        """Close this event loop's client. The next request opens another one."""
        await self._client.clients.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def clients_of(
    make: Make[T], client: T | None, base_url: str | None, key: str | None
) -> Clients[T]:
    """Return the clients for requests: the one passed, or one for each event loop.

    Keys and headers from the environment belong to the provider. Another server receives only the
    key you pass, or a placeholder.
    """
    if client is None:
        return KeptClients(partial(make, base_url, key or (_NO_KEY if base_url else None)))
    if base_url is not None or key is not None:
        raise ValueError("Pass either a client, or base_url and key. A client has its own.")
    return GivenClient(client)


def bounded_answers() -> Any:
    """Return event hooks for an SDK's HTTP client, which reject compressed or endless answers.

    A server can be another one than the provider's, and SDKs read answers and errors as a whole.
    """
    from handrail.net import bounded_hooks

    return bounded_hooks(MAX_ANSWER_BYTES)


def without_headers(variable: str, key: str | None, omit: Any) -> dict[str, Any]:
    """Return headers removing those an SDK reads from a variable for its provider.

    A header carrying the key keeps the key passed.
    """
    credentials = {"authorization": f"Bearer {key}", "x-api-key": key}
    lines = os.environ.get(variable, "").split("\n")
    names = [line.partition(":")[0].strip() for line in lines if ":" in line]
    return {name: credentials.get(name.lower(), omit) for name in names}


_NO_KEY = "none"
