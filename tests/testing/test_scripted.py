"""A model that says what a script says, and fails where the script and the run part ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import pytest
from anyio.lowlevel import checkpoint
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from handrail import (
    Call,
    CheckedCall,
    Context,
    HandrailError,
    Hook,
    StopRun,
    Text,
    Toolset,
    Turn,
    tool,
)
from handrail.agent import Agent
from handrail.messages import (
    ArgsDelta,
    Delta,
    ModelError,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    Request,
    StreamItem,
    Usage,
)
from handrail.models import retrying
from handrail.testing import OffScript, ScriptedModel


async def read(answer: Awaitable[Reply] | AsyncIterator[StreamItem]) -> list[StreamItem]:
    """Return everything that a model sends."""
    if isinstance(answer, AsyncIterator):
        return [item async for item in answer]
    return [await answer]


CALL = Call("look", "{}", "1")
REQUEST = Request((Prompt.of("go"),), Toolset())


def echo(request: Request) -> Reply:
    return Reply((Text(f"{len(request.messages)}"),), "refused")


async def test_a_step_is_words_a_call_both_a_reply_or_a_function() -> None:
    whole = Reply((Text("w"),), "length")
    with ScriptedModel("a", CALL, ["b", CALL], [], whole, echo, stream=False) as model:
        replies = [await model(REQUEST) for _ in range(6)]

    assert replies == [
        Reply((Text("a"),), "end"),
        Reply((CALL,), "calls"),
        Reply((Text("b"), CALL), "calls"),
        Reply((), "end"),
        whole,
        Reply((Text("1"),), "refused"),
    ]
    assert model.requests == [REQUEST] * 6


async def test_arguments_are_sent_as_json_text_as_models_send_them() -> None:
    given = Call("add", {"a": 1, "b": ["é"]}, "1")
    sent = Call("add", '{"a": 1, "b": ["é"]}', "1")
    whole = Reply((Text("w"), given), "calls")
    with ScriptedModel(given, ["b", given], whole, lambda _: whole, stream=False) as model:
        replies = [await model(REQUEST) for _ in range(4)]

    assert replies == [
        Reply((sent,), "calls"),
        Reply((Text("b"), sent), "calls"),
        Reply((Text("w"), sent), "calls"),
        Reply((Text("w"), sent), "calls"),
    ]


async def test_a_streamed_reply_comes_in_pieces_as_those_of_providers_do() -> None:
    call = Call("add", {"numbers": [1, 2, 3]}, "1")
    unread = Opaque('{"type": "search"}', "anthropic")
    thought = Reply((Reasoning("Hm, so."), unread, Text("Let me\nsee. ")), "end")
    with ScriptedModel(["Let me add.", call], thought, stream=True) as model:
        first, second = [await read(model(REQUEST)) for _ in range(2)]

    sent = Call("add", '{"numbers": [1, 2, 3]}', "1")
    assert first == [
        *(Delta(word) for word in ("Let", " me", " add.")),
        ArgsDelta("1", "add", '{"numbers": [1, '),
        ArgsDelta("1", "add", "2, 3]}"),
        sent,
        Reply((Text("Let me add."), sent), "calls"),
    ]
    assert second == [
        *(Delta(word, thought=True) for word in ("Hm,", " so.")),
        *(Delta(word) for word in ("Let", " me", "\nsee.", " ")),
        thought,
    ]


async def test_a_call_can_end_before_the_next_one_of_its_reply_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it shows whether a hook that ends the run also stops the calls that are late."""
    monkeypatch.setattr(Turn, "is_closed", property(lambda _: False, lambda *_: None))
    paid: list[str] = []

    @tool
    async def pay(context: Context) -> str:
        """Pay."""
        paid.append(context.call_id)
        return "paid"

    async def stop(call: CheckedCall) -> CheckedCall:
        await checkpoint()
        if call.id == "1":
            raise StopRun("Enough.")
        return call

    for stream in (True, False):
        model = ScriptedModel([Call("pay", {}, "1"), Call("pay", {}, "2")], stream=stream)
        await Agent(model, [pay], hooks=[Hook(before=stop)]).run("go")

    assert paid == ["2"]  # without the closed state, and only where calls arrive one by one


@pytest.mark.parametrize("stream", [False, True])
async def test_an_exception_is_raised_and_the_script_continues(*, stream: bool) -> None:
    busy = ModelError("Too many requests.", "rate_limited", retry_after=2.0)
    with ScriptedModel(busy, lambda _: busy, "Done.", stream=stream) as model:
        for _ in range(2):
            with pytest.raises(ModelError) as error:
                await read(model(REQUEST))
            assert error.value is busy
        last = (await read(model(REQUEST)))[-1]

    assert last == Reply((Text("Done."),), "end")


