"""What a person reads before they answer, compared as a whole."""

from __future__ import annotations

import math
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from approvals.display_vectors import is_raw
from approvals.questions import asked
from handrail import DESTROY, READ, Access, Call, reads_file, writes_file
from handrail.approvals import RenderedLine, render_request
from handrail.approvals._prompt import change_lines
from handrail.permissions import FileChange

HEAD = [
    "write wants to run (write; call c1)",
    "  write file:src/a.py",
    "question: Write it?",
    "asked by: ask write (handrail.toml:3)",
]


def shown(args: object, changes: tuple[FileChange | str, ...] = (), **options: Any) -> list[str]:
    """The lines of a prompt below those that are always the same."""
    lines = [line.text for line in render_request(asked(args, changes=changes), **options).lines]
    assert lines[:4] == HEAD
    return lines[4:]


def test_a_question_says_who_wants_what_and_which_rule_asks() -> None:
    pending = asked(
        {"path": "a", "deep": {"list": [1, None, "x"]}, "empty": "", "on": True},
        name="remove_all",
        effect=DESTROY,
        touches=(reads_file("a"), Access(DESTROY, "net:example.com:443")),
        question="Remove\nit?",
    )

    assert [line.text for line in render_request(pending).lines] == snapshot(
        [
            "remove_all wants to run (destroy; call c1)",
            "  read file:a",
            "  destroy net:example.com/443",
            "question: Remove\\u{A}it?",
            "asked by: ask write (handrail.toml:3)",
            "path: a",
            'deep = {"list": [1, null, "x"]}',
            'empty = ""',
            "on = true",
        ]
    )


def test_a_question_without_a_rule_does_not_name_one() -> None:
    pending = asked({}, origin=None, touches=(), effect=READ)

    assert [line.text for line in render_request(pending).lines] == [
        "write wants to run (read; call c1)",
        "question: Write it?",
    ]


def test_the_tools_own_line_comes_first_after_a_margin() -> None:
    pending = asked({"path": "a"}, headline="question: Save\u200b a?\nyes")

    assert render_request(pending).lines[:2] == (
        RenderedLine("│ question: Save\\u{200B} a?\\u{A}yes", "title"),
        RenderedLine("write wants to run (write; call c1)", "title"),
    )


def test_a_change_of_a_file_is_a_diff() -> None:
    change = FileChange("src/a.py", "one\ntwo\n", "one\ntwo!\n\tthree\u200b\n")

    assert shown({"path": "src/a.py"}, changes=(change,)) == snapshot(
        [
            "path: src/a.py",
            "change to src/a.py:",
            " 1   one",
            " 2 - two",
            " 2 + two!",
            " 3 + →three\\u{200B}",
        ]
    )


def test_the_lines_of_a_diff_look_like_what_they_do() -> None:
    made = render_request(asked({}, changes=(FileChange("a", "old", "new"),)))

    assert made.lines[-2:] == (
        RenderedLine(" 1 - old", "removed"),
        RenderedLine(" 1 + new", "added"),
    )


def test_the_lines_of_a_part_of_a_file_have_the_files_numbers() -> None:
    change = FileChange("a", "two\n@@ -1 +1 @@\nthree", "2\n@@ -1 +1 @@\nthree", line=101)

    assert shown({}, changes=(change,)) == [
        "change to a:",
        " 101 - two",
        " 101 + 2",
        " 102   @@ -1 +1 @@",
        " 103   three",
    ]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (None, "x\ny", ["a is a new file", " 1 + x", " 2 + y"]),
        (None, "", ["a is a new file", "(empty)"]),
        ("x\ny", None, ["a would be deleted", " 1 - x", " 2 - y"]),
        ("x\ny", "x\ny", ["a already has this text"]),
        ("x", "x\n", ["change to a:", " 1   x", " 2 + "]),
        ("x\n", "y", ["change to a:", " 1 - x", " 2 - ", " 1 + y"]),
        ("x\r\n", "x\n", ["change to a:", " 1 - x\\u{D}", " 1 + x"]),
    ],
)
def test_a_file_that_comes_or_goes_is_shown_as_a_whole(
    before: str | None, after: str | None, lines: list[str]
) -> None:
    assert shown({}, changes=(FileChange("a", before, after),)) == lines


