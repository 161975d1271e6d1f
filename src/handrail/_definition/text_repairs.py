"""Repair argument text that is JSON but for one slip with one reading: a code fence, a comma."""

from __future__ import annotations

import json
from typing import NamedTuple

from handrail._schema.json_reader import NotJson, read

MAX_CHARS = 100_000
"""Limit on text to repair: it is parsed again for each slip."""
FENCED = "the arguments: the code fence around them was removed"
COMMA = "the arguments: a comma before the end of a list or an object was removed"
NULL = "the arguments: null was read as no arguments"
_FENCE = "```"


class RepairedText(NamedTuple):
    """JSON text, and a note on each slip it had."""

    text: str
    notes: tuple[str, ...]


def repair_text(text: str) -> RepairedText | None:
    """Return the intended JSON text; None if there is no single reading."""
    if len(text) > MAX_CHARS:
        return None
    notes: list[str] = []
    for change, note in ((_open_fence, FENCED), (_drop_comma, COMMA)):
        changed = change(text)
        if changed is not None:
            text = changed
            notes.append(note)
    try:
        read(text)
    except NotJson:
        return None
    return RepairedText(text, tuple(notes)) if notes else None


def _open_fence(text: str) -> str | None:
    """Return the content of a code fence around the whole text."""
    whole = text.strip()
    language, newline, rest = whole.removeprefix(_FENCE).partition("\n")
    is_fenced = whole.startswith(_FENCE) and newline and language.strip().lower() in {"", "json"}
    inside = rest.removesuffix(_FENCE)
    return inside.strip() if is_fenced and inside != rest and _FENCE not in inside else None


def _drop_comma(text: str) -> str | None:
    """Return the text without the comma at which it stops being JSON, if a value ends there."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        before = text[: error.pos + (text[error.pos : error.pos + 1] == ",")].rstrip()
        after = text[len(before) :].lstrip()
        is_extra = before.endswith(",") and before[:-1].rstrip()[-1:] not in {"", "{", "[", ","}
        return before[:-1] + after if is_extra and after[:1] in {"}", "]"} else None
    except (ValueError, RecursionError):
        pass
    return None
