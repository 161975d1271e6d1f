"""Events, prompts and replies as journal lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from difflib import unified_diff
from typing import Any, TypeAlias, assert_never
from urllib.parse import unquote

from handrail import Allow, Ask, Call, Decision, Deny, Result, Text
from handrail.events import (
    Answered,
    Asked,
    AttemptFailed,
    CredentialUsed,
    Decided,
    Event,
    Finished,
    Lost,
    Progressed,
    Requested,
    Reviewed,
    Started,
    Stored,
    Waiting,
    Yielded,
)
from handrail.messages import Prompt, Reply, TruncatedCall, Usage
from handrail.permissions import Answer, Edit, FileChange, Origin, Pending, Undoable
from handrail.runs.journal import JournalEntry, JournalLine

PlannedChange: TypeAlias = FileChange | Undoable | str
"""A pending call's planned change: to a file, restorable by undo, or a text."""
LineFields: TypeAlias = dict[str, Any]
"""A line's fields: ``event``, which is its kind, and its content."""

MAX_TEXT_CHARS = 2_000
"""Text characters kept in a line. The full text is in the run's state."""
MAX_DIFF_CHARS = 20_000
"""Diff characters kept in a line."""
EVENTS = (
    "prompt",
    "reply",
    "requested",
    "decided",
    "asked",
    "answered",
    "reviewed",
    "waiting",
    "started",
    "credential_used",
    "progressed",
    "attempt_failed",
    "stored",
    "finished",
    "lost",
    "answer",
    "vote",
    "cancel",
    "status",
)
"""Line kinds for events, without the states."""
ANSWER = "answer"
"""The kind for lines with an answer to a pending call."""
_NUMBER = re.compile("[0-9]{1,9}")
_IN_A_CALL = 2
"""Separators in a sub-agent's run id: the run, turn and call it works for."""


def as_line(fields: Mapping[str, Any]) -> JournalLine:
    """Return fields as a line to append."""
    content = dict(fields)
    return JournalLine.of(str(content.pop("event")), **content)


def as_fields(entry: JournalEntry) -> LineFields:
    """Return an entry's fields."""
    return {**entry.content, "event": entry.kind}


def event_lines(event: Event, run: str = "") -> list[LineFields]:
    """Return an event as a line, or none for a result's piece, as the result has it all.

    ``run`` is the run's id. Without it, a sub-agent's id is known by its form.
    """
    match event:
        case Requested(at, call):
            line = {**_head(at, "requested", call.id), "tool": call.name, "args": _args(call)}
            line |= {"via": call.via} if call.via else {}
        case Decided() | Reviewed():
            line = _decision_line(event)
        case Asked(at, pending):
            line = {**_head(at, "asked", pending.call.id), **_request(pending)}
        case Answered(at, pending_id, call_id, answer):
            line = {
                **_head(at, "answered", call_id),
                "pending": pending_id,
                **answer_fields(answer),
            }
        case Finished(at, result):
            line = {**_head(at, "finished", result.call_id), **_result(result)}
        case Lost(count):
            line = {"event": "lost", "count": count}
        case Yielded():
            return []
        case _:
            line = _step(event)
    return [line | turn_fields(event.turn, run)]


def turn_fields(key: str, run: str = "") -> LineFields:
    """Return a turn's number, from its key, or nothing if it has none.

    A sub-agent's turn has the number of the run's turn. ``inner`` then says where inside it.
    """
    owner, _, turn = key.rpartition("/")
    inner: list[str] = []
    while (outer := unquote(owner)) != run and outer.count("/") == _IN_A_CALL:
        outer, _, call = outer.rpartition("/")
        inner[:0] = (call, turn)
        owner, _, turn = outer.rpartition("/")
    if not _NUMBER.fullmatch(turn):
        return {}
    return {"turn": int(turn), "inner": "/".join(inner)} if inner else {"turn": int(turn)}


def make_diff(changes: Iterable[PlannedChange]) -> str:
    """Return planned changes as text: a unified diff for files, shortened."""
    pieces: list[str] = []
    for change in changes:
        if not isinstance(change, FileChange):
            text = change if isinstance(change, str) else change.description
            pieces += [f"{text}\n"] if text else []
            continue
        texts = (change.before or "", change.after or "")
        shared = "\n" * all(text.endswith("\n") for text in texts if text)  # else it differs
        before, after = (text.removesuffix(shared).split("\n") if text else [] for text in texts)
        diff = unified_diff(before, after, f"a/{change.path}", f"b/{change.path}", lineterm="")
        pieces += [f"{line}\n" for line in diff]
    text = "".join(pieces)
    more = len(text) - MAX_DIFF_CHARS
    return f"{text[:MAX_DIFF_CHARS]}\n… {more:,} more characters\n" if more > 0 else text


