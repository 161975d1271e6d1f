"""Answers: what a search finds, as a model reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from handrail._catalogue.catalogue import UNNAMED, Catalogue
from handrail._search.index import Hits
from handrail._search.namespaces import Namespace, nearest
from handrail._search.signature import MAX_SENTENCE, describe_tool, shorten, width
from handrail._values.names import api_name
from handrail._values.strict_json import clip

MAX_HITS = 20
"""Tools shown by one search."""
MAX_QUERIES = 10
"""Queries answered by one search."""
MAX_LISTED_CHARS = 8_000
"""Characters in a list of namespaces, or of one namespace's tools."""
_SELECT = "select:"
_MAX_QUOTED_CHARS = 60


class Search(NamedTuple):
    """One search's queries and names."""

    queries: tuple[str, ...]
    names: tuple[str, ...]
    limit: int
    loaded: Collection[str] = ()
    """The tools the model can already call by name."""
    direct: Collection[str] = ()
    """The names sent to the model from the start."""
    schemas: bool = False
    """Whether to show whole definitions, because found tools are not sent."""
    unread: tuple[str, ...] = ()
    """What is said about queries and names beyond the limits."""


class Found(NamedTuple):
    """The text for the model, and the names of the tools it shows."""

    text: str
    names: tuple[str, ...] = ()


def read_search(
    queries: Iterable[str],
    names: Iterable[str],
    catalogue: Catalogue,
    is_direct: Callable[[str], bool],
) -> Search:
    """Return what was meant: a query can be ``select:a,b``, or exactly a tool's name."""
    asked, wanted = list[str](), list(names)
    for query in (query.strip() for query in queries):
        if query.lower().startswith(_SELECT):
            wanted += query[len(_SELECT) :].split(",")
        elif query in catalogue.names or (is_direct(query) and not catalogue.find_space(query)):
            wanted.append(query)
        elif query:
            asked.append(query)
    named = tuple(dict.fromkeys(name.strip() for name in wanted if name.strip()))
    asked = list(dict.fromkeys(asked))
    direct = frozenset(filter(is_direct, named[:MAX_HITS]))
    unread = (
        *_write_unread("Queries", len(asked), MAX_QUERIES),
        *_write_unread("Names", len(named), MAX_HITS),
    )
    kept = tuple(asked[:MAX_QUERIES])
    return Search(kept, named[:MAX_HITS], 0, direct=direct, unread=unread)


def _write_unread(what: str, given: int, most: int) -> Iterator[str]:
    if given > most:
        yield f"{what} that were not read: {given - most}. Pass at most {most} in one search."


def answer(search: Search, catalogue: Catalogue) -> Found:
    """Return what a search finds."""
    if not search.queries and not search.names:
        return Found(_list_spaces(catalogue))
    writer = _Writer(search, catalogue)
    blocks = [*writer.write_named(), *writer.write_queries(), *search.unread]
    return Found("\n".join(blocks), tuple(writer.shown))


