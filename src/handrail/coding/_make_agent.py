"""Make the agent shared by ``coding_agent``, chats and runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from handrail import Executor, Toolset
from handrail.agent import Agent, Compaction, Prepare
from handrail.coding._offer import RequestEditor
from handrail.coding._system_prompt import SystemPrompt
from handrail.messages import Model, Request, model_names
from handrail.models import RetryWait, find_window, retrying
from handrail.policy import Rulebook

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose default all checkers know

    T = TypeVar("T", default=str)
else:
    from typing import TypeVar

    T = TypeVar("T")

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
    offer, own = RequestEditor(model, rules), options.pop("prepare", None)
    window = window or find_window(*model_names(model)) or USUAL_WINDOW
    compaction = Compaction(window=window, before_summary=before_summary)
    options.setdefault("compaction", compaction)
    prepare = offer if own is None else _in_order(offer, own)
    patient = retry_patiently(model, tries=tries, on_wait=on_wait)
    return Agent(patient, tools, system=system, prepare=prepare, output=output, **options)


def _in_order(offer: RequestEditor, own: Prepare) -> Prepare:
    """Return a function that lets the application's own change the request last."""

    def prepare(request: Request) -> Request | Awaitable[Request]:
        return own(offer(request))

    return prepare
