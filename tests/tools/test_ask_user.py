"""The tool ask_user: a question with choices, answered by a function of the application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor, Toolset
from handrail.tools import ask_user

ANSWERS = {"Which?": "green", "Why?": "because", "When?": None}


@pytest.mark.parametrize("name", ["ask_user", "AskUserQuestion"])
async def test_the_answer_of_the_user_is_returned(name: str) -> None:
    asked = list[tuple[str, Sequence[str]]]()

    async def answer(question: str, choices: Sequence[str]) -> str | None:
        asked.append((question, choices))
        return ANSWERS[question]

    calls: list[dict[str, Any]] = [
        {"question": "Which?", "options": ["red", "green"]},
        {"question": "Why?", "choices": ["so"]},
        {"question": "When?"},
        {"question": " "},
        {"question": "Which?", "choices": ["x"] * 11},
    ]
    tool = ask_user(answer)
    async with Executor(Toolset(tool)) as executor:
        told = [(await executor.run(Call(name, args, "c1"))).text for args in calls]

    if name != "ask_user":
        assert set(told) == {f"There is no tool {name!r}. To ask the user, use ask_user."}
        return
    assert told == snapshot(
        [
            """\
The user chose: green
[Note: options: was read as choices.]\
""",
            "The user answered: because",
            "Not answered. Continue with what you know, and mention what you assumed.",
            "Not asked: pass a question, and at most 10 choices.",
            "Not asked: pass a question, and at most 10 choices.",
        ]
    )
    assert asked == [("Which?", ("red", "green")), ("Why?", ("so",)), ("When?", ())]
    assert tool.headline is not None
    assert tool.headline(question="Why?", choices=None) == "Ask: Why?"
