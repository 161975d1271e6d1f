"""The body of a request: the history and the tools, settings, and the user's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from handrail.messages import Request
from handrail.models._sdk_client import Body, ProviderModule
from handrail.providers._formats.tool_choice import encode_tool_choice

Options: TypeAlias = Mapping[str, Any]
"""Additional fields of a request body, as the provider documents them."""
ServerTools: TypeAlias = Sequence[Mapping[str, Any]]
"""Tools that the provider runs, as it documents them."""

NO_OPTIONS: Options = MappingProxyType({})


def base_body(
    api: ProviderModule, name: str, request: Request, server_tools: ServerTools = ()
) -> Body:
    """Return the fields that most bodies have: the history and, if there are any, the tools."""
    history = api.encode_messages(request.messages, system=request.system)
    tools = [*api.encode_tools(request.tools), *map(dict, server_tools)]
    if not tools:
        return history
    return {**history, "tools": tools, **encode_tool_choice(name, request.tool_choice)}


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
