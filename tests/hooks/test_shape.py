"""Ready-made hooks are hooks like yours: an executor takes each of them whole."""

from __future__ import annotations

import json
import sys

import pytest

from handrail import READ, Call, CheckedCall, Executor, FailureKind, Hook, Result, Toolset, tool
from handrail.hooks import (
    StopRun,
    audit,
    budget,
    cache,
    circuit_breaker,
    command,
    frame,
    limit_effect,
    loop_guard,
    rate_limit,
    redact,
)

SAYS_NOTHING = [sys.executable, "-I", "-S", "-c", "pass"]
HOOKS = {
    "audit": lambda: audit([].append),
    "budget": lambda: budget(calls=9),
    "cache": cache,
    "circuit_breaker": circuit_breaker,
    "command": lambda: command(SAYS_NOTHING),
    "limit_effect": limit_effect,
    "loop_guard": loop_guard,
    "rate_limit": lambda: rate_limit(9),
    "redact": lambda: redact(values=["secret"]),
}


@tool(effect=READ)
async def look(word: str = "seen") -> str:
    """Look."""
    return word


CALLS = [Call("look", {}, "c1"), Call("look", {"x": 1}, "c2"), Call("sing", {}, "c3")]


async def run(*hooks: Hook) -> list[Result]:
    async with Executor(Toolset(look), hooks=hooks) as executor:
        return await executor.run_all(CALLS)


@pytest.mark.parametrize("name", HOOKS)
async def test_a_hook_that_has_nothing_to_object_changes_nothing(name: str) -> None:
    hook = HOOKS[name]()

    assert type(hook) is Hook
    assert await run(hook) == await run()


async def test_all_of_them_work_together() -> None:
    assert await run(*[make() for make in HOOKS.values()]) == await run()


async def test_results_pass_them_in_reverse_order_and_so_the_last_one_sees_them_first() -> None:
    lines: list[str] = []
    hooks = [audit(lines.append), redact(values=["hidden"], mark="*")]
    async with Executor(Toolset(look), hooks=hooks) as executor:
        ended = await executor.run(Call("look", {"word": "hidden"}, "c1"))

    assert ended == Result("c1", "*")
    assert [json.loads(line)["chars"] for line in lines] == [1]


async def test_a_frame_that_is_listed_first_stands_around_what_others_made_of_a_result() -> None:
    hooks = [frame(), redact(values=["hidden"], mark="*")]
    async with Executor(Toolset(look), hooks=hooks) as executor:
        ended = await executor.run(Call("look", {"word": "hidden"}, "c1"))

    assert ended.text.splitlines()[1:-1] == ["*"]


async def test_a_hook_that_ends_the_run_leaves_the_others_their_say() -> None:
    def stop(call: CheckedCall) -> CheckedCall:
        raise StopRun("That is enough.")

    lines: list[str] = []
    async with Executor(Toolset(look), hooks=[audit(lines.append), Hook(before=stop)]) as executor:
        turn = executor.turn()
        ended = await executor.run(Call("look", {}, "c1"), turn=turn)

    denied = Result.fail(
        "c1", FailureKind.DENIED, "Not run: a check ended the run. That is enough."
    )
    assert (ended, turn.stop_reason) == (denied, "That is enough.")
    assert [json.loads(line)["kind"] for line in lines] == ["denied"]
