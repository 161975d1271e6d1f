"""`handrail run` at a terminal: a chat's face, without questions."""

from __future__ import annotations

from typing import Any

import anyio

from handrail.agent import RunState
from handrail.cli._chat.activity import JobList
from handrail.cli._chat.changes import CallChanges
from handrail.cli._chat.plain import PlainWatcher
from handrail.cli._chat.watch import Watcher
from handrail.cli._project.kit import Kit
from handrail.cli._screen.rows import Span
from handrail.cli._screen.terminal import Screen
from handrail.messages import Model

_TICK = 1 / 8


class RunFace:
    """Draws a run: its text as Markdown, its calls with their time, its plan and its cost."""

    def __init__(
        self, screen: Screen, watcher: Watcher | PlainWatcher, model: Model, mode: str
    ) -> None:
        self._screen = screen
        self._watcher = watcher
        watcher.model = model
        watcher.meter.mode = mode
        self.watch, self.on_wait = watcher.on_run_event, watcher.on_wait
        self.on_event = watcher.on_event

    def begin(self, run_id: str) -> None:
        """Print the run's id."""
        self._screen.show((Span(f"run {run_id}", "muted"),), ())
        self._watcher.begin()

    def know(self, state: RunState, window: int | None) -> None:
        """Count from where an earlier process ended."""
        self._watcher.count, self._watcher.meter.window = state.calls, window

    def end(self, document: dict[str, Any]) -> None:  # noqa: ARG002  the protocol has it
        """Remove the changing rows, and print the usage."""
        self._watcher.end()
        meter = self._watcher.meter
        if isinstance(self._watcher, PlainWatcher):
            for sentence in [meter.sentence] if meter.is_known else []:
                self._screen.say(sentence)
            return
        used = [meter.row("", self._screen.width)] if meter.is_known else []
        self._screen.show((), *used)

    async def tick(self) -> None:
        """Draw elapsed time."""
        await draw_time(self._watcher)


async def draw_time(watcher: Watcher | PlainWatcher) -> None:
    """Draw elapsed time, until cancelled."""
    while True:
        watcher.tick()
        await anyio.sleep(_TICK)


def open_watcher(screen: Screen, kit: Kit, *, plain: bool) -> Watcher | PlainWatcher:
    """Return what shows the events of a run."""
    changed = CallChanges(kit.workspace)
    watcher = PlainWatcher(screen, changed) if plain else Watcher(screen, changed)
    watcher.jobs = JobList(kit.list_jobs)
    return watcher
