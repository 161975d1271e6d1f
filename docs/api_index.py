"""Tables for the API reference: each name with a sentence, and with an example elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import griffe  # noqa: TID251  the site reads sources; the package does not

DOCS = Path(__file__).parent
GROUP = re.compile(r"^::: (handrail\S*)\n    (\w+(?: \w+)*)$", re.MULTILINE)
"""Names of a module, in the order of a page of the API reference."""

_BLOCK = re.compile(r"^```python[^\n]*\n(?P<source>.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`(?P<source>[^`\n]+)`")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
_WORD = re.compile(r"\w+")


class Name(NamedTuple):
    """A public name."""

    module: str
    name: str


class Place(NamedTuple):
    """A section of a page that uses a name."""

    page: str
    title: str

    @property
    def anchor(self) -> str:
        """The fragment that leads to the section."""
        return re.sub(r"[^\w\- ]", "", self.title.lower()).strip().replace(" ", "-")


def listed_names() -> list[Name]:
    """The names of the API reference that are listed by task."""
    pages = sorted(DOCS.glob("reference/api/*.md"))
    return [
        Name(group[1], name)
        for page in pages
        for group in GROUP.finditer(page.read_text(encoding="utf-8"))
        for name in group[2].split()
    ]


@cache
def describe(name: Name) -> str:
    """The first sentence that the source says about a name."""
    found = _source(name).docstring
    first = found.value.split("\n\n")[0] if found else ""
    sentence = " ".join(first.split()).partition(". ")[0]
    return f"{sentence.rstrip('.')}.".replace("``", "`").replace("|", r"\|")


@cache
def find_examples() -> Mapping[Name, Place]:
    """A section with an example of each name: of its own, or of what it belongs to."""
    used: dict[int, list[Place]] = {}
    said: dict[str, Place] = {}
    for page in _guides():
        text = page.read_text(encoding="utf-8")
        path = page.relative_to(DOCS).as_posix()
        for value, at in _used_values(text):
            used.setdefault(id(value), []).append(Place(path, _heading(text, at)))
        for span in _SPAN.finditer(_BLOCK.sub(lambda block: "\n" * len(block[0]), text)):
            new = [word for word in _WORD.findall(span["source"]) if word not in said]
            if new:
                place = Place(path, _heading(text, text.find(span[0])))
                said |= dict.fromkeys(new, place)
    names = listed_names()
    found: dict[Name, Place] = {}
    for name in names:
        if places := used.get(id(_value(name))):
            found[name] = _first_of_the_page_with_most(places)
        elif name.name in said:
            found[name] = said[name.name]
    return _add_relatives(names, found)


def _first_of_the_page_with_most(places: list[Place]) -> Place:
    pages = [place.page for place in places]
    best = max(pages, key=pages.count)
    return next(place for place in places if place.page == best)


def _add_relatives(names: list[Name], found: dict[Name, Place]) -> Mapping[Name, Place]:
    """Add the example of a name whose source names this one, or that this one's source names."""
    words = {name: set(_WORD.findall(_source(name).source)) for name in names}
    while True:
        nearer = {
            name: found[other]
            for name in names
            if name not in found
            for other in sorted(found, key=lambda other: other.module != name.module)
            if name.name in words[other] or other.name in words[name]
        }
        if not nearer:
            return found
        found |= nearer


def _guides() -> Iterator[Path]:
    """Pages with examples, those for beginners first."""
    order = (
        "get-started",
        "guides",
        "models",
        "coding",
        "concepts",
        "production",
        "cli",
        "reference",
    )
    for folder in order:
        for page in sorted((DOCS / folder).rglob("*.md")):
            if page.parent.name != "api":
                yield page


def _used_values(text: str) -> Iterator[tuple[object, int]]:
    """What the programs of a page import from handrail, and where they use it first."""
    imported: dict[str, object] = {}
    for block in _BLOCK.finditer(text):
        tree = ast.parse(block["source"])
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("handrail"):
                for alias in node.names:
                    value = _value(Name(node.module or "", alias.name))
                    imported[alias.asname or alias.name] = value
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and imported.get(node.id) is not None:
                yield imported[node.id], block.start()


def _value(name: Name) -> object:
    """What a name stands for, or None if it needs a package that is not installed."""
    try:
        return getattr(import_module(name.module), name.name, None)
    except ImportError:
        return None


@cache
def _heading(text: str, at: int) -> str:
    code = [(block.start(), block.end()) for block in _BLOCK.finditer(text)]
    titles = [
        heading["title"]
        for heading in _HEADING.finditer(text, 0, at)
        if not any(start <= heading.start() < end for start, end in code)
    ]
    return titles[-1]


@cache
def _package() -> griffe.Object | griffe.Alias:
    return griffe.load("handrail", resolve_aliases=True)


def _source(name: Name) -> griffe.Object | griffe.Alias:
    path = f"{name.module}.{name.name}".removeprefix("handrail.")
    found = _package()[path]
    return found.final_target if found.is_alias else found
