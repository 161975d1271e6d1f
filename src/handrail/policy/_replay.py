"""The policy bench: calls that were recorded, judged again under other rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from handrail import Access, Allow, Ask, Call, Decision, Spec, Toolset
from handrail.events import Event, Judged, Requested
from handrail.judgement import Policy, Verdict


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call as it was judged."""

    call: Call
    spec: Spec
    accesses: tuple[Access, ...]
    decision: Decision


@dataclass(frozen=True, slots=True)
class Change:
    """A call that other rules decide otherwise."""

    recorded: Recorded
    now: Decision

    def __str__(self) -> str:
        call, was = self.recorded.call, self.recorded.decision
        origin = f" by {self.now.origin}" if self.now.origin is not None else ""
        return f"{call.name} {call.args}: {name_of(was)} -> {name_of(self.now)}{origin}"


def name_of(decision: Decision) -> Verdict:
    """A decision in one word."""
    if isinstance(decision, Allow):
        return "allow"
    return "ask" if isinstance(decision, Ask) else "deny"


def recorded(events: Iterable[Event], tools: Toolset) -> tuple[Recorded, ...]:
    """The judged calls among an executor's events. Those of tools that are gone are left out."""
    calls: dict[str, Call] = {}
    made: list[Recorded] = []
    for event in events:
        if isinstance(event, Requested):
            calls[event.call.id] = event.call
        elif isinstance(event, Judged) and (call := calls.get(event.call_id)) is not None:
            judged = event.call or call
            tool = tools.find(judged.name)
            if tool is not None:
                made.append(Recorded(judged, tool.spec, event.accesses, event.decision))
    return tuple(made)


def replay(calls: Iterable[Recorded], policy: Policy) -> tuple[Change, ...]:
    """Which recorded decisions would be others under this policy."""
    again = ((one, policy(one.call, one.spec, one.accesses)) for one in calls)
    return tuple(Change(one, now) for one, now in again if name_of(now) != name_of(one.decision))
