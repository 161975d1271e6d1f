"""Turns: what holds for the calls of one reply, each point with its number in the test's name."""

from __future__ import annotations

import gc
import hashlib
import itertools
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from handrail import (
    READ,
    WRITE,
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Context,
    Deny,
    Executor,
    FailureKind,
    Hook,
    LongResults,
    Registry,
    Result,
    Retry,
    Spec,
    Tool,
    Toolset,
    Transient,
    Turn,
    reads_file,
    tool,
    writes_file,
)
from handrail.approvals import defer
from handrail.events import Event, Finished, Requested, Started
from handrail.permissions import Edit, MemoryLedger, Pending
from virtual_time import Quick

Next = Callable[[], Awaitable[Result]]


def kind(result: Result) -> FailureKind | None:
    return result.failure.kind if result.failure else None


class Files:
    """Files that are only noted: who begins, and who has ended."""

    def __init__(self, steps: int = 2) -> None:
        self.log: list[str] = []
        self.steps = steps

    @tool(touches=lambda path, **_: writes_file(path))
    async def save(self, path: str, who: str) -> str:
        """Save a file."""
        return await self._work(f"save {path}", who)

    @tool(effect=READ, touches=lambda path, **_: reads_file(path))
    async def load(self, path: str, who: str) -> str:
        """Load a file."""
        return await self._work(f"load {path}", who)

    async def _work(self, said: str, who: str) -> str:
        self.log.append(f"{who} in")
        for _ in range(self.steps):
            await anyio.lowlevel.checkpoint()
        self.log.append(f"{who} out")
        return said

    @property
    def order(self) -> list[str]:
        """Who began, one after the other; fails where two were at it at once."""
        began = [one.removesuffix(" in") for one in self.log if one.endswith(" in")]
        assert self.log == [f"{who} {what}" for who in began for what in ("in", "out")]
        return began


def save(who: str, path: str = "a") -> Call:
    return Call("save", {"path": path, "who": who}, who)


def load(who: str, path: str = "a") -> Call:
    return Call("load", {"path": path, "who": who}, who)


def ask_to_write(call: CheckedCall) -> Allow | Ask:
    return Ask("May it?") if call.spec.effect == WRITE else Allow()


EVERYTHING = Call("erase_all", {}, "all")


@tool
async def erase_all() -> str:
    """Touch everything."""
    return "erased"


# ---------------------------------------------------------------- order and results


