"""The interface to a store for remembered approvals, and when one can be offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from handrail.approvals._display import make_printable
from handrail.approvals._prompt import RenderedRequest
from handrail.permissions import Pending

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


def find_offers(
    remember: Remembers | None, pending: Pending, prompt: RenderedRequest
) -> Mapping[Scope, Sequence[Proposal]]:
    """Return the approvals a person can have remembered, by scope.

    Returns none if the approval can be used only once, or if the request shows less than a rule
    would allow: a part is omitted, condensed or written in escapes.
    """
    if remember is None or pending.once or _is_incomplete(prompt):
        return MappingProxyType({})
    offers: dict[Scope, list[Proposal]] = {}
    for proposal in remember.propose(pending):
        if _is_plain(proposal.rule) and _is_plain(proposal.file):
            offers.setdefault(proposal.scope, []).append(proposal)
    return MappingProxyType(offers)


def explain_no_offer(remember: Remembers | None, pending: Pending, prompt: RenderedRequest) -> str:
    """Return why no approval is offered to be remembered, as a clause, or "" if unknown."""
    if remember is not None and not pending.once and _is_incomplete(prompt):
        return "the request does not show all of it unchanged"
    return remember.refusal(pending) if isinstance(remember, ExplainsRefusal) else ""


def _is_incomplete(prompt: RenderedRequest) -> bool:
    return bool(prompt.cut or prompt.condensed or prompt.hidden or prompt.mixed)


def _is_plain(text: str) -> bool:
    shown = make_printable(text)
    return not (shown.hidden or shown.mixed or shown.too_long)
