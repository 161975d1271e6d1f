"""Characters that look alike and are written for one another: quotes, dashes, blanks, accents.

Letters of different alphabets are not among them, however alike they look: they make other names.
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
BLANKS = " \t" + _GROUPS[" "]
"""All that looks like nothing between words."""
_PLAIN = {one: plain for plain, group in _GROUPS.items() for one in group}
_TRIES = 16
"""How far a seam is moved to keep an accent with its letter."""
_ANY = re.compile("[" + "".join(_PLAIN) + "]")


def alike(text: str) -> str:
    """The text with one spelling for all that look alike."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ANY.sub(lambda found: _PLAIN[found[0]], text))


def column(line: str, at: int, *, after: bool) -> int | None:
    """Where in a line the place is that `alike` moves to a column.

    Several places are one where something unseen stands: with ``after``, the one behind it.
    None inside of what belongs together.
    """
    where = bisect_right if after else bisect_left
    found = where(range(len(line) + 1), at, key=lambda end: len(alike(line[:end])))
    found = min(found - after, len(line))
    whole = alike(line)
    parts = (alike(line[:found]), alike(line[found:]))
    return found if parts == (whole[:at], whole[at:]) else None


def kept(new: str, old: str, theirs: str) -> str:
    """A changed line, with the file's own characters where the edit changes nothing."""
    if alike(old) != alike(theirs):
        return new
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    starts = [*range(head, max(head - _TRIES, 0), -1), 0]
    ends = [*range(len(old) - tail, min(len(old) - tail + _TRIES, len(old))), len(old)]
    start, left = _seam(old, theirs, starts, after=False)
    end, right = _seam(old, theirs, ends, after=True)
    return theirs[:left] + new[start : len(new) - len(old) + end] + theirs[right:]


def _seam(old: str, theirs: str, tries: list[int], *, after: bool) -> tuple[int, int]:
    """The first place that parts nothing that belongs together, in either line.

    The last place to try is an end of the line, which parts nothing.
    """
    return next(
        (at, found)
        for at in tries
        if alike(old[:at]) + alike(old[at:]) == alike(old)
        and (found := column(theirs, len(alike(old[:at])), after=after)) is not None
    )


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
