"""Names: how people write a person or file name known to your own systems."""

from __future__ import annotations

import re

_TITLES = "dr|prof|mr|mrs|ms|mx|mme|mlle|hr|fr|sr|sra|srta|dott|ing|mag|st"
_TITLE_DOT = re.compile(rf"(?<![\w.\-])({_TITLES})\.(?= )")
_TITLE = re.compile(rf"(?:(?:{_TITLES})\.? )+")
_FILE = re.compile(r"(.{4,}[ _\-].*)\.[a-z][a-z0-9]{1,4}")
"""A file's name with several words."""
_WIDE_GAP = re.compile("(?<=[\u3040-\u30ff\u3400-\u9fff])[ ・](?=[\u3040-\u30ff\u3400-\u9fff])")
"""Between a person's two names, in Japanese."""
_MAX_CHARS = 200
_MARKS = str.maketrans("\u2018\u2019\u2010\u2011\u2012\u2013\u2014\u2212", "''------")
"""Apostrophes and dashes that programs put instead of those on a keyboard."""


def drop_title_dots(text: str) -> str:
    """Return a text without the dots after titles: ``dr. moreau`` becomes ``dr moreau``."""
    return _TITLE_DOT.sub(r"\1", text) if ". " in text else text


def type_marks(text: str) -> str:
    """Return a text with apostrophes and dashes as on a keyboard."""
    return text if text.isascii() else text.translate(_MARKS)


def list_stems(name: str) -> list[str]:
    """Return a file's name with several words, without its ending, or nothing."""
    file = _FILE.fullmatch(name)
    return [file[1]] if file else []


def spell_names(name: str) -> list[str]:
    """Return a name, and what people write for it.

    They leave out a title, put the first name first, or leave out a file's ending. Its apostrophes
    and dashes may differ.
    """
    if len(name) > _MAX_CHARS:
        return [name]
    plain = _TITLE.sub("", name, count=1) if _TITLE.match(name) else name
    last, comma, first = plain.partition(", ")
    if comma and first and "," not in first:
        plain = f"{first} {last}"
    names = [name, plain, *list_stems(name)]
    if not name.isascii():
        names.append(_WIDE_GAP.sub("", name))
    return list(dict.fromkeys([*names, *map(type_marks, names)]))
