"""Calls, changes, jobs, costs and colors as a chat shows them."""

from __future__ import annotations

import re

import pytest
from inline_snapshot import snapshot

from handrail import Call, FailureKind, Result
from handrail.agent import RunState
from handrail.cli._chat.activity import JobList, Plan, RunningCall, call_rows, ended_rows
from handrail.cli._chat.calls import (
    bar_row,
    ending_of,
    output_rows,
    title_of,
    title_row,
)
from handrail.cli._chat.changes import FileContents, diff_rows
from handrail.cli._chat.meter import Meter
from handrail.cli._screen.code import Highlighter
from handrail.cli._screen.rows import Row, Span, plain
from handrail.cli._screen.theme import ROLES, Theme, choose_theme
from handrail.messages import Prompt, Reply, Usage
from handrail.testing import ScriptedModel
from handrail.tools import JobStatus


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("read", {"file_path": "a b"}, "Read a b"),
        ("bash", {"command": "\nls   -l\ntrue\x1b"}, "Run ls -l …"),
        ("bash", {"command": 7}, "bash 7"),
        ("todo", {"todos": []}, "Plan"),
        ("go", {"path": "a", "on": True}, "go a"),
        ("go", {"on": [1, "\x1b"]}, 'go [1, "\\u001b"]'),
        ("go", '{"path": "a\\n\\u001b"}', "go a …"),
        ("go", "[1]", "go [1]"),
        ("go", '{"pa', 'go {"pa'),
        ("go\x1b", {}, "go\\u{1B}"),
    ],
)
def test_a_call_says_what_it_does(name: str, args: object, text: str) -> None:
    assert plain(title_of(Call(name, args, "c1"))) == text  # type: ignore[arg-type]


def test_a_title_keeps_whole_words_and_room_for_its_end() -> None:
    sign = Span("✓", "ok")
    rows = [
        title_row(sign, title_of(Call("read", {"file_path": path}, "c")), "2 lines  #1", 40)
        for path in ("a.txt", "one two three four five six", "x" * 50)
    ]

    assert [plain(row) for row in rows] == [
        "✓ Read a.txt                 2 lines  #1",
        "✓ Read one two three …       2 lines  #1",
        "✓ Read …                     2 lines  #1",
    ]
    assert plain(title_row(sign, (Span("a"),), "", 40)) == "✓ a"


def shown(call: Call, result: Result, seconds: float = 0.0, width: int = 40) -> list[str]:
    ending = ending_of(call, result, seconds)
    rows = output_rows(ending.output, ending.note, width, is_end=ending.is_end)
    return [f"{ending.glyph.text} {ending.summary}", *map(plain, rows)]


MANY = "\n".join(f"line {number}" for number in range(9))


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("read", MANY, ["✓ 9 lines"]),
        ("go", MANY, ["✓ 9 lines", "  │ line 0", "  │ line 1", "  │ line 2", "    … 6 more lines"]),
        ("go", "", ["✓ 0 lines"]),
        (
            "bash",
            f"{MANY}\n[exit code 0, 0.2 s]",
            ["✓ exit 0", "    … 7 lines above", "  │ line 7", "  │ line 8"],
        ),
        (
            "bash",
            f"{MANY}\n[exit code 1, 4.3 s, folder x]",
            ["✗ exit 1 · 4.3 s", "    … 7 lines above", "  │ line 7", "  │ line 8"],
        ),
        ("bash", "a\n[killed by SIGKILL, 61 s]", ["✗ killed by SIGKILL · 1m 01s", "  │ a"]),
        ("bash", "Timed out.", ["✓ 1 line", "  │ Timed out."]),
    ],
)
def test_a_result_is_shortened(name: str, text: str, rows: list[str]) -> None:
    assert shown(Call(name, {}, "c1"), Result("c1", text)) == rows


