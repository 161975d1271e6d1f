"""Anthropic Messages: convert tools, messages, responses and streams."""

from __future__ import annotations

import math
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from handrail import Call, Exposure, File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import Delta, Message, Prompt, Reasoning, Reply, Stop, StreamItem, Usage
from handrail.providers._formats.assemble import Assembler, CallDraft, TextDraft, stream_items
from handrail.providers._formats.history import (
    IMAGE_TYPES,
    PDF_TYPES,
    BodyPart,
    Losses,
    PlacedMessage,
    base64,
    call_name,
    find_losses,
    is_viewable,
    media_type_of,
    place_messages,
    text_of,
)
from handrail.providers._formats.ids import MAX_ID_CHARS, fit_id
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    args_at,
    count_at,
    object_at,
    objects_at,
    sendable,
    text_at,
)
from handrail.providers._schema.compile import Fitted
from handrail.providers._schema.dialects import ANTHROPIC
from handrail.providers._schema.limits import Load
from handrail.providers._tools import (
    CompiledTool,
    StrictBudget,
    ToolFormat,
    UnsupportedTool,
    base_fields,
    compile_tool,
    encode_request,
    sure_examples,
)

__all__ = [
    "CompiledTool",
    "Stream",
    "UnsupportedTool",
    "compile",
    "decode",
    "decode_stream",
    "encode_messages",
    "encode_result",
    "encode_tools",
    "losses",
]

API: Final = "anthropic"

_STOPS: Mapping[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "overflow",
    "pause_turn": "paused",
    "refusal": "refused",
}
_REDACTED = "redacted:"
"""The prefix of a signature whose reasoning is encrypted."""


def _write_tool(spec: Spec, fitted: Fitted) -> CompiledTool:
    losses = list(fitted.losses)
    definition = {**base_fields(spec), "input_schema": fitted.schema}
    if fitted.strict:
        definition["strict"] = True
    if examples := sure_examples(spec, fitted, losses):
        definition["input_examples"] = examples
    if spec.exposure is Exposure.DEFERRED:
        definition["defer_loading"] = True
    return CompiledTool(definition, tuple(losses))


_TOOLS = ToolFormat(
    ANTHROPIC,
    _write_tool,
    StrictBudget(
        requested=Load(tools=20, optional=24, unions=16, size=math.inf),
        # all strict tools become one grammar, and its limit is not documented
        automatic=Load(tools=8, optional=12, unions=8, size=8_000),
    ),
)


def compile(tool: Tool[..., Any] | Spec) -> CompiledTool | UnsupportedTool:  # noqa: A001  what it does
    """Convert a tool to this API's format, or return why it cannot be sent."""
    return compile_tool(tool, _TOOLS)


def encode_tools(tools: Toolset | Iterable[Spec]) -> list[BodyPart]:
    """Return the ``tools`` of a request, sorted by name. Tools that cannot be sent are skipped."""
    return encode_request(tools, _TOOLS)


def encode_messages(messages: Sequence[Message], *, system: str = "") -> BodyPart:
    """Return the ``messages`` of a request, and ``system`` if given."""
    written = _write_messages(messages, Losses(API))
    return {"system": sendable(system), "messages": written} if system else {"messages": written}


def encode_result(result: Result) -> BodyPart:
    """Convert one result to a ``tool_result`` block for the content of a ``user`` message."""
    return _result(fit_id(result.call_id, 0, MAX_ID_CHARS), result, Losses(API))


