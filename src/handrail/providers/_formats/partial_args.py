"""Assemble arguments that arrive as values with paths into JSON text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from handrail.providers._formats.tolerant import Data, dump, text_at

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")

_Steps: TypeAlias = list[str | int]


class _PartialValue(dict[str | int, Any]):
    """An object by key, or a list by index."""


class _PartialText(list[str]):
    """A string in pieces."""


class PartialArguments:
    """One call's arguments received so far."""

    def __init__(self) -> None:
        self._root = _PartialValue()
        self._continuing: set[str] = set()
        self._paths: dict[str, _Steps] = {}
        self._lost = False
        self._shown = _ShownArguments()

    @property
    def text(self) -> str:
        """The JSON text. It stays unclosed if a value did not fit, so the call is never run."""
        try:
            whole = dump(_build(self._root))
        except ValueError:
            return "{"
        return whole[:-1] if self._lost else whole

    def add(self, args: Data, partial: Iterable[Data]) -> str:
        """Add whole arguments, and values for single paths. Return the JSON text to show."""
        self._root.update(args)
        shown = [self._shown.add([key], value, more=False) for key, value in args.items()]
        for update in partial:
            path, kind = (
                text_at(update, "jsonPath"),
                next((k for k in _VALUES if k in update), None),
            )
            more = bool(update.get("willContinue"))
            if kind is not None:
                value = None if kind == "nullValue" else update[kind]
                steps = self._paths.get(path) or self._paths.setdefault(path, _steps(path))
                self._lost |= not self._put(steps, value, joins=path in self._continuing)
                shown.append(self._shown.add(steps, value, more=more))
            (self._continuing.add if more else self._continuing.discard)(path)
        return "".join(shown)

    def _put(self, steps: _Steps, value: Any, *, joins: bool) -> bool:
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
        if joins and isinstance(old, _PartialText) and isinstance(value, str):
            old.append(value)
        else:
            here[steps[-1]] = _PartialText([value]) if isinstance(value, str) else value
        return True

    def end(self) -> str:
        """Return the remaining JSON text to show."""
        return self._shown.end()


class _ShownArguments:
    """Writes arguments as JSON text while they arrive in order.

    After a value for a position already written, nothing more is shown.
    """

    def __init__(self) -> None:
        self._path: _Steps = []
        """Path to the innermost open object or list."""
        self._open: list[_OpenValue] = []
        """The open objects and lists, outermost first."""
        self._string: _Steps | None = None
        """Path to the open string."""
        self._in_order = True

    def add(self, steps: _Steps, value: Any, *, more: bool) -> str:
        """Return a value's text after everything due before it."""
        if self._string is not None and self._string == steps and isinstance(value, str):
            text = dump(value)[1:-1]
        else:
            text = self._end_string() + self._go_to(steps) + dump(value)
            if isinstance(value, str):
                self._string, text = steps, text[:-1]
        if self._string is not None and not more:
            text += self._end_string()
        return text if self._in_order else ""

    def end(self) -> str:
        """Return the text to close everything."""
        text = self._end_string() + self._close(0)
        return text if self._in_order else ""

    def _end_string(self) -> str:
        ended = "" if self._string is None else '"'
        self._string = None
        return ended

    def _go_to(self, steps: _Steps) -> str:
        """Close what does not contain a path, and open what does."""
        if not self._open:
            self._open.append(_OpenValue(of_list=False))
            text = "{"
        else:
            shared = [old == new for old, new in zip(self._path, steps[:-1], strict=False)]
            text = self._close(1 + [*shared, False].index(False))
        self._in_order = self._in_order and bool(steps)
        for at in range(len(self._path), len(steps)):
            text += self._next(steps[at])
            if at + 1 < len(steps):
                self._open.append(_OpenValue(of_list=isinstance(steps[at + 1], int)))
                text += self._open[-1].brackets[0]
        self._path = steps[:-1]
        return text

    def _next(self, step: str | int) -> str:
        """Begin a value in the innermost object or list."""
        here = self._open[-1]
        comma = "," if here.steps else ""
        expected = step == len(here.steps) if here.of_list else isinstance(step, str)
        self._in_order = self._in_order and expected and step not in here.steps
        here.steps.add(step)
        return comma if here.of_list else f"{comma}{dump(step)}:"

    def _close(self, depth: int) -> str:
        """Close all objects and lists below a depth."""
        closed = [value.brackets[1] for value in reversed(self._open[depth:])]
        self._open, self._path = self._open[:depth], self._path[: max(depth - 1, 0)]
        return "".join(closed)


class _OpenValue:
    """An object or list under construction."""

    __slots__ = ("brackets", "of_list", "steps")

    def __init__(self, *, of_list: bool) -> None:
        self.of_list = of_list
        self.brackets = "[]" if of_list else "{}"
        self.steps: set[str | int] = set()


def _build(value: Any) -> Any:
    """Convert to objects and lists. Raises ValueError if a value would have to be both."""
    if isinstance(value, _PartialText):
        return "".join(value)
    if not isinstance(value, _PartialValue):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: _build(item) for key, item in value.items()}
    if set(value) != set(range(len(value))):
        raise ValueError("A list has gaps or keys.")
    return [_build(value[at]) for at in range(len(value))]


def _steps(path: str) -> _Steps:
    """Split a path like ``$.lines[2].sku``. Return an empty list if it is not such a path."""
    steps = list(_STEP.finditer(path, 1))
    if path[:1] != "$" or "".join(step[0] for step in steps) != path[1:]:
        return []
    return [int(step[2]) if step[2] else _key(step) for step in steps]


def _key(step: re.Match[str]) -> str:
    return step[1] or re.sub(r"\\(.)", r"\1", step[3] or step[4] or "")
