"""What went wrong once, or would in a host: each is a small program, and what it must do."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import itertools
import logging
import math
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
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
    NeedsLogin,
    Refused,
    Registry,
    Result,
    Retry,
    Spec,
    StopRun,
    Tool,
    ToolFailed,
    Toolset,
    Transient,
    Turn,
    Unknown,
    reads_file,
    tool,
    writes_file,
)
from handrail.approvals import defer
from handrail.events import (
    Asked,
    Decided,
    Event,
    Finished,
    Lost,
    Progressed,
    Requested,
    Started,
    Yielded,
)
from handrail.permissions import Pending


def kind(result: Result) -> FailureKind | None:
    return result.failure.kind if result.failure else None


@tool(effect=READ)
async def look(a: int) -> int:
    """Look."""
    return a


@tool(effect=WRITE)
async def put(a: int) -> int:
    """Put."""
    await anyio.lowlevel.checkpoint()
    return a


LOOK, PUT = Call("look", '{"a":1}', "look"), Call("put", '{"a":1}', "put")

# ---------------------------------------------------------------- callers, loops and load


async def test_what_one_tool_sets_in_a_context_variable_no_other_sees() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nothing")

    @tool
    async def change(waits: int) -> str:
        """Say what is set, and set something."""
        for _ in range(waits):
            await anyio.lowlevel.checkpoint()
        seen = variable.get()
        variable.set("something")
        return seen

    async with Executor(Toolset(change)) as executor:
        calls = [Call("change", {"waits": n % 3}, str(n)) for n in range(6)]
        results = await executor.run_all(calls)
        results += [await executor.run(call) for call in calls]

    assert {one.text for one in results} == {"nothing"}
    assert variable.get() == "nothing"


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("together", [False, True])
async def test_a_thousand_calls_may_be_with_a_hook_at_once(side: str, *, together: bool) -> None:
    everybody, here = anyio.Event(), itertools.count(1)

    async def wait(call: CheckedCall | Call, result: Result | None = None) -> Any:
        if next(here) == 1000:
            everybody.set()
        await everybody.wait()
        return call if result is None else result

    results: list[Result] = []
    async with Executor(
        Toolset(look),
        hooks=[Hook(**{side: wait})],
        limits=CallLimits(hook_timeout=60),
    ) as executor:

        async def run(n: int) -> None:
            results.append(await executor.run(Call("look", {"a": n}, str(n))))

        if together:
            results += await executor.run_all(Call("look", {"a": n}, str(n)) for n in range(1000))
        else:
            async with anyio.create_task_group() as tasks:
                for n in range(1000):
                    tasks.start_soon(run, n)

    assert {kind(one) for one in results} == {None}
    assert sorted(int(one.text) for one in results) == list(range(1000))


def test_a_thread_that_was_given_up_does_not_stop_the_next_script_call() -> None:
    go = threading.Event()

    @tool(timeout=1)
    def stuck() -> str:
        """Hang for a while."""
        go.wait(10)
        return "late"

    executor = Executor(Toolset(stuck, put), limits=CallLimits(timeout=60))
    first = executor.run_sync(Call("stuck", {}, "1"))
    threading.Timer(0.2, go.set).start()
    second = executor.run_sync(PUT)

    assert (kind(first), second.text) == (FailureKind.UNKNOWN, "1")


@pytest.mark.parametrize("ticks", range(8))
@pytest.mark.parametrize("which", ["look", "put"])
async def test_a_call_that_is_stopped_at_any_step_strands_nobody_behind_it(
    which: str, ticks: int
) -> None:
    async with Executor(Toolset(look, put)) as executor:
        await executor.run(LOOK)
        turn = executor.turn()
        turn.add(LOOK, PUT, Call("put", '{"a":2}', "last"))
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        turn.cancel(which)
        with anyio.fail_after(10):
            results = await turn.results()
            after = await executor.run(PUT)

    assert [one.call_id for one in results] == ["look", "put", "last"]
    assert (results[2].text, after.text) == ("2", "1")


async def test_every_attempt_of_the_first_call_and_of_the_next_gets_what_was_sent() -> None:
    seen: list[list[str]] = []

    @tool(effect=READ, retry=Retry(attempts=3, base=0.0, cap=0.0))
    async def take(items: list[str]) -> str:
        """Take."""
        seen.append(list(items))
        items.clear()
        await anyio.lowlevel.checkpoint()
        if len(seen) % 3:
            raise Transient("again")
        return "ok"

    async with Executor(Toolset(take)) as executor:
        results = [
            await executor.run(Call("take", '{"items":["a","b"]}', f"c{n}")) for n in range(3)
        ]

    assert [one.text for one in results] == ["ok"] * 3
    assert seen == [["a", "b"]] * 9


# ---------------------------------------------------------------- code of the host


def remote(send: Callable[..., Any], effect: Any = READ) -> Tool[..., Any]:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    return Tool.remote(
        Spec(name="far", description="Far.", input_schema=schema, effect=effect), send
    )


async def test_a_remote_tool_that_raises_before_it_sends_ends_its_own_call() -> None:
    def raises(_args: object, _context: object) -> Any:
        raise ConnectionError("gone")

    async with Executor(Toolset(remote(raises), look)) as executor:
        far = Call("far", "{}", "far")
        results = [await executor.run(far), *await executor.run_all([LOOK, far])]

    assert [kind(one) for one in results] == [FailureKind.BUG, None, FailureKind.BUG]


async def test_a_remote_tool_may_give_anything_that_can_be_awaited() -> None:
    class Later:
        def __await__(self) -> Iterator[Any]:
            yield from anyio.lowlevel.checkpoint().__await__()
            return "later"

    async with Executor(Toolset(remote(lambda *_: Later()))) as executor:
        result = await executor.run(Call("far", {}, "1"))

    assert result.text == "later"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_remote_tool_may_give_a_future_or_a_task() -> None:
    async def answer() -> str:
        return "done"

    def future(*_: object) -> Any:
        made = asyncio.get_running_loop().create_future()
        made.set_result("done")
        return made

    for send in (future, lambda *_: asyncio.ensure_future(answer())):
        async with Executor(Toolset(remote(send))) as executor:
            assert (await executor.run(Call("far", {}, "1"))).text == "done"


async def test_a_tool_may_be_wrapped_by_replacing_how_it_reads_its_arguments() -> None:
    seen: list[object] = []

    def parse(args: Any) -> Any:
        seen.append(args)
        return look.parse(args)

    async with Executor(Toolset(dataclasses.replace(look, parse=parse))) as executor:
        results = [await executor.run(LOOK), *await executor.run_all([LOOK])]

    assert ([one.text for one in results], seen) == (["1", "1"], ['{"a":1}'] * 2)


async def test_arguments_of_a_strange_type_are_read_alike_the_first_time_and_the_next() -> None:
    odd: Any
    async with Executor(Toolset(look)) as executor:
        for _ in range(2):
            for odd in (b"a", 5, None, ["a"], object(), {"a": object()}):
                result = await executor.run(Call("look", odd, "1"))
                assert kind(result) is FailureKind.BAD_ARGS
            odd = b'{"a":1}'
            result = await executor.run(Call("look", odd, "1"))
            assert result.data == "1"
            await executor.run(LOOK)


def raising(error: BaseException, way: str) -> Tool[..., Any]:
    @tool(effect=READ, name="act")
    async def at_once() -> str:
        """Raise."""
        raise error

    @tool(effect=READ, name="act")
    async def later() -> str:
        """Raise, later."""
        await anyio.lowlevel.checkpoint()
        raise error

    @tool(effect=READ, name="act")
    def in_a_thread() -> str:
        """Raise, in a thread."""
        raise error

    @tool(effect=READ, name="act")
    async def stream() -> AsyncIterator[str]:
        """Raise after a piece."""
        yield "piece"
        raise error

    return {"at once": at_once, "later": later, "thread": in_a_thread, "stream": stream}[way]


WAYS = ["at once", "later", "thread", "stream"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "error", [GeneratorExit(), SystemExit(3), StopIteration(), StopAsyncIteration(), KeyError()]
)
async def test_whatever_a_tool_raises_ends_its_own_call(error: BaseException, way: str) -> None:
    act = Call("act", {}, "act")
    async with Executor(Toolset(raising(error, way), look)) as executor:
        results = [await executor.run(act), *await executor.run_all([act, LOOK])]

    assert [kind(one) for one in results] == [FailureKind.BUG, FailureKind.BUG, None]


@pytest.mark.parametrize("way", ["at once", "later", "stream"])
@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        BaseExceptionGroup("a task group", [KeyboardInterrupt()]),
        BaseExceptionGroup("two", [ToolFailed("x"), BaseExceptionGroup("", [KeyboardInterrupt()])]),
    ],
    ids=["bare", "in a group", "deep in a group"],
)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_interrupt_in_a_tool_comes_out_bare_and_is_told(
    error: BaseException, way: str, backend: str, *, together: bool
) -> None:
    heard: list[Event] = []

    async def main() -> None:
        act = Call("act", {}, "act")
        async with Executor(Toolset(raising(error, way), look)) as executor:
            feed = executor.events()
            try:
                await (executor.run_all([act, LOOK]) if together else executor.run(act))
            finally:
                feed.close()
                with anyio.CancelScope(shield=True):
                    heard.extend([event async for event in feed])

    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend=backend)
    ids = sorted(event.call.id for event in heard if isinstance(event, Requested))
    assert ids == sorted(event.result.call_id for event in heard if isinstance(event, Finished))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("errors", "expected", "text"),
    [
        ([ToolFailed("no such entry")], FailureKind.FAILED, "no such entry"),
        (
            [ToolFailed("no such entry"), ExceptionGroup("", [ToolFailed("nor that")])],
            FailureKind.FAILED,
            "no such entry nor that",
        ),
        (
            [ToolFailed("no such entry."), Refused("not that one")],
            FailureKind.DENIED,
            "no such entry. not that one",
        ),
        (
            [Transient("busy"), Transient("busy")],
            FailureKind.TRANSIENT,
            "busy. This may be temporary: retry later, or continue with other work.",
        ),
        (
            [Unknown("sent"), ToolFailed("no")],
            FailureKind.UNKNOWN,
            ("sent no. It may have taken effect: check before you call it again."),
        ),
        ([ToolFailed("no"), KeyError("x")], FailureKind.BUG, None),
    ],
    ids=["one", "several", "the gravest", "all for now", "unknown", "a bug too"],
)
async def test_failures_in_a_group_are_read_as_what_they_are(
    errors: list[Exception], expected: FailureKind, text: str | None, way: str
) -> None:
    group = ExceptionGroup("unhandled errors in a TaskGroup", errors)
    async with Executor(Toolset(raising(group, way))) as executor:
        result = await executor.run(Call("act", {}, "1"))

    assert kind(result) is expected
    assert text is None or result.text == text


async def test_the_same_failures_by_a_task_group_of_the_tools_own() -> None:
    @tool(effect=READ)
    async def both() -> str:
        """Do two things at once."""

        async def fail(what: str) -> None:
            await anyio.lowlevel.checkpoint()
            raise ToolFailed(f"no {what}.")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail, "entry")
        return "never"

    async with Executor(Toolset(both)) as executor:
        result = await executor.run(Call("both", {}, "1"))

    assert (kind(result), result.text) == (FailureKind.FAILED, "no entry.")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("effect", [READ, WRITE])
@pytest.mark.parametrize("waits", [0, 1, 3])
async def test_a_tool_that_cancels_its_own_task_has_a_result_and_so_have_its_siblings(
    waits: int, effect: Any
) -> None:
    @tool(effect=effect)
    async def cancel_itself() -> str:
        """Cancel the task that it runs in."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        for _ in range(waits):
            await anyio.lowlevel.checkpoint()
        return "went on"

    call = Call("cancel_itself", {}, "1")
    async with Executor(Toolset(cancel_itself, look, put)) as executor:
        results = [await executor.run(call), *await executor.run_all([PUT, call, LOOK])]
        after = await executor.run(LOOK)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await anyio.lowlevel.checkpoint()

    assert [one.call_id for one in results] == ["1", "put", "1", "look"]
    assert (results[1].text, results[3].text, after.text) == ("1", "1", "1")
    assert kind(results[0]) is kind(results[2])


