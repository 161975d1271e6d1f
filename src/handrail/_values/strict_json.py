"""JSON as canonical bytes or as text for people, and paths into a JSON value."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from handrail._support import is_list, is_object

MAX_SHOWN_CHARS = 80

JsonPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes, from the outside in."""


def replace_at(value: Any, path: JsonPath, part: Any) -> Any:
    """Return a JSON value with another part at a path. Everything else is shared, not copied."""
    if not path:
        return part
    copy = value.copy()
    copy[path[0]] = replace_at(copy[path[0]], path[1:], part)
    return copy


def canonical(value: object, errors: str = "strict") -> bytes:
    """Return JSON with sorted keys and no whitespace, in UTF-8: equal values give equal bytes."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode(errors=errors)


def has(value: Any, step: str | int) -> bool:
    """Return whether a JSON value has something at this key or index."""
    if is_list(value):
        return isinstance(step, int) and step < len(value)
    return is_object(value) and step in value


def format_path(path: Iterable[str | int]) -> str:
    """Return a path as people write it: ``lines[2].sku``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{_visible(step)}" for step in path)
    return clip("".join(steps).removeprefix(".")) or "the arguments"


def format_value(value: Any) -> str:
    """Return a JSON value in at most 80 visible characters."""
    text = json.dumps(value, ensure_ascii=False)
    return clip(text if text.isprintable() else json.dumps(value))


def clip(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    """Return text of at most ``most`` characters; a cut text ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _visible(key: str) -> str:
    key = clip(key, 2 * MAX_SHOWN_CHARS)  # the path is cut again, but a key can be very long
    return key if key.isprintable() else json.dumps(key)
