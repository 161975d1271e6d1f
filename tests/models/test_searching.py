"""Tools that a search finds, through the clients: requests over HTTP, caching and choices."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from handrail import Call, Exposure, Tool, Toolset
from handrail.messages import Message, Model, Prompt, Reply, Request, RequiredTool, ToolChoice
from handrail.models import anthropic, openai_responses
from models.stage import Answer, provider
from models.talk import ANTHROPIC, APIS, GEMINI, RESPONSES, Api
from providers.formats.strict import tool_provider
from providers.formats.tool_rules import name_of, refuse_tools, tools_of
from providers.searching import HISTORY, TOOLS, encode_request, make_spec

MODELS = {"anthropic": "claude-opus-4-8", "openai_responses": "gpt-5.4"}
ENDS = [at for at, one in enumerate(HISTORY, 1) if not isinstance(one, Reply)]


async def unreachable(_: Mapping[str, Any]) -> str:
    raise AssertionError


TOOLSET = Toolset(*(Tool.remote(spec, unreachable) for spec in TOOLS))


@pytest.fixture
def anyio_backend() -> str:
    """The loops do not differ in what is sent."""
    return "asyncio"


async def bodies(
    api: Api,
    *histories: Sequence[Message],
    tools: Toolset = TOOLSET,
    choice: ToolChoice = "auto",
    **options: Any,
) -> list[dict[str, Any]]:
    """What a client sends for these histories."""
    with provider(Answer.plain(api.whole)) as stage:
        model = api.model(stage.url, stream=False, **options)
        for history in histories:
            await cast("Any", model(Request(tuple(history), tools, tool_choice=choice)))
    return [one.body for one in stage.asked]


@pytest.mark.parametrize("way", ["native", "plain"])
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_a_strict_provider_takes_the_whole_conversation(api: Api, way: str) -> None:
    chosen = {"search": way} if api.name in MODELS else {}
    with tool_provider(api.name, api.whole) as url:
        model = api.model(url, stream=False, **chosen)
        replies = [await cast("Any", model(Request(HISTORY[:end], TOOLSET))) for end in ENDS]

    assert replies == [api.reply] * len(ENDS)


async def test_the_clients_send_what_the_formats_write() -> None:
    for api in APIS:
        chosen = {"search": "native"} if api.name in MODELS else {}
        [sent] = await bodies(
            api, HISTORY, **chosen, **({"cache": False} if api == ANTHROPIC else {})
        )
        expected = encode_request(api.name, HISTORY)
        tools = (
            [{"functionDeclarations": expected.pop("tools")}]
            if api == GEMINI
            else expected["tools"]
        )

        assert sent == {**sent, **expected, "tools": tools}


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_tools_only_grow_at_their_end_also_behind_server_tools(api: Api) -> None:
    """Without the mark of the cache, which ends what never grows."""
    own = [{"type": "web_search"}] if api != GEMINI else [{"googleSearch": {}}]
    more = {"cache": False} if api == ANTHROPIC else {}
    sent = await bodies(api, *(HISTORY[:end] for end in ENDS), server_tools=own, **more)
    texts = [json.dumps(body["tools"]) for body in sent]

    assert len({*texts}) == 3
    ending = "]}]" if api == GEMINI else "]"
    for before, after in itertools.pairwise(texts):
        assert after.startswith(before.removesuffix(ending))


async def test_the_mark_of_the_cache_stays_on_the_last_tool_that_never_grows() -> None:
    sent = await bodies(ANTHROPIC, *(HISTORY[:end] for end in ENDS), search="native")
    marked = [[tool["name"] for tool in body["tools"] if "cache_control" in tool] for body in sent]

    assert marked == [["search_tools"]] * len(ENDS)
    assert {refuse_tools("anthropic", body) for body in sent} == {""}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("claude-opus-4-8", "native"),
        ("claude-sonnet-5", "native"),
        ("claude-3-5-sonnet-latest", "plain"),
        ("claude-2.1", "plain"),
        ("other", "plain"),
        ("gpt-5.4-mini", "native"),
        ("gpt-5.12", "native"),
        ("gpt-6", "native"),
        ("gpt-5.3-codex", "plain"),
        ("gpt-5", "plain"),
        ("gpt-4o", "plain"),
        ("o3", "plain"),
    ],
)
async def test_a_model_that_cannot_load_tools_gets_them_like_all_others(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of another provider gets them so too, whatever its models are called."""
    claude = "claude" in name
    api = ANTHROPIC if claude else RESPONSES
    make = anthropic if claude else openai_responses
    with provider(Answer.plain(api.whole)) as stage:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", stage.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{stage.url}/v1")
        models: list[Model] = [
            make(name, key="k", max_tokens=9, stream=False),
            make(name, base_url=stage.url + api.root, max_tokens=9, stream=False),
        ]
        for model in models:
            await cast("Any", model(Request(HISTORY, TOOLSET)))
    text = [json.dumps(one.body) for one in stage.asked]

    assert ["tool_reference" in one or "tool_search" in one for one in text] == [
        way == "native",
        False,
    ]
    assert ['"weather"' in one for one in text] == [True, True]


