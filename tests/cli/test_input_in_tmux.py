"""The input of a chat in a real terminal: several rows, pastes, history, an editor, a queue."""

# ruff: noqa: RUF001  the sign of the input is in every screen

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import pytest
from inline_snapshot import snapshot

from cli.terminal import Open, Tmux, opened
from cli_harness import Handrail

MODEL = """
from pathlib import Path
import anyio
from handrail import Call, Text
from handrail.messages import Delta, Prompt, Reply

mark = Call("edit", {"file_path": "notes.txt", "old_string": "two", "new_string": "two!"}, "c1")


async def model(request):
    last = request.messages[-1]
    said = last.parts[-1].text if isinstance(last, Prompt) else ""
    if said == "wait":
        yield Delta("I wait. ")
        while not Path("go").exists():
            await anyio.sleep(0.01)
    if said == "mark":
        yield Reply((mark,), "calls")
    else:
        shown = said if len(said) < 99 else f"{len(said)} characters"
        yield Reply((Text(f"Heard {shown!r}."),))
"""
AT = "❯ "
IDLE = "  ask · model.py:model"


@pytest.fixture
def tmux(handrail: Handrail) -> Iterator[Open]:
    handrail.write("notes.txt", "one\ntwo\nthree\n")
    handrail.write("model.py", MODEL)
    yield from opened(handrail)


def chats(pane: Tmux, *arguments: str, **env: str) -> None:
    """Begin a chat with the input."""
    words = ("chat", "--model", "model.py:model", "--without", "bash", *arguments)
    pane.runs(*words, env={"HANDRAIL_PLAIN": "", **env})
    pane.shows(IDLE)


@pytest.mark.timeout(180)
def test_a_message_has_several_rows_and_comes_back_from_the_history(tmux: Open) -> None:
    pane = tmux(80, 24)
    chats(pane)
    pane.types("one", enter=False)
    pane.presses("C-j")
    pane.types("two", enter=False)
    pane.presses("M-Enter")
    pane.types("three\\")
    pane.types("four")
    pane.shows("Heard 'one\\ntwo\\nthree\\nfour'.")
    pane.pastes("\n".join(f"row {number}" for number in range(212)))
    pane.shows(f"{AT}[pasted 212 lines]")
    pane.types(" and so on")
    pane.shows("Heard '1595 characters'.")
    pane.pastes("a short one\r\n")
    pane.types("pasted")
    pane.shows("Heard 'a short one\\npasted'.")
    pane.presses("Up")
    pane.shows(f"{AT}a short one", times=2)
    pane.presses("C-c")
    pane.shows(f"{AT}Describe a change")
    pane.presses("C-r")
    pane.types("thr", enter=False)
    pane.shows("search: thr")
    pane.presses("Enter")
    pane.types("!")
    shown = pane.shows("Heard 'one\\ntwo\\nthree\\nfour!'.")
    pane.presses("C-d")

    assert pane.ends() == 0
    assert "  four!" in shown


def test_a_narrower_terminal_leaves_no_second_input(tmux: Open) -> None:
    pane = tmux(80, 24)
    chats(pane)
    pane.types(
        "some words that fill a row of the input and go on in the next row of it", enter=False
    )
    rules: list[tuple[int, int]] = []
    for width in (50, 61, 37, 80):
        pane.resizes(width)
        pane.shows(f"{'─' * (width - 1)}\n{AT}")
        screen = pane.screen()
        rules.append((screen.count("──\n"), screen.count(AT)))
    shown = pane.shows("next row of it")
    pane.presses("C-c")
    pane.shows(f"{AT}Describe")
    pane.presses("C-c")

    assert (pane.ends(), rules) == (130, [(1, 1)] * 4)
    assert shown[-4:] == snapshot(
        [
            "",
            "───────────────────────────────────────────────────────────────────────────────",
            "❯ some words that fill a row of the input and go on in the next row of it",
            "  ask · model.py:model · ws",
        ]
    )


ROWS = 60
STREAM = """
import anyio
from handrail import Text
from handrail.messages import Delta, Reply

ROWS = [f"row {number:03} {'word ' * (number % 23)}\\n\\n" for number in range(60)]


async def model(request):
    for row in ROWS:
        yield Delta(row)
        await anyio.sleep(0.03)
    yield Reply((Text("".join(ROWS)),))
"""


