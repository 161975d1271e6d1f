"""glob: files by name, newest first, and what was left out where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor
from handrail.tools import Workspace, glob
from tools.search.stage import ask, made, text, tools

TREE = [
    "a.py",
    "src/b.py",
    "src/deep/c.py",
    "src/deep/d.txt",
    ".env",
    ".github/w/ci.yml",
    "src/.x.py",
]


def aged(root: Path, names: list[str]) -> Path:
    """Files, the first the oldest."""
    return made(root, dict.fromkeys(names, "x"))


def test_what_a_model_is_told(tmp_path: Path) -> None:
    spec = glob(Workspace(tmp_path)).spec

    assert spec.description == snapshot("""\
Find files by name or path and return their paths, newest first.

Use it to see which files exist; to list one folder, use read. "src/**" lists every file in src. Matching folders are named at the end. Files matched by .gitignore are skipped unless you set include_ignored, and names with a leading dot unless you set hidden or write the dot.\
""")
    assert spec.input_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "description": 'Glob pattern, such as "**/*.py", "src/**/test_*.ts" or "docs/*.{md,txt}". "*" stays within one folder; "**/" matches any number of folders.',
                },
                "path": {
                    "type": "string",
                    "description": "Folder that the pattern is relative to.",
                    "default": ".",
                },
                "include_ignored": {
                    "type": "boolean",
                    "description": "Include files matched by .gitignore and similar.",
                    "default": False,
                },
                "hidden": {
                    "type": "boolean",
                    "description": "Include files with a leading dot in their path.",
                    "default": False,
                },
                "limit": {
                    "type": "integer",
                    "description": "Number of files to show, at most 1000.",
                    "default": 200,
                },
            },
            "required": ["pattern"],
            "additionalProperties": False,
        }
    )


def test_the_newest_come_first(tmp_path: Path) -> None:
    assert text(aged(tmp_path, TREE), "glob", pattern="**/*") == snapshot("""\
src/deep/d.txt
src/deep/c.py
src/b.py
a.py
[4 files, newest first.]\
""")


def test_a_folder_is_named_with_the_pattern_for_its_files(tmp_path: Path) -> None:
    made(tmp_path, {"only/deep/a.txt": "", "secret/b.txt": "", "c.txt": ""})
    patterns = ["only", "only/", "only/*", "only/deep/*.md", "secret", "c.txt/*", "~x"]

    def told(pattern: str, path: str = ".") -> str:
        options = {"hides": lambda path: path.startswith("secret")}
        return text(tmp_path, "glob", options=options, pattern=pattern, path=path)

    assert {pattern: told(pattern) for pattern in patterns} == snapshot(
        {
            "only": """\
[No file matches.]
[Matching folders: only/.]\
""",
            "only/": """\
only/deep/a.txt
[1 file.]\
""",
            "only/*": """\
[No file matches.]
[Matching folders: only/deep/.]\
""",
            "only/deep/*.md": "[No file matches.]",
            "secret": "[No file matches. '**/secret' would also search subfolders.]",
            "c.txt/*": "[No file matches.]",
            "~x": "[No file matches. '**/~x' would also search subfolders.]",
        }
    )
    assert told("deep", "only") == snapshot(
        """\
