"""Approvals against hosts, ledgers, hooks and approvers that are late, broken or hostile."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import (
    READ,
    WRITE,
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    Hook,
    Result,
    Toolset,
    reads_file,
    tool,
    writes_file,
)
from handrail.approvals import FileLedger, callback, defer
from handrail.events import Decided, Event, Finished, Requested
from handrail.permissions import Answer, Edit, MemoryLedger, Pending
from handrail.policy import Rulebook
from resuming import resume
from steps import counting

pytestmark = pytest.mark.anyio


class Board:
    """Two tools, and a log of what they did."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.log: list[str] = []
        self.begun = anyio.Event()

        @tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
        async def save(path: str, text: str = "") -> str:
            """Save a file."""
            self.log.append(f"begin {text}")
            self.begun.set()
            await anyio.sleep(seconds)
            self.log.append(f"end {text}")
            return path

        @tool(effect=READ, touches=lambda path, **_: reads_file(path))
        async def show(path: str, text: str = "") -> str:
            """Show a file."""
            self.log += [f"begin {text}", f"end {text}"]
            return path

        self.tools = Toolset(save, show)

    def executor(self, **options: Any) -> Executor:
        return Executor(self.tools, **{"policy": Rulebook(), "approvals": defer, **options})


def put(path: str, text: str) -> Call:
    return Call("save", {"path": path, "text": text}, f"id-{text}")


def kinds(results: list[Result]) -> list[str]:
    return [one.failure.kind.value if one.failure else "good" for one in results]


async def asked(executor: Executor, *calls: Call) -> list[Pending]:
    results = await executor.run_all(calls)
    return [one.pending for one in results if one.pending is not None]


def yes(*pending: Pending) -> dict[str, Answer]:
    return {one.id: Allow() for one in pending}


async def told(executor: Executor, work: Callable[[Executor], Awaitable[object]]) -> list[Event]:
    """What an executor tells from its first call until it is closed."""
    heard: list[Event] = []

    async def listen(feed: AsyncIterator[Event]) -> None:
        heard.extend([one async for one in feed])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen, executor.events())
        await anyio.lowlevel.checkpoint()
        async with executor:
            await work(executor)
    return heard


# An executor that is closed runs nothing


async def test_nothing_is_taken_up_by_a_closed_executor() -> None:
    board = Board()
    async with board.executor() as executor:
        [one] = await asked(executor, put("a", "1"))
    assert kinds(await resume(executor, [one], yes(one))) == ["cancelled"]
    assert board.log == []


async def test_an_executor_that_closes_while_an_answer_is_claimed_runs_nothing() -> None:
    class Slow(MemoryLedger):
        async def claim(self, pending_id: str, by: str, /) -> bool:
            await anyio.sleep(0.05)
            return await super().claim(pending_id, by)

    board, results = Board(), list[Result]()

    async with (
        anyio.create_task_group() as tasks,
        board.executor(approvals=Approvals(approver=defer, ledger=Slow())) as executor,
    ):
        [one] = await asked(executor, put("a", "1"))

        async def go_on() -> None:
            results.extend(await resume(executor, [one], yes(one)))

        tasks.start_soon(go_on)
        await anyio.sleep(0.02)
    assert (kinds(results), board.log) == (["cancelled"], [])


async def test_an_executor_that_closes_while_a_hook_looks_runs_nothing() -> None:
    looks = anyio.Event()

    async def slow(call: CheckedCall) -> CheckedCall:
        looks.set()
        await anyio.sleep(0.5)
        return call

    board, results = Board(), list[Result]()
    async with (
        anyio.create_task_group() as tasks,
        board.executor(policy=None, hooks=[Hook(before=slow)]) as executor,
    ):

        async def run() -> None:
            results.append(await executor.run(put("a", "1")))

        tasks.start_soon(run)
        await looks.wait()
    assert (kinds(results), board.log) == (["cancelled"], [])


async def test_what_is_with_the_hooks_after_it_ends_before_the_executor_does() -> None:
    async def slow(_call: CheckedCall | Call, result: Result) -> Result:
        await anyio.sleep(0.05)
        return result

    board = Board()
    async with anyio.create_task_group() as tasks:

        async def work(executor: Executor) -> None:
            tasks.start_soon(executor.run_all, [put("a", "1")])
            await anyio.sleep(0.02)

        heard = await told(board.executor(approvals=None, hooks=[Hook(after=slow)]), work)
    assert Counter(type(one) for one in heard)[Finished] == 1


# One outcome for each call, whatever breaks


