"""Explain: what would happen to a call, without running it."""

from __future__ import annotations

from typing import Any

from handrail._execution.pipeline import Pipeline
from handrail._execution.questions import mark_unseen
from handrail._execution.running import RequestedCall, RunningCall, make_running
from handrail._permissions.checked_call import shown_sources
from handrail._permissions.decide import Explains, decide
from handrail._permissions.explanation import Explanation
from handrail._values.decision import Ask
from handrail._values.pending import Pending
from handrail._values.result import Result


def explain(record: RequestedCall, pipeline: Pipeline) -> Explanation:
    """Return what would happen to a call."""
    checked = pipeline.check(record.call, record)
    if isinstance(checked, Result):
        return Explanation(call=record.call, refusal=checked)
    hooks = tuple(getattr(hook, "__qualname__", repr(hook)) for hook in pipeline.hooks.before)
    policy: Any = record.view.policy
    decision = decide(policy, checked)
    running = make_running(record, checked._replace(decision=decision))
    return Explanation(
        call=checked.call,
        tool=checked.name,
        repairs=checked.parsed.repairs,
        accesses=checked.accesses,
        sources=shown_sources(checked),
        matched=policy.explain(checked) if isinstance(policy, Explains) else (),
        decision=decision,
        pending=_question(running, pipeline) if isinstance(decision, Ask) else None,
        hooks=hooks,
        waits_for=pipeline.ordering.conflicting(checked.accesses),
    )


def _question(running: RunningCall, pipeline: Pipeline) -> Pending:
    pending = pipeline.questions.make_pending(running, running.checked.decision)
    return mark_unseen(pending) if pipeline.hooks.before else pending
