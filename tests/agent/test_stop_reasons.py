"""A reply without calls is an answer, is continued, or ends the run with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from inline_snapshot import snapshot

from agent.stage import World, by_turn, calls, kinds, look, owed, says, streamed
from handrail import Call, Text, Toolset
from handrail.agent import Agent, dump_state, load_state
from handrail.messages import (
    Message,
    Model,
    Prompt,
    Reasoning,
    Reply,
    Request,
    RequiredTool,
    Stop,
    TruncatedCall,
)

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])


def stopped(text: str, stop: Stop, detail: str = "") -> Reply:
    return Reply((Text(text),) if text else (), stop, stop_detail=detail)


def prompts(messages: tuple[Message, ...]) -> list[str]:
    texts = [one.parts[0] for one in messages if isinstance(one, Prompt)]
    return [part.text for part in texts if isinstance(part, Text)][1:]


THOUGHT = Reply((Reasoning("hm"),), "length")
ENDINGS: dict[str, tuple[list[Reply], tuple[str, str, str], list[str]]] = {
    "refused": (
        [stopped("Par", "refused", "violence: not this")],
        ("refused", "Par", "violence: not this"),
        [],
    ),
    "refused, without a word": (
        [stopped("", "refused")],
        ("refused", "", "the model refused to answer"),
        [],
    ),
    "a full context window": (
        [stopped("Half", "overflow")],
        ("truncated", "Half", "the context window is full"),
        [],
    ),
    "continued": (
        [stopped("Half an ", "length"), stopped("answ", "length"), says("er.")],
        ("answer", "Half an answer.", ""),
        ["Your reply was truncated at the output limit. Continue exactly where it stopped."] * 2,
    ),
    "continued too often": (
        [stopped("a", "length"), stopped("b", "length"), stopped("c", "length")],
        ("truncated", "abc", "the reply reached the output limit"),
        ["Your reply was truncated at the output limit. Continue exactly where it stopped."] * 2,
    ),
    "only reasoning": (
        [THOUGHT, says("Short.")],
        ("answer", "Short.", ""),
        ["Your reply reached the output limit before it had an answer. Answer briefly."],
    ),
    "paused": (
        [stopped("Searching. ", "paused"), stopped("Reading. ", "paused"), says("Found.")],
        ("answer", "Searching. Reading. Found.", ""),
        [],
    ),
    "empty once": (
        [stopped("", "end"), says("Here.")],
        ("answer", "Here.", ""),
        ["Your reply was empty. Answer, or call a tool."],
    ),
    "always empty": (
        [stopped(" ", "end")] * 3,
        ("empty", " ", "the model sent an empty reply"),
        ["Your reply was empty. Answer, or call a tool."] * 2,
    ),
    "an invalid call": (
        [stopped("", "malformed", "print(look('a'))"), says("Here.")],
        ("answer", "Here.", ""),
        ["Your reply could not be used. Send it again. print(look('a'))"],
    ),
    "always an invalid call": (
        [stopped("", "malformed")] * 3,
        ("empty", "", "the model sent an invalid tool call"),
        ["Your reply could not be used. Send it again. the model sent an invalid tool call"] * 2,
    ),
}


@WAYS
@pytest.mark.parametrize("case", ENDINGS)
async def test_a_run_ends_with_the_reason(wrap: Callable[[Model], Model], case: str) -> None:
    replies, ending, asked = ENDINGS[case]

    done = await Agent(wrap(by_turn(*replies)), Toolset()).run("go")

    assert (done.stop_reason, done.text, done.stop_detail) == ending
    assert prompts(done.state.messages) == asked
    owed(done.state.transcript())
    assert load_state(dump_state(done.state)) == done.state


async def test_a_refusal_is_not_argued_with() -> None:
    done = await Agent(by_turn(stopped("No.", "refused")), Toolset(), output=int).run("go")

    assert (done.stop_reason, done.output, done.state.turns) == ("refused", None, 1)


@WAYS
async def test_a_typed_answer_is_required_after_text_and_given_up_in_the_end(
    wrap: Callable[[Model], Model],
) -> None:
    seen: list[Request] = []

    async def model(request: Request) -> Reply:
        seen.append(request)
        return says("It is warm.")

    done = await Agent(wrap(model), Toolset(), output=int, retries=1).run("How warm?")

    assert (done.stop_reason, done.output, done.stop_detail) == (
        "invalid",
        None,
        snapshot("the model did not call final_answer"),
    )
    assert [request.tool_choice for request in seen] == ["auto", RequiredTool("final_answer")]
    owed(done.state.transcript())


async def test_invalid_typed_answers_are_given_up_unless_the_model_works_in_between() -> None:
    world = World()
    wrong = calls(Call("final_answer", '{"answer": "warm"}', "f"))
    worked = [wrong, wrong, calls(look("a", "1")), wrong, wrong, wrong]

    done: Any = await Agent(by_turn(*worked), world.tools, output=int).run("How warm?")

    assert (done.stop_reason, done.stop_detail) == (
        "invalid",
        snapshot("the model gave no valid final answer"),
    )
    assert kinds(done.state.messages) == ["bad_args", "bad_args", "seen a", *["bad_args"] * 3]


async def test_calls_that_are_always_truncated_are_given_up() -> None:
    world = World()
    half = Reply((TruncatedCall("put", "1"),), "length")

    done = await Agent(by_turn(half, half, half), world.tools).run("go")

    assert (done.stop_reason, done.stop_detail) == (
        "truncated",
        snapshot("every reply reached the output limit"),
    )
    owed(done.state.transcript())


async def test_without_retries_the_first_reply_ends_the_run() -> None:
    done = await Agent(by_turn(stopped("Half", "length")), Toolset(), retries=0).run("go")

    assert (done.stop_reason, done.text) == ("truncated", "Half")
