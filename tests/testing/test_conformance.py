"""The conformance kit: handrail passes it, and executors with known faults fail where they should."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import handrail
from conformance import (
    PROVOCATIONS,
    Conversation,
    Observation,
    Read,
    Setup,
    check,
    from_json,
    is_good,
    read_result,
    run_with_handrail,
    to_json,
    to_markdown,
)
from handrail import Call, Executor

Run = Callable[[Conversation], Awaitable[None]]


def naive(setup: Setup) -> Run:
    """Call functions by name with the arguments of the model, side by side, as short loops do."""
    setup.require("streams", "changes")
    functions = {fn.__name__: fn for fn in setup.world.functions()}

    async def call(name: str, args: Any) -> str:
        result = functions[name](**args)
        return str(await result if hasattr(result, "__await__") else result)

    async def run(conversation: Conversation) -> None:
        results: list[Read] = []
        while calls := conversation.reply(results):
            texts = dict[str, str]()

            async def one(asked: Call, texts: dict[str, str] = texts) -> None:
                texts[asked.id] = await call(asked.name, asked.args)

            async with anyio.create_task_group() as tasks:
                for asked in calls:
                    tasks.start_soon(one, asked)
            results = [Read(asked.id, texts[asked.id]) for asked in calls]

    return run


def asking(
    setup: Setup,
    *,
    questions: tuple[str, ...] = ("May it?",),
    obey: bool = False,
    serial: bool = True,
) -> Run:
    """Ask the person before each call that needs it, and then do what the test wants."""
    functions = {fn.__name__: fn for fn in setup.world.functions()}

    async def run(conversation: Conversation) -> None:
        results: list[Read] = []
        while calls := conversation.reply(results):
            results = []
            for call in calls if serial else reversed(calls):
                asks = call.name in setup.needs_approval
                words = [setup.ask(call.id, question) for question in questions if asks]
                if obey and not all(words):
                    results.append(Read(call.id, "denied"))
                else:
                    edits = [word for word in words if obey and not isinstance(word, bool)]
                    args: Any = edits[0] if edits else call.args
                    results.append(Read(call.id, await functions[call.name](**args)))

    return run


def silent(setup: Setup) -> Run:
    """Drop every result."""

    async def run(conversation: Conversation) -> None:
        for call in conversation.reply():
            assert call.id

    return run


def words(observed: dict[str, Observation]) -> dict[str, str]:
    return {name: one.word for name, one in observed.items()}


@pytest.mark.anyio
async def test_the_executor_of_handrail_passes_all_twenty_one() -> None:
    observed = words(await check(run_with_handrail))

    assert len(PROVOCATIONS) == 21
    assert observed == {one.name: "ok" for one in PROVOCATIONS}


@pytest.mark.anyio
async def test_a_naive_executor_fails_where_it_should() -> None:
    assert words(await check(naive, patience=2.0)) == {
        "a tool raises": "dies",
        "wrong type": "runs",
        "unknown name": "dies",
        "two writers": "lost update",
        "a long result": "whole",
        "approval given": "n/a",
        "approval refused": "n/a",
        "approval expired": "n/a",
        "approval edited": "n/a",
        "a read behind a question": "n/a",
        "cancellation": "ok",
        "a hang": "hangs",
        "two turns at once": "lost update",
        "context variables": "ok",
        "an image": "n/a",
        "a stream": "not read",
        "the rest of a long result": "whole",
        "a stale tool": "runs",
        "an unknown outcome": "dies",
        "a repeated call id": "wrong results",
        "upper and lower case": "dies",
    }


APPROVALS = [one for one in PROVOCATIONS if "approvals" in one.needs]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["ok", "runs", "runs", "edit ignored", "ok"]),
        ({"obey": True}, ["ok", "ok", "runs", "ok", "ok"]),
        (
            {"obey": True, "questions": ("May it?", "May it?")},
            ["asked twice", "asked twice", "runs", "asked twice", "asked twice"],
        ),
        (
            {"obey": True, "questions": ("May it?", "May this?")},
            ["asked twice", "asked twice", "runs", "ok", "asked twice"],
        ),
        (
            {"obey": True, "questions": ("May it?", "May this?", "May that?")},
            ["asked twice", "asked twice", "runs", "asked twice", "asked twice"],
        ),
        (
            {"obey": True, "questions": (" ",)},
            ["empty question", "empty question", "runs", "empty question", "empty question"],
        ),
        ({"questions": ()}, ["not asked", "runs", "runs", "edit ignored", "not asked"]),
        ({"serial": False}, ["ok", "runs", "runs", "edit ignored", "overtakes"]),
    ],
)  # fmt: skip
async def test_faults_of_approvals_are_found(options: dict[str, Any], expected: list[str]) -> None:
    observed = await check(lambda setup: asking(setup, **options), APPROVALS)

    assert [one.word for one in observed.values()] == expected


@pytest.mark.anyio
async def test_results_that_a_model_never_reads_are_found() -> None:
    chosen = [one for one in PROVOCATIONS if one.name in {"wrong type", "two writers", "an image"}]
    observed = await check(silent, chosen)

    assert words(observed) == {
        "wrong type": "no result",
        "two writers": "lost update",
        "an image": "no image",
    }


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "name", "word"),
    [
        ("failed at /srv/secret/customers.db", "a tool raises", "leaks"),
        ("", "a tool raises", "wrong results"),
        ("caller: bob", "context variables", "mixed up"),
        ("read on yourself", "the rest of a long result", "rest is lost"),
        ("failed", "an unknown outcome", "not said"),
    ],
)
async def test_wrong_texts_are_found(text: str, name: str, word: str) -> None:
    def host(setup: Setup) -> Run:
        async def run(conversation: Conversation) -> None:
            calls = conversation.reply()
            setup.world.log += ["transferred 5"] if calls[0].name == "transfer" else []
            conversation.reply([Read(call.id, text) for call in calls])

        return run

    observed = await check(host, [one for one in PROVOCATIONS if one.name == name])

    assert words(observed) == {name: word}


@pytest.mark.anyio
async def test_two_calls_in_the_wrong_order_and_two_equal_results_are_found() -> None:
    def host(setup: Setup) -> Run:
        executor: Executor = setup.executor()

        async def run(conversation: Conversation) -> None:
            calls = conversation.reply()
            repeated = len({call.id for call in calls}) < len(calls)
            ordered = calls if repeated else calls[::-1]
            results = [read_result(await executor.run(call)) for call in ordered]
            conversation.reply([results[0], results[0]] if repeated else results)

        return run

    names = {"two writers", "a repeated call id"}
    observed = await check(host, [one for one in PROVOCATIONS if one.name in names])

    assert words(observed) == {"two writers": "wrong order", "a repeated call id": "wrong results"}


@pytest.mark.anyio
async def test_a_tool_that_outlives_its_caller_is_found() -> None:
    def host(setup: Setup) -> Run:
        async def run(conversation: Conversation) -> None:
            setup.world.begun.set()
            await anyio.sleep_forever()

        return run

    observed = await check(host, [one for one in PROVOCATIONS if one.is_cancelled])

    assert observed == {"cancellation": Observation("runs on")}


def test_observations_are_saved_and_shown() -> None:
    observed = {
        "one": {"a": Observation("ok", "fine"), "b": Observation("dies", "Error: x")},
        "two": {"a": Observation("n/a")},
    }

    assert from_json(to_json(observed)) == observed
    assert [is_good(one) for one in observed["one"].values()] == [True, False]
    assert to_markdown(observed) == (
        "| provocation | one | two |\n| --- | --- | --- |\n| a | ok | n/a |\n| b | **dies** |  |\n"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        pytest.param([], 0, "| a tool raises | ok |", marks=pytest.mark.soak),
        (["--json"], 0, '  "a tool raises": {'),
        (["silent=test_conformance:silent"], 1, "| a tool raises | **no result** |"),
    ],
)
def test_the_command_prints_a_table_or_json(arguments: list[str], status: int, line: str) -> None:
    command = [sys.executable, "-m", "conformance", *arguments]
    paths = [
        Path(__file__).parent,
        Path(__file__).parents[1],
        Path(handrail.__file__).parents[1],
    ]
    ended = subprocess.run(  # noqa: S603  our own interpreter
        command,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert ended.returncode == status
    assert ended.stdout.splitlines()[2] == line
