"""Answers to calls that could not run yet: each is tied to one request, until it is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from handrail import Allow, Deny, Result
from handrail.permissions import Answer, Edit, Pending


class GivenAnswer(NamedTuple):
    """An answer to a call that waits behind another one. It applies to exactly that call."""

    pending_id: str
    """The id of the approval request."""
    fingerprint: str
    """The fingerprint of the call that was approved. The answer is ignored if it differs."""
    answer: Answer


def bind_answers(given: Mapping[str, object], requests: Iterable[Pending]) -> list[GivenAnswer]:
    """Return the valid answers to these requests, each tied to its call."""
    found = [(pending, given.get(pending.id)) for pending in requests]
    return [
        GivenAnswer(pending.id, pending.fingerprint, _without_origin(answer))
        for pending, answer in found
        if isinstance(answer, Allow | Deny | Edit | Result)
    ]


def check_answers(given: Iterable[str], requests: Iterable[Pending]) -> None:
    """Refuse answers to questions that are not open. Raises LookupError."""
    open_ = {pending.id: pending for pending in requests}
    for pending_id in given:
        if pending_id in open_:
            continue
        for one in open_.values():
            if any(replace(one, round=number).id == pending_id for number in range(one.round)):
                raise LookupError(_ASKED_AGAIN.format(pending_id, one.id))
        asked = [repr(one.id) for one in open_.values() if one.kind != "waiting"]
        listed = ", ".join(asked) or "none"
        raise LookupError(f"There is no open question {pending_id!r}. Open questions: {listed}.")


def select_answers(
    given: Iterable[GivenAnswer], requests: Iterable[Pending]
) -> tuple[GivenAnswer, ...]:
    """Return the answers that apply to one of these requests."""
    calls = {(pending.id, pending.fingerprint) for pending in requests}
    return tuple([one for one in given if (one.pending_id, one.fingerprint) in calls])


def _without_origin(answer: Answer) -> Answer:
    """Return an answer without the rule that gave it, which is not used."""
    if isinstance(answer, Allow | Deny):
        return replace(answer, origin=None)
    return answer


_ASKED_AGAIN = (
    "The question {!r} is outdated: it was asked again as {!r}, since the call changed. Show the "
    "new question, and answer that."
)
