"""Classify Markdown lines by the block they open, given the text before them."""

from __future__ import annotations

import re
from typing import NamedTuple

_QUOTE = re.compile(r" {0,3}> ?")
_FENCE = re.compile(r"( *+)(`{3,}+|~{3,}+) *+([^`]*+)")
_HEADING = re.compile(r" {0,3}(#{1,6}+)(?:[ \t]++(.*))?")
_RULE = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})")
_ITEM = re.compile(r"( *+)([-*+]|\d{1,9}[.)])(?: ++(.*)|)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+) *")
_UNSETTLED = re.compile(r"[-=*_ ]*")
"""The beginning of a possible rule line."""
INDENT = "    "
"""Starts a code line outside a list."""
_MIN_SETTLED_CHARS = 16
"""Characters after which it is known what a line starts."""


class Quoted(NamedTuple):
    """A line and its number of quotes."""

    depth: int
    text: str


class Fence(NamedTuple):
    """A code block's start."""

    indent: int
    marks: str
    info: str

    def is_closed_by(self, line: str) -> bool:
        """Return whether a line ends the block."""
        text = line.strip(" ")
        return len(text) >= len(self.marks) and not text.strip(self.marks[0])


class Item(NamedTuple):
    """A list item's start."""

    indent: int
    mark: str
    text: str


def split_quotes(line: str, most: int = 20) -> Quoted:
    """Return how deep a line is quoted, and what is quoted."""
    depth = 0
    while depth < most and (mark := _QUOTE.match(line)):
        line, depth = line[mark.end() :], depth + 1
    return Quoted(depth, line)


def read_fence(line: str) -> Fence | None:
    """Return a code block's start, if the line is one."""
    found = _FENCE.fullmatch(line)
    return None if found is None else Fence(len(found[1]), found[2], found[3].strip())


def read_heading(line: str) -> str | None:
    """Return a heading's text, if the line is one."""
    found = _HEADING.fullmatch(line)
    if found is None:
        return None
    text = (found[2] or "").rstrip(" \t")
    stem = text.rstrip("#")  # a heading's closing signs are no part of it
    return stem.rstrip(" \t") if stem.endswith((" ", "\t")) else text


def read_item(line: str) -> Item | None:
    """Return an item's start, if the line is one."""
    found = _ITEM.fullmatch(line)
    return None if found is None else Item(len(found[1]), found[2], found[3] or "")


def is_rule(line: str) -> bool:
    """Return whether a line is a horizontal rule."""
    return _RULE.fullmatch(line) is not None


def is_underline(line: str) -> bool:
    """Return whether a line makes the paragraph above it a heading."""
    return _UNDERLINE.fullmatch(line) is not None


def continues_paragraph(line: str) -> bool:
    """Return whether a line continues a paragraph after another line."""
    text = line.strip(" ")
    if not text or text[0] in ">|":
        return False
    others = (read_fence, read_heading, read_item)
    return not is_rule(line) and all(read(line) is None for read in others)


def is_prose(line: str) -> bool:
    """Return whether a line's beginning is sure to start a paragraph or an item."""
    text = line.lstrip(" ")
    if len(text) <= _MIN_SETTLED_CHARS or line.startswith(INDENT) or _UNSETTLED.fullmatch(text):
        return False
    return continues_paragraph(line) or (read_item(line) is not None and not is_rule(line))
