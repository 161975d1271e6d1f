"""Look-alike characters used for one another: quotes, dashes, spaces, accents.

Letters from different alphabets are not among them, even if they look alike: they make other names.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right

_GROUPS = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u00b4\u02bc",
    '"': "\u201c\u201d\u201e\u201f\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    " ": "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u202f\u205f\u3000",
    "...": "\u2026",
    "": "\u00ad\u200b\u200c\u200d\u2060\ufe0e\ufe0f\ufeff",
}
SPACES = " \t" + _GROUPS[" "]
"""Every space look-alike."""
_PLAIN = {character: plain for plain, group in _GROUPS.items() for character in group}
_MAX_SEAM_MOVES = 16
"""Characters a seam is moved to keep an accent with its letter."""
_ANY = re.compile("[" + "".join(_PLAIN) + "]")
_UNSEEN = re.compile("[" + _GROUPS[" "] + _GROUPS[""] + "]")
"""Spaces, and characters without a shape."""


def unify_lookalikes(text: str) -> str:
    """Return the text with one spelling for look-alikes."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ANY.sub(lambda found: _PLAIN[found[0]], text))


def unify_unseen(text: str) -> str:
    """Return the text with one spelling for characters no reader can tell apart."""
    return unicodedata.normalize("NFC", _UNSEEN.sub(lambda found: _PLAIN[found[0]], text))


def find_column(line: str, at: int, *, after: bool) -> int | None:
    """Return a line's column that `unify_lookalikes` moves to a given column.

    Several columns qualify next to an invisible character: with ``after``, the last of them. None
    inside a character group.
    """
    search = bisect_right if after else bisect_left
    place = search(range(len(line) + 1), at, key=lambda end: len(unify_lookalikes(line[:end])))
    place = min(place - after, len(line))
    whole = unify_lookalikes(line)
    parts = (unify_lookalikes(line[:place]), unify_lookalikes(line[place:]))
    return place if parts == (whole[:at], whole[at:]) else None


def keep_characters(new: str, old: str, theirs: str) -> str:
    """Return a changed line, keeping the file's characters where the edit changes nothing."""
    if unify_lookalikes(old) != unify_lookalikes(theirs):
        return new
    head = _count_common(old, new)
    tail = _count_common(old[head:][::-1], new[head:][::-1])
    starts = [*range(head, max(head - _MAX_SEAM_MOVES, 0), -1), 0]
    ends = [*range(len(old) - tail, min(len(old) - tail + _MAX_SEAM_MOVES, len(old))), len(old)]
    start, left = _find_seam(old, theirs, starts, after=False)
    end, right = _find_seam(old, theirs, ends, after=True)
    return theirs[:left] + new[start : len(new) - len(old) + end] + theirs[right:]


def _find_seam(old: str, theirs: str, tries: list[int], *, after: bool) -> tuple[int, int]:
    """Return the first column that splits no character group in either line.

    The last column to try is a line end, which splits nothing.
    """
    return next(
        (at, place)
        for at in tries
        if unify_lookalikes(old[:at]) + unify_lookalikes(old[at:]) == unify_lookalikes(old)
        and (place := find_column(theirs, len(unify_lookalikes(old[:at])), after=after)) is not None
    )


def _count_common(first: str, second: str) -> int:
    """Return how many characters at the start two texts have in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))
