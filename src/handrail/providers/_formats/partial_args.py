"""Assemble arguments that arrive as values with paths into JSON text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from handrail.providers._formats.tolerant import Data, dump, text_at

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class _PartialValue(dict[str | int, Any]):
    """An object by key, or a list by index."""


class PartialArguments:
    """The arguments of one call that were received so far."""

    def __init__(self) -> None:
        self._root = _PartialValue()
        self._continuing: set[str] = set()
        self._lost = False

    @property
    def text(self) -> str:
        """The JSON text. It stays unclosed if a value did not fit, so the call is never run."""
        try:
            whole = dump(_build(self._root))
        except ValueError:
            return "{"
        return whole[:-1] if self._lost else whole

    def add(self, args: Data, partial: Iterable[Data]) -> None:
        """Add whole arguments, and values for single paths."""
        self._root.update(args)
        for update in partial:
            path, kind = (
                text_at(update, "jsonPath"),
                next((k for k in _VALUES if k in update), None),
            )
            if kind is not None:
                value = None if kind == "nullValue" else update[kind]
                self._lost |= not self._put(_steps(path), value, more=path in self._continuing)
            (self._continuing.add if update.get("willContinue") else self._continuing.discard)(path)

    def _put(self, steps: list[str | int], value: Any, *, more: bool) -> bool:
        """Set a value at a path, or append text to it. Return False if the path is invalid."""
        if not steps:
            return False
        here = self._root
        for step in steps[:-1]:
            branch = here.setdefault(step, _PartialValue())
            if not isinstance(branch, _PartialValue):
                return False
            here = branch
        old = here.get(steps[-1])
        joins = more and isinstance(old, str) and isinstance(value, str)
        here[steps[-1]] = f"{old}{value}" if joins else value
        return True


def _build(value: Any) -> Any:
    """Convert to objects and lists. Raises ValueError if a value would have to be both."""
    if not isinstance(value, _PartialValue):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: _build(item) for key, item in value.items()}
    if set(value) != set(range(len(value))):
        raise ValueError("A list has gaps or keys.")
    return [_build(value[at]) for at in range(len(value))]


def _steps(path: str) -> list[str | int]:
    """Split a path like ``$.lines[2].sku``. Return an empty list if it is not such a path."""
    steps = list(_STEP.finditer(path, 1))
    if path[:1] != "$" or "".join(step[0] for step in steps) != path[1:]:
        return []
    return [int(step[2]) if step[2] else _key(step) for step in steps]


def _key(step: re.Match[str]) -> str:
    return step[1] or re.sub(r"\\(.)", r"\1", step[3] or step[4] or "")
