"""A policy that takes long, or hangs, stops neither the event loop nor other calls."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from handrail import (
    Allow,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    FailureKind,
    Hook,
    Result,
    Toolset,
    tool,
    writes_file,
)
from handrail.permissions import Edit, Pending
from handrail.policy import Rulebook
from virtual_time import Quick

SOON = CallLimits(hook_timeout=0.1)
HANGS = (
    "Not run: the permission check took more than 0.1 s. "
    "Calling again will not help; tell the user."
)
BUSY = (
    "Not run: the permission check hangs on earlier calls. "
    "Calling again will not help; tell the user."
)
STOPPED = "Not run: the call was cancelled before it started."
WHO: ContextVar[str] = ContextVar("who", default="nobody")


@tool(touches=writes_file)
async def save(path: str) -> str:
    """Save a file."""
    return f"saved {path}"


class Stuck:
    """A policy that hangs on some paths, until it is let go."""

    def __init__(self, wait: Callable[[threading.Event], object]) -> None:
        self.wait = wait
        self.let_go = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self, call: CheckedCall) -> Decision:
        if call.args["path"].startswith("hang"):
            self.begun.release()
            self.wait(self.let_go)
        return Allow()


def spin(let_go: threading.Event) -> None:
    while not let_go.is_set():
        pass


def sleep(let_go: threading.Event) -> None:
    let_go.wait(60)


def to_save(*paths: str) -> list[Call]:
    return [Call("save", {"path": path}, path) for path in paths]


async def count_ticks(policy: Any) -> tuple[int, list[Result]]:
    """How often another task runs while calls are decided, and their results."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.005)
            ticks += 1

    executor = Executor(Toolset(save), policy=policy, limits=SOON)
    async with executor, anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await anyio.lowlevel.checkpoint()
        results = await executor.run_all(to_save("hang"))
        results.append(await executor.run(Call("save", {"path": "other"}, "other")))
        tasks.cancel_scope.cancel()
    return ticks, results


@pytest.mark.parametrize("wait", [spin, sleep])
async def test_a_policy_that_hangs_denies_the_call_and_the_loop_goes_on(wait: Any) -> None:
    policy = Stuck(wait)
    try:
        ticks, (hung, other) = await count_ticks(policy)
    finally:
        policy.let_go.set()

    assert (hung.text, hung.failure and hung.failure.kind) == (HANGS, FailureKind.DENIED)
    assert other.text == "saved other"
    assert ticks >= 2


async def test_a_policy_that_says_it_is_quick_and_is_not_stops_the_loop() -> None:
    ticks, results = await count_ticks(Quick(Stuck(lambda _: time.sleep(0.3))))

    assert [result.text for result in results] == ["saved hang", "saved other"]
    assert ticks < 2


async def test_others_go_on_while_a_policy_hangs_and_few_threads_may_hang() -> None:
    policy = Stuck(sleep)
    async with Executor(Toolset(save), policy=policy, limits=SOON) as executor:
        try:
            hung = [
                await executor.run(call) for call in to_save("hang1", "hang2", "hang3", "hang4")
            ]
            next_one = await executor.run(Call("save", {"path": "a"}, "a"))
        finally:
            policy.let_go.set()
        while (again := await executor.run(Call("save", {"path": "b"}, "b"))).failure:
            await anyio.lowlevel.checkpoint()  # the threads end one by one

    assert [result.text for result in hung] == [HANGS] * 4
    assert next_one.text == BUSY
    assert again.text == "saved b"


async def test_a_decision_in_a_thread_knows_its_callers_variables_and_keeps_the_order() -> None:
    asked: list[tuple[str, str, bool]] = []
    here = threading.get_ident()

    def policy(call: CheckedCall) -> Decision:
        asked.append((call.args["path"], WHO.get(), threading.get_ident() == here))
        return Deny("no") if call.args["path"] == "c" else Allow()

    WHO.set("me")
    async with Executor(Toolset(save), policy=policy) as executor:
        results = await executor.run_all(to_save("a", "b", "c", "a"))
        alone = await executor.run(Call("save", {"path": "d"}, "d"))

    assert asked == [(path, "me", False) for path in "abcad"]
    texts = [result.text for result in (*results, alone)]
    assert texts == ["saved a", "saved b", "no", "saved a", "saved d"]


