"""Texts about tools that a model searches for."""

from __future__ import annotations

from typing import Any

from handrail import Allow, Call, Executor
from messages.row import Row
from messages.stage import describe
from office_tools import OFFICE


async def rows() -> list[Row]:
    """Return the texts about deferred tools."""
    searches: list[tuple[str, dict[str, Any]]] = [
        ("A search finds tools", {"queries": ["create an issue"]}),
        ("Several queries find tools", {"queries": ["merge", "send", "zebra"], "limit": 2}),
        ("A query has a slip", {"queries": ["mesage"]}),
        ("A search finds nothing", {"queries": ["zebra"]}),
        ("A search without arguments", {}),
        ("A search for a namespace", {"queries": ["github"], "limit": 2}),
        ("A search for names", {"names": ["weather", "clock", "zebra"]}),
    ]
    calls = [(when, Call("search_tools", args, "c1")) for when, args in searches]
    calls.append(
        ("A tool that was not found is called with wrong arguments", Call("slack_send", {}, "c1"))
    )
    async with Executor(OFFICE, policy=lambda _: Allow()) as executor:
        return [describe(when, await executor.run(call)) for when, call in calls]
