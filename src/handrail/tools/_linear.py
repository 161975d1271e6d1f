"""Finding without ripgrep, in linear time: plain text by itself, expressions by google-re2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, TypeAlias

from handrail import ToolFailed
from handrail.tools._complaints import complaint
from handrail.tools._scope import Query

Find: TypeAlias = Callable[[str], Iterator[tuple[int, int]]]
"""From a text to where each match begins and ends: what it takes to read it is paid once."""
_DEEPEST: Final = 250
"""Parentheses, as many as ripgrep lets stand in one another."""
_SPECIAL: Final = re.compile(r"[\\.^$|?*+()\[\]{}]")


def finder(query: Query) -> Find:
    """What finds the pattern of a query in a text. Raises ToolFailed where nothing here can."""
    if query.fixed or not _SPECIAL.search(query.pattern):
        return _plain(query.pattern, ignore_case=query.ignore_case)
    if query.pattern.count("(") > _DEEPEST:
        raise complaint("nested")
    try:
        re2: Any = import_module("re2")  # an extra, and without types
    except ModuleNotFoundError:
        raise ToolFailed(
            "Only plain text can be searched for here: pass fixed_strings=true. (For regular "
            "expressions, whoever runs this program installs: pip install 'handrail[search]'.)"
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not query.ignore_case
    try:
        compiled = re2.compile(
            f"(?ms){query.pattern}" if query.multiline else query.pattern, options
        )
    except re2.error as error:
        why = error.args[0]
        raise complaint(f"error: {why.decode() if isinstance(why, bytes) else why}") from None

    def find(text: str) -> Iterator[tuple[int, int]]:
        return (found.span() for found in compiled.finditer(text))

    return find


def _plain(wanted: str, *, ignore_case: bool) -> Find:
    wanted = wanted.lower() if ignore_case else wanted

    def find(text: str) -> Iterator[tuple[int, int]]:
        text = text.lower() if ignore_case else text
        start = text.find(wanted)
        while start >= 0:
            end = start + len(wanted)
            yield start, end
            start = text.find(wanted, max(end, start + 1))

    return find
