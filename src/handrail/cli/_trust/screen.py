"""Shows a file for review: everything in it is visible, and nothing affects the terminal."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from urllib.parse import urlsplit

from handrail.approvals import make_printable
from handrail.cli._base.columns import pieces
from handrail.cli._base.printable import one_line
from handrail.cli._rules.wording import join_words
from handrail.cli._trust.files import TrustItem

MARGIN = "  │ "
_MIN_COLUMNS = 20


def header(item: TrustItem) -> str:
    """Return a file's path, kind, size and digest."""
    size, digest = len(item.content), item.digest[:12]
    return f"{one_line(item.path)}  ({item.kind}, {size} bytes, sha256 {digest}…)"


def screen_lines(item: TrustItem, width: int) -> Iterator[str]:
    """Yield a file as lines fitting the terminal, each behind a margin.

    With the margin, no line can pass for a message by handrail.
    """
    text = item.content.decode("utf-8", "surrogateescape")
    seen = make_printable(text, most=max(4 * len(text), 1))
    room = max(width, _MIN_COLUMNS) - len(MARGIN)
    for line in seen.text.removesuffix("\n").split("\n"):
        yield from (f"{MARGIN}{piece}" for piece in pieces(line, room))
    if text and not text.endswith("\n"):
        yield "no line break at the end of the file"
    if item.kind == "skill" and not text.startswith("\n"):
        yield "only digests of the other files are shown; review those files too"
    if item.folder:
        yield "only digests of the files are shown; review those files too"
    if item.kind == "settings" and (host := _find_host(text)):
        yield f"requests, with the contents of your files, go to {one_line(host)}"
    if seen.hidden:
        yield f"{seen.hidden} invisible characters, shown as \\u{{…}}"
    if seen.mixed:
        yield f"words with mixed scripts or look-alike letters: {join_words(seen.mixed[:5])}"


def _find_host(text: str) -> str:
    """Return the host a settings file sends requests to, or "" if it names none."""
    try:
        url = tomllib.loads(text).get("base_url")
        return (urlsplit(url).netloc.rpartition("@")[2] or url) if isinstance(url, str) else ""
    except (ValueError, RecursionError):  # not valid: no setting in it is used
        return ""
