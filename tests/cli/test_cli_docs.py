"""The pages on the command line: every line runs, and prints what the page says.

A fence opened with ```` ```console ```` that begins with `$ handrail` is run by bash, line by line, in
one workspace for each page; what stands below a line is what a terminal would show. `…` stands for
anything, on a line of its own for any lines. Before, the files are written that the page shows: fences
opened with ```` ```text title=FILE ````, or that begin with a comment that is a name of a file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cli_harness import Handrail, made
from handrail._version import __version__

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs" / "cli").glob("*.md")])
BIN = Path(sys.executable).parent
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# (?P<name>[\w./-]+\.(?:py|toml|md|jsonl?))\n")
_COMMAND = re.compile(r"^\$ (?P<line>.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE)


class File(NamedTuple):
    """A file that a page shows."""

    name: str
    text: str


class Command(NamedTuple):
    """A line that a page runs, and what it shows."""

    line: str
    shown: str
    at: int
    """Its line in the page."""


def steps(text: str) -> Iterator[File | Command]:
    """What a page does, in order."""
    for fence in _FENCE.finditer(text):
        info, body = fence["info"], fence["body"]
        named = _NAMED.match(body)
        if info.startswith("text title="):
            yield File(info.partition("=")[2].strip('"'), body)
        elif info == "console" and body.startswith("$ handrail"):
            begins = text.count("\n", 0, fence.start("body")) + 1
            for one in _COMMAND.finditer(body):
                yield Command(one["line"], one["shown"], begins + body.count("\n", 0, one.start()))
        elif named and info in {"text", "python"}:
            yield File(named["name"], body)


def fits(shown: str, printed: str) -> bool:
    """Whether this was printed; … is anything on its line, or any lines."""
    lines = [
        r"(?:.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*")
        for line in shown.splitlines(keepends=True)
    ]
    return re.fullmatch("".join(lines), printed) is not None


def run(handrail: Handrail, line: str, before: int) -> tuple[int, str]:
    """What a line prints at a terminal whose home is somebody's."""
    env = handrail.environment({"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"})
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", f"(exit {before}); {line}"],  # noqa: S607
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=env,
        cwd=handrail.workspace,
        check=False,
    )
    shown = done.stdout.replace(str(handrail.workspace), "/home/ana/project")
    return done.returncode, shown.replace(str(handrail.folder), "/home/ana")


def wrong(text: str, handrail: Handrail) -> list[str]:
    """The commands of a page that print something else than it says."""
    found, code = [], 0
    for step in steps(text):
        if isinstance(step, File):
            handrail.write(step.name, step.text)
            continue
        code, printed = run(handrail, step.line, code)
        if not fits(step.shown, printed):
            found.append(f"line {step.at}: $ {step.line}\n{printed}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_prints_what_the_page_says(page: Path, handrail: Handrail) -> None:
    assert wrong(page.read_text(encoding="utf-8"), handrail) == []


def test_what_is_not_so_is_found(handrail: Handrail) -> None:
    page = (
        "# Page\n\n```python\n# tools.py\nx = 1\n```\n\n```text title=a.txt\na\n```\n\n"
        "```console\n$ handrail --version\nhandrail 9\n$ cat a.txt tools.py\na\n# tools.py\nx = 1\n```\n\n"
        "```console\n$ handrail nothing\nhandrail: there is no …\n…\n$ echo $?\n2\n```\n\n"
        "```console\n$ make setup\n```\n"
    )

    assert wrong(page, handrail) == [f"line 13: $ handrail --version\nhandrail {__version__}\n"]


def test_a_page_may_leave_out_what_differs_and_nothing_else(tmp_path: Path) -> None:
    assert fits("a … c\n…\nd\n", "a b c\n1\n2\nd\n")
    assert fits("…\nd\n", "d\n")
    assert not fits("a … c\n", "a b\nc\n")
    assert not fits("a\n", "a\nb\n")
    assert not fits("", "a\n")
    assert fits("", run(made(tmp_path), "true", 0)[1])
