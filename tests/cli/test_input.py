"""The input of a chat at a terminal of which the test holds the other end."""

from __future__ import annotations

import json
import signal
import statistics
import time
from collections.abc import Callable, Iterator

import pytest

from cli.terminal import Pty
from cli_harness import Handrail
from cli_runs import journal_runs
from handrail.cli._input.lines import Lines

MODEL = """
import time
from pathlib import Path
import anyio
from handrail import READ, Call, Text, tool
from handrail.messages import Delta, Prompt, Reply


def edit(call_id):
    return Call("edit", {"file_path": "notes.txt", "old_string": "two", "new_string": "2"}, call_id)


@tool(effect=READ)
def prints() -> str:
    \"\"\"Print.\"\"\"
    print("by a tool \\x1b[31m")
    return "printed\\n\\x1b[31m\\n" + "more\\n" * 4


async def model(request):
    last = request.messages[-1]
    said = last.parts[-1].text if isinstance(last, Prompt) else ""
    if said.startswith("wait"):
        yield Delta("I wait. ")
        await anyio.sleep_forever()
    if said == "stream":
        for number in range(100_000):
            yield Delta(f"word{number} ")
            await anyio.sleep(0.002)
    if said == "block":
        yield Delta("I block. ")
        time.sleep(600)
    write = Call("write", {"file_path": "new.txt", "content": "x"}, "c3")
    calls = {"mark": (edit("c1"),), "both": (edit("c2"), write), "print": (Call("prints", {}, "c4"),)}
    if said in calls:
        yield Reply(calls[said], "calls")
    else:
        yield Reply((Text(f"Heard {len(said)}."),))
"""
DENIED = '[[rule]]\nid = "no"\ndecide = "deny"\naccess = ["read file:shown/.secret"]\n'
READY = "Describe a change"
Chat = Callable[..., Pty]


WORDS = ("chat", "--model", "model.py:model", "--without", "bash", "-t", "coding")


@pytest.fixture
def chat(handrail: Handrail) -> Iterator[Chat]:
    """Begins a chat with the input."""
    opened: list[Pty] = []

    def begin(*arguments: str, ahead: str = "", **env: str) -> Pty:
        handrail.write("model.py", MODEL)
        handrail.write("notes.txt", "one\ntwo\n")
        own = ["-t", "model.py:prints"]
        opened.append(Pty(handrail, *WORDS, *own, *arguments, env={"HANDRAIL_PLAIN": "", **env}))
        opened[-1].types(ahead)
        opened[-1].sees(READY if not ahead else "mode ask")
        return opened[-1]

    yield begin
    for one in opened:
        one.end()


def prompts(handrail: Handrail) -> list[str]:
    """What the model heard from the person."""
    [saved] = journal_runs(handrail)
    said = saved.state().messages
    return [one.parts[-1].text for one in said if type(one).__name__ == "Prompt"]


def test_what_is_typed_is_what_the_model_hears(chat: Chat, handrail: Handrail) -> None:
    pty = chat()
    many = "x" * 5_000
    pty.types("gr\udcfc\udcdfe \x00文件\r")
    pty.sees("Heard 8.")
    pty.types(f"\x1b[200~{many}\x1b[201~")
    pty.sees("[pasted 5,000 characters]")
    pty.types("\x1b[200~a\n" + "b\n" * 20 + "\x1b[201~")
    pty.sees("number 2")
    pty.types("\x7f\x0f!\r")  # the second is gone, the first is opened
    pty.sees("Heard 5001.")
    pty.types("\x1b[200~a\tb\x1bc\r\nd\x1b[201~\r")
    pty.sees("Heard 12.")
    pty.types("/cost\r")
    pty.sees("turns   3")
    pty.types("@../")
    pty.sees("@../")
    pty.types(" @nothing/")
    pty.sees("nothing")
    pty.types(" @no")
    pty.sees("@notes.txt")
    pty.types("\t")
    pty.sees("▸")
    pty.types("\r\r")  # the completion is taken, then the message is sent
    pty.sees("Heard 25.")
    pty.types("/nothin\t\r")
    pty.sees("unknown command")
    pty.types("\x04")

    assert (pty.ends(), pty.restored, pty.left_on) == (0, True, set())
    assert prompts(handrail) == [
        "gr\ufffd\ufffde 文件",
        f"{many}!",
        "a\tb\\u{1B}c\nd",
        "@../ @nothing/ @notes.txt",
    ]


