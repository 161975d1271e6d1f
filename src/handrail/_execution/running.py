"""The stages of one call: requested, checked, scheduled; and what several calls wait for."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, final

import anyio

from handrail._execution.output import Collected
from handrail._execution.view import View
from handrail._permissions.checked_call import CheckedCall
from handrail._schedule.readiness import STARTED, STUCK, UNSCHEDULED, Readiness
from handrail._turn.inner import InnerCalls
from handrail._turn.record import Record
from handrail._turn.turn import Turn
from handrail._values.access import EVERYTHING, Access
from handrail._values.call import Call
from handrail._values.decision import Decision
from handrail._values.effect import WRITE, Exposure
from handrail._values.errors import StopRun
from handrail._values.pending import Pending
from handrail._values.result import Failure, FailureKind, Result

if TYPE_CHECKING:
    from handrail._execution.threads import Thread  # loads asyncio

CURRENT: ContextVar[RequestedCall | None] = ContextVar("handrail_call", default=None)
"""The call whose tool, hook or approver runs. Calls it makes do not wait for it."""
ALONE = (Access(WRITE, EVERYTHING),)
"""The accesses for a call running alone."""


@dataclass(slots=True, eq=False, repr=False, init=False)
class RequestedCall(Record):
    """A call from its request to its result, whether or not it can run."""

    turn: Turn[Any]
    view: View
    parent: RequestedCall | None
    """The call whose tool, hook or approver made this one."""
    running: RunningCall | None
    """The checked call, from the check until it has its result."""
    meant: Call
    """The call itself, or the one a proxy means, if the check refused it."""
    inner_calls: InnerCalls | None
    """Its tool's calls with ``Context.turn``, if any."""
    task: object
    """Its own task, if it has one: asyncio keeps no reference to it."""

    @property
    def name(self) -> tuple[str, int]:
        """Its id, and its number among the turn's calls with this id."""
        return self.call.id, self.nth

    @property
    def goes_on(self) -> bool:
        """Whether its tool was called, runs in the background, and has not returned."""
        running = self.running
        if running is None or self.result is not None or not self.begun:
            return False
        return running.checked.spec.background

    @property
    def may_repeat(self) -> bool:
        """Whether its tool may have run before, so that there may be something to continue from."""
        is_new = self.inner_calls is None and self.answered is None
        return not is_new or self.turn.options.records is not None

    @property
    def subject(self) -> CheckedCall | Call:
        """The checked call, or the one refused, for ``after`` hooks."""
        return self.meant if self.running is None else self.running.checked

    @property
    def is_framed(self) -> bool:
        """Whether a model is to see where its result begins and ends. Code reads it without."""
        framed = self.running is not None and self.running.checked.spec.framed
        return framed and not self.turn.options.whole

    @property
    def shown_with(self) -> dict[str, Any]:
        """Request fields from the calls around this one and inside it."""
        changes = self.turn.options.changes
        if self.inner_calls is not None:
            inner, record = self.inner_calls.describe()
            return {"changes": changes, "inner": inner, "record": record}
        if self.answered is None:
            return {"changes": changes}
        before = self.answered[0]
        return {"changes": changes, "inner": before.inner, "record": before.record}

    def own_context(self) -> Context:
        """Copy the caller's context, with this call as the current one."""
        context = copy_context()
        if CURRENT.get() is not self:
            context.run(CURRENT.set, self)
        return context

    def enclosing(self) -> list[RequestedCall]:
        """Return the enclosing calls, the nearest first."""
        return _list_above(self, _PARENT)

    def find_running(self) -> RunningCall | None:
        """Return the checked call, or the nearest enclosing one."""
        call: RequestedCall | None = self
        while call is not None and call.running is None:
            call = call.parent
        return None if call is None else call.running

    def find_known_result(self) -> Result | None:
        """Return the result from before a restart. A pending call needs approval again."""
        known = self.turn.known.get(self.call.id) if self.nth == 1 else None
        return None if known is None or known.pending is not None else known


@dataclass(slots=True, eq=False, repr=False)
class InnerPlace:
    """The place of a call a tool made: it shares the schedule entry of its tool's call."""

    root: RunningCall
    """The outermost running call around it."""
    releases: int
    """How many releases it waits for."""