# ---------------------------------------------------------------- views


async def test_leaving_a_view_ends_nothing_of_its_parent() -> None:
    ended: list[str] = []

    @tool(effect=READ)
    async def job(context: Context) -> str:
        """Start a job."""

        async def end() -> None:
            ended.append("the job")

        context.on_close(end)
        return "started"

    async with Executor(Toolset(job, look)) as parent:
        await parent.run(Call("job", {}, "1"))
        async with parent.restrict("look") as child:
            assert (await child.run(LOOK)).text == "1"
        assert ended == []
        assert (await parent.run(LOOK)).text == "1"
    assert ended == ["the job"]


async def test_views_have_one_order_and_one_set_of_slots() -> None:
    log: list[str] = []

    @tool
    async def change(n: int) -> None:
        """Change something."""
        log.append(f">{n}")
        await anyio.wait_all_tasks_blocked()
        log.append(f"<{n}")

    async with Executor(Toolset(change), limits=CallLimits(max_running=1)) as parent:
        async with anyio.create_task_group() as tasks:
            for n in range(3):
                tasks.start_soon(parent.restrict("change").run, Call("change", {"n": n}, str(n)))
        feed = parent.events()
        await parent.restrict("change").run(Call("change", {"n": 3}, "3"))
        feed.close()
        heard = [type(event) async for event in feed]

    assert all(log[n][1:] == log[n + 1][1:] for n in range(0, 8, 2))
    assert heard == [Requested, Decided, Started, Finished]


