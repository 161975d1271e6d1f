"""Hooks in other programs: JSON on stdin; an exit code, and JSON on stdout, back."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import anyio
import anyio.abc
import anyio.to_thread

from handrail import Call, CheckedCall, FailureKind, HandrailError, Hook, Result, StopRun, Text
from handrail._support import is_object
from handrail._support.loop import shield
from handrail.hooks._shared import refuse

if TYPE_CHECKING:  # loaded for programs that run inside
    from handrail.sandbox import Process, Sandbox

MAX_OUTPUT_BYTES = 1 << 20
_FOLDERS = ("HANDRAIL_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "SHELL", "TERM")
_REFUSES = 2
"""The exit code for refusing a call."""
_NOT_STARTED = (126, 127)
"""Shell exit codes: the program was not found, or cannot be run."""
_FIELDS = frozenset(
    "continue stopReason suppressOutput systemMessage decision reason hookSpecificOutput".split()
)
_CALL_FIELDS = frozenset(
    "hookEventName permissionDecision permissionDecisionReason updatedInput "
    "additionalContext".split()
)
"""Fields about a call."""
_NO_REASON = "A hook refused it without a reason."
_NOT_RUN = (FailureKind.DENIED, FailureKind.PENDING)


class HookAnswer(NamedTuple):
    """A program's answer."""

    code: int
    text: str
    """Its stdout, if that is not a JSON object."""
    err: str
    data: Mapping[str, Any]
    """The JSON object on stdout, if there is one."""

    @property
    def specific(self) -> Mapping[str, Any]:
        """The part for the event."""
        part = self.data.get("hookSpecificOutput")
        return part if is_object(part) else {}

    @property
    def is_known(self) -> bool:
        """Whether its fields and decisions are the format's, so that no typo allows a call."""
        return (
            self.data.keys() <= _FIELDS
            and is_object(self.data.get("hookSpecificOutput", {}))
            and self.specific.keys() <= _CALL_FIELDS
            and isinstance(self.data.get("continue", True), bool)
            and self.data.get("decision") in (None, "approve", "block")
            and self._decision in (None, "allow", "ask", "deny")
            and is_object(self.specific.get("updatedInput", {}))
        )

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

    def stop_if_asked(self) -> None:
        """Raise StopRun if the program ends the whole run."""
        if self.stop_reason:
            raise StopRun(self.stop_reason)

    @property
    def stop_reason(self) -> str:
        """Why the program ends the whole run; empty if it does not."""
        if self.data.get("continue") is not False:
            return ""
        return str(self.data.get("stopReason") or "A hook ended the run.")

    @property
    def complaint(self) -> str:
        """Output from a program failing without refusing."""
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


AskProgram: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[HookAnswer]]
"""Asks one program about a call: with ``tool_name``, ``tool_use_id``, ``tool_input`` and more."""
_Find: TypeAlias = Callable[[str, CheckedCall], Iterable[AskProgram]]
"""Returns the programs for an event about a call."""
_Note: TypeAlias = Callable[[str, str], object]
"""Gets a call's id, and a program's question about it."""


def make_program_hook(find: _Find, note: _Note | None = None) -> Hook:
    """Return a hook that asks programs before and after calls, one program after the other.

    Without ``note`` for questions, a program's question refuses the call.
    """
    return Hook(before=partial(_before, find, note), after=partial(_after, find))


async def _before(
    find: _Find, note: _Note | None, call: CheckedCall
) -> CheckedCall | Call | Result:
    given = args = json.loads(call.parsed.text)
    for ask in find("PreToolUse", call):
        answer = await ask(_describe_call(call, args))
        answer.stop_if_asked()
        if why := answer.objection or (answer.question if note is None else ""):
            return refuse(call, FailureKind.DENIED, f"Not run: {why}", by="command")
        if answer.question and note is not None:
            note(call.id, answer.question)
        changed = answer.specific.get("updatedInput")
        args = changed if is_object(changed) else args
    return call if args is given else replace(call.call, args=json.dumps(args))


async def _after(find: _Find, call: CheckedCall | Call, result: Result) -> Result:
    failure = result.failure
    if not isinstance(call, CheckedCall) or (failure and failure.kind in _NOT_RUN):
        return result
    about = _describe_call(call, json.loads(call.parsed.text))
    if failure is None:
        event, about["tool_response"] = "PostToolUse", result.text
    else:
        is_interrupt = failure.kind is FailureKind.CANCELLED
        event = "PostToolUseFailure"
        about |= {"error": failure.message, "is_interrupt": is_interrupt}
    said = list[str]()
    for ask in find(event, call):
        answer = await ask(about)
        answer.stop_if_asked()
        said += filter(None, (answer.objection, answer.context))
    if not said:
        return result
    note = "\n\n".join(["", *(f"[Hook: {text}]" for text in said)])
    parts = (*result.parts, Text(note.strip())) if result.parts else ()
    return result._replace(text=f"{result.text}{note}", parts=parts)


