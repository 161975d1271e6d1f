"""Validator schemas as plain data: made strict, and refused where no JSON could fill them.

pydantic describes a type as nested dictionaries before it builds a validator. This is where they
are read and changed; nothing here imports pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

from handrail._content import is_list, is_object
from handrail._pairs import KEEPS_SCALARS

Core: TypeAlias = dict[str, Any]
"""A schema as pydantic-core takes it."""


class Unsupported(Exception):
    """A type or a default that cannot be told to a model; the text says why."""


NO_FORM = "its type has no JSON form. Take a dataclass, a TypedDict or a pydantic model"

_ANY: Core = {"type": "any"}
_BELOW = (
    "schema items_schema keys_schema values_schema extras_schema choices steps fields definitions "
    "lax_schema strict_schema json_schema python_schema"
).split()
"""Where a schema holds other schemas."""
_NOT_FROM_JSON = frozenset(("python_schema", "lax_schema"))
_FIELDS = frozenset(("model-fields", "dataclass-args", "typed-dict"))
_OWNERS = frozenset(("model", "dataclass", "typed-dict"))

_UNFILLABLE = frozenset("call callable complex custom generator is-instance is-subclass".split())
_FOLDING = frozenset(("str_strip_whitespace", "str_to_lower", "str_to_upper"))
_SETS = frozenset(("set", "frozenset"))
_UNHASHABLE = frozenset("list set dict typed-dict".split())


def strict(core: Core, *, extra: bool = False) -> Core:
    """A copy that takes nothing for what it is not, no infinity and no unknown field.

    ``extra`` says whether the type around this one declared that it takes more fields.
    """
    made = dict(core)
    kind = made["type"]
    if kind in ("float", "decimal"):
        made["allow_inf_nan"] = False
    if made.get("strict") is False:
        del made["strict"]
    if kind in _OWNERS:
        config = made.get("config", {})
        extra = config.get("extra_fields_behavior") == "allow"
        made["config"] = {**config, "strict": True}
    if kind in _FIELDS:
        extra = made.get("extra_behavior") == "allow" or extra
        made["extra_behavior"] = "allow" if extra else "forbid"
    for key, value in _children(made):
        made[key] = _each(value, lambda below: strict(below, extra=extra))
    if kind in ("literal", "enum") and (guard := _guard(_scalar_kinds(made))):
        named = {"ref": made.pop("ref")} if "ref" in made else {}
        return {
            "type": "function-before",
            "function": {"type": "no-info", "function": guard},
            "metadata": {KEEPS_SCALARS: True},
            "schema": made,
            **named,
        }
    return made


def check_fillable(core: Core, *, folds: bool = False) -> Core:
    """Refuse a type that no JSON value can fill, or only by losing something on the way.

    ``folds`` says whether the type around this one changes all strings inside, keys too.
    """
    if core["type"] in _OWNERS:
        folds = not _FOLDING.isdisjoint(core.get("config", {}))
    for applies, why in _UNTELLABLE:
        if applies(core):
            raise Unsupported(why)
    if core["type"] == "dict" and (folds or not _keeps_keys(core.get("keys_schema", _ANY))):
        raise Unsupported("JSON has only strings as keys. Take `dict[str, ...]`")
    for key, value in _children(core):
        if key not in _NOT_FROM_JSON:
            _each(value, lambda below: check_fillable(below, folds=folds))
    return core


def _children(core: Core) -> Iterator[tuple[str, Any]]:
    for key in _BELOW:
        if key in core:
            yield key, core[key]


def _each(value: Any, change: Callable[[Core], Core]) -> Any:
    if isinstance(value, tuple):  # a union's choice and its label
        choice, label = cast("tuple[Core, str]", value)
        return _each(choice, change), label
    if is_list(value):
        return [_each(item, change) for item in value]
    if not is_object(value):
        return value
    if isinstance(value.get("type"), str):
        return change(value)
    return {name: _each(item, change) for name, item in value.items()}


def _is_unhashable(core: Core) -> bool:
    return core["type"] in _UNHASHABLE or core.get("cls", int).__hash__ is None


_UNTELLABLE: tuple[tuple[Callable[[Core], Any], str], ...] = (
    (lambda core: core["type"] in _UNFILLABLE, NO_FORM),
    (
        lambda core: core["type"] in _SETS and _is_unhashable(core.get("items_schema", _ANY)),
        "a set cannot hold such items. Take a list",
    ),
    (
        lambda core: core.get("custom_init"),
        "a model with an `__init__` of its own is not checked. Use validators",
    ),
    (
        lambda core: is_list(core.get("validation_alias")),
        "a field with AliasChoices or AliasPath has no one name. Give it one",
    ),
)
"""What a type must not be, and what to do about it."""


def _keeps_keys(core: Core) -> bool:
    """Whether two different keys stay two different keys."""
    if core["type"] == "str":
        return not core.keys() & {"strip_whitespace", "to_lower", "to_upper"}
    return core["type"] == "any" or _scalar_kinds(core) == frozenset((str,))


def _scalar_kinds(core: Core) -> frozenset[type]:
    """The types of the values that a Literal or an Enum allows; none, for anything else."""
    values: list[object] = core.get("expected", [])
    if core["type"] == "enum":
        values = [member.value for member in core["members"]]
    return frozenset(map(type, values))


def _guard(kinds: frozenset[type]) -> Callable[[Any], Any] | None:
    """What must not slip in because Python takes ``True`` for 1."""
    numbers = bool(kinds & {int, float})
    if numbers == (bool in kinds):
        return None
    return _no_boolean if numbers else _no_number


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number, not a boolean")  # noqa: TRY004  validators speak so
    return value


def _no_number(value: Any) -> Any:
    if type(value) in (int, float):
        raise ValueError("expected true or false")
    return value
