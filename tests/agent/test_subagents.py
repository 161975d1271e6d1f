"""Agents as tools: they receive a task, and never have more permissions than their parent."""

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
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    FailureKind,
    Hook,
    Registry,
    Result,
    Text,
    Toolset,
    UnknownName,
    tool,
)
from handrail.agent import Agent, Limits, RunState
from handrail.approvals import defer
from handrail.credentials import Credentials
from handrail.messages import Reply, Request, ToolResults
from handrail.permissions import Answer, Approver, Edit, Policy
from handrail.testing import ScriptedModel
from virtual_time import BACKENDS, run


def task(text: str, call_id: str = "t") -> Call:
    return Call("helper", f'{{"task": "{text}"}}', call_id)


async def test_an_agent_does_a_task_for_another_and_returns_text() -> None:
    world = World()
    inner = ScriptedModel([look("a", "1")], "It is there.")
    helper = Agent(inner, world.tools).as_tool("helper", "Look into things.")
    outer = ScriptedModel([task("Is a there?")], "Yes.")

    done = await Agent(outer, Toolset(helper)).run("go")

    assert done.text == "Yes."
    assert done.state.messages[2] == ToolResults((Result("t", "It is there."),))
    assert inner.requests[0].messages[0].parts[0].text == "Is a there?"
    assert (helper.spec.name, helper.spec.description) == ("helper", "Look into things.")
    assert helper.spec.input_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "description": "The task, with all necessary context. Nothing else is passed on.",
                }
            },
            "required": ["task"],
            "additionalProperties": False,
        }
    )


@pytest.mark.parametrize("source", ["toolset", "executor"])
def test_the_effect_of_an_agent_tool_is_that_of_its_tools(source: str) -> None:
    @tool(effect=DESTROY)
    async def wipe() -> None:
        """Wipe all."""

    def effect(*tools: Any) -> Any:
        offered: Any = Toolset(*tools)
        if source == "executor":
            offered = Executor(offered)
        return Agent(ScriptedModel(), offered).as_tool("helper", "Help.").spec.effect

    world = World().tools
    found = [effect(), effect(world["look"]), effect(world["look"], world["put"]), effect(wipe, *world)]  # fmt: skip

    assert found == [READ, READ, WRITE, DESTROY]


@pytest.mark.parametrize("source", ["registry", "executor", "restricted"])
def test_tools_of_a_registry_can_change_so_the_effect_is_the_highest_unless_given(
    source: str,
) -> None:
    registry = Registry()
    registry.add(World().tools["look"])
    offered: Registry | Executor = registry if source == "registry" else Executor(registry)
    if source == "restricted":
        offered = Executor(registry).restrict("look")
    agent = Agent(ScriptedModel(), offered)

    by_default, given = agent.as_tool("a", "Help."), agent.as_tool("b", "Help.", effect=READ)

    assert [by_default.spec.effect, given.spec.effect] == [DESTROY, READ]


def asks(*_: Any) -> Decision:
    return Ask("May it?")


async def test_an_unfinished_task_fails_with_the_reason() -> None:
    world = World()
    endless = by_turn(*[calls("Still at it.", look("a", "1"))] * 2)
    limited = Agent(endless, world.tools, limits=Limits(turns=1)).as_tool("limited", "Try.")
    none = Limits(turns=1, last_word=False)
    silent = Agent(by_turn(calls(look("a", "1"))), world.tools, limits=none)
    async with Executor(Toolset(limited, silent.as_tool("silent", "Try."))) as runs:
        results = await runs.run_all(
            Call(name, '{"task": "x"}', name) for name in ("limited", "silent")
        )

    assert [one.failure.kind for one in results if one.failure] == [FailureKind.FAILED] * 2
    assert [one.text for one in results] == snapshot(
        [
            "Not finished: reached the limit of 1 turn. Its last message: Still at it.",
            "Not finished: reached the limit of 1 turn.",
        ]
    )


async def _resume(tools: Toolset, saved: ToolResults, **answers: Answer) -> ToolResults:
    """Answer in another executor, as another process would."""
    read = ToolResults(tuple(Result.from_json(one.to_json()) for one in saved.results))
    ids = {one.call.args: one.id for one in read.questions}
    given = {ids[f'{{"path":"{path}"}}']: answer for path, answer in answers.items()}
    async with Executor(tools, approvals=defer) as executor:
        return await executor.resume(read, given)


