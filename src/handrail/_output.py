"""What a tool gave, as a result: words, data, pictures; bounded, with head and tail kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from handrail._content import Content, File, Image, Text, is_list
from handrail._result import Kind, Result, good
from handrail._schema import json_of
from handrail._tool import AnyTool

READ_RESULT = "read_result"
"""The tool that reads what was left out."""
_PARTS = (Text, Image, File)
_NOTHING = "(It gave nothing back.)"


_JOIN_AT = 1_000


class Collected:
    """What a tool yields, piece by piece: the beginning and the end, however much there is."""

    def __init__(self, shown: int, kept: int) -> None:
        self._shown = shown
        self._kept = kept
        self._head: list[str] = []
        self._small: list[str] = []
        """The latest pieces of the head; joined when they are many, since each has its price."""
        self._held = 0
        self._tail: deque[str] = deque()
        self._trailing = 0
        self.total = 0

    def write(self, piece: object) -> None:
        """Take the next piece."""
        text = piece if isinstance(piece, str) else json_of(piece)
        self.total += len(text)
        if self._held < self._kept:
            part = text[: self._kept - self._held]
            self._small.append(part)
            self._held += len(part)
            if len(self._small) >= _JOIN_AT:
                self._head.append("".join(self._small))
                self._small.clear()
            text = text[len(part) :]
        if text:
            self._tail.append(text[-self._shown :])
            self._trailing += len(self._tail[-1])
            while self._trailing - len(self._tail[0]) >= self._shown:
                self._trailing -= len(self._tail.popleft())

    def text(self) -> str:
        """All that was kept; the end stands apart where something between was not."""
        head, tail = "".join([*self._head, *self._small]), "".join(self._tail)
        missing = self.total - len(head) - len(tail)
        return f"{head}\n[{missing:,} characters were not kept]\n{tail}" if missing else head + tail


def rendered(call_id: str, value: Any, tool: AnyTool) -> Result:
    """A tool's value as a result; what it did not promise, or has no JSON form, is a bug."""
    promise = tool._promise  # noqa: SLF001  the executor's own face of a tool
    if promise is None and type(value) is str:
        return good(call_id, value)
    try:
        if promise is None:
            return _undeclared(call_id, value)
        if type(value) is promise.exact:
            data = promise.dump(value).decode()
        else:
            data = promise.dump(value, warnings="error").decode()
    except Exception as error:  # noqa: BLE001  a type's own code may raise anything
        detail = f"{tool.origin}: {said(error)}"
        return Result.fail(call_id, Kind.BUG, _WRONG.format(tool.spec.name), detail)
    return good(call_id, value if type(value) is str else data, data)


def _undeclared(call_id: str, value: Any) -> Result:
    if value is None:
        return good(call_id, _NOTHING)
    if isinstance(value, Result):
        return value._replace(call_id=call_id)
    if isinstance(value, _PARTS):
        return _of_parts(call_id, [value])
    if is_list(value) and value and all(isinstance(part, (*_PARTS, str)) for part in value):
        return _of_parts(call_id, value)
    data = json_of(value)
    return good(call_id, data, data)


def _of_parts(call_id: str, given: Iterable[Any]) -> Result:
    parts: tuple[Content, ...] = tuple(Text(one) if isinstance(one, str) else one for one in given)
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    return Result(call_id, text, parts)


def bounded(text: str, most: int, call_id: str, by: str, *, readable: int) -> str:
    """The head and the tail of a long text, cut at line ends, and how to read what lies between.

    It can be read by the tool named ``by``, as far as ``readable`` characters.
    """
    head = _up_to_a_line(text[: most * 2 // 3])
    tail = _from_a_line(text[len(text) - most // 3 :])
    start, end = len(head), len(text) - len(tail)
    how = "They were not kept."
    if readable > start:
        last = min(end, readable)
        how = f'Call {by} with call_id "{call_id}", start {start} and end {last} to read them.'
    left_out = f"[{end - start:,} of {len(text):,} characters are left out here. {how}]"
    return f"{head}\n{left_out}\n{tail}"


def said(error: BaseException) -> str:
    """What an exception says of itself, if it can."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  its own code
        return type(error).__name__


def _up_to_a_line(text: str) -> str:
    cut = text.rfind("\n", len(text) * 3 // 4)
    return text if cut < 0 else text[: cut + 1]


def _from_a_line(text: str) -> str:
    cut = text.find("\n", 0, len(text) // 4)
    return text if cut < 0 else text[cut + 1 :]


_WRONG = (
    "The tool {!r} ran, but what it gave back is not what it promises, and is withheld. It may "
    "have had its effect: check before you call it again. This is not your fault."
)
