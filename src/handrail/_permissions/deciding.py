"""Decide in a thread, and within a time limit, if a policy may take long."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from contextvars import copy_context

import anyio

from handrail._permissions.checked_call import CheckedCall, Policy
from handrail._permissions.decide import decide, is_quick
from handrail._support.loop import Expired, LoopBinding, Stop, complete, current_loop
from handrail._turn.record import Record
from handrail._values.decision import Decision, Deny

log = logging.getLogger("handrail")
_MAX_STUCK = 4
"""Threads in which a policy is still busy although its call was given up."""
_MAX_AT_ONCE = 64
"""Threads that decide at the same time. Other calls wait, within their time limit."""


class Deciding:
    """Asks policies about calls. A hanging one stops neither the event loop nor other calls."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stuck = set[_Work]()
        self._loop: object = None
        self._free: anyio.Semaphore

    async def decide(
        self, policy: Policy | None, checked: CheckedCall, record: Record | None
    ) -> Decision | None:
        """Return the decision about a call, or None if the call was stopped before.

        Without a record, only cancelling the task stops it.
        """
        if policy is None or is_quick(policy, checked):
            return decide(policy, checked)
        # in the event loop, a slow policy would stop all calls: decision 080
        work = _Work(policy, checked, self._stuck)
        try:
            waits = _ignore if record is None else record.may_wait
            decision: Decision = await complete(self._run(work), self._seconds, waits)
        except Expired:
            if record is not None and record.stopped:
                return None
            log.warning("the policy timed out on a call of %r", checked.name)
            detail = f"the policy took more than {self._seconds:g} s"
            return Deny(_HANGS.format(self._seconds), detail=detail)
        finally:
            if record is not None:
                record.stop = None
            work.give_up()
        return decision

    async def _run(self, work: _Work) -> Decision:
        if self._loop is not current_loop():
            self._loop = current_loop()
            self._free = anyio.Semaphore(_MAX_AT_ONCE, fast_acquire=True)
        async with self._free:
            if len(self._stuck) < _MAX_STUCK:
                return await work.run()
        log.error("a call of %r was not decided: the policy hangs", work.checked.name)
        return Deny(_BUSY, detail=f"the policy hangs in {_MAX_STUCK} threads")


def _ignore(_stop: Stop) -> None: ...


class _Work:
    """A decision made in a thread, which Python cannot stop.

    It is a daemon thread: a hanging one does not keep the process alive.
    """

    def __init__(self, policy: Policy, checked: CheckedCall, stuck: set[_Work]) -> None:
        self.checked = checked
        self._policy, self._stuck = policy, stuck
        self._lock = threading.Lock()
        self._is_running = self._is_given_up = False
        self._made: Decision | BaseException | None = None

    async def run(self) -> Decision:
        """Decide in a thread, in a copy of this task's context."""
        home, ended, context = LoopBinding(), anyio.Event(), copy_context()
        home.bind()
        thread = threading.Thread(
            target=context.run,
            args=(self._decide, home, ended),
            name="handrail-policy",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:  # there are too many
            log.exception("a call of %r was not decided", self.checked.name)
            return Deny(_NO_THREAD, detail=repr(error))
        await ended.wait()
        made = self._made
        if isinstance(made, BaseException):
            raise made
        assert made is not None  # noqa: S101  it has ended
        return made

    def _decide(self, home: LoopBinding, ended: anyio.Event) -> None:
        if "sniffio" in sys.modules:  # no event loop runs in this thread
            sys.modules["sniffio"].current_async_library_cvar.set(None)
        with self._lock:
            self._is_running = not self._is_given_up
        if not self._is_running:
            return
        try:
            self._made = decide(self._policy, self.checked)
        except BaseException as error:  # noqa: BLE001  raised where the decision is awaited
            self._made = error
        finally:
            with self._lock:
                self._is_running = False
                self._stuck.discard(self)
        with suppress(RuntimeError):  # a closed loop awaits nothing
            home.call(ended.set)

    def give_up(self) -> None:
        """Note that no one waits for it any more. If still running, it is stuck until it ends."""
        with self._lock:
            self._is_given_up = True
            if self._is_running:
                self._stuck.add(self)


_NO_USE = "Calling again will not help; tell the user."
_NO_THREAD = f"Not run: the permission check could not start. {_NO_USE}"
_HANGS = f"Not run: the permission check took more than {{:g}} s. {_NO_USE}"
_BUSY = f"Not run: the permission check hangs on earlier calls. {_NO_USE}"