COMMANDS = [
    ("/help", "/quit"),
    ("/model", "model model.py:model"),
    ("/mode", "mode ask"),
    ("/mode next", "mode edits"),
    ("/tools", "prints"),
    ("/cost", "turns "),
    ("/diff", "nothing has changed"),
    ("/jobs", "no jobs"),
    ("/save talk.md", "saved to talk.md"),
    ("/undo", "nothing to undo"),
    ("/compact", "are now sent as a summary"),
    ("/clear", "resume this chat with"),
    ("/nothing", "unknown command"),
]


def test_every_command_and_the_keys_beside_them(chat: Chat) -> None:
    pty = chat()
    for word in ("hello", "hello again"):
        pty.types(f"{word}\r")
        pty.sees(f"Heard {len(word)}.")
    for command, said in COMMANDS:
        pty.types(f"{command}\r")
        pty.sees(said)
    pty.types("/sav")
    pty.sees("write the transcript")
    pty.types("\x1b")  # closes the list, and keeps the text
    pty.resizes(100, 30)
    pty.signals(signal.SIGWINCH)
    pty.sees("─" * 99)
    pty.types("\x0c")
    pty.sees("/sav")
    pty.types("e again.md\r")
    pty.sees("saved to again.md")
    pty.types("/quit\r")

    assert (pty.ends(), pty.restored, pty.left_on) == (0, True, set())


def test_denied_and_hidden_files_are_not_offered(chat: Chat, handrail: Handrail) -> None:
    handrail.write("shown/open.txt", "")
    handrail.write("shown/.hidden", "")
    handrail.write("shown/two words", "")
    handrail.write("shown/.secret", "")
    rules = handrail.config / "rules.toml"
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text(DENIED, encoding="utf-8")
    rules.chmod(0o600)
    pty = chat()
    pty.types("@shown/")
    pty.sees("@shown/open.txt")
    pty.types(".")
    menu = pty.sees(".hidden")
    pty.types("\x03\x04")

    assert pty.ends() == 0
    assert (".secret" in pty.seen, "two words" in menu) == (False, False)


def test_history_is_private_and_lasts(chat: Chat, handrail: Handrail) -> None:
    file = handrail.state / "chat_history.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    olds = [json.dumps(f"old {number}") for number in range(2_100)]
    others = [*olds[:-1], "not json", "3", olds[-1]]
    file.write_text("\n".join(others) + "\n", encoding="utf-8")
    file.chmod(0o644)
    pty = chat()
    pty.types("\x1b[A")
    pty.sees("old 2099")
    pty.types("\x1b[B")
    pty.types("two\nrows\r")
    pty.sees("Heard 8.")
    pty.types(f"\x1b[200~{'y' * 30_000}\x1b[201~\r")
    pty.sees("Heard 30000.")
    pty.types("\x04")
    pty.ends()
    kept = file.read_text(encoding="utf-8").splitlines()

    assert (file.stat().st_mode & 0o777, len(kept), kept[0], kept[-1]) == (
        0o600,
        1_001,
        json.dumps("old 1102"),
        json.dumps("two\nrows"),
    )


def test_a_history_that_leads_elsewhere_is_left_alone(chat: Chat, handrail: Handrail) -> None:
    file, other = handrail.state / "chat_history.jsonl", handrail.folder / "other"
    file.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("", encoding="utf-8")
    file.symlink_to(other)
    pty = chat(HANDRAIL_THEME="light")
    pty.types("hello\r")
    pty.sees("Heard 5.")
    pty.types("\x04")

    assert (pty.ends(), other.read_text(encoding="utf-8")) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("state", ["idle", "works", "asks"])
def test_a_signal_ends_it_and_the_terminal_is_as_before(
    chat: Chat, state: str, number: int
) -> None:
    pty = chat()
    says = {"idle": ("half", "half"), "works": ("wait\r", "I wait."), "asks": ("mark\r", "▸")}
    typed, seen = says[state]
    pty.types(typed)
    pty.sees(seen)
    before = pty.restored
    pty.signals(number)

    assert (pty.ends(), pty.restored, pty.left_on) == (143, True, set())
    assert not before
    assert "Traceback" not in pty.seen


def test_ctrl_c_stops_a_turn_then_the_chat_then_the_process(chat: Chat) -> None:
    pty = chat()
    pty.types("wait\r")
    pty.sees("I wait.")
    pty.types("\x03")
    pty.sees("stopped;")
    pty.types("wait more\r")
    pty.sees("I wait.")
    pty.signals(signal.SIGINT)
    pty.sees("stopped;")
    pty.types("mark\r")
    pty.sees("▸")
    pty.types("\x03")  # a signal, as the question has the terminal
    pty.sees("stopped;")
    pty.types("wa")
    pty.sees("wa")
    pty.signals(signal.SIGINT)  # drops the text
    pty.sees("escribe")
    stuck = chat()
    stuck.types("block\r")
    stuck.sees("I block.")
    stuck.types("\x03\x03\x03")
    pty.signals(signal.SIGINT)

    assert (pty.ends(), pty.restored, pty.left_on) == (130, True, set())
    assert (stuck.ends(), stuck.restored, stuck.left_on) == (130, True, set())


