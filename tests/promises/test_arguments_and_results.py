"""Promises about what goes in and what comes out."""

import asyncio
import datetime as dt
import enum
import json
import uuid
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pydantic
import pytest

from handrail import READ, Call, Executor, FailureKind, Refused, Result, ToolFailed, Toolset, tool


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    when: dt.date


class Order(pydantic.BaseModel):
    id: uuid.UUID
    total: Decimal


async def test_arguments_that_were_encoded_twice_are_read_and_the_model_is_told() -> None:
    given: list[Any] = []

    @tool(effect=READ)
    async def save(lines: list[str], raw: str) -> str:
        """Save lines."""
        given.append((lines, raw))
        return "saved"

    args = json.dumps({"lines": json.dumps(["a", "b"]), "raw": '["c"]'})
    async with Executor(Toolset(save)) as executor:
        outcomes = [await executor.run(Call("save", args, f"c{n}")) for n in (1, 2)]

    assert given == [(["a", "b"], '["c"]')] * 2, "a text that holds JSON stays a text"
    assert [one.text for one in outcomes] == [
        "saved\n[Note: lines: the string was read as a JSON list.]"
    ] * 2


@pytest.mark.parametrize("cut", [1, 10, 20, 30, 40, -1])
async def test_truncated_json_is_never_executed(cut: int) -> None:
    ran: list[str] = []

    @tool
    async def write(path: str, text: str) -> str:
        """Write."""
        ran.append(text)
        return "ok"

    whole = json.dumps({"path": "a.txt", "text": "the whole of a long text"})
    async with Executor(Toolset(write)) as executor:
        warm = await executor.run(Call("write", whole, "c0"))
        alone = await executor.run(Call("write", whole[:cut], "c1"))
        [together] = await executor.run_all([Call("write", whole[:cut], "c2")])

    assert warm.failure is None
    assert ran == ["the whole of a long text"]
    for outcome in (alone, together):
        assert outcome.failure is not None
        assert outcome.failure.kind is FailureKind.BAD_ARGS
        assert "Not run: " in outcome.text


async def test_an_alias_is_dispatched_and_reported() -> None:
    @tool(effect=READ, aliases=["fetch"])
    async def get(key: str) -> str:
        """Get a value."""
        return key

    async with Executor(Toolset(get)) as executor:
        outcomes = await executor.run_all(
            Call(name, '{"key":"k"}', name) for name in ("fetch", "get", "fetch")
        )
        again = await executor.run(Call("fetch", '{"key":"k"}', "c"))

    reported = "k\n[Note: 'fetch' is now called 'get'.]"
    assert [one.text for one in [*outcomes, again]] == [reported, "k", reported, reported]


WHEN = dt.datetime(2030, 1, 2, 3, 4, tzinfo=dt.UTC)
ID = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (WHEN, "2030-01-02T03:04:00Z"),
        (Decimal("1.10"), "1.10"),
        (ID, str(ID)),
        (Path("a") / "b", "a/b"),
        (Color.RED, "red"),
        (Point(1, WHEN.date()), {"x": 1, "when": "2030-01-02"}),
        (Order(id=ID, total=Decimal("9.90")), {"id": str(ID), "total": "9.90"}),
        ({"at": WHEN, "of": [Point(1, WHEN.date())]}, {"at": "2030-01-02T03:04:00Z", "of": [{"x": 1, "when": "2030-01-02"}]}),
        ((1, 2.5, True, None), [1, 2.5, True, None]),
        (frozenset({3}), [3]),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
async def test_whatever_a_program_holds_comes_out_as_json(value: Any, expected: Any) -> None:
    @tool(effect=READ)
    async def undeclared() -> Any:
        """Give a value of no declared type."""
        return value

    async def declared():  # noqa: ANN202  the type is set below
        """Give a value of its declared type."""
        return value

    declared.__annotations__["return"] = type(value)
    tools = Toolset(undeclared, tool(effect=READ)(declared))
    async with Executor(tools) as executor:
        outcomes = [
            await executor.run(Call(name, "{}", "c"))
            for name in ("undeclared", "declared", "undeclared", "declared")
        ]

    for outcome in outcomes:
        assert outcome.failure is None
        assert outcome.data is not None
        assert json.loads(outcome.data) == expected
        assert outcome.text in (outcome.data, expected)


async def test_a_result_that_breaks_its_declared_type_is_withheld() -> None:
    @tool
    async def count() -> int:
        """Count."""
        return "a secret"  # type: ignore[return-value]

    async with Executor(Toolset(count)) as executor:
        outcomes = [await executor.run(Call("count", "{}", "c1")) for _ in range(2)]

    for outcome in outcomes:
        assert outcome.failure is not None
        assert outcome.failure.kind is FailureKind.BUG
        assert "secret" not in outcome.text
        assert outcome.data is None
        assert "check before you call it again" in outcome.text


