"""What handrail does not read of a reply goes back to its own API; elsewhere it is a named loss."""

from __future__ import annotations

import json
from enum import Enum
from types import MappingProxyType
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, File, Image, Result, Text
from handrail.messages import Message, Opaque, Prompt, Reasoning, Reply, ReplyPart, ToolResults
from handrail.providers import anthropic, gemini, openai_chat, openai_responses
from providers.apis import APIS

OFFICE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def history(*parts: ReplyPart) -> list[Message]:
    results = [Result(one.id, "ok") for one in parts if isinstance(one, Call)]
    return [Prompt.of("go"), Reply(parts), *([ToolResults(tuple(results))] if results else [])]


def lost(messages: list[Message]) -> dict[str, tuple[str, ...]]:
    return {api: module.losses(messages) for api, module in APIS.items()}


def test_what_another_api_sent_is_a_loss() -> None:
    messages = history(
        Opaque('{"type":"server_tool_use"}', "anthropic"),
        Opaque('{"citations":[1],"later":2}', "anthropic", "fields"),
        Text("a"),
        Opaque('{"executableCode":{}}', "gemini"),
        Opaque('{"phase":"commentary"}', "openai_responses", "fields"),
        Text("b"),
        Opaque("no JSON", "openai_responses"),
        Opaque("[1]", "openai_responses", "fields"),
        Opaque("{}", ""),
        Opaque('{"type":"odd"}', "openai_chat"),
        Opaque('{"reasoning_details":[1],"annotations":[1]}', "openai_chat", "fields"),
    )

    assert lost(messages) == snapshot(
        {
            "anthropic": (
                "messages[1]: the part 'executableCode' from gemini is omitted",
                "messages[1]: the field 'phase' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from another API is omitted",
                "messages[1]: the part 'odd' from openai_chat is omitted",
                "messages[1]: the field 'reasoning_details' from openai_chat is omitted",
                "messages[1]: the field 'annotations' from openai_chat is omitted",
            ),
            "gemini": (
                "messages[1]: the part 'server_tool_use' from anthropic is omitted",
                "messages[1]: the field 'citations' from anthropic is omitted",
                "messages[1]: the field 'later' from anthropic is omitted",
                "messages[1]: the field 'phase' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from another API is omitted",
                "messages[1]: the part 'odd' from openai_chat is omitted",
                "messages[1]: the field 'reasoning_details' from openai_chat is omitted",
                "messages[1]: the field 'annotations' from openai_chat is omitted",
            ),
            "openai_chat": (
                "messages[1]: the part 'server_tool_use' from anthropic is omitted",
                "messages[1]: the field 'citations' from anthropic is omitted",
                "messages[1]: the field 'later' from anthropic is omitted",
                "messages[1]: the part 'executableCode' from gemini is omitted",
                "messages[1]: the field 'phase' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from another API is omitted",
                "messages[1]: the part 'odd' is omitted",
                "messages[1]: the field 'annotations' is omitted",
            ),
            "openai_responses": (
                "messages[1]: the part 'server_tool_use' from anthropic is omitted",
                "messages[1]: the field 'citations' from anthropic is omitted",
                "messages[1]: the field 'later' from anthropic is omitted",
                "messages[1]: the part 'executableCode' from gemini is omitted",
                "messages[1]: the part 'unknown' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from openai_responses is omitted",
                "messages[1]: the part 'unknown' from another API is omitted",
                "messages[1]: the part 'odd' from openai_chat is omitted",
                "messages[1]: the field 'reasoning_details' from openai_chat is omitted",
                "messages[1]: the field 'annotations' from openai_chat is omitted",
            ),
        }
    )


def test_an_image_of_a_reply_goes_back_to_gemini() -> None:
    messages = history(Reasoning("", "AAAA", "gemini"), Image(b"x"), Text("a"))
    bodies = {api: APIS[api].encode_messages(messages) for api in APIS}

    assert bodies["gemini"]["contents"][1]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "eA=="}, "thoughtSignature": "AAAA"},
        {"text": "a"},
    ]
    shown = "[Image (image/png, 1 bytes) omitted: not supported here.]"
    assert bodies["anthropic"]["messages"][1]["content"] == [
        {"type": "text", "text": shown},
        {"type": "text", "text": "a"},
    ]
    assert bodies["openai_chat"]["messages"][1] == {"role": "assistant", "content": f"{shown}a"}
    assert [item["content"] for item in bodies["openai_responses"]["input"][1:]] == [shown, "a"]


def test_an_incomplete_call_of_a_tool_that_the_provider_runs_is_not_sent_back() -> None:
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"qu'}
    stream = anthropic.Stream()
    for event in (
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}},
        {"type": "content_block_start", "index": 1, "content_block": use},
        {"type": "content_block_delta", "index": 1, "delta": delta},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    ):
        stream.feed(event)
    messages: list[Message] = [stream.end()]

    assert anthropic.encode_messages(messages) == {
        "messages": [{"role": "assistant", "content": [{"type": "text", "text": "a"}]}]
    }
    assert anthropic.losses(messages) == (
        "messages[0]: the part 'server_tool_use' is incomplete and omitted",
    )


