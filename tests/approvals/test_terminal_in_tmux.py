"""The terminal approver in a real terminal: what is on the screen, and what keys do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

SESSION = Path(__file__).parent / "terminal_session.py"
PATIENCE = 30.0
"""Seconds after which something that should be on the screen never will be."""


class Tmux:
    """One terminal of its own, at a socket of its own."""

    def __init__(self, folder: Path, *, width: int) -> None:
        found = shutil.which("tmux")
        assert found is not None, "these tests need tmux: install it"
        self._socket = f"handrail-test-{os.getpid()}-{width}"
        self._tmux = [found, "-L", self._socket, "-f", "/dev/null"]
        self._folder = folder
        self._width = width

    def run(self, name: str, args: dict[str, Any] | str, **options: Any) -> None:
        """Start the small agent with one call."""
        session = {"name": name, "args": args, "remembers": False} | options
        (self._folder / "session.json").write_text(json.dumps(session), encoding="utf-8")
        size = ["-x", str(self._width), "-y", "40", "-c", str(self._folder)]
        agent = [sys.executable, str(SESSION), "session.json"]
        self._do("new-session", "-d", *size, *agent, ";", "set", "remain-on-exit", "on")

    def types(self, text: str, *, enter: bool = True) -> None:
        if text:
            self._do("send-keys", "-l", text)
        if enter:
            self._do("send-keys", "Enter")

    def interrupts(self) -> None:
        self._do("send-keys", "C-c")

    def shows(self, words: str, *, times: int = 1) -> list[str]:
        """The screen, once these words are on it so often."""
        until = time.monotonic() + PATIENCE
        while (screen := self._do("capture-pane", "-p")).count(words) < times:
            assert time.monotonic() < until, f"{words!r} never came:\n{screen}"
            time.sleep(0.02)  # each look is a process of its own
        return screen.rstrip("\n").split("\n")

    def ends(self) -> None:
        """Wait until the program has."""
        until = time.monotonic() + PATIENCE
        while self._do("display-message", "-p", "#{pane_dead}") != "1\n":
            assert time.monotonic() < until, "the program did not end"
            time.sleep(0.02)

    def end(self) -> None:
        self._do("kill-server")
        (Path("/tmp") / f"tmux-{os.getuid()}" / self._socket).unlink(missing_ok=True)  # noqa: S108

    def _do(self, *command: str) -> str:
        done = subprocess.run(  # noqa: S603
            [*self._tmux, *command],
            check=True,
            capture_output=True,
            encoding="utf-8",
            env={
                "PATH": os.environ["PATH"],
                "LC_ALL": "C.UTF-8",
                "TERM": "xterm",
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            },
        )
        return done.stdout


Open = Callable[[int], Tmux]


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Open]:
    opened: list[Tmux] = []

    def start(width: int) -> Tmux:
        opened.append(Tmux(tmp_path, width=width))
        return opened[-1]

    yield start
    for one in opened:
        one.end()


NOTES = {"path": "notes.txt", "content": "one\ntwo!\nthree\n"}


def test_a_write_is_shown_as_a_diff_and_y_runs_it(tmux: Open, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    pane = tmux(80)
    pane.run("write", NOTES)
    pane.shows("▸")
    pane.types("y", enter=False)

    assert pane.shows("-- end --") == snapshot(
        [
            "",
            "┃ Call write?                                                             +1 -1",
            "┃",
            "┃ notes.txt",
            "┃  1   one",
            "┃  2 - two",
            "┃  2 + two!",
            "┃  3   three",
            "┃",
            "┃   Run write? Asked by ask on change (handrail.toml:2).",
            "┃   y yes",
            "model reads: wrote 15 characters to notes.txt",
            "-- end --",
        ]
    )
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == NOTES["content"]


def test_what_may_destroy_runs_after_the_whole_word_only(tmux: Open, tmp_path: Path) -> None:
    for name in ("a.x", "b.x"):
        (tmp_path / name).touch()
    pane = tmux(120)
    pane.run("shell", {"command": "rm -rf *.x *.y"})
    pane.shows("Type yes to run")
    pane.types("")
    pane.shows("Type yes to run", times=2)
    pane.types("y")
    pane.shows("Type yes to run", times=3)
    pane.types("yes")

    assert pane.shows("-- end --") == snapshot(
        [
            "",
            "║ Call shell?                                                                    !! cannot be undone",
            "║",
            "║   rm -rf *.x *.y",
            "║   *.x matches 2 names: a.x, b.x",
            "║   *.y matches nothing",
            "║",
            "║   Run shell? Asked by ask on change (handrail.toml:2).",
            "║ Type yes to run it.  n no  ? more  >",
            "║ Unknown answer. Type one of the keys above, then Enter.",
            "║ Type yes to run it.  n no  ? more  > y",
            "║ Type yes in full: this can lose something for good.",
            "║ Type yes to run it.  n no  ? more  > yes",
            "model reads: ran rm -rf *.x *.y",
            "-- end --",
        ]
    )


def test_no_gives_the_model_the_words_of_the_user(tmux: Open, tmp_path: Path) -> None:
    pane = tmux(80)
    pane.run("write", NOTES)
    pane.shows("▸")
    pane.types("n", enter=False)
    pane.shows("What should the model")
    pane.types("Keep it short, grüße.")

    assert pane.shows("-- end --") == snapshot(
        [
            "",
            "┃ Call write?                                                             +3 -0",
            "┃",
            "┃ notes.txt is a new file",
            "┃  1 + one",
            "┃  2 + two!",
            "┃  3 + three",
            "┃",
            "┃   Run write? Asked by ask on change (handrail.toml:2).",
            "┃   n no",
            "┃ What should the model do instead? (Enter: say nothing) Keep it short, grüße.",
            "model reads: Not run: the user denied this call. Do not work around this. Their",
            "message: Keep it short, grüße.",
            "-- end --",
        ]
    )
    assert not (tmp_path / "notes.txt").exists()


def test_edited_arguments_are_asked_for_again_and_run(tmux: Open, tmp_path: Path) -> None:
    pane = tmux(80)
    pane.run("write", {"path": "notes.txt", "content": "draft"})
    pane.shows("▸")
    pane.types("e", enter=False)
    pane.shows("new arguments")
    pane.types('{"path": "notes.txt", "content": "final"}')
    pane.shows("▸")
    pane.types("y", enter=False)

    assert pane.shows("-- end --") == snapshot(
        [
            "",
            "┃ Call write?                                                             +1 -0",
            "┃",
            "┃ notes.txt is a new file",
            "┃  1 + draft",
            "┃",
            "┃   Run write? Asked by ask on change (handrail.toml:2).",
            "┃   e",
            "┃ current arguments:",
            '┃ │ {"path":"notes.txt","content":"draft"}',
            '┃ new arguments as JSON, on one line (Enter to go back): {"path": "notes.txt", "',
            'content": "final"}',
            "",
            "┃ Call write?                                                             +1 -0",
            "┃",
            "┃ notes.txt is a new file",
            "┃  1 + final",
            "┃",
            "┃   Edited, so it needs approval again. Run write? Asked by ask on change",
            "┃ ┊ (handrail.toml:2).",
            "┃   y yes",
            "model reads: wrote 5 characters to notes.txt",
            '[Note: a person changed the arguments: content="final".]',
            "-- end --",
        ]
    )
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "final"


def test_arguments_on_several_lines_are_edited_as_one_line(tmux: Open, tmp_path: Path) -> None:
    pane = tmux(80)
    pane.run("write", '{\n  "path": "notes.txt",\n  "content": "a draft\\n\\u200b"\n}')
    pane.shows("▸")
    pane.types("e", enter=False)
    line = pane.shows("new arguments")[-2]
    pane.types(line.removeprefix("┃ │ ").replace("draft", "note"))
    pane.shows("▸")
    pane.types("y", enter=False)
    pane.shows("-- end --")

    assert line == r'┃ │ {"path":"notes.txt","content":"a draft\n\u200b"}'
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "a note\n\u200b"


HOSTILE = f"curl p\u0430ypal.com\u200b{' ' * 60}; \x1b[2K\x1b[1A rm \u202e-rf ~\nls 文件 😀"


@pytest.mark.parametrize(
    ("width", "screen"),
    [
        (
            80,
            snapshot(
                [
                    "",
                    "║ Call shell?                                               !! cannot be undone",
                    "║",
                    "║   curl p\\u{430}ypal.com\\u{200B}[… 60 spaces …]; \\u{1B}[2K\\u{1B}[1A rm",
                    "║ ┊ \\u{202E}-rf ~",
                    "║   ls 文件 😀",
                    "║",
                    "║   4 invisible characters are shown as \\u{...}",
                    "║   words with mixed scripts or look-alike letters: p\\u{430}ypal",
                    "║   Run shell? Asked by ask on change (handrail.toml:2).",
                    "║ Type yes to run it.  n no  ? more  >",
                ]
            ),
        ),
        (
            120,
            snapshot(
                [
                    "",
                    "║ Call shell?                                                                    !! cannot be undone",
                    "║",
                    "║   curl p\\u{430}ypal.com\\u{200B}[… 60 spaces …]; \\u{1B}[2K\\u{1B}[1A rm \\u{202E}-rf ~",
                    "║   ls 文件 😀",
                    "║",
                    "║   4 invisible characters are shown as \\u{...}",
                    "║   words with mixed scripts or look-alike letters: p\\u{430}ypal",
                    "║   Run shell? Asked by ask on change (handrail.toml:2).",
                    "║ Type yes to run it.  n no  ? more  >",
                ]
            ),
        ),
    ],
)
def test_hidden_characters_and_mixed_scripts_are_written_out(
    tmux: Open, width: int, screen: list[str]
) -> None:
    pane = tmux(width)
    pane.run("shell", {"command": HOSTILE})
    shown = pane.shows("Type yes to")
    pane.types("n")
    pane.shows("What should the model")
    pane.types("")
    pane.shows("-- end --")

    assert shown == screen


def test_a_long_line_cannot_write_a_line_of_its_own(tmux: Open) -> None:
    """What a terminal would break goes on after a margin, wide characters included."""
    pane = tmux(80)
    fake = "┃-y-yes"
    pane.run("shell", {"command": "x" * 69 + fake + "文" * 38 + fake})
    shown = pane.shows("Type yes to")
    pane.types("l")

    assert [line for line in shown if line.startswith("┃")] == []
    assert [line[:4] for line in shown if "文" in line] == ["║ ┊ ", "║ ┊ "]


def test_what_was_typed_ahead_does_not_answer(tmux: Open, tmp_path: Path) -> None:
    """Vector approval-019."""
    pane = tmux(80)
    pane.run("write", NOTES, waits=True)
    pane.shows("waiting for the file go")
    pane.types("y")
    pane.types("y", enter=False)
    pane.shows("y\ny")
    (tmp_path / "go").touch()
    pane.shows("press one key")
    assert not (tmp_path / "notes.txt").exists()
    pane.types("n", enter=False)
    pane.shows("What should the model")
    pane.types("")

    assert pane.shows("-- end --") == snapshot(
        [
            "waiting for the file go",
            "y",
            "y",
            "┃ Call write?                                                             +3 -0",
            "┃",
            "┃ notes.txt is a new file",
            "┃  1 + one",
            "┃  2 + two!",
            "┃  3 + three",
            "┃",
            "┃   Run write? Asked by ask on change (handrail.toml:2).",
            "┃   n no",
            "┃ What should the model do instead? (Enter: say nothing)",
            "model reads: Not run: the user denied this call. Do not work around this. Contin",
            "ue without it, or tell the user.",
            "-- end --",
        ]
    )
    assert not (tmp_path / "notes.txt").exists()


def test_an_interrupt_ends_the_program_at_a_question(tmux: Open, tmp_path: Path) -> None:
    pane = tmux(80)
    pane.run("write", NOTES)
    pane.shows("▸")
    pane.interrupts()

    pane.ends()
    pane.shows("KeyboardInterrupt")

    assert not (tmp_path / "notes.txt").exists()


def test_a_rule_is_shown_and_stored_after_a_second_yes(tmux: Open) -> None:
    pane = tmux(80)
    pane.run("write", {"path": "notes.txt", "content": "x"}, remembers=True)
    pane.shows("▸")
    pane.types("a", enter=False)
    pane.shows("remember for")
    pane.types("p")
    pane.shows("store it? y/n:")
    pane.types("y")

    assert pane.shows("-- end --") == snapshot(
        [
            "",
            "┃ Call write?                                                             +1 -0",
            "┃",
            "┃ notes.txt is a new file",
            "┃  1 + x",
            "┃",
            "┃   Run write? Asked by ask on change (handrail.toml:2).",
            "┃   a always, as a rule",
            "┃   p  this project",
            "┃ remember for (Enter to go back): p",
            "┃ rule: write file:notes.txt",
            "┃ scope: this project",
            "┃ file: handrail.toml",
            "┃ This approves the call and stores the rule.",
            "┃ store it? y/n: y",
            "model reads: wrote 1 characters to notes.txt",
            "stored: write file:notes.txt in handrail.toml",
            "-- end --",
        ]
    )
