"""Each cell of a framework is a test: a row at its door, in the environment of the framework."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import anyio
import pytest

sys.path.append(str(Path(__file__).parents[1]))
pytest.register_assert_rewrite("joints.rows")

from joints.case import PATIENCE  # noqa: E402  beside this folder
from joints.reasons import NOT_POSSIBLE  # noqa: E402
from joints.rows import ROWS  # noqa: E402

HOST = os.environ["HANDRAIL_HOST"]
DOORS = ("langgraph", "langchain") if HOST == "langgraph" else (HOST,)
CELLS = [(row, door) for row in ROWS for door in DOORS]


def hold(row: str, door: str) -> None:
    """Try a row at the door of the framework."""

    async def check() -> None:
        with anyio.fail_after(PATIENCE):
            await ROWS[row](import_module(f"joints.hosts.{door}").door)

    anyio.run(check)


@pytest.mark.parametrize(("row", "door"), [one for one in CELLS if one not in NOT_POSSIBLE])
def test_a_row_holds_at_a_framework(row: str, door: str) -> None:
    hold(row, door)


@pytest.mark.parametrize(("row", "door"), [one for one in CELLS if one in NOT_POSSIBLE])
def test_a_row_fails_at_a_framework_where_it_is_not_possible(row: str, door: str) -> None:
    with pytest.raises(AssertionError):
        hold(row, door)
