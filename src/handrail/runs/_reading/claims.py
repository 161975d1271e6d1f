"""Claim a request with an answer: who may answer, once, and whether the answer was used."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeAlias

from handrail import Deny, Result
from handrail.permissions import Answer, Pending
from handrail.runs._reading.answers import read_record, vote_for
from handrail.runs._reading.values import AnswerRecord

ClaimStatus: TypeAlias = Literal[
    "used", "counted", "unknown", "answered", "expired", "changed", "not_allowed", "busy", "ended"
]
"""Whether an answer is used: it is; it counts, and others are needed; or why it is not used:
no such request, another answer, too late, another request than was shown, not by this person,
another process works on the run, or the run has ended."""
NOT_USED = "Your answer was not used."
_DONE = {
    "allow": "approved",
    "deny": "denied",
    "edit": "changed and approved",
    "result": "answered",
}
_MINUTE = 60
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who answers, and what they saw.

    Args:
        by: The person or service.
        groups: The groups they are in.
        via: Where they answer, such as ``console``.
        seen: The digest of the request that they saw, from ``request_digest``; empty: not known.
        names: Their other names, for rules that keep people from approving their own requests.
    """

    by: str
    groups: tuple[str, ...] = ()
    via: str = ""
    seen: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOutcome:
    """The outcome of an answer: whether it is used."""

    pending: str
    status: ClaimStatus
    text: str
    """A sentence for the person. If their answer was not used, it says so."""
    run: str = ""
    answer: AnswerRecord | None = None
    """The answer that the request has now."""
    missing: int = 0
    """How many more people must approve it."""

    @property
    def used(self) -> bool:
        """Whether the answer is used, or is one of several that are needed."""
        return self.status in ("used", "counted")


class Answers(Protocol):
    """Where requests can be answered: a ``SqliteJournal``, or ``DurableRuns``."""

    async def claim(self, pending_id: str, answer: Answer, claimant: Claimant) -> AnswerOutcome:
        """Record an answer if this person may give it, and if there is none yet."""
        ...


async def answer_request(  # noqa: PLR0913  each is a fact about one answer
    runs: Answers,
    pending_id: str,
    answer: Answer,
    *,
    by: str,
    groups: Iterable[str] = (),
    via: str = "",
    seen: str = "",
    names: Iterable[str] = (),
) -> AnswerOutcome:
    """Answer a request of any run, and return whether the answer is used.

    Args:
        runs: A ``SqliteJournal``, or ``DurableRuns`` that are open.
        pending_id: The id of the request.
        answer: The answer.
        by: Who answers.
        groups: The groups they are in, for rules that name ``approvers``.
        via: Where they answer, such as ``console``.
        seen: The digest of the request that they saw, from ``request_digest``. If the request is
            another one now, the answer is not used.
        names: Their other names, such as their address. No one approves a request on their own
            behalf where the rules forbid it, under any of these names.
    """
    claimant = Claimant(by, tuple(groups), via, seen, tuple(names))
    return await runs.claim(pending_id, answer, claimant)


def request_digest(pending: Pending) -> str:
    """Return a digest of everything in a request, to notice that it changed."""
    return hashlib.sha256(pending.to_json().encode("utf-8", "surrogatepass")).hexdigest()


def name_answer(answer: Answer, claimant: Claimant) -> Answer:
    """Return an answer with who gave it, where, and what they saw."""
    if isinstance(answer, Result):
        return answer
    return replace(
        answer,
        by=claimant.by or answer.by,
        via=claimant.via or answer.via,
        seen=claimant.seen or answer.seen,
    )


def check_claim(
    pending: Pending, answer: Answer, claimant: Claimant, now: float
) -> AnswerOutcome | None:
    """Return why a person's answer is not used; None if it may be."""
    refused: ClaimStatus
    if not pending.is_valid_at(now) and not isinstance(answer, Deny):
        refused, why = "expired", _describe_expiry(pending)
    elif claimant.seen and claimant.seen != request_digest(pending):
        refused, why = "changed", "The request changed while you read it."
    else:
        refused, why = "not_allowed", _find_objection(pending, answer, claimant)
    if not why:
        return None
    return AnswerOutcome(pending=pending.id, status=refused, text=f"{why} {NOT_USED}")


