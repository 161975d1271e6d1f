"""Call spans: from the request to the result, with the tool's own work inside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from handrail import Call, CheckedCall, FailureKind, Hook, Result
from handrail.events import (
    Answered,
    Asked,
    AttemptFailed,
    Event,
    Finished,
    Requested,
    Reviewed,
    Started,
)
from handrail.telemetry._facts import APPROVAL_ANSWER, ERROR_TYPE, TOOL_NAME, CallFacts, Value
from handrail.telemetry._instruments import Instruments, Span, as_current, end

_STEPS: Mapping[type[object], str] = {
    Asked: "handrail.asked",
    Reviewed: "handrail.reviewed",
    Answered: "handrail.answered",
    Started: "handrail.started",
    AttemptFailed: "handrail.attempt_failed",
}
"""Call events shown as span events."""
_FOUND = {FailureKind.BAD_ARGS, FailureKind.STALE}
"""Failures in the check after the tool was found."""


class _OpenCall(NamedTuple):
    span: Span
    facts: CallFacts


class CallSpans:
    """Spans for calls still without a result."""

    def __init__(self, instruments: Instruments, *, content: bool) -> None:
        self._instruments = instruments
        self._content = content
        self._open: dict[str, _OpenCall] = {}
        # `after` misses cancelled calls, and the event feed the caller's context: decision 067
        self.hook = Hook(around=self._around, observe=self._observe)

    async def _around(self, call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
        with as_current(self._open[call.key].span):
            return await run()

    def _observe(self, key: str, call: CheckedCall | Call, event: Event) -> None:
        if isinstance(event, Requested):
            facts = CallFacts(event, content=self._content)
            self._open[key] = _OpenCall(
                self._instruments.start("execute_tool", facts.attributes), facts
            )
        span, facts = self._open[key]
        facts.note(call, event)
        if (step := _STEPS.get(type(event))) is not None:
            span.add_event(step)
        if isinstance(event, Finished):
            del self._open[key]
            self._end(span, facts, call, event.result)

    def _end(self, span: Span, facts: CallFacts, call: CheckedCall | Call, result: Result) -> None:
        known, failure = facts.attributes, result.failure
        found = isinstance(call, CheckedCall) or (failure is not None and failure.kind in _FOUND)
        if found or APPROVAL_ANSWER in known:  # else the model may have made the name up
            span.update_name(f"execute_tool {call.name}")
            self._record(call.name, known, result.seconds)
        end(span, known, failure.message if failure is not None and self._content else None)

    def _record(self, name: str, known: dict[str, Value], seconds: float | None) -> None:
        if seconds is not None:
            measured: dict[str, Value] = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.provider.name": "handrail",
                TOOL_NAME: name,
            }
            if ERROR_TYPE in known:
                measured[ERROR_TYPE] = known[ERROR_TYPE]
            self._instruments.record_seconds(seconds, measured)
        for kind in ("approval", "schedule", "retry"):
            waited = known.get(f"handrail.wait.{kind}")
            if isinstance(waited, float):
                self._instruments.record_wait(kind, waited, name)