async def test_a_quick_call_waits_for_the_decision_about_an_earlier_one() -> None:
    order: list[str] = []

    class Mixed:
        def __call__(self, call: CheckedCall) -> Decision:
            order.append(call.args["path"])
            return Allow()

        def is_quick(self, call: CheckedCall) -> bool:
            return call.args["path"] != "slow"

    async with Executor(Toolset(save), policy=Mixed()) as executor:
        results = await executor.run_all(to_save("quick0", "slow", "quick1", "quick2"))

    assert order == ["quick0", "slow", "quick1", "quick2"]
    assert [result.text for result in results] == [f"saved {path}" for path in order]


async def test_a_call_can_be_stopped_while_it_is_decided() -> None:
    policy = Stuck(sleep)
    async with Executor(Toolset(save), policy=policy) as executor:
        turn = executor.turn()
        try:
            turn.add(*to_save("hang", "behind"))
            await anyio.to_thread.run_sync(policy.begun.acquire)
            turn.cancel()
            results = await turn.results()
        finally:
            policy.let_go.set()

    assert [result.text for result in results] == [STOPPED, STOPPED]


async def test_a_caller_that_is_cancelled_leaves_the_decision() -> None:
    policy = Stuck(sleep)
    async with Executor(Toolset(save), policy=policy) as executor:
        try:
            with anyio.move_on_after(0.05) as scope:
                await executor.run(Call("save", {"path": "hang"}, "1"))
        finally:
            policy.let_go.set()

    assert scope.cancelled_caught


async def test_a_policy_cannot_end_the_task_of_a_call() -> None:
    def policy(_call: CheckedCall) -> NoReturn:
        raise GeneratorExit

    async with Executor(Toolset(save), policy=policy) as executor:
        result = await executor.run(Call("save", {"path": "a"}, "1"))

    assert result.text == (
        "Not run: the permission check failed (GeneratorExit). "
        "Calling again will not help; tell the user."
    )


async def test_if_it_cannot_say_whether_it_is_quick_it_is_not() -> None:
    where: list[int] = []

    class Broken:
        def __call__(self, _call: CheckedCall) -> Decision:
            where.append(threading.get_ident())
            return Allow()

        def is_quick(self, _call: CheckedCall) -> bool:
            raise LookupError

    async with Executor(Toolset(save), policy=Broken()) as executor:
        result = await executor.run(Call("save", {"path": "a"}, "1"))

    assert result.text == "saved a"
    assert where != [threading.get_ident()]


async def test_the_answer_of_a_hook_waits_for_the_policy_too() -> None:
    def policy(call: CheckedCall) -> Decision:
        return Deny("no") if call.args["path"] == "b" else Allow()

    hook = Hook(before=lambda call: call.answer("known"))
    async with Executor(Toolset(save), policy=policy, hooks=[hook]) as executor:
        results = await executor.run_all(to_save("a", "b"))

    assert [result.text for result in results] == ["known", "no"]


async def test_an_edited_call_is_decided_in_a_thread_again() -> None:
    policy = Stuck(sleep)

    def asking(call: CheckedCall) -> Decision:
        policy(call)
        return Ask("May it?") if call.args["path"] == "a" else Allow()

    async def approver(_pending: Pending) -> Edit:
        return Edit({"path": "hang"})

    async with Executor(Toolset(save), policy=asking, approvals=approver) as executor:
        turn = executor.turn()
        try:
            turn.add(*to_save("a"))
            await anyio.to_thread.run_sync(policy.begun.acquire)
            turn.cancel()
            results = await turn.results()
        finally:
            policy.let_go.set()

    assert [result.text for result in results] == [STOPPED]


async def test_a_restricted_view_is_quick_if_both_policies_are() -> None:
    where: list[int] = []

    def noting(_call: CheckedCall) -> Decision:
        where.append(threading.get_ident())
        return Allow()

    async with Executor(Toolset(save), policy=Quick(noting)) as executor:
        await executor.restrict("save", policy=Quick(noting)).run(Call("save", {"path": "a"}, "1"))
        quick = {*where} == {threading.get_ident()}
        where.clear()
        await executor.restrict("save", policy=noting).run(Call("save", {"path": "a"}, "2"))

    assert quick
    assert threading.get_ident() not in where


