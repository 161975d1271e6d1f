"""A function's parameters and their types, as its author wrote them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    TypeAlias,
    TypeGuard,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from handrail._context import Context
from handrail._errors import DefinitionError
from handrail._json import clipped

Method: TypeAlias = Literal["", "instance", "class"]

REQUIRED: Any = inspect.Parameter.empty
"""Stands where a parameter has no default."""


class Parameter(NamedTuple):
    """One parameter that a model fills."""

    name: str
    annotation: Any
    default: Any = REQUIRED


class Signature(NamedTuple):
    """What a function takes and gives, sorted by who supplies it."""

    parameters: tuple[Parameter, ...]
    returns: Any = REQUIRED
    positional: tuple[Parameter, ...] = ()
    """Those that must be passed by position, in order."""
    context: str | None = None
    """The parameter that the executor fills, if the function has one."""
    method: Method = ""
    """Whether the first parameter of the function is filled by binding it."""
    whole: bool = False
    """Whether the function takes all arguments as one mapping, and a context."""

    @property
    def plain(self) -> bool:
        """Whether the function is called with a model's arguments and nothing else."""
        return not (self.whole or self.positional or self.context is not None)


def unwrapped(fn: Any) -> tuple[Callable[..., Any], Method]:
    """The function below ``staticmethod`` and ``classmethod``, and how it will be bound."""
    if type(fn) in (classmethod, staticmethod):
        return fn.__func__, "class" if type(fn) is classmethod else ""
    return fn, "instance" if _has_self(fn) else ""


def signature(fn: Callable[..., Any], method: Method) -> Signature:
    """Read a function's signature; refuse what no model could fill."""
    hints = _hints(fn)
    declared = _declared(fn)[1 if method else 0 :]
    taken: list[Parameter] = []
    positional: list[Parameter] = []
    context: str | None = None
    for name, kind, default in declared:
        if kind in _VARIADIC:
            refuse(fn, f"parameter {name!r} cannot be told to a model. {_VARIADIC[kind]}")
        if name not in hints:
            remedy = _UNBOUND if name == "cls" else f"Annotate it, as in `{name}: str`"
            refuse(fn, f"parameter {name!r} has no type. {remedy}")
        one = Parameter(name, hints[name], default)
        if kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(one)
        if _is_context(one.annotation):
            if context is not None:
                refuse(fn, f"both {context!r} and {name!r} are a Context. One is enough")
            context = name
        else:
            taken.append(one)
    return Signature(
        tuple(taken), hints.get("return", REQUIRED), tuple(positional), context, method
    )


def origin(fn: Callable[..., Any]) -> str:
    """Where a function comes from: its module, its name and its line."""
    function = plain(inspect.unwrap(fn))
    place = f"{function.__module__}.{function.__qualname__}"
    return f"{place} ({function.__code__.co_filename}:{function.__code__.co_firstlineno})"


def refuse(fn: Callable[..., Any], why: str) -> NoReturn:
    """Say why a function cannot be a tool, and where it stands."""
    raise DefinitionError(f"{origin(fn)}: {why}.")


_UNBOUND = "For a class method, put `@tool` above `@classmethod`"
_NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD
_VARIADIC = {
    inspect.Parameter.VAR_POSITIONAL: "Take a list, as in `items: list[str]`",
    inspect.Parameter.VAR_KEYWORD: "Name each parameter, or take `options: dict[str, str]`",
}


def plain(fn: Any) -> FunctionType:
    """The function that is called in the end, below partials and bound methods."""
    below = fn
    while not isinstance(below, FunctionType):
        is_partial = isinstance(below, functools.partial)
        below = below.func if is_partial else getattr(below, "__func__", None)
        if below is None:
            raise DefinitionError(
                f"{clipped(repr(fn))} cannot be a tool: take a function or a method"
            )
    return below


def _has_self(fn: Any) -> bool:
    """Whether this is a function in a class body, decorated or not: the kind that Python binds."""
    if not isinstance(fn, FunctionType):
        return False
    inner = plain(inspect.unwrap(fn))
    inside = inner.__qualname__.rpartition(".")[0]
    first = inner.__code__.co_varnames[:1] if inner.__code__.co_argcount else ()
    return first == ("self",) and bool(inside) and not inside.endswith("<locals>")


def _declared(fn: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Each parameter's name, kind and default; a plain function's at a tenth of the usual price."""
    if not _is_plain(fn):
        listed = inspect.signature(fn).parameters.values()
        return [(one.name, one.kind, one.default) for one in listed]
    code, values = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    first = code.co_argcount - len(values)
    defaults = dict(zip(names[first:], values, strict=False)) | (fn.__kwdefaults__ or {})
    return [(name, _NAMED, defaults.get(name, REQUIRED)) for name in names]


def takes_self(fn: Callable[..., Any] | None) -> bool:
    """Whether a function's first parameter is the object of a method."""
    code = getattr(fn, "__code__", None)
    return isinstance(code, CodeType) and code.co_varnames[:1] in (("self",), ("cls",))


def _is_plain(fn: Callable[..., Any]) -> TypeGuard[FunctionType]:
    """Whether a function's code says all: it wraps no other, and all its parameters have names."""
    if not isinstance(fn, FunctionType) or fn.__dict__ or fn.__code__.co_posonlyargcount:
        return False
    return not fn.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    function = plain(inspect.unwrap(fn))
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
    """One type by itself, so that the one that cannot be read is named."""
    function = plain(inspect.unwrap(fn))
    alone = FunctionType(function.__code__, function.__globals__)
    alone.__annotations__ = {name: annotation}
    try:
        return get_type_hints(alone, localns=names, include_extras=True)[name]
    except _UNREADABLE as error:
        what = "what it returns" if name == "return" else repr(name)
        refuse(fn, f"the type of {what} cannot be read: {error}. Define it above the tool")


def _enclosing_names(function: FunctionType) -> dict[str, Any] | None:
    """The names of the scopes around a function that is being defined right now, nearest first.

    A string annotation may name a class that is local to them.
    """
    if not any(isinstance(one, str) for one in function.__annotations__.values()):
        return None
    names: dict[str, Any] = {}
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  the one way to see such a scope
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
        return set(get_args(annotation)) == {Context, NoneType}
    return annotation is Context
