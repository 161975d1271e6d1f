"""edit, the tool: what a model is told and reads, and that many at once lose nothing.

How a text is found is tested with the matching itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor, FailureKind, Result
from handrail.policy import Level, Rulebook, parse
from handrail.tools import Workspace
from tools.files.test_openat import OPENERS
from tools.stage import HERE, Opener, kind, results, toolset


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


def edit(root: Path, **args: Any) -> Result:
    [done] = results(toolset(Workspace(root)), ("edit", {"file_path": "f", **args}))
    return done


def edited(root: Path, before: bytes | str, **args: Any) -> tuple[str, bytes]:
    """What is said, and what the file holds then."""
    (root / "f").write_bytes(before.encode() if isinstance(before, str) else before)
    return edit(root, **args).text, (root / "f").read_bytes()


def test_what_a_model_is_told_of_it(tmp_path: Path) -> None:
    spec = toolset(Workspace(tmp_path))["edit"].spec

    assert (spec.description, spec.input_schema, spec.effect.name) == snapshot(
        (
            """\
Replace text in a file and return the numbers of the changed lines.

Use it to change part of a file, without reading it first if you know the text; to create or rewrite a file, use write. old_string must occur exactly once: add surrounding lines, or set replace_all. Whitespace, line endings and look-alike quotes may differ if the location is unambiguous. If nothing matches, the result shows the closest text. In a notebook (.ipynb), only the source of cells is changed; the line "[new cell, code]" (or markdown) in new_string starts a cell.\
""",
            {
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "Path of the file, relative to the workspace.",
                    },
                    "old_string": {
                        "type": "string",
                        "description": "Text to replace, exactly as in the file, without line numbers.",
                    },
                    "new_string": {
                        "type": "string",
                        "description": "Replacement text; empty to delete old_string.",
                    },
                    "replace_all": {
                        "type": "boolean",
                        "description": "Replace every occurrence.",
                        "default": False,
                    },
                    "edits": {
                        "description": "More replacements in the same file, applied after this one in their order. If one fails, none is applied.",
                        "anyOf": [
                            {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "description": "One of several replacements.",
                                    "properties": {
                                        "old_string": {"type": "string"},
                                        "new_string": {"type": "string"},
                                        "replace_all": {"type": "boolean"},
                                    },
                                    "required": ["old_string", "new_string"],
                                    "additionalProperties": False,
                                },
                            },
                            {"type": "null"},
                        ],
                        "default": None,
                    },
                },
                "required": ["file_path", "old_string", "new_string"],
                "additionalProperties": False,
            },
            "WRITE",
        )
    )


def test_a_text_is_replaced_and_where_is_said(tmp_path: Path) -> None:
    cases = {
        "one line": ("a\nb\nc\n", {"old_string": "b", "new_string": "B"}),
        "lines": ("a\nb\nc\n", {"old_string": "b\nc", "new_string": "x\ny\nz"}),
        "delete": ("a\nb\nc\n", {"old_string": "b\n", "new_string": ""}),
        "all": ("a\na\na\n", {"old_string": "a", "new_string": "b", "replace_all": True}),
        "many": ("a\n" * 9, {"old_string": "a", "new_string": "b", "replace_all": True}),
        "blanks differ": ("if x:\n\treturn\n", {"old_string": "if x:\n    return", "new_string": "pass"}),
        "several": (
            "a\nb\nc\n",
            {
                "old_string": "a",
                "new_string": "b",
                "edits": [{"old_string": "b", "new_string": "c", "replace_all": True}],
            },
        ),
        "only a list": ("a\n", {"edits": [{"old_string": "a", "new_string": "b"}]}),
        "empty, and a list": (
            "a\n",
            {"old_string": "", "new_string": "", "edits": [{"old_string": "a", "new_string": "b"}]},
        ),
    }  # fmt: skip

    assert {
        name: edited(tmp_path, before, **args) for name, (before, args) in cases.items()
    } == snapshot(
        {
            "one line": ("Edited 'f', line 2.", b"a\nB\nc\n"),
            "lines": ("Edited 'f', lines 2-4.", b"a\nx\ny\nz\n"),
            "delete": ("Edited 'f', line 2.", b"a\nc\n"),
            "all": ("Edited 'f', lines 1, 2, 3.", b"b\nb\nb\n"),
            "many": ("Edited 'f', lines 1, 2, 3, 4, 5 and 4 more.", b"b\nb\nb\nb\nb\nb\nb\nb\nb\n"),
            "blanks differ": (
                "Edited 'f', line 1. old_string differed in indentation; the file's was kept.",
                b"pass\n",
            ),
            "several": (
                """\
