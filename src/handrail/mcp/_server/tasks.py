"""Long calls as tasks: a client that knows tasks gets a handle, and asks for the result later."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from secrets import token_urlsafe
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from handrail._support.loop import spawn
from handrail.mcp._calls.shapes import TASKS, TaskParams, UpdateParams
from handrail.mcp._server.asking import Request, is_modern

MAX_TASKS = 10_000
"""More are not stored: the oldest ended one is dropped first."""
KEPT_SECONDS = 3_600.0
"""How long a task can be asked for once it has ended."""
POLL_SECONDS = 1.0

_UNKNOWN = "There is no such task, or it has expired."
_NO_TASKS = "This request needs the extension for tasks."

Outcome: TypeAlias = types.CallToolResult | types.InputRequiredResult
Call: TypeAlias = Callable[[Request, types.CallToolRequestParams], Awaitable[Outcome]]
FindOwner: TypeAlias = Callable[[Request], object]

log = logging.getLogger("handrail.mcp")


@dataclass(slots=True, eq=False)
class RunningTask:
    """One call, which may outlive its request."""

    owner: object
    params: types.CallToolRequestParams
    id: str = field(default_factory=lambda: token_urlsafe(24))
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    changed: datetime = field(default_factory=lambda: datetime.now(UTC))
    message: str = ""
    """What the call has reported last."""
    is_handed_out: bool = False
    """Whether its client has the handle. Its request is then over."""
    status: types.TaskStatus = "working"
    outcome: Outcome | None = None
    error: types.ErrorData | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    work: object = None

    def describe(self) -> dict[str, Any]:
        """Return how it is, in the protocol's form."""
        state = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.began.isoformat(),
            "lastUpdatedAt": self.changed.isoformat(),
            "ttlMs": None,
            "pollIntervalMs": int(POLL_SECONDS * 1000),
        }
        return {**state, "statusMessage": self.message} if self.message else state

    def describe_whole(self) -> dict[str, Any]:
        """Return how it is, with its result, its questions or its error."""
        state, outcome = self.describe(), self.outcome
        if self.status == "completed" and outcome is not None:
            return {**state, "result": _dump(outcome)}
        if self.status == "input_required" and outcome is not None:
            return {**state, "inputRequests": _dump(outcome)["inputRequests"]}
        return {**state, "error": _dump(self.error)} if self.error is not None else state

    def report(self, message: str) -> None:
        """Note what the call reports."""
        self.message, self.changed = message, datetime.now(UTC)

    def settle(self, status: types.TaskStatus) -> None:
        """Note how it is now."""
        if self.status not in ("completed", "failed", "cancelled"):
            self.status, self.changed = status, datetime.now(UTC)


running_task: ContextVar[RunningTask | None] = ContextVar("running_task", default=None)
"""The task that a call may become."""