async def test_a_view_of_a_closed_executor_runs_nothing_and_views_are_not_kept() -> None:
    async with Executor(Toolset(look)) as parent:
        left = weakref.ref(parent.restrict("look"))
        gc.collect()
        assert left() is None
    result = await parent.restrict("look").run(LOOK)

    assert kind(result) is FailureKind.CANCELLED


# ---------------------------------------------------------------- one way for every call


@pytest.mark.parametrize("way", ["run", "run_all"])
async def test_a_rewritten_call_is_requested_as_it_was_sent_each_time(way: str) -> None:
    def rewrite(call: CheckedCall) -> Call:
        return call.with_args(a=2)

    async with Executor(
        Toolset(look), hooks=[Hook(before=rewrite)], clock=lambda: 12.0
    ) as executor:
        feed = executor.events()
        for _ in range(2):
            await (executor.run(LOOK) if way == "run" else executor.run_all([LOOK]))
    events = [event async for event in feed if isinstance(event, Requested | Decided)]

    assert [event.call for event in events] == [LOOK, Call("look", '{"a":2}', "look")] * 2


@pytest.mark.parametrize("way", ["run", "run_all"])
async def test_a_tool_that_stops_everything_in_its_first_step_is_stopped(way: str) -> None:
    @tool(effect=READ)
    async def halt() -> str:
        """Stop all."""
        executor.cancel()
        await anyio.sleep(0.2)
        return "went on"

    async with Executor(Toolset(halt)) as executor:
        results: list[Result] = []
        for _ in range(2):
            call = Call("halt", {}, "1")
            results += (
                [await executor.run(call)] if way == "run" else await executor.run_all([call])
            )

    assert [kind(one) for one in results] == [FailureKind.CANCELLED] * 2


@pytest.mark.parametrize("way", ["run", "run_all"])
async def test_closing_waits_for_the_hooks_after_a_call(way: str) -> None:
    begun, ended = anyio.Event(), list[str]()

    async def slow(_call: CheckedCall | Call, result: Result) -> Result:
        begun.set()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        ended.append("the hook")
        return result

    async with anyio.create_task_group() as tasks:
        async with Executor(Toolset(look), hooks=[Hook(after=slow)]) as executor:
            if way == "run":
                tasks.start_soon(executor.run, LOOK)
            else:
                tasks.start_soon(executor.run_all, [LOOK])
            await begun.wait()
        assert ended == ["the hook"]


@pytest.mark.parametrize("decision", [Allow(), Deny("no"), Ask("?")])
@pytest.mark.parametrize("hooked", [False, True])
async def test_a_policy_decides_each_call_once_and_none_that_is_refused_before(
    decision: Any, *, hooked: bool
) -> None:
    asked: list[str] = []

    def policy(call: CheckedCall) -> Any:
        asked.append(call.id)
        return decision

    hooks = [Hook(before=lambda call: call)] if hooked else []
    async with Executor(Toolset(look), policy=policy, hooks=hooks) as executor:
        for n in range(2):
            await executor.run(Call("look", '{"a":1}', f"run {n}"))
            await executor.run(Call("look", '{"a":1,"a":2}', f"twice {n}"))
            await executor.run(Call("look", '{"a":"x"}', f"bad {n}"))
            await executor.run_all([Call("look", '{"a":"1"}', f"mended {n}")])

    assert asked == [f"{what} {n}" for n in range(2) for what in ("run", "mended")]


async def test_a_loop_of_calls_that_never_wait_can_be_stopped_and_starves_nobody() -> None:
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(1)
            await anyio.lowlevel.checkpoint()

    async with Executor(Toolset(look)) as executor, anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        for _ in range(5_000):
            await executor.run(LOOK)
        others_ran = len(ticks)
        with anyio.CancelScope() as scope:
            scope.cancel()
            for _ in range(5_000):
                await executor.run(LOOK)
        tasks.cancel_scope.cancel()

    assert scope.cancelled_caught
    assert others_ran > 10


