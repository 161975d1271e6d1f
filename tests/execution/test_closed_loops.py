"""An event loop that was closed with calls under way: the next loop waits for none of them."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import anyio
import pytest
from anyio._backends._asyncio import WorkerThread
from inline_snapshot import snapshot

from handrail import (
    READ,
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    Executor,
    Hook,
    Result,
    Toolset,
    Turn,
    tool,
    writes_file,
)
from handrail._execution.pipeline import Pipeline
from handrail.events import Event, Finished
from handrail.permissions import Pending
from virtual_time import Quick

LATER = Call("save", {"path": "a"}, "later")
SECONDS = 5.0
"""A test that waits for a dead call ends after that."""


class Office:
    """Tools that do not end before the loop is closed."""

    def __init__(self) -> None:
        self.executor: Any = None
        self.saved: list[str] = []
        self.inside = threading.Event()
        self.free = threading.Event()

    @tool
    async def stay(self) -> str:
        """Stay forever."""
        await anyio.sleep_forever()
        return "never"

    @tool(effect=READ)
    async def read_on(self) -> str:
        """Read forever."""
        await anyio.sleep_forever()
        return "never"

    @tool
    async def around(self) -> str:
        """Make calls that stay."""
        calls = [Call("stay", {}, "i1"), Call("save", {"path": "i"}, "i2")]
        return str(await self.executor.run_all(calls))

    @tool(touches=writes_file)
    async def save(self, path: str) -> str:
        """Save."""
        self.saved.append(path)
        return f"saved {path}"

    @tool
    def hold(self) -> str:
        """Hold a thread."""
        self.inside.set()
        self.free.wait(10)
        self.saved.append("thread")
        return "held"


def office(**options: Any) -> tuple[Office, Executor]:
    made = Office()
    made.executor = Executor(Toolset.from_object(made), **options)
    return made, made.executor


class Abandoned:
    """A loop that is closed while its tasks wait, as some notebooks and test runners do."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)  # that tasks are left behind is the point
        self.tasks: list[object] = []

    def begin(self, work: Coroutine[Any, Any, Any], until: Callable[[], bool] = bool) -> None:
        self.tasks.append(self.loop.create_task(work))
        for _ in range(20):
            self.loop.run_until_complete(asyncio.sleep(0))
        while until is not bool and not until():
            self.loop.run_until_complete(asyncio.sleep(0.001))


@pytest.fixture
def left() -> Generator[Abandoned]:
    made = Abandoned()
    yield made
    made.loop.close()
    made.tasks.clear()
    gc.collect()
    workers: list[Any] = [one for one in threading.enumerate() if isinstance(one, WorkerThread)]
    for worker in workers:  # a loop that ends stops its own
        if worker.loop is made.loop:
            worker.queue.put_nowait(None)


