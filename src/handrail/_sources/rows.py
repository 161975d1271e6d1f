"""Rows: your own systems' values in a result, and what each row calls its thing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from handrail._labels.sources import OwnValue
from handrail._schema.marks import find_leaves
from handrail._sources.names import spell_names
from handrail._sources.naming import is_phrase, spell_own
from handrail._sources.spelling import normalize_value
from handrail._support import is_list, is_object
from handrail._values.result import Result

_NAMES = re.compile(
    r"(?:^|[._])(?:name|username|filename|title|label|handle|e?mail|subject)$", re.IGNORECASE
)
"""Fields that say what a thing is called."""
_PARTIES = re.compile(
    r"(?:^|_)(?:e?mail|phone|tel|telephone|mobile|fax|iban|account|login|user|username|handle|member|contact|parent"
    r"|owner|client|customer|tenant|patient|pupil|student|guest|employee|supplier|vendor|firm|company)$",
    re.IGNORECASE,
)
"""A person's or a firm's fields: one word in the name can be enough."""
_PLACES = re.compile(
    r"(?:[._]|^)(?:city|town|place|location|address|street|region|country|category|type|kind|trade)$",
    re.IGNORECASE,
)
"""Fields for places and kinds: their words are in many names."""


class OwnEntry(NamedTuple):
    """An own value, and where it was read."""

    own: OwnValue
    call_id: str
    tool: str
    names: tuple[str, ...]
    """What the same row calls the thing, if no other row in the result does."""
    is_party: bool
    """Whether the row is about a person or a firm."""
    title: str
    """The same, for a person: also if a stranger can set it."""
    is_new: bool

    def is_same_row(self, other: OwnEntry) -> bool:
        """Return whether another value is in this row, or in one with the same name."""
        is_here = (self.call_id, row_of(self.own)) == (other.call_id, row_of(other.own))
        return is_here or not set(self.names).isdisjoint(other.names)

    def spell(self) -> list[str]:
        """Return how the value is found."""
        kinds = (self.own.scheme, self.own.place.rpartition(".")[2])
        return spell_own(normalize_value(self.own.value), frozenset(map(str.casefold, kinds)))

    @property
    def is_about_place(self) -> bool:
        """Whether it says where something is, or which kind."""
        return _PLACES.search(self.own.place) is not None


def list_own(name: str, args: Any, result: Result) -> Iterator[OwnEntry]:
    """Yield own values, each with what its row calls the thing."""
    own, data = result.own, result.data
    given = (
        {normalize_value(value) for value in _given(args)}
        if any(one.is_new for one in own)
        else set[str]()
    )
    called = _find_called(own)
    if len(own) == 1 and not own[0].place and len(asked := _given(args)) == 1:
        called[""] = spell_names(normalize_value(asked[0]))  # what was asked for names the answer
    parties = {row_of(one) for one in own if _PARTIES.search(one.place.rpartition(".")[2])}
    titles = _find_titles(json.loads(data)) if data is not None else {}
    for one in own:
        row = row_of(one)
        title = titles.get(row, "")
        is_new = one.is_new and normalize_value(one.value) not in given
        yield OwnEntry(
            own=one,
            call_id=result.call_id,
            tool=name,
            names=tuple(called.get(row, ())),
            is_party=row in parties or (not one.place and "@" in one.value),
            title="" if title == one.value else title,
            is_new=is_new,
        )


def row_of(one: OwnValue) -> str:
    """Return the place of the row with an own value. A list's item is its own row."""
    row, _, field = one.place.rpartition(".")
    return one.place if field.endswith("]") else row


def _given(args: Any) -> list[str]:
    value = json.loads(args or "{}") if isinstance(args, str) else dict(args)
    return [leaf.value for leaf in find_leaves(value)]


def _find_called(own: Sequence[OwnValue]) -> dict[str, list[str]]:
    """Return the names in each row, without those in several rows."""
    rows: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for one in own:
        row, field = row_of(one), one.place.rpartition(".")[2]
        if field and (_NAMES.search(field) or is_phrase(one.value)):
            for name in spell_names(normalize_value(one.value)):
                rows.setdefault(row, []).append(name)
                counts[name] = counts.get(name, 0) + 1
    return {row: [name for name in names if counts[name] == 1] for row, names in rows.items()}


def _find_titles(data: Any, place: str = "") -> dict[str, str]:
    """Return what each row is called."""
    if is_list(data):
        found = [_find_titles(item, f"{place}[{index}]") for index, item in enumerate(data)]
        return {row: title for one in found for row, title in one.items()}
    if not is_object(data):
        return {}
    named = [value for key, value in data.items() if _NAMES.search(key) and isinstance(value, str)]
    made = {place: named[0]} if named else {}
    for key, item in data.items():
        made |= _find_titles(item, f"{place}.{key}" if place else key)
    return made