def test_a_long_line_of_a_change_is_shown_to_its_end() -> None:
    old = "x" * 20_000
    made = render_request(asked({}, changes=(FileChange("a", old + "1", old + "2"),)), width=30_000)

    assert [line.text for line in made.lines[-2:]] == [f" 1 - {old}1", f" 1 + {old}2"]


def test_beside_words_every_argument_is_shown() -> None:
    changes = (FileChange("a", "one\n", None), "It is\ngone\x1b.")

    assert shown({"text": "one\ntwo"}, changes=changes) == [
        "text (7 characters, 2 lines):",
        "│ one",
        "│ two",
        "a would be deleted",
        " 1 - one",
        "│ It is",
        "│ gone\\u{1B}.",
    ]


@pytest.mark.parametrize(
    "args",
    [
        {"path": "a", "content": "new"},
        {"file_path": "a", "old_string": "x", "new_string": "y"},
    ],
    ids=str,
)
def test_names_of_arguments_say_nothing_of_changes(args: dict[str, str]) -> None:
    assert shown(args) == [f"{name}: {value}" for name, value in args.items()]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ["a/1.x", "a/2.x", "a/.x", "b/q*", "b/qx", "b/\u200b.z"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "many").mkdir()
    for number in range(1_002):
        (tmp_path / "many" / f"{number:04}").touch()
    return tmp_path


def test_the_patterns_of_a_command_are_shown_as_the_names_they_stand_for(workspace: Path) -> None:
    """Vector mode-012: a misquoted rm is shown with all that it would remove."""
    assert shown({"command": "rm -rf a/*.x b/*.y"}, workspace=workspace) == [
        "command: rm -rf a/*.x b/*.y",
        "  a/*.x matches 2 names: a/1.x, a/2.x",
        "  b/*.y matches nothing",
    ]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ls 'a/*.x' \"a/*.x\" a/\\*.x", []),
        ("ls b/'q*'*", ["b/q** matches 1 name: b/q*"]),
        ("ls b/*.z", ["b/*.z matches 1 name: b/\\u{200B}.z"]),
        ("ls a/[12].x;ls a/?.x", ["a/[12].x matches 2 names: a/1.x, a/2.x", "a/?.x matches 2 names: a/1.x, a/2.x"]),
        ("ls $D/*", ["$D/* cannot be expanded before the shell runs"]),
        ('ls "$D"/*', ["$D/* cannot be expanded before the shell runs"]),
        ("ls '$D'/*", ["$D/* matches nothing"]),
        ("ls ~/* {a,b}/*", ["~/* cannot be expanded before the shell runs", "{a,b}/* cannot be expanded before the shell runs"]),
        ("ls a/[^1]*", ["a/[^1]* cannot be expanded before the shell runs"]),
        ("cd a && rm *", ["* is not expanded, because the command changes its folder"]),
        ("ls /etc/*", ["/etc/* is outside the workspace"]),
        ("ls a/../../*", ["a/../../* is outside the workspace"]),
        ("ls */*/*/*", ["*/*/*/* is too wide to expand"]),
        ("ls \\", []),
    ],
)  # fmt: skip
def test_only_a_pattern_that_the_shell_would_expand_here_is_looked_up(
    workspace: Path, command: str, said: list[str]
) -> None:
    lines = shown({"command": command}, workspace=workspace, width=200)

    assert lines[1:] == [f"  {one}" for one in said]


def test_of_many_names_the_first_are_shown_and_all_are_counted(workspace: Path) -> None:
    [_, line] = shown({"command": "rm many/*"}, workspace=workspace, width=500)
    few = (
        render_request(asked({"command": "rm many/001*"}), workspace=workspace, width=500)
        .lines[-1]
        .text
    )

    assert line.startswith("  many/* matches more than 1000 names: ")
    assert line.endswith(", …")
    assert line.count("many/") == 21
    assert (
        few == f"  many/001* matches 10 names: {', '.join(f'many/{n:04}' for n in range(10, 20))}"
    )


