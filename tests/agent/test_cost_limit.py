"""A limit of cost ends a run, with what its sub-agents cost. It needs a price of every model."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from inline_snapshot import snapshot

from agent.stage import World, by_turn, calls, kinds, look, owed, says, streamed
from handrail import Call, FailureKind, Text
from handrail.agent import Agent, Compaction, Limits, RunState, dump_state, load_state
from handrail.messages import (
    Model,
    ModelError,
    Price,
    Prompt,
    Reply,
    Request,
    ToolResults,
    Usage,
    model_names,
)
from handrail.models import cost, fallback, openai_chat, recorded, retrying
from handrail.testing import ScriptedModel

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
MILLION = Usage(input_tokens=1_000_000)
ONE = Price(input=Decimal(1), output=Decimal(1), cached=Decimal(1), cache_write=Decimal(1))
TWO = Price(input=Decimal(2), output=Decimal(2), cached=Decimal(2), cache_write=Decimal(2))


class Named(ScriptedModel):
    """A script of models with names, as those of providers have."""

    names: tuple[str, ...] = ("gpt-5",)


def looks(path: str, model: str = "") -> Reply:
    return Reply((look(path, "1"),), "calls", MILLION, model)


@WAYS
async def test_cost_ends_a_run(wrap: Callable[[Model], Model]) -> None:
    world = World()
    model = wrap(by_turn(looks("a"), looks("b"), looks("c"), says("never")))
    limits = Limits(cost=1.5, prices=ONE, last_word=False)

    done = await Agent(model, world.tools, limits=limits).run("go")

    assert (done.stop_reason, done.limit, done.stop_detail, done.state.cost) == (
        "limit",
        "cost",
        snapshot("reached the cost limit of 1.5"),
        Decimal(2),
    )
    assert world.did == ["look a", "look b"]
    owed(done.state.transcript())


async def test_a_cost_below_the_limit_ends_nothing() -> None:
    model = by_turn(looks("a"), Reply((Text("done"),), usage=MILLION))
    done = await Agent(model, World().tools, limits=Limits(cost=3, prices=ONE)).run("go")

    assert (done.stop_reason, done.state.cost) == ("answer", 2)


async def test_the_model_has_a_last_word_at_the_limit() -> None:
    seen: list[Request] = []

    async def model(request: Request) -> Reply:
        seen.append(request)
        return await by_turn(looks("a"), says("So far: a."))(request)

    done = await Agent(model, World().tools, limits=Limits(cost=1, prices=ONE)).run("go")

    assert (done.stop_reason, done.limit, done.text) == ("limit", "cost", "So far: a.")
    assert [request.tool_choice for request in seen] == ["auto", "none"]


async def test_the_known_prices_are_used() -> None:
    model = Named(looks("a"), "done")
    done = await Agent(model, World().tools, limits=Limits(cost=100)).run("go")

    assert done.state.cost == cost(MILLION, "gpt-5") == Decimal("1.25")


@pytest.mark.parametrize(
    ("answered_by", "expected"),
    [("cheap", 1), ("cheap-2026-01-01", 1), ("dear", 2), ("an alias", 2), ("", 2)],
)
async def test_the_model_that_answered_has_the_price(answered_by: str, expected: int) -> None:
    """A name without a price costs as much as the most expensive model that was asked."""
    model = Named(looks("a", answered_by), "done")
    model.names = ("cheap", "dear")
    limits = Limits(cost=100, prices={"cheap": ONE, "dear": TWO})

    done = await Agent(model, World().tools, limits=limits).run("go")

    assert done.state.cost == expected


async def test_the_cost_counts_from_each_prompt_and_is_saved() -> None:
    model = by_turn(looks("a"), says("one"), looks("b"), says("two"))
    agent = Agent(model, World().tools, limits=Limits(cost=2, prices=ONE))

    first = await agent.run("go")
    done = await agent.run("and on", history=load_state(dump_state(first.state)))

    assert (done.stop_reason, done.text, done.state.cost) == ("answer", "two", 2)
    assert done.state.before.cost == 1


def test_a_model_without_a_price_is_refused_at_the_start() -> None:
    local = openai_chat("qwen3", base_url="http://127.0.0.1:1/v1")
    known = openai_chat("gpt-5", key="k")
    limits, words = Limits(cost=2), list[str]()
    for model in (local, fallback(known, retrying(local)), says):
        with pytest.raises(ValueError, match="is not known") as refused:
            Agent(model, limits=limits)
        words.append(str(refused.value))
    with pytest.raises(ValueError, match="qwen3"):
        Agent(known, limits=limits).run("go", model=local)
    with pytest.raises(ValueError, match="qwen3"):
        Agent(local).run("go", limits=limits)

    assert words == [
        snapshot(
            "Limits(cost=2): the price of model 'qwen3' is not known. Pass it: `Limits(cost=2, prices={'qwen3': Price(...)})`, with `handrail.messages.Price`."
        ),
        words[0],
        snapshot(
            "Limits(cost=2): the price of a model without a name is not known. Pass it: `Limits(cost=2, prices=Price(...))`, with `handrail.messages.Price`."
        ),
    ]
    assert Agent(local, limits=Limits(cost=2, prices={"qwen3": ONE}))


async def test_models_made_of_models_have_their_names(tmp_path: object) -> None:
    one, two = Named(looks("a", "gpt-5"), "done"), openai_chat("gpt-5-mini", key="k")
    tape = f"{tmp_path}/tape.json"
    await Agent(recorded(tape, one), World().tools).run("go")

    assert model_names(fallback(one, retrying(two), two)) == ("gpt-5", "gpt-5-mini")
    assert model_names(recorded(tape)) == ("gpt-5", "")
    assert model_names(fallback(says, two)) == ("", "gpt-5-mini")


TASK = Call("scout", {"task": "Look."}, "s")


async def test_a_sub_agent_ends_at_the_limit_of_its_parent() -> None:
    world = World()
    inner = Named(looks("a"), looks("b"), looks("c"), "never", usage=MILLION)
    inner.names = ("dear",)
    outer = Named([TASK], "never", usage=MILLION)
    limits = Limits(cost=5, prices={"gpt-5": ONE, "dear": TWO}, last_word=False)
    scout = Agent(inner, world.tools, limits=Limits(last_word=False)).as_tool("scout", "Look.")

    done = await Agent(outer, [scout], limits=limits).run("go")

    assert (done.stop_reason, done.limit, done.state.cost) == ("limit", "cost", 5)
    assert (world.did, done.state.usage.total) == (["look a", "look b"], 3_000_000)
    [result] = done.state.messages[2].results  # type: ignore[union-attr]
    assert result.text == snapshot("Not finished: reached the cost limit of 5.")


async def test_other_limits_of_a_parent_do_not_end_its_sub_agent() -> None:
    world = World()
    scout = Agent(by_turn(looks("a"), looks("b"), says("seen")), world.tools)
    limits = Limits(turns=1, calls=1, last_word=False)
    done = await Agent(by_turn(calls(TASK)), [scout.as_tool("scout", "Look.")], limits=limits).run(
        "go"
    )

    assert (kinds(done.state.messages), world.did) == (["seen"], ["look a", "look b"])


async def test_the_limit_reaches_through_two_agents() -> None:
    world = World()
    inner = Agent(by_turn(looks("a"), looks("b"), says("never")), world.tools)
    middle = Agent(by_turn(calls(TASK), says("middle")), [inner.as_tool("scout", "Look.")])
    limits = Limits(cost=1, prices=ONE, last_word=False)

    done = await Agent(
        by_turn(calls(TASK), says("never")), [middle.as_tool("scout", "Look.")], limits=limits
    ).run("go")

    assert (done.limit, done.state.cost, world.did) == ("cost", 1, ["look a"])


async def test_a_sub_agent_without_a_price_does_not_start() -> None:
    inner = Named("never")
    inner.names = ("qwen3",)
    outer = Named([TASK], "done")

    done = await Agent(outer, [Agent(inner).as_tool("scout", "Look.")], limits=Limits(cost=5)).run(
        "go"
    )

    [result] = done.state.messages[2].results  # type: ignore[union-attr]
    assert result.failure is not None
    assert (result.failure.kind, result.text, inner.requests) == (
        FailureKind.FAILED,
        snapshot(
            "Not run: Limits(cost=5): the price of model 'qwen3' is not known. "
            "Pass it: `Limits(cost=5, prices={'qwen3': Price(...)})`, with `handrail.messages.Price`."
        ),
        [],
    )


def failed(usage: Usage) -> ModelError:
    error = ModelError("reset", "network")
    error.usage = usage
    return error


async def test_tokens_of_an_incomplete_reply_are_counted() -> None:
    """In a sub-agent too, and with those of all tries."""
    limits = Limits(cost=100, prices=ONE)
    tries = retrying(ScriptedModel(failed(MILLION), failed(MILLION)), tries=2, wait=0)
    others = fallback(ScriptedModel(failed(MILLION)), ScriptedModel(failed(MILLION)))
    for model in (tries, others):
        with pytest.raises(ModelError) as failure:
            await Agent(model, limits=limits).run("go")
        state = failure.value.state
        assert isinstance(state, RunState)
        assert (state.cost, state.usage.total) == (2, 2_000_000)

    scout = Agent(ScriptedModel(failed(MILLION))).as_tool("scout", "Look.")
    done = await Agent(by_turn(calls(TASK), says("done")), [scout], limits=limits).run("go")
    assert (done.state.cost, done.stop_reason) == (1, "answer")


async def test_summaries_are_counted() -> None:
    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            return Reply((Text("Summary."),), usage=MILLION)
        turns = sum(isinstance(one, ToolResults) for one in request.messages)
        summed = request.messages[0] != Prompt.of("go")
        return says("done") if summed else calls(look("x" * 300 + str(turns), "1"))

    limits = Limits(cost=100, prices=ONE)
    compaction = Compaction(window=200, keep_turns=1)
    done = await Agent(model, World().tools, limits=limits, compaction=compaction).run("go")

    assert (done.stop_reason, done.state.cost) == ("answer", 1)
