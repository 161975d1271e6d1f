"""Sealed questions: what comes back is what was sealed, or nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.questions import asked
from handrail import DESTROY, READ, Access, Call, Executor, Toolset, tool
from handrail.approvals import Tampered, defer, seal, unseal
from handrail.judgement import Allow, Ask, Origin, Pending

KEY = bytes(range(32))
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
"""Half characters included."""
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
JSON = st.recursive(
    LEAVES.filter(lambda one: one not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
RESOURCES = st.lists(st.sampled_from(["a", "ü", "b c"]), max_size=3).map(
    lambda parts: "file:" + "/".join(parts)
)
QUESTIONS = st.builds(
    Pending,
    id=TEXTS,
    call=st.builds(Call, TEXTS, TEXTS | st.dictionaries(TEXTS, JSON, max_size=3), TEXTS),
    effect=st.sampled_from([READ, DESTROY]),
    accesses=st.lists(st.builds(Access, st.sampled_from([READ, DESTROY]), RESOURCES)).map(tuple),
    question=TEXTS,
    fingerprint=TEXTS,
    asked_at=st.floats(allow_nan=False),
    expires_at=st.floats(allow_nan=False),
    origin=st.none() | st.builds(Origin, TEXTS, TEXTS, st.integers()),
    once=st.booleans(),
    after=st.lists(TEXTS, max_size=3).map(tuple),
)


def forged(body: object, *, version: str = "handrail-pending-1", key: bytes = KEY) -> str:
    """A token of anything, rightly signed."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{version}.{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"
    signature = hmac.new(key, head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def body() -> dict[str, Any]:
    token = seal(asked({"path": "a"}), KEY).split(".")[1]
    plain: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token + "=="))
    return plain


@given(QUESTIONS)
def test_a_question_comes_back_equal_and_as_plain_text(pending: Pending) -> None:
    token = seal(pending, KEY)

    assert unseal(token, KEY) == pending
    assert re.fullmatch(r"handrail-pending-1\.[\w-]+\.[\w-]{43}", token, re.ASCII)
    assert seal(unseal(token, KEY), KEY) == token


@given(st.data())
def test_a_changed_token_is_no_question(data: st.DataObject) -> None:
    token = seal(asked({"path": "a"}), KEY)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(exclude_categories=()).filter(lambda one: one != token[place]))

    with pytest.raises(Tampered):
        unseal(token[:place] + other + token[place + 1 :], KEY)


@given(TEXTS)
def test_any_other_text_is_no_question(text: str) -> None:
    with pytest.raises(Tampered):
        unseal(text, KEY)


def test_another_key_does_not_open_it() -> None:
    with pytest.raises(Tampered, match="another key"):
        unseal(seal(asked({}), KEY), bytes(32))


def test_another_version_is_told_as_such() -> None:
    with pytest.raises(Tampered, match="this version does not read"):
        unseal(forged(body(), version="handrail-pending-2"), KEY)


@pytest.mark.parametrize(
    "changes",
    [
        {"more": 1},
        {"id": 1},
        {"id": None},
        {"call": ["write", "{}"]},
        {"call": 5},
        {"call": ["write", 5, "c1"]},
        {"call": ["write", ["path"], "c1"]},
        {"effect": "BURN"},
        {"effect": 3},
        {"accesses": "write"},
        {"accesses": [["WRITE"]]},
        {"accesses": [["WRITE", "no resource"]]},
        {"question": 1},
        {"asked_at": 1.5},
        {"asked_at": "soon"},
        {"expires_at": "0x1p+99999999"},
        {"origin": []},
        {"origin": ["rule", "file", True]},
        {"once": 1},
        {"after": "q0"},
        {"after": [1]},
    ],
    ids=str,
)
def test_a_body_of_another_shape_is_no_question_even_if_signed(changes: dict[str, Any]) -> None:
    with pytest.raises(Tampered, match="what was sealed is no question"):
        unseal(forged(body() | changes), KEY)


@pytest.mark.parametrize(
    "raw", [b"", b"no JSON", b"\xff", b"[]", b"1", b'"text"', b"[" * 100_000, b"null"]
)
def test_a_body_that_is_no_object_is_no_question_even_if_signed(raw: bytes) -> None:
    with pytest.raises(Tampered, match="what was sealed is no question"):
        unseal(forged(raw), KEY)


def test_a_missing_field_is_no_question() -> None:
    plain = body()
    del plain["once"]

    with pytest.raises(Tampered):
        unseal(forged(plain), KEY)


def test_base64_that_is_none_is_no_question_even_if_signed() -> None:
    head = "handrail-pending-1.a!b"
    signature = hmac.new(KEY, head.encode(), hashlib.sha256).digest()
    token = f"{head}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"

    with pytest.raises(Tampered):
        unseal(token, KEY)


@pytest.mark.parametrize("key", [b"", bytes(31)])
def test_a_short_key_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes or more"):
        seal(asked({}), key)
    with pytest.raises(ValueError, match="32 bytes or more"):
        unseal("", key)


@pytest.mark.parametrize(
    "args", [{"a": {1}}, {"a": float("nan")}, {1: "a"}, {"a": (1, 2)}, {1: "a", "b": 2}], ids=str
)
def test_arguments_that_would_not_come_back_are_not_sealed(args: dict[Any, Any]) -> None:
    pending = replace(asked({}), call=Call("write", args, "c1"))

    with pytest.raises(ValueError, match=r"cannot be written as JSON|would not come back"):
        seal(pending, KEY)


async def test_a_sealed_question_runs_after_it_was_answered_elsewhere() -> None:
    @tool
    def double(number: int) -> int:
        """Double it."""
        return number * 2

    def policy(*_: object) -> Ask:
        return Ask("Double it?")

    async with Executor(Toolset(double), policy=policy, approver=defer) as executor:
        waits = await executor.run(Call("double", {"number": 4}, "c1"))
        assert waits.pending is not None
        token = seal(waits.pending, KEY)
        back = unseal(token, KEY)
        [result] = await executor.resume([back], {back.id: Allow()})

    assert result.text == "8"
