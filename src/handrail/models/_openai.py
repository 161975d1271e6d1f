"""OpenAI Chat Completions and Responses through the official SDK. Only this module imports it.

Many other servers have compatible APIs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from handrail.messages import Request
from handrail.models._body import (
    NO_OPTIONS,
    Histories,
    Options,
    ServerTools,
    base_body,
    given,
    merge,
)
from handrail.models._failures import Errors, Reported, missing_sdk, provider_error
from handrail.models._native_output import OutputWay, choose_way
from handrail.models._sdk_client import (
    Body,
    Event,
    ProviderModel,
    SdkClient,
    bounded_answers,
    clients_of,
    without_headers,
)
from handrail.providers import ToolSearch
from handrail.providers import openai_chat as chat
from handrail.providers import openai_responses as responses

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_API = "openai_chat"
"""The entry in ``PROVIDERS`` for error messages. The other API has the same SDK and keys."""
_SEARCHES = re.compile(r"gpt-(?:5\.(?:[4-9]|\d\d)|[6-9]|\d\d)")
"""Models able to load tools found by a search: since GPT-5.4."""
_CHAT_PATH = "/chat/completions"
_RESPONSES_PATH = "/responses"


def openai_chat(  # noqa: PLR0913  each is an option with a default
    name: str,
    *,
    client: AsyncOpenAI | None = None,
    base_url: str | None = None,
    key: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    stop: Sequence[str] | None = None,
    effort: str | None = None,
    parallel: bool | None = None,
    server_tools: ServerTools = (),
    cache_key: str | None = None,
    output: OutputWay = "tool",
    options: Options = NO_OPTIONS,
    stream: bool = True,
    retries: int = 2,
) -> ProviderModel:
    """Return an OpenAI model, or one on a server with a compatible Chat Completions API.

    Args:
        name: The model name.
        client: An asynchronous SDK client, with its own key, retries and timeouts. You close it. By
            default, the model has its own client.
        base_url: The server's address. It usually ends with ``/v1``.
        key: The API key. By default, the SDK reads it from the environment. With a base_url, no key
            from the environment is sent.
        max_tokens: Maximum tokens in a reply, if the request sets none. Default: the provider's.
        temperature: How much replies to the same request differ.
        stop: Stop sequences for a reply.
        effort: How much a model reasons, such as ``"low"`` or ``"high"``.
        parallel: Whether a reply may have several calls.
        server_tools: Tools run by the provider, as it documents them.
        cache_key: Requests with the same key and prefix share the provider's prompt cache.
        output: How the model gives a typed answer. With ``"native"``, the API enforces its schema
            where it can; otherwise, and after an invalid answer, the model calls a tool.
        options: Additional request body fields. They override the others, and objects are merged.
        stream: Whether to stream replies.
        retries: How often the SDK repeats a failed request, if the model has its own client.
    """
    sdk = _load_sdk(retries)
    settings = given(
        temperature=temperature,
        stop=None if stop is None else list(stop),
        reasoning_effort=effort,
        prompt_cache_key=cache_key,
        stream_options={"include_usage": True} if stream else None,
    )
    histories = Histories(chat.start_history, chat.finish_history)
    write = base_body(chat, histories, chat.API, server_tools)

    def body(request: Request) -> Body:
        base = write(request)
        if "tools" in base:
            base |= given(parallel_tool_calls=parallel)
        limits = given(max_completion_tokens=request.max_tokens or max_tokens)
        return merge({**base, **limits, **settings, "model": name}, options)

    return ProviderModel(
        SdkClient(
            name=name,
            api=chat,
            errors=sdk.errors,
            clients=clients_of(sdk.connect, client, base_url, key),
            body=body,
            ask=choose_way(chat.API, output),
            start_stream=partial(sdk.start_stream, _CHAT_PATH),
            send=partial(_send, _CHAT_PATH),
            to_dict=_unchanged,
            is_last=_is_last_chunk,
        ),
        stream=stream,
    )


def openai_responses(  # noqa: PLR0913  each is an option with a default
    name: str,
    *,
    client: AsyncOpenAI | None = None,
    base_url: str | None = None,
    key: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    effort: str | None = None,
    parallel: bool | None = None,
    server_tools: ServerTools = (),
    search: ToolSearch | None = None,
    cache_key: str | None = None,
    store: bool = False,
    output: OutputWay = "tool",
    options: Options = NO_OPTIONS,
    stream: bool = True,
    retries: int = 2,
) -> ProviderModel:
    """Return an OpenAI model, or one on a server with a compatible Responses API.

    Requests ask for encrypted reasoning, to send it back in later requests.

    Args:
        name: The model name.
        client: An asynchronous SDK client, with its own key, retries and timeouts. You close it. By
            default, the model has its own client.
        base_url: The server's address. It usually ends with ``/v1``.
        key: The API key. By default, the SDK reads it from the environment. With a base_url, no key
            from the environment is sent.
        max_tokens: Maximum tokens in a reply, if the request sets none. Default: the provider's.
        temperature: How much replies to the same request differ.
        effort: How much a model reasons, such as ``"low"`` or ``"high"``.
        parallel: Whether a reply may have several calls.
        server_tools: Tools run by the provider, as it documents them.
        search: How deferred tools get to the model. With ``"native"``, the API loads what your
            search found. With ``"hosted"``, the provider searches: it gets all deferred tools in
            each request, including those your policy denies to this user. With ``"plain"``, found
            tools are sent like all others. Default: ``"native"`` for the provider's models
            supporting it, otherwise ``"plain"``.
        cache_key: Requests with the same key and prefix share the provider's prompt cache.
        store: Whether the provider stores the responses.
        output: How the model gives a typed answer. With ``"native"``, the API enforces its schema
            where it can; otherwise, and after an invalid answer, the model calls a tool.
        options: Additional request body fields. They override the others, and objects are merged.
        stream: Whether to stream replies.
        retries: How often the SDK repeats a failed request, if the model has its own client.
    """
    sdk = _load_sdk(retries)
    settings = given(
        temperature=temperature,
        reasoning=None if effort is None else {"effort": effort},
        prompt_cache_key=cache_key,
        store=store,
        include=["reasoning.encrypted_content"],
    )
    way = search or ("native" if base_url is None and _SEARCHES.match(name) else "plain")
    histories = Histories(responses.start_history, responses.finish_history)
    write = base_body(responses, histories, responses.API, server_tools, search=way)

    def body(request: Request) -> Body:
        base = write(request)
        if "tools" in base:
            base |= given(parallel_tool_calls=parallel)
        limits = given(max_output_tokens=request.max_tokens or max_tokens)
        return merge({**base, **limits, **settings, "model": name}, options)

    return ProviderModel(
        SdkClient(
            name=name,
            api=responses,
            errors=sdk.errors,
            clients=clients_of(sdk.connect, client, base_url, key),
            body=body,
            ask=choose_way(responses.API, output),
            start_stream=partial(sdk.start_stream, _RESPONSES_PATH),
            send=partial(_send, _RESPONSES_PATH),
            to_dict=_unchanged,
            is_last=_is_last_response_event(name),
        ),
        stream=stream,
    )


class _Sdk(NamedTuple):
    """The SDK parts both APIs use."""

    connect: Callable[[str | None, str | None], AsyncOpenAI]
    start_stream: Callable[[str, AsyncOpenAI, Body], Any]
    errors: Errors


def _load_sdk(retries: int) -> _Sdk:
    try:
        import openai as sdk
    except ImportError:
        raise missing_sdk(_API) from None

    def connect(base_url: str | None, key: str | None) -> AsyncOpenAI:
        http = sdk.DefaultAsyncHttpxClient(event_hooks=bounded_answers())
        if base_url is None:
            return sdk.AsyncOpenAI(api_key=key, http_client=http, max_retries=retries)
        omit = sdk.Omit()
        headers = without_headers("OPENAI_CUSTOM_HEADERS", key, omit)
        headers |= dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), omit)
        return sdk.AsyncOpenAI(
            base_url=base_url,
            api_key=key,
            default_headers=headers,
            http_client=http,
            max_retries=retries,
        )

    def start_stream(path: str, client: AsyncOpenAI, body: Body) -> Any:
        streamed = {**body, "stream": True}
        stream_cls = sdk.AsyncStream[object]
        return client.post(path, cast_to=object, body=streamed, stream=True, stream_cls=stream_cls)

    errors = Errors(_API, (sdk.APIConnectionError,), (sdk.OpenAIError,))
    return _Sdk(connect, start_stream, errors)


def _send(path: str, client: AsyncOpenAI, body: Body) -> Any:
    return client.post(path, cast_to=object, body=body)


def _unchanged(event: Event) -> Event:
    """Return an event. The SDK parses the JSON, and handrail the rest."""
    return event


def _is_last_chunk(chunk: Event) -> bool:
    return any(choice.get("finish_reason") for choice in chunk.get("choices") or ())


def _is_last_response_event(name: str) -> Callable[[Event], bool]:
    def is_last(event: Event) -> bool:
        """Whether an event is the last. Raises ModelError for a failed response."""
        kind, response = event.get("type"), event.get("response") or event
        if kind == "error" or response.get("status") == "failed":
            problem = response.get("error") or event
            code, message = str(problem.get("code") or ""), str(problem.get("message") or "")
            codes = (code,) if code else ()
            raise provider_error(name, Reported(codes=codes, message=message))
        return kind in ("response.completed", "response.incomplete")

    return is_last
