"""The five fields in a definition, and each field's stems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from handrail._search.namespaces import named_namespace
from handrail._search.words import Stems, TextStems, join, joined_stems, split, whole_words
from handrail._support import is_list
from handrail._values.spec import Spec

FIELDS = ("name", "namespace", "description", "arguments", "argument texts")
NAME, NAMESPACE, DESCRIPTION, ARGUMENTS, ARGUMENT_TEXTS = range(len(FIELDS))

MAX_SCHEMAS = 1_000
"""Schemas read inside a definition."""
MAX_STEMS = 10_000
"""Stems in a field, after which no other text is read."""
_HOLDERS = frozenset(["properties", "$defs", "definitions", "patternProperties"])
_LISTS = frozenset(["anyOf", "oneOf", "allOf", "prefixItems"])
_SINGLE = frozenset(["items", "additionalProperties"])
_EMPTY: Mapping[str, Any] = {}
_NESTING = _HOLDERS | _LISTS | _SINGLE


class FieldReader:
    """Reads definitions. Repeated texts, such as an API's arguments, are split once."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}
        self._texts: dict[str, tuple[str, ...]] = {}
        self._stems = Stems()
        self._text_stems = TextStems(self._stems)

    def words(self) -> frozenset[str]:
        """Return all words as they are written, in lower case."""
        return frozenset(self._stems)

    def read(self, spec: Spec) -> tuple[Sequence[str], ...]:
        """Return each field's stems, in the order of `FIELDS`."""
        names, texts = _read_schemas(spec.input_schema)
        return (
            self._read_own_name(spec.name),
            self._read_name(named_namespace(spec)),
            _gather(self._read_text, _about(spec)),
            _gather(self._read_name, names),
            _gather(self._read_text, texts),
        )

    def _read_own_name(self, name: str) -> list[str]:
        words = split(name)
        return [*map(self._stems.__getitem__, words), *joined_stems(join(words))]

    def _read_name(self, text: str) -> tuple[str, ...]:
        known = self._names.get(text)
        if known is None:
            known = self._names[text] = tuple(map(self._stems.__getitem__, split(text)))
        return known

    def _read_text(self, text: str) -> tuple[str, ...]:
        known = self._texts.get(text)
        if known is None:
            stems = filter(None, map(self._text_stems.__getitem__, split(text)))
            known = self._texts[text] = (*stems, *joined_stems(whole_words(text)))
        return known


def _gather(read: Callable[[str], tuple[str, ...]], texts: Iterable[str]) -> list[str]:
    """Return the stems in all texts for a field, or the first ones if there are too many."""
    found: list[str] = []
    for text in texts:
        found += read(text)
        if len(found) >= MAX_STEMS:
            break
    return found


def written_words(spec: Spec) -> set[str]:
    """Return a definition's words as written, in lower case."""
    names, texts = _read_schemas(spec.input_schema)
    read = [spec.name, named_namespace(spec), *_about(spec), *names, *texts]
    return {word for text in read for word in split(text)}


def _about(spec: Spec) -> list[str]:
    return [spec.description, spec.search_hint, *spec.aliases, *sorted(spec.tags)]


def _read_schemas(whole: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return argument names and their texts, from at most `MAX_SCHEMAS` schemas."""
    names: list[str] = []
    texts: list[str] = []
    todo: list[Any] = [whole]
    for _ in range(MAX_SCHEMAS):
        if not todo:
            break
        schema = _mapping(todo.pop())
        text = schema.get("description")
        if isinstance(text, str):
            texts.append(text)
        values = schema.get("enum")
        if values and is_list(values):
            texts += [value for value in values if isinstance(value, str)]
        if not _NESTING.isdisjoint(schema):
            names += _mapping(schema.get("properties"))
            todo += _inside(schema)
    return names, texts


def _inside(schema: Mapping[str, Any]) -> Iterator[Any]:
    for key, inner in schema.items():
        if key in _HOLDERS:
            yield from _mapping(inner).values()
        elif key in _LISTS:
            yield from inner if isinstance(inner, list) else ()
        elif key in _SINGLE:
            yield inner


def _mapping(value: Any) -> Mapping[str, Any]:
    if type(value) is dict:  # the type check is faster
        return cast("Mapping[str, Any]", value)
    return cast("Mapping[str, Any]", value) if value and isinstance(value, Mapping) else _EMPTY
