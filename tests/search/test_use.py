"""Thirty tasks over 3,000 tools, with the searches of a model that saw nothing but the search tool."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Call, Context, Executor, Exposure, Spec, Tool, Toolset
from handrail.messages import api_name

DATA = Path(__file__).parents[1] / "data" / "toolsearch"
TOOLS = 3_000


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def specs() -> Iterator[Spec]:
    """The 70 servers of the tasks, among many others."""
    own = [row for row in rows("tools") if row["catalogue"] == "livemcp"]
    others = rows("tools-mcp-servers")
    needed = TOOLS - len(own)
    seen = set[str]()
    for row in own + others[:: len(others) // needed][:needed]:
        server = re.sub(r"[^A-Za-z0-9_]+", "_", row.get("namespace") or "").strip("_").lower()[:24]
        has_server = "__" in row["name"] or not server
        whole = row["name"] if has_server else f"{server}__{row['name']}"
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", whole)[:64]
        if name not in seen:
            seen.add(name)
            yield Spec(
                name=name,
                description=row["description"],
                input_schema=row["parameters"],
                exposure=Exposure.DEFERRED,
            )


async def answer(_args: dict[str, Any], _context: Context) -> str:
    return "not called here"


@pytest.mark.anyio
async def test_a_model_found_a_fitting_tool_for_27_of_30_tasks_in_at_most_two_searches() -> None:
    lines = (DATA / "searches.jsonl").read_text(encoding="utf-8").splitlines()
    tasks = [json.loads(line) for line in lines]
    solved = 0
    async with Executor(Toolset(*(Tool.remote(spec, answer) for spec in specs()))) as executor:
        for task in tasks:
            calls = [Call("search_tools", args) for args in task["searches"]]
            results = [await executor.run(call) for call in calls]
            found = {api_name(name) for result in results for name in result.found}
            solved += task["solved"] and bool(found & set(task["chosen"]))
            assert 1 <= len(calls) <= 2

    assert len(tasks) == 30
    assert solved >= 27
