"""Questions: what becomes of a call that somebody must allow first, now or days later.

An answer is for these bytes: it is bound to a fingerprint, counts once, and expires. Whatever has
changed since the question was asked is asked again; it never runs on an old yes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import anyio

from handrail._access import Access
from handrail._call import Call
from handrail._decision import Allow, Ask, Deny
from handrail._desk import Desk
from handrail._event import Answered, Asked, Judged
from handrail._hook import Answer
from handrail._hooked import answered, valid
from handrail._invoke import Flight
from handrail._loop import Expired
from handrail._pending import Edit, Pending, fingerprint
from handrail._policy import ALLOW, version
from handrail._preflight import Ready
from handrail._result import Failure, Kind, Result

MOST_ROUNDS = 10
"""How often one call may be asked for again, after edits and changes."""


def waiting(pending: Pending) -> Result:
    """What a model reads of a call that has not run yet."""
    message = _WAITS.format(pending.question) if pending.question else _BLOCKED
    failure = Failure(Kind.PENDING, message)
    return Result(pending.call.id, message, failure=failure, pending=pending)


class Taken(NamedTuple):
    """What became of an answer: the call as it is judged now, and whether the answer was used."""

    ready: Ready | Result
    claimed: bool = False


class Questions:
    """Asks, and makes sure that an answer is for what was asked."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def pending(self, ready: Ready, after: tuple[str, ...] = (), chain: str = "") -> Pending:
        """A judged call as a question, or as one that waits for others only.

        ``chain`` is what it has in common with earlier questions about the same call.
        """
        desk, ask = self._desk, ready.decision
        now = desk.clock()
        return Pending(
            id=uuid.uuid4().hex,
            call=replace(ready.call, args=ready.args.text),
            effect=ready.tool.spec.effect,
            accesses=ready.accesses,
            question=ask.question if isinstance(ask, Ask) else "",
            fingerprint=self._fingerprint(ready),
            asked_at=now,
            expires_at=now + desk.answer_within,
            origin=ask.origin,
            once=isinstance(ask, Ask) and ask.once,
            after=after,
            first=chain,
        )

    def _fingerprint(self, ready: Ready) -> str:
        """What an answer is bound to; empty, where that cannot be told, and nothing fits."""
        desk = self._desk
        try:
            bound = desk.bound_to(ready.call) if desk.bound_to is not None else ""
            circumstances = f"{version(desk.policy)}\n{bound}"
        except Exception:  # noqa: BLE001  the host's code, which must not end the batch
            return ""
        args, accesses = ready.args, ready.accesses
        return fingerprint(ready.call, ready.tool.spec, args, accesses, circumstances=circumstances)

    async def settle(
        self, flight: Flight, moved: Callable[[tuple[Access, ...]], None]
    ) -> Allow | Result | Pending | None:
        """Ask until a call may run, has its result, or waits; None where it was stopped.

        ``moved`` is told when the call, edited, will touch something else.
        """
        for _ in range(MOST_ROUNDS):
            ask: Any = flight.ready.decision
            flight.asked = ask
            pending = self.pending(flight.ready, chain=flight.chain)
            answer = await self._put(flight, pending)
            if answer is None or isinstance(answer, Pending):
                return answer
            if refusal := await self._claimed(pending):
                return refusal
            ready = await self._judged_again(pending, answer)
            if isinstance(ready, Result):
                return ready
            if isinstance(answer, Edit) or not isinstance(ready.decision, Allow):
                at, call = self._desk.clock(), ready.call
                self._desk.tell(Judged(at, call.id, ready.accesses, ready.decision, call))
            flight.ready = ready
            moved(ready.accesses)
            if isinstance(ready.decision, Allow):
                return ready.decision
        return _refused(flight.ready.call.id, _TOO_OFTEN)

    async def _put(self, flight: Flight, pending: Pending) -> Answer | Pending | None:
        desk = self._desk
        approver: Any = desk.approver
        if flight.stopped:
            return None
        desk.tell(Asked(desk.clock(), pending))
        try:
            answer = await answered(
                pending, approver, seconds=desk.answer_within, waits=flight.may_wait
            )
        except Expired:
            return None
        finally:
            flight.stop = None
        if not isinstance(answer, Pending):
            desk.tell(Answered(desk.clock(), pending.id, pending.call.id, answer))
        return answer

    async def taken_up(self, pending: Pending, answer: object, *, free: bool) -> Taken:
        """A call that waited, with its answer: judged again, or with its result.

        ``free`` says whether all that it had to wait for is out of the way.
        """
        if not free or (answer is None and pending.question):
            return Taken(waiting(pending))
        given = valid(pending, answer) if answer is not None else ALLOW
        if isinstance(given, Pending):
            return Taken(waiting(pending))
        if answer is not None:
            now = self._desk.clock()
            self._desk.tell(Answered(now, pending.id, pending.call.id, given))
        if refusal := await self._claimed(pending):
            return Taken(refusal)
        return Taken(await self._judged_again(pending, given), claimed=True)

    async def may_go_on(self, chains: Collection[str]) -> bool:
        """Whether all of these calls have ended, for good."""
        try:
            return all([await self._desk.ledger.claimed(_ended(one)) for one in chains])
        except Exception:  # noqa: BLE001  a ledger that breaks lets nobody pass
            return False

    async def ended(self, chain: str) -> None:
        """Note that a call that waited has its result: those behind it may go on."""
        with suppress(Exception):  # then they wait on
            await self._desk.ledger.claim(_ended(chain))

    async def all_ended(self, chains: Iterable[str]) -> None:
        """The same for several, whoever is cancelled meanwhile."""
        with anyio.CancelScope(shield=True):
            for chain in filter(None, chains):
                await self.ended(chain)

    async def _claimed(self, pending: Pending) -> Result | None:
        """Take an answer as used; where it cannot be, the result of its call."""
        call_id = pending.call.id
        try:
            claimed = await self._desk.ledger.claim(pending.id)
        except Exception as error:  # noqa: BLE001  a ledger that breaks lets nobody pass
            return _refused(call_id, _UNRECORDED.format(type(error).__name__))
        # whoever used it before may have been killed while the call ran
        return None if claimed else Result.fail(call_id, Kind.UNKNOWN, _USED)

    async def _judged_again(self, pending: Pending, answer: Answer) -> Ready | Result:
        """What an answer makes of a call, once it was taken as used."""
        call, desk = pending.call, self._desk
        if desk.clock() >= pending.expires_at:
            return _refused(call.id, _LATE)
        if isinstance(answer, Deny):
            return _refused(call.id, answer.reason)
        if isinstance(answer, Allow):
            return self._confirmed(pending, desk.judged(call))
        return await self._edited(call, answer) if isinstance(answer, Edit) else answer

    async def _edited(self, call: Call, edit: Edit) -> Ready | Result:
        """An edited call passes the hooks and the policy as any call does."""
        desk, edited = self._desk, replace(call, args=edit.args)
        passed = await desk.checked(edited)
        if isinstance(passed, Result) and not desk.loosens(edited, passed):
            return passed
        if isinstance(passed, Call) and passed.name != call.name:
            return _refused(call.id, _ANOTHER)
        return _or_refused(desk.judged(passed if isinstance(passed, Call) else edited))

    def _confirmed(self, pending: Pending, now: Ready | Result) -> Ready | Result:
        """The call with its yes, if that was given to exactly this; else it is asked again."""
        ready = _or_refused(now)
        if isinstance(ready, Result) or not pending.question:
            return ready
        if pending.fingerprint and self._fingerprint(ready) == pending.fingerprint:
            return ready._replace(decision=Allow(pending.origin))
        return ready._replace(decision=_asked_anew(ready, pending))