async def test_01_every_call_has_one_result_and_the_schedule_is_empty_after_the_last() -> None:
    begun = anyio.Event()

    @tool
    async def forever() -> str:
        """Work until it is stopped."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    @tool(effect=READ, touches=lambda: ())
    async def breaks() -> str:
        """Break."""
        raise KeyError("x")

    def policy(call: CheckedCall) -> Allow | Ask | Deny:
        return {"denied": Deny("no"), "asked": Ask("?"), "late": Ask("?")}.get(call.id, Allow())  # type: ignore[return-value]

    async def person(pending: Pending) -> Any:
        return pending if pending.call.id == "late" else Deny("not this")

    files = Files()
    tools = Toolset.from_object(files) | Toolset(forever, breaks, erase_all)
    async with Executor(tools, policy=policy, approvals=person) as executor:
        turn = executor.turn()
        turn.add(load("denied"), save("asked"), save("late"), load("behind"), load("free", "b"))
        turn.add(Call("missing", {}, "missing"), Call("save", "{", "cut"), Call("breaks", {}, "b"))
        results = await turn.results()
        for pending in turn.pending:
            turn.answer(pending, Allow() if pending.question else None)
        last = await turn.results()
        turn.add(Call("forever", {}, "running"), Call("forever", {}, "waiting"))
        await begun.wait()
        turn.cancel()
        stopped = (await turn.results())[len(last) :]
        waits_for = executor.explain(EVERYTHING).waits_for

    assert [(one.call_id, kind(one)) for one in results] == [
        ("denied", FailureKind.DENIED),
        ("asked", FailureKind.DENIED),
        ("late", FailureKind.PENDING),
        ("behind", FailureKind.PENDING),
        ("free", None),
        ("missing", FailureKind.UNKNOWN_TOOL),
        ("cut", FailureKind.BAD_ARGS),
        ("b", FailureKind.BUG),
    ]
    assert last == [
        *results[:2],
        Result("late", "save a"),
        Result("behind", "load a"),
        *results[4:],
    ]
    assert [kind(one) for one in stopped] == [FailureKind.UNKNOWN, FailureKind.CANCELLED]
    assert waits_for == ()


async def together(turn: Turn[Any], calls: list[Call]) -> None:
    turn.add(*calls)


async def one_by_one(turn: Turn[Any], calls: list[Call]) -> None:
    for call in calls:
        turn.add(call)


async def over_time(turn: Turn[Any], calls: list[Call]) -> None:
    for call in calls:
        turn.add(call)
        await anyio.lowlevel.checkpoint()


async def as_a_stream(turn: Turn[Any], calls: list[Call]) -> None:
    async def arriving() -> AsyncIterator[Call]:
        for call in calls:
            await anyio.lowlevel.checkpoint()
            yield call

    await turn.add_from(arriving())


async def by_tasks(turn: Turn[Any], calls: list[Call]) -> None:
    turn.add(*calls)
    async with anyio.create_task_group() as tasks:
        for call in reversed(calls):
            tasks.start_soon(turn.run, call)


@pytest.mark.parametrize("slow", range(4))
@pytest.mark.parametrize("add", [together, one_by_one, over_time, as_a_stream, by_tasks])
async def test_02_calls_that_conflict_run_in_call_order_however_they_are_added(
    add: Callable[[Turn[Any], list[Call]], Awaitable[None]], slow: int
) -> None:
    async def linger(call: CheckedCall) -> CheckedCall:
        for _ in range(20 if call.id == str(slow) else 0):
            await anyio.lowlevel.checkpoint()
        return call

    files = Files()
    calls = [save("0"), load("1"), save("2", "a/b"), save("3")]
    async with Executor(Toolset.from_object(files), hooks=[Hook(before=linger)]) as executor:
        turn = executor.turn()
        await add(turn, calls)
        results = await turn.results()

    assert [one.text for one in results] == ["save a", "load a", "save a/b", "save a"]
    assert files.order == ["0", "1", "2", "3"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_02_answers_in_any_order_leave_the_calls_in_theirs(order: tuple[int, ...]) -> None:
    files = Files()
    async with Executor(
        Toolset.from_object(files), policy=ask_to_write, approvals=defer
    ) as executor:
        turn = executor.turn()
        turn.add(save("0"), save("1"), load("2"), save("3"))
        await turn.results()
        asked = [one for one in turn.pending if one.question]
        turn.answer(next(one for one in turn.pending if not one.question))
        for place in order:
            turn.answer(asked[place], Allow())
            await anyio.lowlevel.checkpoint()
        results = await turn.results()
        for pending in turn.pending:  # what came before an earlier one had its answer
            turn.answer(pending, Allow() if pending.question else None)
        results = await turn.results()

    assert [kind(one) for one in results] == [None] * 4
    assert files.order == ["0", "1", "2", "3"]


async def test_03_nothing_has_an_effect_before_all_that_was_added_is_decided() -> None:
    go = anyio.Event()
    decided: list[str] = []

    async def slow(call: CheckedCall) -> CheckedCall:
        if call.id == "2":
            await go.wait()
        return call

    def policy(call: CheckedCall) -> Allow:
        decided.append(call.id)
        return Allow()

    files = Files()
    async with Executor(
        Toolset.from_object(files), policy=Quick(policy), hooks=[Hook(before=slow)]
    ) as executor:
        turn = executor.turn()
        turn.add(save("0", "a"), load("1", "b"), save("2", "c"), save("3", "d"))
        await anyio.wait_all_tasks_blocked()
        early = list(files.log)
        go.set()
        await turn.results()

    assert early == ["1 in", "1 out"], "only what reads may start early"
    assert decided == ["0", "1", "2", "3"]
    assert sorted(files.log[2:]) == ["0 in", "0 out", "2 in", "2 out", "3 in", "3 out"]


async def test_04_results_are_in_call_order_and_a_fast_one_is_there_before_a_slow_one() -> None:
    go = anyio.Event()

    @tool(effect=READ)
    async def wait(who: str) -> str:
        """Wait, if it is slow."""
        if who == "slow":
            await go.wait()
        return who

    async with Executor(Toolset(wait)) as executor:
        turn = executor.turn()
        turn.add(*(Call("wait", {"who": who}, who) for who in ("slow", "fast")))
        fast = await turn.result("fast")
        assert not go.is_set()
        go.set()
        results = await turn.results()
        with pytest.raises(KeyError):
            await turn.result("never added")

    assert fast == Result("fast", "fast")
    assert results == [Result("slow", "slow"), Result("fast", "fast")]
    assert ("fast" in turn, "never added" in turn) == (True, False)


async def test_05_a_tool_that_calls_its_executor_never_waits_for_itself() -> None:
    files = Files()
    queued = anyio.Event()

    @tool
    async def outer() -> str:
        """Call another, while others wait behind this one."""
        queued.set()
        await anyio.wait_all_tasks_blocked()
        inner = await executor.run(save("inner"))
        both = await executor.run_all([save("first"), load("second")])
        return " ".join(one.text for one in (inner, *both))

    async with Executor(Toolset.from_object(files) | Toolset(outer)) as executor:
        turn = executor.turn()
        turn.add(Call("outer", {}, "outer"))
        await queued.wait()
        turn.add(save("behind"))
        with anyio.fail_after(5):
            results = await turn.results()

    assert [one.text for one in results] == ["save a save a load a", "save a"]
    assert files.order == ["inner", "first", "second", "behind"]


async def test_05_an_inner_call_waits_for_others_that_run_and_holds_what_it_touches() -> None:
    inside, go = anyio.Event(), anyio.Event()
    log: list[str] = []

    @tool(touches=lambda path, **_: writes_file(path))
    async def save(path: str, who: str) -> str:
        """Save."""
        log.append(f"{who} in")
        inside.set()
        if who in ("other", "inner"):
            await go.wait()
        log.append(f"{who} out")
        return path

    @tool(effect=READ, touches=lambda: reads_file("elsewhere"))
    async def outer() -> str:
        """Write a file that it did not speak of itself."""
        return (await executor.run(Call("save", {"path": "a", "who": "inner"}, "inner"))).text

    def put(who: str) -> Call:
        return Call("save", {"path": "a", "who": who}, who)

    async with Executor(Toolset(save, outer)) as executor:
        turn = executor.turn()
        turn.add(put("other"))
        await inside.wait()
        turn.add(Call("outer", {}, "outer"))
        await anyio.wait_all_tasks_blocked()
        assert log == ["other in"], "it runs, and the inner call conflicts with it"
        go.set()
        await turn.results()
        go = anyio.Event()
        turn.add(Call("outer", {}, "again"))
        await anyio.wait_all_tasks_blocked()
        turn.add(put("last"))
        await anyio.wait_all_tasks_blocked()
        assert log[4:] == ["inner in"], "the outer call holds what the inner one touches"
        go.set()
        await turn.results()

    assert log == [
        f"{who} {what}" for who in ("other", "inner", "inner", "last") for what in ("in", "out")
    ]


@pytest.mark.parametrize("effect", [READ, WRITE])
async def test_05_what_a_tool_began_and_left_keeps_its_place(effect: Any) -> None:
    files = Files(steps=10)
    begun: list[Turn[Any]] = []

    @tool(effect=effect, touches=lambda: reads_file("elsewhere"))
    async def leave() -> str:
        """Begin two calls, and leave."""
        turn = executor.turn()
        turn.add(save("first"), save("second"))
        begun.append(turn)
        await anyio.lowlevel.checkpoint()
        return "left"

    async with Executor(Toolset.from_object(files) | Toolset(leave)) as executor:
        left = await executor.run(Call("leave", {}, "leave"))
        results = [await executor.run(save("next")), *await begun[0].results()]
        waits_for = executor.explain(EVERYTHING).waits_for

    assert left.text == "left"
    assert [one.text for one in results] == ["save a"] * 3
    assert sorted(files.order) == ["first", "next", "second"], "one after the other"
    assert files.order.index("first") < files.order.index("second")
    assert waits_for == ()


async def test_05_an_inner_call_that_waits_starts_although_its_tool_has_ended() -> None:
    inside, go = anyio.Event(), anyio.Event()
    log: list[str] = []

    @tool(touches=lambda path, **_: writes_file(path))
    async def save(path: str, who: str) -> str:
        """Save."""
        log.append(who)
        inside.set()
        await go.wait()
        return path

    @tool(effect=READ, touches=lambda: reads_file("elsewhere"))
    async def leave() -> str:
        """Begin a call that has to wait, and leave."""
        turns[0].add(Call("save", {"path": "a", "who": "inner"}, "inner"))
        return "left"

    async with Executor(Toolset(save, leave)) as executor:
        turns = [executor.turn(), executor.turn()]
        turns[1].add(Call("save", {"path": "a", "who": "other"}, "other"))
        await inside.wait()
        await turns[1].run(Call("leave", {}, "leave"))
        await anyio.wait_all_tasks_blocked()
        assert log == ["other"]
        go.set()
        results = [*await turns[1].results(), *await turns[0].results()]

    assert [one.text for one in results] == ["a", "left", "a"]
    assert log == ["other", "inner"]


async def test_05_an_inner_call_that_must_be_alone_is_alone_but_for_its_tool() -> None:
    files = Files(steps=10)

    @tool(effect=READ, exclusive=True, touches=lambda: reads_file("elsewhere"))
    async def alone() -> str:
        """Be alone."""
        files.log.append("alone in")
        await anyio.lowlevel.checkpoint()
        files.log.append("alone out")
        return "alone"

    @tool(effect=READ, touches=lambda: reads_file("elsewhere"))
    async def outer() -> str:
        """Call one that must be alone."""
        return (await executor.run(Call("alone", {}, "alone"))).text

    async with Executor(Toolset.from_object(files) | Toolset(alone, outer)) as executor:
        results = await executor.run_all([save("0"), Call("outer", {}, "outer"), save("1", "b")])

    assert [one.text for one in results] == ["save a", "alone", "save b"]
    assert files.log.index("alone out") == files.log.index("alone in") + 1
    assert sorted(files.log) == sorted(
        f"{who} {what}" for who in ("0", "1", "alone") for what in ("in", "out")
    )
    at = files.log.index
    assert all(at(f"{n} out") < at("alone in") or at("alone out") < at(f"{n} in") for n in "01")


async def test_05_a_thread_that_an_inner_call_left_behind_is_waited_for() -> None:
    begun, go = threading.Event(), threading.Event()
    log: list[str] = []

    @tool(touches=lambda **_: writes_file("a"), timeout=1)
    def stuck(who: str) -> str:
        """Hang in a thread."""
        log.append(f"{who} in")
        begun.set()
        if who == "inner":
            go.wait(10)
        log.append(f"{who} out")
        return who

    @tool(effect=READ, touches=lambda: reads_file("elsewhere"))
    async def outer() -> str:
        """Call one that hangs."""
        return (await executor.run(Call("stuck", {"who": "inner"}, "inner"))).text

    async with Executor(Toolset(stuck, outer), limits=CallLimits(timeout=60)) as executor:
        result = await executor.run(Call("outer", {}, "outer"))
        turn = executor.turn()
        turn.add(Call("stuck", {"who": "next"}, "next"))
        await anyio.wait_all_tasks_blocked()
        assert log == ["inner in"]
        go.set()
        results = await turn.results()

    assert "but is still running" in result.text
    assert (results[0].text, log) == ("next", ["inner in", "inner out", "next in", "next out"])


async def test_05_two_tools_that_would_wait_for_each_other_are_told_so() -> None:
    begun = {"a": anyio.Event(), "b": anyio.Event()}

    @tool(touches=lambda path, **_: writes_file(path))
    async def save(path: str, then: str = "") -> str:
        """Save one, and another from within."""
        if not then:
            return f"saved {path}"
        begun[path].set()
        await begun[then].wait()
        return (await executor.run(Call("save", {"path": then}, f"{path} then {then}"))).text

    async with Executor(Toolset(save)) as executor:
        calls = [Call("save", {"path": one, "then": two}, one) for one, two in ("ab", "ba")]
        with anyio.fail_after(5):
            results = await executor.run_all(calls)

    circle = "Not run: this call and another one wait for each other. This may be temporary: retry later, or continue with other work."
    assert sorted(one.text for one in results) in (
        sorted([circle, "saved a"]),
        sorted([circle, "saved b"]),
    )


# ---------------------------------------------------------------- callers

user: ContextVar[str] = ContextVar("user", default="nobody")


@pytest.mark.parametrize("effect", [READ, WRITE])
@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("way", ["run", "run_all", "turn"])
async def test_06_each_call_sees_its_callers_variables_and_what_its_own_hooks_set(  # noqa: C901, PLR0915  all who see them
    way: str, effect: Any, *, around: bool
) -> None:
    seen: list[tuple[str, str, str]] = []

    async def before(call: CheckedCall) -> CheckedCall:
        await anyio.lowlevel.checkpoint()
        seen.append((call.id, "before", user.get()))
        user.set(f"{user.get()} by a hook")
        return call

    async def stand(call: CheckedCall, run: Next) -> Result:
        seen.append((call.id, "around", user.get()))
        return await run()

    async def after(call: CheckedCall | Call, result: Result) -> Result:
        seen.append((call.id, "after", user.get()))
        user.set("after")
        return result

    @tool(effect=effect)
    async def whoami() -> str:
        """Say who it is for."""
        await anyio.wait_all_tasks_blocked()
        said = user.get()
        user.set("a tool")
        return said

    hooks = [Hook(before=before, after=after)]
    hooks += [Hook(around=stand)] if around else []
    left: dict[str, str] = {}
    async with Executor(Toolset(whoami), hooks=hooks) as executor:

        async def request(name: str) -> None:
            user.set(name)
            call = Call("whoami", {}, name)
            if way == "run":
                result = await executor.run(call)
            elif way == "run_all":
                [result] = await executor.run_all([call])
            else:
                result = await executor.turn().run(call)
            assert result.text == f"{name} by a hook"
            left[name] = user.get()

        async with anyio.create_task_group() as tasks:
            for name in ("alice", "bob", "carol"):
                tasks.start_soon(request, name)

    assert left == {name: name for name in ("alice", "bob", "carol")}
    where = ["before", "around", "after"] if around else ["before", "after"]
    assert sorted(seen) == sorted(
        (name, one, name if one == "before" else f"{name} by a hook")
        for name in ("alice", "bob", "carol")
        for one in where
    )


async def test_07_cancelling_a_turn_or_one_of_its_calls_leaves_other_turns_alone() -> None:
    go = anyio.Event()

    @tool(effect=READ)
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "done"

    async with Executor(Toolset(wait)) as executor:
        turns = [executor.turn() for _ in range(3)]
        for turn in turns:
            turn.add(Call("wait", {}, "c1"), Call("wait", {}, "c2"))
        await anyio.wait_all_tasks_blocked()
        stopped = [turns[0].cancel(), turns[1].cancel("c1", "other")]
        await anyio.wait_all_tasks_blocked()
        go.set()
        kinds = [[kind(one) for one in await turn.results()] for turn in turns]
        again = turns[0].cancel()

    assert (stopped, again) == ([("c1", "c2"), ("c1",)], ())
    cancelled = FailureKind.CANCELLED
    assert kinds == [[cancelled, cancelled], [cancelled, None], [None, None]]


def test_08_threads_may_share_an_executor() -> None:
    lock = threading.Lock()
    inside = [0]

    @tool(touches=lambda **_: writes_file("one"))
    def save(n: int) -> int:
        """Be alone."""
        with lock:
            inside[0] += 1
            assert inside[0] == 1
        with lock:
            inside[0] -= 1
        return n

    executor = Executor(Toolset(save))
    results: list[str] = []

    def work(name: int) -> None:
        for n in range(10):
            result = executor.run_sync(Call("save", {"n": n}, f"{name}-{n}"))
            results.append(result.text)

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert not any(thread.is_alive() for thread in threads)
    assert sorted(results) == sorted(str(n) for n in range(10) for _ in range(8))


async def test_08_a_second_event_loop_gets_an_error_and_not_a_hang() -> None:
    def elsewhere() -> str:
        with pytest.raises(RuntimeError) as caught:
            anyio.run(executor.run, EVERYTHING)
        return str(caught.value)

    async with Executor(Toolset(erase_all)) as executor:
        await executor.run(EVERYTHING)
        said = await anyio.to_thread.run_sync(elsewhere)
        result = await executor.run(EVERYTHING)

    assert said == (
        "This executor is already used in another event loop. Make one executor per loop, or share one between "
        "threads: `with executor.in_thread() as run:`."
    )
    assert result.text == "erased"


async def test_09_a_view_shares_order_slots_listeners_and_cleanup_and_has_no_more_rights() -> None:
    ended: list[str] = []
    heard: list[Event] = []
    files = Files()

    @tool
    async def leave(context: Context) -> str:
        """Leave something running."""

        async def end() -> None:
            ended.append(context.call_id)

        context.on_close(end)
        return "left"

    def policy(call: CheckedCall) -> Allow | Deny:
        return Deny("not there") if call.accesses == (writes_file("secret"),) else Allow()

    tools = Toolset.from_object(files) | Toolset(leave)
    async with Executor(tools, policy=policy, limits=CallLimits(max_running=1)) as executor:
        feed = executor.events()
        async with (
            executor.restrict("save", "leave") as one,
            executor.restrict("save", policy=lambda _: Allow()) as two,
        ):
            own = two.events()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(executor.run, load("0", "b"))
                tasks.start_soon(one.run, save("1"))
                tasks.start_soon(two.run, save("2"))
            await one.run(Call("leave", {}, "left"))
            denied = await two.run(save("3", "secret"))
            unknown = await two.run(Call("leave", {}, "4"))
            own.close()
        assert ended == [], "leaving a view closes nothing"
        after = await executor.run(save("5"))
    heard = [event async for event in feed if isinstance(event, Finished)]

    assert sorted(files.order) == ["0", "1", "2", "5"]
    assert (kind(denied), kind(unknown), kind(after)) == (
        FailureKind.DENIED,
        FailureKind.UNKNOWN_TOOL,
        None,
    )
    assert [event.result.call_id async for event in own if isinstance(event, Finished)] == [
        "2", "3", "4",
    ]  # fmt: skip
    assert {event.result.call_id for event in heard if isinstance(event, Finished)} == {
        "0", "1", "2", "left", "3", "4", "5",
    }  # fmt: skip
    assert ended == ["left"]


# ---------------------------------------------------------------- what was decided is what runs


async def test_10_changing_arguments_that_one_is_shown_changes_nothing_and_retries_are_fresh() -> (
    None
):
    got: list[list[str]] = []

    def meddle(call: CheckedCall) -> None:
        call.args["lines"].append("evil")
        with pytest.raises(TypeError):
            call.args["lines"] = ["evil"]  # type: ignore[index]

    def policy(call: CheckedCall) -> Allow:
        meddle(call)
        return Allow()

    async def before(call: CheckedCall) -> CheckedCall:
        meddle(call)
        return call

    async def around(call: CheckedCall, run: Next) -> Result:
        meddle(call)
        return await run()

    @tool(effect=READ, retry=Retry(attempts=3, base=0.0, cap=0.0))
    async def note(lines: list[str]) -> str:
        """Take note, and spoil the note."""
        got.append(list(lines))
        lines.clear()
        if len(got) % 3:
            raise Transient("again")
        return "noted"

    async with Executor(
        Toolset(note), policy=policy, hooks=[Hook(before=before, around=around)]
    ) as executor:
        call = Call("note", {"lines": ["a", "b"]}, "1")
        results = [await executor.run(call), *await executor.run_all([call])]

    assert [one.text for one in results] == ["noted", "noted"]
    assert got == [["a", "b"]] * 6


@pytest.mark.parametrize("decision", [Allow(), Deny("no"), Ask("May it?")])
async def test_11_a_call_through_a_proxy_is_the_call_of_its_target(decision: Any) -> None:
    files = Files()
    spec = Spec(
        name="call_tool",
        description="Call a tool by its name.",
        input_schema={
            "type": "object",
            "properties": {"name": {"type": "string"}, "args": {"type": "object"}},
            "required": ["name", "args"],
        },
    )
    proxy = Tool.proxy(spec, lambda args: Call(args["name"], args["args"]))
    seen: list[Any] = []

    def policy(call: CheckedCall) -> Any:
        seen.append((call.call, call.spec, call.accesses, call.key, call.via))
        return decision

    async def person(pending: Pending) -> Allow:
        seen.append((pending.call, pending.key, pending.question, pending.accesses))
        return Allow()

    async def told(call: Call) -> tuple[list[Any], list[Event], Result]:
        seen.clear()
        tools = Toolset.from_object(files) | Toolset(proxy)
        async with Executor(tools, policy=policy, approvals=person, clock=lambda: 12.0) as executor:
            turn = executor.turn("t", run="r")
            feed = turn.events()
            result = await turn.run(call)
        return list(seen), [event async for event in feed], result

    straight = await told(Call("save", '{"path":"a","who":"x"}', "c"))
    through = await told(
        Call("call_tool", {"name": "save", "args": {"path": "a", "who": "x"}}, "c")
    )

    assert through[2] == straight[2]
    assert [str(one).replace("'call_tool'", "''") for one in through[0]] == [
        str(one) for one in straight[0]
    ]
    assert through[0][0][4] == "call_tool"
    requested, decided, *rest = through[1]
    assert isinstance(requested, Requested)
    assert requested.call.name == "call_tool", "the event keeps what the model sent"
    assert decided.call == Call("save", '{"path":"a","who":"x"}', "c")  # type: ignore[union-attr]
    assert [type(one) for one in rest] == [type(one) for one in straight[1][2:]]


async def test_11_a_proxy_for_nothing_or_for_a_proxy_is_an_unknown_tool() -> None:
    spec = Spec(
        name="call_tool",
        description="Call a tool by its name.",
        input_schema={"type": "object", "properties": {"name": {"type": "string"}}},
    )
    proxy = Tool.proxy(spec, lambda args: Call(args["name"], {}))
    async with Executor(Toolset(proxy, erase_all)) as executor:
        calls = [Call("call_tool", {"name": name}, name) for name in ("call_tool", "erase", "erase_all")]  # fmt: skip
        results = await executor.run_all([*calls, Call("call_tool", {}, "broken")])

    assert [one.text for one in results] == [
        "There is no tool 'call_tool'. Available tools: erase_all.",
        "There is no tool 'erase'. Available tools: call_tool, erase_all.",
        "erased",
        (
            "Not run: the tool 'call_tool' is broken: it failed to read its arguments. Calling again will not help; tell the user."
        ),
    ]


async def test_11_a_target_that_has_changed_since_it_was_sent_is_refused_as_stale() -> None:
    @tool(name="erase_all")
    async def another() -> str:
        """Touch everything, and tell everybody."""
        return "told"

    schema = {"type": "object", "properties": {}}
    spec = Spec(name="call_tool", description="Call the only tool.", input_schema=schema)
    registry = Registry()
    registry.add(Toolset(Tool.proxy(spec, lambda _: Call("erase_all", {}))), name="search")
    registry.add(erase_all)
    call = Call("call_tool", {}, "c")
    async with Executor(registry) as executor:
        before = await executor.run(call)
        registry.replace("erase_all", another)
        stale = await executor.run(call)
        executor.refresh_tools()
        after = await executor.run(call)

    assert (before.text, after.text) == ("erased", "told")
    assert stale.text == (
        "Not run: the tool 'erase_all' has changed since you received it. Read its new definition and call again."
    )


async def test_12_a_hook_may_tighten_and_one_that_returns_nothing_denies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = Files()

    def forgets(call: CheckedCall) -> Any:
        return call if call.name == "never" else None

    def allows(call: CheckedCall) -> Result:
        return call.answer("allowed by a hook")

    def refuses(call: CheckedCall) -> Result:
        return call.refuse("not now")

    said: dict[str, str] = {}
    with caplog.at_level(logging.ERROR, "handrail"):
        for hook, policy in [
            (forgets, lambda _: Allow()),
            (allows, lambda _: Deny("no")),
            (allows, lambda _: Ask("May it?")),
            (allows, lambda _: Allow()),
            (refuses, lambda _: Allow()),
        ]:
            async with Executor(
                Toolset.from_object(files), policy=policy, hooks=[Hook(before=hook)]
            ) as executor:
                result = await executor.run(save("1"))
            said[f"{hook.__name__} {len(said)}"] = result.text

    assert files.log == []
    assert said == {
        "forgets 0": "Not run: a check before the call returned neither a call nor its result. Tell the user.",
        "allows 1": "no",
        "allows 2": "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: May it?",
        "allows 3": "allowed by a hook",
        "refuses 4": "not now",
    }
    assert [one.getMessage() for one in caplog.records] == [
        "a hook before a call of 'save' returned None"
    ]


async def test_13_an_approval_for_alice_asks_again_for_bob() -> None:
    class Versioned:
        version = "1"

        def __call__(self, _call: CheckedCall) -> Ask:
            return Ask("May it?")

    folder, policy, files = ["/work"], Versioned(), Files()
    approvals = Approvals(approver=defer, context=lambda _: folder[0])
    async with Executor(Toolset.from_object(files), policy=policy, approvals=approvals) as executor:

        async def asked(n: int) -> Pending:
            turn = executor.turn(str(n), run="r", principal="alice")
            turn.add(save(str(n)))
            [pending] = (await turn.results()) and turn.pending
            return pending

        async def answered(pending: Pending, principal: str = "alice") -> Result:
            turn = executor.turn(pending.turn_id, run="r", principal=principal)
            turn.answer(pending, Allow())
            [result] = await turn.results()
            return result

        results = [await answered(await asked(0)), await answered(await asked(1), "bob")]
        waiting = await asked(2)
        folder[0] = "/elsewhere"
        results.append(await answered(waiting))
        waiting = await asked(3)
        policy.version = "2"
        results.append(await answered(waiting))

    assert [kind(one) for one in results] == [None, *[FailureKind.PENDING] * 3]
    assert {one.pending.question for one in results if one.pending} == {
        "Changed since it was approved, so it needs approval again. May it?"
    }
    assert files.order == ["0"]


# ---------------------------------------------------------------- the seam


async def test_14_around_is_entered_once_before_the_effect_in_order_and_outside_retries() -> None:
    log: list[str] = []

    async def outermost(call: CheckedCall, run: Next) -> Result:
        log.append(f"{call.id} outer in")
        result = await run()
        log.append(f"{call.id} outer out {len(result.text)}")
        return result

    async def inner(call: CheckedCall, run: Next) -> Result:
        log.append(f"{call.id} inner in")
        return await run()

    @tool(effect=WRITE, idempotent=True, retry=Retry(attempts=3, base=0.0, cap=0.0))
    async def put(context: Context) -> str:
        """Work at the third attempt."""
        log.append(f"{context.call_id} attempt {context.attempt}")
        await anyio.lowlevel.checkpoint()
        if context.attempt < 3:
            raise Transient("again")
        return "x" * 50

    async with Executor(
        Toolset(put),
        policy=lambda call: Deny("no") if call.id == "c" else Allow(),
        hooks=[Hook(around=outermost), Hook(around=inner)],
        long_results=LongResults(max_result_chars=10),
    ) as executor:
        results = await executor.run_all([Call("put", {}, n) for n in "abc"])

    assert log == [
        f"{n} {what}"
        for n in "ab"
        for what in ("outer in", "inner in", "attempt 1", "attempt 2", "attempt 3", "outer out 50")
    ]
    assert [kind(one) for one in results] == [None, None, FailureKind.DENIED]
    assert "characters omitted" in results[0].text, "a hook around a call sees its whole result"


async def test_14_a_hook_around_a_call_may_answer_in_place_of_its_tool() -> None:
    ran: list[int] = []

    @tool
    async def put(n: int) -> int:
        """Put."""
        ran.append(n)
        return n

    async def cache(call: CheckedCall, run: Next) -> Result:
        return call.answer("from the cache") if call.args["n"] == 1 else await run()

    async with Executor(Toolset(put), hooks=[Hook(around=cache)]) as executor:
        results = await executor.run_all([Call("put", {"n": n}, str(n)) for n in (1, 2)])

    assert (results, ran) == ([Result("1", "from the cache"), Result("2", "2", data="2")], [2])


@pytest.mark.parametrize("way", ["turn", "call", "task", "deadline", "executor", "closing"])
@pytest.mark.parametrize("stubborn", [False, True])
async def test_15_around_gets_a_result_whoever_stops_the_call_and_may_await_after_it(  # noqa: C901, PLR0915  all who stop
    way: str, *, stubborn: bool
) -> None:
    begun = anyio.Event()
    rows: list[tuple[str, FailureKind | None]] = []

    async def journal(call: CheckedCall, run: Next) -> Result:
        rows.append(("intent", None))
        await anyio.lowlevel.checkpoint()
        result = await run()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        rows.append(("result", kind(result)))
        return result

    @tool(timeout=0.05 if way == "deadline" else 60.0)
    async def work() -> str:
        """Work until it is stopped."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            if stubborn:
                with anyio.CancelScope(shield=True):
                    for _ in range(3):
                        await anyio.lowlevel.checkpoint()
        return ""

    async with anyio.create_task_group() as tasks:  # noqa: SIM117  the executor is left first
        async with Executor(Toolset(work), hooks=[Hook(around=journal)]) as executor:
            turn = executor.turn()
            tasks.start_soon(turn.run, Call("work", {}, "c"))
            await begun.wait()
            if way == "turn":
                turn.cancel()
            elif way == "call":
                turn.cancel("c")
            elif way == "task":
                tasks.cancel_scope.cancel()
            elif way == "executor":
                executor.cancel()
            if way != "closing":
                with anyio.CancelScope(shield=True):
                    await turn.results()

    assert rows == [("intent", None), ("result", FailureKind.UNKNOWN)]
    assert [kind(one) for one in await turn.results()] == [FailureKind.UNKNOWN]


