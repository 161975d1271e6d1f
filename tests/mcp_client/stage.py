"""Servers and calls for tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from handrail import Allow, Call, Executor, Registry, Result
from handrail.mcp import Effects, McpSource, Offer, Pins, StdioServer
from unframed import UNFRAMED
from virtual_time import Quick

HERE = Path(__file__).parent
RAW = str(HERE / "raw_server.py")
KNOWN = Effects(reads=("get_*",), writes=("put_it", "echo"), idempotent=("wait",))
PATIENCE = 30


def raw(*habits: str, name: str = "raw", inside: Path | None = None, **env: str) -> StdioServer:
    """A server that starts at once, with bad habits; in the sandbox, if a folder is given."""
    if inside is not None:
        shutil.copy(RAW, inside)
    return StdioServer(
        name=name,
        command=os.path.realpath(sys.executable),
        args=("-S", Path(RAW).name, *habits),
        env=env,
        cwd=str(inside or HERE),
        sandbox=inside is not None,
    )


class Stage:
    """A source, connected, with an executor that allows everything."""

    def __init__(self, source: McpSource, registry: Registry, executor: Executor) -> None:
        self.source = source
        self.registry = registry
        self.executor = executor

    async def call(self, tool: str, **args: Any) -> Result:
        """Call a tool of the server by its own name."""
        return await self.executor.run(Call(f"mcp__{self.source.name}__{tool}", args))

    async def generation(self, at_least: int) -> None:
        """Wait until the registry has changed so often."""
        with anyio.fail_after(PATIENCE):
            while self.registry.generation < at_least:  # noqa: ASYNC110  no event tells of it
                await anyio.sleep(0.01)


@asynccontextmanager
async def connected(
    server: Any, *, effects: Effects = KNOWN, pins: Pins | None = None, **options: Any
) -> AsyncGenerator[Stage]:
    """Connect to a server, and disconnect at the end."""
    offer = options.pop("offer", Offer(effects=effects))
    source = McpSource(server, offer=offer, pins=pins, **options)
    registry = Registry()
    async with (
        registry.connect(source),
        Executor(registry, policy=Quick(lambda _: Allow()), hooks=UNFRAMED) as executor,
    ):
        yield Stage(source, registry, executor)
