"""Order: each call waits for earlier calls that conflict, and for a free slot.

A call that a tool makes through its own executor (an inner call) shares the schedule entry of its
tool's call, which then also holds the inner call's accesses. It waits for running calls that
conflict, but not for waiting ones, which may wait for its own tool. If two tools would wait for
each other, one of the calls fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial

import anyio

from handrail._execution.running import ALONE, RunningCall, Waits, accesses_of, fail
from handrail._execution.settings import CallLimits
from handrail._execution.threads import Thread
from handrail._schedule.access_index import AccessIndex
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
        """Calls that have ended while their threads are still running."""
        self._inner: dict[int, RunningCall] = {}
        """Inner calls by their numbers, in order of arrival."""
        self._within: dict[RunningCall, int] = {}
        """Outer calls with inner calls, and how many they have."""
        self._survived: set[RunningCall] = set()
        """Calls that have ended while their inner calls are still running."""
        self._unstarted: dict[RunningCall | None, AccessIndex] = {}
        """The accesses of inner calls that have not started, by the calls that made them."""
        self._waits = Waits()
        self._numbers = 0
        self._watch: list[object] | None = None
        """The task that watches threads of ended calls."""
        self._last_ended: anyio.Event | None = None
        """Set when no thread of an ended call is running any more."""

    @property
    def is_empty(self) -> bool:
        """Whether no call is running, and no thread that outlived its call."""
        return not self._schedule.open and not self._inner

    def enter(self, running: RunningCall, holds: int = 0) -> None:
        """Schedule a call after those that it conflicts with.

        ``holds`` is the number of releases it waits for: its approval, and others' decisions.
        """
        self._numbers += 1
        key = running.key = self._numbers
        if running.parent is not None:
            running.root = self._root_of(running)
            if running.root is not None:
                self._enter_within(running, running.root, holds)
                return
        self._calls[key] = running
        checked = running.checked
        spec, accesses, effect = checked.spec, checked.accesses, checked.spec.effect
        if spec.exclusive:
            accesses, effect = ALONE, WRITE
        if (
            not holds
            and not running.turn.waiting
            and self._schedule.start_now(key, spec.name, accesses, effect)
        ):
            running.may_start = True
        else:
            self._queue(running, accesses, holds)

    def _queue(self, running: RunningCall, accesses: tuple[Access, ...], holds: int) -> None:
        waits = self._schedule.add(running.key, running.checked.name, accesses, held=holds)
        if running.parent is not None and not running.parent.key:
            # a `before` hook made it; waiting calls may wait for the hook's own call
            waits = self._schedule.advance(running.key)
        running.waits = bool(waits)
        self._tell_waiting(running, accesses, waits)
        self.launch()
        if not holds:
            self.tell_if_crowded(running)

    def amend(self, running: RunningCall) -> None:
        """Note that a call was edited, and may have other accesses."""
        if running.root is None:
            self._schedule.amend(running.key, accesses_of(running))
        else:
            self._unstarted[running.parent].remove(running.key)
            self._unstarted[running.parent].add(running.key, accesses_of(running))
            self._waits.wake(running)

    def is_started(self, running: RunningCall) -> bool:
        """Return whether the tool of a call is running."""
        found = self._inner.get(running.key) or self._calls.get(running.key)
        return found is running and running.may_start and running not in self._survived

    def extend(self, running: RunningCall, accesses: tuple[Access, ...]) -> bool:
        """Give a running call these accesses. Returns False if it must wait for another call."""
        wanted = ALONE if running.checked.spec.exclusive else accesses
        is_behind = running.root is None and self._schedule.is_behind(running.key, wanted)
        if is_behind or self._conflicting(running, wanted):
            return False
        self._schedule.extend(running.key, wanted)
        self.launch()
        return True

    def restart(self, running: RunningCall) -> None:
        """Let a started call wait again, since its accesses have changed. It keeps its place."""
        running.may_start, accesses = False, accesses_of(running)
        if running.root is None:
            waits = self._schedule.restart(running.key, accesses)
            self._tell_waiting(running, accesses, waits)
        else:
            self._schedule.take_back(running.key, running.checked.name)
            self._add_unstarted(running)
            self._waits.wake(running)
        self.launch()

    def release(self, running: RunningCall) -> None:
        """Release a call that waited for approval, or for others' decisions."""
        if running.root is not None:
            running.holds -= 1
            running.wake()
        elif running.key in self._calls:
            self._schedule.release(running.key)

    def launch(self) -> None:
        """Start the calls that can start."""
        for key in self._schedule.startable():
            running = self._calls[key]
            running.may_start = True
            running.wake()

    async def wait(self, running: RunningCall) -> Result | None:
        """Wait until a call can start. Returns its result if it never can."""
        if running.root is not None:
            if not await self._wait_within(running, running.root):
                return fail(running, FailureKind.TRANSIENT, _CIRCLE)
        else:
            while not (running.may_start or running.stopped or running.is_blocked):
                running.gate = anyio.Event()
                await running.gate.wait()
        return fail(running, FailureKind.TIMEOUT, _BLOCKED) if running.is_blocked else None

    def leave(self, running: RunningCall) -> None:
        """Note that a call has ended. Its accesses are free once its thread has ended, too."""
        if self._within and (running.root is not None or running in self._within):
            if self._find(running.key) is not running:
                return
            if running.root is None:
                self._survived.add(running)
        else:
            try:
                del self._calls[running.key]
            except KeyError:  # its event loop was closed
                return
        thread = running.thread
        if thread is not None and self._outlives(thread, running):
            pass
        elif self._within:
            self._free(running)
        else:
            self._schedule.end(running.key)
        if self._schedule.open and (
            running.may_start or not any(call.is_leaving for call in self._calls.values())
        ):
            self.launch()

    def _free(self, running: RunningCall) -> None:
        """Free what a call held whose tool and thread have ended. Inner calls keep its slot."""
        if running.root is not None:
            self._leave_within(running, running.root)
        elif running in self._survived:
            self._schedule.drop_accesses(running.key)
        else:
            self._schedule.end(running.key)
        self._waits.end(running)

    def drop_lost(self, lost: Sequence[RunningCall]) -> None:
        """Drop the calls of an event loop that was closed. Only threads continue."""
        for running in lost:
            running.gate = running.stop = None
            running.stopped = True
        self._waits, self._watch, self._last_ended = Waits(), None, None
        for running in reversed(lost):
            self.leave(running)
        if self._lingering:
            self._watch_lingering()

    def conflicting(self, accesses: tuple[Access, ...]) -> tuple[str, ...]:
        """Return the ids of the calls that one with these accesses would wait for."""
        return tuple([self._name_of(key) for key in self._schedule.conflicting(accesses)])

    def _tell_waiting(
        self, running: RunningCall, accesses: tuple[Access, ...], waits: tuple[int, ...]
    ) -> None:
        """Send an event with the calls that a call waits for, and the resource that they use."""
        if not waits or not self._listeners.feeds:
            return
        names = tuple([self._name_of(other) for other in waits])
        what = self._schedule.find_conflict(accesses, waits)
        self._listeners.tell(running, Waiting, running.call.id, names, "resource", what)

    def tell_if_crowded(self, running: RunningCall) -> None:
        """Send an event if a call waits only for a free slot, with the calls that hold them."""
        lacks = running.key in self._calls and not running.may_start and not running.waits
        if lacks and self._listeners.feeds:
            name = running.checked.spec.name
            tool = name if self._schedule.is_full(name) else ""
            holders = tuple(
                call.call.id
                for call in self._calls.values()
                if call.may_start and tool in ("", call.checked.spec.name)
            )
            self._listeners.tell(running, Waiting, running.call.id, holders, "slot", tool)

    def _name_of(self, key: int) -> str:
        running = self._calls.get(key)
        return running.call.id if running is not None else "(a stopped call)"

    # -- threads that outlive their calls ---------------------------------------------------------

    def _outlives(self, thread: Thread, running: RunningCall) -> bool:
        """Return whether the thread of a call that has ended is still running."""
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
        """Note that a thread that outlived its call has ended."""
        del self._lingering[running.key]
        if not self._lingering and self._last_ended is not None:
            self._last_ended.set()
        self._free(running)
        self.launch()
        self._moved()

    async def _watch_threads(self, watch: list[object]) -> None:
        """Fail calls that wait for threads that do not end, once no other call makes progress."""
        try:
            while self._lingering:
                self._last_ended = anyio.Event()
                with anyio.move_on_after(self._patience) as patience:
                    await self._last_ended.wait()
                if patience.cancelled_caught:
                    self._fail_blocked()
        finally:
            if self._watch is watch:
                self._watch = None

    def _fail_blocked(self) -> None:
        """Fail the waiting calls, unless a call is running that does not wait for one of them.

        If a call waits for its own inner call, only inner calls fail: the others may run after it.
        """
        under_way = self._under_way()
        waiting = [call for call in under_way if not call.may_start]
        outer = {call for inner in waiting for call in inner.enclosing()}
        running = [call for call in under_way if call.may_start]
        if any(call not in outer for call in running):
            return
        for call in waiting:
            if call.root is not None or not running:
                call.is_blocked = True
                call.wake()

    def _under_way(self) -> list[RunningCall]:
        """Return the calls that have not ended, with inner calls."""
        outer = [call for call in self._calls.values() if call not in self._survived]
        return outer + [call for key, call in self._inner.items() if key not in self._lingering]

    # -- calls that tools make --------------------------------------------------------------------

    def _root_of(self, running: RunningCall) -> RunningCall | None:
        """Return the outermost scheduled call that led to a call."""
        roots = [outer for outer in running.enclosing() if self._calls.get(outer.key) is outer]
        return roots[-1] if roots else None

    def _enter_within(self, running: RunningCall, root: RunningCall, holds: int) -> None:
        running.holds = holds
        self._inner[running.key] = running
        self._within[root] = self._within.get(root, 0) + 1
        self._add_unstarted(running)

    def _leave_within(self, running: RunningCall, root: RunningCall) -> None:
        """Note that an inner call has ended. The last one may have outlived its tool."""
        del self._inner[running.key]
        if running.may_start:
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
        unstarted = self._unstarted.setdefault(running.parent, AccessIndex())
        unstarted.add(running.key, accesses_of(running))

    def _drop_unstarted(self, running: RunningCall) -> None:
        unstarted = self._unstarted[running.parent]
        unstarted.remove(running.key)
        if not unstarted:
            del self._unstarted[running.parent]

    async def _wait_within(self, running: RunningCall, root: RunningCall) -> bool:
        """Wait for running calls that conflict. Returns False if the call would wait for itself."""
        while not (running.stopped or running.is_blocked):
            blockers = self._blockers(running)
            if not blockers and not running.holds:
                running.may_start = True
                self._drop_unstarted(running)
                tool, accesses = running.checked.name, accesses_of(running)
                self._schedule.lend(root.key, running.key, tool, accesses)
                break
            if self._waits.is_circle(running, blockers):
                return False
            await self._waits.wait(running, blockers)
        return True

    def _blockers(self, running: RunningCall) -> set[RunningCall]:
        """Return the calls that block an inner call: an earlier one of its tool, or running ones.

        If an earlier one has not started, running ones are looked for once it has ended.
        """
        accesses = accesses_of(running)
        beside = self._unstarted[running.parent].find(accesses)
        earlier = [key for key in beside if key < running.key]
        if earlier:
            return {self._inner[max(earlier)]}
        return self._conflicting(running, accesses) | self._slot_holders(running)

    def _conflicting(self, running: RunningCall, accesses: Sequence[Access]) -> set[RunningCall]:
        """Return the running calls that conflict, except for those around a call and inside it."""
        around = {running, running.root, *running.enclosing()}
        found = {self._find(key) for key in self._schedule.running(accesses)} - around
        return {call for call in found if call and running not in call.enclosing()}

    def _find(self, key: int) -> RunningCall | None:
        return self._inner.get(key) or self._calls.get(key) or self._lingering.get(key)

    def _slot_holders(self, running: RunningCall) -> set[RunningCall]:
        """Return the calls of the same tool that hold all its slots, without enclosing calls."""
        name = running.checked.name
        if not self._schedule.is_full(name):
            return set()
        known = [*self._calls.values(), *self._lingering.values(), *self._inner.values()]
        blockers = {call for call in known if call.may_start and call.checked.name == name}
        return blockers.difference(running.enclosing())


_BLOCKED = (
    "Not run: an earlier call that it had to wait for was stopped, but is still running. Continue "
    "with other work, or tell the user."
)
_CIRCLE = (
    "Not run: this call and another one wait for each other. This may be temporary: retry later, "
    "or continue with other work."
)
