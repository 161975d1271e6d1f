"""Make validator schemas strict, and refuse types JSON cannot represent.

pydantic describes a type as nested dictionaries before it builds a validator. This module reads and
changes these dictionaries; it does not import pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from enum import Enum
from functools import partial
from typing import Any, TypeAlias, cast

from handrail._schema.hashed_items import guard_set
from handrail._support import is_list, is_object

Core: TypeAlias = dict[str, Any]
"""A schema for pydantic-core."""


class Unsupported(Exception):
    """A type or a default JSON cannot represent. The message says why."""


_KEEPS_SCALARS = "handrail_keeps_scalars"
"""Marks a function before a schema passing scalars on unchanged."""

NO_FORM = "its type has no JSON form. Use a dataclass, a TypedDict or a pydantic model"

_ANY: Core = {"type": "any"}
_BELOW = frozenset(
    "schema items_schema keys_schema values_schema extras_schema choices steps fields definitions "
    "lax_schema strict_schema json_schema python_schema".split()
)
"""Schema keys with other schemas below."""
_BELOW_FROM_JSON = _BELOW - {"python_schema", "lax_schema"}
_FIELDS = frozenset(("model-fields", "dataclass-args", "typed-dict"))
_OWNERS = frozenset(("model", "dataclass", "typed-dict"))

_UNFILLABLE = frozenset("call callable complex custom generator is-instance is-subclass".split())
_FOLDING = frozenset(("str_strip_whitespace", "str_to_lower", "str_to_upper"))
_SETS = frozenset(("set", "frozenset"))
_UNHASHABLE = frozenset("list set dict typed-dict".split())


def make_strict(core: Core, *, extra: bool = False) -> Core:
    """Return a copy that converts no types, and accepts no infinities and no unknown fields.

    ``extra`` is whether the enclosing type allows other fields.
    """
    made = dict(core)
    kind = made["type"]
    if kind in ("float", "decimal"):
        made["allow_inf_nan"] = False
    if made.get("strict") is False:
        del made["strict"]
    if _has_fields(made.get("default")):
        made["default_factory"] = partial(deepcopy, made.pop("default"))
    if kind in _OWNERS:
        config = made.get("config", {})
        extra = config.get("extra_fields_behavior") == "allow"
        made["config"] = {**config, "strict": True}
    if kind in _FIELDS:
        extra = made.get("extra_behavior") == "allow" or extra
        made["extra_behavior"] = "allow" if extra else "forbid"
    made = _copy(made, lambda below: make_strict(below, extra=extra))
    if kind in ("literal", "enum") and (guard := _guard(_scalar_kinds(made))):
        named = {"ref": made.pop("ref")} if "ref" in made else {}
        return {
            "type": "function-before",
            "function": {"type": "no-info", "function": guard},
            "metadata": {_KEEPS_SCALARS: True},
            "schema": made,
            **named,
        }
    return guard_set(made) if kind in _SETS else made


def _has_fields(default: object) -> bool:
    """Return whether calls could change a default pydantic does not copy: it has a hash."""
    parts: Any = default
    if isinstance(default, tuple | frozenset):
        return any(map(_has_fields, parts))
    return hasattr(type(default), "__dataclass_fields__")


def stop_early(core: Core) -> Core:
    """Return a copy whose lists are validated only up to their first mistake."""
    made = _copy(core, stop_early)
    if made["type"] in _LISTS:
        made["fail_fast"] = True
    return made


def tag_unions(core: Core, definitions: Mapping[str, Core]) -> Core:
    """Return a copy whose unions try as few choices as possible.

    Equal choices are tried once. If a required field has different constants in all choices, they
    become a tagged union, in which this field selects the choice. Otherwise each level of a
    recursive union would try all choices on everything below.
    """
    made = _copy(core, lambda below: tag_unions(below, definitions))
    if made["type"] != "union" or "custom_error_type" in made:
        return made
    choices: list[Any] = made["choices"]
    if len(choices) <= _MAX_COMPARED_CHOICES:
        choices = [choice for at, choice in enumerate(choices) if choice not in choices[:at]]
    objects = [choice for choice in choices if _may_take_object(strip_label(choice), definitions)]
    tag = _find_tag([_constants(strip_label(choice), definitions) for choice in objects])
    if tag is None:
        return {**made, "choices": choices}
    name, values = tag
    union: Core = {
        "type": "tagged-union",
        "discriminator": name,
        "choices": {
            value: strip_label(choice)
            for choice, own in zip(objects, values, strict=True)
            for value in own
        },
    }
    if len(objects) == len(choices):
        return {**{key: made[key] for key in ("ref", "metadata") if key in made}, **union}
    others = [choice for choice in choices if not any(choice is taken for taken in objects)]
    first = next(at for at, choice in enumerate(choices) if choice is objects[0])
    return {**made, "choices": [*others[:first], union, *others[first:]]}


_MAX_COMPARED_CHOICES = 32
"""Union choices up to which equal ones are removed."""
_LISTS = frozenset("list set frozenset tuple".split())
_ONLY_SCALARS = frozenset(
    "none bool int float decimal str bytes date time datetime timedelta literal enum url "
    "multi-host-url uuid".split()
)
_Constants: TypeAlias = dict[str, list[Any]]


def strip_label(choice: Any) -> Core:
    """Return a union's choice without its label."""
    core: Core = choice if is_object(choice) else choice[0]
    return core


