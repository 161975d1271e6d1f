"""Why a search engine would not take a question, in words for a model."""

from __future__ import annotations

import re

from handrail import ToolFailed

_KNOWN = (
    (
        re.compile(r"backreferences are not|invalid escape sequence: \\\d"),
        (
            r"The pattern has a backreference such as \1, which this search does not know. Look "
            r"for what is repeated in the lines that a simpler pattern finds."
        ),
    ),
    (
        re.compile(r"look-around, including|invalid perl operator: \(\?[<=!]"),
        (
            "The pattern has a look-ahead or look-behind, which this search does not know. Leave "
            "it out, and pick from the lines that are found."
        ),
    ),
    (
        re.compile(r"size limit|nested|too large|repetition size"),
        ("The pattern is too large. Use fewer or smaller repetitions and groups."),
    ),
    (
        re.compile(r"not allowed in a regex"),
        (
            "The pattern matches a line break, but a search goes line by line. Pass "
            "multiline=true to match across lines."
        ),
    ),
    (
        re.compile(r"unrecognized file type"),
        ("There is no such type of file. Leave type out, and pass a glob such as '*.py' instead."),
    ),
)


def complaint(errors: str) -> ToolFailed:
    """What to raise for what an engine said."""
    for known, words in _KNOWN:
        if known.search(errors):
            return ToolFailed(words)
    why = re.search(r"^error: (.+)$", errors, re.MULTILINE)
    if why is None:
        return ToolFailed("The search could not be made. Try a simpler pattern.")
    return ToolFailed(
        f"The pattern is no regular expression: {why[1]}. Put a backslash before characters that "
        "are meant as they are, or pass fixed_strings=true."
    )
