"""Promises about permission: whatever goes wrong on the way, the answer is no."""

import anyio
import pytest

from handrail import (
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Executor,
    FailureKind,
    Hook,
    Result,
    Toolset,
    tool,
)


def eraser() -> tuple[list[str], Toolset]:
    ran: list[str] = []

    @tool
    async def erase(path: str) -> str:
        """Erase a file."""
        ran.append(path)
        return "gone"

    return ran, Toolset(erase)


ERASE = Call("erase", '{"path":"a"}', "c1")


async def crash(_call: Call) -> Call:
    raise RuntimeError("hunter2")


async def hang(_call: Call) -> Call:
    await anyio.sleep_forever()
    raise AssertionError


async def say_nothing(_call: Call) -> None: ...


async def swap(call: Call) -> Call:
    return Call(call.name, call.args, "another id")


@pytest.mark.parametrize("hook", [crash, hang, say_nothing, swap])
async def test_a_hook_that_crashes_hangs_or_talks_nonsense_denies(hook: object) -> None:
    ran, tools = eraser()
    strict: list[object] = []

    async def sometimes(call: CheckedCall) -> Call:
        return await strict[0](call) if strict else call

    async with Executor(
        tools, hooks=[Hook(before=sometimes)], limits=CallLimits(hook_timeout=0.3)
    ) as executor:
        first = await executor.run(ERASE)
        strict.append(hook)
        alone = await executor.run(ERASE)
        batch = await executor.run_all([ERASE, ERASE])
    async with Executor(
        tools, hooks=[Hook(before=hook)], limits=CallLimits(hook_timeout=0.3)
    ) as executor:
        fresh = await executor.run(ERASE)

    assert first.text == "gone"
    assert ran == ["a"]
    for outcome in [alone, *batch, fresh]:
        assert outcome.failure is not None
        assert outcome.failure.kind is FailureKind.DENIED
        assert outcome.text.startswith("Not run: a check before the call ")
        assert "hunter2" not in outcome.text


async def test_a_policy_that_crashes_or_gives_no_decision_denies() -> None:
    ran, tools = eraser()
    async with Executor(tools, policy=lambda *_: 1 / 0) as executor:
        crashed = [await executor.run(ERASE), *await executor.run_all([ERASE])]
    async with Executor(tools, policy=lambda *_: True) as executor:
        odd = await executor.run(ERASE)

    expected = Result.fail(
        "c1",
        FailureKind.DENIED,
        "Not run: the permission check failed (ZeroDivisionError). Calling again will not help; tell the user.",
        "ZeroDivisionError('division by zero')",
    )
    assert crashed == [expected, expected]
    assert odd == Result.fail(
        "c1",
        FailureKind.DENIED,
        "Not run: the permission check gave no decision. Calling again will not help; tell the user.",
        "it returned True",
    )
    assert ran == []


async def test_nobody_to_ask_means_denied_at_once() -> None:
    ran, tools = eraser()
    async with Executor(tools, policy=lambda *_: Ask("Erase a?")) as executor:
        with anyio.fail_after(1):
            outcome = await executor.run(ERASE)

    assert outcome == Result.fail(
        "c1",
        FailureKind.DENIED,
        "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: Erase a?",
    )
    assert ran == []


async def test_a_check_after_the_call_that_crashes_or_hangs_withholds_the_result() -> None:
    ran, tools = eraser()

    async def crash_after(_call: Call, _result: Result) -> Result:
        raise RuntimeError("hunter2")

    async def hang_after(_call: Call, _result: Result) -> Result:
        await anyio.sleep_forever()
        raise AssertionError

    outcomes: list[Result] = []
    for hook in (crash_after, hang_after):
        async with Executor(
            tools, hooks=[Hook(after=hook)], limits=CallLimits(hook_timeout=0.3)
        ) as executor:
            outcomes += [await executor.run(ERASE), await executor.run(ERASE)]
            outcomes += await executor.run_all([ERASE])

    assert ran == ["a"] * 6
    for outcome in outcomes:
        assert outcome.failure is not None
        assert outcome.failure.kind is FailureKind.BUG
        assert "gone" not in outcome.text
        assert "hunter2" not in outcome.text
        assert "withheld" in outcome.text