@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_plain_hook_that_raises_stop_iteration_has_broken(side: str) -> None:
    def stops(call: CheckedCall | Call, *_: Result) -> Any:
        raise StopIteration(call)

    async with Executor(Toolset(look), hooks=[Hook(**{side: stops})]) as executor:
        results = [await executor.run(LOOK), *await executor.run_all([LOOK])]

    assert ["failed (StopIteration)" in one.text for one in results] == [True, True]


async def test_events_are_told_when_they_happen() -> None:
    now = itertools.count()

    @tool
    async def step() -> str:
        """Let time pass."""
        next(now)
        return ""

    async with Executor(Toolset(step), clock=lambda: float(next(now))) as executor:
        feed = executor.events()
        await executor.run(Call("step", {}, "1"))
        await executor.run_all([Call("step", {}, "2")])
    events = [event async for event in feed]

    assert [(type(event), getattr(event, "at", None)) for event in events] == [
        (Requested, 0.0), (Decided, 1.0), (Started, 2.0), (Finished, 4.0),
        (Requested, 5.0), (Decided, 6.0), (Started, 7.0), (Finished, 9.0),
    ]  # fmt: skip
    assert [event.number for event in events] == list(range(1, 9))


# ---------------------------------------------------------------- keys


async def test_keys_come_from_run_turn_and_call_and_not_from_a_count() -> None:
    keys: list[str] = []

    @tool(effect=WRITE, idempotent=True)
    async def pay(context: Context) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        return "paid"

    for turns in (("1", "2"), ("2", "3")):  # the second process repeats a turn
        async with Executor(Toolset(pay)) as executor:
            for turn in turns:
                await executor.turn(turn, run="run").run(Call("pay", {}, "call_0"))

    assert keys == ["run/1/call_0", "run/2/call_0", "run/2/call_0", "run/3/call_0"]


async def test_keys_of_turns_without_a_name_are_never_the_same() -> None:
    keys: list[str] = []

    @tool
    async def pay(context: Context) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        return "paid"

    for _ in range(2):
        async with Executor(Toolset(pay)) as executor:
            await executor.run(Call("pay", {}, "call_0"))
            await executor.run_all([Call("pay", {}, "call_0"), Call("pay", {}, "call_0")])
            await executor.turn().run(Call("pay", {}, "call_0"))

    assert len(set(keys)) == 8


# ---------------------------------------------------------------- limits, listeners, lifetime


async def test_a_long_result_does_not_make_every_later_call_list_the_tools_again() -> None:
    @tool(effect=READ)
    async def dump() -> str:
        """Dump."""
        return "x" * 30_000

    async with Executor(Toolset(dump, look)) as executor:
        before = executor.tools
        await executor.run(Call("dump", {}, "1"))
        after = executor.tools
        await executor.run_all([LOOK, Call("dump", {}, "2")])

        assert before is not after
        assert executor.tools is after
        assert executor.turn().tools is after


async def test_a_question_that_nobody_answers_in_time_is_a_no() -> None:
    async def never(_pending: Pending) -> Allow:
        await anyio.sleep_forever()
        return Allow()

    approvals = Approvals(approver=never, timeout=0.05)
    async with Executor(Toolset(put), policy=lambda _: Ask("?"), approvals=approvals) as executor:
        result = await executor.run(PUT)

    assert result == Result.fail(
        "put",
        FailureKind.DENIED,
        "Not run: no one answered in time. Call again if it is still needed.",
    )


NUMBERS = [0, -1, math.nan, math.inf, "5", None]


@pytest.mark.parametrize("value", NUMBERS, ids=str)
@pytest.mark.parametrize("name", ["timeout", "hook_timeout"])
def test_seconds_are_finite_and_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"CallLimits\\({name}="):
        CallLimits(**{name: value})
    with pytest.raises(ValueError, match=r"Approvals\(timeout="):
        Approvals(timeout=value)


@pytest.mark.parametrize("value", [*NUMBERS, 1.5, True], ids=str)
def test_counts_are_whole_and_above_zero(value: Any) -> None:
    with pytest.raises(ValueError, match=r"CallLimits\(max_running="):
        CallLimits(max_running=value)
    with pytest.raises(ValueError, match=r"CallLimits\(max_running_per_tool=\{'x': "):
        CallLimits(max_running_per_tool={"x": value})
    with pytest.raises(ValueError, match=r"LongResults\(max_result_chars="):
        LongResults(max_result_chars=value)
    with pytest.raises(ValueError, match=r"LongResults\(max_stored_chars="):
        LongResults(max_stored_chars=value)


def test_a_limit_for_a_tool_that_is_not_there_is_refused() -> None:
    limits = CallLimits(max_running_per_tool={"lok": 1})
    with pytest.raises(ValueError, match=r"max_running_per_tool has 'lok'.*look"):
        Executor(Toolset(look), limits=limits)
    with pytest.raises(ValueError, match=r"LongResults\(reader='sometimes'\)"):
        LongResults(reader="sometimes")  # type: ignore[arg-type]

    Executor(Registry(), limits=limits)


def test_a_limit_for_a_tool_that_a_registry_does_not_have_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Registry()
    registry.add(Toolset(look))
    for name in ("lok", "look", "something_else"):  # a registry may get tools later
        Executor(registry, limits=CallLimits(max_running_per_tool={name: 1}))

    assert [one.getMessage() for one in caplog.records] == [
        "max_running_per_tool has 'lok', but no tool has this name. Closest: look."
    ]


async def test_a_listener_that_falls_behind_is_told_how_much_it_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handrail._turn.event_feed.MAX_UNREAD", 5)
    async with Executor(Toolset(look)) as executor:
        feed = executor.events()
        for _ in range(3):
            await executor.run(LOOK)
    events = [event async for event in feed]

    assert events[0] == Lost(7)
    assert [event.number for event in events[1:]] == [8, 9, 10, 11, 12]


