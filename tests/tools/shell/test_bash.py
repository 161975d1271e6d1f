"""bash: what a model reads of a command, and that nothing of one is left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor, FailureKind, Toolset
from handrail.events import Finished, Progressed
from handrail.sandbox import Sandbox
from handrail.tools import Jobs, Shell, bash
from tools.shell.stage import alive, begun, executor, run, timeless, told

pytestmark = pytest.mark.anyio
SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"


async def test_a_model_is_told_how_to_use_it(tmp_path: Path) -> None:
    spec = bash(Sandbox(tmp_path)).spec

    assert [spec.description, spec.input_schema, str(spec.effect), spec.tags] == snapshot(
        [
            """\
Run a bash command in the workspace and return its output and exit code.

Use it for builds, tests, git and other programs; for files, use the other tools. The folder (cd) and exported variables last, except PATH and similar. Calls of one turn run in order and start in the same folder. No network access, except to localhost. Only the workspace and $TMPDIR are writable, but not .venv, .git/hooks and .git/config. No stdin: no prompts, editors or pagers. Processes started with & are killed when the command ends. Output over 30,000 characters is truncated.\
""",
            {
                "type": "object",
                "properties": {
                    "command": {
                        "type": "string",
                        "description": "The command for bash.",
                    },
                    "restart": {
                        "type": "boolean",
                        "description": "Reset the folder and variables that earlier commands left.",
                        "default": False,
                    },
                    "timeout_ms": {
                        "type": "integer",
                        "description": "Milliseconds that the command may run, at most 600000.",
                        "default": 120000,
                    },
                },
                "required": ["command"],
                "additionalProperties": False,
            },
            "3",
            frozenset({"shell"}),
        ]
    )


async def test_with_jobs_a_command_may_run_in_the_background(tmp_path: Path) -> None:
    spec = bash(Sandbox(tmp_path), jobs=Jobs()).spec

    assert spec.description == snapshot("""\
Run a bash command in the workspace and return its output and exit code.

Use it for builds, tests, git and other programs; for files, use the other tools. The folder (cd) and exported variables last, except PATH and similar. Calls of one turn run in order and start in the same folder. No network access, except to localhost. Commands reach the servers of jobs at localhost. Only the workspace and $TMPDIR are writable, but not .venv, .git/hooks and .git/config. No stdin: no prompts, editors or pagers. Processes started with & are killed when the command ends; use background to keep one running. Output over 30,000 characters is truncated.\
""")
    assert spec.input_schema["properties"]["background"] == snapshot(
        {
            "type": "boolean",
            "description": "Start the command as a job and return at once. Its number is for read_job and stop_job.",
            "default": False,
        }
    )


COMMANDS = {
    "echo hello": snapshot("""\
hello
[exit code 0, N s]\
"""),
    "true": snapshot("""\
(no output)
[exit code 0, N s]\
"""),
    "echo out; echo err >&2; exit 3": snapshot("""\
out
err
[exit code 3, N s]\
"""),
    "for i in 1 2 3; do echo out $i; echo err $i >&2; done": snapshot("""\
out 1
err 1
out 2
err 2
out 3
err 3
[exit code 0, N s]\
"""),
    "[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo no terminal": snapshot("""\
no terminal
[exit code 0, N s]\
"""),
    "echo 'unbalanced": snapshot("""\