class Tasks:
    """Runs calls, and returns handles for those that take long.

    Args:
        call: Runs a call.
        find_owner: Returns whom a request is from. A task is for its owner alone.
        after_seconds: How long a request waits before its client gets a handle.
        is_background: Returns whether calls of this tool become tasks at once.
    """

    def __init__(
        self,
        call: Call,
        find_owner: FindOwner,
        after_seconds: float,
        *,
        is_background: Callable[[str], bool],
    ) -> None:
        self._call = call
        self._find_owner = find_owner
        self._after_seconds = after_seconds
        self._is_background = is_background
        self._tasks: OrderedDict[str, RunningTask] = OrderedDict()

    def add_to(self, server: Server[Any]) -> None:
        """Let clients of a server ask about their tasks."""
        server.extensions[TASKS] = {}
        server.add_request_handler("tasks/get", TaskParams, self.get)
        server.add_request_handler("tasks/update", UpdateParams, self.update)
        server.add_request_handler("tasks/cancel", TaskParams, self.cancel)

    async def call_tool(self, request: Request, params: types.CallToolRequestParams) -> Any:
        """Run a call. If it takes long, a client that knows tasks gets a handle."""
        if not _knows_tasks(request):
            return await self._call(request, params)
        task = RunningTask(self._find_owner(request), params)
        self._start(task, request, params)
        try:
            now = self._is_background(params.name)
            with anyio.move_on_after(0 if now else self._after_seconds):
                await task.ended.wait()
        except BaseException:
            task.scope.cancel()
            with anyio.CancelScope(shield=True):
                await task.ended.wait()
            raise
        if task.error is not None:
            raise MCPError(task.error.code, task.error.message, task.error.data)
        if task.outcome is not None:
            return task.outcome
        task.is_handed_out = True
        self._keep(task)
        return {**task.describe(), "resultType": "task"}

    async def get(self, request: Request, params: TaskParams) -> dict[str, Any]:
        """Return how a task is. Raises MCPError for an unknown one."""
        return self._find(request, params.task_id).describe_whole()

    async def update(self, request: Request, params: UpdateParams) -> dict[str, Any]:
        """Take the answers to a task's questions, and continue. Others are ignored."""
        task = self._find(request, params.task_id)
        asked = task.outcome
        if task.status == "input_required" and isinstance(asked, types.InputRequiredResult):
            wanted = asked.input_requests or {}
            answers = {key: one for key, one in params.input_responses.items() if key in wanted}
            if answers.keys() == wanted.keys():
                more = {"input_responses": answers, "request_state": asked.request_state}
                task.outcome, task.status = None, "working"
                task.scope, task.ended = anyio.CancelScope(), anyio.Event()
                self._start(task, request, task.params.model_copy(update=more))
        return {}

    async def cancel(self, request: Request, params: TaskParams) -> dict[str, Any]:
        """End a task, unless it has ended."""
        task = self._find(request, params.task_id)
        task.settle("cancelled")
        task.scope.cancel()
        return {}

    def _start(
        self, task: RunningTask, request: Request, params: types.CallToolRequestParams
    ) -> None:
        variables = copy_context()
        variables.run(running_task.set, task)
        task.work = spawn(variables, self._run, task, request, params, lost=_lose)

    async def _run(
        self, task: RunningTask, request: Request, params: types.CallToolRequestParams
    ) -> None:
        """Run a call to its end. Never raises."""
        ended = task.ended
        try:
            with task.scope:
                task.outcome = await self._call(request, params)
                asks = isinstance(task.outcome, types.InputRequiredResult)
                task.settle("input_required" if asks else "completed")
        except MCPError as error:
            task.error = error.error
            task.settle("failed")
        except Exception:
            log.exception("a call by MCP failed")
            task.error = types.ErrorData(code=types.INTERNAL_ERROR, message="Internal error")
            task.settle("failed")
        finally:
            task.settle("cancelled") if task.scope.cancelled_caught else None
            ended.set()

    def _keep(self, task: RunningTask) -> None:
        before = datetime.now(UTC) - timedelta(seconds=KEPT_SECONDS)
        ended = [one for one in self._tasks.values() if one.status != "working"]
        for one in ended:
            if one.changed < before or len(self._tasks) >= MAX_TASKS:
                one.scope.cancel()
                del self._tasks[one.id]
        self._tasks[task.id] = task

    def _find(self, request: Request, name: str) -> RunningTask:
        if not _knows_tasks(request):
            wanted: Any = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, _NO_TASKS, wanted)
        task = self._tasks.get(name)
        if task is None or task.owner != self._find_owner(request):
            raise MCPError(types.INVALID_PARAMS, _UNKNOWN)
        return task


def _knows_tasks(request: Request) -> bool:
    capabilities = request.session.client_capabilities
    extensions = None if capabilities is None else capabilities.extensions
    return is_modern(request) and extensions is not None and TASKS in extensions


def _lose(task: RunningTask, *_: object) -> None:
    """End a task whose event loop ended it before it began."""
    task.settle("cancelled")
    with suppress(RuntimeError):
        task.ended.set()


def _dump(value: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    dumped.pop("resultType", None)
    return dumped
