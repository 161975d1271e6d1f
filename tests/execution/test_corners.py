"""What happens in the corners: interrupts, closing, ledgers and hooks that fail late."""

from __future__ import annotations

import asyncio
import re
import threading
from contextvars import copy_context
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from handrail import (
    READ,
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Context,
    Executor,
    FailureKind,
    Hook,
    NeedsLogin,
    Result,
    Tool,
    Toolset,
    tool,
    writes_file,
)
from handrail.approvals import defer
from handrail.events import Finished
from handrail.permissions import MemoryLedger, Pending


@tool(effect=READ)
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect=READ)
async def wait_for_ever() -> str:
    """Wait."""
    await anyio.sleep_forever()
    return "never"


def kind(result: Result) -> FailureKind | None:
    return result.failure.kind if result.failure else None


async def test_a_turn_that_is_left_by_a_cancelled_task_cancels_its_calls() -> None:
    async with Executor(Toolset(wait_for_ever)) as executor:
        turn = executor.turn()
        with anyio.CancelScope() as scope:
            async with turn:
                turn.add(Call("wait_for_ever", "{}", "c1"))
                scope.cancel()

        assert kind(await turn.result("c1")) is FailureKind.CANCELLED


async def test_an_interrupt_in_a_tool_reaches_whoever_waits_for_a_result_of_its_turn() -> None:
    @tool(effect=READ)
    async def interrupt() -> str:
        """Interrupt."""
        raise KeyboardInterrupt

    async with Executor(Toolset(interrupt, look)) as executor:
        turn = executor.turn()
        turn.add(Call("interrupt", "{}", "c1"), Call("look", "{}", "c2"))
        with pytest.raises(KeyboardInterrupt):
            await turn.results()
        with pytest.raises(KeyboardInterrupt):
            await turn.result("c2")


async def test_a_ledger_that_cannot_note_an_end_costs_no_result() -> None:
    class Forgetful(MemoryLedger):
        async def end(self, call_key: str, /) -> None:
            raise OSError(call_key)

    def policy(_call: CheckedCall) -> Ask:
        return Ask("May it?")

    approvals = Approvals(approver=defer, ledger=Forgetful())
    async with Executor(Toolset(look), policy=policy, approvals=approvals) as executor:
        turn = executor.turn()
        turn.add(Call("look", "{}", "c1"))
        await turn.results()
        turn.answer(turn.pending[0], Allow())

        assert [result.text for result in await turn.results()] == ["seen"]


async def test_a_question_stays_one_where_a_hook_around_the_call_fails_after_it() -> None:
    @tool
    async def push() -> str:
        """Push."""
        raise NeedsLogin("Sign in first.")

    async def fail_late(_call: CheckedCall, run: Any) -> Result:
        await run()
        raise ValueError("late")

    hooks = [Hook(around=fail_late)]
    async with Executor(Toolset(push), approvals=defer, hooks=hooks) as executor:
        result = await executor.run(Call("push", "{}", "c1"))

    assert (kind(result), result.pending is not None) == (FailureKind.PENDING, True)


async def test_a_tool_that_needs_a_login_without_a_message_asks_to_sign_in() -> None:
    @tool
    async def push() -> str:
        """Push."""
        raise NeedsLogin("")

    async with Executor(Toolset(push), approvals=defer) as executor:
        pending = (await executor.run(Call("push", "{}", "c1"))).pending

    assert (pending is not None and pending.question) == "Sign in."


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_policy_that_asks_nothing_denies() -> None:
    with pytest.raises(ValueError, match=re.escape("Ask(question=''): must not be empty.")):
        Ask("")
    async with Executor(Toolset(look), policy=lambda _: Ask(""), approvals=defer) as executor:
        assert kind(await executor.run(Call("look", "{}", "c1"))) is FailureKind.DENIED


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_hook_that_raises_generator_exit_denies() -> None:
    async def leave(_call: CheckedCall) -> CheckedCall:
        raise GeneratorExit

    async with Executor(Toolset(look), hooks=[Hook(before=leave)]) as executor:
        assert kind(await executor.run(Call("look", "{}", "c1"))) is FailureKind.DENIED


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_cancels_its_task_between_two_waits_ends_alone() -> None:
    @tool(effect=READ)
    async def cancel_itself() -> str:
        """Cancel."""
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "not reached before Python 3.13, which takes a cancellation back whole"

    async with Executor(Toolset(cancel_itself, look)) as executor:
        results = [
            await executor.run(Call("cancel_itself", "{}", "c1")),
            await executor.run(Call("look", "{}", "c2")),
        ]

    assert kind(results[0]) in {FailureKind.BUG, None}
    assert kind(results[1]) is None


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_executor_moves_on_once_its_event_loop_has_ended(backend: str) -> None:
    executor = Executor(Toolset(look))

    async def run() -> str:
        return (await executor.run(Call("look", "{}", "c1"))).text

    assert [anyio.run(run, backend=backend) for _ in range(2)] == ["seen", "seen"]


def test_a_context_of_its_own_says_that_nothing_was_cancelled() -> None:
    assert Context(call_id="c1", idempotency_key="k1").is_cancelled() is False


def test_a_recorded_call_gives_its_arguments_as_plain_json() -> None:
    checked = CheckedCall.recorded(Call("look", '{"a": [1]}', "c1"), look.spec, ())

    assert dict(checked.args) == {"a": [1]}


