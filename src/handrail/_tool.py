"""Tool: a spec and the function behind it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MethodType
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeGuard,
    TypeVar,
    cast,
    overload,
)

from handrail._access import EVERYTHING, Access
from handrail._call import Args
from handrail._content import Json
from handrail._context import Context
from handrail._errors import DefinitionError
from handrail._result import Failure
from handrail._signature import Signature, takes_self
from handrail._spec import Spec

Way: TypeAlias = Literal["async", "sync", "async stream", "stream"]
"""How a function is run: awaited, in a thread, or piece by piece."""

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

Touches: TypeAlias = Callable[..., Access | Iterable[Access]]
"""From a call's arguments, defaults filled in, to what it will touch; a method's may take self."""
Send: TypeAlias = Callable[[dict[str, Json], Context], Awaitable[Any]]
"""Carries a call's arguments to wherever the tool lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[P, R]):
    """A spec and the function behind it. Calling a tool calls the function."""

    spec: Spec
    fn: Callable[P, R]
    """The typed face, for people."""
    parse: Callable[[Mapping[str, Any] | str], Args | Failure]
    """Checks a model's arguments; the erased face, for executors."""
    origin: str
    """Where the tool comes from, for messages to people."""
    touches: Touches | None = None
    _signature: Signature = field(repr=False)
    _promise: Any = field(default=None, repr=False)
    """What the function gives back, where its type is known."""
    _way: Way = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_way", "async" if self._signature.whole else _way(self.fn))

    @staticmethod
    def remote(
        spec: Spec, send: Send, *, origin: str = "remote", touches: Touches | None = None
    ) -> AnyTool:
        """A tool that lives elsewhere: its spec came over a wire, and so do its results."""
        # what loads pydantic waits for the first tool, so that importing handrail stays cheap
        from handrail._arguments import Arguments  # noqa: PLC0415
        from handrail._remote import remote_checker  # noqa: PLC0415

        return Tool(
            spec=spec,
            fn=send,
            parse=Arguments(spec.input_schema, partial(remote_checker, spec.input_schema)).parse,
            origin=origin,
            touches=touches,
            _signature=_REMOTE,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: no checks, no limits, its own exceptions."""
        return self.fn(*args, **kwargs)

    @property
    def takes_context(self) -> bool:
        """Whether the function must be handed a Context."""
        return self._signature.whole or self._signature.context is not None

    def invoke(self, args: Args, context: Context | None) -> Any:
        """Call the function with checked arguments: what it returns, or an awaitable of that."""
        taken, call = self._signature, cast("Callable[..., Any]", self.fn)
        if taken.plain:
            return call(**args.values)
        values = dict(args.values)
        if taken.whole:
            return call(values, context)
        if taken.context is not None:
            values[taken.context] = context
        first = [values.pop(one.name, one.default) for one in taken.positional]
        return call(*first, **values)

    def accesses(self, args: Args) -> tuple[Access, ...]:
        """What a call with these arguments will touch: everything, if the tool does not say."""
        if self.touches is None:
            return (Access(self.spec.effect, EVERYTHING),)
        taken = self._signature
        left_out = {one.name: one.default for one in taken.parameters}
        owner = (cast("MethodType", self.fn).__self__,) if takes_self(self.touches) else ()
        touched = self.touches(*owner, **{**left_out, **args.values})
        return (touched,) if isinstance(touched, Access) else tuple(touched)

    @property
    def __name__(self) -> str:
        return self.spec.name

    @property
    def __wrapped__(self) -> Callable[P, R]:
        return self.fn  # so that help() and inspect.signature() show the function's own

    def __hash__(self) -> int:
        return hash(self.spec.name)

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Tool[P, R]: ...
    @overload
    def __get__(
        self: Tool[Concatenate[S, Q], R], instance: S, owner: type[Any] | None = None
    ) -> Tool[Q, R]: ...
    def __get__(self, instance: Any, owner: type[Any] | None = None) -> AnyTool:
        """Bind a method: ``Notes(path).add`` is a tool of that object."""
        method = self._signature.method
        target = owner if method == "class" else instance
        if not method or target is None:
            return self
        bound = self._signature._replace(method="")
        return replace(self, fn=MethodType(self.fn, target), _signature=bound)


AnyTool: TypeAlias = Tool[..., Any]
"""A tool whose function's own types do not matter."""

_REMOTE = Signature((), whole=True)


def _way(fn: Callable[..., Any]) -> Way:
    if inspect.iscoroutinefunction(fn):
        return "async"
    if inspect.isasyncgenfunction(fn):
        return "async stream"
    return "stream" if inspect.isgeneratorfunction(fn) else "sync"


def is_tool(value: object) -> TypeGuard[AnyTool]:
    """Whether this is a tool already, rather than a function to make one of."""
    return isinstance(value, Tool)


def check_bound(made: AnyTool) -> AnyTool:
    """Refuse a method that has no object to act on."""
    if made._signature.method:  # noqa: SLF001  the file's own class
        raise DefinitionError(
            f"{made.origin}: {made.spec.name!r} is a method. Bind it, as in `Notes(...).add`, "
            "or collect an object's tools with `Toolset.of(obj)`."
        )
    return made
