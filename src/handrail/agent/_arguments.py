"""Read an agent's arguments and its runs: convert them, or say what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from handrail import Approvals, Executor, File, Image, Registry, Text, Tool, Toolset
from handrail.agent._history.state import RunState
from handrail.agent._loop.budgets import RunBudget
from handrail.agent._loop.events import OnEvent, RunEvent
from handrail.agent._loop.limits import Limits
from handrail.agent._loop.settings import RunResult, RunSettings, Save, T
from handrail.messages import Content, Message, Model, Prompt, Reply, ToolResults
from handrail.permissions import Approver

AnyTools: TypeAlias = Executor | Toolset | Registry | Iterable[Tool[..., Any] | Callable[..., Any]]
"""Agent tools: functions, tools, a Toolset, a Registry or an Executor."""


def as_model(model: Model | str) -> Model:
    """Return a model, from its provider and name or unchanged."""
    if isinstance(model, str):
        from handrail.models import named  # loads no SDK but the model's

        return named(model)
    if not callable(model):
        raise TypeError(
            f"Agent({type(model).__name__}): pass a model, as in `Agent('openai:NAME')`, "
            "or a function from a Request to a Reply."
        )
    return model


def as_tools(tools: AnyTools) -> Executor | Toolset | Registry:
    """Return tools in one of the forms a run can use."""
    if isinstance(tools, Executor | Toolset | Registry):
        return tools
    if callable(tools):
        return Toolset(tools)
    if isinstance(tools, str | Mapping) or not hasattr(tools, "__iter__"):
        raise TypeError(f"Agent(tools={tools!r}): pass a list of functions or a Toolset.")
    return Toolset(*tools)


def add_tools(
    tools: Executor | Toolset | Registry, budgets: Iterable[RunBudget]
) -> Executor | Toolset | Registry:
    """Return tools with those that ask for a larger budget."""
    more = [one for budget in budgets for one in budget.tools]
    if more and not isinstance(tools, Toolset):
        names = ", ".join(one.spec.name for one in more)
        raise ValueError(
            f"Agent(budget=...) adds the tools {names}, and you pass an {type(tools).__name__}: "
            "pass a list of tools or a Toolset."
        )
    return Toolset(*tools, *more) if isinstance(tools, Toolset) and more else tools


def as_approvals(approvals: Approvals | Approver | None) -> Approvals:
    """Return who approves calls, from a function or unchanged."""
    if isinstance(approvals, Approvals):
        return approvals
    try:
        return Approvals(approver=approvals)
    except TypeError as error:
        reason = str(error).removeprefix("Approvals(approver")
        raise TypeError(f"Agent(approvals{reason}") from None


def check_limits(limits: object) -> None:
    """Refuse limits with another type."""
    if not isinstance(limits, Limits):
        raise TypeError(f"limits={limits!r}: pass Limits, as in `Limits(turns=10)`.")


def check_options(options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse unknown run options, and values with another type."""
    for name in options.keys() - set(known):
        names = ", ".join(sorted({*known, "history"}))
        raise TypeError(f"A run has no option {name!r}. Its options are {names}.")
    if "limits" in options:
        check_limits(options["limits"])
    if not isinstance(options.get("answers", {}), Mapping):
        raise TypeError(
            "answers must be a dict by the ids of the pending calls, as in `{pending.id: Allow()}`."
        )


def apply_options(settings: RunSettings[T], options: Mapping[str, Any]) -> RunSettings[T]:
    """Return an agent's settings with one run's options in their place."""
    given = {name: options[name] for name in ("limits", "system") if name in options}
    if "model" in options:
        given["model"] = as_model(options["model"])
    if "save" in options:
        given["save"] = _save_both(options["save"], settings.save)
    return replace(settings, **given) if given else settings


def _save_both(first: Save, second: Save | None) -> Save:
    """Return a function that saves a state with both of these, if there are two."""
    if second is None:
        return first

    async def save(state: RunState) -> None:
        await first(state)
        await second(state)

    return save


def tell_both(on_event: OnEvent | None, watch: OnEvent | None) -> OnEvent | None:
    """Return a listener for both of these, if there are two."""
    if on_event is not None and inspect.iscoroutinefunction(on_event):
        raise TypeError("on_event must be a plain function: it is called and not awaited.")
    if on_event is None or watch is None:
        return on_event or watch

    def tell(event: RunEvent) -> None:
        on_event(event)
        watch(event)

    return tell


def find_start(
    history: RunState | Sequence[Message] | None, given: Sequence[str | Content | None]
) -> RunState:
    """Return a run's first state. A new run begins with its prompt."""
    prompt = [part for part in given if part is not None]
    _check_prompt(prompt)
    if history is None:
        if not any(not isinstance(part, str) or part.strip() for part in prompt):
            raise ValueError("A run needs a prompt, as in `agent.run('How is the roof?')`.")
        return RunState(messages=(Prompt.of(*prompt),))
    state = history if isinstance(history, RunState) else _as_state(history)
    return state.add_prompt(*prompt) if prompt else state


def _as_state(history: Sequence[Message]) -> RunState:
    if isinstance(history, RunResult):
        raise TypeError("Pass the state of the result: `result.state`.")
    for number, message in enumerate(history):
        if not isinstance(message, Prompt | Reply | ToolResults):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"history[{number}] is a {type(message).__name__}: pass a RunState or messages, "
                "such as `Prompt.of('How is the roof?')`."
            )
    return RunState(messages=tuple(history))


def _check_prompt(prompt: Sequence[object]) -> None:
    for part in prompt:
        if not isinstance(part, str | Text | Image | File):
            raise TypeError(
                f"A prompt is text, images and files, not a {type(part).__name__}. "
                "Pass earlier messages as `history=`."
            )
