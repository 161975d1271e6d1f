"""Conversations that other programs stored can be read, whatever is in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Call, Failure, FailureKind, File, Image, Result, Text
from handrail.messages import Message, Opaque, Prompt, Reasoning, Reply, ToolResults
from providers.apis import APIS

PNG = "data:image/png;base64,AA=="


def read(api: str, messages: list[Any]) -> tuple[tuple[Message, ...], list[str]]:
    lost: list[str] = []
    return APIS[api].decode_messages(
        messages, names={"fs_look": "fs.look"}, on_loss=lost.append
    ), lost


def failed(call_id: str, text: str) -> Result:
    return Result(call_id, text, failure=Failure(FailureKind.FAILED, text))


def test_a_conversation_of_anthropic() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    stored = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello."},
        {
            "role": "user",
            "content": [
                {"type": "image", "source": source, "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
                {"type": "document", "source": {"type": "content", "content": "x"}},
                {"type": "document", "source": {"type": "text", "data": "x"}, "title": "a.txt"},
                {"type": "search_result", "source": "x"},
                None,
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "tool_use", "id": "t1", "name": "fs_look", "input": {"a": 1}},
                {"type": "tool_use", "id": "t1", "name": "fs_look", "input": {"a": 2}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "1"}],
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "and"},
                {"type": "tool_result", "tool_use_id": "t1", "is_error": True},
            ],
        },
        7,
    ]
    messages, lost = read("anthropic", stored)
    [_, _, _, reply, *rest] = messages
    second = reply.parts[2].id  # type: ignore[union-attr]

    assert messages[:3] == (
        Prompt.of("hi"),
        Reply((Text("Hello."),)),
        Prompt.of(
            Image(b"\0"),
            "[Image: https://example.com/a.png]",
            "[Document: file_1]",
            File(b"x", "text/plain", "a.txt"),
        ),
    )
    assert reply == Reply(
        (
            Reasoning("hm", "sig", "anthropic"),
            Call("fs.look", '{"a":1}', "t1"),
            Call("fs.look", '{"a":2}', second),
        ),
        "calls",
    )
    assert rest == [
        ToolResults((Result("t1", "1"), failed(second, ""))),
        Prompt.of("and"),
    ]
    assert lost == [
        "messages[0]: the message with the role 'system' is omitted",
        "messages[3]: the image 'https://example.com/a.png' is sent as its address",
        "messages[3]: the document 'file_1' is sent as its address",
        "messages[3]: the part 'document' is omitted",
        "messages[3]: the part 'search_result' is omitted",
        "messages[7]: a value that is not an object is omitted",
    ]


def test_a_conversation_of_openai_chat() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "fs_look", "arguments": "{}"}}
    stored = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi"},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                {"type": "file", "file": {"file_id": "file_1"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "Failed: no"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "1"}]},
        {"role": "assistant", "function_call": {"name": "fs_look", "arguments": "{}"}},
        {"role": "function", "name": "fs_look", "content": ""},
        {"role": "assistant", "content": "", "refusal": None},
    ]
    messages, lost = read("openai_chat", stored)
    legacy = messages[3].parts[0].id  # type: ignore[union-attr]

    assert messages == (
        Prompt.of("hi", Image(b"\0"), "[Image: https://example.com/a.png]", "[File: file_1]"),
        Reply((Call("fs.look", "{}", "c1"), Call("fs.look", "{}", "c2")), "calls"),
        ToolResults((failed("c2", "no"), Result("c1", "1"))),
        Reply((Call("fs.look", "{}", legacy),), "calls"),
        ToolResults((Result(legacy, ""),)),
    )
    assert lost == [
        "messages[0]: the message with the role 'system' is omitted",
        "messages[1]: the image 'https://example.com/a.png' is sent as its address",
        "messages[1]: the file 'file_1' is sent as its address",
        "messages[1]: the part 'input_audio' is omitted",
    ]


def test_a_conversation_of_openai_responses() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    stored = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": PNG},
                {"type": "input_image", "file_id": "file_1"},
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
                {"type": "input_audio"},
            ],
        },
        {"type": "item_reference", "id": "rs_1"},
        search,
        {"role": "assistant", "content": "Hello."},
        {"type": "function_call", "call_id": "c1", "name": "fs_look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Failed: no"},
        {"type": "function_call", "call_id": "c2", "name": "fs_look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
    ]

    assert read("openai_responses", stored) == (
        (
            Prompt.of("hi"),
            Prompt.of(Image(b"\0"), "[Image: file_1]", "[File: https://example.com/a.pdf]"),
            Reply(
                (
                    Opaque(json.dumps(search, separators=(",", ":")), "openai_responses"),
                    Text("Hello."),
                    Call("fs.look", "{}", "c1"),
                ),
                "calls",
            ),
            ToolResults((failed("c1", "no"),)),
            Reply((Call("fs.look", "{}", "c2"),), "calls"),
            ToolResults((Result("c2", ""),)),
        ),
        [
            "messages[0]: the message with the role 'developer' is omitted",
            "messages[2]: the image 'file_1' is sent as its address",
            "messages[2]: the file 'https://example.com/a.pdf' is sent as its address",
            "messages[2]: the part 'input_audio' is omitted",
            "messages[3]: the part 'item_reference' is omitted",
        ],
    )


def test_a_conversation_of_gemini() -> None:
    call = {"functionCall": {"name": "fs_look", "args": {}}, "thought_signature": b"\0\0\0"}
    blob = {"mimeType": "application/pdf", "data": "AA==", "displayName": "a.pdf"}
    stored = [
        {
            "parts": [
                {"text": "hi"},
                {"text": ""},
                {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                {"file_data": {"file_uri": "https://example.com/a.mp4"}},
                {"executableCode": {}},
            ]
        },
        {"role": "model", "parts": [call, {"functionCall": {"name": "fs_look", "args": {"a": 1}}}]},
        {
            "role": "function",
            "parts": [
                {"functionResponse": {"name": "fs_look", "response": {"result": "1"}}},
                {
                    "function_response": {
                        "name": "fs_look",
                        "response": {"a": 1, "b": [2]},
                        "parts": [{"inlineData": blob}],
                    }
                },
                {"functionResponse": {"name": "other", "id": "x", "response": {"error": "no"}}},
            ],
        },
    ]
    messages, lost = read("gemini", stored)
    first, second = (part.id for part in messages[1].parts if isinstance(part, Call))  # type: ignore[union-attr]

    assert messages == (
        Prompt.of("hi", Image(b"\0"), "[File: https://example.com/a.mp4]"),
        Reply(
            (
                Reasoning("", "AAAA", "gemini"),
                Call("fs.look", "{}", first),
                Call("fs.look", '{"a":1}', second),
            ),
            "calls",
        ),
        ToolResults(
            (
                Result(first, "1"),
                Result(
                    second,
                    '{"a":1,"b":[2]}',
                    (Text('{"a":1,"b":[2]}'), File(b"\0", "application/pdf", "a.pdf")),
                ),
                failed("x", "no"),
            )
        ),
    )
    assert lost == [
        "messages[0]: the file 'https://example.com/a.mp4' is sent as its address",
        "messages[0]: the part 'executableCode' is omitted",
    ]


KEYS = st.sampled_from(
    "role content parts type text tool_calls function name arguments id call_id output input source"
    " data image_url url file functionCall functionResponse response inlineData thinking".split()
)
WORDS = st.sampled_from(
    "user assistant model tool system text tool_use tool_result message function_call reasoning"
    " function_call_output image document data:x;base64,? Failed: {}".split()
)
ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("api", APIS)
@given(messages=st.lists(ODD, max_size=4))
def test_no_stored_value_raises(api: str, messages: list[Any]) -> None:
    read_messages, _ = read(api, messages)

    assert all(isinstance(message, Prompt | Reply | ToolResults) for message in read_messages)
