"""Decode OpenAI Responses events and responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from handrail.messages import Reply, Stop, Usage
from handrail.providers._formats.assemble import Assembler, Draft, Piece
from handrail.providers._formats.drafts import CallDraft, OpaqueDraft, TextDraft
from handrail.providers._formats.tolerant import (
    FINDER_KEY,
    NO_NAMES,
    Data,
    Names,
    args_at,
    count_at,
    dump_opaque,
    index_at,
    is_broken_off,
    more_fields,
    object_at,
    objects_at,
    text_at,
)

API: Final = "openai_responses"

_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
_CUTS: Mapping[str, Stop] = {"max_output_tokens": "length", "content_filter": "refused"}
_TEXT_DELTAS = {"response.output_text.delta": "text", "response.refusal.delta": "refusal"}
_REASONING_DELTAS = {
    "response.reasoning_summary_text.delta": "summary_index",
    "response.reasoning_text.delta": "content_index",
}
_MESSAGE = frozenset(("type", "id", "role", "status", "content"))
_CONTENT = frozenset(("type", "text", "refusal", "logprobs"))
_CALL = frozenset(("type", "id", "call_id", "name", "arguments", "status"))
_SEARCH = "tool_search_call"
_FINDER = "search_tools"
"""The search tool's name, unless ``names`` has another one."""
_CALLS = frozenset(("function_call", _SEARCH))
_SEARCH_FIELDS = _CALL | {"execution", "created_by"}
_FOR_CLIENTS = {
    "apply_patch_call": "",
    "computer_call": "",
    "custom_tool_call": "name",
    "local_shell_call": "",
    "mcp_approval_request": "name",
    "shell_call": "",
}
"""Items a program must answer and handrail cannot, with the field naming what they ask."""
_DIRECT = {"type": "direct"}
"""Caller for calls made by the model itself, the default."""


def decode(response: Data, *, names: Names = NO_NAMES) -> Reply:
    """Convert a complete response."""
    stream = Stream(names=names)
    stream.feed({"type": "response.completed", "response": response})
    return stream.end()


class _Item:
    """One output item under construction."""

    __slots__ = ("call_id", "draft", "id", "index", "kind", "opaque", "over", "texts", "thought")

    def __init__(self, kind: str, index: object, item_id: str) -> None:
        self.kind = kind
        self.index = index
        self.id = item_id
        self.call_id = ""
        self.draft: CallDraft | None = None
        self.thought: TextDraft | None = None
        self.opaque: OpaqueDraft | None = None
        self.texts: dict[object, TextDraft] = {}
        self.over = False

    def likeness(self, event: Data) -> int:
        """Return how well an item in an event matches this one: 0 means not at all."""
        if self.kind != _kind(event):
            return 0
        if self.id and self.id == text_at(event, "id"):
            return 4
        call_id = text_at(event, "call_id")
        if call_id and self.call_id:
            return 3 if call_id == self.call_id else 0
        return 1 if self.id and text_at(event, "id") else 2

    @property
    def parts(self) -> list[Draft]:
        """The reply parts this item became."""
        whole: tuple[Draft | None, ...] = (self.draft, self.thought, self.opaque)
        return [part for part in (*whole, *self.texts.values()) if part is not None]


