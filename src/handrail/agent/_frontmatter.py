"""Frontmatter: the few lines of YAML at the head of a file, read as data and never as more.

A small part of YAML: ``key: value``, quotes, lists of scalars, maps of one level, and block texts.
Every scalar stays text. Nothing is fatal: what cannot be read is kept as text or left out, and
named among the problems. Time and room are linear in the text, whatever it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

Field: TypeAlias = str | tuple[str, ...] | Mapping[str, str]
"""What a key may hold: a text, a list of texts, or a map of texts."""

MOST_FIELDS = 100
MOST_PROBLEMS = 20

_KEY = re.compile(r"\w[\w.-]{0,63}")
_BLOCK = re.compile(r"[|>](?:[+-]?[1-9]?|[1-9][+-])")
_DOUBLE = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_SINGLE = re.compile(r"'([^']*(?:''[^']*)*)'")
_TOKEN = re.compile(rf"{_DOUBLE.pattern}|{_SINGLE.pattern}|,|[^,\"'\[\]{{}}]+", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = dict(zip("0abtnvfre", "\0\a\b\t\n\v\f\r\x1b", strict=True))
_LAST = 0x10FFFF
_INDICATORS = "&*!%@`"
"""Where YAML would begin something that is more than text."""


class Frontmatter(NamedTuple):
    """What stands at the head of a file, the text below it, and what could not be read."""

    fields: Mapping[str, Field]
    body: str
    problems: tuple[str, ...]


def parsed(text: str) -> Frontmatter:
    """The head and the body of a file. Never raises."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.lstrip("\n").split("\n")
    if lines[0].rstrip() != "---":
        return _none(text, "it does not begin with a line ---")
    ends = (at for at, line in enumerate(lines) if at and line.rstrip() in ("---", "..."))
    end = next(ends, 0)
    if not end:
        return _none(text, "the line --- that ends the frontmatter is missing")
    reader = _Reader()
    for entry in _entries(lines[1:end]):
        reader.read(entry)
    fields = MappingProxyType(reader.fields)
    return Frontmatter(fields, "\n".join(lines[end + 1 :]).strip("\n"), tuple(reader.problems))


def _none(text: str, problem: str) -> Frontmatter:
    return Frontmatter(MappingProxyType({}), text.strip("\n"), (problem,))


class _Entry(NamedTuple):
    """A line at the left edge, and the lines that belong to it."""

    number: int
    line: str
    below: list[str]


def _entries(lines: Sequence[str]) -> list[_Entry]:
    found: list[_Entry] = []
    for number, line in enumerate(lines, start=2):
        if found and (not line.strip() or line[0] in " \t" or _is_item(line)):
            found[-1].below.append(line)
        elif line.strip() and not line.startswith("#"):
            found.append(_Entry(number, line, []))
    return found


