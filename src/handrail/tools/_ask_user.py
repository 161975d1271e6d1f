"""The ask_user tool: a question of a model to the user, with choices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from handrail import READ, Tool, ToolFailed, tool
from handrail.tools._descriptions import ASK_USER_DESCRIPTION
from handrail.tools._habits import ASK_USER_INSTEAD_OF

_MAX_CHOICES = 10
_MAX_SECONDS = 24 * 3600.0
"""Seconds a question waits for its answer."""

AnswerQuestion: TypeAlias = Callable[[str, Sequence[str]], Awaitable[str | None]]
"""Takes a question and its choices; returns the user's answer, or None without one."""


_ANSWERED = "The user answered: "


def _find_words(text: str) -> dict[str, list[str]]:
    """Return the user's own words. A chosen answer has the words of the model."""
    return {"said": [text.removeprefix(_ANSWERED)]} if text.startswith(_ANSWERED) else {}


def ask_user(answer: AnswerQuestion) -> Tool[..., Any]:
    """Make a tool that asks the user a question. ``answer`` shows it and returns the answer."""

    def headline(question: str, **_: object) -> str:
        return f"Ask: {question}"

    @tool(
        description=ASK_USER_DESCRIPTION,
        effect=READ,
        touches=lambda **_: (),
        headline=headline,
        timeout=_MAX_SECONDS,
        exclusive=True,
        synonyms={"options": "choices", "prompt": "question"},
        instead_of=ASK_USER_INSTEAD_OF,
        own=_find_words,
    )
    async def ask_user(question: str, choices: list[str] | None = None) -> str:
        """Ask the user.

        Args:
            question: The question, in one or two sentences.
            choices: Answers to choose from, at most 10. The user may give another answer.
        """
        offered = tuple(choices or ())
        if not question.strip() or len(offered) > _MAX_CHOICES:
            raise ToolFailed(f"Not asked: pass a question, and at most {_MAX_CHOICES} choices.")
        said = await answer(question, offered)
        if said is None:
            return "Not answered. Continue with what you know, and mention what you assumed."
        return f"The user chose: {said}" if said in offered else f"{_ANSWERED}{said}"

    return ask_user
