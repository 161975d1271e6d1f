"""Promises about time: order, deadlines, retries, cancellation, threads."""

import contextvars
import itertools
import threading
import time
from collections.abc import AsyncIterator

import anyio

from handrail import (
    READ,
    WRITE,
    Call,
    CallLimits,
    Context,
    Executor,
    FailureKind,
    Result,
    Retry,
    Toolset,
    Transient,
    tool,
    writes_file,
)


def kinds(outcomes: list[Result]) -> list[FailureKind | None]:
    return [one.failure.kind if one.failure else None for one in outcomes]


async def test_cancel_leaves_every_call_with_exactly_one_result() -> None:
    begun = anyio.Event()

    @tool(effect=READ)
    async def quick() -> str:
        """Answer at once."""
        return "done"

    @tool(effect=READ)
    async def look() -> str:
        """Look forever."""
        await anyio.sleep_forever()
        return "never"

    @tool
    async def work() -> str:
        """Work forever."""
        begun.set()
        await anyio.sleep_forever()
        return "never"

    names = ["quick", "look", "work", "work", "missing"]
    async with Executor(Toolset(quick, look, work)) as executor:
        turn = executor.turn()
        turn.add(*(Call(name, {}, f"c{n}") for n, name in enumerate(names)))
        await anyio.wait_all_tasks_blocked()
        turn.cancel("c1")
        await begun.wait()
        turn.cancel()
        outcomes = await turn.results()

    assert [one.call_id for one in outcomes] == ["c0", "c1", "c2", "c3", "c4"]
    assert kinds(outcomes) == [
        None,
        FailureKind.CANCELLED,
        FailureKind.UNKNOWN,
        FailureKind.CANCELLED,
        FailureKind.UNKNOWN_TOOL,
    ]
    assert outcomes[3].text == "Not run: the call was cancelled before it started."


async def test_a_sync_tool_that_blocks_two_seconds_misses_no_heartbeat() -> None:
    @tool(effect=READ)
    def block() -> str:
        """Block."""
        time.sleep(2)
        return "done"

    @tool(effect=READ)
    def drip() -> AsyncIterator[str]:
        """Block piece by piece."""
        for _ in range(2):
            time.sleep(1)
            yield "x"

    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(time.monotonic())
            await anyio.sleep(0.05)

    async with Executor(Toolset(block, drip)) as executor, anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        outcomes = await executor.run_all([Call("block", {}, "c1"), Call("drip", {}, "c2")])
        tasks.cancel_scope.cancel()

    gaps = [after - before for before, after in itertools.pairwise(beats)]
    assert [one.text for one in outcomes] == ["done", "xx"]
    assert len(beats) > 5
    assert max(gaps) < 1, "the loop stood still"


request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")


async def test_what_the_caller_set_in_a_contextvar_is_seen_by_every_tool_and_never_leaks() -> None:
    @tool(effect=READ)
    def threaded(me: str) -> str:
        """See, then change, in a thread."""
        seen = request.get()
        request.set(me)
        return seen

    @tool(effect=READ)
    async def awaited(me: str) -> str:
        """See, then change, in the loop."""
        seen = request.get()
        request.set(me)
        await anyio.lowlevel.checkpoint()
        assert request.get() == me
        return seen

    @tool(effect=READ)
    async def at_once(me: str) -> str:
        """See, then change, without waiting."""
        seen = request.get()
        request.set(me)
        return seen

    names = ["threaded", "awaited", "at_once"]
    calls = [Call(name, f'{{"me":"{n}"}}', f"c{n}") for n, name in enumerate(names * 3)]
    async with Executor(Toolset(threaded, awaited, at_once)) as executor:
        request.set("r1")
        together = await executor.run_all(calls)
        alone = [await executor.run(call) for call in calls]
        after = request.get()

    assert [one.text for one in together] == ["r1"] * 9
    assert [one.text for one in alone] == ["r1"] * 9
    assert after == "r1"


async def test_a_timed_out_write_says_that_nobody_knows_and_not_to_try_again() -> None:
    @tool(effect=WRITE, timeout=0.05)
    async def pay(amount: int) -> str:
        """Pay."""
        await anyio.sleep_forever()
        return "paid"

    @tool(effect=READ, timeout=0.05)
    async def look() -> str:
        """Look."""
        await anyio.sleep_forever()
        return "seen"

    async with Executor(Toolset(pay, look)) as executor:
        paid = await executor.run(Call("pay", {"amount": 5}, "c1"))
        looked = await executor.run(Call("look", {}, "c2"))

    assert kinds([paid, looked]) == [FailureKind.UNKNOWN, FailureKind.TIMEOUT]
    assert paid.text == (
        "Timed out after 0.05 s and was stopped. It may have taken effect: check before you call it again."
    )
    assert "not known" not in looked.text


