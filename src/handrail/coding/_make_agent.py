"""Make the agent shared by ``coding_agent``, chats and runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from handrail import Executor, Toolset
from handrail.agent import Agent, Compaction, Prepare
from handrail.coding._system_prompt import SystemPrompt
from handrail.messages import Model, Request, model_names
from handrail.models import RetryWait, find_window, retrying
from handrail.policy import Mode, Rulebook

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose default all checkers know

    T = TypeVar("T", default=str)
else:
    from typing import TypeVar

    T = TypeVar("T")

_PATCHING = ("gpt-", "codex-", "o3", "o4")
"""Name prefixes for models that know ``apply_patch`` patches."""
_MODES = {
    Mode.PLAN: "plan. Nothing can be changed: explore, then write a plan.",
    Mode.ASK: "ask. Changes, and commands that no rule allows, need approval.",
    Mode.EDITS: "edits. Files can be changed; commands that no rule allows need approval.",
    Mode.OPEN: "open. Calls run without approval.",
}
_ASK_AT_END = " Then call finish_plan."
USUAL_WINDOW = 200_000
"""The window for unknown models. One with less rejects a request as too long."""

MODEL_TRIES = 10
"""How often a request is sent while the provider is overloaded or away: for about four minutes."""
OnWait: TypeAlias = Callable[[RetryWait], None]


def retry_patiently(
    model: Model, *, tries: int = MODEL_TRIES, on_wait: OnWait | None = None
) -> Model:
    """Return a model that waits for its provider, even for minutes."""
    return model if tries == 1 else retrying(model, tries=tries, on_wait=on_wait)


def make_agent(  # noqa: PLR0913  each is an option with a default
    model: Model,
    tools: Toolset | Executor,
    *,
    rules: Rulebook,
    system: SystemPrompt,
    window: int | None = None,
    output: type[T] | None = None,
    tries: int = MODEL_TRIES,
    on_wait: OnWait | None = None,
    before_summary: Callable[[], Awaitable[None]] | None = None,
    **options: Any,
) -> Agent[T]:
    """Make a coding agent from its parts.

    Each request says the rules' mode, and has the usable tools. A long
    history is shortened.

    Args:
        model: The model.
        tools: The tools, or an executor with them.
        rules: What calls may do.
        system: Writes the system prompt.
        window: Tokens the model's context holds, if known.
        output: The answer type. By default, it is text.
        tries: How often a request is sent while the provider is overloaded or away.
        on_wait: Gets each wait before another try.
        before_summary: Called before the model is asked to summarize a long history.
        options: ``Agent`` options.
    """
    offer, own = _RequestEditor(model, rules), options.pop("prepare", None)
    window = window or find_window(*model_names(model)) or USUAL_WINDOW
    compaction = Compaction(window=window, before_summary=before_summary)
    options.setdefault("compaction", compaction)
    prepare = offer if own is None else _in_order(offer, own)
    patient = retry_patiently(model, tries=tries, on_wait=on_wait)
    return Agent(patient, tools, system=system, prepare=prepare, output=output, **options)


def _in_order(offer: _RequestEditor, own: Prepare) -> Prepare:
    """Return a function that lets the application's own change the request last."""

    def prepare(request: Request) -> Request | Awaitable[Request]:
        return own(offer(request))

    return prepare


def choose_tools(tools: Toolset, model: Model, rules: Rulebook) -> Toolset:
    """Return the tools to offer to a model: those it knows how to use, and that can run."""
    patches = "apply_patch" in tools and any(map(_knows_patches, model_names(model)))
    dropped = {"edit"} if patches else {"apply_patch"}
    if rules.mode is Mode.PLAN:
        dropped |= {spec.name for spec in tools.specs if rules.denies_all(spec, ())}
    else:
        dropped.add("finish_plan")
    return tools.without(*(name for name in dropped if name in tools))


def _knows_patches(name: str) -> bool:
    return name.rpartition("/")[2].startswith(_PATCHING)


class _RequestEditor:
    """Changes each request: it says the mode, and has the usable tools."""

    def __init__(self, model: Model, rules: Rulebook) -> None:
        self._model = model
        self._rules = rules
        self._last: tuple[Toolset, Mode, Toolset] | None = None

    def __call__(self, request: Request) -> Request:
        mode = self._rules.mode
        tools = self._choose(request.tools, mode)
        asks = mode is Mode.PLAN and "finish_plan" in tools
        said = f"Mode: {_MODES[mode]}{_ASK_AT_END * asks}"
        return request._replace(tools=tools, system=f"{request.system}\n\n{said}")

    def _choose(self, tools: Toolset, mode: Mode) -> Toolset:
        """Return the tools to offer: one set for the same tools, so it is encoded once."""
        if self._last is None or self._last[0] is not tools or self._last[1] is not mode:
            self._last = tools, mode, choose_tools(tools, self._model, self._rules)
        return self._last[2]
