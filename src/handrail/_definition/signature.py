"""Read a function's parameters and their types."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from copy import deepcopy
from types import CodeType, FunctionType, MethodType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from handrail._values.context import Context
from handrail._values.errors import DefinitionError
from handrail._values.strict_json import clip

Method: TypeAlias = Literal["", "instance", "class"]

REQUIRED: Any = inspect.Parameter.empty
"""The default for a parameter without one."""


class Parameter(NamedTuple):
    """One parameter a model fills."""

    name: str
    annotation: Any
    default: Any = REQUIRED
    is_copied: bool = False
    """Whether each use gets its own copy of the default, since a function could change it."""

    def make_default(self) -> Any:
        """Return the default, which no other call shares if it could be changed."""
        return deepcopy(self.default) if self.is_copied else self.default


class Signature(NamedTuple):
    """A function's parameters, by who fills them, and its return type."""

    parameters: tuple[Parameter, ...]
    returns: Any = REQUIRED
    positional: tuple[Parameter, ...] = ()
    """Positional-only parameters, in order."""
    context: str | None = None
    """The parameter the executor fills, if the function has one."""
    method: Method = ""
    """Whether binding the function fills its first parameter."""
    whole: bool = False
    """Whether the function takes all arguments as one mapping, and a context."""
    copied: tuple[Parameter, ...] = ()
    """The parameters whose defaults are copied."""
    deps: str = ""
    """The deps type the function needs, if any: ``Shop`` for ``Context[Shop]``."""

    @property
    def plain(self) -> bool:
        """Whether the function takes only a model's arguments, by keyword."""
        return not (self.whole or self.positional or self.copied or self.context is not None)


def unwrap(fn: Any) -> tuple[Callable[..., Any], Method]:
    """Return the function inside ``staticmethod`` or ``classmethod``, and how it is bound."""
    if type(fn) in (classmethod, staticmethod):
        return fn.__func__, "class" if type(fn) is classmethod else ""
    return fn, "instance" if _has_self(fn) else ""


def signature(fn: Callable[..., Any], method: Method) -> Signature:
    """Read a function's signature. Refuses parameters a model cannot fill."""
    hints = _hints(fn)
    declared = list(inspect.signature(fn).parameters.values())[1 if method else 0 :]
    taken: list[Parameter] = []
    positional: list[Parameter] = []
    context: str | None = None
    deps = ""
    for parameter in declared:
        name, kind = parameter.name, parameter.kind
        if kind in _VARIADIC:
            refuse(fn, f"a model cannot fill the parameter {name!r}. {_VARIADIC[kind]}")
        if name not in hints:
            remedy = _UNBOUND if name == "cls" else f"Annotate it, as in `{name}: str`"
            refuse(fn, f"parameter {name!r} has no type. {remedy}")
        typed = Parameter(name, hints[name], *_read_default(fn, parameter))
        if kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(typed)
        if _is_context(typed.annotation):
            if context is not None:
                refuse(fn, f"both {context!r} and {name!r} are a Context. One is enough")
            context, deps = name, _read_deps(typed.annotation)
        else:
            taken.append(typed)
    return Signature(
        tuple(taken),
        hints.get("return", REQUIRED),
        tuple(positional),
        context,
        method,
        copied=tuple([parameter for parameter in taken if parameter.is_copied]),
        deps=deps,
    )


def _read_default(fn: Callable[..., Any], parameter: inspect.Parameter) -> tuple[Any, bool]:
    """Return a default, and whether it must be copied: a constant's copy is the constant."""
    try:
        copied = deepcopy(parameter.default)
    except Exception as error:  # noqa: BLE001  its own code
        why = f"the default of {parameter.name!r} cannot be copied ({type(error).__name__})"
        refuse(fn, f"{why}, so calls would share it. Use None")
    return copied, copied is not parameter.default


def origin(fn: Callable[..., Any]) -> str:
    """Return where a function comes from: its module, its name and its line."""
    function = underlying_function(inspect.unwrap(fn))
    place = f"{function.__module__}.{function.__qualname__}"
    return f"{place} ({function.__code__.co_filename}:{function.__code__.co_firstlineno})"


