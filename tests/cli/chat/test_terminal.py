"""What a person sees of a chat and types into it: rows, words, a screen, and a keyboard."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from approvals.display_vectors import is_raw
from approvals.questions import asked
from handrail import Call, FailureKind, Result, Text
from handrail.agent import RunState
from handrail.approvals import RenderedLine
from handrail.cli._base.exits import Exit
from handrail.cli._chat.input import Keyboard
from handrail.cli._chat.lines import (
    call_line,
    cost_lines,
    diff_lines,
    format_elapsed,
    live_line,
    result_lines,
)
from handrail.cli._chat.screen import ChatScreen
from handrail.cli._chat.text import StreamedText, columns, safe, truncate
from handrail.cli._chat.watch import Watcher
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


def said(*pieces: str, width: int = 40) -> str:
    words = StreamedText(width)
    return "".join(map(words.feed, pieces)) + words.end()


def test_words_are_broken_at_blanks_behind_a_margin() -> None:
    assert said("one two three four five six", width=22) == "  one two three four\n  five six\n"


def test_words_come_when_they_are_complete() -> None:
    words = StreamedText(40)

    assert [words.feed(one) for one in ("Hel", "lo ", "wor", "ld", "\n")] == [
        "", "  Hello", "", "", " world\n",
    ]  # fmt: skip
    assert (words.end(), words.is_mid_row) == ("", False)


def test_what_a_terminal_would_obey_is_written_out_also_in_pieces() -> None:
    shown = said("a\x1b", "[2", "J\x1b]0;x\x07", "b\x9b1m")

    assert shown == "  a\\u{1B}[2J\\u{1B}]0;x\\u{7}b\\u{9B}1m\n"


def test_a_word_longer_than_a_row_goes_on_behind_the_margin() -> None:
    assert said("x" * 45, width=22) == f"  {'x' * 20}\n  {'x' * 20}\n  {'x' * 5}\n"
    assert said("ab " + "文" * 15, width=22) == f"  ab\n  {'文' * 10}\n  {'文' * 5}\n"
    assert said(" " * 9 + "文" * 9, width=22) == f"  {' ' * 9}{'文' * 5}\n  {'文' * 4}\n"


def test_a_wide_letter_fits_where_no_other_room_is() -> None:
    assert said("x" * 19 + "文", width=22) == f"  {'x' * 19}\n  文\n"


def test_blanks_at_the_beginning_of_a_row_are_kept_and_empty_rows_counted() -> None:
    assert said("if x:\n    go()\r\n\n\n\n\n\n\tend") == "  if x:\n      go()\n\n\n      end\n"


def test_what_is_very_long_without_a_blank_is_not_waited_for() -> None:
    words = StreamedText(80)

    assert words.feed("x" * 50) == f"  {'x' * 50}"
    assert (words.is_mid_row, words.end()) == (True, "\n")


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=30)), st.integers(2, 60))
def test_nothing_raw_is_ever_printed_and_no_row_is_too_long(pieces: list[str], width: int) -> None:
    shown = said(*pieces, width=width)

    assert [one for one in shown if is_raw(one) and one != "\n"] == []
    rows = shown.split("\n")
    assert [row for row in rows if columns(row) > max(width, 22) and _is_plain(row)] == []
    assert [row for row in rows if row and not row.startswith("  ")] == []


def _is_plain(row: str) -> bool:
    return all(unicodedata.category(one) not in {"Mn", "Me"} for one in row)


def test_a_text_is_safe_as_a_whole_too() -> None:
    assert safe("a\tb  c\r\nd\x1b[0m\r") == "a    b  c\nd\\u{1B}[0m\\u{D}"


def test_what_does_not_fit_is_cut() -> None:
    assert (truncate("abcdef", 6), truncate("abcdefg", 6)) == ("abcdef", "abcd…")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"path": "a", "on": True}, '▸ go(path: "a", on: true)'),
        ('{"path": "a\\n\\u001b"}', '▸ go(path: "a\\n\\u001b")'),
        ("[1]", "▸ go([1])"),
        ('{"pa', '▸ go({"pa)'),
        ("x\ny", "▸ go(x y)"),
        ({"x": "y" * 90}, f'▸ go(x: "{"y" * 48}…'),
    ],
)
def test_a_call_is_one_row(args: object, text: str) -> None:
    assert call_line(Call("go", args, "c1"), 60) == RenderedLine(text, "title")  # type: ignore[arg-type]


def texts(*lines: RenderedLine) -> list[str]:
    return [line.text for line in lines]


def test_a_result_is_shortened() -> None:
    long = Result("c1", "\n".join(map(str, range(20))))

    assert texts(*result_lines(Result("c1", "x" * 30), 20)) == ["│ " + "x" * 17, "│ " + "x" * 13]
    assert texts(*result_lines(Result("c1", ""), 20)) == ["│ (no output)"]
    assert texts(*result_lines(long, 20, 61.5))[-2:] == ["│ 5", "│ [14 more rows · 1 min 1 s]"]


def test_a_failure_is_told_with_its_kind() -> None:
    failed = Result.fail("c1", FailureKind.DENIED, "No.\nNot that.")

    assert list(result_lines(failed, 80, 2.0)) == [
        RenderedLine("│ denied: No.", "warning"),
        RenderedLine("│ Not that.", "warning"),
        RenderedLine("│ [2 s]"),
    ]
    assert list(result_lines(Result.fail("c1", FailureKind.PENDING, "Wait."), 80)) == [
        RenderedLine("│ waiting for approval")
    ]


def test_a_change_is_a_diff_with_colours() -> None:
    assert list(diff_lines("a", b"one\ntwo\n", b"one\n2\n\x1b", 80)) == [
        RenderedLine("│ @@ -1,3 +1,3 @@"),
        RenderedLine("│  one"),
        RenderedLine("│ -two", "removed"),
        RenderedLine("│ -", "removed"),
        RenderedLine("│ +2", "added"),
        RenderedLine("│ +\\u{1B}", "added"),
    ]
    assert texts(*diff_lines("a", None, b"x\n", 80)) == ["│ @@ -0,0 +1,2 @@", "│ +x", "│ +"]


def test_a_long_change_is_cut_and_one_of_a_large_file_is_counted() -> None:
    many = "\n".join(map(str, range(60))).encode()

    assert texts(*diff_lines("a", b"", many, 80))[-1] == "│ [22 more rows]"
    assert texts(*diff_lines("a", b"x" * 99_999, b"xy", 80)) == [
        "│ a changed: 99,999 to 2 characters"
    ]


def test_what_goes_on_is_one_row() -> None:
    assert (
        live_line(["▸ a()", "▸ b()"], "half\n", 61, 80) == "  ▸ a() and 1 more … 1 min 1 s · half "
    )
    assert live_line(["▸ a()"], "", 0.4, 80) == "  ▸ a() … 0 s"
    assert format_elapsed(59.9) == "59 s"


def test_what_it_cost_is_counted() -> None:
    state = RunState(
        usage=Usage(input_tokens=1200, output_tokens=30, cached_tokens=1000), turns=2, calls=3
    )

    assert list(cost_lines(state, 5)) == [
        "tokens  1,200 in (1,000 cached); 30 out",
        "turns   2",
        "calls   3",
        "time    5 s in this process",
    ]


def screen(*, color: bool = False, live: bool = False) -> tuple[ChatScreen, io.StringIO]:
    file = io.StringIO()
    return ChatScreen(file, color=color, live=live), file


def test_lines_have_the_colours_of_what_they_are() -> None:
    shown, file = screen(color=True)
    shown.show(RenderedLine("a"), RenderedLine("b", "added"), RenderedLine("c", "removed"))

    assert file.getvalue() == "a\x1b[0m\n\x1b[32mb\x1b[0m\n\x1b[31mc\x1b[0m\n"
    assert shown.width == 79


def test_a_row_that_changes_goes_when_something_is_printed() -> None:
    shown, file = screen(live=True)
    for row in ("one", "one", "two"):
        shown.live(row)
    shown.say("x")
    shown.live("")

    assert file.getvalue() == "one\r\x1b[Ktwo\r\x1b[Kx\n"


def test_on_a_terminal_that_only_types_no_row_changes() -> None:
    shown, file = screen()
    shown.live("one")

    assert file.getvalue() == ""


def test_what_is_printed_while_somebody_else_speaks_comes_later() -> None:
    shown, file = screen(live=True)
    shown.live("row")
    with shown.hold():
        with shown.hold():
            shown.say("a")
        shown.live("b")
        shown.write("c")
        during = file.getvalue()
    shown.write("")

    assert (during, file.getvalue()) == ("row\r\x1b[K", "row\r\x1b[Ka\nc")


def test_a_terminal_that_is_gone_is_no_error() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w", encoding="utf-8") as file:
        shown = ChatScreen(file, color=False, live=False)
        shown.say("x")
        shown.say("y")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watched(clock: Clock, *, live: bool = False) -> tuple[Watcher, io.StringIO]:
    shown, file = screen(live=live)
    watcher = Watcher(shown, lambda call_id, _width: [RenderedLine(f"diff of {call_id}")], clock)
    watcher.begin()
    return watcher, file


A, B = Call("a", {}, "1"), Call("b", {}, "2")
DONE = Result("1", "done")


def test_a_turn_is_shown_from_the_words_to_the_results() -> None:
    watcher, file = watched(Clock())
    watcher.on_run_event(Delta("I look"))
    watcher.on_run_event(Delta("deep thoughts", thought=True))
    watcher.on_event(Requested(100, A))
    watcher.on_event(Started(100, "1", 1))
    watcher.on_event(Finished(103, DONE))
    watcher.on_run_event(Reply((A, B)))
    watcher.on_run_event(ToolResults((DONE, Result("2", "two"))))
    watcher.end()

    assert file.getvalue() == (
        "  I look\n▸ a()\ndiff of 1\n│ done\n│ [3 s]\n▸ b()\ndiff of 2\n│ two\n"
    )


def test_a_truncated_call_is_shown_with_its_result() -> None:
    watcher, file = watched(Clock())
    watcher.on_run_event(
        Reply((Text("Now."), Reasoning("x"), TruncatedCall("a", "1", '{"pa')), "length")
    )
    watcher.on_run_event(ToolResults((Result.fail("1", FailureKind.BAD_ARGS, "Not run: cut."),)))
    watcher.end()

    assert file.getvalue() == snapshot("""\
  Now.
