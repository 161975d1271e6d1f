"""Records over a database: each method is one to three statements, whatever the row count."""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from handrail.permissions import Pending
from handrail.runs._reading.budgets import BudgetUse, read_uses
from handrail.runs._reading.calls import open_turn, read_call, read_calls
from handrail.runs._reading.events import find_events, follow_events
from handrail.runs._reading.searches import find_runs, find_tokens, read_fleet
from handrail.runs._reading.under_way import count_texts, read_text
from handrail.runs._reading.values import (
    CallRecord,
    CallsPage,
    EventQuery,
    EventsPage,
    Fleet,
    InboxPage,
    InboxRow,
    ModelTokens,
    RequestRecord,
    RuleCount,
    RunFigures,
    RunPart,
    RunQuery,
    RunsPage,
    RunSummary,
    TurnRow,
    Vote,
)
from handrail.runs._store.database import Database
from handrail.runs._store.tables import SUMMARY_COLUMNS
from handrail.runs.answers import AnswerRecord, is_vote_for, read_record
from handrail.runs.history import TokenShare
from handrail.runs.journal import EventRow

_HOUR = 3600
_SUMMARY = ", ".join(f"s.{name}" for name in SUMMARY_COLUMNS.split(", "))
_TURN = {one.name: one.name.removesuffix("_tokens") for one in fields(TurnRow)}
"""A turn's fields, and their columns."""
_COLUMNS = len(SUMMARY_COLUMNS.split(", "))


