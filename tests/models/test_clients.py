"""Clients of models: what they send, how they read replies, and which connections stay open."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

import anyio
import pytest
from anthropic import AsyncAnthropic
from google.genai import Client
from openai import AsyncOpenAI

from handrail import READ, HandrailError, Toolset, tool
from handrail.messages import Model, Prompt, Reply, Request, StreamItem, api_name
from handrail.models import anthropic, gemini, openai_chat, openai_responses
from models.stage import Answer, provider
from models.talk import ANTHROPIC, APIS, CHAT, GEMINI, KEY, RESPONSES, Api, text_and_calls

# trio warns about what SDKs leave to the garbage collector; what handrail leaves fails the test
pytestmark = pytest.mark.filterwarnings(
    "ignore:Async generator '(anthropic|google|httpcore2|httpx2|openai):ResourceWarning"
)

every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


@tool(effect=READ)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


REQUEST = Request((Prompt.of("What is 1 + 2?"),), Toolset(add), "Be brief.", 99)
SHORT = Request((Prompt.of("What is 1 + 2?"),))


async def collected(model: Model, request: Request = REQUEST) -> list[StreamItem]:
    return [piece async for piece in cast("AsyncIterator[StreamItem]", model(request))]


async def answered(model: Model, request: Request = REQUEST) -> Reply:
    return await cast("Awaitable[Reply]", model(request))


@every_api
async def test_a_reply_is_streamed(api: Api) -> None:
    with provider(api.streamed()) as stage:
        pieces = await collected(api.model(stage.url))

    assert text_and_calls(pieces) == api.pieces


async def test_a_call_after_the_end_of_the_reply_is_streamed_too() -> None:
    """Some servers send the reason of the end before the last call."""
    first, text, one, two, end, usage, done = CHAT.events
    with provider(Answer.stream(first, text, end, one, two, usage, done)) as stage:
        pieces = await collected(CHAT.model(stage.url))

    assert text_and_calls(pieces) == CHAT.pieces


@every_api
async def test_a_reply_without_streaming(api: Api) -> None:
    with provider(Answer.plain(api.whole)) as stage:
        reply = await answered(api.model(stage.url, stream=False))

    assert reply == api.reply
    assert [one.path for one in stage.asked] == [api.whole_path]


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
ADD = {"name": "add", "description": "Add two numbers."}
MARK = {"cache_control": {"type": "ephemeral"}}
STATELESS = {"store": False, "include": ["reasoning.encrypted_content"]}
SENT: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "m-1",
        "stream": True,
        "max_tokens": 99,
        "system": [{"type": "text", "text": "Be brief.", **MARK}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is 1 + 2?", **MARK}]}
        ],
        "tools": [{**ADD, "input_schema": SCHEMA, "strict": True, **MARK}],
        "temperature": 0,
        "novelty": {"x": 1},
    },
    "openai_chat": {
        "model": "m-1",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 99,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is 1 + 2?"},
        ],
        "tools": [{"type": "function", "function": {**ADD, "parameters": SCHEMA, "strict": True}}],
        "temperature": 0,
        "novelty": {"x": 1},
    },
    "openai_responses": {
        "model": "m-1",
        "stream": True,
        "max_output_tokens": 99,
        **STATELESS,
        "instructions": "Be brief.",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "What is 1 + 2?"}],
            }
        ],
        "tools": [{"type": "function", **ADD, "parameters": SCHEMA, "strict": True}],
        "temperature": 0,
        "novelty": {"x": 1},
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "What is 1 + 2?"}]}],
        "tools": [{"functionDeclarations": [{**ADD, "parametersJsonSchema": SCHEMA}]}],
        "generationConfig": {"maxOutputTokens": 99},
        "temperature": 0,
        "novelty": {"x": 1},
    },
}


@every_api
async def test_a_request_has_the_providers_format_and_the_options(
    api: Api,
) -> None:
    with provider(api.streamed()) as stage:
        model = api.model(stage.url, options={"temperature": 0, "novelty": {"x": 1}})
        await collected(model)

    assert [(one.path, one.body) for one in stage.asked] == [(api.path, SENT[api.name])]


LEAST: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "m-1", "stream": True, "max_tokens": 4096},
    "openai_chat": {
        "model": "m-1",
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "openai_responses": {"model": "m-1", "stream": True, **STATELESS},
    "gemini": {"generationConfig": {}},
}


@every_api
async def test_a_request_has_no_extra_fields(api: Api) -> None:
    with provider(api.streamed()) as stage:
        await collected(api.model(stage.url), SHORT)

    [asked] = stage.asked
    messages = {"messages", "input", "contents"}
    assert {key: one for key, one in asked.body.items() if key not in messages} == LEAST[api.name]


LIMITS = {
    "anthropic": ("max_tokens",),
    "openai_chat": ("max_completion_tokens",),
    "openai_responses": ("max_output_tokens",),
    "gemini": ("generationConfig", "maxOutputTokens"),
}


@every_api
async def test_a_model_has_a_limit_for_requests_without_one(api: Api) -> None:
    with provider(api.streamed()) as stage:
        model = api.model(stage.url, max_tokens=5)
        await collected(model, SHORT)
        await collected(model)

    found = [one.body for one in stage.asked]
    for key in LIMITS[api.name]:
        found = [one[key] for one in found]
    assert found == [5, 99]


@every_api
async def test_names_that_an_api_rejects_are_restored(api: Api) -> None:
    dotted = tool(effect=READ, name="sums.add")(add.__wrapped__)
    named = f'"{api_name("sums.add")}"'.encode()
    answer = replace(api.streamed(), body=api.streamed().body.replace(b'"add"', named))
    with provider(answer) as stage:
        pieces = await collected(api.model(stage.url), REQUEST._replace(tools=Toolset(dotted)))

    names = stage.asked[0].body["tools"]
    assert "sums.add" not in str(names)
    assert [call.name for call in cast("Reply", pieces[-1]).calls] == ["sums.add"]


VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY")


@every_api
async def test_a_key_of_the_environment_is_not_sent_to_another_server(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)
    with provider(api.streamed()) as stage:
        await collected(api.model(stage.url))
        await collected(api.model(stage.url, key="k-of-this-server"))

    assert KEY not in str(stage.asked)
    shown = [one.headers[api.key_header].removeprefix("Bearer ") for one in stage.asked]
    assert shown == ["none", "k-of-this-server"]


@pytest.mark.parametrize("api", [ANTHROPIC, CHAT, RESPONSES], ids=lambda api: api.name)
async def test_headers_of_the_environment_are_not_sent_to_another_server(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    custom = f"X-Gateway: {KEY}\nauthorization: Bearer {KEY}\n no header\nx-api-key : {KEY}"
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", custom)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", custom)
    monkeypatch.setenv("OPENAI_ORG_ID", KEY)
    monkeypatch.setenv("OPENAI_PROJECT_ID", KEY)
    with provider(api.streamed()) as stage:
        await collected(api.model(stage.url, key="k-of-this-server"))

    [asked] = stage.asked
    assert KEY not in str(asked)
    assert asked.headers[api.key_header] == "Bearer k-of-this-server"
    named = ("x-gateway", "openai-organization", "openai-project")
    assert not any(name in asked.headers for name in named)


@pytest.mark.parametrize(
    ("api", "address", "named"),
    [
        (ANTHROPIC, "ANTHROPIC_BASE_URL", {"x-gateway": "ours"}),
        (
            CHAT,
            "OPENAI_BASE_URL",
            {"x-gateway": "ours", "openai-organization": "o-1", "openai-project": "p-1"},
        ),
    ],
    ids=["anthropic", "openai_chat"],
)
async def test_headers_of_the_environment_are_sent_to_its_own_address(
    api: Api, address: str, named: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{one}_API_KEY", KEY)
        monkeypatch.setenv(f"{one}_CUSTOM_HEADERS", "x-gateway: ours")
    monkeypatch.setenv("OPENAI_ORG_ID", "o-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "p-1")
    with provider(api.streamed()) as stage:
        monkeypatch.setenv(address, stage.url + api.root)
        await collected(api.make("m-1"))

    [asked] = stage.asked
    assert asked.headers == {**asked.headers, **named}


@every_api
async def test_closing_the_generator_closes_the_connection(api: Api) -> None:
    with provider(api.streamed("open", 3)) as stage:
        stream = cast("Any", api.model(stage.url)(REQUEST))
        async with aclosing(stream):
            first = await anext(stream)
        await anyio.to_thread.run_sync(stage.gone.wait, 20)

    assert first == api.pieces[0]
    assert stage.gone.is_set()


@every_api
async def test_cancelling_a_run_closes_the_connection(api: Api) -> None:
    with provider(api.streamed("open", 3)) as stage, anyio.CancelScope() as scope:
        async for _ in cast("AsyncIterator[StreamItem]", api.model(stage.url)(REQUEST)):
            scope.cancel()
    with anyio.fail_after(20):
        await anyio.to_thread.run_sync(stage.gone.wait, 20)

    assert stage.gone.is_set()


@every_api
async def test_the_connection_is_closed_before_the_reply(api: Api) -> None:
    """A caller that stops after the reply leaves nothing open."""
    with provider(api.streamed("unframed")) as stage:
        stream = cast("Any", api.model(stage.url)(REQUEST))
        async with aclosing(stream):
            while not isinstance(await anext(stream), Reply):
                pass
            assert stream.ag_frame.f_locals["events"].ag_frame is None


async def test_a_passed_client_is_used_and_stays_open() -> None:
    with provider(ANTHROPIC.streamed(), CHAT.streamed(), RESPONSES.streamed()) as stage:
        claude = AsyncAnthropic(base_url=stage.url, api_key="own")
        gpt = AsyncOpenAI(base_url=stage.url + "/v1", api_key="own")
        async with claude, gpt:
            replies = [
                (await collected(anthropic("m-1", client=claude)))[-1],
                (await collected(openai_chat("m-1", client=gpt)))[-1],
                (await collected(openai_responses("m-1", client=gpt)))[-1],
            ]
            closed = [claude.is_closed(), gpt.is_closed()]

    assert replies == [ANTHROPIC.reply, CHAT.reply, RESPONSES.reply]
    assert closed == [False, False]
    assert [one.headers["authorization"] for one in stage.asked] == ["Bearer own"] * 3


async def test_a_passed_google_client_is_used_and_stays_open() -> None:
    with provider(GEMINI.streamed()) as stage:
        client = Client(api_key="own", http_options={"base_url": stage.url})
        model = gemini("m-1", client=client)
        replies = [(await collected(model))[-1], (await collected(model))[-1]]
        await client.aio.aclose()

    assert replies == [GEMINI.reply] * 2
    assert [one.headers["x-goog-api-key"] for one in stage.asked] == ["own"] * 2


@pytest.mark.parametrize("more", [{"base_url": "http://x"}, {"key": "k"}])
def test_a_client_excludes_an_address_and_a_key(more: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="Pass either a client, or base_url and key"):
        openai_chat("m-1", client=AsyncOpenAI(api_key="own"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "package", "name"),
    [
        (anthropic, "anthropic", "Anthropic"),
        (openai_chat, "openai", "OpenAI"),
        (openai_responses, "openai", "OpenAI"),
        (gemini, "google", "Gemini"),
    ],
)
def test_a_missing_sdk_names_the_extra(
    make: Any, package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(HandrailError) as failure:
        make("m-1")

    assert str(failure.value) == (
        f"The SDK for {name} is not installed. Run: pip install 'handrail[{package}]'"
    )


def test_importing_loads_no_sdk() -> None:
    code = "import sys, handrail.models; print([n for n in %r if n in sys.modules])"
    packages = ["anthropic", "google.genai", "httpx2", "openai", "pydantic"]
    ran = subprocess.run(  # noqa: S603  our own code
        [sys.executable, "-c", code % packages], capture_output=True, encoding="utf-8", check=True
    )

    assert ran.stdout == "[]\n"
