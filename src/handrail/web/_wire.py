"""Events on the way to a browser: few kinds, and only what a page may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

from handrail import FailureKind
from handrail.agent import InnerEvent
from handrail.events import Finished, Progressed, Requested, Yielded
from handrail.messages import ArgsDelta, Delta, Reply, Restart
from handrail.runs.statuses import LIVE, WAITING, Standing

WireKind: TypeAlias = Literal[
    "begin",
    "text",
    "args",
    "restart",
    "reply",
    "call",
    "progress",
    "output",
    "result",
    "approval",
    "answered",
    "status",
    "end",
]


class WireEvent(NamedTuple):
    """One event for a page."""

    kind: WireKind
    data: Mapping[str, Any]
    id: str = ""
    """Where a watcher continues; empty if it cannot continue here."""


def from_line(fields: Mapping[str, Any], id: str, *, details: bool) -> WireEvent | None:  # noqa: A002
    """Return a watched run's event for a page, or None.

    Args:
        fields: The event.
        id: Where a watcher continues behind it.
        details: Whether pages see arguments and results.
    """
    kind = fields["event"]
    if kind == "delta":
        return None if fields.get("thought") else WireEvent("text", {"text": fields["text"]}, id)
    if kind == "status":
        return read_status(str(fields.get("status", "")), str(fields.get("reason", "")), id)
    inner = str(fields.get("inner") or "")
    if inner:
        around = unquote(inner.partition("/")[0])
        return _inside(around, str(fields["tool"]), id) if kind == "requested" else None
    make = _LINES.get(kind)
    found = make(fields, details) if make else None
    return None if found is None else found._replace(id=id)


def read_status(status: str, reason: str, id: str = "") -> WireEvent | None:  # noqa: A002
    """Return a status for a page, or None without one. Errors are not for pages."""
    if not status:
        return None
    data = {"status": status, "reason": reason}
    return WireEvent("status" if status in LIVE else "end", data, id)


def _inside(around: str, name: str, id: str = "") -> WireEvent:  # noqa: A002
    """Return a call inside another one, as that one's progress."""
    return WireEvent("progress", {"id": around, "message": name}, id)


def _args(fields: Mapping[str, Any], details: bool) -> WireEvent | None:  # noqa: FBT001
    data = {"id": fields["call_id"], "name": fields["tool"], "text": fields["text"]}
    return WireEvent("args", data) if details else None


def _call(fields: Mapping[str, Any], details: bool) -> WireEvent:  # noqa: FBT001
    args = {"args": fields.get("args")} if details else {}
    return WireEvent("call", {"id": fields["call_id"], "name": fields["tool"], **args})


def _result(fields: Mapping[str, Any], details: bool) -> WireEvent | None:  # noqa: FBT001
    failure = str(fields.get("kind") or "")
    if failure == FailureKind.PENDING:
        return None
    text = {"text": fields.get("text", "")} if details else {}
    return WireEvent("result", {"id": fields["call_id"], "failure": failure, **text})


def _progress(fields: Mapping[str, Any], _details: bool) -> WireEvent:  # noqa: FBT001
    fraction = fields.get("fraction")
    done = {} if fraction is None else {"fraction": fraction}
    data = {"id": fields["call_id"], "message": fields.get("message", ""), **done}
    return WireEvent("progress", data)


def _answered(fields: Mapping[str, Any], _details: bool) -> WireEvent:  # noqa: FBT001
    return WireEvent("answered", {"id": fields["call_id"], "answer": fields.get("answer", "")})


def _reply(fields: Mapping[str, Any], _details: bool) -> WireEvent:  # noqa: FBT001
    return WireEvent("reply", {"calls": len(fields.get("calls") or ())})


def _restart(_fields: Mapping[str, Any], _details: bool) -> WireEvent:  # noqa: FBT001
    return WireEvent("restart", {})


_LINES = {
    "args": _args,
    "requested": _call,
    "finished": _result,
    "progressed": _progress,
    "answered": _answered,
    "reply": _reply,
    "restart": _restart,
}


def from_event(event: object, *, details: bool) -> WireEvent | None:  # noqa: C901, PLR0911
    """Return a streamed run's event for a page, or None."""
    match event:
        case Delta(text, thought):
            return None if thought else WireEvent("text", {"text": text})
        case ArgsDelta(call_id, name, text):
            return _args({"call_id": call_id, "tool": name, "text": text}, details)
        case InnerEvent(call_id, Requested(call=call)):
            return _inside(call_id, call.name)
        case Requested(call=call):
            return _call({"call_id": call.id, "tool": call.name, "args": call.args}, details)
        case Finished(result=result):
            kind = result.failure.kind if result.failure else ""
            return _result({"call_id": result.call_id, "kind": kind, "text": result.text}, details)
        case Progressed() | Yielded():
            return _from_running(event, details)
        case Reply():
            return _reply({"calls": event.calls}, details)
        case Restart():
            return _restart({}, details)
        case _:
            return None


def _from_running(event: Progressed | Yielded, details: bool) -> WireEvent | None:  # noqa: FBT001
    if isinstance(event, Yielded):
        data = {"id": event.call_id, "text": event.text}
        return WireEvent("output", data) if details else None
    about = {"call_id": event.call_id, "message": event.message, "fraction": event.fraction}
    return _progress(about, details)


def from_standing(standing: Standing) -> WireEvent:
    """Return where a run stands."""
    kind: WireKind = "status" if standing == WAITING else "end"
    return WireEvent(kind, {"status": standing.status, "reason": standing.reason})
