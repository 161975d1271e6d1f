"""Regular expressions in linear time: the only module that knows google-re2."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from handrail.policy._errors import Unusable


def regex(pattern: str) -> Callable[[str], bool]:
    """A test of a whole text. Takes time that grows with the text alone, whatever the pattern."""
    try:
        re2: Any = import_module("re2")  # an extra, and without types
    except ImportError:
        raise Unusable(
            "a rule has a regex, which needs google-re2: pip install 'handrail[rules]'"
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise Unusable(f"{pattern!r} is no regex that is matched in linear time: {why}") from None

    def fits(text: str) -> bool:
        try:
            return compiled.fullmatch(text) is not None
        except UnicodeEncodeError:  # half a character, which nothing that is written can mean
            return False

    return fits
