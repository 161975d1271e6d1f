"""`handrail chat`, from the command line to what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import Pty
from cli_harness import Handrail, Schemas
from cli_runs import journal_runs, standing_of, standings

MODEL = """
import time
import anyio
from handrail import READ, Call, Context, Text, tool
from handrail.messages import Delta, ModelError, Reply, Usage
from handrail.testing import ScriptedModel


def edit(old, new, call_id):
    args = {"file_path": "notes.txt", "old_string": old, "new_string": new}
    return Call("edit", args, call_id)


mark = edit("two", "two!", "c1")
say = Reply((Text("Hello."),), usage=Usage(input_tokens=1200, output_tokens=7, cached_tokens=0))


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


def test_without_a_terminal_it_says_what_to_use(handrail: Handrail, schema: Schemas) -> None:
    ran = handrail("chat", "Hello.", "--json")

    assert (ran.exit, ran.out, ran.error["code"]) == (2, "", "no_terminal")
    assert "handrail run" in schema("error", {"error": ran.error})["error"]["hint"]
    assert journal_runs(handrail) == []


def test_a_person_who_wants_no_questions_cannot_chat(chat: Chat, handrail: Handrail) -> None:
    pty = chat("ScriptedModel(say)", "--no-input")

    assert (pty.ends(), journal_runs(handrail)) == (2, [])
    assert "chat needs a terminal" in pty.seen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "model.py:other"), "model.py has no 'other'"),
        (("--tools", "model.py:other"), "model.py has no 'other'"),
        (("--resume", "last"), "there are no saved runs"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_kept(
    chat: Chat, handrail: Handrail, arguments: tuple[str, ...], words: str
) -> None:
    pty = chat("ScriptedModel(say)", *arguments)

    assert (pty.ends(), journal_runs(handrail)) == (2, [])
    assert words in pty.seen


def test_at_the_end_there_is_one_document(
    chat: Chat, handrail: Handrail, schema: Schemas, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    pty = chat("ScriptedModel(say, mark, 'Done.')", "Hello.", "--json", stdout=out, real=True)
    pty.answers("Mark it.", after=ENTER)
    pty.answers("y", after=ANSWER)
    pty.sees("Done.")
    pty.sees(ENTER)
    pty.types("\x04")

    assert pty.ends() == 0
    [saved] = journal_runs(handrail)
    assert schema("chat", json.loads(out.read_text(encoding="utf-8"))) == {
        "id": saved.id,
        "status": "done",
        "reason": "answer",
        "turns": 3,
        "calls": 1,
        "usage": {"input_tokens": 1200, "output_tokens": 7, "cached_tokens": 0},
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
    assert "  to be \\u{1B}]0;owned\\u{7} continued" in plain(pty.seen)
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

    assert (pty.ends(), journal_runs(handrail)) == (130, [])
    told = schema("chat", json.loads(out.read_text(encoding="utf-8")))
    assert standing_of(told) == ("done", "empty")


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
        "/help          show this list",
        "/model [NAME]  show the model, or switch to another one",
    ]
    assert said(pty, "/cost")[:3] == [
        "tokens  1,200 in; 7 out",
        "cost    not known: the model has no known price",
        "turns   1",
    ]
    assert said(pty, "/tools")[0].split()[:2] == ["ask_user", "read"]
    assert said(pty, "/mode") == [
        "mode edits",
        "  without a sandbox, reading and file changes run; protected files, secrets and",
        "  everything else need approval",
    ]
    assert said(pty, "/mode fast") == ["unknown mode 'fast'; use one of plan, ask, edits, open"]
    assert said(pty, "/mode plan") == [
        "mode plan",
        "  without a sandbox, reading runs; secrets need approval; everything else is",
        "  denied",
    ]
    assert said(pty, "/model") == ["model model.py:model"]
    assert said(pty, "/model model.py:no") == [
        "model.py has no 'no'",
        "  define it in model.py, or use another name",
    ]
    assert said(pty, "/undo") == ["nothing to undo"]
    assert said(pty, "/nothing") == ["unknown command /nothing; type /help for a list"]
    assert said(pty, "/mode edits")[0] == "mode edits"
    pty.types("/etc/hosts is no command\r")
    pty.sees("Done.")
    pty.sees(ENTER)
    (handrail.workspace / "notes.txt").write_text("mine\n", encoding="utf-8")
    assert said(pty, "/undo") == ["Not undone: 'notes.txt' has changed since 'c1'."]
    pty.types("/quit\r")
    assert pty.ends() == 0


def test_a_command_of_an_earlier_process_is_undone(chat: Chat, handrail: Handrail) -> None:
    data = handrail.write("data.txt", "x")
    handrail("tools", "call", "--mode", "open", "bash", "command=rm data.txt; touch new")
    words = "' '.join(part.text for part in request.messages[-1].parts)"
    pty = chat(
        f"ScriptedModel(say, lambda request: Reply((Text({words}),)), stream=False)", "Hello."
    )
    pty.sees("Hello.")
    pty.sees(ENTER)
    undone = said(pty, "/undo")
    again = said(pty, "What now?")[:-1]  # without what was used
    pty.types("/quit\r")

    assert (undone, data.read_text(encoding="utf-8"), pty.ends()) == (
        ["undid the command: rm data.txt; touch new", "restored: data.txt", "deleted: new"],
        "x",
        0,
    )
    assert " ".join(" ".join(again).split()) == (
        "The user undid the changes of your command 'rm data.txt; touch new'. What now?"
    )


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
    [saved] = journal_runs(handrail)
    again = Pty(handrail, "chat", "--resume", saved.id[:12])
    try:
        again.answers("And now?", after=ENTER)
        again.sees("I am another.")
        again.answers("/quit", after=ENTER)
        second = again.ends()
    finally:
        again.end()

    assert (changed, first, second) == (["model model.py:other"], 0, 0)
    assert "model.py:other  mode" in again.seen


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
    assert told == "1 call is waiting for approval; press Enter to answer"
    assert stopped == "stopped; press Enter to continue, or type a new message"
    assert (handrail.workspace / "notes.txt").read_text(encoding="utf-8") == "one\ntwo!\n"


def test_an_answer_that_was_given_elsewhere_is_used(chat: Chat, handrail: Handrail) -> None:
    pty = chat("ScriptedModel([mark, edit('one', '1', 'c2')], 'Done.')", "Mark it.")
    pty.answers("l", after=ANSWER)
    pty.answers("l", after=ANSWER)
    told = plain(pty.answers("/quit", after=ENTER))[-1]
    pty.ends()
    [saved] = journal_runs(handrail)
    first, second = saved.state().pending
    answers = {first.id: {"answer": "allow"}, second.id: {"answer": "deny", "reason": "Not this."}}
    saved.write_answers(answers)
    again = chat("ScriptedModel('Done.')", "--resume", "last")
    rest = again.sees("the last turn is unfinished; press Enter to continue it")
    again.answers("", after=ENTER)
    again.sees("message: Not this.")
    again.sees("Done.")
    again.answers("/quit", after=ENTER)

    assert (again.ends(), told) == (0, "2 calls are waiting for approval; press Enter to answer")
    assert ANSWER not in rest + again.seen
    assert (handrail.workspace / "notes.txt").read_text(encoding="utf-8") == "one\ntwo!\n"


def test_a_question_can_be_looked_into_and_the_run_be_stopped_by_it(
    chat: Chat, handrail: Handrail
) -> None:
    pty = chat("ScriptedModel(mark, 'Done.')", "Mark it.")
    pty.answers("w", after=ANSWER)
    why = plain(pty.answers("q", after=ANSWER))
    stopped = plain(pty.answers("/quit", after=ENTER))[-1]

    assert pty.ends() == 0
    assert why[:4] == [
        "w",
        "┃ asked by: mode ask",
        "┃ matching rules, the deciding one first:",
        "┃ │ ask by mode ask",
    ]
    assert stopped == "stopped; press Enter to continue, or type a new message"
    assert (handrail.workspace / "notes.txt").read_text(encoding="utf-8") == "one\ntwo\n"


LIMIT = "reached the limit on turns for one prompt; press Enter to continue"


def test_a_file_that_is_not_there_yet_is_shown_as_it_will_be(chat: Chat) -> None:
    write = "Call('write', {'file_path': 'new.txt', 'content': 'x'}, 'c1')"
    pty = chat(f"ScriptedModel({write}, {write}, 'Done.')", "Write it.")
    first = plain(pty.answers("y", after=ANSWER))
    second = plain(pty.answers("y", after=ANSWER))
    pty.sees("Done.")
    pty.answers("/quit", after=ENTER)

    assert pty.ends() == 0
    assert "┃ new.txt is a new file" in first
    assert "┃ new.txt already has this text" in second


def test_a_line_of_any_bytes_is_a_line(chat: Chat, handrail: Handrail) -> None:
    pty = chat("ScriptedModel(say)")
    pty.answers("gr\udcfc\udcdfe", after=ENTER)
    pty.sees("Hello.")
    pty.answers("/quit", after=ENTER)
    code = pty.ends()
    [saved] = journal_runs(handrail)
    [said] = saved.state().messages[0].parts

    assert (code, said.text[:3], said.text[-1]) == (0, "gr\ufffd", "e")


def test_a_limit_holds_for_what_was_said_last(chat: Chat) -> None:
    looks = "Call('read', {'file_path': 'notes.txt'}, 'c1')"
    script = f"ScriptedModel({looks}, 'So far.', {looks}, 'And then.', 'Done.')"
    pty = chat(script, "Look.", "--max-turns", "1")
    first = plain(pty.answers("", after=ENTER))[-1]
    second = plain(pty.answers("", after=ENTER))[-1]
    pty.sees("Done.")
    pty.answers("/quit", after=ENTER)

    assert (first, second, pty.ends()) == (LIMIT, LIMIT, 0)


def test_pieces_of_arguments_are_not_shown(chat: Chat) -> None:
    looks = "Call('read', {'file_path': 'notes.txt'}, 'c1')"
    pty = chat(f"ScriptedModel({looks}, 'Done.', stream=True)", "Look.")
    said = plain(pty.answers("/quit", after=ENTER))

    assert [" ".join(row.split()) for row in said if row.startswith("✓")] == [
        "✓ Read notes.txt 2 lines #1"
    ]
    assert (said[-1], pty.ends()) == ("  Done.", 0)


def test_a_reply_that_is_no_answer_is_not_taken_for_one(chat: Chat) -> None:
    refuses = "lambda _: Reply((Text('No.'),), 'refused', stop_detail='not\\nthat')"
    pty = chat(f"ScriptedModel({refuses})", "Look.")
    said = plain(pty.answers("/quit", after=ENTER))

    assert (said[-2:], pty.ends()) == (["  No.", "no answer: not that"], 0)


def test_a_model_that_fails_can_be_tried_again(chat: Chat) -> None:
    broken = "fails(ModelError('the wire broke\\x1b'))"
    pty = chat(f"ScriptedModel({broken}, fails(KeyError('x')), say)", "Hello.")
    first = plain(pty.answers("", after=ENTER))[-2:]
    second = plain(pty.answers("", after=ENTER))[-2:]
    pty.sees("Hello.")
    pty.answers("/quit", after=ENTER)

    assert first == ["model error: the wire broke\\u{1B}", "press Enter to retry"]
    told = "model error: model.py:model raised KeyError: 'x'"
    assert second == [told, "press Enter to retry"]
    assert pty.ends() == 0


SPOILS = """
import os, sqlite3


def spoil(request):
    file = os.path.join(os.environ["XDG_STATE_HOME"], "handrail/runs/journal.db")
    sqlite3.connect(file).execute("DROP TABLE handrail_journal")
    return say


model = ScriptedModel(spoil)
"""


def test_a_run_that_cannot_be_saved_does_not_go_on(chat: Chat) -> None:
    pty = chat(f"0\n{SPOILS}", "Hello.")

    assert pty.ends() == 1
    assert "stopped, because the run cannot be saved" in pty.seen


def test_a_second_interrupt_ends_the_chat(chat: Chat, handrail: Handrail) -> None:
    """The first one stops a call, which takes its time."""
    call = "Call('reluctant', {}, 'c1')"
    pty = chat(f"ScriptedModel({call})", "Wait.", "-t", "model.py:reluctant")
    pty.sees("⠹ reluctant ")
    pty.types("\x03")
    pty.sees("│ stopping")
    pty.types("\x03")

    assert (pty.ends(), pty.restored) == (130, True)
    [saved] = journal_runs(handrail)
    assert saved.standing == ("done", "interrupted")


def test_what_does_not_stop_is_left_at_the_third(chat: Chat, handrail: Handrail) -> None:
    pty = chat("stubborn", "Wait.")
    pty.sees("  This")
    for _ in range(3):
        pty.types("\x03")
        pty.sees("^C")
        pty.waits(0.2)

    assert (pty.ends(), pty.restored) == (130, True)
    assert standings(handrail) == [("done", "interrupted")]


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
    busy.sees("⠹ slow ")
    busy.signals(number)

    assert (pty.ends(), pty.restored, busy.ends(), busy.restored) == (143, True, 143, True)
    [saved] = journal_runs(handrail)
    assert (saved.standing, busy.left_over(handrail.workspace)) == (("done", "interrupted"), [])


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
    path = os.pathsep.join([str(tmp_path / "none"), os.environ.get("PYTHONPATH", "")])
    pty = chat("ScriptedModel(say)", env={"PYTHONPATH": path, "TERM": "dumb"})
    pty.answers("Hello?", after=ENTER)
    pty.sees("Hello.")
    pty.sees(ENTER)
    pty.types("\x03")

    assert (pty.ends(), pty.restored) == (130, True)
    assert "waiting for the model" not in pty.seen
