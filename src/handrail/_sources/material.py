"""Material: the text in a result that a stranger may have written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from handrail._schema.marks import find_leaves
from handrail._support import is_list, is_object
from handrail._values.result import Result

_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.+Z-]*)?")


def has_material(result: Result) -> bool:
    """Return whether a stranger may have written text in a result.

    A number, a truth value, a date, or one of the developer's choices is no such text.
    """
    own = {one.value for one in result.own}
    if result.data is None:
        return bool(result.text) and result.text not in own
    value: Any = json.loads(result.data)
    words = list(list_words(value))
    if isinstance(value, int | float) or (len(words) == 1 and _DATE.fullmatch(words[0])):
        return False
    return any(leaf.value not in own for leaf in find_leaves(value))


def list_words(value: Any) -> Iterator[str]:
    """Yield the strings, numbers and keys in a value."""
    if is_object(value):
        for key, item in value.items():
            yield str(key)
            yield from list_words(item)
    elif is_list(value):
        for item in value:
            yield from list_words(item)
    else:
        yield from (leaf.value for leaf in find_leaves(value))
