"""Describe what happened to a call: for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from handrail._support import format_duration
from handrail.permissions import Pending
from handrail.runs._reading.values import RequestRecord
from handrail.runs.history import CallHistory, CallMoment, PhaseSpan

__all__ = [
    "ANSWERS",
    "describe_approvers",
    "describe_call_status",
    "describe_event",
    "describe_moment",
    "describe_phases",
    "describe_status",
    "describe_votes",
    "describe_wait",
]

_DECISIONS = {"allow": "allowed", "deny": "denied"}
ANSWERS = {
    "allow": "approved",
    "deny": "denied",
    "edit": "edited and approved",
    "result": "answered with a result",
}
"""Words for each answer kind."""
_REVIEWS = {"allow": "allowed", "ask": "left to a person"}
"""Words for what a second model says."""
_WHOLE = {"file:": "the workspace", "*": "everything"}
"""Resources containing all others."""
_PHASES = {
    "running": "ran",
    "waiting": "waited",
    "approval": "waited for approval",
    "backoff": "waited for a retry",
}
_FACTS = (
    "decision",
    "answer",
    "by",
    "via",
    "verdict",
    "model",
    "origin",
    "question",
    "reason",
    "attempt",
    "kind",
)
_REASONS = ("question", "reason")
_QUEUES = {"queue": "the queue {}", "rate": "the queue {}, which limits the rate"}
_STATUSES = {
    "queued": ("muted", "· queued"),
    "running": ("accent", "▸ running"),
    "waiting": ("ask", "? waits for approval"),
    "done": ("ok", "✓ done"),
    "failed": ("bad", "✗ failed"),
    "cancelled": ("warn", "! cancelled"),
}
_ENDS = {
    "limit": "limit reached",
    "interrupted": "interrupted",
    "stopped": "stopped",
    "truncated": "answer cut off",
    "refused": "refused",
    "empty": "no answer",
    "invalid": "invalid answer",
}
"""The words for why a run ended without an answer."""
_CALL_STATUSES = {
    "running": ("accent", "▸ running"),
    "pending": ("ask", "? waiting"),
    "waiting": ("ask", "? waiting"),
    "ok": ("ok", "✓ ok"),
    "denied": ("bad", "⊘ denied"),
    "interrupted": ("warn", "! interrupted"),
    "cancelled": ("warn", "! cancelled"),
    "unknown": ("warn", "! unknown"),
}


def describe_status(status: str, reason: str = "") -> tuple[str, str]:
    """Describe a run's status: its color in a terminal and on pages, and its words.

    The words begin with a sign and a space. An unknown status has no words.
    """
    if status == "done" and reason in _ENDS:
        return "warn", f"! done: {_ENDS[reason]}"
    return _STATUSES.get(status, ("bad" if status else "muted", ""))


def describe_call_status(status: str) -> tuple[str, str]:
    """Describe where a call stands, as ``describe_status`` does for a run."""
    return _CALL_STATUSES.get(status, ("bad" if status else "muted", ""))


def describe_moment(moment: CallMoment, result: str = "") -> str:
    """Describe one moment in a call. The result's text is shown separately."""
    is_repeated = moment.text == result or (moment.what == "decided" and moment.text in result)
    text = f": {moment.text}" if moment.text and not is_repeated else ""
    by, time = f"by {moment.origin or 'the policy'}{text}", format_duration(moment.seconds)
    person = f" by {moment.origin}" if moment.origin else ""
    return {
        "decided": f"{_DECISIONS.get(moment.word, '?')} {by}",
        "asked": f"asked {by}",
        "answered": f"{ANSWERS.get(moment.word, 'answered')}{person} after {time}{text}",
        "reviewed": f"{_REVIEWS.get(moment.word, '?')} by {moment.origin} after {time}{text}",
        "attempt": f"attempt failed, retried after {time}: {moment.word}{text}",
    }[moment.what]


def describe_wait(span: PhaseSpan, names: Mapping[str, CallHistory]) -> str:
    """Describe what a call waited for and how long; empty if another text says so.

    Args:
        span: The phase.
        names: The calls that it may have waited for, by id.
    """
    if span.phase == "approval" and not span.closed:
        return f"waiting for approval for {format_duration(span.seconds)}"
    if span.phase != "waiting":
        return ""
    if span.reason in _QUEUES:
        long, what = format_duration(span.seconds), _QUEUES[span.reason].format(span.what)
        return f"waited {long} for {what}" if span.closed else f"on {what} for {long}"
    calls = [names[call_id] for call_id in span.why if call_id in names]
    waited_for = [f"#{call.number} {call.tool}" for call in calls]
    waited_for += ["a call that is not in the journal"] * (len(calls) < len(span.why))
    what = _WHOLE.get(span.what, span.what)
    on, used = ", ".join(waited_for), f", which used {what}" if what else ""
    if span.reason == "slot" or not on:
        of = f" of {span.what}" if span.what else ""
        on, used = f"a free slot{of}, as the limit of running calls was reached", ""
    waited = "waited" if span.closed else "waiting"
    return f"{waited} {format_duration(span.seconds)} for {on}{used}"


def describe_phases(spans: Iterable[PhaseSpan]) -> str:
    """Describe how long a call was in each phase."""
    totals: dict[str, float] = {}
    for span in spans:
        totals[span.phase] = totals.get(span.phase, 0.0) + span.seconds
    parts = [f"{_PHASES[phase]} {format_duration(total)}" for phase, total in totals.items()]
    return ", ".join(parts) or "did not run"


def describe_event(event: Mapping[str, Any], *, reasons: bool = True) -> str:
    """Describe a call's event. Reasons can quote its arguments."""
    names = [name for name in _FACTS if event.get(name) and (reasons or name not in _REASONS)]
    facts = [_fact(event[name]) for name in names]
    return " · ".join([str(event.get("event", "")), *facts])


def _fact(value: Any) -> str:
    """Return an event's field, or a rule with its file and line."""
    if not isinstance(value, Mapping):
        return str(value)
    rule = cast("Mapping[str, Any]", value)
    place = f" ({rule.get('file')}:{rule.get('line')})" if rule.get("file") else ""
    return f"{rule.get('rule')}{place}"


def describe_approvers(pending: Pending) -> str:
    """Describe who may answer a request; empty if all approvers may."""
    lists = [" or ".join(names) for names in pending.approvers.groups]
    return f"Only {', and '.join(lists)} can answer it." if lists else ""


def describe_votes(record: RequestRecord) -> str:
    """Describe who has answered a request needing several people, or "" if it needs one."""
    wanted = record.pending.approvers.count
    if wanted == 1:
        return ""
    votes = ", ".join(f"{vote.by} {ANSWERS[vote.answer]}" for vote in record.votes)
    return f"{wanted} people must approve it. So far: {votes or 'none'}."
