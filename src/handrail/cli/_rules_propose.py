"""The fewest rules that would spare questions, and how many they would spare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from handrail import Ask, Call
from handrail.judgement import Pending
from handrail.policy import Level, Memory, Places, Recorded, Rulebook, parse


class Proposed(NamedTuple):
    """Rules as text, and what they would do."""

    rules: tuple[str, ...] = ()
    asked: int = 0
    """Questions without them."""
    left: int = 0
    """Questions with them: what nobody should say yes to once and for all."""


def proposed(calls: Sequence[Recorded], rules: Rulebook, places: Places) -> Proposed:
    """What to write down so that these calls are asked about no more; it is added to the rules."""
    questions = [made for one in calls if (made := _pending(one, rules)) is not None]
    found = tuple(one.rule for one in Memory(rules, places).propose_all(questions))
    for text in found:
        for rule in parse(text, file="proposed", level=Level.RUN).rules:
            rules.add(rule)
    left = sum(isinstance(rules(one.call, one.spec, one.accesses), Ask) for one in calls)
    return Proposed(found, len(questions), left)


def _pending(one: Recorded, rules: Rulebook) -> Pending | None:
    """The question that a call would be asked; None, where none is."""
    decision = rules(one.call, one.spec, one.accesses)
    if not isinstance(decision, Ask):
        return None
    args = one.call.args if isinstance(one.call.args, str) else json.dumps(dict(one.call.args))
    return Pending(
        id=one.call.id,
        call=Call(one.call.name, args, one.call.id),
        effect=one.spec.effect,
        accesses=one.accesses,
        question=decision.question,
        fingerprint="",
        asked_at=0.0,
        expires_at=0.0,
        origin=decision.origin,
        once=decision.once,
    )