def test_ctrl_d_ends_a_chat_that_works(chat: Chat) -> None:
    pty = chat(NO_COLOR="1")
    pty.types("\r")  # there is nothing to continue
    pty.types("wait\r")
    pty.sees("I wait.")
    pty.types("\r\x04")  # an empty message is not queued

    assert (pty.ends(), pty.restored, pty.left_on) == (0, True, set())


def test_two_questions_have_the_terminal_one_after_the_other(
    chat: Chat, handrail: Handrail
) -> None:
    pty = chat()
    pty.types("both\r")
    first = pty.sees("▸")
    pty.types("y")
    pty.sees("Edit notes.txt" if "Write new.txt" in first else "Write new.txt")
    pty.sees("▸")
    pty.types("y")
    pty.sees("Heard 0.")
    pty.types("print\r")
    pty.sees("by a tool \\u{1B}[31m")
    pty.sees("Heard 0.")
    pty.types("\x04")

    assert (pty.ends(), pty.restored, pty.left_on) == (0, True, set())
    assert (handrail.workspace / "notes.txt").read_text(encoding="utf-8") == "one\n2\n"


def test_an_editor_that_fails_changes_nothing(chat: Chat, handrail: Handrail) -> None:
    for editor in ("", "'", "false", "/nowhere/editor"):
        pty = chat(EDITOR=editor)
        pty.types("kept")
        pty.sees("kept")
        pty.types("\x07")
        if editor not in ("", "'"):
            pty.sees("\x1b[?2004h")  # the terminal is the input's again
        pty.types(" so\x0c\x1a\r")
        pty.sees("Heard 7.")
        pty.types("\x04")
        assert (pty.ends(), pty.restored, pty.left_on) == (0, True, set())
    [*_, saved] = journal_runs(handrail)
    assert saved.state().messages[0].parts[-1].text == "kept so"


def test_a_pager_shows_the_last_result_in_full(chat: Chat, handrail: Handrail) -> None:
    pager = handrail.write("pager", '#!/bin/sh\ncp "$1" shown.txt\n')
    pager.chmod(0o700)
    pty = chat(PAGER=str(pager))
    pty.types("\x0fprint\r")  # no call has ended yet
    pty.sees("lines   Ctrl+O shows all")
    pty.sees("Heard 0.")
    pty.sees("Describe a change")  # the turn has ended
    pty.types("\x0f")
    pty.sees("Describe a change")  # the terminal is the input's again
    pty.types("print\r")
    rest = pty.sees("Heard 0.")
    pty.types("\x04")

    assert (pty.ends(), pty.restored, pty.left_on) == (0, True, set())
    shown = (handrail.workspace / "shown.txt").read_text(encoding="utf-8")
    assert shown == "printed\n\\u{1B}[31m\nmore\nmore\nmore\nmore"
    assert ("lines" in rest, "Ctrl+O" in rest) == (True, False)


def frames_before(seen: str, key: str) -> int:
    """How many frames came before a key was shown."""
    return seen[: seen.index(key)].count("\x1b[?2026h")


def test_a_key_is_shown_while_a_reply_streams_in(chat: Chat) -> None:
    """Nothing runs while the key is typed. On a busy machine, a few frames may come first."""
    pty = chat()
    pty.types("stream\r")
    pty.sees("word20")
    pty.signals(signal.SIGSTOP)
    while pty.waits(0.3):
        pass
    mark = len(pty.seen)
    pty.types("Z")
    pty.signals(signal.SIGCONT)
    pty.sees("Z")
    pty.sees("\x1b[?2026h")
    shown = frames_before(pty.seen[mark:], "Z")
    late = "\x1b[?2026hword\x1b[?2026l" * 11 + "Z"
    pty.types("\x03")
    pty.sees("stopped;")
    pty.types("\x7f\x04")

    assert pty.ends() == 0
    assert shown <= 10 < frames_before(late, "Z")


def test_news_are_drawn_twenty_times_a_second_at_most(chat: Chat) -> None:
    """Five hundred fragments come in a second."""
    pty = chat()
    began = time.monotonic()
    pty.types("stream\r")
    pty.sees("word20")
    mark = len(pty.seen)
    pty.sees("word600")
    seconds = time.monotonic() - began
    frames = pty.seen[mark:].count("\x1b[?2026h")
    pty.types("\x03")
    pty.sees("stopped;")
    pty.types("\x04")

    assert pty.ends() == 0
    assert frames <= 20 * seconds + 1


