"""What a chat prints, made of values alone: words as they come, calls, results, changes."""

from __future__ import annotations

import io
import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.display_vectors import is_raw
from approvals.questions import asked
from handrail import Call, Kind, Result, Text
from handrail.agent import State
from handrail.approvals import Line
from handrail.cli._chat_lines import (
    call_line,
    cost_lines,
    diff_lines,
    elapsed,
    live_line,
    result_lines,
)
from handrail.cli._chat_screen import Screen
from handrail.cli._chat_watch import Watcher
from handrail.cli._chat_words import Words, columns, fitting, safe
from handrail.events import (
    Answered,
    Asked,
    AttemptFailed,
    Finished,
    Judged,
    Progressed,
    Requested,
    Started,
    Waiting,
)
from handrail.judgement import Allow
from handrail.messages import Delta, Reply, Results, Usage


def said(*pieces: str, width: int = 40) -> str:
    words = Words(width)
    return "".join(map(words.feed, pieces)) + words.end()


def test_words_are_broken_at_blanks_behind_a_margin() -> None:
    assert said("one two three four five six", width=22) == "  one two three four\n  five six\n"


def test_words_come_when_they_are_complete() -> None:
    words = Words(40)

    assert [words.feed(one) for one in ("Hel", "lo ", "wor", "ld", "\n")] == [
        "", "  Hello", "", "", " world\n",
    ]  # fmt: skip
    assert (words.end(), words.amid) == ("", False)


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
    words = Words(80)

    assert words.feed("x" * 50) == f"  {'x' * 50}"
    assert (words.amid, words.end()) == (True, "\n")


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
    assert (fitting("abcdef", 6), fitting("abcdefg", 6)) == ("abcdef", "abcd…")


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
    assert call_line(Call("go", args, "c1"), 60) == Line(text, "title")  # type: ignore[arg-type]


def texts(*lines: Line) -> list[str]:
    return [line.text for line in lines]


def test_a_result_is_shortened() -> None:
    long = Result("c1", "\n".join(map(str, range(20))))

    assert texts(*result_lines(Result("c1", "x" * 30), 20)) == ["│ " + "x" * 17, "│ " + "x" * 13]
    assert texts(*result_lines(Result("c1", ""), 20)) == ["│ (nothing)"]
    assert texts(*result_lines(long, 20, 61.5))[-2:] == ["│ 5", "│ [14 more rows · 1 min 1 s]"]


def test_a_failure_is_told_with_its_kind() -> None:
    failed = Result.fail("c1", Kind.DENIED, "No.\nNot that.")

    assert list(result_lines(failed, 80, 2.0)) == [
        Line("│ denied: No.", "warning"),
        Line("│ Not that.", "warning"),
        Line("│ [2 s]"),
    ]
    assert list(result_lines(Result.fail("c1", Kind.PENDING, "Wait."), 80)) == [
        Line("│ waits for an answer")
    ]


