"""The programs in `examples/`: each one runs on its own, and prints what its last comment says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_server import untraced

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
MAX_LINES = 80
"""Lines of a program, its output not counted."""

_OUTPUT = "\n# output:\n"


def command(program: Path) -> str:
    """Return what follows `python` to run a program."""
    name = f"examples/{program.name}"
    return f"-m pytest -qq {name}" if program.name.startswith("test_") else name


def split(source: str) -> tuple[str, str]:
    """Return a program, and what the comment at its end says that it prints."""
    program, found, comment = source.partition(_OUTPUT)
    assert found, "the program ends with a comment that begins with `# output:`"
    return program, "".join(line[2:] + "\n" for line in comment.splitlines())


@pytest.mark.timeout(300)  # the workers of order_agent.py take their time on a busy machine
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_prints_what_its_last_comment_says(program: Path, tmp_path: Path) -> None:
    options = ("-W", "error", "-X", "warn_default_encoding")
    words = [
        word.replace("examples/", f"{program.parent}/", 1) for word in command(program).split()
    ]
    done = subprocess.run(  # noqa: S603  our own programs
        [sys.executable, *options, *words],
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            **untraced(),
            "COLUMNS": "80",
            "PYTEST_ADDOPTS": "-p no:cacheprovider --inline-snapshot=disable",
        },
        capture_output=True,
        encoding="utf-8",
    )

    assert (done.stderr, done.stdout) == ("", split(program.read_text(encoding="utf-8"))[1])
    assert (done.returncode, list(tmp_path.iterdir())) == (0, [])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_is_short_and_says_how_to_run_it(program: Path) -> None:
    source, _ = split(program.read_text(encoding="utf-8"))

    assert len(source.splitlines()) < MAX_LINES
    assert source.startswith('"""')
    assert f"`python {command(program)}`" in source.split('"""')[1]


def test_the_output_is_what_follows_the_last_comment() -> None:
    assert split("print(1)\nprint()\n\n# output:\n# 1\n#\n") == ("print(1)\nprint()\n", "1\n\n")
