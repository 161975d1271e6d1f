"""The tool apply_patch: several files with one patch, all of them or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from handrail import Args, Call, Executor, Result, ToolFailed, Toolset
from handrail.permissions import FileChange
from handrail.tools import Workspace, apply_patch, undo

APP = "import os\n\n\nclass A:\n    def run(self):\n        return 1\n\n\nclass B:\n    def run(self):\n        return 1\n"  # fmt: skip


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def tree(root: Path) -> dict[str, str]:
    """Every file with its content."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {
        str(path.relative_to(root)): path.read_bytes().decode("utf-8", "replace") for path in files
    }


def start(tmp_path: Path) -> Workspace:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "old.txt").write_text("one\ntwo\n", encoding="utf-8")
    return Workspace(tmp_path)


def run(workspace: Workspace, text: str) -> Result:
    return Executor(Toolset(apply_patch(workspace))).run_sync(
        Call("apply_patch", {"input": text}, "c1")
    )


WHOLE = patch(
    "*** Add File: new/a.txt",
    "+first",
    "+",
    "+third",
    "*** Update File: app.py",
    "@@ class B:",
    "     def run(self):",
    "-        return 1",
    "+        return 2",
    "*** Update File: old.txt",
    "*** Move to: moved.txt",
    "@@",
    " one",
    "-two",
    "+2",
    "*** End of File",
)


def test_files_are_added_changed_and_moved(tmp_path: Path) -> None:
    workspace = start(tmp_path)
    before = tree(tmp_path)

    assert run(workspace, WHOLE).text == snapshot("""\
Patched:
'new/a.txt': created
'app.py': changed
'moved.txt': created
'old.txt': deleted\
""")
    assert tree(tmp_path) == {
        "app.py": APP.removesuffix("return 1\n") + "return 2\n",
        "moved.txt": "one\n2\n",
        "new/a.txt": "first\n\nthird\n",
    }
    report = undo(workspace, "c1")
    assert (report.restored, report.deleted) == (("app.py", "old.txt"), ("moved.txt", "new/a.txt"))
    assert tree(tmp_path) == before


def test_a_file_is_deleted_and_comes_back(tmp_path: Path) -> None:
    workspace = start(tmp_path)
    before = tree(tmp_path)

    assert run(workspace, patch("*** Delete File: old.txt")).text == "Patched:\n'old.txt': deleted"
    assert tree(tmp_path) == {"app.py": APP}
    assert undo(workspace, "c1").restored == ("old.txt",)
    assert tree(tmp_path) == before


def test_several_hunks_are_applied_in_order(tmp_path: Path) -> None:
    workspace = start(tmp_path)
    text = patch(
        "*** Update File: app.py",
        "-import os",
        "+import sys",
        "@@ class A:",
        "@@     def run(self):",
        "-        return 1",
        "+        return 10",
        "@@ class B",
        "+    name = 'b'",
    )

    assert run(workspace, text).text == "Patched:\n'app.py': changed"
    assert tree(tmp_path)["app.py"] == (
        APP.replace("import os", "import sys")
        .replace("return 1\n", "return 10\n", 1)
        .replace("class B:\n", "class B:\n    name = 'b'\n")
    )


WRONG = {
    "no patch": "diff --git",
    "nothing in it": patch(),
    "no file": patch("+x"),
    "no hunks": patch("*** Update File: app.py"),
    "only an anchor": patch("*** Update File: app.py", "@@ class A:"),
    "a strange line": patch("*** Update File: app.py", "import os"),
    "an add without plus": patch("*** Add File: a", "x"),
    "lines after a delete": patch("*** Delete File: old.txt", "-one"),
    "twice": patch("*** Delete File: old.txt", "*** Delete File: old.txt"),
    "there already": patch("*** Add File: old.txt", "+x"),
    "not there": patch("*** Delete File: odl.txt"),
    "no context": patch("*** Update File: app.py", "+x"),
    "no such anchor": patch("*** Update File: app.py", "@@ class C:", "-x"),
    "no such inner anchor": patch("*** Update File: app.py", "@@ class B:", "@@ class A:", "-x"),
    "no such line": patch("*** Update File: app.py", "-import sys", "+x"),
    "several places": patch("*** Update File: app.py", "-        return 1", "+        return 2"),
    "outside": patch("*** Add File: ../x", "+x"),
    "the second fails": patch("*** Add File: a", "+x", "*** Update File: app.py", "-zzz", "+y"),
    "too many files": patch(*(f"*** Delete File: {number}" for number in range(101))),
    "too many hunks": patch("*** Update File: app.py", *["@@", "-x"] * 203),
}