async def test_a_timed_out_thread_is_said_to_run_on_and_keeps_its_resource_until_it_ends() -> None:
    go = threading.Event()
    log: list[str] = []

    @tool(effect=WRITE, timeout=0.5, touches=writes_file)
    def save(path: str) -> str:
        """Save slowly."""
        go.wait(5)
        log.append("the thread ended")
        return "late"

    @tool(effect=WRITE, touches=writes_file)
    async def touch(path: str) -> str:
        """Touch a file."""
        log.append(f"touched {path}")
        return "touched"

    async with Executor(Toolset(save, touch)) as executor:
        saved = await executor.run(Call("save", {"path": "a"}, "c1"))
        other = await executor.run(Call("touch", {"path": "b"}, "c2"))

        async with anyio.create_task_group() as tasks:

            async def touch_the_same() -> None:
                outcome = await executor.run(Call("touch", {"path": "a"}, "c3"))
                log.append(outcome.text)

            tasks.start_soon(touch_the_same)
            await anyio.wait_all_tasks_blocked()
            log.append("waited")
            go.set()

    assert kinds([saved, other]) == [FailureKind.UNKNOWN, None]
    assert "but is still running: calls that conflict with it wait until it ends." in saved.text
    assert log == ["touched b", "waited", "the thread ended", "touched a", "touched"]


async def test_only_what_may_be_repeated_is_tried_again_and_always_with_the_same_key() -> None:
    seen: dict[str, list[tuple[str, int]]] = {"read": [], "write": [], "safe_write": []}

    def note(name: str, context: Context) -> None:
        seen[name].append((context.idempotency_key, context.attempt))
        raise Transient("the line is busy")

    @tool(effect=READ)
    async def read(context: Context) -> str:
        """Read."""
        note("read", context)
        return ""

    @tool(effect=WRITE)
    async def write(context: Context) -> str:
        """Write."""
        note("write", context)
        return ""

    @tool(effect=WRITE, idempotent=True)
    def safe_write(context: Context) -> str:
        """Write what may be written twice."""
        note("safe_write", context)
        return ""

    retry = Retry(attempts=3, base=0.001, cap=0.001)
    async with Executor(
        Toolset(read, write, safe_write), limits=CallLimits(retry=retry)
    ) as executor:
        turn = executor.turn("t", run="r")
        outcomes = await executor.run_all((Call(name, {}, name) for name in seen), turn=turn)

    assert seen == {
        "read": [("r/t/read", 1), ("r/t/read", 2), ("r/t/read", 3)],
        "write": [("r/t/write", 1)],
        "safe_write": [("r/t/safe_write", 1), ("r/t/safe_write", 2), ("r/t/safe_write", 3)],
    }
    assert kinds(outcomes) == [FailureKind.TRANSIENT] * 3


async def test_nothing_is_tried_again_unless_somebody_asked_for_it() -> None:
    tries: list[int] = []

    @tool(effect=READ)
    async def read() -> str:
        """Read."""
        tries.append(1)
        raise Transient("the line is busy")

    async with Executor(Toolset(read)) as executor:
        outcome = await executor.run(Call("read", {}, "c1"))

    assert tries == [1]
    assert outcome.text == (
        "the line is busy. This may be temporary: retry later, or continue with other work."
    )


async def test_the_pause_that_was_asked_for_is_kept() -> None:
    tries: list[float] = []

    @tool(effect=READ, retry=Retry(attempts=2, base=10, cap=30))
    async def read() -> str:
        """Read."""
        tries.append(time.monotonic())
        if len(tries) == 1:
            raise Transient("slow down", retry_after=0.2)
        return "at last"

    async with Executor(Toolset(read)) as executor:
        outcome = await executor.run(Call("read", {}, "c1"))

    assert outcome.text == "at last"
    assert 0.2 <= tries[1] - tries[0] < 5


async def test_results_come_in_call_order_whatever_the_timing() -> None:
    ended: list[int] = []
    turns = [anyio.Event() for _ in range(6)]

    @tool(effect=READ)
    async def take_turns(place: int) -> int:
        """End in reverse order."""
        if place + 1 < len(turns):
            await turns[place + 1].wait()
        ended.append(place)
        turns[place].set()
        return place

    async with Executor(Toolset(take_turns)) as executor:
        outcomes = await executor.run_all(
            Call("take_turns", {"place": place}, f"c{place}") for place in range(6)
        )

    assert ended == [5, 4, 3, 2, 1, 0]
    assert [(one.call_id, one.text) for one in outcomes] == [(f"c{n}", str(n)) for n in range(6)]


async def test_one_failing_sibling_does_not_cancel_the_others() -> None:
    failed = anyio.Event()

    @tool(effect=READ)
    async def fail() -> str:
        """Fail."""
        failed.set()
        raise RuntimeError

    @tool(effect=READ)
    async def wait() -> str:
        """Wait for the other's failure."""
        await failed.wait()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return "unharmed"

    async with Executor(Toolset(fail, wait)) as executor:
        outcomes = await executor.run_all(
            [Call("wait", {}, "c1"), Call("fail", {}, "c2"), Call("wait", {}, "c3")]
        )

    assert kinds(outcomes) == [None, FailureKind.BUG, None]
    assert [outcomes[0].text, outcomes[2].text] == ["unharmed"] * 2
