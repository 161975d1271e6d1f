"""The gate: calls of tools that may do more than the ceiling allows are refused."""

from __future__ import annotations

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Call,
    Effect,
    Executor,
    Kind,
    Registry,
    Result,
    Toolset,
    tool,
)
from handrail.hooks import gate


@tool(effect=READ)
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect=WRITE)
async def save() -> str:
    """Save."""
    return "saved"


@tool(effect=DESTROY, aliases=["remove"])
async def erase() -> str:
    """Erase."""
    return "erased"


TOOLS = Toolset(look, save, erase)


def refused(call_id: str, message: str) -> Result:
    return Result.fail(call_id, Kind.DENIED, message, "refused by handrail.hooks.gate")


async def run(ceiling: Effect, *names: str) -> list[Result]:
    async with Executor(TOOLS, before=[gate(TOOLS, ceiling=ceiling).before]) as executor:
        return await executor.run_all(Call(name, {}, name) for name in names)


async def test_only_tools_that_read_pass_unless_told_otherwise() -> None:
    async with Executor(TOOLS, before=[gate(TOOLS).before]) as executor:
        outcomes = await executor.run_all(Call(name, {}, name) for name in ("look", "save"))

    assert outcomes == [
        Result("look", "seen"),
        refused(
            "save",
            "The tool 'save' can write, and only tools that read are allowed here; nothing was run. "
            "Go on without it, or tell the user what you would do.",
        ),
    ]


async def test_a_higher_ceiling_lets_more_through_and_an_alias_is_its_tool() -> None:
    assert await run(WRITE, "save", "remove") == [
        Result("save", "saved"),
        refused(
            "remove",
            "The tool 'remove' can destroy, and only tools that read or write are allowed here; "
            "nothing was run. Go on without it, or tell the user what you would do.",
        ),
    ]


async def test_a_name_that_no_tool_has_is_the_executors_to_refuse() -> None:
    [outcome] = await run(DESTROY, "sing")

    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.UNKNOWN_TOOL


async def test_a_registry_is_asked_as_it_is_now() -> None:
    registry = Registry()
    registry.add(look)
    async with Executor(registry, before=[gate(registry).before]) as executor:
        registry.add(save)
        executor.advertise()
        outcome = await executor.run(Call("save", {}, "c1"))

    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.DENIED


async def test_a_very_long_name_is_cut_in_the_message() -> None:
    name = "n" * 128
    tools = Toolset(tool(name=name)(save.fn))
    async with Executor(tools, before=[gate(tools).before]) as executor:
        outcome = await executor.run(Call(name, {}, "c1"))

    assert outcome.text.startswith(f"The tool '{'n' * 79}…' can write, and only")
