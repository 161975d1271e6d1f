"""A running worker, as programs see it."""

from __future__ import annotations

from typing import Any, cast


class DurableWorker:
    """A worker that runs. An orchestrator can ask whether it is ready."""

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
