"""The pages with commands: every command runs, and prints what the page says."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

import tiny_server
from cli_harness import Handrail, made
from console_pages import (
    DOCS,
    TUTORIALS,
    Command,
    differences,
    fits,
    mask,
    outcomes,
    play_tutorial,
    run,
    steps,
)
from tiny_server import Tiny

PAGES = sorted(
    [DOCS.parent / "README.md", DOCS / "production" / "durable.md", *(DOCS / "cli").glob("*.md")]
)
REAL = ("README.md", "doctor.md", "durable.md")
"""Pages whose commands are the installed program; the others run where all is loaded already."""


@pytest.mark.timeout(300)  # the workers of durable.md take their time on a busy machine
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_prints_what_the_page_says(page: Path, handrail: Handrail) -> None:
    text = page.read_text(encoding="utf-8")

    try:
        differing = differences(text, outcomes(text, handrail, real=page.name in REAL))
        assert differing == [], f"to rewrite: python tests/console_pages.py {page}"
    finally:  # a page that differs may leave its worker
        worker = handrail.workspace / "worker.pid"
        with suppress(OSError, ValueError):
            os.kill(int(worker.read_text(encoding="utf-8")), signal.SIGKILL)


@pytest.mark.soak
@pytest.mark.timeout(600)  # a model takes its time on a busy machine
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.name)
def test_every_step_of_a_tutorial_prints_what_the_page_says(page: Path, tiny: Tiny) -> None:
    text = page.read_text(encoding="utf-8")

    assert differences(text, play_tutorial(text, tiny)) == []


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_local_model_answers_in_a_whole_sentence(tiny: Tiny) -> None:
    _, heading, rest = tiny_server.PAGE.read_text(encoding="utf-8").partition("\n## A tiny model")
    section = heading + rest.partition("\n## ")[0]

    [(command, printed)] = play_tutorial(section, tiny)

    assert command.line.startswith("handrail run ")
    assert differences(section, [(command, printed)]) == []
    assert differences(section, [(command, printed.replace(" is 12.", " is"))]) != []


@pytest.mark.timeout(600)
def test_the_first_steps_of_a_tutorial_print_what_the_page_says(tiny: Tiny) -> None:
    text = TUTORIALS[0].read_text(encoding="utf-8")
    done = play_tutorial(text, tiny, most=3)

    assert [command.line for command, _ in done] == [
        "python race.py",
        "python check.py",
        "python ask.py",
    ]
    assert differences(text, done) == []


def test_an_output_that_differs_is_found(handrail: Handrail) -> None:
    page = (
        '# Page\n\n```python\n# tools.py\nx = 1\n```\n\n```text title="a.txt"\na\n```\n\n'
        "```console\n$ handrail --version\nhandrail 9\n$ cat a.txt tools.py\na\n# tools.py\nx = 1\n```\n\n"
        "```console\n$ handrail nothing\nhandrail: unknown …\n…\n$ echo $?\n2\n```\n\n"
        "```console\n$ make setup\n```\n"
    )

    assert differences(page, outcomes(page, handrail)) == [
        f"line 13: $ handrail --version\nhandrail {version('handrail')}\n"
    ]


def test_a_dialogue_that_differs_is_found(handrail: Handrail) -> None:
    page = (
        '```python title="ask.py"\nprint(input("┃ your answer: ") * 2)\n```\n\n'
        "```text\n$ python ask.py\n┃ your answer: y\nyy\n```\n\n"
        "```text\n$ python ask.py\n┃ your answer: n\nno\n```\n"
    )

    assert differences(page, outcomes(page, handrail, tutorial=True)) == [
        "line 12: $ python ask.py\n┃ your answer: n\nnn\n"
    ]
    assert [*outcomes(page, handrail)] == []


def test_the_server_of_a_tutorial_is_not_started_again() -> None:
    page = "```console\n$ python tiny.py\n```\n\n```console\n$ A=1 python a.py\n1\n```\n"

    assert [*steps(page)] == [Command("A=1 python a.py", "1\n", page.index("1\n```"))]


def test_a_page_may_leave_out_what_differs_and_nothing_else(tmp_path: Path) -> None:
    assert fits("a … c\n…\nd\n", "a b c\n1\n2\nd\n")
    assert fits("…\nd\n", "d\n")
    assert not fits("a … c\n", "a b\nc\n")
    assert not fits("a\n", "a\nb\n")
    assert not fits("", "a\n")
    assert fits("", run(made(tmp_path), "true", 0, {})[1])


def test_how_long_something_took_is_no_part_of_a_page() -> None:
    assert fits("✓ Read a  8 lines  #1\n", "✓ Read a     8 lines · 1m 02s  #1\n")
    assert not fits("✓ Read a  8 lines  #1\n", "✓ Read a  9 lines · 3 s  #1\n")
    assert not fits("a\n", "a · 3 s\n")


def test_an_update_keeps_what_a_page_leaves_out_of_a_line() -> None:
    assert mask("run …\nold\n", "run 7\nnew\n") == "run …\nnew\n"