def losses(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return a message for everything in a history that this API cannot represent."""
    return find_losses(_write_messages, messages, API)


def decode(response: Data, *, names: Names = NO_NAMES) -> Reply:
    """Convert a complete response.

    If the output limit was reached, the input of the last call may be incomplete. That call
    becomes a ``TruncatedCall``.
    """
    stream = Stream(names=names)
    stream.feed({"type": "message_start", "message": {**response, "stop_reason": None}})
    blocks = list(objects_at(response, "content"))
    stop = response.get("stop_reason")
    for at, block in enumerate(blocks):
        stream.feed({"type": "content_block_start", "index": at, "content_block": block})
        if at + 1 < len(blocks) or _stop(stop) in ("end", "calls"):
            stream.feed({"type": "content_block_stop", "index": at})
    details = response.get("stop_details")
    delta = {"stop_reason": stop, "stop_details": details}
    stream.feed({"type": "message_delta", "delta": delta})
    return stream.end()


def decode_stream(
    events: AsyncIterable[Data], *, names: Names = NO_NAMES
) -> AsyncIterator[StreamItem]:
    """Convert a stream of events: text as it arrives, each complete call, then the reply."""
    return stream_items(Stream(names=names), events)


class Stream:
    """Converts a stream one event at a time."""

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._draft = Assembler(API, names)
        self._blocks: dict[object, CallDraft | TextDraft | None] = {}
        self._streamed: set[CallDraft] = set()
        self._stop: Stop = "other"

    def feed(self, event: Data) -> Iterable[Delta | Call]:
        """Process one event. Return new text to show, and calls that are now complete."""
        match event.get("type"):
            case "message_start":
                message = object_at(event, "message")
                self._draft.note_response(message)
                self._draft.note_usage(_usage(message))
            case "content_block_start":
                return self._begin(event.get("index"), object_at(event, "content_block"))
            case "content_block_delta":
                return self._continue_block(event.get("index"), object_at(event, "delta"))
            case "content_block_stop":
                block = self._blocks.pop(event.get("index"), None)
                return self._draft.mark(block) if isinstance(block, CallDraft) else []
            case "message_delta":
                self._draft.note_usage(_usage(event))
                delta = object_at(event, "delta")
                if reason := delta.get("stop_reason"):
                    self._stop = _stop(reason)
                    self._draft.stop_detail = _refusal(object_at(delta, "stop_details"))
                    return self._draft.finish(self._stop)
            case _:
                pass
        return []

    def end(self) -> Reply:
        """Return the reply after the last event."""
        return self._draft.reply(self._stop)

    def _begin(self, index: object, block: Data) -> list[Delta | Call]:
        out = self._draft.settle_complete()
        match block.get("type"):
            case "text":
                part = self._blocks[index] = self._draft.begin_text(thought=False)
                return [*out, *self._draft.add_text(part, text_at(block, "text"))]
            case "thinking":
                signature = text_at(block, "signature")
                part = self._blocks[index] = self._draft.begin_text(
                    thought=True, signature=signature
                )
                return [*out, *self._draft.add_text(part, text_at(block, "thinking"))]
            case "redacted_thinking":
                self._draft.begin_text(thought=True, signature=_REDACTED + text_at(block, "data"))
                self._blocks[index] = None
            case "tool_use":
                args = "" if block.get("input") == {} else args_at(block, "input")
                self._blocks[index] = self._draft.begin(
                    text_at(block, "name"), text_at(block, "id"), args
                )
            case _:
                self._blocks[index] = None
        return out

    def _continue_block(self, index: object, delta: Data) -> list[Delta | Call]:
        block = self._blocks.get(index)
        if isinstance(block, TextDraft):
            piece = text_at(delta, "thinking" if block.thought else "text")
            block.signature += text_at(delta, "signature")
            return self._draft.add_text(block, piece)
        if isinstance(block, CallDraft):
            if block not in self._streamed:
                self._streamed.add(block)
                block.args = ""
            block.args += args_at(delta, "partial_json")
        return []


def _stop(reason: object) -> Stop:
    return _STOPS.get(reason, "other") if isinstance(reason, str) else "other"


def _refusal(details: Data) -> str:
    """Return why a model refused: a category, an explanation, or both."""
    return ": ".join(filter(None, (text_at(details, key) for key in ("category", "explanation"))))


def _usage(event: Data) -> Usage:
    counts = object_at(event, "usage")
    cached = count_at(counts, "cache_read_input_tokens")
    written = count_at(counts, "cache_creation_input_tokens")
    thought = object_at(counts, "output_tokens_details")
    return Usage(
        input_tokens=count_at(counts, "input_tokens") + written + cached,
        output_tokens=count_at(counts, "output_tokens"),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=count_at(thought, "thinking_tokens"),
    )


def _write_messages(messages: Sequence[Message], lost: Losses) -> list[BodyPart]:
    written: list[BodyPart] = []
    for turn in place_messages(messages):
        lost.at = turn.at
        message = turn.message
        if isinstance(message, Prompt):
            role, content = "user", _blocks(message.parts, lost)
        elif isinstance(message, Reply):
            role, content = "assistant", _write_reply(message, turn, lost)
        else:
            role = "user"
            content = [_result(id_, result, lost) for _, id_, result in turn.pair_results(message)]
        if content:
            written.append({"role": role, "content": content})
    return written


def _write_reply(reply: Reply, turn: PlacedMessage, lost: Losses) -> list[BodyPart]:
    content: list[BodyPart] = []
    other_parts = [at for at, part in enumerate(reply.parts) if not isinstance(part, Reasoning)]
    for at, part in enumerate(reply.parts):
        match part:
            case Text():
                content += _blocks((part,), lost)
            case Reasoning():
                content += _write_thought(part, lost, last=at > max(other_parts, default=-1))
            case _:
                use = {"type": "tool_use", "id": turn.ids[part.id], "name": call_name(part)}
                content.append({**use, "input": lost.args(part)})
    return content


def _write_thought(thought: Reasoning, lost: Losses, *, last: bool) -> list[BodyPart]:
    if lost.is_foreign(thought):
        return []
    if last or not thought.signature:
        lost.add("incomplete reasoning is omitted")
        return []
    if thought.signature.startswith(_REDACTED):
        return [{"type": "redacted_thinking", "data": thought.signature.removeprefix(_REDACTED)}]
    text = lost.text(thought.text)
    return [{"type": "thinking", "thinking": text, "signature": thought.signature}]


def _result(call_id: str, result: Result, lost: Losses) -> BodyPart:
    text_only = not result.parts or all(isinstance(part, Text) for part in result.parts)
    block: BodyPart = {"type": "tool_result", "tool_use_id": call_id}
    block["content"] = lost.text(result.text) if text_only else _blocks(result.parts, lost)
    return {**block, "is_error": True} if result.failure else block


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
