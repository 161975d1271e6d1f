"""Tools that a search finds: what each API is sent, and what stays as it was."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import (
    Call,
    Executor,
    Exposure,
    FailureKind,
    Image,
    Result,
    Spec,
    Text,
    Tool,
    Toolset,
)
from handrail.messages import (
    Message,
    Prompt,
    Reply,
    ToolResults,
    TruncatedCall,
    api_name,
    find_loaded_tools,
)
from handrail.providers import CompiledTool, anthropic, openai_chat, openai_responses
from providers.formats.tool_rules import TOOL_RULES, name_of, refuse_tools
from providers.sdk_types import CHECKS, check_tools
from providers.searching import (
    APIS,
    DATA,
    FINDER,
    HISTORY,
    NATIVE,
    STRING,
    TOOLS,
    conversation,
    encode_request,
    golden,
    make_spec,
    search,
)

Body = dict[str, Any]
apis = pytest.mark.parametrize("api", APIS)
native = pytest.mark.parametrize("api", NATIVE)
NAMES = {api_name(spec.name): spec.name for spec in TOOLS}
KEYS = {"gemini": "contents", "openai_responses": "input"}
"""The key of the messages in a request, if it is not ``messages``."""


def messages_of(api: str, request: Body) -> list[Body]:
    messages: list[Body] = request[KEYS.get(api, "messages")]
    return messages


@apis
def test_a_conversation_that_searches_is_sent_as_reviewed(api: str) -> None:
    assert golden(api) == (DATA / f"{api}.json").read_text(encoding="utf-8")


@apis
def test_the_types_of_the_official_sdk_take_every_request(api: str) -> None:
    for request in conversation(api):
        check_tools(api, request.pop("tools"))
        CHECKS[api](request)


@apis
def test_the_strict_provider_takes_every_request(api: str) -> None:
    assert [refuse_tools(api, request) for request in conversation(api)] == [""] * 7


@apis
def test_what_was_sent_before_a_find_is_the_beginning_of_what_is_sent_after_it(api: str) -> None:
    check_prefixes(api, conversation(api))


def check_prefixes(api: str, requests: Sequence[Body]) -> None:
    for before, after in itertools.pairwise(requests):
        assert as_bytes(after["tools"]).startswith(as_bytes(before["tools"]).removesuffix(b"]"))
        earlier = as_bytes(messages_of(api, before)).removesuffix(b"]")
        assert as_bytes(messages_of(api, after)).startswith(earlier)


def as_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


@native
def test_a_find_leaves_the_tools_of_the_prompt_alone(api: str) -> None:
    """Deferred tools are not in the prompt of Anthropic, and not in the tools of OpenAI."""
    shown = [
        [tool for tool in request["tools"] if not tool.get("defer_loading")]
        for request in conversation(api)
    ]

    assert shown == [shown[0]] * 7
    assert len(shown[0]) == 3


def test_controls_sorting_and_a_lone_deferred_tool_are_caught() -> None:
    """An encoder that sorts what was found, and one that forgets the search."""
    requests = conversation("openai_chat")
    for request in requests:
        request["tools"].sort(key=name_of)
    with pytest.raises(AssertionError):
        check_prefixes("openai_chat", requests)

    for api in NATIVE:
        first, *_ = conversation(api)
        lone = {**APIS[api].encode_tools([TOOLS[3]])[0], "defer_loading": True}
        assert refuse_tools(api, {**first, "tools": [lone]}) != ""


def calls(message: Any) -> Any:
    """A message without fields that one API alone has."""
    if not isinstance(message, Reply):
        return message
    texts = [part for part in message.parts if isinstance(part, Text)]
    return texts, [(call.name, json.loads(str(call.args)), call.id) for call in message.calls]


@native
def test_losses_say_that_the_text_of_a_find_is_not_sent(api: str) -> None:
    omitted = "is omitted: the model reads what it found"
    moved = "is sent in a separate message"
    native = api == "openai_responses"

    assert APIS[api].losses(HISTORY) == ()
    assert APIS[api].losses(answered(Result("s1", "", found=("weather",))), tools=TOOLS) == ()
    assert [*APIS[api].losses(HISTORY, tools=TOOLS)] == [
        f"messages[2]: the text of 's1' {omitted}",
        *([f"messages[6]: the text of 's2' {moved}"] if native else []),
        f"messages[8]: the text of 's3' {moved if native else omitted}",
    ]


@apis
def test_without_the_tools_a_history_is_sent_as_text(api: str) -> None:
    """Such as to a server that cannot load tools."""
    plain = as_bytes(APIS[api].encode_messages(HISTORY))

    assert b"tool_reference" not in plain
    assert b"tool_search" not in plain
    assert plain.count(b"mail.send(...)") == 2


@native
def test_plain_tools_are_appended_like_all_others(api: str) -> None:
    loaded = find_loaded_tools(HISTORY)
    tools = APIS[api].encode_tools(TOOLS, loaded=loaded, search="plain")

    assert tools == [
        APIS[api].compile(make_direct(name)).definition
        for name in ("add_note", "read_note", "search_tools", *loaded)
    ]


def make_direct(name: str) -> Spec:
    [spec] = [spec for spec in TOOLS if spec.name == name]
    return make_spec(name, Exposure.DIRECT, **spec.input_schema["properties"])


def test_a_hosted_search_gets_every_deferred_tool_and_needs_no_search_of_ours() -> None:
    hosted = {
        "anthropic": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        "openai_responses": {"type": "tool_search"},
    }
    for api, own in hosted.items():
        request = {**encode_request(api, HISTORY[:1]), "tools": hosted_tools(api, TOOLS)}
        names = [name_of(tool) for tool in request["tools"]]
        deferred = sorted(spec.name for spec in TOOLS if spec.exposure is Exposure.DEFERRED)
        check_tools(api, request["tools"])

        assert refuse_tools(api, request) == ""
        assert names == ["add_note", "read_note", name_of(own), *map(api_name, deferred)]
        assert request["tools"][2] == own
        assert hosted_tools(api, TOOLS[:2]) == APIS[api].encode_tools(TOOLS[:2])
        assert hosted_tools(api, [one for one in TOOLS if one != FINDER]) == request["tools"]


def hosted_tools(api: str, tools: Iterable[Spec]) -> list[Body]:
    return list(APIS[api].encode_tools(tools, search="hosted"))


def answered(*results: Result, calls: Sequence[Call | TruncatedCall] = ()) -> list[Message]:
    made = calls or [search(result.call_id, "a") for result in results]
    return [Prompt.of("Go."), Reply(tuple(made), "calls"), ToolResults(results)]


def test_a_search_that_failed_or_was_cut_off_is_a_search() -> None:
    failed = Result.fail("s1", FailureKind.TIMEOUT, "Too slow.")
    cut = answered(failed, calls=[TruncatedCall("search_tools", "s1", '{"que')])
    output = {"execution": "client", "call_id": "s1", "status": "completed"}
    for history, args in ((cut, {}), (answered(failed), {"queries": ["a"]})):
        request = encode_request("openai_responses", history)

        assert request["input"][1:] == [
            {"type": "tool_search_call", **output, "arguments": args},
            {"type": "tool_search_output", **output, "tools": []},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "[Result of the tool search s1:]"},
                    {"type": "input_text", "text": "Failed: "},
                    {"type": "input_text", "text": "Too slow."},
                ],
            },
        ]


def test_a_failure_finds_nothing() -> None:
    failed = Result.fail("s1", FailureKind.FAILED, "No.")._replace(found=("weather",))
    block = encode_request("anthropic", answered(failed))["messages"][-1]["content"][0]

    assert (block["content"], block["is_error"]) == ("No.", True)


def test_images_of_a_search_are_kept_and_an_empty_one_has_no_message() -> None:
    shown = Result("s1", "", (Image(b"1", "image/png"),))
    request = encode_request("openai_responses", answered(shown, Result("s2", "")))
    *outputs, message = request["input"][3:]

    assert [item["type"] for item in outputs] == ["tool_search_output"] * 2
    assert message["content"] == [
        {"type": "input_text", "text": "[Result of the tool search s1:]"},
        {"type": "input_image", "image_url": "data:image/png;base64,MQ==", "detail": "auto"},
    ]


def test_any_tool_can_find_others() -> None:
    """The search of OpenAI has no name, so it stands for the other tool."""
    history = answered(
        Result("c1", "weather(city)", found=("weather",)), calls=[Call("read_note", "{}", "c1")]
    )
    loaded = encode_request("openai_responses", history)["input"][2]["tools"]
    content = encode_request("anthropic", history)["messages"][-1]["content"][0]["content"]

    assert [tool["name"] for tool in loaded] == ["weather"]
    assert content == [{"type": "tool_reference", "tool_name": "weather"}]


def test_a_namespace_is_sent_only_for_a_tool_that_was_found() -> None:
    """The API sends it with each call of such a tool. A tool that is direct now has none."""
    call = {"type": "function_call", "call_id": "c1", "name": "read_note", "arguments": "{}"}
    output = [{**call, "namespace": "read_note"}]
    reply = openai_responses.decode({"output": output, "status": "completed"})
    history = [Prompt.of("Go."), reply, ToolResults((Result("c1", "x"),))]

    assert openai_responses.encode_messages(history)["input"][1] == call
    assert openai_responses.encode_messages(history, tools=TOOLS)["input"][1] == call


@pytest.mark.parametrize("name", ["weather", "gone"])
def test_a_namespace_that_no_output_defines_is_not_sent(name: str) -> None:
    """Such as after the search was removed from the history. A provider's search defines it too."""
    call = {"type": "function_call", "call_id": "c1", "name": name, "arguments": "{}"}
    named = {**call, "namespace": name}
    ran = {
        "type": "tool_search_output",
        "execution": "server",
        "id": "tso_1",
        "tools": [{"type": "function", "name": name}],
    }
    inside = {**ran, "tools": [{"type": "namespace", "name": "sky", "tools": ran["tools"]}]}
    other = {**call, "namespace": "crm"}

    def send(*output: Body) -> Body:
        reply = openai_responses.decode({"output": output, "status": "completed"})
        history = [Prompt.of("Go."), reply, ToolResults((Result("c1", "x"),))]
        sent: Body = openai_responses.encode_messages(history, tools=TOOLS)["input"][len(output)]
        return sent

    assert send(named) == call
    assert send(ran, named) == send(inside, named) == named
    assert send(other) == other


