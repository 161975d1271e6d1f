"""Order: each call waits for conflicting earlier calls, and for a free slot.

A call a tool makes through its own executor (an inner call) shares the schedule entry of its
tool's call, which then also holds the inner call's accesses. It waits for running calls that
conflict, but not for waiting ones, which may wait for its own tool. If two tools would wait for
each other, one of the calls fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial

import anyio

from handrail._execution.running import ALONE, InnerPlace, RequestedCall, RunningCall, Waits
from handrail._execution.settings import CallLimits
from handrail._execution.threads import Thread
from handrail._schedule.access_index import AccessIndex
from handrail._schedule.readiness import BEHIND, CLEAR, STARTED, STUCK
from handrail._schedule.schedule import Schedule
from handrail._support.loop import spawn
from handrail._turn.event_feed import Listeners
from handrail._values.access import Access
from handrail._values.effect import WRITE
from handrail._values.result import FailureKind, Result
from handrail.events import Waiting


class Ordering:
    """The calls in the schedule, and which ones they wait for."""

    def __init__(
        self,
        limits: CallLimits,
        listeners: Listeners,
        call: Callable[[Callable[[], None]], None],
        moved: Callable[[], None],
    ) -> None:
        self._schedule = Schedule(
            max_running=limits.max_running, max_per_tool=limits.max_running_per_tool
        )
        self._patience = limits.timeout
        self._listeners = listeners
        self._call = call
        """Calls a function in the executor's event loop, from any thread."""
        self._moved = moved
        """Called when a thread has ended."""
        self._calls: dict[int, RunningCall] = {}
        """Calls by their numbers in the schedule."""
        self._lingering: dict[int, RunningCall] = {}
        """Ended calls with running threads."""
        self._inner: dict[int, RunningCall] = {}
        """Inner calls by their numbers, in order of arrival."""
        self._within: dict[RunningCall, int] = {}
        """Outer calls with inner calls, and how many they have."""
        self._survived: set[RunningCall] = set()
        """Ended calls with running inner calls."""
        self._unstarted: dict[RequestedCall | None, AccessIndex] = {}
        """The accesses for inner calls not yet started, by outer call."""
        self._waits = Waits()
        self._numbers = 0
        self._watch: list[object] | None = None
        """The task watching ended calls' threads."""
        self._last_ended: anyio.Event | None = None
        """Set when no ended call's thread is running any more."""

    @property
    def is_empty(self) -> bool:
        """Whether no call is running, and no thread has outlived its call."""
        return not self._schedule.open and not self._inner

    def enter(self, running: RunningCall, releases: int = 0) -> None:
        """Schedule a call after conflicting ones.

        ``releases`` is how many it waits for: of its approval, and of others' decisions.
        """
        self._numbers += 1
        key = running.key = self._numbers
        record = running.record
        if record.parent is not None:
            root = self._root_of(running)
            if root is not None:
                self._enter_within(running, InnerPlace(root, releases))
                return
        self._calls[key] = running
        checked = running.checked
        accesses, effect = checked.accesses, (spec := checked.spec).effect
        if spec.exclusive:
            accesses, effect = ALONE, WRITE
        is_free = not releases and not record.turn.waiting
        if is_free and self._schedule.start_now(key, spec.name, accesses, effect):
            running.readiness = STARTED
        else:
            self._queue(running, accesses, releases)

    def _queue(self, running: RunningCall, accesses: tuple[Access, ...], releases: int) -> None:
        waits = self._schedule.add(running.key, running.checked.name, accesses, held=releases)
        parent = running.record.parent
        if parent is not None and (parent.running is None or not parent.running.key):
            # a `before` hook made it; waiting calls may wait for the hook's own call
            waits = self._schedule.advance(running.key)
        running.readiness = BEHIND if waits else CLEAR
        self._emit_waiting(running, accesses, waits)
        self.launch()
        if not releases:
            self.emit_if_crowded(running)

    def amend(self, running: RunningCall) -> None:
        """Update an edited call, which may have other accesses."""
        if running.inner is None:
            self._schedule.amend(running.key, running.reserved)
        else:
            self._drop_unstarted(running)
            self._add_unstarted(running)
            self._waits.wake(running)

    def is_started(self, running: RunningCall) -> bool:
        """Return whether a call's tool is running."""
        found = self._inner.get(running.key) or self._calls.get(running.key)
        is_known = found is running and running not in self._survived
        return is_known and running.readiness is STARTED

    def extend(self, running: RunningCall, accesses: tuple[Access, ...]) -> bool:
        """Give a running call these accesses. Returns False if it must wait for another call."""
        wanted = ALONE if running.checked.spec.exclusive else accesses
        is_behind = running.inner is None and self._schedule.is_behind(running.key, wanted)
        if is_behind or self._conflicting(running, wanted):
            return False
        self._schedule.extend(running.key, wanted)
        self.launch()
        return True

    def restart(self, running: RunningCall) -> None:
        """Let a started call wait again, since its accesses have changed. It keeps its place."""
        running.readiness, accesses = BEHIND, running.reserved
        if running.inner is None:
            waits = self._schedule.restart(running.key, accesses)
            self._emit_waiting(running, accesses, waits)
        else:
            self._schedule.take_back(running.key, running.checked.name)
            self._add_unstarted(running)
            self._waits.wake(running)
        self.launch()

    def release(self, running: RunningCall) -> None:
        """Release a call waiting for approval, or for others' decisions."""
        if running.inner is not None:
            running.inner.releases -= 1
            running.record.wake()
        elif running.key in self._calls:
            self._schedule.release(running.key)

    def launch(self) -> None:
        """Start the ready calls."""
        for key in self._schedule.startable():
            running = self._calls[key]
            running.readiness = STARTED
            running.record.wake()

    async def wait(self, running: RunningCall) -> Result | None:
        """Wait until a call can start. Returns its result if it never can."""
        record = running.record
        if running.inner is not None and not await self._wait_within(running, running.inner):
            return Result.fail(record.call.id, FailureKind.TRANSIENT, _CIRCLE)
        while running.readiness in (BEHIND, CLEAR) and not record.stopped:
            record.gate = anyio.Event()
            await record.gate.wait()
        is_stuck = running.readiness is STUCK
        return Result.fail(record.call.id, FailureKind.TIMEOUT, _STUCK) if is_stuck else None

    def leave(self, running: RunningCall) -> None:
        """Note that a call has ended. Its accesses are free once its thread has ended, too."""
        if self._within and (running.inner is not None or running in self._within):
            if self._find(running.key) is not running:
                return
            if running.inner is None:
                self._survived.add(running)
        elif self._calls.pop(running.key, None) is None:
            return  # its event loop was closed
        thread = running.thread
        if thread is not None and self._outlives(thread, running):
            pass
        elif self._within:
            self._free(running)
        else:
            self._schedule.end(running.key)
        if self._schedule.open and (
            running.readiness is STARTED
            or not any(call.is_leaving for call in self._calls.values())
        ):
            self.launch()

    def _free(self, running: RunningCall) -> None:
        """Free what a call held whose tool and thread have ended. Inner calls keep its slot."""
        if running.inner is not None:
            self._leave_within(running, running.inner.root)
        elif running in self._survived:
            self._schedule.drop_accesses(running.key)
        else:
            self._schedule.end(running.key)
        self._waits.end(running)

    def drop_lost(self, lost: Sequence[RequestedCall]) -> None:
        """Drop the calls of a closed event loop. Only threads continue."""
        for record in lost:
            record.gate = record.stop = None
            record.stopped = True
        self._waits, self._watch, self._last_ended = Waits(), None, None
        for running in [record.running for record in reversed(lost) if record.running is not None]:
            self.leave(running)
        if self._lingering:
            self._watch_lingering()

    def conflicting(self, accesses: tuple[Access, ...]) -> tuple[str, ...]:
        """Return the ids a call with these accesses would wait for."""
        return tuple([self._name_of(key) for key in self._schedule.conflicting(accesses)])

    def _emit_waiting(
        self, running: RunningCall, accesses: tuple[Access, ...], waits: tuple[int, ...]
    ) -> None:
        """Send an event with the calls a call waits for, and the resource they use."""
        if not waits or not self._listeners.feeds:
            return
        what = self._schedule.find_conflict(accesses, waits)
        self._emit(running, [self._name_of(other) for other in waits], "resource", what)

    def emit_if_crowded(self, running: RunningCall) -> None:
        """Send an event if a call waits only for a free slot, with the calls holding them."""
        if running.readiness is CLEAR and running.key in self._calls and self._listeners.feeds:
            name = running.checked.name
            tool = name if self._schedule.is_full(name) else ""
            started = [call for call in self._calls.values() if call.readiness is STARTED]
            users = [call for call in started if tool in ("", call.checked.name)]
            self._emit(running, [call.record.call.id for call in users], "slot", tool)

    def _emit(self, running: RunningCall, others: list[str], reason: str, what: str) -> None:
        fields = running.record.call.id, tuple(others), reason, what
        self._listeners.emit(running.record, Waiting, *fields)

    def _name_of(self, key: int) -> str:
        running = self._calls.get(key)
        return running.record.call.id if running is not None else "(a stopped call)"

    # -- threads outliving their calls -----------------------------------------------------------

    def _outlives(self, thread: Thread, running: RunningCall) -> bool:
        """Return whether an ended call's thread is still running."""
        freed = partial(self._call, partial(self._on_thread_end, running))
        if thread.has_ended or not thread.abandon(freed):
            return False
        self._lingering[running.key] = running
        self._watch_lingering()
        return True

    def _watch_lingering(self) -> None:
        if self._watch is None:
            self._watch = watch = list[object]()
            watch.append(spawn(copy_context(), self._watch_threads, watch))

    def _on_thread_end(self, running: RunningCall) -> None:
        """Record the end: a thread has outlived its call."""
        del self._lingering[running.key]
        if not self._lingering and self._last_ended is not None:
            self._last_ended.set()
        self._free(running)
        self.launch()
        self._moved()

    async def _watch_threads(self, watch: list[object]) -> None:
        """Fail calls waiting for stuck threads, once no other call makes progress."""
        try:
            while self._lingering:
                self._last_ended = anyio.Event()
                with anyio.move_on_after(self._patience) as patience:
                    await self._last_ended.wait()
                if patience.cancelled_caught:
                    self._fail_stuck()
        finally:
            if self._watch is watch:
                self._watch = None

    def _fail_stuck(self) -> None:
        """Fail the waiting calls, unless another call is running without waiting for them.

        If a call waits for its own inner call, only inner calls fail: the others may run after it.
        """
        under_way = self._under_way()
        waiting = [call for call in under_way if call.readiness is not STARTED]
        outer = {call for inner in waiting for call in inner.enclosing()}
        running = [call for call in under_way if call.readiness is STARTED]
        if any(call not in outer for call in running):
            return
        for call in waiting:
            if call.inner is not None or not running:
                call.readiness = STUCK
                call.record.wake()

    def _under_way(self) -> list[RunningCall]:
        """Return the open calls, with inner calls."""
        outer = [call for call in self._calls.values() if call not in self._survived]
        return outer + [call for key, call in self._inner.items() if key not in self._lingering]

    # -- calls tools make --------------------------------------------------------------------

    def _root_of(self, running: RunningCall) -> RunningCall | None:
        """Return the outermost scheduled call behind a call."""
        roots = [outer for outer in running.enclosing() if self._calls.get(outer.key) is outer]
        return roots[-1] if roots else None

    def _enter_within(self, running: RunningCall, place: InnerPlace) -> None:
        running.inner, running.readiness = place, CLEAR
        self._inner[running.key] = running
        self._within[place.root] = self._within.get(place.root, 0) + 1
        self._add_unstarted(running)

    def _leave_within(self, running: RunningCall, root: RunningCall) -> None:
        """Note that an inner call has ended. The last one may have outlived its tool."""
        del self._inner[running.key]
        if running.readiness is STARTED:
            self._schedule.take_back(running.key, running.checked.name)
        else:
            self._drop_unstarted(running)
        self._within[root] -= 1
        if self._within[root]:
            return
        del self._within[root]
        if root in self._survived:
            self._survived.remove(root)
            del self._calls[root.key]
            if root.key not in self._lingering:
                self._free(root)

    def _add_unstarted(self, running: RunningCall) -> None:
        unstarted = self._unstarted.setdefault(running.record.parent, AccessIndex())
        unstarted.add(running.key, running.reserved)

    def _drop_unstarted(self, running: RunningCall) -> None:
        parent = running.record.parent
        self._unstarted[parent].remove(running.key)
        if not self._unstarted[parent]:
            del self._unstarted[parent]

    async def _wait_within(self, running: RunningCall, place: InnerPlace) -> bool:
        """Wait for conflicting running calls. Returns False if the call would wait for itself."""
        while not (running.record.stopped or running.readiness is STUCK):
            blockers = self._blockers(running)
            if not blockers and not place.releases:
                running.readiness = STARTED
                self._drop_unstarted(running)
                tool, accesses = running.checked.name, running.reserved
                self._schedule.lend(place.root.key, running.key, tool, accesses)
                break
            if self._waits.is_circle(running, blockers):
                return False
            await self._waits.wait(running, blockers)
        return True

    def _blockers(self, running: RunningCall) -> set[RunningCall]:
        """Return an inner call's blockers: an earlier one of its tool, or running ones.

        If an earlier one has not started, running ones are looked for once it has ended.
        """
        accesses = running.reserved
        beside = self._unstarted[running.record.parent].find(accesses)
        earlier = [key for key in beside if key < running.key]
        if earlier:
            return {self._inner[max(earlier)]}
        return self._conflicting(running, accesses) | self._slot_holders(running)

    def _conflicting(self, running: RunningCall, accesses: Sequence[Access]) -> set[RunningCall]:
        """Return the conflicting running calls, except for those around a call and inside it."""
        around = {running, running.inner and running.inner.root, *running.enclosing()}
        found = {self._find(key) for key in self._schedule.running(accesses)} - around
        return {call for call in found if call and running not in call.enclosing()}

    def _find(self, key: int) -> RunningCall | None:
        return self._inner.get(key) or self._calls.get(key) or self._lingering.get(key)

    def _slot_holders(self, running: RunningCall) -> set[RunningCall]:
        """Return the calls holding all the tool's slots, without enclosing calls."""
        name = running.checked.name
        if not self._schedule.is_full(name):
            return set()
        known = [*self._calls.values(), *self._lingering.values(), *self._inner.values()]
        blockers = {
            call for call in known if call.readiness is STARTED and call.checked.name == name
        }
        return blockers.difference(running.enclosing())


_STUCK = (
    "Not run: an earlier call that it had to wait for was stopped, but is still running. Continue "
    "with other work, or tell the user."
)
_CIRCLE = (
    "Not run: this call and another one wait for each other. This may be temporary: retry later, "
    "or continue with other work."
)
