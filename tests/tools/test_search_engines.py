"""The engines: ripgrep is found where nobody can plant one; without it the same is found."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail.tools._fallback import Walk
from handrail.tools._linear import finder
from handrail.tools._pattern import Pattern
from handrail.tools._ripgrep import Ripgrep
from handrail.tools._scope import Query
from handrail.tools._search import Engine, best_engine
from handrail.tools._workspace import Workspace
from tools.search_stage import RIPGREP, ask, engines, made, text

# ---------------------------------------------------------------- which


def program(path: Path, script: str = "exit 1") -> Path:
    """A program."""
    made(path.parent, {path.name: f"#!/bin/sh\n{script}\n"})
    path.chmod(0o755)
    return path


def test_ripgrep_is_never_taken_from_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "ws"
    program(root / "bin/rg")
    program(root / "venv/bin/rg")
    real = program(tmp_path / "real/rg")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/rg").symlink_to(root / "bin/rg")
    (tmp_path / "way").symlink_to(root / "bin")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/rg").write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "executable", str(root / "venv/bin/python"))
    monkeypatch.chdir(root)
    bad = [root / "bin", tmp_path / "linked", tmp_path / "way", tmp_path / "plain", tmp_path / "no"]

    def found(*folders: object) -> Ripgrep | None:
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
        return Ripgrep.find(outside=str(root))

    assert found(*bad, "", ".", "bin") is None
    assert isinstance(best_engine(Workspace(root)), Walk)
    assert found(*bad, real.parent) == Ripgrep(str(real))
    assert best_engine(Workspace(root)) == Ripgrep(str(real))
    beside = program(tmp_path / "python/rg")
    monkeypatch.setattr(sys, "executable", str(beside.parent / "python"))
    assert found(real.parent) == Ripgrep(str(beside))


def test_settings_of_the_host_do_not_reach_ripgrep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = made(tmp_path, {"rc": "--invert-match\n", "ws/a.txt": "needle\nother\n"}) / "rc"
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(settings))
    made(tmp_path, {"ws/.ripgreprc": "--invert-match\n"})

    assert text(tmp_path / "ws", "grep", pattern="needle") == snapshot("""\
a.txt
1: needle
[1 matching line in 1 file.]\
""")


# ---------------------------------------------------------------- without ripgrep

HERE = {
    "a.py": "def f():\n    return 1\n",
    "b/c.py": "x = f()\r\ny = 2\r\n",
    "b/d/e.txt": "no end of line",
    "b/d/f": "",
    "b-c/g.py": "f f f\n\n\nf\n",
    ".h/i.py": "def f(): ...\n",
    ".j": "f\n",
    "b/.k/l.md": "äöü f ß\n",
    "bin": b"f\0f\n",
    "wide": "f ü\nx\n".encode("utf-16"),
    "odd": b"\xff f \xfe\n",
    ".gitignore": "b/\n*.py\n",
    ".git/config": "f\n",
}
QUESTIONS: list[dict[str, Any]] = [
    {"pattern": "f"},
    {"pattern": "def f"},
    {"pattern": r"\bf\(", "context": 1},
    {"pattern": "^f$|2$"},
    {"pattern": r"\($|\)$"},
    {"pattern": "F", "ignore_case": True},
    {"pattern": "f()", "fixed_strings": True},
    {"pattern": "F()", "fixed_strings": True, "ignore_case": True},
    {"pattern": r"f\n", "multiline": True},
    {"pattern": "f.*f", "multiline": True, "before": 1},
    {"pattern": r"\n\n", "multiline": True},
    {"pattern": "f", "output_mode": "count"},
    {"pattern": "[a-z]+ = ", "output_mode": "files"},
    {"pattern": "f", "glob": "*.py"},
    {"pattern": "f", "glob": "!*.py"},
    {"pattern": "f", "glob": "b/**"},
    {"pattern": "f", "glob": ".h/**"},
    {"pattern": "f", "path": "b"},
    {"pattern": "f", "path": "b/c.py"},
    {"pattern": "no such thing"},
    {"pattern": "(?i:DEF)"},
    {"pattern": "a|b|c|d"},
]


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_the_engines_find_the_same(tmp_path: Path, question: dict[str, Any], hidden: bool) -> None:  # noqa: FBT001
    made(tmp_path, HERE)
    (tmp_path / "link").symlink_to("a.py")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "pipe")
    args = {**question, "include_ignored": True, "hidden": hidden}

    assert text(tmp_path, "grep", Walk(), **args) == text(tmp_path, "grep", RIPGREP, **args)


@pytest.mark.parametrize("pattern", ["**", "*", "**/*.py", "b/**", ".h/*", "**/.*", "b*/?.py"])
@pytest.mark.parametrize("hidden", [True, False])
def test_the_engines_list_the_same(tmp_path: Path, pattern: str, hidden: bool) -> None:  # noqa: FBT001
    made(tmp_path, HERE)
    args = {"pattern": pattern, "include_ignored": True, "hidden": hidden}

    assert text(tmp_path, "glob", Walk(), **args) == text(tmp_path, "glob", RIPGREP, **args)


LINE = st.tuples(st.text("ab ", max_size=4), st.sampled_from(["\n", "\r\n"])).map("".join)
CONTENT = st.tuples(st.lists(LINE, max_size=6).map("".join), st.text("ab", max_size=2)).map("".join)


@given(
    st.lists(CONTENT, max_size=3),
    st.sampled_from(["a", "b$", "^a", "^$", "a b", "a+", "[ab]{2}", " ", "(a|b)a"]),
    st.sampled_from([0, 1]),
)
def test_the_engines_agree_on_any_text(contents: list[str], pattern: str, around: int) -> None:
    with TemporaryDirectory() as folder:
        root = made(Path(folder), {f"{n}.txt": one for n, one in enumerate(contents)})
        args = {"pattern": pattern, "context": around}
        assert text(root, "grep", Walk(), **args) == text(root, "grep", RIPGREP, **args)


def test_without_an_engine_plain_text_is_found_and_the_rest_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, {"a.txt": "a.b\nacb\n"})
    monkeypatch.setitem(sys.modules, "re2", None)

    assert ask(tmp_path, "grep", Walk(), pattern="acb").text == snapshot("""\
