"""Gemini, through the provider's own SDK; the only module that knows it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from handrail.messages import Model, Request
from handrail.models._failures import Errors, missing, without_key
from handrail.models._line import NO_OPTIONS, Body, Event, Line, Options, connection
from handrail.providers import gemini as wire

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.client import AsyncClient
    from google.genai.types import GenerateContentConfigDict, GenerateContentResponse

_TRIES = 3
"""As many as the other SDKs make; this one makes a single one where it is not told."""
_VARIABLES = (
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "GOOGLE_GENAI_USE_VERTEXAI",
)
"""Where none of these is set, the SDK makes half a client, whose end fails some time later."""


def gemini(  # noqa: PLR0913  each is an option with a default
    name: str,
    *,
    client: Client | None = None,
    base_url: str | None = None,
    key: str | None = None,
    max_tokens: int | None = None,
    options: Options = NO_OPTIONS,
    stream: bool = True,
) -> Model:
    """A model of Google's, or of a server that speaks its generateContent format.

    Args:
        name: The model's.
        client: One of the SDK's, with its own keys, retries and timeouts. It is closed by whoever
            made it; without it there is a new one for each request.
        base_url: Where the server is, without the version of the API.
        key: Proves who asks. Without it the SDK looks for one, unless there is a base_url.
        max_tokens: Of a reply, where a request does not say; else the provider's limit.
        options: More of each request's body, as ``generationConfig`` or ``toolConfig``; it wins
            over what is put there otherwise.
        stream: Whether replies come piece by piece.
    """
    try:
        from google import genai  # noqa: PLC0415  an extra
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
        from google.genai import errors  # noqa: PLC0415
    except ImportError:
        raise missing("google") from None

    def body(request: Request) -> Body:
        tools = wire.encode_tools(request.tools)
        most = request.max_tokens or max_tokens
        return {
            **wire.encode_messages(request.messages, system=request.system),
            **({"tools": [{"functionDeclarations": tools}]} if tools else {}),
            **({"generationConfig": {"maxOutputTokens": most}} if most else {}),
            **options,
        }

    def connect(at: str | None, with_key: str | None) -> AsyncClient:
        if with_key is None and not any(one in os.environ for one in _VARIABLES):
            raise without_key(f"the model {name!r}")
        http: Any = {"base_url": at, "retry_options": {"attempts": _TRIES}}
        return genai.Client(api_key=with_key, http_options=http).aio

    return Line(
        name=name,
        wire=wire,
        errors=Errors(lost=(), told=(errors.APIError, GoogleAuthError)),
        connect=connection(connect, None if client is None else client.aio, base_url, key),
        body=body,
        begin=partial(_begin, name),
        ask=partial(_ask, name),
        plain=_plain,
        over=_over,
    ).model(stream=stream)


_CONTENTS = "."
"""The SDK wants some; those of the body take their place."""


async def _begin(
    name: str, api: AsyncClient, body: Body
) -> AbstractAsyncContextManager[AsyncIterator[GenerateContentResponse]]:
    models: Any = api.models  # its types name packages that are not there
    config = _config(body)
    return aclosing(
        await models.generate_content_stream(model=name, contents=_CONTENTS, config=config)
    )


async def _ask(name: str, api: AsyncClient, body: Body) -> Any:
    models: Any = api.models
    return await models.generate_content(model=name, contents=_CONTENTS, config=_config(body))


def _config(body: Body) -> GenerateContentConfigDict:
    """A body that goes over as it is: the SDK's own types would not carry all of it."""
    return {
        "automatic_function_calling": {"disable": True},
        "http_options": {"extra_body": body},
    }


def _plain(response: GenerateContentResponse) -> Event:
    return response.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)


def _over(event: Event) -> bool:
    blocked = event.get("promptFeedback", {}).get("blockReason")
    return bool(blocked) or any(one.get("finishReason") for one in event.get("candidates", ()))
