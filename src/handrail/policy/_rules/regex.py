"""Regular expressions in linear time. The only module that imports google-re2."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from handrail.policy._rules.errors import InvalidRule


def compile_regex(pattern: str) -> Callable[[str], bool]:
    """Return a test for whole texts in linear time, for every pattern."""
    try:
        # `re` takes forever on some patterns, and no one can stop its thread: decision 002
        re2: Any = import_module("re2")  # an extra, and without types
    except ImportError:
        raise InvalidRule(
            "a rule with a regex needs google-re2: pip install 'handrail[rules]'"
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise InvalidRule(f"invalid regex {pattern!r}, read as RE2: {why}") from None

    def fits(text: str) -> bool:
        try:
            return compiled.fullmatch(text) is not None
        except UnicodeEncodeError:  # a lone surrogate, which no pattern can name
            return False

    return fits
