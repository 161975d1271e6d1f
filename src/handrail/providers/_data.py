"""Values inside schemas: which of them JSON can carry, and which are the same."""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeGuard

_DEEPEST = 64
_WIDEST = 1024
"""Bits of a whole number: further ones no reader takes."""
_LONE = re.compile("[\ud800-\udfff]")


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether this is what JSON calls an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether this is what JSON calls an array."""
    return isinstance(value, list)


class Malformed(Exception):
    """A keyword does not have the form that it must have."""


def clean_text(text: str) -> str:
    """Text that can be encoded."""
    return _LONE.sub("\N{REPLACEMENT CHARACTER}", text)


def data(value: Any, depth: int = 0) -> Any:
    """A copy of a plain value that JSON can carry; raises Malformed where it cannot."""
    if depth > _DEEPEST:
        raise Malformed
    if is_object(value):
        return {_text(name): data(one, depth + 1) for name, one in value.items()}
    if is_list(value):
        return [data(one, depth + 1) for one in value]
    if isinstance(value, str):
        return _text(value)
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= _WIDEST:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise Malformed


def _text(value: Any) -> str:
    if not isinstance(value, str) or _LONE.search(value):
        raise Malformed
    return value


def key(value: Any) -> str:
    """Equal for values that JSON Schema calls equal: 1 and 1.0, but not 1 and true."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if is_object(value):
        return {name: _plain(one) for name, one in value.items()}
    if is_list(value):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def type_of(value: Any) -> str:
    """The most exact type of a JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    return next(name for kind, name in _KINDS if isinstance(value, kind))


_KINDS = ((float, "number"), (str, "string"), (list, "array"), (dict, "object"))
