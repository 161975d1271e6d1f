"""RunningCall: the state of one call in the pipeline; and what several of them wait for."""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from handrail._execution.output import Collected
from handrail._execution.view import View
from handrail._permissions.checked_call import CheckedCall
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
    from handrail._values.approval import Approver

CURRENT: ContextVar[RunningCall | None] = ContextVar("handrail_call", default=None)
"""The call whose tool, hook or approver runs. Calls that it makes do not wait for it."""
ALONE = (Access(WRITE, EVERYTHING),)
"""The accesses of a call that must run alone."""


@dataclass(slots=True, eq=False, init=False)
class RunningCall(Record):
    """The state of one call in the pipeline."""

    turn: Turn[Any]
    view: View
    parent: RunningCall | None
    """The call whose tool, hook or approver made this one."""
    root: RunningCall | None
    """The outermost running call that led to this one. Both share a schedule entry."""
    checked: CheckedCall
    """Set by the check."""
    meant: Call | None
    """The call that a proxy means, if the check refused it."""
    is_checked: bool
    is_rewritten: bool
    """Whether a hook has changed it."""
    is_approved: bool
    """Whether an approval covers exactly this call."""
    added: tuple[Access, ...]
    """The accesses that its tool asked for while it ran, and that its arguments do not name."""
    notes: tuple[str, ...]
    """Notes on its arguments for the model, from before it was last checked."""
    key: int
    """Its number in the schedule."""
    may_start: bool
    holds: int
    """The number of releases that it waits for; set if a tool made the call."""
    waits: bool
    """Whether it had to wait for another call on arrival; set if it could not start then."""
    is_blocked: bool
    """Whether it can never start, because an abandoned thread does not end."""
    collected: Collected | None
    task: object
    """Its own task, if it has one: asyncio keeps no reference to it."""
    thread: Thread | None

    def __init__(self, turn: Turn[Any], call: Call, view: View) -> None:
        self.turn = turn
        self.call = call
        self.view = view
        self.parent = CURRENT.get()
        self.is_checked = self.is_rewritten = self.is_approved = False
        self.may_start = self.is_blocked = self.stopped = False
        self.notes = self.added = ()
        self.result = self.given = self.entered = self.previous = None
        self.stop = self.gate = self.done = self.collected = None
        self.thread = self.root = self.meant = None
        self.key = self.position = self.round = self.attempts = 0
        self.nth = 1

    @property
    def name(self) -> tuple[str, int]:
        """Its id, and its number among the calls of the turn with this id."""
        return self.call.id, self.nth

    @property
    def subject(self) -> CheckedCall | Call:
        """The checked call, or the one that was refused, for ``after`` hooks."""
        return self.checked if self.is_checked else self.meant or self.call

    @property
    def is_leaving(self) -> bool:
        """Whether it waits, and is about to leave the schedule because it was stopped."""
        stops = self.stopped or self.is_blocked
        return stops and self.gate is not None and not self.may_start

    @property
    def approver(self) -> Approver | None:
        """Answers its approval requests, if anything does."""
        found: Approver | None = self.turn.owner.pipeline.questions.approver(self)
        return found

    async def may(self, *accesses: Access) -> None:
        """Let its tool access more, or raise."""
        await self.turn.owner.pipeline.may(self, accesses)

    def may_sync(self, *accesses: Access) -> None:
        """Do the same as ``may``, in a thread."""
        from anyio import from_thread  # both load asyncio

        from handrail._support.loop import in_event_loop

        if in_event_loop():
            raise RuntimeError(_IN_LOOP)
        token = self.turn.owner.pipeline.home.token
        from_thread.run(partial(self.may, *accesses), token=token)

    def own_context(self) -> Context:
        """Return a copy of the caller's context, with this call as the current one."""
        context = copy_context()
        if CURRENT.get() is not self:
            context.run(CURRENT.set, self)
        return context

    def enclosing(self) -> list[RunningCall]:
        """Return the calls that led to this one, the nearest first."""
        calls: list[RunningCall] = []
        parent = self.parent
        while parent is not None:
            calls.append(parent)
            parent = parent.parent
        return calls

    def find_known_result(self) -> Result | None:
        """Return the result from before a restart. A pending call needs approval again."""
        known = self.turn.known.get(self.call.id) if self.nth == 1 else None
        return None if known is None or known.pending is not None else known


