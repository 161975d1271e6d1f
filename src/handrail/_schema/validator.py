"""Turn Python types into JSON Schemas and validators. The only file that imports pydantic.

Each type is processed once and cached. A function's schema and validator are built from these
parts, so ten thousand tools are affordable.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, TypeAlias, cast

import pydantic
from pydantic_core import (
    PydanticSerializationError,
    SchemaError,
    SchemaValidator,
    ValidationError,
    to_json,
)

from handrail._schema.cost import VisitCounter
from handrail._schema.duplicate_keys import Count, pair_counter
from handrail._schema.json_reader import NotJson
from handrail._schema.json_schema import (
    JsonSchema,
    add_extras,
    deep_copy,
    inline_definitions,
    rename_references,
    tidy,
)
from handrail._schema.strictness import (
    NO_FORM,
    Core,
    Unsupported,
    check_fillable,
    has_unions,
    make_strict,
    stop_early,
    tag_unions,
)
from handrail._values.strict_json import canonical, clip

__all__ = ["ValidationError"]


class Fragment(NamedTuple):
    """One type: its schemas for the validator and for the model, and its pydantic adapter."""

    core: Core
    core_definitions: Mapping[str, Core]
    schema: JsonSchema
    definitions: Mapping[str, JsonSchema]
    inlined: JsonSchema
    """Schema and definitions in one, for functions without another use of the definitions."""
    adapter: pydantic.TypeAdapter[Any]


Run: TypeAlias = Callable[..., Any]
"""Validates JSON text. Returns the typed values, or raises ValidationError."""


MAX_SHORT_CHARS = 16 * 1024
"""Characters up to which the work is not counted, if the types allow that."""


@dataclass(slots=True)
class Checker:
    """Validates one tool's arguments."""

    run: Run
    """Stops at each list's first mistake, so no text can cause very many errors."""
    thorough: Callable[[], Run]
    """Validates to the end, for short arguments. Built for the first mistake."""
    pairs: Count | None
    """Counts the pairs in valid arguments. None if this needs parsing the text again."""
    visits: VisitCounter | None
    """Counts a value's work before validation. None if only long texts need it."""
    visits_if_long: Callable[[], VisitCounter | None]
    """The same for long texts, built for the first one. Returns None if none needs it."""
    passes_on: bool = False
    """Whether the tool receives the arguments as JSON values, not as typed ones."""
    short_chars: int = MAX_SHORT_CHARS
    """Characters up to which nothing is counted, unless there is a ``visits``."""
    max_chars: int = sys.maxsize
    """Characters beyond which ``lighter`` is used."""
    lighter: Callable[[], Checker] | None = None
    """A checker for arguments too large for this one. None if these are refused."""


def fragment(annotation: Any) -> Fragment:
    """Return one type's schemas, from the cache if possible."""
    made: Fragment = compute_once(_fragment, annotation)
    return made


@lru_cache(maxsize=4096)
def _fragment(annotation: Any, _spelling: str, /) -> Fragment:
    adapter, schema = describe_type(annotation, mode="validation")
    definitions = {name: tidy(below, closed=True) for name, below in schema.pop("$defs").items()}
    core = make_strict(check_fillable(cast("Core", adapter.core_schema)))
    core_definitions: dict[str, Core] = {}
    if core["type"] == "definitions":
        core_definitions = {below["ref"]: below for below in core["definitions"]}
        core = core["schema"]
    core, core_definitions = _tag_all(core, core_definitions)
    if core["type"] == "default":
        raise Unsupported("its default is inside `Field(...)`. Write it after the `=`")
    tidied = tidy(schema, closed=True)
    inlined = inline_definitions(tidied, definitions)
    return Fragment(core, core_definitions, tidied, definitions, inlined, adapter)


def input_schema(
    properties: Mapping[str, tuple[Fragment, JsonSchema]], required: Sequence[str]
) -> JsonSchema:
    """Return the JSON Schema of a function's arguments. Each type comes with its extras."""
    names = [name for part, _ in properties.values() for name in part.definitions]
    definitions: dict[str, JsonSchema] = {}
    described: dict[str, JsonSchema] = {}
    for name, (part, extras) in properties.items():
        if len(set(names)) == len(names):
            definitions.update(part.inlined.get("$defs", {}))
            schema = part.inlined
        else:
            schema = _merge_definitions(part.schema, part.definitions, definitions)
        described[name] = add_extras(schema, extras)
        described[name].pop("$defs", None)
    whole: JsonSchema = {"type": "object", "properties": described}
    if required:
        whole["required"] = list(required)
    whole["additionalProperties"] = False
    return inline_definitions(whole, deep_copy(definitions)) if definitions else whole


def json_of(value: object) -> str:
    """Return a value as JSON text. Raises ValueError if it has no JSON form."""
    return to_json(value).decode()


def json_default(part: Fragment, default: Any) -> Any:
    """Return a default as JSON. Raises Unsupported if it does not match its type."""
    if type(default).__module__ == "pydantic.fields":
        raise Unsupported("its default is `Field(...)`. Move it to `Annotated[..., Field(...)]`")
    spelled = clip(repr(default))
    try:
        made = part.adapter.validator.validate_python(default)
    except ValidationError:
        made = object()  # which no default equals
    same = made is default or made == default
    fits = type(made) is type(default) or (type(made) is float and type(default) is int)
    if not (same and fits):
        raise Unsupported(f"its default {spelled} does not match its type. Change one of them")
    try:
        in_json = part.adapter.serializer.to_python(default, mode="json", warnings="error")
        canonical(in_json)
    except ValueError as error:  # infinities, surrogate halves, bytes that are not text
        raise Unsupported(f"its default {spelled} has no JSON form") from error
    return in_json


