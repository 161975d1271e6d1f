"""The exact output of each API for single values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, FailureKind, File, Image, Result, Text
from handrail.messages import Message, Prompt, Reasoning, Reply, ToolResults, TruncatedCall, Usage
from handrail.providers import anthropic, gemini, openai_chat, openai_responses
from providers.apis import APIS

HALF = "\ud83d"


def history(*parts: Text | Reasoning | Call | TruncatedCall) -> list[Message]:
    results = [Result(one.id, "ok") for one in parts if isinstance(one, Call | TruncatedCall)]
    return [Prompt.of("go"), Reply(parts), *([ToolResults(tuple(results))] if results else [])]


def lost(messages: list[Message]) -> dict[str, tuple[str, ...]]:
    return {api: module.losses(messages) for api, module in APIS.items()}


def test_losses_of_a_prompt() -> None:
    parts = (
        Text("a" + HALF),
        Text(" \n"),
        Image(b"x", "image/svg+xml"),
        Image(b"", "image/png"),
        File(b"x", "image/png", "a.png"),
        File(b"x", "application/zip", "a.zip"),
        File(b"x", "text/csv; charset=utf-8", "a.csv"),
        File(b"\xff", "text/plain", "odd.txt"),
        File(b"", "text/plain", "empty.txt"),
        File(b"x", "application/ld+json", "é.json"),
    )

    assert lost([Prompt(parts)]) == snapshot(
        {
            "anthropic": (
                "messages[0]: an incomplete character in the text is replaced",
                "messages[0]: text that is only whitespace is omitted",
                "messages[0]: the image of type image/svg+xml is omitted",
                "messages[0]: the image of type image/png is omitted",
                "messages[0]: the name of the image 'a.png' is omitted",
                "messages[0]: the file 'a.zip' of type application/zip is omitted",
                "messages[0]: the file 'odd.txt' of type text/plain is omitted",
                "messages[0]: the file 'empty.txt' of type text/plain is omitted",
            ),
            "gemini": (
                "messages[0]: an incomplete character in the text is replaced",
                "messages[0]: the image of type image/svg+xml is omitted",
                "messages[0]: the image of type image/png is omitted",
                "messages[0]: the name and type of the file 'a.png' are sent as text",
                "messages[0]: the file 'a.zip' of type application/zip is omitted",
                "messages[0]: the name and type of the file 'a.csv' are sent as text",
                "messages[0]: the file 'odd.txt' of type text/plain is omitted",
                "messages[0]: the file 'empty.txt' of type text/plain is omitted",
                "messages[0]: the name and type of the file 'é.json' are sent as text",
            ),
            "openai_chat": (
                "messages[0]: an incomplete character in the text is replaced",
                "messages[0]: the image of type image/svg+xml is omitted",
                "messages[0]: the image of type image/png is omitted",
                "messages[0]: the name of the image 'a.png' is omitted",
                "messages[0]: the file 'a.zip' of type application/zip is omitted",
                "messages[0]: the file 'a.csv' is sent as text",
                "messages[0]: the file 'odd.txt' of type text/plain is omitted",
                "messages[0]: the file 'empty.txt' of type text/plain is omitted",
                "messages[0]: the file 'é.json' is sent as text",
            ),
            "openai_responses": (
                "messages[0]: an incomplete character in the text is replaced",
                "messages[0]: the image of type image/svg+xml is omitted",
                "messages[0]: the image of type image/png is omitted",
                "messages[0]: the name of the image 'a.png' is omitted",
                "messages[0]: the file 'a.zip' of type application/zip is omitted",
                "messages[0]: the file 'odd.txt' of type text/plain is omitted",
                "messages[0]: the file 'empty.txt' of type text/plain is omitted",
            ),
        }
    )


def test_losses_of_a_reply() -> None:
    messages = history(
        Reasoning("hm", "sig", "anthropic"),
        Reasoning("hm", "AAAA", "gemini"),
        Reasoning("hm", "", "openai_chat"),
        Reasoning("hm", "", "openai_responses"),
        Reasoning("hm"),
        Text("a"),
        Call("add", "no JSON", "c1"),
        Call("add", '"{\\"a\\":1}"', "c2"),
        Call("add", json.dumps({"a": HALF}), "c3"),
        TruncatedCall("add", "c4", '{"a'),
        Text("b"),
        Reasoning("hm", "sig", "anthropic"),
        Reasoning("hm", "{}", "openai_responses"),
    )

    assert lost(messages) == snapshot(
        {
            "anthropic": (
                "messages[1]: reasoning from gemini is omitted",
                "messages[1]: reasoning from openai_chat is omitted",
                "messages[1]: reasoning from openai_responses is omitted",
                "messages[1]: reasoning from another API is omitted",
                "messages[1]: the arguments of the call 'c1' are not a JSON object; none are sent",
                "messages[1]: the arguments of the call 'c2' are sent as the parsed object",
                "messages[1]: the arguments of the call 'c3' are sent as the parsed object",
                "messages[1]: the call 'c4' was truncated; it is sent without arguments",
                "messages[1]: reasoning from openai_responses is omitted",
                "messages[1]: incomplete reasoning is omitted",
            ),
            "gemini": (
                "messages[1]: reasoning from anthropic is omitted",
                "messages[1]: reasoning from openai_chat is omitted",
                "messages[1]: reasoning from openai_responses is omitted",
                "messages[1]: reasoning from another API is omitted",
                "messages[1]: the arguments of the call 'c1' are not a JSON object; none are sent",
                "messages[1]: the arguments of the call 'c2' are sent as the parsed object",
                "messages[1]: the arguments of the call 'c3' are sent as the parsed object",
                "messages[1]: the call 'c4' was truncated; it is sent without arguments",
                "messages[1]: reasoning from anthropic is omitted",
                "messages[1]: reasoning from openai_responses is omitted",
            ),
            "openai_chat": (
                "messages[1]: reasoning from anthropic is omitted",
                "messages[1]: reasoning from gemini is omitted",
                "messages[1]: reasoning from openai_responses is omitted",
                "messages[1]: reasoning from another API is omitted",
                "messages[1]: the arguments of the call 'c1' are not a JSON object; none are sent",
                "messages[1]: the arguments of the call 'c2' are sent as the parsed object",
                "messages[1]: the arguments of the call 'c3' are sent as the parsed object",
                "messages[1]: the call 'c4' was truncated; it is sent without arguments",
                "messages[1]: reasoning from anthropic is omitted",
                "messages[1]: reasoning from openai_responses is omitted",
                "messages[1]: parts are reordered: reasoning first, then text, then calls",
            ),
            "openai_responses": (
                "messages[1]: reasoning from anthropic is omitted",
                "messages[1]: reasoning from gemini is omitted",
                "messages[1]: reasoning from openai_chat is omitted",
                "messages[1]: incomplete reasoning is omitted",
                "messages[1]: reasoning from another API is omitted",
                "messages[1]: the arguments of the call 'c1' are not a JSON object; none are sent",
                "messages[1]: the arguments of the call 'c2' are sent as the parsed object",
                "messages[1]: the arguments of the call 'c3' are sent as the parsed object",
                "messages[1]: the call 'c4' was truncated; it is sent without arguments",
                "messages[1]: reasoning from anthropic is omitted",
                "messages[1]: incomplete reasoning is omitted",
            ),
        }
    )


def test_losses_of_results() -> None:
    messages = [
        Prompt.of("go"),
        Reply((Call("a", "{}", "c1"), Call("b", "{}", "c2"), Call("c", "{}", "c3"))),
        ToolResults(
            (
                Result.fail("c1", FailureKind.FAILED, "No."),
                Result("c2", "Failed: ok", (Image(b"x"), Text("Failed: ok"))),
                Result("c3", "", (File(b"x", "application/zip", "a.zip"), Image(b"y"))),
            )
        ),
    ]

    assert lost(messages) == snapshot(
        {
            "anthropic": ("messages[2]: the file 'a.zip' of type application/zip is omitted",),
            "gemini": (
                "messages[2]: images and files of 'c2' are moved after its text",
                "messages[2]: the file 'a.zip' of type application/zip is omitted",
            ),
            "openai_chat": (
                "messages[2]: the failure of 'c1' is marked only in its text",
                "messages[2]: images and files of 'c2' are sent in a separate message",
                "messages[2]: the text of 'c2' looks like a failure, but it succeeded",
                "messages[2]: images and files of 'c3' are sent in a separate message",
                "messages[2]: the file 'a.zip' of type application/zip is omitted",
            ),
            "openai_responses": (
                "messages[2]: the failure of 'c1' is marked only in its text",
                "messages[2]: the text of 'c2' looks like a failure, but it succeeded",
                "messages[2]: the file 'a.zip' of type application/zip is omitted",
            ),
        }
    )


def test_a_request_describes_in_text_what_an_api_cannot_show() -> None:
    messages: list[Message] = [
        Prompt.of(File(b"a,b", "text/csv", "a.csv"), Image(b"x", "image/tiff")),
        Reply((Call("shoot", "{}", "c1"),)),
        ToolResults(
            (Result("c1", "Here.", (Text("Here."), File(b"%PDF", "application/pdf", "a.pdf"))),)
        ),
    ]

    assert {api: module.encode_messages(messages) for api, module in APIS.items()} == snapshot(
        {
            "anthropic": {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "document",
                                "source": {
                                    "type": "text",
                                    "media_type": "text/plain",
                                    "data": "a,b",
                                },
                                "title": "a.csv",
                                "context": "text/csv",
                            },
                            {
                                "type": "text",
                                "text": "[Image (image/tiff, 1 bytes) omitted: not supported here.]",
                            },
                        ],
                    },
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "c1", "name": "shoot", "input": {}}],
                    },
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": "c1",
                                "content": [
                                    {"type": "text", "text": "Here."},
                                    {
                                        "type": "document",
                                        "source": {
                                            "type": "base64",
                                            "media_type": "application/pdf",
                                            "data": "JVBERg==",
                                        },
                                        "title": "a.pdf",
                                    },
                                ],
                            }
                        ],
                    },
                ]
            },
            "gemini": {
                "contents": [
                    {
                        "role": "user",
                        "parts": [
                            {"text": "[File 'a.csv' (text/csv):]"},
                            {"inlineData": {"mimeType": "text/plain", "data": "YSxi"}},
                            {"text": "[Image (image/tiff, 1 bytes) omitted: not supported here.]"},
                        ],
                    },
                    {
                        "role": "model",
                        "parts": [
                            {
                                "functionCall": {"id": "c1", "name": "shoot", "args": {}},
                                "thoughtSignature": "skip_thought_signature_validator",
                            }
                        ],
                    },
                    {
                        "role": "user",
                        "parts": [
                            {
                                "functionResponse": {
                                    "id": "c1",
                                    "name": "shoot",
                                    "response": {
                                        "output": """\