@tool(touches=lambda **_: writes_file("a"))
async def bash(command: str) -> str:
    """Run a command."""
    return command


@pytest.mark.parametrize(
    ("call", "is_quick"),
    [
        (Call("save", {"path": "a"}, "1"), True),
        (Call("save", {"path": "a" * 20_000}, "1"), False),
        (Call("bash", {"command": "ls"}, "1"), False),
    ],
)
async def test_rules_decide_short_calls_in_the_event_loop_but_no_commands(
    call: Call, *, is_quick: bool
) -> None:
    said: list[bool] = []
    rules = Rulebook(mode="open", sandboxed=True)

    class Watched:
        def __call__(self, checked: CheckedCall) -> Decision:
            said.append(rules.is_quick(checked))
            return rules(checked)

    async with Executor(Toolset(save, bash), policy=Watched()) as executor:
        await executor.run(call)

    assert said == [is_quick]


HANGING = """
import sys, threading
import anyio
from handrail import Call, CallLimits, Executor, Toolset, tool

@tool
def save() -> str:
    "Save."
    return "saved"

async def main():
    limits = CallLimits(hook_timeout=0.1)
    hangs = lambda _: threading.Event().wait()
    async with Executor(Toolset(save), policy=hangs, limits=limits) as executor:
        print((await executor.run(Call("save", {}, "1"))).text)

anyio.run(main, backend=sys.argv[1])
"""


def test_a_policy_that_hangs_does_not_keep_the_process_from_its_end(
    anyio_backend_name: str,
) -> None:
    done = subprocess.run(  # noqa: S603  this file's own program
        [sys.executable, "-c", HANGING, anyio_backend_name],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )

    assert done.stdout.strip() == HANGS


async def test_of_many_decisions_a_few_are_made_at_once_and_none_is_lost() -> None:
    lock, now, most = threading.Lock(), 0, 0
    full = threading.Event()

    def policy(_call: CheckedCall) -> Decision:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            if now == 64:
                full.set()
        full.wait(60)
        with lock:
            now -= 1
        return Allow()

    async def run(number: int) -> None:
        results.append(await executor.run(Call("save", {"path": f"{number}"}, f"{number}")))

    results: list[Result] = []
    executor = Executor(Toolset(save), policy=policy)
    async with executor, anyio.create_task_group() as tasks:
        for number in range(80):
            tasks.start_soon(run, number)

    assert most == 64
    assert sorted(result.text for result in results) == sorted(f"saved {n}" for n in range(80))


async def test_without_a_thread_a_call_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "handrail-policy":  # the event loop may need another one
            raise RuntimeError("can't start new thread")
        start(thread)

    async with Executor(Toolset(save), policy=lambda _: Allow()) as executor:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            denied = await executor.run(Call("save", {"path": "a"}, "1"))
        allowed = await executor.run(Call("save", {"path": "a"}, "2"))

    assert denied.text == (
        "Not run: the permission check could not start. Calling again will not help; tell the user."
    )
    assert (denied.failure and denied.failure.kind, allowed.text) == (
        FailureKind.DENIED,
        "saved a",
    )


async def test_a_policy_in_a_thread_can_run_an_event_loop() -> None:
    async def decide() -> Decision:
        return Deny("no")

    async with Executor(Toolset(save), policy=lambda _: anyio.run(decide)) as executor:
        result = await executor.run(Call("save", {"path": "a"}, "1"))

    assert result.text == "no"


async def test_a_decision_that_was_given_up_before_it_began_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    late: list[threading.Thread] = []

    def policy(call: CheckedCall) -> Decision:
        asked.append(call.id)
        return Allow()

    start = threading.Thread.start

    def put_off(thread: threading.Thread) -> None:
        if thread.name == "handrail-policy":
            late.append(thread)
        else:  # the event loop may need it
            start(thread)

    async with Executor(Toolset(save), policy=policy, limits=SOON) as executor:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", put_off)
            result = await executor.run(Call("save", {"path": "a"}, "1"))
        for thread in late:
            start(thread)
            await anyio.to_thread.run_sync(thread.join)

    assert (result.text, len(late), asked) == (HANGS, 1, [])
