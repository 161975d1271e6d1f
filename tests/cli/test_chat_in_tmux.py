"""A chat in a real terminal: what is on the screen, and what keys do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from inline_snapshot import snapshot

from cli.terminal import Open, Tmux, opened
from cli_harness import Handrail

ANSWER = "your answer:"
WIDTHS = [80, pytest.param(120, marks=pytest.mark.soak)]
"""Both take long, and show the same. The first test below has both."""
MODEL = """
import anyio
from handrail import Call, Text
from handrail.messages import Delta, Reply, ToolResults
from handrail.testing import ScriptedModel


def edit(old, new, call_id):
    args = {"file_path": "notes.txt", "old_string": old, "new_string": new}
    return Call("edit", args, call_id)


read = Call("read", {"file_path": "notes.txt"}, "c1")
mark = edit("two", "two!", "c2")
"""


@pytest.fixture
def tmux(handrail: Handrail) -> Iterator[Open]:
    handrail.write("notes.txt", "one\ntwo\nthree\n")
    yield from opened(handrail)


def chats(pane: Tmux, model: str, *arguments: str) -> None:
    """Begin a chat with a model that is written here."""
    pane.handrail.write("model.py", MODEL + model)
    pane.runs("chat", "--model", "model.py:model", *arguments)


def notes(pane: Tmux) -> str:
    return (pane.handrail.workspace / "notes.txt").read_text(encoding="utf-8")


EDITS = """
model = ScriptedModel(
    ["Let me look.", read],
    ["I mark the second line.", mark],
    "The second line is marked now.",
)
"""


def test_one_key_lets_all_edits_of_the_run_through(tmux: Open) -> None:
    pane = tmux(80)
    again = """
model = ScriptedModel(
    ["Let me look.", read],
    ["I mark the second line.", mark],
    ["And the third.", edit("three", "three!", "c3")],
    "Both are marked now.",
)
"""
    pane.handrail.write("model.py", MODEL + again)
    pane.runs("chat", "--model", "model.py:model", "Mark it.", env={"HANDRAIL_PLAIN": ""})
    pane.shows("▸ y yes")
    pane.types("a", enter=False)
    pane.shows("Both are marked now.")
    pane.answers("/quit", after="edits · model.py:model")

    assert (pane.ends(), notes(pane)) == (0, "one\ntwo!\nthree!\n")


@pytest.mark.parametrize("width", [80, 120])
def test_an_edit_is_shown_as_a_diff_and_y_runs_it(tmux: Open, width: int) -> None:
    pane = tmux(width)
    chats(pane, EDITS, "Mark the second line.")
    pane.answers("y", after=ANSWER)
    pane.shows("marked now.")
    pane.answers("/quit", after="\n>")
    shown = pane.shows("resume this chat")

    assert (pane.ends(), notes(pane)) == (0, "one\ntwo!\nthree\n")
    assert (
        shown
        == snapshot(
            {
                80: [
                    "handrail 0.1.0  model.py:model  mode ask  12 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and",
                    "  everything else need approval",
                    "",
                    "  Let me look.",
                    "",
                    "✓ Read notes.txt  3 lines  #1",
                    "",
                    "  I mark the second line.",
                    "",
                    "┃ Edit notes.txt, line 2?                            +1 -1 · /undo can undo it",
                    "┃",
                    "┃  1   one",
                    "┃  2 - two",
                    "┃  2 + two!",
                    "┃  3   three",
                    "┃",
                    "┃   Allow `edit` to change notes.txt? Asked by mode ask.",
                    "┃   y yes      a yes to all edits in this run      n no      ? more",
                    "┃ your answer: y",
                    "",
                    "✓ Edit notes.txt  +1 -1  #2",
                    "",
                    "  The second line is marked now.",
                    "> /quit",
                    "resume this chat with `handrail chat --resume ID`",
                ],
                120: [
                    "handrail 0.1.0  model.py:model  mode ask  12 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and everything else need approval",
                    "",
                    "  Let me look.",
                    "",
                    "✓ Read notes.txt  3 lines  #1",
                    "",
                    "  I mark the second line.",
                    "",
                    "┃ Edit notes.txt, line 2?                                                 +1 -1 · /undo can undo it",
                    "┃",
                    "┃  1   one",
                    "┃  2 - two",
                    "┃  2 + two!",
                    "┃  3   three",
                    "┃",
                    "┃   Allow `edit` to change notes.txt? Asked by mode ask.",
                    "┃   y yes      a yes to all edits in this run      n no      ? more",
                    "┃ your answer: y",
                    "",
                    "✓ Edit notes.txt  +1 -1  #2",
                    "",
                    "  The second line is marked now.",
                    "> /quit",
                    "resume this chat with `handrail chat --resume ID`",
                ],
            }
        )[width]
    )


FEEDBACK = """
def obey(request):
    return Reply((Text("You said: " + request.messages[-1].results[0].text), edit("two", "2", "c3")))


