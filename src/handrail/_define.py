"""The decorator that makes a tool of a typed function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, overload

from handrail._content import Json
from handrail._effect import Effect, Exposure
from handrail._spec import Retry, Strict
from handrail._tool import P, R, Tool, Touches

if TYPE_CHECKING:
    from typing_extensions import Unpack  # as all checkers know it
else:
    from typing import Unpack  # as it is there already


class Options(TypedDict, total=False):
    """What ``@tool(...)`` takes. Everything left out sits at the safe end."""

    name: str
    """The function's own name, if left out."""
    description: str
    """The docstring's, if left out."""
    effect: Effect
    touches: Touches
    idempotent: bool
    timeout: float
    retry: Retry
    max_chars: int
    aliases: Iterable[str]
    exposure: Exposure
    search_hint: str
    examples: Iterable[Mapping[str, Json]]
    strict: Strict
    tags: Iterable[str]


@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Unpack[Options]) -> Any:
    """Make a tool of a typed function.

    Raises DefinitionError where the function cannot be told to a model: a parameter without a
    type, ``*args``, a type without a JSON form, a default that does not fit.
    """
    # loads pydantic, which importing handrail does not
    from handrail._function import from_function  # noqa: PLC0415

    return partial(from_function, options=options) if fn is None else from_function(fn, options)