def test_what_cannot_be_applied_changes_nothing(tmp_path: Path) -> None:
    workspace = start(tmp_path)
    before = tree(tmp_path)
    told = {name: run(workspace, text).text for name, text in WRONG.items()}

    assert told == snapshot(
        {
            "no patch": "Not patched: a patch starts with '*** Begin Patch' and ends with '*** End Patch'.",
            "nothing in it": "Not patched: the first line must be '*** Add File: PATH', '*** Update File: PATH' or '*** Delete File: PATH'.",
            "no file": "Not patched: the first line must be '*** Add File: PATH', '*** Update File: PATH' or '*** Delete File: PATH'.",
            "no hunks": "Not patched: the update of 'app.py' has no changes.",
            "only an anchor": "Not patched: the update of 'app.py' has no changes.",
            "a strange line": "Not patched: a line in the update of 'app.py' starts with neither ' ', '-' nor '+': 'import os'.",
            "an add without plus": "Not patched: a line of the new file 'a' lacks its '+': 'x'.",
            "lines after a delete": "Not patched: no lines can follow '*** Delete File: old.txt'.",
            "twice": "Not patched: 'old.txt' occurs twice. Put its changes in one section.",
            "there already": "Not patched: 'old.txt' already exists. Use '*** Update File: old.txt'.",
            "not there": "'odl.txt' does not exist. Did you mean 'old.txt'?",
            "no context": "Not patched: 'app.py', hunk 1: it has only lines to add. Add a line of context before them.",
            "no such anchor": "Not patched: 'app.py', hunk 1: no line is 'class C:'.",
            "no such inner anchor": "Not patched: 'app.py', hunk 1: no line after line 9 is 'class A:'.",
            "no such line": """\
Not patched: 'app.py', hunk 1: its old text is not in the file. The closest text is at line 1. Line by line:
yours        |import sys
 file      1 |import os
Copy its old text exactly from the file.\
""",
            "several places": "Not patched: 'app.py', hunk 1: its old lines occur 2 times, at lines 6, 11. Add context, or a line '@@ ...' with a line before the right place.",
            "outside": "Not run: '../x' is outside the workspace. Use a path inside it.",
            "the second fails": "Not patched: 'app.py', hunk 1: its old text is not in the file, and nothing is similar. Read the file again.",
            "too many files": "Not patched: the patch changes more than 100 files.",
            "too many hunks": "Not patched: 'app.py' has more than 200 hunks.",
        }
    )
    assert tree(tmp_path) == before


def test_what_was_written_is_taken_back_if_a_later_file_fails(tmp_path: Path) -> None:
    workspace = start(tmp_path)
    before = tree(tmp_path)
    text = patch(
        "*** Update File: old.txt",
        "-two",
        "+2",
        "*** Add File: a",
        "+x",
        "*** Add File: a/b",
        "+y",
    )

    assert run(workspace, text).text == snapshot("'a/b' uses a file as a folder.")
    assert tree(tmp_path) == before


def test_one_file_under_two_names_is_noticed_and_nothing_is_changed(tmp_path: Path) -> None:
    workspace = start(tmp_path)
    before = tree(tmp_path)
    text = patch("*** Update File: old.txt", "-two", "+2", "*** Delete File: ./old.txt")

    assert run(workspace, text).text == (
        "Not patched: './old.txt' changed at this moment. Read it, then retry."
    )
    assert tree(tmp_path) == before


def test_deleting_and_moving_need_more_than_writing(tmp_path: Path) -> None:
    tool = apply_patch(start(tmp_path))
    args = [tool.parse({"input": text}) for text in (WHOLE, patch("*** Delete File: old.txt"))]

    assert [
        [str(access) for access in tool.accesses(one)] for one in args if isinstance(one, Args)
    ] == snapshot(
        [
            [
                "read file:new/a.txt",
                "write file:new/a.txt",
                "read file:app.py",
                "write file:app.py",
                "read file:old.txt",
                "write file:old.txt",
                "read file:moved.txt",
                "write file:moved.txt",
                "destroy file:old.txt",
            ],
            ["read file:old.txt", "write file:old.txt", "destroy file:old.txt"],
        ]
    )


def test_a_patch_is_undone_only_if_no_file_changed_since(tmp_path: Path) -> None:
    workspace = start(tmp_path)
    run(workspace, WHOLE)
    (tmp_path / "old.txt").write_text("again\n", encoding="utf-8")
    before = tree(tmp_path)

    with pytest.raises(ToolFailed, match=r"'old.txt' has changed since 'c1'"):
        undo(workspace, "c1")
    assert tree(tmp_path) == before


def test_people_see_what_a_patch_would_do(tmp_path: Path) -> None:
    workspace = start(tmp_path)
    tool = apply_patch(workspace)
    seen = [
        (tool.headline(input=text), tool.preview(input=text, idempotency_key="k"))
        for text in (WHOLE, "x", WRONG["not there"])
    ]  # type: ignore[misc]
    removed = tool.preview(input=patch("*** Delete File: old.txt"), idempotency_key="k")  # type: ignore[misc]

    assert seen == snapshot(
        [
            (
                "Patch new/a.txt, app.py, old.txt, moved.txt",
                [
                    FileChange(
                        path="new/a.txt",
                        before=None,
                        after="""\
first

third
""",
                    ),
                    FileChange(
                        path="app.py",
                        before="""\
import os


class A:
    def run(self):
        return 1


class B:
    def run(self):
        return 1
""",
                        after="""\
import os


class A:
    def run(self):
        return 1


class B:
    def run(self):
        return 2
""",
                    ),
                    FileChange(
                        path="moved.txt",
                        before=None,
                        after="""\
one
2
""",
                    ),
                    FileChange(
                        path="old.txt",
                        before="""\
one
two
""",
                        after=None,
                    ),
                ],
            ),
            (
                "Apply a patch that is not valid",
                "The call would fail. Not patched: a patch starts with '*** Begin Patch' and ends with '*** End Patch'.",
            ),
            (
                "Patch odl.txt",
                "The call would fail. 'odl.txt' does not exist. Did you mean 'old.txt'?",
            ),
        ]
    )
    assert removed == snapshot(
        [
            FileChange(
                path="old.txt",
                before="""\
one
two
""",
                after=None,
            )
        ]
    )


def test_a_patch_that_cannot_be_read_touches_nothing(tmp_path: Path) -> None:
    tool = apply_patch(start(tmp_path))

    assert [str(access) for access in tool.accesses(tool.parse({"input": "x"}))] == [  # type: ignore[arg-type]
        "read patch:invalid"
    ]
