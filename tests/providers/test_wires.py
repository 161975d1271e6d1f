"""What each wire makes of single values, word for word."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, File, Image, Kind, Result, Text
from handrail.messages import Cut, Message, Prompt, Reply, Results, Thought, Usage
from handrail.providers import anthropic, gemini, openai_chat, openai_responses
from handrail.providers._ids import fitted, minted
from providers.wires import WIRES

HALF = "\ud83d"


def history(*parts: Text | Thought | Call | Cut) -> list[Message]:
    results = [Result(one.id, "ok") for one in parts if isinstance(one, Call | Cut)]
    return [Prompt.of("go"), Reply(parts), *([Results(tuple(results))] if results else [])]


def lost(messages: list[Message]) -> dict[str, tuple[str, ...]]:
    return {wire: module.losses(messages) for wire, module in WIRES.items()}


def test_losses_of_a_prompt_are_named() -> None:
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
                "messages[0]: half a character in the text is replaced",
                "messages[0]: text of white space alone is left out",
                "messages[0]: a picture of type image/svg+xml is left out",
                "messages[0]: a picture of type image/png is left out",
                "messages[0]: the name of the picture 'a.png' is left out",
                "messages[0]: the file 'a.zip' of type application/zip is left out",
                "messages[0]: the file 'odd.txt' of type text/plain is left out",
                "messages[0]: the file 'empty.txt' of type text/plain is left out",
            ),
            "gemini": (
                "messages[0]: half a character in the text is replaced",
                "messages[0]: a picture of type image/svg+xml is left out",
                "messages[0]: a picture of type image/png is left out",
                "messages[0]: the name and type of the file 'a.png' are said in words",
                "messages[0]: the file 'a.zip' of type application/zip is left out",
                "messages[0]: the name and type of the file 'a.csv' are said in words",
                "messages[0]: the file 'odd.txt' of type text/plain is left out",
                "messages[0]: the file 'empty.txt' of type text/plain is left out",
                "messages[0]: the name and type of the file 'é.json' are said in words",
            ),
            "openai_chat": (
                "messages[0]: half a character in the text is replaced",
                "messages[0]: a picture of type image/svg+xml is left out",
                "messages[0]: a picture of type image/png is left out",
                "messages[0]: the name of the picture 'a.png' is left out",
                "messages[0]: the file 'a.zip' of type application/zip is left out",
                "messages[0]: the file 'a.csv' goes as words",
                "messages[0]: the file 'odd.txt' of type text/plain is left out",
                "messages[0]: the file 'empty.txt' of type text/plain is left out",
                "messages[0]: the file 'é.json' goes as words",
            ),
            "openai_responses": (
                "messages[0]: half a character in the text is replaced",
                "messages[0]: a picture of type image/svg+xml is left out",
                "messages[0]: a picture of type image/png is left out",
                "messages[0]: the name of the picture 'a.png' is left out",
                "messages[0]: the file 'a.zip' of type application/zip is left out",
                "messages[0]: the file 'odd.txt' of type text/plain is left out",
                "messages[0]: the file 'empty.txt' of type text/plain is left out",
            ),
        }
    )


def test_losses_of_a_reply_are_named() -> None:
    messages = history(
        Thought("hm", "sig", "anthropic"),
        Thought("hm", "AAAA", "gemini"),
        Thought("hm", "", "openai_chat"),
        Thought("hm", "", "openai_responses"),
        Thought("hm"),
        Text("a"),
        Call("add", "no JSON", "c1"),
        Call("add", '"{\\"a\\":1}"', "c2"),
        Call("add", json.dumps({"a": HALF}), "c3"),
        Cut("add", "c4", '{"a'),
        Text("b"),
        Thought("hm", "sig", "anthropic"),
        Thought("hm", "{}", "openai_responses"),
    )

    assert lost(messages) == snapshot(
        {
            "anthropic": (
                "messages[1]: a thought from gemini is left out",
                "messages[1]: a thought from openai_chat is left out",
                "messages[1]: a thought from openai_responses is left out",
                "messages[1]: a thought from elsewhere is left out",
                "messages[1]: the arguments of the call 'c1' are no JSON object; it goes without",
                "messages[1]: the arguments of the call 'c2' go as the object that they say",
                "messages[1]: the arguments of the call 'c3' go as the object that they say",
                "messages[1]: the call 'c4' was cut off; it goes without arguments",
                "messages[1]: a thought that did not come to its end is left out",
                "messages[1]: a thought from openai_responses is left out",
            ),
            "gemini": (
                "messages[1]: a thought from anthropic is left out",
                "messages[1]: a thought from openai_chat is left out",
                "messages[1]: a thought from openai_responses is left out",
                "messages[1]: a thought from elsewhere is left out",
                "messages[1]: the arguments of the call 'c1' are no JSON object; it goes without",
                "messages[1]: the arguments of the call 'c2' go as the object that they say",
                "messages[1]: the arguments of the call 'c3' go as the object that they say",
                "messages[1]: the call 'c4' was cut off; it goes without arguments",
                "messages[1]: a thought from anthropic is left out",
                "messages[1]: a thought from openai_responses is left out",
            ),
            "openai_chat": (
                "messages[1]: a thought from anthropic is left out",
                "messages[1]: a thought from gemini is left out",
                "messages[1]: a thought from openai_responses is left out",
                "messages[1]: a thought from elsewhere is left out",
                "messages[1]: a thought from anthropic is left out",
                "messages[1]: a thought from openai_responses is left out",
                "messages[1]: thoughts stand first, then words, then calls",
                "messages[1]: the arguments of the call 'c1' are no JSON object; it goes without",
                "messages[1]: the arguments of the call 'c2' go as the object that they say",
                "messages[1]: the arguments of the call 'c3' go as the object that they say",
                "messages[1]: the call 'c4' was cut off; it goes without arguments",
            ),
            "openai_responses": (
                "messages[1]: a thought from anthropic is left out",
                "messages[1]: a thought from gemini is left out",
                "messages[1]: a thought from openai_chat is left out",
                "messages[1]: a thought that did not come to its end is left out",
                "messages[1]: a thought from elsewhere is left out",
                "messages[1]: the arguments of the call 'c1' are no JSON object; it goes without",
                "messages[1]: the arguments of the call 'c2' go as the object that they say",
                "messages[1]: the arguments of the call 'c3' go as the object that they say",
                "messages[1]: the call 'c4' was cut off; it goes without arguments",
                "messages[1]: a thought from anthropic is left out",
                "messages[1]: a thought that did not come to its end is left out",
            ),
        }
    )


def test_losses_of_results_are_named() -> None:
    messages = [
        Prompt.of("go"),
        Reply((Call("a", "{}", "c1"), Call("b", "{}", "c2"), Call("c", "{}", "c3"))),
        Results(
            (
                Result.fail("c1", Kind.FAILED, "No."),
                Result("c2", "Failed: ok", (Image(b"x"), Text("Failed: ok"))),
                Result("c3", "", (File(b"x", "application/zip", "a.zip"), Image(b"y"))),
            )
        ),
    ]

    assert lost(messages) == snapshot(
        {
            "anthropic": ("messages[2]: the file 'a.zip' of type application/zip is left out",),
            "gemini": (
                "messages[2]: what 'c2' shows stands after its words",
                "messages[2]: the file 'a.zip' of type application/zip is left out",
            ),
            "openai_chat": (
                "messages[2]: that 'c1' failed is said in words",
                "messages[2]: what 'c2' shows follows its result as a message of its own",
                "messages[2]: that 'c2' did not fail cannot be seen from its words",
                "messages[2]: what 'c3' shows follows its result as a message of its own",
                "messages[2]: the file 'a.zip' of type application/zip is left out",
            ),
            "openai_responses": (
                "messages[2]: that 'c1' failed is said in words",
                "messages[2]: that 'c2' did not fail cannot be seen from its words",
                "messages[2]: the file 'a.zip' of type application/zip is left out",
            ),
        }
    )


def test_a_request_says_in_words_what_a_wire_cannot_show() -> None:
    messages: list[Message] = [
        Prompt.of(File(b"a,b", "text/csv", "a.csv"), Image(b"x", "image/tiff")),
        Reply((Call("shoot", "{}", "c1"),)),
        Results(
            (Result("c1", "Here.", (Text("Here."), File(b"%PDF", "application/pdf", "a.pdf"))),)
        ),
    ]

    assert {wire: module.encode_messages(messages) for wire, module in WIRES.items()} == snapshot(
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
                                "text": "[A picture (image/tiff, 1 bytes) is left out: it cannot be shown here.]",
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
                            {"text": "[The file 'a.csv' (text/csv):]"},
                            {"inlineData": {"mimeType": "text/plain", "data": "YSxi"}},
                            {
                                "text": "[A picture (image/tiff, 1 bytes) is left out: it cannot be shown here.]"
                            },
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
[The file 'a.pdf' (application/pdf):]\
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
[The file 'a.csv':]
a,b\
""",
                            },
                            {
                                "type": "text",
                                "text": "[A picture (image/tiff, 1 bytes) is left out: it cannot be shown here.]",
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
[What it shows follows in the next message.]\
""",
                    },
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "[What the call c1 shows:]"},
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
                                "text": "[A picture (image/tiff, 1 bytes) is left out: it cannot be shown here.]",
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


@pytest.mark.parametrize("wire", WIRES)
def test_no_request_has_half_a_character(wire: str) -> None:
    messages = history(
        Text(HALF),
        Thought(HALF, HALF, wire) if wire == "gemini" else Text("a"),
        Call(HALF, {"a": HALF}, HALF),
    )
    body = WIRES[wire].encode_messages(
        [Prompt.of(HALF, File(b"x", "application/pdf", HALF)), *messages]
    )
    if wire == "gemini":
        body["contents"][2]["parts"][1].pop("thoughtSignature")

    assert json.dumps(body, ensure_ascii=False).encode()


def test_arguments_go_as_the_text_that_was_sent_where_a_wire_takes_text() -> None:
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


def test_ids_that_fit_stay_and_all_others_differ() -> None:
    made = fitted("a b", 0, 40)

    assert fitted("toolu_1", 0, 40) == "toolu_1"
    assert (
        len(
            {
                made,
                fitted(made, 0, 40),
                fitted("a b", 1, 40),
                fitted("x" * 41, 0, 40),
                fitted("", 0, 40),
            }
        )
        == 5
    )
    assert fitted("x" * 41, 0, 64) == "x" * 41


def test_a_minted_id_is_none_that_is_used() -> None:
    first = minted("r", 0, ("f", "{}"), set())

    assert minted("r", 0, ("f", "{}"), {first}) not in {first, minted("s", 0, ("f", "{}"), set())}


def test_gemini_keeps_each_seal_with_its_part() -> None:
    parts = (
        Thought("", "AAAA", "gemini"),
        Thought("hm", "BBBB", "gemini"),
        Thought("", "CCCC", "gemini"),
        Thought("", "DDDD", "gemini"),
        Text(""),
        Call("f", "{}", "c1"),
        Thought("", "EEEE", "gemini"),
    )
    [_, reply, _] = gemini.encode_messages(history(*parts))["contents"]

    assert reply["parts"] == [
        {"text": "", "thoughtSignature": "AAAA"},
        {"text": "hm", "thought": True, "thoughtSignature": "BBBB"},
        {"text": "", "thoughtSignature": "CCCC"},
        {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "DDDD"},
        {"text": "", "thoughtSignature": "EEEE"},
    ]


def test_gemini_takes_the_bytes_of_the_sdk_for_a_seal() -> None:
    part = {"function_call": {"name": "f"}, "thought_signature": b"\0\0\0"}
    reply = gemini.decode({"candidates": [{"content": {"parts": [part]}, "finish_reason": "STOP"}]})

    assert reply.parts[0] == Thought("", "AAAA", "gemini")


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
def test_gemini_puts_partial_arguments_in_their_place_or_makes_no_call_of_them(
    path: str, expected: str
) -> None:
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


def test_a_whole_anthropic_response_that_hit_the_limit_has_no_last_call() -> None:
    """Of a call that was cut off, it shows the arguments that were there: as if they were all."""
    blocks = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {"a": n}} for n in range(2)]
    response = {
        "id": "m",
        "model": "m",
        "content": blocks,
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }

    assert anthropic.decode(response) == Reply(
        (Call("f", '{"a":0}', "t0"), Cut("f", "t1", '{"a":1}')),
        "length",
        Usage(sent=1, received=2),
        "m",
    )


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "response", [{}, {"choices": 1, "content": "x", "output": {}, "candidates": [[]]}]
)
def test_a_response_of_nothing_is_a_reply_of_nothing(wire: str, response: dict[str, Any]) -> None:
    reply = WIRES[wire].decode(response)

    assert reply in {Reply((), "other"), Reply((), "end")}


def test_a_whole_chat_response_is_read_like_its_stream() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "a", "tool_calls": [call, call]}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}, {"index": 1}]
    reply = openai_chat.decode({"id": "r", "model": "m", "choices": choices})
    second = minted("r", 1, ("f", "{}"), set())

    assert reply == Reply(
        (Text("a"), Call("f", "{}", "c1"), Call("f", "{}", second)), "calls", model="m"
    )


def test_a_deep_and_endless_text_is_not_taken_for_arguments() -> None:
    deep = "[" * 100_000
    delta = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": deep}}]}
    more = {"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "f", "arguments": "{}"}}]}
    stream = openai_chat.Stream()
    for one in (delta, more):
        stream.feed({"choices": [{"delta": one}]})

    assert stream.end().parts == (Cut("f", "c1", deep), Call("f", "{}", "c2"))


def test_thoughts_go_back_over_their_own_wire() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    said = {
        "anthropic": (Thought("hm", "sig", "anthropic"), Thought("", "redacted:x", "anthropic")),
        "gemini": (Thought("hm", "", "gemini"), Thought("", "AAAA", "gemini")),
        "openai_chat": (Thought("h", "", "openai_chat"), Thought("m", "x", "openai_chat")),
        "openai_responses": (Thought("", json.dumps(item), "openai_responses"),),
    }
    bodies = {
        wire: module.encode_messages([Reply((*said[wire], Text("a"), Text("b")))], system="s")
        for wire, module in WIRES.items()
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
    assert openai_chat.losses([Reply((*said["openai_chat"], Text("a")))]) == (
        "messages[0]: the seal of a thought is left out",
    )


def test_a_reply_of_thoughts_alone_is_not_sent_back() -> None:
    for wire in ("anthropic", "openai_chat", "openai_responses"):
        reply = Reply((Thought("hm", "{}", wire),), "length")

        assert [*WIRES[wire].encode_messages([reply]).values()] == [[]]
        assert WIRES[wire].losses([reply])[-1] == (
            "messages[0]: a thought that did not come to its end is left out"
        )


def test_a_sealed_thought_of_openai_goes_back_as_it_came() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "enc",
        "later": {"a": 1},
    }
    response = {
        "output": [item, {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}]
    }
    reply = openai_responses.decode(response)
    body = openai_responses.encode_messages([reply, Results((Result("c1", "ok"),))])

    assert body["input"][0] == item
