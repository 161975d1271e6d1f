"""Find a long reply's text: the journal only has its beginning."""

from __future__ import annotations

import json
from typing import Any

from handrail.runs._live.port import WatchedStore
from handrail.runs.lines import MAX_TEXT_CHARS

_STEPS = "SELECT body FROM handrail_step WHERE run = :run ORDER BY segment, number"


def find_text(store: WatchedStore, run: str, number: int, beginning: str) -> str:
    """Return a reply's whole text, or its beginning if nothing else is known.

    Args:
        store: Has the run.
        run: The run's id.
        number: The reply line's number.
        beginning: The reply line's text.
    """
    lines = [line for line in store.read(run, kinds=("reply",)) if line.number < number]
    before = sum(line.content.get("text") == beginning for line in lines)
    steps: list[Any] = [json.loads(body) for (body,) in store.select(_STEPS, {"run": run})]
    texts = [_join(step["reply"]) for step in steps if "reply" in step]
    same = [text for text in texts if text[:MAX_TEXT_CHARS] == beginning]
    return same[before] if before < len(same) else beginning


def _join(parts: list[dict[str, Any]]) -> str:
    return "".join(part["text"] for part in parts if "text" in part)