a.txt
2: acb
[1 matching line in 1 file.]
[Ignore files were not looked at: what they leave out was searched too.]\
""")
    assert ask(tmp_path, "grep", Walk(), pattern="a.b", fixed_strings=True).text == snapshot("""\
a.txt
1: a.b
[1 matching line in 1 file.]
[Ignore files were not looked at: what they leave out was searched too.]\
""")
    assert ask(tmp_path, "grep", Walk(), pattern="a.b").text == snapshot(
        "Only plain text can be searched for here: pass fixed_strings=true. (For regular expressions, whoever runs this program installs: pip install 'handrail[search]'.)"
    )


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?<=a)b", "(?=a)", "(a", "*a", "(" * 999 + ")" * 999]
)
def test_both_engines_refuse_the_same_patterns(tmp_path: Path, pattern: str) -> None:
    made(tmp_path, {"a.txt": "a"})
    both = [ask(tmp_path, "grep", engine, pattern=pattern) for engine in (Walk(), RIPGREP)]

    assert [one.failure is not None and one.failure.kind.value for one in both] == ["failed"] * 2
    assert both[0].text.split(":")[0] == both[1].text.split(":")[0]


def test_the_walk_knows_no_types(tmp_path: Path) -> None:
    assert ask(tmp_path, "grep", Walk(), pattern="a", type="py").text == snapshot(
        "type cannot be used here. Pass a glob such as '*.py' instead."
    )


def test_the_walk_looks_at_so_many_entries_and_no_more(tmp_path: Path) -> None:
    made(tmp_path, {f"{n}/{n}.txt": "hit\n" for n in range(20)})

    assert ask(
        tmp_path, "grep", Walk(entries=10), pattern="hit", output_mode="files"
    ).text == snapshot("""\
0/0.txt
1/1.txt
10/10.txt
11/11.txt
12/12.txt
[5 files.]
[This is not complete: there are too many files to look at all of them. Name a folder in path.]
[Ignore files were not looked at: what they leave out was searched too.]\
""")
    assert ask(tmp_path, "glob", Walk(entries=10), pattern="**", limit=1).text == snapshot("""\
12/12.txt
[1 of 5 files, newest first. To see others, narrow the pattern or name a folder in path.]
[This is not complete: there are too many files to look at all of them. Name a folder in path.]
[Ignore files were not looked at: what they leave out was searched too.]\
""")
    assert ask(tmp_path, "glob", Walk(entries=10), pattern="no").text == snapshot("""\
[No file was found so far.]
[This is not complete: there are too many files to look at all of them. Name a folder in path.]
[Ignore files were not looked at: what they leave out was searched too.]\
""")


@engines
def test_what_is_no_file_is_passed_over(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, {"a.txt": "hit\n"})
    os.mkfifo(tmp_path / "pipe")
    os.mknod(tmp_path / "null", 0o20666, os.makedev(1, 3)) if os.geteuid() == 0 else None
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))

    assert text(tmp_path, "grep", engine, pattern="hit") == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file.]\
""")
    assert text(tmp_path, "glob", engine, pattern="**") == snapshot("""\
a.txt
[1 file.]\
""")
    assert ask(tmp_path, "grep", engine, pattern="hit", path="pipe").text == snapshot(
        "'pipe' is no ordinary file, but a device, pipe or socket."
    )


@engines
def test_folders_that_are_too_deep_are_said_to_be_missing(tmp_path: Path, engine: Engine) -> None:
    """Deeper than the walk goes, and than a path can be written."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(120):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    made(tmp_path, {"a.txt": "hit\n"})

    assert text(tmp_path, "grep", engine, pattern="hit") == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file.]
[Some files or folders could not be opened and were not searched.]\
""")


