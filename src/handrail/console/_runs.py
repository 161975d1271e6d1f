"""The list of runs, and one run: where its time went, its turns, its calls, and why each waited."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from handrail.console._config import Role
from handrail.console._figures import Bar, draw_call, draw_hours, draw_strip, duration
from handrail.console._guard import Visit
from handrail.console._rendering import make_environment
from handrail.console._shown import Clear
from handrail.console._store import Site, need, number_of, query_of, visit_of
from handrail.runs import Records, RunQuery
from handrail.runs.history import CallHistory, TokenShare, TokenSum, sum_tokens
from handrail.runs.records import (
    CallRecord,
    CallRow,
    CallsPage,
    RunFigures,
    RunsPage,
    RunSummary,
    TurnRow,
    from_path,
    read_call_records,
    to_path,
)
from handrail.runs.statuses import REASONS, STATUSES, WORKED_ON
from handrail.runs.wording import (
    describe_event,
    describe_moment,
    describe_phases,
    describe_status,
    describe_wait,
)

_ENDS = [(one, describe_status("done", one)[1].partition(": ")[2] or one) for one in REASONS]
"""The reasons why runs end, and their words."""
DAY = 86_400.0
MAX_RUNS = 10_000
"""Runs whose tokens a page counts at most."""
DAYS = (1, 7, 30)
POLICY = "default-src 'none'; style-src data:; img-src data:; base-uri 'none'; form-action 'none'"
CallView: TypeAlias = tuple[CallRow, Bar, Clear, str]


class Runs:
    """The pages about runs."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def show_list(self, request: Request) -> Response:
        """Show runs, the newest first."""
        visit = visit_of(request)
        text, wanted, ended = (query_of(request, name) for name in ("q", "status", "reason"))
        after, now = from_path(query_of(request, "after")), self._site.clock()
        query = RunQuery(text=text, status=wanted, reason=ended)
        again = urlencode({"q": text, "status": wanted, "reason": ended}, errors="replace")
        size = self._site.config.page_size

        def read(records: Records) -> tuple[RunsPage, RunFigures, bool]:
            page = records.runs(query, after=after, limit=size)
            return page, records.figures(since=now - DAY), records.searches_texts

        page, figures, searches_texts = await self._site.read(visit, "viewer", read)
        return self._site.page(
            "runs.html",
            visit,
            rows=page.rows,
            next=to_path(page.next) if page.next else "",
            again=Clear(again),
            text=text,
            searches_texts=searches_texts,
            wanted=wanted,
            statuses=STATUSES,
            ended=ended,
            reasons=_ENDS,
            by_status=figures.by_status,
            hours=draw_hours(figures.by_hour, now),
        )

    async def show(self, request: Request) -> Response:
        """Show one run, and one call if chosen."""
        visit = visit_of(request)
        run = from_path(request.path_params["run"])
        after, turn, call = (number_of(request, name) for name in ("after", "turn", "call"))

        def read(records: Records) -> tuple[Any, ...]:
            found = need(records.run(run))
            size, start = self._site.config.page_size, after
            if call is not None and after is None and turn is None:
                start = (call - 1) // size * size  # the page with the chosen call
            calls = records.calls(run, after=start, turn=turn, limit=size)
            chosen = records.call(run, call, page=calls) if call is not None else None
            turns = records.turns(run, after=max(0, calls.first_turn - 1))
            writes = found.status in WORKED_ON and sees_content(visit, found)
            text = records.text_under_way(run) if writes else ""
            return found, records.parts(run), turns, calls, chosen, text

        found, parts, turns, calls, chosen, text = await self._site.read(visit, "viewer", read)
        now, hides = self._site.clock(), not sees_content(visit, found)
        place = {"after": after, "turn": turn}
        query = urlencode({name: value for name, value in place.items() if value is not None})
        views = [_view_turn(row, calls.rows, now, hides=hides) for row in _on_page(turns, calls)]
        return self._site.page(
            "run.html",
            visit,
            run=found,
            strip=draw_strip(parts, parts[0].start if parts else 0, found.ended or found.changed),
            turns=views,
            writing=text,
            before=calls.rows[0].number - 1 if calls.first_turn else 0,
            next=calls.next,
            here_query=Clear(f"{query}&" if query else ""),
            drawer=_view_call(chosen, hides=not sees_content(visit, found, chosen))
            if chosen
            else None,
        )

    async def show_tokens(self, request: Request) -> Response:
        """Show the newest runs' tokens and cost over some days, by model and tool."""
        visit, asked = visit_of(request), number_of(request, "days")
        days = asked if asked in DAYS else DAYS[0]
        since = self._site.clock() - days * DAY
        shares = await self._site.read(
            visit, "viewer", lambda runs: runs.tokens(since=since, limit=MAX_RUNS)
        )
        budgets = await self._site.read(visit, "viewer", lambda runs: runs.budgets())
        return self._site.page(
            "tokens.html",
            visit,
            days=days,
            choices=DAYS,
            limit=MAX_RUNS,
            total=sum_tokens(shares),
            models=_sums(shares, lambda one: (one.model, one.replies)),
            tools=_sums(shares, lambda one: (one.tool, one.calls or one.replies)),
            budgets=budgets,
        )

    async def show_fleet(self, request: Request) -> Response:
        """Show what waits for people, plus workers and queues to those with access to all runs."""
        visit = visit_of(request, "operator")
        whole = visit.person.labels("operator") is None
        fleet = await self._site.read(visit, "operator", lambda runs: runs.fleet())
        return self._site.page("fleet.html", visit, fleet=fleet, whole=whole)


