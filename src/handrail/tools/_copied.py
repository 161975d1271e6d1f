r"""What models copy along when they have read a file: line numbers, and characters spelled out."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBERED = re.compile(r" {0,8}([0-9]{1,7})(\t|→|: ?| ?\| ?|$)")
_SURE = frozenset(("\t", "→", ""))
"""What stands between a number and its line in readings, and hardly elsewhere."""
_SPELLED = re.compile(r"\\x([0-9a-f]{2})|\\u\{([0-9a-f]{2,6})\}")
_BYTE = 0x80


class Unnumbered(NamedTuple):
    """Two texts without line numbers, and the number that the first line had.

    Attributes:
        old: The text to look for.
        new: The text to write; None where only some of its lines had numbers.
        first: The number of the first line of the old text.
        sure: Whether the numbers can be nothing else.
    """

    old: str
    new: str | None
    first: int
    sure: bool


def unnumbered(old: str, new: str) -> Unnumbered | None:
    """Both texts without the line numbers of a reading; None if the old one has none.

    Every line has to have one, and they have to count up by one.
    """
    found = [_NUMBERED.match(line) for line in _lines(old)]
    numbers = [int(one[1]) for one in found if one]
    marks = {one[2] for one in found if one}
    if len(numbers) < len(found) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    if not marks - {""}:
        return None
    return Unnumbered(_bare(old), _bare_if_all(new), numbers[0], marks <= _SURE)


def _bare_if_all(text: str) -> str | None:
    having = [bool(_NUMBERED.match(line)) for line in _lines(text) if line.strip()]
    if not any(having):
        return text
    return _bare(text) if all(having) else None


def _bare(text: str) -> str:
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in text.split("\n"))


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def unspelled(old: str, new: str, text: str) -> tuple[str, str] | None:
    """Both with the characters themselves, where a reading of the text would spell them out.

    What the old one spells out has to be in the text; None if it spells out nothing.
    """
    real = {one[0]: _real(one, text) for one in _SPELLED.finditer(old)}
    known = {spelled: one for spelled, one in real.items() if one}
    if not known:
        return None
    for spelled, one in known.items():
        old, new = old.replace(spelled, one), new.replace(spelled, one)
    return old, new


def _real(found: re.Match[str], text: str) -> str:
    code = int(found[1] or found[2], 16)
    as_byte = chr(0xDC00 + code) if found[1] and code >= _BYTE else ""
    choices = [as_byte] if as_byte in text and as_byte else []
    choices += [chr(code)] if code <= 0x10FFFF and chr(code) in text else []  # noqa: PLR2004
    return choices[0] if choices and not choices[0].isprintable() else ""
