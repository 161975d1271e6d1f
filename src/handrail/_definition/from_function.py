"""Make a tool from a typed function: its signature, its docstring and its types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from types import NoneType
from typing import Any, Never, NoReturn, TypeAlias, get_args, get_origin

from handrail._definition.arguments import Arguments
from handrail._definition.beside import check_beside
from handrail._definition.docstring import parse_docstring
from handrail._definition.signature import (
    REQUIRED,
    Parameter,
    origin,
    refuse,
    signature,
    underlying_function,
    unwrap,
)
from handrail._definition.synonyms import check_synonyms
from handrail._definition.tool import AnyTool, Tool
from handrail._schema.marks import split_marks
from handrail._schema.return_type import Promise, promise, with_own
from handrail._schema.strictness import Unsupported
from handrail._schema.validator import (
    Checker,
    Fragment,
    checker,
    fragment,
    input_schema,
    json_default,
)
from handrail._values.content import File, Image, Text
from handrail._values.effect import Effect, Exposure
from handrail._values.errors import DefinitionError
from handrail._values.names import join_or
from handrail._values.result import Failure, Result
from handrail._values.spec import Retry, Schema, Spec, Strict
from handrail._values.strict_json import clip


def from_function(fn: Any, options: Mapping[str, Any]) -> AnyTool:
    """Return a tool with ``@tool`` options. Raises DefinitionError with a reason."""
    function, method = unwrap(fn)
    taken = signature(function, method)
    if get_origin(taken.returns) is Tool or taken.returns is Tool:
        call = f"{underlying_function(function).__name__}({'...' if taken.parameters else ''})"
        refuse(function, f"it returns a tool, but is none. Call it, and pass the tool: `{call}`")
    fields = {
        parameter.name: (_fragment_of(function, parameter), parameter.default)
        for parameter in taken.parameters
    }
    docstring = parse_docstring(underlying_function(function).__doc__)
    schema = _input_schema(function, fields, docstring.parameters)
    schema, destinations = split_marks(dict(schema))
    given: dict[str, Any] = {"description": docstring.text, **_read_options(function, options)}
    promised = with_own(_find_promise(function, taken.returns), given.pop("own", None))
    beside = {name: given.pop(name) for name in _BESIDE if name in given}
    for option, companion in beside.items():
        check_beside(function, taken, option, companion)
    synonyms, replays = given.pop("synonyms", {}), given.pop("replays", False)
    if wrong := check_synonyms(synonyms, fields):
        refuse(function, wrong)
    given["name"] = given["name"] if "name" in given else _name(function)
    try:
        spec = Spec(
            input_schema=schema, output_schema=(promised and promised.schema) or None, **given
        )
    except DefinitionError as error:
        refuse(function, str(error).rstrip("."))
    made: AnyTool = Tool(
        spec=spec,
        fn=function,
        parse=Arguments(schema, partial(_checker, fields), synonyms).parse,
        origin=origin(function),
        **beside,
        _signature=taken,
        _promise=promised,
        _destinations=destinations,
        _replays=replays,
    )
    _check_examples(made)
    return made


def _name(function: Callable[..., Any]) -> str:
    name = underlying_function(function).__name__
    if name == "<lambda>":
        refuse(function, "it has no name. Give it one: `tool(name=...)`")
    return name


def _instance_of(*kinds: type, choices: Iterable[Enum] = ()) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kinds) or (type(value) is bool and bool not in kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            members = [f"{one.__class__.__name__}.{one.name}" for one in choices]
            listed = f": {join_or(members)}" if members else ""
            raise TypeError(f"must be of type {names}{listed}")
        return value

    return check


def _many(into: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, str | Mapping):
            raise TypeError("must be a list")
        return into(value)

    return convert


def _strictness(value: Any) -> Any:
    if value not in get_args(Strict):
        raise TypeError(f"must be one of {', '.join(get_args(Strict))}")
    return value


_BESIDE = ("touches", "preview", "headline", "verify")
"""Options that are functions with the tool's parameters."""
_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "name": _instance_of(str),
    "description": _instance_of(str),
    "effect": _instance_of(Effect, choices=Effect),
    "replays": _instance_of(bool),
    "exposure": _instance_of(Exposure, choices=Exposure),
    "aliases": _many(tuple),
    "instead_of": _instance_of(Mapping),
    "synonyms": _instance_of(Mapping),
    "idempotent": _instance_of(bool),
    "private": _instance_of(bool),
    "framed": _instance_of(bool),
    "own": _instance_of(Callable),  # type: ignore[arg-type]
    "timeout": _instance_of(int, float),
    "retry": _instance_of(Retry),
    "max_chars": _instance_of(int),
    "search_hint": _instance_of(str),
    "examples": _many(tuple),
    "strict": _strictness,
    "tags": _many(frozenset),
    "needs_approval": _instance_of(bool),
    "exclusive": _instance_of(bool),
    "background": _instance_of(bool),
    "metadata": _instance_of(Mapping),
    **dict.fromkeys(_BESIDE, _instance_of(Callable)),  # type: ignore[arg-type]
}
"""Each ``@tool`` option, and the function checking or converting it."""


