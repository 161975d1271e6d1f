"""Approve: ask for approval of a call, and use the answer, now or days later.

An approval covers exact arguments: it is tied to a fingerprint, can be used once, and expires. A
call that has changed since then needs approval again; it never runs with an old approval.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from inspect import isawaitable
from typing import Any

import anyio

from handrail._execution.hooks import Hooks
from handrail._execution.running import RunningCall, fail, not_begun
from handrail._execution.settings import Approvals
from handrail._permissions.checked_call import CheckedCall
from handrail._permissions.decide import denial_text, version
from handrail._permissions.grade import grade_pending
from handrail._permissions.preview import has_preview, preview_call
from handrail._support.loop import Expired, complete, in_context, must_pass
from handrail._turn.event_feed import Listeners
from handrail._values.approval import (
    Answer,
    Approver,
    Edit,
    Ledger,
    describe_edit,
    valid_answer,
)
from handrail._values.call import Call
from handrail._values.decision import ANYONE, Allow, Ask, Decision, Deny, SignIn
from handrail._values.pending import Pending, find_kind, fingerprint
from handrail._values.result import FailureKind, Result
from handrail.events import Answered, Asked, Decided

log = logging.getLogger("handrail")
MAX_ROUNDS = 10
"""How many times one call can need approval again, after edits and changes."""


class Questions:
    """Asks for approval, and makes sure that an answer belongs to its request."""

    def __init__(
        self,
        approvals: Approvals,
        listeners: Listeners,
        check: Callable[[Call, RunningCall], CheckedCall | Result],
        *,
        hooks: Hooks,
        preview_timeout: float,
    ) -> None:
        self._approvals = approvals
        self._tell = listeners.tell
        self._clock = listeners.clock
        self._check = check
        self._hooks = hooks
        self._preview_timeout = preview_timeout
        self._has_warned = False

    @property
    def ledger(self) -> Ledger:
        """Where used approvals are recorded."""
        return self._approvals.ledger

    @property
    def default_approver(self) -> Approver | None:
        """The approver of calls whose turn has none."""
        return self._approvals.approver

    def approver(self, running: RunningCall) -> Approver | None:
        """Return the approver of a call, or None."""
        return running.turn.approver or self._approvals.approver

    def make_pending(
        self, running: RunningCall, decision: Decision | None, after: tuple[str, ...] = ()
    ) -> Pending:
        """Return the approval request for a call, or one that only waits for other calls."""
        checked, now = running.checked, self._clock()
        ask = decision if isinstance(decision, Ask) else None
        kind = find_kind(decision)
        pending = Pending(
            run_id=running.turn.run_id,
            turn_id=running.turn.id,
            key=checked.key,
            position=running.position,
            round=running.round,
            call=checked.call,
            effect=checked.spec.effect,
            accesses=checked.accesses,
            kind=kind,
            question=ask.question if ask is not None else "",
            fingerprint=self._fingerprint(running),
            asked_at=now,
            expires_at=now + self._approvals.timeout,
            origin=decision.origin if decision is not None else None,
            once=ask is not None and ask.once,
            after=after,
            principal=running.turn.principal,
            parts=ask.parts if ask is not None else (),
            approvers=ask.approvers if ask is not None else ANYONE,
            notes=(*running.notes, *checked.parsed.repairs),
            approves=running.is_approved or kind != "login",
            added=running.added,
        )
        return pending if ask is None else grade_pending(pending)

    async def preview(self, running: RunningCall, pending: Pending) -> Pending:
        """Add the tool's preview of the call to a request."""
        if pending.kind == "waiting" or not has_preview(running.checked):
            return pending
        previewing = in_context(preview_call(running.checked), running.own_context())
        try:
            headline, changes = await complete(previewing, self._preview_timeout, running.may_wait)
        except Expired:
            if not running.stopped:
                log.warning("the preview of a call of %r timed out", running.call.name)
            return pending
        finally:
            running.stop = None
        return grade_pending(replace(pending, headline=headline, changes=changes))

    def _fingerprint(self, running: RunningCall) -> str:
        """Return what an approval is tied to; empty on an error, so that no approval matches."""
        checked, context = running.checked, self._approvals.context
        try:
            extra = context(checked) if context is not None else ""
            around = version(running.view.policy), extra, running.turn.principal
            circumstances = "\n".join(map(repr, around))
        except Exception:
            log.exception("the approval context of a call of %r failed", checked.name)
            return ""
        call, spec, accesses = checked.call, checked.spec, checked.accesses
        parsed = checked.parsed
        return fingerprint(call, spec, parsed, accesses, circumstances=circumstances)

    async def ask(self, running: RunningCall, decision: Ask) -> Result | Pending | None:
        """Ask until a call can run (None), has its result, or waits for a later answer."""
        if self.approver(running) is None:
            return self.refuse_unasked(running, decision)
        for _ in range(MAX_ROUNDS):
            pending = await self.preview(running, self.make_pending(running, decision))
            answer = not_begun(running) if running.stopped else await self._put(running, pending)
            if isinstance(answer, Pending):
                return answer
            if isinstance(answer, Result) and running.stopped:
                return answer
            result = await self.take(running, pending, answer, is_new=True)
            if result is not None:
                return result
            checked, again = running.checked, running.checked.decision
            if isinstance(answer, Edit) or isinstance(again, Ask):
                call = checked.call
                self._tell(running, Decided, call.id, checked.accesses, again, call)
            running.round += 1
            if not isinstance(again, Ask):
                return None
            decision = again
        return self.refuse_endless(running)

    def refuse_endless(self, running: RunningCall) -> Result:
        """Deny a call that needed approval too many times."""
        return fail(running, FailureKind.DENIED, _TOO_OFTEN)

    def refuse_unasked(self, running: RunningCall, decision: Ask) -> Result:
        """Deny a call that needs approval where no one is available to give it."""
        if not self._has_warned:
            log.warning("calls that need approval are denied: no `approvals=` or `approver=` given")
        self._has_warned = True
        return fail(running, FailureKind.DENIED, _NO_ONE.format(decision.question))

    async def _put(self, running: RunningCall, pending: Pending) -> Answer | Pending:
        """Pass a request to the approver. Anything that goes wrong is a denial."""
        approver: Any = self.approver(running)
        self._tell(running, Asked, pending)
        if pending.approvers != ANYONE:
            return pending  # an approver does not say who it is
        try:
            asking = in_context(_ask(approver, pending), running.own_context())
            given = await complete(asking, self._approvals.timeout, running.may_wait)
            answer = valid_answer(pending, given)
        except Expired:
            if running.stopped:
                return not_begun(running)
            answer = Deny(_UNANSWERED)
        except BaseException as error:
            if must_pass(error):
                raise
            log.exception("the approver of a call of %r failed", running.call.name)
            answer = Deny(_ASKING_FAILED.format(type(error).__name__), detail=repr(error))
        finally:
            running.stop = None
        if not isinstance(answer, Pending):
            fields = pending.id, pending.call.id, answer, pending.asked_at
            self._tell(running, Answered, *fields)
        return answer

    async def take(
        self, running: RunningCall, pending: Pending, answer: Answer, *, is_new: bool = False
    ) -> Result | None:
        """Use an answer. Returns None if the call was decided again.

        An answer is new if it was given in this process, right after the request.
        """
        if pending.principal != running.turn.principal and not _can_ask_again(pending, answer):
            running.given = None  # the request stays open
            denied = answer if isinstance(answer, Deny) else Deny(_OTHERS)
            return fail(running, FailureKind.DENIED, denied.reason, denied.detail)
        fits = not _can_ask_again(pending, answer) or self._still_fits(running, pending)
        # after a restart, a request has the same id as before
        if refusal := await self._claim(running, pending, fits=fits, again=is_new):
            return refusal
        if isinstance(answer, Deny):
            return fail(running, FailureKind.DENIED, answer.reason, answer.detail)
        if not pending.is_valid_at(self._clock()):
            return fail(running, FailureKind.DENIED, _LATE)
        if isinstance(answer, Result):
            return answer
        return await self._decide_again(running, pending, answer, fits=fits)

    def _still_fits(self, running: RunningCall, pending: Pending) -> bool:
        """Return whether the call is still the one in the request, before any hook sees it."""
        checked = self._check(pending.call, running)
        if isinstance(checked, Result):
            return False
        running.checked, running.is_checked = checked, True
        return self._fingerprint(running) == pending.fingerprint.removeprefix(_UNSEEN) != ""

    async def _decide_again(
        self, running: RunningCall, pending: Pending, answer: Allow | Edit, *, fits: bool
    ) -> Result | None:
        """Check and decide the current call. Returns its result if it must not run."""
        edited = isinstance(answer, Edit)
        running.is_approved = False
        result = await self._check_again(running, pending, answer)
        if result is not None:
            return result
        now = await self._hooks.decide(running)
        if now is None:
            return not_begun(running)
        if isinstance(now, Deny):
            return fail(running, FailureKind.DENIED, denial_text(now), now.detail)
        if not edited and pending.kind != "waiting":
            now = self._confirm(running, pending, now, fits=fits)
            running.is_approved = pending.approves and isinstance(now, Allow)
        elif edited and isinstance(now, Ask):
            now = replace(now, question=f"{_EDITED} {now.question}")
        running.checked = running.checked._replace(decision=now)
        running.is_rewritten = running.is_rewritten or edited
        return None

    async def _claim(
        self, running: RunningCall, pending: Pending, *, fits: bool, again: bool
    ) -> Result | None:
        """Use up an approval, or replace one that does not fit. Returns a result if that fails.

        With ``again``, a used approval is accepted if the call can be repeated safely.
        """
        try:
            if fits:
                claimed = await self._use(running, pending)
            else:  # only one of the two requests can be used
                claimed = await self.ledger.claim(pending.claim_name, _REPLACED)
        except Exception as error:
            log.exception("the ledger failed on %r", pending.id)
            running.given = None
            message = _UNRECORDED.format(type(error).__name__)
            return fail(running, FailureKind.DENIED, message, repr(error))
        if claimed or (again and running.checked.is_repeatable):
            return None
        # another process may be running the call, or was killed while it ran
        running.given = None
        return fail(running, FailureKind.UNKNOWN, _USED)

    async def _use(self, running: RunningCall, pending: Pending) -> bool:
        """Claim a request. If it was replaced, claim the request that was asked instead."""
        ledger, claimant, current = self.ledger, running.turn.claimant, pending
        while not await ledger.claim(current.claim_name, claimant):
            if not await ledger.claim(current.claim_name, _REPLACED):
                return False
            current = replace(current, round=current.round + 1)
            running.round += 1
        if current.round and await ledger.ended(pending.key):
            return False
        for number in range(pending.round):  # this ledger may not know them
            await ledger.claim(replace(pending, round=number).claim_name, claimant)
        return True

    async def _check_again(
        self, running: RunningCall, pending: Pending, answer: Allow | Edit
    ) -> Result | None:
        """Check the current call. An edited one passes the hooks again."""
        refused = self.check_answered(running, pending, answer)
        if refused is not None:
            return refused
        edited, name = isinstance(answer, Edit), running.checked.name
        if not edited and not pending.fingerprint.startswith(_UNSEEN):
            return None
        result = await self._hooks.run_before(running)
        if result is None and edited and running.checked.name != name:
            return fail(running, FailureKind.DENIED, _ANOTHER)
        return result

    def check_answered(
        self, running: RunningCall, pending: Pending, answer: Answer | None
    ) -> Result | None:
        """Check a call with the arguments of its answer, and keep the notes on them."""
        call = pending.call
        if isinstance(answer, Edit):  # with other arguments, its tool may ask for something else
            call, running.added = replace(call, args=answer.args), ()
        checked = self._check(call, running)
        if isinstance(checked, Result):
            return checked
        running.checked, running.is_checked = checked, True
        edited = describe_edit(pending.call, checked.parsed) if isinstance(answer, Edit) else ()
        running.notes = (*pending.notes, *edited)
        return None

    def _confirm(
        self, running: RunningCall, pending: Pending, now: Decision, *, fits: bool
    ) -> Decision:
        """Allow a call whose approval covers exactly this call. Any other needs approval again."""
        fits = fits and (pending.approves or not isinstance(now, Ask))  # a login approves nothing
        if fits and self._fingerprint(running) == pending.fingerprint.removeprefix(_UNSEEN):
            return Allow(pending.origin)
        if isinstance(now, Ask):
            return replace(now, question=f"{_CHANGED} {now.question}") if pending.approves else now
        kind = SignIn if pending.kind == "login" else Ask
        question = f"{_CHANGED} {pending.question}"
        return kind(question, now.origin, pending.once, (), pending.approvers)

    async def may_continue(self, running: RunningCall, keys: Iterable[str]) -> bool:
        """Wait for those of these calls that are running, and return whether all have ended."""
        try:
            for key in keys:
                other = running.turn.find_answered(key)
                if other is not None and other.position < running.position:
                    await other.wait()
                if not await self.ledger.ended(key):
                    return False
        except Exception:
            log.exception("the ledger failed on a call of %r", running.call.name)
            return False
        return True

    async def end(self, running: RunningCall, result: Result) -> None:
        """Record that a pending call has its result, so that calls that wait for it can run."""
        if running.given is None or result.pending is not None:
            return
        try:
            with anyio.CancelScope(shield=True):
                await self.ledger.end(running.given[0].key)
        except Exception:  # then the calls that wait for it keep waiting
            log.exception("the ledger failed on a call of %r", running.call.name)


