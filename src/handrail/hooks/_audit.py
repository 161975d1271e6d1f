"""Audit log: one JSON line for every result, including rejected calls."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from handrail import Call, CheckedCall, Hook, Result
from handrail.hooks._shared import Clock, canonical


def audit(write: Callable[[str], object], *, args: bool = False, clock: Clock = time.time) -> Hook:
    """Write a line for every result: the time, the call, its outcome, and the text's length.

    A line also has the call's run, turn, principal and decision. A call with a wrong tool or wrong
    arguments was never decided, and has none of these. The arguments are a SHA-256 of their
    canonical JSON, or complete if ``args`` is true. If ``write`` raises, the result is withheld
    from the model.
    """

    def after(call: CheckedCall | Call, result: Result) -> Result:
        line: dict[str, Any] = {
            "time": clock(),
            "call_id": call.id,
            "name": call.name,
            **_arguments(canonical(call), whole=args),
            "kind": "ok" if result.failure is None else result.failure.kind.value,
            "chars": len(result.text),
        }
        if isinstance(call, CheckedCall):
            line |= _origin(call)
        write(json.dumps(line) + "\n")
        return result

    return Hook(after=after)


def _arguments(args: str, *, whole: bool) -> dict[str, str]:
    if whole:
        return {"args": args}
    return {"args_sha256": hashlib.sha256(args.encode("utf-8", "surrogatepass")).hexdigest()}


def _origin(call: CheckedCall) -> dict[str, str]:
    """Return a call's run, turn, principal and decision, if known."""
    line = {"run": call.turn.run_id, "turn": call.turn.id}
    if call.turn.principal is not None:
        line["principal"] = call.turn.principal
    if call.decision is not None:
        line["decision"] = type(call.decision).__name__.lower()
    return line