@final
@dataclass(slots=True, eq=False, repr=False, init=False)
class RunningCall:
    """A checked call: what is decided about it, its place in the schedule, and its run."""

    record: RequestedCall
    outer: RunningCall | None
    """The nearest enclosing checked call."""
    checked: CheckedCall
    is_rewritten: bool
    """Whether a hook has changed it."""
    is_approved: bool
    """Whether an approval covers exactly this call."""
    added: tuple[Access, ...]
    """The accesses its tool asked for while it ran, beyond those its arguments name."""
    notes: tuple[str, ...]
    """Notes on its arguments for the model, from before it was last checked."""
    key: int
    """Its number in the schedule, once it has one."""
    readiness: Readiness
    inner: InnerPlace | None
    """Its place, if a running tool made it."""
    collected: Collected | None
    thread: Thread | None

    @property
    def reserved(self) -> tuple[Access, ...]:
        """The accesses reserved while it runs."""
        return ALONE if self.checked.spec.exclusive else self.checked.accesses

    @property
    def is_leaving(self) -> bool:
        """Whether it waits, and is about to leave the schedule because it was stopped."""
        stops = self.record.stopped or self.readiness is STUCK
        return stops and self.record.gate is not None and self.readiness is not STARTED

    def recheck(self, checked: CheckedCall, added: tuple[Access, ...]) -> None:
        """Use a call checked again, with the accesses its tool asked for."""
        self.added = find_more(checked, added)
        if self.added:
            checked = checked._replace(accesses=(*checked.accesses, *self.added))
        self.checked = checked

    def enclosing(self) -> list[RunningCall]:
        """Return the enclosing checked calls, the nearest first."""
        return _list_above(self, _OUTER)


_Call = TypeVar("_Call")
_PARENT: Callable[[RequestedCall], RequestedCall | None] = attrgetter("parent")
_OUTER: Callable[[RunningCall], RunningCall | None] = attrgetter("outer")


def _list_above(call: _Call, find_next: Callable[[_Call], _Call | None]) -> list[_Call]:
    """Return the calls above this one, the nearest first."""
    calls: list[_Call] = []
    above = find_next(call)
    while above is not None:
        calls.append(above)
        above = find_next(above)
    return calls


_new = object.__new__


def make_requested(turn: Turn[Any], call: Call, view: View) -> RequestedCall:
    """Return a requested call, made fast."""
    record = _new(RequestedCall)
    record.turn = turn
    record.call = record.meant = call
    record.view = view
    record.parent = CURRENT.get()
    record.stopped = False
    record.result = record.answered = record.entered = record.previous = record.running = None
    record.stop = record.gate = record.done = record.begin = record.inner_calls = None
    record.position = record.round = record.attempts = 0
    record.nth = 1
    return record


def make_running(record: RequestedCall, checked: CheckedCall) -> RunningCall:
    """Return a checked call, made fast."""
    running = _new(RunningCall)
    running.record = record
    running.outer = None if record.parent is None else record.parent.find_running()
    running.checked = checked
    running.is_rewritten = running.is_approved = False
    running.notes = running.added = ()
    running.key = 0
    running.readiness = UNSCHEDULED
    running.inner = running.collected = running.thread = None
    record.running = running
    return running


def find_more(checked: CheckedCall, accesses: tuple[Access, ...]) -> tuple[Access, ...]:
    """Return the accesses a call does not have yet, in order."""
    return tuple(dict.fromkeys([one for one in accesses if one not in checked.accesses]))


