"""Anthropic Messages: convert tools, messages, responses and streams."""

from __future__ import annotations

import math
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any

from handrail import File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import Message, Opaque, Prompt, Reasoning, Reply, StreamItem
from handrail.providers._formats.assemble import stream_items
from handrail.providers._formats.history import (
    IMAGE_TYPES,
    PDF_TYPES,
    BodyPart,
    HistoryWriter,
    Losses,
    PlacedMessage,
    base64,
    call_name,
    is_viewable,
    kind_of,
    media_type_of,
    parts_with_fields,
    text_of,
)
from handrail.providers._formats.ids import MAX_ID_CHARS, fit_id
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    object_at,
    sendable,
    text_at,
)
from handrail.providers._offer import Finds, ToolSearch, make_offer
from handrail.providers._schema.compile import Fitted
from handrail.providers._schema.dialects import ANTHROPIC
from handrail.providers._schema.limits import Load
from handrail.providers._streams.anthropic import API, REDACTED, Stream, decode
from handrail.providers._tools import (
    CompiledTool,
    StrictBudget,
    ToolFormat,
    UnsupportedTool,
    base_fields,
    compile_tool,
    deferral_losses,
    sure_examples,
)

__all__ = [
    "Stream",
    "compile",
    "decode",
    "decode_stream",
    "encode_messages",
    "encode_result",
    "encode_tools",
    "losses",
]

_HOSTED = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
_EMPTY = {"type": "text", "text": "[This message is empty.]"}
"""Block replacing an empty or whitespace-only prompt, which the API rejects."""
_THOUGHTS = frozenset(("thinking", "redacted_thinking"))


def _write_tool(spec: Spec, fitted: Fitted) -> CompiledTool:
    losses = list(fitted.losses)
    definition = {**base_fields(spec), "input_schema": fitted.schema}
    if fitted.strict:
        definition["strict"] = True
    if examples := sure_examples(spec, fitted, losses):
        definition["input_examples"] = examples
    return CompiledTool(definition, (*losses, *deferral_losses(spec)))


_TOOLS = ToolFormat(
    ANTHROPIC,
    _write_tool,
    StrictBudget(
        requested=Load(tools=20, optional=24, unions=16, size=math.inf),
        # all strict tools become one grammar, and its limit is not documented
        # below what it documents: it rejected some sets within that: decision 026
        automatic=Load(tools=8, optional=12, unions=8, size=8_000),
    ),
)


def compile(tool: Tool[..., Any] | Spec) -> CompiledTool | UnsupportedTool:  # noqa: A001  what it does
    """Convert a tool to this API's format, or return why it cannot be sent."""
    return compile_tool(tool, _TOOLS)


def encode_tools(
    tools: Toolset | Iterable[Spec], *, loaded: Iterable[str] = (), search: ToolSearch = "native"
) -> list[BodyPart]:
    """Return a request's ``tools``: direct tools by name, then found ones.

    Tools the API does not support are skipped.

    Args:
        tools: The tools. Deferred ones are sent only if they are loaded, or if nothing finds them.
        loaded: The names ``find_loaded_tools`` returns for the messages.
        search: How deferred tools get to the model. With ``"native"``, the API loads what your
            search found. With ``"hosted"``, the provider searches: it gets all deferred tools,
            including those your policy denies to this user. With ``"plain"``, found tools are sent
            like all others, for models and servers without other support. With ``"native"``, pass
            the tools to ``encode_messages`` too.
    """
    offer = make_offer(tools, _TOOLS, search)
    direct, finder, found = offer.encode(sorted(offer.deferred) if search == "hosted" else loaded)
    if search == "plain":
        return [*direct, *finder, *found]
    # not by default: the provider gets tools denied to this user: decision 056
    searches = [_HOSTED] if search == "hosted" and found else finder
    return [*direct, *searches, *({**one, "defer_loading": True} for one in found)]


def encode_messages(
    messages: Sequence[Message], *, system: str = "", tools: Toolset | Iterable[Spec] = ()
) -> BodyPart:
    """Return a request's ``messages``, ``system`` if given, and ``container`` if one is used.

    A container is where the provider runs code. Its id is in the latest reply with one. Pass the
    tools if some are deferred: a result then refers to the tools it found.
    """
    return finish_history(start_history(tools).add(messages), system)


def start_history(tools: Toolset | Iterable[Spec] = ()) -> HistoryWriter:
    """Return a writer for a history that grows."""
    finds, lost = Finds(make_offer(tools, _TOOLS)), Losses(API)

    def write(turn: PlacedMessage) -> list[BodyPart]:
        message, role = turn.message, "user"
        if isinstance(message, Prompt):
            content = _prompt(message, lost)
        elif isinstance(message, Reply):
            role, (content, fields) = "assistant", _write_reply(message, turn, lost)
            writer.fields |= fields
        else:
            content = [
                _references(id_, result, found.all, lost)
                if (found := finds.take(result)).new
                else _result(id_, result, lost)
                for _, id_, result in turn.pair_results(message)
            ]
        return [{"role": role, "content": content}] if content else []

    writer = HistoryWriter(lost, write)
    return writer


