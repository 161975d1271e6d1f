"""ripgrep is found where nobody can plant one, and may read the workspace alone."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import Call, Executor
from tools.search.stage import RIPGREP, ask, made, program, text, tools

MISSING = snapshot(
    "Not run: this tool needs ripgrep (rg), which is not installed. Tell the user to install it, for example with: pip install 'handrail[coding]'."
)


def test_ripgrep_is_never_taken_from_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "ws"
    program(root / "bin/rg", r"printf 'planted\0'")
    program(root / "venv/bin/rg", r"printf 'planted\0'")
    real = Path(program(tmp_path / "real/rg", r"printf 'real\0'"))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/rg").symlink_to(root / "bin/rg")
    (tmp_path / "way").symlink_to(root / "bin")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/rg").write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "executable", str(root / "venv/bin/python"))
    monkeypatch.chdir(root)
    bad = [root / "bin", tmp_path / "linked", tmp_path / "way", tmp_path / "plain", tmp_path / "no"]

    def answer(*folders: object) -> str:
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
        return text(root, "glob", None, pattern="*")

    assert answer(*bad, "", ".", "bin") == MISSING
    assert answer(*bad, real.parent) == "real\n[1 file.]\n[Matching folders: bin/, venv/.]"
    beside = Path(program(tmp_path / "python/rg", r"printf 'beside\0'"))
    monkeypatch.setattr(sys, "executable", str(beside.parent / "python"))
    assert answer(real.parent) == "beside\n[1 file.]\n[Matching folders: bin/, venv/.]"


def test_without_ripgrep_the_tools_say_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, {"ws/a.txt": "hit\n"})
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    executor = Executor(tools(tmp_path / "ws", None))

    missing = [executor.run_sync(Call(name, {"pattern": "hit"}, name)) for name in ("glob", "grep")]
    assert [(result.text, result.failure and result.failure.kind.value) for result in missing] == [
        (MISSING, "failed"),
        (MISSING, "failed"),
    ]

    (tmp_path / "bin/rg").symlink_to(RIPGREP)
    assert executor.run_sync(Call("grep", {"pattern": "hit"}, "installed")).text == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file (1 line).]\
""")


def test_settings_of_the_host_do_not_reach_ripgrep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = made(tmp_path, {"rc": "--invert-match\n", "ws/a.txt": "needle\nother\n"}) / "rc"
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(settings))
    made(tmp_path, {"ws/.ripgreprc": "--invert-match\n"})

    assert text(tmp_path / "ws", "grep", pattern="needle") == snapshot("""\
a.txt
1: needle
[1 matching line in 1 file (2 lines).]\
""")


LINE = st.tuples(st.text("ab ", max_size=4), st.sampled_from(["\n", "\r\n"])).map("".join)
CONTENT = st.tuples(st.lists(LINE, max_size=6).map("".join), st.text("ab", max_size=2)).map("".join)


def naive(contents: list[str], pattern: str) -> str:
    """What grep says, by trying every line."""
    files, sizes, count = list[str](), list[int](), 0
    for number, content in enumerate(contents):
        lines = content.replace("\r\n", "\n").removesuffix("\n").split("\n") if content else []
        hits = [f"{n}: {line}" for n, line in enumerate(lines, 1) if re.search(pattern, line)]
        files += ["\n".join([f"{number}.txt", *hits])] if hits else []
        sizes += [len(lines)] if hits else []
        count += len(hits)
    if not files:
        return "[No matches.]"
    lines_and_files = [(count, "matching line"), (len(files), "file")]
    words = " in ".join(f"{n} {noun}{'s' * (n != 1)}" for n, noun in lines_and_files)
    *most, last = map(str, sizes)
    both = f"{', '.join(most)} and {last}" if most else last
    return "\n\n".join(files) + f"\n[{words} ({both} line{'s' * (sizes != [1])}).]"


@given(
    st.lists(CONTENT, max_size=3),
    st.sampled_from(["a", "b$", "^a", "^$", "a b", "a+", "[ab]{2}", " ", "(a|b)a"]),
)
def test_grep_finds_what_trying_every_line_finds(contents: list[str], pattern: str) -> None:
    with TemporaryDirectory() as folder:
        files = {f"{number}.txt": content for number, content in enumerate(contents)}
        root = made(Path(folder), files)
        assert text(root, "grep", pattern=pattern) == naive(contents, pattern)


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    made(tmp_path, {"a.txt": "hit\n"})
    os.mkfifo(tmp_path / "pipe")
    os.mknod(tmp_path / "null", 0o20666, os.makedev(1, 3)) if os.geteuid() == 0 else None
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))

    assert text(tmp_path, "grep", pattern="hit") == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file (1 line).]\
""")
    assert text(tmp_path, "glob", pattern="**") == snapshot("""\
a.txt
[1 file.]\
""")
    assert ask(tmp_path, "grep", pattern="hit", path="pipe").text == snapshot(
        "'pipe' is not a regular file but a device, pipe or socket."
    )


def test_folders_that_are_too_deep_are_said_to_be_missing(tmp_path: Path) -> None:
    """Deeper than a path can be written."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(120):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    made(tmp_path, {"a.txt": "hit\n"})

    assert text(tmp_path, "grep", pattern="hit") == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file (1 line).]
[Some files or folders could not be opened and were not searched.]\
""")


def test_a_file_that_cannot_be_opened_is_said_to_be_missing(tmp_path: Path) -> None:
    made(tmp_path, {"a.txt": "hit\n", "b.txt": "hit\n"})
    (tmp_path / "b.txt").chmod(0)

    assert text(tmp_path, "grep", pattern="hit") == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file (1 line).]
[Some files or folders could not be opened and were not searched.]\
""")
