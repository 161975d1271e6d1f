"""A chat's terminal: rows that stay, rows that change, what a turn shows, and a keyboard."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from inline_snapshot import snapshot

from approvals.questions import asked
from handrail import Call, FailureKind, Result, Text
from handrail.agent import InnerEvent
from handrail.cli._base.exits import Exit
from handrail.cli._chat.changes import FileContents
from handrail.cli._chat.input import Keyboard
from handrail.cli._chat.watch import Watcher
from handrail.cli._screen.rows import Span
from handrail.cli._screen.terminal import Printed, Screen
from handrail.cli._screen.theme import Theme
from handrail.events import (
    Answered,
    Asked,
    AttemptFailed,
    Decided,
    Finished,
    Lost,
    Progressed,
    Requested,
    Started,
    Waiting,
    Yielded,
)
from handrail.messages import Delta, Reasoning, Reply, ToolResults, TruncatedCall, Usage
from handrail.permissions import Allow
from handrail.testing import ScriptedModel

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"


def screen(*, live: bool = False) -> tuple[Screen, io.StringIO]:
    file = io.StringIO()
    return Screen(file, theme=Theme(), live=live), file


def row(text: str) -> tuple[Span, ...]:
    return (Span(text),)


def test_rows_that_change_go_when_something_is_printed() -> None:
    shown, file = screen(live=True)
    shown.paint((), [row("one")])
    shown.paint((), [row("one")])
    shown.paint([row("stays")], [row("two"), row("three")])
    shown.say("x")
    shown.paint((), ())

    assert file.getvalue() == (
        f"{BEGIN}one{END}{BEGIN}\r\x1b[Jstays\ntwo\nthree{END}{BEGIN}\r\x1b[1A\x1b[Jx\n{END}"
    )


def test_at_most_a_third_of_the_terminal_changes() -> None:
    shown, file = screen(live=True)
    shown.paint((), [row(str(number)) for number in range(20)])

    last = "\n".join(map(str, range(12, 20)))
    assert (file.getvalue(), shown.width, shown.live_rows) == (f"{BEGIN}{last}{END}", 79, 8)


def test_a_narrower_terminal_has_broken_the_rows_that_change() -> None:
    sizes = [(80, 24)]

    class Resized(Screen):
        def size(self) -> tuple[int, int]:
            return sizes[-1]

    file = io.StringIO()
    shown = Resized(file, theme=Theme(), live=True)
    for size in [(80, 24), (30, 24), (80, 24)]:
        sizes.append(size)
        shown.paint((), [row("x" * 61), row(f"at {size[0]}")])

    assert file.getvalue().split(BEGIN)[1:] == [
        f"{'x' * 61}\nat 80{END}",
        f"\r\x1b[3A\x1b[J{'x' * 61}\nat 30{END}",
        f"\r\x1b[1A\x1b[J{'x' * 61}\nat 80{END}",
    ]


def test_on_a_terminal_that_only_types_no_row_changes() -> None:
    shown, file = screen()
    shown.paint([row("stays")], [row("one")])

    assert file.getvalue() == "stays\n"


def test_what_is_printed_while_somebody_else_speaks_comes_later() -> None:
    shown, file = screen(live=True)
    shown.paint((), [row("row")])
    with shown.hold():
        with shown.hold():
            shown.say("a")
        shown.paint((), [row("b")])
        shown.write("c")
        during = file.getvalue()
    shown.write("")

    cleared = f"{BEGIN}row{END}{BEGIN}\r\x1b[J{END}"
    assert (during, file.getvalue()) == (cleared, f"{cleared}a\nc")


def test_what_tools_print_is_safe_and_behind_a_margin() -> None:
    shown, file = screen()
    printed = Printed(shown)

    assert (printed.write("a\x1b[2J b\nerr"), printed.fileno()) == (11, 1)
    printed.write("or \r x\n")
    assert file.getvalue() == "  a\\u{1B}[2J b\n  error \\u{D} x\n"


def test_a_terminal_that_is_gone_is_no_error() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w", encoding="utf-8") as file:
        shown = Screen(file, theme=Theme(), live=False)
        shown.say("x")
        shown.say("y")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watched(clock: Clock, *, live: bool = False) -> tuple[Watcher, io.StringIO]:
    shown, file = screen(live=live)
    watcher = Watcher(shown, lambda name: DIFFS.get(name, []), clock)
    watcher.begin()
    return watcher, file


def squeezed(text: str) -> list[str]:
    """Rows with single blanks, since what is at the right end is aligned."""
    return [" ".join(line.split()) for line in text.split("\n")]


A, B = Call("a", {"x": 1}, "1"), Call("b", {}, "2")
DONE = Result("1", "done")
DIFFS = {
    "9": [FileContents("a", b"", b"new\n")],
    "p": [FileContents("a", b"old\n", None), FileContents("b\x1b", b"", b"1\n2\n3\n4\n5\n6\n7\n")],
}


def test_a_turn_is_shown_from_the_words_to_the_results() -> None:
    watcher, file = watched(Clock())
    watcher.on_run_event(Delta("I look"))
    watcher.on_run_event(Delta("deep thoughts", thought=True))
    watcher.on_event(Requested(100, A))
    watcher.on_event(Started(100, "1", 1))
    watcher.on_event(Finished(103, DONE))
    watcher.on_run_event(Reply((A, B)))
    watcher.on_run_event(ToolResults((DONE, Result("2", "two\nrows"))))
    watcher.end()

    assert file.getvalue() == snapshot("""\
  I look

