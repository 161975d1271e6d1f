"""Answers from the command line."""

from __future__ import annotations

import grp
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from handrail import Allow, Deny
from handrail.cli._base.exits import Halt
from handrail.permissions import Answer, Edit, Pending
from handrail.runs import AnswerOutcome, Claimant, RunStore


def read_given(given: Mapping[str, str]) -> tuple[Answer, Claimant]:
    """Return a command line's answer, and who gives it."""
    answer: Answer
    match given["answer"]:
        case "allow":
            answer = Allow()
        case "edit":
            answer = Edit(given["args"])
        case _:
            answer = Deny.by_user(given.get("reason", ""))
    return answer, Claimant(given.get("by", ""), find_groups(), "command line")


def find_groups() -> tuple[str, ...]:
    """Return the answering user's group names."""
    names: list[str] = []
    for number in os.getgroups():
        with suppress(KeyError):
            names.append(grp.getgrgid(number).gr_name)
    return tuple(sorted(names))


def answer_all(
    store: RunStore, pending: Sequence[Pending], given: Mapping[str, str]
) -> list[AnswerOutcome]:
    """Give the same answer to several requests in a run, or a Halt if one is not used."""
    answer, claimant = read_given(given)
    outcomes = [(one.run_id, store.answer_now(one.id, answer, by=claimant)) for one in pending]
    return [check_outcome(outcome, run) for run, outcome in outcomes]


def check_outcome(outcome: AnswerOutcome, run: str) -> AnswerOutcome:
    """Return an answer's outcome, or a Halt if it was not used."""
    if not outcome.used:
        code = "busy" if outcome.status == "busy" else "refused"
        raise Halt(outcome.text, code=code, hint=f"see `handrail runs show {run}`")
    return outcome
