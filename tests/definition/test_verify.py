"""Whether a call took effect, as its tool says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from handrail import Call, DefinitionError, Result, tool
from handrail.permissions import verify_call


def make_tool(verify: Callable[..., Any] | None) -> Any:
    def pay(amount: int, currency: str = "EUR") -> str:
        """Pay."""
        return f"paid {amount} {currency}"

    return tool(verify=verify)(pay) if verify else tool(pay)


def broken(**_: object) -> bool:
    raise ZeroDivisionError


async def later(amount: int, currency: str, idempotency_key: str) -> str:
    return f"{amount} {currency} {idempotency_key}"


HAPPENED = "This call took effect. Its own result was lost."


@pytest.mark.parametrize(
    ("verify", "expected"),
    [
        (lambda **_: True, Result("1", HAPPENED)),
        (lambda **_: False, False),
        (lambda **_: None, None),
        (
            lambda amount, currency, idempotency_key: f"{amount} {currency} {idempotency_key}",
            Result("1", "5 EUR k"),
        ),
        (later, Result("1", "5 EUR k")),
        (broken, None),
        (lambda **_: 1, None),
        (None, None),
    ],
)
async def test_a_tool_says_whether_a_call_took_effect(
    verify: Callable[..., Any] | None, expected: object
) -> None:
    said = await verify_call(make_tool(verify), Call("pay", {"amount": 5}, "1"), "k")

    assert said == expected


async def test_arguments_that_are_no_longer_valid_leave_it_unknown() -> None:
    said = await verify_call(make_tool(lambda **_: True), Call("pay", {"amount": "x"}, "1"), "k")

    assert said is None


def test_a_verify_must_take_the_arguments_and_the_key() -> None:
    with pytest.raises(
        DefinitionError, match="`verify` does not accept the parameter 'idempotency_key'"
    ):
        make_tool(lambda amount, currency: amount < len(currency))
