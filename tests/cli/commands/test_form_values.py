"""`handrail runs approve --set`: values for a call that asks for them."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from cli_harness import Handrail
from console.visits import make_pending, park
from handrail.permissions import Grade
from handrail.runs import RunRecord, open_runs

FORM = {
    "type": "object",
    "properties": {"size": {"type": "integer"}, "colour": {"enum": ["red", "blue"]}},
    "required": ["size"],
}
QUESTION = make_pending(
    "r1",
    "c9",
    tool="fill_in",
    args={"question": "Which?", "form": FORM},
    kind="form",
    headline="Answer the shop",
    question="Which?",
    grade=Grade.UNKNOWN,
    expires_at=float("inf"),
)
REFUND = make_pending("r1", "c1", position=1, expires_at=float("inf"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("c9", "--set", "size=3", "--set", "colour=blue"), ""),
        (("c9", "--set", "size=many"), "size: this must be a whole number"),
        (("c9",), "size: a value is needed, a whole number"),
        (("--all",), "a call that asks for values is answered alone"),
        (("c1", "--set", "size=3"), "values are for one call that asks for them"),
    ],
)
def test_values_are_for_one_form_and_must_fit(
    handrail: Handrail, arguments: tuple[str, ...], said: str
) -> None:
    file = handrail.workspace / "journal.db"
    with closing(open_runs(file)) as journal:
        park(journal, QUESTION, REFUND)
    ran = handrail("runs", "approve", "r1", *arguments, "--database", str(file))
    with closing(open_runs(file)) as journal:
        answers = RunRecord(journal, "r1").answers

    if said:
        assert (ran.exit == 0, said in ran.err, answers) == (False, True, {})
    else:
        assert (ran.exit, [*answers]) == (0, [QUESTION.id])
        saved = json.loads(str(answers[QUESTION.id]["saved"]))
        assert saved["answer"]["edit"] == '{"size": 3, "colour": "blue"}'
        assert "size: a whole number" in ran.out
