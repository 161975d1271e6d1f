"""Anthropic Messages: tools, histories, replies and streams, as plain dicts."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from handrail import Call, File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import Delta, Message, Piece, Prompt, Reply, Stop, Thought, Usage
from handrail.providers._assemble import Assembler, Draft, Said, pieces
from handrail.providers._compiled import Compiled, Quarantined, compiled, encoded
from handrail.providers._history import (
    PDF,
    PICTURES,
    Ledger,
    Request,
    Turn,
    base64,
    called,
    kind_of,
    lost_by,
    turns,
    viewable,
    words_of,
)
from handrail.providers._read import (
    NO_NAMES,
    Names,
    Wire,
    args_at,
    count_at,
    object_at,
    objects_at,
    sayable,
    text_at,
)

__all__ = [
    "Compiled",
    "Quarantined",
    "Stream",
    "compile",
    "decode",
    "decode_stream",
    "encode_messages",
    "encode_tools",
    "losses",
]

WIRE: Final = "anthropic"

_STOPS: Mapping[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
_REDACTED = "redacted:"
"""What a thought's seal begins with, where the thought itself may not be read."""


def compile(tool: Tool[..., Any] | Spec) -> Compiled | Quarantined:  # noqa: A001  what it does
    """One tool as this wire takes it, and what that loses; or why it cannot be sent."""
    return compiled(tool, WIRE)


def encode_tools(tools: Toolset | Iterable[Spec]) -> list[Request]:
    """The ``tools`` of a request, in name order; tools that cannot be sent are left out."""
    return encoded(tools, WIRE)


def encode_messages(messages: Sequence[Message], *, system: str = "") -> Request:
    """The ``messages`` of a request, and ``system`` where there is one."""
    written = _written(messages, Ledger(WIRE))
    return {"system": sayable(system), "messages": written} if system else {"messages": written}


def losses(messages: Sequence[Message]) -> tuple[str, ...]:
    """What this wire cannot carry of a history, each in words."""
    return lost_by(_written, messages, WIRE)


def decode(response: Wire, *, names: Names = NO_NAMES) -> Reply:
    """A whole response, read.

    Where the output limit was hit, the input of a last call may lack anything: it is a ``Cut``.
    """
    stream = Stream(names=names)
    stream.feed({"type": "message_start", "message": {**response, "stop_reason": None}})
    blocks = list(objects_at(response, "content"))
    stop = response.get("stop_reason")
    for at, block in enumerate(blocks):
        stream.feed({"type": "content_block_start", "index": at, "content_block": block})
        if at + 1 < len(blocks) or _stop(stop) in ("end", "calls"):
            stream.feed({"type": "content_block_stop", "index": at})
    stream.feed({"type": "message_delta", "delta": {"stop_reason": stop}})
    return stream.end()


def decode_stream(events: AsyncIterable[Wire], *, names: Names = NO_NAMES) -> AsyncIterator[Piece]:
    """Read a stream of events: words as they come, each call once it is complete, the reply."""
    return pieces(Stream(names=names), events)


class Stream:
    """A stream of events, read one at a time."""

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._made = Assembler(WIRE, names)
        self._blocks: dict[object, Draft | Said | None] = {}
        self._streamed: set[Draft] = set()
        self._stop: Stop = "other"

    def feed(self, event: Wire) -> Iterable[Delta | Call]:
        """Take one event in; what there is to show, and calls that are now complete."""
        match event.get("type"):
            case "message_start":
                message = object_at(event, "message")
                self._made.head(message)
                self._made.count(_usage(message))
            case "content_block_start":
                return self._begin(event.get("index"), object_at(event, "content_block"))
            case "content_block_delta":
                return self._go_on(event.get("index"), object_at(event, "delta"))
            case "content_block_stop":
                block = self._blocks.pop(event.get("index"), None)
                return self._made.mark(block) if isinstance(block, Draft) else []
            case "message_delta":
                self._made.count(_usage(event))
                if reason := object_at(event, "delta").get("stop_reason"):
                    self._stop = _stop(reason)
                    return self._made.finish(self._stop)
            case _:
                pass
        return []

    def end(self) -> Reply:
        """There are no more events: the reply."""
        return self._made.reply(self._stop)

    def _begin(self, index: object, block: Wire) -> list[Delta | Call]:
        out = self._made.move_on()
        match block.get("type"):
            case "text":
                part = self._blocks[index] = self._made.said(thought=False)
                return [*out, *self._made.told(part, text_at(block, "text"))]
            case "thinking":
                sealed = text_at(block, "signature")
                part = self._blocks[index] = self._made.said(thought=True, sealed=sealed)
                return [*out, *self._made.told(part, text_at(block, "thinking"))]
            case "redacted_thinking":
                self._made.said(thought=True, sealed=_REDACTED + text_at(block, "data"))
                self._blocks[index] = None
            case "tool_use":
                args = "" if block.get("input") == {} else args_at(block, "input")
                self._blocks[index] = self._made.begin(
                    text_at(block, "name"), text_at(block, "id"), args
                )
            case _:
                self._blocks[index] = None
        return out

    def _go_on(self, index: object, delta: Wire) -> list[Delta | Call]:
        block = self._blocks.get(index)
        if isinstance(block, Said):
            piece = text_at(delta, "thinking" if block.thought else "text")
            block.sealed += text_at(delta, "signature")
            return self._made.told(block, piece)
        if isinstance(block, Draft):
            if block not in self._streamed:
                self._streamed.add(block)
                block.args = ""
            block.args += args_at(delta, "partial_json")
        return []


