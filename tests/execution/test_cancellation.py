"""Stopping calls: by the executor, by its closing, and by whoever waits for it."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from handrail import (
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Executor,
    FailureKind,
    Hook,
    Result,
    Retry,
    Toolset,
    Transient,
    Turn,
    reads_file,
    tool,
    writes_file,
)
from handrail.events import Event, Finished, Requested, Started
from handrail.permissions import Pending
from virtual_time import Quick


def kind(result: Result) -> FailureKind | None:
    return result.failure.kind if result.failure else None


@tool(effect=READ)
async def echo(word: str = "echo") -> str:
    """Say it again."""
    return word


@tool(effect=READ)
async def look(steps: int = 3) -> str:
    """Look, step by step."""
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()
    return "seen"


@tool
async def work(steps: int = 3) -> str:
    """Work, step by step."""
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()
    return "done"


@tool(effect=READ)
def thread() -> str:
    """Work in a thread."""
    return "threaded"


async def slow_hook(call: CheckedCall) -> CheckedCall:
    await anyio.lowlevel.checkpoint()
    return call


async def slow_after(_call: CheckedCall | Call, result: Result) -> Result:
    await anyio.lowlevel.checkpoint()
    return result


async def slow_yes(_pending: Pending) -> Allow:
    await anyio.lowlevel.checkpoint()
    return Allow()


def ask_for_work(call: CheckedCall) -> Allow | Ask:
    return Ask("Work?") if call.id == "asked" else Allow()


TOOLS = Toolset(echo, look, work, thread)
CALLS = [
    Call("work", '{"steps":2}', "1"),
    Call("echo", "{}", "2"),
    Call("look", "{}", "3"),
    Call("missing", "{}", "4"),
    Call("work", '{"steps":0}', "asked"),
    Call("thread", {}, "5"),
    Call("echo", '{"word":"x"}', "6"),
]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "hooked": {
        "policy": ask_for_work,
        "hooks": [Hook(before=slow_hook, after=slow_after)],
        "approvals": slow_yes,
    },
}


async def arriving() -> AsyncIterator[Call]:
    for call in CALLS:
        await anyio.lowlevel.checkpoint()
        yield call


def ways_to_run(executor: Executor) -> dict[str, Any]:
    return {
        "run_all": lambda: executor.run_all(CALLS),
        "stream": lambda: executor.run_all(arriving()),
        "run": lambda: executor.run(CALLS[0]),
        "run a read": lambda: executor.run(CALLS[2]),
    }


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("way", ["run_all", "stream", "run", "run a read"])
@pytest.mark.parametrize("steps", range(10))
async def test_whoever_waits_may_be_cancelled_at_any_step_and_nothing_stays_behind(
    steps: int, way: str, options: str
) -> None:
    events: list[Event] = []
    late: list[str] = []

    async def listen(executor: Executor) -> None:
        async for event in executor.events():
            events.append(event)
            if isinstance(event, Started):
                late.append(event.call_id)

    async with (
        anyio.create_task_group() as listening,
        Executor(TOOLS, **OPTIONS[options]) as executor,
    ):
        await executor.run_all([Call("echo", "{}", "w1"), Call("work", "{}", "w2")])
        listening.start_soon(listen, executor)
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ways_to_run(executor)[way])
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        ended = [e.result.call_id for e in events if isinstance(e, Finished)]
        begun = [e.call.id for e in events if isinstance(e, Requested)]
        late.clear()
        with anyio.fail_after(2):
            after = await executor.run_all([Call("work", "{}", "z"), Call("echo", "{}", "y")])

    assert sorted(ended) == sorted(begun), "each call that was asked for ends exactly once"
    assert [one.text for one in after] == ["done", "echo"]
    assert set(late) <= {"z", "y"}, "nothing starts after the cancellation"


async def test_cancelling_whoever_waits_is_a_cancellation_and_no_error() -> None:
    begun = anyio.Event()
    ran: list[int] = []

    @tool
    async def forever(number: int) -> str:
        """Work forever."""
        ran.append(number)
        begun.set()
        await anyio.sleep_forever()
        return ""

    async with Executor(Toolset(forever)) as executor:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def stop() -> None:
                    await begun.wait()
                    scope.cancel()

                tasks.start_soon(stop)
                await executor.run_all(Call("forever", {"number": n}, f"{n}") for n in range(3))
        assert scope.cancelled_caught

    assert ran == [0], "a call that had been waiting is not started by the cancellation"


async def test_a_stream_that_breaks_says_so_itself_and_nothing_stays_behind() -> None:
    async def breaking() -> AsyncIterator[Call]:
        yield Call("echo", "{}", "1")
        yield Call("work", "{}", "2")
        raise LookupError("the line went dead")

    async with Executor(TOOLS) as executor:
        await executor.run(Call("echo", "{}", "0"))
        for _ in range(2):
            with pytest.raises(LookupError, match="the line went dead"):
                await executor.run_all(breaking())
        with anyio.fail_after(2):
            outcome = await executor.run(Call("work", "{}", "3"))

    assert outcome.text == "done"


async def test_calls_that_break_while_they_are_listed_leave_nothing_behind() -> None:
    def breaking() -> Any:
        yield Call("echo", "{}", "1")
        raise LookupError

    async with Executor(TOOLS) as executor:
        await executor.run(Call("echo", "{}", "0"))
        with pytest.raises(LookupError):
            await executor.run_all(breaking())
        with anyio.fail_after(2):
            outcome = await executor.run(Call("work", "{}", "2"))

    assert outcome.text == "done"


# ---------------------------------------------------------------- stopping calls


async def test_one_call_can_be_stopped_and_the_others_go_on() -> None:
    go = anyio.Event()

    @tool(effect=READ)
    async def wait(word: str) -> str:
        """Wait."""
        await go.wait()
        return word

    async with Executor(Toolset(wait)) as executor:
        turn = executor.turn()
        turn.add(*(Call("wait", {"word": word}, word) for word in "abc"))
        await anyio.wait_all_tasks_blocked()
        assert turn.cancel("b") == ("b",)
        assert turn.cancel("no such call") == ()
        await anyio.wait_all_tasks_blocked()
        go.set()
        outcomes = await turn.results()

    assert [one.text for one in outcomes] == ["a", "Cancelled while it ran.", "c"]
    assert kind(outcomes[1]) is FailureKind.CANCELLED


async def test_stopping_the_same_call_again_and_again_is_harmless() -> None:
    begun, cleaned = anyio.Event(), anyio.Event()

    @tool
    async def stubborn() -> str:
        """Take a while to stop."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            cleaned.set()
        return ""

    outcomes: list[Result] = []
    async with Executor(Toolset(stubborn)) as executor:

        async def turn() -> None:
            outcomes.append(await executor.run(Call("stubborn", {}, "1")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await begun.wait()
            while not cleaned.is_set():
                executor.cancel()
                await anyio.lowlevel.checkpoint()
                with anyio.move_on_after(0.001):
                    await cleaned.wait()

    assert [kind(one) for one in outcomes] == [FailureKind.UNKNOWN]


async def test_a_call_that_is_stopped_before_its_first_step_is_not_run() -> None:
    """Either it ran to its end, or nothing of it was run; never a run that is then denied."""
    ran: list[str] = []

    @tool(effect=READ)
    async def note(word: str) -> str:
        """Note a word."""
        ran.append(word)
        return "noted"

    for round_ in range(10):
        outcomes: list[Result] = []
        ran.clear()
        async with Executor(Toolset(note)) as executor:
            if round_ % 2:
                await executor.run(Call("note", '{"word":"warm"}', "0"))
                ran.clear()

            async def turn(executor: Executor = executor, into: list[Result] = outcomes) -> None:
                calls = [Call("note", f'{{"word":"{word}"}}', word) for word in "ab"]
                into.extend(await executor.run_all(calls))

            async def stop(executor: Executor = executor) -> None:
                executor.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(turn)
                tasks.start_soon(stop)

        assert [one.call_id for one in outcomes] == ["a", "b"]
        for outcome in outcomes:
            if outcome.failure is None:
                assert outcome.call_id in ran
            else:
                assert outcome.text == "Not run: the call was cancelled before it started."
                assert outcome.call_id not in ran


async def test_a_tool_may_stop_its_own_call() -> None:
    turns: list[Turn] = []

    @tool(effect=READ)
    async def give_up() -> str:
        """Give up."""
        (turns[0] if turns else executor).cancel()
        await anyio.sleep(1)
        return "still here"

    call = Call("give_up", {}, "1")
    async with Executor(Toolset(give_up)) as executor:
        outcomes = [await executor.run(call), *await executor.run_all([call])]
        turns.append(executor.turn())
        outcomes.append(await turns[0].run(call))

    assert [kind(one) for one in outcomes] == [FailureKind.CANCELLED] * 3


async def test_a_call_that_pauses_before_its_next_attempt_can_be_stopped() -> None:
    tried = anyio.Event()

    @tool(effect=READ, retry=Retry(attempts=5, base=100, cap=100))
    async def flaky() -> str:
        """Fail for now."""
        tried.set()
        raise Transient("later", retry_after=100)

    outcomes: list[Result] = []
    async with Executor(Toolset(flaky)) as executor:

        async def turn() -> None:
            outcomes.append(await executor.run(Call("flaky", {}, "1")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await tried.wait()
            await anyio.wait_all_tasks_blocked()
            executor.cancel()

    assert [kind(one) for one in outcomes] == [FailureKind.CANCELLED]


async def test_a_tool_that_is_stopped_and_calls_it_transient_is_not_tried_again() -> None:
    tries: list[int] = []
    begun = anyio.Event()

    @tool(effect=READ, retry=Retry(attempts=5, base=0, cap=0))
    async def flaky() -> str:
        """Turn a stop into an excuse."""
        tries.append(1)
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise Transient("later")

    outcomes: list[Result] = []
    async with Executor(Toolset(flaky)) as executor:

        async def turn() -> None:
            outcomes.append(await executor.run(Call("flaky", {}, "1")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await begun.wait()
            executor.cancel()

    assert tries == [1]
    assert kind(outcomes[0]) in (FailureKind.TRANSIENT, FailureKind.CANCELLED)


async def test_a_call_that_waits_for_an_answer_can_be_stopped() -> None:
    asked = anyio.Event()

    async def think(_pending: Pending) -> Allow:
        asked.set()
        await anyio.sleep_forever()
        return Allow()

    outcomes: list[Result] = []
    async with Executor(TOOLS, policy=lambda *_: Ask("?"), approvals=think) as executor:

        async def turn() -> None:
            outcomes.extend(await executor.run_all([CALLS[0], CALLS[1]]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await asked.wait()
            executor.cancel()

    assert {one.text for one in outcomes} == {"Not run: the call was cancelled before it started."}


async def test_a_call_that_was_allowed_but_waits_for_its_turn_can_be_stopped() -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return "waited"

    async def yes(_pending: Pending) -> Allow:
        return Allow()

    async with Executor(
        Toolset(wait), policy=Quick(lambda *_: Ask("?")), approvals=yes
    ) as executor:
        turn = executor.turn()
        turn.add(Call("wait", {}, "1"), Call("wait", {}, "2"))
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        assert turn.cancel("2") == ("2",)
        go.set()
        outcomes = await turn.results()

    assert [kind(one) for one in outcomes] == [None, FailureKind.CANCELLED]


async def test_a_stopped_call_frees_the_place_that_it_was_waiting_for() -> None:
    go = anyio.Event()

    @tool(effect=READ)
    async def wait(word: str) -> str:
        """Wait."""
        await go.wait()
        return word

    async with Executor(
        Toolset(wait), limits=CallLimits(max_running_per_tool={"wait": 1})
    ) as executor:
        turn = executor.turn()
        turn.add(*(Call("wait", {"word": word}, word) for word in "abcd"))
        await anyio.wait_all_tasks_blocked()
        assert turn.cancel("b", "c") == ("b", "c")
        await anyio.wait_all_tasks_blocked()
        go.set()
        with anyio.fail_after(2):
            outcomes = await turn.results()

    assert [one.text for one in outcomes] == [
        "a",
        "Not run: the call was cancelled before it started.",
        "Not run: the call was cancelled before it started.",
        "d",
    ]


# ---------------------------------------------------------------- threads


async def test_a_stopped_thread_that_yields_is_asked_to_stop_and_its_words_are_kept() -> None:
    said, go = threading.Event(), threading.Event()
    ended = threading.Event()

    @tool(effect=READ)
    def drip() -> Any:
        """Drip."""
        try:
            yield "one "
            yield "two "
            said.set()
            go.wait(5)
            while True:
                yield "more "
        finally:
            ended.set()

    outcomes: list[Result] = []
    async with Executor(Toolset(drip)) as executor:

        async def turn() -> None:
            outcomes.append(await executor.run(Call("drip", {}, "1")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await anyio.to_thread.run_sync(said.wait)
            executor.cancel()
        go.set()

    assert ended.is_set()
    assert outcomes[0].text == (
        "Cancelled while it ran, but is still running: calls that conflict with it wait "
        "until it ends.\nOutput so far:\none two "
    )


async def test_a_call_behind_a_thread_that_does_not_stop_is_told_so_in_time() -> None:
    go = threading.Event()

    @tool(touches=lambda: writes_file("a"), timeout=0.5)
    def stuck() -> str:
        """Hang in a thread."""
        go.wait(5)
        return ""

    @tool(touches=lambda: writes_file("a"))
    async def touch() -> str:
        """Touch the same."""
        return "touched"

    async with Executor(Toolset(stuck, touch), limits=CallLimits(timeout=0.6)) as executor:
        try:
            outcomes = await executor.run_all([Call("stuck", {}, "1"), Call("touch", {}, "2")])
        finally:
            go.set()
        await executor.run(Call("touch", {}, "3"))

    assert [kind(one) for one in outcomes] == [FailureKind.UNKNOWN, FailureKind.TIMEOUT]
    assert outcomes[1].text == (
        "Not run: an earlier call that it had to wait for was stopped, but is still running. Continue with other work, or tell the user."
    )


async def test_a_hook_that_calls_a_tool_behind_a_stuck_thread_is_told_so_too() -> None:
    """Its own call is running meanwhile, and waits for nothing else."""
    go = threading.Event()

    @tool(touches=lambda: writes_file("a"), timeout=0.5)
    def stuck() -> str:
        """Hang in a thread."""
        go.wait(30)
        return ""

    @tool(touches=lambda: writes_file("a"))
    async def touch() -> str:
        """Touch the same."""
        return "touched"

    @tool(touches=lambda: writes_file("b"))
    async def other() -> str:
        """Touch something else."""
        return "other"

    inner: list[Result] = []

    async def look(call: CheckedCall, proceed: Callable[[], Awaitable[Result]]) -> Result:
        if call.name == "other":
            inner.append(await executor.run(Call("touch", {}, "inner")))
        return await proceed()

    limits = CallLimits(timeout=0.6)
    async with Executor(
        Toolset(stuck, touch, other), limits=limits, hooks=[Hook(around=look)]
    ) as executor:
        try:
            await executor.run(Call("stuck", {}, "1"))
            later = await executor.run_all([Call("other", {}, "2"), Call("other", {}, "3")])
        finally:
            go.set()

    assert [kind(one) for one in inner] == [FailureKind.TIMEOUT, FailureKind.TIMEOUT]
    assert [one.text for one in later] == ["other", "other"]


async def test_a_call_that_waits_for_an_answer_is_not_ended_by_somebody_elses_stuck_thread() -> (
    None
):
    go, answer = threading.Event(), anyio.Event()

    @tool(effect=READ, touches=lambda: reads_file("a"), timeout=0.5)
    def stuck() -> str:
        """Hang in a thread."""
        go.wait(5)
        return ""

    @tool(touches=lambda: writes_file("b"))
    async def touch() -> str:
        """Touch something else."""
        return "touched"

    async def think(_pending: Pending) -> Allow:
        await answer.wait()
        return Allow()

    def policy(call: CheckedCall) -> Allow | Ask:
        return Ask("?") if call.name == "touch" else Allow()

    outcomes: list[Result] = []
    async with Executor(
        Toolset(stuck, touch), limits=CallLimits(timeout=0.6), policy=policy, approvals=think
    ) as executor:

        async def turn() -> None:
            outcomes.extend(
                await executor.run_all([Call("stuck", {}, "1"), Call("touch", {}, "2")])
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await anyio.sleep(0.4)
            answer.set()
        go.set()

    assert [kind(one) for one in outcomes] == [FailureKind.TIMEOUT, None]
    assert outcomes[1].text == "touched"


# ---------------------------------------------------------------- closing


async def test_closing_stops_what_runs_waits_for_it_and_ends_the_events() -> None:
    log: list[str] = []
    outcomes: list[Result] = []
    begun = anyio.Event()

    @tool
    async def forever() -> str:
        """Work forever."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            log.append("stopped")
        return ""

    async def listen(executor: Executor) -> None:
        async for event in executor.events():
            log.extend([f"{event.result.call_id} finished"] if isinstance(event, Finished) else [])
        log.append("events ended")

    async with anyio.create_task_group() as tasks:
        async with Executor(Toolset(forever)) as executor:
            tasks.start_soon(listen, executor)

            async def turn() -> None:
                outcomes.extend(
                    await executor.run_all([Call("forever", {}, "1"), Call("forever", {}, "2")])
                )

            tasks.start_soon(turn)
            await begun.wait()
        log.append("closed")

    assert [kind(one) for one in outcomes] == [FailureKind.UNKNOWN, FailureKind.CANCELLED]
    assert log.index("stopped") < log.index("closed")
    assert sorted(log) == ["1 finished", "2 finished", "closed", "events ended", "stopped"]
    assert log.index("events ended") > max(log.index("1 finished"), log.index("2 finished"))


async def test_closing_waits_for_the_hooks_of_what_it_stopped() -> None:
    begun, slow = anyio.Event(), anyio.Event()
    events: list[Event] = []

    @tool
    async def forever() -> str:
        """Work forever."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    async def audit(_call: CheckedCall | Call, result: Result) -> Result:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        slow.set()
        return result

    async def listen(executor: Executor) -> None:
        events.extend([event async for event in executor.events()])

    async with anyio.create_task_group() as tasks:
        async with Executor(Toolset(forever), hooks=[Hook(after=audit)]) as executor:
            tasks.start_soon(listen, executor)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(executor.run, Call("forever", {}, "1"))
            await begun.wait()
        assert slow.is_set()

    assert isinstance(events[-1], Finished)


async def test_a_closed_executor_runs_nothing_more() -> None:
    go = anyio.Event()
    ran: list[str] = []
    outcomes: list[Result] = []

    @tool
    async def note(word: str) -> str:
        """Note a word."""
        ran.append(word)
        return "noted"

    async def arriving_late() -> AsyncIterator[Call]:
        yield Call("note", {"word": "first"}, "1")
        await go.wait()
        yield Call("note", {"word": "second"}, "2")

    async with anyio.create_task_group() as tasks:
        async with Executor(Toolset(note)) as executor:

            async def turn() -> None:
                outcomes.extend(await executor.run_all(arriving_late()))

            tasks.start_soon(turn)
            await anyio.wait_all_tasks_blocked()
        go.set()

    assert ran == []
    assert [kind(one) for one in outcomes] == [FailureKind.CANCELLED, FailureKind.CANCELLED]


async def test_an_executor_closes_in_peace_when_its_users_are_being_cancelled_too() -> None:
    begun = anyio.Event()

    @tool
    async def stubborn() -> str:
        """Take a while to stop."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
        return ""

    with anyio.CancelScope() as scope:
        async with Executor(Toolset(stubborn)) as executor, anyio.create_task_group() as tasks:
            calls = [Call("stubborn", {}, "1"), Call("stubborn", {}, "2")]
            tasks.start_soon(executor.run_all, calls)
            await begun.wait()
            scope.cancel()
    assert scope.cancelled_caught


async def test_an_error_in_the_body_comes_out_as_it_is() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with Executor(TOOLS):
            raise LookupError("mine")


def test_a_thread_that_outlives_run_sync_frees_what_it_touched_when_it_ends() -> None:
    go, ended = threading.Event(), threading.Event()

    @tool(effect=WRITE, timeout=0.5)
    def stuck(first: bool) -> str:  # noqa: FBT001  a tool's arguments have names
        """Hang in a thread, the first time."""
        if first:
            go.wait(5)
            ended.set()
        return "done"

    executor = Executor(Toolset(stuck), limits=CallLimits(timeout=1.0))
    timer = threading.Timer(1.0, go.set)
    timer.start()
    first = executor.run_sync(Call("stuck", {"first": True}, "1"))
    go.set()
    ended.wait(5)
    timer.join()
    second = executor.run_sync(Call("stuck", {"first": False}, "2"))

    assert kind(first) is FailureKind.UNKNOWN
    assert second.text == "done"


# ---------------------------------------------------------------- narrow gaps


async def test_stopping_calls_while_whoever_waits_is_being_cancelled_is_harmless() -> None:
    begun = anyio.Event()

    @tool
    async def stubborn() -> str:
        """Stop everything else on the way out."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                executor.cancel()
                await anyio.lowlevel.checkpoint()
        return ""

    events: list[Event] = []

    async def listen() -> None:
        events.extend([event async for event in executor.events()])

    async with anyio.create_task_group() as listening, Executor(Toolset(stubborn)) as executor:
        listening.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            calls = [Call("stubborn", {}, "1"), Call("stubborn", {}, "2")]
            tasks.start_soon(executor.run_all, calls)
            await begun.wait()
            tasks.cancel_scope.cancel()

    assert sorted(e.result.call_id for e in events if isinstance(e, Finished)) == ["1", "2"]


async def test_a_call_that_is_stopped_before_its_question_is_asked_is_not_asked_about() -> None:
    asked: list[str] = []

    async def approver(pending: Pending) -> Allow:
        asked.append(pending.call.id)
        return Allow()

    for _ in range(8):
        outcomes: list[Result] = []
        asked.clear()
        async with Executor(TOOLS, policy=lambda *_: Ask("?"), approvals=approver) as executor:

            async def turn(executor: Executor = executor, into: list[Result] = outcomes) -> None:
                into.extend(await executor.run_all(CALLS[:1]))

            async def stop(executor: Executor = executor) -> None:
                executor.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(turn)
                tasks.start_soon(stop)

        assert len(outcomes) == 1
        assert (kind(outcomes[0]) is FailureKind.CANCELLED) is (asked == [])


async def test_closing_waits_for_calls_whose_tasks_have_not_begun() -> None:
    outcomes: list[Result] = []
    async with anyio.create_task_group() as tasks, Executor(TOOLS) as executor:
        await executor.run(Call("echo", "{}", "0"))

        async def turn() -> None:
            outcomes.extend(await executor.run_all([Call("echo", "{}", n) for n in "12"]))

        tasks.start_soon(turn)
        await anyio.lowlevel.checkpoint()

    assert [one.call_id for one in outcomes] == ["1", "2"]


async def test_a_stream_that_is_interrupted_before_its_calls_have_begun_leaves_nothing_behind() -> (
    None
):
    async def interrupted() -> AsyncIterator[Call]:
        yield Call("echo", "{}", "1")
        yield Call("work", "{}", "2")
        raise KeyboardInterrupt

    events: list[Event] = []

    async def listen() -> None:
        events.extend([event async for event in executor.events()])

    async with anyio.create_task_group() as listening, Executor(TOOLS) as executor:
        await executor.run(Call("echo", "{}", "0"))
        listening.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(BaseException) as caught:  # noqa: PT011  alone, or in a group
            await executor.run_all(interrupted())
        with anyio.fail_after(2):
            outcome = await executor.run(Call("work", "{}", "3"))

    error = caught.value
    while isinstance(error, BaseExceptionGroup):
        [error] = error.exceptions
    assert isinstance(error, KeyboardInterrupt)
    assert outcome.text == "done"
    ended = sorted(e.result.call_id for e in events if isinstance(e, Finished))
    assert ended == sorted(e.call.id for e in events if isinstance(e, Requested))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("where", ["tool", "hook"])
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_an_interrupt_by_the_user_is_never_swallowed(  # noqa: C901  two places, two ways
    where: str, backend: str, *, warm: bool, together: bool
) -> None:
    armed: list[str] = []

    @tool(effect=READ)
    async def slip() -> str:
        """Be interrupted."""
        if armed == ["tool"]:
            raise KeyboardInterrupt
        return ""

    async def hook(call: CheckedCall) -> CheckedCall:
        if armed == ["hook"]:
            raise KeyboardInterrupt
        return call

    async def main() -> None:
        async with Executor(Toolset(slip), hooks=[Hook(before=hook)]) as executor:
            call = Call("slip", "{}", "1")
            if warm:
                await executor.run(call)
            armed.append(where)
            if together:
                await executor.run_all([call])
            else:
                await executor.run(call)

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)) as caught:
        anyio.run(main, backend=backend)
    if isinstance(caught.value, BaseExceptionGroup):
        assert caught.value.subgroup(KeyboardInterrupt) is not None


async def test_a_call_may_be_stopped_while_another_is_told_that_it_was_blocked() -> None:
    go = threading.Event()
    telling = anyio.Event()

    @tool(touches=lambda: writes_file("a"), timeout=0.5)
    def stuck() -> str:
        """Hang in a thread."""
        go.wait(5)
        return ""

    @tool(touches=lambda: writes_file("a"))
    async def touch() -> str:
        """Touch the same."""
        return "touched"

    async def slow(call: CheckedCall | Call, result: Result) -> Result:
        if call.id == "2":
            telling.set()
            await anyio.wait_all_tasks_blocked()
        return result

    async with Executor(
        Toolset(stuck, touch), limits=CallLimits(timeout=0.6), hooks=[Hook(after=slow)]
    ) as executor:
        turn = executor.turn()
        names = ["stuck", "touch", "touch"]
        turn.add(*(Call(name, {}, f"{n}") for n, name in enumerate(names, 1)))
        try:
            await telling.wait()
            turn.cancel("3")
            outcomes = await turn.results()
        finally:
            go.set()

    assert [kind(one) for one in outcomes[:2]] == [FailureKind.UNKNOWN, FailureKind.TIMEOUT]
    assert kind(outcomes[2]) in (FailureKind.TIMEOUT, FailureKind.CANCELLED)


async def test_the_thread_of_a_call_that_timed_out_is_counted_until_it_ends() -> None:
    began, go, counts = threading.Event(), threading.Event(), list[int]()

    @tool(timeout=0.5)
    def pay() -> None:
        """Pay."""
        began.set()
        go.wait(60)

    async with Executor(Toolset(pay)) as executor:
        with Executor.count_threads(counts.append):
            result = await executor.run(Call("pay", {}, "1"))
        during = (kind(result), began.is_set(), list(counts))
        go.set()

    assert (during, counts) == ((FailureKind.UNKNOWN, True, [1]), [1, -1])


@pytest.mark.parametrize("by", ["turn", "call", "executor"])
async def test_calls_are_cancelled_from_another_thread_than_their_loop(by: str) -> None:
    """The loop sleeps meanwhile: it has to be woken."""
    begun = threading.Event()

    @tool(effect=READ)
    async def hold() -> str:
        """Wait for ever."""
        begun.set()
        await anyio.sleep_forever()
        return "never"

    def stop(executor: Executor, turn: Turn[Any]) -> None:
        begun.wait(30)
        if by == "executor":
            executor.cancel()
        else:
            turn.cancel(*["1"] * (by == "call"))

    executor = Executor(Toolset(hold))
    turn, results = executor.turn(), list[Result]()
    async with anyio.create_task_group() as group, executor:
        turn.add(Call("hold", {}, "1"))
        group.start_soon(anyio.to_thread.run_sync, stop, executor, turn)
        with anyio.fail_after(30):
            results += await turn.results()

    assert results == [Result.fail("1", FailureKind.CANCELLED, "Cancelled while it ran.")]
    assert turn.is_closed == (by == "turn")