def test_a_terminal_that_goes_away_ends_it(chat: Chat, handrail: Handrail) -> None:
    pty = chat()
    pty.types("hello\r")
    pty.sees("Heard 5.")
    pty.hangs_up()

    assert pty.ends() in {0, 143}
    assert len(journal_runs(handrail)) == 1


MUTED = {"light": "\x1b[38;2;91;100;112m", "dark": "\x1b[38;2;141;150;160m", "ansi": "\x1b[2m"}
"""A role in the three sets of colors."""
ANSWERS = {
    "light": "\x1b]11;rgb:ffff/ffff/eded\x1b\\\x1b[?62;22c",
    "dark": "\x1b]11;rgba:1e/1e/2e/ff\x07\x1b[?62c",
    "ansi": "\x1b]11;no color\x07\x1b[?6c",
}


@pytest.mark.parametrize("ground", ANSWERS)
def test_the_terminal_names_its_ground_and_keys_around_the_answer_are_kept(
    chat: Chat, handrail: Handrail, ground: str
) -> None:
    pty = chat(ahead=f"be{ANSWERS[ground]}fore", COLORTERM="truecolor")
    headline = pty.seen[pty.seen.rindex("\x1b[?2026h", 0, pty.seen.index("mode ask")) :]
    pty.types(" \x1b[?62;c and after\r")  # no longer an answer
    pty.sees("Heard")
    pty.types("\x04")

    assert (pty.ends(), pty.restored, pty.left_on) == (0, True, set())
    assert "\x1b]11;?" in pty.seen
    assert MUTED[ground] in headline
    [said] = prompts(handrail)
    assert said.startswith("before ")
    assert said.endswith(" and after")


def test_an_answer_that_comes_late_and_in_pieces_is_no_text(chat: Chat, handrail: Handrail) -> None:
    pty = chat(COLORTERM="truecolor")
    for piece in ("on\x1b]11;rgb:ff", "ff/ffff/ffff\x1b", "\\e\x1b[?62", ";22c"):
        pty.types(piece)
        pty.waits(0.2)
    pty.types("!\r")
    pty.sees("Heard 4.")
    pty.types("\x04")

    assert (pty.ends(), prompts(handrail)) == (0, ["one!"])


@pytest.mark.parametrize(("ahead", "heard"), [("early\r", 5), ("two\rlines\r", 9)])
def test_a_line_that_was_typed_ahead_is_sent_and_several_are_kept(
    chat: Chat, ahead: str, heard: int
) -> None:
    pty = chat(ahead=ahead)
    if heard > 5:  # a paste, perhaps: the person sends it
        pty.types("\x7f\r")
    pty.sees(f"Heard {heard}.")
    pty.types("\x04")

    assert (pty.ends(), pty.restored, pty.left_on) == (0, True, set())


def test_shift_tab_goes_through_the_modes_and_keeps_what_was_typed(
    chat: Chat, handrail: Handrail
) -> None:
    pty = chat()
    pty.types("kept")
    for mode in ("edits", "plan", "ask"):
        pty.types("\x1b[Z")
        pty.sees(mode)
    pty.types("\r")
    pty.sees("Heard 4.")
    assert "/mode" not in pty.seen  # one word of the last row changes, and nothing is printed
    pty.types("\x04")

    assert (pty.ends(), prompts(handrail)) == (0, ["kept"])


@pytest.mark.soak
def test_keys_are_shown_soon_while_a_reply_streams_in(chat: Chat) -> None:
    """Half of the keys within a tenth of a second, which feels like at once."""
    pty = chat()
    pty.types("stream\r")
    pty.sees("word20")
    took: list[float] = []
    for key in "QWTYUOPVXZN":  # none of them is on the screen, or part of an escape sequence
        began = time.monotonic()
        pty.types(key)
        pty.sees(key)
        took.append(time.monotonic() - began)
    pty.types("\x03")
    pty.sees("stopped;")
    pty.types("\x03\x04")

    assert pty.ends() == 0
    assert statistics.median(took) < 0.1, sorted(took)


def test_the_input_hears_when_the_chat_waits_for_a_message() -> None:
    """A frame that was begun before the end of a turn would stay on the screen otherwise."""
    lines, heard = Lines(), list[bool]()
    lines.on_reading = lambda: heard.append(lines.reading)
    lines.send("one")

    assert (lines.line(), heard, lines.reading) == ("one", [True], False)


def test_a_terminal_whose_ground_is_set_is_not_asked(chat: Chat) -> None:
    pty = chat(HANDRAIL_THEME="dark")
    pty.types("\x04")

    assert (pty.ends(), "\x1b]11;?" in pty.seen) == (0, False)