class Waits:
    """The waiting inner calls, and each one's blockers."""

    def __init__(self) -> None:
        self._blockers: dict[RunningCall, set[RunningCall]] = {}
        self._waiters: dict[RunningCall, set[RunningCall]] = {}
        """The calls others wait for, with these."""
        self._within: dict[RunningCall, set[RunningCall]] = {}
        """The waiting calls and those around waiting calls, with one."""

    async def wait(self, running: RunningCall, blockers: set[RunningCall]) -> None:
        """Wait until something has changed for a call."""
        gate = running.record.gate = anyio.Event()
        self._blockers[running] = blockers
        for blocker in blockers:
            self._waiters.setdefault(blocker, set()).add(running)
        around = (running, *running.enclosing())
        for call in around:
            self._within.setdefault(call, set()).add(running)
        try:
            await gate.wait()
        finally:
            for blocker in self._blockers.pop(running):
                _discard(self._waiters, blocker, running)
            for call in around:
                _discard(self._within, call, running)

    def end(self, running: RunningCall) -> None:
        """Wake the calls waiting only for this one, or for one tool slot."""
        for waiter in self._waiters.pop(running, ()):
            blockers = self._blockers[waiter]
            blockers.discard(running)
            if not blockers or waiter.checked.name == running.checked.name:
                waiter.record.wake()

    def wake(self, running: RunningCall) -> None:
        """Wake the calls waiting for this changed one."""
        for waiter in self._waiters.get(running, ()):
            waiter.record.wake()

    def is_circle(self, running: RunningCall, blockers: set[RunningCall]) -> bool:
        """Return whether one of the blockers waits, directly or not, for this call.

        One that has not started is an earlier call of the same tool. It waits for its tool no more
        than this call does.
        """
        own = {running, *running.enclosing()}
        seen = set[RunningCall]()
        todo = [blocker for blocker in blockers if blocker.readiness is STARTED]
        while todo:
            other = todo.pop()
            if other in own:
                return True
            if other not in seen:
                seen.add(other)
                for waiting in self._within.get(other, ()):
                    todo += self._blockers[waiting]
        return False


def _discard(
    groups: dict[RunningCall, set[RunningCall]], key: RunningCall, member: RunningCall
) -> None:
    """Remove a group member, and the group with its last member."""
    groups[key].discard(member)
    if not groups[key]:
        del groups[key]


class Group:
    """Calls that are all decided before any of them has a side effect."""

    def __init__(self) -> None:
        self.undecided = 1
        """Calls without a decision, plus one until all have been added."""
        self.held: list[RunningCall] = []


class NeedsAccess(BaseException):
    """A tool asks for more access, and its call begins again once it has that.

    Not an Exception, so a tool does not handle it as a failure.
    """

    def __init__(self, asked: CheckedCall, more: tuple[Access, ...], decision: Decision) -> None:
        super().__init__(f"The call needs more: {', '.join(map(str, more))}.")
        self.asked = asked
        """The call as it was when its tool asked."""
        self.more = more
        self.decision = decision


def fail(record: RequestedCall, kind: FailureKind, message: str, detail: str = "") -> Result:
    """Return a call's failed result."""
    return Result.fail(record.call.id, kind, message, detail)


def not_begun(record: RequestedCall) -> Result:
    """Return the result for a call cancelled before it started."""
    reason = record.turn.stop_reason
    message = _NOT_BEGUN if reason is None else StopRun.describe(reason)
    return fail(record, FailureKind.CANCELLED, message)


def pending_result(pending: Pending) -> Result:
    """Return the result for a call waiting for approval."""
    waits = _WAITS_INSIDE if pending.inner else _BLOCKED
    message = waits if pending.kind == "waiting" else _WAITS.format(pending.question)
    failure = Failure(FailureKind.PENDING, message)
    return Result(pending.call.id, message, failure=failure, pending=pending)


def mark_pending(turn: Turn[Any], pending: Pending) -> Result:
    """Leave a call pending, and return its result."""
    turn.mark_pending(pending)
    # a Result: all that reads outcomes would need a case for another type: decision 015
    return pending_result(pending)


def keep_finds(record: RequestedCall, result: Result) -> Result:
    """Return a result without the tools it claims to have found, unless its tool searches."""
    running = record.running
    searched = running is not None and running.checked.spec.exposure is Exposure.SEARCH
    return result if searched else result._replace(found=())


_NOT_BEGUN = "Not run: the call was cancelled before it started."
_WAITS = (
    "Not run yet: waiting for the user's approval. Continue with other work, or end your turn. "
    "Request: {}"
)
_WAITS_INSIDE = (
    "Not done yet: it has begun, and a call inside it waits for the user's approval. Continue with "
    "other work, or end your turn."
)
_BLOCKED = (
    "Not run yet: waiting for an earlier call that needs the user's approval. Continue with other "
    "work, or end your turn."
)
