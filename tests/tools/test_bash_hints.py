"""Commands that want what is not there return at once, and say what to do instead."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest
from inline_snapshot import snapshot

from handrail.tools._hints import hint, hopeless
from tools.bash_stage import told

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """What is said does not depend on it."""
    return "asyncio"


REPOSITORY = """
git init -q . && git config user.email a@b.c && git config user.name n && echo 1 > f && git add f
git commit -qm one && git checkout -qb side && echo 2 > f && git commit -qam two
git checkout -q - && echo 3 > f && git commit -qam three
"""

WAITING = {
    "cat": snapshot(
        [
            "[Nothing can be typed here: 'cat' found its standard input empty. Name a file, or hand the text over with a pipe or a here-document.]"
        ]
    ),
    "cat - > out": snapshot(
        [
            "[Nothing can be typed here: 'cat' found its standard input empty. Name a file, or hand the text over with a pipe or a here-document.]"
        ]
    ),
    "read x": snapshot(
        [
            "[Nothing can be typed here: 'read' found its standard input empty. Name a file, or hand the text over with a pipe or a here-document.]"
        ]
    ),
    "python3": snapshot(
        [
            "[Nothing can be typed here: 'python3' without a program to run ends at once. Put the program into a file, into an option such as -c or -e, or into a here-document.]"
        ]
    ),
    "bash": snapshot(
        [
            "[Nothing can be typed here: 'bash' without a program to run ends at once. Put the program into a file, into an option such as -c or -e, or into a here-document.]"
        ]
    ),
    "sudo ls": snapshot(
        ["[No rights beyond your own can be had here. Do it without 'sudo', or tell the user.]"]
    ),
    "passwd": snapshot(
        ["[No rights beyond your own can be had here. Do it without 'passwd', or tell the user.]"]
    ),
    "ssh nobody@host.invalid ls": snapshot(
        [
            "['ssh' cannot ask for a password here, and reaches no host that was not allowed. Work with what is here, or tell the user.]"
        ]
    ),
    "vi f": snapshot(
        [
            "There is no terminal for 'vi'. Change files with the tools for that, or with sed. Nothing was run."
        ]
    ),
    "FOO=1 vim f": snapshot(
        [
            "There is no terminal for 'vim'. Change files with the tools for that, or with sed. Nothing was run."
        ]
    ),
    "less": snapshot(
        [
            "[Nothing can be typed here: 'less' found its standard input empty. Name a file, or hand the text over with a pipe or a here-document.]"
        ]
    ),
    "git commit": snapshot(
        ["[There is no editor here. Give the message with -m, or in a file with -F.]"]
    ),
    "git tag -a v1": snapshot(
        ["[There is no editor here. Give the message with -m, or in a file with -F.]"]
    ),
    "python3 -c 'input()'": snapshot(
        ["[Nothing can be typed here. Give what it asks for with options, files or variables.]"]
    ),
    "echo x > /etc/handrail-test": snapshot(
        ["[Only the workspace and $TMPDIR can be written, and not what is protected in it.]"]
    ),
    "curl -sS http://host.invalid/": snapshot(
        [
            "[No host can be reached from here but those that were allowed. Work with what is here, or tell the user which host is needed.]"
        ]
    ),
}


def shell(root: Path, lines: str) -> None:
    subprocess.run(["bash", "-c", lines], cwd=root, check=True, capture_output=True)  # noqa: S603, S607


def advice(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("[", "There"))][:-1] or [text]


@pytest.mark.parametrize("command", WAITING)
async def test_a_command_that_waits_for_somebody_returns_with_a_hint(
    tmp_path: Path, command: str
) -> None:
    if command.startswith("git"):
        shell(tmp_path, f"{REPOSITORY}echo 4 > f; git add f")
    with anyio.fail_after(5):
        text = await told(tmp_path, command)

    assert advice(text) == WAITING[command]


async def test_a_rebase_goes_on_without_an_editor(tmp_path: Path) -> None:
    shell(tmp_path, f"{REPOSITORY}git rebase side; echo 4 > f; git add f")
    with anyio.fail_after(5):
        text = await told(tmp_path, "git rebase --continue && git log --format=%s")

    assert text.splitlines()[-4:] == ["three", "two", "one", "[exit code 0, N s]"]


NOT_HINTED = [
    ("cat f", "", 0),
    ("echo a | cat", "", 0),
    ("cat < f", "", 0),
    ("cat <<E\nE", "", 0),
    ("cat", "something", 0),
    ("python3 -c pass", "", 0),
    ("python3 script.py", "", 0),
    ("while read line; do false; done < f", "", 1),
    ("echo a | while read x; do false; done", "", 1),
    ("echo sudo ls", "sudo ls", 1),
    ("ls 'vi f' \"\"", "", 2),
    ("git log | less", "", 0),
    ("git log | less", "", 1),
    ("echo 'unbalanced", "", 2),
    ("x" * 30_000, "", 1),
    ("grep 'Read-only file system' log", "Read-only file system", 0),
    ("true && false || true", "", 1),
]


@pytest.mark.parametrize(("command", "output", "code"), NOT_HINTED, ids=lambda one: str(one)[:20])
async def test_no_hint_where_there_is_no_reason(command: str, output: str, code: int) -> None:
    assert (hint(command, output, code), hopeless(command)) == ("", "")


SAID = {
    "fork: retry: Resource temporarily unavailable": snapshot(
        "There is a limit on processes. Start fewer at a time."
    ),
    "MemoryError": snapshot("There is a limit on memory. Work on less at a time."),
    "File size limit exceeded": snapshot(
        "There is a limit on the size of a file. Write less, or to several."
    ),
    "fatal: could not read Username for 'https://x': terminal prompts disabled": snapshot(
        "Nothing can be typed here. Give what it asks for with options, files or variables."
    ),
    "EROFS: read-only": snapshot(
        "Only the workspace and $TMPDIR can be written, and not what is protected in it."
    ),
}


@pytest.mark.parametrize("output", SAID)
async def test_a_hint_by_what_was_said(output: str) -> None:
    assert hint("make", output, 1) == SAID[output]


SEEN = {
    "cd a; time env A=1 sudo ls": snapshot(
        "No rights beyond your own can be had here. Do it without 'sudo', or tell the user."
    ),
    "if true; then vi f; fi": snapshot(
        "There is no terminal for 'vi'. Change files with the tools for that, or with sed."
    ),
    "(less f)": snapshot(
        "There is no terminal for 'less'. Use a command that prints once and ends."
    ),
    "false; top": snapshot(
        "There is no terminal for 'top'. Use a command that prints once and ends."
    ),
    "read a b": snapshot(
        "Nothing can be typed here: 'read' found its standard input empty. Name a file, or hand the text over with a pipe or a here-document."
    ),
    "/usr/bin/nano f": snapshot(
        "There is no terminal for 'nano'. Change files with the tools for that, or with sed."
    ),
}


@pytest.mark.parametrize("command", SEEN)
async def test_a_hint_by_a_command_wherever_it_stands(command: str) -> None:
    assert (hopeless(command) or hint(command, "", 1)) == SEEN[command]


@pytest.mark.parametrize("command", ["vim -es -c 'g/a/d' -c x f", "vim --version", "vim +q f"])
async def test_an_editor_may_work_by_itself(command: str) -> None:
    assert hopeless(command) == ""
