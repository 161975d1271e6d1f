"""Writes docs/llms.txt: `python tests/llms_txt.py`. A test compares it.

The file lists every page of the navigation with its first sentence, for models that read the site.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FILE = DOCS / "llms.txt"
NAVIGATION = ROOT / "mkdocs.yml"

sys.path.insert(0, str(DOCS))

from section_index import first_sentence  # noqa: E402


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
                    text = (DOCS / path).read_text(encoding="utf-8")
                    yield f"- [{title}]({path}): {first_sentence(text)}"
    yield ""


if __name__ == "__main__":
    FILE.write_text(llms_txt(), encoding="utf-8")
