"""The values to look up: a call's destinations, and links in the texts it sends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from handrail._labels.sources import DESTINATION_KEY
from handrail._schema.marks import Leaf, find_leaves, find_marked
from handrail._sources.lookup import Wanted
from handrail._sources.spelling import normalize_value
from handrail._sources.words import find_whole
from handrail._values.access import Access
from handrail._values.effect import Effect

MAX_LINKS = 200
"""How many links of one call are looked up alone. Those after them are looked up together."""
_SLASHES = re.compile(r"/{2,}")
_ENDS = re.compile(r"(?:_?ids?|_?names?|s)$")
_VERBS = {effect: effect.name.lower() for effect in Effect}
_STOPS = ".,;:!?"
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


def list_links(text: str) -> Iterator[str]:
    """Yield the links in a text, without the punctuation after them."""
    for link in find_links(text):
        yield link.rstrip(_STOPS)


def find_wanted(
    args: str, accesses: Iterable[Access], marked: Mapping[str, Any] | None, *, writes: bool
) -> list[Wanted]:
    """Return the values to look up in a call, each once."""
    given: Any = json.loads(args or "{}")
    leaves = [leaf for leaf in find_leaves(given) if leaf.value]
    found: dict[str, Wanted] = {}
    for access in accesses:
        if (wanted := _find_resource(access, leaves)) is not None:
            found.setdefault(wanted.value, wanted)
    for place, value, scheme in find_marked(marked, given, DESTINATION_KEY) if marked else ():
        name = _argument(place)
        found.setdefault(value, Wanted(value, scheme or name, _words(scheme, name)))
    if not writes:
        return list(found.values())
    return [*found.values(), *_find_links(leaves, found)]


def _find_resource(access: Access, leaves: list[Leaf]) -> Wanted | None:
    """Return the argument that an access names, or None: then the developer wrote it."""
    scheme, _, path = access.resource.partition(":")
    if not path:
        return None
    verb = _VERBS[access.verb]
    for leaf in leaves:
        if leaf.value == path:
            return Wanted(path, scheme, _words(scheme, _argument(leaf.place)), verb)
    return _find_spelled(path, scheme, verb, leaves)


def _find_spelled(path: str, scheme: str, verb: str, leaves: list[Leaf]) -> Wanted | None:
    """Return the argument with a path in another spelling, or with a path in a longer text."""
    value = normalize_value(path)
    meant = _squeeze(value)
    every = [(leaf, normalize_value(leaf.value)) for leaf in leaves]
    for leaf, spelled in every:
        if spelled[:1] == meant[:1] and _squeeze(spelled) == meant:
            return Wanted(leaf.value, scheme, _words(scheme, _argument(leaf.place)), verb)
    if scheme == "net":
        return _find_host(path, leaves, verb)
    inside = (leaf for leaf, spelled in every if find_whole(value, spelled) >= 0)
    return None if next(inside, None) is None else Wanted(path, scheme, _words(scheme, ""), verb)


def _find_host(path: str, leaves: list[Leaf], verb: str) -> Wanted | None:
    """Return the address with a host, or the host itself if it is in a longer text."""
    host, schemes = path.partition("/")[0], frozenset(("net",))
    for leaf in leaves:
        if not re.search(rf"(?<![\w.\-]){re.escape(host)}(?![\w\-])", leaf.value, re.IGNORECASE):
            continue
        is_whole = not re.search(r"\s", leaf.value)
        if is_whole and normalize_value(leaf.value) != host:
            return Wanted(leaf.value, "net", frozenset(("net address",)), verb)
        return Wanted(host, "net", schemes, verb)
    return None


def _find_links(leaves: list[Leaf], found: Mapping[str, Wanted]) -> Iterable[Wanted]:
    """Yield the links in the texts that a call writes or sends."""
    others = [leaf for leaf in leaves if leaf.value not in found]
    seen = {normalize_value(value) for value in found} if others else set[str]()
    known = len(seen)
    for leaf in others:
        for link in list_links(leaf.value):
            if normalize_value(link) not in seen:
                seen.add(normalize_value(link))
                many = len(seen) - known > MAX_LINKS
                yield Wanted(link, _argument(leaf.place), is_link=True, is_extra=many)


def _squeeze(spelled: str) -> str:
    text = spelled.replace(" ", "")
    return _SLASHES.sub("/", text) if "//" in text else text


def _argument(place: str) -> str:
    return place.partition(".")[0].partition("[")[0]


@lru_cache(1_000)  # names in schemas and resources
def _words(scheme: str, argument: str) -> frozenset[str]:
    """Return words for a value: its scheme, and its argument without an id."""
    every = (scheme.casefold(), argument.casefold(), _ENDS.sub("", argument.casefold()))
    return frozenset(word for word in every if word)


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
