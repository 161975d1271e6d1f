"""Each cell of the table is a test: a row at a door."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from adapters import run
from handrail import Call
from joints.agent_doors import run_agent
from joints.case import PATIENCE, Case, Seen, Shown
from joints.reasons import AGENTS, HOSTS, MCP, NOT_POSSIBLE, OWN
from joints.rows import ROWS, filled_in, progress, write_long
from joints.table import CELLS, DOORS, PAGE, page
from joints.web_doors import chat_durably

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("row", "door"), CELLS)
async def test_a_row_holds_at_a_door(row: str, door: str) -> None:
    with anyio.fail_after(PATIENCE):
        await ROWS[row](DOORS[door])


@pytest.mark.soak
@pytest.mark.parametrize("row", [row for row in ROWS if row != "output in pieces"])
async def test_a_row_holds_in_a_chat_of_durable_runs(row: str) -> None:
    """A worker sends no output in pieces: its process has it."""
    with anyio.fail_after(PATIENCE):
        await ROWS[row](chat_durably)


@pytest.mark.parametrize("row", [row for row in ROWS if row != "cancelled by the caller"])
async def test_no_row_holds_at_a_door_that_loses_everything(row: str) -> None:
    async def lose(case: Case) -> Seen:
        return Seen({call.id: Shown("") for calls in case.replies for call in calls})

    with pytest.raises((AssertionError, ValueError, TimeoutError)):
        await ROWS[row](lose)


async def test_a_row_fails_at_a_door_where_it_is_not_possible() -> None:
    with pytest.raises(AssertionError):
        await progress(DOORS["OpenAPI"])
    with pytest.raises(AssertionError):
        await filled_in(DOORS["OpenAPI"])


async def test_a_result_that_was_lost_with_its_process_is_called_so() -> None:
    rest = Call("read_result", {"call_id": "c1"}, "c2")
    case = Case(replies=((Call("write", {}, "c1"),), (rest,)), tools=(write_long,))
    seen = await run_agent(case, every_turn=True)

    assert seen.results["c2"] == Shown(
        "No result is stored for 'c1'. Stored: none. A stored result is lost when the run moves to "
        "another process, or when newer ones need its room. To read it, call the tool again.",
        failed=True,
    )


def test_the_sentences_are_about_cells() -> None:
    doors = (*OWN, *AGENTS, "web chat", *MCP, "OpenAPI")

    assert tuple(DOORS) == doors
    assert {row for row, _ in NOT_POSSIBLE} <= ROWS.keys()
    assert {door for _, door in NOT_POSSIBLE} <= {*doors, *HOSTS}


def test_each_framework_of_the_table_has_a_door() -> None:
    """Its cells are tested in the environment of the framework."""
    files = {path.stem for path in (Path(__file__).parent / "hosts").glob("*.py")}

    assert files == {*HOSTS, "shared"}
    assert {*run.CELLS, "langchain"} == {*HOSTS}


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
