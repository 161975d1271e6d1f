"""Run the program of a hook: JSON on its stdin; an exit code, and JSON on its stdout, back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from handrail._support import is_table
from handrail._support.loop import shield
from handrail.cli._project.hook_files import FOLDERS

MAX_OUTPUT_BYTES = 1 << 20
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "SHELL", "TERM")
"""Environment variables that a program gets."""
_REFUSES = 2
"""The exit code that refuses a call."""
_NOT_STARTED = (126, 127)
"""Exit codes of the shell: the program was not found, or cannot be run."""
_NO_REASON = "A hook refused it without a reason."


class HookFailed(Exception):
    """A program could not run, or gave no answer in time."""


class HookAnswer(NamedTuple):
    """The answer of a program."""

    code: int
    out: str
    err: str
    data: Mapping[str, Any]
    """The JSON object on stdout, if there is one."""

    @property
    def specific(self) -> Mapping[str, Any]:
        """The part for the event."""
        part = self.data.get("hookSpecificOutput")
        return part if is_table(part) else {}

    @property
    def objection(self) -> str:
        """Why the program refuses; empty if it does not."""
        if self.code == _REFUSES:
            return self.err.strip() or _NO_REASON
        if self.data.get("decision") == "block" or self._decision == "deny":
            return self._reason or _NO_REASON
        return ""

    @property
    def question(self) -> str:
        """The question that the program wants a person to answer; empty if there is none."""
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
        """The output of a program that failed without refusing; the call continues."""
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


async def run_program(
    command: str, request: Mapping[str, Any], *, workspace: Path, seconds: float
) -> HookAnswer:
    """Run a command by the shell, in the workspace. Raises HookFailed if there is no answer."""
    variables = {name: os.environ[name] for name in _PASSED if name in os.environ}
    output, errors = bytearray(), bytearray()
    start = anyio.open_process(
        ["/bin/sh", "-c", command],
        cwd=workspace,
        env=variables | dict.fromkeys(FOLDERS, str(workspace)),
        start_new_session=True,
    )
    async with await shield(start) as process:
        try:
            with anyio.fail_after(seconds):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_send, process.stdin, json.dumps(request).encode())
                    tasks.start_soon(_collect, process.stdout, output)
                    tasks.start_soon(_collect, process.stderr, errors)
                code = await process.wait()
        except TimeoutError:
            raise HookFailed(f"`{command}` did not end within {seconds:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if code in _NOT_STARTED:
        raise HookFailed(f"`{command}` could not start: {errors.decode(errors='replace').strip()}")
    out = output.decode(errors="replace")
    return HookAnswer(code, out, errors.decode(errors="replace"), _read(out) if code == 0 else {})


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
    """Return the JSON object that a program printed; empty if it printed something else."""
    try:
        data: Any = json.loads(output)
    except (ValueError, RecursionError):
        return {}
    return data if is_table(data) else {}
