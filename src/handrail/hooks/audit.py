"""An audit: one line of JSON for every result, refused calls' too."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from handrail import Call, Result
from handrail.hooks._hook import Clock, Hook, canonical


def audit(write: Callable[[str], object], *, args: bool = False, clock: Clock = time.time) -> Hook:
    """Write a line for every result: when, which call, how it ended, how long the text is.

    The arguments stand in it as a SHA-256 of their canonical JSON, or whole if ``args`` is true.
    Use its ``after``. Where ``write`` raises, the result is withheld from the model.
    """

    async def after(call: Call, result: Result) -> Result:
        line: dict[str, Any] = {
            "time": clock(),
            "call_id": call.id,
            "name": call.name,
            **_told(canonical(call), whole=args),
            "kind": "ok" if result.failure is None else result.failure.kind.value,
            "chars": len(result.text),
        }
        write(json.dumps(line) + "\n")
        return result

    return Hook(after=after)


def _told(args: str, *, whole: bool) -> dict[str, str]:
    if whole:
        return {"args": args}
    return {"args_sha256": hashlib.sha256(args.encode("utf-8", "surrogatepass")).hexdigest()}
