"""Prepare a history for any API: pair calls with results, fit ids, and collect losses."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, cast

from handrail import Call, File, Image, Result
from handrail.messages import (
    Message,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    ReplyPart,
    ToolResults,
    TruncatedCall,
    api_name,
)
from handrail.providers._formats.ids import MAX_ID_CHARS, fit_id
from handrail.providers._formats.tolerant import ArgumentObject, arguments, dump, sendable

BodyPart: TypeAlias = dict[str, Any]
"""A request body part."""

IMAGE_TYPES = frozenset(("image/gif", "image/jpeg", "image/png", "image/webp"))
PDF_TYPES = frozenset(("application/pdf",))
FAILED = "Failed: "
"""Prefix for failed results in APIs without a failure flag."""

_TEXTUAL = frozenset(
    f"application/{kind}" for kind in "javascript json sql toml x-sh xml x-yaml yaml".split()
)

_NO_ARGS = ArgumentObject({}, exact=False)


@dataclass(slots=True)
class Losses:
    """Collects what an API cannot represent while a history is written."""

    api: str
    notes: list[str] = field(default_factory=list[str])
    at: int = 0

    def add(self, what: str) -> None:
        """Record a loss with its message index."""
        self.notes.append(f"messages[{self.at}]: {what}")

    def text(self, text: str) -> str:
        """Return encodable text."""
        encodable = sendable(text)
        if encodable != text:
            self.add("an incomplete character in the text is replaced")
        return encodable

    def args(self, call: Call | TruncatedCall) -> BodyPart:
        """Return a call's arguments as an object, empty if they cannot be sent."""
        return self._args(call).value

    def args_text(self, call: Call | TruncatedCall) -> str:
        """Return a call's arguments as JSON text, unchanged if it is an object already."""
        value, exact = self._args(call)
        text = call.args if isinstance(call.args, str) else dump(value)
        return text if exact else dump(value)

    def _args(self, call: Call | TruncatedCall) -> ArgumentObject:
        if isinstance(call, TruncatedCall):
            self.add(f"the call {call.id!r} was truncated; it is sent without arguments")
            return _NO_ARGS
        value = arguments(call.args)
        if value is None:
            self.add(f"the arguments of the call {call.id!r} are not a JSON object; none are sent")
            return _NO_ARGS
        if not value.exact:
            self.add(f"the arguments of the call {call.id!r} are sent as the parsed object")
        return value

    def is_foreign(self, thought: Reasoning) -> bool:
        """Whether reasoning cannot be sent because it came from another API."""
        if thought.api != self.api:
            self.add(f"reasoning from {thought.api or 'another API'} is omitted")
        return thought.api != self.api

    def data(self, part: Opaque) -> BodyPart:
        """Return what a provider sent, or an empty object if it came from another API."""
        value = parse_object(part.data)
        if part.api == self.api and value:
            return value
        source = part.api or "another API"
        if part.kind == "fields" and value:
            for name in value:
                self.add(f"the field {name!r} from {source} is omitted")
        else:
            self.add(f"the part {kind_of(value)!r} from {source} is omitted")
        return {}

    def add_unsent(self, part: Opaque) -> None:
        """Record a part no API accepts in a request for this format."""
        if data := self.data(part):
            self.add(f"the part {kind_of(data)!r} is omitted")

    def fields(self, fields: BodyPart, sent: Collection[str] = ()) -> BodyPart:
        """Return the fields an API accepts in a request."""
        for name in fields:
            if name not in sent:
                self.add(f"the field {name!r} is omitted")
        return {name: value for name, value in fields.items() if name in sent}

    def failure_prefix(self, result: Result) -> str:
        """Return the text before a failed result, for APIs without a failure flag."""
        if result.failure:
            self.add(f"the failure of {result.call_id!r} is marked only in its text")
        elif result.text.startswith(FAILED):
            self.add(f"the text of {result.call_id!r} looks like a failure, but it succeeded")
        return FAILED if result.failure else ""

    def add_found(self, result: Result) -> None:
        """Record a result shown as its found tools, without its text."""
        if result.text or result.parts:
            self.add(f"the text of {result.call_id!r} is omitted: the model reads what it found")

    def placeholder(self, part: Image | File) -> str:
        """Return the text replacing a part the API does not support."""
        kind, size = sendable(part.media_type), len(part.data)
        name = f"file {sendable(part.name)!r}" if isinstance(part, File) else "image"
        self.add(f"the {name} of type {kind} is omitted")
        return (
            f"[{name[0].upper()}{name[1:]} ({kind}, {size:,} bytes) omitted: not supported here.]"
        )


def parse_object(data: str) -> BodyPart:
    """Return a JSON object from its text. It is empty if the text is something else."""
    try:
        value: Any = json.loads(sendable(data))
    except (ValueError, RecursionError):
        return {}
    return cast("BodyPart", value) if isinstance(value, dict) else {}


def kind_of(part: BodyPart) -> str:
    """Return the type of a part handrail does not read."""
    return str(part.get("type") or next(iter(part), "unknown"))


