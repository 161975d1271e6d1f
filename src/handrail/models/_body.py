"""Request bodies: the history and the tools, settings, and the user's options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import is_
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

from handrail import Exposure, Spec, Toolset
from handrail.messages import Message, Request, RequiredTool, find_loaded_tools
from handrail.models._sdk_client import Body, ProviderModule
from handrail.models._tool_choice import encode_tool_choice
from handrail.providers import ToolSearch

Options: TypeAlias = Mapping[str, Any]
"""Additional request body fields, as the provider documents them."""
ServerTools: TypeAlias = Sequence[Mapping[str, Any]]
"""Tools run by the provider, as it documents them."""

Tools: TypeAlias = Toolset | Sequence[Spec]
WriteBody: TypeAlias = Callable[[Request], Body]

NO_OPTIONS: Options = MappingProxyType({})


Start: TypeAlias = Callable[[Iterable[Spec]], Any]
"""Begins to encode a history, for a request's tools. Returns a writer."""
Finish: TypeAlias = Callable[[Any, str], Body]
"""Returns a request's fields with all messages of a writer, and the system prompt."""

MAX_CONVERSATIONS = 8
"""Conversations whose encoded messages a model keeps: of an agent and its sub-agents."""


class _Conversation(NamedTuple):
    messages: tuple[Message, ...]
    tools: Sequence[Spec]
    writer: Any

    def is_before(self, messages: Sequence[Message], tools: Sequence[Spec]) -> bool:
        """Return whether a history begins with the messages of this one, for the same tools."""
        is_longer = len(self.messages) <= len(messages)
        return is_longer and self.tools is tools and all(map(is_, self.messages, messages))


class Histories:
    """The latest histories that were encoded for an API."""

    def __init__(self, start: Start, finish: Finish) -> None:
        self._start = start
        self._finish = finish
        self._lock = Lock()
        self._latest: list[_Conversation] = []

    def encode(self, messages: Sequence[Message], system: str, tools: Sequence[Spec]) -> Body:
        """Return what ``encode_messages`` does. Converts only messages since the last request."""
        with self._lock:
            found = next((one for one in self._latest if one.is_before(messages, tools)), None)
            if found is None:
                found = _Conversation((), tools, self._start(tools))
            else:
                self._latest.remove(found)
            found.writer.add(messages[len(found.messages) :])
            known = found._replace(messages=tuple(messages))
            self._latest = [known, *self._latest][:MAX_CONVERSATIONS]
            return self._finish(found.writer, system)


class EncodedTools(NamedTuple):
    """A request's tools. Only the second part grows during a conversation."""

    fixed: list[Body]
    found: list[Body]
    specs: list[Spec]
    """Everything a history can refer to, so without deferred tools not found yet."""


def once_per_toolset(encode: Callable[..., list[Body]]) -> Callable[[Request], EncodedTools]:
    """Return a function converting tools only if they changed. Most requests have the same."""
    last: tuple[Tools, tuple[str, ...], EncodedTools] | None = None

    def encode_changed(request: Request) -> EncodedTools:
        nonlocal last
        tools, loaded = callable_tools(request), find_loaded_tools(request.messages)
        known = last
        if known is None or known[0] is not tools or known[1] != loaded:
            fixed = encode(tools)
            found = encode(tools, loaded=loaded)[len(fixed) :] if loaded else []
            specs = _without_unfound(tools, {*loaded})
            known = last = (tools, loaded, EncodedTools(fixed, found, specs))
        return known[2]

    return encode_changed


def _without_unfound(tools: Tools, loaded: set[str]) -> list[Spec]:
    """Return the specs without unfound deferred ones, but at least one of these."""
    specs = tools.specs if isinstance(tools, Toolset) else tools
    deferred = [spec for spec in specs if spec.exposure is Exposure.DEFERRED]
    found = [spec for spec in deferred if spec.name in loaded]
    others = [spec for spec in specs if spec.exposure is not Exposure.DEFERRED]
    return [*others, *(found or deferred[:1])]


def callable_tools(request: Request) -> Tools:
    """Return a request's tools. A tool the model must call now is not deferred."""
    if isinstance(request.tool_choice, RequiredTool):
        member = request.tools.find(request.tool_choice.name)
        if member is not None and member.spec.exposure is Exposure.DEFERRED:
            direct = replace(member.spec, exposure=Exposure.DIRECT)
            return [direct if spec is member.spec else spec for spec in request.tools.specs]
    return request.tools


def base_body(
    api: ProviderModule,
    histories: Histories,
    name: str,
    server_tools: ServerTools,
    *,
    search: ToolSearch | None = None,
) -> WriteBody:
    """Return a function writing the fields common to most bodies: the history and the tools.

    Some APIs have several ways to give a model deferred tools.
    """
    encode_tools = once_per_toolset(partial(api.encode_tools, **given(search=search)))

    def write(request: Request) -> Body:
        ours = encode_tools(request)
        specs = () if search in (None, "plain") else ours.specs
        history = histories.encode(request.messages, request.system, specs)
        tools = [*ours.fixed, *map(dict, server_tools), *ours.found]
        if not tools:
            return history
        is_search = search == "native" and is_finder(request)
        choice = encode_tool_choice(name, request.tool_choice, is_search=is_search)
        return {**history, "tools": tools, **choice}

    return write


def is_finder(request: Request) -> bool:
    """Whether the model must call the finder."""
    choice = request.tool_choice
    member = request.tools.find(choice.name) if isinstance(choice, RequiredTool) else None
    return member is not None and member.spec.exposure is Exposure.SEARCH


def given(**settings: object) -> Body:
    """Return the settings other than None."""
    return {name: value for name, value in settings.items() if value is not None}


def merge(body: Body, options: Options) -> Body:
    """Return a body with options. An object is merged into the body's."""
    merged = {**body, **options}
    for name, value in options.items():
        old = body.get(name)
        if isinstance(old, dict) and isinstance(value, Mapping):
            merged[name] = {**cast("Body", old), **cast("Options", value)}
    return merged
