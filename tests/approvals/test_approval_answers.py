"""Approvers without a terminal, and what the package promises as a whole."""

from __future__ import annotations

import subprocess
import sys

import pytest

import handrail.approvals
from approvals.questions import asked
from handrail import Allow, Ask, Call, Deny, Executor, Result, Toolset, tool
from handrail.approvals import TerminalAnswer, callback, defer
from handrail.permissions import Edit, Pending

QUESTION = asked({"path": "a"})
NO = "Not run: the user denied this call. Do not work around this. Continue without it, or tell the user."


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (True, Allow()),
        (False, Deny(NO)),
        ("Not on a Friday.", Deny("Not on a Friday.")),
        ("", Deny(NO)),
        (Deny("no"), Deny("no")),
        (Edit({"path": "b"}), Edit({"path": "b"})),
        (Result("c1", "done"), Result("c1", "done")),
        (QUESTION, QUESTION),
    ],
)
async def test_a_function_answers_in_short_words_or_with_an_answer(
    reply: TerminalAnswer, answer: object
) -> None:
    async def later(_pending: Pending) -> TerminalAnswer:
        return reply

    plain = await callback(lambda _: reply)(QUESTION)
    waited = await callback(later)(QUESTION)

    assert (plain, waited) == (answer, answer)


async def test_what_is_no_answer_runs_nothing() -> None:
    ran: list[str] = []

    @tool
    def wipe() -> None:
        """Wipe it."""
        ran.append("wipe")

    nonsense = callback(lambda _: None)  # type: ignore[arg-type,return-value]
    async with Executor(Toolset(wipe), policy=lambda *_: Ask("?"), approvals=nonsense) as executor:
        result = await executor.run(Call("wipe", {}, "c1"))

    assert (result.text, ran) == (
        "Not run: the approver returned an invalid answer. Tell the user.",
        [],
    )


async def test_a_question_is_handed_back_as_it_is() -> None:
    assert await defer(QUESTION) is QUESTION


def test_importing_the_package_does_not_load_rich() -> None:
    code = "import sys, handrail.approvals; print('rich' in sys.modules)"
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )

    assert done.stdout == "False\n"


def test_the_names_are_sorted_and_all_there() -> None:
    names = handrail.approvals.__all__

    assert (sorted(names), [hasattr(handrail.approvals, one) for one in names]) == (
        names,
        [True] * len(names),
    )