[No file matches.]
[Matching folders: only/deep/.]\
"""
    )
    assert told("*.txt", "on*") == snapshot("path takes no wildcards: pass pattern='on*/*.txt'.")


def test_folders_that_match_are_named(tmp_path: Path) -> None:
    files = [
        "src/app/a.py",
        "src/lib/deep/app/b.py",
        "docs/x.md",
        ".git/y",
        ".hidden/z",
        "build/out/o",
    ]
    made(tmp_path, {**dict.fromkeys(files, ""), ".gitignore": "build/\n"})
    (tmp_path / "empty").mkdir()

    def told(pattern: str, **args: Any) -> list[str]:
        lines = text(tmp_path, "glob", pattern=pattern, **args).split("\n")
        return [line for line in lines if "folder" in line]

    cases: list[tuple[str, dict[str, Any]]] = [
        ("*", {}),
        ("*", {"hidden": True}),
        ("*", {"include_ignored": True}),
        ("src/*", {}),
        ("*/app", {}),
        ("**/app", {}),
        ("**/app", {"path": "src"}),
        ("**/*", {}),
        ("**/b.py", {}),
        ("*", {"path": "build"}),
        ("empty/*", {}),
    ]

    assert [(pattern, args, *told(pattern, **args)) for pattern, args in cases] == snapshot(
        [
            ("*", {}, "[Matching folders: docs/, empty/, src/.]"),
            ("*", {"hidden": True}, "[Matching folders: .hidden/, docs/, empty/, src/.]"),
            ("*", {"include_ignored": True}, "[Matching folders: build/, docs/, empty/, src/.]"),
            ("src/*", {}, "[Matching folders: src/app/, src/lib/.]"),
            ("*/app", {}, "[Matching folders: src/app/.]"),
            ("**/app", {}, "[Matching folders: src/app/, src/lib/deep/app/.]"),
            ("**/app", {"path": "src"}, "[Matching folders: src/app/, src/lib/deep/app/.]"),
            ("**/*", {}),
            ("**/b.py", {}),
            ("*", {"path": "build"}, "[Matching folders: build/out/.]"),
            (
                "empty/*",
                {},
                "[No file matches. 'empty' is a folder: 'empty/**' lists the files in it.]",
            ),
        ]
    )


def test_of_many_folders_the_first_are_named(tmp_path: Path) -> None:
    for number in range(52):
        (tmp_path / f"d{number:02}").mkdir()

    assert text(tmp_path, "glob", pattern="*").endswith("d48/, d49/ and 2 more.]")


def test_a_pattern_means_what_it_says(tmp_path: Path) -> None:
    aged(tmp_path, [*TREE, "--pre canary", "!bang", "[x]", "docs/read me.md"])

    def told(pattern: str, **args: Any) -> list[str]:
        answer = text(tmp_path, "glob", pattern=pattern, **args)
        return sorted(
            line for line in answer.splitlines() if not line.startswith("[") or line[2] == "]"
        )

    assert told("*.py") == ["a.py"]
    assert told("**/*.py") == ["a.py", "src/b.py", "src/deep/c.py"]
    assert told("**/*.py", hidden=True) == ["a.py", "src/.x.py", "src/b.py", "src/deep/c.py"]
    assert told("src/**") == ["src/b.py", "src/deep/c.py", "src/deep/d.txt"]
    assert told("src/") == ["src/b.py", "src/deep/c.py", "src/deep/d.txt"]
    assert told("./src/deep/?.{py,txt}") == ["src/deep/c.py", "src/deep/d.txt"]
    assert told("deep/*", path="src") == ["src/deep/c.py", "src/deep/d.txt"]
    assert told("**/.env") == [".env"]
    assert told(".github/**") == [".github/w/ci.yml"]
    assert told("src/.*") == ["src/.x.py"]
    assert told("--pre canary") == ["--pre canary"]
    assert told("!bang") == ["!bang"]
    assert told(r"\[x\]") == ["[x]"]
    assert told("**/read me.*") == ["docs/read me.md"]


def test_what_was_left_out_is_said_where_nothing_matches(tmp_path: Path) -> None:
    aged(tmp_path, ["build/a.js", "build/b.js", "build/c.js", "build/d.js", ".h/e.js", "src/f.py"])
    made(tmp_path, {".gitignore": "build/\n.env\n", ".env": ""})

    def told(**args: Any) -> str:
        return text(tmp_path, "glob", **args)

    assert told(pattern="**/*.js") == snapshot("""\
[No file matches.]
[5 ignored or hidden files would match: .h/e.js, build/a.js, build/b.js and others. Pass include_ignored=true and hidden=true to see them.]\
""")
    assert told(pattern="**/*.js", include_ignored=True, limit=1) == snapshot("""\
