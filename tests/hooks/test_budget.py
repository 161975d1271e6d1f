"""The budget: so many calls, and no more."""

from __future__ import annotations

from handrail import READ, Call, Executor, FailureKind, Result, Toolset, tool
from handrail.hooks import Hook, budget


@tool(effect=READ)
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect=READ)
async def search() -> str:
    """Search."""
    return "found"


async def run(hook: Hook, *names: str) -> list[Result]:
    tools = Toolset(look, search)
    async with Executor(tools, hooks=[hook]) as executor:
        return [await executor.run(Call(n, {}, str(i))) for i, n in enumerate(names)]


def refused(call_id: str, message: str) -> Result:
    return Result.fail(
        call_id, FailureKind.DENIED, message, "refused by handrail.hooks.budget"
    )._replace(metadata={"refused_by": "handrail.hooks.budget"})


async def test_calls_past_the_budget_are_refused_and_told_to_finish() -> None:
    message = "Not run: the budget of 2 calls is used up. Finish with what you have."

    assert await run(budget(calls=2), "look", "search", "look", "look") == [
        Result("0", "seen"),
        Result("1", "found"),
        refused("2", message),
        refused("3", message),
    ]


async def test_a_tool_may_have_a_budget_of_its_own() -> None:
    assert await run(budget(per_tool={"search": 1}), "search", "look", "search", "look") == [
        Result("0", "found"),
        Result("1", "seen"),
        refused(
            "2",
            "Not run: the budget of 1 call of 'search' is used up. "
            "Use another tool, or finish with what you have.",
        ),
        Result("3", "seen"),
    ]


async def test_what_is_refused_does_not_count_and_what_fails_does() -> None:
    outcomes = await run(
        budget(calls=3, per_tool={"search": 0}), "search", "sing", "look", "look", "look"
    )

    assert [one.failure and one.failure.kind for one in outcomes] == [
        FailureKind.DENIED,
        FailureKind.UNKNOWN_TOOL,
        None,
        None,
        FailureKind.DENIED,
    ]


async def test_wrong_calls_past_the_budget_are_told_to_finish_too() -> None:
    message = "Not run: the budget of 1 call is used up. Finish with what you have."

    ended = await run(budget(calls=1), "sing", "sing")

    assert ended[0].failure is not None
    assert ended[0].failure.kind is FailureKind.UNKNOWN_TOOL
    assert ended[1] == refused("1", message)


async def test_calls_that_came_too_late_do_not_count() -> None:
    hook = budget(calls=1)
    executor = Executor(Toolset(look), hooks=[hook])
    async with executor:
        pass
    late = [await executor.run(Call("look", {}, "c")) for _ in range(2)]

    assert {one.failure and one.failure.kind for one in late} == {FailureKind.CANCELLED}
    assert await run(hook, "look") == [Result("0", "seen")]