class Breaks(MemoryLedger):
    """A ledger that fails at its second claim."""

    async def claim(self, pending_id: str, by: str, /) -> bool:
        if self._claims:
            raise OSError("disk full")
        return await super().claim(pending_id, by)


async def test_a_ledger_that_breaks_denies_that_call_alone() -> None:
    board = Board()
    async with board.executor(approvals=Approvals(approver=defer, ledger=Breaks())) as executor:
        both = await asked(executor, put("a", "1"), put("b", "2"))
        said = kinds(await resume(executor, both, yes(*both)))
    assert sorted(said) == ["denied", "good"]
    ran = said.index("good") + 1
    assert board.log == [f"begin {ran}", f"end {ran}"]


def _raises(_call: CheckedCall) -> str:
    raise ValueError


class Moody:
    """A policy whose version cannot be told."""

    def __call__(self, *_: object) -> Decision:
        return Ask("May it?")

    @property
    def version(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    "options",
    [
        {"ledger": None},
        {"context": _raises},
        {"policy": Moody()},
    ],
    ids=["ledger", "context", "version"],
)
async def test_whatever_breaks_around_a_question_is_a_no(options: dict[str, Any]) -> None:
    board, options = Board(), dict(options)
    if "ledger" in options:
        options = {"ledger": Breaks()}
        await options["ledger"].claim("another", "me")
    policy = {"policy": options.pop("policy")} if "policy" in options else {}
    approvals = Approvals(approver=callback(lambda _: True), **options)
    async with board.executor(approvals=approvals, **policy) as executor:
        read = Call("show", {"path": "z"}, "id-0")
        assert kinds(await executor.run_all([put("a", "1"), put("b", "2")])) == ["denied"] * 2
        if not policy:
            assert kinds([await executor.run(read)]) == ["good"]
    assert board.log in ([], ["begin ", "end "])


async def test_half_a_character_in_an_id_does_not_end_a_batch() -> None:
    board = Board()
    calls = [put("a", "1"), Call("save", {"path": "b", "text": "2"}, "c\ud800")]
    async with board.executor(approvals=callback(lambda _: True)) as executor:
        assert kinds(await executor.run_all(calls)) == ["good", "good"]


async def test_a_tool_without_a_deadline_can_be_asked_about() -> None:
    @tool(effect=WRITE, timeout=math.inf)
    async def wait() -> str:
        """Wait."""
        return "done"

    yes_man = callback(lambda _: True)
    async with Executor(Toolset(wait), policy=Rulebook(), approvals=yes_man) as executor:
        assert kinds([await executor.run(Call("wait", {}, "c1"))]) == ["good"]


async def test_answers_that_are_none_deny_and_nothing_else_is_touched() -> None:
    wrong: dict[str, Any] = {
        "1": RuntimeError(),
        "2": SystemExit(),
        "3": TimeoutError(),
        "4": None,
        "5": Result("another", "x"),
        "6": Edit(42),  # type: ignore[arg-type]
        "7": Edit({"path": object()}),
        "8": StopAsyncIteration(),
    }

    async def approver(pending: Pending) -> Any:
        given = wrong.get(pending.call.id.removeprefix("id-"), Allow())
        await anyio.lowlevel.checkpoint()
        if isinstance(given, BaseException):
            raise given
        return given

    board = Board()
    async with board.executor(approvals=approver) as executor:
        results = await executor.run_all(put(f"p{n}", str(n)) for n in range(1, 10))
    assert kinds(results) == [*["denied"] * 5, *["bad_args"] * 2, "denied", "good"]
    assert board.log == ["begin 9", "end 9"]


async def test_an_approver_that_swallows_its_end_allows_nothing() -> None:
    async def stubborn(_pending: Pending) -> Answer:
        try:
            await anyio.sleep(5)
        except BaseException:  # noqa: BLE001  just that
            return Allow()
        return Deny("")

    board, results = Board(), list[Result]()
    async with board.executor(approvals=stubborn) as executor, anyio.create_task_group() as tasks:

        async def run() -> None:
            results.append(await executor.run(put("a", "1")))

        tasks.start_soon(run)
        await anyio.sleep(0.02)
        executor.cancel()
    async with board.executor(approvals=Approvals(approver=stubborn, timeout=0.02)) as executor:
        results.append(await executor.run(put("a", "2")))
    assert board.log == []
    assert "good" not in kinds(results)


# Conflicting calls keep the model's order


