"""Namespaces: a tool's group, by its definition or by its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from handrail._search.plain import first_sentence, one_line
from handrail._search.words import STOP_WORDS, split
from handrail._values.spec import Spec

MAX_NAMED = 80
"""Characters in a namespace named by a definition."""
MAX_NEAREST = 3
"""Namespaces named when a query found nothing."""
_PREFIX = re.compile(r"([^_./:]+(?:_[^_./:]+)*)(?:__|[./:])\S")
_FIRST_WORD = re.compile("[^_-]+(?=[_-].)")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A tool group: how many, the first tool's first sentence, and their names."""

    name: str
    count: int
    sentence: str
    names: tuple[str, ...]


def named_namespace(spec: Spec) -> str:
    """Return the namespace in a definition's metadata, or an empty string."""
    named = spec.metadata.get("namespace")
    return named if isinstance(named, str) else ""


def own_namespace(spec: Spec) -> str:
    """Return the namespace in the metadata, or the name's part before `__`, `.`, `/` or `:`.

    It is one line, whatever the metadata are.
    """
    prefix = _PREFIX.match(spec.name)
    return one_line(named_namespace(spec), MAX_NAMED) or (prefix[1] if prefix else "")


def list_namespaces(specs: Mapping[str, Spec]) -> tuple[Namespace, ...]:
    """Return some tools' namespaces by name, each with its tools by name."""
    names: dict[str, list[str]] = {}
    for name, space in sorted(_group(specs).items()):
        names.setdefault(space, []).append(name)
    return tuple(
        Namespace(space, len(held), first_sentence(specs[held[0]].description), tuple(held))
        for space, held in sorted(names.items())
    )


def _group(specs: Mapping[str, Spec]) -> Mapping[str, str]:
    """Return each tool's namespace.

    A tool whose definition names none is in its first word's namespace, if other tools have this
    word too: `github` for `github_search`. Otherwise its namespace has the empty name.
    """
    own = {name: own_namespace(spec) for name, spec in specs.items()}
    first = {name: _first_word(name) for name, named in own.items() if not named}
    uses = Counter([*first.values(), *set(own.values())])
    shared = {name: word for name, word in first.items() if uses[word] > 1}
    return {name: named or shared.get(name, "") for name, named in own.items()}


def _first_word(name: str) -> str:
    found = _FIRST_WORD.match(name)
    return found[0] if found else ""


def nearest(spaces: Sequence[Namespace], queries: Sequence[str]) -> tuple[Namespace, ...]:
    """Return at most three namespaces spelled most like the queries, or the largest."""
    wanted = {piece for query in queries for piece in _pieces(query)}
    likeness = {
        space.name: len(wanted & _pieces(f"{space.name} {space.sentence}")) for space in spaces
    }
    best = sorted(spaces, key=lambda space: (-likeness[space.name], -space.count, space.name))
    return tuple(best[:MAX_NEAREST])


def _pieces(text: str) -> set[str]:
    """Return each sequence of four letters in a text's words."""
    return {
        word[place : place + 4]
        for word in split(text)
        for place in range(max(1, len(word) - 3))
        if word not in STOP_WORDS
    }
