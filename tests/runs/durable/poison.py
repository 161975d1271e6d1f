"""Agents whose tool ends its process, agents that pay beside them, and workers that start again."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from handrail import READ, Context, FailureKind, tool
from handrail.agent import Agent
from handrail.messages import ToolResults
from handrail.runs.durable import DurableRun
from runs.durable.shop import Ledger, make_agent, make_model
from runs.durable.workers import Forks


def make_poison_agents(ledger: Ledger) -> dict[str, Agent[str]]:
    """One that pays and then ends its process, until it is cured. One that pays five times."""

    @tool(effect=READ)
    async def render(page: int, context: Context) -> str:
        """Render a page."""
        ledger.add(f"render {context.idempotency_key} {os.getpid()}")
        if not ledger.path.with_name("cured").exists():
            os._exit(139)  # as a library with a bug does
        return f"rendered {page}"

    @tool
    async def pay(amount: int, context: Context) -> str:
        """Pay."""
        ledger.add(f"pay {context.idempotency_key}")
        return f"paid {amount}"

    script = make_model(((("pay", {"amount": 1}),), (("render", {"page": 1}),)))
    five = make_model(((("pay", {"amount": 1}),),) * 5)
    return {"poison": Agent(script, [render, pay]), "five": make_agent(ledger, five)}


class Restarts:
    """Workers in a loop: one that has ended is started again."""

    def __init__(self, forks: Forks, ledger: Path, url: str, **options: Any) -> None:
        self._forks = forks
        self._where = (ledger, url)
        self._options = {"poll": 0.05, "interval": 0.1, "pause": 0.05, **options}
        self._pids: list[int] = []
        self.codes: list[int] = []
        """How workers have ended."""

    @asynccontextmanager
    async def keep(self, count: int) -> AsyncGenerator[None]:
        """Keep so many workers inside."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep, count)
                yield
                group.cancel_scope.cancel()
        finally:
            for pid in self._pids:
                os.kill(pid, signal.SIGKILL)
                self._forks.reap(pid)

    async def _keep(self, count: int) -> None:
        while True:
            for pid in list(filter(_has_ended, self._pids)):
                self._pids.remove(pid)
                code = await to_thread.run_sync(self._forks.reap, pid)
                self.codes.append(os.waitstatus_to_exitcode(code))
            while len(self._pids) < count:
                start = self._forks.spawn
                self._pids.append(start(*self._where, **self._options))
            await anyio.sleep(0.02)


def _has_ended(pid: int) -> bool:
    """Whether a process waits for its parent."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return text.rpartition(")")[2].split()[0] == "Z"


def count_unknown(run: DurableRun) -> int:
    """How many calls of a run may have taken effect."""
    messages: Any = () if run.state is None else run.state.messages
    turns = [message for message in messages if isinstance(message, ToolResults)]
    failures = [one.failure for turn in turns for one in turn.results if one.failure]
    return sum(failure.kind is FailureKind.UNKNOWN for failure in failures)
