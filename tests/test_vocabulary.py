"""One word for each concept: no class bears the name of another public one, and no word is banned."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import handrail
from architecture import EDGES, read_modules, statements

PACKAGE = Path(handrail.__file__).parent
PUBLIC = ("", "events", "permissions", "messages", "sources", *sorted(EDGES))
AGENTS = (Path(__file__).parents[1] / "AGENTS.md").read_text(encoding="utf-8")


def public_classes() -> dict[str, set[str]]:
    """The public classes by name, each with the modules that define one."""
    homes: dict[str, set[str]] = {}
    for name in PUBLIC:
        module = import_module(f"handrail.{name}".rstrip("."))
        for public in getattr(module, "__all__", ()):
            value = getattr(module, public)
            if isinstance(value, type):
                homes.setdefault(public, set()).add(value.__module__.removeprefix("handrail."))
    return homes


def defined_classes() -> list[tuple[str, str]]:
    """Every class of the package as its module and its name, underscores left out."""
    return [
        (module, node.name.strip("_"))
        for module, tree in read_modules(PACKAGE).items()
        for node in statements(tree)
        if isinstance(node, ast.ClassDef)
    ]


def banned_names() -> set[str]:
    """The last column of the table of words, as names of classes."""
    table = AGENTS.partition("## Words")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    words = {word.strip() for row in rows for word in row[1].split(",")}
    phrases = [phrase for row in rows[1:] for phrase in row[3].split(",")]
    return {"".join(word.capitalize() for word in phrase.split()) for phrase in phrases} - words


def test_no_class_bears_the_name_of_a_public_one() -> None:
    homes = public_classes()
    borrowed = [
        (module, name)
        for module, name in defined_classes()
        if name in homes and module not in homes[name]
    ]

    assert borrowed == []


def test_each_public_name_is_one_class() -> None:
    assert {name: homes for name, homes in public_classes().items() if len(homes) > 1} == {}


def test_no_public_class_has_a_name_that_the_table_bans() -> None:
    banned = banned_names()

    assert sorted(public_classes().keys() & banned) == []
    assert {"Manager", "Middleware", "AccessRequest"} - banned == {"AccessRequest"}