✓ a 1                                                        1 line · 3.0 s  #1
  │ done
✓ b                                                                 2 lines  #2
  │ two
  │ rows
""")


def test_a_truncated_call_is_shown_with_its_result() -> None:
    watcher, file = watched(Clock())
    watcher.on_run_event(
        Reply((Text("Now."), Reasoning("x"), TruncatedCall("a", "1", '{"pa')), "length")
    )
    watcher.on_run_event(ToolResults((Result.fail("1", FailureKind.BAD_ARGS, "Not run: cut."),)))
    watcher.end()

    assert file.getvalue() == snapshot("""\
  Now.

✗ a                                                                bad args  #1
  │ Not run: cut.
""")


def test_a_reply_that_does_not_come_in_pieces_is_shown_as_a_whole() -> None:
    watcher, file = watched(Clock())
    watcher.on_run_event(Delta("in pieces"))
    watcher.on_run_event(Reply((Text("in pieces"),)))
    watcher.on_run_event(Reply((Text("as a whole"),)))
    watcher.end()

    assert file.getvalue() == "  in pieces\n  as a whole\n"


def test_a_change_is_shown_unless_it_was_asked_about() -> None:
    watcher, file = watched(Clock())
    edit = Call("edit", {"file_path": "n.txt"}, "9")
    watcher.on_event(Asked(100, asked({}, call_id="of nobody")))
    watcher.on_event(Started(100, "of nobody", 1))
    for was_asked in (False, True):
        watcher.begin()
        watcher.on_run_event(Reply((edit,)))
        if was_asked:
            watcher.on_event(Asked(100, asked({}, call=edit)))
            watcher.on_event(Answered(100, "q1", "9", Allow()))
        watcher.on_event(Finished(100, Result("9", "Edited.")))

    title, again = "✓ Edit n.txt +1 -0 #1", "✓ Edit n.txt +1 -0 #2"
    assert squeezed(file.getvalue()) == [title, "│ 1 + new", again, ""]


def test_a_call_is_shown_as_it_was_judged() -> None:
    watcher, file = watched(Clock())
    watcher.on_event(Requested(100, A))
    watcher.on_event(Decided(100, "1", (), Allow(), Call("a", {"x": 2}, "1")))
    watcher.on_event(Decided(100, "1", (), Allow()))
    watcher.on_event(Finished(100, DONE))

    assert squeezed(file.getvalue()) == ["✓ a 2 1 line #1", "│ done", ""]


def test_what_belongs_to_an_earlier_turn_is_not_taken_for_this_one() -> None:
    """Some models give their calls the same ids again."""
    clock = Clock()
    watcher, file = watched(clock)
    watcher.on_run_event(Reply((A,)))
    clock.now = 110
    watcher.on_run_event(ToolResults((DONE,)))
    watcher.on_run_event(Reply((A,)))
    watcher.on_event(Finished(109, DONE))
    once = squeezed(file.getvalue())
    watcher.on_event(Finished(110, DONE))
    watcher.on_event(Finished(110, DONE))

    assert once == ["✓ a 1 1 line #1", "│ done", ""]
    assert squeezed(file.getvalue()) == [*once[:-1], "✓ a 1 1 line #2", "│ done", ""]


TODO = Call(
    "todo",
    {
        "todos": [
            {"content": "Look\x1b", "status": "completed"},
            {"content": "Fix it", "status": "in_progress"},
            {"content": "Test", "status": "pending"},
            {"content": "Odd", "status": "other"},
            "no step",
        ]
    },
    "t",
)


def test_what_goes_on_is_shown_with_its_time_and_progress() -> None:
    clock = Clock()
    watcher, file = watched(clock, live=True)
    meter, watcher.model = watcher.meter, object()  # type: ignore[assignment]  only its names are read
    meter.mode, meter.window, frames = "ask", 200_000, list[list[str]]()

    def ticks(seconds: float) -> None:
        clock.now = 100 + seconds
        watcher.tick()
        frames.append(squeezed(file.getvalue().rpartition(BEGIN)[2].removesuffix(END))[-9:])

    ticks(2)
    watcher.on_run_event(Delta("loo"))
    ticks(3)
    watcher.on_run_event(
        Reply((TODO, A, B), usage=Usage(input_tokens=20_000, output_tokens=100), model="gpt-5")
    )
    watcher.on_event(Started(103, "t", 1))
    watcher.on_event(Finished(103, Result("t", "ok")))
    for event in (Waiting(100, "2", ("1", "gone")), Started(103, "1", 1)):
        watcher.on_event(event)
    ticks(4)
    watcher.on_event(AttemptFailed(104, "1", 1, FailureKind.TRANSIENT, "gone", 2.0))
    ticks(5)
    watcher.on_event(Started(105, "1", 2))
    watcher.on_event(Progressed(105, "1", "half\x1b", 0.5))
    ticks(6)
    watcher.on_event(Progressed(106, "1", "one\ntwo\n\nthree\nfour\n"))
    watcher.on_event(Started(105, "2", 1))
    ticks(7)
    watcher.on_event(Yielded(106, "1", "a piece"))
    watcher.on_event(Lost(3))
    ticks(8)
    watcher.end()

    assert frames == snapshot(
        [
            ["ask · thinking 2.0 s · Ctrl+C stops"],
            ["\x1b[J loo", "", "ask · writing 3.0 s · Ctrl+C stops"],
            [
                "\x1b[7A\x1b[J Plan 1 of 3 done",
                "✓ 1 done",
                "▸ Fix it",
                "▫ Test",
                "⠹ 3 calls: 1 done, 1 running, 1 waiting 1.0 s",
                "⠹ a 1 1.0 s #2",
                "⋯ b waits for #2 #3",
                "ask · working 4.0 s · Ctrl+C stops · 10% of 200k context $0.03",
            ],
            [
                "\x1b[7A\x1b[J ✓ 1 done",
                "▸ Fix it",
                "▫ Test",
                "⠋ 3 calls: 1 done, 1 running, 1 waiting 2.0 s",
                "⠋ a 1 2.0 s #2",
                "│ failed (transient); retrying in 2 s",
                "⋯ b waits for #2 #3",
                "ask · working 5.0 s · Ctrl+C stops · 10% of 200k context $0.03",
            ],
            [
                "\x1b[7A\x1b[J ✓ 1 done",
                "▸ Fix it",
                "▫ Test",
                "⠇ 3 calls: 1 done, 1 running, 1 waiting 3.0 s",
                "⠇ a 1 3.0 s #2",
                "█████████░░░░░░░░░░ 50% half\\u{1B}",
                "⋯ b waits for #2 #3",
                "ask · working 6.0 s · Ctrl+C stops · 10% of 200k context $0.03",
            ],
            [
                "\x1b[7A\x1b[J ▫ Test",
                "⠦ 3 calls: 1 done, 2 running 4.0 s",
                "⠦ a 1 4.0 s #2",
                "│ two",
                "│ three",
                "│ four",
                "⠦ b 2.0 s #3",
                "ask · working 7.0 s · Ctrl+C stops · 10% of 200k context $0.03",
            ],
            [
                "\x1b[7A\x1b[J ✓ 1 done",
                "▸ Fix it",
                "▫ Test",
                "⠼ 3 calls: 1 done, 2 running 5.0 s",
                "⠼ a 1 5.0 s #2",
                "│ a piece",
                "⠼ b 3.0 s #3",
                "ask · working 8.0 s · Ctrl+C stops · 10% of 200k context $0.03",
            ],
        ]
    )
    assert squeezed(file.getvalue())[-6:] == snapshot(
        [
            "ask · working 8.0 s · Ctrl+C stops · 10% of 200k context $0.03\x1b[?2026l\x1b[?2026h \x1b[7A\x1b[J\x1b[?2026l",
            "Plan 1 of 3 done",
            "✓ Look\\u{1B}",
            "▸ Fix it",
            "▫ Test",
            "",
        ]
    )


def test_text_after_calls_is_apart_and_nothing_is_painted_between_turns() -> None:
    clock = Clock()
    watcher, file = watched(clock, live=True)
    watcher.on_run_event(Reply((A,)))
    watcher.on_run_event(ToolResults((DONE,)))
    clock.now += 1
    watcher.on_run_event(Delta("Now"))
    frame = squeezed(file.getvalue().rpartition(BEGIN)[2])
    watcher.end()
    before = file.getvalue()
    watcher.tick()

    assert frame == ["\x1b[1A\x1b[J", "Now", "", f"· writing 1.0 s · Ctrl+C stops{END}"]
    assert file.getvalue() == before


def test_text_is_painted_at_most_twenty_times_a_second() -> None:
    clock = Clock()
    watcher, file = watched(clock, live=True)
    for number in range(90):
        clock.now = 100 + number / 90
        watcher.on_run_event(Delta("x\n\n" if number % 2 else "x "))

    assert 15 <= file.getvalue().count(BEGIN) <= 21


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
    with keyboard.listen():
        bell = signal.set_wakeup_fd(-1)

        def waits() -> str:
            os.write(bell, bytes([signal.SIGTERM]))
            return str(threading.Event().wait(30))

        monkeypatch.setattr(sys, "stdin", SimpleNamespace(readline=waits))

        assert keyboard.line() == Exit.TERMINATED


@pytest.mark.usefixtures("usual_signals")
def test_an_end_that_was_wanted_before_a_line_is_read_is_not_forgotten(tmp_path: Path) -> None:
    keyboard = Keyboard(tmp_path / "history")
    with keyboard.listen():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

        assert (keyboard.line(), keyboard.interrupts) == (Exit.TERMINATED, 1)


PATCH = "*** Begin Patch\n*** Delete File: a\n*** Add File: b\x1b\n+1\n*** End Patch"


def test_a_patch_is_shown_by_its_files() -> None:
    watcher, file = watched(Clock())
    for text in (PATCH, "no patch"):
        watcher.on_run_event(Reply((Call("apply_patch", {"input": text}, "p"),)))
        watcher.on_run_event(ToolResults((Result("p", "Patched:"),)))

    assert squeezed(file.getvalue()) == snapshot(
        [
            "✓ Patch a, b\\u{1B} +7 -1 #1",
            "│ a",
            "│ 1 - old",
            "│ b\\u{1B}",
            "│ 1 + 1",
            "│ 2 + 2",
            "│ 3 + 3",
            "│ 4 + 4",
            "│ 5 + 5",
            "│ 6 + 6",
            "… 1 more rows",
            "✓ Patch no patch +7 -1 #2",
            "│ a",
            "│ 1 - old",
            "│ b\\u{1B}",
            "│ 1 + 1",
            "│ 2 + 2",
            "│ 3 + 3",
            "│ 4 + 4",
            "│ 5 + 5",
            "│ 6 + 6",
            "… 1 more rows",
            "",
        ]
    )


def test_a_sub_agent_is_shown_by_the_call_that_it_works_for() -> None:
    watcher, file = watched(Clock(), live=True)
    watcher.model = ScriptedModel("")
    task = Call("task", {"task": "Find f."}, "t")
    watcher.on_run_event(Reply((task,), usage=Usage(input_tokens=5)))
    watcher.on_event(Started(100, "t", 1))
    inner = Call("read", {"file_path": "a.py"}, "1")
    watcher.on_event(Requested(100, inner, turn="run%2F1%2Ft/1"))
    file.truncate(file.seek(0))
    watcher.on_run_event(InnerEvent("t", Requested(100, inner)))
    shown = file.getvalue()
    watcher.on_run_event(InnerEvent("t", Reply((inner,), usage=Usage(input_tokens=7))))
    watcher.on_run_event(InnerEvent("of nobody", Requested(100, inner)))
    watcher.model = None
    watcher.on_run_event(InnerEvent("t", Reply((inner,), usage=Usage(input_tokens=7))))
    watcher.on_run_event(InnerEvent("t", Delta("text")))

    assert [row for row in squeezed(shown) if "Read" in row] == ["│ Read a.py"]
    assert (watcher.count, watcher.meter.sentence) == (1, "Used: 12 tokens.")


def test_questions_and_plans_say_how_they_ended() -> None:
    watcher, file = watched(Clock())
    ends = [
        (Call("ask_user", {"question": "Which?"}, "1"), "The user chose: red"),
        (Call("finish_plan", {}, "2"), "Not answered. Continue."),
        (Call("todo", {"todos": []}, "3"), "[x] a\n[1 of 2 steps completed.]"),
        (Call("todo", {"todos": []}, "4"), ""),
        (Call("ask_user", {"question": "Which?"}, "5"), ""),
    ]
    for call, text in ends:
        watcher.on_run_event(Reply((call,)))
        watcher.on_run_event(ToolResults((Result(call.id, text),)))

    assert squeezed(file.getvalue()) == snapshot(
        [
            "✓ Ask Which? answered #1",
            "✓ Ask about the plan not answered #2",
            "✓ Plan 1 of 2 done #3",
            "✓ Plan 0 lines #4",
            "✓ Ask Which? answered #5",
            "",
        ]
    )
