"""The feed for a watched run, and the cursor for each watcher."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from typing import Any, NamedTuple

import anyio

from handrail.runs._live.pieces import ENDED, Piece, load, skip, text_of
from handrail.runs.journal import JournalEntry, RunHead
from handrail.runs.lines import LineFields, as_fields

_ID = re.compile(
    "(?P<number>[0-9]{1,15})(-(?P<attempt>[0-9a-f]{1,8})-(?P<chars>[0-9]{1,15})"
    "-(?P<text>[0-9]{1,15})-(?P<digest>[0-9a-f]{0,16}))?"
)
MAX_LINES = 1_000
"""Lines in memory, and read at once. A watcher further behind reads the journal."""


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
        self.chars = 0
        """How many characters they have."""
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
            number: How many entries were read; None if the run was removed.
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
        while len(self.lines) > MAX_LINES:
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
        if (turn, attempt) > (self.turn, self.attempt):
            self.turn, self.attempt, self.rows, self.pieces, self.chars = turn, attempt, 0, [], 0
        if attempt != self.attempt or number != self.rows:
            return False
        self.rows += 1
        pieces = load(body)
        self.pieces += pieces
        self.chars += sum(len(piece.text) for piece in pieces)
        return True


class Cursor:
    """How far one watcher has read."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        """The last journal line."""
        self._attempt = ""
        """The attempt whose pieces were shown; after a reconnect, only its last characters."""
        self._chars = 0
        """How many characters were shown, in all pieces."""
        self._text = ShownText()
        self._pieces = 0

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Read an event's id. Raises ValueError for another text."""
        place = _ID.fullmatch(text or "0")
        if place is None:
            raise ValueError(f"Not the id of an event: {text[:40]!r}.")
        cursor = cls(int(place["number"]))
        if place["attempt"]:
            cursor._attempt, cursor._chars = place["attempt"], int(place["chars"])
            cursor._text = ShownText(int(place["text"]), place["digest"])
        return cursor

    @property
    def id(self) -> str:
        """The last event's place, as text."""
        if not self._attempt:
            return str(self.number)
        shown = f"{self._text.chars}-{self._text.digest}"
        return f"{self.number}-{self._attempt[-8:]}-{self._chars}-{shown}"

    def reset(self) -> None:
        """Forget the shown reply."""
        self._attempt, self._text = "", ShownText()
        self._chars = self._pieces = 0

    def show(self, feed: Feed) -> list[Update]:
        """Return the new pieces."""
        updates: list[Update] = []
        left = feed.pieces[self._pieces :]
        if feed.attempt != self._attempt:
            if self._attempt == feed.attempt[-8:]:  # it was shown before a reconnect
                if feed.chars < self._chars:
                    return []  # another process has read more
                self._text = ShownText.of(text_of(feed.pieces)[: self._text.chars])
            elif self._attempt:
                updates.append(self._restart())
            self._attempt = feed.attempt
            left = skip(feed.pieces, self._chars)
        self._pieces = len(feed.pieces)
        updates += [self._show(piece) for piece in left]
        return updates

    def _show(self, piece: Piece) -> Update:
        self._chars += len(piece.text)
        if piece.kind == "text":
            self._text.add(piece.text)
        return Update(self.id, piece.fields)

    def _restart(self) -> Update:
        """Return an event saying: discard the reply so far."""
        self.reset()
        return Update(self.id, {"event": "restart", "reason": REPLACED})

    def complete(self, text: str) -> list[Update]:
        """Return the text still missing when the journal has the whole reply."""
        updates: list[Update] = []
        if not self._text.begins(text):
            updates.append(self._restart())
        if left := text[self._text.chars :]:
            self._attempt = self._attempt or "0"
            self._text = ShownText.of(text[: self._text.chars])
            updates.append(self._show(Piece("text", left)))
        return updates


class ShownText:
    """The text that a watcher shows: how long it is, and a digest of it."""

    def __init__(self, chars: int = 0, digest: str = "") -> None:
        self.chars = chars
        self._digest = digest
        self._hash = hashlib.sha256()

    @classmethod
    def of(cls, text: str) -> ShownText:
        """Return a text as shown."""
        shown = cls()
        shown.add(text)
        return shown

    def add(self, text: str) -> None:
        """Add what is shown next."""
        self.chars += len(text)
        self._hash.update(text.encode("utf-8", "surrogatepass"))
        self._digest = ""

    @property
    def digest(self) -> str:
        """The digest, or "" for no text."""
        return self._digest or (self._hash.hexdigest()[:16] if self.chars else "")

    def begins(self, text: str) -> bool:
        """Return whether a text begins with the shown one."""
        return ShownText.of(text[: self.chars]).digest == self.digest


REPLACED = "Another worker has begun the reply again."


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
