"""Forms: what is read of a request, what a person types, and what is not accepted."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from approvals.person import person
from approvals.questions import asked
from approvals.test_terminal import answer, at
from handrail import READ
from handrail.approvals import FormField, read_form, render_request, view_request
from handrail.permissions import Edit, Grade, Pending

FIELDS: dict[str, Any] = {
    "size": {"type": "integer", "title": "Size", "description": "How many"},
    "weight": {"type": "number"},
    "colour": {"type": "string", "enum": ["r", "b"], "enumNames": ["red", "blue"], "default": "r"},
    "kind": {"type": "string", "oneOf": [{"const": "a", "title": "Alpha"}, {"const": "b"}]},
    "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "default": ["x", "y"]},
    "gift": {"type": "boolean", "default": False},
    "note": {"type": "string"},
}


def asking(**more: Any) -> Pending:
    form = {"type": "object", "properties": FIELDS, "required": ["size"]}
    args = {"question": "Which order?", "form": form, "asker": "the shop", **more}
    return asked(
        args,
        name="fill_in",
        kind="form",
        effect=READ,
        touches=(),
        question="Which order?",
        origin=None,
        grade=Grade.UNKNOWN,
        headline="Answer the shop",
    )


def test_a_form_says_what_it_takes() -> None:
    form = read_form(asking(url="https://a.example"))

    assert (form.question, form.asker, form.url) == (
        "Which order?",
        "the shop",
        "https://a.example",
    )
    assert [(one.label, one.describe()) for one in form.fields] == snapshot(
        [
            ("Size", "a whole number: How many"),
            ("weight", "a number, optional"),
            ("colour", "one of r (red), b (blue), optional, default r"),
            ("kind", "one of a (Alpha), b, optional"),
            ("tags", "some of x, y, separated by commas, optional, default x, y"),
            ("gift", "yes or no, optional, default no"),
            ("note", "text, optional"),
        ]
    )
    with pytest.raises(ValueError, match="no form"):
        read_form(asked({}))


def test_typed_texts_become_values_and_empty_ones_defaults() -> None:
    form = read_form(asking())
    typed = {"size": " 3 ", "weight": "1.5", "colour": "blue", "kind": "Alpha", "tags": "y"}

    assert form.fill({**typed, "gift": "Yes", "note": "Hi"}) == Edit(
        {
            "size": 3,
            "weight": 1.5,
            "colour": "b",
            "kind": "a",
            "tags": ["y"],
            "gift": True,
            "note": "Hi",
        }
    )
    assert form.fill({"size": "3", "note": " "}) == Edit(
        {"size": 3, "colour": "r", "tags": ["x", "y"], "gift": False}
    )


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("size", "", "Size: a value is needed, a whole number: How many"),
        ("size", "x", "Size: this must be a whole number: How many"),
        ("weight", "nan", "weight: this must be a number, optional"),
        ("colour", "green", "colour: this must be one of r (red), b (blue), optional, default r"),
        (
            "tags",
            "x, z",
            "tags: this must be some of x, y, separated by commas, optional, default x, y",
        ),
        ("gift", "maybe", "gift: this must be yes or no, optional, default no"),
        ("more", "1", "the form has no field 'more'"),
    ],
)
def test_what_does_not_fit_is_said(name: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match="^" + why.replace("(", r"\(").replace(")", r"\)") + "$"):
        read_form(asking()).fill({"size": "3", name: text})


def test_a_number_is_written_as_it_would_be_typed() -> None:
    assert FormField("a", "number", default=1.5).write_default() == "1.5"


def test_a_request_shows_the_fields_and_not_what_the_tool_keeps() -> None:
    pending = asking(state={"secret": "kept"})
    lines = [line.text for line in render_request(pending).lines]

    assert lines == snapshot(
        [
            "│ Answer the shop",
            "question: Which order?",
            "Size: a whole number: How many",
            "weight: a number, optional",
            "colour: one of r (red), b (blue), optional, default r",
            "kind: one of a (Alpha), b, optional",
            "tags: some of x, y, separated by commas, optional, default x, y",
            "gift: yes or no, optional, default no",
            "note: text, optional",
        ]
    )
    assert view_request(pending).title == "Answer the shop?"


async def test_a_person_types_the_values_at_the_terminal_until_they_fit() -> None:
    with person(height=40) as who:

        async def types() -> None:
            await who.answers("y")
            for number, word in enumerate(
                ["", "many", "3", "", "green", "blue", "", "", "yes", "Hi"]
            ):
                await who.sees("): ")
                who.types(word + "\n")
                assert number < 20

        given = await answer(at(who), asking(), types)

    assert isinstance(given, Edit)
    assert given.args == {
        "size": 3,
        "colour": "b",
        "tags": ["x", "y"],
        "gift": True,
        "note": "Hi",
    }
