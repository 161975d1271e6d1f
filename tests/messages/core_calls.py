"""Texts about calls that ran, were stopped, or waited for others."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import anyio

from handrail import (
    READ,
    Call,
    CallLimits,
    Executor,
    LongResults,
    Refused,
    Result,
    Tool,
    ToolFailed,
    Toolset,
    Transient,
    Unknown,
    tool,
    writes_file,
)
from messages.row import Row
from messages.stage import describe, run

CALL = Call("work", "{}", "c1")


async def rows() -> list[Row]:
    """Return the texts about calls that ran, were stopped, or waited for others."""
    return [
        *await _raised(),
        *await _results(),
        *await _long_results(),
        *await _stopped(),
        *await _waited(),
    ]


# -- what a tool raises ---------------------------------------------------------------------------


def raising(error: Exception, *, reads: bool = False) -> Tool[..., str]:
    """Return a tool that raises."""

    async def work() -> str:
        """Do it."""
        raise error

    return tool(effect=READ)(work) if reads else tool(work)


async def _raised() -> list[Row]:
    raised = [
        ("A tool that reads raises an exception", raising(KeyError("sku"), reads=True)),
        ("A tool that writes raises an exception", raising(KeyError("sku"))),
        ("A tool raises `ToolFailed`", raising(ToolFailed("There is no order 7."))),
        ("A tool raises an error without a message", raising(ToolFailed(""))),
        ("A tool raises `Refused`", raising(Refused("Refunds over 100 EUR are not allowed."))),
        ("A tool raises `Transient`", raising(Transient("The news server is busy."))),
        ("A tool raises `Unknown`", raising(Unknown("The bank did not answer."))),
    ]
    return [describe(when, await run(given, CALL)) for when, given in raised]


# -- what a tool returns --------------------------------------------------------------------------


async def _results() -> list[Row]:
    @tool
    async def work() -> None:
        """Return nothing."""

    @tool(name="work")
    async def wrong() -> int:
        """Return a string."""
        return "one"  # type: ignore[return-value]

    return [
        describe("A tool returns `None`", await run(work, CALL)),
        describe("A tool returns a value that is not of its type", await run(wrong, CALL)),
    ]


async def _long_results() -> list[Row]:
    @tool(effect=READ)
    async def work() -> str:
        """Return a long text."""
        return "\n".join(f"line {n:04}" for n in range(20_000))

    @tool(name="work", effect=READ)
    def stream() -> Iterator[str]:
        """Yield a long text."""
        yield from ("x" * 10 for _ in range(80))

    async with Executor(Toolset(work)) as executor:
        cut = await executor.run(CALL)
        part = await executor.run(Call("read_result", {"call_id": "c1", "start": 13, "end": 22}))
        missing = await executor.run(Call("read_result", {"call_id": "c7"}))
    async with Executor(Toolset(work), long_results=LongResults(reader="always")) as executor:
        none = await executor.run(Call("read_result", {"call_id": "c7"}))
    some = LongResults(max_result_chars=300, max_stored_chars=3_000)
    never = LongResults(max_result_chars=300, reader="never")
    few = LongResults(max_result_chars=300, max_stored_chars=100)
    return [
        describe("A result is too long", _omit(cut)),
        describe(
            "A result is too long, and not all of it was stored",
            _omit(await run(work, CALL, long_results=some)),
        ),
        describe(
            "A result is too long, and was not stored",
            _omit(await run(work, CALL, long_results=never)),
        ),
        describe(
            "A stream is too long to be stored", _omit(await run(stream, CALL, long_results=few))
        ),
        describe("A part of a stored result is read", part),
        describe("A result is read that is not stored", missing),
        describe("A result is read, and none is stored", none),
    ]


def _omit(result: Result) -> Result:
    """Return a result with only the last lines before handrail's note, and the first after it."""
    lines = result.text.splitlines()
    notes = [at for at, line in enumerate(lines) if line.startswith("[")]
    kept = [line[:40] for line in lines[max(0, notes[0] - 1) : notes[0]]]
    for at in notes:
        kept += [lines[at], lines[at + 1][:40]]
    return result._replace(text="\n".join(kept))


# -- stopped --------------------------------------------------------------------------------------


def sleeping(*, reads: bool = False, timeout: float = 60) -> Tool[..., str]:
    """Return a tool that does not end by itself."""

    async def work() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return ""

    return tool(effect=READ, timeout=timeout)(work) if reads else tool(timeout=timeout)(work)


async def cancelled(given: Tool[..., str], *, begun: bool) -> Result:
    """Return the result of a call that was cancelled."""
    async with Executor(Toolset(given)) as executor:
        turn = executor.turn()
        turn.add(CALL)
        if begun:
            await anyio.wait_all_tasks_blocked()
        turn.cancel()
        return (await turn.results())[0]


async def _stopped() -> list[Row]:
    closed = Executor(Toolset(sleeping()))
    await closed.aclose()
    return [
        describe(
            "A tool that reads times out", await run(sleeping(reads=True, timeout=0.01), CALL)
        ),
        describe("A tool that writes times out", await run(sleeping(timeout=0.01), CALL)),
        describe("A tool times out in a thread that does not stop", await _in_thread()),
        describe("A call is cancelled before it starts", await cancelled(sleeping(), begun=False)),
        describe(
            "A call that reads is cancelled", await cancelled(sleeping(reads=True), begun=True)
        ),
        describe("A call that writes is cancelled", await cancelled(sleeping(), begun=True)),
        describe("The executor is closed", await closed.run(CALL)),
    ]


async def _in_thread() -> Result:
    go = threading.Event()

    @tool(effect=READ, timeout=0.2)
    def work() -> Iterator[str]:
        """Yield, and hang."""
        yield "one "
        go.wait(5)
        yield "two "

    async with Executor(Toolset(work)) as executor:
        try:
            return await executor.run(CALL)
        finally:
            go.set()


# -- waited for others ----------------------------------------------------------------------------


async def _waited() -> list[Row]:
    return [
        describe(
            "An earlier call was stopped, and is still running in its thread", await _blocked()
        ),
        describe("Two tools wait for each other", await _circle()),
    ]


async def _blocked() -> Result:
    go = threading.Event()

    @tool(touches=lambda: writes_file("a"), timeout=0.1)
    def stuck() -> str:
        """Hang in a thread."""
        go.wait(5)
        return ""

    @tool(touches=lambda: writes_file("a"))
    async def work() -> str:
        """Touch the same."""
        return ""

    async with Executor(Toolset(stuck, work), limits=CallLimits(timeout=0.2)) as executor:
        try:
            _, result = await executor.run_all([Call("stuck", "{}", "c0"), CALL])
        finally:
            go.set()
    return result


async def _circle() -> Result:
    begun = {"a": anyio.Event(), "b": anyio.Event()}
    inner: list[Result] = []

    @tool(touches=lambda path, **_: writes_file(path))
    async def save(path: str, then: str = "") -> str:
        """Save one file, and another from within."""
        if then:
            begun[path].set()
            await begun[then].wait()
            inner.append(await executor.run(Call("save", {"path": then})))
        return ""

    async with Executor(Toolset(save)) as executor:
        await executor.run_all(
            [Call("save", {"path": one, "then": two}) for one, two in ("ab", "ba")]
        )
    return next(result for result in inner if result.failure is not None)
