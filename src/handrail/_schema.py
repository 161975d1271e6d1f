"""Python types to JSON Schemas and validators. The only file that knows pydantic.

Each distinct type is worked out once and kept; a function's schema and validator are put together
from those parts, which is what makes ten thousand tools affordable.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import pydantic
from pydantic_core import (
    PydanticSerializationError,
    SchemaError,
    SchemaSerializer,
    SchemaValidator,
    ValidationError,
    to_json,
)

from handrail._compact import JsonSchema, copied, inlined, renamed, tidy, with_extras
from handrail._core import NO_FORM, Core, Unsupported, check_fillable, strict
from handrail._json import NotJson, canonical, clipped
from handrail._pairs import EXPRESSIONS, Count, Uncountable, counter, fields_set

__all__ = [
    "Checker",
    "Fragment",
    "Problem",
    "Promise",
    "Unsupported",
    "ValidationError",
    "checker",
    "compiled",
    "fitting_default",
    "fragment",
    "input_schema",
    "json_of",
    "json_text",
    "pattern_works",
    "problems",
    "promise",
]


class Problem(NamedTuple):
    """One complaint of a validator, as data."""

    kind: str
    path: tuple[str | int, ...]
    given: Any
    details: Mapping[str, Any]
    message: str


class Fragment(NamedTuple):
    """All that is known of one type: its validator's schema, its JSON Schema, its pair count."""

    core: Core
    core_definitions: Mapping[str, Core]
    schema: JsonSchema
    definitions: Mapping[str, JsonSchema]
    inlined: JsonSchema
    """The two as one, for a function that has no other parameter with the same definitions."""
    pairs: Count | None
    countable: bool
    validator: Any
    serializer: SchemaSerializer


class Checker(NamedTuple):
    """Validates the arguments of one tool."""

    run: Callable[..., dict[str, Any]]
    pairs: Count | None
    """Counts the pairs of validated arguments; None where only reading the text again can tell."""
    passes_on: bool = False
    """Whether the arguments go on as the JSON that they are, once they are known to be valid."""


def fragment(annotation: Any) -> Fragment:
    """Work out one type, or remember it."""
    made: Fragment = _remembered(_fragment, annotation)
    return made


@lru_cache(maxsize=4096)
def _fragment(annotation: Any, _spelling: str, /) -> Fragment:
    adapter, schema = _worked_out(annotation, mode="validation")
    definitions = {name: tidy(one, closed=True) for name, one in schema.pop("$defs").items()}
    core = strict(check_fillable(cast("Core", adapter.core_schema)))
    core_definitions: dict[str, Core] = {}
    if core["type"] == "definitions":
        core_definitions = {one["ref"]: one for one in core["definitions"]}
        core = core["schema"]
    if core["type"] == "default":
        raise Unsupported("its default stands inside `Field(...)`. Write it after the `=`")
    try:
        count, countable = counter(core, core_definitions), True
    except Uncountable:
        count, countable = None, False
    tidied = tidy(schema, closed=True)
    return Fragment(
        core,
        core_definitions,
        tidied,
        definitions,
        inlined(tidied, definitions),
        count,
        countable,
        adapter.validator,
        adapter.serializer,
    )


def input_schema(
    properties: Mapping[str, tuple[Fragment, JsonSchema]], required: Sequence[str]
) -> JsonSchema:
    """The JSON Schema of a function's arguments; beside each type, what its parameter adds."""
    names = [name for part, _ in properties.values() for name in part.definitions]
    definitions: dict[str, JsonSchema] = {}
    described: dict[str, JsonSchema] = {}
    for name, (part, extras) in properties.items():
        if len(set(names)) == len(names):
            definitions.update(part.inlined.get("$defs", {}))
            schema = part.inlined
        else:
            schema = _merged(part.schema, part.definitions, definitions)
        described[name] = with_extras(schema, extras)
        described[name].pop("$defs", None)
    whole: JsonSchema = {"type": "object", "properties": described}
    if required:
        whole["required"] = list(required)
    whole["additionalProperties"] = False
    return inlined(whole, copied(definitions)) if definitions else whole


