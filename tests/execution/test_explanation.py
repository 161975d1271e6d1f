"""Explaining a call: the whole way that it would take, and nothing of it is taken."""

from __future__ import annotations

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    Hook,
    Result,
    Toolset,
    tool,
    writes_file,
)
from handrail.permissions import Explanation, Matched, Origin

ran: list[str] = []


@tool(touches=writes_file, aliases=["store"])
async def save(path: str) -> str:
    """Save a file."""
    ran.append(path)
    return path


@tool(effect=READ)
async def count(n: int) -> int:
    """Count."""
    ran.append("count")
    return n


async def hook(call: CheckedCall) -> Call | Result:
    ran.append("hook")
    return call


class Strict:
    """A policy that explains itself."""

    rule = Origin("no-env", "rules.toml", 3)

    def __call__(self, call: CheckedCall) -> Decision:
        if writes_file(".env") in call.accesses:
            return Deny("secrets", self.rule)
        return Ask("Sure?", Origin("mode ask", kind="mode"))

    def explain(self, call: CheckedCall, /) -> tuple[Matched, ...]:
        mode = Matched("ask", Origin("mode ask", kind="mode"))
        denied = Matched("deny", self.rule, "secrets")
        return (denied, mode) if writes_file(".env") in call.accesses else (mode,)


TOOLS = Toolset(save, count)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


def test_everything_is_told_and_nothing_is_run() -> None:
    executor = Executor(TOOLS, policy=Strict(), hooks=[Hook(before=hook)])

    told = executor.explain(Call("store", {"path": ".env"}, "1"))

    assert ran == []
    assert told == Explanation(
        call=Call("store", '{"path":".env"}', "1"),
        tool="save",
        accesses=(writes_file(".env"),),
        matched=(
            Matched("deny", Origin("no-env", "rules.toml", 3), "secrets"),
            Matched("ask", Origin("mode ask", kind="mode")),
        ),
        decision=Deny("secrets", Origin("no-env", "rules.toml", 3)),
        hooks=("hook",),
    )
    assert str(told) == snapshot(
        """\
call      store {"path":".env"}
tool      save, by its alias
hook      hook
touches   write file:.env
rule      deny by no-env (rules.toml:3): secrets
rule      ask by mode ask
decision  deny: secrets [no-env (rules.toml:3)]\
"""
    )


def test_a_question_and_a_repair_are_told_as_they_would_be() -> None:
    asked = Executor(TOOLS, policy=Strict()).explain(Call("save", '{"path":"a"}', "1"))
    mended = Executor(TOOLS).explain(Call("count", '{"n":"5"}', "1"))

    assert str(asked) == snapshot(
        """\
call      save {"path":"a"}
touches   write file:a
rule      ask by mode ask
decision  ask: Sure? [mode ask]\
"""
    )
    assert (mended.call.args, mended.decision) == ('{"n":5}', Allow())
    assert str(mended) == snapshot(
        """\
call      count {"n":5}
repair    n: the string was read as a number
touches   read * (anything)
decision  allow\
"""
    )


def test_a_call_that_comes_to_no_policy_is_told_what_its_model_would_read() -> None:
    executor = Executor(TOOLS, policy=Strict(), hooks=[Hook(before=hook)])

    assert str(executor.explain(Call("sav", {}, "1"))) == snapshot(
        """\
call      sav {}
refused   There is no tool 'sav'. Did you mean save?\
"""
    )
    assert str(Explanation(call=Call("a", {}, "1"), tool="a")) == snapshot(
        """\
call      a {}
decision  none\
"""
    )


async def test_it_is_told_which_calls_under_way_it_would_wait_for() -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool(touches=writes_file)
    async def slow(path: str) -> str:
        """Save slowly."""
        begun.set()
        await go.wait()
        return path

    async with (
        Executor(Toolset(slow, save, count)) as executor,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(executor.run, Call("slow", {"path": "a"}, "1"))
        await begun.wait()
        here = executor.explain(Call("save", {"path": "a"}, "2"))
        there = executor.explain(Call("save", {"path": "b"}, "2"))
        go.set()

    assert (here.waits_for, there.waits_for) == (("1",), ())
    assert "waits for 1" in str(here)