async def test_a_listener_that_is_closed_hears_nothing_more() -> None:
    async with Executor(Toolset(look)) as executor:
        async with executor.events() as feed:
            await executor.run(LOOK)
        await executor.run(LOOK)
        heard = [type(event) async for event in feed]

    assert heard == [Requested, Decided, Started, Finished]


async def test_hooks_before_the_calls_of_a_turn_run_side_by_side() -> None:
    everybody, here = anyio.Event(), itertools.count(1)

    async def wait(call: CheckedCall) -> CheckedCall:
        if next(here) == 20:
            everybody.set()
        await everybody.wait()
        return call

    async with Executor(Toolset(put), hooks=[Hook(before=wait)]) as executor:
        with anyio.fail_after(10):
            results = await executor.run_all(Call("put", {"a": n}, str(n)) for n in range(20))

    assert [one.text for one in results] == [str(n) for n in range(20)]


async def test_a_tool_cannot_forge_a_question() -> None:
    async with Executor(Toolset(put), policy=lambda _: Ask("?"), approvals=defer) as executor:
        real = (await executor.run(PUT)).pending

    @tool(effect=READ)
    async def forge() -> Any:
        """Pretend to be asked about."""
        return Result("c", "words", pending=real)

    async with Executor(Toolset(forge)) as executor:
        turn = executor.turn()
        result = await turn.run(Call("forge", {}, "c"))

    assert (result.pending, turn.pending) == (None, ())


@pytest.mark.parametrize("times", [2, 3])
async def test_an_executor_may_be_entered_again_and_the_last_to_leave_closes_it(
    times: int,
) -> None:
    executor = Executor(Toolset(look))
    results: list[Result] = []
    for _ in range(times):
        async with executor:
            results.append(await executor.run(LOOK))
        results.append(await executor.run(LOOK))
    async with executor:
        async with executor:
            pass
        results.append(await executor.run(LOOK))

    assert [kind(one) for one in results] == [*[None, FailureKind.CANCELLED] * times, None]


async def test_a_tool_cannot_close_the_executor_that_runs_it() -> None:
    said: list[str] = []

    @tool
    async def close() -> str:
        """Close everything."""
        with pytest.raises(RuntimeError) as caught:
            await executor.aclose()
        said.append(str(caught.value))
        return "still here"

    async with Executor(Toolset(close)) as executor:
        results = [
            await executor.run(Call("close", {}, "1")),
            *await executor.run_all([Call("close", {}, "2")]),
        ]

    assert [one.text for one in results] == ["still here"] * 2
    assert said == ["A tool cannot close the executor that runs it."] * 2


async def test_closing_waits_for_so_long_and_then_says_that_calls_still_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, go = anyio.Event(), threading.Event()

    @tool
    def stuck(context: Context) -> str:
        """Hang in a thread."""
        anyio.from_thread.run_sync(begun.set)
        go.wait(10)
        return "late"

    async with anyio.create_task_group() as tasks:
        executor = Executor(Toolset(stuck))
        tasks.start_soon(executor.run, Call("stuck", {}, "1"))
        await begun.wait()
        with caplog.at_level(logging.WARNING, "handrail"):
            await executor.aclose(grace=0.05)
        go.set()
    await executor.aclose()

    assert [one.getMessage() for one in caplog.records] == [
        "the executor was closed while calls still ran, after 0.05 seconds"
    ]


# ---------------------------------------------------------------- what hosts need


def log_of(files: list[str], *, steps: int = 2) -> Toolset:
    @tool(touches=lambda path, **_: writes_file(path))
    async def save(path: str, who: str) -> str:
        """Save."""
        files.append(f"+{who}")
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        files.append(f"-{who}")
        return who

    @tool(effect=READ, touches=lambda path, **_: reads_file(path))
    async def load(path: str, who: str) -> str:
        """Load."""
        files.append(f"={who}")
        return who

    return Toolset(save, load)


def on(path: str, who: str, name: str = "save") -> Call:
    return Call(name, {"path": path, "who": who}, who)


async def test_a_host_that_runs_the_calls_of_a_reply_one_by_one_keeps_what_a_turn_promises() -> (
    None
):
    files: list[str] = []

    async def slow(call: CheckedCall) -> CheckedCall:
        for _ in range(20 if call.id == "1" else 0):
            await anyio.lowlevel.checkpoint()
        return call

    def policy(call: CheckedCall) -> Allow | Ask:
        return Ask("?") if call.id == "3" else Allow()

    results: dict[str, Result] = {}
    async with Executor(
        log_of(files), policy=policy, approvals=defer, hooks=[Hook(before=slow)]
    ) as executor:
        turn = executor.turn()
        reply = [on("a", "1"), on("a", "2"), on("b", "3"), on("b", "4", "load")]
        turn.add(*reply)

        async def tool_of_the_host(call: Call) -> None:
            results[call.id] = await turn.run(call)

        async with anyio.create_task_group() as tasks:
            for call in reversed(reply):
                tasks.start_soon(tool_of_the_host, call)

    assert files == ["+1", "-1", "+2", "-2"]
    assert {name: kind(one) for name, one in results.items()} == {
        "1": None, "2": None, "3": FailureKind.PENDING, "4": FailureKind.PENDING,
    }  # fmt: skip


@pytest.mark.parametrize("reader", ["always", "when_needed", "never"])
async def test_a_cut_result_names_the_reader_only_where_there_is_one(reader: Any) -> None:
    @tool(effect=READ)
    async def dump() -> str:
        """Dump."""
        return "x" * 300

    settings = LongResults(max_result_chars=100, reader=reader)
    async with Executor(Toolset(dump), long_results=settings) as executor:
        before = [one.spec.name for one in executor.tools]
        result = await executor.run(Call("dump", {}, "1"))
        after = [one.spec.name for one in executor.tools]
        read = await executor.run(Call("read_result", {"call_id": "1", "end": 3}, "2"))

    assert (before, after) == {
        "always": (["dump", "read_result"], ["dump", "read_result"]),
        "when_needed": (["dump"], ["dump", "read_result"]),
        "never": (["dump"], ["dump"]),
    }[reader]
    assert ("read_result" in result.text) is (reader != "never")
    assert (kind(read) is None) is (reader != "never")


