"""What listeners are told: for each course that a call can take, exactly which events."""

import functools
import itertools
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Context,
    Deny,
    Executor,
    FailureKind,
    Hook,
    Result,
    Retry,
    Toolset,
    Transient,
    reads_file,
    tool,
    writes_file,
)
from handrail.events import (
    Answered,
    Asked,
    AttemptFailed,
    Decided,
    Event,
    Finished,
    Progressed,
    Requested,
    Started,
    Stored,
    Waiting,
)
from handrail.permissions import Pending

NOON = 12.0
"""What the injected clock says."""
READ_ALL, WRITE_ALL = (Access(READ, "*"),), (Access(WRITE, "*"),)
Body = Callable[[Executor], Awaitable[object]]


async def heard(executor: Executor, body: Body) -> list[Event]:
    """Everything that a listener is told from before a body until the executor is closed."""
    events: list[Event] = []

    async def listen() -> None:
        events.extend([event async for event in executor.events()])

    async with anyio.create_task_group() as tasks, executor:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        await body(executor)
    return events


def at_noon(*tools: Any, **options: Any) -> Executor:
    return Executor(Toolset(*tools), clock=lambda: NOON, **options)


@tool(effect=READ)
async def echo(word: str) -> str:
    """Say it again."""
    return word


@tool(effect=READ)
async def echo_late(word: str) -> str:
    """Say it again, later."""
    await anyio.lowlevel.checkpoint()
    return word


@tool(effect=READ)
def echo_sync(word: str) -> str:
    """Say it again, in a thread."""
    return word


@tool
async def shout(word: str) -> str:
    """Say it louder."""
    return word.upper()


@pytest.mark.parametrize("name", ["echo", "echo_late", "echo_sync", "shout"])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("hooked", [False, True])
async def test_a_call_that_works_is_requested_judged_started_and_finished(
    name: str, *, together: bool, hooked: bool
) -> None:
    call = Call(name, '{"word":"a"}', "c1")

    async def untouched(_call: Call, result: Result) -> Result:
        return result

    async def three_times(executor: Executor) -> None:
        for _ in range(3):
            if together:
                await executor.run_all([call])
            else:
                await executor.run(call)

    executor = at_noon(
        echo,
        echo_late,
        echo_sync,
        shout,
        hooks=[Hook(after=one) for one in reversed([untouched] if hooked else [])],
    )
    events = await heard(executor, three_times)

    shouted = name == "shout"
    assert (
        events
        == [
            Requested(NOON, call),
            Decided(NOON, "c1", WRITE_ALL if shouted else READ_ALL, Allow()),
            Started(NOON, "c1", 1),
            Finished(NOON, Result("c1", "A" if shouted else "a")),
        ]
        * 3
    )


async def test_a_call_that_never_gets_as_far_as_judgement_is_requested_and_finished() -> None:
    async def cached(call: CheckedCall) -> Call | Result:
        return Result(call.id, "cached") if call.id == "4" else call

    calls = [
        Call("missing", "{}", "1"),
        Call("echo", '{"word":5}', "2"),
        Call("echo", "{", "3"),
        Call("echo", '{"word":"a"}', "4"),
    ]
    outcomes: list[Result] = []

    async def body(executor: Executor) -> None:
        outcomes.extend(await executor.run_all(calls))

    events = await heard(at_noon(echo, hooks=[Hook(before=cached)]), body)

    assert sorted(events, key=call_id) == [
        event
        for call, outcome in zip(calls, outcomes, strict=True)
        for event in (Requested(NOON, call), Finished(NOON, outcome))
    ]


async def test_a_denied_call_never_starts() -> None:
    call = Call("echo", '{"word":"a"}', "1")

    async def body(executor: Executor) -> None:
        await executor.run(call)

    events = await heard(at_noon(echo, policy=lambda *_: Deny("no")), body)

    assert events[0] == Requested(NOON, call)
    assert events[-1] == Finished(NOON, Result.fail("1", FailureKind.DENIED, "no"))
    assert not any(isinstance(one, Started) for one in events)


