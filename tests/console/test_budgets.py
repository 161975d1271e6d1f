"""Budgets on the page about tokens and cost, and in `handrail runs stats`."""

from __future__ import annotations

from pathlib import Path

import anyio

from cli_harness import made
from console.visits import visit
from handrail import Text
from handrail.agent import Agent
from handrail.messages import Price, Reply, Request, Usage
from handrail.shared import Budget

PRICES = Price(input=1, output=1, cached=1, cache_write=1)


async def model(_request: Request) -> Reply:
    return Reply((Text("so"),), usage=Usage(input_tokens=2000), model="m")


def spend(file: Path) -> None:
    agent = Agent(model, budget=Budget(0.003, database=file, prices=PRICES))

    async def run() -> None:
        for who in ("ada", "ada", "<bob>"):
            await agent.run("hello", principal=who)

    anyio.run(run)


def test_budgets_are_shown_to_those_who_see_all_runs(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    spend(file)

    page = visit(file, "admins").get("/tokens").text

    assert '<td class="num" data-l="spent">0.004 <b>used up</b></td>' in page
    assert "<bdi>&lt;bob&gt;</bdi>" in page
    assert "Budgets" not in visit(file, "viewers").get("/tokens").text


def test_stats_show_budgets(tmp_path: Path) -> None:
    spend(tmp_path / "runs.db")

    ran = made(tmp_path)("runs", "stats", "--database", str(tmp_path / "runs.db"))

    assert [line.split() for line in ran.out.splitlines()[-3:]] == [
        ["budget", "of", "spent", "reserved", "limit", "unit", "by", "model", "or", "tool"],
        ["cost_principal_day", "<bob>", "0.002", "0", "0.003", "cost", "m", "0.002"],
        ["cost_principal_day", "ada", "0.004", "0", "0.003", "cost", "m", "0.004"],
    ]
