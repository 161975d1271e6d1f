"""A run as sentences, for screen readers and logs."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from handrail import Call, FailureKind, Image, Result, Text
from handrail.agent import InnerEvent, RunState
from handrail.cli._chat.changes import FileContents, diff_rows, run_changes, word_rows
from handrail.cli._chat.plain import PlainWatcher
from handrail.cli._runs.transcript import write_transcript
from handrail.cli._screen.rows import Span, plain
from handrail.cli._screen.terminal import Screen
from handrail.cli._screen.theme import Ground, Theme
from handrail.events import Finished, Lost, Requested, Started, Waiting, Yielded
from handrail.messages import Delta, Prompt, Reply, Restart, ToolResults, TruncatedCall, Usage
from handrail.testing import ScriptedModel
from handrail.tools import UndoEntry, Workspace


class Plain:
    """A watcher with a clock, and what it has printed."""

    def __init__(self) -> None:
        self.now = 100.0
        self._file = io.StringIO()
        screen = Screen(self._file, theme=Theme(), live=False)
        self.watcher = PlainWatcher(screen, lambda name: CHANGES.get(name, []), lambda: self.now)
        self.watcher.model = ScriptedModel("")
        self.watcher.begin()

    def said(self) -> list[str]:
        """What was printed since the last time."""
        text = self._file.getvalue()
        self._file.seek(0)
        self._file.truncate()
        return text.splitlines()


CHANGES = {"e": [FileContents("a.txt", b"one\n", b"two\n")]}


def test_text_and_calls_are_sentences() -> None:
    shown = Plain()
    watcher = shown.watcher
    watcher.on_run_event(Delta("I think", thought=True))
    watcher.on_run_event(Delta("I look.\nAt "))
    first = shown.said()
    watcher.on_run_event(Delta("it.\x1b"))
    call = Call("read", {"file_path": "a.txt"}, "r")
    watcher.on_run_event(Reply((Text("I look.\nAt it."), call), usage=Usage(input_tokens=9)))
    watcher.on_event(Requested(100.0, call))
    watcher.on_event(Finished(101.0, Result("r", "one\ntwo")))
    watcher.on_run_event(ToolResults((Result("r", "one\ntwo"),)))
    watcher.on_event(Requested(100.0, call))

    assert first == ["Model: I look."]
    assert shown.said() == ["  At it.\\u{1B}", "Call 1: Read a.txt. Done, 2 lines."]
    assert watcher.status(80) == ()
    assert watcher.meter.sentence == "Used: 9 tokens."


def test_how_calls_end_is_said() -> None:
    shown = Plain()
    results = [
        Result("e", "edited"),
        Result.fail("d", FailureKind.DENIED, "No."),
        Result.fail("p", FailureKind.PENDING, "Wait."),
        Result.fail("f", FailureKind.BUG, "Broken."),
        Result("b", "a\nb\nc\nd\n[exit code 2, 12.0 s]"),
    ]
    for result in results:
        name = "bash" if result.call_id == "b" else "go"
        shown.watcher.on_event(Requested(1.0, Call(name, {"command": "make"}, result.call_id)))
    shown.watcher.on_run_event(ToolResults(tuple(results)))

    assert shown.said() == [
        "Call 1: go make. Done, 1 line.",
        "  | removed 1: one",
        "  | added 1: two",
        "Call 2: go make. Denied, denied.",
        "  | No.",
        "Call 3: go make. Waits for approval.",
        "Call 4: go make. Failed, bug.",
        "  | Broken.",
        "Call 5: Run make. Failed, exit 2, 12 seconds.",
        "  | 2 lines above",
        "  | c",
        "  | d",
    ]


def test_what_takes_long_or_waits_is_said_once_in_a_while() -> None:
    shown = Plain()
    watcher = shown.watcher
    for number in ("1", "2"):
        watcher.on_event(Requested(100.0, Call("go", {"n": number}, number)))
    watcher.on_event(Waiting(100.0, "2", ("1",), what="file:a"))
    watcher.on_event(Waiting(100.0, "gone", ("1",)))
    watcher.on_event(Started(100.0, "1", 1))
    watcher.on_event(Started(100.0, "gone", 1))
    watcher.on_event(Yielded(100.0, "1", "a piece"))
    watcher.on_event(Lost(3))
    for now in (100.5, 101.0, 102.0, 131.0, 161.0, 900.0, 901.0, 902.0, 903.0):
        shown.now = now
        watcher.tick()
    watcher.on_event(Finished(903.0, Result("1", "done")))

    assert shown.said() == [
        "Call 2: go 2. It waits for call 1: file:a.",
        "Call 1: go 1. Running.",
        "Call 1: still running, 30 seconds.",
        "Call 1: still running, 1 minute.",
        "Call 1: still running, 2 minutes.",
        "Call 1: still running, 5 minutes.",
        "Call 1: still running, 10 minutes.",
        "Call 1: Done, 1 line, 13 minutes 23 seconds.",
        "  | done",
    ]


def test_without_a_model_nothing_is_counted() -> None:
    shown = Plain()
    shown.watcher.model = None
    shown.watcher.on_run_event(Reply((Text("Hello."),), usage=Usage(input_tokens=9)))

    assert (shown.said(), shown.watcher.meter.is_known) == (["Model: Hello."], False)


def test_what_cannot_be_compared_is_named(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    folder: Any = SimpleNamespace(kind="folder", content="")
    changes: Any = (("new", None, None), ("new", folder, None), ("made", folder, None))
    (tmp_path / "new").write_text("x", encoding="utf-8")
    entry = UndoEntry(1, "c", 0.0, (*changes, ("gone", None, None)))

    found, unknown = run_changes(workspace, [entry])
    assert (found, unknown) == ([FileContents("new", None, b"x")], ["made"])


def test_the_plan_is_said_at_the_end() -> None:
    shown = Plain()
    watcher = shown.watcher
    todos = [{"content": "Look\nup", "status": "completed"}, {"content": "x", "status": "pending"}]
    watcher.on_event(Requested(100.0, Call("todo", {"todos": todos}, "t")))
    watcher.on_event(Finished(100.0, Result("t", "kept")))
    watcher.on_run_event(Reply((Text("Long " * 20),)))
    watcher.end()
    watcher.end()

    assert shown.said() == [
        "Call 1: Plan. Done, 1 line.",
        "Model: " + " ".join(["Long"] * 14),
        "  " + " ".join(["Long"] * 6),
        "Plan: 1 of 2 done.",
        "  done: Look up",
        "  to do: x",
    ]


def test_a_large_or_deleted_file_is_a_change_too() -> None:
    large = FileContents("a\x1b", b"x" * 99_999, b"xy")

    assert list(word_rows([large])) == ["a\\u{1B} changed: 99,999 to 2 characters"]
    assert list(word_rows([FileContents("a", b"1\n2\n", b"2\n")])) == ["removed 1: 1"]
    assert [plain(row) for row in diff_rows(FileContents("a", b"x\n", b"x"), 80)] == [
        "  │ 1   x",
        "  │ 2 -",
    ]


def test_a_transcript_has_everything_and_no_fence_ends_it_early() -> None:
    state = RunState(
        (
            Prompt((Text("Look."), Image(b"x", "image/png"))),
            Reply((Text(" "), Call("go", '{"a": 1}', "c1"), TruncatedCall("go", "c2", '{"a'))),
            ToolResults((Result("c1", "````\ntext"), Result.fail("c2", FailureKind.BUG, "No."))),
        )
    )

    assert write_transcript("ID", {"workspace": "/w", "began": "now"}, state) == (
        "# Run ID\n\n- Folder: /w\n- Began: now\n\n## You\n\nLook.\n\n(a file)\n\n## Model\n\n"
        '### Call `c1`: go\n\n```json\n{"a": 1}\n```\n\n### Call `c2`: go\n\n```json\n{"a\n```\n\n'
        "### Result of `c1`\n\n`````text\n````\ntext\n`````\n\n"
        "### Result of `c2` (bug)\n\n```text\nNo.\n```\n"
    )


def test_a_changed_row_is_filled_where_it_has_a_ground() -> None:
    row = (Span("a", "added"), Span("  ", "added.fill"))
    grounds: tuple[Ground, ...] = ("none", "ansi", "dark")

    assert [Theme(ground, deep=True).paint(row) for ground in grounds] == [
        "a",
        "a",
        "\x1b[48;2;11;59;69ma\x1b[0m\x1b[48;2;11;59;69m  \x1b[0m",
    ]


def test_the_colors_of_a_question_are_known_for_known_grounds_only() -> None:
    assert Theme("ansi").question_styles() == {}
    assert Theme("light").question_styles()["handrail.added"] == "on #d3f3f5"
    assert Theme("dark").question_styles()["handrail.muted"] == "not dim not bold #8d96a0"


def test_a_sub_agent_counts_and_several_files_have_their_names() -> None:
    shown = Plain()
    watcher = shown.watcher
    inner = Call("read", {"file_path": "a.py"}, "1")
    watcher.on_event(Requested(100, inner, turn="run%2F1%2Ft/1"))
    watcher.on_run_event(InnerEvent("t", Reply((inner,), usage=Usage(input_tokens=7))))
    watcher.on_run_event(InnerEvent("t", Delta("text")))
    watcher.model = None
    watcher.on_run_event(InnerEvent("t", Reply((inner,), usage=Usage(input_tokens=7))))
    watcher.on_run_event(Restart("cut"))
    files = [FileContents("a", None, b"1\n"), FileContents("b\x1b", b"1\n", None)]

    assert (watcher.count, watcher.meter.sentence) == (0, "Used: 7 tokens.")
    assert shown.said() == ["The reply was cut off, and starts again."]
    assert list(word_rows(files)) == ["a", "added 1: 1", "b\\u{1B}", "removed 1: 1"]
