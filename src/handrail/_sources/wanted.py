"""The values to look up: a call's destinations, and links in the texts it sends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from handrail._labels.sources import DESTINATION_KEY
from handrail._schema.marks import Leaf, find_leaves, find_marked
from handrail._sources.links import find_links
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
