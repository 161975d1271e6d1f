"""Read YAML as text, lists and maps. Only this module imports PyYAML.

It uses only PyYAML's parser, which builds no objects. Every scalar stays text, whatever type YAML
would give it. A file cannot name a type or refer to other places in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

import yaml

from handrail.agent._found_files import Field

MAX_DEPTH = 8
"""Nested lists and maps."""

_PARSE: Callable[[str, type[yaml.SafeLoader]], Iterator[yaml.Event]] = vars(yaml)["parse"]
"""``yaml.parse``, which has no types."""


class NotYaml(Exception):
    """A text is not valid YAML, or uses forbidden features. Lines start at 0."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


def read_yaml(text: str) -> Field:
    """Read one document. Raises NotYaml, also for forbidden features."""
    try:
        events = _PARSE(text, yaml.SafeLoader)
        next(events)  # the stream begins
        if isinstance(next(events), yaml.StreamEndEvent):
            return ""
        field = _read_field(events, next(events), 0)
        next(events)  # the document ends
        if not isinstance(event := next(events), yaml.StreamEndEvent):
            _refuse(event, "a second document is not allowed")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise NotYaml(str(error.problem), mark.line if mark else 0) from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise NotYaml("it contains a character that is not allowed", 0) from None
    return field


def _read_field(events: Iterator[yaml.Event], event: yaml.Event, depth: int) -> Field:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        _refuse(event, "anchors and aliases are not allowed")
    if getattr(event, "tag", None):
        _refuse(event, "tags are not allowed")
    if isinstance(event, yaml.ScalarEvent):
        return _join_surrogates(event.value)  # `1.10` must not become a number: decision 029
    if depth == MAX_DEPTH:
        _refuse(event, f"more than {MAX_DEPTH} levels are not allowed")
    if isinstance(event, yaml.SequenceStartEvent):
        return tuple(_read_items(events, depth + 1))
    return _read_map(events, depth + 1)


def _read_items(events: Iterator[yaml.Event], depth: int) -> Iterator[Field]:
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        yield _read_field(events, event, depth)


def _read_map(events: Iterator[yaml.Event], depth: int) -> Mapping[str, Field]:
    fields: dict[str, Field] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _read_field(events, event, depth)
        if not isinstance(key, str):
            _refuse(event, "a key that is not text is not allowed")
        if key in fields:
            _refuse(event, f"duplicate key {key!r}")
        fields[key] = _read_field(events, next(events), depth)
    return fields


def _refuse(event: yaml.Event, problem: str) -> NoReturn:
    raise NotYaml(problem, event.start_mark.line if event.start_mark else 0)


def _join_surrogates(text: str) -> str:
    """Join surrogate pairs, as JSON writes them. A lone surrogate is replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
