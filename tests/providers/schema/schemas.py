"""JSON Schemas at random: sensible ones, and anything at all."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "user-id", "kind"])
SCALARS = st.sampled_from(["a", "b", "abc", 0, 1, 2.5, True, False, None])
VALUES = st.one_of(SCALARS, st.just({"x": 1}), st.just([1]))
SMALL = st.integers(0, 3)
PATTERNS = st.sampled_from(["^a", "b$", "^[a-z]+$", "(?=a)", "x|y"])

STRING = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": SMALL,
        "maxLength": st.integers(2, 6),
        "pattern": PATTERNS,
        "format": st.sampled_from(["date", "uri", "x"]),
    },
)
NUMBER = st.fixed_dictionaries(
    {"type": st.sampled_from(["number", "integer"])},
    optional={
        "minimum": SMALL,
        "maximum": st.integers(3, 9),
        "exclusiveMinimum": SMALL,
        "exclusiveMaximum": st.integers(4, 9),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
    },
)
PLAIN = st.sampled_from(
    [
        {},
        True,
        False,
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"type": "object"},
        {"type": "array"},
        {"minLength": 1},
        {"description": "Some words"},
    ]
)
LISTED = st.one_of(
    st.builds(lambda some: {"enum": some}, st.lists(VALUES, min_size=1, max_size=4)),
    st.builds(lambda one: {"const": one}, VALUES),
)
REFERENCE = st.builds(lambda name: {"$ref": f"#/$defs/{name}"}, st.sampled_from(["A", "B"]))
LEAVES = st.one_of(PLAIN, STRING, NUMBER, LISTED, REFERENCE)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of objects."""
    return st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "patternProperties": st.dictionaries(PATTERNS, inner, max_size=1),
            "propertyNames": STRING,
            "minProperties": SMALL,
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=1), max_size=1),
            "unevaluatedProperties": st.one_of(st.booleans(), inner),
            "description": st.just("An object."),
            "default": VALUES,
        },
    )


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of arrays."""
    return st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": st.one_of(st.booleans(), inner),
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": SMALL,
            "maxItems": SMALL,
            "uniqueItems": st.booleans(),
            "contains": inner,
            "unevaluatedItems": st.one_of(st.booleans(), inner),
        },
    )


def joined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas with several constraints on one value."""
    some = st.lists(inner, min_size=1, max_size=3)
    beside = st.one_of(st.just({}), objects(inner), STRING, st.just({"description": "Said."}))
    more = st.one_of(
        st.builds(lambda one: {"anyOf": one}, some),
        st.builds(lambda one: {"oneOf": one}, some),
        st.builds(lambda one: {"allOf": one}, some),
        st.builds(lambda one: {"not": one}, inner),
        st.builds(
            lambda one, two, three: {"if": one, "then": two, "else": three}, inner, inner, inner
        ),
        REFERENCE,
    )
    return st.builds(lambda one, two: {**one, **two}, beside, more)


NODES = st.recursive(
    LEAVES, lambda inner: st.one_of(objects(inner), arrays(inner), joined(inner)), max_leaves=8
)


@st.composite
def tools(draw: st.DrawFn) -> dict[str, Any]:
    """Schemas of a tool's arguments."""
    root = draw(st.one_of(objects(NODES), objects(NODES), joined(objects(NODES))))
    defs = {
        "A": draw(st.one_of(STRING, objects(NODES), NODES)),
        "B": draw(st.one_of(NUMBER, arrays(NODES))),
    }
    return {**root, "$defs": defs}


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)
KEYWORDS = st.sampled_from(
    "$ref $defs $id $dynamicRef $recursiveRef $anchor type enum const properties required additionalProperties patternProperties propertyNames dependencies dependentRequired dependentSchemas unevaluatedProperties unevaluatedItems items prefixItems additionalItems contains minContains anyOf oneOf allOf not if then else minimum exclusiveMinimum multipleOf minLength pattern format description title default examples deprecated".split()
)
REFERENCES = st.sampled_from(
    [
        "#",
        "#/",
        "#/$defs/a",
        "#/properties/a",
        "#a",
        "http://x",
        "",
        "#/$defs/a~1",
        "#/items/0",
        "#/properties",
    ]
)
WILD = st.recursive(
    st.one_of(JSON, REFERENCES, st.sampled_from(["object", "array", "string", "^a", "(", "[["])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(KEYWORDS, KEYWORDS, st.sampled_from("ab")), inner, max_size=5),
    ),
    max_leaves=20,
)