def test_output_that_is_broken_goes_on_behind_another_sign() -> None:
    assert [plain(row) for row in output_rows(["one two three four", "x" * 20, ""], "", 16)] == [
        "  │ one two",
        "  ┊ three four",
        "  │ xxxxxxxxxxxx"[:15],
        "  ┊ xxxxxxxxx",
        "  │",
    ]


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (FailureKind.DENIED, ["⊘ denied · 2.0 s", "  │ No.", "  │ Not that."]),
        (FailureKind.BAD_ARGS, ["✗ bad args · 2.0 s", "  │ No.", "  │ Not that."]),
        (FailureKind.PENDING, ["? waiting for approval"]),
    ],
)
def test_a_failure_is_told_with_its_kind(kind: FailureKind, rows: list[str]) -> None:
    assert shown(Call("go", {}, "c"), Result.fail("c", kind, "No.\nNot that."), 2.0) == rows


def texts(rows: object) -> list[str]:
    return [plain(row) for row in rows]  # type: ignore[attr-defined]


def test_a_change_is_a_diff_with_signs_and_roles() -> None:
    assert list(diff_rows(FileContents("a", b"one\ntwo\n", b"one\n2\n\x1b\n"), 80)) == snapshot(
        [
            (Span(text="  │ ", role="muted"), Span(text="1 ", role="muted"), Span(text="  one")),
            (
                Span(text="  │ ", role="muted"),
                Span(text="2 ", role="muted"),
                Span(text="-", role="removed.sign"),
                Span(text=" two", role="removed"),
                Span(text="   ", role="removed.fill"),
            ),
            (
                Span(text="  │ ", role="muted"),
                Span(text="2 ", role="muted"),
                Span(text="+", role="added.sign"),
                Span(text=" 2", role="added"),
                Span(text="     ", role="added.fill"),
            ),
            (
                Span(text="  │ ", role="muted"),
                Span(text="3 ", role="muted"),
                Span(text="+", role="added.sign"),
                Span(text=" \\u{1B}", role="added"),
            ),
        ]
    )
    assert texts(diff_rows(FileContents("a", None, b"x\n"), 80)) == snapshot(["  │ 1 + x"])
    assert texts(diff_rows(FileContents("a", b"x\n", b"y"), 80)) == snapshot(
        ["  │ 1 - x", "  │ 2 -  ", "  │ 1 + y"]
    )
    far = b"1\n2\n3\n4\n5\n6\n7\n8\n"
    assert texts(diff_rows(FileContents("a", far, b"x\n2\n3\n4\n5\n6\n7\ny\n"), 80)) == snapshot(
        ["  │ 1 - 1", "  │ 1 + x", "  │ 2   2", "  │ ⋯", "  │ 7   7", "  │ 8 - 8", "  │ 8 + y"]
    )


def test_a_long_change_is_cut_and_one_of_a_large_file_is_counted() -> None:
    many = "\n".join(map(str, range(60))).encode()

    assert texts(diff_rows(FileContents("a", b"", many), 80))[-1] == snapshot("    … 48 more rows")
    assert texts(diff_rows(FileContents("a\x1b", b"x" * 99_999, b"xy"), 80)) == [
        "  │ a\\u{1B} changed: 99,999 to 2 characters"
    ]


def test_a_fraction_is_a_bar() -> None:
    assert texts([bar_row(0.6, "1,200 of 2,000", 79), bar_row(7, "", 30), bar_row(0, "x", 79)]) == [
        "    ███████████░░░░░░░░ 60%  1,200 of 2,000",
        "    ███████ 100%",
        "    ░░░░░░░░░░░░░░░░░░░ 0%  x",
    ]


def test_many_running_calls_are_counted() -> None:
    calls = [RunningCall(Call("go", {"n": n}, str(n)), n, began=1.0) for n in range(1, 9)]
    waits = RunningCall(Call("go", {}, "w"), 9, waits_for=("gone",))

    assert [" ".join(text.split()) for text in texts(call_rows([*calls, waits], 1.5, 79))] == [
        "⠹ 9 calls: 8 running, 1 waiting 500 ms",
        *[f"⠹ go {n} #{n}" for n in range(1, 6)],
        "and 3 more",
        "⋯ go waits #9",
    ]


