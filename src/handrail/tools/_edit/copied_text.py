"""Removes text models copy from read's output: line numbers and spelled out characters."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

_NUMBERED = re.compile(r" {0,8}([0-9]{1,7})(\t|→|: ?| ?\| ?|$)")
_SURE = frozenset(("\t", "→", ""))
"""Separators between number and line, found only in a read tool's output."""
_SPELLED = re.compile(r"\\x([0-9a-f]{2})|\\u\{([0-9a-f]{2,6})\}")
_BYTE = 0x80


class StrippedTexts(NamedTuple):
    """Two texts without line numbers, and the number the first line had.

    Attributes:
        old: The text to find.
        new: The text to write; None if only some lines had numbers.
        first: The old text's first line number.
        sure: Whether the numbers are certainly line numbers.
    """

    old: str
    new: str | None
    first: int
    sure: bool


def strip_line_numbers(old: str, new: str) -> StrippedTexts | None:
    """Return both texts without line numbers; None if the old one has none.

    Every line must have a number, and the numbers must increase by one.
    """
    matches = [_NUMBERED.match(line) for line in _split_lines(old)]
    numbers = [int(match[1]) for match in matches if match]
    marks = {match[2] for match in matches if match}
    if len(numbers) < len(matches) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    if not marks - {""}:
        return None
    return StrippedTexts(
        _strip_numbers(old), _strip_if_all_numbered(new), numbers[0], marks <= _SURE
    )


def _strip_if_all_numbered(text: str) -> str | None:
    having = [bool(_NUMBERED.match(line)) for line in _split_lines(text) if line.strip()]
    if not any(having):
        return text
    return _strip_numbers(text) if all(having) else None


def _strip_numbers(text: str) -> str:
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in text.split("\n"))


def _split_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def restore_characters(old: str, new: str, text: str) -> tuple[str, str] | None:
    """Return both texts with the characters ``read`` spells out; None if there are none.

    Only characters in the file's text are restored.
    """
    characters = {match[0]: _find_character(match, text) for match in _SPELLED.finditer(old)}
    known = {spelled: character for spelled, character in characters.items() if character}
    if not known:
        return None
    for spelled, character in known.items():
        old, new = old.replace(spelled, character), new.replace(spelled, character)
    return old, new


def _find_character(match: re.Match[str], text: str) -> str:
    code = int(match[1] or match[2], 16)
    as_byte = chr(0xDC00 + code) if match[1] and code >= _BYTE else ""
    choices = [as_byte] if as_byte in text and as_byte else []
    choices += [chr(code)] if code <= sys.maxunicode and chr(code) in text else []
    return choices[0] if choices and not choices[0].isprintable() else ""
