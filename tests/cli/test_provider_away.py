"""A provider that is overloaded or away: a run and a chat wait for it, and say so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from cli.terminal import Pty, opened
from cli_harness import Handrail, Schemas
from models import dialects
from models.stage import Answer, Stage, provider
from models.talk import ANTHROPIC, CHAT, GEMINI, RESPONSES, Api

PATIENT = {"HANDRAIL_MODEL_TRIES": None}
"""As many tries as people have."""
BUSY = Answer(
    status=529,
    body=json.dumps(
        {
            "type": "error",
            "error": {
                "type": "overloaded_error",
                "message": "Overloaded",
                "details": [{"retryDelay": "0s"}],
            },
        }
    ).encode(),
    headers={"retry-after": "0"},
)
TOOLS = """
from pathlib import Path
from handrail import READ, tool

@tool(effect=READ)
def add(a: int, b: int) -> int:
    \"\"\"Add.\"\"\"
    with Path({log!r}).open("a", encoding="utf-8") as file:
        file.write("added\\n")
    return a + b
"""
SPOKEN: dict[str, tuple[Api, str, Callable[[], tuple[Answer, Answer]]]] = {
    "anthropic": (ANTHROPIC, "anthropic", dialects.anthropic),
    "openai-chat": (CHAT, "openai-chat", dialects.azure),
    "openai": (RESPONSES, "openai", dialects.responses),
    "gemini": (GEMINI, "gemini", dialects.gemini),
}


def options(handrail: Handrail, stage: Stage, api: str) -> list[str]:
    log = str(handrail.folder / "log")
    handrail.write("tools.py", TOOLS.format(log=log))
    spoken, prefix, _ = SPOKEN[api]
    url = stage.url + spoken.root
    return ["-m", f"{prefix}:m-1", "--base-url", url, "--tools", "tools.py", "--mode", "edits"]


def cut(answer: Answer) -> Answer:
    """The first half of a stream."""
    *events, _last, _end = answer.body.split(b"\n\n")
    half = b"".join(event + b"\n\n" for event in events)
    return Answer(body=half, kind=answer.kind, ending="cut")


@pytest.mark.parametrize("api", SPOKEN)
def test_a_run_waits_until_the_provider_answers_and_calls_nothing_twice(
    handrail: Handrail, api: str, schema: Schemas
) -> None:
    called, told = SPOKEN[api][2]()
    with provider(*[BUSY] * 8, called, cut(told), told) as stage:
        model = options(handrail, stage, api)
        ran = handrail("run", *model, "--output", "jsonl", "1 + 2?", env=PATIENT)

    lines = [schema("run", line, part="line") for line in ran.lines]
    assert (ran.exit, lines[-1]["answer"], len(stage.asked)) == (0, "It is 3.", 11)
    assert (handrail.folder / "log").read_text(encoding="utf-8") == "added\n"
    waits = [line for line in lines if line["type"] == "wait"]
    assert [(one["kind"], one["try"], one["tries"]) for one in waits] == [
        *(("overloaded", number, 10) for number in range(2, 10)),
        ("network", 2, 10),
    ]
    assert [line["type"] for line in lines if line["type"] in {"call", "result"}] == [
        "call",
        "result",
    ]


def test_a_provider_that_stays_away_has_its_exit_code(handrail: Handrail) -> None:
    with provider(BUSY) as stage:
        model = options(handrail, stage, "anthropic")
        given_up = handrail("run", *model, "--model-tries", "3", "1 + 2?")
        at_once = handrail("run", *model, "1 + 2?", "--json")

    assert [given_up.exit, at_once.exit, len(stage.asked)] == [6, 6, 4]
    assert [line for line in given_up.err.splitlines() if "overloaded" in line][:2] == [
        "overloaded, trying again (2 of 3)",
        "overloaded, trying again (3 of 3)",
    ]
    assert at_once.error["code"] == "model_overloaded"


PRICED = """
from handrail import Text
from handrail.messages import Reply, Usage

