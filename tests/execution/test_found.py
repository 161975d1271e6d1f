"""What the fuzzers found: each as a small test of the behaviour that was missing."""

# ruff: noqa: ARG002  tools under test have parameters that they do not use

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

import virtual_time
from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Context,
    Executor,
    FailureKind,
    Hook,
    LongResults,
    NeedsLogin,
    Result,
    StopRun,
    ToolFailed,
    Toolset,
    tool,
)
from handrail.events import Decided, Finished, Requested, Started
from handrail.permissions import Edit

CALL = Call("look", "{}", "c1")
ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What breaks here, breaks on purpose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def kinds(results: list[Result]) -> list[FailureKind | None]:
    return [one.failure.kind if one.failure is not None else None for one in results]


def on(place: str, **_: object) -> Access:
    return Access(WRITE, f"res:{place}")


async def kinds_told(feed: Any, call_id: str) -> list[type]:
    """The kinds of events of a call, as the feed has them once it is closed."""
    told = [event async for event in feed]
    return [type(event) for event in told if call_id in repr(event)]


async def test_a_plain_function_that_raises_what_closes_coroutines_is_broken_and_no_more() -> None:
    @tool(effect=READ)
    def look() -> str:
        raise GeneratorExit

    async with Executor(Toolset(look)) as executor:
        alone = await executor.run(CALL)
        together = await executor.run_all([CALL, CALL])

    assert kinds([alone, *together]) == [FailureKind.BUG] * 3


async def test_a_hook_that_gives_nothing_back_withholds_no_question() -> None:
    @tool(effect=READ)
    async def look() -> str:
        return "seen"

    async def later(pending: Any) -> Any:
        return pending

    forget: Any = lambda _call, _result: None  # noqa: E731
    tools, hooks = Toolset(look), [Hook(after=forget)]
    async with Executor(
        tools, policy=lambda _: Ask("May it?"), approvals=later, hooks=hooks
    ) as executor:
        turn = executor.turn()
        result = await turn.run(CALL)

    assert result.pending is not None
    assert turn.pending == (result.pending,)


async def test_a_call_that_was_cancelled_before_others_were_decided_is_told_of_no_more() -> None:
    @tool(effect=WRITE, touches=on)
    async def put(place: str) -> str:
        return place

    seen = anyio.Event()

    async def wait(checked: CheckedCall) -> CheckedCall:
        if checked.id == "c2":
            await seen.wait()
        return checked

    async with Executor(Toolset(put), hooks=[Hook(before=wait)]) as executor:
        feed, turn = executor.events(), executor.turn()
        turn.add(Call("put", {"place": "a"}, "c1"), Call("put", {"place": "b"}, "c2"))
        await checkpoint()
        await checkpoint()
        turn.cancel("c1")
        await turn.result("c1")
        seen.set()
        await turn.results()

    assert await kinds_told(feed, "'c1'") == [Requested, Decided, Finished]


async def test_a_thread_that_outlives_its_call_is_told_of_no_more_and_leaves_no_task() -> None:
    began, free = threading.Event(), threading.Event()

    @tool(effect=READ)
    def look(context: Context) -> Iterator[str]:
        began.set()
        free.wait(10)
        context.progress("late")
        yield "too late"

    tasks = len(anyio.get_running_tasks())
    async with Executor(Toolset(look)) as executor:
        feed, turn = executor.events(), executor.turn()
        turn.add(CALL)
        await anyio.to_thread.run_sync(began.wait, 10)
        turn.cancel()
        await turn.results()
        free.set()
    with anyio.fail_after(10):
        while len(anyio.get_running_tasks()) > tasks:
            await checkpoint()

    assert await kinds_told(feed, "'c1'") == [Requested, Decided, Started, Finished]


class Nest:
    """A tool that makes calls, and one that each of them may touch something with."""

    def __init__(self, limits: CallLimits = CallLimits()) -> None:  # noqa: B008  a frozen value
        self.log: list[str] = []
        self.began, self.free = threading.Event(), threading.Event()
        self.both = 0
        self.executor = Executor(Toolset.from_object(self), limits=limits)

    @tool(effect=WRITE, touches=on)
    async def put(self, place: str, name: str) -> str:
        self.log.append(f"+{name}")
        for _ in range(3):
            await checkpoint()
        self.log.append(f"-{name}")
        return name

    @tool(effect=READ, exclusive=True, touches=lambda **_: ())
    async def alone(self, name: str) -> str:
        self.log.append(f"+{name}")
        for _ in range(3):
            await checkpoint()
        self.log.append(f"-{name}")
        return name

    @tool(effect=WRITE, touches=on)
    def put_in_thread(self, place: str) -> str:
        self.log.append("+thread")
        self.began.set()
        self.free.wait(10)
        self.log.append("-thread")
        return "done"

    @tool(effect=WRITE, touches=on)
    async def ask_for(self, place: str, calls: list[dict[str, Any]]) -> str:
        """Make calls as those of one turn, and say what came of them."""
        results = await self.executor.run_all(made(calls))
        return " ".join(one.failure.kind.value if one.failure else one.text for one in results)

    @tool(effect=WRITE, touches=on)
    async def meet(self, place: str, calls: list[dict[str, Any]]) -> str:
        """The same, once another has come as far."""
        self.both += 1
        while self.both < 2:
            await checkpoint()
        results = await self.executor.run_all(made(calls))
        return " ".join(one.failure.kind.value if one.failure else one.text for one in results)

    @tool(effect=WRITE, touches=on)
    async def start(self, place: str, calls: list[dict[str, Any]]) -> str:
        """Make calls, and do not wait for them."""
        self.turn = self.executor.turn()
        self.turn.add(*made(calls))
        return "started"