async def test_16_run_is_for_once_and_a_broken_hook_around_a_call_ends_that_call_alone() -> None:
    ran: list[str] = []
    said: list[str] = []

    @tool(touches=lambda who: writes_file(who))  # noqa: PLW0108  its parameter has another name
    async def put(who: str) -> str:
        """Put."""
        ran.append(who)
        return who

    @tool(effect=READ)
    async def look(who: str) -> str:
        """Look."""
        ran.append(who)
        return who

    async def odd(call: CheckedCall, run: Next) -> Any:
        if call.id == "before":
            raise KeyError("broken before")
        result = await run()
        if call.id == "twice":
            with pytest.raises(RuntimeError) as caught:
                await run()
            said.append(str(caught.value))
        if call.id in ("after", "read"):
            raise KeyError("broken after")
        if call.id == "nothing":
            return None
        return Result("elsewhere", "x") if call.id == "another" else result

    names = ["before", "twice", "after", "nothing", "another", "fine"]
    async with Executor(Toolset(put, look), hooks=[Hook(around=odd)]) as executor:
        calls = [Call("put", {"who": name}, name) for name in names]
        results = await executor.run_all([*calls, Call("look", {"who": "read"}, "read")])

    assert said == ["`run` was awaited twice, which could repeat a side effect."]
    assert sorted(ran) == sorted([*names[1:], "read"])
    assert [kind(one) for one in results] == [
        FailureKind.BUG, None, FailureKind.UNKNOWN, FailureKind.UNKNOWN, FailureKind.UNKNOWN, None,
        FailureKind.BUG,
    ]  # fmt: skip
    assert results[0].text == ("Not run: a check around the call failed (KeyError). Tell the user.")
    assert results[2].text == (
        "Result lost: a check around the call failed (KeyError). The call may have taken effect: check before you call it again. Tell the user."
    )


