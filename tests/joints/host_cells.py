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
DOOR = import_module(f"joints.hosts.{HOST}").door


def hold(row: str) -> None:
    """Try a row at the door of the framework."""

    async def check() -> None:
        with anyio.fail_after(PATIENCE):
            await ROWS[row](DOOR)

    anyio.run(check)


@pytest.mark.parametrize("row", [row for row in ROWS if (row, HOST) not in NOT_POSSIBLE])
def test_a_row_holds_at_a_framework(row: str) -> None:
    hold(row)


@pytest.mark.parametrize("row", [row for row in ROWS if (row, HOST) in NOT_POSSIBLE])
def test_a_row_fails_at_a_framework_where_it_is_not_possible(row: str) -> None:
    with pytest.raises(AssertionError):
        hold(row)
