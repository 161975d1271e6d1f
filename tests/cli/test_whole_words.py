"""No word is split on any screen, at any width from 40 to 120 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType

import pytest

from approvals.questions import asked
from cli.chat.test_markdown import REPLY
from cli.commands.test_runs import JOURNAL
from cli.runs.test_timeline import timeline
from handrail import DESTROY, Call, Result
from handrail.approvals._question import render_question
from handrail.approvals._view import view_request
from handrail.cli._base.columns import columns
from handrail.cli._chat.activity import JobList, Plan, RunningCall, call_rows
from handrail.cli._chat.calls import bar_row, ending_of, output_rows, title_of, title_row
from handrail.cli._chat.meter import Meter
from handrail.cli._runs.timeline import fit_line
from handrail.cli._screen.markdown import Markdown
from handrail.cli._screen.rows import Row, plain, sent_rows
from handrail.permissions import CommandPart, FileChange, Grade, Pending
from handrail.tools import JobStatus

NARROWEST, WIDEST, ENDLESS = 40, 120, 5_000
PROSE = "Make the tests of the parser pass, and say what was wrong with it, in plain words please."
LINE = "git status && docker compose run --rm tests pytest -q tests/test_parse.py --maxfail=1"
CHANGE = asked(
    {"file_path": "src/parse.py"},
    name="edit",
    headline="Edit src/parse.py, lines 7-8",
    grade=Grade.CHANGE,
    changes=(FileChange("src/parse.py", f"one\n{PROSE}\n", f"one\n{PROSE} And more of it.\n"),),
)
COMMAND = asked(
    {"command": LINE},
    name="bash",
    effect=DESTROY,
    headline="Run this command",
    question=f"Allow this command? `{LINE}` (no rule allows `docker compose run`)",
    parts=(CommandPart(0, 10, "allow", ""), CommandPart(14, len(LINE), "ask", "no rule")),
)
OTHER = asked({"title": PROSE, "body": {"rows": [1, 2, 3]}}, name="tell", headline="Tell everyone")
Screen = Callable[[int], Iterable[str]]


def question(pending: Pending) -> Screen:
    def rows(width: int) -> Iterator[str]:
        drawn = render_question(view_request(pending), workspace=None, width=width, undo="/undo")
        return (line.text for line in drawn.lines)

    return rows


def activity(width: int) -> Iterator[Row]:
    """What changes while a model works."""
    plan, job = Plan(), JobStatus(1, LINE, 240.0, "", PROSE)
    statuses = ("completed", "in_progress", "pending")
    todos = [{"content": f"{PROSE} {one}", "status": one} for one in statuses]
    plan.read(Call("todo", {"todos": todos}, "t"))
    run = Call("bash", {"command": LINE}, "c1")
    calls = [
        RunningCall(run, 1, began=1.0, progress=f"{PROSE}\n{LINE}"),
        RunningCall(Call("read", {"file_path": "src/parse.py"}, "c2"), 2, waits_for=("c1",)),
        RunningCall(Call("bash", {"command": LINE}, "c3"), 3, waits_reason="slot"),
    ]
    yield from plan.rows(width)
    yield from call_rows(calls, 9.0, width)
    yield from JobList(lambda: [job]).rows(width)
    yield bar_row(0.62, PROSE, width)


def ended(width: int) -> Iterator[Row]:
    """A call that has ended, with its output."""
    call = Call("bash", {"command": LINE}, "c1")
    ending = ending_of(call, Result("c1", f"{PROSE}\n{LINE}\n[exit code 1, 4.3 s]"), 4.3)
    yield title_row(ending.glyph, title_of(call), f"{ending.summary}  #1", width)
    yield from output_rows(ending.output, ending.note, width)


def drawn(rows: Callable[[int], Iterable[Row]]) -> Screen:
    return lambda width: (plain(row) for row in rows(width))


def reply(width: int) -> Iterator[Row]:
    text = Markdown(width)
    yield from text.feed(REPLY)
    yield from text.end()


def used(width: int) -> list[Row]:
    meter = Meter()
    meter.mode = "ask"
    return [meter.row("anthropic:claude", width), meter.row(f"working 9 s · {PROSE}", width)]


SCREENS = MappingProxyType(
    {
        "a changed file": question(CHANGE),
        "a command": question(COMMAND),
        "another tool": question(OTHER),
        "what goes on": drawn(activity),
        "what has ended": drawn(ended),
        "a reply": drawn(reply),
        "a message": drawn(lambda width: sent_rows(PROSE, width)),
        "the status": drawn(used),
        "a run": lambda width: timeline(JOURNAL, width),
        "a run in ASCII": lambda width: timeline(JOURNAL, width, ascii_only=True),
        "a run in full": lambda width: timeline(JOURNAL, width, full=True),
        "a list of runs": lambda width: [fit_line(PROSE, width // 2)],
        "a list of tools": lambda width: columns([("bash", "destroy", PROSE)], width=width),
    }
)


def words(rows: Iterable[str]) -> set[str]:
    """What stands between spaces, but no bars, rules and signs: the width decides about them."""
    shown = {word.strip("…").removesuffix("...") for row in rows for word in row.split()}
    return {word for word in shown if any(character.isalnum() for character in word)}


def split_words(screen: Screen, widths: Iterable[int]) -> dict[int, set[str]]:
    """What a screen shows that is not a whole word, by its width."""
    whole = words(screen(ENDLESS))
    assert max(map(len, whole)) < NARROWEST - 8, "a longer word may be split"
    found = {width: words(screen(width)) - whole for width in widths}
    return {width: split for width, split in found.items() if split}


@pytest.mark.parametrize("name", SCREENS)
def test_no_word_is_split_at_any_width(name: str) -> None:
    assert split_words(SCREENS[name], range(NARROWEST, WIDEST + 1)) == {}


def test_a_split_word_is_found() -> None:
    def careless(width: int) -> list[str]:
        return [PROSE[at : at + width] for at in range(0, len(PROSE), width)]

    assert split_words(careless, [40]) == {40: {"ay", "word", "s"}}