# ---------------------------------------------------------------- restart


async def test_18_the_same_run_turn_and_call_have_the_same_key_question_and_place() -> None:
    async def once() -> tuple[list[str], list[tuple[str, str, int]]]:
        keys: list[str] = []

        def policy(call: CheckedCall) -> Allow | Ask:
            keys.append(call.key)
            return ask_to_write(call)

        async with Executor(
            Toolset.from_object(Files()), policy=policy, approvals=defer
        ) as executor:
            turn = executor.turn("3/4", run="order#77")
            turn.add(load("x"), save("y"), save("y", "b"), save("a?b"))
            await turn.results()
            return keys, [(one.key, one.id, one.position) for one in turn.pending]

    first, second = await once(), await once()

    assert first == second
    assert first[0] == [
        "order%2377/3%2F4/x",
        "order%2377/3%2F4/y",
        "order%2377/3%2F4/y#2",
        "order%2377/3%2F4/a%3Fb",
    ]
    digests = [hashlib.sha256(key.encode()).hexdigest() for key in first[0]]
    assert first[1] == [
        (key, f"order~{digests[place]}~0", place) for place, key in enumerate(first[0]) if place
    ]


async def test_19_a_known_result_is_not_decided_asked_about_or_run_but_passes_the_hooks_after() -> (
    None
):
    files, seen = Files(), list[str]()

    def policy(call: CheckedCall) -> Ask | Deny:
        seen.append(f"decided {call.id}")
        return Ask("May it?")

    async def before(call: CheckedCall) -> CheckedCall:
        seen.append(f"before {call.id}")
        return call

    async def around(call: CheckedCall, run: Next) -> Result:
        seen.append(f"around {call.id}")
        return await run()

    async def after(call: CheckedCall | Call, result: Result) -> Result:
        seen.append(f"after {call.id}")
        return result

    async def person(pending: Pending) -> Allow:
        seen.append(f"asked {pending.call.id}")
        return Allow()

    known = {
        "paid": Result("paid", "y" * 50),
        "lost": Result.fail("lost", FailureKind.UNKNOWN, "It may have run."),
    }
    async with Executor(
        Toolset.from_object(files),
        policy=policy,
        approvals=person,
        hooks=[Hook(before=before, around=around, after=after)],
        long_results=LongResults(max_result_chars=20),
    ) as executor:
        turn = executor.turn("1", run="r", known=known)
        feed = turn.events()
        turn.add(save("paid"), save("lost"), save("new"))
        results = await turn.results()
    started = [event.call_id async for event in feed if isinstance(event, Started)]

    assert (files.order, started) == (["new"], ["new"])
    assert sorted(seen) == sorted(
        [
            "after paid", "after lost", "before new", "decided new", "asked new", "around new",
            "decided new", "after new",
        ]
    )  # fmt: skip
    assert results[1:] == [known["lost"], Result("new", "save a")]
    assert "characters omitted" in results[0].text


