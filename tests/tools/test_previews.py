"""What a person is shown of a change is what is done: the tools preview with their own code."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Allow, Ask, Call, CheckedCall, Decision, Deny, Executor, Result, Tool, Toolset
from handrail.approvals import callback, render_request
from handrail.permissions import Answer, FileChange, Pending
from handrail.sandbox import Sandbox
from handrail.tools import Jobs, Workspace, bash, edit, read, write


def ask(call: CheckedCall) -> Decision:
    return Allow() if call.name == "read" else Ask(f"May it {call.name}?")


def approved(folder: Path, *calls: tuple[str, dict[str, Any]]) -> tuple[list[Pending], Result]:
    """What was asked about these calls, and the result of the last one."""
    workspace, questions = Workspace(folder), list[Pending]()

    async def approve(pending: Pending) -> Answer:
        questions.append(pending)
        return Allow()

    async def run() -> Result:
        tools = Toolset(read(workspace), edit(workspace), write(workspace))
        async with Executor(tools, policy=ask, approvals=approve) as executor:
            results = [
                await executor.run(Call(name, args, f"c{number}"))
                for number, (name, args) in enumerate(calls)
            ]
        return results[-1]

    return questions, anyio.run(run)


def test_an_edit_of_a_notebook_is_shown_as_the_change_of_its_file(tmp_path: Path) -> None:
    cells = '[{"cell_type": "code", "metadata": {}, "outputs": [], "source": "x = \\"1\\""}]'
    text = f'{{"cells": {cells}, "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}\n'
    (tmp_path / "n.ipynb").write_text(text, encoding="utf-8")
    args = {"file_path": "n.ipynb", "old_string": 'x = "1"', "new_string": 'y = "1"'}
    [pending], _ = approved(tmp_path, ("edit", args))

    assert (pending.headline, pending.changes) == (
        "Edit n.ipynb, line 2",
        (FileChange("n.ipynb", text, text.replace("x = ", "y = ")),),
    )


def test_an_edit_that_overlooks_blanks_is_shown_as_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "area.py").write_text("def area(w, h):\n\treturn w + h\n", encoding="utf-8")
    texts = {"old_string": "    return w + h", "new_string": "    return w * h"}
    [pending], result = approved(tmp_path, ("edit", {"file_path": "area.py", **texts}))

    assert pending.headline == "Edit area.py, line 2"
    assert pending.changes == (
        FileChange(
            "area.py",
            "def area(w, h):\n\treturn w + h\n",
            "def area(w, h):\n\treturn w * h\n",
        ),
    )
    assert [line.text for line in render_request(pending).lines] == [
        "│ Edit area.py, line 2",
        "edit wants to run (write; call c0)",
        "  read file:area.py",
        "  write file:area.py",
        "question: May it edit?",
        "file_path: area.py",
        "old_string:     return w + h",
        "new_string:     return w * h",
        "change to area.py:",
        " 1   def area(w, h):",
        " 2 - →return w + h",
        " 2 + →return w * h",
    ]
    assert result.text == (
        "Edited 'area.py', line 2. old_string differed in indentation; the file's was kept."
    )
    assert (tmp_path / "area.py").read_bytes() == b"def area(w, h):\n\treturn w * h\n"


def test_several_edits_are_one_change(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\ntwo\n", encoding="utf-8")
    edits = [
        {"old_string": "one", "new_string": "1"},
        {"old_string": "two", "new_string": "2", "replace_all": True},
    ]
    [pending], _ = approved(tmp_path, ("edit", {"file_path": "a", "edits": edits}))

    assert pending.headline == "Edit a, 2 replacements"
    assert pending.changes == (FileChange("a", "one\ntwo\ntwo\n", "1\n2\n2\n"),)


def test_a_change_through_a_link_names_the_file_that_is_changed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("one\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("real")
    args = {"file_path": "link", "old_string": "one", "new_string": "two"}
    [pending], _ = approved(tmp_path, ("edit", args))

    assert (pending.headline, pending.changes) == (
        "Edit link, line 1",
        (FileChange("real", "one\n", "two\n"),),
    )


@pytest.mark.parametrize(
    ("data", "edited", "change"),
    [
        (b"caf\xe9 au lait\n", ("au", "du"), ("café au lait\n", "café du lait\n")),
        (b"\xef\xbb\xbfone\r\ntwo\r\n", ("one\ntwo", "1\n2"), ("one\r\ntwo\r\n", "1\r\n2\r\n")),
        ("één\n".encode("utf-16"), ("één", "twee"), ("één\n", "twee\n")),
        (b"\xe9\xe8\xea x\n", ("x", "y"), ("\udce9\udce8\udcea x\n", "\udce9\udce8\udcea y\n")),
    ],
)  # fmt: skip
def test_a_file_is_shown_as_text_whatever_it_is_written_in(
    tmp_path: Path, data: bytes, edited: tuple[str, str], change: tuple[str, str]
) -> None:
    (tmp_path / "a").write_bytes(data)
    args = {"file_path": "a", "old_string": edited[0], "new_string": edited[1]}
    [pending], result = approved(tmp_path, ("edit", args))

    assert (result.failure, pending.changes) == (None, (FileChange("a", *change),))


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"file_path": "a", "old_string": "three", "new_string": "y"}, "old_string is not in the file, and nothing is similar. Read the file again."),
        ({"file_path": "a", "old_string": "one", "new_string": "one"}, "old_string and new_string are the same: nothing would change."),
        ({"file_path": "b", "old_string": "x", "new_string": "y"}, "'b' does not exist. Use glob to find it."),
        ({"file_path": "../a", "old_string": "x", "new_string": "y"}, "Not run: '../a' is outside the workspace. Use a path inside it."),
        ({"file_path": "out", "old_string": "x", "new_string": "y"}, "Not run: 'out' is or passes through a link out of the workspace."),
    ],
)  # fmt: skip
def test_an_edit_that_would_change_nothing_says_so(
    tmp_path: Path, args: dict[str, Any], why: str
) -> None:
    (tmp_path / "a").write_text("one two\n", encoding="utf-8")
    (tmp_path / "out").symlink_to("/etc/hostname")
    [pending], result = approved(tmp_path, ("edit", args))

    assert pending.headline == f"Edit {args['file_path']}"
    assert pending.changes == (f"The call would fail. {why}",)
    assert result.text.startswith(why)


def test_a_new_file_is_shown_and_nothing_is_made_before_the_answer(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    questions: list[Pending] = []

    def refuse(pending: Pending) -> bool:
        questions.append(pending)
        return False

    executor = Executor(Toolset(write(workspace)), policy=ask, approvals=callback(refuse))
    executor.run_sync(Call("write", {"file_path": "x/y/a", "content": "one\ntwo\n"}, "c1"))

    assert [(one.headline, one.changes) for one in questions] == [
        ("Write x/y/a, 2 lines", (FileChange("x/y/a", None, "one\ntwo\n"),))
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_rewrite_is_shown_in_the_line_ends_that_the_file_keeps(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    [pending], result = approved(
        tmp_path,
        ("read", {"file_path": "a"}),
        ("write", {"file_path": "a", "content": "one\n2\n"}),
    )

    assert pending.changes == (FileChange("a", "one\r\ntwo\r\n", "one\r\n2\r\n"),)
    assert result.text.endswith("It keeps its line endings (CRLF).")
    assert (tmp_path / "a").read_bytes() == b"one\r\n2\r\n"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a", "Not written: 'a' already exists and was not read. Read it, then write again. It would have changed:\n--- now\n+++ yours\n@@ -1 +1 @@\n-unread\n+new"),
        ("../a", "Not run: '../a' is outside the workspace. Use a path inside it."),
        ("a/b", "'a/b' uses a file as a folder."),
        (".", "'.' is a folder."),
    ],
)  # fmt: skip
def test_a_write_that_would_change_nothing_says_so(tmp_path: Path, path: str, why: str) -> None:
    (tmp_path / "a").write_text("unread\n", encoding="utf-8")
    [pending], result = approved(tmp_path, ("write", {"file_path": path, "content": "new\n"}))

    assert pending.changes == (f"The call would fail. {why}",)
    assert result.text.startswith(why)


def test_of_a_file_that_is_no_text_the_size_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 1_992)
    args = {"file_path": "a", "content": "new\n"}
    [pending], result = approved(tmp_path, ("read", {"file_path": "a"}), ("write", args))

    assert pending.changes == ("'a' is a binary file. All of its 2,000 bytes would be replaced.",)
    assert result.text == "Overwrote 'a' with 1 line."


TEXTS = st.text(alphabet="ab \t\n\r\"'“\u2019\u00a0é\u200b\ufeff", max_size=40)
LINES = st.lists(
    st.sampled_from(["if a:", "    b = 1", "\tb = 1", "  c(2)", "", "}", "1\tx"]), max_size=8
).map("\n".join)
EITHER = TEXTS | LINES


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, str, str]:
    """A file, and an old text that is in it but, perhaps, for its blanks."""
    whole = draw(EITHER)
    start = draw(st.integers(0, len(whole)))
    part = whole[start : draw(st.integers(start, len(whole)))]
    swap = draw(st.sampled_from([("", ""), ("\t", "    "), ("    ", "\t"), ("\n", "\r\n")]))
    return whole, draw(st.just(part.replace(*swap)) | EITHER), draw(EITHER)


@given(edits(), st.booleans())
def test_what_is_shown_is_what_is_done(given_edit: tuple[str, str, str], everywhere: bool) -> None:  # noqa: FBT001
    whole, old, new = given_edit
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "a"
        file.write_bytes(whole.encode())
        args = {"file_path": "a", "old_string": old, "new_string": new, "replace_all": everywhere}
        [pending], result = approved(Path(name), ("edit", args))
        after = file.read_bytes()

    [change] = pending.changes
    if isinstance(change, str):
        assert (change, after) == (
            f"The call would fail. {result.text}",
            whole.encode(),
        )
    else:
        bom = "\ufeff" if whole.startswith("\ufeff") else ""
        assert result.failure is None
        assert change == FileChange(
            "a", whole.removeprefix("\ufeff"), after.decode().removeprefix(bom)
        )


@pytest.mark.parametrize(
    ("args", "headline"),
    [
        ({"command": "ls -l"}, "Run: ls -l"),
        ({"command": "ls\nrm -rf x"}, "Run: ls …"),
        ({"command": "sleep 9", "background": True}, "Run in the background: sleep 9"),
        ({"command": "cd  ./Web; ls; cd /"}, "Run in Web: ls; cd /"),
        ({"command": "cd ./Web; ls"}, "Run: cd ./Web; ls"),
        (
            {"command": "cd  './a b'; ls", "background": True},
            "Run in the background and in a b: ls",
        ),
        ({"restart": True}, "Reset the folder and variables of earlier commands"),
        ({"command": "ls", "restart": True}, "Run: ls"),
    ],
)
def test_the_headline_of_a_command_is_the_command(
    tmp_path: Path, args: dict[str, Any], headline: str
) -> None:
    questions: list[Pending] = []

    async def refuse(pending: Pending) -> Answer:
        questions.append(pending)
        return Deny("No.")

    sandbox, calls = Sandbox(tmp_path), [Call("bash", args, "c1")]
    tools: list[Tool[..., Any]] = [bash(sandbox, jobs=Jobs())]
    tools += [] if "background" in args else [bash(sandbox)]
    for one in tools:
        Executor(Toolset(one), policy=ask, approvals=refuse).run_sync(calls[0])

    assert [pending.headline for pending in questions] == [headline] * len(tools)
