"""Read front matter: the YAML at the start of a file.

No error in it is fatal. If the whole is not valid YAML, each entry is parsed separately, and an
entry that is not valid YAML is read as text. ``problems`` lists the errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice, pairwise
from types import MappingProxyType
from typing import NamedTuple

from handrail.agent._found_files import Field
from handrail.agent._skills.yaml_reader import NotYaml, read_yaml

MAX_FIELDS = 100
MAX_PROBLEMS = 20

_ENTRY_START = re.compile(r"^(?![ \t]|-[ \t\n])(?=.)", re.MULTILINE)
_ENTRY = re.compile(r"(\w[\w.-]{0,63})[ \t]*:(.*)", re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)#.*")


class Frontmatter(NamedTuple):
    """Front matter fields, and messages about errors in them."""

    fields: Mapping[str, Field]
    problems: tuple[str, ...] = ()


def read_frontmatter(head: str) -> Frontmatter:
    """Read front matter at the beginning of its file. Problems name the lines."""
    fields, problems = _read_whole(head)
    if len(fields) > MAX_FIELDS:
        problems = (*problems, f"more than {MAX_FIELDS} keys; the others are ignored")
    return Frontmatter(MappingProxyType(dict(islice(fields.items(), MAX_FIELDS))), problems)


def _read_whole(head: str) -> Frontmatter:
    problems: tuple[str, ...] = ()
    try:
        fields = read_yaml(head)
        if isinstance(fields, Mapping):
            return Frontmatter(fields)
    except NotYaml as error:
        problems = (f"line {error.line + 1}: {error}",)
    entries = _read_entries(head)
    return Frontmatter(entries.fields, entries.problems or problems)


def _read_entries(head: str) -> Frontmatter:
    fields: dict[str, Field] = {}
    problems: list[str] = []
    starts = [start.start() for start in _ENTRY_START.finditer(head)]
    for start, end in pairwise([*starts, len(head)]):
        if len(problems) >= MAX_PROBLEMS:
            break
        line = head.count("\n", 0, start) + 1
        entry = _read_entry(head[start:end], line)
        problems += entry.problems
        for key, value in entry.fields.items():
            if key in fields:
                problems.append(f"line {line}: duplicate key {key!r}; the first one is used")
            else:
                fields[key] = value
    return Frontmatter(fields, tuple(problems))


def _read_entry(entry: str, line: int) -> Frontmatter:
    problem = "expected 'key: value'"
    try:
        value = read_yaml(entry)
        if isinstance(value, Mapping):
            return Frontmatter(value)
        if not value:  # a comment, or the line ---
            return Frontmatter({})
    except NotYaml as error:
        problem = str(error)
    named = _ENTRY.match(entry)
    if named is None:
        return Frontmatter({}, (f"line {line}: {problem}",))
    text = " ".join(_COMMENT.sub("", named[2]).split())
    problem = f"line {line}: {named[1]!r} is not valid YAML and is read as text: {problem}"
    return Frontmatter({named[1]: text}, (problem,))