def test_a_tool_that_is_found_again_is_shown_again() -> None:
    history = [
        *answered(Result("s1", "weather(city)", found=("weather",))),
        *answered(Result("s2", "weather(city) [loaded]\nmail", found=("weather", "mail.send")))[1:],
        *answered(Result("s3", "weather(city) [loaded]", found=("weather",)))[1:],
    ]
    blocks = [
        message["content"][0]["content"]
        for message in encode_request("anthropic", history)["messages"]
        if message["content"][0]["type"] == "tool_result"
    ]
    body = encode_request("openai_responses", history)
    texts = [item["content"][-1]["text"] for item in body["input"] if item["type"] == "message"]

    assert blocks[1:] == [
        [
            {"type": "tool_reference", "tool_name": "weather"},
            {"type": "tool_reference", "tool_name": "mail_u2e_send"},
        ],
        "weather(city) [loaded]",
    ]
    assert texts[1:] == ["weather(city) [loaded]\nmail", "weather(city) [loaded]"]
    assert refuse_tools("openai_responses", body) == ""


def test_a_tool_that_cannot_be_sent_is_neither_loaded_nor_referred_to() -> None:
    bad = Spec(name="bad", description="", input_schema={"$ref": "#/x"}, exposure=Exposure.DEFERRED)
    history = answered(Result("s1", "bad()", found=("bad", "gone", "read_note")))
    for api in APIS:
        request = encode_request(api, history, (*TOOLS, bad))
        assert refuse_tools(api, request) == ""
        assert len(request["tools"]) == 3
    unfindable = (
        TOOLS[0],
        TOOLS[3],
        Spec(name="s", description="", input_schema={"$ref": "#/x"}, exposure=Exposure.SEARCH),
    )
    assert [name_of(tool) for tool in openai_chat.encode_tools(unfindable)] == [
        "calendar_u2e_add",
        "read_note",
    ]


