"""An answer as JSON values: what was written comes back, and nothing else is an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Allow, Deny, Result
from handrail.permissions import Answer, Edit, Origin, read_answer, write_answer
from saved_values import OBJECTS, RESULTS, TEXTS

GIVEN = {"by": TEXTS, "via": TEXTS, "seen": TEXTS}
ANSWERS: st.SearchStrategy[Answer] = st.one_of(
    st.builds(Allow, **GIVEN),
    st.builds(Deny, TEXTS, detail=TEXTS, **GIVEN),
    st.builds(Edit, TEXTS | OBJECTS, **GIVEN),
    RESULTS,
)
GIVEN_BY_BOB = {"by": "bob", "via": "web", "seen": "d1"}


@given(ANSWERS)
def test_what_was_written_comes_back(answer: Answer) -> None:
    assert read_answer(json.loads(json.dumps(write_answer(answer)))) == answer


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (Allow(), {"allow": True}),
        (Allow(origin=Origin("r", "f", 1)), {"allow": True}),
        (Allow(**GIVEN_BY_BOB), {"allow": True, "given": GIVEN_BY_BOB}),
        (Deny("no", detail="why"), {"deny": "no", "detail": "why"}),
        (Edit({"n": 1}), {"edit": {"n": 1}}),
        (Edit("{"), {"edit": "{"}),
        (Result("1", "ok"), {"result": Result("1", "ok").to_json()}),
    ],
)
def test_what_it_looks_like(answer: Answer, written: dict[str, Any]) -> None:
    assert write_answer(answer) == written


@pytest.mark.parametrize(
    "plain",
    [
        None,
        "allow",
        {},
        {"allow": False},
        {"allow": 1},
        {"allow": True, "more": 1},
        {"allow": True, "given": {}},
        {"allow": True, "given": {**GIVEN_BY_BOB, "more": ""}},
        {"deny": "no"},
        {"deny": "no", "detail": 1},
        {"deny": "no", "detail": "", "allow": True},
        {"edit": [1]},
        {"edit": "{}", "more": 1},
        {"result": "{}"},
        {"result": Result("1", "ok").to_json(), "more": 1},
        {"result": Result("1", "ok").to_json(), "given": GIVEN_BY_BOB},
    ],
)
def test_anything_else_is_never_an_answer(plain: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown answer|Not a saved Result"):
        read_answer(plain)
