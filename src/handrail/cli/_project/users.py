"""The users of a server over HTTP: tokens, rules and limits that can change while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from handrail.cli._project.principals import Principal

if TYPE_CHECKING:
    from handrail.mcp.gateway import CallQuota, RulesByPrincipal
    from handrail.mcp.server import FixedTokens
    from handrail.policy import Rulebook


class Users:
    """The users of a server.

    Args:
        common: The rules for everyone.
        principals: The users.
    """

    def __init__(self, common: Rulebook, principals: Sequence[Principal]) -> None:
        from handrail.mcp.gateway import RulesByPrincipal

        self.principals = tuple(principals)
        self.rules: RulesByPrincipal = RulesByPrincipal(common, _own_rules(principals))
        self.quotas: dict[str, CallQuota] = {}
        """The limits of those that have one."""
        self.readers: list[str] = []
        """The tokens that may read metrics."""
        self._note()

    @cached_property
    def tokens(self) -> FixedTokens:
        """Each user's token. Only digests are stored."""
        from handrail.mcp.server import FixedTokens

        return FixedTokens(_tokens(self.principals))

    def replace(self, common: Rulebook, principals: Sequence[Principal]) -> None:
        """Apply to these users from now on. The requests of others are rejected."""
        self.principals = tuple(principals)
        self.rules.replace(common, _own_rules(principals))
        self.tokens.replace(_tokens(principals))
        self._note()

    def _note(self) -> None:
        self.quotas.clear()
        self.quotas |= {one.name: one.quota for one in self.principals if one.quota is not None}
        self.readers[:] = [one.token for one in self.principals if one.metrics]


def _own_rules(principals: Sequence[Principal]) -> dict[str, Rulebook]:
    return {one.name: one.rules for one in principals if one.rules is not None}


def _tokens(principals: Sequence[Principal]) -> dict[str, str]:
    return {one.token: one.name for one in principals}
