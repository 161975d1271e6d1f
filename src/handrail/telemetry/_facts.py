"""The facts about one call, as attributes. Argument values are omitted by default."""

from __future__ import annotations

import json
from typing import TypeAlias
from urllib.parse import unquote

from handrail import Access, Call, CheckedCall, Decision, Result
from handrail.events import (
    Answered,
    AttemptFailed,
    Decided,
    Event,
    Finished,
    Requested,
    Reviewed,
    Started,
    Stored,
)

Value: TypeAlias = str | bool | int | float | list[str]
"""The types allowed for an attribute."""
TOOL_NAME = "gen_ai.tool.name"
ERROR_TYPE = "error.type"
OUTCOME = "handrail.outcome"
APPROVAL_ANSWER = "handrail.approval.answer"
_MAX_NAME_CHARS = 80
"""A model may send any name."""


class CallFacts:
    """One call's attributes, from its events."""

    def __init__(self, event: Requested, *, content: bool) -> None:
        self._content = content
        self._ready_at = event.at
        self._waited = 0.0
        self._paused = 0.0
        self._failed: list[str] = []
        run, _, turn = event.turn.partition("/")
        self.attributes: dict[str, Value] = {
            "gen_ai.operation.name": "execute_tool",
            TOOL_NAME: event.call.name[:_MAX_NAME_CHARS],
            "gen_ai.tool.call.id": event.call.id,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": unquote(run),
            "handrail.turn.id": unquote(turn),
        }

    def note(self, call: CheckedCall | Call, event: Event) -> None:
        """Add what an event says."""
        match event:
            case Decided():
                self._note_decision(event.accesses, event.decision)
                self._ready_at = event.at
            case Reviewed(review=review):
                self.attributes["handrail.approval.review"] = review.verdict
            case Answered():
                self._waited += max(0.0, event.at - event.asked_at)
                self._ready_at = event.at
                self.attributes[APPROVAL_ANSWER] = type(event.answer).__name__.lower()
                self.attributes["handrail.wait.approval"] = self._waited
            case Started(attempt=attempt):
                self._note_attempt(attempt, event.at)
            case AttemptFailed():
                self._failed.append(event.kind.value)
                self._paused += event.again_in
                self.attributes["handrail.retry.reasons"] = list(self._failed)
                self.attributes["handrail.wait.retry"] = self._paused
            case Stored(chars=chars):
                self.attributes["handrail.result.stored_chars"] = chars
            case Finished(result=result):
                self._note_tool(call)
                self._note_result(result)
            case _:
                pass

    def _note_decision(self, accesses: tuple[Access, ...], decision: Decision) -> None:
        self.attributes["handrail.accesses"] = [
            str(one) if self._content else _brief(one) for one in accesses
        ]
        self.attributes["handrail.decision"] = type(decision).__name__.lower()
        if decision.origin is not None:
            self.attributes["handrail.decision.rule"] = decision.origin.rule
        if decision.origin is not None and decision.origin.file:
            place = f"{decision.origin.file}:{decision.origin.line}"
            self.attributes["handrail.decision.place"] = place

    def _note_attempt(self, attempt: int, at: float) -> None:
        if attempt == 1:
            self.attributes["handrail.wait.schedule"] = max(0.0, at - self._ready_at)
        self.attributes["handrail.attempts"] = attempt

    def _note_tool(self, call: CheckedCall | Call) -> None:
        if isinstance(call, CheckedCall):
            self.attributes[TOOL_NAME] = call.name
            self.attributes["gen_ai.tool.description"] = call.spec.description
            self.attributes["handrail.effect"] = call.spec.effect.name.lower()
        if self._content:
            sent = call.call.args if isinstance(call, CheckedCall) else call.args
            text = sent if isinstance(sent, str) else json.dumps(dict(sent), default=repr)
            self.attributes["gen_ai.tool.call.arguments"] = text

    def _note_result(self, result: Result) -> None:
        failure = result.failure
        self.attributes[OUTCOME] = "ok" if failure is None else failure.kind.value
        self.attributes["handrail.result.chars"] = len(result.text)
        if result.seconds is not None:
            self.attributes["handrail.seconds"] = result.seconds
        if failure is not None and result.pending is None:
            self.attributes[ERROR_TYPE] = failure.kind.value
        if self._content:
            self.attributes["gen_ai.tool.call.result"] = result.text


def _brief(access: Access) -> str:
    """Return an access without its path, which contains arguments."""
    return f"{access.verb.name.lower()} {access.resource.partition(':')[0]}"
