"""A conversation that searches for tools, as requests in the format of each API.

To rewrite the data after an intended change: ``python tests/providers/searching.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from handrail import Call, Exposure, Result, Spec, Text
from handrail.messages import Message, Prompt, Reply, ToolResults, find_loaded_tools
from handrail.providers import anthropic, gemini, openai_chat, openai_responses

APIS = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
DATA = Path(__file__).parents[1] / "data" / "providers" / "search"
NATIVE = ("anthropic", "openai_responses")
"""The APIs that load what a search found."""

STRING = {"type": "string"}


def make_spec(name: str, exposure: Exposure, **properties: Any) -> Spec:
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    text = f"Use {name}."
    return Spec(name=name, description=text, input_schema=schema, exposure=exposure)


FINDER = make_spec("search_tools", Exposure.SEARCH, queries={"type": "array", "items": STRING})
TOOLS = (
    make_spec("read_note", Exposure.DIRECT, title=STRING),
    make_spec("add_note", Exposure.DIRECT, title=STRING),
    FINDER,
    make_spec("calendar.add", Exposure.DEFERRED, day=STRING),
    make_spec("mail.send", Exposure.DEFERRED, to=STRING, text=STRING),
    make_spec("weather", Exposure.DEFERRED, city=STRING),
    *(make_spec(f"unused_{number}", Exposure.DEFERRED, a=STRING) for number in range(20)),
)


def search(call_id: str, *queries: str) -> Call:
    return Call("search_tools", json.dumps({"queries": queries}), call_id)


HISTORY: tuple[Message, ...] = (
    Prompt.of("Mail Ann the weather in Oslo."),
    Reply((Text("I look for tools."), search("s1", "weather forecast", "send a mail")), "calls"),
    ToolResults((Result("s1", "weather(city)\nmail.send(...)", found=("weather", "mail.send")),)),
    Reply((Call("weather", '{"city":"Oslo"}', "c1"),), "calls"),
    ToolResults((Result("c1", "Rain."),)),
    Reply((search("s2", "send a fax"),), "calls"),
    ToolResults((Result("s2", "Nothing fits 'send a fax'. Do not repeat the same words."),)),
    Reply((search("s3", "calendar", "mail"), Call("read_note", '{"title":"Ann"}', "c2")), "calls"),
    ToolResults(
        (
            Result("s3", "calendar.add(day)\nmail.send(...)", found=("calendar.add", "mail.send")),
            Result("c2", "ann@example.com"),
        )
    ),
    Reply((Call("calendar.add", '{"day":"Monday"}', "c3"),), "calls"),
    ToolResults((Result("c3", "Added."),)),
    Reply((Text("Done."),)),
    Prompt.of("Thanks."),
)


def encode_request(
    api: str, messages: Sequence[Message], tools: Iterable[Spec] = TOOLS
) -> dict[str, Any]:
    """The request body that a model client writes."""
    tools, module = tuple(tools), APIS[api]
    encoded = module.encode_tools(tools, loaded=find_loaded_tools(messages))
    return {"tools": encoded, **module.encode_messages(messages, tools=tools)}


def conversation(api: str) -> list[dict[str, Any]]:
    """Every request of the conversation."""
    ends = [at for at, one in enumerate(HISTORY, 1) if not isinstance(one, Reply)]
    return [encode_request(api, HISTORY[:end]) for end in ends]


def golden(api: str) -> str:
    return json.dumps(conversation(api), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for api in APIS:
        (DATA / f"{api}.json").write_text(golden(api), encoding="utf-8")
    sys.exit()
