"""Long work in the protocol's shapes: the extension for tasks."""

from __future__ import annotations

from typing import Any, Literal

import mcp_types as types

TASKS = "io.modelcontextprotocol/tasks"
"""The extension's name in the protocol."""


class CreatedTask(types.Result):
    """The handle that a server returns for long work."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: types.TaskStatus = "working"
    poll_interval_ms: float | None = None


class TaskParams(types.RequestParams):
    """Which task a request is about."""

    task_id: str


class UpdateParams(TaskParams):
    """The answers to a task's questions."""

    input_responses: types.InputResponses


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    """Asks how a task is."""

    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class UpdateTask(types.Request[UpdateParams, Literal["tasks/update"]]):
    """Answers a task's questions."""

    method: Literal["tasks/update"] = "tasks/update"
    params: UpdateParams
    name_param = "taskId"


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    """Asks a server to end a task."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


class FoundTask(types.Result):
    """How a task is, with its result once it has ended."""

    task_id: str
    status: types.TaskStatus
    status_message: str | None = None
    poll_interval_ms: float | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: types.InputRequests | None = None