async def test_a_proxy_that_is_called_by_hand_says_that_it_is_none_to_call() -> None:
    proxy = Tool.proxy(look.spec, lambda _args: Call("look", "{}"))

    with pytest.raises(RuntimeError, match="A proxy was run directly"):
        await proxy({}, Context(call_id="c1", idempotency_key="k1"))


async def test_a_call_whose_coroutine_is_closed_ends_as_cancelled() -> None:
    async with Executor(Toolset(look, wait_for_ever)) as executor, executor.events() as events:
        running = executor.run(Call("wait_for_ever", "{}", "c1"))
        running.send(None)
        running.close()
        result = await executor.run(Call("look", "{}", "c2"))
        events.close()
        finished = [event.result async for event in events if isinstance(event, Finished)]

    assert [(result.call_id, kind(result)) for result in finished] == [
        ("c1", FailureKind.CANCELLED),
        ("c2", None),
    ]
    assert result.text == "seen"


async def test_a_clock_that_fails_costs_one_call_and_not_the_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times = iter([ValueError("no time"), *[0.0] * 10])

    def clock() -> float:
        time = next(times)
        if isinstance(time, ValueError):
            raise time
        return time

    async def allow(_pending: Pending) -> Allow:
        return Allow()

    async with Executor(
        Toolset(look), policy=lambda _: Ask("Look?"), approvals=allow, clock=clock
    ) as executor:
        results = await executor.run_all([Call("look", "{}", "c1"), Call("look", "{}", "c2")])

    assert {kind(result) for result in results} == {FailureKind.CANCELLED, None}
    assert [record.getMessage() for record in caplog.records] == [
        "the executor failed on a call of 'look'"
    ]


class Outer:
    """A plain function that takes too long, and makes a call that takes longer still."""

    def __init__(self) -> None:
        self.may_end, self.inner_may_end = threading.Event(), anyio.Event()
        self.log: list[str] = []
        self.threads: list[threading.Thread] = []
        self.executor = Executor(Toolset.from_object(self))

    @tool(touches=lambda **_: writes_file("a"), timeout=1)
    def outer(self, *, waits: bool) -> str:
        """Make a call in this thread, or in another one."""
        inner = Call("inner", "{}", "inner")
        if waits:
            self.executor.run_sync(inner)
        else:
            work = partial(copy_context().run, self.executor.run_sync, inner)
            self.threads.append(threading.Thread(target=work))
            self.threads[0].start()
            self.may_end.wait(10)
        return "late"

    @tool(touches=lambda **_: writes_file("b"))
    async def inner(self) -> str:
        """Wait."""
        await self.inner_may_end.wait()
        self.log.append("inner")
        return "ended"

    @tool(touches=lambda file, **_: writes_file(file))
    async def follow(self, file: str) -> str:
        """Come after those that touch the same."""
        self.log.append(file)
        return file


async def test_a_thread_that_waits_for_its_own_call_gives_its_place_up_when_both_have_ended() -> (
    None
):
    stage = Outer()
    async with stage.executor as executor:
        turn = executor.turn()
        late = await turn.run(Call("outer", {"waits": True}, "c1"))
        turn.add(Call("follow", {"file": "a"}, "c2"))
        await anyio.wait_all_tasks_blocked()
        stage.inner_may_end.set()
        follower = await turn.result("c2")

    assert (kind(late), follower.text, stage.log) == (FailureKind.UNKNOWN, "a", ["inner", "a"])


async def test_a_thread_that_ends_before_its_own_call_gives_up_what_that_does_not_touch() -> None:
    stage = Outer()
    async with stage.executor as executor:
        turn = executor.turn()
        late = await turn.run(Call("outer", {"waits": False}, "c1"))
        turn.add(Call("follow", {"file": "a"}, "c2"), Call("follow", {"file": "b"}, "c3"))
        stage.may_end.set()
        await turn.result("c2")
        stage.inner_may_end.set()
        await turn.results()
        await anyio.to_thread.run_sync(stage.threads[0].join)

    assert (kind(late), stage.log) == (FailureKind.UNKNOWN, ["a", "inner", "b"])


async def test_an_interrupt_in_a_hook_around_a_call_or_in_an_approver_is_passed_on() -> None:
    async def interrupt(*_: object) -> Any:
        raise KeyboardInterrupt

    async with Executor(Toolset(look), hooks=[Hook(around=interrupt)]) as executor:
        with pytest.raises(KeyboardInterrupt):
            await executor.run(Call("look", "{}", "c1"))
    async with Executor(
        Toolset(look), policy=lambda _: Ask("Look?"), approvals=interrupt
    ) as executor:
        with pytest.raises(KeyboardInterrupt):
            await executor.run(Call("look", "{}", "c1"))


async def test_a_hook_around_a_call_may_cancel_it_before_it_runs() -> None:
    async def cancel(call: CheckedCall, run: Any) -> Result:
        call.turn.cancel()
        result: Result = await run()
        return result

    async with Executor(Toolset(look), hooks=[Hook(around=cancel)]) as executor:
        result = await executor.run(Call("look", "{}", "c1"))

    assert result == Result.fail(
        "c1",
        FailureKind.CANCELLED,
        "Not run: the call was cancelled before it started.",
    )
