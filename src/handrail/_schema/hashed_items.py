"""Sets whose items cannot be chosen to take very long to compare.

Python finds a set's item by its hash. Anyone can find many numbers, or tuples of numbers, with the
same hash, and each is then compared with all others. String hashes are secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

_MAX_UNCHECKED_ITEMS = 500
"""Set items that take no time to compare, whatever their hashes."""
_MAX_SAME_HASH = 8
"""Different items with the same hash: by chance, there are hardly ever two."""
_SECRET = frozenset("str bytes bool none literal enum float date time datetime url".split())
"""Schemas for items whose hashes are secret, or which are few."""
_SETS: dict[str, Callable[[Iterable[Any]], Any]] = {"set": set, "frozenset": frozenset}
_OUTER = ("ref", "metadata", "serialization")
_LENGTHS = ("min_length", "max_length")


def guard_set(core: dict[str, Any]) -> dict[str, Any]:
    """Return a set's schema that reads a list first, if its items need it."""
    kind, item = core["type"], core.get("items_schema", {"type": "any"})
    if item["type"] in _SECRET:
        return core
    apart = ("type", *_OUTER, *_LENGTHS)
    made: dict[str, Any] = {
        "type": "function-after",
        "function": {"type": "no-info", "function": partial(_collect, _SETS[kind])},
        "schema": {**{key: core[key] for key in core if key not in apart}, "type": "list"},
    }
    lengths = {key: core[key] for key in _LENGTHS if key in core}
    if lengths:
        made = {"type": "chain", "steps": [made, {"type": kind, **lengths}]}
    return made | {key: core[key] for key in _OUTER if key in core}


def _collect(kind: Callable[[Iterable[Any]], Any], items: list[Any]) -> Any:
    if len(items) > _MAX_UNCHECKED_ITEMS:
        hashes = list(map(hash, items))
        if len(items) - len(set(hashes)) >= _MAX_SAME_HASH:
            _refuse_same_hashes(items, hashes)
    return kind(items)


def _refuse_same_hashes(items: list[Any], hashes: list[int]) -> None:
    seen: dict[int, list[Any]] = {}
    for item, key in zip(items, hashes, strict=True):
        same = seen.setdefault(key, [])
        if item not in same:
            same.append(item)
            if len(same) > _MAX_SAME_HASH:
                raise ValueError(
                    f"the items take too long to compare; send at most {_MAX_UNCHECKED_ITEMS}"
                )