def refuse(fn: Callable[..., Any], why: str) -> NoReturn:
    """Raise DefinitionError: where a function is, and why it cannot be a tool."""
    raise DefinitionError(f"{origin(fn)}: {why}.")


_UNBOUND = "For a class method, put `@tool` above `@classmethod`"
_VARIADIC = {
    inspect.Parameter.VAR_POSITIONAL: "Take a list, as in `items: list[str]`",
    inspect.Parameter.VAR_KEYWORD: "Name each parameter, or take `options: dict[str, str]`",
}


def underlying_function(fn: Any) -> FunctionType:
    """Return the function inside partials and bound methods."""
    below = fn
    while not isinstance(below, FunctionType):
        is_partial = isinstance(below, functools.partial)
        below = below.func if is_partial else getattr(below, "__func__", None)
        if below is None:
            raise DefinitionError(f"{clip(repr(fn))} cannot be a tool. Use a function or a method.")
    return below


def _has_self(fn: Any) -> bool:
    """Return whether this is a function in a class body, which Python binds to an object."""
    if not isinstance(fn, FunctionType):
        return False
    inner = underlying_function(inspect.unwrap(fn))
    inside = inner.__qualname__.rpartition(".")[0]
    first = inner.__code__.co_varnames[:1] if inner.__code__.co_argcount else ()
    return first == ("self",) and bool(inside) and not inside.endswith("<locals>")


def takes_self(fn: Callable[..., Any]) -> bool:
    """Return whether a function's first parameter is ``self`` or ``cls``, and not yet filled."""
    code = None if isinstance(fn, MethodType) else getattr(fn, "__code__", None)
    return isinstance(code, CodeType) and code.co_varnames[:1] in (("self",), ("cls",))


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    function = underlying_function(inspect.unwrap(fn))
    names = _enclosing_names(function) if "." in function.__qualname__ else None
    try:
        return get_type_hints(function, localns=names, include_extras=True)
    except _UNREADABLE:
        return {
            name: _hint(fn, name, annotation, names)
            for name, annotation in function.__annotations__.items()
        }


_UNREADABLE = (NameError, SyntaxError, AttributeError, TypeError)


def _hint(fn: Callable[..., Any], name: str, annotation: Any, names: dict[str, Any] | None) -> Any:
    """Evaluate one type alone, so an error can name it."""
    function = underlying_function(inspect.unwrap(fn))
    alone = FunctionType(function.__code__, function.__globals__)
    alone.__annotations__ = {name: annotation}
    try:
        return get_type_hints(alone, localns=names, include_extras=True)[name]
    except _UNREADABLE as error:
        what = "the return type" if name == "return" else f"the type of {name!r}"
        refuse(fn, f"{what} cannot be evaluated: {error}. Define it above the tool")


def _enclosing_names(function: FunctionType) -> dict[str, Any] | None:
    """Return names from the scopes around a function being defined, nearest first.

    A string annotation may name a class local to them.
    """
    if not any(isinstance(annotation, str) for annotation in function.__annotations__.values()):
        return None
    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    while frame is not None:
        scope = frame.f_code.co_qualname
        if frame.f_globals is function.__globals__ and function.__qualname__.startswith(
            f"{scope}."
        ):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):  # `Context | None`, for a function's own users
        kinds = {get_origin(kind) or kind for kind in get_args(annotation)}
        return kinds == {Context, NoneType}
    return (get_origin(annotation) or annotation) is Context


def _read_deps(annotation: Any) -> str:
    """Return the deps type in a Context, as text. Empty if they can be None."""
    kinds = [annotation, *get_args(annotation)]  # also for `Context[Shop] | None`
    types = [kind for one in kinds if get_origin(one) is Context for kind in get_args(one)]
    return "" if not types or _can_be_none(types[0]) else _show_type(types[0])


def _can_be_none(kind: Any) -> bool:
    meant = getattr(kind, "__value__", kind)  # from a type alias
    if get_origin(meant) in (Union, UnionType):
        return any(map(_can_be_none, get_args(meant)))
    return meant in (Any, object, None, NoneType) or isinstance(meant, TypeVar)


def _show_type(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
