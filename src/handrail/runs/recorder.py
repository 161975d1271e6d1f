"""Write the events of an executor to a journal, while a run is in progress."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import anyio
from anyio import to_thread

from handrail.events import Event
from handrail.runs.journal import JournalError
from handrail.runs.lines import event_lines
from handrail.runs.record import RunRecord


async def record_events(
    record: RunRecord,
    events: AsyncIterator[Event],
    on_event: Callable[[Event], None] | None = None,
) -> None:
    """Write events to a run until there are no more, also while the caller is cancelled.

    A worker thread writes. Events that come at the same time are written together. If the journal
    cannot be written, the events wait for the next state, whose error reports it.

    Args:
        record: The run.
        events: The feed of an executor or a turn. It must end: close it.
        on_event: Gets each event. It must not block.
    """
    writer = _EventWriter(record)
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.write)
            async for event in events:
                writer.put(event)
                if on_event is not None:
                    on_event(event)
            writer.end()


class _EventWriter:
    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._news = anyio.Event()
        self._ended = False

    def put(self, event: Event) -> None:
        self._record.put(event_lines(event, self._record.id))
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def write(self) -> None:
        ended = False
        while not ended:
            await self._news.wait()
            self._news = anyio.Event()
            ended = self._ended  # events that come during the next line need another one
            with suppress(JournalError):
                await to_thread.run_sync(self._record.flush)
