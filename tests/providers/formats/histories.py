"""Random histories of users, models and tools."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from handrail import Call, FailureKind, File, Image, Result, Text
from handrail.messages import Message, Prompt, Reasoning, Reply, ToolResults, TruncatedCall
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
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
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
                Reasoning("hm", json.dumps(item, separators=(",", ":")), api),
                Reasoning("hm", "", api),
            ]
        ),
    }[api]


PROMPTS = st.builds(
    lambda first, more: Prompt((first, *more)), TEXTS, st.lists(CONTENT, max_size=2)
)


@st.composite
def replies(draw: st.DrawFn, apis: list[str]) -> Reply:
    visible: Any = TEXTS | st.sampled_from(apis).flatmap(thoughts)
    parts = draw(st.lists(visible, max_size=3))
    ids = draw(st.lists(IDS, max_size=3, unique=True))
    for call_id in ids:
        call = (
            TruncatedCall(draw(NAMES), call_id, '{"a')
            if draw(st.booleans())
            else Call(draw(NAMES), draw(ARGS), call_id)
        )
        parts.insert(draw(st.integers(0, len(parts))), call)
    if not any(not isinstance(part, Reasoning) for part in parts):
        parts.append(draw(TEXTS))
    return Reply(tuple(parts), "calls" if ids else "end")


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