async def test_a_result_that_json_cannot_say_is_withheld() -> None:
    @tool
    async def handle() -> Any:
        """Give what no model can read."""
        return {"socket": object()}

    async with Executor(Toolset(handle)) as executor:
        outcomes = [await executor.run(Call("handle", "{}", "c1")) for _ in range(2)]

    for outcome in outcomes:
        assert outcome.failure is not None
        assert outcome.failure.kind is FailureKind.BUG
        assert "object at" not in outcome.text


async def test_secrets_in_an_exception_reach_the_operator_and_never_the_model() -> None:
    @tool(effect=READ)
    async def connect() -> str:
        """Connect."""
        raise ConnectionError("postgres://admin:hunter2@10.0.0.1")

    @tool(effect=READ)
    def connect_in_thread() -> str:
        """Connect."""
        raise ConnectionError("postgres://admin:hunter2@10.0.0.1")

    async with Executor(Toolset(connect, connect_in_thread)) as executor:
        outcomes = [
            *await executor.run_all([Call("connect", "{}", "1"), Call("connect_in_thread", {}, "2")]),
            await executor.run(Call("connect", "{}", "3")),
        ]  # fmt: skip

    for outcome in outcomes:
        assert outcome.failure is not None
        assert "hunter2" not in outcome.text
        assert "hunter2" not in outcome.failure.message
        assert "Traceback" not in outcome.text
        assert ".py" not in outcome.text
        assert "hunter2" in outcome.failure.detail
        assert "Traceback" in outcome.failure.detail
        assert __file__.rpartition("/")[2] in outcome.failure.detail


async def test_what_a_tool_says_on_purpose_reaches_the_model_word_for_word() -> None:
    @tool(effect=READ)
    async def find(name: str) -> str:
        """Find."""
        if name == "no":
            raise ToolFailed("there is no such file: no")
        raise Refused("that is private.")

    async with Executor(Toolset(find)) as executor:
        outcomes = [
            await executor.run(Call("find", f'{{"name":"{name}"}}', "c"))
            for name in ("no", "secret", "no", "secret")
        ]

    failed = Result.fail("c", FailureKind.FAILED, "there is no such file: no")
    refused = Result.fail("c", FailureKind.DENIED, "that is private.")
    assert outcomes == [failed, refused] * 2


async def test_calls_of_one_batch_with_the_same_id_still_get_one_outcome_each() -> None:
    @tool(effect=READ)
    async def echo(word: str) -> str:
        """Say it again."""
        return word

    @tool
    def shout(word: str) -> str:
        """Say it louder."""
        return word.upper()

    calls = [
        Call(name, f'{{"word":"{word}"}}', "same")
        for name, word in [("echo", "a"), ("shout", "b"), ("echo", "c"), ("missing", "d")]
    ]
    async with Executor(Toolset(echo, shout)) as executor:
        outcomes = await executor.run_all(calls)

    assert [one.call_id for one in outcomes] == ["same"] * 4
    assert [one.text for one in outcomes[:3]] == ["a", "B", "c"]
    assert outcomes[3].failure is not None


@pytest.mark.parametrize("name", ["cancels", "exits", "cancels_in_thread", "exits_in_thread"])
async def test_a_tool_that_cancels_itself_or_exits_does_not_end_the_batch(name: str) -> None:
    error = asyncio.CancelledError if name.startswith("cancels") else SystemExit

    @tool(effect=READ)
    async def loop() -> str:
        """End badly."""
        raise error

    @tool(effect=READ)
    def thread() -> str:
        """End badly in a thread."""
        raise error

    @tool(effect=READ)
    async def quiet() -> str:
        """End well."""
        return "well"

    bad = "thread" if name.endswith("thread") else "loop"
    async with Executor(Toolset(loop, thread, quiet)) as executor:
        batches = [
            await executor.run_all(
                [Call("quiet", "{}", "1"), Call(bad, "{}", "2"), Call("quiet", "{}", "3")]
            )
            for _ in range(2)
        ]
        alone = await executor.run(Call(bad, "{}", "4"))

    for outcomes in batches:
        assert [outcomes[0].text, outcomes[2].text] == ["well", "well"]
    for outcome in [batches[0][1], batches[1][1], alone]:
        assert outcome.failure is not None
        assert outcome.failure.kind is FailureKind.BUG
