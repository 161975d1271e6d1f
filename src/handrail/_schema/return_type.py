"""Return types: the output schema, value serialization, and matching.

The serializer checks neither bounds nor required dictionary keys. These are checked in the
serialized JSON, by the same schema a model receives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, TypeAlias

from handrail._labels.sources import OWN_KEY, OwnValue
from handrail._schema.json_schema import JsonSchema, deep_copy, inline_definitions, subschemas, tidy
from handrail._schema.marks import find_leaves, find_marked, split_marks
from handrail._schema.problems import problems
from handrail._schema.remote import output_checker
from handrail._schema.strictness import has_aliases
from handrail._schema.validator import (
    Checker,
    ValidationError,
    compute_once,
    describe_type,
    json_of,
)
from handrail._values.strict_json import format_path

FindOwn: TypeAlias = Callable[[Any], Iterable[OwnValue]]


@dataclass(slots=True)
class Promise:
    """A tool's declared return type: its schema, and how a value is serialized."""

    schema: JsonSchema
    dump: Callable[..., bytes] | None
    """Serializes a value. With ``warnings="error"``, raises ValueError for another type."""
    exact: type | None
    """A class whose instances certainly match, so they need no check.

    It is a number type without bounds, or a model, which was validated when it was created. A model
    from ``model_construct``, or one changed later, is trusted, as pydantic does.
    """
    check: Callable[[str], None] | None
    """Raises ValueError if serialized JSON does not match the schema. None if it always does."""
    elsewhere: bool = False
    """Whether the values come from a server, and can be complete results."""
    is_special: bool = False
    """Whether the values come from a server, or some are the user's own."""
    own: FindOwn | None = None
    """Returns the own values in a result, which is JSON data or text."""


def promise(annotation: Any) -> Promise:
    """Return the declaration for a return type, from the cache if possible."""
    made: Promise = compute_once(_promise, annotation)
    return replace(made, schema=deep_copy(made.schema))


@lru_cache(maxsize=4096)
def _promise(annotation: Any, _spelling: str, /) -> Promise:
    adapter, schema = describe_type(annotation, mode="serialization")
    tidied = tidy(schema, closed=False)
    whole = inline_definitions(tidied, tidied.pop("$defs"))
    core: Any = adapter.core_schema
    certain = core["type"] in ("int", "float", "bool", "model")
    exact = annotation if certain and isinstance(annotation, type) else None
    dump: Callable[..., bytes] = adapter.serializer.to_json
    if has_aliases(core):  # the schema has the fields' serialized names
        dump = partial(dump, by_alias=True)
    if not {"const", "enum"}.isdisjoint(whole):
        whole = {**whole, OWN_KEY: ""}  # the developer wrote the choices
    whole, marked = split_marks(whole)
    check = _make_check(whole) if _has_bounds(whole) else None
    if marked is None:
        return Promise(whole, dump, exact, check)
    own = partial(_find_own, marked)
    if whole == {"type": "string"}:  # text, as without a marker
        return Promise({}, None, None, None, is_special=True, own=own)
    return Promise(whole, dump, None, check, is_special=True, own=own)


def _find_own(marked: JsonSchema, value: Any) -> list[OwnValue]:
    found = find_marked(marked, value, OWN_KEY)
    return [OwnValue(one.value, one.place, one.scheme) for one in found]


def with_own(made: Promise | None, own: Callable[[Any], Any] | None) -> Promise | None:
    """Return a declaration with a function for the own values."""
    if own is None:
        return made
    made = made or Promise({}, None, None, None, elsewhere=True)
    return replace(made, exact=None, is_special=True, own=partial(_call_own, own))


def _call_own(own: Callable[[Any], Any], value: Any) -> list[OwnValue]:
    """Return own values with their places. A function may return them by scheme."""
    given: Any = own(value)
    by_scheme: dict[str, Any] = {**given} if isinstance(given, Mapping) else {"": given}
    places: dict[str, str] = {}
    for leaf in find_leaves(value):
        places.setdefault(leaf.value, leaf.place)
    return [
        OwnValue(str(one), places.get(str(one), ""), scheme)
        for scheme, values in by_scheme.items()
        for one in values
    ]


def remote_promise(schema: Mapping[str, Any] | None) -> Promise | None:
    """Return the declaration for a remote tool's output schema, if it has one."""
    if schema is None:
        return None
    return Promise(
        dict(schema), _write_json, None, _make_check(schema), elsewhere=True, is_special=True
    )


def _write_json(value: object, **_: Any) -> bytes:
    return json_of(value).encode()


_BOUNDS = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern "
    "minItems maxItems required".split()
)


def _has_bounds(schema: JsonSchema) -> bool:
    """Return whether a schema has more than types, which the serializer checks."""
    return any(not _BOUNDS.isdisjoint(node) for _, node in subschemas(schema))


def _make_check(schema: Mapping[str, Any]) -> Callable[[str], None]:
    return partial(_check_fit, cache(partial(output_checker, schema)))


def _check_fit(build: Callable[[], Checker], data: str) -> None:
    checker = build()
    while checker.lighter is not None and _is_too_much(checker, data):
        checker = checker.lighter()
    try:
        checker.run(data)
    except ValidationError as error:
        [first, *_] = problems(error).found
        if first.kind != "json_invalid":  # nested deeper than the validator accepts
            where = format_path(first.path) if first.path else "the result"
            raise ValueError(f"{where}: {first.message}") from None


def _is_too_much(checker: Checker, data: str) -> bool:
    if checker.visits is None or len(data) > checker.max_chars:
        return len(data) > checker.max_chars
    try:
        return checker.visits.excess(json.loads(data), len(data)) != ""
    except (RecursionError, ValueError):  # too deep, or a number with too many digits
        return True