def parts_with_fields(reply: Reply, lost: Losses) -> Iterator[tuple[ReplyPart | None, BodyPart]]:
    """Yield each part with the other fields belonging to it, then None with the reply's fields."""
    fields: BodyPart = {}
    for part in reply.parts:
        if isinstance(part, Opaque) and part.kind == "fields":
            fields |= lost.data(part)
        else:
            yield part, fields
            fields = {}
    yield None, fields


@dataclass(frozen=True, slots=True)
class PlacedMessage:
    """A message, its index, and its calls' ids in the request."""

    at: int
    message: Message
    calls: tuple[Call | TruncatedCall, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict[str, str])

    def pair_results(
        self, results: ToolResults
    ) -> Iterator[tuple[Call | TruncatedCall, str, Result]]:
        """Yield each call, its id in the request and its result, in call order."""
        by_id = {result.call_id: result for result in results.results}
        for call in self.calls:
            yield call, self.ids[call.id], by_id[call.id]


class HistoryWriter:
    """Writes a history for an API. It can grow, and each message is written once."""

    def __init__(
        self,
        lost: Losses,
        write: Callable[[PlacedMessage], list[BodyPart]],
        *,
        prepare: Callable[[list[PlacedMessage]], None] | None = None,
        longest_id: int = MAX_ID_CHARS,
    ) -> None:
        self.written: list[BodyPart] = []
        self.fields: BodyPart = {}
        """Other fields of a request."""
        self.has_prompt = False
        self.lost = lost
        self._write = write
        self._prepare = prepare
        """Called with new messages before they are written."""
        self._longest_id = longest_id
        self._times: dict[str, int] = {}
        self._before = PlacedMessage(-1, Prompt(()))

    def add(self, messages: Sequence[Message]) -> Self:
        """Write more messages. Raises ValueError if calls and results do not match."""
        turns = self._place(messages)
        if self._prepare is not None:
            self._prepare(turns)
        for turn in turns:
            self.lost.at = turn.at
            self.has_prompt |= isinstance(turn.message, Prompt)
            self.written += self._write(turn)
        return self

    def _place(self, messages: Sequence[Message]) -> list[PlacedMessage]:
        """Return the messages with their ids."""
        placed: list[PlacedMessage] = []
        before, times = self._before, self._times
        for at, message in enumerate([*messages, None], before.at + 1):
            owed = before.calls if isinstance(before.message, Reply) else ()
            _check_pairs(owed, message.results if isinstance(message, ToolResults) else (), at)
            if isinstance(message, Reply):
                calls = tuple(one for one in message.parts if isinstance(one, Call | TruncatedCall))
                used = [(call.id, times.get(call.id, 0)) for call in calls]
                ids = {name: fit_id(name, often, self._longest_id) for name, often in used}
                times |= {name: often + 1 for name, often in used}
                _check_distinct(calls, at)
                before = PlacedMessage(at, message, calls, ids)
            elif message is not None:
                before = PlacedMessage(at, message, owed, before.ids)
            placed.append(before)
        self._before = before
        return placed[:-1]


def _check_pairs(
    calls: tuple[Call | TruncatedCall, ...], results: tuple[Result, ...], at: int
) -> None:
    open_calls = {call.id: call for call in calls}
    for result in results:
        if open_calls.pop(result.call_id, None) is None:
            raise ValueError(
                f"messages[{at}] has a result for {result.call_id!r}, but the reply before it has "
                "no such call. Put results directly after the reply with their calls."
            )
    for call in open_calls.values():
        raise ValueError(
            f"The call {call.id!r} of {call.name!r} in messages[{at - 1}] has no result. "
            "Add one to a ToolResults message directly after it."
        )


def _check_distinct(calls: tuple[Call | TruncatedCall, ...], at: int) -> None:
    seen: set[str] = set()
    for call in calls:
        if call.id in seen:
            raise ValueError(f"Two calls in messages[{at}] have the id {call.id!r}.")
        seen.add(call.id)


def call_name(call: Call | TruncatedCall) -> str:
    """Return the name of a call's tool in its API form."""
    return api_name(sendable(call.name))


def media_type_of(part: Image | File) -> str:
    """Return the media type without its parameters."""
    return part.media_type.partition(";")[0].strip().lower()


def is_viewable(part: Image | File, kinds: AbstractSet[str]) -> bool:
    """Whether a part is not empty and has one of these media types. APIs reject empty parts."""
    return bool(part.data) and media_type_of(part) in kinds


def text_of(file: File) -> str | None:
    """Return a text file's text, or None for other files."""
    kind = media_type_of(file)
    if not (kind.startswith("text/") or kind in _TEXTUAL or kind.endswith(("+json", "+xml"))):
        return None
    try:
        return file.data.decode() or None
    except UnicodeDecodeError:
        return None


def base64(part: Image | File) -> str:
    """Encode an image's or file's bytes as base64 text."""
    return b64encode(part.data).decode()


def data_url(part: Image | File) -> str:
    """Encode an image or a file as a data URL."""
    return f"data:{media_type_of(part)};base64,{base64(part)}"
