"""Reference pages: their tables list what the code and pyproject.toml declare."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

import handrail
from handrail import FailureKind
from handrail._support.obeyed_names import OBEYED_NAMES
from handrail.events import Event

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import api_index  # noqa: E402
import section_index  # noqa: E402

import llms_txt  # noqa: E402

PAGES = ROOT / "docs" / "reference"


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared: dict[str, Any] = tomllib.load(file)["project"]
        return declared


def package(requirement: str) -> str:
    """Return the name of a package, with the extras that are wanted of it."""
    match = re.match(r"[\w.-]+(\[[\w,-]+\])?", requirement)
    assert match is not None, requirement
    return match[0]


def rows(page: str, heading: str, column: int = 2) -> dict[str, list[str]]:
    """Return the names in the first column of a table, each with those in another column."""
    text = (PAGES / page).read_text(encoding="utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    return {row[1].strip(" `"): re.findall(r"`([^`]+)`", row[column]) for row in cells}


def test_the_page_lists_every_extra_with_its_packages() -> None:
    extras = project()["optional-dependencies"]

    assert rows("extras.md", "Extras") == {
        extra: [package(requirement) for requirement in requirements]
        for extra, requirements in extras.items()
    }


def test_the_page_lists_every_required_package() -> None:
    required = [package(requirement) for requirement in project()["dependencies"]]

    assert list(rows("extras.md", "Required packages")) == required


def test_a_package_is_read_without_its_version() -> None:
    assert package("openai>=3.49,<4") == "openai"
    assert package("handrail[cli,web]") == "handrail[cli,web]"


def test_the_page_lists_every_failure_kind_with_its_fault() -> None:
    faults = {kind: names[0] for kind, names in rows("failure-kinds.md", "The kinds", 4).items()}

    assert faults == {kind.value: kind.fault.value for kind in FailureKind}


def test_the_page_lists_every_event_with_its_fields() -> None:
    own = {"number", "turn"}

    assert rows("events.md", "All events", 3) == {
        event.__name__: [field.name for field in fields(event) if field.name not in own]
        for event in get_args(Event)
    }


def test_the_page_lists_every_protected_name_with_its_uses() -> None:
    """The first column has all names of a line."""
    text = (PAGES / "protected-names.md").read_text(encoding="utf-8").partition("## Names\n")[2]
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    held = {
        "always": "read-only, reserved if missing",
        "existing": "read-only if it exists",
        "never": "writable",
    }

    listed = {name: cells[2:] for cells in lines for name in re.findall(r"`([^`]+)`", cells[0])}

    assert listed == {
        row.name + "/" * row.is_folder: [held[row.held], "yes |" if row.scanned else "no |"]
        for row in OBEYED_NAMES
    }


GROUP = re.compile(r"^::: (handrail\S*)\n    (\w+(?: \w+)*)$", re.MULTILINE)
API = PAGES / "api"
UNGROUPED = {"index", "adapters"}
"""Pages that list no names: the overview, and modules that need their frameworks."""
TASKS = sorted({page.stem for page in API.glob("*.md")} - UNGROUPED)


@pytest.mark.parametrize("page", TASKS)
def test_the_tasks_of_a_page_have_each_public_name_once(page: str) -> None:
    groups = GROUP.findall((API / f"{page}.md").read_text(encoding="utf-8"))

    named = sorted((module, name) for module, names in groups for name in names.split())
    assert named == sorted(
        (module, name)
        for module in {module for module, _ in groups}
        for name in importlib.import_module(module).__all__
    )


def test_each_public_module_has_a_page_and_the_overview_links_to_each_page() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in API.glob("*.md")}
    listed = {module for page in pages.values() for module, _ in GROUP.findall(page)}
    linked = set(re.findall(r"\]\((\w+)\.md\)", pages.pop("index")))

    assert public_modules() - listed == set()
    assert linked == set(pages)
    assert "handrail.runs.durable" in public_modules()
    assert "handrail.runs.chain" not in public_modules()


def test_every_folder_of_pages_has_an_index_page_with_each_of_its_pages_once() -> None:
    docs = ROOT / "docs"
    texts = section_index.read_pages(docs)
    outside = dict.fromkeys(llms_txt.pages(), "# A page\n\nOf the root.\n")
    indexes = section_index.make_indexes(llms_txt.navigation(), outside | texts)
    folders = {str(Path(page).parent) for page in llms_txt.pages() if "/" in page}

    assert [one for one in sorted(folders) if f"{one}/index.md" not in {*outside, *indexes}] == []
    for path, text in indexes.items():
        folder = path.removesuffix("index.md")
        below = [page for page in llms_txt.pages() if page.startswith(folder)]
        linked = re.findall(r"^- \[[^\]]+\]\((\S+)\): \w", text, re.MULTILINE)
        assert linked == [page.removeprefix(folder) for page in below], path
    assert "- [Turns](turns.md): Create a turn if you need results" in indexes["guides/index.md"]


def public_modules() -> set[str]:
    """The modules and packages that say what they export, without those with an underscore."""
    package = Path(handrail.__file__).parent
    found: set[str] = set()
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        own = parts[:-1] if parts[-1] == "__init__" else parts
        is_public = not any(part.startswith("_") for part in own)
        if is_public and "\n__all__ = [" in path.read_text(encoding="utf-8"):
            found.add(".".join(own))
    return found


def test_the_api_reference_has_a_sentence_and_an_example_for_each_name() -> None:
    """They are read from the source and from the pages, so a name without one shows here."""
    names = api_index.listed_names()
    examples = api_index.find_examples()

    assert [name for name in names if len(api_index.describe(name)) < len("Text.")] == []
    assert [name for name in names if name not in examples] == []
    read = {place.page: anchors(ROOT / "docs" / place.page) for place in examples.values()}
    assert [place for place in examples.values() if place.anchor not in read[place.page]] == []
    assert len(names) > 250


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_a_name_without_a_sentence_or_an_example_is_found() -> None:
    unknown = api_index.Name("handrail", "make_lazy")

    assert unknown not in api_index.find_examples()
    assert api_index.describe(api_index.Name("handrail", "Call")).startswith("One request")
