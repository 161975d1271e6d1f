"""The body of a request: the history and the tools, settings, and the user's options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from handrail import Toolset
from handrail.messages import Request
from handrail.models._sdk_client import Body, ProviderModule
from handrail.models._tool_choice import encode_tool_choice

Options: TypeAlias = Mapping[str, Any]
"""Additional fields of a request body, as the provider documents them."""
ServerTools: TypeAlias = Sequence[Mapping[str, Any]]
"""Tools that the provider runs, as it documents them."""

EncodeTools: TypeAlias = Callable[[Toolset], list[Body]]
WriteBody: TypeAlias = Callable[[Request], Body]

NO_OPTIONS: Options = MappingProxyType({})


def once_per_toolset(encode: EncodeTools) -> EncodeTools:
    """Return a function that converts tools only if they changed. Most requests have the same."""
    last: tuple[Toolset, list[Body]] | None = None

    def encode_changed(tools: Toolset) -> list[Body]:
        nonlocal last
        found = last
        if found is None or found[0] is not tools:
            found = last = (tools, encode(tools))
        return found[1]

    return encode_changed


def base_body(api: ProviderModule, name: str, server_tools: ServerTools) -> WriteBody:
    """Return a function that writes the fields that most bodies have: the history and the tools."""
    encode_tools = once_per_toolset(api.encode_tools)

    def write(request: Request) -> Body:
        history = api.encode_messages(request.messages, system=request.system)
        tools = [*encode_tools(request.tools), *map(dict, server_tools)]
        if not tools:
            return history
        return {**history, "tools": tools, **encode_tool_choice(name, request.tool_choice)}

    return write


def given(**settings: object) -> Body:
    """Return the settings that are not None."""
    return {name: value for name, value in settings.items() if value is not None}


def merge(body: Body, options: Options) -> Body:
    """Return a body with options. An object is merged into the one that the body has."""
    merged = {**body, **options}
    for name, value in options.items():
        old = body.get(name)
        if isinstance(old, dict) and isinstance(value, Mapping):
            merged[name] = {**cast("Body", old), **cast("Options", value)}
    return merged
