"""Completion: what a shell is answered, and that real shells make something of it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from cli_harness import Handrail, Ran, Schemas
from cli_runs import journal_run

BIN = Path(sys.executable).parent


def asked(handrail: Handrail, *words: str) -> list[str]:
    """What a line can go on with; the last word is the one that is begun."""
    ran = handrail(
        env={
            "_HANDRAIL_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["handrail", *words]),
            "COMP_CWORD": str(len(words)),
        }
    )
    assert (ran.exit, ran.err) == (0, "")
    return [line.removeprefix("plain,") for line in ran.out.splitlines() if line]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("co", ["completion", "config", "console"]),
        ("ru", ["rules", "run", "runs"]),
        ("runs s", ["show", "stats"]),
        ("zzz", []),
        ("--ver", ["--version"]),
        ("config show --or", ["--origin"]),
        ("config show --output j", ["json", "jsonl"]),
        ("config show --mode ", ["plan", "ask", "edits", "open"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("config show -C x", ["dir,x"]),
        ("tools list -t x", ["file,x"]),
        ("tools list --without w", ["web_fetch", "write"]),
        ("tools show gl", ["glob"]),
        ("nothing x", []),
    ],
)
def test_a_line_goes_on_with_commands_options_and_choices(
    handrail: Handrail, line: str, told: list[str]
) -> None:
    assert asked(handrail, *line.split(" ")) == told


@pytest.mark.parametrize(
    "command",
    ["runs show", "runs resume", "runs approve", "runs deny", "runs export", "chat --resume"],
)
def test_a_line_goes_on_with_ids_of_runs_the_newest_first(handrail: Handrail, command: str) -> None:
    assert asked(handrail, *command.split(), "2026") == []

    for name in ("20260101-101010-aaaaaa", "20260102-101010-bbbbbb", "20250101-101010-cccccc"):
        journal_run(handrail, name).change_about(status="done", reason="answer")

    assert asked(handrail, *command.split(), "2026") == [
        "20260102-101010-bbbbbb",
        "20260101-101010-aaaaaa",
    ]


def test_a_journal_that_cannot_be_read_completes_nothing(handrail: Handrail) -> None:
    (handrail.state / "runs" / "journal.db").mkdir(parents=True)

    assert asked(handrail, "runs", "show", "2026") == []


def test_names_of_commands_are_completed_without_loading_any(handrail: Handrail) -> None:
    source = "import runpy, sys\ntry:\n    runpy.run_module('handrail.cli', run_name='__main__')\nfinally:\n    print(any('.commands' in name for name in sys.modules))"
    env = {"_HANDRAIL_COMPLETE": "zsh_complete", "COMP_WORDS": "handrail to", "COMP_CWORD": "1"}

    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", source],
        capture_output=True,
        encoding="utf-8",
        env=handrail.environment(env),
        check=False,
    )

    assert done.stdout == "plain\ntools\nInspect and call tools.\nFalse\n"


def test_an_error_is_not_told_in_the_middle_of_a_line(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "handrail.cli.commands.run", None)  # it cannot be loaded
    env = {"_HANDRAIL_COMPLETE": "bash_complete", "COMP_WORDS": "handrail run -", "COMP_CWORD": "2"}

    assert handrail(env=env) == Ran(1, "", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(
    handrail: Handrail, schema: Schemas, shell: str
) -> None:
    told = schema("completion", handrail("completion", shell, "--json").json)

    assert told["shell"] == shell
    assert handrail("completion", shell) == Ran(0, told["script"], "")
    assert f"_HANDRAIL_COMPLETE={shell}_complete" in told["script"]


class Shell:
    """An interactive shell at a terminal."""

    def __init__(self, command: list[str], handrail: Handrail) -> None:
        self.seen = ""
        self._terminal, theirs = pty.openpty()
        env = handrail.environment({"PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "dumb"})
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**env, "COLUMNS": "200"},
            cwd=handrail.workspace,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read until a text is there; the time limit of the test is the limit."""
        while text not in self.seen:
            select.select([self._terminal], [], [])
            self.seen += os.read(self._terminal, 4096).decode(errors="replace")
            self.seen = self.seen.replace("\b ", "")  # how zsh writes a blank again

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.mark.parametrize(
    ("command", "prepare"),
    [
        (["bash", "--norc", "--noprofile", "-i"], 'eval "$(handrail completion bash)"'),
        (
            ["zsh", "-f", "-i"],
            'autoload -U compinit; compinit -D -u; eval "$(handrail completion zsh)"',
        ),
    ],
    ids=["bash", "zsh"],
)
def test_a_real_shell_completes_a_whole_line(
    handrail: Handrail, command: list[str], prepare: str
) -> None:
    shell = Shell(command, handrail)
    try:
        shell.type(f"{prepare}; echo is'' ready\r")
        shell.wait_for("is ready")
        shell.type("handrail conf\t")
        shell.wait_for("handrail config ")
        shell.type("sh\t--ori\t")
        shell.wait_for("show --origin")
        shell.type("\r")
        shell.wait_for("max_seconds ")
        shell.wait_for(" default")
    finally:
        shell.close()
