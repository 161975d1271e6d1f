"""Index pages for folders without one: their pages in the menu's order, each with a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

TITLES = {
    "get-started": "Get started",
    "why": "Why handrail",
    "guides": "Guides",
    "production": "Production",
    "concepts": "Concepts",
    "reference": "Reference",
    "reference/api-formats": "API formats",
}
"""Folders that get an index page, and its title."""

_SENTENCE = re.compile(r"[^|#!<{:\-\s][^|]*?[.:](?=\s|$)", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


class Entry(NamedTuple):
    """A page in the menu, below the sections that lead to it."""

    sections: tuple[str, ...]
    title: str
    page: str


def list_entries(nav: Iterable[Any], sections: tuple[str, ...] = ()) -> Iterator[Entry]:
    """Yield the menu's pages."""
    for item in nav:
        for title, below in item.items():
            if isinstance(below, str):
                yield Entry(sections, title, below)
            else:
                yield from list_entries(below, (*sections, title))


def first_sentence(text: str) -> str:
    """Return what the first paragraph of a page says first."""
    body = text[text.index("\n# ") :] if text.startswith("---") else text
    for paragraph in re.split(r"\n{2,}", _FENCE.sub("", body)):
        if found := _SENTENCE.match(paragraph):
            return _LINK.sub(r"\1", " ".join(found[0].split())).rstrip(":.") + "."
    return ""


def make_indexes(nav: Iterable[Any], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the index pages by path, from the menu and the text of each page."""
    entries = list(list_entries(nav))
    return {f"{folder}/index.md": _make(folder, entries, texts) for folder in TITLES}


def _make(folder: str, entries: Iterable[Entry], texts: Mapping[str, str]) -> str:
    lines, above = [f"# {TITLES[folder]}"], ""
    for sections, title, page in entries:
        if not page.startswith(f"{folder}/"):
            continue
        if sections[-1] != above:
            above = sections[-1]
            lines += ["", *([f"## {above}", ""] if above != TITLES[folder] else [])]
        address = page.removeprefix(f"{folder}/")
        lines.append(f"- [{title}]({address}): {first_sentence(texts[page])}")
    return "\n".join([*lines, ""])


def read_pages(docs: Path) -> dict[str, str]:
    """Return the text of each page in the documentation's folder, by its path there."""
    pages = sorted(docs.rglob("*.md"))
    return {page.relative_to(docs).as_posix(): page.read_text(encoding="utf-8") for page in pages}
