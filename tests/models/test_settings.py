"""Settings that providers share, tools that they run, and options."""

from __future__ import annotations

from typing import Any, cast

import pytest

from handrail import READ, Toolset, tool
from handrail.messages import Prompt, Request, RequiredTool
from models.stage import Answer, provider
from models.talk import ANTHROPIC, APIS, CHAT, GEMINI, RESPONSES, Api


@pytest.fixture
def anyio_backend() -> str:
    """The loops do not differ in what is sent."""
    return "asyncio"


every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


@tool(effect=READ)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


PLAIN = Request((Prompt.of("Hi."),))
WITH_TOOLS = Request((Prompt.of("Hi."),), Toolset(add))


async def sent(api: Api, request: Request = WITH_TOOLS, **options: Any) -> dict[str, Any]:
    with provider(api.streamed()) as stage:
        async with cast("Any", api.model(stage.url, **options)) as model:
            async for _ in model(request):
                pass
    body: dict[str, Any] = stage.asked[0].body
    return body


def picked(body: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: body.get(name) for name in names}


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "anthropic": (
        {"temperature": 0.5, "stop": ("END",), "effort": "low", "parallel": False},
        {
            "temperature": 0.5,
            "stop_sequences": ["END"],
            "output_config": {"effort": "low"},
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        },
    ),
    "openai_chat": (
        {"temperature": 0.5, "stop": ("END",), "effort": "low", "parallel": False},
        {
            "temperature": 0.5,
            "stop": ["END"],
            "reasoning_effort": "low",
            "parallel_tool_calls": False,
        },
    ),
    "openai_responses": (
        {"temperature": 0.5, "effort": "low", "parallel": False, "store": True},
        {
            "temperature": 0.5,
            "reasoning": {"effort": "low"},
            "parallel_tool_calls": False,
            "store": True,
            "include": ["reasoning.encrypted_content"],
        },
    ),
    "gemini": (
        {"temperature": 0.5, "stop": ("END",), "effort": "low"},
        {
            "generationConfig": {
                "temperature": 0.5,
                "stopSequences": ["END"],
                "thinkingConfig": {"thinkingLevel": "low"},
            }
        },
    ),
}


@every_api
async def test_settings_have_the_same_name_for_every_provider(api: Api) -> None:
    settings, expected = SETTINGS[api.name]

    assert picked(await sent(api, **settings), *expected) == expected


@pytest.mark.parametrize(
    ("api", "field"), [(CHAT, "parallel_tool_calls"), (ANTHROPIC, "tool_choice")]
)
async def test_without_tools_nothing_is_said_about_calls(api: Api, field: str) -> None:
    assert field not in await sent(api, PLAIN, parallel=False)


CHOICES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "anthropic": (
        {"tool_choice": {"type": "none"}},
        {"tool_choice": {"type": "tool", "name": "add"}},
    ),
    "openai_chat": (
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "function": {"name": "add"}}},
    ),
    "openai_responses": (
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "name": "add"}},
    ),
    "gemini": (
        {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["add"]}}},
    ),
}


@every_api
async def test_the_choice_of_a_tool_has_the_providers_form(api: Api) -> None:
    none, one = CHOICES[api.name]
    required = RequiredTool("add")

    assert picked(await sent(api, WITH_TOOLS._replace(tool_choice="none")), *none) == none
    assert picked(await sent(api, WITH_TOOLS._replace(tool_choice=required)), *one) == one


async def test_the_limit_of_calls_keeps_the_choice_of_a_tool() -> None:
    none = await sent(ANTHROPIC, WITH_TOOLS._replace(tool_choice="none"), parallel=False)
    one = await sent(ANTHROPIC, WITH_TOOLS._replace(tool_choice=RequiredTool("add")), parallel=True)

    assert none["tool_choice"] == {"type": "none"}
    assert one["tool_choice"] == {"type": "tool", "name": "add", "disable_parallel_tool_use": False}


async def test_a_required_tool_is_not_sent_to_a_model_that_thinks() -> None:
    """The API refuses both together."""
    required = WITH_TOOLS._replace(tool_choice=RequiredTool("add"))
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}

    assert "tool_choice" not in await sent(ANTHROPIC, required, options=thinking)


MERGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "anthropic": (
        {"effort": "low", "options": {"output_config": {"format": {"type": "text"}}}},
        {"output_config": {"effort": "low", "format": {"type": "text"}}},
    ),
    "openai_chat": (
        {"options": {"stream_options": {"include_obfuscation": False}}},
        {"stream_options": {"include_usage": True, "include_obfuscation": False}},
    ),
    "openai_responses": (
        {"effort": "low", "options": {"reasoning": {"summary": "auto"}, "store": True}},
        {"reasoning": {"effort": "low", "summary": "auto"}, "store": True},
    ),
    "gemini": (
        {"max_tokens": 100, "options": {"generationConfig": {"temperature": 0}}},
        {"generationConfig": {"maxOutputTokens": 100, "temperature": 0}},
    ),
}


@every_api
async def test_options_are_merged_into_objects(api: Api) -> None:
    settings, expected = MERGED[api.name]

    assert picked(await sent(api, **settings), *expected) == expected


async def test_an_option_overrides_a_field_inside_an_object() -> None:
    options = {"generationConfig": {"maxOutputTokens": 5}}

    body = await sent(GEMINI, max_tokens=100, options=options)

    assert body["generationConfig"] == {"maxOutputTokens": 5}


SERVER_TOOLS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
    "openai_chat": {"type": "web_search"},
    "openai_responses": {"type": "web_search"},
    "gemini": {"googleSearch": {}},
}


@every_api
async def test_tools_of_the_provider_are_sent_beside_ours(api: Api) -> None:
    server_tool = SERVER_TOOLS[api.name]
    both = await sent(
        api, server_tools=[server_tool], **({"cache": False} if api is ANTHROPIC else {})
    )
    alone = await sent(api, PLAIN, server_tools=[server_tool])

    # those of Gemini are in one object, which grows with each tool that is found: it comes last
    ours, theirs = both["tools"] if api.name != "gemini" else reversed(both["tools"])
    assert ("add" in str(ours), theirs) == (True, server_tool)
    assert [{**server_tool, **one} == one for one in alone["tools"]] == [True]


@pytest.mark.parametrize("most", [21_333, 64_000])
async def test_a_long_reply_as_a_whole_is_streamed_by_the_provider(most: int) -> None:
    """Connections do not last for as long as such a reply may take."""
    answer = ANTHROPIC.streamed() if most > 21_333 else Answer.plain(ANTHROPIC.whole)
    with provider(answer) as stage:
        async with cast("Any", ANTHROPIC.model(stage.url, max_tokens=most, stream=False)) as model:
            reply = await model(PLAIN)

    assert reply == ANTHROPIC.reply
    assert stage.asked[0].body.get("stream", False) == (most > 21_333)


def test_a_setting_that_a_provider_does_not_have_is_an_error() -> None:
    for api, setting in ((GEMINI, "parallel"), (RESPONSES, "stop"), (CHAT, "store")):
        with pytest.raises(TypeError, match=setting):
            api.model("http://x", **{setting: None})
