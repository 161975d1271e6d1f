"""Read data from a provider. Missing, unknown or mistyped values are tolerated."""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

from handrail.messages import Usage

Names: TypeAlias = Mapping[str, str]
"""Maps names sent to a provider to tool names."""
Data: TypeAlias = Mapping[str, Any]
"""A JSON object from a provider. No key is certain to exist."""

NO_NAMES: Names = MappingProxyType({})
NOTHING: Data = MappingProxyType({})
FINDER_KEY = "<tool_search_call>"
"""The key in ``names`` for the tool with the search. No API allows a tool with this name."""

_URL_SAFE = str.maketrans("-_", "+/")
_HALF = re.compile("[\ud800-\udfff]")


def text_at(value: Data, key: str) -> str:
    """Return the text at a key, or an empty text."""
    content = value.get(key)
    return content if isinstance(content, str) else ""


def count_at(value: Data, key: str) -> int:
    """Return the number at a key, or 0."""
    content = value.get(key)
    return content if isinstance(content, int) and content > 0 else 0


def index_at(value: Data, key: str = "index") -> int | str | None:
    """Return a part's index, or None if missing or malformed."""
    content = value.get(key)
    return content if isinstance(content, int | str) else None


def object_at(value: Data, key: str) -> Data:
    """Return the object at a key, or an empty one."""
    content = value.get(key)
    return cast("Data", content) if isinstance(content, Mapping) else NOTHING


def objects_at(value: Data, key: str) -> Iterator[Data]:
    """Yield the objects in the list at a key. Other values are skipped."""
    content = value.get(key)
    if isinstance(content, list | tuple):
        yield from (item for item in cast("list[Any]", content) if isinstance(item, Mapping))


def args_at(value: Data, key: str) -> str:
    """Return the arguments at a key as JSON text. Text is returned unchanged."""
    content = value.get(key)
    if isinstance(content, str):
        return content
    return "" if content is None else dump(content)


def larger_usage(usage: Usage, other: Usage) -> Usage:
    """Return the larger of each count. Counts grow during a reply."""
    names = [field.name for field in fields(Usage)]
    return Usage(**{name: max(getattr(usage, name), getattr(other, name)) for name in names})


def dump(value: object) -> str:
    """Return a value as compact JSON text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def dump_opaque(value: object) -> str:
    """Return data from a provider or its SDK as JSON text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    """Return an SDK value as JSON has it: bytes as base64, an enum as its value."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return dict(cast("Data", value)) if isinstance(value, Mapping) else getattr(value, "value", "")


def read_bytes(data: object) -> bytes | None:
    """Return bytes, also from base64 in either alphabet, or None if it is neither."""
    if not isinstance(data, str):
        return data if isinstance(data, bytes) else None
    text = data.translate(_URL_SAFE)
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None


def more_fields(value: Data, known: Collection[str]) -> dict[str, Any]:
    """Return an object's unknown, non-empty fields."""
    return {key: item for key, item in value.items() if key not in known and _has_content(item)}


def _has_content(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_content, cast("Data", value).values()))
    return value not in (None, False, "", [])


def is_complete(text: str) -> bool:
    """Whether a text is a complete JSON object, list or string.

    Only these show where they end. A number could have more digits.
    """
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def is_broken_off(text: str) -> bool:
    """Whether a text is valid JSON except for its missing end."""
    try:
        json.loads(text or "{}")
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    except RecursionError:
        return False
    return False


def join_surrogates(text: str) -> str:
    """Join split surrogate pairs."""
    if not _HALF.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def sendable(text: str) -> str:
    """Return text for UTF-8, replacing a lone surrogate by U+FFFD."""
    return _HALF.sub("\ufffd", join_surrogates(text))


class ArgumentObject(NamedTuple):
    """Arguments as an object."""

    value: dict[str, Any]
    exact: bool
    """Whether the text can be sent unchanged."""


def arguments(args: Mapping[str, Any] | str) -> ArgumentObject | None:
    """Parse arguments as an object, also from JSON inside a JSON string, or None on failure."""
    try:
        value, exact = _load(args if isinstance(args, str) else dump(dict(args)))
        if isinstance(value, str):
            value, exact = _load(value)[0], False
    except (TypeError, ValueError, RecursionError):
        return None
    return ArgumentObject(cast("dict[str, Any]", value), exact) if isinstance(value, dict) else None


def _load(text: str) -> tuple[Any, bool]:
    value = json.loads(
        text, object_pairs_hook=_pairs, parse_float=_number, parse_constant=_refuse_constant
    )
    again = dump(value)
    if _HALF.search(again) or _HALF.search(text):
        return json.loads(sendable(again)), False
    return value, True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise ValueError("Duplicate key.")
    return read


def _number(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError("Number too large.")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON.")
