"""The runs of this process, so that a sub-agent finds the run that it works for."""

from __future__ import annotations

from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handrail.agent._loop.loop import Loop

_LIVE: MutableMapping[str, Loop[Any]] = {}


@contextmanager
def live(run_id: str, loop: Loop[Any]) -> Generator[None]:
    """Make a run known while it runs."""
    before = _LIVE.get(run_id)
    _LIVE[run_id] = loop
    try:
        yield
    finally:
        if before is None:
            del _LIVE[run_id]
        else:
            _LIVE[run_id] = before


def find_run(run_id: str) -> Loop[Any] | None:
    """Return the run with this id, if it runs in this process."""
    return _LIVE.get(run_id)