def checker(fields: Mapping[str, tuple[Fragment, bool]]) -> Checker:
    """Return a validator for arguments, from each name's type and whether it is required."""
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
    return _build(core, definitions, pair_counter(core["fields"]))


def compile_checker(core: Core, definitions: Mapping[str, Core]) -> Checker:
    """Return a validator from a core schema. Raises Unsupported if pydantic refuses it."""
    by_name = {name: make_strict(below) for name, below in definitions.items()}
    try:
        checker = _build(*_tag_all(make_strict(core), by_name), None)
    except SchemaError as error:
        raise Unsupported(clip(str(error))) from error
    return replace(checker, passes_on=True)


def _tag_all(core: Core, definitions: Mapping[str, Core]) -> tuple[Core, dict[str, Core]]:
    by_name = {name: tag_unions(below, definitions) for name, below in definitions.items()}
    return tag_unions(core, definitions), by_name


def _build(core: Core, definitions: Mapping[str, Core], pairs: Count | None) -> Checker:
    stopping = {name: stop_early(below) for name, below in definitions.items()}
    return Checker(
        _make_validator(stop_early(core), stopping),
        cache(partial(_make_validator, core, definitions)),
        pairs,
        _visits_to_count(core, definitions),
        cache(partial(VisitCounter, core, definitions)),
    )


def _visits_to_count(core: Core, definitions: Mapping[str, Core]) -> VisitCounter | None:
    if not any(map(has_unions, (core, *definitions.values()))):
        return None
    visits = VisitCounter(core, definitions)
    return None if visits.are_always_few() else visits


def json_text(value: object) -> str:
    """Return a mapping as JSON text. Raises NotJson if it has no JSON form."""
    try:
        return to_json(value, inf_nan_mode="constants", fallback=_as_dict).decode()
    except PydanticSerializationError as error:
        raise NotJson("the arguments cannot be written as JSON") from error


def _as_dict(value: Any) -> dict[Any, Any]:
    """Return any mapping as a dict, such as the arguments of a checked call."""
    if not isinstance(value, Mapping):
        raise TypeError(type(value).__name__)
    return dict(value)  # pyright: ignore[reportUnknownArgumentType]


def pattern_works(pattern: str) -> bool:
    """Return whether the linear-time regex engine supports this pattern."""
    try:
        SchemaValidator({"type": "str", "pattern": pattern})
    except SchemaError:
        return False
    return True


_REFUSALS = (
    pydantic.PydanticUserError,
    pydantic.PydanticUndefinedAnnotation,
    ImportError,  # a type from a package that is not installed
    SchemaError,  # a pattern the linear-time engine does not support
    TypeError,  # a type refusing to be sent by a model
)


def describe_type(annotation: Any, *, mode: Any) -> tuple[pydantic.TypeAdapter[Any], JsonSchema]:
    """Return pydantic's adapter for a type, and its JSON Schema with all definitions.

    Raises Unsupported if pydantic refuses the type.
    """
    # the slower half of pydantic's import, needed only with the first tool
    from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PydanticJsonSchemaWarning)
            adapter = pydantic.TypeAdapter(annotation)
            # as a list's item, a model is a reference, so its uses can be counted
            listed: Any = {"type": "list", "items_schema": adapter.core_schema}
            whole = GenerateJsonSchema().generate(listed, mode)
    except (pydantic.PydanticSchemaGenerationError, pydantic.PydanticInvalidForJsonSchema) as error:
        raise Unsupported(NO_FORM) from error
    except (PydanticJsonSchemaWarning, *_REFUSALS) as error:
        message = str(error).partition("\n\nFor further")[0]
        raise Unsupported(clip(" ".join(message.split()), 200).rstrip(".")) from error
    return adapter, {**whole["items"], "$defs": whole.get("$defs", {})}


def compute_once(work: Any, annotation: Any) -> Any:
    """Call a cached function for a type; without its cache if the type has no hash."""
    try:
        hash(annotation)
    except TypeError:  # unhashable metadata
        return work.__wrapped__(annotation, "")
    # `int | str` equals `str | int`, but their schemas differ in order
    return work(annotation, "" if type(annotation) is type else repr(annotation))


def _merge_definitions(
    schema: JsonSchema, own: Mapping[str, JsonSchema], into: dict[str, JsonSchema]
) -> JsonSchema:
    """Add a type's definitions to a function's. One with a name already in use is renamed."""
    tries = dict.fromkeys(own, 1)
    names = {name: name for name in own}
    made = dict(own)
    # a new name changes the definitions referring to it, which may then need a new name too
    while clash := [name for name in own if into.get(names[name], made[name]) != made[name]]:
        for name in clash:
            tries[name] += 1
            names[name] = f"{name}_{tries[name]}"
        made = {name: rename_references(below, names) for name, below in own.items()}
    into.update((names[name], below) for name, below in made.items())
    return rename_references(schema, names)


def _make_validator(core: Core, definitions: Mapping[str, Core]) -> Run:
    whole: Any = core
    if definitions:
        whole = {"type": "definitions", "schema": core, "definitions": list(definitions.values())}
    # a model's prebuilt validator ignores unknown fields: decision 009
    return SchemaValidator(whole, {"strict": True}, _use_prebuilt=False).validate_json