Edited 'f', 2 replacements:
1. line 1.
2. lines 1, 2.\
""",
                b"c\nc\nc\n",
            ),
            "only a list": (
                "Edited 'f', line 1.",
                b"b\n",
            ),
            "empty, and a list": ("Edited 'f', line 1.", b"b\n"),
        }
    )


def test_what_cannot_be_replaced_is_said_and_nothing_is_changed(tmp_path: Path) -> None:
    cases = {
        "not there": {"old_string": "zzz", "new_string": "y"},
        "close": {"old_string": "def fine(x):\n    return y", "new_string": "y"},
        "twice": {"old_string": "dup", "new_string": "y"},
        "nothing to do": {"old_string": "dup\ndup", "new_string": "dup\ndup"},
        "nothing given": {},
        "without its first": {
            "old_string": "zzz",
            "new_string": "b",
            "edits": [{"old_string": "dup\ndup", "new_string": "b"}],
        },
        "none": {"edits": []},
        "too many": {"edits": [{"old_string": "dup", "new_string": "b"}] * 101},
        "one of them fails": {
            "edits": [
                {"old_string": "dup\ndup", "new_string": "b"},
                {"old_string": "zzz", "new_string": "c"},
            ]
        },
    }
    text = "def fine(x):\n    return x\ndup\ndup\n"
    told = {name: edited(tmp_path, text, **args) for name, args in cases.items()}

    assert {name: one[0] for name, one in told.items()} == snapshot(
        {
            "not there": "old_string is not in the file, and nothing is similar. Read the file again.",
            "close": """\
old_string is not in the file. The closest text is at lines 1-2. Line by line:
 both      1 |def fine(x):
yours        |    return y
 file      2 |    return x
Copy old_string exactly from the file.\
""",
            "twice": "old_string is in the file 2 times, at lines 3, 4. Add lines around the one you mean, or set replace_all to change them all.",
            "nothing to do": "old_string and new_string are the same: nothing would change.",
            "nothing given": """\
Not run: invalid arguments.
- old_string: required, missing
- new_string: required, missing
Fix these and call again.\
""",
            "without its first": "Edit 1 of 2 failed, so none was applied. old_string is not in the file, and nothing is similar. Read the file again.",
            "none": """\
Not run: invalid arguments.
- old_string: required, missing
- new_string: required, missing
Fix these and call again.\
""",
            "too many": "Not edited: pass at most 100 replacements.",
            "one of them fails": "Edit 2 of 2 failed, so none was applied. old_string is not in the file, and nothing is similar. Read the file again.",
        }
    )
    assert {one[1] for one in told.values()} == {text.encode()}


def test_a_file_that_changed_since_it_was_read_is_edited_and_that_is_said(tmp_path: Path) -> None:
    """The text was found, so the edit means what it meant; but the rest is not as it was seen."""
    (tmp_path / "f").write_text("a\nb\n", encoding="utf-8")
    tools = toolset(Workspace(tmp_path))
    results(tools, ("read", {"file_path": "f"}))
    (tmp_path / "f").write_text("a\nb\nc\n", encoding="utf-8")
    args = {"file_path": "f", "old_string": "a", "new_string": "A"}

    [done, again] = results(
        tools, ("edit", args), ("edit", {**args, "old_string": "A", "new_string": "a"})
    )

    assert [done.text, again.text] == snapshot(
        [
            """\