async def test_a_turn_that_was_sent_its_tools_before_may_read_a_long_result() -> None:
    @tool(effect=READ)
    async def dump() -> str:
        """Dump."""
        return "x" * 300

    settings = LongResults(max_result_chars=100)
    async with Executor(Toolset(dump), long_results=settings) as executor:
        turn = executor.turn()
        await turn.run(Call("dump", {}, "1"))
        read = await turn.run(Call("read_result", {"call_id": "1", "end": 3}, "2"))

    assert read.text == "[characters 0 to 3 of 300]\nxxx"


async def test_what_a_model_reads_of_a_call_that_waits_promises_nothing() -> None:
    files: list[str] = []
    policy = lambda call: Ask("May it?") if call.name == "save" else Allow()  # noqa: E731  short
    async with Executor(log_of(files), policy=policy, approvals=defer) as executor:
        results = await executor.run_all([on("a", "1"), on("a", "2", "load")])

    assert [one.text for one in results] == [
        (
            "Not run yet: waiting for the user's approval. Continue with other work, or end your turn. Request: May it?"
        ),
        (
            "Not run yet: waiting for an earlier call that needs the user's approval. Continue with other work, or end your turn."
        ),
    ]


@pytest.mark.parametrize("denied", range(3))
async def test_a_denial_that_the_host_keeps_to_itself_is_dismissed_and_asks_nobody_again(
    denied: int,
) -> None:
    files, asked = list[str](), list[str]()
    policy = lambda call: Ask("May it?") if call.name == "save" else Allow()  # noqa: E731  short
    async with Executor(log_of(files), policy=policy, approvals=defer) as executor:
        feed = executor.events()
        turn = executor.turn()
        turn.add(*(on("a", f"c{n}") for n in range(3)))
        await turn.results()
        waiting = turn.pending
        for n, pending in enumerate(waiting):
            if n != denied:
                turn.answer(pending, Allow())
        await turn.dismiss(waiting[denied])
        await turn.results()
        for pending in turn.pending:  # it was answered before the one that it waits for
            turn.answer(pending, Allow())
        results = await turn.results()
        feed.close()
        asked = [event.pending.id async for event in feed if isinstance(event, Asked)]

    left = [f"c{n}" for n in range(3) if n != denied]
    assert files == [f"{what}{who}" for who in left for what in "+-"]
    assert [kind(one) for one in results] == [
        FailureKind.DENIED if n == denied else None for n in range(3)
    ]
    assert sorted(asked) == [one.id for one in waiting]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_answers_that_come_side_by_side_wait_for_each_other(order: tuple[int, ...]) -> None:
    files: list[str] = []
    policy = lambda call: Ask("May it?") if call.name == "save" else Allow()  # noqa: E731  short
    approvals = Approvals(approver=defer)
    async with Executor(log_of(files), policy=policy, approvals=approvals) as executor:
        turn = executor.turn("t", run="r")
        turn.add(*(on("a", f"c{n}") for n in range(3)))
        await turn.results()
        waiting = turn.pending
    results: dict[str, Result] = {}
    async with Executor(log_of(files), policy=policy, approvals=approvals) as executor:
        turn = executor.turn("t", run="r")

        async def approved(pending: Pending) -> None:
            turn.answer(pending, Allow())
            results[pending.call.id] = await turn.result(pending.call.id)

        async with anyio.create_task_group() as tasks:
            for place in order:
                tasks.start_soon(approved, waiting[place])

    assert files == [f"{what}c{n}" for n in range(3) for what in "+-"]
    assert {name: kind(one) for name, one in results.items()} == dict.fromkeys(["c0", "c1", "c2"])


async def test_a_tool_says_that_it_may_have_happened() -> None:
    tries: list[int] = []

    @tool(effect=READ, retry=Retry(attempts=5, base=0.0, cap=0.0))
    async def send() -> str:
        """Lose the line after the request was sent."""
        tries.append(1)
        raise Unknown("The line broke after the order was sent")

    async with Executor(Toolset(send)) as executor:
        result = await executor.run(Call("send", {}, "1"))

    assert result == Result.fail(
        "1",
        FailureKind.UNKNOWN,
        "The line broke after the order was sent. It may have taken effect: check before you call it again.",
    )
    assert tries == [1], "nothing that may have happened is tried again"


async def test_the_progress_of_one_call_is_heard_until_it_has_its_result() -> None:
    @tool(effect=READ)
    async def work(context: Context) -> str:
        """Work, and say how far it is."""
        context.progress("half", 0.5)
        await anyio.lowlevel.checkpoint()
        context.progress("nearly")
        return "done"

    heard: dict[str, list[Event]] = {"a": [], "b": []}
    async with Executor(Toolset(work), clock=lambda: 12.0) as executor:
        turn = executor.turn()
        feeds = {name: turn.events(name) for name in heard}
        turn.add(Call("work", {}, "a"), Call("work", {}, "b"), Call("work", {}, "c"))
        with anyio.fail_after(10):
            for name, feed in feeds.items():
                heard[name] = [event async for event in feed]
        results = await turn.results()

    for name, events in heard.items():
        assert [event for event in events if isinstance(event, Progressed)] == [
            Progressed(12.0, name, "half", 0.5),
            Progressed(12.0, name, "nearly"),
        ]
        assert isinstance(events[0], Requested)
        assert events[-1] == Finished(12.0, results["ab".index(name)])


