"""Random histories of users, models and tools."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from handrail import Call, FailureKind, File, Image, Result, Text
from handrail.messages import (
    Message,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    ToolResults,
    TruncatedCall,
)
from providers.apis import APIS

WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]),
    min_size=1,
    max_size=8,
)
TEXTS = (st.sampled_from(["Failed: no", "[File 'a':]", " a\n", "{}"]) | WORDS).map(Text)
DATA = st.binary(min_size=1, max_size=4)
IMAGES = st.builds(
    Image, DATA, st.sampled_from(["image/png", "image/jpeg", "image/gif", "image/tiff"])
)
FILES = st.one_of(
    st.builds(File, DATA, st.just("application/pdf"), WORDS),
    st.builds(
        File,
        WORDS.map(str.encode),
        st.sampled_from(["text/plain", "text/csv", "application/json"]),
        WORDS,
    ),
    st.builds(File, DATA, st.sampled_from(["application/zip", "image/png", "text/plain"]), WORDS),
)
CONTENT = TEXTS | IMAGES | FILES
TOOLS = ["add", "fs.read", "write file", "größe", "x" * 70]
NAMES = st.sampled_from(TOOLS)
ARGS = st.one_of(
    st.dictionaries(
        WORDS, st.integers() | WORDS | st.none() | st.lists(st.booleans(), max_size=2), max_size=2
    ).map(json.dumps),
    st.sampled_from(
        [
            "",
            "nonsense",
            '{"a": 1',
            "[1]",
            '"{\\"a\\": 1}"',
            '{"a": 1, "a": 2}',
            '{"a": NaN}',
            '{"é":"😀"}',
            '{"a": 1e999}',
        ]
    ),
)
IDS = st.sampled_from(["c1", "call_2", "toolu_3", "a b", "é", "x" * 50, "id_x" + "0" * 24, ""])


def thoughts(api: str) -> st.SearchStrategy[Reasoning]:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    return {
        "anthropic": st.sampled_from(
            [
                Reasoning("hm", "sig", api),
                Reasoning("", "sig", api),
                Reasoning("", "redacted:enc", api),
                Reasoning("hm", "", api),
            ]
        ),
        "gemini": st.sampled_from(
            [Reasoning("hm", "", api), Reasoning("hm", "AAAA", api), Reasoning("", "BBBB", api)]
        ),
        "openai_chat": st.just(Reasoning("hm", "", api)),
        "openai_responses": st.sampled_from(
            [
                Reasoning("hm", compact({**item, "encrypted_content": "enc"}), api),
                Reasoning("hm", compact({**item, "id": "rs_1"}), api),
                Reasoning("hm", "", api),
            ]
        ),
    }[api]


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


PARTS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "é"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        {"type": "container_upload", "file_id": "f1"},
    ],
    "gemini": [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}, "thoughtSignature": "AA"},
    ],
    "openai_chat": [],
    "openai_responses": [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "é"},
        },
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "enc"},
    ],
}
"""Parts that handrail does not read."""
CITATION = {
    "type": "web_search_result_location",
    "cited_text": "a",
    "encrypted_index": "e",
    "title": "b",
    "url": "https://example.com",
}
FIELDS: dict[str, dict[type, dict[str, Any]]] = {
    "anthropic": {
        Text: {"citations": [CITATION]},
        Call: {"caller": {"type": "code_execution_20250825", "tool_id": "s1"}},
    },
    "gemini": {Call: {"partMetadata": {"a": "b"}}, Reply: {"groundingMetadata": {"a": 1}}},
    "openai_chat": {
        Call: {"extra_content": {"google": {"thought_signature": "S"}}},
        Reply: {"reasoning_details": [{"type": "reasoning.encrypted", "data": "D"}]},
    },
    "openai_responses": {Text: {"phase": "commentary"}, Call: {"namespace": "n"}},
}
"""Fields that handrail does not read: of text, of a call, or of the whole reply."""


def opaques(api: str) -> st.SearchStrategy[Opaque]:
    parts = [Opaque(compact(part), api) for part in PARTS[api]]
    return st.sampled_from(parts) if parts else st.nothing()


def with_fields(draw: st.DrawFn, parts: list[Any], api: str) -> list[Any]:
    """Add fields of an API before some of the parts, and at the end."""
    made: list[Any] = []
    for part in parts:
        if type(part) in FIELDS[api] and draw(st.booleans()):
            made.append(Opaque(compact(FIELDS[api][type(part)]), api, "fields"))
        made.append(part)
    if Reply in FIELDS[api] and draw(st.booleans()):
        made.append(Opaque(compact(FIELDS[api][Reply]), api, "fields"))
    return made


PROMPTS = st.builds(
    lambda first, more: Prompt((first, *more)), TEXTS, st.lists(CONTENT, max_size=2)
)


@st.composite
def replies(draw: st.DrawFn, apis: list[str]) -> Reply:
    api = draw(st.sampled_from(apis))
    visible: Any = TEXTS | IMAGES | thoughts(api) | opaques(api)
    parts = draw(st.lists(visible, max_size=3))
    ids = draw(st.lists(IDS, max_size=3, unique=True))
    for call_id in ids:
        call = (
            TruncatedCall(draw(NAMES), call_id, '{"a')
            if draw(st.booleans())
            else Call(draw(NAMES), draw(ARGS), call_id)
        )
        parts.insert(draw(st.integers(0, len(parts))), call)
    if not any(not isinstance(part, Reasoning | Opaque) for part in parts):
        parts.append(draw(TEXTS))
    return Reply(tuple(with_fields(draw, parts, api)), "calls" if ids else "end")


@st.composite
def answers(draw: st.DrawFn, reply: Reply) -> ToolResults:
    results: list[Result] = []
    for call in reply.parts:
        if isinstance(call, Call | TruncatedCall):
            if draw(st.booleans()):
                results.append(
                    Result.fail(call.id, draw(st.sampled_from(FailureKind)), draw(WORDS), "detail")
                )
            else:
                parts = draw(st.lists(CONTENT, max_size=3))
                text = "".join(part.text for part in parts if isinstance(part, Text))
                results.append(Result(call.id, text, tuple(parts)))
    return ToolResults(tuple(results))


@st.composite
def histories(draw: st.DrawFn, apis: list[str] = list(APIS)) -> list[Message]:  # noqa: B006
    messages: list[Message] = []
    for _ in range(draw(st.integers(1, 3))):
        messages += draw(st.lists(PROMPTS, min_size=1, max_size=2))
        reply = draw(replies(apis))
        messages.append(reply)
        results = draw(answers(reply))
        messages += [results] if results.results else []
    return messages
