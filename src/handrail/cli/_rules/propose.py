"""The fewest rules for skipping approval requests, and how many they save."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from handrail import Ask, Call
from handrail.permissions import Pending
from handrail.policy import Level, Recorded, RememberedApprovals, Rulebook, RulePaths, parse


class RuleProposals(NamedTuple):
    """Proposed rules as text, and what they save."""

    rules: tuple[str, ...] = ()
    asked: int = 0
    """Approval requests without them."""
    left: int = 0
    """Approval requests with them: calls that should not be approved permanently."""


def propose_rules(calls: Sequence[Recorded], rules: Rulebook, places: RulePaths) -> RuleProposals:
    """Propose rules after which these calls need no approval, and add them to the rulebook."""
    requests = [pending for call in calls if (pending := _pending(call, rules)) is not None]
    texts = tuple(
        proposal.rule for proposal in RememberedApprovals(rules, places).propose_all(requests)
    )
    for text in texts:
        for rule in parse(text, file="proposed", level=Level.RUN).rules:
            rules.add(rule)
    left = sum(isinstance(rules(call.checked), Ask) for call in calls)
    return RuleProposals(texts, len(requests), left)


def _pending(recorded: Recorded, rules: Rulebook) -> Pending | None:
    """Return the approval request for a call; None if it needs no approval."""
    decision = rules(recorded.checked)
    if not isinstance(decision, Ask):
        return None
    args = (
        recorded.call.args
        if isinstance(recorded.call.args, str)
        else json.dumps(dict(recorded.call.args))
    )
    return Pending(
        run_id="",
        turn_id="",
        key=recorded.call.id,
        position=0,
        round=0,
        call=Call(recorded.call.name, args, recorded.call.id),
        effect=recorded.spec.effect,
        accesses=recorded.accesses,
        question=decision.question,
        fingerprint="",
        asked_at=0.0,
        expires_at=0.0,
        origin=decision.origin,
        once=decision.once,
    )