class Records:
    """Reads what pages show. It never writes.

    ``RunStore.records`` makes one. It sees only runs that have one of its labels, and answers about
    all others as about runs that do not exist. Its methods block, each reads with few statements,
    and they are safe in any thread.

    Args:
        database: The database.
        labels: It sees only runs that have one of these labels; None: all runs.
        clock: Returns the time.
    """

    def __init__(
        self,
        database: Database,
        labels: Collection[str] | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._clock = clock
        self._labels = None if labels is None else frozenset(labels)
        self._names = {f"label{n}": label for n, label in enumerate(sorted(self._labels or ()))}

    @property
    def searches_texts(self) -> bool:
        """Whether a search finds words in prompts. It cannot if they are sealed."""
        return self._database.seals.codec is None

    def text_under_way(self, run: str) -> str:
        """Return the end of the text that a durable run's model writes now, or ""."""
        return read_text(self._database.read_now, run)

    def texts_under_way(self) -> dict[str, int]:
        """Return the runs whose models write now, each with a number that then changes."""
        return count_texts(self._database.read_now)

    def inbox(self, *, after: str = "", limit: int = 50) -> InboxPage:
        """Return what waits for a person, by the time that is left.

        Args:
            after: The key of the page, from ``InboxPage.next``.
            limit: How many rows to return at most.
        """
        expires, _, id_ = after.partition(" ")
        rows = self._select(
            "SELECT q.id, q.run, q.pending, q.expires, s.agent, s.principal "
            "FROM handrail_question q CROSS JOIN handrail_summary s "
            "WHERE s.run = q.run AND s.status = 'waiting' AND q.answer IS NULL "
            f"AND q.expires > :now AND {self._seen('q.run')} "
            "AND (q.expires, q.id) > (:expires, :id) ORDER BY q.expires, q.id LIMIT :limit",
            now=self._clock(),
            expires=_number(expires, -1.0),
            id=id_,
            limit=limit + 1,
        )
        [(total,)] = self._select(
            "SELECT COALESCE(SUM(s.waiting), 0) FROM handrail_summary s "
            f"WHERE s.status = 'waiting' AND s.waiting > 0 AND {self._seen('s.run')}"
        )
        asked = [Pending.from_json(row[2]) for row in rows[:limit]]
        votes = self._read_votes([one.id for one in asked if one.approvers.count > 1])
        found = tuple(_inbox_row(*both, votes) for both in zip(rows, asked, strict=False))
        more = f"{rows[limit - 1][3]!r} {rows[limit - 1][0]}" if len(rows) > limit else ""
        return InboxPage(rows=found, next=more, total=max(int(total), len(found)))

    def budgets(self) -> tuple[BudgetUse, ...]:
        """Return what is spent of each budget. None, if it sees only some runs."""
        return () if self._labels is not None else read_uses(self._database.read_now, self._clock())

    def _read_votes(self, requests: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return votes about requests: each has its request's id, and its text."""
        if not requests:
            return []
        query = "SELECT pending, answer FROM handrail_vote WHERE pending IN"
        rows = self._select(f"{query} {self._database.members}", ids=json.dumps(list(requests)))
        return [(request, vote) for request, vote in rows]

    def request(self, pending_id: str) -> RequestRecord | None:
        """Return a request with everything stored when it was asked."""
        rows = self._select(
            "SELECT q.pending, q.answer, q.answered_by, c.resumed, c.number, r.app, "
            f"{_SUMMARY} FROM handrail_question q JOIN handrail_summary s ON s.run = q.run "
            "JOIN handrail_run r ON r.id = q.run "
            "LEFT JOIN handrail_called c ON c.pending = q.id AND c.run = q.run "
            f"WHERE q.id = :id AND {self._seen('q.run')}",
            id=pending_id,
        )
        if not rows:
            return None
        pending, answer, by, resumed, number, app, *summary = rows[0]
        votes = self._select(
            "SELECT voter, at, answer, via FROM handrail_vote WHERE pending = :id "
            "ORDER BY at, voter",
            id=pending_id,
        )
        asked = Pending.from_json(pending)
        return RequestRecord(
            pending=asked,
            run=summary_of(summary),
            answer=None if answer is None else read_record(pending_id, answer, by, resumed),
            votes=tuple(_vote(vote) for vote in votes if is_vote_for(vote[2], asked.fingerprint)),
            call=number or 0,
            app=app or "",
        )

    def receipt(self, pending_id: str) -> AnswerRecord | None:
        """Return the answer to a request; None if it has none."""
        rows = self._select(
            "SELECT q.answer, q.answered_by, c.resumed FROM handrail_question q "
            "LEFT JOIN handrail_called c ON c.pending = q.id AND c.run = q.run "
            f"WHERE q.id = :id AND {self._seen('q.run')}",
            id=pending_id,
        )
        return read_record(pending_id, *rows[0]) if rows and rows[0][0] is not None else None

    def runs(self, query: RunQuery | None = None, *, after: str = "", limit: int = 50) -> RunsPage:
        """Return runs, the newest first."""
        where, values = find_runs(query or RunQuery(), in_texts=self.searches_texts)
        began, _, run = after.partition(" ")
        if run:
            where += " AND (s.began, s.run) < (:began, :run)"
            values |= {"began": _number(began, math.inf), "run": run}
        rows = self._select(
            f"SELECT {_SUMMARY} FROM handrail_summary s WHERE {where} AND {self._seen('s.run')} "
            "ORDER BY s.began DESC, s.run DESC LIMIT :limit",
            limit=limit + 1,
            **values,
        )
        found = tuple(summary_of(row) for row in rows[:limit])
        more = f"{found[-1].began!r} {found[-1].id}" if len(rows) > limit else ""
        return RunsPage(rows=found, next=more)

    def figures(self, *, since: float = 0.0) -> RunFigures:
        """Return how many runs there are by status, and when they began."""
        where = f"s.began >= :since AND {self._seen('s.run')}"
        statuses = self._select(
            f"SELECT s.status, s.reason, COUNT(*) FROM handrail_summary s WHERE {where} "
            "GROUP BY s.status, s.reason",
            since=since,
        )
        hours = self._select(
            f"SELECT CAST(s.began AS BIGINT) / {_HOUR}, COUNT(*) FROM handrail_summary s "
            f"WHERE {where} GROUP BY 1 ORDER BY 1",
            since=since,
        )
        return RunFigures(
            by_status={(one, reason): count for one, reason, count in sorted(statuses)},
            by_hour=tuple((float(hour * _HOUR), count) for hour, count in hours),
        )

    def tokens(self, *, since: float = 0.0, limit: int = 10_000) -> tuple[TokenShare, ...]:
        """Return the tokens of runs by model and tool.

        Args:
            since: Only runs that began at this time or later.
            limit: How many runs count at most, the newest first.
        """
        return find_tokens(self._select, self._seen("s.run"), since=since, limit=limit)

    def run(self, run: str) -> RunSummary | None:
        """Return a run's summary."""
        rows = self._select(
            f"SELECT {_SUMMARY} FROM handrail_summary s WHERE s.run = :run "
            f"AND {self._seen('s.run')}",
            run=run,
        )
        return summary_of(rows[0]) if rows else None

    def turns(self, run: str, *, after: int = 0, limit: int = 2000) -> tuple[TurnRow, ...]:
        """Return the turns of a run, in order.

        Args:
            run: The run.
            after: The number of the turn to continue after.
            limit: How many rows to return at most.
        """
        rows = self._select(
            f"SELECT {', '.join(_TURN.values())} FROM handrail_turn "
            "WHERE run = :run AND number > :after "
            f"AND {self._seen('run')} ORDER BY number LIMIT :limit",
            run=run,
            after=after,
            limit=limit,
        )
        return tuple(TurnRow(**dict(zip(_TURN, row, strict=True))) for row in rows)

    def parts(self, run: str, *, limit: int = 80) -> tuple[RunPart, ...]:
        """Return where a run's time went, in at most ``limit`` parts."""
        rows = self._select(
            "SELECT MIN(at - seconds), MAX(ended), SUM(seconds), SUM(CASE WHEN waiting > 0 "
            "THEN ended - at WHEN answered > at THEN answered - at ELSE 0 END), "
            "SUM(ended - at), SUM(failed) FROM handrail_turn LEFT JOIN "
            "(SELECT turn, MAX(resumed) AS answered FROM handrail_called WHERE run = :run "
            "AND resumed IS NOT NULL GROUP BY turn) AS a ON a.turn = number "
            f"WHERE run = :run AND {self._seen('run')} GROUP BY (number - 1) * :limit / "
            "(SELECT MAX(number) FROM handrail_turn AS t WHERE t.run = :run) ORDER BY 1",
            run=run,
            limit=limit,
        )
        return tuple(
            RunPart(start, end, models, people, calls - people, failed)
            for start, end, models, people, calls, failed in rows
        )

    def calls(
        self, run: str, *, after: int | None = None, turn: int | None = None, limit: int = 100
    ) -> CallsPage:
        """Return calls of a run, in order.

        Without ``after`` and ``turn``, the page opens at the turn that matters. That is the first
        with a call that waits for a person, else the first with one that failed, else the last.

        Args:
            run: The run.
            after: The number of the call to continue after.
            turn: The turn to begin at.
            limit: How many rows to return at most.
        """
        if after is None and turn is None:
            turn = open_turn(self._select, run, self._seen("run"))
        place = {"after": after or 0, "turn": turn or 0, "limit": limit}
        return read_calls(self._database, self._select, run, seen=self._seen("run"), place=place)

    def call(self, run: str, number: int, *, page: CallsPage | None = None) -> CallRecord | None:
        """Return one call with its history; ``page`` spares reading its events again."""
        seen = self._seen("run")
        return read_call(self._database, self._select, run, seen=seen, number=number, page=page)

    def events(
        self, query: EventQuery | None = None, *, before: int = 0, limit: int = 100
    ) -> EventsPage:
        """Return events, the newest first.

        A page searches a bounded part of the journals. It can be empty though others follow.

        Args:
            query: Which events.
            before: The place to continue before, from ``EventsPage.next``.
            limit: How many rows to return at most.
        """
        wanted, seen = query or EventQuery(), self._seen("j.run")
        return find_events(self._select, wanted, seen=seen, before=before, limit=limit)

    def rules(self, *, since: str = "", until: str = "") -> tuple[RuleCount, ...]:
        """Return how often each rule decided, between two days such as ``2026-11-17``."""
        rows = self._select(
            "SELECT rule, file, line, day, outcome, labels, count FROM handrail_rule "
            "WHERE day >= :since AND (:until = '' OR day <= :until) "
            "ORDER BY rule, file, line, day, outcome",
            since=since,
            until=until,
        )
        counts: dict[tuple[Any, ...], int] = {}
        for *key, labels, count in rows:
            if self._labels is None or self._labels.intersection(json.loads(labels)):
                counts[tuple(key)] = counts.get(tuple(key), 0) + count
        return tuple(
            RuleCount(rule=rule, file=file, line=line, day=day, outcome=outcome, count=count)
            for (rule, file, line, day, outcome), count in counts.items()
        )

    def fleet(self) -> Fleet | None:
        """Return workers, queues and parked requests; None if no engine runs the runs."""
        if not self._database.has_engine():
            return None
        seen = self._seen("s.run"), self._seen("run")
        return read_fleet(self._select, self._database.engine_table, seen, self._clock())

    def follow(self, after: int | None = None) -> AsyncIterator[EventRow]:
        """Yield events as they are written, after a place; default: from now on."""
        return follow_events(self._database, after, self._seen("j.run"), self._names)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _seen(self, column: str) -> str:
        """Return the condition for a run with one of the labels."""
        if self._labels is None:
            return "1 = 1"
        names = ", ".join(f":{name}" for name in self._names)
        several = f"SELECT l.run FROM handrail_label l WHERE l.label IN ({names})"
        return f"{column} IN ({several})" if names else "1 = 0"

    def _select(self, sql: str, **values: Any) -> Sequence[tuple[Any, ...]]:
        return self._database.read_now(sql, {**values, **self._names})


def summary_of(row: Sequence[Any]) -> RunSummary:
    """Return a summary from its columns."""
    run, status, reason, agent, principal, prompt, labels, began, ended = row[:9]
    changed, last_event, why, entries, turns, calls, waiting, counts, tokens, cost = row[9:_COLUMNS]
    used: Mapping[str, Any] = json.loads(tokens)
    return RunSummary(
        id=run,
        status=status,
        reason=reason,
        agent=agent,
        principal=principal,
        prompt=prompt,
        labels=tuple(json.loads(labels)),
        began=began,
        ended=ended,
        changed=changed,
        last_event=last_event,
        why=why,
        entries=entries,
        turns=turns,
        calls=calls,
        waiting=waiting,
        counts=json.loads(counts),
        tokens=tuple(ModelTokens(model, *several) for model, several in used.items()),
        cost=cost,
    )


def _inbox_row(
    row: tuple[Any, ...], pending: Pending, votes: Sequence[tuple[str, str]]
) -> InboxRow:
    id_, run, _, expires, agent, principal = row
    return InboxRow(
        id=id_,
        run=run,
        agent=agent,
        principal=pending.principal or principal,
        tool=pending.call.name,
        grade=pending.grade,
        headline=pending.headline,
        question=pending.question,
        kind=pending.kind,
        asked=pending.asked_at,
        expires=expires,
        parts=len(pending.parts),
        votes=sum(is_vote_for(vote, pending.fingerprint) for of, vote in votes if of == id_),
        approvers=pending.approvers,
    )


def _vote(row: tuple[Any, ...]) -> Vote:
    voter, at, answer, via = row
    return Vote(voter, at, read_record("", answer).answer, via)


def _number(text: str, fallback: float) -> float:
    try:
        return float(text)
    except ValueError:
        return fallback