@dataclass(slots=True)
class _Reader:
    fields: dict[str, Field] = field(default_factory=dict[str, Field])
    problems: list[str] = field(default_factory=list[str])

    def read(self, entry: _Entry) -> None:
        name, colon, rest = entry.line.partition(":")
        key = name.rstrip().strip("\"'")
        if not colon or not _KEY.fullmatch(key):
            self._problem(f"line {entry.number} is no 'key: value'")
        elif key in self.fields:
            self._problem(f"{key!r} is there twice; the first one counts")
        elif len(self.fields) == MOST_FIELDS:
            self._problem(f"there are more than {MOST_FIELDS} keys; {key!r} is left out")
        else:
            if rest and rest[0] not in " \t":
                self._problem(f"{key!r} has no space after its colon")
            self.fields[key] = self._value(key, rest.strip(), entry.below)

    def _problem(self, words: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(words)

    def _value(self, key: str, head: str, below: list[str]) -> Field:
        if _BLOCK.fullmatch(_uncommented(head)):
            return _block(_uncommented(head), below)
        if head.startswith(("[", "{")):
            return self._flow(key, _folded([head, *below]))
        if head and not head.startswith("#"):
            return self._scalar(key, _folded([head, *_meant(below)]))
        lines = _meant(below)
        if lines and _is_item(lines[0].strip()):
            return tuple(self._scalar(key, item) for item in _items(lines))
        if lines and _pair(lines[0].strip()):
            return self._map(key, lines)
        return _folded(lines)

    def _scalar(self, key: str, text: str) -> str:
        if not text.startswith(('"', "'")):
            if text.startswith(tuple(_INDICATORS)):
                self._problem(f"{key!r} is more than text in YAML; it is taken as text")
            elif ": " in (text := _uncommented(text)):
                self._problem(f"{key!r} holds a colon and has no quotes: other readers refuse it")
            return text
        found = (_DOUBLE if text.startswith('"') else _SINGLE).match(text)
        if not found or _uncommented(text[found.end() :]).strip():
            self._problem(f"{key!r} has quotes that do not match; it is taken as it stands")
            return text
        return _unescaped(found[1]) if found[0][0] == '"' else found[1].replace("''", "'")

    def _flow(self, key: str, text: str) -> Field:
        """A list or a map on one line."""
        parts = _parts(text)
        if parts is not None and text[0] == "[":
            return tuple(self._scalar(key, part) for part in parts)
        pairs = [_pair(part) for part in parts or ()]
        if parts is None or not all(pairs):
            return self._as_text(key, text)
        return {name: self._scalar(key, value) for name, value in filter(None, pairs)}

    def _map(self, key: str, lines: list[str]) -> Field:
        margin = _indent(lines[0])
        found: dict[str, str] = {}
        name = ""
        for line in lines:
            pair = _pair(line.strip())
            if _indent(line) == margin and pair and not _BLOCK.fullmatch(pair[1]):
                name = pair[0]
                found.setdefault(name, pair[1])
            elif _indent(line) > margin and found.get(name):
                found[name] = f"{found[name]} {line.strip()}"
            else:
                return self._as_text(key, "\n".join(one[margin:].rstrip() for one in lines))
        return {name: self._scalar(key, value) for name, value in found.items()}

    def _as_text(self, key: str, text: str) -> str:
        self._problem(f"{key!r} is nested deeper than is read here; it is taken as text")
        return text


_CLOSING = {"[": "]", "{": "}"}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_item(line: str) -> bool:
    return line == "-" or line.startswith(("- ", "-\t"))


def _pair(text: str) -> tuple[str, str] | None:
    """The two sides of ``key: value``, where it is that."""
    name, colon, value = text.partition(":")
    key = name.strip().strip("\"'")
    if not colon or not _KEY.fullmatch(key) or (value and value[0] not in " \t"):
        return None
    return key, value.strip()


def _meant(lines: Sequence[str]) -> list[str]:
    """The lines that are no comments; those at the end that are empty left out."""
    kept = [line for line in lines if not line.lstrip().startswith("#")]
    while kept and not kept[-1].strip():
        kept.pop()
    return kept[next((at for at, line in enumerate(kept) if line.strip()), 0) :]


def _items(lines: Sequence[str]) -> list[str]:
    found: list[list[str]] = []
    for line in map(str.strip, lines):
        if _is_item(line):
            found.append([line[1:].strip()])
        else:
            found[-1].append(line)
    return [_folded(item) for item in found]


def _parts(text: str) -> list[str] | None:
    """What stands between the commas in brackets; nothing where these are nested or open."""
    parts, at = [""], 1
    while token := _TOKEN.match(text, at):
        at = token.end()
        if token[0] == ",":
            parts.append("")
        else:
            parts[-1] += token[0]
    if text[at : at + 1] != _CLOSING[text[0]] or _uncommented(text[at + 1 :]).strip():
        return None
    return [part.strip() for part in parts if part.strip()]


def _folded(lines: Sequence[str]) -> str:
    """Lines as one; an empty line is a line break."""
    text = "\n".join(line.strip() for line in lines).strip("\n")
    return re.sub(r"\n+", lambda found: found[0][1:] or " ", text)


def _block(head: str, below: Sequence[str]) -> str:
    given = re.search(r"[1-9]", head)
    first = next((line for line in below if line.strip()), "")
    margin = int(given[0]) if given else _indent(first)
    lines = [line[min(margin, _indent(line)) :].rstrip() for line in below]
    return "\n".join(lines).strip("\n") if head[0] == "|" else _folded(lines)


def _uncommented(text: str) -> str:
    """A scalar without the comment behind it."""
    if text.startswith("#"):
        return ""
    at = text.find(" #")
    return text if at < 0 else text[:at].rstrip()


def _unescaped(text: str) -> str:
    """What the escapes of double quotes stand for; halves of a character become one again."""
    text = _ESCAPE.sub(_escape, text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escape(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) == 1:
        return _ESCAPES.get(code, code)
    number = int(code[1:], 16)
    return chr(number) if number <= _LAST else found[0]
