"""Send pieces from a worker, several times a second, for all its runs at once."""

from __future__ import annotations

import logging
import secrets
import time
from contextvars import Context
from typing import Any

import anyio

from handrail._support.loop import spawn
from handrail.agent import RunEvent
from handrail.messages import ArgsDelta, Delta, Reply, Restart
from handrail.runs._live.pieces import NO_SYNC, NOTIFY, Piece, add_pieces, drop_pieces, dump
from handrail.runs._store.database import Database
from handrail.runs._store.port import Step

log = logging.getLogger("handrail.runs")

_SECONDS = {True: 0.03, False: 0.1}
"""Between two writes, on PostgreSQL and in a file: there, each write is on the disk."""


class Sender:  # the journal has the words too: decision 119
    """Writes pieces for watchers in any process. A run never waits for it.

    A failed write ends the attempt: watchers then receive the rest with the reply.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[LiveReply] = []
        self._dropped: dict[str, int] = {}
        """The last turn whose pieces can go, by run."""
        self._task: object = None

    def begin(self, run: str, turns: int) -> LiveReply:
        """Return a sender for one run, which has this many turns."""
        return LiveReply(self, run, turns)

    def put(self, reply: LiveReply) -> None:
        """Note a reply with something to send."""
        if reply not in self._waiting:
            self._waiting.append(reply)
        self._wake()

    def drop(self, run: str, turn: int) -> None:
        """Remove pieces up to a turn: the journal has these replies."""
        self._dropped[run] = turn
        self._wake()

    def _wake(self) -> None:
        if self._task is None:
            self._task = spawn(Context(), self._send, lost=self._end)

    def _end(self) -> None:
        self._task = None

    async def _send(self) -> None:
        """Write until nothing waits."""
        try:
            while self._waiting or self._dropped:
                await anyio.sleep(_SECONDS[self._database.is_postgres])
                await self.flush()
        finally:
            self._end()

    async def flush(self) -> None:
        """Write all waiting pieces, in one transaction."""
        replies, self._waiting = self._waiting, []
        dropped, self._dropped = self._dropped, {}
        rows = [row for reply in replies for row in reply.take()]
        steps: list[Step] = []
        if rows:
            steps.append(add_pieces(rows, postgres=self._database.is_postgres))
        if dropped:
            gone = [{"run": run, "turn": turn} for run, turn in dropped.items()]
            steps.append(drop_pieces(gone))
        if steps and self._database.is_postgres:
            steps = [NO_SYNC, *steps, NOTIFY]
        try:
            if steps:
                await self._database.transact(steps, 0)
        except Exception:
            log.debug("pieces of replies could not be written", exc_info=True)
            for reply in replies:
                reply.break_off()


class LiveReply:
    """Sends one segment's replies, each as a separate attempt."""

    def __init__(self, sender: Sender, run: str, turns: int) -> None:
        self._sender = sender
        self._run = run
        self._turns = turns
        self._attempt = ""
        self._number = 0
        self._is_broken = False
        self._has_sent = False
        self._pieces: list[Piece] = []
        self._rows: list[dict[str, Any]] = []

    def on_event(self, event: RunEvent) -> None:
        """Take a streamed piece, or the whole reply."""
        if isinstance(event, Delta | ArgsDelta):
            self._pieces.append(Piece.of(event))
            self._begin()
        elif isinstance(event, Restart):
            self._close()
            self._begin()
        elif isinstance(event, Reply):
            self._close()
            self._turns += 1

    def _begin(self) -> None:
        """Send soon. An attempt's first row also drops older replies."""
        if not self._attempt:
            self._attempt = f"{time.time_ns():020d}{secrets.token_hex(4)}"
            self._number, self._is_broken = 0, False
            if self._has_sent:
                self._sender.drop(self._run, self._turns)
            self._has_sent = True
        self._sender.put(self)

    def _close(self) -> None:
        """End the attempt. Its last pieces are still sent."""
        if self._pieces:
            self._add_row()
        self._attempt = ""

    def _add_row(self) -> None:
        key = {"run": self._run, "turn": self._turns + 1, "attempt": self._attempt}
        self._rows.append({**key, "number": self._number, "body": dump(self._pieces)})
        self._number += 1
        self._pieces = []

    def take(self) -> list[dict[str, Any]]:
        """Return the rows to write."""
        if self._pieces or (self._attempt and not self._number):
            self._add_row()
        rows, self._rows = self._rows, []
        return [] if self._is_broken else rows

    def break_off(self) -> None:
        """Send nothing more in this attempt: watchers would miss a part."""
        self._is_broken = True

    def end(self) -> None:
        """Remove the pieces: the journal has them now."""
        if self._has_sent:
            self._sender.drop(self._run, self._turns)