def test_a_file_that_cannot_be_opened_is_said_to_be_missing(tmp_path: Path) -> None:
    made(tmp_path, {"a.txt": "hit\n", "b.txt": "hit\n"})
    (tmp_path / "b.txt").chmod(0)

    assert text(tmp_path, "grep", pattern="hit") == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file.]
[Some files or folders could not be opened and were not searched.]\
""")


@pytest.mark.parametrize("name", ["glob", "grep"])
def test_what_changes_while_the_walk_is_under_way_is_passed_over(tmp_path: Path, name: str) -> None:
    made(tmp_path, {"a": "hit\n", "b/x": "hit\n", "c": "hit\n", "d": "hit\n", "e": "hit\n"})
    made(tmp_path, {f"_/{n}": "" for n in range(600)})

    def changes(path: str) -> bool:
        if path in ("a", "_/0") and (tmp_path / "c").exists():
            shutil.rmtree(tmp_path / "b")
            (tmp_path / "c").unlink()
            (tmp_path / "d").unlink()
            os.mkfifo(tmp_path / "d")
        return False

    answer = text(tmp_path, name, Walk(), options={"hides": changes}, pattern=NOW[name])
    assert answer == WHAT_IS_LEFT[name]


NOW = {"glob": "?", "grep": "hit"}
WHAT_IS_LEFT = snapshot(
    {
        "glob": """\
d
e
a
c
[4 files, newest first.]\
""",
        "grep": """\
a
1: hit

e
1: hit
[2 matching lines in 2 files.]
[Some files or folders could not be opened and were not searched.]\
""",
    }
)


# ---------------------------------------------------------------- patterns


def naive(pattern: str, path: str) -> bool:
    """What a pattern means, tried in every way: right, and slow."""
    return _steps(pattern.split("/"), path.split("/"))


def _steps(wanted: list[str], given: list[str]) -> bool:
    if not wanted or not given:
        return wanted == given
    plain = not given[0].startswith(".")
    if wanted[0] != "**":
        dot = plain or wanted[0].startswith(".")
        return dot and _fits(wanted[0], given[0]) and _steps(wanted[1:], given[1:])
    last = len(wanted) == len(given) == 1
    return (plain and (last or _steps(wanted, given[1:]))) or (
        len(wanted) > 1 and _steps(wanted[1:], given)
    )


def _fits(wanted: str, given: str) -> bool:
    if not wanted or not given:
        return wanted.strip("*") == given == ""
    if wanted[0] == "*":
        return _fits(wanted[1:], given) or _fits(wanted, given[1:])
    return wanted[0] in ("?", given[0]) and _fits(wanted[1:], given[1:])


NAME = st.text("ab.", min_size=1, max_size=4).filter(lambda one: one.strip("."))
STEP = st.one_of(
    st.just("**"), st.text("ab.*?", min_size=1, max_size=5).filter(lambda one: one.strip("."))
)


@given(
    st.lists(STEP, min_size=1, max_size=5).map("/".join),
    st.lists(NAME, min_size=1, max_size=5).map("/".join),
)
def test_a_pattern_means_what_trying_everything_says(pattern: str, path: str) -> None:
    assert bool(Pattern(pattern).means(path)) == naive(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("[!a]x", "bx", True),
        ("[!a]x", "ax", False),
        ("[^a]x", "ax", False),
        ("[]]", "]", True),
        ("[]", "[]", True),
        ("[a-c]", "b", True),
        ("[z-a]", "z", True),
        ("[a/b]", "a", False),
        ("[[]", "[", True),
        ("[!a]", "/", False),
        ("{a}", "{a}", True),
        ("{a,b", "{a,b", True),
        ("a,b}", "a,b}", True),
        (r"\{a,b\}", "{a,b}", True),
        ("x{a,{b,c}d}", "xcd", True),
        ("{,x}a", "a", True),
        (r"\*", "*", True),
        (r"\.a", ".a", True),
        ("a//b", "a/b", True),
        ("./", "a/b", True),
        ("é?", "éé", True),
        ("*", "\udcff", True),
    ],
)
def test_the_finer_points_of_patterns(pattern: str, path: str, meant: bool) -> None:  # noqa: FBT001
    assert bool(Pattern(pattern).means(path)) == meant


def test_matching_takes_no_longer_for_a_hostile_pattern() -> None:
    path = "/".join("a" * 60 for _ in range(60))
    for pattern in (
        "*a" * 300 + "b",
        "**/*a*a*a*b/" * 20 + "x",
        "**/a*/" * 90 + "x",
        "{*a,*aa}" * 6 + "b",
    ):
        assert Pattern(pattern).means(path) is None


def test_an_empty_match_ends() -> None:
    find = finder(Query("x*", multiline=True))

    assert list(find("ab")) == [(0, 0), (1, 1), (2, 2)]
