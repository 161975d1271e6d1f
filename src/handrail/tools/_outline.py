"""A summary of the coding tools, for lists.

Making the tools parses their types and loads everything they run with, which is slow. A test
compares these summaries with the tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from handrail import DESTROY, READ, WRITE, Effect, Exposure
from handrail.tools._descriptions import (
    EDIT_DESCRIPTION,
    GLOB_DESCRIPTION,
    GREP_DESCRIPTION,
    READ_DESCRIPTION,
    READ_JOB_DESCRIPTION,
    STOP_JOB_DESCRIPTION,
    WRITE_DESCRIPTION,
    CommandFacts,
    describe_bash,
    describe_web_fetch,
)

_WEB_PORTS = (80, 443)


class ToolSummary(NamedTuple):
    """A summary of a tool: parts of its Spec, with the same names."""

    name: str
    effect: Effect
    description: str
    exposure: Exposure = Exposure.DIRECT


def list_missing_tools() -> dict[str, str]:
    """Return the coding tools left out, each with the extra it needs."""
    needs = {"web_fetch": ("web", ("httpcore2", "html_to_markdown"))}
    return {
        name: extra
        for name, (extra, packages) in needs.items()
        if any(find_spec(package) is None for package in packages)
    }


def outline(
    *, without: Iterable[str] = (), network: Sequence[str] = (), opens_hosts: bool = False
) -> tuple[ToolSummary, ...]:
    """Return a summary of what ``coding_tools`` makes, sorted by name, without making the tools.

    ``network`` has the hosts the sandbox allows, and ``opens_hosts`` says whether a model can
    ask for others; both are part of the description of bash.
    """
    omitted = set(without)
    if "bash" in omitted:
        omitted |= {"read_job", "stop_job"}
    omitted |= list_missing_tools().keys()
    facts = CommandFacts(network=network, opens_hosts=opens_hosts)
    bash = ToolSummary("bash", DESTROY, describe_bash(facts))
    return tuple(summary for summary in (bash, *_OTHERS) if summary.name not in omitted)


_OTHERS = (
    ToolSummary("edit", WRITE, EDIT_DESCRIPTION),
    ToolSummary("glob", READ, GLOB_DESCRIPTION),
    ToolSummary("grep", READ, GREP_DESCRIPTION),
    ToolSummary("read", READ, READ_DESCRIPTION),
    ToolSummary("read_job", READ, READ_JOB_DESCRIPTION),
    ToolSummary("stop_job", WRITE, STOP_JOB_DESCRIPTION),
    ToolSummary("web_fetch", WRITE, describe_web_fetch(_WEB_PORTS, ())),
    ToolSummary("write", WRITE, WRITE_DESCRIPTION),
)