model = ScriptedModel(["I mark it.", mark], obey, "It is a number now.")
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_no_with_words_is_something_that_the_model_acts_on(tmux: Open, width: int) -> None:
    pane = tmux(width, 60)
    chats(pane, FEEDBACK, "Change the second line.")
    pane.answers("n", after=ANSWER)
    pane.answers("Write a number.", after="What should the model")
    pane.answers("y", after=ANSWER, times=2)
    pane.shows("It is a number now.")
    shown = pane.shows("\n>")

    assert notes(pane) == "one\n2\nthree\n"
    assert (
        shown
        == snapshot(
            {
                80: [
                    "handrail 0.1.0  model.py:model  mode ask  12 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and",
                    "  everything else need approval",
                    "",
                    "  I mark it.",
                    "",
                    "┃ Edit notes.txt, line 2?                            +1 -1 · /undo can undo it",
                    "┃",
                    "┃  1   one",
                    "┃  2 - two",
                    "┃  2 + two!",
                    "┃  3   three",
                    "┃",
                    "┃   Allow `edit` to change notes.txt? Asked by mode ask.",
                    "┃   y yes      a yes to all edits in this run      n no      ? more",
                    "┃ your answer: n",
                    "┃ What should the model do instead? (Enter: say nothing) Write a number.",
                    "",
                    "⊘ Edit notes.txt  denied  #1",
                    "  │ Not run: the user denied this call. Do not work around this. Their",
                    "  ┊ message: Write a number.",
                    "",
                    "  You said: Not run: the user denied this call. Do not work around this. Their",
                    "  message: Write a number.",
                    "",
                    "┃ Edit notes.txt, line 2?                            +1 -1 · /undo can undo it",
                    "┃",
                    "┃  1   one",
                    "┃  2 - two",
                    "┃  2 + 2",
                    "┃  3   three",
                    "┃",
                    "┃   Allow `edit` to change notes.txt? Asked by mode ask.",
                    "┃   y yes      a yes to all edits in this run      n no      ? more",
                    "┃ your answer: y",
                    "",
                    "✓ Edit notes.txt  +1 -1  #2",
                    "",
                    "  It is a number now.",
                    ">",
                ],
                120: [
                    "handrail 0.1.0  model.py:model  mode ask  9 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and everything else need approval",
                    "",
                    "  I mark it.",
                    "",
                    "┃ Edit notes.txt, line 2?                                                 +1 -1 · /undo can undo it",
                    "┃",
                    "┃  1   one",
                    "┃  2 - two",
                    "┃  2 + two!",
                    "┃  3   three",
                    "┃",
                    "┃   Allow `edit` to change notes.txt? Asked by mode ask.",
                    "┃   y yes      a yes to all edits in this run      n no      ? more",
                    "┃ your answer: n",
                    "┃ What should the model do instead? (Enter: say nothing) Write a number.",
                    "",
                    "⊘ Edit notes.txt  denied  #1",
                    "  │ Not run: the user denied this call. Do not work around this. Their message: Write a number.",
                    "",
                    "  You said: Not run: the user denied this call. Do not work around this. Their message: Write a",
                    "  number.",
                    "",
                    "┃ Edit notes.txt, line 2?                                                 +1 -1 · /undo can undo it",
                    "┃",
                    "┃  1   one",
                    "┃  2 - two",
                    "┃  2 + 2",
                    "┃  3   three",
                    "┃",
                    "┃   Allow `edit` to change notes.txt? Asked by mode ask.",
                    "┃   y yes      a yes to all edits in this run      n no      ? more",
                    "┃ your answer: y",
                    "",
                    "✓ Edit notes.txt  1 line  #2",
                    "",
                    "  It is a number now.",
                    ">",
                ],
            }
        )[width]
    )


