"""A single result is encoded as in a history."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Call, FailureKind, File, Image, Result, Text
from handrail.messages import Reply, ToolResults
from handrail.providers import openai_chat
from providers.apis import APIS
from providers.formats.histories import CONTENT, IDS, NAMES
from providers.sdk_types import CHECKS

RESULTS = st.builds(
    lambda call_id, parts, failed: (
        Result.fail(call_id, FailureKind.FAILED, "no")
        if failed
        else Result(call_id, "\n".join(one.text for one in parts if isinstance(one, Text)), parts)
    ),
    IDS,
    st.lists(CONTENT, max_size=3).map(tuple),
    st.booleans(),
)


def encode(api: str, result: Result, name: str) -> dict[str, Any]:
    named = {"name": name} if api == "gemini" else {}
    made: dict[str, Any] = APIS[api].encode_result(result, **named)
    return made


def request(api: str, block: dict[str, Any]) -> dict[str, Any]:
    """A request with nothing else in it."""
    return {
        "anthropic": {"messages": [{"role": "user", "content": [block]}]},
        "gemini": {"contents": [{"role": "user", "parts": [block]}]},
        "openai_chat": {"messages": [block]},
        "openai_responses": {"input": [block]},
    }[api]


def within(api: str, body: dict[str, Any]) -> Any:
    """The block of the only result of a history."""
    match api:
        case "anthropic":
            return body["messages"][-1]["content"][0]
        case "gemini":
            return body["contents"][-1]["parts"][0]
        case "openai_chat":
            return body["messages"][1]
        case _:
            return body["input"][-1]


@pytest.mark.parametrize("api", APIS)
@given(RESULTS, NAMES)
def test_a_single_result_is_the_same_as_in_a_history(api: str, result: Result, name: str) -> None:
    block = encode(api, result, name)
    history = [Reply((Call(name, "{}", result.call_id),)), ToolResults((result,))]

    CHECKS[api](request(api, block))
    if api != "openai_chat" or all(isinstance(part, Text) for part in result.parts):
        assert block == within(api, APIS[api].encode_messages(history))


def test_a_tool_message_of_openai_chat_names_unsupported_parts() -> None:
    parts = (
        Text("Here."),
        Image(b"..."),
        File(b"a,b", "text/csv", "t.csv"),
        File(b"%PDF", "application/pdf", "d.pdf"),
        File(b"PK", "application/zip", "z.zip"),
    )

    assert openai_chat.encode_result(Result("c1", "Here.", parts)) == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": (
            "Here.\n"
            "[Image (image/png, 3 bytes) omitted: not supported here.]\n"
            "[File 't.csv':]\na,b\n"
            "[File 'd.pdf' (application/pdf, 4 bytes) omitted: not supported here.]\n"
            "[File 'z.zip' (application/zip, 2 bytes) omitted: not supported here.]"
        ),
    }
