"""`handrail chat`, from the command line to what it leaves behind."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.terminal import Pty
from cli_harness import Handrail, Schemas
from handrail.cli._chat_input import Keyboard
from handrail.cli._exits import Exit
from handrail.cli._saved import Saved

MODEL = """
import time
import anyio
from handrail import READ, Call, Context, Text, tool
from handrail.messages import Delta, ModelFailed, Reply, Usage
from handrail.testing import ScriptedModel


def edit(old, new, call_id):
    args = {"file_path": "notes.txt", "old_string": old, "new_string": new}
    return Call("edit", args, call_id)


mark = edit("two", "two!", "c1")
say = Reply((Text("Hello."),), usage=Usage(sent=1200, received=7, cached=0))


def fails(error):
    def step(request):
        raise error
    return step


async def stubborn(request):
    yield Delta("This ")
    time.sleep(600)


@tool(effect=READ)
async def reluctant(context: Context) -> str:
    \"\"\"End a while after it is stopped.\"\"\"
    try:
        await anyio.sleep_forever()
    finally:
        context.progress("stopping")
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1.0)


@tool(effect=READ)
async def slow() -> str:
    \"\"\"End when it is stopped.\"\"\"
    await anyio.sleep_forever()
"""
ENTER = "> "
ANSWER = "your answer: "
Chat = Callable[..., Pty]


@pytest.fixture
def chat(handrail: Handrail) -> Iterator[Chat]:
    """Begins a chat with a model that is written here."""
    opened: list[Pty] = []

    def begin(model: str, *arguments: str, **options: Any) -> Pty:
        handrail.write("model.py", MODEL + f"\nmodel = {model}\n")
        handrail.write("notes.txt", "one\ntwo\n")
        words = ["chat", "--model", "model.py:model", "--without", "bash", "--color", "never"]
        opened.append(Pty(handrail, *words, *arguments, **options))
        return opened[-1]

    yield begin
    for one in opened:
        one.end()


def plain(text: str) -> list[str]:
    """Rows without what moves a cursor or sets a terminal."""
    shown = re.sub(r"\x1b\[\??[0-9;]*[a-zA-Z]", "", text)
    rows = [row.rpartition("\r")[2] for row in shown.replace("\r\n", "\n").split("\n")]
    return [row for row in rows if row.strip()]


def runs(handrail: Handrail) -> list[Saved]:
    return [Saved(one) for one in (handrail.state / "runs").glob("2*")]


def test_without_a_terminal_it_says_what_to_use(handrail: Handrail, schema: Schemas) -> None:
    ran = handrail("chat", "Hello.", "--json")

    assert (ran.exit, ran.out, ran.error["code"]) == (2, "", "no_terminal")
    assert "handrail run" in schema("error", {"error": ran.error})["error"]["hint"]
    assert runs(handrail) == []


def test_a_person_who_wants_no_questions_cannot_chat(chat: Chat, handrail: Handrail) -> None:
    pty = chat("ScriptedModel(say)", "--no-input")

    assert (pty.ends(), runs(handrail)) == (2, [])
    assert "a chat needs a terminal" in pty.seen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "model.py:other"), "there is no 'other' in model.py"),
        (("--tools", "model.py:other"), "there is no 'other' in model.py"),
        (("--resume", "last"), "there is no run 'last'"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_kept(
    chat: Chat, handrail: Handrail, arguments: tuple[str, ...], words: str
) -> None:
    pty = chat("ScriptedModel(say)", *arguments)

    assert (pty.ends(), runs(handrail)) == (2, [])
    assert words in pty.seen


def test_at_the_end_there_is_one_document(
    chat: Chat, handrail: Handrail, schema: Schemas, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    pty = chat("ScriptedModel(say, mark, 'Done.')", "Hello.", "--json", stdout=out)
    pty.answers("Mark it.", after=ENTER)
    pty.answers("y", after=ANSWER)
    pty.sees("Done.")
    pty.sees(ENTER)
    pty.types("\x04")

    assert pty.ends() == 0
    [saved] = runs(handrail)
    assert schema("chat", json.loads(out.read_text(encoding="utf-8"))) == {
        "id": saved.id,
        "stop": "answer",
        "turns": 3,
        "calls": 1,
        "usage": {"sent": 1200, "received": 7, "cached": 0},
    }
    assert saved.about["command"] == "chat"


NOISY = """
import os
import subprocess

@tool(effect=READ)
async def noisy() -> str:
    '''Prints.'''
    print("to", "be", "\\x1b]0;owned\\x07", end="")
    print(" continued")
    os.write(1, b"by hand\\n")
    subprocess.run(["echo", "by another"])
    return "It is done."

