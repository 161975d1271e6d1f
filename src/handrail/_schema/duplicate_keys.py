"""Count the key-value pairs behind typed arguments, to detect duplicate keys cheaply.

JSON text has a colon for each pair, and a duplicate key has two colons but leaves one pair. So if
there are no more colons than pairs, no key is duplicate, and the text need not be parsed again.
Arguments with other types, and texts with colons in strings, are parsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

from handrail._schema.strictness import Core, holds_no_object

Count: TypeAlias = Callable[[Any], int]


def pair_counter(fields: Mapping[str, Core]) -> Count | None:
    """Return a function that counts the pairs of arguments, or None if that needs the text.

    The function is one expression, since every call runs it.
    """
    terms = ["len(v)"]
    for name, field in fields.items():
        if holds_no_object(field["schema"]):
            continue
        term = _count_expression(field["schema"], f"v[{name!r}]")
        if term is None:
            return None
        terms.append(term if field["required"] else f"({term} if {name!r} in v else 0)")
    if len(terms) == 1:
        return len
    count: Count = eval(f"lambda v: {' + '.join(terms)}", {"given": _GIVEN})  # noqa: S307  names are quoted
    return count


_GIVEN = attrgetter("__pydantic_fields_set__")
"""Returns a model's given fields, without defaults."""


def _count_expression(core: Core, value: str) -> str | None:
    """Return an expression for the pair count in a plain model, or in a list of them."""
    if core["type"] != "list":
        return f"len(given({value}))" if _is_plain_model(core) else None
    item = core.get("items_schema", {"type": "any"})
    if not _is_plain_model(item):
        return None
    fields = item["schema"]["fields"].values()
    if all(field["schema"]["type"] != "default" for field in fields):
        return f"{len(fields)} * len({value})"
    return f"sum(map(len, map(given, {value})))"


def _is_plain_model(core: Core) -> bool:
    """Return whether this is a model that records given fields, without objects inside."""
    fields = core.get("schema", {})
    return (
        core["type"] == "model"
        and not core.get("post_init")
        and fields["type"] == "model-fields"
        and fields["extra_behavior"] == "forbid"
        and all(holds_no_object(field["schema"]) for field in fields["fields"].values())
    )