def _read_options(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _OPTIONS:
            refuse(function, f"`@tool` has no option {name!r}")
        try:
            given[name] = _OPTIONS[name](value)
        except TypeError as error:
            refuse(function, f"the option {name}={clip(repr(value))} {error}")
    return given


Fields: TypeAlias = Mapping[str, tuple[Fragment, Any]]


def _checker(fields: Fields) -> Checker:
    return checker({name: (part, default is REQUIRED) for name, (part, default) in fields.items()})


def _fragment_of(function: Callable[..., Any], parameter: Parameter) -> Fragment:
    try:
        return fragment(parameter.annotation)
    except Unsupported as error:
        refuse(function, f"parameter {parameter.name!r} ({_spell(parameter.annotation)}): {error}")


def _spell(annotation: Any) -> str:
    is_class = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__qualname__ if is_class else clip(repr(annotation), 100)


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
                extra["default"] = json_default(part, default)
            except Unsupported as error:
                refuse(function, f"parameter {name!r}: {error}")
        properties[name] = (part, extra)
    required = [name for name, (_, default) in fields.items() if default is REQUIRED]
    return input_schema(properties, required)


_UNDESCRIBED = (REQUIRED, None, NoneType, NoReturn, Never, str, Any)
"""Return types for text or nothing, which need no schema."""
_CONTENT = (Text, Image, File, Result)
"""Result parts a model receives unchanged."""


def _find_promise(function: Callable[..., Any], returns: Any) -> Promise | None:
    returns = _result_type(function, returns)
    if any(returns is kind for kind in _UNDESCRIBED) or _mentions_content(returns):
        return None
    try:
        made = promise(returns)
    except Unsupported as error:
        refuse(function, f"its return type ({_spell(returns)}): {error}")
    return made if made.schema or made.own is not None else None


def _result_type(function: Callable[..., Any], returns: Any) -> Any:
    """Return a tool's result type: a generator function yields text in pieces."""
    inner = underlying_function(inspect.unwrap(function))
    yields = inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)
    return str if yields else returns


def _mentions_content(annotation: Any) -> bool:
    return annotation in _CONTENT or any(map(_mentions_content, get_args(annotation)))


def _check_examples(made: AnyTool) -> None:
    for example in made.spec.examples:
        parsed = made.parse(example)
        if isinstance(parsed, Failure):
            lines = parsed.message.splitlines()[1:-1]
        else:
            lines = [*parsed.repairs]
        if lines:
            why = "; ".join(line.removeprefix("- ") for line in lines)
            raise DefinitionError(f"{made.origin}: the example {example!r} is not valid: {why}.")