@pytest.mark.parametrize("answer", [Allow(), Deny("not today")])
async def test_a_question_is_in_the_judgement_and_its_answer_in_what_follows(
    answer: Allow | Deny,
) -> None:
    call = Call("shout", '{"word":"a"}', "1")

    async def approver(_pending: Pending) -> Allow | Deny:
        return answer

    async def body(executor: Executor) -> None:
        await executor.run(call)

    executor = at_noon(shout, policy=lambda *_: Ask("Shout?"), approvals=approver)
    events = await heard(executor, body)

    [pending] = [one.pending for one in events if isinstance(one, Asked)]
    asked: list[Event] = [
        Requested(NOON, call),
        Decided(NOON, "1", WRITE_ALL, Ask("Shout?")),
        Asked(NOON, pending),
        Answered(NOON, pending.id, "1", answer),
    ]
    if isinstance(answer, Allow):
        asked += [Started(NOON, "1", 1), Finished(NOON, Result("1", "A"))]
    else:
        asked += [Finished(NOON, Result.fail("1", FailureKind.DENIED, "not today"))]
    assert events == asked


async def test_a_call_that_must_wait_says_for_whom() -> None:
    @tool(touches=writes_file)
    async def save(path: str) -> str:
        """Save."""
        return "ok"

    @tool(effect=READ, touches=reads_file)
    async def load(path: str) -> str:
        """Load."""
        return "ok"

    calls = [
        Call("save", {"path": "d/a"}, "1"),
        Call("save", {"path": "d/b"}, "2"),
        Call("load", {"path": "d"}, "3"),
        Call("load", {"path": "e"}, "4"),
        Call("save", {"path": "d/a"}, "5"),
    ]

    async def body(executor: Executor) -> None:
        await executor.run_all(calls)

    events = await heard(at_noon(save, load), body)

    waits = [(one.call_id, sorted(one.on)) for one in events if isinstance(one, Waiting)]
    assert waits in ([("3", ["1", "2"]), ("5", ["1", "3"])], [("3", ["1", "2"]), ("5", ["3"])])
    for call in calls:
        assert [type(one) for one in of(events, call.id) if not isinstance(one, Waiting)] == [
            Requested,
            Decided,
            Started,
            Finished,
        ]


async def test_a_call_that_lacks_only_a_place_waits_for_nobody_in_particular() -> None:
    async def body(executor: Executor) -> None:
        await executor.run_all(Call("echo_late", '{"word":"a"}', f"{n}") for n in range(2))

    events = await heard(at_noon(echo_late, limits=CallLimits(max_running=1)), body)

    assert [one for one in events if isinstance(one, Waiting)] == [
        Waiting(NOON, "1", ("0",), "slot")
    ]


async def test_each_attempt_is_told_with_why_it_failed_and_when_the_next_one_comes() -> None:
    @tool(effect=READ, retry=Retry(attempts=3, base=0, cap=0.01))
    async def flaky(context: Context) -> str:
        """Work the third time."""
        if context.attempt < 3:
            raise Transient("busy", retry_after=0.001 if context.attempt == 1 else None)
        return "at last"

    call = Call("flaky", "{}", "1")

    async def body(executor: Executor) -> None:
        await executor.run(call)

    assert await heard(at_noon(flaky), body) == [
        Requested(NOON, call),
        Decided(NOON, "1", READ_ALL, Allow()),
        Started(NOON, "1", 1),
        AttemptFailed(NOON, "1", 1, FailureKind.TRANSIENT, "busy", 0.001),
        Started(NOON, "1", 2),
        AttemptFailed(NOON, "1", 2, FailureKind.TRANSIENT, "busy", 0.0),
        Started(NOON, "1", 3),
        Finished(NOON, Result("1", "at last")),
    ]


