"""Decode OpenAI Chat Completions chunks and responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final, cast

from handrail._support import is_list
from handrail.messages import Reply, Stop, Usage
from handrail.providers._formats.assemble import Assembler, Piece
from handrail.providers._formats.drafts import CallDraft
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    args_at,
    count_at,
    index_at,
    is_complete,
    more_fields,
    object_at,
    objects_at,
    text_at,
)

API: Final = "openai_chat"

_STOPS: Mapping[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}
_MESSAGE = frozenset(
    "content function_call reasoning reasoning_content refusal role tool_calls".split()
)
_CALL = frozenset(("index", "id", "type", "function"))
_REPEATED = frozenset(("format", "id", "index", "signature", "type"))
"""Keys whose text is not split into pieces."""
_SPLIT = frozenset(("reasoning.summary", "reasoning.text", "thinking"))
"""List items arriving in fragments."""


def decode(response: Data, *, names: Names = NO_NAMES) -> Reply:
    """Convert a complete response's first choice."""
    stream = Stream(names=names)
    for choice in objects_at(response, "choices"):
        message = object_at(choice, "message")
        calls = [{**call, "index": at} for at, call in enumerate(objects_at(message, "tool_calls"))]
        delta = {**message, "tool_calls": calls}
        stream.feed({**response, "choices": [{**choice, "delta": delta}]})
    return stream.end()


class Stream:
    """Converts a stream one chunk at a time.

    Servers identify calls by index, by id, by both, or by neither. A new index begins a call. At
    a known index, a name begins a call if the id differs or the JSON before it is complete.
    """

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._draft = Assembler(API, names)
        self._names = names
        self._at: dict[object, CallDraft] = {}
        self._by_id: dict[tuple[object, str], CallDraft] = {}
        self._sent_ids: dict[CallDraft, str] = {}
        self._last: CallDraft | None = None
        self._stop: Stop = "other"

    def feed(self, event: Data) -> Iterable[Piece]:
        """Process one chunk. Return new text to show, and newly complete calls."""
        self._draft.note_response(event)
        if counts := object_at(event, "usage"):
            self._draft.note_usage(_usage(counts))
        out: list[Piece] = []
        for choice in objects_at(event, "choices"):
            if choice.get("index") in (0, None):
                out += self._choice(choice)
        return out

    def end(self) -> Reply:
        """Return the reply after the last chunk."""
        return self._draft.reply(self._stop)

    def _choice(self, choice: Data) -> list[Piece]:
        delta = object_at(choice, "delta")
        out = self._draft.continue_text(_reasoning(delta), thought=True)
        for piece in (*_content(delta), text_at(delta, "refusal")):
            out += self._draft.continue_text(piece)
        if text_at(delta, "refusal"):
            self._stop = "refused"
        if fields := more_fields(delta, _MESSAGE):
            _merge(self._draft.fields, deepcopy(fields))
        out += self._calls(delta)
        if reason := text_at(choice, "finish_reason"):
            if self._stop != "refused":
                self._stop = _STOPS.get(reason, "other")
            out += self._draft.finish(self._stop)
        return out

    def _calls(self, delta: Data) -> list[Piece]:
        out: list[Piece] = []
        for call in objects_at(delta, "tool_calls"):
            if call.get("type") in ("function", None, ""):
                out += self._call(index_at(call), call, object_at(call, "function"))
            else:
                _merge(self._draft.fields, {"tool_calls": [deepcopy(dict(call))]})
        if delta.get("function_call"):
            out += self._call("function_call", {}, object_at(delta, "function_call"))
        return out

    def _call(self, index: object, call: Data, function: Data) -> list[Piece]:
        call_id, name = text_at(call, "id"), text_at(function, "name")
        args = args_at(function, "arguments")
        here = self._last if index is None else self._at.get(index)
        draft = self._by_id.get((index, call_id), here) if call_id else here
        out: list[Piece] = []
        if draft is None or self._begins(draft, name, call_id, args):
            out += self._draft.settle_complete(marked=False)
            draft = self._draft.begin()
        elif draft.outcome is not None or (is_complete(args) and args == draft.args.text):
            return []
        if not draft.args and draft.name != name:
            draft.name += name
        self._draft.claim(draft, call_id)
        out += self._draft.add_args(draft, args)
        if fields := more_fields(call, _CALL):
            _merge(draft.fields, deepcopy(fields))
        self._sent_ids.setdefault(draft, call_id)
        self._last = self._at[index] = self._by_id[index, call_id] = draft
        return out

    def _begins(self, draft: CallDraft, name: str, call_id: str, args: str) -> bool:
        """Whether a fragment at a call's index begins another call."""
        before = self._sent_ids[draft]
        if call_id and before and call_id != before:
            return bool(name) or is_complete(draft.args.text)
        if not name:
            return False
        if not draft.args:
            known = name in self._names and draft.name in self._names
            return known and not call_id and name != draft.name
        if name != draft.name:
            return True
        return is_complete(draft.args.text) and not (call_id and args == draft.args.text)


def _reasoning(delta: Data) -> str:
    """Return the reasoning sent by servers other than OpenAI's, under either of its names."""
    return text_at(delta, "reasoning_content") or text_at(delta, "reasoning")


def _content(delta: Data) -> Iterable[str]:
    text = text_at(delta, "content")
    return [text] if text else [text_at(part, "text") for part in objects_at(delta, "content")]


def _merge(whole: dict[str, Any], pieces: Mapping[str, object]) -> None:
    """Merge field fragments: text and lists grow, the rest is replaced."""
    for key, piece in pieces.items():
        old: object = whole.get(key)
        if is_list(old) and is_list(piece):
            _merge_lists(old, piece)
        elif isinstance(old, dict) and isinstance(piece, dict):
            _merge(cast("dict[str, Any]", old), cast("dict[str, Any]", piece))
        elif isinstance(old, str) and isinstance(piece, str) and key not in _REPEATED:
            whole[key] = old + piece
        elif piece is not None:
            whole[key] = piece


def _merge_lists(items: list[Any], pieces: list[Any]) -> None:
    """Append pieces to a list. The first one continues the last item if both are reasoning."""
    last, first = (items or [None])[-1], (pieces or [None])[0]
    if isinstance(last, dict) and isinstance(first, dict):
        before, after = cast("dict[str, Any]", last), cast("dict[str, Any]", first)
        same = all(before.get(key) == after.get(key) for key in ("type", "index"))
        if same and before.get("type") in _SPLIT and not before.get("signature"):
            _merge(before, after)
            pieces = pieces[1:]
    items += pieces


def _usage(counts: Data) -> Usage:
    input_ = object_at(counts, "prompt_tokens_details")
    output = object_at(counts, "completion_tokens_details")
    return Usage(
        input_tokens=count_at(counts, "prompt_tokens"),
        output_tokens=count_at(counts, "completion_tokens"),
        cached_tokens=count_at(input_, "cached_tokens"),
        cache_write_tokens=count_at(input_, "cache_write_tokens"),
        reasoning_tokens=count_at(output, "reasoning_tokens"),
    )
