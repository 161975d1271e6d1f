"""Make an agent for working on one folder's files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from typing_extensions import Unpack

from handrail import Approvals, Hook, Tool, Toolset
from handrail.agent import Agent, Compaction, IsTrusted, Limits, Prepare, Save
from handrail.coding._agent_tools import AGENT_TOOLS, add_agent_tools, add_programs
from handrail.coding._make_agent import make_agent, retry_patiently
from handrail.coding._system_prompt import SystemPrompt, read_trusted
from handrail.messages import Model
from handrail.models import named
from handrail.permissions import Approver
from handrail.policy import Level, Mode, Rulebook, RuleFile, builtin_rules, parse
from handrail.sandbox import Sandbox
from handrail.tools import AnswerQuestion, Workspace, coding_tools, hide_denied, outline

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose default all checkers know

    T = TypeVar("T", default=str)
else:
    from typing import TypeVar

    T = TypeVar("T")


class AgentArgs(TypedDict, total=False):
    """A coding agent's options shared with any ``Agent``."""

    limits: Limits
    retries: int
    prepare: Prepare
    compaction: Compaction
    save: Save
    max_tokens: int
    hooks: Sequence[Hook]


def coding_agent(  # noqa: PLR0913  each is an option with a default
    folder: str | os.PathLike[str],
    model: Model | str,
    *,
    rules: Rulebook | Mode | str = Mode.ASK,
    approvals: Approvals | Approver | None = None,
    network: Sequence[str] = (),
    tools: Iterable[Tool[..., Any] | Callable[..., Any]] = (),
    without: Iterable[str] = (),
    system: str = "",
    trusted: IsTrusted | None = None,
    undo_folder: str | os.PathLike[str] | None = None,
    ask: AnswerQuestion | None = None,
    programs: bool = False,
    output: type[T] | None = None,
    **options: Unpack[AgentArgs],
) -> Agent[T]:
    """Make an agent for working on one folder's files, with commands in a sandbox.

    The system prompt names the folder, the date, the platform, git's state and the network,
    as they are when a conversation starts. It ends with the folder's instruction files.

    Args:
        folder: The folder the tools can read and change.
        model: A provider and a model, such as ``openai:NAME``; or a model.
        rules: A mode: ``plan``, ``ask``, ``edits`` or ``open``. Or your own rules, as the text of a
            rule file. Both include the built-in rules. Or a whole Rulebook.
        approvals: Who approves calls. Without it, a call needing approval is denied, or waits in
            the run's stream.
        network: Hosts commands can reach without a question.
        tools: More tools, in addition to the coding tools.
        without: Coding tool names to omit. Without ``bash``, no sandbox is needed.
        system: More text for the system prompt.
        trusted: Whether an instruction file can be used with this content. By default, if the user
            has trusted it with ``handrail trust``.
        undo_folder: Where the changes are kept, so you can undo them. Pass it to a Workspace
            of the folder, and that to ``undo``.
        ask: Shows a model's question and its choices to a person, and returns the answer, or
            None. Without it, the model has no tool to ask.
        programs: Whether the model can write Python programs, with the reading tools as functions.
            Needs the extra ``handrail[programs]``.
        output: The answer type. By default, it is text.
        options: ``Agent`` options.

    Raises:
        SandboxUnavailable: No sandbox works on this system.
    """
    without = _check_names(without)
    model = named(model, retries=0) if isinstance(model, str) else model
    # rules and sandbox need each other, which no caller should have to know: decision 053
    sandbox: Sandbox | None = None
    if "bash" not in without:
        sandbox = Sandbox(
            folder,
            network=network,
            opened=lambda: policy.find_hosts(),  # noqa: PLW0108  it does not exist yet
            restricted=lambda command: policy.find_restricted(command, folder=workspace.root),
        )
    policy = rules if isinstance(rules, Rulebook) else _make_rulebook(rules, folder, sandbox)
    workspace = Workspace(folder, hides=hide_denied(policy), undo_folder=undo_folder)
    if not isinstance(approvals, Approvals):
        approvals = Approvals(approver=approvals, context=lambda _call: workspace.root)
    checks: dict[str, Any] = {"policy": policy, "approvals": approvals}
    checks["hooks"] = options.pop("hooks", ())
    everything = add_agent_tools(
        coding_tools(workspace, sandbox=sandbox, without=without) | Toolset(*tools),
        workspace=workspace,
        rules=policy,
        explorer=partial(Agent, retry_patiently(model), **checks),
        ask=ask,
        without=without,
    )
    if programs:
        everything = add_programs(everything)
    read = partial(read_trusted, workspace.root, trusted)
    return make_agent(
        model,
        everything,
        rules=policy,
        system=SystemPrompt(
            workspace.root, sandbox, tools=everything, instructions=read, more=system
        ),
        output=output,
        **checks,
        **options,
    )


def _check_names(without: Iterable[str]) -> set[str]:
    """Return the tools to omit. A misspelled name would leave a tool in."""
    if isinstance(without, str):
        raise TypeError(f"coding_agent(without={without!r}): pass a list, as in [{without!r}].")
    names = set(without)
    known = {*AGENT_TOOLS, *(summary.name for summary in outline())}
    if unknown := sorted(names - known):
        raise ValueError(
            f"There is no coding tool {unknown[0]!r}. The tools are {', '.join(sorted(known))}."
        )
    return names


def _make_rulebook(
    rules: Mode | str, folder: str | os.PathLike[str], sandbox: Sandbox | None
) -> Rulebook:
    """Return the built-in rules in a mode, or with rules from a text."""
    if not isinstance(rules, Mode | str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"coding_agent(rules={rules!r}): pass a mode such as 'edits', the text of a rule file, "
            "or a Rulebook."
        )
    if isinstance(rules, str) and "=" in rules:
        own = parse(rules, file="rules", level=Level.USER)
    else:
        own = RuleFile((), Mode.of(rules))
    builtin = builtin_rules("read_only", "development") if sandbox else builtin_rules("read_only")
    return Rulebook(
        [*builtin, *own.rules],
        mode=own.mode or Mode.ASK,
        sandboxed=sandbox is not None,
        hides_files=sandbox is not None and sandbox.restricts_files,
        workspace=folder,
    )
