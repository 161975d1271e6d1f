"""Attempted edits that miss their text by a little, and what should become of each.

The data is in tests/data/edits: hand-written files, edits that somebody meant to make there, and
the same edits as models write them, with one kind of mistake each. What should come out is part of
the data: it follows from what was meant, not from what the engine does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

FOLDER = Path(__file__).parents[2] / "data" / "edits"
ENDS = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}

Verdict: TypeAlias = Literal["applied", "answered", "missed", "wrong"]
"""Applied as meant; not applied, but told rightly why or where; of no help; changed otherwise."""


class Written(NamedTuple):
    """An edit, as a model wrote it."""

    old: str
    new: str
    everywhere: bool


class Unmatched(Protocol):
    """Why an edit was not applied, and where."""

    @property
    def reason(self) -> str: ...
    @property
    def lines(self) -> tuple[int, ...]: ...


class Attempt(NamedTuple):
    """A file, an edit, and what should become of it."""

    id: str
    kind: str
    before: bytes
    edit: Written
    after: bytes | None
    want: dict[str, Any]


def attempts() -> Iterator[Attempt]:
    for path in sorted(FOLDER.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for case in data["cases"]:
            yield _attempt(data["text"], case)


def _attempt(base: list[str], case: dict[str, Any]) -> Attempt:
    file, want = case.get("file", {}), case["want"]
    lines = file["text"].split("\n") if "text" in file else list(base)
    for number, line in file.get("lines", {}).items():
        lines[int(number) - 1] = line
    if file.get("no_end"):
        lines.pop()
    end = ENDS[file.get("ends", "lf")]

    def written(some: list[str]) -> bytes:
        text = end.join(line.replace("\n", end) for line in some)
        return text.encode(file.get("encoding", "utf-8"))

    edit = Written(case["old"], case["new"], case.get("everywhere", False))
    after = _after(lines, want)
    return Attempt(case["id"], case["kind"], written(lines), edit, after and written(after), want)


def _after(lines: list[str], want: dict[str, Any]) -> list[str] | None:
    if "at" in want:
        first, last = want["at"]
        return [*lines[: first - 1], *want["put"], *lines[last:]]
    if "all" in want:
        new = dict(want["all"])
        return [new.get(number, line) for number, line in enumerate(lines, 1)]
    return want["text"].split("\n") if "text" in want else None


def verdict(attempt: Attempt, outcome: bytes | Unmatched) -> Verdict:
    """What is to be thought of an outcome: other content, or why there is none."""
    if isinstance(outcome, bytes):
        return "applied" if outcome == attempt.after else "wrong"
    return "answered" if _answers(outcome, attempt.want) else "missed"


def _answers(outcome: Unmatched, want: dict[str, Any]) -> bool:
    if "several" in want:
        return outcome.reason == "several" and list(outcome.lines) == want["several"]
    if "already" in want:
        return outcome.reason == "already" and _meets(outcome.lines, want["already"])
    if "region" in want or "at" in want:
        near = outcome.reason in ("absent", "unclear")
        return near and _meets(outcome.lines, want.get("region") or want["at"])
    return "unapplied" in want or (outcome.reason == "absent" and not outcome.lines)


def _meets(lines: tuple[int, ...], wanted: list[int]) -> bool:
    """Whether two ranges of lines share at least half of what either has."""
    if len(lines) != 2:
        return False
    shared = min(lines[1], wanted[1]) - max(lines[0], wanted[0]) + 1
    longer = max(lines[1] - lines[0], wanted[1] - wanted[0]) + 1
    return 2 * shared >= longer


Apply: TypeAlias = Callable[[bytes, Written], bytes | None]


def careless(data: bytes, edit: Written) -> bytes | None:
    """The usual tolerance: blanks do not count, and the first place will do."""
    text = data.decode("utf-8", "surrogateescape")
    words = "".join(edit.old.split())
    kept = [at for at, one in enumerate(text) if not one.isspace()]
    start = "".join(text.split()).find(words)
    if start < 0 or not words:
        return None
    first, last = kept[start], kept[start + len(words) - 1] + 1
    first -= len(text[:first]) - len(text[:first].rstrip(" \t"))
    new = text[:first] + edit.new.rstrip("\n") + text[last:]
    return new.encode("utf-8", "surrogateescape")


def wrong_places(apply: Apply) -> list[str]:
    """The attempts that change a line which nobody meant to change."""
    return [
        attempt.id
        for attempt in attempts()
        if "several" in attempt.want or "region" in attempt.want or "already" in attempt.want
        if apply(attempt.before, attempt.edit) is not None
    ]
