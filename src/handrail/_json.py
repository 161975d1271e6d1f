"""JSON, read as strictly as it can be read, and the places in it, as people name them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from handrail._content import is_list, is_object

MAX_DEPTH = 64
MAX_SHOWN = 80

Path: TypeAlias = tuple[str | int, ...]
"""Keys and places, from the outside in."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class NotJson(Exception):
    """Text or values that are not the JSON we take; the message is for a model."""


def read(text: str) -> Any:
    """Read JSON text; NotJson where it is not JSON, or hides what other readers let pass."""
    try:
        value = json.loads(text, object_pairs_hook=_no_key_twice, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise NotJson(_not_json(text, error)) from None
    except RecursionError:
        raise NotJson(_TOO_DEEP) from None
    except ValueError:  # int() refuses thousands of digits
        raise NotJson("a number has too many digits") from None
    check(value)
    return value


def check(value: Any) -> None:
    """Refuse infinities, NUL, half characters and bottomless nesting anywhere in a JSON value."""
    for path, leaf in _walk(value):
        if len(path) > MAX_DEPTH:
            raise NotJson(_TOO_DEEP)
        if isinstance(leaf, float) and math.isinf(leaf):
            raise NotJson(f"{place(path)}: the number is too large")
        if isinstance(leaf, str) and "\0" in leaf:
            raise NotJson(f"{place(path)}: the text has a NUL character")
        if isinstance(leaf, str) and _SURROGATE.search(leaf):
            raise NotJson(f"{place(path)}: the text has half of a surrogate pair")


def canonical(value: object, errors: str = "strict") -> bytes:
    """JSON with sorted keys and no white space, in UTF-8: equal values give equal bytes."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode(errors=errors)


def has(value: Any, step: str | int) -> bool:
    """Whether a JSON value has something at this key or place."""
    if is_list(value):
        return isinstance(step, int) and step < len(value)
    return is_object(value) and step in value


def place(path: Iterable[str | int]) -> str:
    """A path as people write it: ``lines[2].sku``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{_visible(step)}" for step in path)
    return clipped("".join(steps).removeprefix(".")) or "the arguments"


def shown(value: Any) -> str:
    """A JSON value, in at most 80 visible characters."""
    text = json.dumps(value, ensure_ascii=False)
    return clipped(text if text.isprintable() else json.dumps(value))


def clipped(text: str, most: int = MAX_SHOWN) -> str:
    """Text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _visible(key: str) -> str:
    return key if key.isprintable() else json.dumps(key)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise NotJson(f"the key {shown(twice)} stands twice in one object")
    return made


def _no_constant(name: str) -> Any:
    raise NotJson(f"{name} is not a number that JSON has")


def _walk(value: Any) -> Iterator[tuple[Path, Any]]:
    """Every value and key with its path; iterative, since depth is what it looks for."""
    todo: list[tuple[Path, Any]] = [((), value)]
    while todo:
        path, node = todo.pop()
        yield path, node
        if is_object(node):
            todo += [((*path, key), key) for key in node]
            todo += [((*path, key), item) for key, item in node.items()]
        elif is_list(node):
            todo += [((*path, at), item) for at, item in enumerate(node)]


_TOO_DEEP = f"they are nested more than {MAX_DEPTH} levels deep. Send them flatter"


def _not_json(text: str, error: json.JSONDecodeError) -> str:
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return (
            f"the JSON ends too early, after {len(text)} characters. "
            "If it was cut off, send it in smaller pieces"
        )
    near = shown(text[max(0, error.pos - 10) : error.pos + 10])
    return f"they are not valid JSON at line {error.lineno}, column {error.colno}, near {near}"