def _find_objection(pending: Pending, answer: Answer, claimant: Claimant) -> str:
    """Return why a person must not give an answer; empty if they may."""
    limits = pending.approvers
    names = {claimant.by, *claimant.groups} - {""}
    for wanted in limits.groups:
        if names.isdisjoint(wanted):
            return f"You may not answer this request. It is for {' or '.join(wanted)}."
    if isinstance(answer, Deny):
        return ""
    if limits.not_requester and not pending.principal:
        return "You may not approve this request: it does not say on whose behalf it is."
    if limits.not_requester and _is_same_person(pending.principal, claimant):
        return "You may not approve this request: it is on your own behalf."
    if limits.count > 1 and not claimant.by:
        return "You may not approve this request: your name is not known."
    return ""


def needs_votes(pending: Pending, answer: Answer) -> bool:
    """Return whether several people must give an answer. One denial is enough."""
    return pending.approvers.count > 1 and not isinstance(answer, Deny)


def _is_same_person(principal: str | None, claimant: Claimant) -> bool:
    keys = {_person_key(name) for name in (claimant.by, *claimant.names)}
    return _person_key(principal or "") in keys


def _person_key(name: str) -> str:
    """Return what the names of a person have in common: ``ana``, ``Ana`` and ``proxy|ana``."""
    return name.rpartition("|")[2].strip().casefold()


def count_missing(pending: Pending, answer: Answer, votes: Sequence[tuple[Any, ...]]) -> int:
    """Return how many more people must give the same approval, given who voted and how."""
    wanted = vote_for(answer, pending.fingerprint)
    voters = {_person_key(voter) for voter, text in votes if text == wanted}
    return max(0, pending.approvers.count - len(voters))


def say_used(pending: Pending, run: str, answer: AnswerRecord) -> AnswerOutcome:
    """Return that an answer is used."""
    text = f"{_DONE[answer.answer].capitalize()}."
    return AnswerOutcome(pending=pending.id, status="used", text=text, run=run, answer=answer)


def say_counted(pending: Pending, run: str, missing: int) -> AnswerOutcome:
    """Return that an approval counts, and others are needed."""
    more = "1 more person" if missing == 1 else f"{missing} more people"
    text = f"Your approval counts. {more} must approve it."
    status: ClaimStatus = "counted"
    return AnswerOutcome(pending=pending.id, status=status, text=text, run=run, missing=missing)


def say_unknown(pending_id: str) -> AnswerOutcome:
    """Return that there is no such request."""
    text = f"There is no such request. {NOT_USED}"
    return AnswerOutcome(pending=pending_id, status="unknown", text=text)


def say_busy(pending: Pending, run: str) -> AnswerOutcome:
    """Return that another process works on the run."""
    text = f"Another process is working on this run. {NOT_USED}"
    return AnswerOutcome(pending=pending.id, status="busy", text=text, run=run)


def say_ended(pending: Pending, run: str) -> AnswerOutcome:
    """Return that the run has ended."""
    text = f"The run has ended. {NOT_USED}"
    return AnswerOutcome(pending=pending.id, status="ended", text=text, run=run)


def say_answered(pending: Pending, row: tuple[str | None, str | None], now: float) -> AnswerOutcome:
    """Return that a request has an answer already, and who gave it."""
    text, by = row
    record = None if text is None else read_record(pending.id, text, by)
    if record is None or (record.answer == "deny" and not record.by and pending.expires_at <= now):
        text = f"{_describe_expiry(pending)} {NOT_USED}"
        return AnswerOutcome(pending=pending.id, status="expired", text=text, answer=record)
    who = record.by or "Someone"
    before = _format_span(max(0.0, now - record.at)) if record.at else ""
    when = f" {before} before you" if before else ""
    text = f"Already answered. {who} {_DONE[record.answer]} it{when}. {NOT_USED}"
    return AnswerOutcome(pending=pending.id, status="answered", text=text, answer=record)


def _describe_expiry(pending: Pending) -> str:
    at = datetime.fromtimestamp(min(pending.expires_at, 1e11), UTC)
    return f"Too late. This request expired at {at:%Y-%m-%d %H:%M} UTC."


def _format_span(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"
