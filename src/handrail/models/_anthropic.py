"""Anthropic Messages through the official SDK. Only this module imports it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from handrail.messages import Model, Request, RequiredTool
from handrail.models._failures import Errors, missing_sdk
from handrail.models._sdk_client import (
    NO_OPTIONS,
    Body,
    Event,
    Options,
    SdkClient,
    base_body,
    connection,
    without_headers,
)
from handrail.providers import anthropic as api

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream, BaseModel
    from anthropic.types import RawMessageStreamEvent


_API = "anthropic"


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
    """Return a model of Anthropic, or of a server with a compatible Messages API.

    Args:
        name: The name of the model.
        client: An asynchronous client of the SDK, with its own key, retries and timeouts. You
            close it. By default, each request uses a new client.
        base_url: The address of the server, without ``/v1``.
        key: The API key. By default, the SDK reads it from the environment. With a base_url, no
            key from the environment is sent.
        max_tokens: Maximum tokens of a reply, if the request sets none.
        options: Additional fields of the request body. They override the others.
        stream: Whether to stream replies.
    """
    try:
        import anthropic as sdk
    except ImportError:
        raise missing_sdk(_API) from None

    def body(request: Request) -> Body:
        if isinstance(request.tool_choice, RequiredTool) and "thinking" in options:
            request = request._replace(tool_choice="auto")  # the API refuses both together
        return {
            **base_body(api, _API, request),
            "model": name,
            "max_tokens": request.max_tokens or max_tokens,
            **options,
        }

    def connect(at: str | None, with_key: str | None) -> AsyncAnthropic:
        headers = without_headers("ANTHROPIC_CUSTOM_HEADERS", with_key, sdk.Omit()) if at else None
        return sdk.AsyncAnthropic(base_url=at, api_key=with_key, default_headers=headers)

    return SdkClient(
        name=name,
        api=api,
        errors=Errors(_API, (sdk.APIConnectionError,), (sdk.AnthropicError,)),
        connect=connection(connect, client, base_url, key),
        body=body,
        start_stream=_start_stream,
        send=_send,
        to_dict=_to_dict,
        is_last=_is_last,
    ).model(stream=stream)


def _start_stream(
    client: AsyncAnthropic, body: Body
) -> Awaitable[AsyncStream[RawMessageStreamEvent]]:
    return client.messages.create(
        model=body["model"],
        max_tokens=body["max_tokens"],
        messages=[],
        stream=True,
        extra_body=body,
    )


def _send(client: AsyncAnthropic, body: Body) -> Awaitable[Any]:
    return client.messages.create(
        model=body["model"], max_tokens=body["max_tokens"], messages=[], extra_body=body
    )


def _to_dict(event: BaseModel) -> Event:
    return event.to_dict(mode="json", warnings=False)


def _is_last(event: Event) -> bool:
    return event.get("type") == "message_stop"