def test_calls_of_one_reply_have_a_heading() -> None:
    one, other = (RunningCall(Call("go", {}, name), 2, asked=True) for name in "ab")
    runs = RunningCall(Call("go", {}, "c"), 3, began=1.0)
    alone = RunningCall(Call("go", {}, "d"), 4, waits_for=("gone",))

    assert texts(call_rows([one, runs], 9.1, 60, 4))[:2] == [
        "⠹ 6 calls: 4 done, 1 running, 1 asks you               8.1 s",
        "  ⠹ go                                             8.1 s  #3",
    ]
    assert texts(call_rows([one, other, runs], 9.1, 60))[:1] == [
        "⠹ 3 calls: 1 running, 2 ask you                        8.1 s"
    ]
    assert texts(call_rows([runs], 9.1, 60)) == [
        "⠹ go                                               8.1 s  #3"
    ]
    assert texts(call_rows([alone, one], 9.1, 60)) == [
        "⋯ go                                               waits  #4"
    ]


def test_a_call_that_waits_says_why() -> None:
    calls = [RunningCall(Call("go", {"n": n}, str(n)), n, began=1.0) for n in range(1, 6)]
    waiting = [
        RunningCall(Call("go", {}, "a"), 6, waits_for=("1",), waits_about="file:a.txt"),
        RunningCall(Call("go", {}, "b"), 7, waits_for=("1", "2"), waits_about="x" * 31),
        RunningCall(Call("go", {}, "c"), 8, waits_for=("1", "2", "3", "4", "5")),
        RunningCall(Call("go", {}, "d"), 9, waits_reason="slot", waits_about="bash\x1b"),
        RunningCall(Call("go", {}, "e"), 10, waits_for=("1",), waits_reason="slot"),
        RunningCall(Call("go", {}, "f"), 11),
    ]

    rows = texts(call_rows([*calls, *waiting], 1.5, 79))[len(calls) + 1 :]
    assert [" ".join(text.split()) for text in rows] == [
        "⋯ go waits for #1: file:a.txt #6",
        "⋯ go waits for #1 and #2 #7",
        "⋯ go waits for #1, #2, #3 and 2 more #8",
        "⋯ go waits for a free slot of bash\\u{1B} #9",
        "⋯ go waits for a free slot #10",
    ]


def test_a_long_plan_folds_what_is_done() -> None:
    plan = Plan()
    steps = ["completed"] * 4 + ["in_progress"] + ["pending"] * 9
    todos = [{"content": f"Step {n}", "status": status} for n, status in enumerate(steps)]
    plan.read(Call("todo", {"todos": todos}, "t"))
    plan.read(Call("todo", "not read", "t"))

    assert [" ".join(text.split()) for text in texts(plan.rows(79))] == [
        "Plan 4 of 14 done",
        "✓ 4 done",
        "▸ Step 4",
        *[f"▫ Step {n}" for n in range(5, 12)],
        "… 2 more",
    ]
    plan.read(Call("todo", {"todos": "none"}, "t"))
    assert list(plan.rows(79)) == []


def job(number: int, ending: str = "", seconds: float = 240.0, last_line: str = "") -> JobStatus:
    return JobStatus(number, "npm  run dev", seconds, ending, last_line)


def test_jobs_have_a_row_with_their_last_line_until_they_end() -> None:
    now: list[JobStatus] = []
    jobs = JobList(lambda: now)
    now[:] = [job(1, last_line="up\x1b"), job(2), job(3, "exit code 0")]
    began = texts(jobs.rows(79)), jobs.take_ended()
    now[:] = [job(1, "exit code 0", 241), job(2, "killed by SIGTERM", 241, last_line="so?"), job(4)]
    ended = [texts(ended_rows(one, 46)) for one in jobs.take_ended()]
    now[:] = [job(4, "stopped")]

    assert began == (
        ["  Job 1  npm run dev   4m   “up\\u{1B}”", "  Job 2  npm run dev   4m"],
        [],
    )
    assert ended == [
        ["✓ Job 1  npm run dev           exit 0 · 4m 01s"],
        ["✗ Job 2  npm …      killed by SIGTERM · 4m 01s", "  │ so?"],
    ]
    assert (texts(jobs.rows(79)), jobs.take_ended()) == ([], [])