async def test_a_question_asked_anew_is_still_waited_for() -> None:
    board = Board()
    async with board.executor() as executor:
        one, two = await asked(executor, put("a", "1"), put("a", "2"))
        edit: dict[str, Answer] = {one.id: Edit({"path": "a", "text": "edited"})}
        [again] = await resume(executor, [one], edit)
        assert again.pending is not None
        assert kinds(await resume(executor, [two], yes(two))) == ["pending"]
        done = await resume(executor, [again.pending, two], yes(again.pending, two))
    assert kinds(done) == ["good", "good"]
    assert board.log == ["begin edited", "end edited", "begin 2", "end 2"]


async def test_a_call_that_runs_elsewhere_is_waited_for(tmp_path: Path) -> None:
    board = Board(0.1)
    ledger = FileLedger(tmp_path / "ledger")
    async with (
        board.executor(approvals=Approvals(approver=defer, ledger=ledger)) as here,
        board.executor(approvals=Approvals(approver=defer, ledger=ledger)) as there,
    ):
        one, two = await asked(here, put("a", "1"), put("a", "2"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume, here, [one], yes(one))
            await board.begun.wait()
            assert kinds(await resume(there, [two], yes(two))) == ["pending"]
        assert kinds(await resume(there, [two], yes(two))) == ["good"]
    assert board.log == ["begin 1", "end 1", "begin 2", "end 2"]


@pytest.mark.parametrize("together", [True, False])
async def test_an_answer_sent_twice_does_not_let_the_next_one_pass(
    tmp_path: Path, *, together: bool
) -> None:
    board = Board(0.1)
    ledger = FileLedger(tmp_path / "ledger")
    async with (
        board.executor(approvals=Approvals(approver=defer, ledger=ledger)) as here,
        board.executor(approvals=Approvals(approver=defer, ledger=ledger)) as there,
    ):
        both = one, two = await asked(here, put("a", "1"), put("a", "2"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume, here, [one], yes(one))
            await board.begun.wait()
            if together:
                await resume(there, both, yes(*both))
            else:
                await resume(there, [one], yes(one))
                await resume(there, [two], yes(two))
        await resume(there, [two], yes(two))
    assert board.log == ["begin 1", "end 1", "begin 2", "end 2"]


async def test_an_old_question_handed_in_again_does_not_end_the_new_one() -> None:
    board = Board()
    async with board.executor() as executor:
        one, two = await asked(executor, put("a", "1"), put("a", "2"))
        await resume(executor, [one], {one.id: Edit({"path": "a", "text": "edited"})})
        await resume(executor, [one], yes(one))
        assert kinds(await resume(executor, [two], yes(two))) == ["pending"]
    assert board.log == []


async def test_a_closed_executor_ends_no_call() -> None:
    board, ledger = Board(), MemoryLedger()
    async with board.executor(approvals=Approvals(approver=defer, ledger=ledger)) as closed:
        one, two = await asked(closed, put("a", "1"), put("a", "2"))
    await resume(closed, [one], yes(one))
    async with board.executor(approvals=Approvals(approver=defer, ledger=ledger)) as executor:
        assert kinds(await resume(executor, [two], yes(two))) == ["pending"]


async def test_the_order_in_which_they_are_handed_in_does_not_matter() -> None:
    board = Board()
    async with board.executor() as executor:
        three = await asked(executor, *(put("a", str(n)) for n in range(3)))
        results = await resume(executor, reversed(three), yes(*three))
    assert [one.call_id for one in results] == ["id-2", "id-1", "id-0"]
    assert board.log == [f"{what} {n}" for n in range(3) for what in ("begin", "end")]


async def test_one_behind_two_that_are_put_off_in_turn_waits_for_both() -> None:
    async def approver(pending: Pending) -> Pending:
        await anyio.sleep(0.02 if pending.call.id == "id-2" else 0)
        return pending

    board = Board()
    async with board.executor(approvals=approver) as executor:
        read = Call("show", {"path": "a", "text": "3"}, "id-3")
        one, two, three = await asked(executor, put("a", "1"), put("a", "2"), read)
        assert set(three.after) == {one.key, two.key}
        await resume(executor, [one], yes(one))
        assert kinds(await resume(executor, [three], {})) == ["pending"]


async def test_one_that_waits_for_another_batch_is_not_put_off_by_its_own() -> None:
    """Between two calls of one batch that do not conflict comes a call of another that does."""

    @tool(effect=WRITE, touches=lambda: [writes_file("a"), writes_file("b")])
    async def both() -> str:
        """Write both."""
        return "both"

    board = Board()

    def policy(call: CheckedCall) -> Decision:
        return Ask("May it?") if call.id == "id-1" else Allow()

    async def late(pending: Pending) -> Pending:
        await anyio.sleep(0.06)
        return pending

    async def calls() -> AsyncIterator[Call]:
        yield put("a", "1")
        await anyio.sleep(0.04)
        yield put("b", "2")

    results: list[Result] = []
    tools = board.tools | Toolset(both)
    async with (
        Executor(tools, policy=policy, approvals=late) as executor,
        anyio.create_task_group() as tasks,
    ):

        async def stream() -> None:
            results.extend(await executor.run_all(calls()))

        tasks.start_soon(stream)
        await anyio.sleep(0.02)
        tasks.start_soon(executor.run, Call("both", {}, "id-3"))
    assert kinds(results) == ["pending", "good"]


async def test_nobody_is_asked_twice_since_another_call_was_put_off() -> None:
    questions: list[str] = []

    async def approver(pending: Pending) -> Answer | Pending:
        questions.append(pending.call.id)
        if pending.call.id == "id-1":
            await anyio.sleep(0.02)
            return pending
        return Allow()

    board = Board()
    async with board.executor(approvals=approver) as executor:
        waiting = await asked(executor, put("a", "1"), put("a", "2"))
        await resume(executor, waiting, yes(*waiting[:1]))
    assert sorted(questions) == ["id-1", "id-2"]


# Each runs once


async def test_parallel_resumes_run_each_call_once(tmp_path: Path) -> None:
    board = Board(0.001)
    ledger = FileLedger(tmp_path / "ledger")
    async with (
        board.executor(approvals=Approvals(approver=defer, ledger=ledger)) as here,
        board.executor(approvals=Approvals(approver=defer, ledger=ledger)) as there,
    ):
        many = await asked(here, *(put("ab"[n % 2], str(n)) for n in range(6)))
        async with anyio.create_task_group() as tasks:
            for executor in [here, there] * 4:
                tasks.start_soon(resume, executor, many, yes(*many))
        for _ in range(6):
            await resume(there, many, yes(*many))
    assert Counter(board.log) == Counter(
        f"{what} {n}" for n in range(6) for what in ("begin", "end")
    )


async def test_a_policy_that_never_stands_still_is_refused_in_the_end() -> None:
    book, rounds = Rulebook(), 0

    async def approver(_pending: Pending) -> Answer:
        nonlocal rounds
        rounds += 1
        book.set_mode("edits" if rounds % 2 else "ask")
        return Allow()

    board = Board()
    async with board.executor(policy=book, approvals=approver) as executor:
        assert kinds([await executor.run(put("a", "1"))]) == ["denied"]
    assert (rounds, board.log) == (10, [])


async def test_four_times_as_many_gated_calls_cost_about_four_times_as_much() -> None:
    async def cost(count: int) -> int:
        board, calls = Board(0), [put(f"d/f{n}", str(n)) for n in range(count)]
        with counting() as steps:
            async with board.executor(approvals=callback(lambda _: True)) as executor:
                results = await executor.run_all(calls)
            async with board.executor() as executor:
                many = await asked(executor, *calls)
                results += await resume(executor, many, yes(*many))
        assert kinds(results) == ["good"] * 2 * count
        return steps.total

    await cost(1)
    assert await cost(100) < 6 * await cost(25)


# Hooks and events


async def test_a_hook_does_not_answer_for_an_edit_that_is_denied() -> None:
    async def cache(call: CheckedCall) -> CheckedCall | Result:
        return Result(call.id, "cached") if "secret" in str(call.args) else call

    async def approver(_pending: Pending) -> Answer:
        return Edit({"path": "secret"})

    policy = Rulebook.from_toml('[[rule]]\ndecide = "deny"\naccess = "* file:secret"\n')
    board = Board()
    async with board.executor(
        policy=policy, approvals=approver, hooks=[Hook(before=cache)]
    ) as executor:
        assert kinds([await executor.run(put("a", "1"))]) == ["denied"]


async def test_what_runs_after_an_edit_was_judged_and_told() -> None:
    async def approver(pending: Pending) -> Answer:
        return (
            Allow() if "edited" in str(pending.call.args) else Edit({"path": "b", "text": "edited"})
        )

    async def work(executor: Executor) -> None:
        await executor.run(put("a", "1"))

    board = Board()
    heard = await told(board.executor(approvals=approver), work)
    assert board.log == ["begin edited", "end edited"]
    assert [str(one.accesses[0]) for one in heard if isinstance(one, Decided)][-1] == "write file:b"


# All of it, at random

PATHS = ["a", "b"]


class Chance:
    """Answers that are drawn once for each call, and come when they like."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  not for secrets

    async def approver(self, pending: Pending) -> Answer | Pending:
        await anyio.sleep(self.random.choice([0, 0, 0.001, 0.003]))
        drawn = self.random.randrange(6)
        if drawn == 0:
            return Deny("no")
        if drawn == 1 and "edited" not in str(pending.call.args):
            number = pending.call.id.removeprefix("id-")
            path = "a" if '"a"' in str(pending.call.args) else "b"
            return Edit({"path": path, "text": f"{number} edited"})
        return pending if drawn in (2, 3) else Allow()


async def _driven(seed: int, size: int, most: int) -> None:
    chance, board = Chance(seed), Board(0.001)
    drawn = chance.random
    calls = [
        Call(
            drawn.choice(["save", "save", "show"]),
            {"path": drawn.choice(PATHS), "text": str(n)},
            f"id-{n}",
        )
        for n in range(size)
    ]

    async def stream() -> AsyncIterator[Call]:
        for call in calls:
            yield call
            await anyio.sleep(drawn.choice([0, 0.001]))

    last: dict[str, Result] = {}

    async def work(executor: Executor) -> None:
        results = await executor.run_all(stream() if drawn.random() < 0.5 else calls)
        assert [one.call_id for one in results] == [call.id for call in calls]
        waiting = results
        for lap in range(60):
            last.update({one.call_id: one for one in waiting})
            kept = [one.pending for one in last.values() if one.pending is not None]
            if not kept:
                return
            some = kept if lap > 20 else drawn.sample(kept, drawn.randint(1, len(kept)))
            said = {one.id: drawn.choice([Allow(), Allow(), Deny("no")]) for one in some}
            waiting = await resume(executor, some, said)
            assert [one.call_id for one in waiting] == [one.call.id for one in some]
        raise AssertionError("some call waits for ever")

    heard = await told(
        board.executor(approvals=chance.approver, limits=CallLimits(max_running=most)), work
    )
    requests = Counter(one.call.id for one in heard if isinstance(one, Requested))
    assert requests == Counter(one.result.call_id for one in heard if isinstance(one, Finished))
    _check(calls, last, board.log)


def _check(calls: list[Call], last: dict[str, Result], log: list[str]) -> None:
    """Each that was allowed ran once; and those that conflict in the model's order."""
    began = [line.split()[1] for line in log if line.startswith("begin")]
    good = [call.id.removeprefix("id-") for call in calls if last[call.id].failure is None]
    assert sorted(began) == sorted(good)
    spans = {number: _span(log, number) for number in began}
    for place, call in enumerate(calls):
        for later in calls[place + 1 :]:
            one, two = (spans.get(each.id.removeprefix("id-")) for each in (call, later))
            same = call.args["path"] == later.args["path"]  # type: ignore[index]
            if one and two and same and "save" in (call.name, later.name):
                assert one[1] < two[0], (call, later, log)


def _span(log: list[str], number: str) -> tuple[int, int]:
    lines = [place for place, line in enumerate(log) if line.split()[1] == number]
    return lines[0], lines[-1]


async def test_a_read_that_comes_late_waits_behind_what_was_put_off() -> None:
    seen: list[int] = []

    @tool(effect=READ)
    async def look(n: int) -> str:
        """Look."""
        seen.append(n)
        return str(n)

    @tool(effect=WRITE)
    async def change(n: int) -> str:
        """Change."""
        return str(n)

    def call(made: Any, n: int) -> Call:
        return Call(made.spec.name, f'{{"n": {n}}}', f"id-{n}")

    async with Executor(Toolset(look, change), policy=Rulebook(), approvals=defer) as executor:
        await executor.run_all([call(look, 0), call(look, 1)])

        async def calls() -> AsyncIterator[Call]:
            yield call(look, 2)
            yield call(change, 3)
            await anyio.sleep(0.02)
            yield call(look, 4)

        results = await executor.run_all(calls())
    assert kinds(results) == ["good", "pending", "pending"]
    assert sorted(seen) == [0, 1, 2]


@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([1, 2, 128]))
def test_at_random_each_runs_once_in_order_and_all_is_told(seed: int, size: int, most: int) -> None:
    for backend in ("asyncio", "trio"):
        anyio.run(_driven, seed, size, most, backend=backend)
