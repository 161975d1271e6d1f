"""Screens in a real terminal, at 80 and at 120 columns: all of a line fits on it."""

from __future__ import annotations

import os
import re
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli import pictures
from cli.commands.test_runs import FIRST, keep
from cli_harness import Handrail, made
from cli_screens import Screen

WIDTHS = [80, pytest.param(120, marks=pytest.mark.soak)]


@pytest.fixture
def handrail() -> Iterator[Handrail]:
    """A command in a folder whose name is always as long: it decides where lines are broken."""
    with tempfile.TemporaryDirectory(prefix="handrail-", dir="/tmp") as folder:
        yield made(Path(folder))


def screen(handrail: Handrail, width: int, *arguments: str) -> list[str]:
    """What a command leaves on the screen, with another name for its folder."""
    with Screen(handrail, width=width) as one:
        one.runs(*arguments)
        one.ends()
        lines = one.lines()
    place = str(handrail.folder)
    return [line.replace(place, "/HANDRAIL".ljust(len(place), "X")) for line in lines]


@pytest.mark.parametrize("width", WIDTHS)
def test_doctor(handrail: Handrail, width: int) -> None:
    lines = screen(handrail, width, "doctor")
    shown = [re.sub(r"\d+(\.\d+)+|(?<=Landlock )\d+", "N", line) for line in lines]

    assert (
        shown
        == {
            80: snapshot(
                [
                    "ok    installation        Python N, handrail N",
                    "ok    folders             a project's own folder",
                    "ok    tools               9 tools",
                    "ok    sandbox             bubblewrap: 8 protections enforced, 8 not enforced",
                    "ok    rules               ask: with a sandbox, reading and common development",
                    "                          commands run; secrets and everything else need",
                    "                          approval",
                    "ok    hooks               none",
                    "ok    settings            no problems",
                    "warn  model               no model is set",
                    "                          expected: PROVIDER:NAME with one of anthropic,",
                    "                          openai, openai-chat, gemini; or FILE.py:NAME, or",
                    "                          MODULE:NAME",
                    "                          fix: choose one with `handrail init`, or pass",
                    "                          `--model PROVIDER:NAME`",
                    "ok    terminal            terminal on stdin, stdout, stderr, colors, utf-8",
                    "44 checks: 0 failed, 1 warning; `--full` shows all",
                ]
            ),
            120: snapshot(
                [
                    "ok    installation        Python N, handrail N",
                    "ok    folders             a project's own folder",
                    "ok    tools               9 tools",
                    "ok    sandbox             bubblewrap: 8 protections enforced, 8 not enforced",
                    "ok    rules               ask: with a sandbox, reading and common development commands run; secrets and everything else",
                    "                          need approval",
                    "ok    hooks               none",
                    "ok    settings            no problems",
                    "warn  model               no model is set",
                    "                          expected: PROVIDER:NAME with one of anthropic, openai, openai-chat, gemini; or FILE.py:NAME,",
                    "                          or MODULE:NAME",
                    "                          fix: choose one with `handrail init`, or pass `--model PROVIDER:NAME`",
                    "ok    terminal            terminal on stdin, stdout, stderr, colors, utf-8",
                    "44 checks: 0 failed, 1 warning; `--full` shows all",
                ]
            ),
        }[width]
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_tools_list(handrail: Handrail, width: int) -> None:
    shown = screen(handrail, width, "tools", "list")

    assert (
        shown
        == {
            80: snapshot(
                [
                    "bash       destroy  Run a bash command in the workspace and return its output",
                    "                    and exit code.",
                    "edit       write    Replace text in a file and return the numbers of the changed",
                    "                    lines.",
                    "glob       read     Find files by name or path and return their paths, newest",
                    "                    first.",
                    "grep       read     Search file contents with a regular expression and return",
                    "                    the matching lines.",
                    "read       read     Read a text file, list a folder, or show an image or PDF.",
                    "read_job   read     Read the output of a background job, and whether it is still",
                    "                    running.",
                    "stop_job   write    Stop a background job and every process it started.",
                    "web_fetch  write    Fetch a web page and return its text: an article,",
                    "                    documentation, a raw file or JSON.",
                    "write      write    Create or overwrite a file and report its number of lines.",
                    "                    Parent folders are created.",
                ]
            ),
            120: snapshot(
                [
                    "bash       destroy  Run a bash command in the workspace and return its output and exit code.",
                    "edit       write    Replace text in a file and return the numbers of the changed lines.",
                    "glob       read     Find files by name or path and return their paths, newest first.",
                    "grep       read     Search file contents with a regular expression and return the matching lines.",
                    "read       read     Read a text file, list a folder, or show an image or PDF.",
                    "read_job   read     Read the output of a background job, and whether it is still running.",
                    "stop_job   write    Stop a background job and every process it started.",
                    "web_fetch  write    Fetch a web page and return its text: an article, documentation, a raw file or JSON.",
                    "write      write    Create or overwrite a file and report its number of lines. Parent folders are created.",
                ]
            ),
        }[width]
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_explain(handrail: Handrail, width: int) -> None:
    shown = screen(handrail, width, "explain", "bash", '{"command": "git status && rm -rf build"}')
    shown = shown[: shown.index("")]  # then, a rule to add

    assert (
        shown
        == {
            80: snapshot(
                [
                    'call      bash {"command": "git status && rm -rf build"}',
                    "touches   destroy * (anything)",
                    "rule      ask by mode ask: no rule allows `rm -rf build`",
                    "decision  ask: Allow this command? `git status && rm -rf build` (no rule allows",
                    "`rm -rf build`) [mode ask]",
                ]
            ),
            120: snapshot(
                [
                    'call      bash {"command": "git status && rm -rf build"}',
                    "touches   destroy * (anything)",
                    "rule      ask by mode ask: no rule allows `rm -rf build`",
                    "decision  ask: Allow this command? `git status && rm -rf build` (no rule allows `rm -rf build`) [mode ask]",
                ]
            ),
        }[width]
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_runs_show(handrail: Handrail, width: int) -> None:
    keep(handrail, FIRST)

    shown = screen(handrail, width, "runs", "show", "last")

    assert (
        shown
        == {
            80: snapshot(
                [
                    "run 20261115-112233-aaaaaa",
                    "status     done",
                    "prompt     Tidy the notes.",
                    "workspace  /HANDRAILXXXXXXXXXXXXX/ws",
                    "",
                    "prompt  +0 ms",
                    "  Tidy the notes, and say \\u{1B}[31mwhat\\u{1B}[0m you did.",
                    "turn 1  +2.5 s  m-1  model took 2.5 s  1,500 tokens in, 60 out",
                    "  I look first.",
                    "  #1   read            ████████████                          1.0 s  ok",
                    '       path="a.md"',
                    "       allowed by the policy",
                    "  #2   edit             ░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒     2.5 s  denied",
                    '       path="a.md"',
                    "       asked by keys-stay (/etc/handrail/rules.toml:4): May edit write …",
                    "       denied after 2.5 s",
                    "       waited 900 ms for #1 read",
                    "       denied: Not now.",
                    "  #3   read              ─                                    0 ms  bad_args",
                    '       {"path": "k',
                    "       bad_args: cut short",
                    "",
                    "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
                ]
            ),
            120: snapshot(
                [
                    "run 20261115-112233-aaaaaa",
                    "status     done",
                    "prompt     Tidy the notes.",
                    "workspace  /HANDRAILXXXXXXXXXXXXX/ws",
                    "",
                    "prompt  +0 ms",
                    "  Tidy the notes, and say \\u{1B}[31mwhat\\u{1B}[0m you did.",
                    "turn 1  +2.5 s  m-1  model took 2.5 s  1,500 tokens in, 60 out",
                    "  I look first.",
                    "  #1   read            ████████████████████████████                                                  1.0 s  ok",
                    '       path="a.md"',
                    "       allowed by the policy",
                    "  #2   edit              ░░░░░░░░░░░░░░░░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒     2.5 s  denied",
                    '       path="a.md"',
                    "       asked by keys-stay (/etc/handrail/rules.toml:4): May edit write file:a.md?",
                    "       denied after 2.5 s",
                    "       waited 900 ms for #1 read",
                    "       denied: Not now.",
                    "  #3   read                 ─                                                                         0 ms  bad_args",
                    '       {"path": "k',
                    "       bad_args: cut short",
                    "",
                    "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
                ]
            ),
        }[width]
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_runs_list(handrail: Handrail, width: int) -> None:
    keep(
        handrail, FIRST, prompt="Make the tests of the parser pass, and say what was wrong with it."
    )

    shown = screen(handrail, width, "runs", "list")

    assert (
        shown
        == {
            80: snapshot(
                [
                    "run                     started      status  turns  calls  prompt",
                    "20261115-112233-aaaaaa  11-15 11:22  done    1      3      Make the tests of …",
                ]
            ),
            120: snapshot(
                [
                    "run                     started      status  turns  calls  prompt",
                    "20261115-112233-aaaaaa  11-15 11:22  done    1      3      Make the tests of the parser pass, and say what was wrong …",
                ]
            ),
        }[width]
    )


@pytest.mark.parametrize("width", [20, *WIDTHS])
def test_no_line_of_a_timeline_is_broken_by_the_terminal(handrail: Handrail, width: int) -> None:
    keep(handrail, FIRST, prompt="文件" * 80)
    ran = handrail("runs", "show", "last", env={"COLUMNS": str(width)})

    shown = screen(handrail, width, "runs", "show", "last")

    assert len(shown) == len(ran.out.rstrip("\n").split("\n"))


def words(picture: Path) -> str:
    """What stands in a picture; it parses, and loads nothing from elsewhere."""
    text = picture.read_text(encoding="utf-8")
    assert re.findall(r"https?://[^\"' ]+|@import|<script", text.replace(URL, "")) == [SVG]
    return " ".join(part for part in ET.fromstring(text).itertext() if part.strip())  # noqa: S314


def test_pictures_are_made_of_screens(tmp_path: Path) -> None:
    pictures.main(tmp_path, TAKEN)
    made_now = {one.name: words(one) for one in tmp_path.iterdir()}
    in_docs = {one.name: words(one) for one in pictures.FOLDER.iterdir()}

    assert sorted(in_docs) == sorted(f"{name}.svg" for name in pictures.PICTURES)
    for name, seen in SEEN.items():
        for part in seen:
            assert part in in_docs[f"{name}.svg"], part
            assert name not in TAKEN or part in made_now[f"{name}.svg"], part


SVG = "http://www.w3.org/2000/svg"
URL = "https://ci.example.org/42"
SOAK = os.environ.get("HANDRAIL_PROFILE", "") == "soak"
TAKEN = sorted(pictures.PICTURES) if SOAK else ["running"]
"""The pictures that the test takes anew."""
SEEN = {
    "question": ["Edit src/parse.py, lines 7-8?", "/undo can undo it", "if row.cells:", "y yes"],
    "running": ["Yield the last row", "1 of 3 done", "62%", "Job 1 sh serve.sh"],
    "doctor": ["bubblewrap: 8 protections", "no model is set", "`--full` shows all"],
    "wait": ["overloaded, next try in", "(2 of 10), Esc stops"],
    "plan": ["Carry out this plan?", "Continue in edits", "Change the plan"],
    "install": ["let it reach pypi.org", "and change .venv?", "leaves this machine"],
    "runs-show": ["waited 4.2 s for #1 bash", "denied", "attempt failed", "░"],
}
"""Some of what is on each; all of it is held by other tests."""