REMEMBERED = """
model = ScriptedModel(
    mark, edit("one", "one!", "c3"), "Both are marked.",
)
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_rule_is_remembered_and_the_next_change_is_shown_when_it_is_made(
    tmux: Open, width: int
) -> None:
    pane = tmux(width, 60)
    chats(pane, REMEMBERED, "Mark the lines.")
    pane.answers("p", after=ANSWER)
    pane.answers("p", after="remember for")
    pane.answers("y", after="store it? y/n:")
    pane.shows("Both are marked.")
    shown = pane.shows("\n>")
    [stored] = (pane.handrail.config / "projects").glob("*.toml")

    assert notes(pane) == "one!\ntwo!\nthree\n"
    assert str(stored) in "".join(row.removeprefix("┃ ┊ ") for row in shown)
    assert (
        _lasting(shown, pane)
        == snapshot(
            {
                80: [
                    "handrail 0.1.0  model.py:model  mode ask  12 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and",
                    "  everything else need approval",
                    "",
                    "",
                    "┃ Edit notes.txt, line 2?                            +1 -1 · /undo can undo it",
                    "┃",
                    "┃  1   one",
                    "┃  2 - two",
                    "┃  2 + two!",
                    "┃  3   three",
                    "┃",
                    "┃   Allow `edit` to change notes.txt? Asked by mode ask.",
                    "┃   y yes      a yes to all edits in this run      n no      ? more",
                    "┃ your answer: p",
                    "┃   r  this run",
                    "┃   p  this project",
                    "┃   w  all projects",
                    "┃ remember for (Enter to go back): p",
                    "┃ rule:",
                    "┃ │ [[rule]]",
                    '┃ │ id = "…"',
                    '┃ │ decide = "allow"',
                    '┃ │ tools = ["edit"]',
                    '┃ │ access = ["read file:notes.txt", "write file:notes.txt"]',
                    '┃ │ reason = "remembered on …"',
                    "┃ │ expires = …",
                    "┃ scope: this project",
                    "┃ This approves the call and stores the rule.",
                    "┃ store it? y/n: y",
                    "✓ Edit notes.txt  +1 -1  #1",
                    "✓ Edit notes.txt  +1 -1  #2",
                    "  │ 1 - one",
                    "  │ 1 + one!",
                    "  │ 2   two!",
                    "",
                    "  Both are marked.",
                    ">",
                ],
                120: [
                    "handrail 0.1.0  model.py:model  mode ask  9 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and everything else need approval",
                    "",
                    "",
                    "┃ Edit notes.txt, line 2?                                                 +1 -1 · /undo can undo it",
                    "┃",
                    "┃  1   one",
                    "┃  2 - two",
                    "┃  2 + two!",
                    "┃  3   three",
                    "┃",
                    "┃   Allow `edit` to change notes.txt? Asked by mode ask.",
                    "┃   y yes      a yes to all edits in this run      n no      ? more",
                    "┃ your answer: p",
                    "┃   r  this run",
                    "┃   p  this project",
                    "┃   w  all projects",
                    "┃ remember for (Enter to go back): p",
                    "┃ rule:",
                    "┃ │ [[rule]]",
                    '┃ │ id = "…"',
                    '┃ │ decide = "allow"',
                    '┃ │ tools = ["edit"]',
                    '┃ │ access = ["read file:notes.txt", "write file:notes.txt"]',
                    '┃ │ reason = "remembered on …"',
                    "┃ │ expires = …",
                    "┃ scope: this project",
                    "┃ This approves the call and stores the rule.",
                    "┃ store it? y/n: y",
                    "✓ Edit notes.txt  1 line  #1",
                    "✓ Edit notes.txt  1 line  #2",
                    "  │ 1 - one",
                    "  │ 1 + one!",
                    "  │ 2   two!",
                    "",
                    "  Both are marked.",
                    ">",
                ],
            }
        )[width]
    )


def _lasting(rows: list[str], pane: Tmux) -> list[str]:
    """Rows without what is another at each run: folders, dates, and what they are broken into."""
    kept = [row for row in rows if not row.startswith(("┃ file:", "┃ ┊ "))]
    return [re.sub(r"remembered-\w+|\d{4}-\d\d-\d\d", "…", row) for row in kept]


WAITS = """
async def model(request):
    if len(request.messages) == 1:
        yield Delta("This takes ")
        yield Delta("a while ")
        await anyio.sleep_forever()
    yield Reply((Text(f"I heard {len(request.messages)} messages."),))
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_an_interrupt_keeps_what_was_said_and_leads_back_to_the_prompt(
    tmux: Open, width: int
) -> None:
    pane = tmux(width)
    chats(pane, WAITS, "Think.")
    pane.shows("This takes a")
    pane.presses("C-c")
    pane.shows("stopped;")
    pane.answers("Never mind.", after=">")
    pane.shows("messages.\n>")
    pane.presses("C-c")

    assert pane.ends() == 130
    assert (
        pane.shows("resume this chat")
        == snapshot(
            {
                80: [
                    "handrail 0.1.0  model.py:model  mode ask  12 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and",
                    "  everything else need approval",
                    "",
                    "  This takes a while",
                    "stopped; press Enter to continue, or type a new message",
                    "> Never mind.",
                    "  I heard 3 messages.",
                    ">",
                    "resume this chat with `handrail chat --resume ID`",
                ],
                120: [
                    "handrail 0.1.0  model.py:model  mode ask  9 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and everything else need approval",
                    "",
                    "  This takes a while",
                    "stopped; press Enter to continue, or type a new message",
                    "> Never mind.",
                    "  I heard 3 messages.",
                    ">",
                    "resume this chat with `handrail chat --resume ID`",
                ],
            }
        )[width]
    )


