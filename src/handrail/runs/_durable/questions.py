"""Calls of durable runs that wait for a person: their rows, and the answers to them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from handrail import Deny
from handrail.permissions import Answer, Pending
from handrail.runs._durable.rows import add_sql
from handrail.runs._reading.answers import (
    dump_answer,
    given_by,
    read_record,
    unwrap_answer,
    vote_for,
)
from handrail.runs._reading.claims import (
    AnswerOutcome,
    Claimant,
    check_claim,
    count_missing,
    needs_votes,
    say_answered,
    say_counted,
    say_ended,
    say_used,
)
from handrail.runs._reading.tables import PUT_VOTE, READ_VOTES
from handrail.runs._store.database import Database

NO_ANSWER = "Not run: no one answered in time. Call again if it is still needed."


class Question(NamedTuple):
    """A pending call, and where its run stands."""

    run: str
    segment: int
    pending: Pending


class Questions:
    """Reads and writes the questions of runs. An answer is given once, and used once."""

    def __init__(self, database: Database) -> None:
        self._read = database.read
        self._write = database.write
        columns = ":id, :run, :segment, :pending, :expires, NULL, NULL, 0"
        self._ask = (
            f"{add_sql('question', columns, postgres=database.is_postgres)} (id) DO UPDATE SET "
            "segment = excluded.segment WHERE handrail_question.segment < excluded.segment"
        )

    async def ask(self, run: str, segment: int, open_: Sequence[Pending]) -> None:
        """Add the open questions of a run, or move them to its next segment."""
        for pending in open_:
            await self._write(
                self._ask,
                id=pending.id,
                run=run,
                segment=segment,
                pending=pending.to_json(),
                expires=pending.expires_at,
            )

    async def _put(self, pending_id: str, answer: str, by: str | None, now: float) -> bool:
        """Record an answer. Returns False if there is one, it is too late, or the run has ended."""
        changed = await self._write(
            "UPDATE handrail_question SET answer = :answer, answered_by = :by "
            f"WHERE id = :id AND answer IS NULL AND expires > :now AND run IN ({_LIVE})",
            id=pending_id,
            answer=answer,
            by=by,
            now=now,
        )
        return changed == 1

    async def claim(
        self, question: Question, answer: Answer, claimant: Claimant, now: float
    ) -> AnswerOutcome:
        """Record an answer if this person may give it, and if there is none yet."""
        pending = question.pending
        if (earlier := await self._find_answer(pending.id))[0] is not None:
            return say_answered(pending, earlier, now)
        refused = check_claim(pending, answer, claimant, now)
        if refused is not None:
            return refused
        several = needs_votes(pending, answer)
        if several and (missing := await self._vote(pending, answer, claimant, now)):
            return say_counted(pending, question.run, missing)
        saved = dump_answer(answer, now, given_by(claimant.by, claimant.via, claimant.seen))
        if not await self._put(pending.id, saved, claimant.by or None, now):
            found = await self._find_answer(pending.id)
            if found[0] is None and await self._has_ended(question.run):
                return say_ended(pending, question.run)
            if found[0] != saved:  # else a lost connection repeated the statement
                return say_answered(pending, found, now)
        return say_used(pending, question.run, read_record(pending.id, saved, claimant.by))

    async def _vote(self, pending: Pending, answer: Answer, claimant: Claimant, now: float) -> int:
        """Count an approval, and return how many more are needed."""
        await self._write(
            PUT_VOTE,
            pending=pending.id,
            voter=claimant.by,
            at=now,
            via=claimant.via,
            answer=vote_for(answer, pending.fingerprint),
        )
        votes = await self._read(READ_VOTES, id=pending.id)
        return count_missing(pending, answer, votes)

    async def _has_ended(self, run: str) -> bool:
        return not await self._read(f"{_LIVE} AND id = :id", id=run)

    async def _find_answer(self, pending_id: str) -> tuple[str | None, str | None]:
        rows = await self._read(
            "SELECT answer, answered_by FROM handrail_question WHERE id = :id", id=pending_id
        )
        return (rows[0][0], rows[0][1]) if rows else (None, None)

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

    async def find(self, pending_id: str) -> Question | None:
        """Return a question."""
        rows = await self._read(f"{_QUESTIONS} WHERE id = :id", id=pending_id)
        return _read_question(rows[0]) if rows else None

    async def open(self, now: float, limit: int, run: str | None = None) -> list[Question]:
        """Return the questions that wait for an answer, of all runs or of one, by urgency."""
        one = "" if run is None else "AND run = :run "
        rows = await self._read(
            f"{_QUESTIONS} WHERE answer IS NULL AND expires > :now {one}"
            "AND run IN (SELECT id FROM handrail_run WHERE status = 'waiting') "
            "ORDER BY expires LIMIT :limit",
            now=now,
            limit=limit,
            **({} if run is None else {"run": run}),
        )
        return [_read_question(row) for row in rows]

    async def answered(self, run: str | None = None) -> list[tuple[str, int]]:
        """Return the waiting runs that have an answer, and their segments."""
        one = "" if run is None else " AND r.id = :id"
        rows = await self._read(
            "SELECT DISTINCT r.id, r.segment FROM handrail_question q "
            "JOIN handrail_run r ON r.id = q.run AND r.segment = q.segment "
            f"WHERE q.answer IS NOT NULL AND q.used = 0 AND r.status = 'waiting'{one}",
            **({} if run is None else {"id": run}),
        )
        return [(row[0], row[1]) for row in rows]


_LIVE = "SELECT id FROM handrail_run WHERE status IN ('queued', 'running', 'waiting')"
_QUESTIONS = "SELECT run, segment, pending FROM handrail_question"


def _read_question(row: tuple[Any, ...]) -> Question:
    return Question(row[0], row[1], Pending.from_json(row[2]))


def next_deadline(open_: Iterable[Pending], default: float) -> float:
    """Return when the first of these questions expires, in seconds from now."""
    ends = [pending.expires_at for pending in open_]
    return max(0.0, min(ends) - time.time()) if ends else default
