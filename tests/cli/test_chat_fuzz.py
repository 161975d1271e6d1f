"""Chats at terminals where anything happens: keys, resizes, signals, hang-ups at any moment."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.terminal import Pty
from cli_harness import Handrail, made
from cli_runs import JournalRun, journal_runs, standings
from handrail.providers import anthropic, gemini, openai_chat, openai_responses

RUNS = {"brief": 3, "quick": 1, "soak": 300}[os.environ.get("HANDRAIL_PROFILE", "quick")]
INPUTS = {"brief": 3, "quick": 30, "soak": 300}[os.environ.get("HANDRAIL_PROFILE", "quick")]
AT_ONCE = 6
MODEL = """
import os, random
import anyio
from handrail import READ, Call, Context, Text, tool
from handrail.messages import Delta, ModelError, Prompt, Reply, Usage

DICE = random.Random(os.environ["SEED"])


@tool(effect=READ)
async def wait(seconds: float, context: Context) -> str:
    \"\"\"Wait.\"\"\"
    for part in range(10):
        context.progress(f"{part}0 % \\x1b[31m")
        await anyio.sleep(seconds / 10)
    return "\\x1b[2Jwaited"


def call(number):
    some = [
        ("edit", {"file_path": "notes.txt", "old_string": "two", "new_string": "2\\x1b[31m"}),
        ("write", {"file_path": f"new{number}.txt", "content": "x\\n" * 9}),
        ("read", {"file_path": "notes.txt"}),
        ("wait", {"seconds": DICE.random()}),
        ("bash", {"command": "sleep 30 & sleep 30"}),
        ("nothing", {}),
    ]
    name, args = DICE.choice(some)
    return Call(name, args, f"c{number}")


async def model(request):
    number = len(request.messages)
    await anyio.sleep(DICE.random() / 10)
    said, calls = [], []
    for _ in range(DICE.randrange(6)):
        said.append(DICE.choice(["word ", "\\x1b", "[2J", "\\n", "\\u202e", "文件 ", "\\x9b31m"]))
        yield Delta(said[-1])
        await anyio.sleep(DICE.random() / 50)
    if DICE.random() < 0.1:
        raise ModelError("the connection broke", kind="network")
    if DICE.random() < 0.6 and number < 12:
        calls = [call(f"{number}-{one}") for one in range(DICE.randrange(1, 4))]
    parts = (*([Text("".join(said))] if said else []), *calls)
    yield Reply(parts or (Text("."),), "calls" if calls else "end", Usage(input_tokens=9, output_tokens=1))