def test_without_a_workspace_nothing_is_looked_up() -> None:
    assert shown({"command": "rm *"}) == ["command: rm *"]


def test_a_long_text_says_how_long_it_is_and_goes_on_after_a_margin() -> None:
    assert shown({"path": "d/" * 101}, width=60) == snapshot(
        [
            "path (202 characters):",
            "│ d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d",
            "┊ /d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/",
            "┊ d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d",
            "┊ /d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/",
        ]
    )


def test_a_long_argument_is_shown_in_full() -> None:
    numbers = [str(number) for number in range(100)]

    assert shown({"text": "\n".join(numbers), "path": "second"}) == [
        "text (289 characters, 100 lines):",
        *(f"│ {number}" for number in numbers),
        "path: second",
    ]


def test_the_details_have_what_the_answer_is_bound_to() -> None:
    change = FileChange("a", "old", "new")
    made = render_request(asked({"path": "a", "content": "new"}, changes=(change,)))

    assert [line.text for line in made.details] == snapshot(
        [
            "write wants to run (write; call c1)",
            "  write file:src/a.py",
            "question: Write it?",
            "asked by: ask write (handrail.toml:3)",
            "path: a",
            "content: new",
            "change to a:",
            " 1 - old",
            " 1 + new",
            "fingerprint: abababababababababababababababababababababababababababababababab",
            "the answer is valid for this call only, once, within 1 minute of this request",
        ]
    )


def test_hidden_characters_and_mixed_scripts_are_said_wherever_they_are() -> None:
    pending = asked(
        {"p\u0430th": ["a\u202e", {"k\u200b": 1}]},
        name="to\u00adol",
        touches=(writes_file("x\u200b"),),
        question="q\x1b[2K",
        call_id="c\u2066",
    )
    made = render_request(pending)

    assert (made.view.hidden, made.view.mixed) == (6, (r"p\u{430}th",))
    assert [line.text for line in made.lines] == snapshot(
        [
            "to\\u{AD}ol wants to run (write; call c\\u{2066})",
            "  write file:x\\u{200B}",
            "question: q\\u{1B}[2K",
            "asked by: ask write (handrail.toml:3)",
            '"p\\u{430}th" = ["a\\u{202E}", {"k\\u{200B}": 1}]',
            "6 invisible characters are shown as \\u{...}",
            "words with mixed scripts or look-alike letters: p\\u{430}th",
        ]
    )


def test_a_name_cannot_pass_for_another_with_a_value() -> None:
    assert shown({"a: b": "c", "a = 1": 2, "x\n": 3}) == [
        '"a: b": c',
        '"a = 1" = 2',
        '"x\\n" = 3',
    ]


@pytest.mark.parametrize("args", ["not JSON", "[1, 2]", '"text"'])
def test_arguments_that_are_no_object_are_shown_too(args: str) -> None:
    lines = [line.text for line in render_request(asked(args)).lines]

    assert lines[4:] == {
        "not JSON": ["arguments: not JSON"],
        "[1, 2]": ["arguments = [1, 2]"],
        '"text"': ["arguments: text"],
    }[args]  # fmt: skip


def test_arguments_may_be_any_mapping() -> None:
    call = Call("write", MappingProxyType({"path": "a", "pair": (1, "\x07")}), "c1")
    made = render_request(asked({}, call=call))

    assert (made.lines[-2].text, made.view.hidden) == ('pair = [1, "\\u0007"]', 1)


def test_what_is_too_long_is_not_shown_at_all() -> None:
    made = render_request(asked({"content": "x" * 10_241}))
    title = RenderedLine("This call is too long to show.", "title")
    size = 10_241 + len("contentwritec1Write it?file:src/a.py")
    size += len("ask write (handrail.toml:3)")

    assert (made.lines, made.details) == ((title,), (title,))
    assert (made.view.size, made.view.too_long, made.view.hidden) == (size, True, 0)