def then(backend: str, function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run in a new loop. Nothing here takes long, unless it waits for what never ends."""

    async def limited() -> Any:
        with anyio.fail_after(SECONDS):
            return await function()

    return anyio.run(limited, backend=backend)


async def added(turn: Turn[Any], *calls: Call) -> None:
    turn.add(*calls)
    await turn.results()


BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
STAYING = {
    "alone": [Call("stay", {}, "s")],
    "reading": [Call("read_on", {}, "s")],
    "with one that waits": [Call("stay", {}, "s"), Call("save", {"path": "w"}, "w")],
    "with inner calls": [Call("around", {}, "s")],
}


@BACKENDS
@pytest.mark.parametrize("name", STAYING)
@pytest.mark.parametrize("collected", ["before", "after"])
def test_a_call_of_a_closed_loop_blocks_nobody(
    left: Abandoned, backend: str, name: str, collected: str
) -> None:
    place, executor = office()
    turn = executor.turn("t", run="r")
    left.begin(added(turn, *STAYING[name]))
    left.loop.close()
    if collected == "before":
        left.tasks.clear()
        gc.collect()

    result = then(backend, lambda: executor.run(LATER))
    left.tasks.clear()
    gc.collect()
    again = then(backend, lambda: executor.run(LATER))

    assert (result.text, again.text, place.saved) == ("saved a", "saved a", ["a", "a"])


@BACKENDS
def test_a_single_call_of_a_closed_loop_blocks_nobody(left: Abandoned, backend: str) -> None:
    place, executor = office()
    left.begin(executor.run(Call("stay", {}, "s")))
    left.begin(executor.run(Call("save", {"path": "w"}, "w")))
    left.loop.close()

    assert then(backend, lambda: executor.run(LATER)).text == "saved a"
    assert place.saved == ["a"]


@BACKENDS
def test_its_turn_has_their_results(left: Abandoned, backend: str) -> None:
    _, executor = office()
    turn = executor.turn("t", run="r")
    left.begin(added(turn, *STAYING["with one that waits"], Call("read_on", {}, "r")))
    left.loop.close()

    results = then(backend, turn.results)

    assert [(one.failure.kind.value, one.text) for one in results if one.failure] == snapshot(
        [
            (
                "unknown",
                "Cancelled while it ran. It may have taken effect: check before you call it again.",
            ),
            ("cancelled", "Not run: the call was cancelled before it started."),
            ("cancelled", "Not run: the call was cancelled before it started."),
        ]
    )


@BACKENDS
def test_events_tell_of_each_end_once_and_go_on(left: Abandoned, backend: str) -> None:
    _, executor = office()
    feed, seen = executor.events(), list[Event]()

    async def listen() -> None:
        async for event in feed:
            seen.append(event)

    left.begin(listen())
    left.begin(added(executor.turn("t", run="r"), Call("stay", {}, "s")))
    left.loop.close()

    async def rest() -> Result:
        result = await executor.run(LATER)
        left.tasks.clear()
        gc.collect()
        feed.close()
        async for event in feed:
            seen.append(event)
        return result

    result = then(backend, rest)
    ended = [event.result for event in seen if isinstance(event, Finished)]
    assert [one.call_id for one in ended] == ["s", "later"]
    assert ended[1] == result


@BACKENDS
def test_a_feed_that_was_read_in_the_new_loop_first_goes_on(left: Abandoned, backend: str) -> None:
    _, executor = office()
    feed = executor.events()
    left.begin(added(executor.turn("t", run="r"), Call("stay", {}, "s")))
    left.loop.close()

    async def read() -> list[str]:
        ended: list[str] = []

        async def listen() -> None:
            read = [event async for event in feed]
            ended.extend(one.result.call_id for one in read if isinstance(one, Finished))

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            await executor.run(LATER)
            feed.close()
        return ended

    assert then(backend, read) == ["s", "later"]


@BACKENDS
def test_a_thread_of_a_closed_loop_still_works_so_others_wait_for_it(
    left: Abandoned, backend: str
) -> None:
    place, executor = office()
    left.begin(added(executor.turn("t", run="r"), Call("hold", {}, "h")), place.inside.is_set)
    left.loop.close()

    async def free_then_save() -> Result:
        async with anyio.create_task_group() as group:
            results: list[Result] = []

            async def save() -> None:
                results.append(await executor.run(LATER))

            group.start_soon(save)
            await anyio.wait_all_tasks_blocked()
            assert place.saved == []
            place.free.set()
        return results[0]

    assert then(backend, free_then_save).text == "saved a"
    assert place.saved == ["thread", "a"]


@BACKENDS
def test_a_thread_of_a_closed_loop_that_never_ends_fails_those_that_wait(
    left: Abandoned, backend: str
) -> None:
    place, executor = office(limits=CallLimits(timeout=0.05))
    left.begin(added(executor.turn("t", run="r"), Call("hold", {}, "h")), place.inside.is_set)
    left.loop.close()

    result = then(backend, lambda: executor.run(LATER))
    place.free.set()

    assert result.text == snapshot(
        "Not run: an earlier call that it had to wait for was stopped, but is still running. Continue with other work, or tell the user."
    )


@BACKENDS
def test_an_executor_whose_loop_was_closed_is_closed_at_once(left: Abandoned, backend: str) -> None:
    _, executor = office()
    left.begin(executor.run(Call("stay", {}, "s")))
    left.loop.close()

    then(backend, executor.aclose)
    assert then(backend, lambda: executor.run(LATER)).text == (
        "Not run: the tools were shut down before the call."
    )


@BACKENDS
def test_a_question_that_was_open_is_asked_again(left: Abandoned, backend: str) -> None:
    asked: list[str] = []

    async def person(pending: Pending) -> Allow:
        asked.append(pending.id)
        if len(asked) == 1:
            await anyio.sleep_forever()
        return Allow()

    _, executor = office(
        policy=Quick(lambda _: Ask("May it?")), approvals=Approvals(approver=person)
    )
    left.begin(executor.turn("t", run="r").run(LATER))
    left.loop.close()

    result = then(backend, lambda: executor.turn("t", run="r").run(LATER))

    assert (result.text, asked) == ("saved a", ["r~t~later~0", "r~t~later~0"])


@BACKENDS
def test_a_hook_that_was_waiting_blocks_nobody(left: Abandoned, backend: str) -> None:
    waits = [True]

    async def before(call: Any) -> Call:
        if waits.pop():
            waits.append(False)
            await anyio.sleep_forever()
        return call.call

    _, executor = office(hooks=[Hook(before=before)])
    left.begin(added(executor.turn("t", run="r"), LATER))
    left.loop.close()
    waits.append(False)

    assert then(backend, lambda: executor.run(LATER)).text == "saved a"


def test_the_tests_notice_if_dead_calls_are_kept(
    left: Abandoned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without dropping them, the next call waits for what never ends."""
    _, executor = office()
    left.begin(executor.run(Call("stay", {}, "s")))
    left.loop.close()
    monkeypatch.setattr(Pipeline, "_drop_lost", lambda _: None)

    async def run() -> bool:
        with anyio.move_on_after(0.05) as limit:
            await executor.run(LATER)
        return limit.cancelled_caught

    assert then("asyncio", run)


def test_a_loop_that_still_runs_keeps_its_calls(left: Abandoned) -> None:
    """The control: only a loop that was closed loses its calls."""
    _, executor = office()
    left.begin(executor.run(Call("stay", {}, "s")))

    with pytest.raises(RuntimeError, match="already used in another event loop"):
        then("asyncio", lambda: executor.run(LATER))
