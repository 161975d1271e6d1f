"""Restarts: a tool needs a login or more access while it runs. Then its call begins again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from handrail._execution.check import check_access
from handrail._execution.hooks import Hooks
from handrail._execution.invoke import result_of_stop
from handrail._execution.ordering import Ordering
from handrail._execution.questions import MAX_ROUNDS, Questions
from handrail._execution.running import NeedsAccess, RunningCall, find_more, mark_pending
from handrail._permissions.decide import denial_text
from handrail._values.access import Access
from handrail._values.decision import Ask, Decision, Deny, SignIn
from handrail._values.errors import NeedsLogin, Refused, Suspended
from handrail._values.pending import Pending
from handrail._values.result import Result


class Restarts:
    """Gets what a tool needs while it runs, and runs the tool again."""

    def __init__(
        self,
        questions: Questions,
        ordering: Ordering,
        hooks: Hooks,
        *,
        invoke: Callable[[RunningCall], Awaitable[Result]],
        emit: Callable[[RunningCall], None],
    ) -> None:
        self._questions = questions
        self._ordering = ordering
        self._hooks = hooks
        self._invoke = invoke
        self._emit = emit

    async def may(self, running: RunningCall, accesses: tuple[Access, ...]) -> None:
        """Let a running call access more, if the policy allows it and no other call uses it.

        Raises Refused if the policy denies it. Raises NeedsAccess if the tool must begin again.
        """
        tool: Any = running.checked.tool
        for access in accesses:
            check_access(access, tool)
        while more := find_more(running.checked, accesses):
            asked = running.checked
            wanted = asked._replace(accesses=(*asked.accesses, *more), decision=None)
            decision = await self._hooks.decide_more(running, wanted)
            if running.checked is not asked:
                continue  # another task of the tool was given more, which is decided together
            if isinstance(decision, Deny):
                raise _make_refusal(decision)
            if isinstance(decision, Ask) or not self._is_free(running, wanted.accesses):
                raise NeedsAccess(asked, more, decision)
            self._add(running, more, decision)

    def _is_free(self, running: RunningCall, accesses: tuple[Access, ...]) -> bool:
        """Give a running call these accesses, unless it must wait for another call."""
        if running.record.turn.waiting_before(running.record.position, accesses):
            return False
        return self._ordering.extend(running, accesses)

    def _add(self, running: RunningCall, more: tuple[Access, ...], decision: Decision) -> None:
        accesses = (*running.checked.accesses, *more)
        running.checked = running.checked._replace(accesses=accesses, decision=decision)
        running.added += more
        running.is_approved = False
        self._emit(running)

    async def begin_again(
        self, running: RunningCall, error: NeedsLogin | NeedsAccess | Suspended
    ) -> Result:
        """Get what a tool needs, and run it again. Returns the call's result."""
        rounds, record = 0, running.record
        while rounds < MAX_ROUNDS:
            if isinstance(error, Suspended):
                return mark_pending(
                    running.record.turn, self._questions.make_pending(running, None)
                )
            held = running.checked.accesses
            question = self._make_question(running, error)
            if question is not None:
                rounds += 1
                outcome = await self._questions.ask(running, question)
                record.stopped = (
                    record.stopped or running.record.turn.is_closed
                )  # while it was asked
                if isinstance(outcome, Pending):
                    return mark_pending(running.record.turn, outcome)
                if outcome is not None:
                    return outcome
            result = await self._wait(running, question, held)
            if result is not None:
                return result
            try:
                return await self._invoke(running)
            except (NeedsLogin, NeedsAccess, Suspended) as again:
                error = again
        return self._questions.refuse_endless(record)

    def _make_question(self, running: RunningCall, error: NeedsLogin | NeedsAccess) -> Ask | None:
        """Return what a person must be asked, if anything, before the tool runs again."""
        if isinstance(error, NeedsLogin):
            return SignIn(f"{error} {error.url}".strip() or "Sign in.", once=True)
        if running.checked is not error.asked:
            return None  # another task of the tool was given more: the tool asks again
        self._add(running, error.more, error.decision)
        if not isinstance(error.decision, Ask):
            return None
        listed = ", ".join(map(str, error.more))
        return replace(error.decision, question=f"{_MORE.format(listed)} {error.decision.question}")

    async def _wait(
        self, running: RunningCall, asked: Ask | None, held: tuple[Access, ...]
    ) -> Result | None:
        """Wait until a call can run again with its accesses. Returns its result if it cannot."""
        accesses, record = running.checked.accesses, running.record
        if accesses == held or record.stopped:
            return None
        if not self._ordering.extend(running, accesses):
            self._ordering.restart(running)
            result = await self._ordering.wait(running)
            if result is not None or record.stopped:
                return result_of_stop(record) if record.stopped else result
        after = running.record.turn.waiting_before(record.position, accesses)
        return await self.wait_behind(running, asked, after) if after else None

    async def wait_behind(
        self, running: RunningCall, asked: Decision | None, after: tuple[str, ...]
    ) -> Result:
        """Leave a call pending behind others. An approval stays valid."""
        later = self._questions.make_pending(running, asked, after)
        if later.kind != "waiting":
            running.record.turn.approved += (later.id,)
        return mark_pending(running.record.turn, await self._questions.preview(running, later))


def _make_refusal(denial: Deny) -> Refused:
    refusal = Refused(denial_text(denial))
    if denial.detail:
        refusal.add_note(denial.detail)
    return refusal


_MORE = "While it ran, it asked for more: {}."