async def test_19_a_known_result_of_a_call_that_waited_is_taken_and_lets_those_behind_it_run() -> (
    None
):
    files, ledger = Files(), MemoryLedger()
    approvals = Approvals(approver=defer, ledger=ledger)
    tools = Toolset.from_object(files)
    async with Executor(tools, policy=ask_to_write, approvals=approvals) as executor:
        turn = executor.turn("1", run="r")
        turn.add(save("paid"), load("behind"))
        await turn.results()
        waiting = turn.pending
    async with Executor(tools, policy=ask_to_write, approvals=approvals) as executor:
        turn = executor.turn("1", run="r", known={"paid": Result("paid", "paid before")})
        turn.answer(waiting[0], Allow())
        turn.answer(waiting[1])
        results = await turn.results()

    assert [one.text for one in results] == ["paid before", "load a"]
    assert files.order == ["behind"]


async def test_20_an_answer_that_cannot_be_used_yet_is_not_used_up() -> None:
    files = Files()
    async with Executor(
        Toolset.from_object(files), policy=ask_to_write, approvals=defer
    ) as executor:
        turn = executor.turn()
        turn.add(save("0"), save("1"))
        await turn.results()
        zero, one = turn.pending
        turn.answer(one, Allow())
        [first, second] = await turn.results()
        assert (first.pending, second.pending, turn.pending) == (zero, one, (zero, one))
        turn.answer(zero, Allow())
        turn.answer(one, Allow())
        results = await turn.results()

    assert [one.text for one in results] == ["save a", "save a"]
    assert (files.order, turn.pending) == (["0", "1"], ())


