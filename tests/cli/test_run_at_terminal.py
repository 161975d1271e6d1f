"""`handrail run` at a terminal, and `--plain` there and in a chat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from inline_snapshot import snapshot

from cli.terminal import Pty
from cli_harness import Handrail
from handrail._version import __version__

MODEL = """
import anyio
from handrail import READ, Call, Context, Text, tool
from handrail.messages import Delta, ModelError, Reply, Usage
from handrail.tools import todo

PLAN = [{"content": "Look", "status": "completed"}, {"content": "Mark", "status": "in_progress"}]
EDIT = {"file_path": "notes.txt", "old_string": "two", "new_string": "two!"}
STEPS = [
    (["Let me **look**.\\n\\n", "- at `notes`"], [
        Call("todo", {"todos": PLAN}, "c1"), Call("read", {"file_path": "notes.txt"}, "c2"),
        Call("slow", {}, "c3"), Call("no", {}, "c4"),
    ]),
    ([], [Call("edit", EDIT, "c5")]),
    (["It is done."], []),
]


@tool(effect=READ, touches=lambda **_: ())
async def slow(context: Context) -> str:
    \"\"\"Take a while.\"\"\"
    await anyio.sleep(1.2)
    return "slept"


tools = [todo(), slow]


async def model(request):
    step = sum(isinstance(message, Reply) for message in request.messages)
    pieces, calls = STEPS[step]
    for piece in pieces:
        yield Delta("I think.", thought=True)
        yield Delta(piece)
    stop = "calls" if calls else "end"
    used = Usage(input_tokens=1000, output_tokens=50)
    yield Reply((Text("".join(pieces) or "I mark it."), *calls), stop, used)


async def broken(request):
    raise ModelError("It is busy.", "overloaded")
