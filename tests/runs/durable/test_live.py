"""Watch a durable run while its model still replies: each event once, in order, in any process."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from handrail import Allow, Ask, Call, Text, tool
from handrail.agent import Agent, Compaction
from handrail.messages import ArgsDelta, Delta, Reply, Request, Restart, ToolResults
from handrail.runs.durable import DurableRuns, Update

NEVER = 3600.0


class Typist:
    """A model that says each word of its reply when it is told to."""

    def __init__(self, *items: Any) -> None:
        self.items = items
        self.said = 0
        self._may = 0

    def say(self, words: int = 1) -> None:
        self._may += words

    async def __call__(self, _request: Request) -> AsyncGenerator[Any]:
        text = ""
        for item in self.items:
            while self.said >= self._may:  # noqa: ASYNC110  the engine has a loop of its own
                await anyio.sleep(0.005)
            self.said += 1
            if isinstance(item, str):
                text += item
                yield Delta(item)
            else:
                text = "" if isinstance(item, Restart) else text
                yield item
        yield Reply((Text(text),))


@asynccontextmanager
async def working(url: str, model: Any, *tools: Any, **options: Any) -> AsyncGenerator[DurableRuns]:
    agent = Agent(model, tools, **options)
    async with DurableRuns(url, {"a": agent}, poll=0.05) as runs, runs.work(interval=0.1):
        yield runs


def text(updates: Sequence[Update]) -> str:
    """The text that a page shows after these events."""
    shown = ""
    for _, fields in updates:
        if fields["event"] == "delta" and not fields.get("thought"):
            shown += fields["text"]
        elif fields["event"] == "restart":
            shown = ""
    return shown


def lines(updates: Sequence[Update]) -> list[dict[str, Any]]:
    return [fields for _, fields in updates if fields["event"] != "delta"]


def kinds(updates: Sequence[Update]) -> list[str]:
    return [fields["event"] for _, fields in updates]


async def read_until(
    updates: AsyncIterator[Update], done: Callable[[list[Update]], bool]
) -> list[Update]:
    seen: list[Update] = []
    with anyio.fail_after(15):
        while not done(seen):
            seen.append(await anext(updates))
    return seen


async def read_all(runs: DurableRuns, run: str, after: str = "") -> list[Update]:
    with anyio.fail_after(15):
        return [update async for update in runs.watch(run, after=after)]


async def test_text_arrives_while_the_model_still_replies(database: str) -> None:
    model = Typist("Your ", "order ", "is on its way.")
    async with working(database, model) as worker, DurableRuns(database, {}) as watcher:
        run = await worker.start("a", "Where is it?")
        async with aclosing(watcher.watch(run)) as updates:
            first = await read_until(updates, lambda seen: "status" in kinds(seen))
            model.say()
            one = await read_until(updates, lambda seen: text(seen) == "Your ")
            model.say()
            two = await read_until(updates, lambda seen: text(seen) == "order ")
            model.say()
            rest = [update async for update in updates]

    whole = [*first, *one, *two, *rest]
    assert text(whole) == "Your order is on its way."
    assert [fields for _, fields in whole if fields["event"] == "restart"] == []
    [reply] = [fields for _, fields in whole if fields["event"] == "reply"]
    assert (reply["text"], whole[-1].fields["status"]) == ("Your order is on its way.", "done")


async def test_a_watcher_that_comes_back_gets_what_it_missed_once(database: str) -> None:
    words = ("The ", "parcel ", "comes ", "on ", "Friday.")
    model = Typist(*words)
    async with working(database, model) as worker, DurableRuns(database, {}) as watcher:
        run = await worker.start("a", "When?")
        async with aclosing(watcher.watch(run)) as all_along:
            seen: list[Update] = []
            for count in range(1, len(words) + 1):
                model.say()
                after = seen[-1].id if seen else ""
                async with aclosing(watcher.watch(run, after=after)) as updates:
                    while text(seen) != "".join(words[:count]):
                        seen.append(await anext(updates))
            seen += await read_all(watcher, run, seen[-1].id)
            expected = [update async for update in all_along]
        late = await read_all(watcher, run)
        again = [await read_all(watcher, run, update.id) for update in seen]

    whole = "".join(words)
    assert (text(seen), text(expected), text(late)) == (whole, whole, whole)
    assert lines(seen) == lines(late)
    for number, rest in enumerate(again, 1):
        assert text([*seen[:number], *rest]) == whole
        assert lines([*seen[:number], *rest]) == lines(late)


async def test_reasoning_arguments_and_a_new_start_arrive_too(database: str) -> None:
    items = (
        Delta("Hm. ", thought=True), "Wrong", Restart("overloaded"), ArgsDelta("1", "pay", '{"a":'),
        ArgsDelta("1", "pay", "1}"), "Right",
    )  # fmt: skip
    model = Typist(*items)
    async with working(database, model) as worker:
        run = await worker.start("a", "Go.")
        async with aclosing(worker.watch(run)) as updates:
            model.say(2)
            seen = await read_until(updates, lambda seen: text(seen) == "Wrong")
            model.say(4)
            seen += [update async for update in updates]

    live = [fields for _, fields in seen if fields["event"] in ("delta", "args", "restart")]
    assert live[:3] == [
        {"event": "delta", "text": "Hm. ", "thought": True},
        {"event": "delta", "text": "Wrong"},
        {"event": "restart", "reason": "Another worker has begun the reply again."},
    ]
    assert live[-1] == {"event": "delta", "text": "Right"}


async def test_a_long_reply_is_whole_for_those_who_come_late(database: str) -> None:
    model = Typist("words " * 1_000)
    model.say()
    async with working(database, model) as worker:
        run = await worker.start("a", "Go.")
        assert (await worker.wait(run)).status == "done"
        late = await read_all(worker, run)

    assert text(late) == "words " * 1_000


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_questions_and_calls_are_events_and_a_watcher_waits_for_the_answer(
    database: str,
) -> None:
    async def model(request: Request) -> AsyncGenerator[Any]:
        if any(isinstance(message, ToolResults) for message in request.messages):
            yield Delta("Done.")
            yield Reply((Text("Done."),))
        else:
            yield Delta("I pay.")
            yield Reply((Text("I pay."), Call("pay", {"amount": 1}, "1")))

    async with working(database, model, pay, policy=lambda _: Ask("Pay?")) as runs:
        run = await runs.start("a", "Go.")
        async with aclosing(runs.watch(run)) as updates:
            seen = await read_until(
                updates, lambda seen: bool(seen) and seen[-1].fields.get("status") == "waiting"
            )
            await runs.wait(run)
            [pending] = await runs.inbox()
            await runs.answer(pending.id, Allow(), by="ana")
            seen += [update async for update in updates]

    assert text(seen) == "I pay.Done."
    order = [kind for kind in kinds(seen) if kind in ("asked", "answered", "finished", "reply")]
    assert order == ["reply", "asked", "finished", "answered", "finished", "reply"]


async def test_a_summary_is_no_text_of_the_run(sqlite: str) -> None:
    asked: list[str] = []

    async def model(request: Request) -> AsyncGenerator[Any]:
        is_summary = request.tool_choice == "none"
        turns = len([one for one in asked if one == "auto"])
        text = "SUMMARY" if is_summary else "Done." if turns > 5 else f"{turns}. " + "I pay. " * 300
        yield Delta(text)
        calls = () if is_summary or turns > 5 else (Call("pay", {"amount": 1}, f"{turns}"),)
        yield Reply((Text(text), *calls))

    async def counted(request: Request) -> AsyncGenerator[Any]:
        asked.append(str(request.tool_choice))
        async for item in model(request):
            yield item

    async with working(
        sqlite, counted, pay, compaction=Compaction(window=1_500, keep_turns=1)
    ) as runs:
        run = await runs.start("a", "Go.")
        seen = await read_all(runs, run)

    assert "none" in asked
    assert "SUMMARY" not in text(seen)


async def test_pieces_are_gone_once_the_journal_has_the_reply(database: str) -> None:
    model = Typist("One")
    async with working(database, model) as runs:
        run = await runs.start("a", "Go.")
        async with aclosing(runs.watch(run)) as updates:
            model.say()
            await read_until(updates, lambda seen: text(seen) == "One")
            async for _ in updates:
                pass
        count = "SELECT COUNT(*) FROM handrail_piece"
        with anyio.fail_after(20):
            while await to_thread.run_sync(runs.store.select, count, {}) != [(0,)]:  # noqa: ASYNC110  the worker's own pause
                await anyio.sleep(0.02)


async def test_an_unknown_run_and_an_unknown_place_are_refused(database: str) -> None:
    async with DurableRuns(database, {}) as runs:
        with pytest.raises(LookupError, match="There is no run 'x'"):
            await read_all(runs, "x")
        for place in ("x", "1-2", "1-a-b-c-d", "9" * 20, "-1"):
            with pytest.raises(ValueError, match="Not the id of an event"):
                await read_all(runs, "x", place)


async def test_a_removed_run_ends_its_watchers(database: str) -> None:
    async with DurableRuns(database, {"a": Agent(Typist("x"))}) as runs:
        run = await runs.start("a", "Go.")
        async with aclosing(runs.watch(run)) as updates:
            await anext(updates)
            async with anyio.create_task_group() as group:
                group.start_soon(runs.remove, run)
                with anyio.fail_after(30):
                    async for _ in updates:
                        pass


def is_reading() -> bool:
    return any("(_check)" in thread.name for thread in threading.enumerate())


async def test_no_thread_reads_the_runs_once_the_last_watcher_has_left(tmp_path: Path) -> None:
    """So its files can be removed, and its event loop closed."""
    async with DurableRuns(str(tmp_path / "runs.db"), {"a": Agent(Typist())}) as runs:
        run = await runs.start("a", "Where is it?")  # no worker reads them
        async with aclosing(runs.watch(run)) as updates:
            await read_until(updates, bool)
            with anyio.fail_after(15):
                while not is_reading():  # noqa: ASYNC110  a thread begins
                    await anyio.sleep(0.005)
        has_left = not is_reading()

    assert has_left
