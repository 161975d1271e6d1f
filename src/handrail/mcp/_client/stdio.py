"""Transport to a program: one message per line.

The SDK has one, too. This one also runs programs in the sandbox, bounds message length, and
survives other lines.
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.abc
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from handrail._support.loop import shield
from handrail.mcp._client.servers import StdioServer
from handrail.mcp._client.watch import Watch

if TYPE_CHECKING:
    from handrail.sandbox import Process, Sandbox

MAX_MESSAGE_BYTES = 16 << 20
"""Bytes in one message. A server sending more is disconnected."""

log = logging.getLogger("handrail.mcp")
_STOP_SECONDS = 2.0
"""How long a program has to end after its input has ended, before it is killed."""
_PASSED = (
    "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT SYSTEMDRIVE SYSTEMROOT TEMP USERNAME "
    "USERPROFILE"
    if sys.platform == "win32"
    else "HOME LANG LOGNAME PATH SHELL TERM USER"
).split()
"""This process's variables passed to a program outside the sandbox."""


@asynccontextmanager
async def connect_program(server: StdioServer, watch: Watch) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a program, and exchange messages with it until the block ends. Then it is stopped."""
    program = await _start_program(server, watch)
    arrived_in, arrived = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    leaving, leaving_out = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, program, arrived_in, watch, server.name)
            tasks.start_soon(_write, program, leaving_out, arrived_in)
            tasks.start_soon(program.listen)
            try:
                yield arrived, leaving
            finally:
                arrived.close()
                leaving.close()
                with anyio.CancelScope(shield=True):
                    ended = await program.stop()
                    watch.why = watch.why or ended
                tasks.cancel_scope.cancel()
    finally:
        for stream in (arrived_in, arrived, leaving, leaving_out):
            stream.close()


async def _read(
    program: _Program,
    arrived: MemoryObjectSendStream[SessionMessage | Exception],
    watch: Watch,
    name: str,
) -> None:
    """Pass on each line with a message, until the output ends."""
    async with arrived:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session ended
            async for line in _read_lines(program, watch):
                message = _parse(line, watch, name)
                if message is not None:
                    await arrived.send(message)
    watch.end()


async def _read_lines(program: _Program, watch: Watch) -> AsyncGenerator[bytes]:
    pieces: list[bytes] = []
    held = 0
    while held <= MAX_MESSAGE_BYTES:
        piece = await program.read()
        if not piece:
            return
        *lines, rest = piece.split(b"\n")
        for line in lines:
            yield b"".join([*pieces, line])
            pieces, held = [], 0
        pieces.append(rest)
        held += len(rest)
    watch.end(f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MiB")


def _parse(line: bytes, watch: Watch, name: str) -> SessionMessage | None:
    if not line.strip():
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        watch.noise += 1
        if watch.noise == 1:
            log.warning("the MCP server %r writes lines that are not messages", name)
        return None


async def _write(
    program: _Program,
    leaving: MemoryObjectReceiveStream[SessionMessage],
    arrived: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    async with leaving:
        async for sent in leaving:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await program.send(text.encode() + b"\n")
            except OSError:
                arrived.close()  # ends the session even if the program continues
                return


class _Program(Protocol):
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


async def _start_program(server: StdioServer, watch: Watch) -> _Program:
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


def _start_confined(server: StdioServer, variables: Mapping[str, str], watch: Watch) -> _Program:
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
        with anyio.move_on_after(_STOP_SECONDS):
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
        ended = await self._wait(_STOP_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)  # what it started may outlive it
        await self._wait(_STOP_SECONDS)
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
