"""OpenAI Responses: tools, histories, replies and streams, as plain dicts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from handrail import Call, File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import (
    Delta,
    Message,
    Piece,
    Prompt,
    Reply,
    Stop,
    Thought,
    Usage,
)
from handrail.providers._assemble import Assembler, Draft, Said, pieces
from handrail.providers._compiled import Compiled, Quarantined, compiled, encoded
from handrail.providers._history import (
    PDF,
    PICTURES,
    Ledger,
    Request,
    Turn,
    called,
    data_url,
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
    broken_off,
    count_at,
    dumped,
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

WIRE: Final = "openai_responses"

_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
_CUTS: Mapping[str, Stop] = {"max_output_tokens": "length", "content_filter": "refused"}
_WORDS = {"response.output_text.delta": "text", "response.refusal.delta": "refusal"}
_THOUGHTS = {
    "response.reasoning_summary_text.delta": "summary_index",
    "response.reasoning_text.delta": "content_index",
}


def compile(tool: Tool[..., Any] | Spec) -> Compiled | Quarantined:  # noqa: A001  what it does
    """One tool as this wire takes it, and what that loses; or why it cannot be sent."""
    return compiled(tool, WIRE)


def encode_tools(tools: Toolset | Iterable[Spec]) -> list[Request]:
    """The ``tools`` of a request, in name order; tools that cannot be sent are left out."""
    return encoded(tools, WIRE)


def encode_messages(messages: Sequence[Message], *, system: str = "") -> Request:
    """The ``input`` of a request, and ``instructions`` where there are any."""
    written = _written(messages, Ledger(WIRE))
    return {"instructions": sayable(system), "input": written} if system else {"input": written}


def losses(messages: Sequence[Message]) -> tuple[str, ...]:
    """What this wire cannot carry of a history, each in words."""
    return lost_by(_written, messages, WIRE)


def decode(response: Wire, *, names: Names = NO_NAMES) -> Reply:
    """A whole response, read."""
    stream = Stream(names=names)
    stream.feed({"type": "response.completed", "response": response})
    return stream.end()


def decode_stream(events: AsyncIterable[Wire], *, names: Names = NO_NAMES) -> AsyncIterator[Piece]:
    """Read a stream of events: words as they come, each call once it is complete, the reply."""
    return pieces(Stream(names=names), events)


class _Item:
    """One item of the output, on its way."""

    __slots__ = ("call_id", "draft", "id", "index", "kind", "over", "said", "thought")

    def __init__(self, kind: str, index: object, item_id: str) -> None:
        self.kind = kind
        self.index = index
        self.id = item_id
        self.call_id = ""
        self.draft: Draft | None = None
        self.thought: Said | None = None
        self.said: dict[object, Said] = {}
        self.over = False

    def likeness(self, told: Wire) -> int:
        """How well an item that is told of goes with this one, from 0 for not at all."""
        if self.kind != text_at(told, "type"):
            return 0
        if self.id and self.id == text_at(told, "id"):
            return 4
        call_id = text_at(told, "call_id")
        if call_id and self.call_id:
            return 3 if call_id == self.call_id else 0
        return 1 if self.id and text_at(told, "id") else 2


class Stream:
    """A stream of events, read one at a time."""

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._made = Assembler(WIRE, names)
        self._items: list[_Item] = []
        self._open: list[_Item] = []
        self._stop: Stop = "other"
        self._refused = False

    def feed(self, event: Wire) -> Iterable[Delta | Call]:
        """Take one event in; what there is to show, and calls that are now complete."""
        kind = text_at(event, "type")
        self._made.head(object_at(event, "response"))
        if kind in _ENDS:
            return self._finish(object_at(event, "response"))
        if kind == "response.output_item.added":
            return self._added(event.get("output_index"), object_at(event, "item"))
        if kind == "response.output_item.done":
            told = object_at(event, "item")
            found = self._known(event.get("output_index"), told)
            out = [] if found else self._added(event.get("output_index"), told)
            return [*out, *self._done(found or self._items[-1], told, marked=True)]
        if kind in _WORDS:
            return self._words(event, refused=_WORDS[kind] == "refusal")
        if kind in _THOUGHTS:
            return self._think(event, _THOUGHTS[kind])
        if kind.startswith("response.function_call_arguments."):
            self._arguments(event)
        return []

    def end(self) -> Reply:
        """There are no more events: the reply."""
        return self._made.reply("refused" if self._refused else self._stop)

    def _added(self, index: object, told: Wire) -> list[Delta | Call]:
        """An item begins, unless it is told of for the second time."""
        found = self._known(index, told)
        again = found and not found.over and found.likeness(told) > 1
        out = [] if again else self._made.move_on()
        self._fill(found if found and again else self._new(text_at(told, "type"), index), told)
        return out

    def _fill(self, item: _Item, told: Wire) -> None:
        """What is told of an item, where it was not told before."""
        item.id = item.id or text_at(told, "id")
        if item.draft is not None:
            item.call_id = item.call_id or text_at(told, "call_id")
            item.draft.name = item.draft.name or text_at(told, "name")
            item.draft.args = item.draft.args or args_at(told, "arguments")
            self._made.claim(item.draft, item.call_id)

    def _known(self, index: object, told: Wire) -> _Item | None:
        """The item at this place that goes best with the one that is told of."""
        here = [one for one in self._items if one.index == index and one.likeness(told)]
        return max(reversed(here), key=lambda one: one.likeness(told), default=None)

    def _new(self, kind: str, index: object) -> _Item:
        item = _Item(kind, index, "")
        self._items.append(item)
        if kind == "function_call":
            item.draft = self._made.begin()
        elif kind == "reasoning":
            item.thought = self._made.said(thought=True)
        return item

    def _meant(self, event: Wire, kind: str) -> _Item:
        """The item that a piece belongs to: at its place, of its id if there are several."""
        index, item_id = event.get("output_index"), text_at(event, "item_id")
        here = [one for one in self._items if one.kind == kind and index in (one.index, None)]
        same = [one for one in here if item_id and one.id == item_id]
        found = (same or here)[-1:]
        return found[0] if found else self._new(kind, index)

    def _words(self, event: Wire, *, refused: bool) -> list[Delta | Call]:
        self._refused = self._refused or refused
        item = self._meant(event, "message")
        return self._made.told(
            self._part(item, event.get("content_index")), text_at(event, "delta")
        )

    def _part(self, item: _Item, at: object) -> Said:
        if at not in item.said:
            item.said[at] = self._made.said(thought=False)
        return item.said[at]

    def _think(self, event: Wire, key: str) -> list[Delta | Call]:
        item = self._meant(event, "reasoning")
        thought = cast("Said", item.thought)
        gap = "\n\n" if item.said and event.get(key) not in item.said else ""
        item.said[event.get(key)] = thought
        return self._made.told(thought, gap + text_at(event, "delta"))

    def _arguments(self, event: Wire) -> None:
        draft = self._meant(event, "function_call").draft
        if draft is not None and draft.made is None:
            draft.args = args_at(event, "arguments") or draft.args + text_at(event, "delta")

    def _done(self, item: _Item, told: Wire, *, marked: bool) -> list[Delta | Call]:
        """An item as it is at its end."""
        item.over = True
        if item.draft is not None:
            self._fill(item, told)
            return self._called(item.draft, told, marked=marked)
        if item.thought is not None:
            item.thought.become(_thought_text(told))
            item.thought.sealed = dumped({k: v for k, v in told.items() if v is not None})
        out: list[Delta | Call] = []
        for at, part in enumerate(objects_at(told, "content")):
            told_already = at in item.said or None in item.said  # some servers number no parts
            if item.kind == "message" and not told_already:
                self._refused = self._refused or part.get("type") == "refusal"
                text = text_at(part, "text") or text_at(part, "refusal")
                out += self._made.told(self._part(item, at), text)
        return out

    def _called(self, draft: Draft, told: Wire, *, marked: bool) -> list[Delta | Call]:
        if draft.made is not None:
            return []
        draft.args = args_at(told, "arguments") or draft.args
        status = text_at(told, "status")
        if status in ("completed", "incomplete"):
            # some servers call a call completed that the limit has cut off
            return self._made.settle(draft, cut=status == "incomplete" or broken_off(draft.args))
        return self._made.mark(draft) if marked else []

    def _finish(self, response: Wire) -> list[Delta | Call]:
        self._made.count(_usage(response))
        out: list[Delta | Call] = []
        streamed, self._open = bool(self._items), list(self._items)
        for at, told in enumerate(objects_at(response, "output")):
            item = self._told_before(at, told)
            if item is None and (text_at(told, "call_id") or not streamed):
                out += self._made.move_on(marked=False)
                item = self._new(text_at(told, "type"), at)
                self._fill(item, told)
            out += self._done(item, told, marked=False) if item else []
        self._stop = _stop(response)
        return [*out, *self._made.finish("refused" if self._refused else self._stop)]

    def _told_before(self, at: int, told: Wire) -> _Item | None:
        """The item of the stream that one of the whole output is: each is one only once."""
        alike = [one for one in self._open if one.likeness(told) > (2 if one.index != at else 0)]
        found = max(alike, key=lambda one: one.likeness(told), default=None)
        self._open = [one for one in self._open if one is not found]
        return found


def _stop(response: Wire) -> Stop:
    status = response.get("status")
    if status == "incomplete":
        return _CUTS.get(text_at(object_at(response, "incomplete_details"), "reason"), "other")
    return "end" if status in ("completed", None) else "other"


def _thought_text(item: Wire) -> str:
    summary = [text_at(one, "text") for one in objects_at(item, "summary")]
    return "\n\n".join(summary or [text_at(one, "text") for one in objects_at(item, "content")])


def _usage(response: Wire) -> Usage:
    told = object_at(response, "usage")
    return Usage(
        sent=count_at(told, "input_tokens"),
        received=count_at(told, "output_tokens"),
        cached=count_at(object_at(told, "input_tokens_details"), "cached_tokens"),
    )


def _written(messages: Sequence[Message], ledger: Ledger) -> list[Request]:
    written: list[Request] = []
    for turn in turns(messages):
        ledger.at = turn.at
        match turn.message:
            case Prompt(parts):
                content = _contents(parts, ledger)
                said = {"type": "message", "role": "user", "content": content}
                written += [said] if content else []
            case Reply() as reply:
                written += _said(reply, turn, ledger)
            case results:
                written += [_result(id_, one, ledger) for _, id_, one in turn.answered(results)]
    return written


def _said(reply: Reply, turn: Turn, ledger: Ledger) -> list[Request]:
    items: list[Request] = []
    spoken = [at for at, part in enumerate(reply.parts) if not isinstance(part, Thought)]
    for at, part in enumerate(reply.parts):
        match part:
            case Text():
                said = {"type": "message", "role": "assistant"}
                said["content"] = ledger.text(part.text)
                items += [said] if part.text else []
            case Thought():
                items += _thought(part, ledger, last=at > max(spoken, default=-1))
            case _:
                call = {"type": "function_call", "call_id": turn.ids[part.id], "name": called(part)}
                items.append({**call, "arguments": ledger.args_text(part)})
    return items


def _thought(thought: Thought, ledger: Ledger, *, last: bool) -> list[Request]:
    if ledger.foreign(thought):
        return []
    if last or not thought.sealed:
        ledger.lose("a thought that did not come to its end is left out")
        return []
    return [json.loads(thought.sealed)]


def _result(call_id: str, result: Result, ledger: Ledger) -> Request:
    told = ledger.flag(result)
    output: str | list[Request] = told + ledger.text(result.text)
    if any(not isinstance(part, Text) for part in result.parts):
        output = _contents((Text(told), *result.parts), ledger)
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _contents(parts: Iterable[Text | Image | File], ledger: Ledger) -> list[Request]:
    return [one for part in parts for one in _content(part, ledger)]


def _content(part: Text | Image | File, ledger: Ledger) -> list[Request]:
    if isinstance(part, Text):
        return [{"type": "input_text", "text": ledger.text(part.text)}] if part.text else []
    if viewable(part, PICTURES):
        if isinstance(part, File):
            ledger.lose(f"the name of the picture {part.name!r} is left out")
        return [{"type": "input_image", "image_url": data_url(part), "detail": "auto"}]
    if isinstance(part, File) and (viewable(part, PDF) or words_of(part) is not None):
        name = ledger.text(part.name)
        return [{"type": "input_file", "filename": name, "file_data": data_url(part)}]
    return [{"type": "input_text", "text": ledger.left_out(part)}]