build/d.js
[1 of 4 files, newest first. To see others, narrow the pattern or pass a folder as path.]\
""")
    assert told(pattern="**/*.js", hidden=True) == snapshot("""\
.h/e.js
[1 file.]\
""")
    assert told(pattern="**/.env") == snapshot("""\
[No file matches.]
[1 ignored or hidden file would match: .env. Pass include_ignored=true and hidden=true to see it.]\
""")
    assert told(pattern="*.rs") == snapshot(
        "[No file matches. '**/*.rs' would also search subfolders.]"
    )
    assert told(pattern="**/*.rs", hidden=True, include_ignored=True) == snapshot(
        "[No file matches.]"
    )
    assert told(pattern="*.js", path="build") == snapshot("""\
build/d.js
build/c.js
build/b.js
build/a.js
[4 files, newest first.]\
""")
    made(tmp_path, {"gen/.gitignore": "*", "gen/x.js": "", "gen/y.ts": ""})
    assert told(pattern="*.js", path="gen") == snapshot("""\
gen/x.js
[1 file.]
[Ignore rules exclude this whole folder; it was searched because you named it.]\
""")
    assert told(pattern="*.rs", path="gen") == snapshot(
        "[No file matches. '**/*.rs' would also search subfolders.]"
    )


def test_many_files_are_counted_and_some_shown(tmp_path: Path) -> None:
    aged(tmp_path, [f"{n:03}.txt" for n in range(300)])
    lines = text(tmp_path, "glob", pattern="*").splitlines()

    assert lines[:2] == ["299.txt", "298.txt"]
    assert len(lines) == 201
    assert lines[-1] == snapshot(
        "[200 of 300 files, newest first. To see others, narrow the pattern or pass a folder as path.]"
    )
    assert text(tmp_path, "glob", pattern="*", limit=1) == snapshot("""\
299.txt
[1 of 300 files, newest first. To see others, narrow the pattern or pass a folder as path.]\
""")


def test_long_paths_are_shown_as_far_as_they_fit(tmp_path: Path) -> None:
    made(tmp_path, {f"{'x' * 200}/{'y' * 200}/{n:03}{'z' * 200}": "" for n in range(50)})
    answer = text(tmp_path, "glob", pattern="**")

    assert len(answer) < 21_000
    assert answer.splitlines()[-1] == snapshot(
        "[33 of 50 files, newest first. To see others, narrow the pattern or pass a folder as path.]"
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"pattern": ""}, "The pattern is empty. '**/*' matches every file."),
        (
            {"pattern": "/etc/*"},
            "The glob pattern '/etc/*' is absolute. Make it relative to the folder in path.",
        ),
        (
            {"pattern": "a/../../*"},
            "The glob pattern 'a/../../*' contains '..'. Pass the folder to search as path instead.",
        ),
        (
            {"pattern": "{..,a}/*"},
            "The glob pattern '{..,a}/*' contains '..'. Pass the folder to search as path instead.",
        ),
        (
            {"pattern": "{a,b}" * 20},
            "The braces of the glob pattern expand to more than 100 patterns. Use '*' instead of some.",
        ),
        ({"pattern": "x" * 1_001}, "The glob pattern has more than 1,000 characters."),
        ({"pattern": "*", "limit": 1_001}, "limit must be from 1 to 1000, got 1001."),
        (
            {"pattern": "*", "path": "a.py"},
            "'a.py' is a file. Pass a folder as path, or use read.",
        ),
    ],
)
def test_arguments_that_cannot_be_meant(tmp_path: Path, args: dict[str, Any], words: str) -> None:
    assert ask(aged(tmp_path, ["a.py"]), "glob", **args).text == words


async def test_on_both_loops(tmp_path: Path) -> None:
    aged(tmp_path, TREE)

    async with Executor(tools(tmp_path)) as executor:
        result = await executor.run(Call("glob", {"pattern": "**/*.py", "limit": 2}, "c1"))

    assert result.text == snapshot("""\
src/deep/c.py
src/b.py
[2 of 3 files, newest first. To see others, narrow the pattern or pass a folder as path.]\
""")
