"""What a person reads before they answer, compared as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from approvals.display_vectors import is_raw
from approvals.questions import asked
from handrail import DESTROY, READ, Access, Call, read_file, write_file
from handrail.approvals import Line, Prompt, prompt

HEAD = [
    "write wants to run (write; call c1)",
    "  write file:src/a.py",
    "question: Write it?",
    "asked by: ask write (handrail.toml:3)",
]
Read = Callable[[str], str | None]


def shown(args: object, **options: Any) -> list[str]:
    """The lines of a prompt below those that are always the same."""
    lines = [line.text for line in prompt(asked(args), **options).lines]
    assert lines[:4] == HEAD
    return lines[4:]


def test_a_question_says_who_wants_what_and_which_rule_asks() -> None:
    pending = asked(
        {"path": "a", "deep": {"list": [1, None, "x"]}, "empty": "", "on": True},
        name="remove_all",
        effect=DESTROY,
        touches=(read_file("a"), Access(DESTROY, "net:example.com:443")),
        question="Remove\nit?",
    )

    assert [line.text for line in prompt(pending).lines] == snapshot(
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

    assert [line.text for line in prompt(pending).lines] == [
        "write wants to run (read; call c1)",
        "question: Write it?",
    ]


def test_a_change_of_a_file_is_a_diff() -> None:
    args = {"path": "src/a.py", "content": "one\ntwo!\n\tthree\u200b\n"}

    assert shown(args, read=lambda _: "one\ntwo\n") == snapshot(
        [
            "path: src/a.py",
            "change of src/a.py:",
            "│ @@ -1,2 +1,3 @@",
            "│  one",
            "│ -two",
            "│ +two!",
            "│ +→three\\u{200B}",
            "1 hidden character is written out as \\u{...}",
        ]
    )


def test_the_lines_of_a_diff_look_like_what_they_do() -> None:
    made = prompt(asked({"path": "a", "content": "new"}), read=lambda _: "old")

    assert made.lines[-2:] == (Line("│ -old", "removed"), Line("│ +new", "added"))


@pytest.mark.parametrize("names", [("old_str", "new_str"), ("old", "new")])
def test_an_edit_is_shown_where_it_would_happen(names: tuple[str, str]) -> None:
    args = {"path": "a", names[0]: "two", names[1]: "2"}

    assert shown(args, read=lambda _: "one\ntwo\nthree") == [
        "path: a",
        "change of a:",
        "│ @@ -1,3 +1,3 @@",
        "│  one",
        "│ -two",
        "│ +2",
        "│  three",
    ]


def missing(path: str) -> str:
    raise FileNotFoundError(path)


def binary(_path: str) -> str:
    return b"\xff".decode()


EDIT = {"path": "a", "old": "x", "new": "y"}
EDITED = ["│ @@ -1 +1 @@", "│ -x", "│ +y"]


@pytest.mark.parametrize(
    ("read", "title"),
    [
        (None, "change in a:"),
        (lambda _: None, "a is not there yet; the change would be:"),
        (missing, "a is not there yet; the change would be:"),
        (binary, "a could not be read (UnicodeDecodeError); the change would be:"),
        (lambda _: "x" * 100_001, "a is too long to compare (100001 characters); the change would be:"),
        (lambda _: "none", "the old text is in a 0 times; the change would be:"),
        (lambda _: "xx", "the old text is in a 2 times; the change would be:"),
    ],
)  # fmt: skip
def test_an_edit_that_finds_nothing_is_still_shown(read: Read | None, title: str) -> None:
    assert shown(EDIT, read=read) == ["path: a", title, *EDITED]


@pytest.mark.parametrize(
    ("read", "title"),
    [
        (None, "new text of a:"),
        (lambda _: None, "a is not there yet; its new text:"),
        (binary, "a could not be read (UnicodeDecodeError); its new text:"),
        (lambda _: "x\ny", "a has this text already:"),
    ],
)
def test_a_new_text_is_shown_where_there_is_no_old_one(read: Read | None, title: str) -> None:
    assert shown({"path": "a", "content": "x\ny"}, read=read) == ["path: a", title, "│ x", "│ y"]


NOW = "one\ntwo\ntwo\n"
EDITS = [
    {"old_string": "one", "new_string": "1"},
    {"old_string": "two", "new_string": "2", "replace_all": True},
]
FILE = {"file_path": "a"}


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        (FILE | {"content": "1\n"}, ["│ -one", "│ -two", "│ -two", "│ +1"]),
        (FILE | {"old_string": "one", "new_string": "1"}, ["│ -one", "│ +1", "│  two", "│  two"]),
        (FILE | {"old_string": "one\n"}, ["│ -one", "│  two", "│  two"]),
        (FILE | {"edits": EDITS}, ["│ -one", "│ -two", "│ -two", "│ +1", "│ +2", "│ +2"]),
    ],
)
def test_a_change_under_other_names_is_a_diff_too(args: object, lines: list[str]) -> None:
    first, title, _, *diff = shown(args, read=lambda _: NOW)

    assert (first, title, diff) == ("file_path: a", "change of a:", lines)


@pytest.mark.parametrize(
    ("edits", "read"),
    [
        (EDITS, None),
        (EDITS, lambda _: None),
        (EDITS, lambda _: "one"),
        (EDITS[:1], lambda _: "one one"),
        ([{"old_string": "", "new_string": "x"}], lambda _: "x"),
        ([{"old_string": "x"}], lambda _: "x"),
        (["x"], lambda _: "x"),
        (EDITS, lambda _: bytes([255]).decode()),
    ],
)
def test_edits_whose_outcome_cannot_be_told_are_shown_as_they_are(
    edits: list[Any], read: Read | None
) -> None:
    assert shown(FILE | {"edits": edits}, read=read)[1].startswith(("edits = [", "edits ("))


@pytest.mark.parametrize(
    ("args", "last"),
    [
        ({"path": "a", "content": ""}, ["new text of a:", "  (nothing)"]),
        ({"path": "a", "old": "", "new": ""}, ["change in a:", "  (nothing)"]),
        ({"path": 1, "content": "x"}, ["path = 1", "content: x"]),
        ({"path": "a", "content": 1}, ["path: a", "content = 1"]),
        ({"path": "a", "old": "x", "new": 1}, ["old: x", "new = 1"]),
    ],
    ids=str,
)
def test_what_is_no_change_is_shown_as_it_is(args: object, last: list[str]) -> None:
    assert shown(args)[-2:] == last


def test_an_old_text_that_is_empty_is_found_nowhere() -> None:
    lines = shown({"path": "a", "old": "", "new": "y"}, read=lambda _: "abc")

    assert lines[1] == "the old text is in a 0 times; the change would be:"


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
        ("ls $D/*", ["$D/* cannot be told before the shell runs"]),
        ('ls "$D"/*', ["$D/* cannot be told before the shell runs"]),
        ("ls '$D'/*", ["$D/* matches nothing"]),
        ("ls ~/* {a,b}/*", ["~/* cannot be told before the shell runs", "{a,b}/* cannot be told before the shell runs"]),
        ("ls a/[^1]*", ["a/[^1]* cannot be told before the shell runs"]),
        ("cd a && rm *", ["* is not looked up, since the command changes its directory"]),
        ("ls /etc/*", ["/etc/* leads out of the workspace"]),
        ("ls a/../../*", ["a/../../* leads out of the workspace"]),
        ("ls */*/*/*", ["*/*/*/* is too wide to look up"]),
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
    few = prompt(asked({"command": "rm many/001*"}), workspace=workspace, width=500).lines[-1].text

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


def test_of_a_long_argument_the_start_and_the_end_are_shown_first_and_all_in_the_details() -> None:
    made = prompt(asked({"text": "\n".join(map(str, range(100))), "path": "second"}))
    lines = [line.text for line in made.lines]
    details = [line.text for line in made.details]

    assert made.cut
    assert lines[4] == "text (289 characters, 100 lines):"
    assert lines[27:30] == ["│ 22", "[… 69 rows, d shows them …]", "│ 92"]
    assert lines[-2:] == ["│ 99", "path: second"]
    assert [f"│ {number}" for number in range(100)] == details[5:105]


def test_the_details_have_what_the_answer_is_bound_to() -> None:
    made = prompt(asked({"path": "a", "content": "new"}), read=lambda _: "old")

    assert [line.text for line in made.details] == snapshot(
        [
            "write wants to run (write; call c1)",
            "  write file:src/a.py",
            "question: Write it?",
            "asked by: ask write (handrail.toml:3)",
            "path: a",
            "content: new",
            "change of a:",
            "│ @@ -1 +1 @@",
            "│ -old",
            "│ +new",
            "fingerprint: abababababababababababababababababababababababababababababababab",
            "the answer counts once, and until 60 seconds after it was asked",
        ]
    )


def test_hidden_characters_and_mixed_scripts_are_said_wherever_they_are() -> None:
    pending = asked(
        {"p\u0430th": ["a\u202e", {"k\u200b": 1}]},
        name="to\u00adol",
        touches=(write_file("x\u200b"),),
        question="q\x1b[2K",
        call_id="c\u2066",
    )
    made = prompt(pending)

    assert (made.hidden, made.mixed) == (6, (r"p\u{430}th",))
    assert [line.text for line in made.lines] == snapshot(
        [
            "to\\u{AD}ol wants to run (write; call c\\u{2066})",
            "  write file:x\\u{200B}",
            "question: q\\u{1B}[2K",
            "asked by: ask write (handrail.toml:3)",
            '"p\\u{430}th" = ["a\\u{202E}", {"k\\u{200B}": 1}]',
            "6 hidden characters are written out as \\u{...}",
            "letters of several scripts, or in disguise: p\\u{430}th",
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
    lines = [line.text for line in prompt(asked(args)).lines]

    assert lines[4:] == {
        "not JSON": ["arguments: not JSON"],
        "[1, 2]": ["arguments = [1, 2]"],
        '"text"': ["arguments: text"],
    }[args]  # fmt: skip


def test_arguments_may_be_any_mapping() -> None:
    call = Call("write", MappingProxyType({"path": "a", "pair": (1, "\x07")}), "c1")
    made = prompt(asked({}, call=call))

    assert (made.lines[-2].text, made.hidden) == ('pair = [1, "\\u0007"]', 1)


def test_what_is_too_long_is_not_shown_at_all() -> None:
    made = prompt(asked({"content": "x" * 10_241}))
    title = Line("a call wants to run that is too long to be shown", "title")
    size = 10_241 + len("contentwritec1Write it?file:src/a.py")
    size += len("ask write (handrail.toml:3)")

    assert made == Prompt((title,), (title,), cut=True, hidden=0, mixed=(), size=size)
    assert made.too_long


ANYTHING = st.text(st.characters(exclude_categories=()), max_size=40)


@given(st.dictionaries(ANYTHING, ANYTHING | st.lists(ANYTHING), max_size=4), ANYTHING, ANYTHING)
def test_nothing_raw_is_in_any_line_and_no_line_ends_early(
    args: dict[str, Any], name: str, old: str
) -> None:
    files = {"path": name, "content": "\n".join(map(str, args)), "command": f"{name}*"}
    pending = asked({}, call=Call(name, args | files, name), question=name)
    made = prompt(pending, read=lambda _: old, workspace="/nowhere")

    texts = [line.text for line in made.lines + made.details]
    assert [text for text in texts if any(map(is_raw, text)) or "\n" in text] == []
