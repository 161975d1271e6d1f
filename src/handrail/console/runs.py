"""The list of runs, and one run: where its time went, its turns, its calls, and why each waited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from handrail.console.config import Role
from handrail.console.drawing import Bar, describe, draw_call, draw_hours, draw_strip
from handrail.console.guard import Refusal, Visit
from handrail.console.request import from_path, to_path
from handrail.console.shown import Clear
from handrail.console.store import Site, number_of, query_of, visit_of
from handrail.console.words import count, duration, spaced
from handrail.runs import (
    CallHistory,
    CallRecord,
    CallRow,
    CallsPage,
    Records,
    RunFigures,
    RunQuery,
    RunsPage,
    RunSummary,
    TurnRow,
)

STATUSES = ("", "running", "pending", "answer", "failed", "limit", "interrupted", "stopped")
DAY = 86_400.0
CallView: TypeAlias = tuple[CallRow, Bar, Clear, str]
_ANSWERS = {"allow": "approved", "deny": "denied", "edit": "approved with other arguments"}


class Step(NamedTuple):
    """Something that happened to a call."""

    at: Clear
    text: str


class Runs:
    """The pages about runs."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def show_list(self, request: Request) -> Response:
        """Show runs, the newest first."""
        visit = visit_of(request)
        text, wanted = query_of(request, "q"), query_of(request, "status")
        after, now = from_path(query_of(request, "after")), self._site.clock()
        query = RunQuery(text=text, status=wanted)
        size = self._site.config.page_size

        def read(records: Records) -> tuple[RunsPage, RunFigures]:
            page = records.runs(query, after=after, limit=size)
            return page, records.figures(since=now - DAY)

        page, figures = await self._site.read(visit, "viewer", read)
        return self._site.renderer.page(
            "runs.html",
            visit,
            here=Clear("runs"),
            rows=page.rows,
            now=now,
            next=to_path(page.next) if page.next else "",
            again=Clear(urlencode({"q": text, "status": wanted}, errors="replace")),
            page_size=size,
            text=text,
            wanted=wanted,
            statuses=STATUSES,
            by_status=figures.by_status,
            hours=draw_hours(figures.by_hour, now),
        )

    async def show(self, request: Request) -> Response:
        """Show one run, and one of its calls if it is chosen."""
        visit = visit_of(request)
        run = from_path(request.path_params["run"])
        after, turn, call = (number_of(request, name) for name in ("after", "turn", "call"))

        def read(
            records: Records,
        ) -> tuple[RunSummary | None, tuple[TurnRow, ...], CallsPage, CallRecord | None]:
            found = records.run(run)
            if found is None:
                return None, (), CallsPage(rows=()), None
            size, start = self._site.config.page_size, after
            if call is not None and after is None and turn is None:
                start = (call - 1) // size * size  # the page with the chosen call
            calls = records.calls(run, after=start, turn=turn, limit=size)
            chosen = records.call(run, call) if call is not None else None
            return found, records.turns(run), calls, chosen

        found, turns, calls, chosen = await self._site.read(visit, "viewer", read)
        if found is None:
            raise Refusal(HTTPStatus.NOT_FOUND, "missing")
        now, hides = self._site.clock(), not _sees_content(visit, found)
        first = turns[0].at if turns else found.began
        place = {"after": after, "turn": turn}
        query = urlencode({name: value for name, value in place.items() if value is not None})
        views = [_turn(row, calls.rows, now, hides=hides) for row in _on_page(turns, calls)]
        return self._site.renderer.page(
            "run.html",
            visit,
            here=Clear("runs"),
            run=found,
            now=now,
            strip=draw_strip(turns, first, found.ended or found.changed),
            turns=views,
            folded=_folded(turns, calls),
            next=calls.next,
            here_query=Clear(f"{query}&" if query else ""),
            drawer=_drawer(chosen, hides=not _sees_content(visit, found, chosen))
            if chosen
            else None,
        )

    async def show_fleet(self, request: Request) -> Response:
        """Show what waits for people; workers and queues to those who see all runs."""
        visit = visit_of(request, "operator")
        whole = visit.person.labels("operator") is None
        fleet = await self._site.read(visit, "operator", lambda runs: runs.fleet())
        values: dict[str, Any] = {"here": Clear("fleet"), "now": self._site.clock()}
        return self._site.renderer.page("fleet.html", visit, fleet=fleet, whole=whole, **values)


