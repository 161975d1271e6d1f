"""Answers to requests: who may give them, what their giver learns, and their text form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast

from handrail import Deny, Result
from handrail._support import format_duration
from handrail.permissions import Answer, Pending, read_answer, write_answer
from handrail.runs.journal import parse_object

ClaimStatus: TypeAlias = Literal[
    "used", "counted", "unknown", "answered", "expired", "changed", "not_allowed", "busy", "ended"
]
"""Whether an answer is used: it is; it counts, and others are needed; or why it is not used:
no such request, another answer, too late, another request than was shown, not by this person,
another process works on the run, or the run has ended."""
AnswerWord: TypeAlias = Literal["allow", "deny", "edit", "result"]
"""An answer in a word: approved, denied, approved with other arguments, or answered in place."""
NOT_USED = "Your answer was not used."
_DONE = {
    "allow": "approved",
    "deny": "denied",
    "edit": "changed and approved",
    "result": "answered",
}


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
class AnswerRecord:
    """The answer to a request: what, by whom, from where, and when the run continued."""

    pending: str
    answer: AnswerWord
    reason: str = ""
    by: str = ""
    via: str = ""
    seen: str = ""
    """The digest shown."""
    at: float = 0.0
    resumed: float | None = None
    """When the run used it; None until then."""

    @property
    def resumed_after(self) -> float | None:
        """Seconds from the answer until the run continued."""
        return None if self.resumed is None else max(0.0, self.resumed - self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOutcome:
    """An answer's outcome: whether it is used."""

    pending: str
    status: ClaimStatus
    text: str
    """A sentence for the person. If their answer was not used, it says so."""
    run: str = ""
    answer: AnswerRecord | None = None
    """The request's current answer."""
    missing: int = 0
    """How many more people must approve it."""

    @property
    def used(self) -> bool:
        """Whether the answer is used, or is one among several needed."""
        return self.status in ("used", "counted")


def request_digest(pending: Pending) -> str:
    """Return a digest over a whole request, to notice changes."""
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
    """Return a person's name in comparable form: ``ana``, ``Ana`` and ``proxy|ana``."""
    return name.rpartition("|")[2].strip().casefold()


def count_missing(pending: Pending, answer: Answer, votes: Sequence[tuple[Any, ...]]) -> int:
    """Return how many more people must give the same approval, given who voted and how."""
    wanted = vote_for(answer, pending.fingerprint)
    voters = {_person_key(voter) for voter, text in votes if text == wanted}
    return max(0, pending.approvers.count - len(voters))


def say_used(pending: Pending, run: str, answer: AnswerRecord) -> AnswerOutcome:
    """Return the outcome for a used answer."""
    text = f"{_DONE[answer.answer].capitalize()}."
    return AnswerOutcome(pending=pending.id, status="used", text=text, run=run, answer=answer)


def say_counted(pending: Pending, run: str, missing: int) -> AnswerOutcome:
    """Return the outcome for a counted approval when others are needed."""
    more = "1 more person" if missing == 1 else f"{missing} more people"
    text = f"Your approval counts. {more} must approve it."
    status: ClaimStatus = "counted"
    return AnswerOutcome(pending=pending.id, status=status, text=text, run=run, missing=missing)


def say_unknown(pending_id: str) -> AnswerOutcome:
    """Return the outcome for an unknown request."""
    text = f"There is no such request. {NOT_USED}"
    return AnswerOutcome(pending=pending_id, status="unknown", text=text)


def say_busy(pending: Pending, run: str) -> AnswerOutcome:
    """Return the outcome for a run on which another process works."""
    text = f"Another process is working on this run. {NOT_USED}"
    return AnswerOutcome(pending=pending.id, status="busy", text=text, run=run)


def say_ended(pending: Pending, run: str) -> AnswerOutcome:
    """Return the outcome for an ended run."""
    text = f"The run has ended. {NOT_USED}"
    return AnswerOutcome(pending=pending.id, status="ended", text=text, run=run)


