"""A typed final answer: the argument of a call, validated like any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from inline_snapshot import snapshot

from agent.stage import ANY_RUN, World, by_turn, calls, kinds, look, owed, put, says, streamed
from handrail import Allow, Ask, Call, DuplicateName, Executor, FailureKind, Result, Toolset, tool
from handrail.agent import Agent, Compaction, Limits, RunResult, RunState, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import Model, Prompt, Request, ToolResults
from handrail.testing import ScriptedModel

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
TAKEN = "Answer accepted."
NOT_USED = "Not used: the first answer of this reply was accepted."


@dataclass
class Weather:
    """A weather report."""

    city: str
    degrees: float


def final(answer: str, call_id: str = "f") -> Call:
    return Call("final_answer", f'{{"answer": {answer}}}', call_id)


PARIS = final('{"city": "Paris", "degrees": 21.5}')


@WAYS
async def test_the_answer_has_the_output_type(wrap: type[Model]) -> None:
    world = World()
    seen: list[Request] = []

    async def model(request: Request) -> Any:
        seen.append(request)
        return await by_turn(calls(look("sky", "1")), calls("So:", PARIS))(request)

    done = await Agent(wrap(model), world.tools, output=Weather).run("How is it in Paris?")

    assert done == RunResult(
        stop_reason="answer",
        output=Weather("Paris", 21.5),
        state=RunState(
            messages=(
                Prompt.of("How is it in Paris?"),
                calls(look("sky", "1")),
                ToolResults((Result("1", "seen sky"),)),
                calls("So:", PARIS),
                ToolResults((Result("f", TAKEN),)),
            ),
            turns=2,
            calls=2,
            run_id=ANY_RUN,
        ),
    )
    owed(done.state.transcript())
    spec = seen[0].tools["final_answer"].spec
    assert [one.spec.name for one in seen[0].tools] == ["fill", "final_answer", "look", "put"]
    assert spec.description == snapshot(
        "Submit the final answer and end the run. Call it once, when everything else is done."
    )
    assert spec.input_schema["required"] == ["answer"]


@WAYS
async def test_an_invalid_answer_is_rejected_and_the_model_can_retry(
    wrap: type[Model],
) -> None:
    model = by_turn(calls(final('"warm"')), calls(final("21")))

    done = await Agent(wrap(model), Toolset(), output=int).run("How warm?")

    assert (done.stop_reason, done.output) == ("answer", 21)
    refused, taken = (one for one in done.state.messages if isinstance(one, ToolResults))
    assert refused.results[0].failure is not None
    assert refused.results[0].failure.kind is FailureKind.BAD_ARGS
    assert refused.results[0].text == snapshot("""\
Not run: invalid arguments.
- answer: expected an integer, got the string "warm"
Fix these and call again.\
""")
    assert taken == ToolResults((Result("f", TAKEN),))
    owed(done.state.transcript())


async def test_null_can_be_an_answer() -> None:
    done = await Agent(ScriptedModel(final("null")), Toolset(), output=type(None)).run("go")

    assert (done.stop_reason, done.output) == ("answer", None)


@WAYS
async def test_text_is_not_a_typed_answer_and_the_model_is_reminded(wrap: type[Model]) -> None:
    model = by_turn(says("It is warm."), calls(final("21")))

    done = await Agent(wrap(model), Toolset(), output=int).run("How warm?")

    assert done.output == 21
    assert done.state.messages[2] == Prompt.of(
        "Call final_answer with your answer. Only that ends the run."
    )
    owed(done.state.transcript())


async def test_a_model_that_never_answers_reaches_a_limit() -> None:
    model = by_turn(says("a"), says("b"))

    done = await Agent(model, Toolset(), output=int, limits=Limits(turns=2)).run("go")

    assert (done.stop_reason, done.output) == ("limit", None)
    owed(done.state.transcript())


@WAYS
async def test_other_calls_run_and_the_first_of_two_answers_is_used(
    wrap: type[Model],
) -> None:
    world = World()
    model = by_turn(calls(final('"x"', "0"), final("1", "1"), put("a", "2"), final("2", "3")))

    done = await Agent(wrap(model), world.tools, output=int).run("go")

    assert (done.output, world.did) == (1, ["put a"])
    assert kinds(done.state.messages) == ["bad_args", TAKEN, "put a", NOT_USED]


async def test_a_run_with_an_answer_ends_with_it_from_any_saved_state() -> None:
    world, saved = World(), list[RunState]()

    async def save(state: RunState) -> None:
        saved.append(state)

    agent = Agent(by_turn(calls(look("a", "1"), final("5"))), world.tools, output=int, save=save)
    done = await agent.run("go")

    assert [await agent.resume(state) for state in list(saved)] == [done, done]
    assert done.output == 5


async def test_an_answer_with_a_pending_call_ends_the_run_after_approval() -> None:
    world = World()
    model = by_turn(calls(put("a", "1"), final("5")))

    def policy(*_: Any) -> Ask:
        return Ask("May it?")

    async with Executor(world.tools, policy=policy, approvals=defer) as executor:
        agent = Agent(model, executor, output=int)
        waiting = await agent.run("go")
        answers = {one.id: Allow() for one in waiting.state.pending}
        done = await agent.resume(waiting.state, answers=answers)

    assert (waiting.stop_reason, waiting.output) == ("pending", None)
    assert (done.stop_reason, done.output, world.did) == ("answer", 5, ["put a"])
    assert kinds(done.state.messages) == ["put a", TAKEN]


async def test_a_run_with_an_answer_continues_with_another_prompt() -> None:
    agent = Agent(by_turn(calls(final("5")), calls(final("6"))), Toolset(), output=int)

    first = await agent.run("go")
    second = await agent.resume(first.state, "And now?")

    assert (first.output, second.output) == (5, 6)
    assert second.state.messages[3] == Prompt.of("And now?")


async def test_an_untyped_conversation_continues_with_a_type() -> None:
    talk = await Agent(ScriptedModel("It is warm."), Toolset()).run("How is it?")
    done = await Agent(ScriptedModel(final("21")), Toolset(), output=int).resume(talk.state)
    asked = RunState(messages=(*talk.state.messages, Prompt.of("In degrees?")))
    other = await Agent(ScriptedModel(final("21")), Toolset(), output=int).resume(asked)

    assert (done.output, other.output) == (21, 21)


@pytest.mark.parametrize(
    ("name", "options"),
    [("final_answer", {"output": int}), ("read_earlier", {"compaction": Compaction(window=9)})],
)
def test_a_tool_with_the_name_of_one_that_the_agent_adds_is_rejected(
    name: str, options: Any
) -> None:
    @tool(name=name)
    async def other() -> None:
        """Something else."""

    Agent(ScriptedModel("hi"), [other])
    with pytest.raises(DuplicateName, match=f"Two tools claim the name '{name}'"):
        Agent(ScriptedModel("hi"), [other], **options)


@WAYS
async def test_the_answer_can_be_read_from_a_state(wrap: type[Model]) -> None:
    agent = Agent(wrap(by_turn(calls(final("[]", "e"), PARIS))), Toolset(), output=Weather)
    plain = Agent(wrap(by_turn(says("Fine."))), Toolset())
    done, said = await agent.run("How is it?"), await plain.run("How is it?")

    assert agent.read_output(load_state(dump_state(done.state))) == Weather("Paris", 21.5)
    assert plain.read_output(said.state) == "Fine."
    assert (agent.read_output(said.state), agent.read_output(RunState())) == (None, None)
    assert plain.read_output(RunState()) is None