def reply(tokens: int, model: str = "gpt-5") -> Reply:
    return Reply((), usage=Usage(input_tokens=tokens, output_tokens=10), model=model)


def meter(*replies: Reply) -> Meter:
    one = Meter()
    one.mode, one.window = "ask", 200_000
    one.read(RunState(messages=(Prompt.of("Hi."), *replies)), ScriptedModel())
    return one


def test_what_was_used_is_in_one_row() -> None:
    rows = {
        "nothing": meter().row("gpt-5", 60),
        "little": meter(reply(100)).row("gpt-5", 60),
        "more": meter(reply(100_000), reply(20_000)).row("gpt-5", 60),
        "full": meter(reply(180_000)).row("gpt-5", 60),
        "no price": meter(reply(100), reply(100, "of my own")).row("x\x1b", 60),
        "narrower": meter(reply(180_000)).row("gpt-5", 20),
        "narrow": meter(reply(180_000)).row("a long name of a model", 40),
        "waits": meter(reply(20_000)).row("overloaded, next try in 8 s", 40, is_busy=True),
    }
    open_, unknown = meter(Reply(())), meter(reply(100))
    open_.mode, unknown.window = "open", None

    assert {name: plain(row) for name, row in rows.items()} == snapshot(
        {
            "nothing": "  ask · gpt-5",
            "little": "  ask · gpt-5 · 0% of 200k context               under $0.01",
            "more": "  ask · gpt-5 · 10% of 200k context                    $0.15",
            "full": "  ask · gpt-5 · ! 90% of 200k context, /compact        $0.23",
            "no price": "  ask · x\\u{1B} · 0% of 200k context              220 tokens",
            "narrower": "  ask",
            "narrow": "  ask · ! 90% of 200k context, /compact",
            "waits": "  ask · overloaded, next try in 8 s",
        }
    )
    assert [plain(open_.row("", 60)), plain(unknown.row("", 60))] == [
        "  ! open", "  ask                                            under $0.01",
    ]  # fmt: skip
    assert [meter(reply(20_000)).sentence, unknown.sentence] == [
        "Used: 20,010 tokens, 0.03 dollars, 10 percent of the context.",
        "Used: 110 tokens, 0.00 dollars.",
    ]
    assert [meter().money, meter(reply(1, "mine")).money] == [
        "$0.00", "not known: the model has no known price",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "lines"),
    [
        ("python", ['def f(): return "a", 1  # note', 'x = """one', 'two""" + y', "'open"]),
        ("js", ["const x = `a", "b` /* note", "more */ + 1 // end"]),
        ("sh", ["$ git log -3 # note", "if true; then x#y; fi"]),
        ("sql", ["SELECT a FROM b -- note"]),
        ("diff", ["+new", "-old", " same"]),
        ("brainfuck", ["def x"]),
        ("", ["def x", "y" * 2_001]),
    ],
)
def test_code_is_in_roles_and_its_text_unchanged(language: str, lines: list[str]) -> None:
    colors = Highlighter(language)
    rows = [colors.color(line) for line in lines]

    assert texts(rows) == lines
    if language in {"python", "js", "sh", "sql", "diff"}:
        assert {language: [[s for s in row if s.role != "text"] for row in rows]} == CODE[language]
    else:
        assert {span.role for row in rows for span in row} == {"text"}


