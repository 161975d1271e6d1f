"""Text for a model about a program: its description, its value, or why it failed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from handrail import File, Image, Result, Text
from handrail._support import is_list, is_object
from handrail.programs._outcomes import RanCall, list_calls, make_ref

DESCRIPTION = """\
Run a Python program that calls the functions below. Use it for three or more calls, loops or \
filtering; make single calls directly. Only its last expression or assignment and its prints come \
back.

- Await each call, arguments by name: `r = await f(x=1)`. In parallel: \
`await asyncio.gather(f(x=1), f(x=2))`.
- Use fields only where the type shows them. Without a return type: print one result first.
- A failed call raises an exception, whose text says why.
- A call may wait for approval: read first, write last.
- No files, network or packages. Modules: asyncio, json, re, math, datetime, collections, \
itertools, functools, random.
- Not supported: del, yield, class inheritance, async with, create_task, \
gather(return_exceptions), calls in map or sorted.

Functions:
"""
"""The rules, before the functions."""


class Printed:
    """The start of a program's output, and how much more there was."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[str] = []
        self._kept = self._lost = 0

    def __call__(self, _stream: str, text: str) -> None:
        """Take a piece. The interpreter calls this."""
        part = text[: self._most - self._kept]
        self._kept += len(part)
        self._lost += len(text) - len(part)
        if part:
            self._pieces.append(part)

    @property
    def text(self) -> str:
        """The text, with a note if something is missing."""
        text = "".join(self._pieces)
        return f"{text}\n[{self._lost:,} more characters were printed]" if self._lost else text


def describe_refusal(problems: Sequence[str]) -> str:
    """Return why a program did not start."""
    listed = "\n".join(problems)
    return f"Not run: this program would fail. Nothing was called.\n{listed}"


def describe_failure(error: str, printed: str, ran: Sequence[RanCall], *, began: bool) -> str:
    """Return why a program failed, and what it did before.

    ``began`` is whether it has begun in another process, perhaps with other functions.
    """
    parts = [f"The program failed.\n{error}"]
    if printed:
        parts.append(f"Printed before:\n{printed}")
    parts += [f"{_EFFECTS}\n{list_calls(ran)}"] if ran else []
    if began:
        parts.append(_BEGAN)
    elif not ran:
        parts.append("It had made no call.")
    return "\n\n".join(parts)


def describe_end(
    value: Any, printed: str, dropped: Sequence[str], unknown: Sequence[RanCall]
) -> str:
    """Return a program's value, what it printed, and what went wrong without an error."""
    parts = list[str]()
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if printed:
        parts.append(f"Printed:\n{printed}")
        parts += [] if value is None else [f"Returned:\n{shown}"]
    else:
        parts.append(_NOTHING if value is None else shown)
    if dropped:
        parts.append(_DROPPED.format(", ".join(dropped)))
    if unknown:
        parts.append(f"{_UNKNOWN}\n{list_calls(unknown)}")
    return "\n\n".join(parts)


def find_media(value: Any, ran: Iterable[RanCall]) -> tuple[Image | File, ...]:
    """Return the images and files a value refers to."""
    held = dict(_media_of(ran))
    refs = dict.fromkeys(_find_refs(value)) if held else {}
    return tuple([held[ref] for ref in refs if ref in held])


def make_result(call_id: str, text: str, media: Sequence[Image | File]) -> Result:
    """Return a program's result."""
    return Result(call_id, text, (Text(text), *media) if media else ())


def _media_of(ran: Iterable[RanCall]) -> Iterator[tuple[str, Image | File]]:
    for _, result in ran:
        media = [part for part in result.parts if isinstance(part, Image | File)]
        for number, part in enumerate(media):
            yield make_ref(result.call_id, number), part


def _find_refs(value: Any) -> Iterator[str]:
    todo: list[Any] = [value]
    while todo:
        one = todo.pop()
        if is_object(one):
            if isinstance(one.get("ref"), str):
                yield str(one["ref"])
            todo += reversed(one.values())
        elif is_list(one):
            todo += reversed(one)


_EFFECTS = "These calls ran. Those that are done took effect: do not repeat them."
_BEGAN = "It had begun before, and may have made more calls then. Check before you repeat them."
_NOTHING = "The program returned nothing. To see a value, make it the last expression, or print it."
_DROPPED = "Not run, because they were never awaited: {}."
_UNKNOWN = "It is unknown whether these calls took effect. Check before you repeat them."
