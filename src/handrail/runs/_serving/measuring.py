"""Measure a worker and what waits for it, for a monitoring system."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import anyio

from handrail.runs._durable.counts import Counts
from handrail.runs._durable.rows import count_runs
from handrail.runs._engine.port import Engine, read_queue
from handrail.runs._reading.budgets import BudgetCounts, count_budgets
from handrail.runs._serving.handle import Measure
from handrail.runs._serving.taking import Taker
from handrail.runs._store.database import Database
from handrail.runs._store.port import DatabaseError

FRESH_SECONDS = 10.0
"""Maximum age for database numbers."""
_ASKED_SECONDS = 60.0
"""How long the worker continues to ask the database after someone has asked it."""
_MAX_SECONDS = 2.0
"""How long the database may take to count."""


class _Numbers(NamedTuple):
    """Numbers from the database."""

    queues: tuple[tuple[Mapping[str, str], int, float], ...] = ()
    """Labels, depth, and the oldest entry's time, for each non-empty queue."""
    runs: Mapping[str, tuple[int, float]] = {}
    """How many runs have a status, and when the first got it."""
    budgets: BudgetCounts = BudgetCounts()


class Meter:
    """Measures one worker, and the database it shares with others.

    The database is asked only if someone asks for the numbers, at most every ten seconds.
    """

    def __init__(self, engine: Engine, database: Database, taker: Taker, counts: Counts) -> None:
        self._engine = engine
        self._database = database
        self._taker = taker
        self._counts = counts
        self._waiting: _Numbers | None = None
        self._read_at = self._asked_at = -float("inf")

    async def refresh(self) -> None:
        """Count waiting work in the database, if someone has lately asked for it."""
        now = time.monotonic()
        if now - self._asked_at > _ASKED_SECONDS or now - self._read_at < FRESH_SECONDS:
            return
        self._read_at, found = now, None
        try:
            with anyio.move_on_after(_MAX_SECONDS):
                found = await self._count()
        except DatabaseError:
            found = None  # the measures report it as away
        self._waiting = found

    async def _count(self) -> _Numbers:
        queues = [
            ({"queue": name, "kind": kind}, depth, since)
            for queue, depth, since in await self._engine.measure()
            for kind, name in [read_queue(queue)]
        ]
        budgets = await count_budgets(self._database, time.time())
        return _Numbers(tuple(queues), await count_runs(self._database), budgets)

    async def read(self) -> tuple[Measure, ...]:
        """Return all measures, with new database numbers."""
        self._asked_at = time.monotonic()
        await self.refresh()
        return self.measures()

    async def render(self) -> str:
        """Return the same in the Prometheus text format."""
        return "".join(f"{line}\n" for one in await self.read() for line in _render(one))

    def measures(self) -> tuple[Measure, ...]:
        """Return all measures, with the last database numbers."""
        self._asked_at = time.monotonic()
        waiting = self._waiting or _Numbers()
        return (
            *self._measure_worker(),
            *_measure_queues(waiting),
            *_measure_runs(waiting),
            *_measure_budgets(waiting.budgets),
        )

    def _measure_worker(self) -> Iterator[Measure]:
        counts, errors = self._counts, self._database.errors
        used = self._taker.used
        slots = {"used": used, "free": max(0, self._taker.slots - used)}
        yield Measure(
            "handrail.worker.slots",
            "gauge",
            "{slot}",
            "Runs that this worker works on, and how many more it takes.",
            tuple(({"state": state}, number) for state, number in slots.items()),
        )
        for name, number, text in (
            ("takeovers", counts.takeovers, "Workers whose death this worker has seen."),
            ("taken_over", counts.taken_over, "Runs and calls of dead workers that continue."),
            ("calls.unknown", counts.unknown, "Calls that may have taken effect."),
            ("runs.failed", counts.failed, "Runs that have failed in this worker."),
        ):
            yield Measure(f"handrail.worker.{name}", "counter", "1", text, (({}, number),))
        yield Measure(
            "handrail.worker.database.errors",
            "counter",
            "1",
            "Statements that failed: the database was away, or has refused them.",
            tuple(({"kind": kind}, errors[kind]) for kind in ("away", "refused")),
        )
        up = Measure("handrail.worker.database.up", "gauge", "1", "Whether the database answers.")
        yield up._replace(values=(({}, float(self._waiting is not None)),))


def _measure_queues(waiting: _Numbers) -> Iterator[Measure]:
    depths = tuple((labels, float(depth)) for labels, depth, _ in waiting.queues)
    ages = tuple((labels, _age(since)) for labels, _, since in waiting.queues)
    text = "Runs and calls that wait for a worker of this version."
    yield Measure("handrail.queue.depth", "gauge", "1", text, depths)
    yield Measure("handrail.queue.oldest", "gauge", "s", "How long the oldest has waited.", ages)


def _measure_runs(waiting: _Numbers) -> Iterator[Measure]:
    statuses = waiting.runs.items()
    counts = tuple(({"status": status}, float(number)) for status, (number, _) in statuses)
    yield Measure("handrail.runs", "gauge", "1", "Runs in the database that need someone.", counts)
    ages = tuple(({"status": status}, _age(since)) for status, (_, since) in statuses)
    text = "How long the first of them has had its status."
    yield Measure("handrail.runs.oldest", "gauge", "s", text, ages)


def _measure_budgets(budgets: BudgetCounts) -> Iterator[Measure]:
    text = "Spent in the current window, by model or tool."
    yield Measure("handrail.budget.spent", "gauge", "1", text, budgets.spent)
    text = "Principals, tenants or others with a budget, and how many have used it up."
    yield Measure("handrail.budget.holders", "gauge", "1", text, budgets.holders)


def _age(since: float) -> float:
    return round(max(0.0, time.time() - since), 3)


def _render(measure: Measure) -> Iterator[str]:
    unit = "_seconds" if measure.unit == "s" else ""
    name = measure.name.replace(".", "_") + unit + ("_total" if measure.kind == "counter" else "")
    yield f"# HELP {name} {measure.text}"
    yield f"# TYPE {name} {measure.kind}"
    for labels, value in measure.values:
        pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
        yield f"{name}{f'{{{pairs}}}' if pairs else ''} {value:g}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