class _Writer:
    """Writes the parts of one answer, and records the tools it shows."""

    def __init__(self, search: Search, catalogue: Catalogue) -> None:
        self._search = search
        self._catalogue = catalogue
        self.shown: list[str] = []
        self._taken: set[str] = set()
        """All query hits shown in the answer."""

    def write_named(self) -> Iterator[str]:
        """Yield a line for each tool requested by name."""
        for asked in self._search.names:
            if (name := self._catalogue.names.get(asked)) is not None:
                yield from self._write_tools([name])
            elif asked in self._search.direct:
                yield f"You already have {asked}: call it."
            elif (space := self._catalogue.find_space(asked)) is not None:
                yield from self._write_space(space)
            else:
                yield f"There is no tool {clip(asked)!r}. Search for it in other words."

    def write_queries(self) -> Iterator[str]:
        """Yield the hits for all queries. Each query gets its share."""
        spaces = {query: self._catalogue.find_space(query) for query in self._search.queries}
        for space in spaces.values():
            if space is not None:
                yield from self._write_space(space)
        queries = [query for query, space in spaces.items() if space is None]
        if not queries:
            return
        answers = [self._find(query) for query in queries]
        taken = take_turns([hits.names for hits in answers], self._search.limit)
        self._taken.update(*taken)
        if not self._taken:
            yield self._write_nothing(queries)
            return
        for query, hits, names in zip(queries, answers, taken, strict=True):
            yield from self._write_hits(query if len(queries) > 1 else "", hits, names)

    def _find(self, query: str) -> Hits:
        return self._catalogue.index.search(query, limit=self._search.limit)

    def _write_hits(self, query: str, hits: Hits, names: Sequence[str]) -> Iterator[str]:
        """Yield a query's hits, after its words if there are others."""
        if query:
            yield f"{_quote(query)}:" if names else self._write_missing(query, hits)
        for word, read in hits.corrected.items():
            yield f"({_quote(word)} was read as {_quote(read)}.)"
        yield from self._write_tools(names)

    def _write_missing(self, query: str, hits: Hits) -> str:
        """Return why there is no hit below a query."""
        if not hits.names:
            return f"{_quote(query)}: no tool fits."
        if self._taken.issuperset(hits.names):
            return f"{_quote(query)}: see the other hits."
        return f"{_quote(query)}: no room for its hits. Pass a higher limit."

    def _write_tools(self, names: Iterable[str]) -> Iterator[str]:
        """Yield each tool not shown in the answer yet."""
        for name in names:
            if name not in self.shown:
                self.shown.append(name)
                yield self._write_tool(name)

    def _write_tool(self, name: str) -> str:
        """Return one tool: its definition as JSON, or a line with its signature."""
        spec, asks = self._catalogue.tools[name].spec, self._catalogue.asks(name)
        if self._search.schemas:
            definition = {
                "name": spec.name,
                "description": spec.description,
                "parameters": spec.input_schema,
            }
            more = {"asks_for_approval": True} if asks else {}
            with suppress(RecursionError):  # a schema nested too deeply for JSON
                return json.dumps(definition | more, ensure_ascii=False)
        notes = ["loaded"] * (name in self._search.loaded) + ["asks for approval"] * asks
        return describe_tool(spec) + (f" [{', '.join(notes)}]" if notes else "")

    def _write_space(self, space: Namespace) -> Iterator[str]:
        """Yield a namespace's tools: everything about them if few, or else their names."""
        if space.count <= self._search.limit:
            yield from self._write_tools(space.names)
            return
        names = space.names if self._search.schemas else [api_name(name) for name in space.names]
        listed = _fit(names, ", ")
        name = space.name or UNNAMED
        yield f"{name} has {space.count} tools. Pass the names of those you need:\n{listed}"

    def _write_nothing(self, queries: Sequence[str]) -> str:
        """Report that nothing fits, and where to look."""
        quoted = ", ".join(map(_quote, queries))
        spaces = [space for space in nearest(self._catalogue.spaces, queries) if space.name]
        near = ", ".join(f"{space.name} ({space.count})" for space in spaces)
        where = f" The nearest namespaces: {near}. Pass one as a query to list it." if near else ""
        return f"No tool fits {quoted}.{where} Do not search for the same words again: use others."


def take_turns(answers: Sequence[Sequence[str]], limit: int) -> list[list[str]]:
    """Return the tools for each query: in turn, no tool twice, ``limit`` in all."""
    taken: list[list[str]] = [[] for _ in answers]
    seen: set[str] = set()
    waiting = [(iter(names), mine) for names, mine in zip(answers, taken, strict=True)]
    while waiting:
        now, waiting = waiting, list[tuple[Iterator[str], list[str]]]()
        for names, mine in now:
            new = next((name for name in names if name not in seen), None)
            if new is not None and len(seen) < limit:
                seen.add(new)
                mine.append(new)
                waiting.append((names, mine))
    return taken


def describe_spaces(spaces: Sequence[Namespace], most: int) -> str:
    """Return namespaces with their sizes, the largest ones if they do not all fit."""
    shown = sorted(spaces, key=lambda space: (-space.count, space.name))
    while width(text := _count_spaces(shown, len(spaces))) > most:
        del shown[-max(1, len(shown) // 20) :]
    return text


def _count_spaces(shown: Iterable[Namespace], total: int) -> str:
    parts = [f"{space.name or UNNAMED} {space.count}" for space in sorted(shown, key=_unnamed_last)]
    more = f" and {total - len(parts)} more" if len(parts) < total else ""
    return ", ".join(parts) + more


def _list_spaces(catalogue: Catalogue) -> str:
    """Return the namespaces, each with its first tool's first sentence."""
    spaces, tools = catalogue.spaces, len(catalogue.tools)
    if not tools:
        return "There are no tools to search for."
    lines = [_write_heading(space) for space in sorted(spaces, key=_unnamed_last)]
    plural = "s" * (len(spaces) != 1)
    heading = (
        f"{tools} tools in {len(spaces)} namespace{plural}. To list the tools of one, pass its "
        "name as a query."
    )
    return f"{heading}\n{_fit(lines, chr(10))}"


def _write_heading(space: Namespace) -> str:
    sentence = shorten(space.sentence, MAX_SENTENCE)
    return f"{space.name or UNNAMED} ({space.count})" + (f": {sentence}" if sentence else "")


def _unnamed_last(space: Namespace) -> tuple[bool, str]:
    return not space.name, space.name


def _fit(items: Sequence[str], separator: str) -> str:
    """Return as many items as fit, and how many there are besides."""
    shown, room = list[str](), MAX_LISTED_CHARS
    for item in items:
        room -= len(item) + len(separator)
        if room < 0:
            break
        shown.append(item)
    more = len(items) - len(shown)
    return separator.join(shown) + (f"{separator}and {more} more" if more else "")


def _quote(text: str) -> str:
    return json.dumps(clip(text, _MAX_QUOTED_CHARS), ensure_ascii=False)
