"""Run a hook's program: JSON on its stdin; an exit code, and JSON on its stdout, back.

It runs in the sandbox, with a command's rights, unless the user's own settings say otherwise.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import anyio
import anyio.to_thread

from handrail._support import is_object
from handrail._support.loop import shield
from handrail.cli._project.workspace_code import SOURCES_ONLY

if TYPE_CHECKING:  # loaded for programs that run inside
    from handrail.sandbox import Process, Sandbox

FOLDERS = ("HANDRAIL_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
"""Variables with the workspace's path."""
MAX_OUTPUT_BYTES = 1 << 20
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "SHELL", "TERM")
"""Environment variables for a program outside the sandbox."""
_REFUSES = 2
"""The exit code for refusing a call."""
_NOT_STARTED = (126, 127)
"""Shell exit codes: the program was not found, or cannot be run."""
_NO_REASON = "A hook refused it without a reason."


class HookFailed(Exception):
    """A program could not run, or gave no answer in time."""


class HookAnswer(NamedTuple):
    """A program's answer."""

    code: int
    out: str
    err: str
    data: Mapping[str, Any]
    """The JSON object on stdout, if there is one."""

    @property
    def specific(self) -> Mapping[str, Any]:
        """The part for the event."""
        part = self.data.get("hookSpecificOutput")
        return part if is_object(part) else {}

    @property
    def objection(self) -> str:
        """Why the program refuses; empty if it does not."""
        if self.code == _REFUSES:
            return self.err.strip() or _NO_REASON
        if self.data.get("decision") == "block" or self._decision == "deny":
            return self._reason or _NO_REASON
        return ""

    @property
    def denial(self) -> str:
        """Why the program answers a request for permission with no; empty if it does not."""
        decision = self.specific.get("decision")
        if not is_object(decision) or decision.get("behavior") != "deny":
            return ""
        return str(decision.get("message") or _NO_REASON)

    @property
    def question(self) -> str:
        """The program's question for a person, or ""."""
        if self._decision != "ask":
            return ""
        return self._reason or "A hook asks for your approval."

    @property
    def context(self) -> str:
        """Text for the model."""
        return str(self.specific.get("additionalContext") or "")

    @property
    def stop_reason(self) -> str:
        """Why the program ends the whole run; empty if it does not."""
        if self.data.get("continue") is not False:
            return ""
        return str(self.data.get("stopReason") or "A hook ended the run.")

    @property
    def complaint(self) -> str:
        """Output from a program failing without refusing; the call continues."""
        if self.code in (0, _REFUSES):
            return ""
        return f"exit code {self.code}: {self.err.strip()}"

    @property
    def _decision(self) -> Any:
        return self.specific.get("permissionDecision")

    @property
    def _reason(self) -> str:
        reason = self.specific.get("permissionDecisionReason") or self.data.get("reason")
        return str(reason or "")


class _Running(Protocol):
    """A started program."""

    async def exchange(self, request: bytes, output: bytearray, errors: bytearray) -> int:
        """Send the request, collect output up to the end, and return the exit code."""
        ...


def hook_variables(workspace: Path) -> dict[str, str]:
    """Return environment variables for a program outside the sandbox."""
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return passed | SOURCES_ONLY | dict.fromkeys(FOLDERS, str(workspace))


async def run_program(
    command: str,
    request: Mapping[str, Any],
    *,
    workspace: Path,
    seconds: float,
    sandbox: Sandbox | None,
) -> HookAnswer:
    """Run a command by the shell, in the workspace. Raises HookFailed if there is no answer."""
    output, errors = bytearray(), bytearray()
    starting = (
        _start_outside(command, workspace) if sandbox is None else _start_inside(command, sandbox)
    )
    async with starting as program:
        try:
            with anyio.fail_after(seconds):
                code = await program.exchange(json.dumps(request).encode(), output, errors)
        except TimeoutError:
            raise HookFailed(f"`{command}` did not end within {seconds:g} s") from None
    if code in _NOT_STARTED:
        raise HookFailed(f"`{command}` could not start: {errors.decode(errors='replace').strip()}")
    out = output.decode(errors="replace")
    return HookAnswer(code, out, errors.decode(errors="replace"), _read(out) if code == 0 else {})


@asynccontextmanager
async def _start_inside(command: str, sandbox: Sandbox) -> AsyncGenerator[_Running]:
    """Start a program in the sandbox."""
    folders = " ".join(f"{name}={shlex.quote(sandbox.root)}" for name in FOLDERS)
    line = f"exec 2>&3 3>&-; export {folders}; exec /bin/sh -c {shlex.quote(command)}"

    def start() -> Process:
        return sandbox.start(line, notes=True, source=True)

    process = await shield(anyio.to_thread.run_sync(start))
    try:
        yield _Inside(process)
    finally:
        await process.kill()


class _Inside:
    def __init__(self, process: Process) -> None:
        self._process = process

    async def exchange(self, request: bytes, output: bytearray, errors: bytearray) -> int:
        code = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send, request)
            while piece := await self._process.read():
                output += piece[: MAX_OUTPUT_BYTES - len(output)]
            code = await self._process.wait()
            tasks.cancel_scope.cancel()
        errors += self._process.take_notes()
        return code

    async def _send(self, request: bytes) -> None:
        with suppress(OSError):  # the program need not read its input
            await self._process.send(request)
        self._process.close_input()


@asynccontextmanager
async def _start_outside(command: str, workspace: Path) -> AsyncGenerator[_Running]:
    """Start a program with the user's rights."""
    start = anyio.open_process(
        ["/bin/sh", "-c", command],
        cwd=workspace,
        env=hook_variables(workspace),
        start_new_session=True,
    )
    async with await shield(start) as process:
        try:
            yield _Outside(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class _Outside:
    def __init__(self, process: Any) -> None:
        self._process = process

    async def exchange(self, request: bytes, output: bytearray, errors: bytearray) -> int:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_send, self._process.stdin, request)
            tasks.start_soon(_collect, self._process.stdout, output)
            tasks.start_soon(_collect, self._process.stderr, errors)
        code: int = await self._process.wait()
        return code


async def _send(stdin: Any, request: bytes) -> None:
    try:
        async with stdin:
            await stdin.send(request)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # the program need not read its input


async def _collect(stream: Any, into: bytearray) -> None:
    """Read all output, and keep its beginning."""
    async for piece in stream:
        into += piece[: MAX_OUTPUT_BYTES - len(into)]


def _read(output: str) -> Mapping[str, Any]:
    """Return the printed JSON object, or an empty one if it printed something else."""
    try:
        data: Any = json.loads(output)
    except (ValueError, RecursionError):
        return {}
    return data if is_object(data) else {}
