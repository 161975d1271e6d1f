"""A model that says what a script says, and fails where the script and the run part ways."""

from __future__ import annotations

import pytest

from handrail import Call, HandrailError, Text, Toolset
from handrail.messages import Prompt, Reply, Request
from handrail.testing import OffScript, ScriptedModel

CALL = Call("look", "{}", "1")
REQUEST = Request((Prompt.of("go"),), Toolset())


def echo(request: Request) -> Reply:
    return Reply((Text(f"{len(request.messages)}"),), "refused")


async def test_a_step_is_words_a_call_both_a_reply_or_a_function() -> None:
    whole = Reply((Text("w"),), "length")
    with ScriptedModel("a", CALL, ["b", CALL], [], whole, echo) as model:
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
    with ScriptedModel(given, ["b", given], whole, lambda _: whole) as model:
        replies = [await model(REQUEST) for _ in range(4)]

    assert replies == [
        Reply((sent,), "calls"),
        Reply((Text("b"), sent), "calls"),
        Reply((Text("w"), sent), "calls"),
        Reply((Text("w"), sent), "calls"),
    ]


async def test_a_run_that_asks_for_more_than_the_script_has_fails() -> None:
    model = ScriptedModel("a")
    await model(REQUEST)

    with pytest.raises(OffScript, match="The run needs step 2, but the script has only 1"):
        await model(REQUEST)
    assert model.requests == [REQUEST]


async def test_a_script_of_which_steps_are_left_fails() -> None:
    with (
        pytest.raises(OffScript, match="1 of 2 steps of the script were not used"),
        ScriptedModel("a", "b") as model,
    ):
        await model(REQUEST)


def test_what_failed_before_is_not_hidden_by_steps_that_are_left() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedModel("a"):
        raise ZeroDivisionError


def test_being_off_script_fails_a_test_and_is_an_error_of_ours() -> None:
    assert issubclass(OffScript, HandrailError)
    assert issubclass(OffScript, AssertionError)