def test_the_search_of_openai_always_has_a_description_and_is_never_strict() -> None:
    spec = Spec(
        name="search_tools",
        description="",
        input_schema=FINDER.input_schema,
        exposure=Exposure.SEARCH,
        strict="on",
    )
    compiled = openai_responses.compile(spec)

    assert compiled == CompiledTool(
        {
            "type": "tool_search",
            "execution": "client",
            "description": "Find tools.",
            "parameters": FINDER.input_schema,
        },
        ("strict: the API does not enforce the schema of a search",),
    )


def test_what_was_found_gets_what_the_direct_tools_leave_of_the_strict_budget() -> None:
    """Otherwise a find would change the definition of a tool that was sent before."""
    direct = [make_spec(f"z{number}", Exposure.DIRECT, a=STRING) for number in range(6)]
    later = [make_spec(f"a{number}", Exposure.DEFERRED, a=STRING) for number in range(6)]
    names = [spec.name for spec in reversed(later)]
    tools = [
        anthropic.encode_tools([*direct, FINDER, *later], loaded=names[:count])
        for count in range(len(names) + 1)
    ]

    assert all(after[: len(before)] == before for before, after in itertools.pairwise(tools))
    assert [tool["name"] for tool in tools[-1] if tool.get("strict")] == [
        *(f"z{number}" for number in range(6)),
        "search_tools",
        "a5",
    ]


