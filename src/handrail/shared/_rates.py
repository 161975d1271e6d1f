"""The times of limited calls, for all processes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from anyio import to_thread

from handrail import CheckedCall
from handrail.agent import Spender
from handrail.runs import RunStore, open_runs
from handrail.shared._holders import Per, check_per, find_holder

MAX_CALLS = 1_000
"""The largest limit: each call's time is stored until its period ends."""
_CLEANING_SECONDS = 86_400.0
_MIN_WAIT = 0.1
_OPEN = "INSERT INTO handrail_rate VALUES (:name, :holder, :expires, '[]') ON CONFLICT DO NOTHING"
_KEY = "name = :name AND holder = :holder"
_TIMES = f"SELECT times FROM handrail_rate WHERE {_KEY}"
_REMOVE = "DELETE FROM handrail_rate WHERE expires < :now"


class SharedRates:
    """Counts calls for ``handrail.hooks.rate_limit`` over all processes: pass it as ``rates``.

    Args:
        database: A path, ``postgresql://...``, or a ``RunStore``.
        per: Each ``principal`` or ``tenant`` has its own limits, or the name from a function.
            Default: all share them.
        name: The name in the database. Limits with one name and period are one limit.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] | RunStore,
        *,
        per: Per | None = None,
        name: str = "calls",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if per is not None:
            check_per("SharedRates", per)
        self._store = database if isinstance(database, RunStore) else open_runs(database)
        self._per: Per | None = per
        self._name = name
        self._clock = clock
        self._cleaned = float("-inf")
        each, at, made = _JSON[self._store.database.is_postgres]
        recent = f"FROM {each} WHERE {at} > :since"
        self._take = (  # a token bucket allows twice as many: decision 159
            f"UPDATE handrail_rate SET expires = :expires, times = (SELECT {made} FROM "
            f"(SELECT {at} AS at {recent} UNION ALL SELECT :now) AS t) "
            f"WHERE {_KEY} AND (SELECT COUNT(*) {recent}) < :most"
        )

    def check(self, most: int, /) -> None:
        """Raise ValueError for a limit too large to count."""
        if most > MAX_CALLS:
            raise ValueError(f"SharedRates: a limit is at most {MAX_CALLS:,} calls, not {most:,}.")

    async def take(self, call: CheckedCall, most: int, seconds: float, /) -> float | None:
        """Count a call. Returns None, or the seconds until it would be accepted."""
        holder = self._find_holder(call)
        if holder is None:
            return None
        now = self._clock()
        await self._clean(now)
        key = {"name": f"{self._name}/{call.name}/{float(seconds)}", "holder": holder}
        opened = {**key, "expires": now + seconds}
        row: dict[str, Any] = {**opened, "now": now, "since": now - seconds, "most": most}
        steps: list[Any] = [(_OPEN, [opened]), (self._take, [row])]
        if (await self._store.database.transact(steps, 0))[-1]:
            return None
        rows = await self._store.database.read(_TIMES, **key)
        times: list[float] = sorted(json.loads(rows[0][0])) if rows else []
        return max(times[-most] + seconds - now if len(times) >= most else 0.0, _MIN_WAIT)

    def _find_holder(self, call: CheckedCall) -> str | None:
        if self._per is None:
            return ""
        spender = Spender(call.turn.principal, call.turn.metadata, call.turn.run_id)
        return find_holder(self._per, spender)

    async def _clean(self, now: float) -> None:
        """Create the tables, and remove rows whose period has ended, once a day."""
        if now - self._cleaned >= _CLEANING_SECONDS:
            await to_thread.run_sync(self._store.create)
            await self._store.database.write(_REMOVE, now=now)
            self._cleaned = now


_JSON = (
    ("json_each(times)", "value", "json_group_array(at)"),
    (
        "json_array_elements_text(CAST(times AS json)) AS e(value)",
        "CAST(value AS DOUBLE PRECISION)",
        "CAST(json_agg(at) AS text)",
    ),
)
"""The rows of a JSON array, a row's number, and an array of them: on SQLite, and on PostgreSQL."""
