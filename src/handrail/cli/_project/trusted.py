"""Which workspace files the user trusts; checked for everything read from there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from handrail.policy import RulePaths, Trust, digest

if TYPE_CHECKING:
    from handrail.agent import IsTrusted  # loads the agent and the executor


def make_trust_check(workspace: Path) -> IsTrusted:
    """Return a function that checks whether a path with this content is trusted.

    Paths are relative to the workspace. Each check reads the trust file, so revoked trust takes
    effect at once.
    """
    trust = trust_of(workspace)
    return lambda path, content: trust.has(workspace / path, digest(content))


def trust_of(workspace: Path) -> Trust:
    """Return the user's trust store."""
    return Trust(cast("Path", RulePaths.of(workspace).trust))  # always set here
