"""OpenAI Chat Completions and Responses, through the provider's SDK; the only module that knows it.

Both formats are spoken by many servers besides the provider's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from handrail.messages import Model, Request
from handrail.models._failures import Errors, failed, missing
from handrail.models._line import (
    NO_OPTIONS,
    Body,
    Event,
    Line,
    Make,
    Options,
    connection,
    said,
    without_headers,
)
from handrail.providers import openai_chat as chat
from handrail.providers import openai_responses as responses

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream, BaseModel
    from openai.types.chat import ChatCompletionChunk
    from openai.types.responses import ResponseStreamEvent


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
    """A model behind Chat Completions: OpenAI's, or of one of the many servers that speak it.

    Args:
        name: The model's.
        client: An asynchronous client of the SDK's, with its own keys, retries and timeouts. It is
            closed by whoever made it; without it there is a new one for each request.
        base_url: Where the server is, mostly with ``/v1`` at its end.
        key: Proves who asks. Without it the SDK looks for one, unless there is a base_url.
        max_tokens: Of a reply, where a request does not say; else the provider's limit.
        options: More of each request's body; it wins over what is put there otherwise.
        stream: Whether replies come piece by piece.
    """
    make, errors = _sdk()

    def body(request: Request) -> Body:
        most = request.max_tokens or max_tokens
        return {
            **said(chat, request),
            **({"max_completion_tokens": most} if most else {}),
            **({"stream_options": {"include_usage": True}} if stream else {}),
            "model": name,
            **options,
        }

    return Line(
        name=name,
        wire=chat,
        errors=errors,
        connect=connection(make, client, base_url, key),
        body=body,
        begin=_begin_chat,
        ask=_ask_chat,
        plain=_plain,
        over=_over_chat,
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
    """A model behind Responses: OpenAI's, or of a server that speaks it.

    Args:
        name: The model's.
        client: An asynchronous client of the SDK's, with its own keys, retries and timeouts. It is
            closed by whoever made it; without it there is a new one for each request.
        base_url: Where the server is, mostly with ``/v1`` at its end.
        key: Proves who asks. Without it the SDK looks for one, unless there is a base_url.
        max_tokens: Of a reply, where a request does not say; else the provider's limit.
        options: More of each request's body; it wins over what is put there otherwise.
        stream: Whether replies come piece by piece.
    """
    make, errors = _sdk()

    def body(request: Request) -> Body:
        most = request.max_tokens or max_tokens
        return {
            **said(responses, request),
            **({"max_output_tokens": most} if most else {}),
            "model": name,
            **options,
        }

    return Line(
        name=name,
        wire=responses,
        errors=errors,
        connect=connection(make, client, base_url, key),
        body=body,
        begin=_begin_response,
        ask=_ask_response,
        plain=_plain,
        over=_over_response(name),
    ).model(stream=stream)


def _sdk() -> tuple[Make[AsyncOpenAI], Errors]:
    try:
        import openai as sdk  # noqa: PLC0415  an extra
    except ImportError:
        raise missing("openai") from None

    def make(base_url: str | None, key: str | None) -> AsyncOpenAI:
        if base_url is None:
            return sdk.AsyncOpenAI(api_key=key)
        omit = sdk.Omit()
        headers = without_headers("OPENAI_CUSTOM_HEADERS", key, omit)
        headers |= dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), omit)
        return sdk.AsyncOpenAI(base_url=base_url, api_key=key, default_headers=headers)

    return make, Errors(lost=(sdk.APIConnectionError,), told=(sdk.OpenAIError,))


def _begin_chat(client: AsyncOpenAI, body: Body) -> Awaitable[AsyncStream[ChatCompletionChunk]]:
    return client.chat.completions.create(
        model=body["model"], messages=[], stream=True, extra_body=body
    )


def _ask_chat(client: AsyncOpenAI, body: Body) -> Awaitable[Any]:
    return client.chat.completions.create(model=body["model"], messages=[], extra_body=body)


def _begin_response(client: AsyncOpenAI, body: Body) -> Awaitable[AsyncStream[ResponseStreamEvent]]:
    return client.responses.create(model=body["model"], stream=True, extra_body=body)


def _ask_response(client: AsyncOpenAI, body: Body) -> Awaitable[Any]:
    return client.responses.create(model=body["model"], extra_body=body)


def _plain(event: BaseModel) -> Event:
    return event.to_dict(mode="json", warnings=False)


def _over_chat(chunk: Event) -> bool:
    return any(one.get("finish_reason") for one in chunk.get("choices") or ())


def _over_response(name: str) -> Callable[[Event], bool]:
    def over(event: Event) -> bool:
        """Whether an event is the last. A response may come and say that it is none."""
        kind, response = event.get("type"), event.get("response") or event
        if kind == "error" or response.get("status") == "failed":
            told = response.get("error") or event
            code, words = str(told.get("code") or ""), str(told.get("message") or "")
            raise failed(f"the model {name!r}", code=code, words=words)
        return kind in ("response.completed", "response.incomplete")

    return over