async def test_a_reply_has_the_usage_of_the_script_or_its_own() -> None:
    own = Reply((Text("b"),), usage=Usage(input_tokens=7))
    with ScriptedModel("a", own, usage=Usage(input_tokens=1, output_tokens=2)) as model:
        done = await Agent(model).run("go")
        done = await Agent(model).run("go", history=done.state)

    assert done.state.usage == Usage(input_tokens=8, output_tokens=2)


async def test_a_run_survives_a_model_that_fails_while_it_streams() -> None:
    """As users test it: through an agent, with a model that retries."""

    def fine() -> str:
        """Look."""
        return "fine"

    busy = ModelError("Too many requests.", "rate_limited", retry_after=0.0)
    with ScriptedModel(busy, Call("fine", {}, "1"), busy, "It is fine.", stream=True) as model:
        done = await Agent(retrying(model), [fine]).run("How is it?")

    assert (done.stop_reason, done.output) == ("answer", "It is fine.")


async def test_a_run_that_asks_for_more_than_the_script_has_fails() -> None:
    model = ScriptedModel("a")
    await read(model(REQUEST))

    with pytest.raises(OffScript, match="The run needs step 2, but the script has only 1"):
        await read(model(REQUEST))
    assert model.requests == [REQUEST]


async def test_a_script_of_which_steps_are_left_fails() -> None:
    with (
        pytest.raises(OffScript, match="1 of 2 steps of the script were not used"),
        ScriptedModel("a", "b") as model,
    ):
        await read(model(REQUEST))


def test_what_failed_before_is_not_hidden_by_steps_that_are_left() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedModel("a"):
        raise ZeroDivisionError


def test_being_off_script_fails_a_test_and_is_an_error_of_ours() -> None:
    assert issubclass(OffScript, HandrailError)
    assert issubclass(OffScript, AssertionError)


class Verdict(BaseModel):
    sound: bool
    since: date = Field(alias="from")


@dataclass
class Point:
    x: int
    y: int


class Pair(NamedTuple):
    first: int
    second: str


class Size(TypedDict):
    width: int


@pytest.mark.parametrize(
    ("output", "step", "answer"),
    [
        (Verdict, Verdict(sound=True, **{"from": date(2026, 1, 2)}), None),
        (Point, Point(1, 2), None),
        (Pair, Pair(1, "b"), None),
        (Size, {"width": 3}, None),
        (int, 5, None),
        (bool, True, None),
        (Verdict, lambda _: Verdict(sound=False, **{"from": date(2026, 1, 2)}), "function"),
    ],
    ids=["model", "dataclass", "tuple", "mapping", "int", "bool", "function"],
)
async def test_a_step_can_be_a_value_of_the_output_type(
    output: type[Any], step: Any, answer: Any
) -> None:
    with ScriptedModel("Let me think.", step) as model:
        result = await Agent(model, output=output).run("go")

    expected = step if answer is None else Verdict(sound=False, **{"from": date(2026, 1, 2)})
    assert (result.stop_reason, result.output) == ("answer", expected)
    assert result.unwrap() == expected


async def test_an_answer_of_another_type_is_refused_like_any_other() -> None:
    model = ScriptedModel(Point(1, 2), Verdict(sound=True, **{"from": date(2026, 1, 2)}))

    result = await Agent(model, output=Verdict).run("go")

    assert result.unwrap().sound is True
    assert len(model.requests) == 2


async def test_an_answer_where_the_run_expects_text_says_what_to_write() -> None:
    with pytest.raises(OffScript) as refused:
        await Agent(ScriptedModel(Point(1, 2))).run("go")

    assert str(refused.value) == (
        "In the script, step 1 is an answer of type Point, but the run expects text. Pass the type "
        "to the agent: `Agent(..., output=Point)`."
    )


WRONG: list[tuple[Any, str]] = [
    (None, "a NoneType"),
    (Point, "the class Point"),
    (ModelError, "the class ModelError"),
    (Prompt.of("hi"), "a Prompt"),
    ([1], "a list with a int in it"),
    (["a", Point(1, 2)], "a list with a Point in it"),
    (object(), "a object"),
]


@pytest.mark.parametrize(("step", "what"), WRONG, ids=[what for _, what in WRONG])
async def test_a_step_of_a_wrong_type_is_refused_when_the_script_is_made(
    step: Any, what: str
) -> None:
    rest = (
        "Use text, a Call, a list of both, a Reply, an exception, a function that returns one of "
        "these, or an instance of the agent's output type."
    )
    with pytest.raises(TypeError) as refused:
        ScriptedModel("fine", step)
    with pytest.raises(TypeError) as returned:
        await Agent(ScriptedModel(lambda _: step)).run("go")

    assert str(refused.value) == f"Step 2 of the script is {what}. {rest}"
    assert str(returned.value) == f"What step 1 of the script returned is {what}. {rest}"