def made(calls: list[dict[str, Any]]) -> list[Call]:
    return [Call(one["tool"], one["args"], f"i{place}") for place, one in enumerate(calls)]


def put(place: str, name: str) -> dict[str, Any]:
    return {"tool": "put", "args": {"place": place, "name": name}}


async def test_a_call_that_runs_alone_does_so_within_a_tool_too() -> None:
    nest = Nest()
    calls = [{"tool": "alone", "args": {"name": name}} for name in "ab"]
    async with nest.executor as executor:
        result = await executor.run(Call("ask_for", {"place": "x", "calls": calls}))

    assert (result.text, nest.log) == ("a b", ["+a", "-a", "+b", "-b"])


async def test_a_call_waits_for_a_thread_that_outlived_the_tool_it_was_called_by() -> None:
    nest = Nest()
    inner = [{"tool": "put_in_thread", "args": {"place": "a"}}]
    async with nest.executor as executor:
        turn = executor.turn()
        turn.add(Call("ask_for", {"place": "x", "calls": inner}, "c1"))
        await anyio.to_thread.run_sync(nest.began.wait, 10)
        turn.add(Call("put", {"place": "a", "name": "a"}, "c2"))
        turn.cancel("c1")
        await turn.result("c1")
        for _ in range(10):
            await checkpoint()
        nest.free.set()
        await turn.results()

    assert nest.log == ["+thread", "-thread", "+a", "-a"]


async def test_a_call_within_two_tools_does_not_wait_for_one_that_waits_for_its_own() -> None:
    nest = Nest()
    deep = {"tool": "ask_for", "args": {"place": "a", "calls": [put("a", "deep")]}}
    calls = [deep, put("a", "beside")]
    async with nest.executor as executor:
        with anyio.fail_after(10):
            result = await executor.run(Call("ask_for", {"place": "x", "calls": calls}))

    assert (result.text, nest.log) == ("deep beside", ["+deep", "-deep", "+beside", "-beside"])


async def test_two_tools_within_one_that_want_each_others_things_are_told_so() -> None:
    nest = Nest()
    one = {"tool": "meet", "args": {"place": "a", "calls": [put("b", "one")]}}
    other = {"tool": "meet", "args": {"place": "b", "calls": [put("a", "other")]}}
    async with nest.executor as executor:
        with anyio.fail_after(10):
            result = await executor.run(Call("ask_for", {"place": "x", "calls": [one, other]}))

    assert result.text in {"transient other", "one transient"}


async def test_what_a_call_touches_that_outlives_its_tool_is_not_free() -> None:
    nest = Nest()
    started = Call("start", {"place": "x", "calls": [put("a", "inner")]}, "c1")
    async with nest.executor as executor:
        turn = executor.turn()
        turn.add(started)
        await turn.result("c1")
        await checkpoint()
        turn.add(Call("put", {"place": "a", "name": "outer"}, "c2"))
        await turn.results()
        inner = await nest.turn.results()

    assert kinds(inner) == [None]
    assert nest.log == ["+inner", "-inner", "+outer", "-outer"]


async def test_a_call_that_is_edited_when_somebody_signs_in_waits_for_what_it_touches_now() -> None:
    log: list[str] = []
    signed_in = False

    @tool(effect=WRITE, touches=on)
    async def put(place: str, name: str) -> str:
        nonlocal signed_in
        if name == "edited" and not signed_in:
            signed_in = True
            raise NeedsLogin("Sign in.")
        log.append(f"+{name}")
        for _ in range(10):
            await checkpoint()
        log.append(f"-{name}")
        return name

    async def approver(_: object) -> Edit:
        return Edit({"place": "b", "name": "edited"})

    calls = [Call("put", {"place": place, "name": name}, name) for place, name in CALLS]
    async with Executor(Toolset(put), approvals=approver) as executor:
        results = await executor.run_all(calls)

    note = '[Note: a person changed the arguments: place="b".]'
    assert [result.text for result in results] == [f"edited\n{note}", "other"]
    assert log == ["+other", "-other", "+edited", "-edited"]


