"""Emphasis, code and links within a paragraph. The only module that imports markdown-it-py.

HTML stays unchanged, a link shows its address, and every character is made printable after the
parser, which decodes entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from handrail.cli._screen.rows import BREAK, Span, Word, printable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_PLAIN = re.compile(r"[^\\`*_\[\]<>&!\n]*")
"""Text without markup."""
_BLANKS = re.compile(r"[ \n\t]+")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # an extra, loaded when there is markup

    return MarkdownIt("commonmark", {"html": False})  # rich hides links' addresses: decision 070


@lru_cache(maxsize=1024)
def read_words(source: str, role: str = "text") -> tuple[Word, ...]:
    """Return a paragraph's words, with their emphasis as roles."""
    if _PLAIN.fullmatch(source):
        return tuple([(Span(printable(word), role),) for word in source.split()])
    tokens: list[Token] = []
    parser = _parser()
    parser.inline.parse(source, parser, {}, tokens)
    return tuple(_join(_read_spans(tokens, role)))


def _read_spans(tokens: Sequence[Token], role: str) -> Iterator[Span | None]:
    """Yield the text with its spaces, and None for an intended line break."""
    links: list[tuple[str, str, list[str]]] = []
    strong = 0
    for token in tokens:
        kind = token.type
        if kind in {"strong_open", "em_open", "strong_close", "em_close"}:
            strong += token.nesting
        elif kind == "link_open":
            links.append((str(token.attrGet("href") or ""), str(token.attrGet("title") or ""), []))
        elif kind == "link_close":
            address, title, parts = links.pop()
            yield from _read_address(address, title, "".join(parts))
        elif kind == "image":
            yield Span(token.content, role)
            source, title = str(token.attrGet("src") or ""), str(token.attrGet("title") or "")
            yield from _read_address(source, title, token.content)
        elif kind == "hardbreak":
            yield None
        else:
            text = " " if kind == "softbreak" else token.content
            for _, _, parts in links:
                parts.append(text)
            yield Span(text, "path" if kind == "code_inline" else "title" if strong else role)


def _read_address(address: str, title: str, text: str) -> Iterator[Span]:
    """Yield where a link leads, unless its text says so."""
    if title:
        yield Span(f' "{title}"', "muted")
    if address not in {text, f"mailto:{text}"}:
        yield Span(f" ({address})", "muted")


def _join(spans: Iterator[Span | None]) -> Iterator[Word]:
    """Yield words: split at spaces, joined where spans meet without one."""
    word: list[Span] = []
    for span in spans:
        if span is None:
            yield from (tuple(word), BREAK)[not word :]
            word = []
            continue
        first, *others = _BLANKS.split(span.text)
        for number, piece in enumerate((first, *others)):
            if number and word:
                yield tuple(word)
                word = []
            if piece:
                word.append(Span(printable(piece), span.role))
    if word:
        yield tuple(word)
