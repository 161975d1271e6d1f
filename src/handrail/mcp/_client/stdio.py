"""Transport to a program: one message per line.

The SDK has one, too. This one also runs programs in the sandbox, bounds message length, and
survives other lines.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from handrail.mcp._client.programs import Program, start_program
from handrail.mcp._client.servers import StdioServer
from handrail.mcp._client.watch import Watch

MAX_MESSAGE_BYTES = 16 << 20
"""Bytes in one message. A server sending more is disconnected."""

log = logging.getLogger("handrail.mcp")


@asynccontextmanager
async def connect_program(server: StdioServer, watch: Watch) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a program, and exchange messages with it until the block ends. Then it is stopped."""
    program = await start_program(server, watch)
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
    program: Program,
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


async def _read_lines(program: Program, watch: Watch) -> AsyncGenerator[bytes]:
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
    program: Program,
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