class Model:
    names = ("claude-opus-5",)
    async def __call__(self, request):
        return Reply((Text("Hi."),), usage=Usage(input_tokens=1_000_000), model={name!r})

model = Model()
"""


@pytest.mark.parametrize(("name", "cost"), [("", 5.0), ("claude-opus-5-20261101", 5.0)])
def test_the_document_has_its_version_and_the_cost(
    handrail: Handrail, schema: Schemas, name: str, cost: float
) -> None:
    handrail.write("model.py", PRICED.format(name=name))

    ran = handrail("run", "-m", "model.py:model", "--without", "bash", "Hello.", "--json")

    document = schema("run", ran.json)
    assert (document["format"], document["cost"]) == (1, cost)
    other = PRICED.format(name="other")
    handrail.write("model.py", other.replace('"claude-opus-5"', '"other"'))
    unknown = handrail("run", "-m", "model.py:model", "--without", "bash", "Hello.", "--json")
    assert unknown.json["cost"] is None


BUSY_ONCE = """
from handrail import Text
from handrail.messages import Delta, ModelError, Reply

tries = 0

async def model(request):
    global tries
    tries += 1
    if tries == 1:
        yield Delta("Half an ans")
        raise ModelError("It was cut off.", "network", retry_after=0)
    if tries == 2:
        raise ModelError("It is busy.", "overloaded", retry_after={wait})
    yield Delta("The whole answer.")
    yield Reply((Text("The whole answer."),))
"""


@pytest.mark.parametrize("face", ["drawn", "plain"])
def test_a_chat_says_what_it_waits_for_and_marks_what_was_cut(
    handrail: Handrail, face: str
) -> None:
    handrail.write("model.py", BUSY_ONCE.format(wait=1.0))
    plain = ["--plain"] if face == "plain" else []
    words = ["chat", "-m", "model.py:model", "--without", "bash", "--color", "never", *plain]
    pty = Pty(handrail, *words, "Hello.", env=PATIENT)
    try:
        pty.sees("no connection, trying again (2 of 10)")
        pty.sees("he reply was cut off, and starts again")
        pty.sees("overloaded, next try in ")
        pty.sees("(3 of 10)")
        pty.sees("The whole answer.")
        pty.answers("/quit", after="> ")
        assert pty.ends() == 0
    finally:
        pty.end()


def test_a_chat_of_80_columns_says_what_it_waits_for_beside_all_that_it_counts(
    handrail: Handrail,
) -> None:
    """The row has no room for all. What happens is more important than what was used."""
    slow = replace(BUSY, headers={"retry-after": "3"}, body=b"")
    called, told = dialects.anthropic()
    for start in opened(handrail):
        with provider(told, slow, *[BUSY] * 7, called, told) as stage:
            model = options(handrail, stage, "anthropic")
            model[1] = "anthropic:claude-opus-5"
            pane = start(80, 24)
            pane.runs("chat", *model, "1 + 2?", env={**PATIENT, "HANDRAIL_PLAIN": ""})
            pane.shows("% of 200k context")
            pane.types("Again?")
            [row] = [one for one in pane.shows("overloaded, next try in") if "next try" in one]
            pane.shows("It is 3.", times=2)

        assert len(stage.asked) == 11
        assert (handrail.folder / "log").read_text(encoding="utf-8") == "added\n"
        assert re.fullmatch(
            r"  edits · overloaded, next try in [1-4] s \(2 of 10\), Esc stops.*", row
        )


def test_a_run_in_a_pipe_says_it_in_its_log(handrail: Handrail) -> None:
    handrail.write("model.py", BUSY_ONCE.format(wait=0))

    ran = handrail("run", "-m", "model.py:model", "--without", "bash", "Hello.", env=PATIENT)

    assert (ran.exit, ran.out) == (0, "Half an ans\nThe whole answer.\n")
    assert ran.err.splitlines()[1:4] == [
        "no connection, trying again (2 of 10)",
        "the reply was cut off, and starts again",
        "overloaded, trying again (3 of 10)",
    ]
