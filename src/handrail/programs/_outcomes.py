"""A program's calls: their arguments from Python, and their outcomes as Python."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from handrail import Call, File, Image, Result
from handrail._support import is_object
from handrail.programs._stubs import Function

_KINDS = {
    "bad_args": "ValueError",
    "denied": "PermissionError",
    "timeout": "TimeoutError",
    "unknown_tool": "NameError",
}
"""The nearest builtin exception for a failure kind. The others are a RuntimeError."""
_COROUTINE = re.compile(r"<coroutine [\w.()]+>")
MAX_ARGS_CHARS = 2_000_000
"""Characters in one call's arguments, as JSON."""
MAX_DEPTH = 50
_MAX_SHOWN_CALLS = 50
_MAX_SHOWN_CHARS = 200


def bind_args(function: Function, text: str) -> dict[str, Any]:
    """Return a call's arguments by the tool's names, from JSON text. Raises TypeError."""
    name, names = function.name, list(function.parameters)
    args, kwargs = _read_args(name, text)
    if len(args) > function.positional:
        most = function.positional
        raise TypeError(f"{name}() takes {most} positional arguments, and {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    own = {original: written for written, original in function.parameters.items()}
    for key, value in kwargs.items():
        written = key if key in function.parameters else own.get(key, key)
        if written in given:
            raise TypeError(f"{name}() got two values for {key!r}")
        given[written] = value
    return {function.parameters.get(key, key): value for key, value in given.items()}


def _read_args(name: str, text: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments by position and by name, as the program gave them."""
    if len(text) > MAX_ARGS_CHARS:
        raise TypeError(f"{name}() takes {MAX_ARGS_CHARS:,} characters, and got {len(text):,}")
    try:
        args, kwargs = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise TypeError(f"{name}() takes JSON: {error}") from None
    brackets = text.count("[") + text.count("{")
    if brackets > MAX_DEPTH and _is_deeper([args, kwargs], MAX_DEPTH):
        raise TypeError(f"an argument of {name}() is nested too deeply")
    if "<coroutine " in text and _COROUTINE.search(text):
        raise TypeError(f"an argument of {name}() is a coroutine: await it first")
    return args, kwargs


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"a number must be finite, not {constant}")


def _is_deeper(value: Any, most: int) -> bool:
    level: list[Any] = [value]
    for _ in range(most):
        inner: list[Any] = [list(one.values()) if is_object(one) else one for one in level]
        level = [one for parts in inner for one in parts if isinstance(one, list | dict)]
    return bool(level)


def to_outcome(result: Result) -> dict[str, Any]:
    """Return a result as the interpreter takes it: a value, or an exception."""
    failure = result.failure
    if failure is not None:
        kind = failure.kind.value
        message = f"[{kind}] {failure.message}"
        return {"exc_type": _KINDS.get(kind, "RuntimeError"), "message": message}
    media = [part for part in result.parts if isinstance(part, Image | File)]
    if media:
        refer = enumerate(media)
        parts = [_describe_media(part, make_ref(result.call_id, n)) for n, part in refer]
        return {"return_value": {"text": result.text, "parts": parts}}
    return {"return_value": result.text if result.data is None else json.loads(result.data)}


def make_ref(call_id: str, number: int) -> str:
    """Return a name for an image or file, which a program can return."""
    return f"{call_id}#{number}"


def _describe_media(part: Image | File, ref: str) -> dict[str, Any]:
    return {"media_type": part.media_type, "bytes": len(part.data), "ref": ref}


class RanCall(NamedTuple):
    """A program's call, and its result."""

    call: Call
    result: Result

    def __str__(self) -> str:
        args: Any = self.call.args
        listed = ", ".join(f"{key}={value!r}" for key, value in args.items())
        failure = self.result.failure
        outcome = "done" if failure is None else f"[{failure.kind.value}] {failure.message}"
        return f"{_clip(f'{self.call.name}({listed})')}: {_clip(outcome)}"


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"


def list_calls(ran: Sequence[RanCall]) -> str:
    """Return calls and their outcomes as lines."""
    lines = [f"- {one}" for one in ran[:_MAX_SHOWN_CALLS]]
    left = len(ran) - len(lines)
    return "\n".join([*lines, *([f"- and {left} more"] if left else [])])
