"""Anthropic Messages, through the provider's own SDK; the only module that knows it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from handrail.messages import Model, Request
from handrail.models._failures import Errors, missing
from handrail.models._line import (
    NO_OPTIONS,
    Body,
    Event,
    Line,
    Options,
    connection,
    said,
    without_headers,
)
from handrail.providers import anthropic as wire

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream, BaseModel
    from anthropic.types import RawMessageStreamEvent


def anthropic(  # noqa: PLR0913  each is an option with a default
    name: str,
    *,
    client: AsyncAnthropic | None = None,
    base_url: str | None = None,
    key: str | None = None,
    max_tokens: int = 4096,
    options: Options = NO_OPTIONS,
    stream: bool = True,
) -> Model:
    """A model of Anthropic's, or of a server that speaks its Messages format.

    Args:
        name: The model's.
        client: An asynchronous client of the SDK's, with its own keys, retries and timeouts. It is
            closed by whoever made it; without it there is a new one for each request.
        base_url: Where the server is, without ``/v1``.
        key: Proves who asks. Without it the SDK looks for one, unless there is a base_url.
        max_tokens: Of a reply, where a request does not say.
        options: More of each request's body; it wins over what is put there otherwise.
        stream: Whether replies come piece by piece.
    """
    try:
        import anthropic as sdk  # noqa: PLC0415  an extra
    except ImportError:
        raise missing("anthropic") from None

    def body(request: Request) -> Body:
        return {
            **said(wire, request),
            "model": name,
            "max_tokens": request.max_tokens or max_tokens,
            **options,
        }

    def connect(at: str | None, with_key: str | None) -> AsyncAnthropic:
        headers = without_headers("ANTHROPIC_CUSTOM_HEADERS", with_key, sdk.Omit()) if at else None
        return sdk.AsyncAnthropic(base_url=at, api_key=with_key, default_headers=headers)

    return Line(
        name=name,
        wire=wire,
        errors=Errors(lost=(sdk.APIConnectionError,), told=(sdk.AnthropicError,)),
        connect=connection(connect, client, base_url, key),
        body=body,
        begin=_begin,
        ask=_ask,
        plain=_plain,
        over=_over,
    ).model(stream=stream)


def _begin(client: AsyncAnthropic, body: Body) -> Awaitable[AsyncStream[RawMessageStreamEvent]]:
    return client.messages.create(
        model=body["model"],
        max_tokens=body["max_tokens"],
        messages=[],
        stream=True,
        extra_body=body,
    )


def _ask(client: AsyncAnthropic, body: Body) -> Awaitable[Any]:
    return client.messages.create(
        model=body["model"], max_tokens=body["max_tokens"], messages=[], extra_body=body
    )


def _plain(event: BaseModel) -> Event:
    return event.to_dict(mode="json", warnings=False)


def _over(event: Event) -> bool:
    return event.get("type") == "message_stop"