def broken(api: str) -> dict[str, Callable[[Body], object]]:
    """A change that breaks each rule of the strict provider, and no rule before it."""
    if api in ("gemini", "openai_chat"):
        [why] = TOOL_RULES[api]
        return {why: lambda body: body["tools"].append(body["tools"][0])}
    return ANTHROPIC_BREAKS if api == "anthropic" else RESPONSES_BREAKS


def result_of(body: Body) -> list[Body]:
    content: list[Body] = body["messages"][2]["content"][0]["content"]
    return content


ANTHROPIC_BREAKS: dict[str, Callable[[Body], object]] = {
    "tools: Tool names must be unique": lambda body: body["tools"].append(body["tools"][0]),
    "At least one tool must have defer_loading=false": lambda body: body.update(
        tools=[tool for tool in body["tools"] if tool.get("defer_loading")]
    ),
    "Tool reference not found in available tools": lambda body: body["tools"].pop(),
    "tool_reference blocks cannot be mixed with other content": lambda body: result_of(body).append(
        {"type": "text", "text": "weather(city)"}
    ),
    "tool_result: content must not be empty": lambda body: result_of(body).clear(),
    "Tools with defer_loading cannot use prompt caching": lambda body: body["tools"][-1].update(
        cache_control={"type": "ephemeral"}
    ),
    "Deferred tools that nothing finds": lambda body: body["tools"].append(
        {**body["tools"][-1], "name": "unused_1"}
    ),
}
RESPONSES_BREAKS: dict[str, Callable[[Body], object]] = {
    "Tool names must be unique": lambda body: body["tools"].append(body["tools"][0]),
    "Deferred tools require tools.tool_search": lambda body: body["tools"].pop(),
    "tools.tool_search requires a deferred tool": lambda body: body["tools"][-1].pop("execution"),
    "tool_search with client execution requires a description": lambda body: body["tools"][-1].pop(
        "description"
    ),
    "No tool output found for tool search call": lambda body: body["input"][2].update(call_id="x"),
    "A tool is loaded twice": lambda body: body["input"][3]["tools"].append(
        body["input"][3]["tools"][0]
    ),
    "Missing namespace for function_call": lambda body: body["input"][4].pop("namespace"),
}


@apis
def test_each_rule_about_tools_refuses_a_wrong_request(api: str) -> None:
    refused: dict[str, str] = {}
    for why, spoil in broken(api).items():
        body = deepcopy(conversation(api)[-1])
        assert refuse_tools(api, body) == ""
        spoil(body)
        refused[why] = refuse_tools(api, body)

    assert refused == {why: why for why in TOOL_RULES[api]}


SEARCH_CALL = {
    "type": "tool_search_call",
    "id": "tsc_1",
    "call_id": "call_1",
    "execution": "client",
    "arguments": {"queries": ["a"]},
    "status": "completed",
    "created_by": "model",
}


