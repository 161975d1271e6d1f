"""Regular expressions that every reader of schemas takes."""

from __future__ import annotations

import re

_LONGEST = 1_000
_DIFFERENT = re.compile(r"\[\[|--|&&|~~|\|\||\\[pPuxkcAZzGX]|\(\?(?![:=!])|\(\?<")
"""What readers of expressions do not agree on."""
_LOOKING = re.compile(r"\(\?[=!]|\\[1-9bB]")


def is_portable(pattern: object, *, plain: bool = False) -> bool:
    """Whether an expression means the same to all readers; nothing is matched with it.

    A plain one looks neither ahead nor back, so that a grammar can be made of it.
    """
    if not isinstance(pattern, str) or len(pattern) > _LONGEST or _DIFFERENT.search(pattern):
        return False
    if plain and _LOOKING.search(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
