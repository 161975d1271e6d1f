"""Tools that need deps are refused before a model gets them, if there are none."""

from __future__ import annotations

import logging
from typing import Annotated, Any, TypeVar

import pytest
from typing_extensions import TypeAliasType

from handrail import READ, Call, Context, DefinitionError, Executor, FailureKind, Toolset, tool
from handrail.agent import Agent
from handrail.testing import ScriptedModel

T = TypeVar("T")


class Shop:
    """What the tools use."""

    name = "tea shop"


MaybeShop = TypeAliasType("MaybeShop", Shop | None)


@tool(effect=READ)
async def show(context: Context[Shop]) -> str:
    """Show the shop."""
    return context.deps.name


async def list_orders(context: Context[list[str]] | None = None) -> str:
    """List the orders."""
    raise AssertionError(context)


async def count(context: Annotated[Context[dict[str, int]], "for the executor"]) -> str:
    """Count."""
    raise AssertionError(context)


@pytest.mark.parametrize(
    ("made", "needed"),
    [(show, "Shop"), (tool(list_orders), "list[str]"), (tool(count), "dict[str, int]")],
)
def test_the_message_names_the_tool_the_type_and_the_place(made: Any, needed: str) -> None:
    tools = Toolset(made)
    with pytest.raises(DefinitionError) as raised:
        tools.check_deps(None, "`agent.run`")

    assert str(raised.value) == (
        f"{made.origin}: {made.spec.name!r} takes Context[{needed}], but there are no deps. "
        f"Pass `deps=` to `agent.run`, or declare Context[{needed} | None]."
    )
    tools.check_deps([], "`agent.run`")


@pytest.mark.parametrize("kind", [Any, object, None, Shop | None, MaybeShop, T])
def test_a_tool_that_works_without_deps_is_not_refused(kind: Any) -> None:
    async def work(context: Context[Any]) -> str:
        raise AssertionError(context)

    async def plain(context: Context) -> str:
        raise AssertionError(context)

    work.__annotations__["context"] = Context[kind]
    Toolset(work, plain).check_deps(None, "`agent.run`")


@pytest.mark.anyio
async def test_an_agent_without_deps_ends_before_its_model_is_asked() -> None:
    asked: list[str] = []

    def model(_: object) -> str:
        asked.append("asked")
        raise AssertionError

    with pytest.raises(DefinitionError, match=r"Pass `deps=` to `agent\.run`"):
        await Agent(model, [show]).run("go")  # type: ignore[arg-type]
    done = await Agent(ScriptedModel(Call("show", {}, "c1"), "Done."), [show]).run(
        "go", deps=Shop()
    )

    assert (asked, done.text) == ([], "Done.")


@pytest.mark.anyio
async def test_a_turn_without_deps_says_in_the_log_what_to_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    executor = Executor(Toolset(show))
    with caplog.at_level(logging.ERROR, "handrail"):
        result = await executor.run(Call("show", {}, "c1"))
    turn = executor.turn(deps=Shop())

    assert result.failure is not None
    assert result.failure.kind is FailureKind.BUG
    assert "Pass `deps=` to `executor.turn`" in caplog.text
    assert (await executor.run(Call("show", {}, "c1"), turn=turn)).text == "tea shop"
