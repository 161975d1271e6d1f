"""Replay: decide recorded calls again, under other rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from handrail import (
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Effect,
    Spec,
    Toolset,
)
from handrail._support import is_object
from handrail.events import Decided, Event, Requested
from handrail.permissions import Policy, Verdict
from handrail.sources import ValueSource

_DECISIONS: Mapping[str, Decision] = {"allow": Allow(), "ask": Ask("Allow it?"), "deny": Deny("")}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call, and the decision on it."""

    call: Call
    spec: Spec
    accesses: tuple[Access, ...]
    decision: Decision
    sources: tuple[ValueSource, ...] = ()
    """Who named its destinations."""
    after: Mapping[str, str] = field(default_factory=dict[str, str])
    """The first calls before it that read a stranger's text or something private."""

    @property
    def checked(self) -> CheckedCall:
        """The call in the form for a policy."""
        return CheckedCall.recorded(
            self.call, self.spec, self.accesses, self.sources, after=self.after
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A recorded call decided differently by other rules."""

    recorded: Recorded
    now: Decision

    def __str__(self) -> str:
        call, was = self.recorded.call, self.recorded.decision
        origin = f" by {self.now.origin}" if self.now.origin is not None else ""
        return f"{call.name} {call.args}: {verdict_of(was)} -> {verdict_of(self.now)}{origin}"


def verdict_of(decision: Decision) -> Verdict:
    """Return a decision as one word."""
    if isinstance(decision, Allow):
        return "allow"
    return "ask" if isinstance(decision, Ask) else "deny"


def read_decision(
    call: Call, accesses: Any, decision: object
) -> tuple[Call, tuple[Access, ...], Decision] | None:
    """Return a call, its accesses and its decision as a journal has them; None if one is missing.

    Args:
        call: The call. Its arguments may be JSON text.
        accesses: A verb and a resource each.
        decision: ``allow``, ``ask`` or ``deny``.
    """
    known = _DECISIONS.get(str(decision))
    try:
        args = json.loads(call.args) if isinstance(call.args, str) else dict(call.args)
        touched = tuple(Access(Effect[verb.upper()], what) for verb, what in accesses)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    if known is None or not is_object(args):
        return None
    return Call(call.name, args, call.id), touched, known


def recorded_calls(events: Iterable[Event], tools: Toolset) -> tuple[Recorded, ...]:
    """Return the decided calls from an executor's events.

    Calls to tools missing from ``tools`` are skipped.
    """
    calls: dict[tuple[str, str], Call] = {}
    decided: list[Recorded] = []
    for event in events:
        if isinstance(event, Requested):
            calls[event.turn, event.call.id] = event.call
        elif isinstance(event, Decided):
            call = event.call or calls.get((event.turn, event.call_id))
            tool = tools.find(call.name) if call is not None else None
            if call is not None and tool is not None:
                about = event.accesses, event.decision, event.sources, event.after
                decided.append(Recorded(call, tool.spec, *about))
    return tuple(decided)


def replay(calls: Iterable[Recorded], policy: Policy) -> tuple[Change, ...]:
    """Return recorded calls decided differently by this policy."""
    again = ((call, policy(call.checked)) for call in calls)
    return tuple(
        Change(call, now) for call, now in again if verdict_of(now) != verdict_of(call.decision)
    )
