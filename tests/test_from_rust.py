"""Each name of the documents has a row, and each row names what is there."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guides" / "from-rust.md"
NAMES = ROOT / "tests" / "data" / "rust-designs" / "names.txt"
CODE = re.compile(r"`([^`]+)`")


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    [body] = re.findall(
        rf"^## {section}\n(.*?)(?=^## |\Z)",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    lines = re.findall(r"^\|(.*)\|$", body, re.MULTILINE)[2:]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def documents() -> dict[str, set[str]]:
    parts = re.split(r"^\[(.+)\]$", NAMES.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name: set(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def is_there(name: str) -> bool:
    """Whether handrail has a name, such as `Spec.name`, `agent.Agent` or `Executor(hooks=)`."""
    path, _, option = name.partition("(")
    found: object = import_module("handrail")
    for step in path.split("."):
        if hasattr(found, step):
            found = getattr(found, step)
        elif step in getattr(found, "__annotations__", {}):
            found = None
        else:
            try:
                found = import_module(f"handrail.{step}")
            except ModuleNotFoundError:
                return False
    return not option or option.rstrip("=)") in inspect.signature(found).parameters  # type: ignore[arg-type]


@pytest.mark.parametrize("document", documents())
def test_each_name_of_a_document_has_a_row(document: str) -> None:
    told = {name for row in rows(document) for name in CODE.findall(row[0])}

    assert told == documents()[document]


@pytest.mark.parametrize("document", documents())
def test_each_row_names_what_handrail_has(document: str) -> None:
    named = [name for row in rows(document) for name in CODE.findall(row[1])]

    assert [name for name in named if not is_there(name)] == []
    assert all(CODE.search(row[1]) for row in rows(document))


def test_a_name_that_is_not_there_is_found() -> None:
    names = ["Tool", "Spec.nothing", "nothing.Agent", "Executor(nothing=)", "Executor(hooks=)"]

    assert [is_there(name) for name in names] == [True, False, False, False, True]


def test_the_reversals_name_what_handrail_has() -> None:
    named = [name for row in rows("Five reversals") for name in CODE.findall(row[1])]

    assert named == ["READ", "DuplicateName", "Registry.replace", "hooks.frame"]
    assert all(map(is_there, named))
