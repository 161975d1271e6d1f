"""Agents whose model writes a program: it reads, pays, and asks for approval."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anyio

from handrail import READ, WRITE, Access, Context, tool
from handrail.agent import Agent
from handrail.messages import ToolResults
from handrail.programs import program_tool
from handrail.runs.durable import DurableRuns
from runs.durable.shop import Ledger, make_model, policy

CODE = """
import asyncio

record = []

async def try_to_pay(amount):
    try:
        record.append([amount, await pay(amount=amount)])
    except Exception as error:
        record.append([amount, str(error)])

now = await read_clock()
await try_to_pay(now)
await asyncio.gather(try_to_pay(1), look(place="a"), try_to_pay(2))
await try_to_pay(500)
for amount in range(3, 6):
    await look(place="b")
    await try_to_pay(amount)
record
"""
"""Pays what it has read, pays in parallel, waits for approval, and pays in a loop."""
CLOCK_FROM = 1_000
"""Amounts from here on were read from the clock."""


def make_program_agents(ledger: Ledger, *, newer: bool = False) -> dict[str, Agent[str]]:
    """Return them. In the newer version, a function takes more: a type check refuses the program."""

    @tool(effect=READ, touches=lambda: ())
    async def read_clock() -> int:
        """Return another number each time."""
        return CLOCK_FROM + time.monotonic_ns() // 1_000

    @tool(effect=READ, touches=lambda place: Access(READ, f"shelf:{place}"))
    async def look(place: str) -> str:
        """Look at a shelf."""
        await anyio.sleep(ledger.pause)
        return f"saw {place}"

    @tool(name="look", effect=READ, touches=lambda place, **_: Access(READ, f"shelf:{place}"))
    async def look_closely(place: str, seconds: int) -> str:
        """Look at a shelf for some time."""
        return f"saw {place} for {seconds} seconds"

    @tool(effect=WRITE, touches=lambda **_: Access(WRITE, "account:shop"))
    async def pay(amount: int, context: Context) -> str:
        """Pay."""
        await anyio.sleep(ledger.pause)
        run = context.idempotency_key.partition("%2F")[0]
        ledger.add(f"pay {run} {amount}")
        await anyio.sleep(ledger.pause)
        return f"paid {amount}"

    def decide(call: Any) -> Any:
        return policy(call) if call.name != "pay" or call.args["amount"] == 500 else _ALLOW

    model = make_model(((("run_program", {"code": CODE}),),))
    tools = [read_clock, look_closely if newer else look, pay]
    return {"program": Agent(model, [*tools, program_tool(tools)], policy=decide)}


_ALLOW = policy.__globals__["Allow"]()


async def judge_program(ledger: Path, url: str, run: str) -> tuple[list[str], int]:
    """Return what is wrong between a program's own record and the ledger, and what is unknown."""
    async with DurableRuns(url, {}) as runs:
        ended = await runs.get(run)
    assert (ended.status, ended.text) == ("done", "All done."), (ended.status, ended.why)
    assert ended.state is not None
    [results] = [one for one in ended.state.messages if isinstance(one, ToolResults)]
    text = results.results[0].text
    assert results.results[0].failure is None, text
    record = json.loads(text.partition("\n\n")[0])
    lines = Ledger(ledger).count()
    paid = {line.split()[2]: count for line, count in lines.items() if line.split()[1] == run}
    wrong, unknown = list[str](), 0
    for amount, outcome in record:
        count = paid.pop(str(amount), 0)
        is_unknown = "[unknown]" in outcome
        unknown += is_unknown
        if count > 1 or (count == 0 and not is_unknown):
            wrong.append(f"{amount} was paid {count} times: {outcome}")
    wrong += [f"{amount} was paid, and is not in the record" for amount in paid]
    return wrong, unknown
