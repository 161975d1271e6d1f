"""Long work: a server returns a handle first, and is asked until there is a result.

The handle is stored for the call. After a question or a restart, the same work continues, and does
not begin a second time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from mcp import MCPError

from handrail import Result, ToolFailed, Transient, Unknown
from handrail._support.visible import spell_out
from handrail.mcp._calls.content import read_result
from handrail.mcp._calls.outgoing import Outgoing
from handrail.mcp._calls.shapes import (
    CancelTask,
    FoundTask,
    GetTask,
    TaskParams,
    UpdateParams,
    UpdateTask,
)
from handrail.mcp._questions.questions import MAX_ROUNDS, answer_requests

PAUSE_SECONDS = 1.0
"""Between two requests, if the server names no pause."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 60.0
MAX_LOST = 10
"""Connections lost in a row until the work is given up as unknown."""
CANCEL_SECONDS = 5.0
MAX_ID_CHARS = 1_000

Ask: TypeAlias = Callable[[types.Request[Any, Any], type[Any]], Awaitable[Any]]
"""Sends a request in the current session. Raises Transient if the connection is lost."""


def find_handle(request: Outgoing) -> str:
    """Return the handle that a call got before it began again, or ""."""
    # the call's record, which outlives this process: decision 160
    return request.context.record if request.kind == "call" else ""


async def follow(ask: Ask, request: Outgoing, handle: str, server: str) -> Result:
    """Ask how a task is until it has ended, and return its result.

    Its questions go to the call's user. If the call is cancelled, so is the task; if this
    process ends, the task continues.
    """
    followed = _Followed(ask, request, handle, server)
    try:
        return await followed.wait()
    except anyio.get_cancelled_exc_class():
        if request.context.is_cancelled() or not followed.outlives_us:
            await followed.cancel()
        raise


class _Followed:
    """A task that a call waits for."""

    def __init__(self, ask: Ask, request: Outgoing, handle: str, server: str) -> None:
        self._ask = ask
        self._request = request
        self._handle = handle
        self._server = server
        self._answered: set[str] = set()
        self.outlives_us = True

    async def wait(self) -> Result:
        """Ask until the task has ended."""
        if len(self._handle) > MAX_ID_CHARS:
            raise ToolFailed(
                f"The MCP server {self._server!r} sent an answer that is not a result."
            )
        self.outlives_us = await self._request.context.store_record(self._handle)
        lost = 0
        while True:
            try:
                found = await self._send(GetTask(params=TaskParams(task_id=self._handle)))
                lost = 0
            except Transient as error:
                lost += 1
                if lost > MAX_LOST:
                    raise Unknown(f"{error} The work may continue there.") from error
                await anyio.sleep(min(LONGEST_PAUSE, PAUSE_SECONDS * lost))
                continue
            if found.status not in ("working", "input_required"):
                return self._read(found)
            if found.status_message:
                await self._request.heard(0, None, spell_out(found.status_message))
            await self._answer(found)
            await anyio.sleep(_pause(found))

    async def cancel(self) -> None:
        """Ask the server to end the task. It may continue."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_SECONDS):
            try:
                params = TaskParams(task_id=self._handle)
                await self._ask(CancelTask(params=params), types.EmptyResult)
            except Exception:  # noqa: BLE001  the call is over
                return

    async def _send(self, asked: GetTask) -> FoundTask:
        try:
            found: FoundTask = await self._ask(asked, FoundTask)
        except MCPError as error:
            said = f"The MCP server {self._server!r} does not know this work any more"
            kind = Transient if self._request.repeatable else Unknown
            await self._request.context.store_record("")
            raise kind(f"{said}: {spell_out(error.message)}") from error
        if found.task_id != self._handle:
            raise ToolFailed(f"The MCP server {self._server!r} answered about other work.")
        return found

    async def _answer(self, found: FoundTask) -> None:
        """Put new questions to the user, and send the answers."""
        asked = found.input_requests or {}
        new = {key: one for key, one in asked.items() if key not in self._answered}
        if found.status != "input_required" or not new:
            return
        self._answered |= new.keys()
        if len(self._answered) > MAX_ROUNDS:
            await self.cancel()
            raise ToolFailed(
                f"The MCP server {self._server!r} asks without end. The call was given up."
            )
        answers = await answer_requests(self._request.context, self._server, new)
        params = UpdateParams(task_id=self._handle, input_responses=answers)
        await self._ask(UpdateTask(params=params), types.EmptyResult)

    def _read(self, found: FoundTask) -> Result:
        if found.status == "completed":
            return read_result(types.CallToolResult.model_validate(found.result, by_name=False))
        said = found.status_message or str((found.error or {}).get("message", ""))
        how = "was cancelled there" if found.status == "cancelled" else "failed there"
        said = f"The work of this call {how}. {spell_out(said)}".strip()
        raise ToolFailed(f"The MCP server {self._server!r} reports: {said}")


def _pause(found: FoundTask) -> float:
    wanted = found.poll_interval_ms
    seconds = PAUSE_SECONDS if wanted is None else wanted / 1000
    return max(SHORTEST_PAUSE, min(LONGEST_PAUSE, seconds))
