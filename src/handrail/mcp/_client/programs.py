"""Local programs with three streams: in the sandbox, or without it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.abc
import anyio.to_thread

from handrail._support.loop import shield
from handrail.mcp._client.servers import StdioServer
from handrail.mcp._client.watch import Watch

if TYPE_CHECKING:
    from handrail.sandbox import Process, Sandbox

STOP_SECONDS = 2.0
"""How long a program has to end after its input has ended, before it is killed."""
_PASSED = (
    "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT SYSTEMDRIVE SYSTEMROOT TEMP USERNAME "
    "USERPROFILE"
    if sys.platform == "win32"
    else "HOME LANG LOGNAME PATH SHELL TERM USER"
).split()
"""This process's variables passed to a program outside the sandbox."""


class Program(Protocol):
    """A running program."""

    async def read(self) -> bytes:
        """Return available output, or ``b""`` at the end."""
        ...

    async def send(self, content: bytes) -> None:
        """Write to its input. Raises OSError if closed."""
        ...

    async def listen(self) -> None:
        """Read its standard error until the end, if no other method does."""
        ...

    async def stop(self) -> str:
        """End it and everything it started. Returns how it ended, if it ended by itself."""
        ...


async def start_program(server: StdioServer, watch: Watch) -> Program:
    """Start a server's program, also if the caller is cancelled, who must then stop it.

    Raises OSError, SandboxUnavailable, or what ``before_start`` raises.
    """
    variables = dict(server.env)
    if server.before_start is not None:
        more = await anyio.to_thread.run_sync(server.before_start)
        variables |= more or {}
    if server.sandbox:
        return await anyio.to_thread.run_sync(_start_confined, server, variables, watch)
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    start = anyio.open_process(
        server.words,
        env=environment | variables,
        cwd=server.folder,
        start_new_session=True,
    )
    return _FreeProgram(await shield(start), watch)


def _start_confined(server: StdioServer, variables: Mapping[str, str], watch: Watch) -> Program:
    if sys.platform != "linux":
        raise OSError("the sandbox needs Linux: pass `sandbox=False`, or run it in a container")
    from handrail.sandbox import Sandbox

    sandbox = Sandbox(
        server.folder,
        network=server.hosts,
        readable=server.readable,
        writable=server.writable,
        variables=variables,
    )
    command = f"exec 2>&3 3>&-; exec {shlex.join(server.words)}"
    return _ConfinedProgram(sandbox.start(command, notes=True, source=True), sandbox, watch)


_CANNOT_START = {126, 127}
"""Exit codes from a shell unable to start a program."""
_HIDDEN = (
    ": the sandbox may hide the program. Keep it and its packages in `cwd`, and not in /tmp, or "
    "pass `sandbox=False`"
)


class _ConfinedProgram:
    """A program in the sandbox. Its standard error arrives as notes."""

    def __init__(self, process: Process, sandbox: Sandbox, watch: Watch) -> None:
        self._process = process
        self._sandbox = sandbox  # it owns the program's folders
        self._watch = watch

    async def read(self) -> bytes:
        piece = await self._process.read()
        self._watch.take_errors(self._process.take_notes())
        return piece

    async def send(self, content: bytes) -> None:
        await self._process.send(content)

    async def listen(self) -> None:
        """Do nothing: reading the output reads the notes too."""

    async def stop(self) -> str:
        self._process.close_input()
        code: int | None = None
        with anyio.move_on_after(STOP_SECONDS):
            code = await self._process.wait()
        await self._process.kill()
        self._watch.take_errors(self._process.take_notes())
        if code is None:
            return ""
        return _describe_exit(code) + (_HIDDEN if code in _CANNOT_START else "")


class _FreeProgram:
    """A program without the sandbox, in a separate process group."""

    def __init__(self, process: anyio.abc.Process, watch: Watch) -> None:
        self._process = process
        self._watch = watch
        streams: Any = process.stdin, process.stdout, process.stderr  # all three are pipes
        self._input: anyio.abc.ByteSendStream = streams[0]
        self._output: anyio.abc.ByteReceiveStream = streams[1]
        self._errors: anyio.abc.ByteReceiveStream = streams[2]

    async def read(self) -> bytes:
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return await self._output.receive()
        return b""

    async def send(self, content: bytes) -> None:
        try:
            await self._input.send(content)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise BrokenPipeError from None

    async def listen(self) -> None:
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                self._watch.take_errors(await self._errors.receive())

    async def stop(self) -> str:
        with suppress(OSError, anyio.BrokenResourceError):
            await self._input.aclose()
        ended = await self._wait(STOP_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)  # what it started may outlive it
        await self._wait(STOP_SECONDS)
        await self._process.aclose()
        code = self._process.returncode
        return _describe_exit(code) if ended and code is not None else ""

    async def _wait(self, seconds: float) -> bool:
        """Wait for its end. ``Process.wait`` would also wait for those who hold its streams."""
        with anyio.move_on_after(seconds):
            while self._process.returncode is None:  # noqa: ASYNC110  it has no event
                await anyio.sleep(0.01)
        return self._process.returncode is not None


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return f"signal {signal.Signals(-code).name}"
