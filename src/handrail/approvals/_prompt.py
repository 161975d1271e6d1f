"""From a question to the lines that a person reads before they answer. Nothing is masked here.

A mask that hides a secret can as well hide where it goes; who answers has to see both.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias, TypeGuard

from handrail.approvals._display import LONGEST, Displayed, displayed, inline, size, wrapped
from handrail.approvals._files import Change, Read, change, preview
from handrail.judgement import Pending

Look: TypeAlias = Literal["plain", "title", "added", "removed", "warning"]

MARGIN = "│ "
"""Before each line that comes from outside: nothing from there begins at the left edge."""
GOES_ON = "┊ "
"""Before the rest of a line that is longer than the screen is wide."""
_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
_PAIR = ("old_string", "new_string")
_SPELLINGS = {"file_path": "path", "old_string": "old", "new_string": "new", "edits": "content"}
"""Names of arguments that say the same as those by which a change is known."""
_HEAD, _TAIL = 24, 8
"""How many rows of one argument are shown first: its start, and its end."""
_LONG = 200
"""Characters from which a text's length is said."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a prompt, safe to print."""

    text: str
    look: Look = "plain"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question as a person reads it."""

    lines: tuple[Line, ...]
    details: tuple[Line, ...]
    """All of it: every argument in full, and what the answer is bound to."""
    cut: bool
    """Whether the lines leave something out that only the details have."""
    hidden: int
    """How many characters could not have been seen, and are written out."""
    mixed: tuple[str, ...]
    """Words with letters of several scripts, or in disguise."""
    size: int
    """Bytes of what came from outside."""

    @property
    def too_long(self) -> bool:
        """Whether it is more than a person can be asked to judge."""
        return self.size > LONGEST


@dataclass(frozen=True, slots=True)
class _Argument:
    name: str
    shown: Displayed
    is_text: bool


def prompt(
    pending: Pending,
    *,
    read: Read | None = None,
    workspace: str | os.PathLike[str] | None = None,
    width: int = 80,
) -> Prompt:
    """A question as lines of at most this width, all of it safe to print.

    ``read`` gives the text of a file as it is now, for a diff. ``workspace`` is the directory
    where a shell command would run, for what its patterns stand for.
    """
    args = _args(pending)
    outside = tuple(_outside(pending, args))
    if (length := sum(map(size, outside))) > LONGEST:
        title = Line("a call wants to run that is too long to be shown", "title")
        return Prompt((title,), (title,), cut=True, hidden=0, mixed=(), size=length)
    counted = [displayed(text) for text in outside]
    hidden = sum(one.hidden for one in counted)
    mixed = tuple(dict.fromkeys(word for one in counted for word in one.mixed))
    arguments = [_argument(name, value) for name, value in args.items()]
    changed = change(_spelled(args, read), read)
    first = [_as_lines(one) for one in arguments if not _is_shown(one.name, changed)]
    follows = [_rows(lines, width) for lines in _follows(args, changed, workspace)]
    seen = [_rows(lines, width) for lines in first] + follows
    head, notes = _rows(_head(pending), width), _rows(_notes(hidden, mixed), width)
    return Prompt(
        lines=(*head, *_joined(map(_shortened, seen)), *notes),
        details=(
            *head,
            *_joined(_rows(_as_lines(one), width) for one in arguments),
            *_joined(follows),
            *_rows(_binding(pending), width),
            *notes,
        ),
        cut=any(len(rows) > len(_shortened(rows)) for rows in seen),
        hidden=hidden,
        mixed=mixed,
        size=length,
    )


_joined = chain.from_iterable


def _spelled(args: Mapping[str, Any], read: Read | None) -> Mapping[str, Any]:
    """Arguments under the names by which a change is looked for."""
    spelled = {_SPELLINGS.get(name, name): value for name, value in args.items()}
    if "old_string" in args:  # left out, the new one is empty
        spelled.setdefault("new", "")
    edits, path = spelled.get("content"), spelled.get("path")
    if read is not None and _is_list(edits) and isinstance(path, str):
        spelled["content"] = _edited(path, edits, read)
    return spelled


def _edited(path: str, edits: Iterable[Any], read: Read) -> str | None:
    """A file's text after several replacements; None where it cannot be told."""
    try:
        text = read(path)
    except (OSError, ValueError):
        return None
    for one in edits:
        old, new = (one.get(name) for name in _PAIR) if _is_object(one) else (None, None)
        if text is None or not isinstance(old, str) or not isinstance(new, str):
            return None
        found = text.count(old) if old else 0
        if found != 1 and not (found and one.get("replace_all")):
            return None
        text = text.replace(old, new)
    return text