@pytest.mark.parametrize("name", ["steps", "steps_sync"])
async def test_progress_is_told_to_listeners_at_once_and_never_to_the_model(name: str) -> None:
    told = threading.Event()

    @tool(effect=READ)
    async def steps(context: Context) -> str:
        """Work in steps."""
        context.progress("half")
        await anyio.to_thread.run_sync(told.wait, 2)
        return "done"

    @tool(effect=READ)
    def steps_sync(context: Context) -> str:
        """Work in steps, in a thread."""
        context.progress("half")
        return "done" if told.wait(2) else "nobody heard it while it ran"

    call = Call(name, "{}", "1")
    events: list[Event] = []
    outcomes: list[Result] = []

    async def listen(executor: Executor) -> None:
        async for event in executor.events():
            events.append(event)
            if isinstance(event, Progressed):
                told.set()

    async with anyio.create_task_group() as tasks, at_noon(steps, steps_sync) as executor:
        tasks.start_soon(listen, executor)
        await anyio.wait_all_tasks_blocked()
        outcomes.append(await executor.run(call))

    assert outcomes == [Result("1", "done")]
    assert events == [
        Requested(NOON, call),
        Decided(NOON, "1", READ_ALL, Allow()),
        Started(NOON, "1", 1),
        Progressed(NOON, "1", "half"),
        Finished(NOON, Result("1", "done")),
    ]


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


@pytest.mark.parametrize("name", ["helped", "threads", "decorated"])
async def test_progress_may_be_told_from_any_thread_at_all(name: str) -> None:
    @tool(effect=READ)
    async def helped(context: Context) -> str:
        """Let a thread tell."""
        await anyio.to_thread.run_sync(context.progress, "from another thread")
        return "done"

    @tool(effect=READ)
    def threads(context: Context) -> str:
        """Let a thread of one's own tell."""
        own = threading.Thread(target=context.progress, args=["from my own"])
        own.start()
        own.join(2)
        return "done"

    @tool(effect=READ)
    @wrapped
    async def decorated(context: Context) -> str:
        """Tell from behind a decorator that hides that it is async."""
        await anyio.lowlevel.checkpoint()
        context.progress("from behind")
        return "done"

    outcomes: list[Result] = []

    async def body(executor: Executor) -> None:
        outcomes.append(await executor.run(Call(name, "{}", "1")))

    events = await heard(at_noon(helped, threads, decorated), body)

    words = {"helped": "from another thread", "threads": "from my own", "decorated": "from behind"}
    assert [one.text for one in outcomes] == ["done"]
    assert [one.message for one in events if isinstance(one, Progressed)] == [words[name]]


@pytest.mark.parametrize("together", [False, True])
async def test_what_was_stored_is_told_before_the_end(*, together: bool) -> None:
    @tool(effect=READ, max_chars=100)
    async def dump() -> str:
        """Dump."""
        return "x" * 1000

    call = Call("dump", "{}", "1")

    async def body(executor: Executor) -> None:
        for _ in range(2):
            if together:
                await executor.run_all([call])
            else:
                await executor.run(call)

    events = await heard(at_noon(dump), body)

    assert [type(one) for one in events] == [Requested, Decided, Started, Stored, Finished] * 2
    assert Stored(NOON, "1", 1000) in events


