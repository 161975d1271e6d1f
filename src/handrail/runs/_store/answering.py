"""Answer a request: one transaction counts votes, and writes the answer, its line and the wake-up.

Each answer and each vote adds a line to its run. The place of that line can be taken once, so two
people never answer at the same time: the second one reads the request again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from handrail.permissions import Answer, Pending
from handrail.runs._store.claims import hold_run
from handrail.runs._store.database import Database
from handrail.runs._store.points import reach
from handrail.runs._store.port import Step
from handrail.runs._store.tables import PUT_VOTE, READ_VOTES
from handrail.runs._store.writes import GUARDS, HEAD_AND_TALLY, RunWrites, put_run
from handrail.runs.answers import (
    AnswerOutcome,
    Claimant,
    check_claim,
    count_missing,
    dump_answer,
    given_by,
    name_answer,
    needs_votes,
    read_record,
    say_answered,
    say_busy,
    say_counted,
    say_ended,
    say_unknown,
    say_used,
    vote_for,
)
from handrail.runs.journal import STATUS, RunBusy
from handrail.runs.lines import ANSWER, LineFields, answer_fields, as_line
from handrail.runs.statuses import LIVE, RUNNING

_REQUEST = (
    "SELECT q.run, q.pending, q.expires, q.answer, q.answered_by, r.app, r.status "
    "FROM handrail_question q JOIN handrail_run r ON r.id = q.run WHERE q.id = :id"
)
_PUT_ANSWER = (
    "UPDATE handrail_question SET answer = :answer, answered_by = :by "
    "WHERE id = :id AND answer IS NULL"
)
_WAKE = (
    "UPDATE {engine} SET status = 'ENQUEUED', delay_until_epoch_ms = :now, updated_at = :now "
    "WHERE status = 'DELAYED' AND workflow_uuid = "
    "(SELECT run || ':' || CAST(segment AS TEXT) FROM handrail_question WHERE id = :id)"
)
"""Lets the engine run the segment that waits for this answer."""


class _Question(NamedTuple):
    run: str
    pending: Pending
    expires: float
    answer: str | None
    answered_by: str | None
    app: str | None
    status: str


class _Given(NamedTuple):
    answer: Answer
    claimant: Claimant
    at: float

    def save(self) -> str:
        """Return the text for the row of the request."""
        return dump_answer(self.answer, self.at, self._by)

    @property
    def _by(self) -> dict[str, str]:
        return given_by(self.claimant.by, self.claimant.via, self.claimant.seen)

    def describe(self, kind: str, pending: Pending) -> LineFields:
        """Return the line of this answer, or of this vote."""
        fields = {"at": self.at, "pending": pending.id, **answer_fields(self.answer), **self._by}
        return {"event": kind, **fields, "saved": self.save()}


def answer_request(
    database: Database, request_id: str, answer: Answer, claimant: Claimant, *, now: float
) -> AnswerOutcome:
    """Record an answer if this person may give it, and if there is none yet."""
    request = _find(database, request_id)
    if request is None:
        return say_unknown(request_id)
    given = _Given(name_answer(answer, claimant), claimant, now)
    if request.app is not None:  # workers continue it, and one may work on it now
        return _answer(database, request_id, given)
    try:
        with hold_run(database, request.run):
            return _answer(database, request_id, given)
    except RunBusy:
        return say_busy(request.pending, request.run)


def _answer(database: Database, request_id: str, given: _Given) -> AnswerOutcome:
    while (request := _find(database, request_id)) is not None:
        refused = _refuse(request, given)
        if refused is not None:
            return refused
        votes, missing = _count_votes(database, request, given)
        if not _write(database, request, given, votes=votes, is_answer=not missing):
            continue
        reach("answer.given")
        if missing:
            return say_counted(request.pending, request.run, missing)
        record = read_record(request.pending.id, given.save(), given.claimant.by or None)
        return say_used(request.pending, request.run, record)
    return say_unknown(request_id)  # it has gone meanwhile


def _find(database: Database, request_id: str) -> _Question | None:
    rows = database.read_now(_REQUEST, {"id": request_id})
    if not rows:
        return None
    run, pending, *rest = rows[0]
    return _Question(run, Pending.from_json(pending), *rest)


def _refuse(request: _Question, given: _Given) -> AnswerOutcome | None:
    """Return why an answer is not used; None if it is."""
    if request.answer is not None:
        return say_answered(request.pending, (request.answer, request.answered_by), given.at)
    if request.app is not None and request.status not in LIVE:
        return say_ended(request.pending, request.run)
    if request.app is not None and request.expires <= given.at:
        return say_answered(request.pending, (None, None), given.at)  # a worker denies it
    return check_claim(request.pending, given.answer, given.claimant, given.at)


def _count_votes(database: Database, request: _Question, given: _Given) -> tuple[list[Step], int]:
    """Return what to write of a vote, and how many more are needed."""
    pending = request.pending
    if not needs_votes(pending, given.answer):
        return [], 0
    vote = vote_for(given.answer, pending.fingerprint)
    known = dict(database.read_now(READ_VOTES, {"id": pending.id}))
    both = {**known, given.claimant.by: vote}
    row: dict[str, Any] = {"pending": pending.id, "voter": given.claimant.by, "at": given.at}
    put = (PUT_VOTE, [{**row, "via": given.claimant.via, "answer": vote}])
    return [put], count_missing(pending, given.answer, list(both.items()))


def _write(
    database: Database, request: _Question, given: _Given, *, votes: list[Step], is_answer: bool
) -> bool:
    """Write an answer or a vote with its line. Returns False if someone else was faster."""
    is_worked_on = request.app is not None
    lines = [given.describe(ANSWER if is_answer else "vote", request.pending)]
    if is_answer and is_worked_on:
        standing = {**RUNNING._asdict(), "why": "", "ended": None}
        lines.append({"event": STATUS, "at": given.at, **standing})
    writes = RunWrites(request.run, postgres=database.is_postgres)
    before = writes.load(database.read_now(HEAD_AND_TALLY, {"run": request.run}))
    head, _, steps = writes.append(before, [as_line(one) for one in lines], lines, given.at)
    steps += votes
    if not is_worked_on:
        steps.append(put_run(head))
    elif is_answer:
        wake = _WAKE.format(engine=database.engine_table)
        steps.append((wake, [{"id": request.pending.id, "now": int(given.at * 1000)}]))
    if not is_answer:
        return bool(database.transact_now(steps, GUARDS))
    row = {"id": request.pending.id, "answer": given.save(), "by": given.claimant.by or None}
    return bool(database.transact_now([(_PUT_ANSWER, [row]), *steps], 1 + GUARDS))