class Promise(NamedTuple):
    """What a function gives back: how a model is told, and how a value is written."""

    schema: JsonSchema
    dump: Callable[..., bytes]
    """Writes a value as JSON; with ``warnings="error"``, ValueError where it is not of its type."""
    exact: type | None
    """A class whose instances are of the type for certain: a number, or a model that was made."""


def promise(annotation: Any) -> Promise:
    """Work out what a function gives back, or remember it."""
    made: Promise = _remembered(_promise, annotation)
    return made._replace(schema=copied(made.schema))


@lru_cache(maxsize=4096)
def _promise(annotation: Any, _spelling: str, /) -> Promise:
    adapter, schema = _worked_out(annotation, mode="serialization")
    tidied = tidy(schema, closed=False)
    certain = adapter.core_schema["type"] in ("int", "float", "bool", "model")
    exact = annotation if certain and isinstance(annotation, type) else None
    return Promise(inlined(tidied, tidied.pop("$defs")), adapter.serializer.to_json, exact)


def json_of(value: object) -> str:
    """Any value that has a JSON form, as JSON text; ValueError where it has none."""
    return to_json(value).decode()


def fitting_default(part: Fragment, default: Any) -> Any:
    """A default in JSON, once it is certain that the function may be handed it as it is."""
    if type(default).__module__ == "pydantic.fields":
        raise Unsupported(
            "`Field(...)` stands as its default; move it to `Annotated[..., Field(...)]`"
        )
    spelled = clipped(repr(default))
    try:
        made = part.validator.validate_python(default)
    except ValidationError:
        made = _NOTHING
    same = made is default or made == default
    fits = type(made) is type(default) or (type(made) is float and type(default) is int)
    if not (same and fits):
        raise Unsupported(f"its default {spelled} is not of its type. Change one of them")
    try:
        in_json = part.serializer.to_python(default, mode="json", warnings="error")
        canonical(in_json)
    except ValueError as error:  # infinities, half characters, bytes that are no text
        raise Unsupported(f"its default {spelled} has no JSON form") from error
    return in_json


def checker(fields: Mapping[str, tuple[Fragment, bool]]) -> Checker:
    """A validator for arguments: each name with its type and whether it is required."""
    core: Core = {
        "type": "typed-dict",
        "fields": {
            name: {"type": "typed-dict-field", "schema": part.core, "required": required}
            for name, (part, required) in fields.items()
        },
        "extra_behavior": "forbid",
        "config": {"strict": True},
    }
    definitions: dict[str, Core] = {}
    for part, _ in fields.values():
        definitions.update(part.core_definitions)
    counts = [(name, part.pairs) for name, (part, _) in fields.items() if part.pairs]
    countable = all(part.countable for part, _ in fields.values())
    required = {name for name, (_, needed) in fields.items() if needed}
    return Checker(_validate(core, definitions), _counts(counts, required) if countable else None)


def compiled(core: Core, definitions: Mapping[str, Core]) -> Checker:
    """A validator from a core schema that was not made from Python types; or Unsupported."""
    try:
        run = _validate(strict(core), {name: strict(one) for name, one in definitions.items()})
    except SchemaError as error:
        raise Unsupported(clipped(str(error))) from error
    return Checker(run, None, passes_on=True)


def problems(error: ValidationError) -> list[Problem]:
    """A validator's complaints as data, without its prose for programmers."""
    return [
        _about_the_tag(
            Problem(one["type"], one["loc"], one["input"], one.get("ctx", {}), one["msg"])
        )
        for one in error.errors(include_url=False)
    ]


def _about_the_tag(problem: Problem) -> Problem:
    """What a tagged union complains of is its tag: say so of the tag."""
    if problem.kind not in ("union_tag_invalid", "union_tag_not_found"):
        return problem
    tag = str(problem.details["discriminator"])
    path = problem.path if tag.endswith("()") else (*problem.path, tag.strip("'"))
    if problem.kind == "union_tag_not_found":
        return problem._replace(kind="missing", path=path)
    expected = {"expected": str(problem.details["expected_tags"]).replace("', '", "' or '")}
    return problem._replace(kind="literal_error", path=path, details=expected)