def _ended(chain: str) -> str:
    """Under which name a ledger knows that a call has ended."""
    return f"{chain}/ended"


def in_order(pending: Sequence[Pending]) -> list[int]:
    """The places of these, each behind those that it has to wait for."""
    place_of = {one.chain: place for place, one in enumerate(pending)}
    done: dict[int, None] = {}
    todo = list(reversed(range(len(pending))))
    on_the_way: set[int] = set()
    while todo:
        place = todo.pop()
        first = [place_of[one] for one in pending[place].after if one in place_of]
        first = [one for one in first if one not in done and one not in on_the_way]
        if first and place not in on_the_way:
            on_the_way.add(place)
            todo += [place, *reversed(first)]
        else:
            done[place] = None
    return list(done)


def _refused(call_id: str, reason: str) -> Result:
    return Result.fail(call_id, Kind.DENIED, reason)


def _or_refused(ready: Ready | Result) -> Ready | Result:
    if isinstance(ready, Ready) and isinstance(ready.decision, Deny):
        return _refused(ready.call.id, ready.decision.reason)
    return ready


def _asked_anew(ready: Ready, pending: Pending) -> Ask:
    """The question once more, though a policy that has changed may no longer ask it."""
    ask = ready.decision
    question = ask.question if isinstance(ask, Ask) else pending.question
    once = ask.once if isinstance(ask, Ask) else pending.once
    return Ask(f"{_CHANGED} {question}", ask.origin, once)


_WAITS = (
    "The call waits for an answer, and nothing was run yet. The question is: {} Go on with "
    "something else, or end your turn; its result will follow."
)
_BLOCKED = (
    "The call has to wait for an earlier one that waits for an answer, and nothing was run yet. "
    "Go on with something else, or end your turn; its result will follow."
)
_CHANGED = "This has changed since the answer was given, which no longer counts."
_LATE = "The answer came too late, and so nothing was run. Call again if it is still needed."
_USED = (
    "This question was answered before, and an answer counts once: nothing was run now. It is not "
    "known here whether the call had its effect then: check that first."
)
_UNRECORDED = (
    "That the answer was used could not be recorded ({}), and so nothing was run. Tell the user."
)
_ANOTHER = "A check sent the edited call to another tool, and so nothing was run. Tell the user."
_TOO_OFTEN = "It was asked too often, and so nothing was run. Tell the user."
