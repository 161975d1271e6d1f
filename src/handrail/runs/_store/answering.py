"""Answer a request: one transaction counts votes, and writes the answer, its line and the wake-up.

Each answer and each vote adds a line to its run. The line's place can be taken once, so two people
never answer at the same time: the second one reads the request again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from handrail.permissions import Answer, Pending
from handrail.runs._store.claims import hold_run
from handrail.runs._store.database import Database
from handrail.runs._store.points import reach
from handrail.runs._store.port import Step
from handrail.runs._store.tables import PUT_VOTE, READ_VOTES
from handrail.runs._store.writes import (
    GUARDS,
    HEAD_AND_TALLY,
    RunWrites,
    check_news,
    put_run,
)
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
from handrail.runs.journal import STATUS, RunBusy, RunHead
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
"""Makes the engine run the segment waiting for this answer."""


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
        """Return the text for the request's row."""
        return dump_answer(self.answer, self.at, self._by)

    @property
    def _by(self) -> dict[str, str]:
        return given_by(self.claimant.by, self.claimant.via, self.claimant.seen)

    def describe(self, kind: str, pending: Pending) -> LineFields:
        """Return the line for this answer, or for this vote."""
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
    run = _Chain(database, request)
    if request.app is not None:  # workers continue it, and one may work on it now
        return _answer(run, request_id, given)
    try:
        with hold_run(database, request.run):
            return _answer(run, request_id, given)
    except RunBusy:
        return say_busy(request.pending, request.run)


class _Chain:
    """A run's chain. A write fails if another one came since its end was read."""

    def __init__(self, database: Database, request: _Question) -> None:
        self.database = database
        self._id = request.run
        self._is_worked_on = request.app is not None
        self._writes = RunWrites(request.run, postgres=database.is_postgres)
        self._end = RunHead(request.run)
        self._tried: RunHead | None = None

    def read_end(self) -> None:
        """Read the chain's end, before anything a write depends on."""
        rows = self.database.read_now(HEAD_AND_TALLY, {"run": self._id})
        self._end = self._writes.load(rows)

    def write(
        self, lines: list[LineFields], at: float, guards: list[Step], more: list[Step]
    ) -> bool:
        """Append lines, and run statements with them. Returns False if someone was faster."""
        check_news(self._end, self._tried)
        self._tried = self._end
        plain = [as_line(one) for one in lines]
        head, _, steps = self._writes.append(self._end, plain, lines, at)
        end = [] if self._is_worked_on else [put_run(head)]  # else a worker records it
        steps = [*guards, *steps, *end, *more]
        return bool(self.database.transact_now(steps, len(guards) + GUARDS))


def _answer(run: _Chain, request_id: str, given: _Given) -> AnswerOutcome:
    while True:
        run.read_end()
        request = _find(run.database, request_id)
        if request is None:
            return say_unknown(request_id)  # it is gone by now
        if request.answer != given.save():  # else a lost connection has repeated the write
            refused = _refuse(request, given)
            if refused is not None:
                return refused
            votes, missing = _count_votes(run.database, request, given)
            if not _write(run, request, given, votes=votes, is_answer=not missing):
                continue
            if missing:
                return say_counted(request.pending, request.run, missing)
        if request.app is not None:
            run.database.tell_workers()
        reach("answer.given")
        record = read_record(request.pending.id, given.save(), given.claimant.by or None)
        return say_used(request.pending, request.run, record)


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
    """Return what to write for a vote, and how many more are needed."""
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
    run: _Chain, request: _Question, given: _Given, *, votes: list[Step], is_answer: bool
) -> bool:
    """Write an answer or a vote with its line. Returns False if someone else was faster."""
    lines, guards, more = [given.describe("vote", request.pending)], list[Step](), list(votes)
    if is_answer:
        lines = [given.describe(ANSWER, request.pending)]
        row = {"id": request.pending.id, "answer": given.save(), "by": given.claimant.by or None}
        guards.append((_PUT_ANSWER, [row]))
    if is_answer and request.app is not None:
        standing = {**RUNNING._asdict(), "why": "", "ended": None}
        lines.append({"event": STATUS, "at": given.at, **standing})
        wake = _WAKE.format(engine=run.database.engine_table)
        more.append((wake, [{"id": request.pending.id, "now": int(given.at * 1000)}]))
    return run.write(lines, given.at, guards, more)
