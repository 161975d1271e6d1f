"""Commands that do not end, flood, hide or leave others behind: what is left is looked for outside."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import anyio

from handrail import Call, Executor, Toolset
from handrail.events import Started
from handrail.sandbox import ResourceLimits, Sandbox
from handrail.tools import Workspace, bash, read, write

LIMIT = 0.4
"""Seconds that a command may run, where it would run for ever."""
PROMPT = 40.0
"""Seconds beyond its limit in which it has to have ended."""

Run: TypeAlias = Callable[[Path, str], str]
"""Runs a command in a folder within the limit, and gives what a model would read of it."""


def ours(root: Path, command: str, *, seconds: float = LIMIT, **limits: int) -> str:
    """The tool, through an executor."""
    sandbox = Sandbox(root, limits=ResourceLimits(**limits))
    call = Call("bash", {"command": command, "timeout_ms": int(seconds * 1000)}, "1")
    return Executor(Toolset(bash(sandbox))).run_sync(call).text


def naive(root: Path, command: str) -> str:
    """The control: a shell whose own process is killed at the limit."""
    try:
        done = subprocess.run(  # noqa: S602  on purpose
            command, shell=True, executable="/bin/bash", cwd=root, timeout=LIMIT, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return (late.output or b"").decode()
    return done.stdout.decode()


def alive(tag: str) -> list[int]:
    """Who has a text in its command line, of all processes of this machine but this one."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if (
                entry.name.isdigit()
                and int(entry.name) != os.getpid()
                and tag.encode() in (entry / "cmdline").read_bytes()
            ):
                found.append(int(entry.name))
    return found


def _bounded(root: Path, command: str, run: Run) -> bool:
    """Nobody is left, in time, with little said and little memory used."""
    tag = str(3 * 10**9 + uuid4().int % 10**9)
    line = f"{command.replace('300', tag)} # {tag}"
    began, peak = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = run(root, line)
    late = time.monotonic() - began > LIMIT + PROMPT
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak > 64 * 1024
    left = alive(tag)
    for one in left:  # they are ours: the tag is new
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    return not left and not late and not grown and len(text) < 100_000


def _as_it_is(vector: dict[str, Any], root: Path, run: Run) -> bool:
    return _bounded(root, vector["input"]["command"], run)


def _fork_bomb(vector: dict[str, Any], root: Path, run: Run) -> bool:
    """For a short while only: a machine that is full of processes is slow for all others too."""
    short = partial(ours, seconds=LIMIT / 8) if run is ours else run
    return _bounded(root, vector["input"]["command"], short)


HOST = """
import subprocess, sys
from handrail import Call, Executor, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import bash
root, command, naive = sys.argv[1:]
if naive == "True":
    subprocess.run(command, shell=True, cwd=root)
else:
    Executor(Toolset(bash(Sandbox(root)))).run_sync(Call("bash", {"command": command}, "1"))
"""


def _host_is_killed(_vector: dict[str, Any], root: Path, run: Run) -> bool:
    tag = str(3 * 10**9 + uuid4().int % 10**9)
    line = f"touch begun; setsid sleep {tag} & sleep {tag}"
    words = [sys.executable, "-c", HOST, str(root), line, str(run is naive)]
    host = subprocess.Popen(words)  # noqa: S603  our own interpreter
    until(lambda: (root / "begun").exists() and bool(alive(tag)))
    host.kill()
    host.wait()
    gone = until(lambda: not alive(tag), 3 if run is naive else 15)
    for one in alive(tag):
        os.kill(one, signal.SIGKILL)
    return gone