async def _ask(approver: Approver, pending: Pending) -> object:
    answer: object = approver(pending)
    if not isawaitable(answer):
        raise TypeError(f"The approver is not async: {_WRAP}")
    return await answer


def _can_ask_again(pending: Pending, answer: Answer) -> bool:
    """Return whether a call with this answer needs approval again if it has changed."""
    return isinstance(answer, Allow) and pending.kind != "waiting"


def mark_unseen(pending: Pending) -> Pending:
    """Return a request about a call that no hook has seen. Hooks see it when it is answered."""
    return replace(pending, fingerprint=_UNSEEN + pending.fingerprint)


_WRAP = "make it `async def`, or wrap it with `handrail.approvals.callback`."
_REPLACED = ""
"""The claimant of a request that is asked again; that of no turn. Any process can repeat it."""
_UNSEEN = "unseen:"
"""The prefix of the fingerprint of a call that no hook has seen."""
_EDITED = "Edited, so it needs approval again."
_CHANGED = "Changed since it was approved, so it needs approval again."
_LATE = "Not run: the approval request had expired. Call again if it is still needed."
_UNANSWERED = "Not run: no one answered in time. Call again if it is still needed."
_ASKING_FAILED = "Not run: the approval request failed ({}). Tell the user."
_USED = (
    "Not run: this approval was already used. The earlier call may have taken effect: check first."
)
_OTHERS = "Not run: this answer is to a request of another user. Tell the user."
_UNRECORDED = "Not run: the approval could not be recorded as used ({}). Tell the user."
_ANOTHER = "Not run: a check sent the edited call to another tool. Tell the user."
_TOO_OFTEN = "Not run: the call needed approval too many times. Tell the user."
_NO_ONE = (
    "Not run: this needs the user's approval, and no one is available to give it. Do what you can "
    "without it, and report it at the end. Request: {}"
)
