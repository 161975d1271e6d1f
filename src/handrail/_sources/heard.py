"""Heard: what one run has heard, from people and from its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from handrail._labels.sources import SAID, ValueSource
from handrail._schema.marks import find_leaves
from handrail._sources.frames import FRAME, unframe
from handrail._sources.spelling import normalize, spell_said
from handrail._sources.words import find_whole
from handrail._support import is_list, is_object
from handrail._values.access import Access
from handrail._values.result import Result, read_result, write_result
from handrail._values.saved import VERSION, Fields, load, save

if TYPE_CHECKING:
    from handrail._sources.rows import OwnEntry

_MOST_FEEDS = 16
"""After these turns, a run listens even without a lookup."""
_BEFORE, _AFTER = 60, 40
"""Characters quoted around a value."""
HAS_READ = "has_read"
"""The key in a failed result's metadata if its text may quote what others wrote."""
_FORGOTTEN = "(forgotten)"
_CUT = " \0 "
"""Between a result's parts. No value has it."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.+Z-]*)?")


class HeardCall(NamedTuple):
    """An ended call and its result."""

    name: str
    args: Any
    """The arguments: JSON text, or an object."""
    result: Result

    @classmethod
    def of_text(cls, name: str, text: str) -> HeardCall:
        """Return a text from no tool, such as a quote in a prompt."""
        return cls(name, "{}", Result("", text))


class LastLookup(NamedTuple):
    """A call and its sources."""

    args: str
    accesses: tuple[Access, ...]
    marked: Mapping[str, Any] | None
    version: int
    found: tuple[ValueSource, ...]


class Feed(Protocol):
    """Returns what a run hears."""

    @property
    def is_idle(self) -> bool:
        """Whether it returns nothing more until it calls ``Heard.wake``."""
        ...

    def take(self, *, is_last: bool) -> Iterable[HeardCall | str]:
        """Return what was heard since this was last called: calls, and a person's words as text."""
        ...


class ReadText:
    """One result, in one spelling. Made when the first value is looked up."""

    __slots__ = ("_text", "call_id", "result", "tool")

    def __init__(self, call: HeardCall) -> None:
        self.call_id, self.tool, self.result = call.result.call_id, call.name, call.result
        self._text: str | None = None

    @property
    def text(self) -> str:
        """All its text."""
        if self._text is None:
            result = self.result
            if result.data is None:
                raw = result.text
                if raw[:1] in ("[", "{"):
                    raw = raw.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
                self._text = normalize(raw)
            else:
                self._text = normalize(_CUT.join(_list_words(json.loads(result.data))))
        return self._text

    def quote(self, value: str) -> tuple[str, str]:
        """Return where a value is, and the words around it as they were written."""
        raw, place = self.result.text, ""
        if self.result.data is not None:
            leaves = find_leaves(json.loads(self.result.data))
            found = (leaf for leaf in leaves if find_whole(value, normalize(leaf.value)) >= 0)
            leaf = next(found, None)
            if leaf is not None:
                place, raw = leaf
        return place, quote(raw, value)


def quote(raw: str, value: str) -> str:
    """Return a text's words around a value, on one line."""
    line = " ".join(raw.split())
    at = line.casefold().find(value)
    if at < 0:
        line = normalize(raw)
        at = max(0, find_whole(value, line))
    start, end = max(0, at - _BEFORE), at + len(value) + _AFTER
    return f"{'…' if start else ''}{line[start:end].strip()}{'…' if end < len(line) else ''}"


