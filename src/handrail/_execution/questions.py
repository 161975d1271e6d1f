"""Approve: ask for approval of a call, and use the answer, now or days later.

An approval covers exact arguments: it is tied to a fingerprint, can be used once, and expires. A
call changed since then needs approval again; it never runs with an old approval.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from handrail._execution.hooks import Hooks
from handrail._execution.running import RequestedCall, RunningCall, fail, make_running, not_begun
from handrail._execution.settings import Approvals
from handrail._permissions.checked_call import CheckedCall, find_heard
from handrail._permissions.decide import denial_text, version
from handrail._permissions.grade import grade_pending
from handrail._permissions.preview import has_preview, preview_call
from handrail._permissions.review import describe_ask
from handrail._support.loop import Expired, complete, in_context, must_pass
from handrail._turn.event_feed import Listeners
from handrail._turn.inner import add_ended
from handrail._turn.turn import Turn
from handrail._values.access import Access
from handrail._values.approval import (
    Answer,
    Approver,
    Edit,
    ask_reviewed,
    describe_edit,
    valid_answer,
)
from handrail._values.call import Call
from handrail._values.decision import ANYONE, Allow, Ask, Decision, Deny, SignIn
from handrail._values.fingerprint import fingerprint
from handrail._values.pending import Pending, find_kind
from handrail._values.result import FailureKind, Result
from handrail.events import Answered, Asked, Decided, Reviewed

log = logging.getLogger("handrail")
MAX_ROUNDS = 10
"""How many times one call can need approval again, after edits and changes."""


class Questions:
    """Asks for approval, and checks each answer's request."""

    def __init__(
        self,
        approvals: Approvals,
        listeners: Listeners,
        check: Callable[[Call, RequestedCall], CheckedCall | Result],
        *,
        hooks: Hooks,
        preview_timeout: float,
    ) -> None:
        self.approvals = approvals
        self._emit = listeners.emit
        self._clock = listeners.clock
        self._check = check
        self._hooks = hooks
        self._preview_timeout = preview_timeout
        self._has_warned = False

    def approver(self, turn: Turn[Any]) -> Approver | None:
        """Return a turn's approver, or None."""
        return turn.approver or self.approvals.approver

    def make_pending(
        self, running: RunningCall, decision: Decision | None, after: tuple[str, ...] = ()
    ) -> Pending:
        """Return the approval request for a call, or for one only waiting for other calls."""
        checked, record, now = running.checked, running.record, self._clock()
        ask = decision if isinstance(decision, Ask) else None
        pending = Pending(
            run_id=record.turn.run_id,
            turn_id=record.turn.id,
            key=checked.key,
            position=record.position,
            round=record.round,
            call=checked.call,
            effect=checked.spec.effect,
            accesses=checked.accesses,
            kind=find_kind(decision),
            fingerprint=self._fingerprint(running),
            asked_at=now,
            expires_at=now + self.approvals.timeout,
            origin=decision.origin if decision is not None else None,
            after=after,
            principal=record.turn.principal,
            notes=(*running.notes, *checked.parsed.repairs),
            approves=running.is_approved or not isinstance(decision, SignIn),
            added=running.added,
            **describe_ask(checked, ask),
            **running.record.shown_with,
        )
        return pending if ask is None else grade_pending(pending)

    async def preview(self, running: RunningCall, pending: Pending) -> Pending:
        """Add the tool's preview of the call to a request."""
        if pending.kind == "waiting" or not has_preview(running.checked):
            return pending
        record = running.record
        previewing = in_context(preview_call(running.checked), record.own_context())
        try:
            headline, changes = await complete(previewing, self._preview_timeout, record.may_wait)
        except Expired:
            if not record.stopped:
                log.warning("the preview of a call of %r timed out", record.call.name)
            return pending
        finally:
            record.stop = None
        return grade_pending(replace(pending, headline=headline, changes=changes + pending.changes))

    def _fingerprint(self, running: RunningCall) -> str:
        """Return what an approval is tied to; empty on an error, so no approval matches."""
        checked, context = running.checked, self.approvals.context
        try:
            extra = context(checked) if context is not None else ""
            around = version(running.record.view.policy), extra, running.record.turn.principal
            circumstances = "\n".join(map(repr, around))
        except Exception:
            log.exception("the approval context of a call of %r failed", checked.name)
            return ""
        call, spec, accesses = checked.call, checked.spec, checked.accesses
        return fingerprint(call, spec, checked.parsed, accesses, circumstances=circumstances)

    async def ask(self, running: RunningCall, decision: Ask) -> Result | Pending | None:
        """Ask until a call can run (None), has its result, or waits for a later answer."""
        record = running.record
        approver = self.approver(record.turn)
        if approver is None:
            return self.refuse_unasked(running, decision)
        for _ in range(MAX_ROUNDS):
            pending = await self.preview(running, self.make_pending(running, decision))
            if record.stopped:
                return not_begun(record)
            answer = await self._ask_approver(approver, record, pending)
            if isinstance(answer, Pending) or (isinstance(answer, Result) and record.stopped):
                return answer
            outcome = await self.apply_answer(record, pending, answer, asked=running)
            if isinstance(outcome, Result):
                return outcome
            checked, again = running.checked, running.checked.decision
            if isinstance(answer, Edit) or isinstance(again, Ask):
                fields = checked.accesses, again, checked.call, *find_heard(checked)
                self._emit(record, Decided, checked.id, *fields)
            record.round += 1
            if not isinstance(again, Ask):
                return None
            decision = again
        return self.refuse_endless(record)

    def refuse_endless(self, record: RequestedCall) -> Result:
        """Deny a call after too many approvals."""
        return fail(record, FailureKind.DENIED, _TOO_OFTEN)

    def refuse_unasked(self, running: RunningCall, decision: Ask) -> Result:
        """Deny a call needing approval where no one can give it."""
        if not self._has_warned:
            log.warning("calls that need approval are denied: no `approvals=` or `approver=` given")
        self._has_warned = True
        return fail(running.record, FailureKind.DENIED, _NO_ONE.format(decision.question))

    async def _ask_approver(
        self, approver: Approver, record: RequestedCall, pending: Pending
    ) -> Answer | Pending:
        """Pass a request to the approver. Anything that goes wrong is a denial."""
        self._emit(record, Asked, pending)
        if pending.approvers != ANYONE:
            return pending  # an approver does not say who it is
        try:
            report = partial(self._emit, record, Reviewed, pending.id, pending.call.id)
            asking = in_context(ask_reviewed(approver, pending, report), record.own_context())
            returned = await complete(asking, self.approvals.timeout, record.may_wait)
            answer = valid_answer(pending, returned)
        except Expired:
            if record.stopped:
                return not_begun(record)
            answer = Deny(_UNANSWERED)
        except BaseException as error:
            if must_pass(error):
                raise
            log.exception("the approver of a call of %r failed", record.call.name)
            answer = Deny(_ASKING_FAILED.format(type(error).__name__), detail=repr(error))
        finally:
            record.stop = None
        if not isinstance(answer, Pending):
            fields = pending.id, pending.call.id, answer, pending.asked_at
            self._emit(record, Answered, *fields)
        return answer

    async def apply_answer(
        self,
        record: RequestedCall,
        pending: Pending,
        answer: Answer,
        *,
        asked: RunningCall | None = None,
    ) -> RunningCall | Result:
        """Use an answer. Returns the call, decided again, or its result if it must not run.

        ``asked`` is the call if its approval was requested right before, in this process.
        """
        if pending.principal != record.turn.principal and not _can_ask_again(pending, answer):
            record.answered = None  # the request stays open
            denied = answer if isinstance(answer, Deny) else Deny(_OTHERS)
            return fail(record, FailureKind.DENIED, denied.reason, denied.detail)
        fits = not _can_ask_again(pending, answer) or self._still_fits(record, pending)
        if refusal := await self._claim(record, pending, fits=fits, asked=asked):
            return refusal
        valid = isinstance(answer, Deny) or pending.is_valid_at(self._clock())
        if isinstance(answer := answer if valid else Deny(_LATE), Deny):
            reason = add_ended(pending, answer.reason)
            return fail(record, FailureKind.DENIED, reason, answer.detail)
        if isinstance(answer, Result):
            return answer
        return await self._decide_again(record, pending, answer, fits=fits)

    def _still_fits(self, record: RequestedCall, pending: Pending) -> bool:
        """Return whether the call is still the one in the request, before any hook sees it."""
        running = self._check_pending(record, pending.call, pending.added)
        if isinstance(running, Result):
            return False
        return self._fingerprint(running) == pending.fingerprint.removeprefix(_UNSEEN) != ""

    def _check_pending(
        self, record: RequestedCall, call: Call, added: tuple[Access, ...]
    ) -> RunningCall | Result:
        """Check a call after its approval request, perhaps in another process."""
        checked, running = self._check(call, record), record.running
        if isinstance(checked, Result):
            return checked
        running = running or make_running(record, checked)
        running.recheck(checked, added)
        return running

    async def _decide_again(
        self, record: RequestedCall, pending: Pending, answer: Allow | Edit, *, fits: bool
    ) -> RunningCall | Result:
        """Check and decide the current call. Returns its result if it must not run."""
        edited = isinstance(answer, Edit)
        running = await self._check_again(record, pending, answer)
        if isinstance(running, Result):
            return running
        running.is_approved = False
        now = await self._hooks.decide(running)
        if now is None:
            return not_begun(record)
        if isinstance(now, Deny):
            return fail(record, FailureKind.DENIED, denial_text(now), now.detail)
        if not edited and pending.kind != "waiting":
            now = self._confirm(running, pending, now, fits=fits)
            running.is_approved = pending.approves and isinstance(now, Allow)
        elif edited and isinstance(now, Ask):
            now = replace(now, question=f"{_EDITED} {now.question}")
        running.checked = running.checked._replace(decision=now)
        running.is_rewritten = running.is_rewritten or edited
        return running

    async def _claim(
        self, record: RequestedCall, pending: Pending, *, fits: bool, asked: RunningCall | None
    ) -> Result | None:
        """Use up an approval, or replace an unfitting one. Returns a result if that fails.

        After a restart, a request has the same id as before. So a used approval is accepted for a
        call that was ``asked`` about right before, if it can be repeated safely.
        """
        try:
            if fits:
                claimed = await self._use(record, pending)
            else:  # only one of the two requests can be used
                claimed = await self.approvals.ledger.claim(pending.claim_name, _REPLACED)
        except Exception as error:
            log.exception("the ledger failed on %r", pending.id)
            record.answered = None
            message = _UNRECORDED.format(type(error).__name__)
            return fail(record, FailureKind.DENIED, message, repr(error))
        if claimed or (asked is not None and asked.checked.is_repeatable):
            return None
        # another process may be running the call, or was killed while it ran
        record.answered = None
        return fail(record, FailureKind.UNKNOWN, _USED)

    async def _use(self, record: RequestedCall, pending: Pending) -> bool:
        """Claim a request. If it was replaced, claim the request asked instead."""
        ledger, claimant, current = self.approvals.ledger, record.turn.options.new_claimant, pending
        while not await ledger.claim(current.claim_name, claimant):
            if not await ledger.claim(current.claim_name, _REPLACED):
                return False
            current = replace(current, round=current.round + 1)
            record.round += 1
        if current.round and await ledger.ended(pending.key):
            return False
        for number in range(pending.round):  # this ledger may not know them
            await ledger.claim(replace(pending, round=number).claim_name, claimant)
        return True

    async def _check_again(
        self, record: RequestedCall, pending: Pending, answer: Allow | Edit
    ) -> RunningCall | Result:
        """Check the current call. An edited one passes the hooks again."""
        running = self.check_answered(record, pending, answer)
        if isinstance(running, Result):
            return running
        edited, name = isinstance(answer, Edit), running.checked.name
        if not edited and not pending.fingerprint.startswith(_UNSEEN):
            return running
        result = await self._hooks.run_before(running)
        if result is None and edited and running.checked.name != name:
            return fail(record, FailureKind.DENIED, _ANOTHER)
        return result or running

    def check_answered(
        self, record: RequestedCall, pending: Pending, answer: Answer | None
    ) -> RunningCall | Result:
        """Check a call with its answer's arguments, and keep the notes on them."""
        call, added, edited = pending.call, pending.added, isinstance(answer, Edit)
        if isinstance(answer, Edit):  # with other arguments, its tool may ask for something else
            call, added = replace(call, args=answer.args), ()
        running = self._check_pending(record, call, added)
        if isinstance(running, Result):
            return running
        notes = describe_edit(pending.call, running.checked.parsed) if edited else ()
        running.notes = (*pending.notes, *notes)
        return running

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

    async def may_continue(self, record: RequestedCall, keys: Iterable[str]) -> bool:
        """Wait for the running ones among these calls, and return whether all have ended."""
        try:
            for key in keys:
                other = record.turn.find_answered(key)
                if other is not None and other.position < record.position:
                    await other.wait()
                if not await self.approvals.ledger.ended(key):
                    return False
        except Exception:
            log.exception("the ledger failed on a call of %r", record.call.name)
            return False
        return True

    async def end(self, record: RequestedCall, result: Result) -> None:
        """Record that a pending call has its result, so waiting calls can run."""
        if record.answered is None or result.pending is not None:
            return
        try:
            with anyio.CancelScope(shield=True):
                await self.approvals.ledger.end(record.answered[0].key)
        except Exception:  # then its waiting calls keep waiting
            log.exception("the ledger failed on a call of %r", record.call.name)


def _can_ask_again(pending: Pending, answer: Answer) -> bool:
    """Return whether a call with this answer needs approval again if it has changed."""
    return isinstance(answer, Allow) and pending.kind != "waiting"


def mark_unseen(pending: Pending) -> Pending:
    """Return a request about a call no hook has seen. Hooks see it when it is answered."""
    return replace(pending, fingerprint=_UNSEEN + pending.fingerprint)


_REPLACED = ""
"""The claimant for a repeated request; no turn has it. Any process can repeat it."""
_UNSEEN = "unseen:"
"""The fingerprint prefix for a call no hook has seen."""
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
