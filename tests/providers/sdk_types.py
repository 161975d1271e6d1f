"""Check requests against the types of the official SDKs. Unknown keys are rejected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, get_args, get_type_hints

import anthropic.types
import openai.types.chat
import openai.types.responses
from google.genai import types as google
from pydantic import TypeAdapter, ValidationError
from typing_extensions import is_typeddict


def closed(kind: Any, seen: set[Any]) -> None:
    """Make every TypedDict in a type reject unknown keys."""
    if is_typeddict(kind) and kind not in seen:
        seen.add(kind)
        kind.__pydantic_config__ = {**getattr(kind, "__pydantic_config__", {}), "extra": "forbid"}
        for hint in get_type_hints(kind, include_extras=True).values():
            closed(hint, seen)
    for inner in get_args(kind):
        closed(inner, seen)


def adapter(kind: Any) -> TypeAdapter[Any]:
    closed(kind, set())
    return TypeAdapter(list[kind])


ADAPTERS = {
    "anthropic": adapter(anthropic.types.MessageParam),
    "openai_chat": adapter(openai.types.chat.ChatCompletionMessageParam),
    "openai_responses": adapter(openai.types.responses.ResponseInputItemParam),
}


TOOL_ADAPTERS = {
    "anthropic": adapter(anthropic.types.ToolUnionParam),
    "openai_chat": adapter(openai.types.chat.ChatCompletionToolUnionParam),
    "openai_responses": adapter(openai.types.responses.ToolParam),
}


def consumed(value: Any) -> None:
    """Visit values that pydantic validates only on access."""
    if isinstance(value, dict):
        for one in value.values():
            consumed(one)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for one in value:
            consumed(one)


def check_anthropic(body: dict[str, Any]) -> None:
    assert set(body) <= {"messages", "system", "container"}
    consumed(ADAPTERS["anthropic"].validate_python(body["messages"]))


def check_openai_chat(body: dict[str, Any]) -> None:
    """All keys are OpenAI's, apart from those that other servers use."""
    [messages] = body.values()
    others = ("extra_content", "reasoning_content", "reasoning_details")
    plain = [{k: v for k, v in one.items() if k not in others} for one in messages]
    for one in plain:
        if "tool_calls" in one:
            one["tool_calls"] = [
                {k: v for k, v in call.items() if k not in others} for call in one["tool_calls"]
            ]
    consumed(ADAPTERS["openai_chat"].validate_python(plain))


def check_openai_responses(body: dict[str, Any]) -> None:
    """The types require ids of what the provider stored. Without the store there are none."""
    assert set(body) <= {"input", "instructions"}
    consumed(ADAPTERS["openai_responses"].validate_python([*map(as_stored, body["input"])]))


def as_stored(item: dict[str, Any]) -> dict[str, Any]:
    is_list = isinstance(item.get("content"), list)
    if item.get("role") == "assistant" and is_list:
        return {"id": "msg_1", "status": "completed", **item}
    return {"id": "rs_1", **item} if item["type"] == "reasoning" else item


def check_gemini(body: dict[str, Any]) -> None:
    assert set(body) <= {"contents", "systemInstruction"}
    for content in [*body["contents"], body.get("systemInstruction", {})]:
        google.Content.model_validate_json(json.dumps(content))


def check_tools(api: str, tools: list[dict[str, Any]]) -> None:
    if api == "gemini":
        for tool in tools:
            google.FunctionDeclaration.model_validate_json(json.dumps(tool))
    else:
        consumed(TOOL_ADAPTERS[api].validate_python(tools))


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "anthropic": check_anthropic,
    "gemini": check_gemini,
    "openai_chat": check_openai_chat,
    "openai_responses": check_openai_responses,
}


def accepts(api: str, body: dict[str, Any]) -> bool:
    try:
        CHECKS[api](body)
    except ValidationError:
        return False
    return True