def resized(tmux: Open, seed: int, **env: str) -> tuple[list[str], int]:
    """The numbers of the rows on the screen and above it, after many sizes; and the inputs."""
    chance = Random(seed)  # noqa: S311  no secret
    pane = tmux(80, 24)
    pane.handrail.write("stream.py", STREAM)
    words = ("chat", "--model", "stream.py:model", "--without", "bash")
    pane.runs(*words, env={"HANDRAIL_PLAIN": "", **env})
    pane.shows("ask · stream.py:model")
    pane.types("go")
    for _ in range(chance.randrange(8, 16)):
        pane.resizes(chance.randrange(36, 120), chance.choice([24, 18, 30]))
        pane.shows("row", times=chance.randrange(1, 6))
    pane.shows(f"row {ROWS - 1:03}")
    pane.shows(f"{AT}Describe")
    pane.resizes(60)
    pane.shows(f"{'─' * 59}\n{AT}Describe")
    text = pane.screen(above=True)
    pane.presses("C-d")
    assert pane.ends() == 0
    return re.findall(r"^  row (\d{3})", text, re.MULTILINE), text.count(f"{AT}Describe")


OTHER_TERMINALS = [{"XTERM_VERSION": "XTerm(390)"}, {"TMUX": "x"}]


@pytest.mark.parametrize(
    "env",
    [{}, *(pytest.param(one, marks=pytest.mark.soak) for one in OTHER_TERMINALS)],
    ids=str,
)
def test_no_row_is_lost_when_the_size_changes_in_the_middle_of_a_reply(
    tmux: Open, env: dict[str, str]
) -> None:
    rows, inputs = resized(tmux, 1, **env)

    assert sorted(set(rows)) == [f"{number:03}" for number in range(ROWS)]
    assert inputs == 1


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_row_is_lost_at_any_sizes(tmux: Open, seed: int) -> None:
    rows, _ = resized(tmux, seed)

    assert sorted(set(rows)) == [f"{number:03}" for number in range(ROWS)]


@pytest.mark.timeout(180)
def test_messages_wait_for_the_end_of_a_turn_and_can_be_changed_until_then(tmux: Open) -> None:
    pane = tmux(120, 40)
    chats(pane)
    pane.types("wait")
    pane.shows("I wait.")
    pane.types("second")
    pane.types("thirt")
    pane.shows("Queued: “thirt”   ↑ edits it")
    pane.presses("Up")
    pane.shows(f"{AT}thirt")
    pane.presses("BSpace")
    pane.types("d")
    pane.shows("Queued: “third”   ↑ edits it")
    during = pane.shows("Queued: “second”")
    pane.handrail.write("go", "")
    pane.shows("Heard 'third'.")
    (pane.handrail.workspace / "go").unlink()
    pane.types("wait")
    pane.shows("I wait.", times=2)
    pane.types("later")
    pane.types("half", enter=False)
    pane.shows(f"{AT}half")
    pane.presses("Escape")
    pane.shows("stopped;")
    after = pane.shows(f"{AT}later\n  half\n  ask · model.py:model")
    pane.types("")
    pane.shows("Heard 'later\\nhalf'.")
    pane.presses("C-d")

    assert pane.ends() == 0
    assert during[-7:] == snapshot(
        [
            "  I wait.",
            "",
            "  Queued: “second”",
            "  Queued: “third”   ↑ edits it",
            "────────────────────────────────────────────────────────────────────────────────────────────────────",
            "❯ Enter queues a message, Esc stops",
            "  ask · writing · Esc stops",
        ]
    )
    assert after[-6:] == snapshot(
        [
            "stopped; press Enter to continue, or type a new message",
            "",
            "────────────────────────────────────────────────────────────────────────────────────────────────────",
            "❯ later",
            "  half",
            "  ask · model.py:model · ws",
        ]
    )


@pytest.mark.timeout(180)
def test_an_editor_writes_a_message_and_a_question_keeps_what_was_typed(tmux: Open) -> None:
    pane = tmux(80, 24)
    editor = pane.handrail.write("editor", "#!/bin/sh\necho in the editor >>$1\n")
    editor.chmod(0o700)
    chats(pane, EDITOR=str(editor))
    pane.types("begun", enter=False)
    pane.shows(f"{AT}begun")
    pane.presses("C-g")
    pane.shows("begunin the editor")
    pane.types("")
    pane.shows("Heard 'begunin the editor'.")
    pane.types("mark")
    pane.shows("▸ y yes")
    pane.types("y", enter=False)
    pane.shows("✓ Edit notes.txt")
    pane.types("mark @no", enter=False)
    pane.shows("    @notes.txt")
    pane.presses("Tab")
    pane.shows("  ▸ @notes.txt")
    pane.types("")
    pane.types("")
    pane.shows("Heard 'mark @notes.txt'.")
    pane.types("/mo", enter=False)
    pane.shows("/model")
    menu = pane.shows("ask · model.py:model")  # the turn has ended
    pane.presses("C-c")
    pane.shows(f"{AT}Describe")
    pane.presses("C-d")

    assert pane.ends() == 0
    assert menu[-5:] == snapshot(
        [
            "───────────────────────────────────────────────────────────────────────────────",
            "❯ /mo",
            "    /model  show the model, or switch to another one",
            "    /mode   show or set the default decision for calls that no rule matches",
            "  ask · model.py:model · ws",
        ]
    )