async def test_a_host_that_has_asked_by_itself_hands_its_answer_in_for_one_call() -> None:
    files: list[str] = []
    policy = lambda call: Ask("May it?") if call.name == "save" else Allow()  # noqa: E731  short
    async with Executor(log_of(files), policy=policy, approvals=defer) as executor:
        turn = executor.turn("t", run="r")
        first = executor.explain(on("a", "1"), turn=turn).pending
        free = executor.explain(on("a", "2", "load"), turn=turn).pending
        assert first is not None
        turn.answer(first, Allow())
        yes = await turn.result("1")
        second = executor.explain(on("b", "3"), turn=turn).pending
        assert second is not None
        turn.answer(second, Deny("not that"))
        no = await turn.result("3")
        turn.add(on("a", "4", "load"))
        results = await turn.results()

    assert (free, first.id, first.question) == (None, "r~t~1~0", "May it?")
    assert (yes.text, no.text) == ("1", "not that")
    assert [one.call_id for one in results] == ["1", "3", "4"]
    assert files == ["+1", "-1", "=4"]


async def test_an_answer_to_an_explained_call_is_for_that_call_alone() -> None:
    files: list[str] = []
    async with Executor(log_of(files), policy=lambda _: Ask("?"), approvals=defer) as executor:
        turn = executor.turn("t", run="r")
        asked = executor.explain(on("a", "1"), turn=turn).pending
        assert asked is not None
        other = dataclasses.replace(asked, call=Call("save", {"path": "b", "who": "1"}, "1"))
        turn.answer(other, Allow())
        result = await turn.result("1")

    assert (kind(result), files) == (FailureKind.PENDING, [])


async def test_calls_without_an_id_of_their_host_get_one_each() -> None:
    async with Executor(Toolset(look)) as executor:
        calls = [Call("look", {"a": n}) for n in range(3)]
        results = await executor.run_all(calls)

    assert len({one.call_id for one in results}) == 3
    assert [one.call_id for one in results] == [call.id for call in calls]


# ---------------------------------------------------------------- what tools and hooks may say


@pytest.mark.parametrize("policy", [None, lambda _: Allow()])
async def test_a_tool_that_needs_approval_is_asked_about_whatever_the_policy_allows(
    policy: Any,
) -> None:
    asked: list[tuple[str, bool]] = []

    @tool(needs_approval=True)
    async def wire(amount: int) -> str:
        """Wire money."""
        return f"wired {amount}"

    async def person(pending: Pending) -> Allow | Deny:
        asked.append((pending.question, pending.once))
        return Allow() if pending.call.id == "1" else Deny("no")

    call = Call("wire", {"amount": 5}, "1")
    async with Executor(Toolset(wire), policy=policy, approvals=person) as executor:
        results = [await executor.run(call), *await executor.run_all([dataclasses.replace(call, id="2")])]  # fmt: skip
    async with Executor(Toolset(wire), policy=policy) as executor:
        results.append(await executor.run(call))
    async with Executor(Toolset(wire), policy=lambda _: Deny("never")) as executor:
        results.append(await executor.run(call))

    question = "Allow `wire`? It always needs approval."
    assert asked == [(question, True)] * 2
    assert [one.text for one in results] == [
        "wired 5",
        "no",
        f"Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: {question}",
        "never",
    ]


async def test_a_tool_that_must_be_alone_is_alone() -> None:
    inside: list[str] = []
    met: set[tuple[str, str]] = set()

    async def work(who: str) -> str:
        met.update((other, who) for other in inside)
        inside.append(who)
        await anyio.wait_all_tasks_blocked()
        inside.remove(who)
        return who

    @tool(effect=READ, exclusive=True, touches=lambda **_: reads_file("a"))
    async def alone(who: str) -> str:
        """Look, with nobody else about."""
        return await work(who)

    @tool(effect=READ)
    async def beside(who: str) -> str:
        """Look."""
        return await work(who)

    names = [("1", "beside"), ("2", "beside"), ("3", "alone"), ("4", "alone"), ("5", "beside")]
    async with Executor(Toolset(alone, beside)) as executor:
        await executor.run_all(Call(name, {"who": who}, who) for who, name in names)
        one = await executor.run(Call("alone", {"who": "6"}, "6"))

    assert {tuple(sorted(pair)) for pair in met} == {("1", "2")}
    assert one.text == "6"


@pytest.mark.parametrize("side", ["before", "around", "after"])
async def test_a_hook_may_end_the_run(side: str) -> None:
    ran: list[int] = []

    @tool
    async def work(n: int) -> str:
        """Work."""
        ran.append(n)
        return f"worked {n}"

    def stops(call: CheckedCall | Call, *_: Result) -> Any:
        if call.id == "1":
            raise StopRun("The budget is used up.")
        return _[0] if _ else call

    async def stops_around(call: CheckedCall, run: Callable[[], Any]) -> Result:
        stops(call)
        return await run()

    hook = Hook(around=stops_around) if side == "around" else Hook(**{side: stops})
    async with Executor(Toolset(work), hooks=[hook]) as executor:
        turn = executor.turn()
        turn.add(*(Call("work", {"n": n}, str(n)) for n in range(4)))
        results = await turn.results()
        other = executor.turn()
        free = await other.run(Call("work", {"n": 9}, "9"))

    denied = Result.fail(
        "1", FailureKind.DENIED, "Not run: a check ended the run. The budget is used up."
    )
    assert (turn.stop_reason, other.stop_reason) == ("The budget is used up.", None)
    assert free.text == "worked 9"
    cancelled = FailureKind.CANCELLED
    if side == "before":  # nothing had begun
        assert ([kind(one) for one in results], ran) == (
            [cancelled, FailureKind.DENIED, cancelled, cancelled],
            [9],
        )
    else:
        assert [kind(one) for one in results[2:]] == [cancelled, cancelled]
        assert results[0].text == "worked 0"
        assert ran == ([0, 9] if side == "around" else [0, 1, 9])
    assert results[1] == (denied if side != "after" else Result("1", "worked 1"))


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_the_pieces_of_a_generator_reach_those_who_watch(way: str) -> None:
    @tool(effect=READ, name="count")
    async def slowly() -> AsyncIterator[str]:
        """Count."""
        for n in range(3):
            await anyio.lowlevel.checkpoint()
            yield f"{n} "

    @tool(effect=READ, name="count")
    def in_a_thread() -> Iterator[str]:
        """Count."""
        for n in range(3):
            yield f"{n} "

    given = slowly if way == "async" else in_a_thread
    async with Executor(Toolset(given), clock=lambda: 12.0) as executor:
        turn = executor.turn()
        feed = turn.events("c")
        turn.add(Call("count", {}, "c"))
        heard = [event async for event in feed]
        result = await turn.result("c")

    assert heard[-4:-1] == [Yielded(12.0, "c", f"{n} ") for n in range(3)]
    assert result.text == "0 1 2 "


