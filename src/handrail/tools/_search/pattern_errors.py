"""Explains to a model why ripgrep rejected a pattern."""

from __future__ import annotations

import re

from handrail import ToolFailed

_KNOWN = (
    (
        re.compile(r"backreferences are not"),
        (
            r"Backreferences such as \1 are not supported. Use a simpler pattern, and compare the "
            r"matching lines."
        ),
    ),
    (
        re.compile(r"look-around, including"),
        (
            "Look-ahead and look-behind are not supported. Remove them, and choose among the "
            "matching lines."
        ),
    ),
    (
        re.compile(r"size limit|nested|too large"),
        "The pattern is too large. Use fewer or smaller repetitions and groups.",
    ),
    (
        re.compile(r"not allowed in a regex"),
        (
            "The pattern matches a line break, but the search goes line by line. Pass "
            "multiline=true to match across lines."
        ),
    ),
    (
        re.compile(r"unrecognized file type: (.*)"),
        "There is no file type '{}'. Pass a glob such as '*.py' instead.",
    ),
)


def pattern_error(errors: str) -> ToolFailed:
    """Return the error to raise for what ripgrep printed."""
    for known, message in _KNOWN:
        if match := known.search(errors):
            return ToolFailed(message.format(*match.groups()))
    why = re.search(r"^error: (.+)$", errors, re.MULTILINE)
    if why is None:
        return ToolFailed("The search failed. Try a simpler pattern.")
    return ToolFailed(
        f"The pattern is not a valid regular expression: {why[1]}. Escape special characters with "
        "a backslash, or pass fixed_strings=true."
    )
