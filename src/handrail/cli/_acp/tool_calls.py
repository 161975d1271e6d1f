"""Calls as an editor shows them: kind, title, files, diff and output."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from acp import plan_entry, text_block, tool_content, tool_diff_content, update_plan
from acp.schema import (
    AgentPlanUpdate,
    ContentToolCallContent,
    FileEditToolCallContent,
    PlanEntryStatus,
    ToolCallLocation,
    ToolKind,
)

from handrail import Access, Call, Result
from handrail._support import is_list, is_object
from handrail.cli._chat.calls import read_args, title_of
from handrail.cli._screen.rows import plain, safe_line
from handrail.permissions import FileChange
from handrail.sources import unframe

PLAN_TOOL = "todo"
_KINDS: MappingProxyType[str, ToolKind] = MappingProxyType(
    {
        "apply_patch": "edit",
        "bash": "execute",
        "edit": "edit",
        "glob": "search",
        "grep": "search",
        "read": "read",
        "web_fetch": "fetch",
        "write": "edit",
    }
)
_MAX_OUTPUT_CHARS = 20_000
_STATUSES: MappingProxyType[object, PlanEntryStatus] = MappingProxyType(
    {"in_progress": "in_progress", "completed": "completed"}
)
_TICKS = re.compile("`+")


def find_kind(call: Call) -> ToolKind:
    """Return what a call does, in the protocol's words."""
    return _KINDS.get(call.name, "other")


def write_title(call: Call) -> str:
    """Return what a call does in one line, safe to show."""
    return plain(title_of(call))


def read_plan(call: Call) -> AgentPlanUpdate | None:
    """Return the plan set by a call, if any."""
    args = read_args(call)
    steps: Any = args.get("todos") if call.name == PLAN_TOOL and not isinstance(args, str) else None
    if not is_list(steps) or not all(is_object(step) for step in steps):
        return None
    return update_plan(
        plan_entry(safe_line(str(step.get("content", ""))), status=_read_status(step.get("status")))
        for step in steps
    )


def _read_status(given: object) -> PlanEntryStatus:
    return _STATUSES.get(given, "pending") if isinstance(given, str) else "pending"


def list_locations(accesses: Iterable[Access], root: Path) -> list[ToolCallLocation]:
    """Return the files a call touches, for an editor to follow it."""
    schemes = [access.resource.partition(":") for access in accesses]
    paths = dict.fromkeys(path for scheme, _, path in schemes if scheme == "file")
    return [ToolCallLocation(path=str(root / path)) for path in paths]


def show_output(text: str) -> ContentToolCallContent:
    """Return the end of a tool's output as a code block."""
    cut = text[-_MAX_OUTPUT_CHARS:].rstrip("\n")
    shown = "\n".join(map(safe_line, cut.split("\n")))
    return show_text(shown if len(cut) == len(text.rstrip("\n")) else f"…\n{shown}")


def show_text(text: str) -> ContentToolCallContent:
    """Return a text as a safe code block: the editor would read it as Markdown."""
    ticks = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return tool_content(text_block(f"{ticks}\n{text}\n{ticks}"))


def show_change(change: FileChange, root: Path) -> FileEditToolCallContent:
    """Return a file's change as a diff."""
    return tool_diff_content(str(root / change.path), change.after or "", change.before)


def read_output(result: Result) -> str:
    """Return a result in the form for an editor."""
    return unframe(result.text) if result.failure is None else result.failure.message
