"""Every place that shows a request shows every character of it that counts."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.faces import PARTS, TEXTS, Face, check_face, looks_alike
from approvals.questions import asked
from handrail.approvals import render_request
from handrail.approvals._question import render_question
from handrail.approvals._view import view_request
from handrail.console._rendering import Renderer
from handrail.console._request import make_page
from handrail.permissions import FileChange, Pending
from handrail.web._answers import describe_request


def terminal(pending: Pending) -> str:
    question = render_question(view_request(pending), workspace=None, width=5_000)
    assert not question.cut
    return "\n".join(line.text for line in question.lines)


def plain(pending: Pending) -> str:
    return "\n".join(line.text for line in render_request(pending, width=5_000).lines)


def page(pending: Pending) -> str:
    view = make_page(pending, full=True, may_answer=True)
    assert view.complete
    return renderer().text("content.html", request=view)


@cache
def renderer() -> Renderer:
    return Renderer("/", "/", unknown="link")


def chat(pending: Pending) -> str:
    """The chat server's answer, as ASCII: a page makes its texts safe to show."""
    return json.dumps(describe_request(pending) | {"seen": ""})


@pytest.mark.parametrize("face", [terminal, plain, page, chat])
@given(st.sampled_from([*PARTS]), TEXTS, TEXTS)
def test_two_requests_never_look_alike(face: Face, part: str, one: str, other: str) -> None:
    check_face(face, part, one, other)


@pytest.mark.parametrize(
    ("careless", "one", "other"),
    [
        (lambda pending: plain(pending)[:200], f"{'a' * 300}b", f"{'a' * 300}c"),
        (lambda pending: re.sub(r"\\u{[0-9A-F]+}", "", plain(pending)), "a", "a\r"),
        (lambda pending: " ".join(plain(pending).split()), "a b", "a  b"),
    ],
)
def test_a_place_that_leaves_something_out_is_found(careless: Face, one: str, other: str) -> None:
    assert looks_alike(careless, "note", one, other)
    assert not looks_alike(plain, "note", one, other)


def test_an_argument_that_is_not_in_a_changed_line_is_shown() -> None:
    change = FileChange("a", "0777\n1\n2\n3\nold\n", "0777\n1\n2\n3\nnew\n")
    args = {"path": "a", "text": "new", "mode": "0777", "owner": "root"}
    lines = terminal(asked(args, changes=(change,))).split("\n")

    assert [line for line in lines if ": " in line] == ["  mode: 0777", "  owner: root"]
