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
_IBAN = re.compile(
    r"\b[A-Z]{2}\d\d(?: ?[A-Z\d]{4}){2,7}(?: ?[A-Z\d]{1,3})?\b", re.IGNORECASE | re.ASCII
)
"""May be an account number with letters, or in groups. Words after one can look like groups."""
_LEAST_IBAN_CHARS, _MOST_IBAN_CHARS, _IBAN_REST, _IBAN_DIVISOR = 15, 34, 1, 97


def find_links(text: str) -> list[str]:
    """Return them in the text's order. None overlaps another."""
    spans = list(_find_addresses(text))
    later = iter([*spans, (len(text), len(text))])
    start, end = next(later)
    for first, last in _find_accounts(text):
        while end <= first:
            start, end = next(later)
        if last <= start:
            spans.append((first, last))
    return [text[start:end] for start, end in sorted(spans)]


def _find_accounts(text: str) -> list[tuple[int, int]]:
    """Return where account numbers are, in order. None overlaps another."""
    found = [match.span() for match in _ACCOUNT.finditer(text)]
    maybe = [(match.start(), _count_iban(match[0])) for match in _IBAN.finditer(text)]
    found += [(start, start + length) for start, length in maybe if length]
    found.sort(key=lambda span: (span[0], -span[1]))
    kept, done = list[tuple[int, int]](), 0
    for first, last in found:
        if first >= done:
            kept.append((first, last))
            done = last
    return kept


def _count_iban(text: str) -> int:
    """Return the length of an account number at a text's beginning, by its check digits."""
    while True:
        code = text.replace(" ", "").upper()
        if len(code) < _LEAST_IBAN_CHARS:
            return 0
        digits = "".join([str(int(letter, 36)) for letter in code[4:] + code[:4]])
        if len(code) <= _MOST_IBAN_CHARS and int(digits) % _IBAN_DIVISOR == _IBAN_REST:
            return len(text)
        text = text.rpartition(" ")[0]


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
