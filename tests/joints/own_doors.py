"""Doors of an own loop: an executor and its turns."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeAlias

import anyio

from handrail import Approvals, Call, Executor, Hook, Result, Toolset, Turn
from handrail.approvals import defer
from handrail.permissions import Answer, MemoryLedger, Pending
from joints.case import Case, Door, Seen, let_others_run

RunTurn: TypeAlias = Callable[[Executor, Turn[Any], Sequence[Call]], Awaitable[Sequence[Result]]]


def make_executor(case: Case, seen: Seen, ledger: MemoryLedger, *watching: Hook) -> Executor:
    """Return an executor with the tools and the options of a case."""
    options: dict[str, Any] = {**case.options}
    if case.answers:
        options["approvals"] = Approvals(approver=defer, ledger=ledger)
    options["hooks"] = [*options.get("hooks", ()), seen.hook(), *watching]
    return Executor(Toolset(*case.tools), **options)


def answer_all(turn: Turn[Any], saved: Pending, answers: Iterator[Answer]) -> None:
    """Answer a pending call, or the requests inside it."""
    asked = [one for one in saved.requests if one.kind != "waiting"]
    turn.adopt(saved)
    for one in asked:
        turn.answer(one, next(answers))
    if not asked:
        turn.answer(saved)


async def _hear(feed: AsyncIterable[object], seen: Seen) -> None:
    """Watch as an application does."""
    async for event in feed:
        seen.hear(event)


async def _cancel_once_begun(case: Case, turn: Turn[Any]) -> None:
    """Cancel a turn from another thread than the one that waits for it, and the loop's."""
    if case.begun is not None:
        await case.begun.wait()
        turn.cancel()


async def _answer_again(
    turn: Turn[Any], waiting: Sequence[Pending], answers: Iterator[Answer], seen: Seen
) -> Sequence[Pending]:
    """Answer as another process would, which reads the requests. Returns what is pending then."""
    for asked in waiting:
        answer_all(turn, Pending.from_json(asked.to_json()), answers)
    seen.take(*await turn.results())
    return turn.pending


def own_door(run_turn: RunTurn, *, is_async: bool = True) -> Door:
    """Return a door that runs the calls of each reply in its own way."""

    async def door(case: Case) -> Seen:
        seen, ledger, answers = Seen(), MemoryLedger(), iter(case.answers)
        async with AsyncExitStack() as stack:
            watching = () if is_async else (Hook(observe=lambda _k, _c, event: seen.hear(event)),)
            executor = make_executor(case, seen, ledger, *watching)
            if is_async:
                await stack.enter_async_context(executor)
            for number, calls in enumerate(case.replies, 1):
                executor.refresh_tools()
                turn = executor.turn(str(number), run="R", said=[case.prompt], **case.turn)
                async with anyio.create_task_group() as beside:
                    if is_async:
                        beside.start_soon(_hear, turn.events(), seen)
                    else:
                        beside.start_soon(_cancel_once_begun, case, turn)
                    with case.inside():
                        seen.take(*await run_turn(executor, turn, calls))
                    await let_others_run()
                    beside.cancel_scope.cancel()
                waiting = turn.pending
                while waiting:
                    async with make_executor(case, seen, ledger) as other:
                        again = other.turn(str(number), run="R", said=[case.prompt], **case.turn)
                        waiting = await _answer_again(again, waiting, answers, seen)
                if turn.stop_reason is not None:
                    break
        return seen

    if not is_async:
        door.cancels = True  # type: ignore[attr-defined]  # the door itself, as its callers do
    return door


async def _run(executor: Executor, turn: Turn[Any], calls: Sequence[Call]) -> list[Result]:
    return [await executor.run(call, turn=turn) for call in calls]


async def _run_all(executor: Executor, turn: Turn[Any], calls: Sequence[Call]) -> list[Result]:
    return await executor.run_all(calls, turn=turn)


async def _run_stream(executor: Executor, turn: Turn[Any], calls: Sequence[Call]) -> list[Result]:
    async def arrive() -> AsyncIterator[Call]:
        for call in calls:
            yield call
            await let_others_run()

    return await executor.run_all(arrive(), turn=turn)


async def _add(_executor: Executor, turn: Turn[Any], calls: Sequence[Call]) -> list[Result]:
    for call in calls:
        turn.add(call)
        await let_others_run()
    return await turn.results()


async def _run_sync(executor: Executor, turn: Turn[Any], calls: Sequence[Call]) -> list[Result]:
    run = partial(executor.run_sync, turn=turn)
    return [await anyio.to_thread.run_sync(run, call) for call in calls]


async def _in_thread(executor: Executor, turn: Turn[Any], calls: Sequence[Call]) -> list[Result]:
    def work() -> list[Result]:
        with executor.in_thread() as run:
            return run.run_all(calls, turn=turn)

    return await anyio.to_thread.run_sync(work)


DOORS: dict[str, Door] = {
    "Executor.run": own_door(_run),
    "run_all": own_door(_run_all),
    "run_all of a stream": own_door(_run_stream),
    "Turn.add": own_door(_add),
    "run_sync": own_door(_run_sync, is_async=False),
    "in_thread": own_door(_in_thread, is_async=False),
}