CODE = {
    "python": snapshot(
        {
            "python": [
                [
                    Span(text="def", role="code.word"),
                    Span(text="f", role="code.name"),
                    Span(text="return", role="code.word"),
                    Span(text='"a"', role="code.text"),
                    Span(text="1", role="code.number"),
                    Span(text="# note", role="code.note"),
                ],
                [Span(text='"""one', role="code.text")],
                [Span(text='two"""', role="code.text")],
                [Span(text="'open", role="code.text")],
            ]
        }
    ),
    "js": snapshot(
        {
            "js": [
                [Span(text="const", role="code.word"), Span(text="`a", role="code.text")],
                [Span(text="b`", role="code.text"), Span(text="/* note", role="code.note")],
                [
                    Span(text="more */", role="code.note"),
                    Span(text="1", role="code.number"),
                    Span(text="// end", role="code.note"),
                ],
            ]
        }
    ),
    "sh": snapshot(
        {
            "sh": [
                [
                    Span(text="git", role="code.name"),
                    Span(text="3", role="code.number"),
                    Span(text="# note", role="code.note"),
                ],
                [
                    Span(text="if", role="code.word"),
                    Span(text="then", role="code.word"),
                    Span(text="fi", role="code.word"),
                ],
            ]
        }
    ),
    "sql": snapshot(
        {
            "sql": [
                [
                    Span(text="SELECT", role="code.word"),
                    Span(text="FROM", role="code.word"),
                    Span(text="-- note", role="code.note"),
                ]
            ]
        }
    ),
    "diff": snapshot(
        {"diff": [[Span(text="+new", role="added")], [Span(text="-old", role="removed")], []]}
    ),
}


def test_only_the_first_rows_of_a_block_are_colored() -> None:
    colors = Highlighter("python")

    assert [len(colors.color("def f()")) for _ in range(402)] == [4] * 400 + [1, 1]


def test_themes_follow_the_ground_and_the_terminal() -> None:
    deep, some = {"COLORTERM": "truecolor"}, {"TERM": "xterm-256color"}
    chosen = {
        "none": choose_theme("dark", deep, color=False),
        "dark": choose_theme("dark", deep, color=True),
        "light 256": choose_theme("light", some, color=True),
        "16 colors": choose_theme("dark", {"TERM": "xterm"}, color=True),
        "ansi": choose_theme("ansi", {**deep, "COLORFGBG": "15;0"}, color=True),
        "auto": choose_theme("auto", deep, color=True),
        "auto dark": choose_theme("auto", {**deep, "COLORFGBG": "15;default;0"}, color=True),
        "auto light": choose_theme("auto", {**deep, "COLORFGBG": "0;15"}, color=True),
        "auto odd": choose_theme("auto", {**deep, "COLORFGBG": "0;²"}, color=True),
    }

    assert chosen == {
        "none": Theme(),
        "dark": Theme("dark", deep=True),
        "light 256": Theme("light"),
        "16 colors": Theme("ansi"),
        "ansi": Theme("ansi", deep=True),
        "auto": Theme("ansi", deep=True, guessed=True),
        "auto dark": Theme("dark", deep=True, guessed=True),
        "auto light": Theme("light", deep=True, guessed=True),
        "auto odd": Theme("ansi", deep=True, guessed=True),
    }


GROUNDS = {"dark": "1e1e1e", "light": "ffffff"}


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", ["dark", "light"])
def test_every_role_is_legible_on_its_ground(ground: str) -> None:
    poor = {}
    for role in ROLES:
        painted = Theme(ground, deep=True).paint((Span("x", role),))  # type: ignore[arg-type]
        numbers = re.search(r"38;2;(\d+);(\d+);(\d+)", painted)
        if numbers:
            color = "".join(f"{int(part):02x}" for part in numbers.groups())
            if contrast(color, GROUNDS[ground]) < 4.5:
                poor[role] = color

    assert poor == {}
    assert contrast("777777", "ffffff") < 4.5  # a gray that would be found


def test_sixteen_colors_carry_no_sentence_and_no_color_means_none() -> None:
    row: Row = (
        Span("a"),
        Span("b", "title"),
        Span("c", "muted"),
        Span("d", "added"),
        Span("e", "ok"),
    )

    assert Theme("ansi").paint(row) == "a\x1b[1mb\x1b[0m\x1b[2mc\x1b[0md\x1b[32me\x1b[0m"
    assert Theme("light").paint(row[3:]) == "\x1b[48;5;195md\x1b[0m\x1b[38;5;23me\x1b[0m"
    assert Theme().paint(row) == "abcde"
