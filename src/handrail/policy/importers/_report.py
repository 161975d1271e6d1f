"""What became of somebody else's rules: one note on each, and the rules that stand for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from handrail.policy._file import parse
from handrail.policy._rule import Level
from handrail.policy._toml import rule_text

Fate: TypeAlias = Literal["imported", "inert", "widened", "narrowed", "lost"]
"""What became of a rule.

It means the same here; it did nothing there, and is left out; as a deny or an ask it means more
here; as an allow it means less here; it cannot be said here at all.
"""
Table: TypeAlias = Mapping[str, Any]
"""A rule as our files write it."""
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Note:
    """What became of one rule, and why."""

    kind: Fate
    source: str
    """The rule as it stood there."""
    why: str = ""
    """Empty where there is nothing more to say."""

    def __str__(self) -> str:
        rule = " ".join(self.source.split())
        shown = rule if len(rule) <= _SHOWN else f"{rule[: _SHOWN - 1]}…"
        return f"{self.kind}: {shown}" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True, slots=True)
class Imported:
    """Rules of ours, and a note on each rule that they were made of."""

    text: str
    """A rule file of ours; each note stands in it above the rules that came of it."""
    notes: tuple[Note, ...]


class Draft(NamedTuple):
    """What a rule becomes."""

    kind: Fate
    why: str = ""
    tables: tuple[Table, ...] = ()
    mode: str = ""


class Entry(NamedTuple):
    """A rule as it stood there, and what it becomes."""

    source: str
    draft: Draft


def report(entries: Iterable[Entry]) -> Imported:
    """Entries as one file, read once to be certain that it can be.

    An entry with a mode comes first, or TOML takes it for a rule's.
    """
    notes: list[Note] = []
    blocks: list[str] = []
    for source, draft in entries:
        note = Note(draft.kind, source, draft.why)
        mode = [f'mode = "{draft.mode}"\n'] if draft.mode else []
        notes.append(note)
        tables = [rule_text(table) for table in draft.tables]
        blocks.append("\n".join([f"# {_printable(str(note))}", *mode, *tables]).rstrip("\n") + "\n")
    text = "\n".join(blocks)
    parse(text, file="imported", level=Level.RUN)
    return Imported(text, tuple(notes))


def listed(value: object) -> list[Any] | None:
    """The items of a list; None where it is none."""
    return list(cast("Iterable[Any]", value)) if isinstance(value, list) else None


def _printable(text: str) -> str:
    """Text that ends neither its line nor the comment that it stands in."""
    return "".join(char if char.isprintable() else "?" for char in text)
