"""The security vectors, one test each, and the controls that show they can fail."""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from vectors.__main__ import CATEGORIES, main, module, skipped, vectors
from vectors.more import vectors as more_vectors

ALONE = {"process-006"}
"""A fork bomb: until it is ended, nobody else can start a process."""
CASES = [
    pytest.param(
        name,
        vector,
        id=f"{vector['id']} {vector['title']}",
        marks=[pytest.mark.alone] if vector["id"] in ALONE else [],
    )
    for name in CATEGORIES
    for vector in vectors(name)
    if vector["id"] not in skipped(name)
]
CAUGHT = {
    "schema": 10,
    "bash": 100,
    "deny-rule": 20,
    "approval": 15,
    "display": 30,
    "mode": 12,
    "config": 10,
    "hooks": 5,
    "benign": 40,
    "path": 50,
    "race": 8,
    "protected": 45,
    "sandbox": 40,
    "process": 4,
    "env": 10,
    "git": 16,
    "search": 8,
    "format": 6,
    "output": 9,
    "ssrf": 45,
    "mcp-client": 55,
    "mcp-server": 21,
}
"""At least so many vectors of each category are lost by its control."""
EVERY, SHARE = (1, 1) if os.environ.get("HANDRAIL_PROFILE") == "soak" else (4, 8)
"""A short run tries one vector in four on the controls, which lose at least half of their share."""


@pytest.mark.parametrize(("category", "vector"), CASES)
def test_a_vector_is_held(category: str, vector: dict[str, Any]) -> None:
    assert module(category).holds(vector)


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("category", CATEGORIES)
def test_a_control_is_caught(category: str) -> None:
    logging.disable()  # pytest keeps what is logged, and with a traceback all that its frames hold
    try:
        caught = module(category).control_caught(vectors(category)[::EVERY])
    finally:
        logging.disable(logging.NOTSET)
    gc.collect()  # a weak tool may leave sockets behind: here, and not in the next test

    assert caught >= max(1, CAUGHT[category] // SHARE)


@pytest.mark.parametrize("category", CATEGORIES)
def test_hardly_a_vector_is_skipped_and_each_has_its_reason(category: str) -> None:
    known, left_out = {one["id"] for one in vectors(category)}, skipped(category)

    assert left_out.keys() <= known
    assert len(left_out) <= 0.05 * len(known)
    assert all(left_out.values())


def test_every_file_of_vectors_is_a_category() -> None:
    files = (Path(__file__).parent / "data").glob("vectors-*.json")

    assert {one.stem.removeprefix("vectors-") for one in files} == set(CATEGORIES)


def test_the_security_pages_have_the_number_of_attacks() -> None:
    root = Path(__file__).parents[1]
    pages = [root / "SECURITY.md", root / "docs" / "production" / "security-model.md"]
    attacks = [one for name in CATEGORIES if name != "benign" for one in vectors(name)]
    total = f"{len(attacks) + len(more_vectors()):,} attacks"

    assert [total in page.read_text(encoding="utf-8") for page in pages] == [True, True]


def test_the_runner_prints_a_line_for_a_category(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("-v", "display") == 0
    assert capsys.readouterr().out == (
        "display: tried 38, held 38, skipped 0, control caught 34\n"
        "more display: tried 3, held 3, skipped 0, control caught 3\n"
    )
