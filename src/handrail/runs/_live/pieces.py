"""Pieces streamed before their reply is complete, and their rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from handrail.messages import ArgsDelta, Delta
from handrail.runs._store.port import Step
from handrail.runs._store.tables import add_row

PieceKind: TypeAlias = Literal["text", "thought", "args"]
CHANNEL = "handrail_live"
"""Watchers listen here, on PostgreSQL."""
NOTIFY: Step = (f"SELECT pg_notify('{CHANNEL}', '')", [{}])
NO_SYNC: Step = ("SET LOCAL synchronous_commit TO OFF", [{}])
"""Pieces need not wait for the disk, and those that notify wait for one another."""
ENDED = ("done", "failed", "cancelled")


class Piece(NamedTuple):
    """A streamed piece: text, reasoning, or a call's arguments."""

    kind: PieceKind
    text: str
    call_id: str = ""
    tool: str = ""

    @classmethod
    def of(cls, event: Delta | ArgsDelta) -> Piece:
        """Return a streamed event as a piece."""
        if isinstance(event, ArgsDelta):
            return cls("args", event.text, event.call_id, event.name)
        return cls("thought" if event.thought else "text", event.text)

    @property
    def fields(self) -> dict[str, Any]:
        """The piece as an event."""
        if self.kind == "args":
            return {
                "event": "args",
                "call_id": self.call_id,
                "tool": self.tool,
                "text": self.text,
            }
        thought = {"thought": True} if self.kind == "thought" else {}
        return {"event": "delta", "text": self.text, **thought}


def join(pieces: Iterable[Piece]) -> list[Piece]:
    """Join neighbouring pieces with the same kind."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1]._replace(text="") == piece._replace(text=""):
            joined[-1] = piece._replace(text=joined[-1].text + piece.text)
        else:
            joined.append(piece)
    return joined


def dump(pieces: Iterable[Piece]) -> str:
    """Return pieces as JSON text."""
    return json.dumps(join(pieces))


def load(text: str) -> list[Piece]:
    """Read the text from ``dump``."""
    return [Piece(*cast("list[Any]", one)) for one in json.loads(text)]


def skip(pieces: Iterable[Piece], chars: int) -> list[Piece]:
    """Return pieces without their first characters."""
    left: list[Piece] = []
    for piece in pieces:
        if len(piece.text) > chars:
            left.append(piece._replace(text=piece.text[chars:]))
        chars = max(0, chars - len(piece.text))
    return left


def text_of(pieces: Iterable[Piece]) -> str:
    """Return the reply's text, without reasoning and arguments."""
    return "".join(piece.text for piece in pieces if piece.kind == "text")


def add_pieces(rows: list[dict[str, Any]], *, postgres: bool) -> Step:
    """Return the statement to add rows, unless their run was removed."""
    columns = ":run, :turn, :attempt, :number, :body"
    return f"{add_row('piece', columns, postgres=postgres)}DO NOTHING", rows


def drop_pieces(rows: list[dict[str, Any]]) -> Step:
    """Return the statement to remove pieces once the journal has their reply."""
    return "DELETE FROM handrail_piece WHERE run = :run AND turn <= :turn", rows


DROP_LEFT = (
    "DELETE FROM handrail_piece WHERE run IN (SELECT p.run FROM handrail_piece p "
    "CROSS JOIN handrail_run r WHERE r.id = p.run "  # SQLite then begins with the pieces
    "AND r.status IN ('done', 'failed', 'cancelled', 'waiting'))"
)
"""Removes pieces left by dead workers, if their run streams no more."""
