"""Links, mail addresses and account numbers in a text, in time proportional to its length."""

from __future__ import annotations

import re
from collections.abc import Iterator

_RUN = re.compile(r"[\w.+@-]++")
_HOST = re.compile(r"(?:[\w-]++\.)+[a-z]{2,}", re.IGNORECASE)
_ENDING = re.compile(r"(?<=[\w-])\.[a-z]{2,}", re.IGNORECASE)
_PATH = re.compile(r"/[^\s'\"<>)\]]*+")
_SCHEMES = ("https://", "http://")
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{10,32}\b", re.IGNORECASE)


def find_links(text: str) -> list[str]:
    """Return them in the text's order. None overlaps another."""
    spans = list(_find_addresses(text))
    later = iter([*spans, (len(text), len(text))])
    start, end = next(later)
    for match in _ACCOUNT.finditer(text):
        while end <= match.start():
            start, end = next(later)
        if match.end() <= start:
            spans.append(match.span())
    return [text[start:end] for start, end in sorted(spans)]


def _find_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yield where hosts' names are, with the scheme or user before them and the path after."""
    at = done = 0
    while run := _RUN.search(text, at):
        start, at = run.span()
        for first, last in _find_in_run(text, start, at):
            scheme = _count_scheme(text, done, first)
            path = _PATH.match(text, last)
            done = path.end() if path else last
            at = max(at, done)
            yield first - scheme, done


def _find_in_run(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where hosts' names are among letters, digits and dots."""
    while start < end:
        sign = text.find("@", start, end)
        stop = end if sign < 0 else sign
        host = _HOST.match(text, sign + 1, end) if sign >= 0 else None
        last = host.end() if host else _last_ending(text, start, stop)
        if last:
            yield start, last
        start = last or stop + 1


def _last_ending(text: str, start: int, end: int) -> int:
    """Return the end of the last host's name in a part of a run, or 0."""
    last = 0
    for match in _ENDING.finditer(text, start + 1, end):
        last = match.end()
    return last


def _count_scheme(text: str, start: int, end: int) -> int:
    """Return the length of the scheme before a host's name."""
    return next((len(one) for one in _SCHEMES if text.endswith(one, start, end)), 0)