"""
Open = Callable[..., Pty]
_SECONDS = re.compile(r"\b[\d.]+ m?s(econds)?\b")


@pytest.fixture
def opened(handrail: Handrail) -> Iterator[Open]:
    made: list[Pty] = []
    handrail.write("model.py", MODEL)
    handrail.write("notes.txt", "one\ntwo\n")

    def start(command: str, *arguments: str) -> Pty:
        tools = ["--tools", "coding", "--tools", "model.py:tools", "--without", "bash"]
        made.append(Pty(handrail, command, "--model", "model.py:model", *tools, *arguments))
        return made[-1]

    yield start
    for one in made:
        one.end()


def rows_of(text: str) -> list[str]:
    """The rows, without colors, ids and times."""
    shown = re.sub(r"\x1b\[\??[0-9;]*[a-zA-Z]", "", text)
    rows = re.split("[\r\n]", shown.replace("\r\n", "\n"))
    return [_SECONDS.sub("1 s", re.sub(r"\d{8}-\d{6}-\w{6}", "ID", row)).rstrip() for row in rows]


def test_a_run_has_the_face_of_a_chat(opened: Open) -> None:
    pty = opened("run", "--mode", "edits", "Mark it.")

    assert pty.ends() == 0
    assert "\x1b[?2026h" in pty.seen  # rows that change
    rows = {" ".join(row.split()) for row in rows_of(pty.seen)}
    assert [row for row in DRAWN if row not in rows] == []


DRAWN = [
    "run ID",
    "Let me look.",  # without the signs of Markdown
    "- at notes",
    "✓ Plan 1 of 2 done #1",
    "✓ Read notes.txt 2 lines #2",
    "✓ slow 1 line · 1 s #3",
    "│ slept",
    "✗ no unknown tool #4",
    "I mark it.",
    "✓ Edit notes.txt +1 -1 #5",
    "│ 1 one",
    "│ 2 - two",
    "│ 2 + two!",
    "It is done.",
    "Plan 1 of 2 done",
    "✓ Look",
    "▸ Mark",
    "edits 3,150 tokens",
    "done: 3 turns, 5 calls, 3,000 tokens in, 150 out",
]


def _without_report(rows: list[str]) -> list[str]:
    """Rows as if no call had been reported while it ran: a slow machine may report it late."""
    rest = [row for row in rows if row != "Call 3: slow. Running."]
    return [row.replace("Call 3: Done", "Call 3: slow. Done") for row in rest]


def test_a_run_in_words(opened: Open) -> None:
    pty = opened("run", "--plain", "--mode", "edits", "Mark it.")

    assert pty.ends() == 0
    assert "\x1b" not in pty.seen
    assert sorted(_without_report(rows_of(pty.seen))) == snapshot(
        [
            "",
            "",
            "  - at `notes`",
            "  done: Look",
            "  now: Mark",
            "  read, slow, task, todo, web_fetch, write.",
            "  | There is no tool 'no'. Available tools: apply_patch, edit, glob, grep,",
            "  | added 2: two!",
            "  | removed 2: two",
            "  | slept",
            "Call 1: Plan. Done, 1 of 2 done.",
            "Call 2: Read notes.txt. Done, 2 lines.",
            "Call 3: slow. Done, 1 line, 1 s.",
            "Call 4: no. Failed, unknown tool.",
            "Call 5: Edit notes.txt. Done, 1 line.",
            "Model: I mark it.",
            "Model: It is done.",
            "Model: Let me **look**.",
            "Plan: 1 of 2 done.",
            "Used: 3,150 tokens.",
            "done: 3 turns, 5 calls, 3,000 tokens in, 150 out",
            "run ID",
        ]
    )  # calls end in any order


def test_a_chat_in_words_asks_in_words(opened: Open, handrail: Handrail) -> None:
    pty = opened("chat", "--plain", "Mark it.")
    before = pty.sees("your answer: ")
    pty.types("y\r")
    after = pty.sees("> ")
    pty.types("/quit\r")

    assert (pty.ends(), (handrail.workspace / "notes.txt").read_text(encoding="utf-8")) == (
        0,
        "one\ntwo!\n",
    )
    assert "\x1b" not in before + after
    assert rows_of(before)[-11:] == snapshot(
        [
            "Model: I mark it.",
            "",
            "Question: Edit notes.txt, line 2? 1 added, 1 removed, /undo can undo it",
            "",
            "  1   one",
            "  | removed 2: two",
            "  | added 2: two!",
            "",
            "  Allow `edit` to change notes.txt? Asked by mode ask.",
            "Answer with y (yes), a (yes to all edits in this run), n (no) or ? (more).",
            "",
        ]
    )
    assert rows_of(after) == snapshot(
        [
            "y",
            "Call 5: Edit notes.txt. Done, 1 line.",
            "  | removed 2: two",
            "  | added 2: two!",
            "Model: It is done.",
            "Plan: 1 of 2 done.",
            "  done: Look",
            "  now: Mark",
            "Used: 3,150 tokens.",
            "",
        ]
    )


def test_an_error_of_the_model_ends_a_drawn_run(opened: Open) -> None:
    pty = opened("run", "--model", "model.py:broken", "Mark it.")

    assert pty.ends() == 6
    assert "handrail: It is busy." in pty.seen
    assert pty.restored


@pytest.mark.parametrize(
    ("arguments", "term", "begins"),
    [
        (("chat",), "xterm", f"handrail {__version__} …\rno model is set; choose one\r\n"),
        ((), "xterm", f"handrail {__version__} …\rno model is set; choose one\r\n"),
        ((), "dumb", "no model is set; choose one\r\n"),
        (("chat", "--plain"), "xterm", "no model is set; choose one\r\n"),
    ],
)
def test_a_chat_says_at_once_that_it_starts(
    handrail: Handrail, arguments: tuple[str, ...], term: str, begins: str
) -> None:
    pty = Pty(handrail, *arguments, env={"TERM": term, "HANDRAIL_PLAIN": ""})
    pty.sees("Model: ")
    pty.types("\x03")
    while not pty.ends_within(0.5):  # readline has shown its prompt, and did not read yet
        pty.types("\x03")

    assert pty.ends() == 130
    assert pty.seen.startswith(begins)