def sees_content(visit: Visit, run: RunSummary, call: CallRecord | None = None) -> bool:
    """Return whether a person sees arguments and results: who may answer, or audits."""
    reserved = call is not None and not visit.person.is_asked(call.approvers)
    roles: tuple[Role, ...] = ("auditor",) if reserved else ("approver", "auditor")
    return any(visit.person.may(role, run.labels) for role in roles)


def _sums(
    shares: Iterable[TokenShare], of: Callable[[TokenShare], tuple[str, float]]
) -> list[tuple[str, int, TokenSum]]:
    """Return token sums by name, with the number of replies or calls, the largest first."""
    several: dict[str, list[TokenShare]] = {}
    for one in shares:
        several.setdefault(of(one)[0], []).append(one)
    rows = [
        (name, round(sum(of(one)[1] for one in own)), sum_tokens(own))
        for name, own in several.items()
    ]
    return sorted(rows, key=lambda row: (-row[2].input_tokens - row[2].output_tokens, row[0]))


def _on_page(turns: Sequence[TurnRow], calls: CallsPage) -> list[TurnRow]:
    """Return the turns whose calls are on the page, and after the last call the last turns."""
    last = calls.rows[-1].turn if calls.rows else 0
    own = [turn for turn in turns if turn.number <= last]
    return own if calls.next else own + [turn for turn in turns if turn.number > last][-20:]


def _view_turn(
    turn: TurnRow, rows: Sequence[CallRow], now: float, *, hides: bool
) -> tuple[TurnRow, list[CallView]]:
    """Return a turn with its calls on this page."""
    own = [row for row in rows if row.turn == turn.number]
    start = min((row.began for row in own), default=turn.at)
    end = max((row.ended or now for row in own), default=start)
    names = {row.id: row.history for row in rows if row.history and row.turn <= turn.number}
    return turn, [_call(row, (start, end), names, hides=hides) for row in own]


def _call(
    row: CallRow, span: tuple[float, float], names: Mapping[str, CallHistory], *, hides: bool
) -> CallView:
    """Return a call with its bar, how long it ran, and why it waited."""
    if (history := row.history) is None:
        return row, Bar((), Clear("no record")), Clear(""), ""
    why = "; ".join(filter(None, _reasons(history, names, hides=hides)))
    return row, draw_call(history, *span), duration(history.seconds("running")), why


def _reasons(call: CallHistory, names: Mapping[str, CallHistory], *, hides: bool) -> Iterable[str]:
    """Yield why a call waited, and who decided about it."""
    for span in call.spans:
        yield describe_wait(replace(span, what="") if hides else span, names)
    for one in call.moments:
        if one.what in ("answered", "reviewed") or one.word == "deny":
            yield describe_moment(replace(one, text="") if hides else one, call.text)


def _view_call(record: CallRecord, *, hides: bool) -> dict[str, Any]:
    """Return everything about a call, without content for people unable to answer."""
    row, history = record.row, record.row.history
    diffs = [one.diff for one in history.moments if one.diff] if history else []
    return {
        "number": row.number,
        "id": row.id,
        "tool": row.tool,
        "status": row.status,
        "label": describe_phases(history.spans) if history else "",
        "steps": [_step(event, row.began, hides=hides) for event in record.events],
        "rule": row.rule,
        "pending": to_path(row.pending) if row.pending else "",
        "args": _json(history.args) if history and not hides else "",
        "diff": "\n".join(diffs) if not hides else "",
        "text": history.text if history and not hides else "",
    }


def _step(event: Mapping[str, Any], began: float, *, hides: bool) -> tuple[Clear, str]:
    """Return a call event's time and text, without content for people unable to answer."""
    at: Any = event.get("at")
    after = duration(max(0.0, at - began)) if isinstance(at, int | float) else Clear("")
    return after, describe_event(event, reasons=not hides)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def export_run(
    records: Records, run: str, lines: Iterable[Mapping[str, Any]], facts: Mapping[str, str]
) -> str:
    """Return a run as one HTML file, with all calls and everything in them.

    Args:
        records: Where the run is recorded.
        run: The run's id.
        lines: Its journal lines.
        facts: More facts for the page, by name.
    """
    found = records.run(run)
    if found is None:
        raise LookupError(run)
    turns, parts = records.turns(run, limit=100_000), records.parts(run)
    calls = read_call_records(records, run, lines)
    now, rows = found.ended or found.changed, [one.row for one in calls]
    css = files("handrail.console").joinpath("static/console.css").read_bytes()
    page = make_environment().get_template("run.html")
    return page.render(
        parent="base.html",
        policy=Clear(POLICY),
        style=Clear(f"data:text/css;base64,{base64.b64encode(css).decode()}"),
        **dict.fromkeys(("base", "script", "before", "next", "here_query", "writing"), ""),
        person=None,
        drawer=None,
        run=found,
        now=now,
        facts=facts,
        strip=draw_strip(parts, parts[0].start if parts else 0, now),
        turns=[_view_turn(turn, rows, now, hides=False) for turn in turns],
        details={one.row.number: _view_call(one, hides=False) for one in calls},
    )
