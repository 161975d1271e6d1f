"""MCP server checks for `handrail doctor`: whether each was reviewed, and answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from handrail import HandrailError
from handrail.cli._base.app import App
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Halt
from handrail.cli._base.signals import run_alone
from handrail.cli._doctor.machine import DoctorCheck
from handrail.cli._project.servers import (
    find_configured,
    has_servers,
    read_config,
    source_of,
    visit,
)

if TYPE_CHECKING:
    from handrail.mcp import McpSource

_WANTED = "a server that answers, with tools that you have reviewed"


def check_servers(app: App, configs: Sequence[Path], *, online: bool) -> Iterator[DoctorCheck]:
    """Check the servers in these files, or else those applying here. Only online do they start.

    All start at once, so an unresponsive one delays no other.
    """
    if not configs and not has_servers(app):
        return
    quiet = replace(app, quiet=True)
    found = read_config(quiet, configs) if configs else find_configured(quiet)
    sources = [source_of(quiet, found.servers[name]) for name in sorted(found.servers)]
    if online:
        answers: dict[str, DoctorCheck] = {}
        run_alone(partial(_visit_all, sources, answers))
        yield from (answers[source.name] for source in sources)
    else:
        yield from map(_check_review, sources)


async def _visit_all(sources: Sequence[McpSource], answers: dict[str, DoctorCheck]) -> None:
    async with anyio.create_task_group() as tasks:
        for source in sources:
            tasks.start_soon(_check_answer, source, answers)


async def _check_answer(source: McpSource, answers: dict[str, DoctorCheck]) -> None:
    began = time.monotonic()
    name = f"mcp-{source.name}"
    try:
        await visit(source)
    except Halt as error:
        remedy = f"handrail mcp test {source.name}"
        answers[source.name] = DoctorCheck(name, "fail", str(error), _WANTED, remedy, (error.hint,))
        return
    tools = quantity(len(source.definitions), "tool")
    answer = f"answers in {time.monotonic() - began:.1f} s: {tools}"
    if not source.changes:
        answers[source.name] = DoctorCheck(name, "ok", answer, _WANTED)
        return
    found = f"{answer}, {len(source.changes)} not approved"
    answers[source.name] = DoctorCheck(name, "warn", found, _WANTED, _review(source))


def _check_review(source: McpSource) -> DoctorCheck:
    name = f"mcp-{source.name}"
    try:
        known = len(source.approved())
    except HandrailError as error:
        return DoctorCheck(name, "fail", str(error), _WANTED, _review(source))
    if not known:
        return DoctorCheck(name, "warn", "not reviewed", _WANTED, _review(source))
    found = f"{quantity(known, 'approved tool')}; not started, `--online` starts it"
    return DoctorCheck(name, "ok", found, _WANTED)


def _review(source: McpSource) -> str:
    return f"handrail mcp review {source.name}"