def fields_by_name(core: Core) -> list[tuple[str, Core]]:
    """Return an object's fields with their names, or none for any other schema."""
    if core["type"] not in _FIELDS:
        return []
    fields: Any = core["fields"]
    return (
        list(fields.items()) if is_object(fields) else [(field["name"], field) for field in fields]
    )


def _resolve(core: Core, definitions: Mapping[str, Core]) -> Core:
    """Return the schema behind references and functions."""
    kind = core["type"]
    if kind == "definition-ref":
        return _resolve(definitions[core["schema_ref"]], definitions)
    if kind == "chain" and len(core["steps"]) == 1:
        return _resolve(core["steps"][0], definitions)
    if kind == "function-after" or _KEEPS_SCALARS in core.get("metadata", {}):
        return _resolve(core["schema"], definitions)
    return core


def _may_take_object(core: Core, definitions: Mapping[str, Core]) -> bool:
    kind = _resolve(core, definitions)["type"]
    return kind not in _ONLY_SCALARS and kind not in _LISTS


def _constants(core: Core, definitions: Mapping[str, Core]) -> _Constants:
    """Return an object's required fields that allow only listed values, with these values."""
    core = _resolve(core, definitions)
    config: Mapping[str, Any] = core.get("config", {})
    if core["type"] in ("model", "dataclass"):
        core = _resolve(core["schema"], definitions)
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    found: _Constants = {}
    for name, field in [] if by_name else fields_by_name(core):
        constant = _resolve(field["schema"], definitions)
        is_needed = field.get("required", True) and "missing" not in constant
        values = _scalar_values(constant) if is_needed else []
        if values and all(type(value) in (str, int) for value in values):
            found[field.get("validation_alias", name)] = values
    return found


def _find_tag(choices: list[_Constants]) -> tuple[str, list[list[Any]]] | None:
    """Return a field every choice has, with values no two choices share."""
    for name in choices[0] if len(choices) > 1 else ():
        values = [constants.get(name, []) for constants in choices]
        flat = [value for own in values for value in own]
        if all(values) and len(set(flat)) == len(flat):
            return name, values
    return None


def check_fillable(core: Core, *, folds: bool = False) -> Core:
    """Reject a type JSON cannot represent, or not without loss.

    ``folds`` is whether the enclosing type changes all strings inside, also keys.
    """
    if core["type"] in _OWNERS:
        folds = not _FOLDING.isdisjoint(core.get("config", {}))
    if why := _why_untellable(core, folds=folds):
        raise Unsupported(why)
    for below in _from_json(core):
        check_fillable(below, folds=folds)
    return core


def has_aliases(core: Core) -> bool:
    """Return whether a field inside has another name when it is serialized."""
    return _contains(core, lambda below: "serialization_alias" in below)


def has_unions(core: Core) -> bool:
    """Return whether there is a union inside, so a value may be visited more than once."""
    return _contains(core, lambda below: below["type"] in ("union", "tagged-union"))