async def test_20_a_claimed_answer_works_again_for_the_same_claimant_and_for_no_one_else() -> None:
    files, ledger = Files(), MemoryLedger()
    approvals = Approvals(approver=defer, ledger=ledger)
    tools = Toolset.from_object(files)
    async with Executor(tools, policy=ask_to_write, approvals=approvals) as executor:
        turn = executor.turn("1", run="r")
        turn.add(save("0"))
        [pending] = (await turn.results()) and turn.pending
    kinds: list[FailureKind | None] = []
    for claimant in ("engine 1", "engine 2", None, "engine 1"):
        async with Executor(tools, policy=ask_to_write, approvals=approvals) as executor:
            turn = executor.turn("1", run="r", claimant=claimant)
            turn.answer(pending, Allow())
            kinds += [kind(one) for one in await turn.results()]

    assert kinds == [None, FailureKind.UNKNOWN, FailureKind.UNKNOWN, None]
    assert files.order == ["0", "0"]


async def test_21_a_call_that_waits_names_all_earlier_ones_that_conflict_and_wait() -> None:
    put_off, answer = anyio.Event(), anyio.Event()

    async def person(pending: Pending) -> Pending:
        if pending.call.id == "1":
            put_off.set()
        if pending.call.id == "3":
            await answer.wait()
        return pending

    files = Files()
    async with Executor(
        Toolset.from_object(files), policy=Quick(ask_to_write), approvals=person
    ) as executor:
        turn = executor.turn()
        turn.add(load("0", "b"), save("1"), save("2", "b"), save("3"))
        await put_off.wait()
        await anyio.wait_all_tasks_blocked()
        turn.add(load("4"))
        await anyio.wait_all_tasks_blocked()
        assert "4" not in {one.call.id for one in turn.pending}, "it waits for 3 to be asked about"
        answer.set()
        await turn.results()
        after = {one.call.id: one.after for one in turn.pending}
        keys = {one.call.id: one.key for one in turn.pending}

    assert after == {
        "1": (),
        "2": (),
        "3": (keys["1"],),
        "4": (keys["1"], keys["3"]),
    }
    assert files.order == ["0"]


