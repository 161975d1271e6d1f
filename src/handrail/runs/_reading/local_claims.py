"""Claim requests of a local journal, in one transaction of its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from handrail.permissions import Answer, Pending
from handrail.runs._reading.answers import dump_answer, given_by, read_record, vote_for
from handrail.runs._reading.claims import (
    AnswerOutcome,
    Claimant,
    check_claim,
    count_missing,
    name_answer,
    needs_votes,
    say_answered,
    say_busy,
    say_counted,
    say_unknown,
    say_used,
)
from handrail.runs._reading.tables import PUT_VOTE, READ_VOTES
from handrail.runs.journal import JournalLine, RunBusy, RunHead
from handrail.runs.lines import answer_fields

_QUESTION = "SELECT run, pending, answer, answered_by FROM handrail_question WHERE id = :id"


class Writable(Protocol):
    """The part of a local journal that claims need."""

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a transaction that holds the write lock."""
        ...

    def append_in(
        self, connection: sqlite3.Connection, run: str, lines: Iterable[JournalLine], /
    ) -> RunHead:
        """Append lines in a transaction."""
        ...

    def hold(self, run: str) -> AbstractContextManager[None]:
        """Hold a run for this process."""
        ...


class _Given(NamedTuple):
    answer: Answer
    claimant: Claimant
    at: float


def claim_local(
    journal: Writable, pending_id: str, answer: Answer, claimant: Claimant, *, now: float
) -> AnswerOutcome:
    """Record an answer if this person may give it, and if there is none yet."""
    with journal.write() as connection:
        rows = connection.execute(_QUESTION, {"id": pending_id}).fetchall()
    if not rows:
        return say_unknown(pending_id)
    run, pending = rows[0][0], Pending.from_json(rows[0][1])
    given = _Given(name_answer(answer, claimant), claimant, now)
    try:
        with journal.hold(run), journal.write() as connection:
            for row in connection.execute(_QUESTION, {"id": pending_id}).fetchall():
                return _claim(journal, connection, row, given)
    except RunBusy:
        return say_busy(pending, run)
    return say_unknown(pending_id)  # it has gone while this process waited for the run


def _claim(
    journal: Writable, connection: sqlite3.Connection, row: tuple[Any, ...], given: _Given
) -> AnswerOutcome:
    run, text, earlier, by = row
    pending = Pending.from_json(text)
    if earlier is not None:
        return say_answered(pending, (earlier, by), given.at)
    refused = check_claim(pending, given.answer, given.claimant, given.at)
    if refused is not None:
        return refused
    if needs_votes(pending, given.answer):
        missing = _vote(connection, pending, given)
        if missing:
            journal.append_in(connection, run, [make_line("vote", pending, given)])
            return say_counted(pending, run, missing)
    journal.append_in(connection, run, [make_line("answer", pending, given)])
    saved = dump_answer(given.answer, given.at, given_by(given.claimant.by, given.claimant.via))
    record = read_record(pending.id, saved, given.claimant.by or None)
    return say_used(pending, run, record)


def _vote(connection: sqlite3.Connection, pending: Pending, given: _Given) -> int:
    """Count an approval, and return how many more are needed."""
    vote = {"pending": pending.id, "voter": given.claimant.by, "at": given.at}
    vote |= {"via": given.claimant.via, "answer": vote_for(given.answer, pending.fingerprint)}
    connection.execute(PUT_VOTE, vote)
    votes = connection.execute(READ_VOTES, {"id": pending.id}).fetchall()
    return count_missing(pending, given.answer, votes)


def make_line(kind: str, pending: Pending, given: _Given) -> JournalLine:
    """Return the line of an answer, or of a vote."""
    answer, claimant, at = given
    by = given_by(claimant.by, claimant.via, claimant.seen)
    fields = {"at": at, "pending": pending.id, **answer_fields(answer), **by}
    return JournalLine.of(kind, **fields, saved=dump_answer(answer, at, by))
