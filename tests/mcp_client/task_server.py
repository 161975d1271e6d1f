"""A server whose work takes longer than its answers: a client that knows tasks gets a handle.

Work ends ten minutes after it began, by the clock in the file that the first argument names; the second one gets a
line for each thing that happens. The server prints its port.
"""

from __future__ import annotations

import itertools
import socket
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError

TASKS = "io.modelcontextprotocol/tasks"
MINUTES = 10
FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


class Work:
    def __init__(self, name: str, began: float) -> None:
        self.name = name
        self.began = began
        self.status = "working"
        self.size: Any = None


class About(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


def main() -> None:  # noqa: C901, PLR0915  one handler for each request
    clock, log = Path(sys.argv[1]), Path(sys.argv[2])
    works: dict[str, Work] = {}
    ids = itertools.count(1)

    def note(said: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{said}\n")

    def now() -> float:
        return float(clock.read_text(encoding="utf-8") or 0)

    def describe(name: str, work: Work) -> dict[str, Any]:
        told: dict[str, Any] = {"taskId": name, "status": work.status, "ttlMs": None}
        told |= {"createdAt": "2026-11-19T00:00:00Z", "lastUpdatedAt": "2026-11-19T00:00:00Z"}
        return {**told, "pollIntervalMs": 100}

    async def list_tools(_request: Any, _params: Any) -> types.ListToolsResult:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        names = ("build", "ask", "fail", "lose", "short")
        return types.ListToolsResult(
            tools=[types.Tool(name=one, input_schema=schema) for one in names]
        )

    async def call(request: Any, params: types.CallToolRequestParams) -> Any:
        capabilities = request.session.client_capabilities
        if params.name == "short" or TASKS not in (capabilities.extensions or {}):
            said = "short" if params.name == "short" else "no tasks"
            return types.CallToolResult(content=[types.TextContent(text=said)])
        name = f"task-{next(ids)}"
        works[name] = Work(params.name, now())
        note(f"began {params.name}")
        return {**describe(name, works[name]), "resultType": "task"}

    def find(name: str) -> Work:
        if name not in works or works[name].name == "lose":
            raise MCPError(types.INVALID_PARAMS, "Task not found")
        return works[name]

    async def get(request: Any, params: About) -> dict[str, Any]:
        assert request.request is None or request.request.headers["mcp-name"] == params.task_id
        work = find(params.task_id)
        left = work.began + 60 * MINUTES - now()
        note(f"polled {work.name}")
        if work.status == "cancelled":
            return describe(params.task_id, work)
        if left > 0:
            return {**describe(params.task_id, work), "statusMessage": f"{left:g} s left"}
        if work.name == "ask" and work.size is None:
            asked = {"mode": "form", "message": "Which size?", "requestedSchema": FORM}
            requests = {"size": {"method": "elicitation/create", "params": asked}}
            work.status = "input_required"
            return {**describe(params.task_id, work), "inputRequests": requests}
        if work.name == "fail":
            work.status = "failed"
            error = {"code": -32603, "message": "The disk is full."}
            return {**describe(params.task_id, work), "error": error}
        work.status = "completed"
        text = f"{work.name} done" if work.size is None else f"{work.name} {work.size}"
        result = {"content": [{"type": "text", "text": text}], "isError": False}
        note(f"completed {work.name}")
        return {**describe(params.task_id, work), "result": result}

    async def update(_request: Any, params: About) -> dict[str, Any]:
        work = find(params.task_id)
        work.size = (params.input_responses or {})["size"].get("content", {}).get("size", 0)
        work.status = "working"
        return {}

    async def cancel(_request: Any, params: About) -> dict[str, Any]:
        work = find(params.task_id)
        work.status = "cancelled"
        note(f"cancelled {work.name}")
        return {}

    server: Server[Any] = Server("builder", on_list_tools=list_tools, on_call_tool=call)
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", About, get)
    server.add_request_handler("tasks/update", About, update)
    server.add_request_handler("tasks/cancel", About, cancel)
    import uvicorn

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)  # noqa: T201  for the one who started it
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
