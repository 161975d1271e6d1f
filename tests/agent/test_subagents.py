"""Agents as tools: they are given a task, and never have more rights than whoever gives it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from agent.stage import World, by_turn, calls, kinds, look, put, says
from handrail import (
    DESTROY,
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    Decision,
    Deny,
    Executor,
    Kind,
    Registry,
    Result,
    Spec,
    Toolset,
    UnknownName,
    tool,
)
from handrail.agent import Agent, Limits
from handrail.approvals import defer
from handrail.judgement import Approver, Policy
from handrail.messages import Results
from handrail.testing import ScriptedModel
from virtual_time import BACKENDS, run


def task(text: str, call_id: str = "t") -> Call:
    return Call("helper", f'{{"task": "{text}"}}', call_id)


async def test_an_agent_does_a_task_for_another_and_answers_in_words() -> None:
    world = World()
    inner = ScriptedModel([look("a", "1")], "It is there.")
    helper = Agent(inner, world.tools).as_tool("helper", "Look into things.")
    outer = ScriptedModel([task("Is a there?")], "Yes.")

    done = await Agent(outer, Toolset(helper)).run("go")

    assert done.text == "Yes."
    assert done.state.messages[2] == Results((Result("t", "It is there."),))
    assert inner.requests[0].messages[0].parts[0].text == "Is a there?"
    assert (helper.spec.name, helper.spec.description) == ("helper", "Look into things.")
    assert helper.spec.input_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "description": "All that there is to know about it: nothing else is passed on.",
                }
            },
            "required": ["task"],
            "additionalProperties": False,
        }
    )


@pytest.mark.parametrize("source", ["toolset", "executor", "registry"])
def test_such_a_tool_may_do_what_its_tools_may_do(source: str) -> None:
    @tool(effect=DESTROY)
    async def wipe() -> None:
        """Wipe all."""

    def effect(*tools: Any) -> Any:
        offered: Any = Toolset(*tools)
        if source == "executor":
            offered = Executor(offered)
        if source == "registry":
            registry = Registry()
            registry.add(offered, name="all")
            offered = registry
        return Agent(ScriptedModel(), offered).as_tool("helper", "Help.").spec.effect

    world = World().tools
    found = [effect(), effect(world["look"]), effect(world["look"], world["put"]), effect(wipe, *world)]  # fmt: skip

    assert found == [READ, READ, WRITE, DESTROY]


def asks(*_: Any) -> Decision:
    return Ask("May it?")


async def test_a_task_that_was_not_finished_is_a_failure_that_says_why() -> None:
    world = World()
    endless = by_turn(*[calls("Still at it.", look("a", "1"))] * 2)
    limited = Agent(endless, world.tools, limits=Limits(turns=1)).as_tool("limited", "Try.")
    silent = Agent(by_turn(calls(look("a", "1"))), world.tools, limits=Limits(turns=1))
    async with Executor(world.tools, policy=asks, approver=defer) as executor:
        waits = Agent(by_turn(calls(put("a", "1"))), executor).as_tool("waits", "Try.")
        tools = Toolset(limited, waits, silent.as_tool("silent", "Try."))
        async with Executor(tools) as runs:
            results = await runs.run_all(
                Call(name, '{"task": "x"}', name) for name in ("limited", "waits", "silent")
            )

    assert [one.failure.kind for one in results if one.failure] == [Kind.FAILED] * 3
    assert [one.text for one in results] == snapshot(
        [
            "The task was not finished: the limit of 1 turns is reached. What it said last: Still at it.",
            "The task was not finished: it is pending.",
            "The task was not finished: the limit of 1 turns is reached.",
        ]
    )


async def test_a_narrowed_executor_offers_only_what_was_named() -> None:
    world = World()
    async with Executor(world.tools) as parent:
        child = parent.narrow("look")
        results = await child.run_all([look("a", "1"), put("b", "2")])

        assert [one.spec.name for one in child.tools] == ["look"]
        assert [one.failure and one.failure.kind for one in results] == [None, Kind.UNKNOWN_TOOL]
        with pytest.raises(UnknownName):
            child.narrow("put")
        with pytest.raises(UnknownName):
            parent.narrow("nothing")

    assert world.did == ["look a"]


async def test_hooks_and_approver_of_the_parent_see_what_a_child_does() -> None:
    world, seen = World(), list[str]()

    async def before(call: Call) -> Call:
        seen.append(f"before {call.name}")
        return call

    async def after(call: Call, result: Result) -> Result:
        seen.append(f"after {call.name}")
        return result

    async def approver(pending: Any) -> Any:
        seen.append(f"asked {pending.call.name}")
        return Allow()

    async with Executor(
        world.tools, policy=asks, approver=approver, before=[before], after=[after]
    ) as parent:
        helper = Agent(by_turn(calls(put("a", "1")), says("ok")), parent.narrow("put"))
        done = await helper.run("go")

    assert kinds(done.state.messages) == ["put a"]
    assert seen == ["before put", "asked put", "after put"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_child_ends_with_its_parent(backend: str) -> None:
    run(backend, parent_ends)


async def parent_ends() -> None:
    started = anyio.Event()
    did: list[str] = []

    @tool
    async def wait() -> None:
        """Wait for what does not come."""
        started.set()
        try:
            await anyio.sleep(60)
        finally:
            did.append("call ended")

    async with anyio.create_task_group() as group:
        async with Executor(Toolset(wait)) as parent:
            child = parent.narrow("wait")
            group.start_soon(child.run, Call("wait", "{}", "1"))
            await started.wait()
        did.append("parent closed")
    later = await child.run(Call("wait", "{}", "2"))

    assert did == ["call ended", "parent closed"]
    assert later.failure is not None
    assert later.failure.kind is Kind.CANCELLED


async def test_a_tool_that_the_registry_has_lost_is_stale_for_a_child_too() -> None:
    world, registry = World(), Registry()
    registry.add(world.tools, name="world")
    async with Executor(registry) as parent:
        child = parent.narrow("put")
        registry.remove("world")
        results = [await one.run(put("a", "1")) for one in (parent, child)]

    assert [one.failure and one.failure.kind for one in results] == [Kind.STALE, Kind.STALE]
    assert world.did == []


DECISIONS = st.sampled_from(["allow", "ask", "deny", "raise", "nonsense"])
POLICIES = st.none() | st.fixed_dictionaries(dict.fromkeys(("look", "put", "fill"), DECISIONS))


def policy_of(table: dict[str, str] | None) -> Policy | None:
    if table is None:
        return None

    def policy(call: Call, spec: Spec, _: Any) -> Any:
        verdict = table[spec.name]
        if verdict == "raise":
            raise ZeroDivisionError
        return {"allow": Allow(), "ask": Ask("?"), "deny": Deny("no"), "nonsense": 5}[verdict]

    return policy


async def yes(_: Any) -> Allow:
    return Allow()


ALL = ["look", "put", "fill"]


async def let(executor: Executor, world: World) -> set[str]:
    """What an executor lets through, of one call for each tool."""
    world.did.clear()
    await executor.run_all(Call(name, '{"path": "a"}', name) for name in ALL)
    return set(world.did)


@given(
    mine=POLICIES,
    theirs=POLICIES,
    below=POLICIES,
    names=st.lists(st.sampled_from(ALL), unique=True),
    fewer=st.data(),
    backend=st.sampled_from(["asyncio", "trio"]),
    approver=st.sampled_from([None, yes]),
)
def test_a_child_never_may_more_than_its_parent(  # noqa: PLR0913, PLR0917
    mine: dict[str, str] | None,
    theirs: dict[str, str] | None,
    below: dict[str, str] | None,
    names: list[str],
    fewer: st.DataObject,
    backend: str,
    approver: Approver | None,
) -> None:
    some = fewer.draw(st.lists(st.sampled_from(names), unique=True)) if names else []

    async def main() -> None:
        world = World()
        async with Executor(world.tools, policy=policy_of(mine), approver=approver) as parent:
            child = parent.narrow(*names, policy=policy_of(theirs))
            grandchild = child.narrow(*some, policy=policy_of(below))
            may, child_may, below_may = [
                await let(one, world) for one in (parent, child, grandchild)
            ]
            alone = Executor(world.tools, policy=policy_of(theirs), approver=approver)
            theirs_may = await let(alone, world)

            assert child_may == {one for one in may & theirs_may if one.split()[0] in names}
            assert below_may <= child_may

            # and so do agents that are given it
            world.did.clear()
            asked = calls(*(Call(name, '{"path": "a"}', name) for name in ALL))
            helper = Agent(by_turn(asked, says("ok")), child).as_tool("helper", "Help.")
            outer = Agent(by_turn(calls(task("go")), says("ok")), Toolset(helper))
            assert (await outer.run("go")).text == "ok"
            assert set(world.did) == child_may

    anyio.run(main, backend=backend)
