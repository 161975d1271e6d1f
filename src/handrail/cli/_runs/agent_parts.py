"""The parts of a run's agent: its tools, system prompt, limits and saved answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from handrail import Allow, Deny, HandrailError, Toolset
from handrail.agent import Agent, Limits, Notice, Spender, read_instructions
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import Settings
from handrail.cli._project.kit import CODING, Kit
from handrail.cli._project.trusted import make_trust_check
from handrail.coding import SystemPrompt
from handrail.messages import Model, model_names
from handrail.permissions import Answer
from handrail.runs import RunStore
from handrail.runs.answers import load_answer

if TYPE_CHECKING:
    from handrail.coding import Explorer
    from handrail.shared import Budget
    from handrail.tools import AnswerQuestion


def all_tools(kit: Kit, explorer: Explorer, ask: AnswerQuestion | None) -> Toolset:
    """Return all a run's tools: from the settings, from skills, and from a coding agent."""
    tools = _whole_tools(kit, explorer, ask)
    if not kit.app.settings["programs"]:
        return tools
    from handrail.coding import add_programs  # loads an extra

    try:
        return add_programs(tools)
    except ImportError as error:
        hint = "install it, or leave out `--programs`"
        raise Halt(str(error), code="programs", hint=hint) from None


def _whole_tools(kit: Kit, explorer: Explorer, ask: AnswerQuestion | None) -> Toolset:
    """Return them without programs."""
    settings = kit.app.settings
    try:
        tools = Toolset(*kit.tools, *kit.skills.tools)
    except HandrailError as error:
        hint = "rename the skill, or exclude the tool with `--without NAME`"
        raise Halt(str(error), code="tools", hint=hint) from None
    if CODING not in settings["tools"]:
        return tools
    from handrail.coding import add_agent_tools  # loads the coding tools

    return add_agent_tools(
        tools,
        workspace=kit.workspace,
        rules=kit.rules,
        explorer=explorer,
        ask=ask,
        without=settings["without"],
    )


def tools_to_replay(kit: Kit) -> Toolset:
    """Return all tools a run can have had. Nothing runs them."""
    return all_tools(kit, partial(Agent, "none"), _no_answer)


async def _no_answer(*_: object) -> None: ...


def make_system_prompt(
    kit: Kit, tools: Toolset, instructions: Callable[[], str], said: str
) -> SystemPrompt:
    """Return the system prompt, with what hooks say."""
    more = "\n\n".join(filter(None, (kit.skills.catalog, said)))
    return SystemPrompt(
        str(kit.app.workspace.resolve()),
        kit.sandbox,
        tools=tools,
        instructions=instructions,
        text=kit.app.settings["system"],
        more=more,
    )


def read_trusted_instructions(kit: Kit) -> str:
    """Return the trusted instruction files' text, and report ignored ones."""
    workspace = kit.app.workspace
    instructions = read_instructions(workspace, trusted=make_trust_check(workspace))
    for notice in (*instructions.notices, *kit.skills.notices):
        kit.app.say(_format_notice(notice))
    return instructions.text


def _format_notice(notice: Notice) -> str:
    if notice.kind != "untrusted":
        return f"{notice.path}: {notice.message}"
    return (
        f"ignoring {notice.path}: not trusted, or changed since you trusted it; "
        f"review it with `handrail trust {notice.path}`, or /trust in a chat"
    )


def limits_of(settings: Settings) -> Limits:
    """Return a run's limits."""
    return Limits(
        turns=settings["max_turns"],
        calls=settings["max_calls"],
        tokens=settings["max_total_tokens"],
        seconds=settings["max_seconds"],
    )


def budgets_of(settings: Settings, store: RunStore, model: Model) -> tuple[Budget, ...]:
    """Return what all runs of this user may cost together."""
    if settings["max_cost_per_day"] is None and settings["max_cost_per_month"] is None:
        return ()
    from handrail.shared import Budget  # rarely needed

    limits: tuple[tuple[Literal["day", "month"], Any], ...] = (
        ("day", settings["max_cost_per_day"]),
        ("month", settings["max_cost_per_month"]),
    )
    found = tuple(
        Budget(limit, window=window, per=user, name=f"command_line_{window}", database=store)
        for window, limit in limits
        if limit is not None
    )
    try:
        found[0].check_models(model_names(model))
    except ValueError as error:
        hint = "limit tokens instead, with --max-total-tokens"
        raise Halt(str(error).partition(". Pass")[0], code="config", hint=hint) from error
    return found


def user(_spender: Spender) -> str:
    """Return one name for all runs: they are of one user."""
    return ""


def read_stored_answer(stored: Mapping[str, str]) -> Answer:
    """Return a saved answer; anything but an approval is a denial."""
    if "saved" in stored:
        return load_answer(stored["saved"])
    given: dict[str, Any] = {name: stored[name] for name in ("by", "via", "seen") if name in stored}
    if stored.get("answer") == "allow":
        return Allow(**given)
    return replace(Deny.by_user(stored.get("reason", "")), **given)
