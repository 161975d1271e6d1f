"""Reads the tables of pages, for tests that compare them with the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"`(\w[\w.-]*)(?:\([^`]*\))?`")
"""A name in code, with its arguments if it has any."""
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of the same level."""
    level = heading.partition(" ")[0]
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    _, found, below = f"\n{text}".partition(f"\n{heading}\n")
    assert found, f"{page} has no heading {heading!r}"
    return re.split(rf"^#{{1,{len(level)}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(text: str, head: str) -> list[str]:
    """The first column of the table that begins with this head."""
    _, found, below = text.partition(f"| {head} |")
    assert found, f"no table begins with {head!r}"
    rows = below.partition("\n\n")[0].splitlines()[2:]
    return [row.split(" | ")[0].removeprefix("| ") for row in rows]


def names(text: str, head: str) -> list[str]:
    """The names in that column."""
    return [name for cell in first_cells(text, head) for name in NAME.findall(cell)]
