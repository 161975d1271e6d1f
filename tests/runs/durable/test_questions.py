"""A server's question parks a run, its process is killed, and the answer completes the call once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio

from console.visits import BEHIND_A_PROXY, visit
from handrail.console import Console
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.permissions import Pending
from handrail.runs.durable import DurableRun, DurableRuns

SERVER = str(Path(__file__).parents[2] / "mcp_client" / "asking_server.py")
SHOP = """
import os
import sys

import anyio

from handrail import Allow, Call, Hook, Registry, Text
from handrail.agent import Agent
from handrail.mcp import McpSource, StdioServer
from handrail.messages import Reply
from handrail.runs.durable import DurableRuns

SERVER, UNTIL = sys.argv[1:]


async def model(request):
    if len(request.messages) > 1:
        return Reply((Text(request.messages[-1].results[0].text),))
    return Reply((Call("mcp__shop__order", {}, "c1"),))


async def main():
    server = StdioServer(
        name="shop", command=sys.executable, args=(SERVER,), env={"RAN": "ran.txt"}, sandbox=False
    )
    registry = Registry()
    async with registry.connect(McpSource(server)):
        agent = Agent(model, registry, policy=lambda call: Allow(), hooks=[Hook(frames=False)])
        runs = DurableRuns("runs.db", {"shop": agent}, poll=0.05)
        async with runs.work(interval=0.1):
            await runs.start("shop", "Order.", run_id="r", principal="ada")
            while (await runs.wait("r", seconds=60)).status != UNTIL:
                await anyio.sleep(0.02)
            if UNTIL == "waiting":
                os.kill(os.getpid(), 9)


anyio.run(main)
"""


def test_a_parked_question_is_answered_from_the_console_after_a_kill(sqlite: str) -> None:
    folder = Path(sqlite).parent
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")

    def work(until: str) -> int:
        argv = [sys.executable, "shop.py", SERVER, until]
        return subprocess.run(argv, cwd=folder, check=False, timeout=120).returncode  # noqa: S603

    async def read() -> tuple[DurableRun, tuple[Pending, ...]]:
        async with DurableRuns(sqlite, {}) as runs:
            return await runs.get("r"), await runs.inbox()

    assert work("waiting") == -9
    run, [asked] = anyio.run(read)
    assert (run.status, asked.kind, asked.principal) == ("waiting", "form", "ada")
    assert asked.question == "The MCP server 'shop' asks: Which order?"
    assert not (folder / "ran.txt").exists()

    person = visit(folder, "admins", console=Console(BEHIND_A_PROXY, Store(sqlite)))
    person.answer(f"/inbox/{to_path(asked.id)}", **{"value-0": "3", "value-1": "1"})
    assert work("done") == 0

    run, nothing = anyio.run(read)
    said = "order: accept {'size': 3, 'colour': 'blue'}"
    assert (run.status, run.text, nothing) == ("done", said, ())
    assert (folder / "ran.txt").read_text(encoding="utf-8") == f"order accept{os.linesep}"