def test_a_change_is_a_diff_with_colours() -> None:
    assert list(diff_lines("a", b"one\ntwo\n", b"one\n2\n\x1b", 80)) == [
        Line("│ @@ -1,3 +1,3 @@"),
        Line("│  one"),
        Line("│ -two", "removed"),
        Line("│ -", "removed"),
        Line("│ +2", "added"),
        Line("│ +\\u{1B}", "added"),
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
    assert elapsed(59.9) == "59 s"


def test_what_it_cost_is_counted() -> None:
    state = State(usage=Usage(sent=1200, received=30, cached=1000), turns=2, calls=3)

    assert list(cost_lines(state, 5)) == [
        "tokens  1,200 sent, 1,000 of them cached; 30 received",
        "turns   2",
        "calls   3",
        "time    5 s in this process",
    ]


def screen(*, color: bool = False, live: bool = False) -> tuple[Screen, io.StringIO]:
    file = io.StringIO()
    return Screen(file, color=color, live=live), file


def test_lines_have_the_colours_of_what_they_are() -> None:
    shown, file = screen(color=True)
    shown.show(Line("a"), Line("b", "added"), Line("c", "removed"))

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
    with shown.held():
        with shown.held():
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
        shown = Screen(file, color=False, live=False)
        shown.say("x")
        shown.say("y")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watched(clock: Clock, *, live: bool = False) -> tuple[Watcher, io.StringIO]:
    shown, file = screen(live=live)
    watcher = Watcher(shown, lambda call_id, _width: [Line(f"diff of {call_id}")], clock)
    watcher.begin()
    return watcher, file


A, B = Call("a", {}, "1"), Call("b", {}, "2")
DONE = Result("1", "done")


def test_a_turn_is_shown_from_the_words_to_the_results() -> None:
    watcher, file = watched(Clock())
    watcher.happening(Delta("I look"))
    watcher.happening(Delta("deep thoughts", thought=True))
    watcher.event(Requested(100, A))
    watcher.event(Started(100, "1", 1))
    watcher.event(Finished(103, DONE))
    watcher.happening(Reply((A, B)))
    watcher.happening(Results((DONE, Result("2", "two"))))
    watcher.end()

    assert file.getvalue() == (
        "  I look\n▸ a()\ndiff of 1\n│ done\n│ [3 s]\n▸ b()\ndiff of 2\n│ two\n"
    )


def test_a_reply_that_does_not_come_in_pieces_is_shown_as_a_whole() -> None:
    watcher, file = watched(Clock())
    watcher.happening(Delta("in pieces"))
    watcher.happening(Reply((Text("in pieces"),)))
    watcher.happening(Reply((Text("as a whole"),)))
    watcher.end()

    assert file.getvalue() == "  in pieces\n  as a whole\n"


def test_a_change_that_was_asked_about_is_not_shown_again() -> None:
    watcher, file = watched(Clock())
    edited = Call("a", {"x": 1}, "1")
    pending = asked({}, call=edited)
    watcher.event(Asked(100, asked({}, call_id="of nobody")))
    watcher.event(Started(100, "of nobody", 1))
    watcher.happening(Reply((A,)))
    watcher.event(Asked(100, pending))
    watcher.event(Answered(100, "q1", "1", Allow()))
    watcher.event(Finished(100, DONE))

    assert file.getvalue() == "▸ a(x: 1)\n│ done\n"


def test_a_call_is_shown_as_it_was_judged() -> None:
    watcher, file = watched(Clock())
    watcher.event(Requested(100, A))
    watcher.event(Judged(100, "1", (), Allow(), Call("a", {"x": 2}, "1")))
    watcher.event(Judged(100, "1", (), Allow()))
    watcher.event(Finished(100, DONE))

    assert file.getvalue() == "▸ a(x: 2)\ndiff of 1\n│ done\n"


def test_what_belongs_to_an_earlier_turn_is_not_taken_for_this_one() -> None:
    """Some models give their calls the same ids again."""
    clock = Clock()
    watcher, file = watched(clock)
    watcher.happening(Reply((A,)))
    clock.now = 110
    watcher.happening(Results((DONE,)))
    watcher.happening(Reply((A,)))
    watcher.event(Finished(109, DONE))
    once = file.getvalue()
    watcher.event(Finished(110, DONE))
    watcher.event(Finished(110, DONE))

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
    watcher.happening(Delta("loo"))
    ticks(3)
    watcher.happening(Delta("k "))
    ticks(3)
    watcher.happening(Reply((A, B)))
    ticks(3)
    watcher.event(Waiting(100, "2", ("1",)))
    watcher.event(Started(103, "1", 1))
    ticks(4)
    watcher.event(AttemptFailed(104, "1", 1, Kind.TRANSIENT, "gone", 2.0))
    ticks(5)
    watcher.event(Started(105, "1", 2))
    watcher.event(Progressed(105, "1", "half\x1b"))
    watcher.event(Started(105, "2", 1))
    ticks(6)

    assert rows == [
        "  waiting for the model … 2 s",
        "  waiting for the model … 2 s",
        "  look",
        "  look\n",
        "  ▸ a() … 1 s",
        "  ▸ a() … 2 s · failed (transient); again in 2 s",
        "  ▸ a() and 1 more … 3 s · half\\u{1B}",
    ]
