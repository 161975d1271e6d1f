"""How each API states that a model may not call tools, or must call one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from handrail.messages import RequiredTool, ToolChoice, api_name


def encode_tool_choice(api: str, choice: ToolChoice, *, is_search: bool = False) -> dict[str, Any]:
    """Return the request body fields for a choice. There are none for ``auto``."""
    if choice == "auto":
        return {}
    if is_search and api == "openai_responses":
        return {"tool_choice": "required"}  # the search has no name here
    return _ENCODERS[api](api_name(choice.name) if isinstance(choice, RequiredTool) else None)


def _anthropic(name: str | None) -> dict[str, Any]:
    return {"tool_choice": {"type": "none"} if name is None else {"type": "tool", "name": name}}


def _openai_chat(name: str | None) -> dict[str, Any]:
    if name is None:
        return {"tool_choice": "none"}
    return {"tool_choice": {"type": "function", "function": {"name": name}}}


def _openai_responses(name: str | None) -> dict[str, Any]:
    return {"tool_choice": "none" if name is None else {"type": "function", "name": name}}


def _gemini(name: str | None) -> dict[str, Any]:
    config = {"mode": "NONE"} if name is None else {"mode": "ANY", "allowedFunctionNames": [name]}
    return {"toolConfig": {"functionCallingConfig": config}}


_ENCODERS: Mapping[str, Callable[[str | None], dict[str, Any]]] = MappingProxyType(
    {
        "anthropic": _anthropic,
        "openai_chat": _openai_chat,
        "openai_responses": _openai_responses,
        "gemini": _gemini,
    }
)