def test_reasoning_without_a_signature_is_not_sent_back_to_anthropic() -> None:
    messages: list[Message] = [Reply((Reasoning("hm", "", "anthropic"), Text("a")))]

    assert anthropic.encode_messages(messages)["messages"][0]["content"] == [
        {"type": "text", "text": "a"}
    ]
    assert anthropic.losses(messages) == ("messages[0]: incomplete reasoning is omitted",)


def test_reasoning_that_nothing_follows_is_not_sent_back_to_openai() -> None:
    thought = '{"type":"reasoning","id":"rs_1","encrypted_content":"x"}'
    messages: list[Message] = [Reply((Text("a"), Reasoning("hm", thought, "openai_responses")))]

    assert [item["type"] for item in openai_responses.encode_messages(messages)["input"]] == [
        "message"
    ]
    assert openai_responses.losses(messages) == ("messages[0]: incomplete reasoning is omitted",)


def test_a_request_names_the_container_of_the_latest_reply_that_has_one() -> None:
    def reply(text: str, container: Any = None) -> Reply:
        content = [{"type": "text", "text": text}]
        return anthropic.decode(
            {"content": content, "stop_reason": "end_turn", "container": container}
        )

    first, second, none = reply("a", {"id": "k1"}), reply("b", {"id": "k2"}), reply("c")
    odd = reply("d", {"skills": [1]})

    assert anthropic.encode_messages([first, second, none, odd])["container"] == "k2"
    assert "container" not in anthropic.encode_messages([none, odd])
    assert anthropic.losses([first, second, none, odd]) == ()


def test_audio_of_a_reply_goes_back_by_its_id() -> None:
    audio = {"id": "aud_1", "data": "AA==", "transcript": "hi"}
    message = {"role": "assistant", "content": "hi", "audio": audio, "annotations": [{"a": 1}]}
    reply = openai_chat.decode({"choices": [{"message": message, "finish_reason": "stop"}]})

    assert openai_chat.encode_messages([reply])["messages"] == [
        {"role": "assistant", "content": "hi", "audio": {"id": "aud_1"}}
    ]
    assert openai_chat.losses([reply]) == ("messages[0]: the field 'annotations' is omitted",)


def test_values_of_an_sdk_are_kept_as_json() -> None:
    class Language(Enum):
        PYTHON = "PYTHON"

    code = {"code": b"\0", "language": Language.PYTHON, "more": MappingProxyType({"a": 1})}
    part = {"executable_code": code, "thought_signature": b"\0\0\0", "text": None}
    [kept] = gemini.decode({"candidates": [{"content": {"parts": [part]}}]}).parts

    assert isinstance(kept, Opaque)
    assert json.loads(kept.data) == {
        "executableCode": {"code": "AA==", "language": "PYTHON", "more": {"a": 1}},
        "thoughtSignature": "AAAA",
    }


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_request_of_anthropic_is_never_empty(text: str) -> None:
    empty = {"role": "user", "content": [{"type": "text", "text": "[This message is empty.]"}]}

    assert anthropic.encode_messages([Prompt.of(text)]) == {"messages": [empty]}
    assert anthropic.encode_messages([]) == {"messages": []}


def test_whitespace_after_a_reply_is_sent_as_a_message() -> None:
    """Without it, the request would end with the model's own reply."""
    body = anthropic.encode_messages([Prompt.of("a"), Reply((Text("b"),)), Prompt.of(" ")])

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_audio_and_office_documents_go_where_the_api_takes_them() -> None:
    audio, document = File(b"x", "audio/wav", "a.wav"), File(b"x", OFFICE, "a.docx")
    prompt = [Prompt.of(audio, document)]
    result = [Reply((Call("f", "{}", "c1"),)), ToolResults((Result("c1", "", (audio,)),))]

    assert gemini.encode_messages(prompt)["contents"][0]["parts"][:2] == [
        {"text": "[File 'a.wav' (audio/wav):]"},
        {"inlineData": {"mimeType": "audio/wav", "data": "eA=="}},
    ]
    assert openai_responses.encode_messages(prompt)["input"][0]["content"][1] == {
        "type": "input_file",
        "filename": "a.docx",
        "file_data": f"data:{OFFICE};base64,eA==",
    }
    assert lost(prompt) == {
        "anthropic": (
            "messages[0]: the file 'a.wav' of type audio/wav is omitted",
            f"messages[0]: the file 'a.docx' of type {OFFICE} is omitted",
        ),
        "gemini": (
            "messages[0]: the name and type of the file 'a.wav' are sent as text",
            f"messages[0]: the file 'a.docx' of type {OFFICE} is omitted",
        ),
        "openai_chat": (
            "messages[0]: the file 'a.wav' of type audio/wav is omitted",
            f"messages[0]: the file 'a.docx' of type {OFFICE} is omitted",
        ),
        "openai_responses": ("messages[0]: the file 'a.wav' of type audio/wav is omitted",),
    }
    assert gemini.losses(result) == ("messages[1]: the file 'a.wav' of type audio/wav is omitted",)
