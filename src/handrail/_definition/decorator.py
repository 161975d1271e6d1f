"""The decorator that turns a typed function into a tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, overload

from handrail._definition.synonyms import Synonyms
from handrail._definition.tool import (
    Headline,
    OwnValues,
    P,
    Preview,
    R,
    Tool,
    Touches,
    Verify,
)
from handrail._values.content import Json
from handrail._values.effect import Effect, Exposure
from handrail._values.spec import Retry, Strict

if TYPE_CHECKING:
    from typing_extensions import Unpack  # as all checkers know it
else:
    from typing import Unpack  # already loaded


class Options(TypedDict, total=False):
    """Options for ``@tool(...)``. The defaults are safe."""

    name: str
    """The tool's name. Default: the function's name."""
    description: str
    """The tool's description. Default: the docstring's."""
    effect: Effect
    touches: Touches
    preview: Preview
    """Returns what a call would do, for the person who approves it."""
    headline: Headline
    """Returns a call in one line, for the person who approves it."""
    verify: Verify
    """Returns whether a call took effect, for a durable run killed during it."""
    private: bool
    """Its results are private: a rule can ask before anything leaves after they were read."""
    framed: bool
    """A model sees where its results begin and end, and that they are data."""
    own: OwnValues
    """Returns the values in a result that only you or your own systems can set, where a type cannot
    say so. It gets the result as JSON data, or its text; it may return them by scheme."""
    idempotent: bool
    timeout: float
    retry: Retry
    max_chars: int
    aliases: Iterable[str]
    instead_of: Mapping[str, str]
    """Tools models know from elsewhere, and the purpose for which to use this one."""
    synonyms: Synonyms
    """Other names of parameters that are accepted: for each a parameter, or a function that gets
    all arguments and returns the fields this one means, or None if that is unclear."""
    exposure: Exposure
    search_hint: str
    examples: Iterable[Mapping[str, Json]]
    strict: Strict
    tags: Iterable[str]
    needs_approval: bool
    """Every call needs approval, whatever the policy allows."""
    exclusive: bool
    """A call runs alone, even if the tool only reads."""
    background: bool
    """An agent's model continues while a call runs, and reads its result in a later message."""
    replays: bool
    """Its only effects are its calls with ``Context.turn``, and it makes the same ones if it begins
    again. After a crash, a durable run begins it again."""
    metadata: Mapping[str, Json]
    """Facts for your application and its policies. A model sees `namespace` alone, in a search."""


@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Unpack[Options]) -> Any:
    """Turn a typed function into a tool.

    Raises DefinitionError if a model could not call the function: a parameter has no type, is
    ``*args``, has a type without a JSON form, or a default of another type. Also if ``touches``,
    ``preview``, ``headline`` or ``verify`` cannot be called with the function's parameters.
    """
    # loads pydantic, which `import handrail` does not
    from handrail._definition.from_function import from_function

    return partial(from_function, options=options) if fn is None else from_function(fn, options)
