"""Slow payments: as plain functions and as coroutines, with `verify` and without.

A payment waits until the test opens the bank; with a pause, one of three is made within that time.
The model that pays checks what it is told: if a payment may have happened and the ledger does not
have it, it pays again.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from handrail import READ, WRITE, Access, Call, Context, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request, ToolResults
from handrail.runs.durable import DurableRuns
from runs.durable.shop import Ledger

SLOW = {"pay slowly": ("pay", "pay_async"), "wire slowly": ("wire", "wire_async")}
"""The names of agents, and of their tools."""


def make_slow_agents(ledger: Ledger) -> dict[str, Agent[str]]:
    """Agents whose tools do not know what they have paid before."""
    return {name: _make_agent(ledger, tools) for name, tools in SLOW.items()}


def _make_agent(ledger: Ledger, names: tuple[str, ...]) -> Agent[str]:
    @tool(effect=READ)
    def find(name: str, context: Context) -> str:
        """Find a payment of this run."""
        paid = [line for line in _effects(ledger.path) if line.startswith(f"{name} ")]
        return "paid" if any(f" {context.run_id}/" in line for line in paid) else "missing"

    tools = [_make_tool(ledger, name) for name in names]
    return Agent(partial(_pay_and_check, names), [*tools, find])


def _make_tool(ledger: Ledger, name: str) -> Any:
    def pay(context: Context) -> str:
        payment = _Payment(ledger, name, context)
        while payment.waits:
            time.sleep(0.01)
        return payment.make()

    async def pay_async(context: Context) -> str:
        payment = _Payment(ledger, name, context)
        while payment.waits:  # noqa: ASYNC110  for a file
            await anyio.sleep(0.01)
        return payment.make()

    def was_paid(idempotency_key: str) -> bool:
        return any(line.endswith(f" {idempotency_key}") for line in _effects(ledger.path))

    options: dict[str, Any] = {"verify": was_paid} if name.startswith("wire") else {}
    touches = partial(Access, WRITE, f"account:{name}")
    decorate = tool(name=name, description="Pay.", effect=WRITE, touches=touches, **options)
    return decorate(pay_async if name.endswith("_async") else pay)


class _Payment:
    """A payment that has begun."""

    def __init__(self, ledger: Ledger, name: str, context: Context) -> None:
        self._ledger = ledger
        self._line = f"{name} {context.idempotency_key}"
        ledger.add(f"begin {os.getpid()} {self._line}")
        chance = random.random()  # noqa: S311  only a test
        is_fast = ledger.pause and 3 * chance < 1
        self._until = time.monotonic() + (ledger.pause * chance if is_fast else math.inf)

    @property
    def waits(self) -> bool:
        is_open = self._ledger.path.with_name("open").exists()
        return not is_open and time.monotonic() < self._until

    def make(self) -> str:
        self._ledger.add(self._line)
        return "paid"


async def _pay_and_check(names: tuple[str, ...], request: Request) -> Reply:
    """Pay with each tool. Check each payment that may have happened, and pay again if it did not."""
    turns = [one for one in request.messages if isinstance(one, ToolResults)]
    if not turns:
        return Reply(tuple(Call(name, {}, f"{name}-0") for name in names))
    again = []
    for result in turns[-1].results:
        name, _, number = result.call_id.removeprefix("find-").rpartition("-")
        if result.call_id.startswith("find-"):
            if result.text == "missing":
                again.append(Call(name, {}, f"{name}-{int(number) + 1}"))
        elif result.failure is not None:
            again.append(Call("find", {"name": name}, f"find-{name}-{number}"))
    return Reply(tuple(again) or (Text("All done."),))


def _effects(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in lines if not line.startswith("begin ")]


def find_busy(path: Path, pids: list[int]) -> int | None:
    """The process that began the last of the payments that have not happened, if it is one of these."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    made = set(_effects(path))
    for line in reversed(lines):
        if line.startswith("begin "):
            _, pid, effect = line.split(" ", 2)
            if int(pid) in pids and effect not in made:
                return int(pid)
    return None


class Paid(NamedTuple):
    """What became of the payments of some runs."""

    doubled: tuple[str, ...]
    wrong: tuple[str, ...]


async def judge_payments(path: Path, url: str, run_ids: list[str]) -> Paid:
    """Each run ends, and has paid once with each tool."""
    paid = Counter(line.rpartition("/")[0].rpartition("/")[0] for line in _effects(path))
    wrong: list[str] = []
    async with DurableRuns(url, {}) as runs:
        for run in [await runs.get(one) for one in run_ids]:
            wrong += [
                f"{name} {run.id}" for name in SLOW[run.agent] if not paid[f"{name} {run.id}"]
            ]
            if (run.status, run.text) != ("done", "All done."):
                wrong.append(f"{run.id} is {run.status} {run.why}")
    return Paid(tuple(name for name, count in paid.items() if count > 1), tuple(wrong))
