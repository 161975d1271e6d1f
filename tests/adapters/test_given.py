"""What calls run with, given as values and as functions, with a word in the place of a framework."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from handrail import READ, Call, Context, DefinitionError, Executor, Toolset, tool
from handrail.adapters._calls._given import TurnFacts, check_values


class Shop:
    """What the tools use. It can be called, and is a value all the same."""

    def __call__(self, _: str) -> str:
        raise AssertionError


SHOP = Shop()


@tool(effect=READ)
async def show(context: Context[Shop]) -> str:
    """Show what the call runs with."""
    return f"{context.principal} {context.deps is SHOP} {dict(context.metadata)}"


def role_of(host: str, *, role: str) -> dict[str, Any]:
    return {"role": role, "of": host}


@pytest.mark.anyio
async def test_functions_are_called_and_values_are_not() -> None:
    executor = Executor(Toolset(show))
    given = {
        "principal": lambda host: f"ada@{host}",
        "deps": SHOP,
        "metadata": partial(role_of, role="staff"),
    }
    turn = executor.turn(**TurnFacts[str](executor, "`x.tools`", given).read("crm", deps="theirs"))
    result = await executor.run(Call("show", {}, "c1"), turn=turn)

    assert result.text == "ada@crm True {'role': 'staff', 'of': 'crm'}"


def test_what_is_not_given_is_the_frameworks() -> None:
    facts = TurnFacts[str](Executor(Toolset(show)), "`x.tools`", {"metadata": {}})

    assert facts.read("crm", principal="bob", deps=SHOP) == {
        "principal": "bob",
        "deps": SHOP,
        "metadata": {},
    }


def test_without_a_run_only_values_are_read() -> None:
    given = {"principal": lambda host: f"ada@{host}", "deps": SHOP}
    facts = TurnFacts[str](Executor(Toolset(show)), "`x.tools`", given)

    assert facts.read(None) == {"deps": SHOP}


def test_a_tool_that_needs_deps_is_refused_where_there_are_none() -> None:
    executor = Executor(Toolset(show))
    facts = TurnFacts[str](executor, "`x.tools`", {"deps": lambda _: None})
    said = r"'show' takes Context\[Shop\], but there are no deps\. Pass `deps=` to `x\.tools`"

    with pytest.raises(DefinitionError, match=said):
        facts.read("crm", deps=SHOP)
    with pytest.raises(DefinitionError, match=said):
        check_values(executor, "`x.tools`", {"principal": "ada"})
    assert check_values(executor, "`x.tools`", {"deps": SHOP}) == {"deps": SHOP}


def test_wrong_options_are_refused_when_the_adapter_is_made() -> None:
    async def find(_: str) -> Shop:
        raise AssertionError

    executor = Executor(Toolset())
    with pytest.raises(TypeError, match=r"^`x\.tools` has no option 'tenant'\.$"):
        check_values(executor, "`x.tools`", {"deps": 1, "tenant": "t1"})
    with pytest.raises(TypeError, match=r"^`x\.tools`: deps= must not be an `async def` function"):
        TurnFacts[str](executor, "`x.tools`", {"deps": find})
