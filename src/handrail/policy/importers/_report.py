"""The import result: one note for each rule, and the rules replacing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from handrail.policy._rules.parse import parse
from handrail.policy._rules.rule import Level
from handrail.policy._rules.toml_text import rule_text

Fate: TypeAlias = Literal["imported", "inert", "widened", "narrowed", "lost"]
"""The result for one rule.

``imported``: it means the same. ``inert``: it had no effect, and is skipped. ``widened``: a deny or
an ask matching more. ``narrowed``: an allow for less. ``lost``: handrail has no equivalent.
"""
Table: TypeAlias = Mapping[str, Any]
"""A handrail rule as a TOML table."""
_MAX_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Note:
    """The result for one rule, and why."""

    kind: Fate
    source: str
    """The original rule."""
    why: str = ""
    """Empty if the kind says everything."""

    def __str__(self) -> str:
        rule = " ".join(self.source.split())
        shown = rule if len(rule) <= _MAX_SHOWN_CHARS else f"{rule[: _MAX_SHOWN_CHARS - 1]}…"
        return f"{self.kind}: {shown}" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True, slots=True)
class Imported:
    """The translated rules, and a note for each original rule."""

    text: str
    """A handrail rule file, with each note as a comment above its rules."""
    notes: tuple[Note, ...]


class RuleTranslation(NamedTuple):
    """One rule's translation."""

    kind: Fate
    why: str = ""
    tables: tuple[Table, ...] = ()
    mode: str = ""


class TranslatedRule(NamedTuple):
    """An original rule and its translation."""

    source: str
    translation: RuleTranslation


def report(rules: Iterable[TranslatedRule]) -> Imported:
    """Return the translations as one file, checking its syntax.

    A translation with a mode must come first, or TOML would read the mode as a rule's key.
    """
    notes: list[Note] = []
    blocks: list[str] = []
    for source, translation in rules:
        note = Note(translation.kind, source, translation.why)
        mode = [f'mode = "{translation.mode}"\n'] if translation.mode else []
        notes.append(note)
        tables = [rule_text(table) for table in translation.tables]
        blocks.append("\n".join([f"# {_printable(str(note))}", *mode, *tables]).rstrip("\n") + "\n")
    text = "\n".join(blocks)
    parse(text, file="imported", level=Level.RUN)
    return Imported(text, tuple(notes))


def as_list(value: object) -> list[Any] | None:
    """Return a list's items, or None if the value is not a list."""
    return list(cast("Iterable[Any]", value)) if isinstance(value, list) else None


def _printable(text: str) -> str:
    """Return text that cannot end its own comment."""
    return "".join(char if char.isprintable() else "?" for char in text)
