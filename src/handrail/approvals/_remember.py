"""The interface to a store for remembered approvals, and when one can be offered."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from handrail import Call, Effect
from handrail.approvals._display import make_printable
from handrail.permissions import Explanation, Grade, Pending

Scope: TypeAlias = Literal["run", "project", "always"]
"""How long an approval is remembered: for this run, this project, or all projects."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule allowing the call, ready to store."""

    scope: Scope
    rule: str
    """The rule's exact text, as shown and stored."""
    file: str = ""
    """The file to store it in, or "" if it is for this run only."""
    width: str = ""
    """A description of what the rule allows, or "" if the rule itself is clear."""


class Remembers(Protocol):
    """Proposes rules allowing a call, and stores one. Called from a worker thread."""

    def propose(self, pending: Pending, /) -> Sequence[Proposal]:
        """Return rules allowing this call, for each scope the narrowest first."""
        ...

    def store(self, proposal: Proposal, /) -> None:
        """Store a proposal unchanged."""
        ...


@runtime_checkable
class ExplainsRefusal(Protocol):
    """A store able to report why an approval cannot be remembered."""

    def refusal(self, pending: Pending, /) -> str:
        """Return why, as a clause, or "" if it can be remembered."""
        ...


class RestOfPrograms:
    """Approvals for the rest of a program: calls of one tool, at places like that of the first."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], Pending] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def offers(self, pending: Pending) -> bool:
        """Return whether the call is in a program, and others like it can be approved with it."""
        is_inside = pending.turn_id.startswith(".") and pending.kind == "approval"
        is_light = pending.grade < Grade.LOSES and not pending.once and not pending.parts
        return is_inside and is_light and pending.approves and bool(pending.accesses)

    def allow(self, pending: Pending) -> None:
        """Approve later calls like this one, in the same program."""
        key = pending.run_id, pending.call.name
        self._first[key], self._counts[key] = pending, 1

    def count(self, pending: Pending) -> int:
        """Return how many calls are approved with this one, or 0 if it is not like the first."""
        key = pending.run_id, pending.call.name
        first = self._first.get(key)
        if first is None or not self.offers(pending) or not _is_like(pending, first):
            return 0
        self._counts[key] += 1
        return self._counts[key]


def _is_like(pending: Pending, first: Pending) -> bool:
    """Return whether a call touches places beside those of the first, and is at most as grave."""
    about = first.origin, first.effect, first.principal, first.approvers
    same = (pending.origin, pending.effect, pending.principal, pending.approvers) == about
    return same and pending.grade <= first.grade and _places(pending) <= _places(first)


def _places(pending: Pending) -> set[tuple[Effect, str]]:
    """Return the resources without their last part."""
    return {(one.verb, _parent(one.resource)) for one in pending.accesses}


def _parent(resource: str) -> str:
    return resource[: max(resource.rfind("/"), resource.rfind(":")) + 1] or resource


def find_offers(
    remember: Remembers | None, pending: Pending, *, is_plain: bool
) -> Mapping[Scope, Sequence[Proposal]]:
    """Return the approvals a person can have remembered, by scope.

    Returns none if the approval can be used only once, or if the request is not plain. With a part
    omitted, condensed or written in escapes, it shows less than a rule would allow.
    """
    if remember is None or pending.once or not is_plain:
        return MappingProxyType({})
    offers: dict[Scope, list[Proposal]] = {}
    for proposal in remember.propose(pending):
        if make_printable(proposal.rule).is_plain and make_printable(proposal.file).is_plain:
            offers.setdefault(proposal.scope, []).append(proposal)
    return MappingProxyType(offers)


def explain_no_offer(remember: Remembers | None, pending: Pending, *, is_plain: bool) -> str:
    """Return why no approval is offered to be remembered, as a clause, or "" if unknown."""
    if remember is not None and not pending.once and not is_plain:
        return "the request does not show all of it unchanged"
    return remember.refusal(pending) if isinstance(remember, ExplainsRefusal) else ""


QUIET_SECONDS = 0.5
"""Seconds before a question takes a key: the person may be typing something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Options from the application. Each adds a way to answer."""

    workspace: str | os.PathLike[str] | None = None
    remember: Remembers | None = None
    explain: Callable[[Call], Explanation] | None = None
    stop: Callable[[], None] | None = None
    allow_edits: Callable[[], None] | None = None
    undo: str = ""
    quiet: float = QUIET_SECONDS
    by: str = ""
    rest: RestOfPrograms = field(default_factory=RestOfPrograms)