class Stream:
    """Converts a stream one event at a time."""

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._draft = Assembler(API, names)
        self._finder = FINDER_KEY if FINDER_KEY in names else _FINDER
        self._items: list[_Item] = []
        self._stop: Stop = "other"
        self._refused = False

    def feed(self, event: Data) -> Iterable[Piece]:
        """Process one event. Return new text to show, and newly complete calls."""
        kind = text_at(event, "type")
        self._draft.note_response(object_at(event, "response"))
        if kind in _ENDS:
            return self._finish(object_at(event, "response"))
        if kind.startswith("response.output_item."):
            done = kind == "response.output_item.done"
            return self._item(index_at(event, "output_index"), object_at(event, "item"), done=done)
        if kind in _TEXT_DELTAS:
            return self._add_output_text(event, refused=_TEXT_DELTAS[kind] == "refusal")
        if kind in _REASONING_DELTAS:
            return self._add_reasoning(event, _REASONING_DELTAS[kind])
        if kind.startswith("response.function_call_arguments."):
            return self._arguments(event)
        return []

    def end(self) -> Reply:
        """Return the reply after the last event."""
        return self._draft.reply("refused" if self._refused else self._stop)

    def _item(self, index: object, data: Data, *, done: bool) -> list[Piece]:
        if not done:
            return self._add_item(index, data)
        known = self._find_item(index, data)
        out = [] if known else self._add_item(index, data)
        return [*out, *self._done(known or self._items[-1], data, marked=True)]

    def _add_item(self, index: object, data: Data) -> list[Piece]:
        """Begin an item, unless it was added before."""
        known = self._find_item(index, data)
        again = known and not known.over and known.likeness(data) > 1
        out = [] if again else self._draft.settle_complete()
        self._fill(known if known and again else self._new(_kind(data), index), data)
        return out

    def _fill(self, item: _Item, data: Data) -> None:
        """Fill in an item's missing fields."""
        item.id = item.id or text_at(data, "id")
        if item.opaque is not None:
            item.opaque.value = dict(data)
        # a search call gets its id and its arguments only when it is done
        if item.draft is not None and (item.kind != _SEARCH or item.over):
            item.call_id = item.call_id or text_at(data, "call_id")
            item.draft.name = item.draft.name or text_at(data, "name")
            if not item.draft.args:
                item.draft.args.replace(args_at(data, "arguments"))
            item.draft.fields |= _call_fields(data)
            self._draft.claim(item.draft, item.call_id)

    def _find_item(self, index: object, data: Data) -> _Item | None:
        """Find the best matching item at this index."""
        here = [item for item in self._items if item.index == index and item.likeness(data)]
        return max(reversed(here), key=lambda item: item.likeness(data), default=None)

    def _new(self, kind: str, index: object) -> _Item:
        item = _Item(kind, index, "")
        self._items.append(item)
        if kind in _CALLS:
            item.draft = self._draft.begin(self._finder if kind == _SEARCH else "")
        elif kind == "reasoning":
            item.thought = self._draft.begin_text(thought=True)
        elif kind != "message":
            item.opaque = self._draft.begin_opaque({})
        return item

    def _item_of(self, event: Data, kind: str) -> _Item:
        """Return a fragment's item: at the same index, and with its id if there are several."""
        index, item_id = index_at(event, "output_index"), text_at(event, "item_id")
        here = [item for item in self._items if item.kind == kind and index in (item.index, None)]
        same = [item for item in here if item_id and item.id == item_id]
        meant = (same or here)[-1:]
        return meant[0] if meant else self._new(kind, index)

    def _add_output_text(self, event: Data, *, refused: bool) -> list[Piece]:
        self._refused = self._refused or refused
        part = self._part(self._item_of(event, "message"), index_at(event, "content_index"))
        return self._draft.add_text(part, text_at(event, "delta"))

    def _part(self, item: _Item, at: object) -> TextDraft:
        if at not in item.texts:
            item.texts[at] = self._draft.begin_text(thought=False)
        return item.texts[at]

    def _add_reasoning(self, event: Data, key: str) -> list[Piece]:
        item, at = self._item_of(event, "reasoning"), index_at(event, key)
        gap = "\n\n" if item.texts and at not in item.texts else ""
        thought = item.texts[at] = cast("TextDraft", item.thought)
        return self._draft.add_text(thought, gap + text_at(event, "delta"))

    def _arguments(self, event: Data) -> list[Piece]:
        draft = self._item_of(event, "function_call").draft
        if draft is None or draft.outcome is not None:
            return []
        if whole := args_at(event, "arguments"):
            draft.args.replace(whole)
            return []
        return self._draft.add_args(draft, text_at(event, "delta"))

    def _done(self, item: _Item, data: Data, *, marked: bool) -> list[Piece]:
        """Process an item's final state."""
        item.over = True
        if item.draft is not None:
            self._fill(item, data)
            return self._finish_call(item.draft, data, marked=marked)
        if item.opaque is not None:
            item.opaque.value = dict(data)
        if item.thought is not None:
            item.thought.content.replace(_reasoning_text(data))
            item.thought.signature = dump_opaque({k: v for k, v in data.items() if v is not None})
        return self._finish_message(item, data) if item.kind == "message" else []

    def _finish_message(self, item: _Item, data: Data) -> list[Piece]:
        """Add text missing from the stream, and the message's fields to each text."""
        out: list[Piece] = []
        for at, part in enumerate(objects_at(data, "content")):
            if at not in item.texts and None not in item.texts:  # some servers send no index
                self._refused = self._refused or part.get("type") == "refusal"
                text = text_at(part, "text") or text_at(part, "refusal")
                out += self._draft.add_text(self._part(item, at), text)
            fields = {**more_fields(data, _MESSAGE), **more_fields(part, _CONTENT)}
            item.texts[at if at in item.texts else None].fields |= fields
        return out

    def _finish_call(self, draft: CallDraft, data: Data, *, marked: bool) -> list[Piece]:
        if draft.outcome is not None:
            return []
        if whole := args_at(data, "arguments"):
            draft.args.replace(whole)
        status = text_at(data, "status")
        if status in ("completed", "incomplete"):
            # some servers report a truncated call as completed
            cut = status == "incomplete" or is_broken_off(draft.args.text)
            return self._draft.settle(draft, cut=cut)
        return self._draft.mark(draft) if marked else []

    def _finish(self, response: Data) -> list[Piece]:
        self._draft.note_usage(_usage(response))
        out: list[Piece] = []
        streamed, output = bool(self._items), list(objects_at(response, "output"))
        self._draft.insert_after(())
        for at, (data, item) in enumerate(self._match_items(output)):
            self._draft.insert_after(item.parts if item else ())
            is_call = _kind(data) in _CALLS
            if item is None and (text_at(data, "call_id") or not (streamed and is_call)):
                out += self._draft.settle_complete(marked=False)
                item = self._new(_kind(data), at)  # noqa: PLW2901  the streamed or this
                self._fill(item, data)
            out += self._done(item, data, marked=False) if item else []
            self._draft.insert_after(item.parts if item else ())
        self._draft.insert_after(None)
        self._stop = _stop(response)
        out += self._draft.finish("refused" if self._refused else self._stop)
        asked = unanswered([item.opaque.value for item in self._items if item.opaque])
        if asked and self._stop == "end":
            self._stop, self._draft.stop_detail = "unsupported", _UNSUPPORTED.format(asked)
        return out

    def _match_items(self, output: list[Data]) -> list[tuple[Data, _Item | None]]:
        """Pair each item of the final output with the streamed item, each only once.

        They match by id or index. The others then match by type, except calls.
        """
        left = list(self._items)
        found: dict[int, _Item] = {}
        for certain in (True, False):
            for at, data in enumerate(output):
                if at not in found and (item := _best_match(left, at, data, certain=certain)):
                    found[at] = item
                    left.remove(item)
        return [(data, found.get(at)) for at, data in enumerate(output)]


