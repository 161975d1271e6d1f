"""Turn a tool's value into a result: text, data, images, files. Truncate long text."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from handrail._definition.tool import AnyTool
from handrail._support import get_log, is_list
from handrail._values.content import EMPTY, Content, File, Image, Text
from handrail._values.effect import READ
from handrail._values.errors import describe_error
from handrail._values.result import FailureKind, Result, timed

_new: Callable[..., Any] = vars(tuple)["__new__"]
READ_RESULT = "read_result"
"""The tool for reading a result's omitted part."""
_PARTS = (Text, Image, File)
_NO_OUTPUT = "(no output)"


_JOIN_AT = 1_000


@cache
def _load_serializer() -> Callable[[object], str]:
    from handrail._schema.validator import json_of  # loads pydantic: many programs only import this

    return json_of


class Collected:
    """Collects the pieces a tool yields: the beginning and the end, in bounded memory."""

    def __init__(self, shown: int, kept: int) -> None:
        self._shown = shown
        self._kept = kept
        self._head: list[str] = []
        self._small: list[str] = []
        """The head's latest pieces. They are joined when they are many, to save memory."""
        self._held = 0
        self._tail: deque[str] = deque()
        self._trailing = 0
        self.total = 0

    def write(self, piece: object) -> str:
        """Add the next piece, and return it as text."""
        whole = text = piece if isinstance(piece, str) else _load_serializer()(piece)
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
        return whole

    def text(self) -> str:
        """Return the stored text, with a note where something is missing."""
        head, tail = "".join([*self._head, *self._small]), "".join(self._tail)
        missing = self.total - len(head) - len(tail)
        return (
            f"{head}\n[{missing:,} characters were not stored]\n{tail}" if missing else head + tail
        )


def render_result(call_id: str, value: Any, tool: AnyTool, seconds: float | None = None) -> Result:
    """Return a tool's value as a result. A value not matching its declared type is a bug.

    ``seconds`` is how long the call ran.
    """
    promise = tool._promise  # noqa: SLF001  for executors
    if promise is None and type(value) is str:
        return Result(call_id, value, seconds=seconds)
    try:
        if promise is None:
            return timed(_render_undeclared(call_id, value), seconds)
        if type(value) is promise.exact:
            data = promise.dump(value).decode()
        elif promise.is_special and (made := _render_special(call_id, value, tool)) is not None:
            return timed(made, seconds)
        else:
            data = promise.dump(value, warnings="error").decode()
            if promise.check is not None:
                promise.check(data)
    except Exception as error:  # a type's code may raise anything
        log = get_log()
        log.exception("the tool %r did not return what it declares", tool.spec.name)
        detail = f"{tool.origin}: {describe_error(error)}"
        return Result.fail(call_id, FailureKind.BUG, _WRONG.format(tool.spec.name), detail)
    text = value if type(value) is str else data
    result: Result = _new(Result, (call_id, text, (), data, None, None, EMPTY, (), (), seconds))
    return result


def _render_special(call_id: str, value: Any, tool: AnyTool) -> Result | None:
    """Return a result from a server, or with own values; or None for data without these."""
    promise: Any = tool._promise  # noqa: SLF001  for executors
    if promise.elsewhere and _is_result(value):
        result = _check_data(_render_undeclared(call_id, value), promise)
    elif promise.own is None:
        return None
    elif promise.dump is None:
        result = _render_text(call_id, value)
    else:
        data = promise.dump(value, warnings="error").decode()
        if promise.check is not None:
            promise.check(data)
        result = Result(call_id, data, data=data)
    return _with_own(result, tool)


def _render_text(call_id: str, value: Any) -> Result:
    if type(value) is str:
        return Result(call_id, value)
    return _render_undeclared(call_id, value)


def _with_own(result: Result, tool: AnyTool) -> Result:
    """Return a result with the values in it that only the user or their own systems can set."""
    promise: Any = tool._promise  # noqa: SLF001  for executors
    if promise.own is None or result.failure is not None:
        return result
    texts = [part.text for part in result.parts if isinstance(part, Text)]
    given = json.loads(result.data) if result.data is not None else texts or result.text
    makes = tool.spec.effect is not READ
    own = [one._replace(is_new=makes and "[" not in one.place) for one in promise.own(given)]
    return result._replace(own=tuple(own))


def _check_data(result: Result, promise: Any) -> Result:
    """Return a remote tool's result. Its data must match the declared type; text need not."""
    if result.data is not None and result.failure is None and promise.check is not None:
        promise.check(result.data)
    return result


def _is_result(value: Any) -> bool:
    """Return whether this is a result, or parts of one, and not data."""
    if is_list(value):
        return any(isinstance(part, _PARTS) for part in value)
    return isinstance(value, (Result, *_PARTS))


def _render_undeclared(call_id: str, value: Any) -> Result:
    if value is None:
        return Result(call_id, _NO_OUTPUT)
    if isinstance(value, Result):
        return value._replace(call_id=call_id, pending=None)  # the call has run
    if isinstance(value, _PARTS):
        return _render_parts(call_id, [value])
    if is_list(value) and value and all(isinstance(part, (*_PARTS, str)) for part in value):
        return _render_parts(call_id, value)
    data = _load_serializer()(value)
    return Result(call_id, data, data=data)


def _render_parts(call_id: str, given: Iterable[Any]) -> Result:
    parts: tuple[Content, ...] = tuple(
        Text(part) if isinstance(part, str) else part for part in given
    )
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    return Result(call_id, text, parts)


def truncate(text: str, most: int, how_to_read: Callable[[int, int], str]) -> str:
    """Return a long text's head and tail, cut at line ends, with a note between them.

    ``how_to_read`` says how to read the characters from a start to an end.
    """
    head = _up_to_a_line(text[: most * 2 // 3])
    tail = _from_a_line(text[len(text) - most // 3 :])
    start, end = len(head), len(text) - len(tail)
    omitted = f"{end - start:,} of {len(text):,} characters omitted."
    return f"{head}\n[{omitted} {how_to_read(start, end)}]\n{tail}"


def _up_to_a_line(text: str) -> str:
    cut = text.rfind("\n", len(text) * 3 // 4)
    return text if cut < 0 else text[: cut + 1]


def _from_a_line(text: str) -> str:
    cut = text.find("\n", 0, len(text) // 4)
    return text if cut < 0 else text[cut + 1 :]


_WRONG = (
    "Result withheld: the tool {!r} ran, but did not return what it declares. It may have taken "
    "effect: check before you call it again."
)
