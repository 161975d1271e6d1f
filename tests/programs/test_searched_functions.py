"""Programs with many functions find them by what they do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import READ, WRITE, Call, Executor, Tool, Toolset, tool
from handrail.permissions import Policy
from handrail.policy import Rulebook
from handrail.programs import program_tool, with_programs
from programs.tools import run


@pytest.fixture
def anyio_backend() -> str:
    """The event loop makes no difference."""
    return "asyncio"


def make_tool(name: str) -> Tool[..., Any]:
    @tool(name=name, effect=READ, touches=lambda **_: (), metadata={"program": "only"})
    def change(customer: str, value: int) -> dict[str, int]:
        """Read one field of a customer."""
        return {customer: value}

    return change


MANY = [make_tool(f"crm__field_{number}") for number in range(400)]


@tool(effect=WRITE, touches=lambda **_: ())
def refund(order: int) -> str:
    """Give the money for an order back."""
    return f"refunded {order}"


def test_the_description_of_many_functions_is_short() -> None:
    few = program_tool([*MANY[:20], refund]).spec.description
    many = program_tool([*MANY, refund]).spec.description
    _, _, shown = many.partition("Functions:\n")

    assert "find_functions" not in few
    assert "async def refund(order: int): " in few
    assert len(many) / 4 <= 1_000
    assert shown.partition("crm__field_1,")[0] == snapshot(
        """\
async def find_functions(query: str, limit: int = 5): "Find functions by what they do. Print the result."

It finds the 401 others, by what they do. Write a first program that prints what you need, and call these in the next one: `print(await find_functions(query="..."))`. Their names:
crm__field_0, \
"""
    )
    assert shown.endswith(", crm__field_244 and 238 more")


async def find_and_call(tools: Iterable[Any], policy: Policy | None = None) -> list[str]:
    async with Executor(Toolset(*tools), policy=policy) as executor:
        codes = [
            "print(await find_functions(query='money back', limit=1))",
            "await refund(order=7)",
            "await find_functions(query='zebra')",
        ]
        return [(await run(executor, code)).text for code in codes]


FOUND = """\
Printed:
async def refund(order: int): "Give the money for an order back."
"""


async def test_a_program_finds_a_function_and_the_next_one_calls_it() -> None:
    tools = [*MANY, refund]
    answers = [FOUND, "refunded 7", "No function fits 'zebra'. Use other words."]

    assert await find_and_call([*tools, program_tool(tools)]) == answers
    offered = tool(metadata={"program": "only"}, effect=WRITE, touches=lambda **_: ())(refund.fn)
    assert await find_and_call(with_programs([*MANY, offered], over=0)) == answers
    found, called, nothing = await find_and_call(
        [*tools, program_tool(tools)], Rulebook(mode="plan")
    )
    assert (found, nothing) == (answers[0], answers[2])
    assert "PermissionError: [denied]" in called


async def test_a_function_of_yours_keeps_the_name_of_the_search() -> None:
    @tool(effect=READ, touches=lambda: ())
    def find_functions() -> str:
        """Find zebras."""
        return "mine"

    tools = [*MANY, refund, find_functions]
    async with Executor(Toolset(*tools, program_tool(tools))) as executor:
        mine = await run(executor, "await find_functions()")
        found = await run(executor, "print(await find_functions_(query='money back', limit=1))")
        outside = await executor.run(Call("find_functions_", {"query": "money"}))

    assert (mine.text, found.text) == ("mine", FOUND)
    assert outside.failure is not None


def test_deferred_tools_are_found_by_a_query() -> None:
    tools = Toolset(*MANY[:3], refund)

    assert tools.search("money back") == ()
    assert tools.deferred(over=0).search("money back") == ("refund",)