▸ a()
diff of 1
│ bad_args: Not run: cut.
""")


def test_a_reply_that_does_not_come_in_pieces_is_shown_as_a_whole() -> None:
    watcher, file = watched(Clock())
    watcher.on_run_event(Delta("in pieces"))
    watcher.on_run_event(Reply((Text("in pieces"),)))
    watcher.on_run_event(Reply((Text("as a whole"),)))
    watcher.end()

    assert file.getvalue() == "  in pieces\n  as a whole\n"


def test_a_change_that_was_asked_about_is_not_shown_again() -> None:
    watcher, file = watched(Clock())
    edited = Call("a", {"x": 1}, "1")
    pending = asked({}, call=edited)
    watcher.on_event(Asked(100, asked({}, call_id="of nobody")))
    watcher.on_event(Started(100, "of nobody", 1))
    watcher.on_run_event(Reply((A,)))
    watcher.on_event(Asked(100, pending))
    watcher.on_event(Answered(100, "q1", "1", Allow()))
    watcher.on_event(Finished(100, DONE))

    assert file.getvalue() == "▸ a(x: 1)\n│ done\n"


def test_a_call_is_shown_as_it_was_judged() -> None:
    watcher, file = watched(Clock())
    watcher.on_event(Requested(100, A))
    watcher.on_event(Decided(100, "1", (), Allow(), Call("a", {"x": 2}, "1")))
    watcher.on_event(Decided(100, "1", (), Allow()))
    watcher.on_event(Finished(100, DONE))

    assert file.getvalue() == "▸ a(x: 2)\ndiff of 1\n│ done\n"


def test_what_belongs_to_an_earlier_turn_is_not_taken_for_this_one() -> None:
    """Some models give their calls the same ids again."""
    clock = Clock()
    watcher, file = watched(clock)
    watcher.on_run_event(Reply((A,)))
    clock.now = 110
    watcher.on_run_event(ToolResults((DONE,)))
    watcher.on_run_event(Reply((A,)))
    watcher.on_event(Finished(109, DONE))
    once = file.getvalue()
    watcher.on_event(Finished(110, DONE))
    watcher.on_event(Finished(110, DONE))

    assert (once, file.getvalue()) == ("▸ a()\ndiff of 1\n│ done\n", once * 2)


def test_what_goes_on_is_shown_with_its_time_and_progress() -> None:
    clock = Clock()
    watcher, file = watched(clock, live=True)
    rows: list[str] = []

    def ticks(seconds: float) -> None:
        clock.now = 100 + seconds
        watcher.tick()
        rows.append(file.getvalue().rpartition("\r\x1b[K")[2])

    ticks(2)
    watcher.on_run_event(Delta("loo"))
    ticks(3)
    watcher.on_run_event(Delta("k "))
    ticks(3)
    watcher.on_run_event(Reply((A, B)))
    ticks(3)
    watcher.on_event(Waiting(100, "2", ("1",)))
    watcher.on_event(Started(103, "1", 1))
    ticks(4)
    watcher.on_event(AttemptFailed(104, "1", 1, FailureKind.TRANSIENT, "gone", 2.0))
    ticks(5)
    watcher.on_event(Started(105, "1", 2))
    watcher.on_event(Progressed(105, "1", "half\x1b"))
    watcher.on_event(Started(105, "2", 1))
    ticks(6)
    watcher.on_event(Yielded(106, "1", "a piece"))
    watcher.on_event(Lost(3))
    ticks(7)

    assert rows == [
        "  waiting for the model … 2 s",
        "  waiting for the model … 2 s",
        "  look",
        "  look\n",
        "  ▸ a() … 1 s",
        "  ▸ a() … 2 s · failed (transient); retrying in 2 s",
        "  ▸ a() and 1 more … 3 s · half\\u{1B}",
        "  ▸ a() and 1 more … 4 s · a piece",
    ]


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