@pytest.mark.parametrize("way", ["cancel", "timeout"])
async def test_a_plain_function_sees_that_it_was_cancelled(way: str) -> None:
    begun, ended = threading.Event(), threading.Event()
    saw: list[bool] = []

    @tool(timeout=0.1 if way == "timeout" else 60.0)
    def work(context: Context) -> str:
        """Work until it is told to stop."""
        saw.append(context.is_cancelled())
        begun.set()
        for _ in range(10_000):
            if context.is_cancelled():
                break
            threading.Event().wait(0.002)
        saw.append(context.is_cancelled())
        ended.set()
        return "stopped"

    async with Executor(Toolset(work)) as executor:
        turn = executor.turn()
        turn.add(Call("work", {}, "c"))
        await anyio.to_thread.run_sync(begun.wait)
        if way == "cancel":
            turn.cancel("c")
        [result] = await turn.results()

    assert ended.is_set(), "the executor waits for it when it is left"
    assert (kind(result), saw) == (FailureKind.UNKNOWN, [False, True])


async def test_a_result_says_how_long_its_call_ran_and_about_how_many_tokens_it_has() -> None:
    @tool(effect=READ)
    async def say() -> str:
        """Say something."""
        await anyio.sleep(0.02)
        return "x" * 400

    async with Executor(Toolset(say)) as executor:
        result = await executor.run(Call("say", {}, "1"))
        unknown = await executor.run(Call("nothing", {}, "2"))

    assert result.seconds is not None
    assert 0.01 < result.seconds < 60
    assert (unknown.seconds, result.tokens) == (None, 100)


async def test_a_tool_that_needs_a_login_waits_for_it_like_a_question() -> None:
    signed_in: list[str] = []
    asked: list[str] = []

    @tool(effect=READ)
    async def mail(context: Context) -> str:
        """Read mail."""
        if not signed_in:
            raise NeedsLogin("Sign in to the mail server.", url="https://mail.test/login")
        return "mail"

    async def person(pending: Pending) -> Any:
        asked.append(pending.question)
        signed_in.append("alice")
        return Allow()

    async with Executor(Toolset(mail), approvals=person) as executor:
        now = await executor.run(Call("mail", {}, "1"))
    signed_in.clear()
    async with Executor(Toolset(mail), approvals=defer) as executor:
        turn = executor.turn()
        waits = await turn.run(Call("mail", {}, "1"))
        [pending] = turn.pending
        signed_in.append("alice")
        turn.answer(pending, Allow())
        later = await turn.result("1")
    signed_in.clear()
    async with Executor(Toolset(mail)) as executor:
        nobody = await executor.run(Call("mail", {}, "1"))

    assert asked == ["Sign in to the mail server. https://mail.test/login"]
    assert (now.text, later.text) == ("mail", "mail")
    assert (kind(waits), kind(nobody)) == (FailureKind.PENDING, FailureKind.DENIED)


async def test_a_hook_and_a_policy_that_fail_are_in_the_log_with_what_they_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def breaks(*_: Any) -> Any:
        raise KeyError("hunter2")

    @tool(effect=READ)
    async def broken() -> str:
        """Break."""
        raise KeyError("hunter2")

    options: list[dict[str, Any]] = [
        {"policy": breaks},
        {"hooks": [Hook(before=breaks)]},
        {"hooks": [Hook(after=breaks)]},
        {"policy": lambda _: Ask("?"), "approvals": breaks},
        {},
    ]
    said: list[str] = []
    with caplog.at_level(logging.ERROR, "handrail"):
        for one in options:
            async with Executor(Toolset(broken, look), **one) as executor:
                call = LOOK if one else Call("broken", {}, "broken")
                said.append((await executor.run(call)).text)

    assert [one.getMessage() for one in caplog.records] == [
        "the policy failed on a call of 'look'",
        "a hook before a call of 'look' failed",
        "a hook after a call of 'look' failed",
        "the approver of a call of 'look' failed",
        "the tool 'broken' failed on call 'broken'",
    ]
    assert [one.exc_info and one.exc_info[0] for one in caplog.records] == [KeyError] * 5
    assert "hunter2" not in " ".join(said)


async def test_a_turn_is_made_by_an_executor_and_says_so() -> None:
    with pytest.raises(RuntimeError, match="This turn has no executor"):
        Turn().add(LOOK)


@pytest.mark.parametrize(
    "error",
    [
        ToolFailed("no"),
        Refused("no"),
        Unknown("no"),
        KeyError("no"),
        ExceptionGroup("", [Transient("no"), ToolFailed("no")]),
    ],
    ids=["failed", "refused", "unknown", "bug", "both"],
)
async def test_only_what_is_for_now_is_tried_again(error: Exception) -> None:
    tries: list[int] = []

    @tool(effect=READ)
    async def act() -> str:
        """Fail."""
        tries.append(1)
        raise error

    retry = Retry(attempts=3, base=0.0, cap=0.0)
    async with Executor(Toolset(act), limits=CallLimits(retry=retry)) as executor:
        result = await executor.run(Call("act", {}, "1"))

    assert (tries, kind(result) is None) == ([1], False)
