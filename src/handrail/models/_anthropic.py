"""Anthropic Messages through the official SDK. Only this module imports it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from handrail.messages import Request, RequiredTool
from handrail.models._body import (
    NO_OPTIONS,
    Histories,
    Options,
    ServerTools,
    base_body,
    given,
    merge,
)
from handrail.models._failures import Errors, missing_sdk
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
from handrail.providers import anthropic as api

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


_Block: TypeAlias = Mapping[str, Any]
_MARK = {"cache_control": {"type": "ephemeral"}}
_MAX_MARKS = 4
"""The API rejects requests with more."""
_UNMARKABLE = frozenset(("thinking", "redacted_thinking"))


def mark_prefixes(body: Body, options: Options) -> Body:
    """Return a body with at most four marks: tools, system, and the last two requests' ends.

    A caller's own marks, in tools or in options replacing body fields, come first.
    """
    marked = dict(body)
    if "tools" in body:
        marked["tools"] = _mark_tools(body["tools"])
    sent = {**marked, **options}
    left = _MAX_MARKS - sum(_count_marks(sent.get(field, ())) for field in ("tools", "system"))
    if "system" in body and "system" not in options and left > 0:
        marked["system"] = [{"type": "text", "text": body["system"], **_MARK}]
        left -= 1
    messages = list(body["messages"])
    for at in _ends(messages)[: max(left, 0)]:
        messages[at] = {**messages[at], "content": _mark_last(messages[at]["content"])}
    return {**marked, "messages": messages}


def _count_marks(blocks: Sequence[_Block] | str) -> int:
    return 0 if isinstance(blocks, str) else sum("cache_control" in block for block in blocks)


def _mark_tools(tools: Sequence[_Block]) -> list[_Block]:
    """Mark the last tool in the prefix. A caller's own mark is enough."""
    if any("cache_control" in tool for tool in tools):
        return list(tools)
    places = [at for at, tool in enumerate(tools) if not tool.get("defer_loading")]
    return _mark(tools, places)


def _mark_last(content: Sequence[_Block]) -> list[_Block]:
    places = [at for at, block in enumerate(content) if block.get("type") not in _UNMARKABLE]
    return _mark(content, places)


def _mark(blocks: Sequence[_Block], places: Sequence[int]) -> list[_Block]:
    """Mark the last position, if any."""
    return [{**block, **_MARK} if at in places[-1:] else block for at, block in enumerate(blocks)]


def _ends(messages: Sequence[_Block]) -> list[int]:
    """Return the positions of the last message and of the previous request's last one."""
    places = [at for at, message in enumerate(messages) if message["role"] == "user"]
    last = len(messages) - 1
    replies = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    earlier = [at for at in places if replies and at < replies[-1]]
    return [*([last] if last >= 0 else []), *earlier[-1:]]


_API = "anthropic"
_PATH = "/v1/messages"
_OTHER_MAX_TOKENS = 4_096
"""For servers with other models, which refuse more than fits into their context."""
_MAX_TOKENS = (
    (re.compile(r"claude-(?:3-(?:opus|sonnet|haiku)|2|instant)"), 4_096),
    (re.compile(r"claude-3[-.]5"), 8_192),
    (re.compile("claude"), 32_000),
)
"""Default reply limit by model name. For old models, also the API maximum."""
_SEARCHES = re.compile(r"(?!claude-(?:[123]|instant))claude-")
"""Models able to load tools found by a search. All since Claude 4 are."""
_MAX_WHOLE_TOKENS = 21_333
"""A longer reply may take over ten minutes, and connections without data do not last as long."""