def finish_history(writer: HistoryWriter, system: str) -> BodyPart:
    """Return the fields of a request with all messages so far."""
    messages = [*writer.written]
    if not messages and writer.has_prompt:  # without a message, a request is rejected
        messages = [{"role": "user", "content": [_EMPTY]}]
    body = {"messages": messages, **writer.fields}
    return {"system": sendable(system), **body} if system else body


def encode_result(result: Result) -> BodyPart:
    """Convert one result to a ``tool_result`` block for a ``user`` message's content."""
    return _result(fit_id(result.call_id, 0, MAX_ID_CHARS), result, Losses(API))


def losses(messages: Sequence[Message], *, tools: Toolset | Iterable[Spec] = ()) -> tuple[str, ...]:
    """Return a message for everything this API cannot represent in a history."""
    return tuple(start_history(tools).add(messages).lost.notes)


def decode_stream(
    events: AsyncIterable[Data], *, names: Names = NO_NAMES
) -> AsyncIterator[StreamItem]:
    """Convert an event stream: text as it arrives, each complete call, then the reply."""
    return stream_items(Stream(names=names), events)


def _prompt(prompt: Prompt, lost: Losses) -> list[BodyPart]:
    is_blank = any(isinstance(part, Text) and part.text for part in prompt.parts)
    content = _blocks(prompt.parts, lost)
    return content or ([_EMPTY] if is_blank else [])


def _write_reply(
    reply: Reply, turn: PlacedMessage, lost: Losses
) -> tuple[list[BodyPart], BodyPart]:
    """Return a reply's blocks, and the request fields to continue it."""
    content: list[BodyPart] = []
    container: BodyPart = {}
    for part, fields in parts_with_fields(reply, lost):
        match part:
            case None:
                container = _container(lost.fields(fields, ("container",)))
            case Text():
                content += [{**block, **fields} for block in _blocks((part,), lost)]
            case Image():
                content.append({"type": "text", "text": lost.placeholder(part)})
            case Reasoning():
                content += _write_thought(part, lost)
            case Opaque():
                content += _write_opaque(lost.data(part), lost)
            case _:
                use = {"type": "tool_use", "id": turn.ids[part.id], "name": call_name(part)}
                content.append({**use, "input": lost.args(part), **fields})
    while content and content[-1]["type"] in _THOUGHTS:
        content.pop()
        lost.add("incomplete reasoning is omitted")
    return content, container


def _container(fields: BodyPart) -> BodyPart:
    container = text_at(object_at(fields, "container"), "id")
    return {"container": container} if container else {}


def _write_opaque(block: BodyPart, lost: Losses) -> list[BodyPart]:
    if isinstance(block.get("input"), str):
        lost.add(f"the part {kind_of(block)!r} is incomplete and omitted")
        return []
    return [block] if block else []


def _write_thought(thought: Reasoning, lost: Losses) -> list[BodyPart]:
    if lost.is_foreign(thought):
        return []
    if not thought.signature:
        lost.add("incomplete reasoning is omitted")
        return []
    if thought.signature.startswith(REDACTED):
        return [{"type": "redacted_thinking", "data": thought.signature.removeprefix(REDACTED)}]
    text = lost.text(thought.text)
    return [{"type": "thinking", "thinking": text, "signature": thought.signature}]


def _result(call_id: str, result: Result, lost: Losses) -> BodyPart:
    text_only = not result.parts or all(isinstance(part, Text) for part in result.parts)
    block: BodyPart = {"type": "tool_result", "tool_use_id": call_id}
    block["content"] = lost.text(result.text) if text_only else _blocks(result.parts, lost)
    return {**block, "is_error": True} if result.failure else block


def _references(call_id: str, result: Result, found: list[BodyPart], lost: Losses) -> BodyPart:
    """Write a result with found tools. The API rejects other blocks next to the references.

    It accepts references to tools found before: a model reads what this search found. Text after
    the result would be a new user message, and end the model's reasoning.
    """
    lost.add_found(result)
    content = [{"type": "tool_reference", "tool_name": tool["name"]} for tool in found]
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def _blocks(parts: Iterable[Text | Image | File], lost: Losses) -> list[BodyPart]:
    return [block for part in parts for block in _block(part, lost)]


def _block(part: Text | Image | File, lost: Losses) -> list[BodyPart]:
    if isinstance(part, Text):
        if part.text and not part.text.strip():
            lost.add("text that is only whitespace is omitted")
        return [{"type": "text", "text": lost.text(part.text)}] if part.text.strip() else []
    source = {"type": "base64", "media_type": media_type_of(part), "data": base64(part)}
    if is_viewable(part, IMAGE_TYPES):
        if isinstance(part, File):
            lost.add(f"the name of the image {part.name!r} is omitted")
        return [{"type": "image", "source": source}]
    if isinstance(part, File):
        title = {"title": lost.text(part.name)}
        if is_viewable(part, PDF_TYPES):
            return [{"type": "document", "source": source, **title}]
        if (text := text_of(part)) is not None:
            source = {"type": "text", "media_type": "text/plain", "data": text}
            return [{"type": "document", "source": source, **title, "context": media_type_of(part)}]
    return [{"type": "text", "text": lost.placeholder(part)}]
