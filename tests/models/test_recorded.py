"""Replies that are recorded once and replayed: by content, with a message about what differs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from inline_snapshot import snapshot

from handrail import READ, Call, HandrailError, Image, Result, Text, Toolset, tool
from handrail.agent import Agent
from handrail.messages import (
    Delta,
    Model,
    ModelError,
    Prompt,
    Reasoning,
    Reply,
    Request,
    RequiredTool,
    StreamItem,
    ToolResults,
    TruncatedCall,
    Usage,
)
from handrail.models import recorded
from handrail.testing import ScriptedModel


@pytest.fixture
def anyio_backend() -> str:
    """The loops do not differ in what is recorded."""
    return "asyncio"


@tool(effect=READ)
def look(item: str) -> str:
    """Look at something."""
    return f"{item} is fine"


REPLY = Reply(
    (
        Reasoning("Hm.", "sealed", "anthropic"),
        Text("Let me see. é \ud83d"),
        Image(b"\x00\xff", "image/gif"),
        Call("look", '{"item":"roof"}', "c1"),
        TruncatedCall("look", "c2", '{"it'),
    ),
    "length",
    Usage(input_tokens=9, output_tokens=3, cached_tokens=2),
    "m-1",
)
HISTORY = (
    Prompt.of("How is the roof?", Image(b"\x00\xff")),
    Reply((Call("look", {"item": "roof"}, "c1"),), "calls"),
    ToolResults((Result("c1", "fine", (Text("fine"), Image(b"."))),)),
)
REQUEST = Request(HISTORY, Toolset(look), "Be brief.", 100, RequiredTool("look"))


async def collect(model: Model, request: Request = REQUEST) -> list[StreamItem]:
    return [item async for item in cast("AsyncIterator[StreamItem]", model(request))]


async def difference(path: Path, request: Request) -> str:
    with pytest.raises(ModelError) as raised:
        await collect(recorded(path), request)
    return str(raised.value).replace(str(path), "FILE")


async def test_a_reply_is_replayed_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "replies.json"

    async def streaming(_request: Request) -> AsyncIterator[StreamItem]:
        yield Delta("Let me see.")
        yield REPLY

    first = await collect(recorded(path, streaming))
    again = await collect(recorded(path))

    assert first == [Delta("Let me see."), REPLY]
    assert again == [Delta("Hm.", thought=True), Delta(REPLY.text), *REPLY.calls, REPLY]


async def test_a_run_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    script = ScriptedModel([Call("look", {"item": "roof"}, "c1")], "It is fine.")
    one = await Agent(recorded(path, script), Toolset(look)).run("How is the roof?")
    two = await Agent(recorded(path), Toolset(look)).run("How is the roof?")

    assert (one.text, len(script.requests)) == ("It is fine.", 2)
    assert two.state.messages == one.state.messages


async def test_a_recorded_request_is_not_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    script = ScriptedModel("One.", "Two.")
    model = recorded(path, script)
    other = REQUEST._replace(system="Be long.")
    replies = [(await collect(model, one))[-1] for one in (REQUEST, other, REQUEST)]

    assert [cast("Reply", reply).text for reply in replies] == ["One.", "Two.", "One."]
    assert script.requests == [REQUEST, other]


async def test_what_requests_share_is_saved_once(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    model = recorded(path, ScriptedModel("One.", "Two."))
    await collect(model, Request((Prompt.of("x" * 5_000),)))
    await collect(model, Request((Prompt.of("x" * 5_000), Reply((Text("One."),)), Prompt.of("y"))))

    assert path.read_text(encoding="utf-8").count("x" * 5_000) == 1


async def test_a_failure_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"

    async def failing(_request: Request) -> Reply:
        raise ModelError("It is overloaded.", "overloaded")

    with pytest.raises(ModelError, match="overloaded"):
        await collect(recorded(path, failing))
    assert not path.exists()


async def test_a_changed_request_says_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    model = recorded(path, ScriptedModel("One.", "Two."))
    await collect(model, Request((Prompt.of("Something else."),)))
    await collect(model)
    prompt, reply, _ = HISTORY
    long = "a" * 100
    changed = {
        "system": REQUEST._replace(system="Be long."),
        "limit": REQUEST._replace(max_tokens=None),
        "choice": REQUEST._replace(tool_choice="auto"),
        "tools": REQUEST._replace(tools=Toolset()),
        "result": REQUEST._replace(
            messages=(prompt, reply, ToolResults((Result("c1", "broken"),)))
        ),
        "one more": REQUEST._replace(messages=(*HISTORY, Prompt.of("And now?"))),
        "long": REQUEST._replace(system=f"Be brief.{long}"),
    }

    found = {name: await difference(path, request) for name, request in changed.items()}

    assert found == snapshot(
        {
            "system": 'There is no recorded reply for this request in FILE: system is "Be long.", and "Be brief." was recorded. Pass a model to record it.',
            "limit": "There is no recorded reply for this request in FILE: max_tokens is null, and 100 was recorded. Pass a model to record it.",
            "choice": 'There is no recorded reply for this request in FILE: tool_choice is "auto", and ["look"] was recorded. Pass a model to record it.',
            "tools": "There is no recorded reply for this request in FILE: tools has 0 items, and 1 were recorded. Pass a model to record it.",
            "result": 'There is no recorded reply for this request in FILE: messages[2].results[0].text is "broken", and "fine" was recorded. Pass a model to record it.',
            "one more": "There is no recorded reply for this request in FILE: messages has 4 items, and 3 were recorded. Pass a model to record it.",
            "long": 'There is no recorded reply for this request in FILE: system is "Be brief.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…", and "Be brief." was recorded. Pass a model to record it.',
        }
    )


async def test_a_long_text_is_shown_where_it_differs(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    text = "".join(f"line {number}\n" for number in range(100))
    await collect(recorded(path, ScriptedModel("One.")), Request((Prompt.of(text),)))

    changed = Request((Prompt.of(text.replace("line 50", "line fifty")),))
    assert await difference(path, changed) == snapshot(
        'There is no recorded reply for this request in FILE: messages[0].prompt[0].text is "…ine 48\\nline 49\\nline fifty\\nline 51\\nline 52\\nline 53\\nline 54\\nli…", and "…ine 48\\nline 49\\nline 50\\nline 51\\nline 52\\nline 53\\nline 54\\nline …" was recorded. Pass a model to record it.'
    )


async def test_a_file_without_replies_says_so(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text('{"handrail_replies": 1, "values": {}, "replies": []}', encoding="utf-8")

    assert await difference(path, REQUEST) == snapshot(
        "There is no recorded reply for this request in FILE: the file has no replies. Pass a model to record it."
    )


def test_a_file_must_exist_and_have_replies(tmp_path: Path) -> None:
    with pytest.raises(HandrailError, match="There are no recorded replies in"):
        recorded(tmp_path / "none.json")
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"x": 1}), encoding="utf-8")
    with pytest.raises(HandrailError, match="does not contain recorded replies of this version"):
        recorded(other)