def _step(
    event: Waiting | Started | CredentialUsed | Progressed | AttemptFailed | Stored,
) -> LineFields:
    match event:
        case Waiting(at, call_id, on, reason, what):
            why = {"on": list(on), "reason": reason, "what": what}
            return {**_head(at, "waiting", call_id), **why}
        case Started(at, call_id, attempt):
            return {**_head(at, "started", call_id), "attempt": attempt}
        case CredentialUsed(at, call_id, name, principal):
            return {**_head(at, "credential_used", call_id), "name": name, "principal": principal}
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


def prompt_line(at: float, prompt: Prompt) -> LineFields:
    """Return a prompt as a line."""
    text = "".join(part.text for part in prompt.parts if isinstance(part, Text))
    return {"at": at, "event": "prompt", "text": text[:MAX_TEXT_CHARS]}


def reply_line(at: float, reply: Reply, turn: int) -> LineFields:
    """Return a turn's reply as a line. Its text also names truncated calls."""
    truncated = [
        f"[truncated call of {part.name[:MAX_TEXT_CHARS]}, not run]"
        for part in reply.parts
        if isinstance(part, TruncatedCall)
    ]
    return {
        "at": at,
        "event": "reply",
        "turn": turn,
        "seconds": reply.seconds,
        "model": reply.model,
        "stop": reply.stop,
        "usage": usage(reply.usage),
        "calls": [call.id for call in reply.calls],
        "text": " ".join(filter(None, (*truncated, reply.text[:MAX_TEXT_CHARS]))),
    }


def usage(used: Usage) -> dict[str, int]:
    """Return token counts by kind."""
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cached_tokens": used.cached_tokens,
    }


def _request(pending: Pending) -> LineFields:
    """Return what a person saw, as it was when they were asked."""
    shown: LineFields = {
        "pending": pending.id,
        "question": pending.question,
        "origin": _origin(pending.origin),
        "grade": pending.grade.name.lower(),
        "headline": pending.headline,
    }
    if pending.parts:
        shown["parts"] = [
            {"start": part.start, "end": part.end, "grade": part.grade.name.lower()}
            for part in pending.parts
        ]
    if pending.review:
        shown["said"] = list(pending.said)
    if pending.sources:
        shown["sources"] = [one.to_dict() for one in pending.sources]
    return shown | ({"diff": diff} if (diff := make_diff(pending.changes)) else {})


def _head(at: float, name: str, call_id: str) -> LineFields:
    return {"at": at, "event": name, "call_id": call_id}


def _args(call: Call) -> Any:
    return call.args if isinstance(call.args, str) else dict(call.args)


def _decision_line(event: Decided | Reviewed) -> LineFields:
    if isinstance(event, Reviewed):
        said = {"pending": event.pending_id, **asdict(event.review)}
        return {**_head(event.at, "reviewed", event.call_id), **said}
    line = {
        **_head(event.at, "decided", event.call_id),
        "accesses": [[one.verb.name.lower(), one.resource] for one in event.accesses],
        **_decision(event.decision),
        "origin": _origin(event.decision.origin),
    }
    if event.sources:
        line["sources"] = [one.to_dict() for one in event.sources]
    if event.after:
        line["after"] = dict(event.after)
    changed = event.call
    return line if changed is None else {**line, "tool": changed.name, "args": _args(changed)}


def _decision(decision: Decision) -> LineFields:
    match decision:
        case Allow():
            return {"decision": "allow"}
        case Ask(question, _, once):
            return {"decision": "ask", "question": question, "once": once}
        case Deny(reason):
            return {"decision": "deny", "reason": reason}
        case _:
            assert_never(decision)


def _origin(origin: Origin | None) -> LineFields | None:
    if origin is None:
        return None
    line: LineFields = {"rule": origin.rule, "file": origin.file, "line": origin.line}
    line["kind"] = origin.kind
    return {**line, "digest": origin.digest} if origin.digest else line


def answer_fields(answer: Answer) -> LineFields:
    """Return an answer as line fields."""
    match answer:
        case Allow():
            return {"answer": "allow", **given_fields(answer)}
        case Deny(reason, origin):
            line = {"answer": "deny", "reason": reason, **given_fields(answer)}
            return line if origin is None else {**line, "origin": _origin(origin)}
        case Edit(args):
            edited = args if isinstance(args, str) else dict(args)
            return {"answer": "edit", "args": edited, **given_fields(answer)}
        case Result():
            return {"answer": "result", "text": answer.text[:MAX_TEXT_CHARS]}
        case _:
            assert_never(answer)


def given_fields(answer: Allow | Deny | Edit) -> dict[str, str]:
    """Return who answered, where, and the digest they saw, as far as known."""
    given = {"by": answer.by, "via": answer.via, "seen": answer.seen}
    return {name: value for name, value in given.items() if value}


def _result(result: Result) -> LineFields:
    return {
        "kind": str(result.failure.kind) if result.failure else "",
        "pending": result.pending.id if result.pending else "",
        "chars": len(result.text),
        "text": result.text[:MAX_TEXT_CHARS],
    }
