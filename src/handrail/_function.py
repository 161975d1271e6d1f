"""From a typed function to a tool: its signature, its docstring and its types, read once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType
from typing import Any, Never, NoReturn, TypeAlias, get_args

from handrail._arguments import Arguments
from handrail._content import File, Image, Text
from handrail._docstring import described
from handrail._effect import Effect, Exposure
from handrail._errors import DefinitionError
from handrail._json import clipped
from handrail._result import Failure, Result
from handrail._schema import (
    Checker,
    Fragment,
    Promise,
    Unsupported,
    checker,
    fitting_default,
    fragment,
    input_schema,
    promise,
)
from handrail._signature import REQUIRED, Parameter, origin, plain, refuse, signature, unwrapped
from handrail._spec import Retry, Schema, Spec, Strict
from handrail._tool import AnyTool, Tool


def from_function(fn: Any, options: Mapping[str, Any]) -> AnyTool:
    """A tool with the options of ``@tool``; DefinitionError where the function cannot be one."""
    function, method = unwrapped(fn)
    taken = signature(function, method)
    fields = {one.name: (_part(function, one), one.default) for one in taken.parameters}
    told = described(plain(function).__doc__)
    schema = _input_schema(function, fields, told.parameters)
    promised = _promised(function, taken.returns)
    said: dict[str, Any] = {"description": told.text, **_read(function, options)}
    touches = said.pop("touches", None)
    if "name" not in said:
        said["name"] = _name(function)
    try:
        spec = Spec(input_schema=schema, output_schema=promised and promised.schema, **said)
    except DefinitionError as error:
        refuse(function, str(error).rstrip("."))
    made: AnyTool = Tool(
        spec=spec,
        fn=function,
        parse=Arguments(schema, partial(_checker, fields)).parse,
        origin=origin(function),
        touches=touches,
        _signature=taken,
        _promise=promised,
    )
    _check_examples(made)
    return made


def _name(function: Callable[..., Any]) -> str:
    name = plain(function).__name__
    if name == "<lambda>":
        refuse(function, "it has no name. Give it one: `tool(name=...)`")
    return name


def _a(*kinds: type) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not isinstance(value, kinds) or (type(value) is bool and bool not in kinds):
            raise TypeError(f"is no {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return checked


def _several(into: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        if isinstance(value, str | Mapping):
            raise TypeError("is one, where a list is expected")
        return into(value)

    return converted


def _strictness(value: Any) -> Any:
    if value not in get_args(Strict):
        raise TypeError(f"is none of {', '.join(get_args(Strict))}")
    return value


_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "name": _a(str),
    "description": _a(str),
    "effect": _a(Effect),
    "exposure": _a(Exposure),
    "aliases": _several(tuple),
    "idempotent": _a(bool),
    "timeout": _a(int, float),
    "retry": _a(Retry),
    "max_chars": _a(int),
    "search_hint": _a(str),
    "examples": _several(tuple),
    "strict": _strictness,
    "tags": _several(frozenset),
    "touches": _a(Callable),  # type: ignore[arg-type]
}
"""Each option of ``@tool``, and what checks or converts it."""


def _read(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _OPTIONS:
            refuse(function, f"`@tool` has no option {name!r}")
        try:
            said[name] = _OPTIONS[name](value)
        except TypeError as error:
            refuse(function, f"the option {name}={clipped(repr(value))} {error}")
    return said


Fields: TypeAlias = Mapping[str, tuple[Fragment, Any]]


def _checker(fields: Fields) -> Checker:
    return checker({name: (part, default is REQUIRED) for name, (part, default) in fields.items()})


def _part(function: Callable[..., Any], one: Parameter) -> Fragment:
    try:
        return fragment(one.annotation)
    except Unsupported as error:
        refuse(function, f"parameter {one.name!r} ({_spelled(one.annotation)}): {error}")


def _spelled(annotation: Any) -> str:
    is_class = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__qualname__ if is_class else clipped(repr(annotation), 100)


def _input_schema(
    function: Callable[..., Any], fields: Fields, described_as: Mapping[str, str]
) -> Schema:
    properties: dict[str, tuple[Fragment, dict[str, Any]]] = {}
    for name, (part, default) in fields.items():
        extra: dict[str, Any] = {}
        if described_as.get(name) and "description" not in part.schema:
            extra["description"] = described_as[name]
        if default is not REQUIRED:
            try:
                extra["default"] = fitting_default(part, default)
            except Unsupported as error:
                refuse(function, f"parameter {name!r}: {error}")
        properties[name] = (part, extra)
    required = [name for name, (_, default) in fields.items() if default is REQUIRED]
    return input_schema(properties, required)


_UNDESCRIBED = (REQUIRED, None, NoneType, NoReturn, Never, str, Any)
"""Words and nothing: there is nothing to describe."""
_CONTENT = (Text, Image, File, Result)
"""Parts of an answer: a model is shown them as they are."""


def _promised(function: Callable[..., Any], returns: Any) -> Promise | None:
    returns = _item(function, returns)
    if any(returns is one for one in _UNDESCRIBED) or _mentions_content(returns):
        return None
    try:
        made = promise(returns)
    except Unsupported as error:
        refuse(function, f"what it returns ({_spelled(returns)}): {error}")
    return made if made.schema else None


def _item(function: Callable[..., Any], returns: Any) -> Any:
    """What a function gives back in the end: one that yields gives words, piece by piece."""
    inner = plain(inspect.unwrap(function))
    yields = inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)
    return str if yields else returns


def _mentions_content(annotation: Any) -> bool:
    return annotation in _CONTENT or any(map(_mentions_content, get_args(annotation)))


def _check_examples(made: AnyTool) -> None:
    for example in made.spec.examples:
        parsed = made.parse(example)
        if isinstance(parsed, Failure) or parsed.repairs:
            why = parsed.message if isinstance(parsed, Failure) else "; ".join(parsed.repairs)
            raise DefinitionError(f"{made.origin}: the example {example!r} does not fit: {why}")
