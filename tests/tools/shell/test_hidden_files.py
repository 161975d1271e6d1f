"""Files that rules hide: what a model reads, what an approval shows, and that nobody waits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import Allow, Call, Executor, Toolset
from handrail.approvals import callback
from handrail.permissions import Pending
from handrail.policy import Level, Rulebook, builtin_rules, parse
from handrail.sandbox import Sandbox
from handrail.tools import Jobs, Shell, bash, read_job
from tools.shell.stage import run, timeless

PEEK = "import sys\nprint(open(sys.argv[1]).read())\n"
RULES = """
[[rule]]
id = "held"
decide = "ask"
access = "write file:held"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with secrets, and a script that prints a file."""
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    (root / "peek.py").write_text(PEEK, encoding="utf-8")
    for name in (".env", "sub/a.pem", "held"):
        (root / name).write_text("canary\n", encoding="utf-8")
    return root


def executor(root: Path, **options: Any) -> Executor:
    """An executor with rules, and a person who approves everything."""
    mine = parse(RULES, file="rules.toml", level=Level.USER).rules
    shipped = builtin_rules("read_only", "development")
    rules = Rulebook((*shipped, *mine), mode="edits", sandboxed=True, workspace=root)
    sandbox = Sandbox(root, tier="bubblewrap", restricted=rules.find_restricted)
    jobs = Jobs()
    tools = Toolset(bash(sandbox, jobs=jobs, shell=Shell(), **options), read_job(jobs))
    return Executor(tools, policy=rules, approvals=callback(lambda _: Allow()))


COMMANDS = [
    "cat .env; python3 -I -S peek.py .env",
    "python3 -I -S peek.py $(echo .e)nv 2>&1 | tail -n 1; exit 1",
    "cat sub/*; exit 1",
    "cd sub && cat *.pem b.pem",
    "cat a.pem && cat *",
    "echo x > ../he''ld",
    "echo other: Permission denied; exit 1",
]


async def test_a_script_meets_the_rules_and_an_approval_shows_what_a_command_names(
    root: Path,
) -> None:
    async with executor(root) as one:
        told = [timeless((await run(one, command)).text) for command in COMMANDS]

    assert told == snapshot(
        [
            """\
canary
canary
[exit code 0, N s]\
""",
            """\
PermissionError: [Errno 13] Permission denied: '.env'
[A rule hides .env from commands that do not name it. A command that does may need approval.]
[exit code 1, N s]\
""",
            """\
canary
[exit code 1, N s]\
""",
            """\
canary
cat: b.pem: No such file or directory
[exit code 1, N s, folder sub]\
""",
            """\
canary
canary
[exit code 0, N s, folder sub]\
""",
            """\
bash: line 1: ../held: Read-only file system
[../held is read-only for commands. Tell the user if it must change.]
[exit code 1, N s, folder sub]\
""",
            """\
other: Permission denied
[exit code 1, N s, folder sub]\
""",
        ]
    )


async def test_a_job_meets_the_rules_too(root: Path) -> None:
    async with executor(root) as one:
        line = "python3 -I -S peek.py $(echo .e)nv 2>&1 | tail -n 1"
        await one.run(Call("bash", {"command": line, "background": True}, "1"))
        made = await one.run(Call("read_job", {"job": 1, "wait_ms": 20_000, "since": 0}, "2"))

    assert made.text.splitlines()[0] == "PermissionError: [Errno 13] Permission denied: '.env'"


async def test_the_first_command_lets_the_loop_go_on_while_git_runs(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that waits until somebody on the loop lets it go."""
    (tmp_path / "bin").mkdir()
    for name in ("runs", "go"):
        os.mkfifo(tmp_path / name)
    fake = tmp_path / "bin/git"
    script = f"echo > {tmp_path}/runs; read -r _ < {tmp_path}/go; touch {tmp_path}/released"
    fake.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")

    async def release() -> None:
        await anyio.Path(tmp_path, "runs").read_text(encoding="utf-8")
        await anyio.Path(tmp_path, "go").write_text("go\n", encoding="utf-8")

    async with executor(root) as one, anyio.create_task_group() as group:
        group.start_soon(release)
        made = await run(one, "echo fine")

    assert timeless(made.text) == "fine\n[exit code 0, N s]"
    assert (tmp_path / "released").exists()


@pytest.mark.parametrize("hides", [True, False])
async def test_a_search_of_a_folder_needs_no_approval_if_secrets_are_hidden(
    root: Path, *, hides: bool
) -> None:
    asked: list[str] = []

    def approve(pending: Pending) -> Allow:
        asked.append(pending.question)
        return Allow()

    shipped = builtin_rules("read_only", "development")
    options: Any = {"mode": "ask", "sandboxed": True, "workspace": root, "hides_files": hides}
    rules = Rulebook(shipped, **options)
    sandbox = Sandbox(root, tier="bubblewrap", restricted=rules.find_restricted)
    tools = Toolset(bash(sandbox))
    async with Executor(tools, policy=rules, approvals=callback(approve)) as one:
        told = timeless((await run(one, "grep -rn canary . | sort")).text)

    shown = [line for line in told.splitlines() if "canary" in line]
    assert (len(asked), shown) == (
        (0, ["./held:1:canary"])
        if hides
        else (1, ["./.env:1:canary", "./held:1:canary", "./sub/a.pem:1:canary"])
    )
    assert ("Permission denied" in told) is hides