def stream_of(item: Body) -> list[Body]:
    """The provider may change the id of a search call until it is done."""
    added = {**item, "arguments": {}, "status": "in_progress", "call_id": "call_0"}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]
    response = {"id": "r", "status": "completed", "output": [item]}
    return [*events, {"type": "response.completed", "response": response}]


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ({}, "search_tools"),
        ({"search_tools": "search_tools"}, "search_tools"),
        ({"<tool_search_call>": "shop.find tools"}, "shop.find tools"),
        ({"tool_search_call": "tool_search_call"}, "search_tools"),
    ],
)
def test_a_search_call_of_openai_is_a_call_of_the_search(names: dict[str, str], name: str) -> None:
    made = Call(name, '{"queries":["a"]}', "call_1")
    stream = openai_responses.Stream(names=names)
    pieces = [piece for event in stream_of(SEARCH_CALL) for piece in stream.feed(event)]
    whole = openai_responses.decode(
        {"output": [SEARCH_CALL], "status": "completed", "id": "r"}, names=names
    )

    assert (pieces, stream.end()) == ([made], whole)
    assert (whole.parts, whole.stop) == ((made,), "calls")


async def send(_: object, __: object) -> str:
    raise NotImplementedError


def test_the_names_of_a_set_say_which_tool_searches() -> None:
    taken = Tool.remote(make_spec("search_tools", Exposure.DIRECT), send)
    hidden = Tool.remote(make_spec("secret", Exposure.DEFERRED), send)
    names = Executor(Toolset(taken, hidden)).tools.api_names
    reply = openai_responses.decode({"output": [SEARCH_CALL]}, names=names)

    assert calls(reply) == ([], [("search_tools_", {"queries": ["a"]}, "call_1")])
    assert "<tool_search_call>" not in Toolset(taken, hidden).api_names


def test_a_search_that_the_provider_ran_is_sent_back_unchanged() -> None:
    ran = [
        {**SEARCH_CALL, "execution": "server", "call_id": None},
        {"type": "tool_search_output", "execution": "server", "id": "tso_1", "tools": []},
    ]
    reply = openai_responses.decode({"output": ran, "status": "completed"})
    stream = openai_responses.Stream()
    pieces = [piece for event in stream_of(ran[0]) for piece in stream.feed(event)]

    assert (pieces, stream.end().calls, reply.calls) == ([], (), ())
    sent = openai_responses.encode_messages([reply], tools=TOOLS)["input"]
    assert sent == ran


POOL = ("b", "a", "fs.read", "größe", "search_tools", "finder", "z")
SPECS = st.dictionaries(
    st.sampled_from(POOL), st.sampled_from([*Exposure]), max_size=len(POOL)
).map(lambda chosen: [make_spec(name, exposure, a=STRING) for name, exposure in chosen.items()])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(POOL), st.lists(st.sampled_from([*POOL, "gone"]), max_size=3), st.booleans()
    ),
    max_size=5,
)


def histories(steps: list[tuple[str, list[str], bool]]) -> list[list[Message]]:
    """A history up to each of its requests. Some calls are of tools that were never found."""
    messages: list[Message] = [Prompt.of("Go.")]
    ends = [messages]
    for number, (name, found, parallel) in enumerate(steps):
        made = [Call(name, '{"a":"x"}', f"c{number}")]
        results = [Result(f"c{number}", "Some text.", found=tuple(found))]
        if parallel:
            made.append(Call("a", '{"a":"y"}', f"d{number}"))
            results.append(Result(f"d{number}", "More."))
        messages = [*messages, Reply(tuple(made), "calls"), ToolResults(tuple(results))]
        ends.append(messages)
    return ends


@apis
@given(SPECS, STEPS)
def test_no_mix_of_exposures_is_refused_and_nothing_sent_before_changes(
    api: str, specs: list[Spec], steps: list[tuple[str, list[str], bool]]
) -> None:
    requests = [encode_request(api, history, specs) for history in histories(steps)]
    deferred = {spec.name for spec in specs if spec.exposure is Exposure.DEFERRED}
    finders = {spec.name for spec in specs if spec.exposure is Exposure.SEARCH}
    direct = {spec.name for spec in specs if spec.exposure is Exposure.DIRECT}

    check_prefixes(api, requests)
    for request, history in zip(requests, histories(steps), strict=True):
        loaded = deferred & {*find_loaded_tools(history)} if finders else deferred
        sent = [*map(name_of, request["tools"])]
        assert refuse_tools(api, request) == ""
        if api == "openai_responses" and finders:
            assert ("tool_search" in sent) == bool(deferred)
            loaded = set()
        else:
            assert len({*sent} & {*map(api_name, finders)}) == bool(deferred and finders)
        others = {*sent} - {*map(api_name, finders)} - {"tool_search"}
        assert others == {*map(api_name, direct | loaded)}
