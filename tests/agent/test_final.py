"""A typed final answer: taken from a call, checked like any other argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from inline_snapshot import snapshot

from agent.stage import World, by_turn, calls, kinds, look, owed, put, says, streamed
from handrail import Allow, Ask, Call, DuplicateName, Executor, Kind, Result, Toolset, tool
from handrail.agent import Agent, Done, Limits, State
from handrail.approvals import defer
from handrail.messages import Model, Prompt, Request, Results
from handrail.testing import ScriptedModel

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
TAKEN = "The answer was taken."


@dataclass
class Weather:
    """What the weather is like."""

    city: str
    degrees: float


def final(answer: str, call_id: str = "f") -> Call:
    return Call("final_answer", f'{{"answer": {answer}}}', call_id)


PARIS = final('{"city": "Paris", "degrees": 21.5}')


@WAYS
async def test_the_answer_has_the_type_that_was_asked_for(wrap: type[Model]) -> None:
    world = World()
    seen: list[Request] = []

    async def model(request: Request) -> Any:
        seen.append(request)
        return await by_turn(calls(look("sky", "1")), calls("So:", PARIS))(request)

    done = await Agent(wrap(model), world.tools, output=Weather).run("How is it in Paris?")

    assert done == Done(
        stop="answer",
        output=Weather("Paris", 21.5),
        state=State(
            messages=(
                Prompt.of("How is it in Paris?"),
                calls(look("sky", "1")),
                Results((Result("1", "seen sky"),)),
                calls("So:", PARIS),
                Results((Result("f", TAKEN),)),
            ),
            turns=2,
            calls=2,
        ),
    )
    owed(done.state.transcript())
    spec = seen[0].tools["final_answer"].spec
    assert [one.spec.name for one in seen[0].tools] == ["fill", "final_answer", "look", "put"]
    assert spec.description == snapshot(
        "Give the final answer. Call this once, when all else is done: it ends the run."
    )
    assert spec.input_schema["required"] == ["answer"]


@WAYS
async def test_a_wrong_answer_is_refused_in_words_and_the_model_tries_again(
    wrap: type[Model],
) -> None:
    model = by_turn(calls(final('"warm"')), calls(final("21")))

    done = await Agent(wrap(model), Toolset(), output=int).run("How warm?")

    assert (done.stop, done.output) == ("answer", 21)
    refused, taken = (one for one in done.state.messages if isinstance(one, Results))
    assert refused.results[0].failure is not None
    assert refused.results[0].failure.kind is Kind.BAD_ARGS
    assert refused.results[0].text == snapshot("""\
The arguments were refused and nothing was run.
- answer: expected an integer, got the string "warm"
Correct them and call again.\
""")
    assert taken == Results((Result("f", TAKEN),))
    owed(done.state.transcript())


async def test_an_answer_of_null_is_an_answer() -> None:
    done = await Agent(ScriptedModel(final("null")), Toolset(), output=type(None)).run("go")

    assert (done.stop, done.output) == ("answer", None)


@WAYS
async def test_words_alone_are_no_answer_and_the_model_is_reminded(wrap: type[Model]) -> None:
    model = by_turn(says("It is warm."), calls(final("21")))

    done = await Agent(wrap(model), Toolset(), output=int).run("How warm?")

    assert done.output == 21
    assert done.state.messages[2] == Prompt.of(
        "Give your answer by calling final_answer. Nothing else ends this."
    )
    owed(done.state.transcript())


async def test_a_model_that_never_gives_its_answer_meets_a_limit() -> None:
    model = by_turn(says("a"), says("b"))

    done = await Agent(model, Toolset(), output=int, limits=Limits(turns=2)).run("go")

    assert (done.stop, done.output) == ("limit", None)
    owed(done.state.transcript())


@WAYS
async def test_calls_beside_the_answer_are_run_and_of_two_answers_the_first_counts(
    wrap: type[Model],
) -> None:
    world = World()
    model = by_turn(calls(final('"x"', "0"), final("1", "1"), put("a", "2"), final("2", "3")))

    done = await Agent(wrap(model), world.tools, output=int).run("go")

    assert (done.output, world.did) == (1, ["put a"])
    assert kinds(done.state.messages) == ["bad_args", TAKEN, "put a", TAKEN]


async def test_a_run_that_has_its_answer_ends_with_it_again_from_any_state_that_was_saved() -> None:
    world, saved = World(), list[State]()

    async def save(state: State) -> None:
        saved.append(state)

    agent = Agent(by_turn(calls(look("a", "1"), final("5"))), world.tools, output=int, save=save)
    done = await agent.run("go")

    assert [await agent.resume(state) for state in list(saved)] == [done, done]
    assert done.output == 5


async def test_an_answer_beside_a_call_that_waits_ends_the_run_once_that_is_answered() -> None:
    world = World()
    model = by_turn(calls(put("a", "1"), final("5")))

    def policy(*_: Any) -> Ask:
        return Ask("May it?")

    async with Executor(world.tools, policy=policy, approver=defer) as executor:
        agent = Agent(model, executor, output=int)
        waiting = await agent.run("go")
        answers = {one.id: Allow() for one in waiting.state.pending}
        done = await agent.resume(waiting.state, answers=answers)

    assert (waiting.stop, waiting.output) == ("pending", None)
    assert (done.stop, done.output, world.did) == ("answer", 5, ["put a"])
    assert kinds(done.state.messages) == ["put a", TAKEN]


async def test_a_run_that_ended_with_an_answer_goes_on_with_another_prompt() -> None:
    agent = Agent(by_turn(calls(final("5")), calls(final("6"))), Toolset(), output=int)

    first = await agent.run("go")
    second = await agent.resume(first.state, "And now?")

    assert (first.output, second.output) == (5, 6)
    assert second.state.messages[3] == Prompt.of("And now?")


async def test_a_conversation_without_a_type_goes_on_with_one() -> None:
    talk = await Agent(ScriptedModel("It is warm."), Toolset()).run("How is it?")
    done = await Agent(ScriptedModel(final("21")), Toolset(), output=int).resume(talk.state)
    asked = State(messages=(*talk.state.messages, Prompt.of("In degrees?")))
    other = await Agent(ScriptedModel(final("21")), Toolset(), output=int).resume(asked)

    assert (done.output, other.output) == (21, 21)


async def test_a_tool_of_the_same_name_is_refused() -> None:
    @tool(name="final_answer")
    async def other() -> None:
        """Something else."""

    with pytest.raises(DuplicateName):
        await Agent(ScriptedModel("hi"), Toolset(other), output=int).run("go")
