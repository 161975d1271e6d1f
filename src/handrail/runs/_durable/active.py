"""The segments and calls that run in this worker, and how to stop them from any thread."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import anyio

from handrail._support.loop import running_loop
from handrail.runs._durable.rows import Rows


class _Scope(NamedTuple):
    run: str
    id: str
    loop: Any
    scope: anyio.CancelScope


class Active:
    """The segments and the queued calls that this worker runs now."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._scopes: list[_Scope] = []

    def __len__(self) -> int:
        return len(self._scopes)

    @contextmanager
    def running(self, run: str, id_: str) -> Generator[None]:
        """Run something of a run inside. If it is stopped, what is inside is cancelled."""
        active = _Scope(run, id_, running_loop(), anyio.CancelScope())
        self._scopes.append(active)
        try:
            with active.scope:
                yield
        finally:
            self._scopes.remove(active)

    async def stop_cancelled(self) -> None:
        """Stop what belongs to runs that are cancelled, also inside of their tools."""
        if self._scopes:
            cancelled = await self._rows.cancelled_of([active.run for active in self._scopes])
            _stop(active for active in self._scopes if active.run in cancelled)

    def stop_others(self, owned: Sequence[str]) -> None:
        """Stop what other workers have taken over."""
        _stop(active for active in self._scopes if active.id not in owned)


def _stop(scopes: Iterable[_Scope]) -> None:
    for active in list(scopes):
        active.loop.call_soon_threadsafe(active.scope.cancel)
