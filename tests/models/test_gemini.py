"""Google's client and a server made of the SDK's own types: a run, over both of its ways to call."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64decode
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from google.genai import types
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from handrail import READ, Call, Image, Toolset, tool
from handrail.agent import Agent
from handrail.messages import Prompt, Reasoning, Reply, Request, StreamItem
from handrail.models import gemini
from models.stage import Answer, Asked, provider

pytestmark = pytest.mark.filterwarnings(
    "ignore:Async generator '(google|httpcore2|httpx2):ResourceWarning"
)

DOT = bytes.fromhex("89504e470d0a1a0a")


@tool(effect=READ)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect=READ)
def look() -> Image:
    """Look around."""
    return Image(DOT, "image/png")


class Body(BaseModel):
    """The body of a request, validated by the types of the SDK. Unknown keys are rejected."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    contents: list[types.Content]
    system_instruction: types.Content | None = None
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None
    generation_config: types.GenerationConfig | None = None


def read(asked: Asked) -> Body:
    """A request as the provider's types understand it."""
    return Body.model_validate_json(json.dumps(asked.body))


def answer_of(*responses: types.GenerateContentResponse) -> Answer:
    """A stream of responses, each as the SDK writes it."""
    plain = (one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in responses)
    return Answer.stream(*plain)


def response_of(*parts: types.Part, end: bool = False) -> types.GenerateContentResponse:
    finish = types.FinishReason.STOP if end else None
    content = types.Content(role="model", parts=list(parts))
    candidate = types.Candidate(content=content, finish_reason=finish)
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=20,
        cached_content_token_count=5,
        candidates_token_count=3,
        thoughts_token_count=4,
    )
    return types.GenerateContentResponse(
        candidates=[candidate], usage_metadata=usage, model_version="gemini-x", response_id="r1"
    )


def called(name: str, call_id: str | None, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


SEAL = b"\xfb\xff sealed"


@pytest.mark.parametrize("ids", [("c1", "c2"), (None, None), ("same", "same")])
async def test_a_run_with_calls_with_and_without_ids(ids: tuple[str | None, ...]) -> None:
    first = types.Part(text="Hm.", thought=True)
    signed = called("add", ids[0], a=2, b=3).model_copy(update={"thought_signature": SEAL})
    turns = (
        answer_of(
            response_of(first),
            response_of(signed, called("look", ids[1])),
            response_of(end=True),
        ),
        answer_of(
            response_of(types.Part(text="It is ")), response_of(types.Part(text="5."), end=True)
        ),
    )
    with provider(*turns) as stage:
        model = gemini("gemini-x", base_url=stage.url, options={"toolConfig": {}})
        agent = Agent(model, Toolset(add, look), system="Be brief.", max_tokens=64)
        done = await agent.run("What is 2 plus 3?")

    one, two = map(read, stage.asked)
    assert (done.stop_reason, done.text, done.state.calls) == ("answer", "It is 5.", 2)
    assert (
        done.state.usage.input_tokens,
        done.state.usage.output_tokens,
        done.state.usage.cached_tokens,
    ) == (
        40,
        14,
        10,
    )
    assert one.system_instruction == types.Content(parts=[types.Part(text="Be brief.")])
    assert one.generation_config == types.GenerationConfig(max_output_tokens=64)
    assert [tool.name for tool in (one.tools or [])[0].function_declarations or []] == [
        "add",
        "look",
    ]
    prompt, asked, results = two.contents
    assert prompt.role == "user"
    made = [part.function_call for part in asked.parts or [] if part.function_call]
    answers = [part.function_response for part in results.parts or []]
    assert [(call.name, call.args) for call in made] == [("add", {"a": 2, "b": 3}), ("look", {})]
    assert len({call.id for call in made}) == 2
    assert [one and one.id for one in answers] == [call.id for call in made]
    assert [one and one.name for one in answers] == ["add", "look"]
    assert answers[0]
    assert answers[0].response == {"output": "5"}
    assert answers[1]
    assert answers[1].parts


async def test_a_signature_is_returned_unchanged() -> None:
    signed = called("add", "c1", a=2, b=3).model_copy(update={"thought_signature": SEAL})
    turns = (
        answer_of(response_of(signed, end=True)),
        answer_of(response_of(types.Part(text="5."), end=True)),
    )
    with provider(*turns) as stage:
        done = await Agent(gemini("gemini-x", base_url=stage.url), Toolset(add)).run("2 + 3?")

    sent = stage.asked[1].body["contents"][1]["parts"]
    reply = cast("Reply", done.state.messages[1])
    assert [type(part) for part in reply.parts] == [Reasoning, Call]
    assert [urlsafe_b64decode(part["thoughtSignature"]) for part in sent] == [SEAL]


async def test_a_blocked_request_is_a_refusal() -> None:
    blocked = types.GenerateContentResponse(
        prompt_feedback=types.GenerateContentResponsePromptFeedback(
            block_reason=types.BlockedReason.SAFETY
        )
    )
    with provider(answer_of(blocked)) as stage:
        model = gemini("gemini-x", base_url=stage.url)
        stream = cast("AsyncIterator[StreamItem]", model(Request((Prompt.of("Something bad."),))))
        pieces = [piece async for piece in stream]

    assert pieces == [Reply((), "refused")]


async def test_images_are_sent_unchanged() -> None:
    with provider(answer_of(response_of(types.Part(text="A dot."), end=True))) as stage:
        model = gemini("gemini-x", base_url=stage.url)
        history = (Prompt.of("What is this?", Image(DOT, "image/png")),)
        async for _ in cast("AsyncIterator[StreamItem]", model(Request(history))):
            pass

    sent = stage.asked[0].body["contents"][0]["parts"][1]["inlineData"]
    assert sent == {"mimeType": "image/png", "data": b64encode(DOT).decode()}


def test_the_check_of_requests_can_fail() -> None:
    good = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}

    assert read(Asked("", {}, good))
    for bad in (
        {**good, "novelty": 1},
        {"contents": [{"role": "user", "parts": [{"word": "x"}]}]},
        {**good, "tools": [{"functionDeclarations": [{"title": "x"}]}]},
    ):
        with pytest.raises(ValidationError):
            read(Asked("", {}, bad))