async def test_22_a_turn_that_has_ended_leaves_nothing_behind_and_is_freed() -> None:
    files = Files()
    async with Executor(Toolset.from_object(files)) as executor:
        await executor.run_all([save("0"), load("1")])

        async def used() -> list[weakref.ref[Turn[Any]]]:
            turn = executor.turn()
            turn.add(save("2"), load("3"), Call("missing", {}, "4"))
            await turn.results()
            other = executor.turn()
            await other.run(save("5"))
            return [weakref.ref(turn), weakref.ref(other)]

        left = await used()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        gc.collect()
        assert [one() for one in left] == [None, None]
        assert executor.explain(load("6")).waits_for == ()


async def test_22_forgetting_keeps_the_turn_of_a_session_flat() -> None:
    files = Files()
    async with Executor(Toolset.from_object(files)) as executor:
        turn = executor.turn()
        for n in range(50):
            result = await turn.run(load(f"c{n}"))
            assert result.text == "load a"
            turn.forget(f"c{n}")
        assert await turn.results() == []
        turn.add(save("0"))
        turn.forget("0")
        assert "0" in turn, "what has not ended cannot be forgotten"
        await turn.results()
        turn.forget("0")

    assert ("0" in turn, await turn.results()) == (False, [])


async def test_02_a_known_result_between_two_calls_that_conflict_leaves_them_in_order() -> None:
    async def slow(call: CheckedCall) -> CheckedCall:
        for _ in range(20 if call.id == "0" else 0):
            await anyio.lowlevel.checkpoint()
        return call

    files = Files()
    async with Executor(Toolset.from_object(files), hooks=[Hook(before=slow)]) as executor:
        known = {who: Result(who, "known") for who in ("1", "2")}
        turn = executor.turn("t", run="r", known=known)
        turn.add(*(save(str(n)) for n in range(4)))
        results = await turn.results()

    assert [one.text for one in results] == ["save a", "known", "known", "save a"]
    assert files.order == ["0", "3"]


