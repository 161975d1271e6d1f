"""Decide in a thread, and within a time limit, if a policy may take long."""

from __future__ import annotations

import logging
import threading

import anyio.to_thread
from anyio import CapacityLimiter

from handrail._permissions.checked_call import CheckedCall, Policy
from handrail._permissions.decide import decide, is_quick
from handrail._support.loop import Expired, complete
from handrail._turn.record import Record
from handrail._values.decision import Decision, Deny

log = logging.getLogger("handrail")
_MAX_STUCK = 4
"""Threads in which a policy is still busy although its call was given up."""


class Deciding:
    """Asks policies about calls. One that hangs stops neither the event loop nor other calls."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stuck = set[_Work]()

    async def decide(
        self, policy: Policy | None, checked: CheckedCall, record: Record
    ) -> Decision | None:
        """Return the decision about a call, or None if the call was stopped before."""
        if policy is None or is_quick(policy, checked):
            return decide(policy, checked)
        if len(self._stuck) >= _MAX_STUCK:
            log.error("a call of %r was not decided: the policy hangs", checked.name)
            return Deny(_BUSY, detail=f"the policy hangs in {_MAX_STUCK} threads")
        work = _Work(policy, checked, self._stuck)
        try:
            decision: Decision = await complete(_run(work), self._seconds, record.may_wait)
        except Expired:
            if record.stopped:
                return None
            log.warning("the policy timed out on a call of %r", checked.name)
            detail = f"the policy took more than {self._seconds:g} s"
            return Deny(_HANGS.format(self._seconds), detail=detail)
        finally:
            record.stop = None
            work.give_up()
        return decision


async def _run(work: _Work) -> Decision:
    alone = CapacityLimiter(1)  # the threads of others must not delay it
    return await anyio.to_thread.run_sync(work.run, abandon_on_cancel=True, limiter=alone)


class _Work:
    """A decision that is made in a thread, which Python cannot stop."""

    def __init__(self, policy: Policy, checked: CheckedCall, stuck: set[_Work]) -> None:
        self._policy, self._checked, self._stuck = policy, checked, stuck
        self._lock = threading.Lock()
        self._is_running = False

    def run(self) -> Decision:
        with self._lock:
            self._is_running = True
        try:
            return decide(self._policy, self._checked)
        except GeneratorExit as error:  # asyncio would treat it as a request to end the task
            log.exception("the policy failed on a call of %r", self._checked.name)
            return Deny(_FAILED, detail=repr(error))
        finally:
            with self._lock:
                self._is_running = False
                self._stuck.discard(self)

    def give_up(self) -> None:
        """Note that no one waits for it any more. If it still runs, it is stuck until it ends."""
        with self._lock:
            if self._is_running:
                self._stuck.add(self)


_NO_USE = "Calling again will not help; tell the user."
_FAILED = f"Not run: the permission check failed (GeneratorExit). {_NO_USE}"
_HANGS = f"Not run: the permission check took more than {{:g}} s. {_NO_USE}"
_BUSY = f"Not run: the permission check hangs on earlier calls. {_NO_USE}"
