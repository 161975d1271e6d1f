"""The journal of a run: each event of its executor, prompt and reply as one line of plain JSON."""

from __future__ import annotations

from typing import Any, TypeAlias, assert_never

from handrail import Access, Allow, Ask, Call, Decision, Deny, Result, Text
from handrail.events import (
    Answered,
    Asked,
    AttemptFailed,
    Event,
    Finished,
    Judged,
    Progressed,
    Requested,
    Started,
    Stored,
    Waiting,
)
from handrail.judgement import Answer, Edit, Origin
from handrail.messages import Prompt, Reply, Usage

Line: TypeAlias = dict[str, Any]

MOST_TEXT = 2_000
"""Characters of a text that a line holds; all of it is in the run's state."""


def event_line(event: Event) -> Line:
    """An event as a line."""
    match event:
        case Requested(at, call):
            return {**_head(at, "requested", call.id), "tool": call.name, "args": _args(call)}
        case Judged():
            return _judged(event)
        case Asked(at, pending):
            line = _head(at, "asked", pending.call.id)
            asked = {"pending": pending.id, "question": pending.question}
            return {**line, **asked, "origin": _origin(pending.origin)}
        case Answered(at, pending_id, call_id, answer):
            return {**_head(at, "answered", call_id), "pending": pending_id, **_answer(answer)}
        case Finished(at, result):
            return {**_head(at, "finished", result.call_id), **_result(result)}
        case _:
            return _step(event)


def _step(event: Waiting | Started | Progressed | AttemptFailed | Stored) -> Line:
    match event:
        case Waiting(at, call_id, on):
            return {**_head(at, "waiting", call_id), "on": list(on)}
        case Started(at, call_id, attempt):
            return {**_head(at, "started", call_id), "attempt": attempt}
        case Progressed(at, call_id, words):
            return {**_head(at, "progressed", call_id), "words": words[:MOST_TEXT]}
        case AttemptFailed(at, call_id, attempt, kind, message, again_in):
            failed = {"attempt": attempt, "kind": str(kind), "message": message[:MOST_TEXT]}
            return {**_head(at, "attempt_failed", call_id), **failed, "again_in": again_in}
        case Stored(at, call_id, chars):
            return {**_head(at, "stored", call_id), "chars": chars}
        case _:
            assert_never(event)


def prompt_line(at: float, prompt: Prompt) -> Line:
    """What a person said, as a line."""
    text = "".join(part.text for part in prompt.parts if isinstance(part, Text))
    return {"at": at, "event": "prompt", "text": text[:MOST_TEXT]}


def reply_line(at: float, reply: Reply) -> Line:
    """What a model said, as a line."""
    return {
        "at": at,
        "event": "reply",
        "model": reply.model,
        "stop": reply.stop,
        "usage": usage(reply.usage),
        "calls": [call.id for call in reply.calls],
        "text": reply.text[:MOST_TEXT],
    }


def usage(used: Usage) -> dict[str, int]:
    """Tokens, by name."""
    return {"sent": used.sent, "received": used.received, "cached": used.cached}


def _head(at: float, name: str, call_id: str) -> Line:
    return {"at": at, "event": name, "call_id": call_id}


def _args(call: Call) -> Any:
    return call.args if isinstance(call.args, str) else dict(call.args)


def _judged(event: Judged) -> Line:
    line = {
        **_head(event.at, "judged", event.call_id),
        "accesses": [_access(one) for one in event.accesses],
        **_decision(event.decision),
        "origin": _origin(event.decision.origin),
    }
    changed = event.call
    return line if changed is None else {**line, "tool": changed.name, "args": _args(changed)}


def _access(access: Access) -> list[str]:
    return [access.verb.name.lower(), access.resource]


def _decision(decision: Decision) -> Line:
    match decision:
        case Allow():
            return {"decision": "allow"}
        case Ask(question, _, once):
            return {"decision": "ask", "question": question, "once": once}
        case Deny(reason):
            return {"decision": "deny", "reason": reason}
        case _:
            assert_never(decision)


def _origin(origin: Origin | None) -> Line | None:
    if origin is None:
        return None
    return {"rule": origin.rule, "file": origin.file, "line": origin.line}


def _answer(answer: Answer) -> Line:
    match answer:
        case Allow():
            return {"answer": "allow"}
        case Deny(reason):
            return {"answer": "deny", "reason": reason}
        case Edit(args):
            return {"answer": "edit", "args": args if isinstance(args, str) else dict(args)}
        case Result():
            return {"answer": "result", "text": answer.text[:MOST_TEXT]}
        case _:
            assert_never(answer)


def _result(result: Result) -> Line:
    return {
        "kind": str(result.failure.kind) if result.failure else "",
        "pending": result.pending.id if result.pending else "",
        "chars": len(result.text),
        "text": result.text[:MOST_TEXT],
    }
