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
    NoReturn,
    ParamSpec,
    TypeAlias,
    TypeGuard,
    TypeVar,
    overload,
)

from handrail._definition.signature import Signature, takes_self
from handrail._values.access import EVERYTHING, Access
from handrail._values.call import Args, Call
from handrail._values.content import Json
from handrail._values.context import Context
from handrail._values.errors import DefinitionError
from handrail._values.pending import PlannedChange
from handrail._values.result import Failure
from handrail._values.spec import Schema, Spec

Way: TypeAlias = Literal["async", "remote", "sync", "async stream", "stream"]
"""How a function is run: awaited, awaited as a remote call, in a thread, or as a stream."""

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

Touches: TypeAlias = Callable[..., Access | Iterable[Access]]
"""Takes a call's arguments, with defaults; returns what the call will touch. May take ``self``."""
Preview: TypeAlias = Callable[..., PlannedChange | Iterable[PlannedChange]]
"""Takes a call's arguments, like ``touches``, and its ``idempotency_key`` if it has a parameter of
that name; returns what the call would do."""
Headline: TypeAlias = Callable[..., str]
"""Takes a call's arguments, like ``touches``; returns one line for a person."""
Verify: TypeAlias = Callable[..., bool | str | Awaitable[bool | str | None] | None]
"""Takes a call's arguments, like ``touches``, and its ``idempotency_key``; returns whether the call
took effect, or the text of its result if it did, or None if that cannot be known."""
OwnValues: TypeAlias = Callable[[Any], Iterable[object] | Mapping[str, Iterable[object]]]
"""Takes a result as JSON data, or its text; returns the values that only you or your own systems
can set, or these by their scheme."""
Send: TypeAlias = Callable[[dict[str, Json], Context], Awaitable[Any]]
"""Sends a call's arguments to a remote tool, and returns its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[P, R]):  # no subclasses: replace a function: decision 001
    """A spec and the function behind it. Calling a tool calls the function."""

    spec: Spec
    fn: Callable[P, R]
    """The function, with its own types."""
    parse: Callable[[Mapping[str, Any] | str], Args | Failure]  # a model reads it: decision 006
    """Validates a model's arguments."""
    origin: str
    """Where the tool comes from, for messages to people."""
    touches: Touches | None = None
    preview: Preview | None = None
    headline: Headline | None = None
    verify: Verify | None = None
    _signature: Signature = field(repr=False)
    _promise: Any = field(default=None, repr=False)
    """The declared return type, if it is known."""
    _destinations: Schema | None = field(default=None, repr=False)
    """The input schema with destination markers, if any."""
    _target: Callable[[Mapping[str, Any]], Call] | None = field(default=None, repr=False)
    """Takes a proxy's checked arguments; returns the call it means."""
    _way: Way = field(init=False, repr=False)
    takes_context: bool = field(init=False, repr=False)
    """Whether the function takes a Context."""
    _plain: bool = field(init=False, repr=False)
    _replays: bool = field(default=False, repr=False)
    """Whether only its inner calls have effects, and it repeats them if it begins again."""
    _asks: bool = field(default=False, repr=False)
    """Whether a person answers its calls: see ``Context.ask``."""

    def __post_init__(self) -> None:
        taken = self._signature
        object.__setattr__(self, "_way", "remote" if taken.whole else _way(self.fn))
        object.__setattr__(self, "takes_context", taken.whole or taken.context is not None)
        object.__setattr__(self, "_plain", taken.plain)

    @staticmethod
    def remote(
        spec: Spec,
        send: Send,
        *,
        origin: str = "remote",
        touches: Touches | None = None,
        own: OwnValues | None = None,
        destinations: Iterable[str] = (),
    ) -> AnyTool:
        """Return a tool whose spec and results come from a server.

        ``own`` and ``destinations`` say what ``Own`` and ``Destination`` say on types.
        """
        # load pydantic only with the first tool, so that `import handrail` stays fast
        from handrail._definition.arguments import Arguments
        from handrail._schema.remote import remote_checker
        from handrail._schema.return_type import remote_promise, with_own

        return Tool(
            spec=spec,
            fn=send,
            parse=Arguments(spec.input_schema, partial(remote_checker, spec.input_schema)).parse,
            origin=origin,
            touches=touches,
            _signature=_REMOTE,
            _promise=with_own(remote_promise(spec.output_schema), own),
            _destinations=_mark_arguments(destinations),
        )

    @staticmethod
    def proxy(
        spec: Spec, target: Callable[[Mapping[str, Any]], Call], *, origin: str = "proxy"
    ) -> AnyTool:
        """Return a tool calling other tools: ``target`` makes a call from its arguments.

        This call is checked, decided, shown to people and run as if the model had made it. A proxy
        is never run itself, and cannot call another proxy.
        """
        return replace(Tool.remote(spec, _unreachable, origin=origin), _target=target)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: no checks, no limits, its own exceptions."""
        return self.fn(*args, **kwargs)

    def invoke(self, args: Args, context: Context | None) -> Any:
        """Call the function with checked arguments, and return its value or its awaitable."""
        call: Any = self.fn
        if self._plain:
            return call(**args.values)
        taken, values = self._signature, dict(args.values)
        if taken.whole:
            return call(values, context)
        for parameter in taken.copied:
            if parameter.name not in values:
                values[parameter.name] = parameter.make_default()
        if taken.context is not None:
            values[taken.context] = context
        first = [values.pop(parameter.name, parameter.default) for parameter in taken.positional]
        return call(*first, **values)

    def accesses(self, args: Args) -> tuple[Access, ...]:
        """Return what a call will touch: everything, unless the tool declares ``touches``."""
        if self.touches is None:
            return (Access(self.spec.effect, EVERYTHING),)
        touched = call_beside(self, self.touches, add_defaults(self, args))
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
        """Bind a method: ``Notes(path).add`` is this object's tool."""
        method = self._signature.method
        target = owner if method == "class" else instance
        if not method or target is None:
            return self
        bound = self._signature._replace(method="")
        return replace(self, fn=MethodType(self.fn, target), _signature=bound)