class Waits:
    """The inner calls that wait, and the calls that each waits for."""

    def __init__(self) -> None:
        self._blockers: dict[RunningCall, set[RunningCall]] = {}
        self._waiters: dict[RunningCall, set[RunningCall]] = {}
        """The calls that others wait for, with these."""
        self._within: dict[RunningCall, set[RunningCall]] = {}
        """The calls that wait, or in which a call waits, with that one."""

    async def wait(self, running: RunningCall, blockers: set[RunningCall]) -> None:
        """Wait until something has changed for a call."""
        gate = running.gate = anyio.Event()
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
        """Wake the calls that waited only for this one, or for one of its tool's slots."""
        for waiter in self._waiters.pop(running, ()):
            blockers = self._blockers[waiter]
            blockers.discard(running)
            if not blockers or waiter.checked.name == running.checked.name:
                waiter.wake()

    def wake(self, running: RunningCall) -> None:
        """Wake the calls that wait for this one, since it has changed."""
        for waiter in self._waiters.get(running, ()):
            waiter.wake()

    def is_circle(self, running: RunningCall, blockers: set[RunningCall]) -> bool:
        """Return whether one of the blockers waits, directly or not, for this call.

        One that has not started is an earlier call of the same tool. It waits for its tool no more
        than this call does.
        """
        own = {running, *running.enclosing()}
        todo, seen = [blocker for blocker in blockers if blocker.may_start], set[RunningCall]()
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
    """Remove a member of a group, and the group with its last member."""
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

    Not an Exception, so that a tool does not handle it as a failure.
    """

    def __init__(self, asked: CheckedCall, more: tuple[Access, ...], decision: Decision) -> None:
        super().__init__(f"The call needs more: {', '.join(map(str, more))}.")
        self.asked = asked
        """The call as it was when its tool asked."""
        self.more = more
        self.decision = decision


def accesses_of(running: RunningCall) -> tuple[Access, ...]:
    """Return the accesses that are reserved while a call runs."""
    return ALONE if running.checked.spec.exclusive else running.checked.accesses


def fail(running: RunningCall, kind: FailureKind, message: str, detail: str = "") -> Result:
    """Return a failed result of a call."""
    return Result.fail(running.call.id, kind, message, detail)


def not_begun(running: RunningCall) -> Result:
    """Return the result of a call that was cancelled before it started."""
    reason = running.turn.stop_reason
    message = _NOT_BEGUN if reason is None else StopRun.describe(reason)
    return fail(running, FailureKind.CANCELLED, message)


def pending_result(pending: Pending) -> Result:
    """Return the result of a call that waits for approval."""
    message = _BLOCKED if pending.kind == "waiting" else _WAITS.format(pending.question)
    failure = Failure(FailureKind.PENDING, message)
    return Result(pending.call.id, message, failure=failure, pending=pending)


def put_off(running: RunningCall, pending: Pending) -> Result:
    """Leave a call pending, and return its result."""
    running.turn.put_off(pending)
    return pending_result(pending)


def keep_finds(running: RunningCall, result: Result) -> Result:
    """Return a result without the tools that it claims to have found, unless its tool searches."""
    searched = running.is_checked and running.checked.spec.exposure is Exposure.SEARCH
    return result if searched else result._replace(found=())


_IN_LOOP = "may_sync was called in an event loop. Write `await context.may(...)` instead."
_NOT_BEGUN = "Not run: the call was cancelled before it started."
_WAITS = (
    "Not run yet: waiting for the user's approval. Continue with other work, or end your turn. "
    "Request: {}"
)
_BLOCKED = (
    "Not run yet: waiting for an earlier call that needs the user's approval. Continue with other "
    "work, or end your turn."
)
