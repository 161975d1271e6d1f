"""The todo tool: a model's plan for a task, as a list of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from typing_extensions import TypedDict

from handrail import READ, Tool, ToolFailed, tool
from handrail._support.visible import spell_out
from handrail.tools._descriptions import TODO_DESCRIPTION
from handrail.tools._habits import TODO_INSTEAD_OF, list_objects

_MAX_STEPS = 100
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_RENAMED = {"step": "content", "description": "content", "title": "content"}
_IGNORED = frozenset("id activeForm priority".split())


class PlanStep(TypedDict):
    """One step of a plan."""

    content: str
    """What to do."""
    status: Literal["pending", "in_progress", "completed"]


def todo() -> Tool[..., Any]:
    """Make a tool that keeps a model's plan: it returns the steps with their state."""

    @tool(
        description=TODO_DESCRIPTION,
        effect=READ,
        touches=lambda **_: (),
        synonyms={"plan": _read_plan, "todos": _read_plan, "explanation": _ignore},
        instead_of=TODO_INSTEAD_OF,
    )
    def todo(todos: list[PlanStep]) -> str:
        """Replace the plan.

        Args:
            todos: All steps in order.
        """
        if len(todos) > _MAX_STEPS:
            raise ToolFailed(f"Not kept: a plan has at most {_MAX_STEPS} steps.")
        lines = [f"{_MARKS[step['status']]} {_one_line(step['content'])}" for step in todos]
        done = sum(step["status"] == "completed" for step in todos)
        return "\n".join([*lines, f"[{done} of {len(todos)} steps completed.]"])

    return todo


def _one_line(text: str) -> str:
    return spell_out(" ".join(text.split()))


def _ignore(_args: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


def _read_plan(args: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Read steps with the names other tools use."""
    given = list_objects(args.get("plan", args.get("todos")))
    if given is None:
        return None
    steps = [
        {_RENAMED.get(name, name): value for name, value in step.items() if name not in _IGNORED}
        for step in given
    ]
    return {"todos": steps} if "plan" in args or steps != given else None