@pytest.mark.parametrize("api", [ANTHROPIC, RESPONSES], ids=lambda api: api.name)
async def test_a_hosted_search_gets_all_tools(api: Api) -> None:
    [sent] = await bodies(api, HISTORY[:1], search="hosted")
    [own] = await bodies(api, HISTORY[:1], search="native")

    assert (len(sent["tools"]), len(own["tools"])) == (26, 3)
    assert refuse_tools(api.name, sent) == ""


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@pytest.mark.parametrize("end", [1, len(HISTORY)])
async def test_a_tool_that_must_be_called_is_not_deferred(api: Api, end: int) -> None:
    """Neither before it was found nor after it. A provider refuses to choose any other."""
    chosen = {"search": "native"} if api.name in MODELS else {}
    must = RequiredTool("weather")
    [sent] = await bodies(api, HISTORY[:end], choice=must, **chosen)
    named = {name_of(tool): tool.get("defer_loading") for tool in tools_of(sent)}

    assert refuse_tools(api.name, sent) == ""
    assert named["weather"] is None
    assert "weather" in json.dumps(sent.get("tool_choice") or sent["toolConfig"])


async def test_the_search_itself_can_be_required_or_forbidden() -> None:
    must = RequiredTool("search_tools")
    sent = {
        api.name: (await bodies(api, HISTORY, choice=must, **chosen(api)))[0].get("tool_choice")
        for api in APIS
    }
    [none] = await bodies(RESPONSES, HISTORY, choice="none", search="native")
    [plain] = await bodies(RESPONSES, HISTORY, choice=must, search="plain")

    assert sent == {
        "anthropic": {"type": "tool", "name": "search_tools"},
        "openai_chat": {"type": "function", "function": {"name": "search_tools"}},
        "openai_responses": "required",
        "gemini": None,
    }
    assert (none["tool_choice"], refuse_tools("openai_responses", none)) == ("none", "")
    assert plain["tool_choice"] == {"type": "function", "name": "search_tools"}


def chosen(api: Api) -> dict[str, Any]:
    return {"search": "native"} if api.name in MODELS else {}


async def test_a_search_call_is_a_call_of_the_tool_that_searches_whatever_its_name() -> None:
    call = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "c1",
        "execution": "client",
        "arguments": {"queries": ["a"]},
        "status": "completed",
    }
    body = {"id": "r", "object": "response", "status": "completed", "output": [call]}
    finder = Tool.remote(make_spec("shop.find", Exposure.SEARCH), unreachable)
    tools = Toolset(finder, TOOLSET["weather"])
    request = Request((Prompt.of("Go."),), tools)
    with provider(
        Answer.plain(body), Answer.stream({"type": "response.completed", "response": body})
    ) as stage:
        url = stage.url + RESPONSES.root
        whole = await cast("Any", openai_responses("m", base_url=url, stream=False)(request))
        pieces = [
            piece async for piece in cast("Any", openai_responses("m", base_url=url)(request))
        ]

    assert whole.calls == (Call("shop.find", '{"queries":["a"]}', "c1"),)
    assert pieces == [*whole.calls, whole]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_a_tool_named_like_a_search_call_keeps_its_calls(api: Api) -> None:
    """The reply calls a tool ``add``, which has this name here."""
    spec = make_spec("tool_search_call", Exposure.DIRECT)
    tools = TOOLSET | Toolset(Tool.remote(spec, unreachable))
    body = json.loads(json.dumps(api.whole).replace('"add"', '"tool_search_call"'))
    with provider(Answer.plain(body)) as stage:
        model = api.model(stage.url, stream=False)
        reply = await cast("Any", model(Request((Prompt.of("Go."),), tools)))

    assert [call.name for call in reply.calls] == ["tool_search_call"]
