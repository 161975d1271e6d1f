"""The journal of a run: each event, prompt and reply as one line of JSON."""

from __future__ import annotations

from typing import Any, TypeAlias, assert_never

from handrail import Access, Allow, Ask, Call, Decision, Deny, Result, Text
from handrail.events import (
    Answered,
    Asked,
    AttemptFailed,
    Decided,
    Event,
    Finished,
    Lost,
    Progressed,
    Requested,
    Started,
    Stored,
    Waiting,
    Yielded,
)
from handrail.messages import Prompt, Reply, TruncatedCall, Usage
from handrail.permissions import Answer, Edit, Origin

JournalLine: TypeAlias = dict[str, Any]

MAX_TEXT_CHARS = 2_000
"""Characters of a text to keep in a line. The full text is in the run's state."""


def event_lines(event: Event) -> list[JournalLine]:
    """Return an event as a line; none for a piece of a result, as the result has it all."""
    match event:
        case Requested(at, call):
            line = {**_head(at, "requested", call.id), "tool": call.name, "args": _args(call)}
        case Decided():
            line = _decision_line(event)
        case Asked(at, pending):
            asked = {"pending": pending.id, "question": pending.question}
            line = {**_head(at, "asked", pending.call.id), **asked}
            line["origin"] = _origin(pending.origin)
        case Answered(at, pending_id, call_id, answer):
            line = {**_head(at, "answered", call_id), "pending": pending_id, **_answer(answer)}
        case Finished(at, result):
            line = {**_head(at, "finished", result.call_id), **_result(result)}
        case Lost(count):
            line = {"event": "lost", "count": count}
        case Yielded():
            return []
        case _:
            line = _step(event)
    return [line]


def _step(event: Waiting | Started | Progressed | AttemptFailed | Stored) -> JournalLine:
    match event:
        case Waiting(at, call_id, on):
            return {**_head(at, "waiting", call_id), "on": list(on)}
        case Started(at, call_id, attempt):
            return {**_head(at, "started", call_id), "attempt": attempt}
        case Progressed(at, call_id, message, fraction):
            line = {**_head(at, "progressed", call_id), "message": message[:MAX_TEXT_CHARS]}
            return line if fraction is None else {**line, "fraction": fraction}
        case AttemptFailed(at, call_id, attempt, kind, message, again_in):
            failed = {"attempt": attempt, "kind": str(kind), "message": message[:MAX_TEXT_CHARS]}
            return {**_head(at, "attempt_failed", call_id), **failed, "again_in": again_in}
        case Stored(at, call_id, chars):
            return {**_head(at, "stored", call_id), "chars": chars}
        case _:
            assert_never(event)


def prompt_line(at: float, prompt: Prompt) -> JournalLine:
    """Return a prompt as a line."""
    text = "".join(part.text for part in prompt.parts if isinstance(part, Text))
    return {"at": at, "event": "prompt", "text": text[:MAX_TEXT_CHARS]}


def reply_line(at: float, reply: Reply) -> JournalLine:
    """Return a reply as a line. Its text also says which calls were truncated."""
    truncated = [
        f"[truncated call of {part.name[:MAX_TEXT_CHARS]}, not run]"
        for part in reply.parts
        if isinstance(part, TruncatedCall)
    ]
    return {
        "at": at,
        "event": "reply",
        "model": reply.model,
        "stop": reply.stop,
        "usage": usage(reply.usage),
        "calls": [call.id for call in reply.calls],
        "text": " ".join(filter(None, (*truncated, reply.text[:MAX_TEXT_CHARS]))),
    }


def usage(used: Usage) -> dict[str, int]:
    """Return the number of tokens by kind."""
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cached_tokens": used.cached_tokens,
    }


def _head(at: float, name: str, call_id: str) -> JournalLine:
    return {"at": at, "event": name, "call_id": call_id}


def _args(call: Call) -> Any:
    return call.args if isinstance(call.args, str) else dict(call.args)


def _decision_line(event: Decided) -> JournalLine:
    line = {
        **_head(event.at, "decided", event.call_id),
        "accesses": [_access(access) for access in event.accesses],
        **_decision(event.decision),
        "origin": _origin(event.decision.origin),
    }
    changed = event.call
    return line if changed is None else {**line, "tool": changed.name, "args": _args(changed)}


def _access(access: Access) -> list[str]:
    return [access.verb.name.lower(), access.resource]


def _decision(decision: Decision) -> JournalLine:
    match decision:
        case Allow():
            return {"decision": "allow"}
        case Ask(question, _, once):
            return {"decision": "ask", "question": question, "once": once}
        case Deny(reason):
            return {"decision": "deny", "reason": reason}
        case _:
            assert_never(decision)


def _origin(origin: Origin | None) -> JournalLine | None:
    if origin is None:
        return None
    return {"rule": origin.rule, "file": origin.file, "line": origin.line, "kind": origin.kind}


def _answer(answer: Answer) -> JournalLine:
    match answer:
        case Allow():
            return {"answer": "allow"}
        case Deny(reason, origin):
            line = {"answer": "deny", "reason": reason}
            return line if origin is None else {**line, "origin": _origin(origin)}
        case Edit(args):
            return {"answer": "edit", "args": args if isinstance(args, str) else dict(args)}
        case Result():
            return {"answer": "result", "text": answer.text[:MAX_TEXT_CHARS]}
        case _:
            assert_never(answer)


def _result(result: Result) -> JournalLine:
    return {
        "kind": str(result.failure.kind) if result.failure else "",
        "pending": result.pending.id if result.pending else "",
        "chars": len(result.text),
        "text": result.text[:MAX_TEXT_CHARS],
    }
