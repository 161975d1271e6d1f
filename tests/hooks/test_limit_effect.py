"""The effect limit: calls of tools that may do more than the ceiling allows are refused."""

from __future__ import annotations

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Call,
    Effect,
    Executor,
    FailureKind,
    Registry,
    Result,
    Toolset,
    tool,
)
from handrail.hooks import limit_effect


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
    return Result.fail(
        call_id, FailureKind.DENIED, message, "refused by handrail.hooks.limit_effect"
    )._replace(metadata={"refused_by": "handrail.hooks.limit_effect"})


async def run(ceiling: Effect, *names: str) -> list[Result]:
    async with Executor(TOOLS, hooks=[limit_effect(ceiling=ceiling)]) as executor:
        return await executor.run_all(Call(name, {}, name) for name in names)


async def test_only_tools_that_read_pass_unless_told_otherwise() -> None:
    async with Executor(TOOLS, hooks=[limit_effect()]) as executor:
        outcomes = await executor.run_all(Call(name, {}, name) for name in ("look", "save"))

    assert outcomes == [
        Result("look", "seen"),
        refused(
            "save",
            "Not run: 'save' can write, and only tools that read are allowed here. Do not work around this. Continue without it, or tell the user.",
        ),
    ]


async def test_a_higher_ceiling_lets_more_through_and_an_alias_is_its_tool() -> None:
    assert await run(WRITE, "save", "remove") == [
        Result("save", "saved"),
        refused(
            "remove",
            "Not run: 'remove' can destroy, and only tools that read or write are allowed here. Do not work around this. Continue without it, or tell the user.",
        ),
    ]


async def test_a_name_that_no_tool_has_is_the_executors_to_refuse() -> None:
    [outcome] = await run(DESTROY, "sing")

    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.UNKNOWN_TOOL


async def test_a_registry_is_asked_as_it_is_now() -> None:
    registry = Registry()
    registry.add(look)
    async with Executor(registry, hooks=[limit_effect()]) as executor:
        registry.add(save)
        executor.refresh_tools()
        outcome = await executor.run(Call("save", {}, "c1"))

    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.DENIED


async def test_a_very_long_name_is_cut_in_the_message() -> None:
    name = "n" * 128
    tools = Toolset(tool(name=name)(save.fn))
    async with Executor(tools, hooks=[limit_effect()]) as executor:
        outcome = await executor.run(Call(name, {}, "c1"))

    assert outcome.text.startswith(f"Not run: '{'n' * 79}…' can write, and only")
