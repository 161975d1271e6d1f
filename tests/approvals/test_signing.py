"""Signed pending calls: what comes back is what was signed, or nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.questions import asked
from handrail import DESTROY, READ, Access, Call, Executor, Toolset, tool
from handrail.approvals import Tampered, defer, sign_pending, verify_pending
from handrail.permissions import Allow, Ask, Origin, Pending

KEY = bytes(range(32))
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
"""Half characters included."""
TEXTS = ANY_TEXT.filter(lambda text: not re.search("[\ud800-\udbff][\udc00-\udfff]", text))
"""Half characters included, but no two that are one together."""
TIMES = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TIMES | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
RESOURCES = st.lists(st.sampled_from(["a", "ü", "b c"]), max_size=3).map(
    lambda parts: "file:" + "/".join(parts)
)
QUESTIONS = st.builds(
    Pending,
    run_id=TEXTS,
    turn_id=TEXTS,
    key=TEXTS,
    position=st.integers(),
    round=st.integers(0, 1_000),
    call=st.builds(Call, TEXTS, TEXTS | st.dictionaries(TEXTS, JSON, max_size=3), TEXTS),
    effect=st.sampled_from([READ, DESTROY]),
    accesses=st.lists(st.builds(Access, st.sampled_from([READ, DESTROY]), RESOURCES)).map(tuple),
    question=TEXTS.filter(bool),
    fingerprint=TEXTS,
    asked_at=TIMES,
    expires_at=TIMES | st.just(math.inf),
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
    token = sign_pending(asked({"path": "a"}), KEY).split(".")[1]
    plain: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token + "=="))
    return plain


@given(QUESTIONS)
def test_a_question_comes_back_equal_and_as_plain_text(pending: Pending) -> None:
    token = sign_pending(pending, KEY)

    assert verify_pending(token, KEY) == pending
    assert re.fullmatch(r"handrail-pending-1\.[\w-]+\.[\w-]{43}", token, re.ASCII)
    assert sign_pending(verify_pending(token, KEY), KEY) == token


@given(st.data())
def test_a_changed_token_is_no_question(data: st.DataObject) -> None:
    token = sign_pending(asked({"path": "a"}), KEY)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(exclude_categories=()).filter(lambda one: one != token[place]))

    with pytest.raises(Tampered):
        verify_pending(token[:place] + other + token[place + 1 :], KEY)


@given(ANY_TEXT)
def test_any_other_text_is_no_question(text: str) -> None:
    with pytest.raises(Tampered):
        verify_pending(text, KEY)


def test_another_key_does_not_open_it() -> None:
    with pytest.raises(Tampered, match="another key"):
        verify_pending(sign_pending(asked({}), KEY), bytes(32))


def test_another_version_is_told_as_such() -> None:
    with pytest.raises(Tampered, match="signed by a version of handrail with another format"):
        verify_pending(forged(body(), version="handrail-pending-2"), KEY)


@pytest.mark.parametrize(
    "changes",
    [
        {"more": 1},
        {"v": 2},
        {"key": None},
        {"call": {"name": "write", "args": {}, "id": "c1"}},
        {"effect": "burn"},
        {"accesses": [{"verb": "write", "resource": "no resource"}]},
        {"asked_at": "soon"},
        {"once": 1},
    ],
    ids=str,
)
def test_a_body_of_another_shape_is_no_question_even_if_signed(changes: dict[str, Any]) -> None:
    with pytest.raises(Tampered, match="The signed text is not a pending call"):
        verify_pending(forged(body() | changes), KEY)


@pytest.mark.parametrize(
    "raw", [b"", b"no JSON", b"\xff", b"[]", b"1", b'"text"', b"[" * 100_000, b"null"]
)
def test_a_body_that_is_no_object_is_no_question_even_if_signed(raw: bytes) -> None:
    with pytest.raises(Tampered, match="The signed text is not a pending call"):
        verify_pending(forged(raw), KEY)


def test_a_missing_field_is_no_question() -> None:
    plain = body()
    del plain["once"]

    with pytest.raises(Tampered):
        verify_pending(forged(plain), KEY)


def test_base64_that_is_none_is_no_question_even_if_signed() -> None:
    head = "handrail-pending-1.a!b"
    signature = hmac.new(KEY, head.encode(), hashlib.sha256).digest()
    token = f"{head}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"

    with pytest.raises(Tampered):
        verify_pending(token, KEY)


@pytest.mark.parametrize("key", [b"", bytes(31)])
def test_a_short_key_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="at least 32 bytes"):
        sign_pending(asked({}), key)
    with pytest.raises(ValueError, match="at least 32 bytes"):
        verify_pending("", key)


@pytest.mark.parametrize(
    "change",
    [{"question": "\ud83d\ude00"}, {"asked_at": math.inf}, {"expires_at": math.nan}],
    ids=str,
)
def test_a_question_that_would_not_come_back_is_not_signed(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cannot represent it exactly|not JSON compliant"):
        sign_pending(asked({}, **change), KEY)


async def test_a_signed_question_runs_after_it_was_answered_elsewhere() -> None:
    @tool
    def double(number: int) -> int:
        """Double it."""
        return number * 2

    def policy(*_: object) -> Ask:
        return Ask("Double it?")

    async with Executor(Toolset(double), policy=policy, approvals=defer) as executor:
        waits = await executor.run(Call("double", {"number": 4}, "c1"))
        assert waits.pending is not None
        token = sign_pending(waits.pending, KEY)
        back = verify_pending(token, KEY)
        turn = executor.turn(back.turn_id, run=back.run_id)
        turn.answer(back, Allow())
        [result] = await turn.results()

    assert result.text == "8"


def test_a_request_is_read_with_one_of_several_keys() -> None:
    old, pending = bytes(range(1, 33)), asked({"path": "a"})

    assert verify_pending(sign_pending(pending, old), [KEY, old]) == pending
    with pytest.raises(Tampered, match="does not match"):
        verify_pending(sign_pending(pending, old), [KEY])