async def test_20_a_second_answer_while_the_first_is_under_way_changes_nothing() -> None:
    files = Files()
    async with Executor(
        Toolset.from_object(files), policy=ask_to_write, approvals=defer
    ) as executor:
        turn = executor.turn()
        turn.add(save("0"), save("1"), save("1", "b"))
        await turn.results()
        zero, one, again = turn.pending
        turn.answer(zero, Allow())
        turn.answer(zero, Deny("too late"))
        turn.answer(one, Allow())
        dismissed = await turn.dismiss(again, "Not that one.")
        results = await turn.results()

    assert [one.text for one in results] == ["save a", "save a", "Not that one."]
    assert (dismissed, files.order) == (results[2], ["0", "1"])


# ---------------------------------------------------------------- the rest of a turn


async def test_a_turn_tells_its_calls_who_they_are_for() -> None:
    class Shop:
        name = "the shop"

    seen: list[Any] = []

    def policy(call: CheckedCall) -> Allow:
        turn = call.turn
        seen.append((turn.id, turn.run_id, turn.principal, turn.deps.name, turn.metadata))
        return Allow()

    @tool(effect=READ)
    async def look(context: Context[Shop]) -> str:
        """Look."""
        seen.append(
            (
                context.turn_id,
                context.run_id,
                context.principal,
                context.deps.name,
                context.metadata,
            )
        )
        return context.idempotency_key

    async with Executor(Toolset(look), policy=policy) as executor:
        turn = executor.turn(
            "3", run="order", principal="alice", deps=Shop(), metadata={"tenant": "t1"}
        )
        result = await turn.run(Call("look", {}, "c"))

    assert result.text == "order/3/c"
    assert seen == [("3", "order", "alice", "the shop", {"tenant": "t1"})] * 2


async def test_run_joins_a_call_that_was_added_before() -> None:
    files = Files()
    async with Executor(Toolset.from_object(files)) as executor:
        turn = executor.turn()
        turn.add(save("0"), save("1"))
        both = [await turn.run(save("1")), await turn.run(save("0"))]
        other = await turn.run(save("0", "b"))

    assert [one.text for one in both] == ["save a", "save a"]
    assert (other.text, files.order) == ("save b", ["0", "1", "0"])


async def test_looking_at_a_result_may_be_cancelled_and_the_call_goes_on() -> None:
    go = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "done"

    async with Executor(Toolset(wait)) as executor:
        turn = executor.turn()
        turn.add(Call("wait", {}, "c"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn.result, "c")
            tasks.start_soon(turn.results)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        go.set()
        result = await turn.result("c")

    assert result.text == "done"


async def test_leaving_a_turn_waits_for_its_calls_and_leaving_it_by_an_error_stops_them() -> None:
    go, ended = anyio.Event(), list[str]()

    @tool(effect=READ)
    async def wait(who: str) -> str:
        """Wait."""
        try:
            await go.wait()
        finally:
            ended.append(who)
        return who

    async with Executor(Toolset(wait)) as executor:
        with pytest.raises(LookupError):  # noqa: PT012
            async with executor.turn() as turn:
                turn.add(Call("wait", {"who": "stopped"}, "1"))
                await anyio.wait_all_tasks_blocked()
                raise LookupError
        stopped = await turn.results()
        go.set()
        async with executor.turn() as turn:
            turn.add(Call("wait", {"who": "done"}, "1"))
        assert ended == ["stopped", "done"]

    assert [kind(one) for one in stopped] == [FailureKind.CANCELLED]


async def test_a_call_that_was_refused_elsewhere_is_dismissed_and_those_behind_it_run() -> None:
    files = Files()
    async with Executor(
        Toolset.from_object(files), policy=ask_to_write, approvals=defer
    ) as executor:
        turn = executor.turn("t", run="r")
        turn.add(save("0"), load("1"), save("2"))
        await turn.results()
        waiting = turn.pending
    async with Executor(
        Toolset.from_object(files), policy=ask_to_write, approvals=defer
    ) as executor:
        turn = executor.turn("t", run="r")
        turn.adopt(*waiting)
        turn.add(load("3"))
        late = await turn.result("3")
        dismissed = [await turn.dismiss(waiting[0], "Not today."), await turn.dismiss(waiting[2])]
        turn.answer(waiting[1])
        first = await turn.result("1")
        [behind] = turn.pending
        turn.answer(behind)
        second = await turn.result("3")

    assert kind(late) is FailureKind.PENDING
    assert [one.text for one in dismissed] == [
        "Not today.",
        "Not run: the user denied this call. Do not work around this. Continue without it, or tell the user.",
    ]
    assert (first.text, second.text, files.order) == ("load a", "load a", ["1", "3"])


async def test_a_turn_may_have_other_tools_and_another_approver_than_its_executor() -> None:
    files = Files()

    async def yes(_pending: Pending) -> Allow:
        return Allow()

    async with Executor(Toolset.from_object(files), policy=ask_to_write) as executor:
        own = executor.turn(approver=yes, tools=Toolset.from_object(files).only("save"))
        results = [await own.run(save("0")), await own.run(load("1"))]
        without = await executor.run(save("2"))

    assert [one.text for one in results] == [
        "save a",
        "There is no tool 'load'. Available tools: save.",
    ]
    assert (
        without.text
        == "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: May it?"
    )


async def test_an_edit_in_a_turn_is_asked_about_again_under_another_name() -> None:
    files = Files()
    async with Executor(
        Toolset.from_object(files), policy=ask_to_write, approvals=defer
    ) as executor:
        turn = executor.turn("t", run="r")
        turn.add(save("0"))
        await turn.results()
        [pending] = turn.pending
        turn.answer(pending, Edit({"path": "b", "who": "edited"}))
        await turn.results()
        [again] = turn.pending
        turn.answer(again, Allow())
        [result] = await turn.results()

    assert (pending.id, again.id, pending.key) == ("r~t~0~0", "r~t~0~1", again.key)
    told = 'save b\n[Note: a person changed the arguments: path="b", who="edited".]'
    assert (result.text, files.order) == (told, ["edited"])


def test_an_option_that_a_turn_does_not_have_is_refused_with_those_it_has() -> None:
    begin: Any = Executor(Toolset()).turn

    with pytest.raises(TypeError) as raised:
        begin(principle="mia")

    assert str(raised.value) == (
        "A turn has no option 'principle'. Its options are answers, approver, claimant, credentials, deps, heard, id, "
        "known, loaded, metadata, principal, records, run, said, tools."
    )
