"""Approvers, their answers, and the ledger that records which approvals were used."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Protocol, TypeAlias, cast

from handrail._support import get_log
from handrail._values.call import Args, Call
from handrail._values.decision import Allow, AnswerFacts, Deny, Review
from handrail._values.pending import Pending
from handrail._values.result import Result
from handrail._values.strict_json import clip, format_value


@dataclass(frozen=True, slots=True)
class Edit(AnswerFacts):
    """An answer: call the same tool with these arguments. The policy decides again.

    For a request of the kind ``form``, these are the form's values.
    """

    args: Mapping[str, Any] | str


Answer: TypeAlias = Allow | Deny | Edit | Result
"""Approve the call, deny it, replace its arguments (which are decided again), or its result."""
Approver: TypeAlias = Callable[[Pending], Awaitable[Answer | Pending]]
"""Answers an approval request, or returns the request to answer it later."""


_REPORT: ContextVar[Callable[[Review], None]] = ContextVar("handrail review")


def report_review(review: Review) -> None:
    """Record what a second model says about the request an approver is answering."""
    report = _REPORT.get(None)
    if report is not None:
        report(review)


async def ask_reviewed(
    approver: Callable[[Pending], object], pending: Pending, report: Callable[[Review], None]
) -> object:
    """Pass a request to an approver, which can report reviews."""
    _REPORT.set(report)
    return await ask(approver, pending)


async def ask(approver: Callable[[Pending], object], pending: Pending) -> object:
    """Pass a request to an approver. Raises TypeError if it is not async."""
    answer = approver(pending)
    if not isawaitable(answer):
        raise TypeError(_NOT_ASYNC)
    awaited: object = await answer
    return awaited


def valid_answer(pending: Pending, answer: object) -> Answer | Pending:
    """Return an answer if it is valid for this request, else a denial.

    A form's values are the result of its call.
    """
    if isinstance(answer, Edit) and pending.kind == "form":
        text = answer.args if isinstance(answer.args, str) else json.dumps(dict(answer.args))
        return Result(pending.call.id, text, data=text)
    if isinstance(answer, Allow | Deny | Edit):
        return answer
    if isinstance(answer, Pending) and answer == pending:
        return answer
    if isinstance(answer, Result) and (answer.call_id, answer.pending) == (pending.call.id, None):
        return answer
    get_log().error("the answer to %r was %r", pending.id, answer)
    return Deny("Not run: the approver returned an invalid answer. Tell the user.")


def describe_edit(call: Call, edited: Args) -> tuple[str, ...]:
    """Return a note for the model on the arguments a person changed; none if all are equal."""
    before, after = json.loads(cast("str", call.args)), json.loads(edited.text)
    left_out = [name for name in before if name not in after]
    changed = [name for name in after if name not in before or before[name] != after[name]]
    shown = [f"{clip(name)}={format_value(after[name])}" for name in changed]
    shown += [f"{clip(name)} left out" for name in left_out]
    return (f"a person changed the arguments: {', '.join(shown)}",) if shown else ()


class Ledger(Protocol):
    """Records which approvals were used, so each works once, and which calls have ended."""

    async def claim(self, name: str, by: str, /) -> bool:
        """Use an approval. Returns False if another claimant has used it."""
        ...

    async def end(self, call_key: str, /) -> None:
        """Record that a pending call has its result."""
        ...

    async def ended(self, call_key: str, /) -> bool:
        """Return whether a pending call has its result."""
        ...


class MemoryLedger:
    """A ledger for one process."""

    def __init__(self) -> None:
        self._claims: dict[str, str] = {}
        self._ended: set[str] = set()

    async def claim(self, name: str, by: str, /) -> bool:
        """Use an approval. Returns False if another claimant has used it."""
        return self._claims.setdefault(name, by) == by

    async def end(self, call_key: str, /) -> None:
        """Record that a pending call has its result."""
        self._ended.add(call_key)

    async def ended(self, call_key: str, /) -> bool:
        """Return whether a pending call has its result."""
        return call_key in self._ended


_NOT_ASYNC = (
    "The approver is not async: make it `async def`, or wrap it with `handrail.approvals.callback`."
)