def _best_match(items: list[_Item], at: int, data: Data, *, certain: bool) -> _Item | None:
    by_type = not certain and _kind(data) not in _CALLS
    alike = [
        item for item in items if item.likeness(data) > (0 if by_type or item.index == at else 2)
    ]
    return max(alike, key=lambda item: item.likeness(data), default=None)


def _kind(data: Data) -> str:
    """Return an item's type. A search run by the provider is not a call."""
    kind = text_at(data, "type")
    return "hosted_search" if kind == _SEARCH and data.get("execution") != "client" else kind


def unanswered(items: Iterable[Data]) -> str:
    """Return the items a program must answer, as text. A hosted one comes with its output."""
    given = list(items)
    outputs = {text_at(item, "call_id") for item in given if _kind(item).endswith("_output")}
    names: list[str] = []
    for item in given:
        field = _FOR_CLIENTS.get(_kind(item))
        if field is not None and text_at(item, "call_id") not in outputs - {""}:
            name = text_at(item, field)[:_MAX_NAME_CHARS] if field else ""
            names.append(f"{_kind(item)} {name!r}" if name else _kind(item))
    return ", ".join(dict.fromkeys(names))


_MAX_NAME_CHARS = 100
_UNSUPPORTED = (
    "the reply has requests that your program must answer, and handrail cannot: {}. Offer function "
    "tools for these"
)


def _call_fields(data: Data) -> dict[str, Any]:
    fields = more_fields(data, _SEARCH_FIELDS if _kind(data) == _SEARCH else _CALL)
    return {key: value for key, value in fields.items() if (key, value) != ("caller", _DIRECT)}


def _stop(response: Data) -> Stop:
    status = response.get("status")
    if status == "incomplete":
        return _CUTS.get(text_at(object_at(response, "incomplete_details"), "reason"), "other")
    return "end" if status in ("completed", None) else "other"


def _reasoning_text(item: Data) -> str:
    summary = [text_at(part, "text") for part in objects_at(item, "summary")]
    return "\n\n".join(summary or [text_at(part, "text") for part in objects_at(item, "content")])


def _usage(response: Data) -> Usage:
    counts = object_at(response, "usage")
    input_ = object_at(counts, "input_tokens_details")
    output = object_at(counts, "output_tokens_details")
    return Usage(
        input_tokens=count_at(counts, "input_tokens"),
        output_tokens=count_at(counts, "output_tokens"),
        cached_tokens=count_at(input_, "cached_tokens"),
        cache_write_tokens=count_at(input_, "cache_write_tokens"),
        reasoning_tokens=count_at(output, "reasoning_tokens"),
    )
