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

from handrail._execution.running import RunningCall, fail
from handrail._execution.schedule import Schedule
from handrail._execution.settings import CallLimits
from handrail._support.loop import spawn
from handrail._turn.event_feed import Listeners
from handrail._values.access import EVERYTHING, Access
from handrail._values.effect import WRITE
from handrail._values.result import FailureKind, Result
from handrail.events import Waiting

_ALONE = (Access(WRITE, EVERYTHING),)
"""The accesses of a call that must run alone."""


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
        self._inner: list[RunningCall] = []
        """Inner calls, in order of arrival."""
        self._survived: set[RunningCall] = set()
        """Calls that have ended while their inner calls are still running."""
        self._waits_for: dict[RunningCall, set[RunningCall]] = {}
        """The inner calls that wait, and the calls that they wait for."""
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
                running.holds = holds
                self._inner.append(running)
                return
        self._calls[key] = running
        checked = running.checked
        spec, accesses = checked.spec, checked.accesses
        effect = spec.effect
        if spec.exclusive:
            accesses, effect = _ALONE, WRITE
        if (
            not holds
            and not running.turn.waiting
            and self._schedule.start_now(key, spec.name, accesses, effect)
        ):
            running.may_start = True
        else:
            self._queue(running, accesses, holds)

    def _queue(self, running: RunningCall, accesses: tuple[Access, ...], holds: int) -> None:
        name = running.checked.spec.name
        waits = self._schedule.add(running.key, name, accesses, held=holds)
        if running.parent is not None and not running.parent.key:
            # a `before` hook made it; waiting calls may wait for the hook's own call
            waits = self._schedule.advance(running.key)
        running.waits = bool(waits)
        if waits and self._listeners.feeds:
            self._tell_waiting(running, accesses, waits)
        self.launch()
        if not holds:
            self.tell_if_crowded(running)

    def amend(self, running: RunningCall) -> None:
        """Note that a call was edited, and may have other accesses."""
        if running.root is None:
            self._schedule.amend(running.key, _accesses_of(running))

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
        """Note that a call has ended. Its accesses are free once its thread and inner calls end."""
        if self._calls.get(running.key) is not running and running not in self._inner:
            return  # its event loop was closed
        thread = running.thread
        if thread is not None and not thread.has_ended:
            freed = partial(self._call, partial(self._on_thread_end, running))
            if thread.abandon(freed):
                self._linger(running)
        if running.root is not None:
            if running.key not in self._lingering:
                self._leave_within(running, running.root)
        elif self._inner and self._has_within(running):
            self._survived.add(running)
            self._lend(running)
        else:
            del self._calls[running.key]
            if thread is None or running.key not in self._lingering:
                self._schedule.end(running.key)
        others = self._schedule.open or self._waits_for
        if others and (running.may_start or not any(map(_leaves_now, self._calls.values()))):
            self._move_on()

    def drop_lost(self, lost: Sequence[RunningCall]) -> None:
        """Drop the calls of an event loop that was closed. Only threads go on."""
        for running in lost:
            running.gate = running.stop = None
            running.stopped = True
        self._waits_for.clear()
        self._watch = self._last_ended = None
        for running in reversed(lost):
            self.leave(running)
        if self._lingering:
            self._watch_lingering()

    def _end(self, running: RunningCall) -> None:
        del self._calls[running.key]
        if running.key not in self._lingering:
            self._schedule.end(running.key)

    def conflicting(self, accesses: tuple[Access, ...]) -> tuple[str, ...]:
        """Return the ids of the calls that one with these accesses would wait for."""
        return tuple([self._name_of(key) for key in self._schedule.conflicting(accesses)])

    def _tell_waiting(
        self, running: RunningCall, accesses: tuple[Access, ...], waits: tuple[int, ...]
    ) -> None:
        """Send an event with the calls that a call waits for, and the resource that they use."""
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

    def _move_on(self) -> None:
        self.launch()
        for waiting in self._waits_for:
            waiting.wake()

    def _name_of(self, key: int) -> str:
        running = self._calls.get(key)
        return running.call.id if running is not None else "(a stopped call)"

    # -- threads that outlive their calls ---------------------------------------------------------

    def _linger(self, running: RunningCall) -> None:
        self._lingering[running.key] = running
        self._watch_lingering()

    def _watch_lingering(self) -> None:
        if self._watch is None:
            self._watch = watch = list[object]()
            watch.append(spawn(copy_context(), self._watch_threads, watch))

    def _on_thread_end(self, running: RunningCall) -> None:
        """Note that a thread that outlived its call has ended."""
        del self._lingering[running.key]
        if not self._lingering and self._last_ended is not None:
            self._last_ended.set()
        if running.root is not None:
            self._leave_within(running, running.root)
        elif running in self._survived:
            self._lend(running)
        else:
            self._schedule.end(running.key)
        self._move_on()
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
        return outer + [call for call in self._inner if call.key not in self._lingering]

    # -- calls that tools make --------------------------------------------------------------------

    def _root_of(self, running: RunningCall) -> RunningCall | None:
        """Return the outermost scheduled call that led to a call."""
        roots = [outer for outer in running.enclosing() if self._calls.get(outer.key) is outer]
        return roots[-1] if roots else None

    def _has_within(self, root: RunningCall) -> bool:
        return any(call.root is root for call in self._inner)

    def _leave_within(self, running: RunningCall, root: RunningCall) -> None:
        """Note that an inner call has ended. The last one may have outlived its tool."""
        self._inner.remove(running)
        if running.may_start:
            self._schedule.free_slot(running.checked.name)
        if root in self._survived and not self._has_within(root):
            self._survived.remove(root)
            self._end(root)
        else:
            self._lend(root)

    async def _wait_within(self, running: RunningCall, root: RunningCall) -> bool:
        """Wait for running calls that conflict. Returns False if the call would wait for itself."""
        while not (running.stopped or running.is_blocked):
            blockers = self._blockers(running, root)
            if not blockers and not running.holds:
                running.may_start = True
                self._schedule.take_slot(running.checked.name)
                self._lend(root)
                break
            if self._is_circle(running, blockers):
                return False
            gate = running.gate = anyio.Event()
            self._waits_for[running] = blockers
            try:
                await gate.wait()
            finally:
                self._waits_for.pop(running, None)
        return True

    def _lend(self, root: RunningCall) -> None:
        """Give the outermost call the accesses of its running inner calls."""
        within = [call for call in self._inner if call.may_start and call.root is root]
        holders = [root, *within] if self._is_at_work(root) else within
        accesses = [access for holder in holders for access in _accesses_of(holder)]
        self._schedule.amend(root.key, tuple(accesses))

    def _is_at_work(self, root: RunningCall) -> bool:
        """Return whether a call's own tool is running, and not only its inner calls."""
        return root not in self._survived or root.key in self._lingering

    def _blockers(self, running: RunningCall, root: RunningCall) -> set[RunningCall]:
        """Return the calls that block an inner call: running ones, and earlier ones of its tool."""
        accesses, around = _accesses_of(running), running.enclosing()
        keys = self._schedule.conflicting(accesses)
        blockers = {self._calls.get(key) or self._lingering[key] for key in keys}
        blockers = {other for other in blockers if other.may_start and other is not root}
        blockers = {
            other for other in blockers if self._is_at_work(other) and _conflicts(accesses, other)
        }
        is_earlier = True
        for other in self._inner:
            is_earlier = is_earlier and other is not running
            is_ahead = other.may_start or (is_earlier and other.parent is running.parent)
            beside = other not in around and running not in (other, *other.enclosing())
            if is_ahead and beside and _conflicts(accesses, other):
                blockers.add(other)
        return blockers | self._slot_holders(running)

    def _slot_holders(self, running: RunningCall) -> set[RunningCall]:
        """Return the calls of the same tool that hold all its slots, without enclosing calls."""
        name = running.checked.name
        if not self._schedule.is_full(name):
            return set()
        known = [*self._calls.values(), *self._lingering.values(), *self._inner]
        blockers = {call for call in known if call.may_start and call.checked.name == name}
        return blockers.difference(running.enclosing())

    def _is_circle(self, running: RunningCall, blockers: set[RunningCall]) -> bool:
        """Return whether one of the blockers waits, directly or not, for this call."""
        own = (running, *running.enclosing())
        todo, seen = list(blockers), set[RunningCall]()
        while todo:
            other = todo.pop()
            if other in own:
                return True
            if other not in seen:
                seen.add(other)
                for waiting, on in self._waits_for.items():
                    if other in (waiting, *waiting.enclosing()):
                        todo += on
        return False


def _leaves_now(running: RunningCall) -> bool:
    """Return whether a waiting call is about to leave because it was stopped."""
    stops = running.stopped or running.is_blocked
    return stops and running.gate is not None and not running.may_start


def _accesses_of(running: RunningCall) -> tuple[Access, ...]:
    """Return the accesses that are reserved while a call runs."""
    return _ALONE if running.checked.spec.exclusive else running.checked.accesses


def _conflicts(accesses: tuple[Access, ...], other: RunningCall) -> bool:
    return any(mine.conflicts(theirs) for mine in accesses for theirs in _accesses_of(other))


_BLOCKED = (
    "Not run: an earlier call that it had to wait for was stopped, but is still running. Continue "
    "with other work, or tell the user."
)
_CIRCLE = (
    "Not run: this call and another one wait for each other. This may be temporary: retry later, "
    "or continue with other work."
)