AnyTool: TypeAlias = Tool[..., Any]
"""A tool whose function's own types do not matter."""

_REMOTE = Signature((), whole=True)


def _mark_arguments(names: Iterable[str]) -> Schema | None:
    from handrail._labels.sources import DESTINATION_KEY

    marked = {name: {DESTINATION_KEY: ""} for name in names}
    return {"properties": marked} if marked else None


async def _unreachable(args: dict[str, Json], _context: Context) -> NoReturn:
    raise RuntimeError(f"A proxy was run directly, with {args!r}. Run it through an Executor.")


def _way(fn: Callable[..., Any]) -> Way:
    if inspect.iscoroutinefunction(fn):
        return "async"
    if inspect.isasyncgenfunction(fn):
        return "async stream"
    return "stream" if inspect.isgeneratorfunction(fn) else "sync"


def call_beside(made: AnyTool, fn: Callable[..., T], values: Mapping[str, Any]) -> T:
    """Call a tool's companion function, such as ``touches``."""
    owner = (made.fn.__self__,) if isinstance(made.fn, MethodType) and takes_self(fn) else ()
    return fn(*owner, **values)


def add_defaults(made: AnyTool, args: Args) -> dict[str, Any]:
    """Return a call's arguments with defaults for omitted ones."""
    parameters, given = made._signature.parameters, args.values  # noqa: SLF001  the file's own class
    left_out = [parameter for parameter in parameters if parameter.name not in given]
    return {**{parameter.name: parameter.make_default() for parameter in left_out}, **given}


def is_tool(value: object) -> TypeGuard[AnyTool]:
    """Return whether this is a tool, not a function to make one from."""
    return isinstance(value, Tool)


def check_bound(made: AnyTool) -> AnyTool:
    """Reject a method not bound to an object."""
    if made._signature.method:  # noqa: SLF001  the file's own class
        raise DefinitionError(
            f"{made.origin}: {made.spec.name!r} is a method. Bind it, as in `Notes(...).add`, "
            "or collect an object's tools with `Toolset.from_object(obj)`."
        )
    return made


def needs_deps(made: AnyTool) -> bool:
    """Return whether a tool takes a Context whose deps cannot be None."""
    return bool(made._signature.deps)  # noqa: SLF001  the file's own class


def check_deps(made: AnyTool, place: str) -> None:
    """Reject a tool needing deps where there are none. ``place`` is where to pass them."""
    if needs_deps(made):
        needed = made._signature.deps  # noqa: SLF001  the file's own class
        raise DefinitionError(
            f"{made.origin}: {made.spec.name!r} takes Context[{needed}], but there are no deps. "
            f"Pass `deps=` to {place}, or declare Context[{needed} | None]."
        )