def anthropic(  # noqa: PLR0913  each is an option with a default
    name: str,
    *,
    client: AsyncAnthropic | None = None,
    base_url: str | None = None,
    key: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    stop: Sequence[str] | None = None,
    effort: str | None = None,
    parallel: bool | None = None,
    server_tools: ServerTools = (),
    search: ToolSearch | None = None,
    cache: bool = True,
    output: OutputWay = "tool",
    options: Options = NO_OPTIONS,
    stream: bool = True,
    retries: int = 2,
) -> ProviderModel:
    """Return an Anthropic model, or one on a server with a compatible Messages API.

    Args:
        name: The model name.
        client: An asynchronous SDK client, with its own key, retries and timeouts. You close it. By
            default, the model has its own client.
        base_url: The server's address, without ``/v1``.
        key: The API key. By default, the SDK reads it from the environment. With a base_url, no key
            from the environment is sent.
        max_tokens: Maximum tokens in a reply, if the request sets none. Default: 32,000 for current
            Claude models, and less for models accepting less.
        temperature: How much replies to the same request differ.
        stop: Stop sequences for a reply.
        effort: How much a model reasons, such as ``"low"`` or ``"high"``.
        parallel: Whether a reply may have several calls.
        server_tools: Tools run by the provider, as it documents them.
        search: How deferred tools get to the model. With ``"native"``, the API loads what your
            search found. With ``"hosted"``, the provider searches: it gets all deferred tools in
            each request, including those your policy denies to this user. With ``"plain"``, found
            tools are sent like all others. Default: ``"native"`` for the provider's models
            supporting it, otherwise ``"plain"``.
        cache: Whether to mark request prefixes for the provider's cache.
        output: How the model gives a typed answer. With ``"native"``, the API enforces its schema
            where it can; otherwise, and after an invalid answer, the model calls a tool.
        options: Additional request body fields. They override the others, and objects are merged.
        stream: Whether to stream replies.
        retries: How often the SDK repeats a failed request, if the model has its own client.
    """
    try:
        import anthropic as sdk
    except ImportError:
        raise missing_sdk(_API) from None
    settings = given(
        temperature=temperature,
        stop_sequences=None if stop is None else list(stop),
        output_config=None if effort is None else {"effort": effort},
    )
    limit = max_tokens or _max_tokens(name)
    histories = Histories(api.start_history, api.finish_history)
    write = base_body(api, histories, _API, server_tools, search=search or _search(name, base_url))

    def body(request: Request) -> Body:
        base = write(_allow_thinking(request, options))
        if parallel is not None and "tools" in base:
            base["tool_choice"] = _limit_calls(base.get("tool_choice"), parallel=parallel)
        if cache and "cache_control" not in options:
            base = mark_prefixes(base, options)
        whole = {**base, **settings, "model": name, "max_tokens": request.max_tokens or limit}
        return merge(whole, options)

    return ProviderModel(
        SdkClient(
            name=name,
            api=api,
            errors=Errors(_API, (sdk.APIConnectionError,), (sdk.AnthropicError,)),
            clients=clients_of(partial(_connect, sdk, retries), client, base_url, key),
            body=body,
            ask=choose_way(_API, output),
            start_stream=partial(_start_stream, sdk.AsyncStream[object]),
            send=_send,
            to_dict=_unchanged,
            is_last=_is_last,
            must_stream=_must_stream,
        ),
        stream=stream,
    )


def _connect(sdk: Any, retries: int, base_url: str | None, key: str | None) -> AsyncAnthropic:
    variable = "ANTHROPIC_CUSTOM_HEADERS"
    headers = without_headers(variable, key, sdk.Omit()) if base_url else None
    http = sdk.DefaultAsyncHttpxClient(event_hooks=bounded_answers())
    client: AsyncAnthropic = sdk.AsyncAnthropic(
        base_url=base_url,
        api_key=key,
        default_headers=headers,
        http_client=http,
        max_retries=retries,
    )
    return client


def _max_tokens(name: str) -> int:
    limits = (limit for named, limit in _MAX_TOKENS if named.search(name))
    return next(limits, _OTHER_MAX_TOKENS)


def _search(name: str, base_url: str | None) -> ToolSearch:
    return "native" if base_url is None and _SEARCHES.match(name) else "plain"


def _limit_calls(choice: Body | None, *, parallel: bool) -> Body:
    """Add whether a reply may have several calls to the tool choice."""
    choice = choice or {"type": "auto"}
    if choice["type"] == "none":
        return choice
    return {**choice, "disable_parallel_tool_use": not parallel}


def _allow_thinking(request: Request, options: Options) -> Request:
    """Return a request requiring no tool if the model thinks: the API rejects both together."""
    if isinstance(request.tool_choice, RequiredTool) and "thinking" in options:
        return request._replace(tool_choice="auto")
    return request


def _start_stream(stream_cls: Any, client: AsyncAnthropic, body: Body) -> Any:
    streamed = {**body, "stream": True}
    return client.post(_PATH, cast_to=object, body=streamed, stream=True, stream_cls=stream_cls)


def _send(client: AsyncAnthropic, body: Body) -> Any:
    return client.post(_PATH, cast_to=object, body=body)


def _unchanged(event: Event) -> Event:
    """Return an event. The SDK parses the JSON, and handrail the rest."""
    return event


def _is_last(event: Event) -> bool:
    return event.get("type") == "message_stop"


def _must_stream(body: Body) -> bool:
    limit: int = body["max_tokens"]
    return limit > _MAX_WHOLE_TOKENS
