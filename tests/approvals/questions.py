"""Questions for the tests, made by hand."""

from __future__ import annotations

import json
from typing import Any

from handrail import DESTROY, WRITE, Access, Call, Effect
from handrail.permissions import Grade, Origin, Pending


def asked(
    args: object,
    *,
    name: str = "write",
    effect: Effect = WRITE,
    touches: tuple[Access, ...] = (Access(WRITE, "file:src/a.py"),),
    question: str = "Write it?",
    call_id: str = "c1",
    **others: Any,
) -> Pending:
    fields: dict[str, Any] = {
        "run_id": "r1",
        "turn_id": "t1",
        "key": "r1/t1/c1",
        "position": 0,
        "round": 0,
        "call": Call(name, args if isinstance(args, str) else json.dumps(args), call_id),
        "effect": effect,
        "accesses": touches,
        "question": question,
        "kind": "approval" if question else "waiting",
        "fingerprint": "ab" * 32,
        "asked_at": 1_000.0,
        "expires_at": 1_060.0,
        "origin": Origin("ask write", "handrail.toml", 3),
        "grade": Grade.LOSES if effect is DESTROY else Grade.UNCONFINED,
    }
    return Pending(**fields | others)
