"""A pending call as JSON: what was written comes back, and nothing else is taken for one."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import WRITE, Access, Call
from handrail.permissions import CommandPart, FileChange, Grade, Origin, Pending, Undoable
from saved_values import JSON, PENDING

ASKED = Pending(
    run_id="order-77",
    turn_id="3",
    key="order-77/3/c1",
    position=1,
    round=2,
    call=Call("pay", {"amount": 5}, "c1"),
    effect=WRITE,
    accesses=(Access("write", "order:o1"),),
    question="Pay 5?",
    fingerprint="ab",
    asked_at=1.5,
    expires_at=math.inf,
    origin=Origin("money", "rules.toml", 3, digest="00ff"),
    once=True,
    after=("order-77/3/c0",),
    headline="Pay 5 euros",
    changes=(
        "5 euros go to the shop.",
        FileChange("orders/o1", None, "paid\n"),
        Undoable(("build",), "Undo cannot restore: build."),
    ),
    grade=Grade.LOSES,
    parts=(CommandPart(0, 8, Grade.LOSES, ("build",)),),
)
PLAIN: dict[str, Any] = json.loads(ASKED.to_json())


def test_an_answer_names_the_call_and_the_round() -> None:
    assert ASKED.id == "order-77~3~c1~2"


@given(PENDING, st.integers(0, 99))
def test_an_id_is_safe_in_a_url_and_as_the_name_of_a_file(pending: Pending, number: int) -> None:
    first, second = (replace(pending, round=one).id for one in (number, number + 1))

    assert quote(first, safe="") == first
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.~-]{,120}", first)
    assert first != second


def test_ids_of_different_calls_differ_and_begin_like_the_run() -> None:
    keys = [
        "r/1/c", "r/1/c#2", "r%7E1/1/c", "s1.r/1/c", "s1.r/1/" + "c" * 100, "s1.r/1/" + "c" * 101,
        "r/1/ü", "-r/1/c", "", "R/1/c", "r%2F1/1/c", "r/1/c~1", "r/1/c.1", "r/~1/c",
    ]  # fmt: skip
    digest = hashlib.sha256("r/1/ü".encode()).hexdigest()

    ids = [replace(ASKED, key=key, round=0).id for key in keys]

    assert len(set(ids)) == len(keys)
    assert (ids[0], ids[3], ids[6]) == ("r~1~c~0", "s1.r~1~c~0", f"r~{digest}~0")
    assert [one.partition(".")[0] for one in ids[3:6]] == ["s1", "s1", "s1"]
    assert [one.partition("~")[0] for one in ids[7:9]] == ["x", "x"]


def test_the_arguments_of_a_pending_call_are_json_text() -> None:
    assert ASKED.call == Call("pay", '{"amount": 5}', "c1")


@pytest.mark.parametrize(
    "args",
    [{"a": {1}}, {"a": math.nan}, {b"a": 1}, {"a": ASKED}],
    ids=["set", "nan", "key", "object"],
)
def test_arguments_that_json_cannot_represent_are_refused(args: dict[Any, Any]) -> None:
    with pytest.raises(ValueError, match="JSON"):
        Pending(
            run_id="", turn_id="", key="k", position=0, round=0, call=Call("pay", args, "c1"),
            effect=WRITE, accesses=(), question="?", fingerprint="", asked_at=0.0, expires_at=1.0,
        )  # fmt: skip


@given(PENDING)
def test_what_was_written_comes_back(pending: Pending) -> None:
    text = pending.to_json()

    assert Pending.from_json(text) == pending
    assert Pending.from_json(text).to_json() == text
    text.encode("ascii")  # it can be stored anywhere


def test_what_it_looks_like() -> None:
    assert json.loads(ASKED.to_json()) == snapshot(
        {
            "v": 1,
            "run_id": "order-77",
            "turn_id": "3",
            "key": "order-77/3/c1",
            "position": 1,
            "round": 2,
            "call": {"name": "pay", "args": '{"amount": 5}', "id": "c1"},
            "effect": "write",
            "accesses": [{"verb": "write", "resource": "order:o1"}],
            "question": "Pay 5?",
            "fingerprint": "ab",
            "asked_at": 1.5,
            "expires_at": None,
            "origin": {
                "rule": "money",
                "file": "rules.toml",
                "line": 3,
                "kind": "rule",
                "digest": "00ff",
            },
            "once": True,
            "after": ["order-77/3/c0"],
            "headline": "Pay 5 euros",
            "changes": [
                "5 euros go to the shop.",
                {"path": "orders/o1", "before": None, "after": "paid\n", "line": 1},
                {"left_out": ["build"], "description": "Undo cannot restore: build."},
            ],
            "principal": None,
            "grade": "loses",
            "parts": [{"start": 0, "end": 8, "grade": "loses", "removes": ["build"]}],
            "kind": "approval",
        }
    )


def test_a_saved_request_keeps_the_digest_of_its_rule_file() -> None:
    read = Pending.from_json(ASKED.to_json())

    assert read.origin is not None
    assert read.origin.digest == "00ff"


WRONG: dict[str, tuple[str, str]] = {
    "empty": ("", "invalid JSON at line 1, column 1"),
    "cut off": (ASKED.to_json()[:40], "invalid JSON at line 1, column 41"),
    "a list": ("[]", "an object is expected, got []"),
    "nested": ("[" * 100_000, "it is nested too deeply"),
    "a key twice": ('{"v": 1, "v": 1}', "a key occurs twice in one object"),
    "not a number": ('{"v": NaN}', "NaN is not JSON"),
    "too large": ('{"v": 1e999}', "a number is too large"),
    "no version": ("{}", "it has version null, and this handrail reads 1"),
    "another version": ('{"v": 2}', "it has version 2, and this handrail reads 1"),
    "a version that is no number": ('{"v": true}', "it has version true, and this handrail reads 1"),
    "no fields": ('{"v": 1}', "'accesses' is missing"),
    **{
        f"{key}={value}": (json.dumps({**PLAIN, key: value}), why)
        for key, value, why in [
            ("more", 1, 'unknown field "more"'),
            ("key", None, "'key' must be a string, got null"),
            ("position", "1", "'position' must be an integer, got \"1\""),
            ("round", True, "'round' must be an integer, got true"),
            ("round", 1.0, "'round' must be an integer, got 1.0"),
            ("round", -1, "'round' must be from 0 to 1000, not -1"),
            ("round", 10**9, "'round' must be from 0 to 1000, not 1000000000"),
            ("call", "pay", 'an object is expected, got "pay"'),
            ("call", {"name": "pay", "id": "c1"}, "'args' is missing"),
            ("call", {"name": "pay", "args": {}, "id": "c1"}, "'args' must be a string, got {}"),
            ("effect", "burn", "'burn' is not a verb: write 'read', 'write' or 'destroy'"),
            ("accesses", {}, "'accesses' must be a list, got {}"),
            ("accesses", [["write", "a:b"]], 'an object is expected, got ["write", "a:b"]'),
            ("accesses", [{"verb": "read", "resource": "a"}], "'a' is not a resource: write 'scheme:path', or '*' for everything"),
            ("grade", "mild", '"mild" is not a grade'),
            ("kind", "chat", '"chat" is not a kind of request'),
            ("kind", "waiting", "'question' must be empty if the kind is 'waiting', and only then"),
            ("parts", [{"start": 0}], "'end' is missing"),
            ("asked_at", "soon", "'asked_at' must be a number, got \"soon\""),
            ("asked_at", None, "'asked_at' must be a number, got null"),
            ("asked_at", False, "'asked_at' must be a number, got false"),
            ("expires_at", 10**400, f"'expires_at' must be a smaller number, got 1{'0' * 78}…"),
            ("origin", ["rule"], 'an object is expected, got ["rule"]'),
            ("origin", {"rule": "a", "file": "", "line": 0, "digest": ""}, "'kind' is missing"),
            ("origin", {"rule": "a", "file": "", "line": 0, "digest": "", "kind": "?"}, '"?" is not a kind of origin'),
            (
                "origin",
                {"rule": "a", "file": "", "line": True, "digest": "", "kind": "rule"},
                "'line' must be an integer, got true",
            ),
            ("once", 1, "'once' must be true or false, got 1"),
            ("after", "c0", "'after' must be a list, got \"c0\""),
            ("after", [1], "'after' must be a list of strings, got [1]"),
            ("headline", None, "'headline' must be a string, got null"),
            ("changes", "all", "'changes' must be a list, got \"all\""),
            ("changes", [1], "an object is expected, got 1"),
            ("changes", [{"path": "a", "before": None, "after": ""}], "'line' is missing"),
            ("changes", [{"path": "a", "before": 1, "after": "", "line": 1}], "'before' must be a string, got 1"),
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_any_other_text_is_refused_in_plain_words(name: str) -> None:
    text, why = WRONG[name]

    with pytest.raises(ValueError, match="Not a saved Pending") as refused:
        Pending.from_json(text)

    assert str(refused.value) == f"Not a saved Pending: {why}."


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(ValueError, match="it must be a string, got NoneType"):
        Pending.from_json(None)  # type: ignore[arg-type]


@given(st.text() | JSON.map(json.dumps) | st.integers(10**4000, 10**5000).map(lambda _: "9" * 5000))
def test_nothing_but_a_value_error_comes_of_any_text(text: str) -> None:
    with pytest.raises(ValueError, match="Not a saved Pending"):
        Pending.from_json(text)


def test_notes_and_a_login_are_saved_only_where_there_are_any() -> None:
    told = replace(ASKED, notes=("a: b",), approves=False)

    assert Pending.from_json(told.to_json()) == told
    assert json.loads(told.to_json()) == {**PLAIN, "notes": ["a: b"], "approves": False}