FIRST = """
model = ScriptedModel("Hello, I am new here.")
"""
SECOND = """
model = ScriptedModel(
    lambda request: Reply((Text("You said before: " + request.messages[0].parts[0].text),))
)
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_chat_goes_on_in_another_process(tmux: Open, width: int) -> None:
    pane = tmux(width)
    chats(pane, FIRST, "My name is Ada.")
    pane.shows("I am new here.\n>")
    pane.presses("C-d")
    first = pane.ends()
    chats(pane, SECOND, "--resume", "last")
    pane.answers("What is my name?", after="I am new here.\n>")
    pane.shows("You said before: My name is Ada.\n>")
    pane.presses("C-d")

    assert (first, pane.ends()) == (0, 0)
    assert (
        pane.shows("resume this chat")
        == snapshot(
            {
                80: [
                    "handrail 0.1.0  model.py:model  mode ask  12 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and",
                    "  everything else need approval",
                    "",
                    "  Hello, I am new here.",
                    "> What is my name?",
                    "  You said before: My name is Ada.",
                    ">",
                    "resume this chat with `handrail chat --resume ID`",
                ],
                120: [
                    "handrail 0.1.0  model.py:model  mode ask  9 tools  /help",
                    "",
                    "  with a sandbox, reading and common development commands run; secrets and everything else need approval",
                    "",
                    "  Hello, I am new here.",
                    "> What is my name?",
                    "  You said before: My name is Ada.",
                    ">",
                    "resume this chat with `handrail chat --resume ID`",
                ],
            }
        )[width]
    )


UNDONE = """
model = ScriptedModel(
    mark, edit("one", "one!", "c3"), "Both are marked.",
    lambda request: Reply((Text(" ".join(part.text for part in request.messages[-1].parts)),)),
)
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_changes_are_taken_back_one_by_one_and_the_model_hears_of_it(
    tmux: Open, width: int
) -> None:
    pane = tmux(width, 60)
    chats(pane, UNDONE, "Mark the lines.", "--mode", "edits")
    pane.answers("/undo", after="Both are marked.\n>")
    pane.shows("undid the last")
    once = notes(pane)
    pane.answers("/undo", after="to notes.txt\n>")
    pane.answers("/undo", after="to notes.txt\n>", times=2)
    pane.answers("What now?", after="nothing to undo\n>")
    shown = pane.shows("What now?\n>")

    assert (once, notes(pane)) == ("one\ntwo!\nthree\n", "one\ntwo\nthree\n")
    assert (
        shown
        == snapshot(
            {
                80: [
                    "handrail 0.1.0  model.py:model  mode edits  12 tools  /help",
                    "",
                    "  with a sandbox, commands that cannot be checked, lose work, change settings,",
                    "  use credentials or reach other machines, protected files and secrets need",
                    "  approval; everything else runs",
                    "",
                    "✓ Edit notes.txt  +1 -1  #1",
                    "  │ 1   one",
                    "  │ 2 - two",
                    "  │ 2 + two!",
                    "  │ 3   three",
                    "✓ Edit notes.txt  +1 -1  #2",
                    "  │ 1 - one",
                    "  │ 1 + one!",
                    "  │ 2   two!",
                    "",
                    "  Both are marked.",
                    "> /undo",
                    "undid the last change to notes.txt",
                    "> /undo",
                    "undid the last change to notes.txt",
                    "> /undo",
                    "nothing to undo",
                    "> What now?",
                    "  The user undid your last change to 'notes.txt'. The user undid your last",
                    "  change to 'notes.txt'. What now?",
                    ">",
                ],
                120: [
                    "handrail 0.1.0  model.py:model  mode edits  9 tools  /help",
                    "",
                    "  with a sandbox, commands that cannot be checked, lose work, change settings, use credentials or reach other machines,",
                    "  protected files and secrets need approval; everything else runs",
                    "",
                    "✓ Edit notes.txt  1 line  #1",
                    "  │ 1   one",
                    "  │ 2 - two",
                    "  │ 2 + two!",
                    "  │ 3   three",
                    "✓ Edit notes.txt  1 line  #2",
                    "  │ 1 - one",
                    "  │ 1 + one!",
                    "  │ 2   two!",
                    "",
                    "  Both are marked.",
                    "> /undo",
                    "undid the last change to notes.txt",
                    "> /undo",
                    "undid the last change to notes.txt",
                    "> /undo",
                    "nothing to undo",
                    "> What now?",
                    "  The user undid your last change to 'notes.txt'. The user undid your last change to 'notes.txt'.",
                    "  What now?",
                    ">",
                ],
            }
        )[width]
    )


