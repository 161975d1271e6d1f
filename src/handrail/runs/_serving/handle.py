"""A running worker, as programs see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast


class Measure(NamedTuple):
    """A number for operators: its name, what it is, and its value for each label set."""

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    text: str
    values: tuple[tuple[Mapping[str, str], float], ...] = ()


class DurableWorker:
    """A running worker. An orchestrator can ask whether it is ready."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    @property
    def id(self) -> str:
        """Its id, which no other worker has."""
        return cast("str", self._worker.id)

    @property
    def is_ready(self) -> bool:
        """Whether it takes runs, and has lately reached the database."""
        return cast("bool", self._worker.is_ready)

    def measures(self) -> tuple[Measure, ...]:
        """Its numbers for a monitoring system, and those for waiting work in the database.

        Database numbers are at most some seconds old while someone asks for them.
        """
        return cast("tuple[Measure, ...]", self._worker.meter.measures())

    async def render_metrics(self) -> str:
        """The same with new database numbers, in the Prometheus text format."""
        return cast("str", await self._worker.meter.render())
