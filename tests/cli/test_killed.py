"""A killed `handrail run` continues from its records, as a run of a worker does."""

from __future__ import annotations

import os
import signal

import pytest

from cli_harness import Handrail, Ran
from cli_runs import change_journal, journal_runs
from crash_points import crash_env
from handrail.messages import ToolResults

PROGRAM = """\
import os
import signal
from pathlib import Path

import anyio

from handrail import READ, Call, tool
from handrail.messages import Delta, Reply
from handrail.testing import ScriptedModel


def note(name, line):
    with Path(name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\\n")


def die(where):
    if os.environ.get("DIE") == where:
        os.kill(os.getpid(), signal.SIGKILL)


@tool
async def pay(number: int) -> str:
    '''Pay.'''
    note("effects", f"pay {number}")
    die("in the call")
    return f"paid {number}"


def was_sent(number, **_):
    path = Path("effects")
    return path.exists() and f"send {number}" in path.read_text(encoding="utf-8").splitlines()


@tool(verify=was_sent)
async def send(number: int) -> str:
    '''Send.'''
    note("effects", f"send {number}")
    return f"sent {number}"


@tool(effect=READ)
async def look() -> str:
    '''Look.'''
    note("effects", "look")
    die("before the reply")
    return "seen"


CALLS = {
    "pay": [Call("pay", {"number": 1}, "c1"), Call("pay", {"number": 2}, "c2")],
    "send": [Call("send", {"number": 1}, "c1")],
    "all": [Call("look", {}, "c0"), Call("pay", {"number": 1}, "c1"), Call("send", {"number": 2}, "c2")],
}


async def model(request):
    turn = sum(isinstance(one, Reply) for one in request.messages) + 1
    note("asked", turn)
    if turn == 2:
        die("in the second turn")
    said = CALLS[os.environ["CALLS"]] if turn == 1 else "Done."
    reply = await ScriptedModel(said, stream=False)(request)
    for call in reply.calls:
        yield call
    yield Delta(reply.text)
    if turn == 1 and os.environ.get("DIE") == "before the reply":
        await anyio.sleep_forever()
    yield reply
"""
RESUME = ("runs", "resume", "last", "-q")
OPTIONS = ("-m", "m.py:model", "--tools", "m.py", "--max-seconds", "600")
LOST = "The process died"
SOAK = os.environ.get("HANDRAIL_PROFILE", "") == "soak"


def killed(
    handrail: Handrail, command: str, calls: str = "pay", *, point: str = "", die: str = ""
) -> None:
    """Start or resume a run until its process is killed, at a point or by its own code."""
    started = ("run", "Go", *OPTIONS)
    if command == "run":
        handrail.write("m.py", PROGRAM)
        rule = '[[rule]]\ndecide = "allow"\ntools = ["pay", "send"]\n'
        handrail.write("../config/handrail/rules.toml", rule)
    env = {"CALLS": calls, "DIE": die} | (crash_env(point) if point else {})
    ran = handrail.real(*(started if command == "run" else RESUME), env=env)
    assert ran.exit == -signal.SIGKILL, ran.err


def resumed(handrail: Handrail, calls: str = "pay") -> Ran:
    """Resume the run, and let it end."""
    return handrail.process(*RESUME, env={"CALLS": calls})


def lines(handrail: Handrail, name: str) -> list[str]:
    """Return what was noted."""
    path = handrail.workspace / name
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def results(handrail: Handrail) -> list[str]:
    """Return the first words of the results that the model got."""
    [run] = journal_runs(handrail)
    turns = [one for one in run.state().messages if isinstance(one, ToolResults)]
    return [" ".join(one.text.split()[:3]) for turn in turns for one in turn.results]


def test_a_run_may_be_killed_again_and_again(handrail: Handrail) -> None:
    killed(handrail, "run", "all", die="before the reply")
    killed(handrail, "resume", "all", point="call.ran")
    killed(handrail, "resume", "all", point="call.stored")
    killed(handrail, "resume", "all", die="in the second turn")

    ran = resumed(handrail, "all")

    assert (ran.exit, ran.out) == (0, "Done.\n"), ran.err
    assert not (handrail.state / "runs" / "journal.db-wal").exists(), "all is in one file again"
    assert results(handrail) == ["seen", LOST, "sent 2"]
    effects = lines(handrail, "effects")
    assert [one for one in effects if one != "look"] == ["pay 1", "send 2"]
    assert effects.count("look") == 4, "it only reads, so it is repeated with its turn"
    assert lines(handrail, "asked") == ["1", "1", "2", "2"], "a recorded reply is not asked for"


def test_without_its_row_a_call_would_be_repeated(handrail: Handrail) -> None:
    killed(handrail, "run", die="in the call")
    change_journal(handrail, "DELETE FROM handrail_call")

    resumed(handrail)

    assert lines(handrail, "effects") == ["pay 1", "pay 1", "pay 2"]


CALL_POINTS = [
    ("call.begun:1", ["pay 1", "pay 2"], ["paid 1", "paid 2"]),
    ("call.intended:1", ["pay 2"], [LOST, "paid 2"]),
    ("call.ran:1", ["pay 1", "pay 2"], [LOST, "paid 2"]),
    ("call.stored:1", ["pay 1", "pay 2"], ["paid 1", "paid 2"]),
    ("call.intended:2", ["pay 1"], ["paid 1", LOST]),
    ("call.stored:2", ["pay 1", "pay 2"], ["paid 1", "paid 2"]),
]


@pytest.mark.parametrize(("point", "effects", "got"), CALL_POINTS if SOAK else CALL_POINTS[-2:-1])
def test_a_call_is_not_repeated(
    handrail: Handrail, point: str, effects: list[str], got: list[str]
) -> None:
    killed(handrail, "run", point=point)

    ran = resumed(handrail)

    assert (ran.exit, ran.out) == (0, "Done.\n"), ran.err
    assert (lines(handrail, "effects"), results(handrail)) == (effects, got)
    assert lines(handrail, "asked") == ["1", "2"]


APPROVED_POINTS = [
    ("call.begun", "sent 1"),
    ("call.intended", "sent 1"),
    ("call.stored", "sent 1"),
    ("call.ran", "This call took"),
]


@pytest.mark.parametrize(("point", "got"), APPROVED_POINTS if SOAK else APPROVED_POINTS[-1:])
def test_an_approved_call_is_approved_once_and_verified(
    handrail: Handrail, point: str, got: str
) -> None:
    handrail.write("m.py", PROGRAM)
    asked = handrail("run", "Go", "--on-denied", "suspend", *OPTIONS, env={"CALLS": "send"})
    handrail("runs", "approve", "last", "--all")
    killed(handrail, "resume", "send", point=point)

    ran = resumed(handrail, "send")

    assert (asked.exit, ran.exit, ran.out) == (4, 0, "Done.\n"), ran.err
    assert (lines(handrail, "effects"), results(handrail)) == (["send 1"], [got])
