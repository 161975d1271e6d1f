"""Values inside schemas: what JSON can represent, equality, and portable regular expressions."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from handrail._support import is_list, is_object

_MAX_DEPTH = 64
_MAX_BITS = 1024
"""Size limit for integers. No API accepts larger ones."""
_MAX_PATTERN_CHARS = 1_000
_DIFFERENT = re.compile(r"\[\[|--|&&|~~|\|\||\\[pPuxkcAZzGX]|\(\?(?![:=!])|\(\?<")
"""Syntax whose meaning differs between regular expression engines."""
_LOOKING = re.compile(r"\(\?[=!]|\\[1-9bB]")
_LONE = re.compile("[\ud800-\udfff]")


class Malformed(Exception):
    """A keyword's value is invalid."""


def clean_text(text: str) -> str:
    """Return encodable text."""
    return _LONE.sub("\N{REPLACEMENT CHARACTER}", text)


def data(value: Any, depth: int = 0) -> Any:
    """Copy a plain value. Raises Malformed if JSON cannot represent it."""
    if depth > _MAX_DEPTH:
        raise Malformed
    if is_object(value):
        return {_text(name): data(item, depth + 1) for name, item in value.items()}
    if is_list(value):
        return [data(item, depth + 1) for item in value]
    if isinstance(value, str):
        return _text(value)
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= _MAX_BITS:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise Malformed


def _text(value: Any) -> str:
    if not isinstance(value, str) or _LONE.search(value):
        raise Malformed
    return value


def key(value: Any) -> str:
    """Return the same key for values equal in JSON Schema: 1 and 1.0, not true."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if is_object(value):
        return {name: _plain(item) for name, item in value.items()}
    if is_list(value):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def type_of(value: Any) -> str:
    """Return a value's most specific JSON type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    return next(name for kind, name in _KINDS if isinstance(value, kind))


_KINDS = ((float, "number"), (str, "string"), (list, "array"), (dict, "object"))


def is_portable(pattern: object, *, plain: bool = False) -> bool:
    """Whether a regular expression means the same in all engines. It is not run.

    With ``plain``, it must have no lookaround and no back references, as grammars require.
    """
    if (
        not isinstance(pattern, str)
        or len(pattern) > _MAX_PATTERN_CHARS
        or _DIFFERENT.search(pattern)
    ):
        return False
    if plain and _LOOKING.search(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
