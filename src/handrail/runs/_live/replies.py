"""Find a reply's whole text: the journal may only have its beginning."""

from __future__ import annotations

import json
from typing import Any

from handrail.runs._live.port import WatchedStore
from handrail.runs.lines import LineFields

_STEP = (
    "SELECT body FROM handrail_step WHERE run = :run AND segment = :segment AND number = :number"
)


def find_text(store: WatchedStore, run: str, line: LineFields) -> str:
    """Return a reply's whole text, or what its journal line has if nothing else is known."""
    segment, _, number = str(line.get("step", "")).partition("/")
    if not number:
        return str(line.get("text", ""))
    place = {"run": run, "segment": int(segment), "number": int(number)}
    for (body,) in store.select(_STEP, place):
        parts: list[dict[str, Any]] = json.loads(body)["reply"]
        return "".join(part["text"] for part in parts if "text" in part)
    return str(line.get("text", ""))