def _stop(reason: object) -> Stop:
    return _STOPS.get(reason, "other") if isinstance(reason, str) else "other"


def _usage(event: Wire) -> Usage:
    told = object_at(event, "usage")
    cached = count_at(told, "cache_read_input_tokens")
    return Usage(
        sent=count_at(told, "input_tokens")
        + count_at(told, "cache_creation_input_tokens")
        + cached,
        received=count_at(told, "output_tokens"),
        cached=cached,
    )


def _written(messages: Sequence[Message], ledger: Ledger) -> list[Request]:
    written: list[Request] = []
    for turn in turns(messages):
        ledger.at = turn.at
        message = turn.message
        if isinstance(message, Prompt):
            role, content = "user", _blocks(message.parts, ledger)
        elif isinstance(message, Reply):
            role, content = "assistant", _said(message, turn, ledger)
        else:
            role = "user"
            content = [_result(id_, result, ledger) for _, id_, result in turn.answered(message)]
        if content:
            written.append({"role": role, "content": content})
    return written


def _said(reply: Reply, turn: Turn, ledger: Ledger) -> list[Request]:
    content: list[Request] = []
    spoken = [at for at, part in enumerate(reply.parts) if not isinstance(part, Thought)]
    for at, part in enumerate(reply.parts):
        match part:
            case Text():
                content += _blocks((part,), ledger)
            case Thought():
                content += _thought(part, ledger, last=at > max(spoken, default=-1))
            case _:
                use = {"type": "tool_use", "id": turn.ids[part.id], "name": called(part)}
                content.append({**use, "input": ledger.args(part)})
    return content


def _thought(thought: Thought, ledger: Ledger, *, last: bool) -> list[Request]:
    if ledger.foreign(thought):
        return []
    if last or not thought.sealed:
        ledger.lose("a thought that did not come to its end is left out")
        return []
    if thought.sealed.startswith(_REDACTED):
        return [{"type": "redacted_thinking", "data": thought.sealed.removeprefix(_REDACTED)}]
    text = ledger.text(thought.text)
    return [{"type": "thinking", "thinking": text, "signature": thought.sealed}]


def _result(call_id: str, result: Result, ledger: Ledger) -> Request:
    words = not result.parts or all(isinstance(part, Text) for part in result.parts)
    block: Request = {"type": "tool_result", "tool_use_id": call_id}
    block["content"] = ledger.text(result.text) if words else _blocks(result.parts, ledger)
    return {**block, "is_error": True} if result.failure else block


def _blocks(parts: Iterable[Text | Image | File], ledger: Ledger) -> list[Request]:
    return [block for part in parts for block in _block(part, ledger)]


def _block(part: Text | Image | File, ledger: Ledger) -> list[Request]:
    if isinstance(part, Text):
        if part.text and not part.text.strip():
            ledger.lose("text of white space alone is left out")
        return [{"type": "text", "text": ledger.text(part.text)}] if part.text.strip() else []
    source = {"type": "base64", "media_type": kind_of(part), "data": base64(part)}
    if viewable(part, PICTURES):
        if isinstance(part, File):
            ledger.lose(f"the name of the picture {part.name!r} is left out")
        return [{"type": "image", "source": source}]
    if isinstance(part, File):
        title = {"title": ledger.text(part.name)}
        if viewable(part, PDF):
            return [{"type": "document", "source": source, **title}]
        if (words := words_of(part)) is not None:
            source = {"type": "text", "media_type": "text/plain", "data": words}
            return [{"type": "document", "source": source, **title, "context": kind_of(part)}]
    return [{"type": "text", "text": ledger.left_out(part)}]
