"""AG-UI: its requests and its events, by its official package."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from ag_ui import core
from ag_ui.encoder import EventEncoder

from handrail._support import is_object
from handrail.web._guard import bad
from handrail.web._protocols.asked import ChatRequest, WebAnswer, read_answer, read_text
from handrail.web._wire import WireEvent

_ANSWER_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


def read_ag_ui(body: Mapping[str, Any]) -> ChatRequest:
    """Read a ``RunAgentInput``. Earlier messages in it are ignored: the store has them."""
    try:
        given = core.RunAgentInput.model_validate(body)
    except ValueError as error:
        raise bad(f"Not an AG-UI request: {str(error)[:300]}") from None
    answers = dict(map(_read_resume, given.resume or ()))
    last = given.messages[-1] if given.messages else None
    if answers:
        return ChatRequest(given.thread_id, answers=answers, run=given.run_id)
    if not isinstance(last, core.UserMessage):
        raise bad("The last message must be the user's, unless `resume` has answers.")
    parts: Any = [last.content] if isinstance(last.content, str) else last.content
    texts = [one if isinstance(one, str) else getattr(one, "text", "") for one in parts]
    return ChatRequest(given.thread_id, read_text("".join(texts)), run=given.run_id)


def _read_resume(entry: core.ResumeEntry) -> tuple[str, WebAnswer]:
    pending, _, seen = entry.interrupt_id.rpartition(":")
    payload = entry.payload if is_object(entry.payload) else {}
    if entry.status == "cancelled" or payload.get("approved") is not True:
        return pending, read_answer({"answer": "deny", "reason": payload.get("reason") or ""})
    return pending, read_answer({"answer": "allow", "seen": seen})


class AgUiEvents:
    """Writes AG-UI events. A run that waits ends with an ``interrupt`` outcome."""

    stays = False

    def __init__(self, run: str) -> None:
        self._client_run = run
        self._thread = self._run = ""
        self._encode = EventEncoder().encode
        self._message = ""
        self._messages = 0
        self._calls: set[str] = set()
        self._open_calls: set[str] = set()
        self._interrupts: list[core.Interrupt] = []

    def begin(self, conversation: str, run: str, known: Collection[str]) -> str:
        """Open the run."""
        self._calls.update(known)
        self._thread, self._run = conversation, self._client_run or run
        return self._encode(core.RunStartedEvent(thread_id=self._thread, run_id=self._run))

    def encode(self, event: WireEvent) -> str:
        """Write an event."""
        write = _WRITERS.get(event.kind)
        return "".join(map(self._encode, write(self, event.data))) if write else ""

    def text(self, data: Mapping[str, Any]) -> list[core.BaseEvent]:
        """Write a piece of text."""
        begin = self._begin_message()
        content = core.TextMessageContentEvent(message_id=self._message, delta=data["text"])
        return [*begin, content]

    def _begin_message(self) -> list[core.BaseEvent]:
        if self._message:
            return []
        self._messages += 1
        self._message = f"{self._run}-{self._messages}"
        return [core.TextMessageStartEvent(message_id=self._message, role="assistant")]

    def _end_message(self) -> list[core.BaseEvent]:
        message, self._message = self._message, ""
        return [core.TextMessageEndEvent(message_id=message)] if message else []

    def reply(self, _data: Mapping[str, Any]) -> list[core.BaseEvent]:
        """End the reply's message."""
        return self._end_message()

    def restart(self, _data: Mapping[str, Any]) -> list[core.BaseEvent]:
        """Mark the message so far as replaced."""
        value = {"messageId": self._message}
        return [*self._end_message(), core.CustomEvent(name="handrail.restart", value=value)]

    def _start_call(self, id: str, name: str) -> list[core.BaseEvent]:  # noqa: A002
        if id in self._calls:
            return []
        self._calls.add(id)
        self._open_calls.add(id)
        return [core.ToolCallStartEvent(tool_call_id=id, tool_call_name=name)]

    def args(self, data: Mapping[str, Any]) -> list[core.BaseEvent]:
        """Write a piece of a call's arguments."""
        more = core.ToolCallArgsEvent(tool_call_id=data["id"], delta=data["text"])
        return [*self._start_call(data["id"], data["name"]), more]

    def call(self, data: Mapping[str, Any]) -> list[core.BaseEvent]:
        """Write a complete call."""
        id_ = data["id"]
        events = self._start_call(id_, data["name"])
        if events and data.get("args") is not None:
            events.append(core.ToolCallArgsEvent(tool_call_id=id_, delta=as_text(data["args"])))
        return [*events, *self._end_call(id_)]

    def _end_call(self, id: str) -> list[core.BaseEvent]:  # noqa: A002
        if id not in self._open_calls:
            return []
        self._open_calls.remove(id)
        return [core.ToolCallEndEvent(tool_call_id=id)]

    def result(self, data: Mapping[str, Any]) -> list[core.BaseEvent]:
        """Write a call's result."""
        content = data.get("text", data["failure"])
        id_ = data["id"]
        done = core.ToolCallResultEvent(
            message_id=f"{self._run}-result-{id_}", tool_call_id=id_, content=content
        )
        return [*self._end_call(id_), done]

    def approval(self, data: Mapping[str, Any]) -> list[core.BaseEvent]:
        """Note what the run waits for: its end says so."""
        may = "pending" in data
        self._interrupts.append(
            core.Interrupt(
                id=f"{data['pending']}:{data['seen']}" if may else f"other-{data['id']}",
                reason="tool_approval" if may else "approval_by_others",
                message=data["question"],
                tool_call_id=data["id"],
                response_schema=dict(_ANSWER_SCHEMA) if may else None,
                expires_at=_as_time(data.get("expires")),
            )
        )
        return []

    def status(self, data: Mapping[str, Any]) -> list[core.BaseEvent]:
        """End the run if it waits."""
        if data["status"] != "waiting":
            return []
        outcome = core.RunFinishedInterruptOutcome(interrupts=self._interrupts)
        return self._finish(outcome)

    def end(self, data: Mapping[str, Any]) -> list[core.BaseEvent]:
        """End the run."""
        if data["status"] == "failed":
            error = core.RunErrorEvent(message="The run failed.", code=data["reason"] or None)
            return [*self._close(), error]
        stopped = data["status"] == "cancelled" or data["reason"] == "interrupted"
        outcome = core.RunFinishedCancelledOutcome if stopped else core.RunFinishedSuccessOutcome
        return self._finish(outcome())

    def _close(self) -> list[core.BaseEvent]:
        calls = [end for one in sorted(self._open_calls) for end in self._end_call(one)]
        return [*self._end_message(), *calls]

    def _finish(self, outcome: Any) -> list[core.BaseEvent]:
        end = core.RunFinishedEvent(thread_id=self._thread, run_id=self._run, outcome=outcome)
        return [*self._close(), end]


_WRITERS = {
    "text": AgUiEvents.text,
    "reply": AgUiEvents.reply,
    "restart": AgUiEvents.restart,
    "args": AgUiEvents.args,
    "call": AgUiEvents.call,
    "result": AgUiEvents.result,
    "approval": AgUiEvents.approval,
    "status": AgUiEvents.status,
    "end": AgUiEvents.end,
}


def as_text(args: object) -> str:
    """Return a call's arguments as JSON text."""
    return args if isinstance(args, str) else json.dumps(args)


def _as_time(expires: object) -> str | None:
    if not isinstance(expires, float):
        return None
    return datetime.fromtimestamp(expires, UTC).isoformat()