CALLS = (("a", "edited"), ("b", "other"))


@ON_ASYNCIO
async def test_a_call_whose_task_is_cancelled_before_it_begins_has_a_result() -> None:
    nest = Nest()
    async with nest.executor as executor:
        turn, others = executor.turn(), asyncio.all_tasks()
        turn.add(Call("put", {"place": "a", "name": "a"}, "c1"))
        for task in asyncio.all_tasks() - others:
            task.cancel()
        with anyio.fail_after(10):
            results = await turn.results()

    assert (kinds(results), nest.log) == ([FailureKind.CANCELLED], [])


@ON_ASYNCIO
async def test_a_question_stays_one_when_the_task_is_cancelled_that_asked_it() -> None:
    @tool(effect=READ)
    async def look() -> str:
        return "seen"

    async def later(pending: Any) -> Any:
        return pending

    asked = anyio.Event()

    async def wait(_: object, result: Result) -> Result:
        if result.pending is not None:
            asked.set()
            await anyio.sleep_forever()
        return result

    async with Executor(
        Toolset(look), policy=lambda _: Ask("May it?"), approvals=later, hooks=[Hook(after=wait)]
    ) as executor:
        turn, others = executor.turn(), asyncio.all_tasks()
        turn.add(CALL)
        (task,) = asyncio.all_tasks() - others
        await asked.wait()
        task.cancel()
        (waiting,) = await turn.results()
        turn.answer(*turn.pending, Allow())
        (answered,) = await turn.results()

    assert (kinds([waiting]), answered.text) == ([FailureKind.PENDING], "seen")


@ON_ASYNCIO
async def test_calls_keep_their_order_when_the_task_of_one_between_them_is_cancelled() -> None:
    nest, free = Nest(), anyio.Event()

    async def wait(checked: CheckedCall) -> CheckedCall:
        if checked.id == "c0":
            await free.wait()
        return checked

    calls = [Call("put", {"place": "a", "name": name}, f"c{n}") for n, name in enumerate("abc")]
    async with Executor(Toolset.from_object(nest), hooks=[Hook(before=wait)]) as executor:
        turn = executor.turn()
        turn.add(calls[0])
        others = asyncio.all_tasks()
        turn.add(calls[1])
        (between,) = asyncio.all_tasks() - others
        turn.add(calls[2])
        await checkpoint()
        await checkpoint()
        between.cancel()
        await turn.result("c1")
        await checkpoint()
        free.set()
        results = await turn.results()

    assert kinds(results) == [None, FailureKind.CANCELLED, None]
    assert nest.log == ["+a", "-a", "+c", "-c"]


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_a_call_that_outlives_its_tool_does_not_wait_for_a_thread_for_ever(backend: str) -> None:
    async def main() -> list[Result]:
        nest = Nest(CallLimits(timeout=5))
        async with nest.executor as executor:
            turn = executor.turn()
            turn.add(Call("put_in_thread", {"place": "a"}, "c1"))
            await anyio.to_thread.run_sync(nest.began.wait, 10)
            turn.cancel("c1")
            await executor.run(Call("start", {"place": "x", "calls": [put("a", "inner")]}))
            results = await nest.turn.results()
            nest.free.set()
        return results

    assert kinds(virtual_time.run(backend, main, idle=0.01)) == [FailureKind.TIMEOUT]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("breaks", [False, True])
async def test_a_tool_that_cancels_its_own_task_in_its_last_step_cancels_nobody_else(
    *, breaks: bool
) -> None:
    @tool(effect=READ)
    async def look() -> str:
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if breaks:
            raise ToolFailed("it broke")
        return "seen"

    async with Executor(Toolset(look)) as executor:
        result = await executor.run(CALL)
        await asyncio.sleep(0)  # where the cancellation would come out

    assert result.text == ("it broke" if breaks else "seen")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("waits", [0, 1])
async def test_cancelling_a_caller_counts_though_its_tool_has_cancelled_itself(waits: int) -> None:
    @tool(effect=READ)
    async def look() -> str:
        for _ in range(waits):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        asyncio.get_running_loop().call_soon(task.cancel)  # as somebody else would
        return "seen"

    async with Executor(Toolset(look)) as executor:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(executor.run(CALL))


def slow_to_stop(began: anyio.Event, may_end: anyio.Event) -> Any:
    @tool(effect=READ)
    async def look() -> str:
        """Go on for a while after it was stopped."""
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await may_end.wait()
        return "never"

    return look


async def test_all_who_close_an_executor_are_told_when_it_is_closed() -> None:
    began, may_end = anyio.Event(), anyio.Event()
    executor = Executor(Toolset(slow_to_stop(began, may_end)))
    turn = executor.turn()
    turn.add(CALL)
    await began.wait()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.aclose, 60)
            group.start_soon(executor.aclose, 60)
            await anyio.wait_all_tasks_blocked()
            may_end.set()

    assert kinds(await turn.results()) == [FailureKind.CANCELLED]


