"""Plain English: no prose has words that readers do not know."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from english import (
    CEILINGS,
    Finding,
    Prose,
    above,
    check,
    files,
    findings,
    package,
    prose,
    rates,
    rates_by_package,
    violations,
)


def found(text: str) -> list[str]:
    return [finding.match for finding in check(Prose(1, text, has_sentences=True))]


@pytest.mark.timeout(300)  # it reads every file
def test_no_file_has_a_finding() -> None:
    assert violations() == []


def test_prose_of_every_kind_is_checked() -> None:
    assert {"README.md", "SECURITY.md", "docs/index.md", "src/handrail/__init__.py"} <= {*files()}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("It is mended.", ["mended"]),
        ("We recommend to amend it.", []),
        ("Go\non with it.", ["Go on"]),
        ("This is what is going on.", []),
        ("There is no file; it is no longer needed.", []),
        ("This is no file.", ["is no"]),
        ("The wire format is JSON.", []),
        ("Sent over the wire.", ["wire"]),
        ("Leave a blank line.", []),
        ("Two blanks.", ["blanks"]),
        ("It stays as it is.", ["as it is"]),
        ("It is parsed as it is read.", []),
        ("A no-op.", []),
        ("Every question is a no.", ["a no"]),
        ("RESOLVE_BENEATH is a flag.", []),
        ("The colours are recognised.", ["colours", "recognised"]),
        ("![An image](docs/cli/pictures/chat.svg)", []),
        ('<img src="nobody.svg" alt="An image">', []),
        ("`judge` and ``nobody`` are names.", []),
        ("```text\nnobody\n```\n", []),
        ("| a yes | 1 |\n", ["a yes"]),
        ("# What it does\n\nText.", []),
        ("What is a tool?", []),
        ("Text. What a tool returns is text.", ["What a tool returns is text"]),
        ("- What a tool returns is text.", ["What a tool returns is text"]),
        ("one " * 30 + "end.", ["one one one one one one"]),
        ("one " * 29 + "end. One more of them.", []),
        ("- " + "one " * 20 + "\n- " + "two " * 20, []),
    ],
)
def test_what_is_found(text: str, matches: list[str]) -> None:
    assert found(text) == matches


def test_strings_and_docstrings_of_a_module_are_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""A module.\n\nNobody reads it.\n"""\n\n'
        "NAME = 'nobody'\n"
        "TEXT = 'nobody is here now'\n"
        "MORE = f'{NAME} is told the {TEXT}'\n"
        "LONG = 'What begins a string is not checked.'\n"
        "# nobody reads a comment\n",
        encoding="utf-8",
    )

    assert findings(module) == [
        Finding(3, "Nobody", "no one, a person, you, any"),
        Finding(7, "nobody", "no one, a person, you, any"),
        Finding(8, "is told", "receives, sees, is reported"),
    ]


def test_a_node_that_all_trees_share_may_lead_to_its_parent(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("TEXT = 'nobody is here' + 'nobody is there'\n", encoding="utf-8")
    tree = ast.parse("1 + 2", mode="eval").body
    assert isinstance(tree, ast.BinOp)
    vars(tree.op)["parent"] = tree  # as programs do that read source: `Add` is one object
    try:
        assert [finding.match for finding in findings(module)] == ["nobody"]
    finally:
        del vars(tree.op)["parent"]


@pytest.mark.timeout(300)
def test_no_package_is_above_its_ceiling() -> None:
    assert above(rates_by_package()) == []


def test_every_package_and_folder_of_docs_has_a_ceiling() -> None:
    assert sorted(CEILINGS) == sorted({package(name) for name in files()})


def test_rates_above_a_ceiling_are_reported() -> None:
    of, that = CEILINGS["providers"]
    text = "of " * (of + 1) + "that " * that + "word " * (999 - of - that)

    assert above({"providers": rates([text])}) == [
        f"providers: {of + 1}.0 'of' per 1,000 words: at most {of}"
    ]
    assert above({"new_package": rates(["A list that is a list of lists."])}) == [
        "new_package: 125.0 'of' per 1,000 words: at most 0",
        "new_package: 125.0 'that' per 1,000 words: at most 0",
    ]


def test_docstrings_and_comments_are_counted_without_code(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""A reader of `that of` lines."""\n\n'
        "NAME = 'that of'\n"
        '"""That name."""\n'
        "# noting that\n",
        encoding="utf-8",
    )
    page = tmp_path / "page.md"
    page.write_text("Lines of [text](of/that).\n\n```text\nthat of\n```\n", encoding="utf-8")

    assert rates(prose(module)) == (1000 / 9, 2000 / 9, 1000 / 9, 9)
    assert rates(prose(page)) == (1000 / 3, 0, 0, 3)
