"""The `hooks` table in a settings file: programs by event, in the coding agents' format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from handrail._support import is_list, is_object

EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "UserPromptSubmit",
    "Notification",
    "SubagentStop",
    "PreCompact",
    "SessionStart",
    "SessionEnd",
    "Stop",
)
OTHER_EVENTS = (
    "ConfigChange",
    "CwdChanged",
    "Elicitation",
    "ElicitationResult",
    "FileChanged",
    "InstructionsLoaded",
    "PermissionDenied",
    "PostCompact",
    "Setup",
    "StopFailure",
    "SubagentStart",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "UserPromptExpansion",
    "WorktreeCreate",
    "WorktreeRemove",
)
"""Claude Code events missing here. Their hooks do not run, which is reported."""
MAX_SECONDS = 600
DEFAULT_SECONDS = 60
_WANTED = (
    f"a table with lists of hooks for {', '.join(EVENTS)}; "
    f"each hook has a command and at most {MAX_SECONDS} seconds as its timeout"
)
EXAMPLE = {
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]
}


def check_hooks(value: Any) -> dict[str, list[Any]]:
    """Return a hooks table; raises a TypeError saying what it must be."""
    if not is_object(value) or not all(_is_event(*item) for item in value.items()):
        raise TypeError(_WANTED)
    return value


def _is_event(name: str, groups: Any) -> bool:
    return name in (*EVENTS, *OTHER_EVENTS) and is_list(groups) and all(map(_is_group, groups))


def _is_group(group: Any) -> bool:
    """Return whether this is a matcher with its hooks."""
    if not is_object(group) or not group.keys() <= {"matcher", "hooks"}:
        return False
    hooks = group.get("hooks")
    return _is_pattern(group.get("matcher", "")) and is_list(hooks) and all(map(_is_hook, hooks))


def _is_pattern(matcher: Any) -> bool:
    try:
        re.compile(matcher)
    except (TypeError, re.error):
        return bool(matcher == "*")
    return True


def _is_hook(hook: Any) -> bool:
    if not is_object(hook) or not hook.keys() <= {"type", "command", "timeout", "sandbox"}:
        return False
    if not isinstance(hook.get("sandbox", True), bool):
        return False
    command, seconds = hook.get("command"), hook.get("timeout", MAX_SECONDS)
    has_command = isinstance(command, str) and bool(command.strip())
    has_time = type(seconds) in (int, float) and 0 < seconds <= MAX_SECONDS
    return has_command and has_time and hook.get("type") == "command"


class HookProgram(NamedTuple):
    """One hook in a table."""

    event: str
    command: str
    seconds: float
    sandboxed: bool
    matcher: str = ""


def programs_of(table: Mapping[str, Sequence[Any]]) -> Iterator[HookProgram]:
    """Yield all hooks, in order."""
    for event, groups in table.items():
        for group in groups if event in EVENTS else ():
            for hook in group["hooks"]:
                yield HookProgram(
                    event,
                    hook["command"],
                    hook.get("timeout", DEFAULT_SECONDS),
                    hook.get("sandbox", True),
                    group.get("matcher", ""),
                )


def merge_hooks(tables: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    """Return the hooks from all tables, in order: no file can remove another one's hooks."""
    return {
        event: [group for table in tables for group in table.get(event, ())]
        for event in (*EVENTS, *OTHER_EVENTS)
        if any(event in table for table in tables)
    }
