"""Writes docs/llms.txt: `python tests/llms_txt.py`. A test compares it.

The file lists every page of the navigation with its first sentence, for models that read the site.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FILE = DOCS / "llms.txt"
NAVIGATION = ROOT / "mkdocs.yml"

_SENTENCE = re.compile(r"[^|#!<{:\-\s][^|]*?[.:](?=\s|$)", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def navigation() -> list[Any]:
    """The navigation of the site, as it is written: titles, and pages or lists below them."""
    written = NAVIGATION.read_text(encoding="utf-8")
    return list(yaml.safe_load(written[written.index("\nnav:\n") :])["nav"])


def pages(entries: list[Any] | None = None) -> dict[str, str]:
    """The title of each page in the navigation, by its path."""
    return {
        path: title
        for entry in (navigation() if entries is None else entries)
        for name, below in entry.items()
        for path, title in (pages(below).items() if isinstance(below, list) else [(below, name)])
    }


def first_sentence(path: str) -> str:
    """What the first paragraph of a page says first."""
    text = (DOCS / path).read_text(encoding="utf-8")
    body = text[text.index("\n# ") :] if text.startswith("---") else text
    body = _FENCE.sub("", body)
    for paragraph in re.split(r"\n{2,}", body):
        if found := _SENTENCE.match(paragraph):
            return _LINK.sub(r"\1", " ".join(found[0].split())).rstrip(":.") + "."
    return ""


def llms_txt() -> str:
    """The whole file."""
    return "\n".join(lines())


def lines() -> Iterator[str]:
    """Each line of the file."""
    yield "# handrail"
    yield ""
    yield "> handrail runs an AI agent's tool calls: validated, permission-checked, in a safe order,"
    yield "> with exactly one result each. Every Python example on these pages is run by its tests."
    for section in navigation():
        for name, below in section.items():
            if isinstance(below, str):
                continue
            yield from ("", f"## {name}", "")
            for path, title in pages(below).items():
                if (DOCS / path).exists():
                    yield f"- [{title}]({path}): {first_sentence(path)}"
    yield ""


if __name__ == "__main__":
    FILE.write_text(llms_txt(), encoding="utf-8")
