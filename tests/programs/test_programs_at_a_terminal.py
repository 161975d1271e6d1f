"""Calls of a program are approved at a terminal: one by one, or the rest of the program at once."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from approvals.person import Person, person
from handrail import WRITE, Access, Allow, Ask, Call, CheckedCall, Decision, Executor, Toolset, tool
from handrail.approvals import terminal
from handrail.programs import program_tool

CODE = """
done = []
for place in ["db:order/1", "db:order/2", "db:other/3", "db:order/4"]:
    done.append(await put(place=place))
done
"""


@pytest.fixture
def anyio_backend() -> str:
    """The event loop makes no difference."""
    return "asyncio"


def make_tools(put_at: list[str]) -> Toolset:
    @tool(effect=WRITE, touches=lambda place: Access(WRITE, place))
    def put(place: str) -> str:
        """Put something somewhere."""
        put_at.append(place)
        return place

    return Toolset(put, program_tool([put]))


def policy(call: CheckedCall) -> Decision:
    return Ask("Put it?") if call.name == "put" else Allow()


async def run_with(who: Person, *words: str, calls: int = 1) -> tuple[list[str], str]:
    """Run a program several times while a person types these words.

    Returns the places that it wrote, and what was shown.
    """
    put_at: list[str] = []
    shown: list[str] = []
    approver = terminal(stdin=who.stdin, console=who.console)

    async def answer() -> None:
        for word in words:
            shown.append(await who.sees("your answer: "))
            who.types(f"{word}\n")

    async with (
        Executor(make_tools(put_at), policy=policy, approvals=approver) as executor,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(answer)
        for number in range(calls):
            call = Call("run_program", {"code": CODE}, f"c{number}")
            result = await executor.run(call)
            assert result.text == '["db:order/1", "db:order/2", "db:other/3", "db:order/4"]'
    shown.append(await who.sees("as call 3"))
    return put_at, "".join(shown)


async def test_the_rest_of_a_program_is_approved_with_one_key() -> None:
    with person(height=60) as who:
        put_at, shown = await run_with(who, "t", "y")

    assert put_at == ["db:order/1", "db:order/2", "db:other/3", "db:order/4"]
    assert shown.count("Put it?") == 2
    assert "│ >   4     done.append(await put(place=place))\n" in shown
    assert 'as call 2: put {"place":"db:order/2"}' in shown


async def test_another_program_is_asked_about_again() -> None:
    with person(height=60) as who:
        put_at, shown = await run_with(who, "t", "y", "t", "y", calls=2)

    assert len(put_at) == 8
    assert shown.count("Put it?") == 4


async def test_a_call_outside_a_program_has_no_such_key() -> None:
    put_at: list[str] = []
    with person(height=60) as who:
        approver = terminal(stdin=who.stdin, console=who.console)
        tools = make_tools(put_at)
        async with (
            Executor(tools, policy=policy, approvals=approver) as executor,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(partial(executor.run, Call("put", {"place": "db:order/1"})))
            shown = await who.sees("your answer: ")
            who.types("t\n")
            await who.sees("Unknown answer")
            await who.answers("n")
            await who.answers("", after="(Enter: say nothing) ")

    assert put_at == []
    assert "the rest like it" not in shown
