"""Questions at a terminal that hands over single keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given as given_
from hypothesis import strategies as st

from approvals.person import Person, person
from approvals.questions import asked
from handrail import DESTROY, READ, Access, Allow, Deny, Result
from handrail.approvals import Proposal, terminal
from handrail.approvals._keys import TEXT, KeyReader
from handrail.permissions import (
    Answer,
    CommandPart,
    Edit,
    FileChange,
    Grade,
    Pending,
    Undoable,
)

NO = Deny.by_user()
ENTER, ESC, RIGHT, LEFT, DOWN, UP = "\r", "\x1b", "\x1b[C", "\x1b[D", "\x1bOB", "\x1b[A"
INSTEAD = "What should the model do instead? (Enter: say nothing) "
CHANGE = asked(
    {"file_path": "a.txt", "old_string": "two", "new_string": "too"},
    name="edit",
    headline="Edit a.txt",
    grade=Grade.CHANGE,
    changes=(FileChange("a.txt", "one\ntwo words\nthree\n", "one\ntoo words\nthree\n"),),
)
LEAVES = asked({"command": "curl example.org"}, grade=Grade.LEAVES)


@pytest.fixture(autouse=True)
def without_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)


async def press(
    pending: Pending,
    *keys: str | Callable[[Person], Awaitable[Any]],
    height: int = 24,
    width: int = 80,
    **options: Any,
) -> tuple[Answer | Pending, str]:
    """What becomes of a question if a person presses these keys, and all that was shown."""
    answers: list[Answer | Pending] = []
    shown: list[str] = []
    with person(height=height, width=width, keys=True) as who:

        async def ask() -> None:
            approver = terminal(stdin=who.stdin, console=who.console, quiet=0.0, **options)
            answers.append(await approver(pending))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            for key in keys:
                if isinstance(key, str):
                    shown.append(await who.sees("n no") + "n no")
                    shown.append(await who.sees("? more") + "? more")
                    who.types(key)
                else:
                    await key(who)
        assert not who.is_raw()
    return answers[0], "".join(shown)


def after(words: str, typed: str) -> Callable[[Person], Awaitable[Any]]:
    async def act(who: Person) -> None:
        await who.answers(typed, after=words)

    return act


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y"], Allow()),
        (["Y"], Allow()),
        ([ENTER], Allow()),
        (["\n"], Allow()),
        (["l"], CHANGE),
        (["n", after(INSTEAD, "")], NO),
        ([RIGHT, ENTER, after(INSTEAD, "Use b.")], Deny.by_user("Use b.")),
        ([DOWN, UP, ENTER], Allow()),
        ([LEFT, LEFT, ENTER, after(INSTEAD, "")], NO),
        ([ESC, after(INSTEAD, "")], NO),
        (["x", "ü", "y"], Allow()),
        (["yes", "y"], Allow()),
        (["?", "w", "y"], Allow()),
        (["\x04"], NO),
    ],
    ids=str,
)
async def test_a_key_answers_at_once(keys: list[Any], answer: Answer | Pending) -> None:
    given, _ = await press(CHANGE, *keys)

    assert given == answer


async def test_an_answer_says_who_gave_it_and_what_they_saw() -> None:
    [one, same, other] = [
        (await press(pending, "y"))[0] for pending in (CHANGE, CHANGE, asked({"a": 1}))
    ]

    assert isinstance(one, Allow)
    assert isinstance(same, Allow)
    assert isinstance(other, Allow)
    assert (one.by, one.via) == (Path.home().owner() if os.getuid() else "root", "terminal")
    assert (len(one.seen), same.seen, other.seen == one.seen) == (64, one.seen, False)


async def test_an_edit_of_one_line_takes_ten_rows() -> None:
    _, shown = await press(CHANGE, "y", undo="/undo")

    rows = shown.split("\r")[0].split("\n")
    assert rows == [
        "",
        "Edit a.txt?                                        +1 -1 · /undo can undo it",
        "",
        " 1   one",
        " 2 - two words",
        " 2 + too words",
        " 3   three",
        "",
        "  Write it? Asked by ask write (handrail.toml:3).",
        "▸ y yes      n no      ? more",
    ]


async def test_the_mark_starts_at_no_where_something_leaves_this_machine() -> None:
    given, shown = await press(LEAVES, ENTER, after(INSTEAD, ""))

    assert given == NO
    assert "! leaves this machine" in shown
    assert "▸ n no" in shown


async def test_keys_that_do_not_fit_stand_below_one_another() -> None:
    given, shown = await press(CHANGE, DOWN, UP, ENTER, width=30)

    assert given == Allow()
    assert "▸ y yes\n  n no\n  ? more" in shown


async def test_what_is_lost_for_good_needs_the_whole_word() -> None:
    pending = asked({"command": "rm -rf data"}, effect=DESTROY)
    ask = "Type yes to run it.  n no  ? more  > "

    given, _ = await press(pending, after(ask, "y"), after(ask, "?"), after(ask, "yes"))

    assert given == Allow()


async def test_a_grave_part_that_undo_can_restore_needs_no_word() -> None:
    pending = asked(
        {"command": "rm -rf data"},
        effect=DESTROY,
        grade=Grade.CHANGE,
        headline="Run: rm -rf data",
        parts=(CommandPart(0, 11, Grade.CHANGE, ("data",)),),
        changes=(Undoable(),),
    )

    given, shown = await press(pending, "y", undo="/undo", allow_edits=lambda: None)

    assert given == Allow()
    assert "Run: rm -rf data?" in shown
    assert "/undo can undo it" in shown
    assert "all edits" not in shown


async def test_what_was_not_on_the_screen_is_shown_first() -> None:
    pending = asked({f"a{number}": number for number in range(30)})
    more = after("more rows; Enter to continue, q to go back) ", "")

    given, shown = await press(pending, ENTER, more, "y")

    assert given == Allow()
    assert "▸ d show all of it      n no" in shown


async def test_one_key_switches_to_all_edits_of_the_run() -> None:
    switched: list[str] = []

    given, shown = await press(CHANGE, "a", allow_edits=lambda: switched.append("edits"))

    assert (given, switched) == (Edit(str(CHANGE.call.args)), ["edits"])
    assert "a yes to all edits in this run" in shown


async def test_nothing_is_switched_for_what_was_not_on_the_screen() -> None:
    switched: list[str] = []

    given, _ = await press(CHANGE, "a", "l", height=8, allow_edits=lambda: switched.append("edits"))

    assert (given, switched) == (CHANGE, [])


class Rules:
    def __init__(self) -> None:
        self.stored: list[Proposal] = []

    def propose(self, _pending: Pending, /) -> list[Proposal]:
        return [Proposal("run", "edit a.txt")]

    def store(self, proposal: Proposal, /) -> None:
        self.stored.append(proposal)


async def test_a_rule_is_stored_after_its_text_was_shown() -> None:
    rules = Rules()
    chosen = after("  r  this run\nremember for (Enter to go back): ", "r")

    given, _ = await press(CHANGE, "a", chosen, after("store it? y/n: ", "y"), remember=rules)

    assert (given, rules.stored) == (Allow(), [Proposal("run", "edit a.txt")])


async def test_a_rule_is_behind_another_key_where_all_edits_can_be_allowed() -> None:
    rules = Rules()
    chosen = after("remember for (Enter to go back): ", "r")

    given, shown = await press(
        CHANGE,
        "?",
        "p",
        chosen,
        after("store it? y/n: ", "y"),
        remember=rules,
        allow_edits=lambda: None,
    )

    assert (given, rules.stored) == (Allow(), [Proposal("run", "edit a.txt")])
    assert "p  always, as a rule" in shown


async def test_escape_stops_the_run() -> None:
    stopped: list[str] = []

    given, _ = await press(CHANGE, ESC, stop=lambda: stopped.append("run"))

    assert (given, stopped) == (Deny("Not run: the user stopped the run."), ["run"])


async def test_a_result_in_the_place_of_the_tool() -> None:
    given, _ = await press(CHANGE, "r", after("result for the model (Enter to go back): ", "done"))

    assert given == Result("c1", "done")


def write_editor(folder: Path, script: str) -> str:
    file = folder / "editor"
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(stat.S_IRWXU)
    return str(file)


@pytest.mark.parametrize(
    ("script", "answer", "said"),
    [
        ("""sed -i 's/"too"/"2"/' "$1" """, Edit, ""),
        ("true", Allow, "Nothing was changed."),
        ('echo x > "$1"', Allow, "Not a JSON object."),
        ("exit 1", Allow, "The editor failed. Nothing was changed."),
    ],
)
async def test_arguments_are_edited_in_the_editor(  # noqa: PLR0917  fixtures
    script: str, answer: type, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", write_editor(tmp_path, script))
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    given, shown = await press(CHANGE, "?", "e", *([] if answer is Edit else ["y"]))

    assert "e  edit it in $EDITOR" in shown
    assert (type(given), said in shown) == (answer, True)
    if isinstance(given, Edit):
        assert '"new_string": "2"' in str(given.args)
    assert not list(tmp_path.glob("handrail-*"))  # noqa: ASYNC240  a moment


@pytest.mark.parametrize("editor", ["/no/such/editor", "vi '"])
async def test_an_editor_that_cannot_run_changes_nothing(
    editor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", editor)
    back = [after("(Enter to go back): ", "")] if editor.endswith("'") else []

    given, _ = await press(CHANGE, "e", *back, "y")

    assert given == Allow()


async def test_arguments_that_are_not_json_are_edited_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "EDITOR", write_editor(tmp_path, """grep -q '^not JSON$' "$1" && echo '{}' > "$1" """)
    )

    given, _ = await press(asked("not JSON"), "e")

    assert given == Edit("{}\n")


async def test_text_takes_the_mark_away_and_an_arrow_brings_it_back() -> None:
    given, shown = await press(CHANGE, "h", "m", ENTER, "stop", ENTER, RIGHT, ENTER)

    assert given == Allow()
    rows = shown.split("\n")[-1].split("\r\x1b[J")
    assert rows == [
        "▸ y yes      n no      ? more",
        *["  y yes      n no      ? more      press one key"] * 5,
        "▸ y yes      n no      ? more",
    ]


async def test_enter_without_text_takes_the_mark() -> None:
    """What the test above is for: the same Enter approves where nothing was typed."""
    given, _ = await press(CHANGE, ENTER)

    assert given == Allow()


async def test_a_pause_after_the_question_is_shown() -> None:
    """What a person was typing when the question came is no answer."""
    answers: list[Answer | Pending] = []
    with person(keys=True) as who:

        async def ask() -> None:
            approver = terminal(stdin=who.stdin, console=who.console, quiet=0.3)
            answers.append(await approver(CHANGE))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await who.sees("wait…")
            who.types("yyy")
            await who.sees("press one key")
            who.types(ENTER)
            await anyio.sleep(0.4)  # what was typed is text until nothing is typed for so long
            who.types("l")

    assert answers == [CHANGE]


class Typist:
    """Types at given times, and lets a clock pass."""

    def __init__(self, *typed: tuple[float, str]) -> None:
        self._typed = [(seconds, text.encode()) for seconds, text in typed]
        self._read, self._write = os.pipe()
        self.now = 0.0

    def keys(self) -> list[str | None]:
        """All keys that a question reads, with a pause of half a second."""
        reader = KeyReader(self._read, self._is_ready, 0.5, lambda: self.now)
        found: list[str | None] = []
        try:
            while self._typed or self.now < 0.5:
                found.append(reader.read())
        finally:
            os.close(self._read)
            os.close(self._write)
        return found

    def _is_ready(self, seconds: float) -> bool:
        if not self._typed or self._typed[0][0] > self.now + seconds:
            self.now += seconds
            return False
        at, text = self._typed.pop(0)
        self.now = max(self.now, at)
        os.write(self._write, text)
        return True


def word(text: str, start: float, gap: float) -> list[tuple[float, str]]:
    return [(start + number * gap, letter) for number, letter in enumerate(text)]


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ([(0.6, "y")], [None, "y"]),
        ([(0.0, "y"), (0.1, "y"), (0.499, "y"), (0.501, "y")], [TEXT, TEXT, TEXT, None, "y"]),
        (word("yyyyy", 0.1, 0.35), [TEXT, TEXT, None, "y", "y", "y"]),  # pressed until it counts
        (word("yyyyyyy", 0.6, 0.03), [None, "y"]),  # held down
        (word("aardvark", 0.6, 0.12), [None, *[TEXT] * 6]),
        (word("yes", 0.6, 0.29), [None, TEXT, TEXT]),
        (word("already", 0.1, 0.12), [*[TEXT] * 4, None, *[TEXT] * 3]),
        (word("happy", 0.6, 0.12), [None, *[TEXT] * 4]),
        (word("wait", 0.6, 0.35), [None, "w", TEXT, TEXT, TEXT]),
        ([(0.6, "y"), (0.7, "e"), (0.8, "s")], [None, TEXT, TEXT]),
        ([(0.6, "y"), (0.7, ENTER)], [None, "y"]),
        ([(0.6, "h"), (1.2, "y")], [None, "h", "y"]),
        ([(0.3, ENTER), (0.6, ENTER)], [TEXT, None, "enter"]),
        ([(0.6, "yes"), (0.8, "y"), (1.4, "y")], [None, TEXT, TEXT, "y"]),
    ],
    ids=str,
)
def test_letters_in_a_row_are_text(typed: list[tuple[float, str]], keys: list[str | None]) -> None:
    assert Typist(*typed).keys() == keys


@given_(
    st.text("abcdelnpqrwy", min_size=8, max_size=30),
    st.floats(0.01, 0.14),
    st.floats(0.0, 1.0),
)
def test_a_person_who_types_a_sentence_answers_nothing(
    letters: str, gap: float, start: float
) -> None:
    """Whatever the letters are."""
    assert {*Typist(*word(f"{letters}yay", start, gap)).keys()} <= {TEXT, None}


async def test_a_withdrawn_question_leaves_the_terminal_as_it_was() -> None:
    with person(keys=True) as who:
        approver = terminal(stdin=who.stdin, console=who.console, quiet=0.0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(approver, CHANGE)
            await who.sees("▸")
            assert who.is_raw()
            tasks.cancel_scope.cancel()
        await who.sees("The request was withdrawn.\n")

        assert not who.is_raw()


@pytest.mark.parametrize("quiet", [0.0, 60.0])
async def test_a_terminal_that_hangs_up_is_a_no(quiet: float) -> None:
    answers: list[Answer | Pending] = []
    with person(keys=True) as who:

        async def ask() -> None:
            approver = terminal(stdin=who.stdin, console=who.console, quiet=quiet)
            answers.append(await approver(CHANGE))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await who.sees("? more")
            who.hang_up()

    assert [type(one) for one in answers] == [Deny]


def changed(*changes: FileChange, headline: str = "") -> Pending:
    return asked({"mode": 7}, grade=Grade.CHANGE, changes=changes, headline=headline)


LONG = "\n".join(str(number) for number in range(1, 10))


@pytest.mark.parametrize(
    ("pending", "rows"),
    [
        (asked({}, grade=Grade.UNKNOWN), ["Call write?", "unknown effect"]),
        (
            asked({}, grade=Grade.UNKNOWN, touches=(Access(READ, "file:.env"),)),
            ["Call write?", "reads only"],
        ),
        (
            asked(
                {"command": "x" * 90},
                headline="Run: " + "x" * 90,
                grade=Grade.UNKNOWN,
                parts=(CommandPart(0, 90, Grade.UNKNOWN),),
            ),
            ["Run this command?", "unknown command"],
        ),
        (
            asked({}, headline="Call " + "x" * 60, grade=Grade.LEAVES),
            ["Call " + "x" * 60 + "?\n  ! leaves this machine\n"],
        ),
        (changed(FileChange("a", None, "x\n")), ["a is a new file\n 1 + x\n", "mode = 7"]),
        (changed(FileChange("a", "x\n", None)), ["a would be deleted\n 1 - x\n"]),
        (changed(FileChange("a", None, "")), ["a is a new file\n(empty)\n"]),
        (changed(FileChange("a", "x\n", "x\n")), ["a already has this text\n"]),
        (changed(FileChange("a", "x", "x\n")), ["+1 -0", "\n 1   x\n 2 + \n"]),
        (changed(FileChange("a", "one two", "3 4 5")), ["\n 1 - one two\n 1 + 3 4 5\n"]),
        (
            changed(FileChange("a", LONG, f"0\n{LONG}\n0")),
            ["\n  1 + 0\n  2   1\n  ⋯\n 10   9\n 11 + 0\n"],
        ),
        (
            changed(FileChange("a", "x", "y"), FileChange("b", "x", "y"), headline="Patch a, b"),
            ["\na\n 1 - x", "\nb\n 1 - x"],
        ),
    ],
)
async def test_what_a_question_shows(pending: Pending, rows: list[str]) -> None:
    _, shown = await press(pending, "l")

    assert [row for row in rows if row not in shown] == []