"""
WIRES = (anthropic, gemini, openai_chat, openai_responses)


def accepted(saved: JournalRun) -> bool:
    """Whether every provider would take what was kept; a chat in which nothing was said is gone."""
    transcript = saved.state().transcript()
    return all(wire.encode_messages(transcript) for wire in WIRES) if transcript else True


def begun(handrail: Handrail, seed: str, plain: str = "1") -> Pty:
    """A chat; the last one, if there is one that can be gone on with."""
    kept = any((handrail.state / "runs").glob("2*"))
    words = ["--resume", "last"] if kept else ["Go.", "--model", "model.py:model"]
    tools = [] if kept else ["-t", "coding", "-t", "model.py:wait"]
    tools += [] if plain or kept else ["--without", "bash"]  # a sandbox takes long to start
    return Pty(handrail, "chat", *words, *tools, env={"SEED": seed, "HANDRAIL_PLAIN": plain})


KEYS = ["y\r", "n\r", "no, not so\r", "a\r", "?\r", "d\r", "q\r", "l\r", "e\r", "{}\r", "\r", "Go on.\r",
        "/undo\r", "/mode edits\r", "/tools\r", "/cost\r", "/help\r", "/model nothing\r", "\x03", "\x1b[A\r", "\x12wo\r",
        "\x00\x07\x1b[200~pasted\nlines\x1b[201~\r", "\t\t", "\x1a", "\udcff\udc80\r", "grüße 文件\r", "\x7f" * 3]  # fmt: skip
ENDS: list[tuple[Callable[[Pty], None], set[int]]] = [
    (lambda pty: pty.signals(signal.SIGTERM), {143}),
    (lambda pty: pty.signals(signal.SIGHUP), {143}),
    (lambda pty: pty.hangs_up(), {0, 143}),
]


def acts(pty: Pty, dice: random.Random) -> None:
    """One thing that a person, their window or the system does."""
    match dice.randrange(12):
        case 0:
            pty.signals(signal.SIGINT)
        case 1:
            pty.resizes(dice.randrange(1, 200), dice.randrange(1, 60))
        case 2:
            pty.waits(1.0)
        case _:
            pty.types(dice.choice(KEYS))
    if dice.random() < 0.5:
        pty.waits(dice.random() / 2)
    else:  # what comes of it, or the next thing before that
        time.sleep(dice.random() / 4)


def holds(pty: Pty, handrail: Handrail, codes: set[int]) -> None:
    """Whether a chat has ended as it should, and left what it should."""
    assert pty.ends() in codes, pty.seen
    assert "Traceback" not in pty.seen
    assert "\x1b[2J" not in pty.seen, "what a model or a tool said was obeyed"
    assert pty.left_over(handrail.workspace) == []
    assert all(map(accepted, journal_runs(handrail)))
    assert ("running", "") not in standings(handrail)


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.timeout(180)
def test_whatever_happens_at_a_terminal_it_ends_well(tmp_path: Path, seed: int) -> None:
    handrail, dice = made(tmp_path), random.Random(seed)  # noqa: S311  a game
    handrail.write("model.py", MODEL)
    handrail.write("notes.txt", "one\ntwo\n")
    pty = begun(handrail, str(seed))
    try:
        pty.sees("/help")
        for number in range(dice.randrange(10, 40)):
            if pty.ended:
                holds(pty, handrail, {0, 130})
                assert pty.restored
                pty.end()
                pty = begun(handrail, f"{seed}-{number}")
                pty.sees("/help")
            acts(pty, dice)
        end, codes = dice.choice(ENDS)
        end(pty)
        holds(pty, handrail, codes | {0, 130})
        assert end is ENDS[-1][0] or pty.restored
    finally:
        pty.end()


INPUT_KEYS = ["y", "n", "a", "?", "\x1b", "\x1b[A", "\x1b[B", "\r", "\n", "Go on.\r", "/mode edits\r", "/he\t\r",
              "@no\t", "\x12wo\r", "\x03", "\x07", "\x0c", "\x0f", "\x1a", "\x1b\r", "\\\r", "\x00", "\udcff", "grüße 文件",
              "\x1b[200~one\ntwo\x1b[201~", "\x1b[200~" + "row\r" * 40 + "\x1b[201~", "\x1b[200~", "\x7f", "\x17", "\x1b[1;5D"]  # fmt: skip


def plays(handrail: Handrail, seed: int) -> Pty:
    """A chat with the input, in which anything happens until it ends."""
    dice = random.Random(seed)  # noqa: S311  a game
    handrail.write("model.py", MODEL)
    handrail.write("notes.txt", "one\ntwo\n")
    pty = begun(handrail, str(seed), plain="")
    pty.sees("\x1b[?2004h")
    for _ in range(dice.randrange(3, 10)):
        act = dice.randrange(10)
        if act == 0:
            pty.signals(signal.SIGINT)
        elif act == 1:
            pty.resizes(dice.randrange(1, 200), dice.randrange(1, 60))
        else:
            pty.types(dice.choice(INPUT_KEYS))
        pty.waits(dice.random() / 5)
    pty.signals(dice.choice([signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]))
    return pty


@pytest.mark.parametrize("first", range(0, INPUTS, AT_ONCE))
@pytest.mark.timeout(300)
def test_whatever_happens_in_the_input_the_terminal_is_as_before(
    tmp_path: Path, first: int
) -> None:
    def ends(seed: int) -> tuple[int, bool, frozenset[str], bool]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        pty = plays(made(folder), seed)
        try:
            code = pty.ends()
            return code, pty.restored, frozenset(pty.left_on), "Traceback" in pty.seen
        finally:
            pty.end()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        ended = list(threads.map(ends, range(first, min(first + AT_ONCE, INPUTS))))

    assert [one for one in ended if one[0] not in {0, 130, 143}] == []
    assert {one[1:] for one in ended} == {(True, frozenset(), False)}


def test_the_checks_of_the_input_can_fail(tmp_path: Path) -> None:
    handrail = made(tmp_path)
    handrail.write("model.py", MODEL)
    pty = begun(handrail, "1", plain="")
    try:
        pty.sees("\x1b[?2004h")
        pty.signals(signal.SIGKILL)
        assert (pty.ends(), pty.restored, pty.left_on) == (-9, False, {"2004"})
    finally:
        pty.end()


def test_the_checks_above_can_fail(tmp_path: Path) -> None:
    handrail = made(tmp_path)
    handrail.write("model.py", MODEL)
    pty = Pty(handrail, "chat", "--model", "model.py:model", env={"SEED": "1"})
    try:
        pty.sees("> ")
        assert not pty.restored
        assert len(pty.left_over(handrail.workspace)) == 1
        pty.types("\x0c")  # the line editor clears the screen
        pty.sees("\x1b[2J")
        pty.types("\x04")
        assert pty.ends() == 0
    finally:
        pty.end()