def json_text(value: object) -> str:
    """A mapping as JSON text; NotJson where JSON cannot say it."""
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except PydanticSerializationError as error:
        raise NotJson("they cannot be written as JSON") from error


def pattern_works(pattern: str) -> bool:
    """Whether the linear-time regex engine takes this pattern."""
    try:
        SchemaValidator({"type": "str", "pattern": pattern})
    except SchemaError:
        return False
    return True


_NOTHING = object()
_REFUSALS = (
    pydantic.PydanticUserError,
    pydantic.PydanticUndefinedAnnotation,
    ImportError,  # a type that needs a package that is not there
    SchemaError,  # a pattern that the linear-time engine does not take
    TypeError,  # a type that says itself that it is not for a model
)


def _worked_out(annotation: Any, *, mode: Any) -> tuple[pydantic.TypeAdapter[Any], JsonSchema]:
    # the heavier half of pydantic's import, and needed only once there is a tool
    from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PydanticJsonSchemaWarning)
            adapter = pydantic.TypeAdapter(annotation)
            # As the item of a list, a model is a reference like any other: its uses can be counted.
            listed: Any = {"type": "list", "items_schema": adapter.core_schema}
            whole = GenerateJsonSchema().generate(listed, mode)
    except (pydantic.PydanticSchemaGenerationError, pydantic.PydanticInvalidForJsonSchema) as error:
        raise Unsupported(NO_FORM) from error
    except (PydanticJsonSchemaWarning, *_REFUSALS) as error:
        said = str(error).partition("\n\nFor further")[0]
        raise Unsupported(clipped(" ".join(said.split()), 200).rstrip(".")) from error
    return adapter, {**whole["items"], "$defs": whole.get("$defs", {})}


def _remembered(work: Any, annotation: Any) -> Any:
    try:
        hash(annotation)
    except TypeError:  # metadata that cannot be hashed
        return work.__wrapped__(annotation, "")
    # `int | str` equals `str | int`, but they are told to a model in a different order
    return work(annotation, "" if type(annotation) is type else repr(annotation))


def _merged(
    schema: JsonSchema, own: Mapping[str, JsonSchema], into: dict[str, JsonSchema]
) -> JsonSchema:
    """Add a type's definitions to a function's; one that would shadow another gets a new name."""
    tries = dict.fromkeys(own, 1)
    names = {name: name for name in own}
    made = dict(own)
    # A new name changes whoever refers to it, which may then need a new name too.
    while clash := [name for name in own if into.get(names[name], made[name]) != made[name]]:
        for name in clash:
            tries[name] += 1
            names[name] = f"{name}_{tries[name]}"
        made = {name: renamed(one, names) for name, one in own.items()}
    into.update((names[name], one) for name, one in made.items())
    return renamed(schema, names)


def _validate(core: Core, definitions: Mapping[str, Core]) -> Callable[..., dict[str, Any]]:
    whole: Any = core
    if definitions:
        whole = {"type": "definitions", "schema": core, "definitions": list(definitions.values())}
    # A model's own prebuilt validator would not know what strict() added.
    return SchemaValidator(whole, {"strict": True}, _use_prebuilt=False).validate_json


def _counts(below: list[tuple[str, Count]], required: Collection[str]) -> Count:
    """Counts the pairs of arguments: one expression, since every call pays for it."""
    if not below:
        return len
    terms = ["len(v)"]
    for place, (name, one) in enumerate(below):
        by_call: str = getattr(one, "expression", f"c{place}({{}})")
        term = EXPRESSIONS.get(one, by_call)
        term = term.format(f"v[{name!r}]")
        terms.append(term if name in required else f"({term} if {name!r} in v else 0)")
    known = {"fields_set": fields_set, **{f"c{n}": one for n, (_, one) in enumerate(below)}}
    made: Count = eval(f"lambda v: {' + '.join(terms)}", known)  # noqa: S307  names are quoted
    return made