async def test_an_executor_that_is_entered_while_it_closes_stays_open() -> None:
    began, may_end = anyio.Event(), anyio.Event()
    ended: list[str] = []

    @tool(effect=READ)
    async def connect(context: Context) -> str:
        async def disconnect() -> None:
            ended.append("disconnected")

        context.on_close(disconnect)
        return "connected"

    executor = Executor(Toolset(slow_to_stop(began, may_end), connect))

    async def use() -> None:
        async with executor:
            executor.turn().add(CALL)
            await began.wait()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(use)
            await anyio.wait_all_tasks_blocked()
            async with executor:
                feed = executor.events()
                await executor.run(Call("connect", "{}", "c2"))
                may_end.set()
                await anyio.wait_all_tasks_blocked()
                assert ended == []
                await executor.run(Call("connect", "{}", "c3"))

    assert ended == ["disconnected", "disconnected"]
    assert Finished in await kinds_told(feed, "c3")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="has no tasks that begin at once")
@ON_ASYNCIO
async def test_a_task_that_begins_at_once_runs_its_call_once() -> None:
    runs: list[int] = []

    @tool
    async def look() -> str:
        runs.append(1)
        return "seen"

    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    async with Executor(Toolset(look)) as executor:
        results = await executor.run_all([CALL, Call("look", "{}", "c2")])

    assert [one.text for one in results] == ["seen", "seen"]
    assert runs == [1, 1]


