"""The Vercel AI SDK's UI message stream: its requests and its chunks."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from handrail._support import is_list, is_object
from handrail.web._guard import bad
from handrail.web._protocols.asked import ChatRequest, WebAnswer, read_answer, read_text
from handrail.web._wire import WireEvent

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
_encode = json.JSONEncoder(separators=(",", ":")).encode
_Chunk = dict[str, Any]


def read_ui_messages(body: Mapping[str, Any]) -> ChatRequest:
    """Read a chat transport's request. Earlier messages in it are ignored: the store has them."""
    messages: Any = body.get("messages")
    if body.get("trigger", "submit-message") != "submit-message":
        raise bad("Messages cannot be regenerated.")
    if not isinstance(messages, list) or not messages or not isinstance(body.get("id"), str):
        raise bad("Not a request of the AI SDK's chat transport.")
    last: Any = cast("tuple[Any]", messages)[-1]
    about = last if is_object(last) else {}
    parts: Any = about.get("parts")
    if not is_list(parts) or not all(map(is_object, parts)):
        raise bad("The last message has no parts.")
    if about.get("role") == "user":
        texts = [read_text(one.get("text")) for one in parts if one.get("type") == "text"]
        return ChatRequest(str(body["id"]), read_text("".join(texts)))
    answers = dict(_read_approvals(parts))
    if not answers:
        raise bad("The last message must be the user's, or answer an approval request.")
    return ChatRequest(str(body["id"]), answers=answers)


def _read_approvals(parts: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, WebAnswer]]:
    for part in parts:
        approval: Any = part.get("approval")
        if part.get("state") != "approval-responded" or not isinstance(approval, dict):
            continue
        pending, _, seen = str(cast("_Chunk", approval).get("id", "")).rpartition(":")
        if cast("_Chunk", approval).get("approved") is True:
            yield pending, read_answer({"answer": "allow", "seen": seen})
        else:
            reason: Any = cast("_Chunk", approval).get("reason") or ""
            yield pending, read_answer({"answer": "deny", "reason": reason})


class UiChunks:
    """Writes a UI message's chunks. It is finished when the run waits."""

    stays = False

    def __init__(self) -> None:
        self._run = ""
        self._texts = 0
        self._text = ""
        self._step = ""
        """``open``, ``replied``, or empty."""
        self._calls: dict[str, bool] = {}
        """Whether each call's arguments are complete."""

    def begin(self, conversation: str, run: str, known: Collection[str]) -> str:
        """Open the message. Data parts do not stay in the client's model messages."""
        self._run = run
        self._calls.update(dict.fromkeys(known, True))
        named = {"conversation": conversation, "run": run}
        return self._write(
            {"type": "start"}, {"type": "message-metadata", "messageMetadata": named}
        )

    def encode(self, event: WireEvent) -> str:
        """Write an event."""
        write = _WRITERS.get(event.kind)
        return self._write(*write(self, event.data)) if write else ""

    def _write(self, *chunks: _Chunk) -> str:
        return "".join(f"data: {_encode(chunk)}\n\n" for chunk in chunks) + (
            "data: [DONE]\n\n" if chunks and chunks[-1]["type"] == "finish" else ""
        )

    def _begin_step(self) -> list[_Chunk]:
        if self._step == "open":
            return []
        ended = self._end_step()
        self._step = "open"
        return [*ended, {"type": "start-step"}]

    def _end_step(self) -> list[_Chunk]:
        was, self._step = self._step, ""
        return [*self._end_text(), *([{"type": "finish-step"}] if was else [])]

    def _end_text(self) -> list[_Chunk]:
        text, self._text = self._text, ""
        return [{"type": "text-end", "id": text}] if text else []

    def text(self, data: Mapping[str, Any]) -> list[_Chunk]:
        """Write a piece of text."""
        begin = self._begin_step()
        if not self._text:
            self._texts += 1
            self._text = f"{self._run}-{self._texts}"
            begin.append({"type": "text-start", "id": self._text})
        return [*begin, {"type": "text-delta", "id": self._text, "delta": data["text"]}]

    def reply(self, data: Mapping[str, Any]) -> list[_Chunk]:
        """End the reply's text. Its step ends after its calls' results."""
        begin = self._begin_step()
        self._step = "replied"
        return [*begin, *(self._end_text() if data["calls"] else self._end_step())]

    def restart(self, _data: Mapping[str, Any]) -> list[_Chunk]:
        """Mark the text so far as replaced."""
        mark = {"type": "data-restart", "data": {"text": self._text}}
        return [*self._end_text(), mark]

    def args(self, data: Mapping[str, Any]) -> list[_Chunk]:
        """Write a piece of a call's arguments."""
        begin = [] if data["id"] in self._calls else self._begin_step()
        if data["id"] not in self._calls:
            self._calls[data["id"]] = False
            named = {"toolCallId": data["id"], "toolName": data["name"], "dynamic": True}
            begin.append({"type": "tool-input-start", **named})
        more = {"toolCallId": data["id"], "inputTextDelta": data["text"]}
        return [*begin, {"type": "tool-input-delta", **more}]

    def call(self, data: Mapping[str, Any]) -> list[_Chunk]:
        """Write a complete call."""
        if self._calls.get(data["id"]):
            return []
        begin = self._begin_step() if not self._step else []
        self._calls[data["id"]] = True
        named = {"toolCallId": data["id"], "toolName": data["name"], "dynamic": True}
        input_ = _parse(data.get("args"))
        return [*begin, {"type": "tool-input-available", **named, "input": input_}]

    def result(self, data: Mapping[str, Any]) -> list[_Chunk]:
        """Write a call's result."""
        named, text = {"toolCallId": data["id"]}, data.get("text")
        if not data["failure"]:
            return [{"type": "tool-output-available", **named, "output": text}]
        why = text or f"The call failed: {data['failure']}."
        return [{"type": "tool-output-error", **named, "errorText": why}]

    def approval(self, data: Mapping[str, Any]) -> list[_Chunk]:
        """Ask this person, or say that another one is asked."""
        if "pending" not in data:
            about = {"call": data["id"], "question": data["question"]}
            return [{"type": "data-approval", "data": about}]
        asked = {"approvalId": f"{data['pending']}:{data['seen']}", "toolCallId": data["id"]}
        known = self.call({"id": data["id"], "name": data["name"], "args": data.get("args")})
        return [*known, {"type": "tool-approval-request", **asked}]

    def status(self, data: Mapping[str, Any]) -> list[_Chunk]:
        """Finish the message if the run waits."""
        finish = {"type": "finish", "finishReason": "tool-calls"}
        return [*self._end_step(), finish] if data["status"] == "waiting" else []

    def end(self, data: Mapping[str, Any]) -> list[_Chunk]:
        """Finish the message."""
        failed = data["status"] == "failed"
        error = [{"type": "error", "errorText": "The run failed."}] if failed else []
        reason = "error" if failed else "stop" if data["reason"] == "answer" else "other"
        return [*self._end_step(), *error, {"type": "finish", "finishReason": reason}]


_WRITERS = {
    "text": UiChunks.text,
    "reply": UiChunks.reply,
    "restart": UiChunks.restart,
    "args": UiChunks.args,
    "call": UiChunks.call,
    "result": UiChunks.result,
    "approval": UiChunks.approval,
    "status": UiChunks.status,
    "end": UiChunks.end,
}


def _parse(args: object) -> Any:
    """Return a call's arguments as an object."""
    if not isinstance(args, str):
        return args or {}
    try:
        return json.loads(args or "{}")
    except (ValueError, RecursionError):
        return {}
