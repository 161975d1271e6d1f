"""Texts of hooks: your own that fail, and the ready-made ones."""

from __future__ import annotations

import sys
from typing import Any

import anyio

from handrail import (
    READ,
    Call,
    CallLimits,
    CheckedCall,
    Executor,
    Hook,
    Result,
    StopRun,
    ToolFailed,
    Toolset,
    Transient,
    tool,
)
from handrail.hooks import (
    budget,
    circuit_breaker,
    command,
    frame,
    limit_effect,
    loop_guard,
    rate_limit,
    redact,
)
from messages.row import Row
from messages.stage import describe, run


@tool
async def save() -> str:
    """Save."""
    return "Saved with the key sk-123."


@tool(effect=READ)
async def load() -> str:
    """Load."""
    raise ToolFailed("There is no file.")


@tool(effect=READ)
async def fetch() -> str:
    """Fetch."""
    raise Transient("The server is busy.")


CALL = Call("save", "{}", "c1")
TOOLS = Toolset(save, load, fetch)


async def rows() -> list[Row]:
    """Return the texts of hooks."""
    return [
        *await _before(),
        *await _after(),
        *await _around(),
        *await _nested(),
        *await _ready_made(),
    ]


async def hooked(hook: Hook) -> Result:
    """Return the result of a call with a hook."""
    return await run(TOOLS, CALL, hooks=[hook], limits=CallLimits(hook_timeout=0.01))


async def late(hook: Hook) -> Result:
    """Return the result of a call that is added to its turn after a hook has ended the run."""
    async with Executor(TOOLS, hooks=[hook]) as executor:
        turn = executor.turn()
        await turn.run(CALL)
        return await turn.run(Call("load", "{}", "c2"))


async def broken(*_: object) -> Any:
    """Raise, as a hook."""
    raise RuntimeError


async def slow(*_: object) -> Any:
    """Take too long, as a hook."""
    await anyio.sleep_forever()


async def silent(*_: object) -> Any:
    """Return nothing, as a hook."""


async def _before() -> list[Row]:
    def other(_call: CheckedCall) -> Call:
        return Call("load", "{}", "c2")

    def stop(_call: CheckedCall) -> Result:
        raise StopRun("The budget of this customer is used up.")

    def stop_silently(_call: CheckedCall) -> Result:
        raise StopRun

    return [
        describe("A `before` hook raises", await hooked(Hook(before=broken))),
        describe("A `before` hook times out", await hooked(Hook(before=slow))),
        describe("A `before` hook returns another call", await hooked(Hook(before=other))),
        describe("A `before` hook returns something else", await hooked(Hook(before=silent))),
        describe("A hook raises `StopRun`", await hooked(Hook(before=stop))),
        describe(
            "A hook raises `StopRun` without a reason", await hooked(Hook(before=stop_silently))
        ),
        describe("A call arrives after a hook has ended the run", await late(Hook(before=stop))),
        describe(
            "A call arrives after a hook has ended the run without a reason",
            await late(Hook(before=stop_silently)),
        ),
    ]


async def _after() -> list[Row]:
    return [
        describe("An `after` hook raises", await hooked(Hook(after=broken))),
        describe("An `after` hook times out", await hooked(Hook(after=slow))),
        describe("An `after` hook returns something else", await hooked(Hook(after=silent))),
    ]


async def _around() -> list[Row]:
    async def run_and_break(_call: CheckedCall, run: Any) -> Result:
        await run()
        raise RuntimeError

    async def run_and_lose(_call: CheckedCall, run: Any) -> Any:
        await run()

    return [
        describe("An `around` hook raises before the tool runs", await hooked(Hook(around=broken))),
        describe(
            "An `around` hook raises after the tool ran", await hooked(Hook(around=run_and_break))
        ),
        describe(
            "An `around` hook returns something else", await hooked(Hook(around=run_and_lose))
        ),
    ]


async def _nested() -> list[Row]:
    """Return the texts for hooks that call tools whose calls they see again."""
    seen: list[Result] = []

    async def before(call: CheckedCall) -> CheckedCall:
        seen.append(await executor.run(Call("save", "{}")))
        return call

    async with Executor(TOOLS, hooks=[Hook(before=before)]) as executor:
        await executor.run(CALL)
    first = next(result for result in seen if result.failure is not None)

    async def after(_call: object, result: Result) -> Result:
        seen.append(await executor.run(Call("save", "{}")))
        return result

    seen.clear()
    async with Executor(TOOLS, hooks=[Hook(after=after)]) as executor:
        await executor.run(CALL)
    second = next(result for result in seen if result.failure is not None)
    return [
        describe("`before` hooks make calls without end", first),
        describe("`after` hooks make calls without end", second),
    ]


async def repeated(hook: Hook, call: Call, times: int = 2) -> Result:
    """Return the last result of the same call, a number of times."""
    result = Result("", "")
    async with Executor(TOOLS, hooks=[hook]) as executor:
        for _ in range(times):
            result = await executor.run(call)
    return result


async def _ready_made() -> list[Row]:
    times = iter([0.0, 0.25, 1.0])
    text = "import sys; print('The own text of the program.', file=sys.stderr); sys.exit(2)"
    program = [sys.executable, "-c", text]
    breaker = circuit_breaker(failures=1, clock=lambda: next(times))
    limit = rate_limit(1, clock=lambda: next(iter_seconds))
    iter_seconds = iter([0.0, 0.25])
    return [
        describe("`limit_effect` refuses the call", await hooked(limit_effect())),
        describe(
            "`loop_guard` refuses the call",
            await repeated(loop_guard(most=2), Call("load", "{}"), 3),
        ),
        describe(
            "`loop_guard` warns of a call that succeeded again and again",
            await repeated(loop_guard(repeats=2), CALL, 2),
        ),
        describe(
            "`loop_guard` refuses the next one", await repeated(loop_guard(repeats=2), CALL, 3)
        ),
        describe("`budget` refuses the call", await repeated(budget(calls=1), CALL)),
        describe(
            "`budget` refuses a call of one tool",
            await repeated(budget(per_tool={"save": 1}), CALL),
        ),
        describe("`rate_limit` refuses the call", await repeated(limit, CALL)),
        describe(
            "`circuit_breaker` refuses the call", await repeated(breaker, Call("fetch", "{}"))
        ),
        describe(
            "`command` refuses the call: the reason is the program's",
            await run(TOOLS, CALL, hooks=[command(program)]),
        ),
        describe("`redact` removes a secret", await hooked(redact(values=["sk-123"]))),
        describe("`frame` marks where output begins and ends", await hooked(frame())),
    ]
