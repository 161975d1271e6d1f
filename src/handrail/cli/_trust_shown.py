"""A file that somebody is to trust, on a screen: all of it can be seen, and none of it acts."""

from __future__ import annotations

from collections.abc import Iterator

from handrail.approvals import displayed
from handrail.cli._columns import pieces
from handrail.cli._rules_told import joined, one_line
from handrail.cli._trust_files import Looked

MARGIN = "  │ "
_NARROWEST = 20


def header(looked: Looked) -> str:
    """What it is, and what it is known by."""
    size, known = len(looked.content), looked.digest[:12]
    return f"{one_line(looked.path)}  ({looked.kind}, {size} bytes, sha256 {known}…)"


def shown(looked: Looked, width: int) -> Iterator[str]:
    """All of it, in lines that no terminal breaks: each stands behind the margin.

    So nothing in it can look as if it were said by somebody else.
    """
    text = looked.content.decode("utf-8", "surrogateescape")
    seen = displayed(text, most=max(4 * len(text), 1))
    room = max(width, _NARROWEST) - len(MARGIN)
    for line in seen.text.removesuffix("\n").split("\n"):
        yield from (f"{MARGIN}{piece}" for piece in pieces(line, room))
    if text and not text.endswith("\n"):
        yield "There is no line break at its end."
    if looked.kind == "skill" and not text.startswith("\n"):
        yield "Its other files are here with their digests only: look at them too."
    if seen.hidden:
        yield f"{seen.hidden} characters in it cannot be seen; they are written out as \\u{{…}}."
    if seen.mixed:
        yield f"Letters of other scripts stand in these words: {joined(seen.mixed[:5])}."
