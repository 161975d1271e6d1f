"""A typed answer by the API's own schema, and by a tool where that is not possible."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from handrail import READ, tool
from handrail.agent import Agent, RunResult
from handrail.messages import Reply
from models.dialects import chunk
from models.stage import Answer, Stage, provider
from models.talk import ANTHROPIC, APIS, CHAT, GEMINI, Api

every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
NAMED = {"name": "final_answer", "schema": SCHEMA, "strict": True}
FORMATS: dict[str, dict[str, Any]] = {
    "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "openai_chat": {"response_format": {"type": "json_schema", "json_schema": NAMED}},
    "openai_responses": {"text": {"format": {"type": "json_schema", **NAMED}}},
    "gemini": {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    },
}


@pytest.fixture
def anyio_backend() -> str:
    """The loops do not differ in what is sent."""
    return "asyncio"


@tool(effect=READ)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def said(api: Api, text: str) -> Answer:
    """An answer of text."""
    return Answer.plain(
        {
            "anthropic": {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"},
            "openai_chat": _chat({"content": text}, "stop"),
            "openai_responses": {
                "status": "completed",
                "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
            },
            "gemini": {
                "candidates": [
                    {
                        "content": {"role": "model", "parts": [{"text": text}]},
                        "finishReason": "STOP",
                    }
                ]
            },
        }[api.name]
    )


def _chat(message: dict[str, Any], finish: str) -> dict[str, Any]:
    whole = {"role": "assistant", **message}
    return {"choices": [{"index": 0, "message": whole, "finish_reason": finish}]}


def called(answer: object) -> Answer:
    """A call of the tool that takes the answer, in Chat Completions."""
    function = {"name": "final_answer", "arguments": json.dumps({"answer": answer})}
    return Answer.plain(
        _chat(
            {"tool_calls": [{"id": "c1", "type": "function", "function": function}]}, "tool_calls"
        )
    )


async def ask(
    api: Api, *answers: Answer, tools: Any = (), output: Any = int, **options: Any
) -> tuple[RunResult[Any], list[dict[str, Any]]]:
    """Run an agent with a native output, and return its result and the bodies."""
    settings = {"output": "native", "stream": False, **options}
    with provider(*answers) as stage:
        async with cast("Any", api.model(stage.url, **settings)) as model:
            result = await Agent(model, tools, output=output).run("How many?")
    return result, bodies(stage)


def bodies(stage: Stage) -> list[dict[str, Any]]:
    return [one.body for one in stage.asked]


def names(body: dict[str, Any]) -> list[str]:
    nested = [one.get("functionDeclarations", [one]) for one in body.get("tools", [])]
    return [one.get("function", one)["name"] for several in nested for one in several]


def formats(api: Api, body: dict[str, Any]) -> dict[str, Any]:
    return {name: body.get(name) for name in FORMATS[api.name]}


@every_api
async def test_the_schema_of_the_answer_replaces_its_tool(api: Api) -> None:
    result, [body] = await ask(api, said(api, '{"answer": 12}'))

    assert (result.stop_reason, result.unwrap()) == ("answer", 12)
    assert formats(api, body) == FORMATS[api.name]
    assert body.keys().isdisjoint({"tools", "tool_choice", "toolConfig"})


@every_api
async def test_the_tool_is_the_default(api: Api) -> None:
    with provider(said(api, "12")) as stage:
        async with cast("Any", api.model(stage.url, stream=False)) as model:
            result = await Agent(model, output=int, retries=0).run("How many?")

    [body] = bodies(stage)
    assert result.stop_reason == "invalid"
    assert names(body) == ["final_answer"]
    assert "json_schema" not in json.dumps(body).replace("parametersJsonSchema", "")


@every_api
async def test_other_tools_stay_and_gemini_gets_the_tool_beside_them(api: Api) -> None:
    _, [body, *_] = await ask(api, said(api, '{"answer": 12}'), tools=[add])

    native = api is not GEMINI
    assert names(body) == (["add"] if native else ["add", "final_answer"])
    assert (formats(api, body) == FORMATS[api.name]) is native


async def test_an_invalid_answer_is_corrected_with_the_tool() -> None:
    result, [first, second] = await ask(CHAT, said(CHAT, '{"answer": "many"}'), called(12))

    assert result.unwrap() == 12
    assert (names(first), names(second)) == ([], ["final_answer"])
    assert "response_format" not in second
    [told] = [one for one in second["messages"] if one["role"] == "tool"]
    assert "answer" in told["content"]


@pytest.mark.parametrize(
    "text", ["There are 12.", "[12]", '{"answer": 12', ""], ids=["text", "list", "cut", "empty"]
)
async def test_text_that_is_not_an_object_is_no_answer(text: str) -> None:
    result, [first, second] = await ask(CHAT, said(CHAT, text), called(12))

    assert (result.unwrap(), names(first), names(second)) == (12, [], ["final_answer"])


async def test_a_reply_that_was_cut_off_is_no_answer() -> None:
    cut = Answer.plain(_chat({"content": '{"answer": 12}'}, "length"))

    result, [_, second, *_] = await ask(CHAT, cut, called(12))

    assert (result.unwrap(), names(second)) == (12, ["final_answer"])


async def test_options_of_the_user_and_schemas_that_are_not_enforced_keep_the_tool() -> None:
    own = {"response_format": {"type": "text"}}
    chosen, [first] = await ask(CHAT, called(12), options=own)
    loose, [second] = await ask(CHAT, called({"a": 1}), output=dict[str, Any])

    assert (chosen.unwrap(), loose.unwrap()) == (12, {"a": 1})
    assert (names(first), names(second)) == (["final_answer"], ["final_answer"])
    assert (first["response_format"], second.get("response_format")) == ({"type": "text"}, None)


async def test_a_second_prompt_after_an_answer_uses_the_tool_if_there_is_no_other() -> None:
    answers = said(CHAT, '{"answer": 12}'), called(13)
    with provider(*answers) as stage:
        async with cast("Any", CHAT.model(stage.url, output="native", stream=False)) as model:
            agent = Agent(model, output=int)
            first = await agent.run("How many?")
            second = await agent.run("And now?", history=first.state)

    assert (first.unwrap(), second.unwrap()) == (12, 13)
    assert [names(body) for body in bodies(stage)] == [[], ["final_answer"]]
    reply = first.state.messages[1]
    assert isinstance(reply, Reply)
    assert (reply.text, [call.name for call in reply.calls]) == (
        '{"answer": 12}', ["final_answer"],
    )  # fmt: skip


async def test_with_other_tools_a_second_prompt_asks_natively_again() -> None:
    with provider(said(CHAT, '{"answer": 12}'), said(CHAT, '{"answer": 13}')) as stage:
        async with cast("Any", CHAT.model(stage.url, output="native", stream=False)) as model:
            agent = Agent(model, [add], output=int)
            first = await agent.run("How many?")
            second = await agent.run("And now?", history=first.state)

    assert second.unwrap() == 13
    assert [names(body) for body in bodies(stage)] == [["add"], ["add"]]


async def test_a_streamed_answer_is_read_too() -> None:
    pieces = [chunk({"content": '{"ans'}), chunk({"content": 'wer": 12}'}), chunk({}, "stop")]
    with provider(Answer.stream(*pieces, "[DONE]")) as stage:
        async with cast("Any", CHAT.model(stage.url, output="native")) as model:
            result = await Agent(model, output=int).run("How many?")

    assert (result.unwrap(), len(stage.asked)) == (12, 1)


async def test_the_mark_for_the_cache_moves_to_the_last_tool() -> None:
    _, [body, *_] = await ask(ANTHROPIC, said(ANTHROPIC, '{"answer": 1}'), tools=[add])

    assert [(one["name"], "cache_control" in one) for one in body["tools"]] == [("add", True)]


@every_api
def test_another_word_is_refused(api: Api) -> None:
    with pytest.raises(ValueError, match="output='json': must be 'native' or 'tool'"):
        api.model("http://127.0.0.1", output="json")


async def test_a_request_without_a_typed_answer_is_unchanged() -> None:
    with provider(said(CHAT, "Hello.")) as stage:
        async with cast("Any", CHAT.model(stage.url, output="native", stream=False)) as model:
            result = await Agent(model, [add]).run("Hi.")

    assert (result.unwrap(), names(stage.asked[0].body)) == ("Hello.", ["add"])