noise = Call("noisy", {}, "c1")
"""


def test_what_tools_print_is_shown_and_is_no_data(
    chat: Chat, schema: Schemas, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    model = f"None\n{NOISY}\nmodel = ScriptedModel(noise, 'Done.')"
    options = ("--tools", "model.py", "--tools", "coding", "--json")
    pty = chat(model, "Go.", *options, stdout=out)
    pty.sees("Done.")
    pty.answers("/quit", after=ENTER)

    assert pty.ends() == 0
    assert "to be \\u{1B}]0;owned\\u{7} continued" in plain(pty.seen)
    assert "by hand" in pty.seen
    assert "by another" in pty.seen
    assert "\x1b]0;owned" not in pty.seen
    assert schema("chat", json.loads(out.read_text(encoding="utf-8")))["calls"] == 1


def test_of_a_chat_in_which_nothing_was_said_nothing_is_kept(
    chat: Chat, handrail: Handrail, schema: Schemas, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    pty = chat("ScriptedModel(say)", "--json", stdout=out)
    pty.answers("", after=ENTER)
    pty.sees(ENTER)
    pty.types("\x03")

    assert (pty.ends(), runs(handrail)) == (130, [])
    assert schema("chat", json.loads(out.read_text(encoding="utf-8")))["stop"] == "empty"


def said(pty: Pty, line: str) -> list[str]:
    """What the chat answers to a command."""
    pty.types(f"{line}\r")
    pty.sees(f"{line}\r\n")
    return plain(pty.sees(ENTER))


def test_commands_are_for_the_chat_itself(chat: Chat, handrail: Handrail) -> None:
    pty = chat("ScriptedModel(say, mark, 'Done.')", "Hello.", "--mode", "edits")
    pty.sees("Hello.")
    pty.sees(ENTER)

    assert said(pty, "/help")[:2] == [
        "/help   this list",
        "/undo   take the last change of a file back; again for the one before",
    ]
    assert said(pty, "/cost")[:3] == [
        "tokens  1,200 sent; 7 received",
        "turns   1",
        "calls   0",
    ]
    assert said(pty, "/tools")[0].split()[:2] == ["edit", "write"]
    assert said(pty, "/mode") == ["mode edits"]
    assert said(pty, "/mode fast") == ["'fast' is no mode; there are plan, ask, edits, open"]
    assert said(pty, "/mode plan") == ["mode plan"]
    assert said(pty, "/model") == ["model model.py:model"]
    assert said(pty, "/model model.py:no")[0].startswith("there is no 'no' in model.py; ")
    assert said(pty, "/undo") == ["There is nothing to undo. What commands changed is not kept."]
    assert said(pty, "/nothing") == [
        "There is no command /nothing; /help lists those that there are."
    ]
    assert said(pty, "/mode edits") == ["mode edits"]
    pty.types("/etc/hosts is no command\r")
    pty.sees("Done.")
    pty.sees(ENTER)
    (handrail.workspace / "notes.txt").write_text("mine\n", encoding="utf-8")
    assert said(pty, "/undo") == ["'notes.txt' has changed since 'c1'. Nothing was undone."]
    pty.types("/quit\r")
    assert pty.ends() == 0


def test_another_model_goes_on_here_and_in_another_process(chat: Chat, handrail: Handrail) -> None:
    """The second process is told no model: it takes the one that was chosen last."""
    pty = chat("ScriptedModel(say)\nother = ScriptedModel('I am another.')", "Hello.")
    pty.sees("Hello.")
    pty.sees(ENTER)
    changed = said(pty, "/model model.py:other")
    pty.types("Who are you?\r")
    pty.sees("I am another.")
    pty.answers("/quit", after=ENTER)
    first = pty.ends()
    [saved] = runs(handrail)
    again = Pty(handrail, "chat", "--resume", saved.id[:12])
    try:
        again.answers("And now?", after=ENTER)
        again.sees("I am another.")
        again.answers("/quit", after=ENTER)
        second = again.ends()
    finally:
        again.end()

    assert (changed, first, second) == (["model model.py:other"], 0, 0)
    assert "model.py:other · mode" in again.seen


def test_a_call_that_waits_is_asked_about_again(chat: Chat, handrail: Handrail) -> None:
    pty = chat("ScriptedModel(mark, 'Done.')", "Mark it.")
    pty.answers("l", after=ANSWER)
    told = plain(pty.answers("", after=ENTER))[-1]
    pty.sees(ANSWER)
    pty.types("\x03")
    stopped = plain(pty.answers("", after=ENTER))[-1]
    pty.answers("l", after=ANSWER)
    pty.answers("", after=ENTER)
    pty.answers("y", after=ANSWER)
    pty.sees("Done.")
    pty.answers("/quit", after=ENTER)

    assert pty.ends() == 0
    assert told == "1 call waits for an answer: Enter asks again."
    assert stopped == "Stopped. Enter goes on with it; or say something else."
    assert (handrail.workspace / "notes.txt").read_text(encoding="utf-8") == "one\ntwo!\n"


def test_an_answer_that_was_given_elsewhere_is_used(chat: Chat, handrail: Handrail) -> None:
    pty = chat("ScriptedModel([mark, edit('one', '1', 'c2')], 'Done.')", "Mark it.")
    pty.answers("l", after=ANSWER)
    pty.answers("l", after=ANSWER)
    told = plain(pty.answers("/quit", after=ENTER))[-1]
    pty.ends()
    [saved] = runs(handrail)
    first, second = saved.state().pending
    answers = {first.id: {"answer": "allow"}, second.id: {"answer": "deny", "reason": "Not this."}}
    saved.keep_answers(answers)
    again = chat("ScriptedModel('Done.')", "--resume", "last")
    rest = again.sees("It was stopped in the middle: Enter goes on with it.")
    again.answers("", after=ENTER)
    again.sees("They said: Not this.")
    again.sees("Done.")
    again.answers("/quit", after=ENTER)

    assert (again.ends(), told) == (0, "2 calls wait for an answer: Enter asks again.")
    assert ANSWER not in rest + again.seen
    assert (handrail.workspace / "notes.txt").read_text(encoding="utf-8") == "one\ntwo!\n"


def test_a_question_can_be_looked_into_and_the_run_be_stopped_by_it(
    chat: Chat, handrail: Handrail
) -> None:
    pty = chat("ScriptedModel(mark, 'Done.')", "Mark it.")
    pty.answers("?", after=ANSWER)
    why = plain(pty.answers("q", after=ANSWER))
    stopped = plain(pty.answers("/quit", after=ENTER))[-1]

    assert pty.ends() == 0
    assert why[:4] == [
        "?",
        "asked by: mode ask",
        "every rule that speaks of it, the deciding one first:",
        "│ ask by mode ask",
    ]
    assert stopped == "Stopped. Enter goes on with it; or say something else."
    assert (handrail.workspace / "notes.txt").read_text(encoding="utf-8") == "one\ntwo\n"


LIMIT = "Stopped at a limit of one prompt, such as max_turns. Enter goes on."


def test_a_file_that_is_not_there_yet_is_shown_as_it_will_be(chat: Chat) -> None:
    write = "Call('write', {'file_path': 'new.txt', 'content': 'x'}, 'c1')"
    pty = chat(f"ScriptedModel({write}, {write}, 'Done.')", "Write it.")
    first = plain(pty.answers("y", after=ANSWER))
    second = plain(pty.answers("y", after=ANSWER))
    pty.sees("Done.")
    pty.answers("/quit", after=ENTER)

    assert pty.ends() == 0
    assert "new.txt is not there yet; its new text:" in first
    assert "new.txt has this text already:" in second


def test_a_line_of_any_bytes_is_a_line(chat: Chat, handrail: Handrail) -> None:
    pty = chat("ScriptedModel(say)")
    pty.answers("gr\udcfc\udcdfe", after=ENTER)
    pty.sees("Hello.")
    pty.answers("/quit", after=ENTER)
    code = pty.ends()
    [saved] = runs(handrail)
    [said] = saved.state().messages[0].parts

    assert (code, said.text[:3], said.text[-1]) == (0, "gr\ufffd", "e")


def test_a_limit_holds_for_what_was_said_last(chat: Chat) -> None:
    looks = "Call('read', {'file_path': 'notes.txt'}, 'c1')"
    pty = chat(f"ScriptedModel({looks}, {looks}, 'Done.')", "Look.", "--max-turns", "1")
    first = plain(pty.answers("", after=ENTER))[-1]
    second = plain(pty.answers("", after=ENTER))[-1]
    pty.sees("Done.")
    pty.answers("/quit", after=ENTER)

    assert (first, second, pty.ends()) == (LIMIT, LIMIT, 0)


def test_a_model_that_fails_can_be_tried_again(chat: Chat) -> None:
    broken = "fails(ModelFailed('the wire broke\\x1b'))"
    pty = chat(f"ScriptedModel({broken}, fails(KeyError('x')), say)", "Hello.")
    first = plain(pty.answers("", after=ENTER))[-2:]
    second = plain(pty.answers("", after=ENTER))[-2:]
    pty.sees("Hello.")
    pty.answers("/quit", after=ENTER)

    assert first == ["The model failed: the wire broke\\u{1B}", "Enter tries again."]
    told = "The model failed: model.py:model raised KeyError: 'x'"
    assert second == [told, "Enter tries again."]
    assert pty.ends() == 0


SPOILS = """
import os, pathlib