Here.
[File 'a.pdf' (application/pdf):]\
"""
                                    },
                                    "parts": [
                                        {
                                            "inlineData": {
                                                "mimeType": "application/pdf",
                                                "data": "JVBERg==",
                                            }
                                        }
                                    ],
                                }
                            }
                        ],
                    },
                ]
            },
            "openai_chat": {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "text",
                                "text": """\
[File 'a.csv':]
a,b\
""",
                            },
                            {
                                "type": "text",
                                "text": "[Image (image/tiff, 1 bytes) omitted: not supported here.]",
                            },
                        ],
                    },
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "c1",
                                "type": "function",
                                "function": {"name": "shoot", "arguments": "{}"},
                            }
                        ],
                    },
                    {
                        "role": "tool",
                        "tool_call_id": "c1",
                        "content": """\
Here.
[Images and files follow in the next message.]\
""",
                    },
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "[Images and files of call c1:]"},
                            {
                                "type": "file",
                                "file": {
                                    "filename": "a.pdf",
                                    "file_data": "data:application/pdf;base64,JVBERg==",
                                },
                            },
                        ],
                    },
                ]
            },
            "openai_responses": {
                "input": [
                    {
                        "type": "message",
                        "role": "user",
                        "content": [
                            {
                                "type": "input_file",
                                "filename": "a.csv",
                                "file_data": "data:text/csv;base64,YSxi",
                            },
                            {
                                "type": "input_text",
                                "text": "[Image (image/tiff, 1 bytes) omitted: not supported here.]",
                            },
                        ],
                    },
                    {"type": "function_call", "call_id": "c1", "name": "shoot", "arguments": "{}"},
                    {
                        "type": "function_call_output",
                        "call_id": "c1",
                        "output": [
                            {"type": "input_text", "text": "Here."},
                            {
                                "type": "input_file",
                                "filename": "a.pdf",
                                "file_data": "data:application/pdf;base64,JVBERg==",
                            },
                        ],
                    },
                ]
            },
        }
    )


@pytest.mark.parametrize("api", APIS)
def test_no_request_has_a_lone_surrogate(api: str) -> None:
    messages = history(
        Text(HALF),
        Reasoning(HALF, HALF, api) if api == "gemini" else Text("a"),
        Call(HALF, {"a": HALF}, HALF),
    )
    body = APIS[api].encode_messages(
        [Prompt.of(HALF, File(b"x", "application/pdf", HALF)), *messages]
    )
    if api == "gemini":
        body["contents"][2]["parts"][1].pop("thoughtSignature")

    assert json.dumps(body, ensure_ascii=False).encode()


def test_arguments_are_sent_as_the_original_text_if_the_api_takes_text() -> None:
    texts = [
        '{"a": 1.0,\n "b": "\\u00e9"}',
        '"{}"',
        "",
        '{"a":1,"a":2}',
        '{"n":NaN}',
        '{"n":1e999}',
    ]
    calls = [Call("f", text, f"c{n}") for n, text in enumerate(texts)]
    calls.append(Call("f", {"a": 1}, "m"))
    calls.append(Call("f", {"a": object()}, "o"))
    [_, reply, *_] = openai_chat.encode_messages(history(*calls))["messages"]

    assert [one["function"]["arguments"] for one in reply["tool_calls"]] == [
        texts[0],
        *["{}"] * 5,
        '{"a":1}',
        "{}",
    ]


def test_valid_ids_stay_and_all_others_differ() -> None:
    def fit(call_id: str) -> str:
        return str(openai_chat.encode_result(Result(call_id, "ok"))["tool_call_id"])

    twice = openai_chat.encode_messages(history(Call("f", "{}", "a b")) * 2)["messages"]
    again = twice[-1]["tool_call_id"]

    assert fit("toolu_1") == "toolu_1"
    assert len({fit("a b"), fit(fit("a b")), again, fit("x" * 41), fit("")}) == 5
    assert anthropic.encode_result(Result("x" * 41, "ok"))["tool_use_id"] == "x" * 41


def ids(response_id: str, *call_ids: str) -> list[str]:
    """The ids of equal calls in a reply that has these ids."""
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": call_id, "function": function} for call_id in call_ids]
    choice = {"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}
    return [call.id for call in openai_chat.decode({"id": response_id, "choices": [choice]}).calls]


def test_a_generated_id_is_unused() -> None:
    [_, minted], [_, elsewhere] = ids("r", "c1", ""), ids("s", "c1", "")
    [used, another] = ids("r", minted, "")

    assert used == minted
    assert another not in {minted, elsewhere}


def test_gemini_keeps_each_signature_with_its_part() -> None:
    parts = (
        Reasoning("", "AAAA", "gemini"),
        Reasoning("hm", "BBBB", "gemini"),
        Reasoning("", "CCCC", "gemini"),
        Reasoning("", "DDDD", "gemini"),
        Text(""),
        Call("f", "{}", "c1"),
        Reasoning("", "EEEE", "gemini"),
    )
    [_, reply, _] = gemini.encode_messages(history(*parts))["contents"]

    assert reply["parts"] == [
        {"text": "", "thoughtSignature": "AAAA"},
        {"text": "hm", "thought": True, "thoughtSignature": "BBBB"},
        {"text": "", "thoughtSignature": "CCCC"},
        {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "DDDD"},
        {"text": "", "thoughtSignature": "EEEE"},
    ]


def test_gemini_accepts_the_sdks_bytes_as_a_signature() -> None:
    part = {"function_call": {"name": "f"}, "thought_signature": b"\0\0\0"}
    reply = gemini.decode({"candidates": [{"content": {"parts": [part]}, "finish_reason": "STOP"}]})

    assert reply.parts[0] == Reasoning("", "AAAA", "gemini")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.a.b", '{"a":{"b":1}}'),
        ("$['a']['it\\'s']", '{"a":{"it\'s":1}}'),
        ('$["a"][0]', '{"a":[1]}'),
        ("a", ""),
        ("$", ""),
        ("$.a[", ""),
        ("$.a[1]", ""),
        ("$.b.c", ""),
    ],
)
def test_gemini_assembles_partial_arguments_or_makes_no_call(path: str, expected: str) -> None:
    call: Any = {
        "name": "f",
        "partialArgs": [
            {"jsonPath": "$.b", "willContinue": True},
            {"jsonPath": path, "numberValue": 1},
        ],
    }
    if path == "$.b.c":
        call["args"] = {"b": 2}
    reply = gemini.decode(
        {"candidates": [{"content": {"parts": [{"functionCall": call}]}, "finishReason": "STOP"}]}
    )
    [made] = reply.calls

    assert made.args == expected or (not expected and not str(made.args).endswith("}"))


def test_a_complete_anthropic_response_at_the_limit_has_no_last_call() -> None:
    """The response has the incomplete arguments of a truncated call as if they were complete."""
    blocks = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {"a": n}} for n in range(2)]
    response = {
        "id": "m",
        "model": "m",
        "content": blocks,
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }

    assert anthropic.decode(response) == Reply(
        (Call("f", '{"a":0}', "t0"), TruncatedCall("f", "t1", '{"a":1}')),
        "length",
        Usage(input_tokens=1, output_tokens=2),
        "m",
    )


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "response", [{}, {"choices": 1, "content": "x", "output": {}, "candidates": [[]]}]
)
def test_an_empty_response_is_an_empty_reply(api: str, response: dict[str, Any]) -> None:
    reply = APIS[api].decode(response)

    assert reply in {Reply((), "other"), Reply((), "end")}


def test_a_complete_chat_response_is_decoded_like_its_stream() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "a", "tool_calls": [call, call]}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}, {"index": 1}]
    reply = openai_chat.decode({"id": "r", "model": "m", "choices": choices})
    [_, second] = ids("r", "c1", "")

    assert reply == Reply(
        (Text("a"), Call("f", "{}", "c1"), Call("f", "{}", second)), "calls", model="m"
    )


def test_deeply_nested_json_is_not_accepted_as_arguments() -> None:
    deep = "[" * 100_000
    delta = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": deep}}]}
    more = {"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "f", "arguments": "{}"}}]}
    stream = openai_chat.Stream()
    for one in (delta, more):
        stream.feed({"choices": [{"delta": one}]})

    assert stream.end().parts == (TruncatedCall("f", "c1", deep), Call("f", "{}", "c2"))


def test_reasoning_goes_back_to_its_own_api() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "enc"}
    stored = {**item, "id": "rs_1", "status": "completed"}
    reasoning = {
        "anthropic": (
            Reasoning("hm", "sig", "anthropic"),
            Reasoning("", "redacted:x", "anthropic"),
        ),
        "gemini": (Reasoning("hm", "", "gemini"), Reasoning("", "AAAA", "gemini")),
        "openai_chat": (Reasoning("h", "", "openai_chat"), Reasoning("m", "x", "openai_chat")),
        "openai_responses": (Reasoning("", json.dumps(stored), "openai_responses"),),
    }
    bodies = {
        api: module.encode_messages([Reply((*reasoning[api], Text("a"), Text("b")))], system="s")
        for api, module in APIS.items()
    }

    assert bodies == {
        "anthropic": {
            "system": "s",
            "messages": [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "sig"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "a"},
                        {"type": "text", "text": "b"},
                    ],
                }
            ],
        },
        "gemini": {
            "systemInstruction": {"parts": [{"text": "s"}]},
            "contents": [
                {
                    "role": "model",
                    "parts": [
                        {"text": "hm", "thought": True},
                        {"text": "a", "thoughtSignature": "AAAA"},
                        {"text": "b"},
                    ],
                }
            ],
        },
        "openai_chat": {
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "assistant", "content": "ab", "reasoning_content": "hm"},
            ]
        },
        "openai_responses": {
            "instructions": "s",
            "input": [
                item,
                {"type": "message", "role": "assistant", "content": "a"},
                {"type": "message", "role": "assistant", "content": "b"},
            ],
        },
    }
    assert openai_chat.losses([Reply((*reasoning["openai_chat"], Text("a")))]) == (
        "messages[0]: the signature of reasoning is omitted",
    )


def test_a_reply_with_only_reasoning_is_not_sent_back() -> None:
    for api in ("anthropic", "openai_chat", "openai_responses"):
        reply = Reply((Reasoning("hm", "{}", api),), "length")

        assert [*APIS[api].encode_messages([reply]).values()] == [[]]
        assert APIS[api].losses([reply])[-1] == ("messages[0]: incomplete reasoning is omitted")


def test_reasoning_of_openai_goes_back_encrypted_without_an_id_or_as_text() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    head = {"type": "reasoning", "id": "rs_1", "summary": []}
    encrypted = {**head, "encrypted_content": "enc", "later": {"a": 1}}
    as_text = {**head, "content": [{"type": "reasoning_text", "text": "hm"}]}
    unusable = {**head, "encrypted_content": None}
    reply = openai_responses.decode({"output": [encrypted, as_text, unusable, call]})
    messages = [reply, ToolResults((Result("c1", "ok"),))]

    assert openai_responses.encode_messages(messages)["input"][:-1] == [
        {key: value for key, value in encrypted.items() if key != "id"},
        as_text,
        call,
    ]
    assert openai_responses.losses(messages) == (
        "messages[0]: reasoning without encrypted content is omitted",
    )
