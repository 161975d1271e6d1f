"""Each cell of the table is a test: a row at a door."""

from __future__ import annotations

import anyio
import pytest

from handrail import Call
from joints.agent_doors import resume_every_turn
from joints.case import PATIENCE, Case, Seen, Shown
from joints.rows import ROWS, long_result, principal, write_long
from joints.table import CELLS, DOORS, HOSTS, NOT_POSSIBLE, PAGE, has_test, page

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("row", "door"), CELLS)
async def test_a_row_holds_at_a_door(row: str, door: str) -> None:
    with anyio.fail_after(PATIENCE):
        await ROWS[row](DOORS[door])


@pytest.mark.parametrize("row", [row for row in ROWS if row != "cancelled by the caller"])
async def test_no_row_holds_at_a_door_that_loses_everything(row: str) -> None:
    async def lose(case: Case) -> Seen:
        return Seen({call.id: Shown("") for calls in case.replies for call in calls})

    with pytest.raises((AssertionError, ValueError, TimeoutError)):
        await ROWS[row](lose)


async def test_a_row_fails_at_a_door_where_it_is_not_possible() -> None:
    with pytest.raises(AssertionError):
        await principal(DOORS["OpenAPI"])
    with pytest.raises(AssertionError):
        await long_result(DOORS["Agent.resume"])


async def test_a_result_that_was_lost_with_its_process_is_called_so() -> None:
    rest = Call("read_result", {"call_id": "c1"}, "c2")
    case = Case(replies=((Call("write", {}, "c1"),), (rest,)), tools=(write_long,))
    seen = await resume_every_turn(case)

    assert seen.results["c2"] == Shown(
        "No result is stored for 'c1'. Stored: none. A stored result is lost when the run moves to "
        "another process, or when newer ones need its room. To read it, call the tool again.",
        failed=True,
    )


def test_the_sentences_are_about_cells() -> None:
    assert [cell for cell in NOT_POSSIBLE if cell[0] not in ROWS or cell[1] not in DOORS] == []


def test_the_tests_of_frameworks_exist() -> None:
    cells = [(host, row, name) for host, tests in HOSTS.items() for row, name in tests.items()]

    assert [cell for cell in cells if cell[1] not in ROWS or not has_test(cell[0], cell[2])] == []
    assert not has_test("langgraph", "test_of_something_else")


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
