"""Models that somebody wrote in Python: what they do wrong is told as theirs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli_harness import Handrail
from cli_scripts import programmed
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import read_settings
from handrail.cli._project.models import model_of

WHOLE = "async def model(request):\n    {}\n"
STREAM = "async def model(request):\n    yield Delta('a')\n    {}\n"
AT_ONCE = "def model(request):\n    {}\n"


@pytest.mark.parametrize("shape", [WHOLE, STREAM, AT_ONCE], ids=["whole", "stream", "at once"])
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ValueError('no')", "m.py:model raised ValueError: no"),
        ("raise SystemExit(0)", "m.py:model raised SystemExit: 0"),
        ("raise KeyboardInterrupt", "m.py:model raised KeyboardInterrupt"),
        ("raise ExceptionGroup('x', [ValueError('no')])", "m.py:model raised ValueError: no"),
        ("raise ModelError('m is away')", "m is away"),
    ],
    ids=["ValueError", "SystemExit", "KeyboardInterrupt", "group", "ModelError"],
)
def test_what_a_model_raises_is_its_own_mistake(
    handrail: Handrail, shape: str, body: str, told: str
) -> None:
    ran = handrail("run", *programmed(handrail, shape.format(body)), "Go", "--json")

    assert (ran.exit, ran.error["code"], ran.error["message"]) == (1, "model_other", told)
    assert (ran.json["status"], ran.json["why"]) == ("failed", told)


@pytest.mark.parametrize(
    ("code", "out"),
    [
        (WHOLE.format("return Reply((Text('Done.'),))"), "Done.\n"),
        (STREAM.format("yield Reply((Text('a'),))"), "a\n"),
    ],
)
def test_what_a_model_says_comes_through(handrail: Handrail, code: str, out: str) -> None:
    ran = handrail("run", *programmed(handrail, code), "Go")

    assert (ran.exit, ran.out) == (0, out)


@pytest.mark.parametrize(
    ("code", "told"),
    [(AT_ONCE.format("return 'x'"), "str"), (STREAM.format("return"), "without a Reply")],
)
def test_what_is_no_reply_is_told_by_the_agent(handrail: Handrail, code: str, told: str) -> None:
    ran = handrail("run", *programmed(handrail, code), "Go", "--json")

    assert (ran.exit, ran.error["code"]) == (1, "model_other")
    assert told in ran.error["message"]


PIECES = """
ended, kept = [], []

async def pieces():
    try:
        yield Delta("a")
        yield Reply((glob("c1"),), "calls")
        yield Delta("b")
    finally:
        ended.append("pieces")

class Plain:
    def __init__(self):
        self.left = [Delta("a"), Reply((glob("c1"),), "calls"), Delta("b")]

    def __aiter__(self):
        return self

    async def __anext__(self):
        return self.left.pop(0)

async def tell():
    return Reply((Text(f"Ended: {ended}"),))

def model(request):
    if kept:
        return tell()
    kept.append({name}())  # so that only who leaves it can end it
    return kept[0]
"""


@pytest.mark.parametrize(("name", "ended"), [("pieces", ["pieces"]), ("Plain", [])])
def test_a_stream_that_is_left_is_ended(handrail: Handrail, name: str, ended: list[str]) -> None:
    option = programmed(handrail, PIECES.replace("{name}", name))
    ran = handrail("run", *option, "Go", "--without", "bash")

    assert (ran.exit, ran.out) == (0, f"a\nEnded: {ended}\n")


@pytest.mark.parametrize("package", ["google", "google.genai"])
def test_a_missing_sdk_is_named_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]  not installed

    with pytest.raises(Halt, match=r"the SDK for .+ is not installed") as raised:
        model_of(read_settings(tmp_path, {"model": "gemini:x"}), tmp_path, needs_key=False)

    assert raised.value.hint == "run `pip install 'handrail[google]'`"
