"""A history as any wire needs it: each call with its result, ids that fit, and what is lost."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from handrail import Call, File, Image, Result
from handrail.messages import Cut, Message, Prompt, Reply, Results, Thought, wire_name
from handrail.providers._ids import fitted
from handrail.providers._read import Arguments, arguments, dumped, sayable

Request: TypeAlias = dict[str, Any]
"""A part of a request's body."""

PICTURES = frozenset(("image/gif", "image/jpeg", "image/png", "image/webp"))
PDF = frozenset(("application/pdf",))
FAILED = "Failed: "
"""What a failed result begins with, where a wire has no flag for it."""

_TEXTUAL = frozenset(
    f"application/{kind}" for kind in "javascript json sql toml x-sh xml x-yaml yaml".split()
)

_NO_ARGS = Arguments({}, exact=False)


@dataclass(slots=True)
class Ledger:
    """What a wire cannot carry, noted while a history is written."""

    wire: str
    lost: list[str] = field(default_factory=list[str])
    at: int = 0

    def lose(self, what: str) -> None:
        """Note a loss, in words, with the place of the message."""
        self.lost.append(f"messages[{self.at}]: {what}")

    def text(self, text: str) -> str:
        """Text that can be sent."""
        said = sayable(text)
        if said != text:
            self.lose("half a character in the text is replaced")
        return said

    def args(self, call: Call | Cut) -> Request:
        """A call's arguments as an object; none where there are none that could be sent."""
        return self._args(call).value

    def args_text(self, call: Call | Cut) -> str:
        """A call's arguments as JSON text: as it came, where that is the text of an object."""
        value, exact = self._args(call)
        text = call.args if isinstance(call.args, str) else dumped(value)
        return text if exact else dumped(value)

    def _args(self, call: Call | Cut) -> Arguments:
        if isinstance(call, Cut):
            self.lose(f"the call {call.id!r} was cut off; it goes without arguments")
            return _NO_ARGS
        found = arguments(call.args)
        if found is None:
            self.lose(f"the arguments of the call {call.id!r} are no JSON object; it goes without")
            return _NO_ARGS
        if not found.exact:
            self.lose(f"the arguments of the call {call.id!r} go as the object that they say")
        return found

    def foreign(self, thought: Thought) -> bool:
        """Whether a thought cannot go back, since it came over another wire."""
        if thought.wire != self.wire:
            self.lose(f"a thought from {thought.wire or 'elsewhere'} is left out")
        return thought.wire != self.wire

    def flag(self, result: Result) -> str:
        """What to say before the words of a result, where only words can say that it failed."""
        if result.failure:
            self.lose(f"that {result.call_id!r} failed is said in words")
        elif result.text.startswith(FAILED):
            self.lose(f"that {result.call_id!r} did not fail cannot be seen from its words")
        return FAILED if result.failure else ""

    def left_out(self, part: Image | File) -> str:
        """The words that stand for what cannot be shown."""
        kind, size = sayable(part.media_type), len(part.data)
        name = f"The file {sayable(part.name)!r}" if isinstance(part, File) else "A picture"
        self.lose(f"{name[0].lower()}{name[1:]} of type {kind} is left out")
        return f"[{name} ({kind}, {size:,} bytes) is left out: it cannot be shown here.]"


def lost_by(
    write: Callable[[Sequence[Message], Ledger], object], messages: Sequence[Message], wire: str
) -> tuple[str, ...]:
    """What a wire cannot carry of a history, each in words."""
    ledger = Ledger(wire)
    write(messages, ledger)
    return tuple(ledger.lost)


@dataclass(frozen=True, slots=True)
class Turn:
    """A message, its place, and what its calls are called on the wire."""

    at: int
    message: Message
    calls: tuple[Call | Cut, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict[str, str])

    def answered(self, results: Results) -> Iterator[tuple[Call | Cut, str, Result]]:
        """Each result with its call and the call's id on the wire, in the calls' order."""
        found = {result.call_id: result for result in results.results}
        for call in self.calls:
            yield call, self.ids[call.id], found[call.id]


def turns(messages: Sequence[Message], longest: int = 64) -> list[Turn]:
    """The messages in order; ValueError where calls and results do not belong together."""
    times: dict[str, int] = {}
    made: list[Turn] = []
    before = Turn(-1, Prompt(()))
    for at, message in enumerate([*messages, None]):
        owed = before.calls if isinstance(before.message, Reply) else ()
        _paired(owed, message.results if isinstance(message, Results) else (), at)
        if isinstance(message, Reply):
            calls = tuple(part for part in message.parts if isinstance(part, Call | Cut))
            ids = {call.id: fitted(call.id, times.get(call.id, 0), longest) for call in calls}
            times |= {call.id: times.get(call.id, 0) + 1 for call in calls}
            _distinct(calls, at)
            before = Turn(at, message, calls, ids)
        elif message is not None:
            before = Turn(at, message, owed, before.ids)
        made.append(before)
    return made[:-1]


def _paired(calls: tuple[Call | Cut, ...], results: tuple[Result, ...], at: int) -> None:
    open_calls = {call.id: call for call in calls}
    for result in results:
        if open_calls.pop(result.call_id, None) is None:
            raise ValueError(
                f"messages[{at}] has a result for {result.call_id!r}: "
                "no call of the reply right before it waits for one"
            )
    for call in open_calls.values():
        raise ValueError(
            f"the call {call.id!r} of {call.name!r} in messages[{at - 1}] has no result: "
            "it has to stand in the message right after"
        )


def _distinct(calls: tuple[Call | Cut, ...], at: int) -> None:
    seen: set[str] = set()
    for call in calls:
        if call.id in seen:
            raise ValueError(f"two calls in messages[{at}] have the id {call.id!r}")
        seen.add(call.id)


def called(call: Call | Cut) -> str:
    """The name of a call's tool on the wire."""
    return wire_name(sayable(call.name))


def kind_of(part: Image | File) -> str:
    """The media type alone, without its parameters."""
    return part.media_type.partition(";")[0].strip().lower()


def viewable(part: Image | File, kinds: AbstractSet[str]) -> bool:
    """Whether it is of one of these media types, and not empty: that is refused, too."""
    return bool(part.data) and kind_of(part) in kinds


def words_of(file: File) -> str | None:
    """The words of a file that consists of words; None for any other."""
    kind = kind_of(file)
    if not (kind.startswith("text/") or kind in _TEXTUAL or kind.endswith(("+json", "+xml"))):
        return None
    try:
        return file.data.decode() or None
    except UnicodeDecodeError:
        return None


def base64(part: Image | File) -> str:
    """The bytes of a picture or a file, as JSON can carry them."""
    return b64encode(part.data).decode()


def data_url(part: Image | File) -> str:
    """The bytes of a picture or a file, and what they are, in one text."""
    return f"data:{kind_of(part)};base64,{base64(part)}"