@pytest.mark.parametrize("levels", [1, 2])
async def test_in_an_own_loop_its_questions_are_answered_later_and_elsewhere(levels: int) -> None:
    world, requests = World(), list[int]()

    async def model(request: Request) -> Reply:
        requests.append(len(request.messages))
        if isinstance(request.messages[-1], ToolResults):
            return says("; ".join(one.text for one in request.messages[-1].results))
        return calls(put("a", "1"), put("b", "2"), put("c", "3"))

    agent = Agent(model, world.tools, policy=asks)
    for _ in range(levels - 1):
        one = Call("helper", '{"task": "y"}', "h")
        agent = Agent(by_turn(calls(one), says("Done.")), [agent.as_tool("helper", "Work.")])
    tools = Toolset(agent.as_tool("helper", "Work."))
    async with Executor(tools, approvals=defer) as executor:
        turn = executor.turn("1", run="r", principal="ann")
        first = await executor.run_reply(calls(task("x")), turn=turn)
        seen = [one.call.args for one in turn.questions]
    again = await _resume(tools, first, b=Deny("Not b."))
    done = await _resume(tools, again, a=Allow(), c=Edit({"path": "d"}))
    while done.questions:
        done = await _resume(tools, done, d=Allow())

    assert seen == ['{"path":"a"}', '{"path":"b"}', '{"path":"c"}']
    assert [one.principal for one in first.questions] == ["ann"] * 3
    assert [one.call.args for one in again.questions] == ['{"path":"a"}', '{"path":"c"}']
    assert world.did == ["put a", "put d"]
    edited = 'put d\n[Note: a person changed the arguments: path="d".]'
    text = f"put a; Not b.; {edited}" if levels == 1 else "Done."
    assert [one.text for one in done.results] == [text]
    assert requests == [1, 3], "no reply is asked for twice"


async def test_in_an_own_loop_an_answer_to_its_question_is_used_once() -> None:
    world = World()
    inner = Agent(by_turn(calls(put("a", "1")), says("Put.")), world.tools, policy=asks)
    async with Executor(Toolset(inner.as_tool("helper", "Work.")), approvals=defer) as executor:
        saved = await executor.run_reply(calls(task("x")), turn=executor.turn("1", run="r"))
        answers = {saved.questions[0].id: Allow()}
        done, again = [await executor.resume(saved, answers) for _ in range(2)]

    assert (done.results[0].text, world.did) == ("Put.", ["put a"])
    assert "already used" in again.results[0].text


async def test_a_restricted_executor_offers_only_the_named_tools() -> None:
    world = World()
    async with Executor(world.tools) as parent:
        child = parent.restrict("look")
        results = await child.run_all([look("a", "1"), put("b", "2")])

        assert [one.spec.name for one in child.tools] == ["look"]
        assert [one.failure and one.failure.kind for one in results] == [
            None,
            FailureKind.UNKNOWN_TOOL,
        ]
        with pytest.raises(UnknownName):
            child.restrict("put")
        with pytest.raises(UnknownName):
            parent.restrict("nothing")

    assert world.did == ["look a"]


async def test_hooks_and_approver_of_the_parent_see_what_a_child_does() -> None:
    world, seen = World(), list[str]()

    async def before(call: CheckedCall) -> CheckedCall:
        seen.append(f"before {call.name}")
        return call

    async def after(call: CheckedCall | Call, result: Result) -> Result:
        seen.append(f"after {call.name}")
        return result

    async def approver(pending: Any) -> Any:
        seen.append(f"asked {pending.call.name}")
        return Allow()

    async with Executor(
        world.tools, policy=asks, approvals=approver, hooks=[Hook(before=before, after=after)]
    ) as parent:
        helper = Agent(by_turn(calls(put("a", "1")), says("ok")), parent.restrict("put"))
        done = await helper.run("go")

    assert kinds(done.state.messages) == ["put a"]
    assert seen == ["before put", "asked put", "after put"]


