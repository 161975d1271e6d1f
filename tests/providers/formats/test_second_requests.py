"""The second request of a conversation has everything that the provider sent in its first reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import anthropic as anthropic_sdk
import openai as openai_sdk
import pytest
from google import genai
from inline_snapshot import snapshot

from handrail import Result
from handrail.messages import Message, Opaque, Prompt, Reasoning, Reply, ToolResults
from providers.apis import APIS
from providers.formats.strict import RULES, refusal, strict_provider
from providers.sdk_types import CHECKS

Body = dict[str, Any]

FIRST: dict[str, Body] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [
            {"type": "thinking", "thinking": "Search first.", "signature": "sig_1"},
            {"type": "redacted_thinking", "data": "hidden"},
            {
                "type": "server_tool_use",
                "id": "srvtoolu_1",
                "name": "web_search",
                "input": {"query": "roof"},
                "caller": {"type": "direct"},
            },
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {
                        "type": "web_search_result",
                        "title": "Roofs",
                        "url": "https://example.com",
                        "encrypted_content": "enc",
                    }
                ],
            },
            {
                "type": "text",
                "text": "Roofs leak.",
                "citations": [
                    {
                        "type": "web_search_result_location",
                        "cited_text": "leak",
                        "encrypted_index": "idx",
                        "title": "Roofs",
                        "url": "https://example.com",
                    }
                ],
            },
            {
                "type": "tool_use",
                "id": "toolu_1",
                "name": "look",
                "input": {"item": "roof"},
                "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"},
            },
        ],
        "container": {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"},
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 5},
    },
    "gemini": {
        "responseId": "r1",
        "modelVersion": "gemini",
        "candidates": [
            {
                "index": 0,
                "finishReason": "STOP",
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "Draw and look.", "thought": True},
                        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
                        {
                            "inlineData": {"mimeType": "image/png", "data": "iVBORw=="},
                            "thoughtSignature": "c2lnMQ==",
                        },
                        {
                            "functionCall": {"id": "g1", "name": "look", "args": {"item": "roof"}},
                            "thoughtSignature": "c2lnMg==",
                        },
                        {"functionCall": {"id": "g2", "name": "look", "args": {"item": "door"}}},
                    ],
                },
            }
        ],
    },
    "openai_chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gemini",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "Looking.",
                    "reasoning": "The roof.",
                    "reasoning_details": [
                        {
                            "type": "reasoning.text",
                            "text": "The roof.",
                            "signature": "s",
                            "index": 0,
                        },
                        {"type": "reasoning.encrypted", "data": "D", "id": "r1", "index": 1},
                    ],
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "look", "arguments": '{"item":"roof"}'},
                            "extra_content": {"google": {"thought_signature": "S"}},
                        }
                    ],
                },
            }
        ],
    },
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt",
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Search."}],
                "encrypted_content": "enc_1",
            },
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "roof"},
            },
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "enc_2"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "phase": "commentary",
                "content": [
                    {
                        "type": "output_text",
                        "text": "Roofs leak.",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "title": "Roofs",
                                "url": "https://example.com",
                                "start_index": 0,
                                "end_index": 5,
                            }
                        ],
                    }
                ],
            },
            {
                "type": "message",
                "id": "msg_2",
                "role": "assistant",
                "status": "completed",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "look",
                "arguments": '{"item":"roof"}',
                "status": "completed",
            },
        ],
    },
}
SECOND: dict[str, Body] = {
    "anthropic": {
        **FIRST["anthropic"],
        "content": [{"type": "text", "text": "Done."}],
        "stop_reason": "end_turn",
    },
    "gemini": {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": "Done."}]}, "finishReason": "STOP"}
        ]
    },
    "openai_chat": {
        **FIRST["openai_chat"],
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Done."},
            }
        ],
    },
    "openai_responses": {
        **FIRST["openai_responses"],
        "output": [
            {
                "type": "message",
                "id": "msg_3",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
            }
        ],
    },
}


def history_after(api: str, response: Body) -> list[Message]:
    return history_of(APIS[api].decode(response))


def history_of(reply: Reply) -> list[Message]:
    results = ToolResults(tuple(Result(call.id, "It leaks.") for call in reply.calls))
    return [Prompt.of("How is the roof?"), reply, results]


def second_request(api: str) -> Body:
    body: Body = APIS[api].encode_messages(history_after(api, FIRST[api]))
    return body


def send_anthropic(url: str, body: Body) -> Body:
    with anthropic_sdk.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
        sent = client.messages.create(model="claude", max_tokens=99, **body)
    return sent.to_dict(mode="json")


def send_gemini(url: str, body: Body) -> Body:
    options: Any = {"base_url": url, "extra_body": body}
    with genai.Client(api_key="k", http_options=options) as client:
        models: Any = client.models
        sent = models.generate_content(model="gemini", contents=".")
    dumped: Body = sent.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def send_openai_chat(url: str, body: Body) -> Body:
    with openai_sdk.OpenAI(api_key="k", base_url=url, max_retries=0) as client:
        sent = client.chat.completions.create(model="gemini", **body)
    return sent.to_dict(mode="json")


def send_openai_responses(url: str, body: Body) -> Body:
    with openai_sdk.OpenAI(api_key="k", base_url=url, max_retries=0) as client:
        sent = client.responses.create(model="gpt", store=False, **body)
    return sent.to_dict(mode="json")


SEND: dict[str, Callable[[str, Body], Body]] = {
    "anthropic": send_anthropic,
    "gemini": send_gemini,
    "openai_chat": send_openai_chat,
    "openai_responses": send_openai_responses,
}


@pytest.mark.parametrize("api", APIS)
def test_a_strict_provider_accepts_the_second_request(api: str) -> None:
    with strict_provider(api, FIRST[api], SECOND[api]) as url:
        first = SEND[api](url, APIS[api].encode_messages([Prompt.of("How is the roof?")]))
        history = history_after(api, first)
        done = APIS[api].decode(SEND[api](url, APIS[api].encode_messages(history)))

    assert (done.text, APIS[api].losses(history)) == ("Done.", ())


@pytest.mark.parametrize("api", APIS)
def test_the_second_request_has_the_types_of_the_sdk(api: str) -> None:
    CHECKS[api](json.loads(json.dumps(second_request(api))))


def anthropic_events(response: Body) -> list[Body]:
    """The events of a response: text, input and citations come in deltas, the container last."""
    started = {**response, "content": [], "container": None, "stop_reason": None}
    events: list[Body] = [{"type": "message_start", "message": started}]
    for index, block in enumerate(response["content"]):
        deltas: list[Body] = []
        if "input" in block:
            text = json.dumps(block["input"])
            deltas += [
                {"type": "input_json_delta", "partial_json": one} for one in (text[:3], text[3:])
            ]
        if "citations" in block:
            deltas.append({"type": "text_delta", "text": block["text"]})
            deltas += [{"type": "citations_delta", "citation": one} for one in block["citations"]]
        empty = {"input": {}, "citations": [], "text": ""}
        start = {**block, **{key: value for key, value in empty.items() if key in block}}
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": index})
    last = {key: response[key] for key in ("stop_reason", "container")}
    return [*events, {"type": "message_delta", "delta": last, "usage": response["usage"]}]


def gemini_events(response: Body) -> list[Body]:
    [candidate] = response["candidates"]
    parts = [[part] for part in candidate["content"]["parts"]]
    events = [{"candidates": [{"content": {"role": "model", "parts": one}}]} for one in parts]
    return [*events, {"candidates": [{"finishReason": candidate["finishReason"]}]}]


def chat_events(response: Body) -> list[Body]:
    [choice] = response["choices"]
    message = choice["message"]
    calls = [{"index": at, **call} for at, call in enumerate(message["tool_calls"])]
    details = [{"reasoning_details": [one]} for one in message["reasoning_details"]]
    spoken = [{key: message[key]} for key in ("reasoning", "content")]
    deltas: list[Body] = [*details, *spoken, {"tool_calls": calls}]
    events = [{"id": "chatcmpl-1", "choices": [{"index": 0, "delta": one}]} for one in deltas]
    return [*events, {"choices": [{"delta": {}, "finish_reason": choice["finish_reason"]}]}]


def responses_events(response: Body) -> list[Body]:
    """The events of a response. Only the last one has the reasoning, and the phases of messages."""
    events: list[Body] = []
    for index, item in enumerate(response["output"]):
        where = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            delta = {"type": "response.output_text.delta", "content_index": 0, "delta": text}
            events.append({**delta, **where})
        elif item["type"] != "reasoning":
            done = {"type": "response.output_item.done", "item": item}
            events.append({**done, **where})
    return [*events, {"type": "response.completed", "response": response}]


EVENTS: dict[str, Callable[[Body], list[Body]]] = {
    "anthropic": anthropic_events,
    "gemini": gemini_events,
    "openai_chat": chat_events,
    "openai_responses": responses_events,
}


@pytest.mark.parametrize("api", APIS)
def test_after_a_stream_the_second_request_is_the_same(api: str) -> None:
    stream = APIS[api].Stream()
    for event in EVENTS[api](FIRST[api]):
        stream.feed(event)

    assert APIS[api].encode_messages(history_of(stream.end())) == second_request(api)


WRONG: dict[str, dict[str, Callable[[Body], object]]] = {
    "anthropic": {
        "messages: at least one message is required": lambda body: body["messages"].clear(),
        "Expected `thinking` or `redacted_thinking`, but found `text`": lambda body: body[
            "messages"
        ][1]["content"].__delitem__(slice(0, 2)),
        "`thinking` blocks in the latest assistant message cannot be modified": lambda body: body[
            "messages"
        ][1]["content"][0].update(thinking="Search."),
        "tool use without a corresponding tool result block": lambda body: body["messages"][1][
            "content"
        ].pop(3),
        "container_id is required": lambda body: body.pop("container"),
    },
    "gemini": {
        "Function call is missing a thought_signature": lambda body: body["contents"][1]["parts"][
            4
        ].pop("thoughtSignature"),
        "Image part is missing a thought_signature": lambda body: body["contents"][1]["parts"][
            3
        ].pop("thoughtSignature"),
        "Thought signature is not valid": lambda body: body["contents"][1]["parts"][3].update(
            thoughtSignature="b3RoZXI="
        ),
    },
    "openai_chat": {
        "Function call is missing a thought_signature": lambda body: body["messages"][1][
            "tool_calls"
        ][0].pop("extra_content")
    },
    "openai_responses": {
        "Item of type 'reasoning' without its required following item": lambda body: body[
            "input"
        ].insert(7, {"type": "reasoning", "summary": [], "encrypted_content": "enc_3"}),
        "Item not found. Items are not persisted": lambda body: body["input"][1].update(id="rs_1"),
        "Item 'function_call' without its required 'reasoning' item": lambda body: body[
            "input"
        ].pop(1),
    },
}
"""A change to each second request that breaks each rule."""


@pytest.mark.parametrize("api", APIS)
def test_each_rule_of_the_strict_provider_refuses_a_wrong_request(api: str) -> None:
    """The control: a provider that accepts everything would show nothing."""
    refused = {}
    for why, change in WRONG[api].items():
        body = {**deepcopy(second_request(api)), "store": False}
        assert refusal(api, body, FIRST[api]) == ""
        change(body)
        refused[why] = refusal(api, body, FIRST[api])

    assert refused == {why: why for why in RULES[api]}


def test_the_strict_provider_says_no_over_http() -> None:
    wrong = {"input": [{"type": "message", "role": "user", "content": "a", "id": "msg_1"}]}
    responses = FIRST["openai_responses"], SECOND["openai_responses"]
    with strict_provider("openai_responses", *responses) as url:
        send_openai_responses(url, {"input": "a"})
        with pytest.raises(openai_sdk.BadRequestError, match="Items are not persisted"):
            send_openai_responses(url, wrong)


def test_the_second_request_of_each_api() -> None:
    assert {api: second_request(api) for api in APIS} == snapshot(
        {
            "anthropic": {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "How is the roof?"}]},
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "thinking", "thinking": "Search first.", "signature": "sig_1"},
                            {"type": "redacted_thinking", "data": "hidden"},
                            {
                                "type": "server_tool_use",
                                "id": "srvtoolu_1",
                                "name": "web_search",
                                "input": {"query": "roof"},
                                "caller": {"type": "direct"},
                            },
                            {
                                "type": "web_search_tool_result",
                                "tool_use_id": "srvtoolu_1",
                                "content": [
                                    {
                                        "type": "web_search_result",
                                        "title": "Roofs",
                                        "url": "https://example.com",
                                        "encrypted_content": "enc",
                                    }
                                ],
                            },
                            {
                                "type": "text",
                                "text": "Roofs leak.",
                                "citations": [
                                    {
                                        "type": "web_search_result_location",
                                        "cited_text": "leak",
                                        "encrypted_index": "idx",
                                        "title": "Roofs",
                                        "url": "https://example.com",
                                    }
                                ],
                            },
                            {
                                "type": "tool_use",
                                "id": "toolu_1",
                                "name": "look",
                                "input": {"item": "roof"},
                                "caller": {
                                    "type": "code_execution_20260120",
                                    "tool_id": "srvtoolu_1",
                                },
                            },
                        ],
                    },
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": "toolu_1",
                                "content": "It leaks.",
                            }
                        ],
                    },
                ],
                "container": "container_1",
            },
            "gemini": {
                "contents": [
                    {"role": "user", "parts": [{"text": "How is the roof?"}]},
                    {
                        "role": "model",
                        "parts": [
                            {"text": "Draw and look.", "thought": True},
                            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
                            {
                                "thoughtSignature": "c2lnMQ==",
                                "inlineData": {"mimeType": "image/png", "data": "iVBORw=="},
                            },
                            {
                                "thoughtSignature": "c2lnMg==",
                                "functionCall": {
                                    "id": "g1",
                                    "name": "look",
                                    "args": {"item": "roof"},
                                },
                            },
                            {
                                "functionCall": {
                                    "id": "g2",
                                    "name": "look",
                                    "args": {"item": "door"},
                                }
                            },
                        ],
                    },
                    {
                        "role": "user",
                        "parts": [
                            {
                                "functionResponse": {
                                    "id": "g1",
                                    "name": "look",
                                    "response": {"output": "It leaks."},
                                }
                            },
                            {
                                "functionResponse": {
                                    "id": "g2",
                                    "name": "look",
                                    "response": {"output": "It leaks."},
                                }
                            },
                        ],
                    },
                ]
            },
            "openai_chat": {
                "messages": [
                    {"role": "user", "content": "How is the roof?"},
                    {
                        "role": "assistant",
                        "content": "Looking.",
                        "reasoning_content": "The roof.",
                        "tool_calls": [
                            {
                                "id": "call_1",
                                "type": "function",
                                "function": {"name": "look", "arguments": '{"item":"roof"}'},
                                "extra_content": {"google": {"thought_signature": "S"}},
                            }
                        ],
                        "reasoning_details": [
                            {
                                "type": "reasoning.text",
                                "text": "The roof.",
                                "signature": "s",
                                "index": 0,
                            },
                            {"type": "reasoning.encrypted", "data": "D", "id": "r1", "index": 1},
                        ],
                    },
                    {"role": "tool", "tool_call_id": "call_1", "content": "It leaks."},
                ]
            },
            "openai_responses": {
                "input": [
                    {
                        "type": "message",
                        "role": "user",
                        "content": [{"type": "input_text", "text": "How is the roof?"}],
                    },
                    {
                        "summary": [{"type": "summary_text", "text": "Search."}],
                        "type": "reasoning",
                        "encrypted_content": "enc_1",
                    },
                    {
                        "type": "web_search_call",
                        "id": "ws_1",
                        "status": "completed",
                        "action": {"type": "search", "query": "roof"},
                    },
                    {"summary": [], "type": "reasoning", "encrypted_content": "enc_2"},
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [
                            {
                                "type": "output_text",
                                "text": "Roofs leak.",
                                "annotations": [
                                    {
                                        "type": "url_citation",
                                        "title": "Roofs",
                                        "url": "https://example.com",
                                        "start_index": 0,
                                        "end_index": 5,
                                    }
                                ],
                            }
                        ],
                        "phase": "commentary",
                    },
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": "Looking.",
                        "phase": "commentary",
                    },
                    {
                        "type": "function_call",
                        "call_id": "call_1",
                        "name": "look",
                        "arguments": '{"item":"roof"}',
                    },
                    {"type": "function_call_output", "call_id": "call_1", "output": "It leaks."},
                ]
            },
        }
    )


def test_a_signature_before_a_part_that_is_not_read_is_sent_alone() -> None:
    code = {"executableCode": {"code": "1", "language": "PYTHON"}}
    reply = Reply((Reasoning("", "c2ln", "gemini"), Opaque(json.dumps(code), "gemini")))

    assert APIS["gemini"].encode_messages((Prompt.of("go"), reply))["contents"][1]["parts"] == [
        {"text": "", "thoughtSignature": "c2ln"},
        code,
    ]