def spoil(request):
    for state in pathlib.Path(os.environ["XDG_STATE_HOME"]).glob("handrail/runs/*/state.json"):
        state.unlink()
        state.mkdir()
    return say


model = ScriptedModel(spoil)
"""


def test_a_run_that_cannot_be_saved_does_not_go_on(chat: Chat) -> None:
    pty = chat(f"0\n{SPOILS}", "Hello.")

    assert pty.ends() == 1
    assert "the run cannot be saved, and so does not go on" in pty.seen


def test_a_second_interrupt_ends_the_chat(chat: Chat, handrail: Handrail) -> None:
    """The first one stops a call, which takes its time."""
    call = "Call('reluctant', {}, 'c1')"
    pty = chat(f"ScriptedModel({call})", "Wait.", "-t", "model.py:reluctant")
    pty.sees("▸ reluctant() … ")
    pty.types("\x03")
    pty.sees("· stopping")
    pty.types("\x03")

    assert (pty.ends(), pty.restored) == (130, True)
    [saved] = runs(handrail)
    assert saved.about["stop"] == "interrupted"


def test_what_does_not_stop_is_left_at_the_third(chat: Chat, handrail: Handrail) -> None:
    pty = chat("stubborn", "Wait.")
    pty.sees("  This")
    for _ in range(3):
        pty.types("\x03")
        pty.sees("^C")
        pty.waits(0.2)

    assert (pty.ends(), pty.restored) == (130, True)
    [saved] = runs(handrail)
    assert saved.stop == "interrupted"


def test_an_interrupt_takes_a_line_away_and_at_an_empty_one_ends_the_chat(chat: Chat) -> None:
    pty = chat("ScriptedModel(say)")
    pty.sees(ENTER)
    pty.types("never mind")
    pty.sees("mind")
    pty.types("\x03")
    pty.sees(ENTER)
    pty.types("\x03")

    assert (pty.ends(), pty.restored) == (130, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_it_ends_when_the_system_wants_it(chat: Chat, handrail: Handrail, number: int) -> None:
    """Once at the prompt, once in the middle of a call."""
    pty = chat("ScriptedModel(say)")
    pty.sees(ENTER)
    pty.signals(number)
    busy = chat("ScriptedModel(Call('slow', {}, 'c1'))", "Wait.", "-t", "model.py:slow")
    busy.sees("▸ slow() … ")
    busy.signals(number)

    assert (pty.ends(), pty.restored, busy.ends(), busy.restored) == (143, True, 143, True)
    [saved] = runs(handrail)
    assert (saved.about["stop"], busy.left_over(handrail.workspace)) == ("interrupted", [])


def test_lines_are_there_again_in_the_next_chat_for_nobody_else(
    chat: Chat, handrail: Handrail
) -> None:
    pty = chat("ScriptedModel(say, say)")
    pty.answers("Remember me.", after=ENTER)
    pty.sees("Hello.")
    pty.answers("/quit", after=ENTER)
    pty.ends()
    history = handrail.state / "chat_history"
    again = chat("ScriptedModel(say)")
    again.sees(ENTER)
    again.types("\x1b[A\x1b[A\r")
    again.sees("Remember me.")
    again.sees("Hello.")
    again.answers("/quit", after=ENTER)

    assert again.ends() == 0
    assert (
        history.stat().st_mode & 0o777,
        "Remember me." in history.read_text(encoding="utf-8"),
    ) == (0o600, True)


def test_python_may_be_without_a_line_editor(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "readline.py").write_text("raise ImportError", encoding="utf-8")
    pty = chat("ScriptedModel(say)", env={"PYTHONPATH": str(tmp_path / "none"), "TERM": "dumb"})
    pty.answers("Hello?", after=ENTER)
    pty.sees("Hello.")
    pty.sees(ENTER)
    pty.types("\x03")

    assert (pty.ends(), pty.restored) == (130, True)
    assert "waiting for the model" not in pty.seen


def test_a_terminal_that_is_gone_gives_no_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails() -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(readline=fails))

    assert Keyboard(tmp_path / "history").line() == Exit.DONE


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Signals mean after the test what they did before."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = [signal.getsignal(one) for one in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("usual_signals")
def test_a_signal_just_before_a_line_is_waited_for_is_heard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It came too late for Python to look at it, and too early to end the wait."""
    keyboard = Keyboard(tmp_path / "history")
    with keyboard.heard():
        bell = signal.set_wakeup_fd(-1)

        def waits() -> str:
            os.write(bell, bytes([signal.SIGTERM]))
            return str(threading.Event().wait(30))

        monkeypatch.setattr(sys, "stdin", SimpleNamespace(readline=waits))

        assert keyboard.line() == Exit.TERMINATED


@pytest.mark.usefixtures("usual_signals")
def test_an_end_that_was_wanted_before_a_line_is_read_is_not_forgotten(tmp_path: Path) -> None:
    keyboard = Keyboard(tmp_path / "history")
    with keyboard.heard():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

        assert (keyboard.line(), keyboard.interrupts) == (Exit.TERMINATED, 1)
