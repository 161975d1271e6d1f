"""Decode Anthropic Messages events and responses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from handrail.messages import Reply, Stop, Usage
from handrail.providers._formats.assemble import Assembler, Piece
from handrail.providers._formats.drafts import CallDraft, OpaqueDraft, TextDraft
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    args_at,
    count_at,
    index_at,
    more_fields,
    object_at,
    objects_at,
    text_at,
)

API: Final = "anthropic"
REDACTED: Final = "redacted:"
"""Prefix for signatures whose reasoning is encrypted."""

_STOPS: Mapping[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "overflow",
    "pause_turn": "paused",
    "refusal": "refused",
}
_DIRECT = {"type": "direct"}
"""Caller for calls made by the model itself, the default."""


def decode(response: Data, *, names: Names = NO_NAMES) -> Reply:
    """Convert a complete response.

    If the output limit was reached, the last call's input may be incomplete. It then becomes a
    ``TruncatedCall``.
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


class Stream:
    """Converts a stream one event at a time."""

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._draft = Assembler(API, names)
        self._blocks: dict[object, CallDraft | TextDraft | OpaqueDraft] = {}
        self._streamed: set[CallDraft | OpaqueDraft] = set()
        self._stop: Stop = "other"

    def feed(self, event: Data) -> Iterable[Piece]:
        """Process one event. Return new text to show, and newly complete calls."""
        match event.get("type"):
            case "message_start":
                message = object_at(event, "message")
                self._draft.note_response(message)
                self._draft.note_usage(_usage(message))
                self._note_container(message)
            case "content_block_start":
                return self._begin(index_at(event), object_at(event, "content_block"))
            case "content_block_delta":
                return self._continue_block(index_at(event), object_at(event, "delta"))
            case "content_block_stop":
                return self._end_block(self._blocks.pop(index_at(event), None))
            case "message_delta":
                self._draft.note_usage(_usage(event))
                return self._finish(object_at(event, "delta"))
            case _:
                pass
        return []

    def end(self) -> Reply:
        """Return the reply after the last event."""
        return self._draft.reply(self._stop)

    def _finish(self, delta: Data) -> list[Piece]:
        self._note_container(delta)
        reason = delta.get("stop_reason")
        if not reason:
            return []
        self._stop = _stop(reason)
        self._draft.stop_detail = _refusal(object_at(delta, "stop_details"))
        return self._draft.finish(self._stop)

    def _note_container(self, message: Data) -> None:
        if container := object_at(message, "container"):
            self._draft.fields["container"] = dict(container)

    def _begin(self, index: object, block: Data) -> list[Piece]:
        out = self._draft.settle_complete()
        match block.get("type"):
            case "text":
                part = self._blocks[index] = self._draft.begin_text(thought=False)
                part.fields |= more_fields(block, ("type", "text"))
                return [*out, *self._draft.add_text(part, text_at(block, "text"))]
            case "thinking":
                signature = text_at(block, "signature")
                part = self._blocks[index] = self._draft.begin_text(
                    thought=True, signature=signature
                )
                return [*out, *self._draft.add_text(part, text_at(block, "thinking"))]
            case "redacted_thinking":
                self._draft.begin_text(thought=True, signature=REDACTED + text_at(block, "data"))
                self._blocks.pop(index, None)
            case "tool_use":
                args = "" if block.get("input") == {} else args_at(block, "input")
                call = self._blocks[index] = self._draft.begin(
                    text_at(block, "name"), text_at(block, "id"), args
                )
                known = ["type", "id", "name", "input"]
                known += ["caller"] if block.get("caller") == _DIRECT else []
                call.fields |= more_fields(block, known)
            case _:
                self._blocks[index] = self._draft.begin_opaque(block)
        return out

    def _continue_block(self, index: object, delta: Data) -> list[Piece]:
        block = self._blocks.get(index)
        if isinstance(block, TextDraft):
            piece = text_at(delta, "thinking" if block.thought else "text")
            block.signature += text_at(delta, "signature")
            if citation := object_at(delta, "citation"):
                block.fields["citations"] = [*block.fields.get("citations", ()), dict(citation)]
            return self._draft.add_text(block, piece)
        if isinstance(block, CallDraft):
            if block not in self._streamed:
                self._streamed.add(block)
                block.args.replace("")
            return self._draft.add_args(block, args_at(delta, "partial_json"))
        if isinstance(block, OpaqueDraft):
            self._continue_opaque(block, delta)
        return []

    def _continue_opaque(self, block: OpaqueDraft, delta: Data) -> None:
        """Append to a block handrail does not read. Its input arrives as JSON fragments."""
        for name, piece in delta.items():
            key = "input" if name == "partial_json" else name
            old = block.value.get(key)
            if key == "input" and block not in self._streamed:
                self._streamed.add(block)
                old = ""
            if key == "type" or piece is None:
                continue
            joined = isinstance(old, str) and isinstance(piece, str)
            block.value[key] = f"{old}{piece}" if joined else piece

    def _end_block(self, block: CallDraft | TextDraft | OpaqueDraft | None) -> list[Piece]:
        if isinstance(block, OpaqueDraft) and block in self._streamed:
            with suppress(ValueError):  # text where an object belongs: the block is incomplete
                block.value["input"] = json.loads(block.value["input"] or "{}")
        return self._draft.mark(block) if isinstance(block, CallDraft) else []


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
