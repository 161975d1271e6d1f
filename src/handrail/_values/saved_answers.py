"""Answers as JSON values: the one form in which states and databases keep them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from handrail._support import is_object
from handrail._values.approval import Answer, Edit
from handrail._values.decision import Allow, Deny
from handrail._values.result import Result


def write_answer(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON values, without the rule that gave it."""
    match answer:
        case Allow():
            return {"allow": True, **_write_given(answer)}
        case Deny(reason):
            return {"deny": reason, "detail": answer.detail, **_write_given(answer)}
        case Edit(args):
            edited = args if isinstance(args, str) else dict(args)
            return {"edit": edited, **_write_given(answer)}
        case _:
            return {"result": answer.to_json()}


def _write_given(answer: Allow | Deny | Edit) -> dict[str, dict[str, str]]:
    if not (answer.by or answer.via or answer.seen):
        return {}
    return {"given": {"by": answer.by, "via": answer.via, "seen": answer.seen}}


def read_answer(plain: object) -> Answer:
    """Return a saved answer. Raises ValueError for anything else: it is never an approval."""
    saved: Any = plain
    match saved:
        case {"given": {"by": str(by), "via": str(via), "seen": str(seen), **rest}, **answer} if (
            not rest
        ):
            answered = _read_answer(answer)
            if isinstance(answered, Allow | Deny | Edit):
                return replace(answered, by=by, via=via, seen=seen)
            raise ValueError("unknown answer")
        case _:
            return _read_answer(saved)


def _read_answer(plain: Any) -> Answer:
    match plain:
        case {"allow": True, **rest} if not rest:
            return Allow()
        case {"deny": str(reason), "detail": str(detail), **rest} if not rest:
            return Deny(reason, detail=detail)
        case {"edit": str() as text, **rest} if not rest:
            return Edit(text)
        case {"edit": args, **rest} if not rest and is_object(args):
            return Edit(args)
        case {"result": str(text), **rest} if not rest:
            return Result.from_json(text)
        case _:
            raise ValueError("unknown answer")
