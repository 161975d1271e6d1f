"""Parse JSON text strictly. The only file that imports jiter.

jiter is the parser inside pydantic, as a package. It rejects duplicate keys, numbers that are not
JSON, and surrogate halves. It is loaded with the first tool.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

import jiter

from handrail._support import is_list, is_object
from handrail._values.strict_json import JsonPath, format_path, format_value

MAX_DEPTH = 64

_FLAW = re.compile("[\0\ud800-\udfff]")
_INFINITE = (math.inf, -math.inf)
_CONTAINERS = frozenset((list, dict))


class NotJson(Exception):
    """Invalid JSON text or values, or ones not accepted here. The message is for a model."""


def read(text: str) -> Any:
    """Parse JSON text. Raises NotJson, also for text other parsers accept."""
    try:
        value = jiter.from_json(text.encode(), catch_duplicate_keys=True, allow_inf_nan=False)
    except ValueError:
        value = _read_to_explain(text)
        check(value, texts=True)
    else:
        check(value, texts="\\u0000" in text)
    return value


def _read_to_explain(text: str) -> Any:
    """Parse text rejected by jiter, to describe the mistake for a model."""
    try:
        return json.loads(
            text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise NotJson(_describe_syntax_error(text, error)) from None
    except RecursionError:
        raise NotJson(_TOO_DEEP) from None
    except ValueError:  # int() rejects thousands of digits
        raise NotJson("a number has too many digits") from None


def check(value: Any, *, texts: bool = False) -> None:
    """Refuse deep nesting and infinities in a JSON value and, with ``texts``, invalid strings."""
    is_suspect = texts
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        if not level:
            break
        kinds = set(map(type, level))
        if float in kinds and any(number in level for number in _INFINITE):
            is_suspect = True
        level = [] if _CONTAINERS.isdisjoint(kinds) else _values_below(level)
    if level:
        raise NotJson(_TOO_DEEP)
    if is_suspect:
        _refuse_flaws(value, ())


def count_values(value: Any) -> int:
    """Return the number of values in a JSON value, including itself."""
    count, level = 0, [value]
    while level:
        count += len(level)
        level = _values_below(level)
    return count


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise NotJson(f"the key {format_value(twice)} occurs twice in one object")
    return made


def _refuse_constant(name: str) -> Any:
    raise NotJson(f"{name} is not valid JSON")


def _values_below(level: list[Any]) -> list[Any]:
    """Return the values inside one level's lists and objects, in order.

    Works by levels, since large lists are then cheap, and deep nesting needs no recursion.
    """
    if _CONTAINERS.isdisjoint(map(type, level)):
        return []
    below: list[Any] = []
    for node in level:
        if type(node) is list:
            below += node
        elif type(node) is dict:
            below += node.values()
    return below


def _refuse_flaws(value: Any, path: JsonPath) -> None:
    """Refuse infinities and invalid strings at any path."""
    if is_object(value):
        for key, item in value.items():
            _refuse_flaws(key, (*path, key))
            _refuse_flaws(item, (*path, key))
    elif is_list(value):
        for at, item in enumerate(value):
            _refuse_flaws(item, (*path, at))
    elif value in _INFINITE:
        raise NotJson(f"{format_path(path)}: the number is too large")
    elif isinstance(value, str) and _FLAW.search(value):
        what = "a NUL character" if "\0" in value else "half of a surrogate pair"
        raise NotJson(f"{format_path(path)}: the text has {what}")


_TOO_DEEP = f"the arguments are nested more than {MAX_DEPTH} levels deep. Nest them less deeply"


def _describe_syntax_error(text: str, error: json.JSONDecodeError) -> str:
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return (
            f"the JSON ends too early, after {len(text)} characters. "
            "If it was cut off, send it in smaller pieces"
        )
    near = format_value(text[max(0, error.pos - 10) : error.pos + 10])
    return f"invalid JSON at line {error.lineno}, column {error.colno}, near {near}"
