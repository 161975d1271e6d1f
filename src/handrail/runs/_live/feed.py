"""The feed for a watched run, and the cursor for each watcher."""

from __future__ import annotations

import re
from collections import deque
from typing import Any, NamedTuple

import anyio

from handrail.runs._live.pieces import ENDED, Piece, digest, load, skip, text_of
from handrail.runs.journal import JournalEntry, RunHead
from handrail.runs.lines import LineFields, as_fields

_ID = re.compile(
    "(?P<number>[0-9]{1,15})(-(?P<attempt>[0-9a-f]{1,8})-(?P<chars>[0-9]{1,15})"
    "-(?P<text>[0-9]{1,15})-(?P<digest>[0-9a-f]{0,16}))?"
)
_MAX_LINES = 1_000
"""Lines in memory. A watcher further behind reads the journal."""


class Update(NamedTuple):
    """An event in a watched run."""

    id: str
    """Pass it as ``after`` to continue behind this event."""
    fields: LineFields
    """The event: a journal line, or ``delta``, ``args`` or ``restart``."""


class Line(NamedTuple):
    """A journal line and its number."""

    number: int
    fields: LineFields


class Feed:
    """A run's latest journal lines, and the reply under way."""

    def __init__(self, head: RunHead) -> None:
        self.run = head.run
        self.first = self.number = head.entries
        """The lines behind ``first``, up to ``number``, are in memory."""
        self.lines: deque[Line] = deque()
        self.status = head.status
        self.turns = _count(head.summary.get("turns"))
        self.turn = 0
        """The turn whose reply is under way."""
        self.attempt = ""
        self.rows = 0
        """How many rows the attempt has so far."""
        self.pieces: list[Piece] = []
        self.watchers = 0
        self.changed = anyio.Event()
        self.error: Exception | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended."""
        return self.status in ENDED

    def tell(self) -> None:
        """Wake the watchers."""
        self.changed.set()
        self.changed = anyio.Event()

    def take(
        self, number: int | None, entries: list[JournalEntry], rows: list[tuple[Any, ...]]
    ) -> bool:
        """Take news, and return whether watchers should look.

        Args:
            number: How many entries the journal has; None if the run was removed.
            entries: The new ones.
            rows: New rows with pieces.
        """
        if number is None:
            self.status = "cancelled"
            return True
        before = self.number
        for entry in entries:
            self._add(entry)
        self.number = max(self.number, number)
        while len(self.lines) > _MAX_LINES:
            self.first = self.lines.popleft().number
        return any([self._add_row(*row) for row in rows]) or self.number > before  # noqa: C419

    def _add(self, entry: JournalEntry) -> None:
        fields = as_fields(entry)
        self.lines.append(Line(entry.number, fields))
        self.number = max(self.number, entry.number)
        if entry.kind == "reply":
            self.turns = _count(fields.get("turn")) or self.turns
        elif entry.kind == "status":
            self.status = str(fields.get("status") or self.status)

    def _add_row(self, turn: int, attempt: str, number: int, body: str) -> bool:
        """Add a row with pieces. Returns False for a known one, and for one behind a gap."""
        if attempt > self.attempt:
            self.turn, self.attempt, self.rows, self.pieces = turn, attempt, 0, []
        if attempt != self.attempt or number != self.rows:
            return False
        self.rows += 1
        self.pieces += load(body)
        return True


class Cursor:
    """How far one watcher has read."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        """The last journal line."""
        self.attempt = ""
        """The attempt whose pieces were shown; after a reconnect, only its last characters."""
        self.chars = 0
        """How many characters were shown, in all pieces."""
        self.text = 0
        """Characters of text shown."""
        self.digest = ""
        self._shown = ""
        self._pieces = 0

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Read an event's id. Raises ValueError for another text."""
        place = _ID.fullmatch(text or "0")
        if place is None:
            raise ValueError(f"Not the id of an event: {text[:40]!r}.")
        cursor = cls(int(place["number"]))
        if place["attempt"]:
            cursor.attempt, cursor.digest = place["attempt"], place["digest"]
            cursor.chars, cursor.text = int(place["chars"]), int(place["text"])
        return cursor

    @property
    def id(self) -> str:
        """The last event's place, as text."""
        if not self.attempt:
            return str(self.number)
        seal = digest(self._shown) if self._shown else self.digest
        return f"{self.number}-{self.attempt[-8:]}-{self.chars}-{self.text}-{seal}"

    def reset(self) -> None:
        """Forget the shown reply."""
        self.attempt = self.digest = self._shown = ""
        self.chars = self.text = self._pieces = 0

    def show(self, feed: Feed) -> list[Update]:
        """Return the new pieces."""
        updates: list[Update] = []
        if feed.attempt != self.attempt:
            if self.attempt == feed.attempt[-8:]:  # it was shown before a reconnect
                self._shown = text_of(feed.pieces)[: self.text]
            elif self.attempt:
                updates.append(self.restart())
            self.attempt = feed.attempt
            left = skip(feed.pieces, self.chars)
        else:
            left = feed.pieces[self._pieces :]
        self._pieces = len(feed.pieces)
        for piece in left:
            self._note(piece)
            updates.append(Update(self.id, piece.fields))
        return updates

    def _note(self, piece: Piece) -> None:
        self.chars += len(piece.text)
        if piece.kind == "text":
            self._shown += piece.text
            self.text = len(self._shown)

    def restart(self) -> Update:
        """Return an event saying: discard the reply so far."""
        self.reset()
        return Update(self.id, {"event": "restart", "reason": REPLACED})

    def complete(self, text: str) -> list[Update]:
        """Return the text still missing when the journal has the whole reply."""
        updates: list[Update] = []
        seen = text[: self.text]
        if seen != self._shown and digest(seen) != self.digest:
            updates.append(self.restart())
        if left := text[self.text :]:
            piece = Piece("text", left)
            self.attempt = self.attempt or "0"
            self._shown = text
            self.text = len(text)
            self.chars += len(left)
            updates.append(Update(self.id, piece.fields))
        return updates


REPLACED = "Another worker has begun the reply again."


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