def _describe_call(call: CheckedCall, args: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool_name": call.name, "tool_use_id": call.id, "tool_input": args}


def hook_variables(folder: Path) -> dict[str, str]:
    """Return a program's environment outside a sandbox: few variables, and the folder's path."""
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return passed | dict.fromkeys(_FOLDERS, str(folder))


async def ask_program(
    command: str | Sequence[str],
    request: Mapping[str, Any],
    *,
    folder: Path,
    variables: Mapping[str, str],
    seconds: float,
    sandbox: Sandbox | None = None,
) -> HookAnswer:
    """Run a program, or a line by the shell: in a folder, or in the sandbox's.

    ``variables`` are its environment outside a sandbox. Raises HandrailError if it gives no answer.
    """
    line = command if isinstance(command, str) else shlex.join(command)
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else [*command]
    output, errors = bytearray(), bytearray()
    starting = (
        _start_outside(words, folder, variables)
        if sandbox is None
        else _start_inside(line, sandbox)
    )
    async with starting as exchange:
        try:
            with anyio.fail_after(seconds):
                code = await exchange(json.dumps(request).encode(), output, errors)
        except TimeoutError:
            raise HandrailError(f"`{line}` did not end within {seconds:g} s") from None
    if code in _NOT_STARTED:
        raise HandrailError(f"`{line}` could not start: {errors.decode(errors='replace').strip()}")
    is_cut, start = len(output) >= MAX_OUTPUT_BYTES, output.lstrip() or b"{"
    if code == 0 and is_cut and start.startswith(b"{"):  # perhaps an object with a no
        raise HandrailError(f"`{line}` printed more than {MAX_OUTPUT_BYTES:,} bytes")
    out = output.decode(errors="replace")
    data = _read(out) if code == 0 else None
    text = out if data is None else ""
    return HookAnswer(code, text, errors.decode(errors="replace"), data or {})


_Exchange: TypeAlias = Callable[[bytes, bytearray, bytearray], Awaitable[int]]
"""Sends the request to a program, collects output up to the end, and returns the exit code."""


@asynccontextmanager
async def _start_inside(line: str, sandbox: Sandbox) -> AsyncGenerator[_Exchange]:
    """Start a program in the sandbox."""
    folders = " ".join(f"{name}={shlex.quote(sandbox.root)}" for name in _FOLDERS)
    whole = f"exec 2>&3 3>&-; export {folders}; exec /bin/sh -c {shlex.quote(line)}"

    def start() -> Process:
        return sandbox.start(whole, notes=True, source=True)

    process = await shield(anyio.to_thread.run_sync(start))
    try:
        yield partial(_exchange_inside, process)
    finally:
        await process.kill()


async def _exchange_inside(
    process: Process, request: bytes, output: bytearray, errors: bytearray
) -> int:
    async def send() -> None:
        with suppress(OSError):  # the program need not read its input
            await process.send(request)
        process.close_input()

    code = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        while piece := await process.read():
            output += piece[: MAX_OUTPUT_BYTES - len(output)]
        code = await process.wait()
        tasks.cancel_scope.cancel()
    errors += process.take_notes()
    return code


@asynccontextmanager
async def _start_outside(
    words: Sequence[str], folder: Path, variables: Mapping[str, str]
) -> AsyncGenerator[_Exchange]:
    """Start a program with the user's rights."""
    start = anyio.open_process(words, cwd=folder, env=variables, start_new_session=True)
    async with await shield(start) as process:
        try:
            yield partial(_exchange_outside, process)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)


async def _exchange_outside(
    process: anyio.abc.Process, request: bytes, output: bytearray, errors: bytearray
) -> int:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_send, process.stdin, request)
        tasks.start_soon(_collect, process.stdout, output)
        tasks.start_soon(_collect, process.stderr, errors)
    return await process.wait()


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


def _read(output: str) -> Mapping[str, Any] | None:
    """Return the printed JSON object, an empty one if nothing was printed, or else None."""
    try:
        data: Any = json.loads(output) if output.strip() else {}
    except (ValueError, RecursionError):
        return None
    return data if is_object(data) else None
