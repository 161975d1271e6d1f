"""Answers as text: in the row of a request, and in the line of a journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from handrail.permissions import Answer, read_answer, write_answer
from handrail.runs._reading.values import AnswerRecord, AnswerWord
from handrail.runs.journal import parse_object


def dump_answer(answer: Answer, at: float, by: Mapping[str, str] | None = None) -> str:
    """Return an answer as JSON text, with when it was given, and by whom."""
    return json.dumps({"answer": write_answer(answer), "at": at, "given": dict(by or {})})


def unwrap_answer(text: str) -> str:
    """Return the answer alone, as JSON text. Older versions saved nothing else."""
    plain = parse_object(text)
    return json.dumps(plain["answer"]) if "answer" in plain else text


def load_answer(text: str) -> Answer:
    """Return what ``dump_answer`` saved. Raises ValueError for anything else."""
    return read_answer(json.loads(unwrap_answer(text)))


def given_by(by: str, via: str = "", seen: str = "") -> dict[str, str]:
    """Return who gave an answer, where, and the digest of what they saw, as far as it is known."""
    return {name: value for name, value in (("by", by), ("via", via), ("seen", seen)) if value}


def vote_for(answer: Answer, fingerprint: str) -> str:
    """Return a text that equal answers of two people to the same call share."""
    plain = write_answer(answer)
    plain.pop("given", None)
    return json.dumps({**plain, "call": fingerprint}, sort_keys=True)


def is_vote_for(vote: str, fingerprint: str) -> bool:
    """Return whether a vote is for this call, and not for an earlier version of it."""
    return bool(parse_object(vote).get("call") == fingerprint)


def read_record(
    pending: str, text: str, by: str | None = None, resumed: float | None = None
) -> AnswerRecord:
    """Return the answer in the row of a request."""
    plain = parse_object(text)
    inner = _as_object(plain.get("answer")) or plain
    given = _as_object(plain.get("given")) or _as_object(inner.get("given"))
    word: AnswerWord = "result"
    for known in ("allow", "deny", "edit"):
        word = known if known in inner else word
    reason, at = inner.get("deny"), plain.get("at")
    return AnswerRecord(
        pending=pending,
        answer=word,
        reason=reason if isinstance(reason, str) else "",
        by=by or str(given.get("by", "")),
        via=str(given.get("via", "")),
        seen=str(given.get("seen", "")),
        at=float(at) if isinstance(at, int | float) else 0.0,
        resumed=resumed,
    )


def answer_of_line(line: Mapping[str, Any]) -> str:
    """Return the text for the row of a request, given the fields of an ``answer`` line."""
    saved = line.get("saved")
    if isinstance(saved, str):
        return saved
    given = {name: line[name] for name in ("by", "via", "seen") if isinstance(line.get(name), str)}
    known: dict[str, dict[str, Any]] = {
        "allow": {"allow": True},
        "edit": {"edit": line.get("args", {})},
        "result": {"result": ""},
    }
    plain = known.get(str(line.get("answer")), {"deny": str(line.get("reason", ""))})
    return json.dumps({"answer": plain, "at": line.get("at"), "given": given}, default=repr)


def _as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