@pytest.mark.parametrize("padding", ['"' * 6_000, [""] * 4_000, {"\\" * 6_000: 1}])
def test_nothing_in_a_list_is_left_out(padding: object) -> None:
    """JSON is longer than the texts in it, so all of it counts."""
    made = render_request(asked({"hosts": [padding, "evil.example"]}))

    assert [line.text for line in made.lines] == ["This call is too long to show."]


def test_a_long_name_of_an_argument_is_shown_in_full() -> None:
    made = render_request(asked({'"' * 6_000 + "evil": 1}), width=20_000)

    assert made.lines[-1].text == '"' + '\\"' * 6_000 + 'evil" = 1'


@pytest.mark.parametrize(
    ("before", "after", "size"),
    [
        (("a b " * 100 + "\nk\n") * 30, ("a c " * 100 + "\nk\n") * 30, 90),
        ("x\n" * 20_000, "".join(f"x\nu{number}\n" for number in range(99)), 20_197),
    ],
)
def test_a_change_is_compared_in_little_time(before: str, after: str, size: int) -> None:
    began = time.process_time()
    rows = list(change_lines(FileChange("a", before, after), heading="", context=3))

    assert (len(rows), time.process_time() - began < 5) == (size, True)


ANYTHING = st.text(st.characters(exclude_categories=()), max_size=40)


@given(st.dictionaries(ANYTHING, ANYTHING | st.lists(ANYTHING), max_size=4), ANYTHING, ANYTHING)
def test_nothing_raw_is_in_any_line_and_no_line_ends_early(
    args: dict[str, Any], name: str, old: str
) -> None:
    files = {"path": name, "content": "\n".join(map(str, args)), "command": f"{name}*"}
    pending = asked(
        {},
        call=Call(name, args | files, name),
        question=name,
        headline=old,
        changes=(FileChange(name, old, name), FileChange(old, None, name), old),
    )
    made = render_request(pending, workspace="/nowhere")

    texts = [line.text for line in made.lines + made.details]
    assert [text for text in texts if any(map(is_raw, text)) or "\n" in text] == []


def test_a_pattern_with_a_nul_character_is_not_expanded() -> None:
    pending = asked({}, call=Call("bash", {"command": "ls a\0*"}, "c1"))
    made = render_request(pending, workspace="/nowhere")

    shown = [line.text for line in made.lines + made.details]
    assert "  a\\u{0}* cannot match: no file name has a NUL character" in shown


GAP = f"a{' ' * 40}b"


@pytest.mark.parametrize(
    ("args", "changes", "fields"),
    [
        ({"text": GAP}, (), {}),
        ({"text": "x" * 300 + "\n" * 20}, (), {}),
        ({"list": [GAP]}, (), {}),
        ({"text": "a"}, (FileChange("a", "x", GAP),), {}),
        ({"text": "a"}, (FileChange("a", None, GAP),), {}),
        ({"text": "a"}, (FileChange(GAP, None, "x"),), {}),
        ({"text": "a"}, (GAP,), {}),
        ({"text": "a"}, (), {"headline": GAP}),
        ({"text": "a"}, (), {"question": GAP}),
    ],
)
def test_a_request_knows_that_it_counts_whitespace_at_every_width(
    args: dict[str, Any], changes: tuple[FileChange | str, ...], fields: dict[str, Any]
) -> None:
    pending = asked(args, changes=changes, **fields)

    assert {render_request(pending, width=width).is_plain for width in (20, 23, 80)} == {False}


@pytest.mark.parametrize("text", ["[… 12 spaces …]", "a        b", "a\nb"])
def test_a_request_that_shows_everything_unchanged_is_plain(text: str) -> None:
    assert render_request(asked({"text": text})).is_plain


def test_a_request_without_a_time_limit_does_not_name_one() -> None:
    made = render_request(asked({}, expires_at=math.inf))

    assert made.details[-1].text == "the answer is valid for this call only, once"
