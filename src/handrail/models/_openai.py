"""OpenAI Chat Completions and Responses through the official SDK. Only this module imports it.

Many other servers have compatible APIs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from handrail.messages import Model, Request
from handrail.models._failures import Errors, missing_sdk, provider_error
from handrail.models._sdk_client import (
    NO_OPTIONS,
    Body,
    Event,
    Make,
    Options,
    SdkClient,
    base_body,
    connection,
    without_headers,
)
from handrail.providers import openai_chat as chat
from handrail.providers import openai_responses as responses

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream, BaseModel
    from openai.types.chat import ChatCompletionChunk
    from openai.types.responses import ResponseStreamEvent


_API = "openai_chat"
"""The entry in ``PROVIDERS`` for error messages. The other API has the same SDK and keys."""


def openai_chat(  # noqa: PLR0913  each is an option with a default
    name: str,
    *,
    client: AsyncOpenAI | None = None,
    base_url: str | None = None,
    key: str | None = None,
    max_tokens: int | None = None,
    options: Options = NO_OPTIONS,
    stream: bool = True,
) -> Model:
    """Return a model of OpenAI, or of a server with a compatible Chat Completions API.

    Args:
        name: The name of the model.
        client: An asynchronous client of the SDK, with its own key, retries and timeouts. You
            close it. By default, each request uses a new client.
        base_url: The address of the server. It usually ends with ``/v1``.
        key: The API key. By default, the SDK reads it from the environment. With a base_url, no
            key from the environment is sent.
        max_tokens: Maximum tokens of a reply, if the request sets none. Default: the provider's.
        options: Additional fields of the request body. They override the others.
        stream: Whether to stream replies.
    """
    make, errors = _load_sdk()

    def body(request: Request) -> Body:
        most = request.max_tokens or max_tokens
        return {
            **base_body(chat, chat.API, request),
            **({"max_completion_tokens": most} if most else {}),
            **({"stream_options": {"include_usage": True}} if stream else {}),
            "model": name,
            **options,
        }

    return SdkClient(
        name=name,
        api=chat,
        errors=errors,
        connect=connection(make, client, base_url, key),
        body=body,
        start_stream=_start_chat_stream,
        send=_send_chat,
        to_dict=_to_dict,
        is_last=_is_last_chunk,
    ).model(stream=stream)


def openai_responses(  # noqa: PLR0913  each is an option with a default
    name: str,
    *,
    client: AsyncOpenAI | None = None,
    base_url: str | None = None,
    key: str | None = None,
    max_tokens: int | None = None,
    options: Options = NO_OPTIONS,
    stream: bool = True,
) -> Model:
    """Return a model of OpenAI, or of a server with a compatible Responses API.

    Args:
        name: The name of the model.
        client: An asynchronous client of the SDK, with its own key, retries and timeouts. You
            close it. By default, each request uses a new client.
        base_url: The address of the server. It usually ends with ``/v1``.
        key: The API key. By default, the SDK reads it from the environment. With a base_url, no
            key from the environment is sent.
        max_tokens: Maximum tokens of a reply, if the request sets none. Default: the provider's.
        options: Additional fields of the request body. They override the others.
        stream: Whether to stream replies.
    """
    make, errors = _load_sdk()

    def body(request: Request) -> Body:
        most = request.max_tokens or max_tokens
        return {
            **base_body(responses, responses.API, request),
            **({"max_output_tokens": most} if most else {}),
            "model": name,
            **options,
        }

    return SdkClient(
        name=name,
        api=responses,
        errors=errors,
        connect=connection(make, client, base_url, key),
        body=body,
        start_stream=_start_response_stream,
        send=_send_response,
        to_dict=_to_dict,
        is_last=_is_last_response_event(name),
    ).model(stream=stream)


def _load_sdk() -> tuple[Make[AsyncOpenAI], Errors]:
    try:
        import openai as sdk
    except ImportError:
        raise missing_sdk(_API) from None

    def make(base_url: str | None, key: str | None) -> AsyncOpenAI:
        if base_url is None:
            return sdk.AsyncOpenAI(api_key=key)
        omit = sdk.Omit()
        headers = without_headers("OPENAI_CUSTOM_HEADERS", key, omit)
        headers |= dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), omit)
        return sdk.AsyncOpenAI(base_url=base_url, api_key=key, default_headers=headers)

    return make, Errors(_API, (sdk.APIConnectionError,), (sdk.OpenAIError,))


def _start_chat_stream(
    client: AsyncOpenAI, body: Body
) -> Awaitable[AsyncStream[ChatCompletionChunk]]:
    return client.chat.completions.create(
        model=body["model"], messages=[], stream=True, extra_body=body
    )


def _send_chat(client: AsyncOpenAI, body: Body) -> Awaitable[Any]:
    return client.chat.completions.create(model=body["model"], messages=[], extra_body=body)


def _start_response_stream(
    client: AsyncOpenAI, body: Body
) -> Awaitable[AsyncStream[ResponseStreamEvent]]:
    return client.responses.create(model=body["model"], stream=True, extra_body=body)


def _send_response(client: AsyncOpenAI, body: Body) -> Awaitable[Any]:
    return client.responses.create(model=body["model"], extra_body=body)


def _to_dict(event: BaseModel) -> Event:
    return event.to_dict(mode="json", warnings=False)


def _is_last_chunk(chunk: Event) -> bool:
    return any(choice.get("finish_reason") for choice in chunk.get("choices") or ())


def _is_last_response_event(name: str) -> Callable[[Event], bool]:
    def is_last(event: Event) -> bool:
        """Whether an event is the last. Raises ModelError for a response that failed."""
        kind, response = event.get("type"), event.get("response") or event
        if kind == "error" or response.get("status") == "failed":
            problem = response.get("error") or event
            code, message = str(problem.get("code") or ""), str(problem.get("message") or "")
            raise provider_error(name, code=code, message=message)
        return kind in ("response.completed", "response.incomplete")

    return is_last
