"""The journal: every run's events, appended and hash-chained.

Each run has its own chain, so runs do not wait for each other. An entry's digest covers its content
and the previous entry's digest. A database stores entry texts unchanged and does not need to
understand them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from handrail import HandrailError

Summary: TypeAlias = Mapping[str, Any]
"""Fields in a run's ``status`` lines. Later lines replace earlier fields."""

STATUS = "status"
"""The kind for lines changing a run's summary."""
NO_DIGEST = ""
"""The digest before a run's first entry."""
MAX_RUN_CHARS = 200


class JournalError(HandrailError):
    """The journal cannot be read or written."""


class AppendConflict(JournalError):
    """The run has other entries than expected: another process has appended some."""


class RunBusy(JournalError):
    """Another process is working on the run."""


SOME = -1
"""The entry count of a run that has some."""
_encode = json.JSONEncoder(default=repr, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class JournalLine:
    """A line to append: its kind, and its content as JSON text in ASCII."""

    kind: str
    body: str = "{}"

    @classmethod
    def of(cls, kind: str, /, **content: Any) -> JournalLine:
        """Return a line with this content. Values which are not JSON are kept as their repr."""
        return cls(kind, _encode(content))

    @property
    def content(self) -> dict[str, Any]:
        """The content; empty if the body is not a JSON object."""
        return parse_object(self.body)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A journal line."""

    run: str
    number: int
    """The position in the run. The first is 1."""
    kind: str
    body: str
    digest: str

    @property
    def content(self) -> dict[str, Any]:
        """The content; empty if the body is not a JSON object."""
        return parse_object(self.body)


@dataclass(frozen=True, slots=True)
class RunHead:
    """A chain's end, and the run's summary."""

    run: str
    entries: int = 0
    digest: str = NO_DIGEST
    began: float = 0.0
    """When the first entry was appended."""
    changed: float = 0.0
    """When the last entry was appended."""
    summary: Summary = field(default_factory=dict[str, Any])

    @property
    def status(self) -> str:
        """The summary's ``status`` field, or ""."""
        return self._text("status")

    @property
    def reason(self) -> str:
        """The summary's ``reason`` field, or ""."""
        return self._text("reason")

    def _text(self, name: str) -> str:
        value = self.summary.get(name, "")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """A journal event, for a feed and for an audit."""

    place: int
    """Its number among all runs' events, in written order."""
    run: str
    number: int
    """Its number in the run."""
    at: float
    kind: str
    call: str = ""
    tool: str = ""
    rule: str = ""
    who: str = ""
    """A request's principal, or who answered."""


def extend(
    head: RunHead, lines: Iterable[JournalLine], now: float
) -> tuple[RunHead, list[JournalEntry]]:
    """Return the head after these lines, and the entries to store."""
    number, digest, summary = head.entries, head.digest, dict(head.summary)
    entries: list[JournalEntry] = []
    for line in lines:
        number += 1
        # without a key: a process that writes here could read it: decision 059
        digest = chain_digest(digest, head.run, number, line)
        entries.append(JournalEntry(head.run, number, line.kind, line.body, digest))
        if line.kind == STATUS:
            summary |= line.content
    began = head.began if head.entries else now
    return RunHead(head.run, number, digest, began, now, summary), entries


def chain_digest(previous: str, run: str, number: int, line: JournalLine | JournalEntry) -> str:
    """Return an entry's digest, over its content, its place, and the digest before it."""
    run_text, kind, body = _quote(run), _quote(line.kind), _quote(line.body)
    text = f"[{_quote(previous)}, {run_text}, {number}, {kind}, {body}]"
    return hashlib.sha256(text.encode("ascii")).hexdigest()


_quote = json.encoder.encode_basestring_ascii


def check_run(run: str) -> None:
    """Raise a JournalError for an id some database cannot store."""
    if not run or len(run) > MAX_RUN_CHARS or not run.isprintable():
        raise JournalError(
            f"Invalid id of a run: {run!r}. It must have 1 to {MAX_RUN_CHARS} printable characters."
        )


def check_after(head: RunHead, after: int | None) -> None:
    """Raise AppendConflict if the run has a different entry count."""
    if after == SOME:
        if not head.entries:
            raise AppendConflict(f"Run {head.run} has no entries any more: it was removed.")
    elif after is not None and after != head.entries:
        raise AppendConflict(
            f"Run {head.run} has {head.entries} entries, not {after}: "
            "another process has appended some."
        )


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; return an empty one for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