class Shelves:
    """A store that others could look into."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def put(self, call_id: str, text: str) -> int:
        self.kept[call_id] = text
        return len(text)

    def get(self, call_id: str) -> str | None:
        return self.kept.get(call_id)

    def ids(self) -> tuple[str, ...]:
        return tuple(self.kept)


@tool(effect=READ)
async def tell(context: Context) -> str:
    """Say a lot."""
    return f"the secret of {context.principal} " * 100


@pytest.mark.parametrize("store", [None, Shelves()])
async def test_a_long_result_is_read_by_those_alone_for_whom_it_was_made(store: Any) -> None:
    told, asked = Call("tell", "{}", "a/1"), Call("read_result", {"call_id": "a/1"}, "c2")
    guessed = Call("read_result", {"call_id": "alice/a%2F1"}, "c3")
    long = LongResults(max_result_chars=200, store=store)
    async with Executor(Toolset(tell), long_results=long) as executor:
        mine = executor.turn(principal="alice")
        await mine.run(told)
        others = [executor.turn(principal="bob"), executor.turn()]
        others += [executor.restrict("tell").turn(principal="alice")]
        refused = [await turn.run(call) for turn in others for call in (asked, guessed)]
        read = await mine.run(asked)

    assert "the secret of alice" in read.text
    assert kinds(refused) == [FailureKind.FAILED] * 6
    assert not any("Kept are: a" in one.text for one in refused)


async def test_two_who_name_their_calls_alike_read_what_is_their_own() -> None:
    long = LongResults(max_result_chars=200)
    async with Executor(Toolset(tell), long_results=long) as executor:
        alice, bob = executor.turn(principal="alice"), executor.turn(principal="bob")
        await alice.run(Call("tell", "{}", "1"))
        await bob.run(Call("tell", "{}", "1"))
        read = await alice.run(Call("read_result", {"call_id": "1"}, "2"))

    assert "the secret of alice" in read.text


async def test_a_store_that_fails_costs_what_was_not_shown_and_no_more() -> None:
    class Full(Shelves):
        def put(self, call_id: str, text: str) -> int:
            raise OSError(call_id, len(text))

    long = LongResults(max_result_chars=200, store=Full())
    async with Executor(Toolset(tell), long_results=long) as executor:
        results = [await executor.run(CALL_TELL), *await executor.run_all([CALL_TELL])]

    assert kinds(results) == [None, None]
    assert all("They were not stored." in one.text for one in results)


CALL_TELL = Call("tell", "{}", "c1")


def paying(log: list[str], go_on: anyio.Event | None = None) -> Any:
    @tool
    async def pay() -> str:
        """Pay; wait meanwhile, if there is something to wait for."""
        log.append("paying")
        if go_on is not None:
            await go_on.wait()
        log.append("paid")
        return "paid"

    return pay


PAY = Call("pay", "{}", "c1")


async def test_a_hook_around_a_call_cannot_run_it_when_it_has_ended() -> None:
    log: list[str] = []
    kept: list[Any] = []

    async def remember(call: CheckedCall, run: Any) -> Result:
        kept.append(run)
        return call.answer("paid before")

    async with Executor(Toolset(paying(log)), hooks=[Hook(around=remember)]) as executor:
        result = await executor.run(PAY)
        with pytest.raises(RuntimeError, match="had ended"):
            await kept[0]()

    assert (result.text, log) == ("paid before", [])


@ON_ASYNCIO
async def test_a_tool_that_a_hook_leaves_to_another_task_keeps_its_place() -> None:
    log: list[str] = []
    go_on = anyio.Event()

    async def leave(call: CheckedCall, run: Any) -> Result:
        task = asyncio.ensure_future(run())
        if call.id == "c2":
            return await task
        await asyncio.sleep(0)
        return call.answer("in a moment")

    async with Executor(Toolset(paying(log, go_on)), hooks=[Hook(around=leave)]) as executor:
        turn = executor.turn()
        turn.add(PAY, Call("pay", "{}", "c2"))
        await anyio.wait_all_tasks_blocked()
        assert log == ["paying"]
        go_on.set()
        results = await turn.results()

    assert [one.text for one in results] == ["in a moment", "paid"]
    assert log == ["paying", "paid", "paying", "paid"]


async def test_a_call_that_is_cancelled_while_a_hook_holds_it_back_is_not_begun() -> None:
    log: list[str] = []
    go_on = anyio.Event()

    async def hold_back(_: CheckedCall, run: Any) -> Any:
        await go_on.wait()
        return await run()

    async with Executor(Toolset(paying(log)), hooks=[Hook(around=hold_back)]) as executor:
        turn = executor.turn()
        turn.add(PAY)
        await anyio.wait_all_tasks_blocked()
        turn.cancel()
        go_on.set()
        results = await turn.results()

    assert (kinds(results), log) == ([FailureKind.CANCELLED], [])


async def test_a_hook_that_ends_the_run_after_a_call_leaves_it_its_result() -> None:
    async def stop(_: CheckedCall, run: Any) -> Any:
        await run()
        raise StopRun("The money is spent.")

    async with Executor(Toolset(paying([])), hooks=[Hook(around=stop)]) as executor:
        turn = executor.turn()
        result = await turn.run(PAY)

    assert (result.text, turn.stop_reason) == ("paid", "The money is spent.")


@pytest.mark.parametrize("side", ["before", "around", "approver"])
async def test_nobody_can_forge_a_question(side: str) -> None:
    async def later(pending: Any) -> Any:
        return pending

    async with Executor(
        Toolset(paying([])), policy=lambda _: Ask("May it?"), approvals=later
    ) as executor:
        asked = await executor.turn().run(PAY)

    async def forge(*_: Any) -> Any:
        return asked

    hooks = [] if side == "approver" else [Hook(**{side: forge})]
    policy = (lambda _: Ask("May it?")) if side == "approver" else None
    async with Executor(
        Toolset(paying([])), hooks=hooks, policy=policy, approvals=forge
    ) as executor:
        result = await executor.turn().run(PAY)

    assert result.failure is not None
    assert result.pending is None


async def later(pending: Any) -> Any:
    return pending


def may_it(_: CheckedCall) -> Ask:
    return Ask("May it?")


async def test_a_tool_that_always_needs_a_login_is_given_up_on() -> None:
    runs: list[int] = []

    @tool(effect=READ)
    async def look() -> str:
        runs.append(1)
        raise NeedsLogin("Sign in.")

    async def signed_in(_: Any) -> Allow:
        return Allow()

    async with Executor(Toolset(look), approvals=signed_in) as executor:
        result = await executor.run(CALL)

    assert result.failure is not None
    assert result.failure.kind is FailureKind.DENIED
    assert len(runs) == 11


async def test_an_executor_runs_no_turn_of_another() -> None:
    log: list[str] = []
    async with Executor(Toolset(paying(log), tell)) as executor:
        view, turn = executor.restrict("tell"), executor.turn()
        with pytest.raises(ValueError, match="another executor"):
            await view.run(PAY, turn=turn)
        with pytest.raises(ValueError, match="another executor"):
            await view.run_all([PAY], turn=turn)
        with pytest.raises(ValueError, match="another executor"):
            view.explain(PAY, turn=turn)

    assert log == []


async def test_what_is_known_of_a_call_is_its_own() -> None:
    executor = Executor(Toolset(paying([])))
    with pytest.raises(ValueError, match="'c1' has the call id 'c2'"):
        executor.turn(known={"c1": Result("c2", "paid")})


async def test_a_question_that_is_known_is_asked_again_and_holds_back_what_is_behind_it() -> None:
    log: list[str] = []
    tools, approvals = Toolset(paying(log)), Approvals(approver=later)
    policy = lambda call: Ask("May it?") if call.id == "c1" else Allow()  # noqa: E731
    async with Executor(tools, policy=policy, approvals=approvals) as executor:
        asked = await executor.turn("t", run="r").run(PAY)
        turn = executor.turn("t", run="r", known={"c1": asked})
        turn.add(PAY, Call("pay", "{}", "c2"))
        await turn.results()
        questions, before = turn.pending, list(log)
        for one in questions:
            turn.answer(one, Allow() if one.question else None)
        results = await turn.results()

    assert [one.id for one in questions] == ["r~t~c1~0", "r~t~c2~0"]
    assert before == []
    assert [one.text for one in results] == ["paid", "paid"]


async def test_what_is_no_call_is_refused_and_nothing_of_it_is_begun() -> None:
    log: list[str] = []
    wrong: Any = None
    async with Executor(Toolset(paying(log))) as executor:
        with anyio.fail_after(5), pytest.raises(TypeError, match="takes objects of type Call"):
            await executor.run_all([PAY, wrong])

    assert log == []


def test_a_turn_that_was_refused_by_one_event_loop_runs_in_its_own() -> None:
    executor = Executor(Toolset(paying([])))
    turn = executor.turn()

    async def elsewhere() -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await turn.run(PAY)

    async def here() -> Result:
        async with executor:
            thread = threading.Thread(target=anyio.run, args=(elsewhere,))
            thread.start()
            await anyio.to_thread.run_sync(thread.join)
            with anyio.fail_after(5):
                return await turn.run(PAY)

    assert anyio.run(here).text == "paid"


async def test_an_answer_to_a_call_that_has_its_result_changes_nothing() -> None:
    log: list[str] = []
    async with Executor(Toolset(paying(log)), policy=may_it, approvals=later) as executor:
        turn = executor.turn()
        await turn.run(PAY)
        (asked,) = turn.pending
        turn.answer(asked, Allow())
        first = await turn.results()
        turn.answer(asked, Allow())
        dismissed = await turn.dismiss(asked)
        again = await turn.results()

    assert first == again == [dismissed]
    assert (first[0].text, log) == ("paid", ["paying", "paid"])


@pytest.mark.parametrize("does", ["refuses", "rewrites", "passes"])
async def test_an_explained_call_that_is_answered_is_seen_by_the_hooks(does: str) -> None:
    @tool
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    def look(call: CheckedCall) -> Any:
        if does == "refuses":
            return call.refuse("Not today.")
        return call.with_args(amount=1) if does == "rewrites" else call

    tools, hooks = Toolset(pay), [Hook(before=look)]
    async with Executor(tools, policy=may_it, approvals=later, hooks=hooks) as executor:
        turn = executor.turn()
        asked = executor.explain(Call("pay", {"amount": 9}, "c1"), turn=turn).pending
        assert asked is not None
        turn.answer(asked, Allow())
        result = await turn.result("c1")
        changed = [one.call.args for one in turn.pending]

    assert (result.text if result.pending is None else changed) == {
        "refuses": "Not today.",
        "rewrites": ['{"amount":1}'],
        "passes": "paid 9",
    }[does]


async def test_who_listens_to_a_call_that_has_ended_is_told_so_at_once() -> None:
    async with Executor(Toolset(tell)) as executor:
        turn = executor.turn()
        await turn.run(CALL_TELL)
        with anyio.fail_after(5):
            assert [event async for event in turn.events("c1")] == []


async def test_who_listens_to_a_call_hears_nothing_of_another_with_its_id() -> None:
    log: list[str] = []
    go_on = anyio.Event()
    async with Executor(Toolset(paying(log, go_on), tell)) as executor:
        turn = executor.turn()
        feed = turn.events("c1")
        turn.add(PAY)
        await anyio.wait_all_tasks_blocked()
        turn.add(Call("nothing", "{}", "c1"))
        await anyio.wait_all_tasks_blocked()
        go_on.set()
        with anyio.fail_after(5):
            told = [event async for event in feed]

    assert [type(event) for event in told] == [Requested, Decided, Started, Finished]
    assert "paid" in repr(told[-1])


async def test_two_may_read_one_feed() -> None:
    heard: list[Any] = []

    async def read(feed: Any) -> None:
        heard.extend([event async for event in feed])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group, Executor(Toolset(tell)) as executor:
            feed = executor.events()
            group.start_soon(read, feed)
            group.start_soon(read, feed)
            await anyio.wait_all_tasks_blocked()
            await executor.run(CALL_TELL)

    assert len(heard) == 4


async def test_what_breaks_while_its_caller_is_cancelled_does_not_come_out() -> None:
    began = anyio.Event()

    @tool(effect=READ)
    async def look() -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(break_when_stopped)
            began.set()
            await anyio.sleep_forever()
        return "never"

    async def break_when_stopped() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("while it was stopped")

    async with Executor(Toolset(look)) as executor, anyio.create_task_group() as group:
        group.start_soon(executor.run, CALL)
        await began.wait()
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()


async def test_an_approval_for_nobody_in_particular_is_none_for_one_of_that_name() -> None:
    log: list[str] = []
    async with Executor(Toolset(paying(log)), policy=may_it, approvals=later) as executor:
        asked = await executor.turn("t", run="r").run(PAY)
        assert asked.pending is not None
        turn = executor.turn("t", run="r", principal="None")
        turn.answer(asked.pending, Allow())
        result = await turn.result("c1")

    assert (kinds([result]), log) == ([FailureKind.PENDING], [])


class Delegation:
    """Tools, hooks and an executor that they use themselves."""

    def __init__(self, **options: Any) -> None:
        self.log: list[str] = []
        self.tools = Toolset(tool(self.note), tool(self.delegate), tool(effect=READ)(self.look))
        self.executor = Executor(self.tools, **options)

    async def note(self, name: str) -> str:
        self.log.append(name)
        return name

    async def look(self) -> str:
        self.log.append("looked")
        return "seen"

    async def delegate(self, as_stream: bool = False) -> str:  # noqa: FBT001, FBT002  a model's
        await self.executor.run_all(self.stream() if as_stream else NOTES)
        return "done"

    async def stream(self) -> Any:
        for call in NOTES:
            yield call
            await checkpoint()
        self.log.append("all are here")


NOTES = [Call("note", {"name": "one"}, "n1"), Call("note", {"name": "two"}, "n2")]


async def test_calls_that_a_tool_makes_together_are_decided_before_any_has_an_effect() -> None:
    async def before(call: CheckedCall) -> CheckedCall:
        if call.id == "n2":
            await checkpoint()
            await checkpoint()
            team.log.append("decided")
        return call

    team = Delegation(hooks=[Hook(before=before)])
    async with team.executor as executor:
        await executor.run(Call("delegate", "{}", "c1"))

    assert team.log == ["decided", "one", "two"]


async def test_a_stream_of_calls_in_a_tool_has_no_effect_before_all_are_here() -> None:
    team = Delegation()
    async with team.executor as executor:
        await executor.run(Call("delegate", {"as_stream": True}, "c1"))

    assert team.log == ["all are here", "one", "two"]


@pytest.mark.parametrize("way", ["alone", "in the same turn"])
@pytest.mark.parametrize("within", [False, True])
async def test_a_hook_before_a_call_may_make_another(way: str, *, within: bool) -> None:
    look = Call("look", "{}", "l")

    async def before(call: CheckedCall) -> CheckedCall:
        if call.id == "n2":
            await (team.executor.run(look) if way == "alone" else call.turn.run(look))
        return call

    team = Delegation(hooks=[Hook(before=before)])
    calls = [Call("delegate", "{}", "c1")] if within else NOTES
    with anyio.fail_after(5):
        async with team.executor as executor:
            await executor.run_all(calls)

    assert team.log == ["looked", "one", "two"]


async def test_a_call_waits_for_one_that_will_end_though_its_sibling_waits_for_this_ones() -> None:
    may_end, waits, begun = anyio.Event(), anyio.Event(), anyio.Event()

    @tool(touches=on)
    async def put(place: str, name: str) -> str:
        if name == "first":
            begun.set()
            await may_end.wait()
        return f"{name} in {place}"

    @tool(touches=lambda: [Access(WRITE, "res:left")])
    async def left() -> str:
        first = Call("put", {"place": "middle", "name": "first"}, "l1")
        behind = Call("put", {"place": "right", "name": "second"}, "l2")
        return str([one.text for one in await executor.run_all([first, behind])])

    @tool(touches=lambda: [Access(WRITE, "res:right")])
    async def right() -> str:
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        waits.set()
        return (await executor.run(Call("put", {"place": "middle", "name": "third"}, "r1"))).text

    with anyio.fail_after(5):
        async with Executor(Toolset(put, left, right)) as executor:
            turn = executor.turn()
            turn.add(Call("right", "{}", "r"), Call("left", "{}", "l"))
            await waits.wait()
            await anyio.wait_all_tasks_blocked()
            may_end.set()
            results = await turn.results()

    assert [one.text for one in results] == [
        "third in middle",
        "['first in middle', 'second in right']",
    ]


def test_an_interrupt_of_run_sync_stops_the_call() -> None:
    ended: list[str] = []

    @tool(effect=READ)
    async def look() -> str:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # who waits here
        try:
            await anyio.sleep(60)
        finally:
            ended.append("stopped")
        return "never"

    with pytest.raises(KeyboardInterrupt):
        Executor(Toolset(look)).run_sync(CALL)
    assert ended == ["stopped"]


async def test_a_turn_whose_calls_had_to_wait_is_freed_before_their_time_would_be_over() -> None:
    @tool(effect=READ)
    async def look() -> str:
        await checkpoint()
        return "seen"

    async def passes(call: CheckedCall) -> CheckedCall:
        await checkpoint()
        return call

    async def use() -> weakref.ref[Any]:
        turn = executor.turn()
        await turn.run(CALL)
        return weakref.ref(turn)

    with anyio.fail_after(5):  # asyncio drops the timers that are cancelled up to this one
        async with Executor(Toolset(look), hooks=[Hook(before=passes)]) as executor:
            seen = await use()
            await anyio.wait_all_tasks_blocked()
            gc.collect()
            assert seen() is None


@pytest.mark.parametrize("limited", ["fetch", "delegate"])
async def test_as_many_calls_of_a_tool_run_as_may_whoever_made_them(limited: str) -> None:
    now: list[int] = []
    most: list[int] = []

    @tool(effect=READ)
    async def fetch() -> str:
        now.append(1)
        most.append(len(now))
        await checkpoint()
        now.pop()
        return "page"

    @tool(effect=READ)
    async def delegate(depth: int) -> str:
        inner = Call("delegate", {"depth": depth - 1}, "d")
        calls = [Call("fetch", "{}", str(n)) for n in range(4)] + [inner] * (depth > 0)
        return str([one.text for one in await executor.run_all(calls)])

    limits = CallLimits(max_running_per_tool={limited: 2})
    with anyio.fail_after(5):
        async with Executor(Toolset(fetch, delegate), limits=limits) as executor:
            calls = [Call("delegate", {"depth": 3}, "c1"), Call("delegate", {"depth": 3}, "c2")]
            calls += [Call("fetch", "{}", "c3"), Call("fetch", "{}", "c4")]
            results = await executor.run_all(calls)

    assert kinds(results) == [None] * 4
    assert limited == "delegate" or max(most) == 2
    assert limited == "delegate" or str(results).count("page") == 34


async def test_a_hook_around_a_call_that_waits_before_the_call_can_be_stopped() -> None:
    log: list[str] = []

    async def wait(_: CheckedCall, run: Any) -> Any:
        await anyio.sleep_forever()
        return await run()

    with anyio.fail_after(5):
        async with Executor(Toolset(paying(log)), hooks=[Hook(around=wait)]) as executor:
            turn = executor.turn()
            turn.add(PAY, Call("pay", "{}", "c2"))
            await anyio.wait_all_tasks_blocked()
            turn.cancel("c1")
            first = await turn.result("c1")

    assert kinds([first, *await turn.results()]) == [FailureKind.CANCELLED] * 3
    assert log == []


async def test_a_hook_around_a_call_that_ran_is_not_stopped() -> None:
    log: list[str] = []
    may_write = anyio.Event()

    async def record(_: CheckedCall, run: Any) -> Any:
        result = await run()
        await may_write.wait()
        log.append("written")
        return result

    async with Executor(Toolset(paying(log)), hooks=[Hook(around=record)]) as executor:
        turn = executor.turn()
        turn.add(PAY)
        await anyio.wait_all_tasks_blocked()
        turn.cancel()
        await anyio.wait_all_tasks_blocked()
        may_write.set()
        (result,) = await turn.results()

    assert (result.text, log) == ("paid", ["paying", "paid", "written"])


@pytest.mark.parametrize("alias", ["#0", "#1", "#02", "#x"])
async def test_a_call_that_waits_has_one_name(alias: str) -> None:
    async with Executor(Toolset(paying([])), policy=may_it, approvals=later) as executor:
        turn = executor.turn("t", run="r")
        asked = (await turn.run(PAY)).pending
        assert asked is not None
        with pytest.raises(ValueError, match="is not a request about"):
            turn.answer(dataclasses.replace(asked, key=asked.key + alias), Allow())


def test_a_loop_that_was_closed_while_a_call_waited_is_freed() -> None:
    @tool(effect=READ)
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "never"

    async def begin(executor: Executor) -> None:
        executor.turn().add(Call("wait", "{}", "c1"))
        await asyncio.sleep(0)

    loop, executor = asyncio.new_event_loop(), Executor(Toolset(wait))
    loop.set_exception_handler(lambda *_: None)  # that a task was left behind is the point
    loop.run_until_complete(begin(executor))
    loop.close()
    executor.cancel()
    seen = weakref.ref(loop)
    del loop, executor
    gc.collect()

    assert seen() is None


async def test_a_context_can_be_printed_by_its_tool() -> None:
    @tool(effect=READ)
    async def show(context: Context) -> str:
        """Show the context."""
        return repr(context)

    async with Executor(Toolset(show)) as executor:
        result = await executor.turn("3", run="r7").run(Call("show", {}, "c1"))

    assert result.text == (
        "Context(call_id='c1', idempotency_key='r7/3/c1', attempt=1, accesses=(Access(verb="
        "<Effect.READ: 1>, resource='*'),), is_approved=False, run_id='r7', turn_id='3', "
        "principal=None, deps=None, metadata=mappingproxy({}))"
    )