def _is_shown(name: str, changed: Change | None) -> bool:
    """Whether a change shows an argument already."""
    return changed is not None and _SPELLINGS.get(name, name) in changed.shows


def _rows(lines: Iterable[Line], width: int) -> list[Line]:
    return [Line(row, one.look) for one in lines for row in wrapped(one.text, width, GOES_ON)]


def _args(pending: Pending) -> Mapping[str, Any]:
    """The arguments by name; whatever is no object, under a name of its own."""
    args: Any = pending.call.args
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            return {"arguments": pending.call.args}
    return args if _is_object(args) else {"arguments": args}


def _outside(pending: Pending, args: Mapping[str, Any]) -> Iterator[str]:
    """Every text that is shown and that is not ours."""
    yield from (pending.call.name, pending.call.id, pending.question)
    yield from (access.resource for access in pending.accesses)
    if pending.origin is not None:
        yield str(pending.origin)
    yield from _texts(args)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif _is_object(value):
        for key, one in value.items():
            yield str(key)
            yield from _texts(one)
    elif _is_list(value):
        for one in value:
            yield from _texts(one)
    else:
        yield _json(value)


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, list | tuple)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _argument(name: Any, value: Any) -> _Argument:
    is_text = isinstance(value, str) and value != ""  # which JSON shows better
    written = str(name) if _PLAIN_NAME.fullmatch(str(name)) else _json(name)
    return _Argument(inline(written), displayed(value if is_text else _json(value)), is_text)


def _head(pending: Pending) -> Iterator[Line]:
    effect, call = pending.effect.name.lower(), pending.call
    yield Line(f"{inline(call.name)} wants to run ({effect}; call {inline(call.id)})", "title")
    for access in pending.accesses:
        yield Line(f"  {inline(str(access))}")
    yield Line(f"question: {inline(pending.question)}")
    if pending.origin is not None:
        yield Line(f"asked by: {inline(str(pending.origin))}")


def _follows(
    args: Mapping[str, Any], changed: Change | None, workspace: str | os.PathLike[str] | None
) -> Iterator[Iterable[Line]]:
    """What the arguments would do to files, as far as it can be told."""
    if changed is not None:
        yield _as_change(changed)
    command = args.get("command")
    if isinstance(command, str) and workspace is not None:
        yield (Line(f"  {words}") for words in preview(command, workspace))


def _as_lines(argument: _Argument) -> Iterator[Line]:
    """A text as it is, after a colon; anything else as JSON, after an equals sign."""
    shown, sign = argument.shown, ":" if argument.is_text else " ="
    if shown.lines == 1 and shown.length <= _LONG:
        yield Line(f"{argument.name}{sign} {shown.text}")
        return
    lines = f", {shown.lines} lines" if shown.lines > 1 else ""
    yield Line(f"{argument.name} ({shown.length} characters{lines}){sign}")
    yield from _block(shown.text)


def _block(text: str) -> Iterator[Line]:
    return (Line(f"{MARGIN}{line}") for line in text.split("\n"))


def _as_change(changed: Change) -> Iterator[Line]:
    yield Line(changed.title)
    if not changed.text and not changed.diff:
        yield Line("  (nothing)")
    if changed.text:
        yield from _block(displayed(changed.text).text)
    looks: dict[str, Look] = {"+": "added", "-": "removed"}
    for line in changed.diff:
        yield Line(f"{MARGIN}{line[:1]}{inline(line[1:])}", looks.get(line[:1], "plain"))


def _shortened(rows: list[Line]) -> list[Line]:
    """The start and the end of what is long, and how many rows are between."""
    between = len(rows) - _HEAD - _TAIL
    if between <= 1:
        return rows
    gap = Line(f"[… {between} rows, d shows them …]", "warning")
    return [*rows[:_HEAD], gap, *rows[-_TAIL:]]


def _binding(pending: Pending) -> Iterator[Line]:
    """What the answer is bound to, and for how long it counts."""
    seconds = pending.expires_at - pending.asked_at
    yield Line(f"fingerprint: {inline(pending.fingerprint)}")
    yield Line(f"the answer counts once, and until {seconds:g} seconds after it was asked")


def _notes(hidden: int, mixed: tuple[str, ...]) -> Iterator[Line]:
    if hidden:
        are = "characters are" if hidden > 1 else "character is"
        yield Line(f"{hidden} hidden {are} written out as \\u{{...}}", "warning")
    if mixed:
        yield Line(f"letters of several scripts, or in disguise: {', '.join(mixed)}", "warning")
