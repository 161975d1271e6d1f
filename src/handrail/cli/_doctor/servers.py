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
from handrail._support import format_duration
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
    async def ask(source: McpSource) -> None:
        answers[source.name] = await _check_answer(source)

    async with anyio.create_task_group() as tasks:
        for source in sources:
            tasks.start_soon(ask, source)


async def _check_answer(source: McpSource) -> DoctorCheck:
    check, began = partial(DoctorCheck, f"mcp-{source.name}", _WANTED), time.monotonic()
    try:
        await visit(source)
    except Halt as error:
        return check("fail", str(error), f"handrail mcp test {source.name}", (error.hint,))
    tools = quantity(len(source.definitions), "tool")
    answer = f"answers in {format_duration(time.monotonic() - began)}: {tools}"
    if not source.changes:
        return check("ok", answer)
    return check("warn", f"{answer}, {len(source.changes)} not approved", _review(source))


def _check_review(source: McpSource) -> DoctorCheck:
    check = partial(DoctorCheck, f"mcp-{source.name}", _WANTED)
    try:
        known = len(source.approved())
    except HandrailError as error:
        return check("fail", str(error), _review(source))
    if not known:
        return check("warn", "not reviewed", _review(source))
    return check("ok", f"{quantity(known, 'approved tool')}; not started, `--online` starts it")


def _review(source: McpSource) -> str:
    return f"handrail mcp review {source.name}"
