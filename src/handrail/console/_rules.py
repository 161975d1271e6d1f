"""The rules: which decide how often, what today's say about a call, and a rule to try out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from handrail.console._config import LoadRules
from handrail.console._guard import Visit
from handrail.console._runs import sees_content
from handrail.console._store import Site, need, number_of, query_of, visit_of
from handrail.policy import InvalidRule, count_uses, make_patch, read_recorded, try_rules
from handrail.runs import Records
from handrail.runs.records import from_path, past_call, read_past_calls

DAYS = 30


class Rules:
    """The rules page. It writes none."""

    def __init__(self, site: Site, load: LoadRules | None) -> None:
        self._site = site
        self._load = load

    async def show(self, request: Request) -> Response:
        """Show which rules decide, and what today's rules say about a recorded call."""
        visit, call = visit_of(request), number_of(request, "call")
        run = from_path(query_of(request, "run"))

        def read(records: Records) -> dict[str, Any]:
            found, record = need(records.run(run)), need(records.call(run, call or 0))
            then, hides = past_call(run, record), not sees_content(visit, found, record)
            recorded = read_recorded(then)
            now = self._load()(recorded.checked) if self._load and recorded else None
            text = "" if hides else getattr(now, "question", getattr(now, "reason", ""))
            return {"then": then, "rule": record.row.rule, "now": now, "text": text, "call": call}

        explained = await self._site.read(visit, "viewer", read) if run else None
        return await self._page(visit, explained=explained)

    async def replay(self, request: Request) -> Response:
        """Show a proposed rule's changes. An auditor sees all calls' content."""
        visit, load = visit_of(request, "auditor"), need(self._load)
        text = visit.field("rule").replace("\r\n", "\n")

        files = self._site.config.rules

        def read(records: Records) -> dict[str, Any]:
            try:
                trial = try_rules(text, load, read_past_calls(records))
            except InvalidRule as error:
                return {"trial": error.reason}
            return {"trial": trial, "patch": make_patch(files[-1], text) if files else text}

        values = await self._site.read(visit, "auditor", read)
        return await self._page(visit, text=text, **values)

    async def _page(self, visit: Visit, **values: Any) -> Response:
        since = datetime.fromtimestamp(self._site.clock() - DAYS * 86_400, UTC).date().isoformat()
        counts = await self._site.read(visit, "viewer", lambda runs: runs.rules(since=since))
        return self._site.page(
            "rules.html",
            visit,
            uses=count_uses(self._load() if self._load else None, counts),
            days=DAYS,
            has_rules=self._load is not None,
            **{"explained": None, "text": "", "trial": "", **values},
        )
