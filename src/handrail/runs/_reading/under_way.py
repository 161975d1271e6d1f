"""Replies under way: their text comes before the journal has them."""

from __future__ import annotations

import json

from handrail.runs._store.port import Select

MAX_CHARS = 2_000
"""Characters of a reply under way for a page: the last ones."""


def read_text(select: Select, run: str) -> str:
    """Return the end of the text that a run's model writes now, or ""."""
    sql = "SELECT turn, attempt, number, body FROM handrail_piece WHERE run = :run"
    try:
        rows = sorted(select(sql, {"run": run}))
        latest = [json.loads(row[3]) for row in rows if row[:2] == rows[-1][:2]]
        texts = [text for pieces in latest for kind, text, *_ in pieces if kind == "text"]
        return "".join(texts)[-MAX_CHARS:]
    except (TypeError, ValueError):  # not written by us
        return ""


def count_texts(select: Select) -> dict[str, int]:
    """Return the runs whose models write now, each with a number that then changes."""
    return dict(select("SELECT run, COUNT(*) FROM handrail_piece GROUP BY run", {}))
