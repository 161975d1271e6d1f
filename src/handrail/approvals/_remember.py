"""The interface to a store of remembered approvals, and when one can be offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

from handrail.approvals._display import make_printable
from handrail.approvals._prompt import RenderedRequest
from handrail.permissions import Pending

Scope: TypeAlias = Literal["run", "project", "always"]
"""How long an approval is remembered: for this run, this project, or all projects."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule that would have allowed the call, ready to store."""

    scope: Scope
    rule: str
    """The exact text of the rule, as shown and stored."""
    file: str = ""
    """The file that it would be stored in; empty if it is for this run only."""


class Remembers(Protocol):
    """Proposes rules that would allow a call, and stores one. Called from a worker thread."""

    def propose(self, pending: Pending, /) -> Sequence[Proposal]:
        """Return rules that would allow this call. The first of each scope is offered."""
        ...

    def store(self, proposal: Proposal, /) -> None:
        """Store a proposal unchanged."""
        ...


def find_offers(
    remember: Remembers | None, pending: Pending, prompt: RenderedRequest
) -> Mapping[Scope, Proposal]:
    """Return the approvals that a person can have remembered, by scope.

    Returns none if the approval can be used only once, or if the request shows less than a rule
    would allow: a part is omitted, condensed or written in escapes.
    """
    incomplete = prompt.cut or prompt.condensed or prompt.hidden or prompt.mixed
    if remember is None or pending.once or incomplete:
        return MappingProxyType({})
    plain = [
        proposal
        for proposal in remember.propose(pending)
        if _is_plain(proposal.rule) and _is_plain(proposal.file)
    ]
    return MappingProxyType({proposal.scope: proposal for proposal in reversed(plain)})


def _is_plain(text: str) -> bool:
    shown = make_printable(text)
    return not (shown.hidden or shown.mixed or shown.too_long)
