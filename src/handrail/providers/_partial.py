"""Arguments that come as values with paths, put together as JSON text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from handrail.providers._read import Wire, dumped, text_at

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class _Branch(dict[str | int, Any]):
    """An object, by keys, or a list, by places."""


class Partial:
    """The arguments of one call, so far."""

    def __init__(self) -> None:
        self._root = _Branch()
        self._going_on: set[str] = set()
        self._lost = False

    @property
    def text(self) -> str:
        """The JSON text. It has no end where a value had no place: nobody runs such a call."""
        try:
            whole = dumped(_grown(self._root))
        except ValueError:
            return "{"
        return whole[:-1] if self._lost else whole

    def add(self, args: Wire, partial: Iterable[Wire]) -> None:
        """Take in arguments that came whole, and values for single paths."""
        self._root.update(args)
        for one in partial:
            path, kind = text_at(one, "jsonPath"), next((k for k in _VALUES if k in one), None)
            if kind is not None:
                value = None if kind == "nullValue" else one[kind]
                self._lost |= not self._put(_steps(path), value, more=path in self._going_on)
            (self._going_on.add if one.get("willContinue") else self._going_on.discard)(path)

    def _put(self, steps: list[str | int], value: Any, *, more: bool) -> bool:
        """Put a value at a place, or add text to what is there; False where there is no place."""
        if not steps:
            return False
        here = self._root
        for step in steps[:-1]:
            found = here.setdefault(step, _Branch())
            if not isinstance(found, _Branch):
                return False
            here = found
        old = here.get(steps[-1])
        joins = more and isinstance(old, str) and isinstance(value, str)
        here[steps[-1]] = f"{old}{value}" if joins else value
        return True


def _grown(value: Any) -> Any:
    """Branches as objects and lists; ValueError where one would have to be both."""
    if not isinstance(value, _Branch):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: _grown(one) for key, one in value.items()}
    if set(value) != set(range(len(value))):
        raise ValueError("a list with gaps, or with keys")
    return [_grown(value[at]) for at in range(len(value))]


def _steps(path: str) -> list[str | int]:
    """The steps of a path like ``$.lines[2].sku``; none where it is no such path."""
    found = list(_STEP.finditer(path, 1))
    if path[:1] != "$" or "".join(step[0] for step in found) != path[1:]:
        return []
    return [int(step[2]) if step[2] else _key(step) for step in found]


def _key(step: re.Match[str]) -> str:
    return step[1] or re.sub(r"\\(.)", r"\1", step[3] or step[4] or "")
