"""Answers to calls that could not run yet: each is tied to one request, until it is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from handrail import Allow, Deny, Result
from handrail.permissions import Answer, Edit, Pending


class GivenAnswer(NamedTuple):
    """An answer to a call waiting behind another one. It applies to exactly that call."""

    pending_id: str
    """The approval request's id."""
    fingerprint: str
    """The approved call's fingerprint. The answer is ignored if it differs."""
    answer: Answer


def bind_answers(given: Mapping[str, object], requests: Iterable[Pending]) -> list[GivenAnswer]:
    """Return the valid answers to these requests, each tied to its call."""
    found = [(pending, given.get(pending.id)) for pending in requests]
    return [
        GivenAnswer(pending.id, pending.fingerprint, _without_origin(answer))
        for pending, answer in found
        if isinstance(answer, Allow | Deny | Edit | Result)
    ]


def select_answers(
    given: Iterable[GivenAnswer], requests: Iterable[Pending]
) -> tuple[GivenAnswer, ...]:
    """Return the answers for these requests."""
    calls = {(pending.id, pending.fingerprint) for pending in requests}
    return tuple([one for one in given if (one.pending_id, one.fingerprint) in calls])


def _without_origin(answer: Answer) -> Answer:
    """Return an answer without the unused rule behind it."""
    if isinstance(answer, Allow | Deny):
        return replace(answer, origin=None)
    return answer