def until(what: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _thread_ends(_vector: dict[str, Any], root: Path, run: Run) -> bool:
    """What a thread started goes on when the thread has ended."""
    started: list[Any] = []
    line = "sleep 0.4; touch done"

    def start() -> None:
        if run is naive:
            words = ["bwrap", "--die-with-parent", "--bind", "/", "/", "--chdir", str(root)]
            started.append(subprocess.Popen([*words, "bash", "-c", line]))  # noqa: S603
        else:
            started.append(Sandbox(root).start(line))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()

    async def end() -> None:
        await started[0].wait()
        await started[0].kill()

    if run is naive:
        started[0].wait()
    else:
        anyio.run(end)
    return (root / "done").exists()


def _memory_is_limited(vector: dict[str, Any], root: Path, _run: Run) -> bool:
    return "MemoryError" in ours(root, vector["input"]["command"], seconds=20)


def _files_are_limited(vector: dict[str, Any], root: Path, _run: Run) -> bool:
    text = ours(root, vector["input"]["command"], seconds=20, file_bytes=1 << 20)
    return (root / "big").stat().st_size <= 1 << 20 and "size of a file is limited" in text


def _nobody_answers(_vector: dict[str, Any], root: Path, run: Run) -> bool:
    lines = (
        "ssh -o ConnectTimeout=1 nobody@127.0.0.1 ls",
        "sudo ls",
        "git ls-remote http://nobody@127.0.0.1:9/x",
        "read -r -p password: x < /dev/tty",
        "head -c 1 /dev/tty /dev/console",
    )
    return all(_bounded(root, line, run) for line in lines)


def _killed_by_descriptor(_vector: dict[str, Any], root: Path, _run: Run) -> bool:
    """No process is sent a signal by its number after it was waited for."""
    lines = ["true", "sleep 300", "sleep 300 & exit 3"]
    code = HOST.replace('{"command": command}', '{"command": command, "timeout_ms": 200}').replace(
        "    Executor", "    for command in json.loads(command): Executor"
    )
    words = [sys.executable, "-c", f"import json\n{code}", str(root), json.dumps(lines), "False"]
    traced = root / "trace"
    subprocess.run(  # noqa: S603
        ["strace", "-f", "-o", str(traced), "-e", "trace=kill,tkill,wait4,waitid", *words],  # noqa: S607
        check=True,
        capture_output=True,
        timeout=30,
    )
    gone: set[str] = set()
    for line in traced.read_text(encoding="utf-8").splitlines():
        sent = re.search(r" kill\((\d+), ", line)
        if sent and sent[1] in gone:
            return False
        if "wait" in line:
            gone |= set(re.findall(r" = (\d+)$", line)) | set(re.findall(r"si_pid=(\d+)", line))
    return bool(gone)


def _writing_is_all_or_nothing(_vector: dict[str, Any], root: Path, _run: Run) -> bool:
    """A write that is cancelled as soon as it has begun leaves the old content or the new."""
    old, new = "old\n", "new " * 200_000
    workspace = Workspace(root)

    async def turn() -> None:
        async with Executor(Toolset(read(workspace), write(workspace))) as executor:
            await executor.run(Call("read", {"file_path": "f"}, "0"))
            call = Call("write", {"file_path": "f", "content": new}, "1")
            async with executor.turn() as turn, turn.events("1") as events:
                turn.add(call)
                async for event in events:
                    if isinstance(event, Started):
                        turn.cancel("1")
                        break

    (root / "f").write_text(old, encoding="utf-8")
    anyio.run(turn)
    left = [path.name for path in root.iterdir()]
    return (root / "f").read_text(encoding="utf-8") in (old, new) and left == ["f"]


def _many_at_once(_vector: dict[str, Any], root: Path, _run: Run) -> bool:
    sandbox = Sandbox(root)
    told: list[str] = []

    async def one(number: int) -> None:
        async with Executor(Toolset(bash(sandbox))) as executor:
            call = Call("bash", {"command": f"sleep 300 & echo {number}"}, "1")
            told.append((await executor.run(call)).text.partition("\n")[0])

    async def turn() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(one, number)

    anyio.run(turn)
    return sorted(told) == sorted(map(str, range(100)))


def _no_core(_vector: dict[str, Any], root: Path, _run: Run) -> bool:
    text = ours(
        root,
        "ulimit -c; ulimit -Hc; ulimit -c unlimited; bash -c 'kill -SEGV $$'; ls core*",
        seconds=20,
    )
    return text.splitlines()[:2] == ["0", "0"] and not list(root.glob("core*"))


Check: TypeAlias = Callable[[dict[str, Any], Path, Run], bool]
CHECKS: dict[str, Check] = {
    "process-004": _host_is_killed,
    "process-005": _thread_ends,
    "process-006": _fork_bomb,
    "process-007": _memory_is_limited,
    "process-008": _files_are_limited,
    "process-015": _nobody_answers,
    "process-016": _killed_by_descriptor,
    "process-017": _writing_is_all_or_nothing,
    "process-018": _many_at_once,
    "process-019": _no_core,
}


def holds(vector: dict[str, Any], run: Run = ours) -> bool:
    """Whether a command ends in time, and all that it started with it."""
    vector = {
        **vector,
        "input": {"command": vector["input"]["command"].replace("nohup x", "nohup sleep 300")},
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        return CHECKS.get(vector["id"], _as_it_is)(vector, root, run)


HARMLESS = (1, 3, 4, 5, 13, 20)
"""Vectors that a control may be tried with: a machine survives them."""


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many vectors a shell loses whose own process alone is killed."""
    tried = {f"process-{number:03}" for number in HARMLESS}
    return sum(not holds(one, naive) for one in vectors if one["id"] in tried)