class Heard:
    """Remembers what people wrote in one run, and what its tools returned.

    Args:
        said: What people wrote.
        system: What the developer wrote. It names values as well.
        outer: What the outer run has heard, for a sub-agent.
        follows_turns: Whether an executor adds its turns' calls. Otherwise, you do.
        max_chars: Result characters to remember. The oldest are forgotten: calls with
            their names then ask more.
    """

    def __init__(
        self,
        said: Iterable[str] = (),
        *,
        system: str = "",
        outer: Heard | None = None,
        follows_turns: bool = True,
        max_chars: int | None = None,
    ) -> None:
        self.outer = outer
        self._max_chars, self._chars = max_chars, 0
        self.follows_turns = follows_turns
        self.said: list[str] = []
        """What people wrote, in one spelling; some texts in a plainer one, too."""
        self.calls: list[HeardCall] = []
        self.reads: list[ReadText] = []
        self.own: dict[str, list[OwnEntry]] = {}
        self.recorded: dict[str, tuple[ValueSource, ...]] = {}
        """Sources from another process, by call key."""
        self.progress: dict[str, int] = {}
        """How many results were searched for each value, in vain."""
        self.recorded_after: Mapping[str, str] | None = None
        """What came before a call in another process."""
        self._changes, self._noted = 0, 0
        self._firsts: dict[str, str] = {}
        self._first_read = ""
        self.last: LastLookup | None = None
        """What was looked up last, since a call is looked up several times."""
        self._raw: list[str] = []
        self._feeds: list[Feed] = []
        self._system = system
        self.say(system, *said)

    @property
    def unchanged(self) -> list[str]:
        """The texts from people and the developer, unchanged."""
        return self._raw

    @property
    def words(self) -> list[str]:
        """The texts from people, unchanged."""
        return [text for text in self._raw if text != self._system]

    @property
    def around(self) -> tuple[Heard, ...]:
        """This one, and those around it."""
        return (self,) if self.outer is None else (self, *self.outer.around)

    @property
    def version(self) -> int:
        """A number growing with everything heard, here and around."""
        return self._changes + (0 if self.outer is None else self.outer.version)

    def say(self, *texts: str) -> None:
        """Add what a person wrote."""
        for text in texts:
            if text and text not in self._raw:
                self._changes += 1
                self._raw.append(text)
                self.said += spell_said(text)

    def add(self, name: str, args: Any, result: Result) -> None:
        """Add a call that has ended. A failed one makes nothing known: errors repeat arguments."""
        is_failed = result.failure is not None and not result.metadata.get(HAS_READ)
        if is_failed or result.pending is not None:
            return
        if result.text.startswith(FRAME) and (text := unframe(result.text)) != result.text:
            result = result._replace(text=text)
        call = HeardCall(name, args, result)
        self._changes += 1
        self.calls.append(call)
        self.reads.append(ReadText(call))
        if result.own:
            self.say(*[one.value for one in result.own if one.scheme == SAID])
            from handrail._sources.rows import list_own  # loads patterns that few runs need

            for entry in list_own(*call):
                for value in entry.spell():
                    known = self.own.setdefault(value, [])
                    known.append(entry._replace(is_new=entry.is_new and not known))
        if self._max_chars is not None:
            self._chars += len(result.text)
            self._forget(self._max_chars)

    def _forget(self, most: int) -> None:
        """Forget the oldest results beyond a size, but not their tools' names."""
        self._note_firsts()
        while self._chars > most:
            oldest = self.reads.pop(0)
            self._chars -= len(oldest.result.text)
            self.progress = {}
            self.own = {
                value: left
                for value, entries in self.own.items()
                if (left := [one for one in entries if one.call_id != oldest.call_id])
            }
            at = next(n for n, one in enumerate(self.calls) if one.result is oldest.result)
            known = self.calls[:at]
            text = _FORGOTTEN if _has_material(oldest.result) else ""
            stub = HeardCall(oldest.tool, "{}", Result(oldest.call_id, text))
            same = any(
                one.name == stub.name and bool(one.result.text) is bool(text) for one in known
            )
            self.calls[at : at + 1] = [] if same else [stub]
        self._noted = len(self.calls)

    def follow(self, feed: Feed) -> None:
        """Listen to a feed when a value is looked up, or many others follow."""
        self._feeds.append(feed)
        if len(self._feeds) > _MOST_FEEDS:
            self.catch_up()

    def wake(self, feed: Feed) -> None:
        """Listen to a feed again. The one that followed last is never idle."""
        if feed not in self._feeds:
            self._feeds.insert(0, feed)

    def catch_up(self) -> None:
        """Take what was heard since a value was last looked up."""
        last = self._feeds[-1] if self._feeds else None
        for feed in self._feeds:
            for one in feed.take(is_last=feed is last):
                if isinstance(one, str):
                    self.say(one)
                else:
                    self.add(*one)
        if len(self._feeds) > 1:
            self._feeds = [one for one in self._feeds if not one.is_idle]
        if self.outer is not None:
            self.outer.catch_up()

    def find_first(self, is_private: Callable[[str], bool]) -> dict[str, str]:
        """Return the first calls that read text of strangers, and something private."""
        self._note_firsts()
        around = {} if self.outer is None else self.outer.find_first(is_private)
        private = next((call for name, call in self._firsts.items() if is_private(name)), "")
        return {
            "read": self._first_read or around.get("read", ""),
            "private": private or around.get("private", ""),
        }

    def _note_firsts(self) -> None:
        """Note the first calls that matter to rules, once for each call."""
        for call in self.calls[self._noted :]:
            named = f"{call.name} (call {call.result.call_id})"
            self._firsts.setdefault(call.name, named)
            if not self._first_read and _has_material(call.result):
                self._first_read = named
        self._noted = len(self.calls)

    def recall(
        self, args: str, accesses: tuple[Access, ...], marked: object
    ) -> tuple[ValueSource, ...] | None:
        """Return the sources of the call looked up last, as the policy saw it, or None."""
        last = self.last
        if last is None or last.args is not args or last.accesses is not accesses or not accesses:
            return None
        is_same = last.marked is marked and last.version == self.version
        return last.found if is_same else None

    def to_json(self) -> str:
        """Return JSON text for ``from_json``, for the same run in another process."""
        self.catch_up()
        calls = [
            [call.name, _args_text(call.args), write_result(call.result)] for call in self.calls
        ]
        return save({"v": VERSION, "said": self._raw, "calls": calls})

    @classmethod
    def from_json(cls, text: str) -> Heard:
        """Read what ``to_json`` wrote. Raises ValueError for any other text."""
        return load("Heard", text, _read_heard)


def _read_heard(value: object) -> Heard:
    saved = Fields.with_version(value, ("said", "calls"))
    heard = Heard(saved.texts("said"))
    for call in saved.items("calls"):
        several: list[Any] = Fields({"call": call}, ("call",)).items("call")
        name, args, result = several
        heard.add(str(name), args, read_result(result))
    return heard


def _args_text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(dict(args))


def _has_material(result: Result) -> bool:
    """Return whether a stranger may have written text in a result.

    A number, a truth value, a date, or one of the developer's choices is no such text.
    """
    own = {one.value for one in result.own}
    if result.data is None:
        return bool(result.text) and result.text not in own
    value: Any = json.loads(result.data)
    words = list(_list_words(value))
    if isinstance(value, int | float) or (len(words) == 1 and _DATE.fullmatch(words[0])):
        return False
    return any(leaf.value not in own for leaf in find_leaves(value))


def _list_words(value: Any) -> Iterator[str]:
    """Yield the strings, numbers and keys in a value."""
    if is_object(value):
        for key, item in value.items():
            yield str(key)
            yield from _list_words(item)
    elif is_list(value):
        for item in value:
            yield from _list_words(item)
    else:
        yield from (leaf.value for leaf in find_leaves(value))
