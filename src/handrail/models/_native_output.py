"""Ask for a typed answer as the API does: by its schema, in place of an answer tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from handrail import Call, Text
from handrail.messages import Prompt, Reply, Request, TruncatedCall, api_name

Body: TypeAlias = dict[str, Any]
OutputWay: TypeAlias = Literal["native", "tool"]
"""How a model gives a typed answer: as JSON by the request's schema, or by calling a tool."""

_ABOUT_TOOLS = ("tools", "tool_choice", "parallel_tool_calls", "toolConfig")


def choose_way(api: str, output: OutputWay) -> Callable[[Body, Request], Body] | None:
    """Return a function asking for a typed answer in place of the tool. Raises ValueError."""
    if output not in ("native", "tool"):
        raise ValueError(f"output={output!r}: must be 'native' or 'tool'.")
    return partial(_ask_for_answer, api) if output == "native" else None


def _ask_for_answer(api: str, body: Body, request: Request) -> Body:
    """Return a body with the answer's schema in place of its tool.

    The body is unchanged if the API cannot enforce the schema, and after a first attempt: then the
    model has to call the tool.
    """
    if not request.output or request.tool_choice != "auto" or _has_tried(request):
        return body
    declared = _declarations(body)
    found = [one for one in declared if _inner(one)["name"] == api_name(request.output)]
    if not found or not _is_enforced(api, _inner(found[0])):
        return body
    others = [one for one in declared if one is not found[0]]
    tools = _without(body["tools"], found[0])
    has_calls = any(isinstance(one, Reply) and one.calls for one in request.messages)
    if (others and api == "gemini") or (has_calls and not tools):
        return body
    rest = {name: value for name, value in body.items() if tools or name not in _ABOUT_TOOLS}
    asked = {**rest, "tools": tools} if tools else rest
    return _FORMATS[api](asked, _inner(found[0])) or body


def read_answer(reply: Reply, request: Request) -> Reply:
    """Return a reply with its text answer as an answer tool call."""
    last = [at for at, part in enumerate(reply.parts) if isinstance(part, Text)][-1:]
    cut = any(isinstance(part, TruncatedCall) for part in reply.parts)
    if not last or cut or reply.calls or reply.stop != "end" or not _is_object(reply.text):
        return reply
    answer = Call(request.output, reply.text, request.output)
    parts = (*reply.parts[: last[0] + 1], answer, *reply.parts[last[0] + 1 :])
    return Reply(parts, "calls", reply.usage, reply.model, reply.stop_detail, seconds=reply.seconds)


def _has_tried(request: Request) -> bool:
    """Whether the model has given an answer since the last prompt."""
    prompts = [at for at, one in enumerate(request.messages) if isinstance(one, Prompt)]
    since = request.messages[(prompts or [0])[-1] :]
    calls = [call for one in since if isinstance(one, Reply) for call in one.calls]
    return any(call.name == request.output for call in calls)


def _declarations(body: Body) -> list[Body]:
    """Return a body's tools run by the program."""
    tools: list[Body] = body.get("tools", [])
    nested = [one for group in tools for one in group.get("functionDeclarations", ())]
    own = [one for one in tools if "name" in one or "function" in one]
    return [*own, *nested]


def _inner(declaration: Body) -> Body:
    inner: Body = declaration.get("function", declaration)
    return inner


def _is_enforced(api: str, declaration: Body) -> bool:
    """Whether the API can enforce the schema. Gemini has no flag for it."""
    return api == "gemini" or declaration.get("strict") is True


def _without(tools: list[Body], removed: Body) -> list[Body]:
    """Return tools without one. A cache mark moves to the last remaining one."""
    left: list[Body] = []
    for one in tools:
        if "functionDeclarations" in one:
            inside = [each for each in one["functionDeclarations"] if each is not removed]
            left += [{**one, "functionDeclarations": inside}] if inside else []
        elif one is not removed:
            left.append(one)
    if left and "cache_control" in removed:
        left[-1] = {**left[-1], "cache_control": removed["cache_control"]}
    return left


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _set(body: Body, field: str, fields: Body) -> Body:
    """Return a body with fields in one of its objects. The user's options stay."""
    old: Body = body.get(field) or {}
    return {} if fields.keys() & old.keys() else {**body, field: {**old, **fields}}


def _openai_chat(body: Body, tool: Body) -> Body:
    schema = {"name": tool["name"], "schema": tool["parameters"], "strict": True}
    return _set(body, "response_format", {"type": "json_schema", "json_schema": schema})


def _openai_responses(body: Body, tool: Body) -> Body:
    about = {"type": "json_schema", "name": tool["name"], "strict": True}
    return _set(body, "text", {"format": {**about, "schema": tool["parameters"]}})


def _anthropic(body: Body, tool: Body) -> Body:
    format_ = {"type": "json_schema", "schema": tool["input_schema"]}
    return _set(body, "output_config", {"format": format_})


def _gemini(body: Body, tool: Body) -> Body:
    schema = {"responseJsonSchema": tool["parametersJsonSchema"]}
    return _set(body, "generationConfig", {"responseMimeType": "application/json", **schema})


_FORMATS: Mapping[str, Callable[[Body, Body], Body]] = MappingProxyType(
    {
        "anthropic": _anthropic,
        "openai_chat": _openai_chat,
        "openai_responses": _openai_responses,
        "gemini": _gemini,
    }
)