bash: eval: line 1: unexpected EOF while looking for matching `''
[exit code 2, N s]\
"""),
    "kill -9 $$": snapshot("""\
(no output)
[exit code 137 (SIGKILL), N s]\
"""),
    "exit 200": snapshot("""\
(no output)
[exit code 200, N s]\
"""),
    "sleep 600 & echo started": snapshot("""\
started
[A background process was killed when the command ended.]
[exit code 0, N s]\
"""),
    "sleep 600 & setsid sleep 600 & echo two": snapshot("""\
two
[2 background processes were killed when the command ended.]
[exit code 0, N s]\
"""),
    "set -euxo pipefail; echo traced": snapshot("""\
+++ echo traced
traced
[exit code 0, N s]\
"""),
    "trap 'echo own trap' EXIT; sleep 600 &": snapshot("""\
own trap
[exit code 0, N s]\
"""),
    "exec 3>log; echo mine >&3; cat log": snapshot("""\
mine
[exit code 0, N s]\
"""),
    "printf() { builtin echo broken; }; echo fine": snapshot("""\
fine
[exit code 0, N s]\
"""),
}


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_model_reads_the_output_and_how_it_ended(tmp_path: Path, command: str) -> None:
    assert await told(tmp_path, command) == COMMANDS[command]


async def test_of_much_output_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    async with executor(tmp_path) as one:
        result = await run(one, "seq 200000; echo; printf 'é%.0s' $(seq 5)")
        head = (await one.run(Call("read_result", {"call_id": "c1", "end": 100}, "c2"))).text

    lines = result.text.splitlines()
    assert lines[:2] == ["1", "2"]
    assert lines[-2] == "ééééé"
    assert len(result.text) < 31_000
    assert head.splitlines()[1:3] == ["1", "2"]


async def test_what_is_too_much_to_keep_is_said(tmp_path: Path) -> None:
    async with executor(tmp_path) as one:
        await run(one, "head -c 900000 /dev/zero | tr '\\0' a")
        around = {"call_id": "c1", "start": 262_140, "end": 262_500}
        page = (await one.run(Call("read_result", around, "c2"))).text

    notes = [line for line in page.splitlines() if "bytes of output" in line]
    assert [re.sub(r"[\d,]+ of", "N of", note) for note in notes] == snapshot(
        ["[N of 900,000 bytes of output omitted. Redirect the output to a file to see all of it.]"]
    )


async def test_a_deadline_ends_the_whole_tree_and_keeps_what_was_said(tmp_path: Path) -> None:
    tag = f"3{uuid4().int % 10**8}"
    async with executor(tmp_path) as one:
        result = await run(
            one, f"echo begun; trap '' TERM; setsid sleep {tag} & sleep {tag}", timeout_ms=500
        )

    assert alive(tag) == []
    assert [result.failure and result.failure.kind, result.text] == [
        FailureKind.TIMEOUT,
        snapshot("""\
Timed out after 0.5 s and was stopped, with every process it started. It may have taken effect in part. Raise timeout_ms. Commands have no stdin.
Output so far:
begun\
"""),
    ]


async def test_a_silent_command_that_is_stopped_has_said_nothing(tmp_path: Path) -> None:
    async with executor(tmp_path) as one:
        result = await run(one, "sleep 60", timeout_ms=200)

    assert result.text.endswith("Commands have no stdin.")


@pytest.mark.parametrize("by", ["whoever waits", "the executor"])
async def test_a_cancelled_call_leaves_nothing_behind(tmp_path: Path, by: str) -> None:
    tag = f"3{uuid4().int % 10**8}"
    found: list[list[int]] = []
    async with executor(tmp_path) as one, one.events() as events:

        async def call() -> None:
            try:
                await run(one, f"echo begun; setsid sleep {tag} & sleep {tag}")
            finally:
                found.append(alive(tag))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            async for event in events:
                if isinstance(event, Progressed):
                    break
            await begun(tag)
            if by == "the executor":
                one.cancel()
            else:
                tasks.cancel_scope.cancel()

    assert found == [[]]


async def test_watchers_hear_of_it_while_it_runs(tmp_path: Path) -> None:
    heard: list[str] = []
    async with executor(tmp_path) as one, one.events() as events:
        await run(one, "echo begun; sleep 60", timeout_ms=300)
        await run(one, "yes | head -c 30000000")
        async for event in events:
            if isinstance(event, Progressed):
                heard.append(event.message)
            if isinstance(event, Finished) and len(heard) > 1:
                break

    assert heard[0] == "begun\n"
    assert len(heard) < 30
    assert max(map(len, heard)) == 2_000


WRONG = {
    "": ({}, snapshot("Not run: command is empty.")),
    "  ": ({}, snapshot("Not run: command is empty.")),
    "ls": (
        {"timeout_ms": 600_001},
        snapshot(
            "Not run: timeout_ms must be from 1 to 600000, got 600001. Run longer commands in parts."
        ),
    ),
    "ls ": (
        {"timeout_ms": 0},
        snapshot(
            "Not run: timeout_ms must be from 1 to 600000, got 0. Run longer commands in parts."
        ),
    ),
    "nul \0 in it": (
        {},
        snapshot("""\
Not run: invalid arguments.
- command: the text has a NUL character.
Fix these and call again.\
"""),
    ),
    "echo a > f; vim f": (
        {},
        snapshot("Not run: there is no terminal for 'vim'. Change files with edit, or with sed."),
    ),
    ":" + " " * 130_000: (
        {},
        snapshot(
            "Not run: the command is longer than 120,000 bytes. Write it to a file and run that."
        ),
    ),
}


@pytest.mark.parametrize("command", WRONG, ids=lambda one: one[:12])
async def test_what_cannot_run_is_refused_in_words(tmp_path: Path, command: str) -> None:
    args, words = WRONG[command]
    async with executor(tmp_path) as one:
        result = await run(one, command, **args)

    assert [result.failure is not None, result.text] == [True, words]
    assert os.listdir(tmp_path) == []  # noqa: PTH208  pathlib would wait


async def test_no_other_argument_is_taken(tmp_path: Path) -> None:
    async with executor(tmp_path) as one:
        refused = [await run(one, "ls", **{name: "/"}) for name in ("cwd", "env", "sandbox")]

    assert {one.failure and one.failure.kind for one in refused} == {FailureKind.BAD_ARGS}


async def test_a_hundred_commands_run_side_by_side(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    texts: list[str] = []

    async def one(number: int) -> None:
        async with Executor(Toolset(bash(sandbox))) as single:
            texts.append(
                timeless((await run(single, f"echo {number} > f{number}; cat f{number}")).text)
            )

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(one, number)

    assert sorted(texts) == sorted(f"{number}\n[exit code 0, N s]" for number in range(100))
    assert len(os.listdir(tmp_path)) == 100  # noqa: PTH208


async def test_the_folder_and_variables_last_until_a_restart(tmp_path: Path) -> None:
    async with executor(tmp_path) as one:
        await run(one, "mkdir a; cd a; export KEPT=1")
        text = timeless((await run(one, "echo ${KEPT-gone}; basename $PWD")).text)
        forgotten = (await one.run(Call("bash", {"restart": True}, "c2"))).text
        after = timeless((await run(one, "echo ${KEPT-gone}; [ -d a ] && echo root")).text)

    assert [text, forgotten, after] == snapshot(
        [
            """\
1
a
[exit code 0, N s, folder a]\
""",
            "The folder and variables of earlier commands were reset.",
            """\
gone
root
[exit code 0, N s]\
""",
        ]
    )


async def test_a_program_list_shows_programs_and_not_how_they_are_started(tmp_path: Path) -> None:
    async with executor(tmp_path) as one:
        text = (await run(one, "ps -eo args= | grep -v 'ps -eo'; : a-word-of-the-line")).text

    assert "a-word-of-the-line" not in text
    assert max(map(len, text.splitlines())) < 200


async def test_lines_of_a_command_are_counted_from_one(tmp_path: Path) -> None:
    assert await told(tmp_path, "nope\nsecond") == snapshot("""\
bash: line 1: nope: command not found
bash: line 2: second: command not found
[exit code 127, N s]\
""")


FLOOD = """
import sys, anyio
from handrail import Call, Executor, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import bash

def peak():
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

async def main():
    async with Executor(Toolset(bash(Sandbox(sys.argv[1])))) as one:
        await one.run(Call("bash", {"command": "true"}, "1"))
        before, kinds = peak(), []
        for command in (f"head -c {sys.argv[2]} /dev/zero | tr '\\\\0' a", "yes", "yes >&2"):
            result = await one.run(Call("bash", {"command": command, "timeout_ms": int(sys.argv[4])}, "1"))
            kinds.append(result.failure.kind.value if result.failure else "good")
        print(kinds[1:], (peak() - before) // 1024 < 50)

anyio.run(main, backend=sys.argv[3])
"""


async def test_a_flood_of_output_costs_little_memory_and_the_deadline_holds(
    tmp_path: Path, anyio_backend: str
) -> None:
    size, timeout = ("1G", "20000") if SOAK else ("100M", "300")
    words = [sys.executable, "-c", FLOOD, str(tmp_path), size, anyio_backend, timeout]
    done = await anyio.run_process(words)

    assert done.stdout.decode() == "['timeout', 'timeout'] True\n"


async def test_nothing_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    tag = f"3{uuid4().int % 10**8}"
    code = (
        "import sys, anyio\nfrom handrail import *\nfrom handrail.sandbox import Sandbox\n"
        "from handrail.tools import bash\n"
        "one = Executor(Toolset(bash(Sandbox(sys.argv[1]))))\n"
        "one.run_sync(Call('bash', {'command': sys.argv[2]}, '1'))"
    )
    command = f"echo > begun; setsid sleep {tag} & sleep {tag}"
    host = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), command])  # noqa: S603, ASYNC220
    try:
        while not (tmp_path / "begun").exists():  # noqa: ASYNC110  another process's doing
            await anyio.sleep(0.01)
    finally:
        host.kill()
        host.wait()
    with anyio.fail_after(5):
        while alive(tag):  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_calls_of_one_turn_run_one_after_the_other(tmp_path: Path) -> None:
    async with executor(tmp_path, shell=Shell()) as one:
        calls = [
            Call("bash", json.dumps({"command": f"echo {n} >> log"}), str(n)) for n in range(5)
        ]
        await one.run_all(calls)

    assert (tmp_path / "log").read_text(encoding="utf-8") == "0\n1\n2\n3\n4\n"
