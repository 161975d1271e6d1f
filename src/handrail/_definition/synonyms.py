"""Read arguments by other names models know, if they have one reading."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

from handrail._support import is_object
from handrail._values.strict_json import clip, format_value

ReadField: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Takes all arguments; returns the fields one of them means, or None if unclear."""
Synonyms: TypeAlias = Mapping[str, str | ReadField]
"""For a field models send, the argument with the same meaning, or a function."""

_SEVERAL = 2


class Reread(NamedTuple):
    """Arguments in which synonyms are replaced, and a note for the model on each."""

    value: dict[str, Any]
    notes: tuple[str, ...]


def read_synonyms(value: Any, synonyms: Synonyms, parameters: Collection[str]) -> Reread | None:
    """Replace synonyms in invalid arguments, or return None if there are none.

    A field given under two names stays: it is unclear that one counts. A parameter read as several
    needs no note: the model has used a valid name.
    """
    if not is_object(value):
        return None
    meant, notes, changed = dict(value), list[str](), False
    for name, target in synonyms.items():
        if name not in meant:
            continue
        fields = {target: meant[name]} if isinstance(target, str) else target(dict(meant))
        others = meant.keys() - {name}
        if fields is None or not others.isdisjoint(fields):  # one reading or none: decision 044
            continue
        meant = {key: meant[key] for key in meant if key != name} | dict(fields)
        changed = True
        if len(fields) < _SEVERAL or name not in parameters:
            notes.append(f"{clip(name)}: {_describe(target, fields)}")
    return Reread(meant, tuple(notes)) if changed else None


def _describe(target: str | ReadField, fields: Mapping[str, Any]) -> str:
    if isinstance(target, str):
        return f"was read as {target}"
    if len(fields) == 1:
        (name, value), *_ = fields.items()
        return f"was read as {clip(f'{name}={format_value(value)}')}"
    return f"was read as {clip(', '.join(fields))}" if fields else "was ignored"


def check_synonyms(synonyms: Mapping[str, object], parameters: Collection[str]) -> str:
    """Return what is wrong with a tool's synonyms; empty if nothing is."""
    for name, target in synonyms.items():
        if isinstance(target, str) and target not in parameters:
            return f"the synonym {name!r} means {target!r}, which is not a parameter"
        if isinstance(target, str) and name in parameters:
            return f"the synonym {name!r} is the name of a parameter"
        if not isinstance(target, str) and not callable(target):
            return f"the synonym {name!r} must be the name of a parameter, or a function"
    return ""
