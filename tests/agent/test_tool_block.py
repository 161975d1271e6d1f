"""The tools that a model sees: the same bytes in every turn, for every order and every reconnect."""

from __future__ import annotations

import json

import anyio
from hypothesis import given
from hypothesis import strategies as st

from agent.stage import World, look
from handrail import Call, Registry, Toolset
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.testing import ScriptedModel
from providers.apis import APIS


def blocks(requests: list[Request]) -> set[bytes]:
    """The tool blocks of these requests in all four APIs."""
    return {
        json.dumps([api.encode_tools(one.tools) for api in APIS.values()]).encode()
        for one in requests
    }


async def seen(tools: Toolset | Registry) -> set[bytes]:
    model = ScriptedModel([look("a", "1")], "ok")
    await Agent(model, tools).run("go")
    return blocks(model.requests)


@given(order=st.permutations(["look", "put", "fill"]), at=st.integers(0, 3))
def test_the_order_of_added_tools_does_not_matter(order: list[str], at: int) -> None:
    world = World().tools
    tools = [world[name] for name in order]
    registry = Registry()
    registry.add(Toolset(*tools[at:]), name="far")
    registry.add(Toolset(*tools[:at]), name="near")

    [plain] = anyio.run(seen, world)
    assert anyio.run(seen, Toolset(*tools)) == {plain}
    assert anyio.run(seen, registry) == {plain}


async def test_a_source_that_was_removed_and_added_again_changes_nothing() -> None:
    world, registry = World().tools, Registry()
    registry.add(Toolset(world["look"], world["put"]), name="near")
    registry.add(Toolset(world["fill"]), name="far")

    def reconnect(_: Request) -> Reply:
        registry.remove("near")
        registry.add(Toolset(world["put"], world["look"]), name="near again")
        return Reply((look("a", "1"),), "calls")

    model = ScriptedModel(reconnect, "ok")
    done = await Agent(model, registry).run("go")

    assert (done.text, len(model.requests)) == ("ok", 2)
    assert len(blocks(model.requests)) == 1


async def test_a_tool_that_is_added_later_is_offered_in_the_next_turn() -> None:
    world, registry = World().tools, Registry()
    registry.add(Toolset(world["look"]), name="near")

    def connect(_: Request) -> Reply:
        registry.add(Toolset(world["put"]), name="far")
        return Reply((look("a", "1"),), "calls")

    model = ScriptedModel(connect, "ok")
    await Agent(model, registry).run("go")

    assert [[one.spec.name for one in request.tools] for request in model.requests] == [
        ["look"],
        ["look", "put"],
    ]


async def test_the_tool_for_the_final_answer_is_the_same_in_every_turn_and_run() -> None:
    made: list[set[bytes]] = []
    for _ in range(2):
        model = ScriptedModel("Well.", "Well?", _final)
        await Agent(model, World().tools, output=dict[str, int]).run("go")
        made.append(blocks(model.requests))

    assert made[0] == made[1]
    assert len(made[0]) == 1


def _final(_: Request) -> Reply:
    return Reply((Call("final_answer", '{"answer": {"a": 1}}', "1"),), "calls")