async def test_the_call_keys_of_a_child_start_with_the_key_of_its_call() -> None:
    keys: list[str] = []

    @tool
    async def note(context: Context) -> None:
        """Note the key."""
        keys.append(context.idempotency_key)

    helper = Agent(by_turn(calls(Call("note", "{}", "n")), says("ok")), Toolset(note))
    outer = Agent(
        by_turn(calls(task("go")), says("ok")), Toolset(helper.as_tool("helper", "Help."))
    )
    await outer.resume(RunState(run_id="r"), "go")

    assert keys == ["r%2F1%2Ft/1/n"]


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
            child = parent.restrict("wait")
            group.start_soon(child.run, Call("wait", "{}", "1"))
            await started.wait()
        did.append("parent closed")
    later = await child.run(Call("wait", "{}", "2"))

    assert did == ["call ended", "parent closed"]
    assert later.failure is not None
    assert later.failure.kind is FailureKind.CANCELLED


async def test_a_tool_that_the_registry_has_lost_is_stale_for_a_child_too() -> None:
    world, registry = World(), Registry()
    registry.add(world.tools, name="world")
    async with Executor(registry) as parent:
        child = parent.restrict("put")
        registry.remove("world")
        results = [await one.run(put("a", "1")) for one in (parent, child)]

    assert [one.failure and one.failure.kind for one in results] == [
        FailureKind.STALE,
        FailureKind.STALE,
    ]
    assert world.did == []


DECISIONS = st.sampled_from(["allow", "ask", "deny", "raise", "nonsense"])
POLICIES = st.none() | st.fixed_dictionaries(dict.fromkeys(("look", "put", "fill"), DECISIONS))


def policy_of(table: dict[str, str] | None) -> Policy | None:
    if table is None:
        return None

    def policy(call: CheckedCall) -> Any:
        verdict = table[call.name]
        if verdict == "raise":
            raise ZeroDivisionError
        return {"allow": Allow(), "ask": Ask("?"), "deny": Deny("no"), "nonsense": 5}[verdict]

    return policy


async def yes(_: Any) -> Allow:
    return Allow()


ALL = ["look", "put", "fill"]


async def let(executor: Executor, world: World) -> set[str]:
    """The tools that an executor allows to run."""
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
def test_a_child_never_has_more_permissions_than_its_parent(  # noqa: PLR0913, PLR0917
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
        async with Executor(world.tools, policy=policy_of(mine), approvals=approver) as parent:
            child = parent.restrict(*names, policy=policy_of(theirs))
            grandchild = child.restrict(*some, policy=policy_of(below))
            may, child_may, below_may = [
                await let(one, world) for one in (parent, child, grandchild)
            ]
            alone = Executor(world.tools, policy=policy_of(theirs), approvals=approver)
            theirs_may = await let(alone, world)

            assert child_may == {one for one in may & theirs_may if one.split()[0] in names}
            assert below_may <= child_may

            # and so do agents that use it
            world.did.clear()
            asked = calls(*(Call(name, '{"path": "a"}', name) for name in ALL))
            helper = Agent(by_turn(asked, says("ok")), child).as_tool("helper", "Help.")
            outer = Agent(by_turn(calls(task("go")), says("ok")), Toolset(helper))
            assert (await outer.run("go")).text == "ok"
            assert set(world.did) == child_may

    anyio.run(main, backend=backend)


async def test_a_sub_agent_without_credentials_has_those_of_its_caller() -> None:
    @tool(effect=READ)
    async def fetch(context: Context) -> str:
        """Fetch."""
        return await context.credential("tracker")

    found = list[str]()

    async def answer_with_result(request: Request) -> Reply:
        last = request.messages[-1]
        if isinstance(last, ToolResults):
            found.append(last.results[0].text)
            return Reply((Text("done"),))
        return Reply((Call("fetch", {}, "f1"),), "calls")

    for own in (None, Credentials({"tracker": {"ann": "of the sub-agent"}})):
        worker = Agent(answer_with_result, [fetch], credentials=own)
        sub = worker.as_tool("worker", "Work on a task.")
        model = ScriptedModel(Call("worker", {"task": "go"}, "c1"), "done")
        callers = Credentials({"tracker": {"ann": "of the caller"}})
        await Agent(model, [sub], credentials=callers).run("go", principal="ann")

    assert found == ["of the caller", "of the sub-agent"]