Edited 'f', line 1.
[The file had also changed elsewhere since it was read. Read it again.]\
""",
            "Edited 'f', line 1.",
        ]
    )


def test_a_file_has_to_be_there(tmp_path: Path, opener: Opener) -> None:
    (tmp_path / "fine").touch()
    args = {"file_path": "fone", "old_string": "a", "new_string": "b"}
    calls = [("edit", {**args, "file_path": path}) for path in ("fone", "d/f", ".", "../f")]
    done = results(toolset(Workspace(tmp_path, opener=opener)), *calls)

    assert [f"{kind(one)}: {one.text}" for one in done] == snapshot(
        [
            "failed: 'fone' does not exist. Did you mean 'fine'?",
            "failed: 'd/f' does not exist. Use glob to find it.",
            "failed: '.' is a folder.",
            "denied: Not run: '../f' is outside the workspace. Use a path inside it.",
        ]
    )
    assert [one.name for one in tmp_path.iterdir()] == ["fine"]


def test_a_new_file_is_left_to_write(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n", encoding="utf-8")
    args = {"old_string": "", "new_string": "b"}
    calls = [("edit", {**args, "file_path": path}) for path in ("new", "f", "../f", "f/x")]
    calls.append(("edit", {"file_path": "new", "edits": [args]}))
    done = results(toolset(Workspace(tmp_path)), *calls)

    assert [f"{kind(one)}: {one.text}" for one in done] == snapshot(
        [
            "failed: 'new' does not exist. To create it, use write.",
            "failed: old_string is empty. To insert text, pass a line next to it as old_string and repeat that line in new_string. To write the whole file, use write.",
            "denied: Not run: '../f' is outside the workspace. Use a path inside it.",
            "failed: 'f/x' uses a file as a folder.",
            "failed: 'new' does not exist. To create it, use write.",
        ]
    )


def test_a_text_that_is_gone_since_the_file_was_read_is_explained(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("value = 1\n", encoding="utf-8")
    tools = toolset(Workspace(tmp_path))
    results(tools, ("read", {"file_path": "f"}))
    (tmp_path / "f").write_text("amount = 2\n", encoding="utf-8")
    args = {"file_path": "f", "old_string": "value = 1", "new_string": "value = 3"}

    [gone, empty] = results(tools, ("edit", args), ("edit", {**args, "old_string": ""}))

    assert [gone.text, empty.text] == snapshot(
        [
            "The file changed since it was read. old_string is not in the file, and nothing is similar. Read the file again.",
            "old_string is empty. To insert text, pass a line next to it as old_string and repeat that line in new_string. To write the whole file, use write.",
        ]
    )


def test_line_ends_and_encodings_are_kept(tmp_path: Path) -> None:
    change = {"old_string": "b\n", "new_string": "é\nd\n"}
    befores = [b"a\r\nb\r\n", b"\xef\xbb\xbfa\nb\n", "a\nb\n".encode("utf-16"), b"a\xff\nb\n"]

    assert [edited(tmp_path, before, **change)[1] for before in befores] == snapshot(
        [
            b"a\r\n\xc3\xa9\r\nd\r\n",
            b"\xef\xbb\xbfa\n\xc3\xa9\nd\n",
            b"\xff\xfea\x00\n\x00\xe9\x00\n\x00d\x00\n\x00",
            b"a\xff\n\xe9\nd\n",
        ]
    )


@pytest.mark.parametrize("name", ["write", "edit"])
def test_what_may_not_be_read_is_not_shown_by_a_change_either(tmp_path: Path, name: str) -> None:
    (tmp_path / ".env").write_text("KEY=hunter2\nB=1\nC=2\n", encoding="utf-8")
    text = '[[rule]]\ndecide = "deny"\naccess = "read file:**/.env"'
    rules = parse(text, file="rules.toml", level=Level.USER).rules
    args = {
        "write": {"content": "x"},
        "edit": {"old_string": "KEY=hunter\nB=1\nC=2", "new_string": "x"},
    }[name]

    [done] = results(
        toolset(Workspace(tmp_path)),
        (name, {"file_path": ".env", **args}),
        policy=Rulebook(rules, mode="edits"),
    )

    assert "hunter2" not in done.text
    assert kind(done) is FailureKind.DENIED


def test_fifty_edits_of_one_turn_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"<{n}>\n" for n in range(50)), encoding="utf-8")

    async def turn() -> list[Result]:
        async with Executor(toolset(Workspace(tmp_path))) as executor:
            return await executor.run_all(
                [
                    Call(
                        "edit",
                        {"file_path": "f", "old_string": f"<{n}>", "new_string": f"[{n}]"},
                        str(n),
                    )
                    for n in range(50)
                ]
            )

    done = anyio.run(turn)

    assert {kind(one) for one in done} == {None}
    assert (tmp_path / "f").read_text(encoding="utf-8") == "".join(f"[{n}]\n" for n in range(50))


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"<{n}>\n" for n in range(100)), encoding="utf-8")
    programs = [
        subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, str(HERE / "editor.py"), str(tmp_path), str(first), str(first + 50)],
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        for first in (0, 50)
    ]

    assert [program.communicate()[0] for program in programs] == ["50\n", "50\n"]
    assert (tmp_path / "f").read_text(encoding="utf-8") == "".join(f"[{n}]\n" for n in range(100))
