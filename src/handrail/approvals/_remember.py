"""The seam to whoever stores rules: what may be proposed, and when nothing is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

from handrail.approvals._display import displayed
from handrail.approvals._prompt import Prompt
from handrail.judgement import Pending

Scope: TypeAlias = Literal["run", "project", "always"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule that would have allowed the call, as it would be stored."""

    scope: Scope
    rule: str
    """The exact text of the rule: what is shown is what is stored."""
    file: str = ""
    """Where it would be stored; nowhere, if it is for this run only."""


class Remembers(Protocol):
    """Knows which rules would allow a call, and stores one. Called from a worker thread."""

    def propose(self, pending: Pending, /) -> Sequence[Proposal]:
        """Rules that would allow this call; the first of each scope is offered."""
        ...

    def store(self, proposal: Proposal, /) -> None:
        """Store one, as it was proposed."""
        ...


def offered(
    remember: Remembers | None, pending: Pending, prompt: Prompt
) -> Mapping[Scope, Proposal]:
    """What a person may choose to have remembered, by scope.

    Nothing where a yes counts once, or where they may have been shown less, or something else,
    than a rule would hold for.
    """
    condensed = any("[… " in line.text for line in prompt.lines)
    if remember is None or pending.once or prompt.cut or prompt.hidden or prompt.mixed or condensed:
        return MappingProxyType({})
    proposals = [one for one in remember.propose(pending) if all(map(_is_plain, _texts(one)))]
    return MappingProxyType({one.scope: one for one in reversed(proposals)})


def _texts(proposal: Proposal) -> Iterator[str]:
    yield from (proposal.rule, proposal.file)


def _is_plain(text: str) -> bool:
    shown = displayed(text)
    return not (shown.hidden or shown.mixed or shown.too_long)