def holds_no_object(core: Core) -> bool:
    """Return whether a value of this type neither is nor contains a JSON object."""
    return not _contains(core, _may_hold_object)


def _may_hold_object(core: Core) -> bool:
    kind = core["type"]
    if kind == "function-before":
        return _KEEPS_SCALARS not in core.get("metadata", {})
    if kind == "enum":  # with its own `_missing_`, it can accept any value
        return core["cls"]._missing_.__func__ is not _ANSWERS_FOR_NOTHING
    if kind in _LISTS:
        return "items_schema" not in core
    return kind not in _ONLY_SCALARS and kind not in _AROUND_OTHERS


_ANSWERS_FOR_NOTHING: object = vars(Enum)["_missing_"].__func__
_AROUND_OTHERS = frozenset(
    "default nullable json-or-python lax-or-strict union function-after".split()
)
"""Schemas whose values come from the schemas inside."""


def _contains(core: Core, applies: Callable[[Core], bool]) -> bool:
    return applies(core) or any(_contains(below, applies) for below in _from_json(core))


def _copy(core: Core, change: Callable[[Core], Core]) -> Core:
    """Copy a schema with all schemas inside changed."""
    return {key: _map_schemas(core[key], change) if key in _BELOW else core[key] for key in core}


def _map_schemas(value: Any, change: Callable[[Core], Core]) -> Any:
    if isinstance(value, tuple):  # a union's choice and its label
        choice, label = cast("tuple[Core, str]", value)
        return _map_schemas(choice, change), label
    if is_list(value):
        return [_map_schemas(item, change) for item in value]
    if not is_object(value):
        return value
    if isinstance(value.get("type"), str):
        return change(value)
    return {name: _map_schemas(item, change) for name, item in value.items()}


def _from_json(core: Core) -> list[Core]:
    """Return the schemas directly inside one, if JSON can reach them."""
    schemas: list[Core] = []

    def collect(below: Core) -> Core:
        schemas.append(below)
        return below

    for key in core.keys() & _BELOW_FROM_JSON:
        _map_schemas(core[key], collect)
    return schemas


def _why_untellable(core: Core, *, folds: bool) -> str | None:
    """Return why JSON cannot represent a type, and what to use instead."""
    kind = core["type"]
    if kind in _UNFILLABLE:
        return NO_FORM
    item = core.get("items_schema", _ANY) if kind in _SETS else _ANY
    if item["type"] in _UNHASHABLE or item.get("cls", int).__hash__ is None:
        return "a set cannot contain such items. Use a list"
    if kind == "dict" and (folds or not _keeps_keys(core.get("keys_schema", _ANY))):
        return "keys of JSON objects are strings. Use `dict[str, ...]`"
    if core.get("custom_init"):
        return "a model with a custom `__init__` cannot be validated. Use validators"
    if is_list(core.get("validation_alias")):
        return "a field with AliasChoices or AliasPath has several names. Use one alias"
    return None


def _keeps_keys(core: Core) -> bool:
    """Return whether two different keys stay different."""
    if core["type"] == "str":
        return not core.keys() & {"strip_whitespace", "to_lower", "to_upper"}
    return core["type"] == "any" or _scalar_kinds(core) == frozenset((str,))


def _scalar_kinds(core: Core) -> frozenset[type]:
    """Return the value types a Literal or an Enum allows, or none for anything else."""
    return frozenset(map(type, _scalar_values(core)))


def _scalar_values(core: Core) -> list[Any]:
    if core["type"] == "enum":
        return [member.value for member in core["members"]]
    values: list[Any] = core.get("expected", [])
    return values


def _guard(kinds: frozenset[type]) -> Callable[[Any], Any] | None:
    """Return a function that keeps booleans and numbers apart, since Python has ``True == 1``."""
    numbers = bool(kinds & {int, float})
    if numbers == (bool in kinds):
        return None
    return _no_boolean if numbers else _no_number


def _no_boolean(value: Any) -> Any:
    if type(value) is bool:
        raise ValueError("expected a number, not a boolean")
    return value


def _no_number(value: Any) -> Any:
    if type(value) in (int, float):
        raise ValueError("expected true or false")
    return value
