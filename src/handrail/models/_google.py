"""Gemini through the official SDK. Only this module imports it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from handrail.messages import Request
from handrail.models._body import (
    NO_OPTIONS,
    EncodedTools,
    Histories,
    Options,
    ServerTools,
    given,
    merge,
    once_per_toolset,
)
from handrail.models._failures import Errors, missing_key, missing_sdk
from handrail.models._native_output import OutputWay, choose_way
from handrail.models._sdk_client import (
    Body,
    Event,
    ProviderModel,
    SdkClient,
    bounded_answers,
    clients_of,
)
from handrail.models._tool_choice import encode_tool_choice
from handrail.providers import PROVIDERS
from handrail.providers import gemini as provider

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.client import AsyncClient
    from google.genai.types import GenerateContentConfigDict, GenerateContentResponse

_API = "gemini"
_VARIABLES = (
    *PROVIDERS[_API].keys,
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "GOOGLE_GENAI_USE_VERTEXAI",
)
"""If none is set, the SDK creates a broken client, which fails on closing."""


def gemini(  # noqa: PLR0913  each is an option with a default
    name: str,
    *,
    client: Client | None = None,
    base_url: str | None = None,
    key: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    stop: Sequence[str] | None = None,
    effort: str | None = None,
    server_tools: ServerTools = (),
    output: OutputWay = "tool",
    options: Options = NO_OPTIONS,
    stream: bool = True,
    retries: int = 2,
) -> ProviderModel:
    """Return a Google model, or one on a server with a compatible generateContent API.

    Args:
        name: The model name.
        client: An SDK client, with its own key, retries and timeouts. You close it. By default, the
            model has its own client.
        base_url: The server's address, without the API version.
        key: The API key. By default, the SDK reads it from the environment. With a base_url, no key
            from the environment is sent.
        max_tokens: Maximum tokens in a reply, if the request sets none. Default: the provider's.
        temperature: How much replies to the same request differ.
        stop: Stop sequences for a reply.
        effort: How much a model reasons, such as ``"low"`` or ``"high"``.
        server_tools: Tools run by the provider, as it documents them.
        output: How the model gives a typed answer. With ``"native"``, the API enforces its schema
            where it can; otherwise, and after an invalid answer, the model calls a tool.
        options: Additional request body fields, such as ``toolConfig``. They override the others,
            and objects such as ``generationConfig`` are merged.
        stream: Whether to stream replies.
        retries: How often the SDK repeats a failed request, if the model has its own client.
    """
    try:
        from google import genai
        from google.auth.exceptions import GoogleAuthError
        from google.genai import errors
    except ImportError:
        raise missing_sdk(_API) from None
    settings = given(
        temperature=temperature,
        stopSequences=None if stop is None else list(stop),
        thinkingConfig=None if effort is None else {"thinkingLevel": effort},
    )

    encode_tools = once_per_toolset(provider.encode_tools)
    histories = Histories(provider.start_history, provider.finish_history)

    def body(request: Request) -> Body:
        history = histories.encode(request.messages, request.system, ())
        config = {**settings, **given(maxOutputTokens=request.max_tokens or max_tokens)}
        tools = _tool_fields(encode_tools(request), server_tools, request)
        whole = {**history, **tools}
        return merge({**whole, "generationConfig": config} if config else whole, options)

    connect = partial(_connect, genai, retries)
    return ProviderModel(
        SdkClient(
            name=name,
            api=provider,
            errors=Errors(_API, unreachable=(), reported=(errors.APIError, GoogleAuthError)),
            clients=clients_of(connect, None if client is None else client.aio, base_url, key),
            body=body,
            ask=choose_way(_API, output),
            start_stream=partial(_start_stream, name),
            send=partial(_send, name),
            to_dict=_to_dict,
            is_last=_is_last,
        ),
        stream=stream,
    )


def _connect(genai: Any, retries: int, base_url: str | None, key: str | None) -> AsyncClient:
    _check_key(key)
    http = {
        "base_url": base_url,
        "retry_options": {"attempts": retries + 1},
        "async_client_args": {"event_hooks": bounded_answers()},
    }
    client: AsyncClient = genai.Client(api_key=key, http_options=http).aio
    return client


def _check_key(key: str | None) -> None:
    if key is None and not any(name in os.environ for name in _VARIABLES):
        raise missing_key(_API)


def _tool_fields(encoded: EncodedTools, server_tools: ServerTools, request: Request) -> Body:
    """Return the tools and the choice. Found tools are last, to keep the others unchanged."""
    ours = [*encoded.fixed, *encoded.found]
    tools = [*map(dict, server_tools), *([{"functionDeclarations": ours}] if ours else [])]
    if not tools:
        return {}
    choice = encode_tool_choice(_API, request.tool_choice) if ours else {}
    return {"tools": tools, **choice}


_CONTENTS = "."
"""The SDK requires contents. The body's replace them."""


async def _start_stream(
    name: str, client: AsyncClient, body: Body
) -> AbstractAsyncContextManager[AsyncIterator[GenerateContentResponse]]:
    models: Any = client.models  # its types refer to packages not installed
    config = _config(body)
    return aclosing(
        await models.generate_content_stream(model=name, contents=_CONTENTS, config=config)
    )


async def _send(name: str, client: AsyncClient, body: Body) -> Any:
    models: Any = client.models
    return await models.generate_content(model=name, contents=_CONTENTS, config=_config(body))


def _config(body: Body) -> GenerateContentConfigDict:
    """Return a config with the whole body. The SDK's own types support only a part."""
    return {
        "automatic_function_calling": {"disable": True},
        "http_options": {"extra_body": body},
    }


def _to_dict(response: GenerateContentResponse) -> Event:
    event: Event = response.model_dump(
        mode="json", by_alias=True, exclude_none=True, warnings=False
    )
    return event


def _is_last(event: Event) -> bool:
    blocked = event.get("promptFeedback", {}).get("blockReason")
    return bool(blocked) or any(
        candidate.get("finishReason") for candidate in event.get("candidates", ())
    )
