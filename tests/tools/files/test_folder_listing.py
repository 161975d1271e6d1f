"""A folder is listed: one level, folders with a slash, ignored entries marked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import Call, Executor, Result, Toolset
from handrail.policy import Level, Rulebook, parse
from handrail.tools import Workspace, hide_denied, read


def listed(workspace: Workspace, path: str = ".") -> Result:
    return Executor(Toolset(read(workspace))).run_sync(Call("read", {"file_path": path}, "c1"))


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            (root / path).write_text("", encoding="utf-8")
        else:
            (root / path).mkdir(exist_ok=True)


def test_a_folder_is_listed_one_level_deep(tmp_path: Path) -> None:
    make(
        tmp_path, "src/app.py", "src/old.pyc", "src/deep/x.py", "build/out", ".env", "b.log", "a.py"
    )
    (tmp_path / ".gitignore").write_text(
        "# built\n../x\n/build/\n*.pyc\n*.log\n!b.log\n", encoding="utf-8"
    )
    (tmp_path / "link").symlink_to("a.py")

    assert listed(Workspace(tmp_path)).text == snapshot("""\
.env
.gitignore
a.py
b.log
build/ (ignored)
link (link)
src/
[2 folders and 5 files.]\
""")
    assert listed(Workspace(tmp_path), "src").text == snapshot("""\
app.py
deep/
old.pyc (ignored)
[1 folder and 2 files.]\
""")
    assert listed(Workspace(tmp_path), "build").text == snapshot("""\
out
[0 folders and 1 file.]
[Ignore rules exclude this whole folder.]\
""")


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    assert listed(Workspace(tmp_path)).text == "[The folder is empty.]"


def test_what_rules_hide_is_not_listed(tmp_path: Path) -> None:
    make(tmp_path, "a", "secret", "keys/k")
    workspace = Workspace(tmp_path, hides=lambda path: path in {"secret", "keys"})

    assert listed(workspace).text == "a\n[0 folders and 1 file.]"


def test_a_folder_with_a_denied_file_is_listed_without_it(tmp_path: Path) -> None:
    make(tmp_path, "a", ".env")
    text = '[[rule]]\ndecide = "deny"\naccess = "read file:**/.env"\n'
    policy = Rulebook(parse(text, file="r.toml", level=Level.USER).rules, mode="edits")
    told = [
        Executor(Toolset(read(workspace)), policy=policy)
        .run_sync(Call("read", {"file_path": "."}, "c1"))
        .text
        for workspace in (Workspace(tmp_path, hides=hide_denied(policy)), Workspace(tmp_path))
    ]

    assert told == snapshot(
        [
            """\
a
[0 folders and 1 file.]\
""",
            "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: Allow `read` to read the workspace? (reading the workspace may include what rule 'deny read file:**/.env' denies)",
        ]
    )


def test_of_many_entries_the_first_are_listed(tmp_path: Path) -> None:
    make(tmp_path, *(f"{number:04}" for number in range(1_002)))
    lines = listed(Workspace(tmp_path)).text.split("\n")

    assert (len(lines), lines[-2:]) == snapshot(
        (
            1001,
            [
                "0999",
                "[0 folders and 1,002 files; the first 1,000 are shown. Use glob for the others.]",
            ],
        )
    )


def test_a_folder_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/out").symlink_to(tmp_path)
    workspace = Workspace(tmp_path / "ws")

    assert [listed(workspace, path).text for path in ("..", "out")] == snapshot(
        [
            "Not run: '..' is outside the workspace. Use a path inside it.",
            "Not run: 'out' is or passes through a link out of the workspace.",
        ]
    )


RIPGREP = shutil.which("rg", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or "rg"
RULES = ["/a", "b/", "*.x", "!a.x", "c/d", "**/e", "a/**", "?.y", "[ab].z", "# a", "\\#a", "x  ", "../a", "a/**/b"]  # fmt: skip
NAMES = ["a", "b", "a.x", "b.x", "d", "e", "a.y", "ab.y", "a.z", "c.z", "#a", "x"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    rules=st.lists(st.sampled_from(RULES), max_size=4),
    inner=st.lists(st.sampled_from(RULES), max_size=2),
    names=st.sets(st.sampled_from(NAMES), min_size=1, max_size=6),
)
def test_files_are_ignored_as_ripgrep_ignores_them(
    rules: list[str], inner: list[str], names: set[str], tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as made:
        root = Path(made)
        make(root, *names, *(f"c/{name}" for name in names))
        (root / ".gitignore").write_text("\n".join(rules), encoding="utf-8")
        (root / "c/.gitignore").write_text("\n".join(inner), encoding="utf-8")
        argv = [RIPGREP, "--files", "--hidden", "--no-require-git", "--no-ignore-parent"]
        seen = subprocess.run(  # noqa: S603  ripgrep
            argv, cwd=made, capture_output=True, encoding="utf-8", check=False
        ).stdout

        here, below = (listed(Workspace(root), path).text.split("\n") for path in (".", "c"))
        ours = {name for name in names if name in here}
        if "[Ignore rules exclude this whole folder.]" not in below:
            ours |= {f"c/{name}" for name in names if name in below}

        assert ours == {line for line in seen.split("\n") if line and ".gitignore" not in line}