SLOW = """
from handrail import READ, Context, tool


@tool(effect=READ)
async def dig(depth: int, context: Context) -> str:
    \"\"\"Dig a hole.\"\"\"
    context.progress("half \\x1b[31mof it")
    await anyio.sleep_forever()


model = ScriptedModel(["I dig.", Call("dig", {"depth": 3}, "c1")])
"""


def test_a_call_is_shown_while_it_runs_with_its_time_and_how_far_it_is(tmux: Open) -> None:
    pane = tmux(80)
    chats(pane, SLOW, "Dig.", "-t", "model.py:dig")
    pane.shows("half")
    during = pane.shows("working")  # the call begins while the model still writes
    pane.presses("C-c")
    after = pane.shows("a new message\n>")

    assert during == snapshot(
        [
            "handrail 0.1.0  model.py:model  mode ask  1 tool  /help",
            "",
            "  without a sandbox, reading runs; secrets and everything else need approval",
            "",
            "  I dig.",
            "",
            "⠋ dig 3  #1",
            "  │ half \\u{1B}[31mof it",
            "  ask · working · Ctrl+C stops",
        ]
    )
    assert after == snapshot(
        [
            "handrail 0.1.0  model.py:model  mode ask  1 tool  /help",
            "",
            "  without a sandbox, reading runs; secrets and everything else need approval",
            "",
            "  I dig.",
            "",
            "✗ dig 3  cancelled  #1",
            "  │ Cancelled while it ran.",
            "stopped; press Enter to continue, or type a new message",
            ">",
        ]
    )
