"""A run in a journal: its summary, its states, its events, and answers to its pending calls."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from handrail.runs.journal import (
    SOME,
    STATUS,
    AppendConflict,
    JournalError,
    JournalLine,
    RunHead,
)
from handrail.runs.lines import ANSWER, EVENTS, LineFields, as_fields, as_line, event_lines
from handrail.runs.statuses import CANCELLED

if TYPE_CHECKING:  # listing runs does not need the agent
    from handrail.agent import RunState
    from handrail.events import Event
    from handrail.runs._durable.once import CallRecorder
    from handrail.runs._store.port import Step
    from handrail.runs.store import RunStore


class RunRecord:
    """One journal run.

    ``put`` and ``flush`` write lines in order, from any thread.

    Args:
        journal: The runs.
        run: The run's id.
        stays_removed: Whether writing raises AppendConflict once the run was removed.
    """

    def __init__(self, journal: RunStore, run: str, *, stays_removed: bool = False) -> None:
        self.journal = journal
        self.id = run
        self._stays_removed = stays_removed
        self.after: int | None = None
        """How many entries the run must have. 0: it is new, so it is not read."""
        self._unwritten: list[JournalLine] = []
        self._writing = threading.Lock()
        self._last: RunState | None = None
        """The last state read or written."""

    @property
    def head(self) -> RunHead:
        """The run's head, or an empty one if the journal lacks the run."""
        return self.journal.head(self.id) or RunHead(self.id)

    @cached_property
    def recorder(self) -> CallRecorder:
        """Records the run's calls, in its process: for ``Agent.run_recorded``."""
        from handrail.runs._durable.once import CallRecorder

        return CallRecorder(self.journal.database, self.id)

    def put(self, lines: Iterable[LineFields]) -> None:
        """Add lines for the next ``flush``."""
        self._unwritten += [as_line(fields) for fields in lines]

    def flush(self, *, after: int | None = None) -> None:
        """Write the waiting lines, in one transaction.

        Raises AppendConflict if the run must have ``after`` entries, and has not.
        """
        with self._writing:
            lines = list(self._unwritten)
            if lines:
                self.journal.append(self.id, lines, after=self.after if after is None else after)
                self._drop_written(lines)

    async def flush_with(self, guard: Step, rest: Sequence[Step]) -> bool:
        """Write the waiting lines and other statements, in one transaction.

        Returns False, and changes nothing, if the run or the guard's row is not as it should be.
        """
        lines = list(self._unwritten)
        appender = self.journal.appender
        if not await appender.append_with(self.id, lines, self.after, guard=guard, rest=rest):
            return False
        self._drop_written(lines)
        return True

    def _drop_written(self, lines: Sequence[JournalLine]) -> None:
        self.after = SOME if self._stays_removed else None
        del self._unwritten[: len(lines)]

    def note(self, lines: Iterable[LineFields]) -> None:
        """Write lines, behind those added before."""
        self.put(lines)
        self.flush()

    def set_status(self, **fields: Any) -> None:
        """Change summary fields."""
        self.note([{"event": STATUS, "at": time.time(), **fields}])

    def keep_waiting(self, state: RunState, fields: LineFields) -> bool:
        """Write a state and its summary, unless the run was cancelled: then return False."""
        self.flush()
        while (head := self.head).status != CANCELLED.status:
            before, kept = self._last, len(self._unwritten)
            self.put([{"event": STATUS, "at": time.time(), **fields}])
            try:
                self.keep(state, after=head.entries or SOME)
            except AppendConflict:  # look again at what was written
                self._last = before
                del self._unwritten[kept:]
                if not head.entries:
                    raise
            else:
                return True
        return False

    def keep(self, state: RunState, *, after: int | None = None) -> None:
        """Write a state, with only the messages added since the last one.

        Raises ValueError for values JSON cannot represent, and AppendConflict as ``flush`` does.
        """
        self.put_state(state)
        self.flush(after=after)

    def put_state(self, state: RunState) -> None:
        """Add a state for the next ``flush``."""
        from handrail.runs.states import count_shared, state_line

        last = self.state() if self._last is None else self._last
        kept = count_shared(last, state)  # the one comparison over all messages: the growing part
        same = kept == len(last.messages) == len(state.messages)
        if not same or state._replace(messages=last.messages) != last:
            at = time.time()
            counts = {"event": STATUS, "at": at, "turns": state.turns, "calls": state.calls}
            self._unwritten.append(state_line(state, kept, at))
            self.put([counts] if (state.turns, state.calls) != (last.turns, last.calls) else [])
            self._last = state

    async def save(self, state: RunState) -> None:
        """Write a state in a worker thread; an agent's ``save``."""
        from anyio import to_thread

        await to_thread.run_sync(self.keep, state)

    def state(self) -> RunState:
        """Return the messages and the pending calls. Raises InvalidState if they are damaged."""
        states = self.states()
        self._last = states[-1]
        return self._last

    def states(self) -> list[RunState]:
        """Return all the run's states, the empty one first."""
        from handrail.agent import RunState
        from handrail.runs.states import STATE, read_states

        return [RunState(), *read_states(self.journal.read(self.id, kinds=[STATE]))]

    def lines(self, *, after: int = 0) -> list[LineFields]:
        """Return what happened, as fields, without the first ``after`` entries."""
        return [as_fields(entry) for entry in self.journal.read(self.id, after=after, kinds=EVENTS)]

    @property
    def answers(self) -> dict[str, dict[str, str]]:
        """The latest answer to each pending call, by request id."""
        given: dict[str, dict[str, str]] = {}
        for entry in self.journal.read(self.id, kinds=[ANSWER]):
            fields = {name: str(value) for name, value in entry.content.items()}
            given[fields.get("pending", "")] = fields
        return given


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
            ended = self._ended  # events during the next line need another one
            with suppress(JournalError):
                await to_thread.run_sync(self._record.flush)
