"""How many key-value pairs a typed value was read from.

JSON text has at least one colon per pair, and a key that stands twice in an object has two colons
but ends up as one pair. So where the count of colons equals the count of pairs, no key stood
twice: a proof that costs a fraction of reading the text again. Where a value cannot be counted,
or the counts differ (a colon in a string), the slow way decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any, TypeAlias

from handrail._content import is_object

Node: TypeAlias = Mapping[str, Any]
Count: TypeAlias = Callable[[Any], int]


KEEPS_SCALARS = "handrail_keeps_scalars"
"""Marks a function in front of a schema that hands scalars on as they are."""


class Uncountable(Exception):
    """A value of this schema does not tell what it was read from."""


_SCALARS = frozenset(
    "none bool int float decimal str bytes date time datetime timedelta literal enum url "
    "multi-host-url uuid complex".split()
)


_UNANSWERED: object = vars(Enum)["_missing_"].__func__
"""What an Enum has that does not answer for unknown values."""


def counter(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    """A function that counts the pairs of a value of this core schema; None if it has none."""
    kind: str = node["type"]
    if kind in _SCALARS:
        if kind == "enum" and node["cls"]._missing_.__func__ is not _UNANSWERED:
            raise Uncountable(kind)  # it takes what it likes, so look at all of it
        return None
    if kind in _COUNTERS:
        return _COUNTERS[kind](node, definitions)
    raise Uncountable(kind)


def _inner(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    return counter(node["schema"], definitions)


def _after(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    if _inner(node, definitions) is None:
        return None  # whatever the function made of it, it was read from a scalar
    raise Uncountable("function-after")


def _before(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    if KEEPS_SCALARS not in node.get("metadata", {}):
        raise Uncountable("function-before")  # it may have been handed anything
    return _inner(node, definitions)


def _nullable(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    count = counter(node["schema"], definitions)
    return count and (lambda value: 0 if value is None else count(value))


def _json_branch(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    return counter(node["json_schema"], definitions)


def _strict_branch(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    return counter(node["strict_schema"], definitions)


def _union(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    choices: list[Any] = node["choices"]
    for choice in choices:  # a schema, or a schema and its label
        one: Node = choice if is_object(choice) else choice[0]
        if counter(one, definitions) is not None:
            raise Uncountable("union")
    return None


def _list(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    count = counter(node.get("items_schema", {"type": "any"}), definitions)
    if count is given:
        return listed
    if isinstance(count, Constant) and not count.many:
        return Constant(count.each, many=True)
    return count and (lambda value: sum(map(count, value)))


def _unordered(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    if _list(node, definitions) is None:
        return None
    raise Uncountable("set")  # equal items have become one


def _tuple(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    if any(counter(item, definitions) for item in node["items_schema"]):
        raise Uncountable("tuple")
    return None


def _dict(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    count = counter(node.get("values_schema", {"type": "any"}), definitions)
    return len if count is None else (lambda value: len(value) + sum(map(count, value.values())))


def _typed_dict(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    if node.get("extra_behavior") == "allow":
        raise Uncountable("typed-dict")
    if any(field["schema"]["type"] == "default" for field in node["fields"].values()):
        raise Uncountable("typed-dict")
    below = _fields(node, definitions)
    if not below:
        return len

    def count(value: Mapping[str, Any]) -> int:
        return len(value) + sum(one(value[name]) for name, one in below if name in value)

    return count


fields_set = attrgetter("__pydantic_fields_set__")


def given(value: Any) -> int:
    """The pairs of a model that has no models inside."""
    return len(value.__pydantic_fields_set__)


def listed(value: Any) -> int:
    """The pairs of a list of those; without a Python call for each item."""
    return sum(map(len, map(fields_set, value)))


class Constant:
    """The pairs of a model all of whose fields are required, or of a list of those."""

    def __init__(self, each: int, *, many: bool = False) -> None:
        self.each = each
        self.many = many
        self.expression = f"{each} * len({{}})" if many else str(each)

    def __call__(self, value: Any) -> int:
        return self.each * len(value) if self.many else self.each


EXPRESSIONS: Mapping[Any, str] = {
    given: "len(fields_set({}))",
    listed: "sum(map(len, map(fields_set, {})))",
}
"""The two as expressions, in which the braces stand for the value."""


def _model(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    if node.get("post_init") or node["schema"]["type"] != "model-fields":
        raise Uncountable("model")
    if node["schema"].get("extra_behavior") == "allow":
        raise Uncountable("model")
    below = _fields(node["schema"], definitions)
    fields = node["schema"]["fields"].values()
    if not below and all(field["schema"]["type"] != "default" for field in fields):
        return Constant(len(fields))
    if not below:
        return given

    def count(value: Any) -> int:
        given: set[str] = value.__pydantic_fields_set__
        return len(given) + sum(one(getattr(value, name)) for name, one in below if name in given)

    return count


def _fields(node: Node, definitions: Mapping[str, Node]) -> list[tuple[str, Count]]:
    counts = {name: counter(f["schema"], definitions) for name, f in node["fields"].items()}
    return [(name, count) for name, count in counts.items() if count is not None]


def _definition(node: Node, definitions: Mapping[str, Node]) -> Count | None:
    reference = node["schema_ref"]
    if reference not in definitions:
        raise Uncountable("recursive")
    others = {name: one for name, one in definitions.items() if name != reference}
    return counter(definitions[reference], others)


_COUNTERS: dict[str, Callable[[Node, Mapping[str, Node]], Count | None]] = {
    "default": _inner,
    "function-after": _after,
    "function-before": _before,
    "nullable": _nullable,
    "json-or-python": _json_branch,
    "lax-or-strict": _strict_branch,
    "union": _union,
    "list": _list,
    "set": _unordered,
    "frozenset": _unordered,
    "tuple": _tuple,
    "dict": _dict,
    "typed-dict": _typed_dict,
    "model": _model,
    "definition-ref": _definition,
}