def say_answered(pending: Pending, row: tuple[str | None, str | None], now: float) -> AnswerOutcome:
    """Return the outcome for an answered request, with who answered."""
    text, by = row
    record = None if text is None else read_record(pending.id, text, by)
    if record is None or (record.answer == "deny" and not record.by and pending.expires_at <= now):
        text = f"{_describe_expiry(pending)} {NOT_USED}"
        return AnswerOutcome(pending=pending.id, status="expired", text=text, answer=record)
    who = record.by or "Someone"
    before = format_duration(max(0.0, now - record.at), words=True)
    when = f" {before} before you" if record.at else ""
    text = f"Already answered. {who} {_DONE[record.answer]} it{when}. {NOT_USED}"
    return AnswerOutcome(pending=pending.id, status="answered", text=text, answer=record)


def _describe_expiry(pending: Pending) -> str:
    at = datetime.fromtimestamp(min(pending.expires_at, 1e11), UTC)
    return f"Too late. This request expired at {at:%Y-%m-%d %H:%M} UTC."


def dump_answer(answer: Answer, at: float, by: Mapping[str, str] | None = None) -> str:
    """Return an answer as JSON text, with when it was given, and by whom."""
    return json.dumps({"answer": write_answer(answer), "at": at, "given": dict(by or {})})


def unwrap_answer(text: str) -> str:
    """Return the answer alone, as JSON text. Older versions saved nothing else."""
    plain = parse_object(text)
    return json.dumps(plain["answer"]) if "answer" in plain else text


def load_answer(text: str) -> Answer:
    """Return what ``dump_answer`` saved. Raises ValueError for anything else."""
    return read_answer(json.loads(unwrap_answer(text)))


def given_by(by: str, via: str = "", seen: str = "") -> dict[str, str]:
    """Return who answered, where, and the digest they saw, as far as known."""
    return {name: value for name, value in (("by", by), ("via", via), ("seen", seen)) if value}


def vote_for(answer: Answer, fingerprint: str) -> str:
    """Return a text shared by two people's equal answers to the same call."""
    plain = write_answer(answer)
    plain.pop("given", None)
    return json.dumps({**plain, "call": fingerprint}, sort_keys=True)


def is_vote_for(vote: str, fingerprint: str) -> bool:
    """Return whether a vote is for this call, and not for its earlier version."""
    return bool(parse_object(vote).get("call") == fingerprint)


def read_record(
    pending: str, text: str, by: str | None = None, resumed: float | None = None
) -> AnswerRecord:
    """Return the answer in a request's row."""
    plain = parse_object(text)
    inner = _as_object(plain.get("answer")) or plain
    given = _as_object(plain.get("given")) or _as_object(inner.get("given"))
    word: AnswerWord = "result"
    for known in ("allow", "deny", "edit"):
        word = known if known in inner else word
    reason, at = inner.get("deny"), plain.get("at")
    return AnswerRecord(
        pending=pending,
        answer=word,
        reason=reason if isinstance(reason, str) else "",
        by=by or str(given.get("by", "")),
        via=str(given.get("via", "")),
        seen=str(given.get("seen", "")),
        at=float(at) if isinstance(at, int | float) else 0.0,
        resumed=resumed,
    )


def answer_of_line(line: Mapping[str, Any]) -> str:
    """Return the text for the request's row, given the ``answer`` line's fields."""
    saved = line.get("saved")
    if isinstance(saved, str):
        return saved
    given = {name: line[name] for name in ("by", "via", "seen") if isinstance(line.get(name), str)}
    known: dict[str, dict[str, Any]] = {
        "allow": {"allow": True},
        "edit": {"edit": line.get("args", {})},
        "result": {"result": ""},
    }
    plain = known.get(str(line.get("answer")), {"deny": str(line.get("reason", ""))})
    return json.dumps({"answer": plain, "at": line.get("at"), "given": given}, default=repr)


def _as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
