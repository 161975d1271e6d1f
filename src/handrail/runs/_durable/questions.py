"""Durable calls waiting for approval: their rows, and the answers to them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from handrail import Deny
from handrail.permissions import Pending
from handrail.runs._store.database import Database
from handrail.runs._store.tables import add_row
from handrail.runs.answers import dump_answer, unwrap_answer

NO_ANSWER = "Not run: no one answered in time. Call again if it is still needed."


class Question(NamedTuple):
    """A pending call, and where its run stands."""

    run: str
    segment: int
    pending: Pending


class Questions:
    """Reads and writes questions from runs on workers."""

    def __init__(self, database: Database) -> None:
        self._read = database.read
        self._write = database.write
        columns = ":id, :run, :segment, :pending, :expires, NULL, NULL, 0"
        self._ask = (
            f"{add_row('question', columns, postgres=database.is_postgres)} (id) DO UPDATE SET "
            "segment = excluded.segment WHERE handrail_question.segment < excluded.segment"
        )

    async def ask(self, run: str, segment: int, open_: Sequence[Pending]) -> None:
        """Add a run's open questions, or move them to its next segment."""
        for pending in open_:
            await self._write(
                self._ask,
                id=pending.id,
                run=run,
                segment=segment,
                pending=pending.to_json(),
                expires=pending.expires_at,
            )

    async def expire(self, open_: Iterable[Pending], now: float) -> None:
        """Deny what no one answered in time. A later answer is refused."""
        for pending in open_:
            if pending.expires_at <= now:
                await self._write(
                    "UPDATE handrail_question SET answer = :answer "
                    "WHERE id = :id AND answer IS NULL",
                    id=pending.id,
                    answer=dump_answer(Deny(NO_ANSWER), now),
                )

    async def take(self, run: str, open_: Sequence[Pending]) -> dict[str, str]:
        """Return the answers to these questions, and mark them as used."""
        rows = await self._read(
            "SELECT id, answer FROM handrail_question WHERE run = :run AND answer IS NOT NULL",
            run=run,
        )
        ids = {pending.id for pending in open_}
        found = {id_: unwrap_answer(answer) for id_, answer in rows if id_ in ids}
        for id_ in found:
            await self._write("UPDATE handrail_question SET used = 1 WHERE id = :id", id=id_)
        return found

    async def open(self, now: float, limit: int, run: str | None = None) -> list[Question]:
        """Return waiting questions, from all runs or one, by urgency."""
        one = "" if run is None else "AND run = :run "
        rows = await self._read(
            f"{_QUESTIONS} WHERE answer IS NULL AND expires > :now {one}"
            "AND run IN (SELECT id FROM handrail_run WHERE status = 'waiting') "
            "ORDER BY expires LIMIT :limit",
            now=now,
            limit=limit,
            **({} if run is None else {"run": run}),
        )
        return [Question(run, segment, Pending.from_json(text)) for run, segment, text in rows]

    async def answered(self, run: str | None = None) -> list[tuple[str, int]]:
        """Return waiting runs with an answer, and their segments."""
        one = "" if run is None else " AND r.id = :id"
        rows = await self._read(
            "SELECT DISTINCT r.id, r.segment FROM handrail_question q CROSS JOIN handrail_run r "
            "WHERE r.id = q.run AND r.segment = q.segment "  # SQLite then begins with the answers
            f"AND q.answer IS NOT NULL AND q.used = 0 AND r.status = 'waiting'{one}",
            **({} if run is None else {"id": run}),
        )
        return [(row[0], row[1]) for row in rows]


_QUESTIONS = "SELECT run, segment, pending FROM handrail_question"


def next_deadline(open_: Iterable[Pending]) -> float:
    """Return when the first question expires, in seconds from now, or 0 without any."""
    return max(0.0, min((one.expires_at for one in open_), default=0.0) - time.time())