async def test_cancelled_calls_end_once_whether_they_ran_or_not() -> None:
    begun = anyio.Event()

    @tool
    async def forever() -> str:
        """Work forever."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    async def body(executor: Executor) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                executor.run_all, [Call("forever", "{}", "1"), Call("forever", "{}", "2")]
            )
            await begun.wait()
            executor.cancel()

    events = await heard(at_noon(forever), body)

    assert [type(one) for one in of(events, "1")] == [Requested, Decided, Started, Finished]
    assert [type(one) for one in of(events, "2")] == [Requested, Decided, Waiting, Finished]
    kinds = {one.result.call_id: one.result.failure for one in events if isinstance(one, Finished)}
    assert [kinds[n].kind for n in "12"] == [FailureKind.UNKNOWN, FailureKind.CANCELLED]  # type: ignore[union-attr]


async def test_a_call_of_the_fast_lane_that_is_cancelled_before_its_task_begins_is_told_in_full() -> (
    None
):
    outcomes: list[Result] = []

    async def body(executor: Executor) -> None:
        await executor.run(Call("echo", '{"word":"a"}', "0"))

        async def turn() -> None:
            calls = [Call("echo", '{"word":"a"}', f"{n}") for n in (1, 2)]
            outcomes.extend(await executor.run_all(calls))

        async def stop() -> None:
            executor.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            tasks.start_soon(stop)

    events = await heard(at_noon(echo), body)

    assert [one.call_id for one in outcomes] == ["1", "2"]
    for outcome in outcomes:
        course = of(events, outcome.call_id)
        assert isinstance(course[0], Requested)
        assert course[-1] == Finished(NOON, outcome)
        assert sum(isinstance(one, Finished) for one in course) == 1
        assert any(isinstance(one, Started) for one in course) is (outcome.failure is None)


# ---------------------------------------------------------------- what can be made of them


def call_id(event: Event) -> str:
    if isinstance(event, Requested):
        return event.call.id
    return event.result.call_id if isinstance(event, Finished) else event.call_id


def of(events: Sequence[Event], wanted: str) -> list[Event]:
    return [one for one in events if call_id(one) == wanted]


def transcript(events: Sequence[Event]) -> list[tuple[str, object, str]]:
    """Tool, arguments and answer, in the order of the requests."""
    answers = {one.result.call_id: one.result.text for one in events if isinstance(one, Finished)}
    calls = [one.call for one in events if isinstance(one, Requested)]
    return [(call.name, call.args, answers[call.id]) for call in calls]


def statistics(events: Sequence[Event]) -> dict[str, dict[str, float]]:
    """For each tool: calls, failures, attempts, seconds at work."""
    names = {one.call.id: one.call.name for one in events if isinstance(one, Requested)}
    table: dict[str, dict[str, float]] = {}
    began: dict[str, float] = {}
    for one in events:
        row = table.setdefault(
            names[call_id(one)], {"calls": 0, "failures": 0, "attempts": 0, "seconds": 0.0}
        )
        if isinstance(one, Requested):
            row["calls"] += 1
        elif isinstance(one, Started):
            row["attempts"] += 1
            began.setdefault(one.call_id, one.at)
        elif isinstance(one, Finished):
            row["failures"] += one.result.failure is not None
            row["seconds"] += one.at - began.get(one.result.call_id, one.at)
    return table


def timeline(events: Sequence[Event]) -> list[tuple[str, float, float | None, float]]:
    """For each call: when it was asked for, when it started (if it did), when it ended."""
    rows: dict[str, list[Any]] = {}
    for one in events:
        row = rows.setdefault(call_id(one), [None, None, None])
        if isinstance(one, Requested):
            row[0] = one.at
        elif isinstance(one, Started) and row[1] is None:
            row[1] = one.at
        elif isinstance(one, Finished):
            row[2] = one.at
    return [(name, *row) for name, row in rows.items()]


async def test_transcript_statistics_and_timeline_can_be_made_of_the_events_alone() -> None:
    ticks = itertools.count()

    @tool(effect=READ, retry=Retry(attempts=2, base=0, cap=0))
    async def flaky(context: Context) -> str:
        """Work the second time."""
        if context.attempt == 1:
            raise Transient("busy")
        return "at last"

    calls = [
        Call("echo", '{"word":"a"}', "1"),
        Call("missing", "{}", "2"),
        Call("flaky", "{}", "3"),
        Call("shout", {"word": "b"}, "4"),
        Call("echo", '{"word":"c"}', "5"),
    ]

    async def body(executor: Executor) -> None:
        await executor.run_all(calls[:4])
        await executor.run(calls[4])

    executor = Executor(Toolset(echo, shout, flaky), clock=lambda: float(next(ticks)))
    events = await heard(executor, body)

    assert transcript(events) == [
        ("echo", '{"word":"a"}', "a"),
        ("missing", "{}", "There is no tool 'missing'. Available tools: echo, flaky, shout."),
        ("flaky", "{}", "at last"),
        ("shout", {"word": "b"}, "B"),
        ("echo", '{"word":"c"}', "c"),
    ]
    table = statistics(events)
    assert {
        name: (row["calls"], row["failures"], row["attempts"]) for name, row in table.items()
    } == {
        "echo": (2, 0, 2),
        "missing": (1, 1, 0),
        "flaky": (1, 0, 2),
        "shout": (1, 0, 1),
    }
    assert all(row["seconds"] >= 0 for row in table.values())
    assert table["flaky"]["seconds"] > 0
    rows = timeline(events)
    assert sorted(name for name, *_ in rows) == ["1", "2", "3", "4", "5"]
    for name, asked, started, ended in rows:
        assert (started is None) is (name == "2")
        assert asked <= (asked if started is None else started) <= ended


async def test_events_are_told_in_the_order_of_their_times() -> None:
    ticks = itertools.count()
    calls = [
        Call(name, {"word": "a"}, name) for name in ("echo", "echo_late", "echo_sync", "shout")
    ]

    async def body(executor: Executor) -> None:
        for _ in range(2):
            await executor.run_all(calls)

    executor = Executor(
        Toolset(echo, echo_late, echo_sync, shout), clock=lambda: float(next(ticks))
    )
    events = await heard(executor, body)

    times = [one.at for one in events]
    assert times == sorted(times)
    assert len(events) >= 32


# ---------------------------------------------------------------- listeners


async def test_every_listener_is_told_everything_from_where_it_began() -> None:
    first: list[Event] = []
    second: list[Event] = []

    async def listen(executor: Executor, into: list[Event]) -> None:
        into.extend([event async for event in executor.events()])

    async with anyio.create_task_group() as tasks, at_noon(echo) as executor:
        await executor.run(Call("echo", '{"word":"a"}', "0"))
        tasks.start_soon(listen, executor, first)
        await anyio.wait_all_tasks_blocked()
        await executor.run(Call("echo", '{"word":"a"}', "1"))
        tasks.start_soon(listen, executor, second)
        await anyio.wait_all_tasks_blocked()
        await executor.run(Call("echo", '{"word":"a"}', "2"))

    assert {call_id(one) for one in first} == {"1", "2"}
    assert {call_id(one) for one in second} == {"2"}
    assert first[4:] == second


async def test_a_listener_may_leave_and_the_others_stay() -> None:
    first: list[Event] = []

    async def listen_once(executor: Executor) -> None:
        stream = executor.events()
        first.append(await anext(stream))
        stream.close()
        first.extend([event async for event in stream])

    async def body(executor: Executor) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen_once, executor)
            await anyio.wait_all_tasks_blocked()
            await executor.run(Call("echo", '{"word":"a"}', "1"))
        await executor.run(Call("echo", '{"word":"a"}', "2"))

    events = await heard(at_noon(echo), body)

    assert first == events[:4]
    assert len(events) == 8


async def test_a_listener_hears_what_happens_after_events_was_called() -> None:
    async with at_noon(echo) as executor:
        stream = executor.events()
        await executor.run(Call("echo", '{"word":"a"}', "1"))
    with anyio.fail_after(2):
        events = [event async for event in stream]

    assert [type(one) for one in events] == [Requested, Decided, Started, Finished]


async def test_the_events_of_a_closed_executor_are_over() -> None:
    async with at_noon(echo) as executor:
        pass
    with anyio.fail_after(2):
        assert [event async for event in executor.events()] == []


async def test_a_closed_feed_takes_no_more_values() -> None:
    """The control is a value from before."""
    async with Executor(Toolset()) as executor:
        feed = executor.events()
        feed.insert("early")
        feed.close()
        feed.insert("late")

        values: list[Any] = [value async for value in feed]

    assert values == ["early"]