def _sees_content(visit: Visit, run: RunSummary, call: CallRecord | None = None) -> bool:
    """Return whether a person sees arguments and results: who may answer, or audits."""
    reserved = call is not None and not visit.person.is_asked(call.approvers)
    roles: tuple[Role, ...] = ("auditor",) if reserved else ("approver", "auditor")
    for role in roles:
        labels = visit.person.labels(role)
        if visit.person.may(role) and (labels is None or not labels.isdisjoint(run.labels)):
            return True
    return False


def _on_page(turns: Sequence[TurnRow], calls: CallsPage) -> list[TurnRow]:
    """Return the turns whose calls are on the page; without calls, all turns."""
    if not calls.rows:
        return list(turns[-20:])
    first, last = calls.rows[0].turn, calls.rows[-1].turn
    return [turn for turn in turns if first <= turn.number <= last]


def _folded(turns: Sequence[TurnRow], calls: CallsPage) -> Clear:
    """Return what is before the page, in one line."""
    before = [turn for turn in turns if calls.rows and turn.number < calls.rows[0].turn]
    if not before:
        return Clear("")
    number, failed = sum(turn.calls for turn in before), sum(turn.failed for turn in before)
    return Clear(
        f"{count(len(before), 'turn')} before this: {count(number, 'call')}, {failed} failed."
    )


def _turn(
    turn: TurnRow, rows: Iterable[CallRow], now: float, *, hides: bool
) -> tuple[TurnRow, list[CallView]]:
    """Return a turn with the calls that are on this page."""
    own = [row for row in rows if row.turn == turn.number]
    start = min((row.began for row in own), default=turn.at)
    end = max((row.ended or now for row in own), default=start)
    return turn, [_call(row, start, end, hides=hides) for row in own]


def _call(row: CallRow, start: float, end: float, *, hides: bool) -> CallView:
    """Return a call with its bar, how long it ran, and why it waited."""
    history = row.history
    bar = draw_call(history, start, end) if history else Bar((), Clear("no record"))
    took = duration(history.seconds("running")) if history else Clear("")
    return row, bar, took, "; ".join(_reasons(history, hides=hides)) if history else ""


def _reasons(call: CallHistory, *, hides: bool) -> Iterable[str]:
    """Yield why a call waited."""
    for span in call.spans:
        if span.phase == "waiting" and span.why:
            what = f" ({span.what})" if span.what and not hides else ""
            yield f"waited {spaced(duration(span.seconds))} for {', '.join(span.why)}{what}"
        elif span.phase == "approval":
            yield f"waited {spaced(duration(span.seconds))} for approval"
    for one in call.moments:
        if one.what == "decided" and one.word == "deny":
            yield f"denied by {one.origin or 'the policy'}"
        elif one.what == "answered":
            yield f"{_ANSWERS.get(one.word, one.word)}"


def _drawer(record: CallRecord, *, hides: bool) -> dict[str, Any]:
    row, history = record.row, record.row.history
    diffs = [one.diff for one in history.moments if one.diff] if history else []
    return {
        "number": row.number,
        "id": row.id,
        "tool": row.tool,
        "status": row.status,
        "label": describe(history.spans) if history else Clear(""),
        "steps": [_step(event, row.began, hides=hides) for event in record.events],
        "rule": row.rule,
        "pending": to_path(row.pending) if row.pending else "",
        "args": _json(history.args) if history and not hides else "",
        "diff": "\n".join(diffs) if not hides else "",
        "text": history.text if history and not hides else "",
    }


def _step(event: Any, began: float, *, hides: bool) -> Step:
    """Return an event of a call as text; who may not answer sees no content."""
    at: Any = event.get("at")
    after = duration(max(0.0, at - began)) if isinstance(at, int | float) else Clear("")
    kind = str(event.get("event", ""))
    facts = [
        _fact(event[name])
        for name in ("decision", "answer", "by", "via", "origin", "reason", "attempt", "kind")
        if event.get(name) and not (hides and name == "reason")
    ]
    return Step(after, " · ".join([kind, *facts]))


def _fact(value: Any) -> str:
    """Return a field of an event; a rule with its file and line."""
    if isinstance(value, Mapping):
        rule = cast("Mapping[str, Any]", value)
        place = f" ({rule.get('file')}:{rule.get('line')})" if rule.get("file") else ""
        return f"{rule.get('rule')}{place}"
    return str(value)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
