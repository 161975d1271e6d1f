"""Awkward schemas, each with a name that says why. Run this file to update the golden data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from handrail import Spec
from handrail.providers import CompiledTool
from providers.apis import APIS

DATA = Path(__file__).parents[2] / "data" / "providers" / "compile"


def of(required: list[str] | None = None, /, **properties: Any) -> dict[str, Any]:
    """An object with properties, as most tools have it."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}


def deep(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        made = of(next=made)
    return made


def nested(kind: str, levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"const": kind}
    for _ in range(levels):
        made = of(next=made)
    return made


def stacked(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        made = {"type": "array", "items": made}
    return made


def nest(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = [made]
    return made


def ref(name: str, **beside: Any) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}", **beside}


CIRCLE = of(kind={"const": "circle"}, radius={"type": "number"})
SQUARE = of(kind={"const": "square"}, side={"type": "number"})
NODE = of(["value"], value=STRING, next=ref("Node"))
TREE = of(value=STRING, children={"type": "array", "items": ref("Tree")})
ANY_JSON = {
    "anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        {"type": "array", "items": ref("Json")},
        {"type": "object", "additionalProperties": ref("Json")},
    ]
}

ZOO: dict[str, Any] = {
    "plain": of(path={"type": "string", "description": "Where."}, count=INTEGER),
    "no parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    "no parameters, unsaid": {"type": "object", "properties": {}},
    "bare object": {"type": "object"},
    "empty schema": {},
    "true": True,
    "false": False,
    "no object": {"type": "array", "items": STRING},
    "object or null": {"type": ["object", "null"], "properties": {"a": STRING}, "required": ["a"]},
    "no type": {"properties": {"a": STRING}, "required": ["a"]},
    "optional": of(["a"], a=STRING, b=INTEGER),
    "optional with default": of(
        ["a"], a=STRING, b={"type": "integer", "default": 5, "description": "How many"}
    ),
    "optional, null by default": of(
        ["a"], a=STRING, b={"anyOf": [STRING, {"type": "null"}], "default": None}
    ),
    "optional and nullable": of(["a"], a=STRING, b={"type": ["string", "null"]}),
    "open object": {
        "type": "object",
        "properties": {"a": STRING},
        "required": ["a"],
        "additionalProperties": True,
    },
    "unsaid whether open": {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
    "free-form parameter": of(labels={"type": "object"}),
    "free-form, said so": of(
        labels={"type": "object", "additionalProperties": True, "description": "Any labels."}
    ),
    "map of strings": of(labels={"type": "object", "additionalProperties": STRING}),
    "map of objects": of(people={"type": "object", "additionalProperties": of(name=STRING)}),
    "any value": of(value={}),
    "any value, described": of(value={"description": "Whatever fits."}),
    "parameter true": of(value=True),
    "parameter false": of(["a"], a=STRING, gone=False),
    "required parameter false": of(gone=False),
    "required, not listed": {"type": "object", "properties": {"a": STRING}, "required": ["a", "b"]},
    "string limits": of(
        name={"type": "string", "minLength": 1, "maxLength": 20, "description": "A name."}
    ),
    "pattern": of(code={"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"}),
    "pattern that looks ahead": of(code={"type": "string", "pattern": "^(?!x)[a-z]+$"}),
    "pattern of another language": of(code={"type": "string", "pattern": "^\\p{L}+$"}),
    "broken pattern": of(code={"type": "string", "pattern": "(["}),
    "formats": of(
        when={"type": "string", "format": "date-time"},
        day={"type": "string", "format": "date"},
        mail={"type": "string", "format": "email"},
    ),
    "format uri": of(link={"type": "string", "format": "uri"}),
    "formats of nobody": of(
        x={"type": "string", "format": "binary"}, y={"type": "integer", "format": "int64"}
    ),
    "number limits": of(
        share={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        even={"type": "integer", "multipleOf": 2, "exclusiveMinimum": 0},
    ),
    "array limits": of(
        tags={"type": "array", "items": STRING, "minItems": 1, "maxItems": 3, "uniqueItems": True}
    ),
    "array of at least two": of(tags={"type": "array", "items": STRING, "minItems": 2}),
    "array without items": of(tags={"type": "array"}),
    "array that must contain": of(
        tags={"type": "array", "items": STRING, "contains": {"const": "x"}, "maxContains": 2}
    ),
    "array of nothing": of(tags={"type": "array", "items": False}),
    "tuple": of(
        point={
            "type": "array",
            "prefixItems": [{"type": "number"}, {"type": "number"}],
            "items": False,
            "minItems": 2,
        }
    ),
    "tuple, open": of(row={"type": "array", "prefixItems": [STRING, INTEGER]}),
    "tuple of an old draft": of(
        point={"type": "array", "items": [STRING, INTEGER], "additionalItems": False}
    ),
    "tuple, nothing unevaluated": of(
        point={"type": "array", "prefixItems": [STRING], "unevaluatedItems": False}
    ),
    "enum": of(colour={"type": "string", "enum": ["red", "green"]}),
    "enum without type": of(colour={"enum": ["red", "green"]}),
    "enum with null": of(colour={"enum": ["red", "green", None]}),
    "enum of numbers": of(size={"type": "integer", "enum": [1, 2, 3]}),
    "enum of many types": of(any={"enum": ["a", 1, 1.5, True, None]}),
    "enum of objects": of(point={"enum": [{"x": 0}, {"x": 1}]}),
    "enum against its type": of(any={"type": "string", "enum": ["a", 1]}),
    "enum of one boolean": of(sure={"type": "boolean", "enum": [True]}),
    "huge enum": of(code={"type": "string", "enum": [f"value-{n}" for n in range(1_200)]}),
    "const": of(kind={"const": "circle"}),
    "const null": of(nothing={"const": None}),
    "const object": of(point={"const": {"x": 0}}),
    "type list": of(value={"type": ["string", "integer"]}),
    "type list with limits": of(
        value={"type": ["string", "integer"], "minLength": 2, "minimum": 3}
    ),
    "type list with object": of(
        value={
            "type": ["object", "null"],
            "properties": {"a": STRING},
            "required": ["a"],
            "additionalProperties": False,
        }
    ),
    "type list, optional": of(["a"], a=STRING, b={"type": ["string", "integer"]}),
    "limits without type": of(value={"minLength": 2}),
    "union": of(value={"anyOf": [STRING, INTEGER]}),
    "union of shapes": of(
        shape={"oneOf": [CIRCLE, SQUARE], "discriminator": {"propertyName": "kind"}}
    ),
    "union of shapes, many kinds each": of(
        shape={
            "oneOf": [
                of(kind={"enum": ["circle", "ball"]}, radius={"type": "number"}),
                ref("Square"),
                {"type": "null"},
            ]
        }
    )
    | {"$defs": {"Square": SQUARE}},
    "union of shapes without a kind": of(shape={"oneOf": [of(radius=INTEGER), of(side=INTEGER)]}),
    "union that overlaps": of(
        value={"oneOf": [{"type": "number", "minimum": 0}, {"type": "integer"}]}
    ),
    "union with limits beside": of(
        value={
            "type": "object",
            "properties": {"a": STRING, "b": STRING},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            "additionalProperties": False,
        }
    ),
    "union of one": of(value={"anyOf": [STRING], "description": "Just a string."}),
    "union of unions": of(value={"anyOf": [{"anyOf": [STRING, INTEGER]}, {"type": "null"}]}),
    "union with nothing": of(value={"anyOf": [STRING, False]}),
    "both unions": of(
        value={
            "anyOf": [STRING, INTEGER],
            "oneOf": [{"type": "string", "minLength": 3}, {"type": "string", "maxLength": 5}],
        }
    ),
    "top-level union": {"type": "object", "oneOf": [CIRCLE, SQUARE]},
    "top-level union of requirements": {
        "type": "object",
        "properties": {"id": STRING, "name": STRING},
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    },
    "top-level union of one": {"anyOf": [of(a=STRING)]},
    "top-level allOf": {
        "allOf": [
            {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
            {"properties": {"b": INTEGER}, "required": ["b"]},
        ]
    },
    "top-level allOf that cannot be": {
        "allOf": [{"properties": {"a": STRING}, "required": ["a"]}, {"properties": {"a": INTEGER}}],
        "type": "object",
    },
    "top-level reference": {**ref("Args"), "$defs": {"Args": of(a=STRING)}},
    "top-level not": {**of([], a=STRING, b=STRING), "not": {"required": ["a", "b"]}},
    "top-level enum": {
        "type": "object",
        "properties": {"a": STRING},
        "required": ["a"],
        "enum": [{"a": "x"}, {"a": "y"}],
    },
    "top-level condition": {
        **of(["kind"], kind=STRING, size=INTEGER),
        "if": {"properties": {"kind": {"const": "big"}}},
        "then": {"required": ["size"]},
    },
    "allOf of one reference": of(address={"allOf": [ref("Address")], "description": "Home."})
    | {"$defs": {"Address": of(city=STRING)}},
    "allOf of objects": of(
        both={
            "allOf": [
                {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
                {"type": "object", "properties": {"b": STRING}, "required": ["b"]},
            ]
        }
    ),
    "allOf of closed objects": of(
        both={"allOf": [of(["a"], a=STRING), {"type": "object", "properties": {"b": STRING}}]}
    ),
    "allOf, nothing unevaluated": of(
        both={
            "type": "object",
            "allOf": [{"properties": {"a": STRING}, "required": ["a"]}],
            "properties": {"b": STRING},
            "required": ["b"],
            "unevaluatedProperties": False,
        }
    ),
    "allOf beside nothing unevaluated": of(
        both={
            "type": "object",
            "allOf": [{"patternProperties": {"^a": STRING}}],
            "properties": {"b": STRING},
            "unevaluatedProperties": False,
        }
    ),
    "union beside nothing unevaluated": of(
        both={
            "type": "object",
            "anyOf": [{"patternProperties": {"^a": STRING}}, {"properties": {"c": STRING}}],
            "properties": {"b": STRING},
            "unevaluatedProperties": False,
        }
    ),
    "allOf of two patterns": of(
        code={"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b$"}]}
    ),
    "reference": of(home=ref("Address"), work=ref("Address"))
    | {"$defs": {"Address": of(city=STRING)}},
    "reference with description": of(home=ref("Address", description="Where one lives."))
    | {"$defs": {"Address": of(city=STRING)}},
    "reference with default": of(["a"], a=STRING, home=ref("Colour", default="red"))
    | {"$defs": {"Colour": {"type": "string", "enum": ["red", "green"]}}},
    "reference with limits": of(name=ref("Name", maxLength=5))
    | {"$defs": {"Name": {"type": "string", "minLength": 1}}},
    "reference of an old draft": of(home={"$ref": "#/definitions/Address"})
    | {"definitions": {"Address": of(city=STRING)}},
    "reference to a property": of(a=STRING, b={"$ref": "#/properties/a"}),
    "reference to an anchor": of(home={"$ref": "#address"})
    | {"$defs": {"A": {"$anchor": "address", **of(city=STRING)}}},
    "reference by its own id": {
        "$id": "https://example.org/tool",
        **of(home={"$ref": "https://example.org/tool#/$defs/A"}),
        "$defs": {"A": STRING},
    },
    "reference elsewhere": of(home={"$ref": "https://example.org/address.json"}),
    "reference to nowhere": of(home=ref("Gone")),
    "reference in a circle": of(a=ref("A")) | {"$defs": {"A": ref("B"), "B": ref("A")}},
    "reference with escapes": of(a={"$ref": "#/$defs/a~1b%25"}) | {"$defs": {"a/b%": STRING}},
    "definition nobody needs": {**of(a=STRING), "$defs": {"Unused": INTEGER}},
    "dynamic reference": of(tree={"$dynamicRef": "#node"})
    | {
        "$defs": {
            "N": {
                "$dynamicAnchor": "node",
                **of(["value"], value=STRING, next={"$dynamicRef": "#node"}),
            }
        }
    },
    "recursive list": of(head=ref("Node")) | {"$defs": {"Node": NODE}},
    "recursive tree": of(tree=ref("Tree")) | {"$defs": {"Tree": TREE}},
    "recursive root": of(["value"], value=STRING, child={"$ref": "#"}),
    "recursive without end": of(a=ref("A")) | {"$defs": {"A": of(again=ref("A"))}},
    "recursive by two": of(a=ref("A"))
    | {"$defs": {"A": of(b=ref("B")), "B": of(["x"], x=STRING, a=ref("A"))}},
    "any JSON": of(value=ref("Json")) | {"$defs": {"Json": ANY_JSON}},
    "recursive reference, described": of(
        ["value"], value=STRING, next=ref("Node", description="The next one.")
    )
    | {"$defs": {"Node": NODE}},
    "names by pattern": of(
        env={
            "type": "object",
            "patternProperties": {"^[A-Z]+$": STRING},
            "additionalProperties": False,
        }
    ),
    "names limited": of(
        env={
            "type": "object",
            "propertyNames": {"pattern": "^[a-z]+$"},
            "additionalProperties": STRING,
            "minProperties": 1,
            "maxProperties": 5,
        }
    ),
    "one needs another": {
        **of(["card"], card=STRING, address=STRING),
        "dependentRequired": {"card": ["address"]},
    },
    "one needs a schema": {
        **of(["card"], card=STRING, address=STRING),
        "dependentSchemas": {"card": {"required": ["address"]}},
    },
    "dependencies of an old draft": {
        **of(["card"], card=STRING, address=STRING),
        "dependencies": {"card": ["address"]},
    },
    "condition": of(
        value={
            "type": "object",
            "properties": {"kind": STRING, "size": INTEGER},
            "required": ["kind"],
            "if": {"properties": {"kind": {"const": "big"}}},
            "then": {"required": ["size"]},
            "else": {"properties": {"size": False}},
            "additionalProperties": False,
        }
    ),
    "not": of(value={"type": "string", "not": {"enum": ["root", "admin"]}}),
    "nothing unevaluated": {
        "type": "object",
        "properties": {"a": STRING},
        "required": ["a"],
        "unevaluatedProperties": False,
    },
    "old exclusive bound": of(age={"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
    "deep": deep(9),
    "too deep to enforce": deep(12),
    "too deep": deep(80),
    "wide": of(**{f"p{n}": STRING for n in range(300)}),
    "odd parameter name": of(["path"], path=STRING, **{"user-id": STRING}),
    "odd name that is required": of(**{"user-id": STRING}),
    "very odd name that is required": of(**{"user id": STRING}),
    "property called title": of(title=STRING, description=STRING, type=STRING),
    "titles": {"title": "Args", **of(a={"title": "A", "type": "string"})},
    "schema and comments": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "x",
        **of(a={"type": "string", "$comment": "y", "readOnly": True}),
        "x-order": ["a"],
    },
    "nullable of OpenAPI": of(a={"type": "string", "nullable": True, "example": "x"}),
    "examples and deprecated": of(a={"type": "string", "examples": ["x", "y"], "deprecated": True}),
    "content": of(
        data={"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}
    ),
    "malformed": {
        "type": "object",
        "properties": {"a": {"type": "str"}, "b": {"type": "string", "required": True}, "c": 5},
        "required": None,
    },
    "malformed limits": of(
        a={"type": "string", "minLength": -1}, b={"type": "number", "multipleOf": 0}, c={"enum": []}
    ),
    "default that looks like a schema": of(
        [],
        a={
            "type": "object",
            "properties": {"x": STRING},
            "required": ["x"],
            "additionalProperties": False,
            "default": {"$ref": "#/nowhere", "type": "x"},
        },
    ),
    "lone surrogate in words": of(a={"type": "string", "description": "half \ud800 of it"}),
    "lone surrogate in a name": of(**{"a\udfff": STRING}),
    "union of nested shapes": of(shape={"oneOf": [nested("x", 6), nested("y", 6)]}),
    "union of shapes nested too deep": of(shape={"oneOf": [nested("x", 9), nested("y", 9)]}),
    "union of types, exactly one": of(value={"oneOf": [STRING, INTEGER]}),
    "union of values, exactly one": of(value={"oneOf": [{"const": "a"}, INTEGER]}),
    "union with a branch that cannot be": of(
        value={"oneOf": [{"allOf": [STRING, INTEGER]}, STRING]}
    ),
    "union of what cannot be compared": of(
        value={
            "oneOf": [{"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b$"}]}, STRING]
        }
    ),
    "union beside what cannot be merged": of(
        value={"type": "string", "pattern": "^a", "anyOf": [{"pattern": "b$"}, {"pattern": "c$"}]}
    ),
    "union of what cannot be": of(
        ["a"],
        a=STRING,
        b={"anyOf": [{"type": "object", "properties": {"x": False}, "required": ["x"]}]},
    ),
    "enum that nothing fits": of(["a"], a=STRING, b={"type": "string", "enum": [1]}),
    "enum with a pattern": of(a={"enum": ["a", "b"], "pattern": "^a", "properties": {}}),
    "const against its enum": of(["a"], a=STRING, b={"enum": ["x"], "const": "y"}),
    "definition that nothing fits": of(["a"], a=STRING, b=ref("No"))
    | {"$defs": {"No": {"type": "string", "enum": [1]}}},
    "allOf of the same": of(a={"allOf": [STRING, STRING], "description": "One."}),
    "allOf of numbers": of(
        a={
            "allOf": [
                {"type": ["number", "null"], "minimum": 1, "multipleOf": 2},
                {"type": "integer", "minimum": 2, "maximum": 9, "multipleOf": 3},
            ]
        }
    ),
    "allOf of odd numbers": of(
        a={"allOf": [{"type": "number", "multipleOf": 0.5}, {"multipleOf": 0.75}]}
    ),
    "allOf of enums": of(
        a={"allOf": [{"enum": ["x", "y"]}, {"enum": ["y", "z"]}]},
        b={"allOf": [{"enum": ["x", "y"]}, STRING]},
    ),
    "allOf of other enums": of(["b"], a={"allOf": [{"enum": ["x"]}, {"enum": ["z"]}]}, b=STRING),
    "allOf of unions": of(
        a={"allOf": [{"anyOf": [STRING, INTEGER]}, {"anyOf": [STRING, {"type": "null"}]}]}
    ),
    "allOf of unions apart": of(
        ["b"], a={"allOf": [{"anyOf": [STRING]}, {"anyOf": [INTEGER]}]}, b=STRING
    ),
    "allOf of large unions": of(
        a={
            "allOf": [
                {"anyOf": [{"minLength": n} for n in range(1, 6)]},
                {"anyOf": [{"maxLength": n} for n in range(5, 9)]},
            ],
            "type": "string",
        }
    ),
    "allOf of maps": of(
        a={
            "type": "object",
            "allOf": [
                {"additionalProperties": {"type": "string"}},
                {"additionalProperties": {"minLength": 2}},
            ],
        }
    ),
    "allOf of open maps": of(
        a={"type": "object", "allOf": [{"additionalProperties": True}, {"minProperties": 1}]}
    ),
    "allOf of maps apart": of(
        a={
            "type": "object",
            "allOf": [{"additionalProperties": STRING}, {"additionalProperties": INTEGER}],
        }
    ),
    "allOf with names by pattern": of(
        a={
            "type": "object",
            "allOf": [{"patternProperties": {"^a": STRING}}, {"required": ["abc"]}],
        }
    ),
    "allOf with two names by pattern": of(
        a={
            "type": "object",
            "allOf": [{"patternProperties": {"^a": STRING}}, {"patternProperties": {"b$": STRING}}],
        }
    ),
    "allOf of arrays": of(
        a={
            "type": "array",
            "allOf": [
                {"prefixItems": [STRING], "items": {"type": "integer"}},
                {"items": {"type": ["string", "number"]}, "uniqueItems": True},
            ],
        }
    ),
    "allOf of array limits": of(
        a={
            "type": "array",
            "items": STRING,
            "allOf": [{"prefixItems": [{"minLength": 1}]}, {"uniqueItems": True}],
            "uniqueItems": False,
        }
    ),
    "allOf, nothing unevaluated inside": of(
        a={
            "type": "object",
            "allOf": [{"anyOf": [{"properties": {"x": STRING}}], "unevaluatedProperties": False}],
        }
    ),
    "allOf of two nots": of(
        a={
            "type": "string",
            "not": {"const": "x"},
            "allOf": [{"not": {"const": "y"}, "deprecated": True}],
            "deprecated": False,
        }
    ),
    "top-level allOf by pattern": {
        "type": "object",
        "allOf": [{"patternProperties": {"^a": STRING}}, {"patternProperties": {"b$": STRING}}],
    },
    "top-level reference beside a pattern": {
        "$ref": "#/$defs/A",
        "type": "object",
        "patternProperties": {"^a": STRING},
        "$defs": {"A": {"patternProperties": {"b$": STRING}}},
    },
    "top-level enum of no objects": {"type": "object", "enum": [1, 2]},
    "top-level union by pattern": {
        "type": "object",
        "patternProperties": {"^a": STRING},
        "anyOf": [{"patternProperties": {"b$": STRING}}, {"required": ["a"]}],
    },
    "top-level union with a string": {"anyOf": [STRING, of(a=STRING), of(b=INTEGER)]},
    "top-level union of strings": {"anyOf": [STRING, INTEGER]},
    "top-level union of unions": {"anyOf": [{"oneOf": [of(a=STRING), of(b=STRING)]}, of(c=STRING)]},
    "top-level both unions": {
        "type": "object",
        "properties": {"a": STRING, "b": STRING, "c": STRING},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "oneOf": [{"required": ["a"]}, {"required": ["c"]}],
    },
    "top-level union, open": {
        "anyOf": [
            {
                "type": "object",
                "properties": {"a": STRING, "n": False},
                "additionalProperties": True,
            },
            of(a={"type": "integer", "minimum": 1}, b=INTEGER),
        ]
    },
    "top-level union of many": {
        "anyOf": [of(**{f"parameter_number_{n}_{m}": STRING for m in range(9)}) for n in range(9)]
    },
    "top-level union of kinds": {
        "anyOf": [
            of(a={"type": "string"}, k={"enum": ["x", "y"]}),
            of(a={"type": "integer"}, k={"const": "z"}),
            of(k={"type": "string"}),
        ]
    },
    "top-level union of very many": {"anyOf": [of(**{f"p{n}": STRING}) for n in range(300)]},
    "top-level union of words": {
        "anyOf": [of(a=STRING), of(a={"type": "string", "enum": ["x"]}, b=STRING)]
    },
    "closed twice": of(
        a={
            "type": "object",
            "properties": {"x": STRING},
            "required": ["x"],
            "additionalProperties": False,
            "unevaluatedProperties": True,
        }
    ),
    "allOf of lists": of(
        a={
            "type": "array",
            "allOf": [{"items": {"type": "string"}}, {"items": {"format": "date"}}],
        },
        b={
            "type": "array",
            "allOf": [{"prefixItems": [STRING]}, {"prefixItems": [{"maxLength": 3}, INTEGER]}],
        },
    ),
    "reference to a reference": of(a={**ref("A"), "minLength": 2})
    | {"$defs": {"A": ref("B"), "B": ref("C"), "C": STRING}},
    "recursive, wrapped in a list": of(["value"], value=STRING, next=ref("Node"))
    | {
        "$defs": {
            "Node": of(
                ["value"],
                value=STRING,
                next={"allOf": [ref("Node")], "description": "The next one."},
            )
        }
    },
    "recursive with limits": of(a=ref("A"))
    | {"$defs": {"A": of([], x=ref("A", minProperties=1), y=STRING)}},
    "recursive and more": of(a=ref("A"))
    | {
        "$defs": {
            "A": {
                "type": "object",
                "properties": {"x": {"allOf": [ref("A"), {"properties": {"y": STRING}}]}},
            }
        }
    },
    "recursive map and more": of(a=ref("A"))
    | {
        "$defs": {
            "A": {
                "type": "object",
                "additionalProperties": {"allOf": [ref("A"), {"properties": {"y": STRING}}]},
            }
        }
    },
    "recursive union with limits": of(a=ref("A"))
    | {"$defs": {"A": of([], x={"minProperties": 1, "anyOf": [ref("A")]}, y=STRING)}},
    "required by pattern": {
        "type": "object",
        "required": ["a"],
        "patternProperties": {"^a": {}},
        "additionalProperties": {"type": "object"},
    },
    "recursive of an old draft": of(["value"], value=STRING, child={"$recursiveRef": "#"}),
    "tuple of an old draft, open": of(
        a={"type": "array", "items": [STRING]}, b={"type": "array", "items": []}
    ),
    "tuple of full length": of(
        a={"type": "array", "prefixItems": [STRING, INTEGER], "maxItems": 2}
    ),
    "tuple with a place for nothing": of(
        a={"type": "array", "prefixItems": [STRING, False]},
        b={"type": "array", "prefixItems": [False]},
    ),
    "tuple with a place that cannot be filled": of(
        a={
            "type": "array",
            "prefixItems": [STRING, {"type": "object", "anyOf": [STRING]}],
            "items": {"type": "string", "enum": [1]},
        },
        b={"type": "array", "items": {"type": "string", "enum": [1]}},
    ),
    "array, nothing unevaluated": of(
        a={"type": "array", "contains": STRING, "unevaluatedItems": False}
    ),
    "dependencies of an old draft, schemas": {
        **of(["card"], card=STRING, address=STRING),
        "dependencies": {"card": {"required": ["address"]}},
    },
    "names by a pattern of another language": of(
        a={
            "type": "object",
            "patternProperties": {"^\\p{L}": STRING},
            "additionalProperties": False,
        },
        b={
            "type": "object",
            "patternProperties": {"^\\p{L}": STRING},
            "additionalProperties": True,
        },
        c={"type": "object", "patternProperties": {"(": STRING}},
    ),
    "names by pattern, others limited": of(
        a={
            "type": "object",
            "patternProperties": {"^a": STRING, "^b": False},
            "additionalProperties": INTEGER,
        }
    ),
    "open, one property banned": {
        "type": "object",
        "properties": {"a": STRING, "b": False},
        "required": ["a"],
    },
    "integer limits": of(
        a={"type": "integer", "exclusiveMaximum": 9, "minimum": 1},
        b={"type": "string", "minLength": 0},
        c={"type": ["number", "integer"]},
    ),
    "malformed words": {
        **of(
            a={
                "type": "string",
                "title": 5,
                "description": ["x"],
                "examples": "x",
                "default": float("nan"),
            }
        ),
        "title": None,
    },
    "malformed everything": of(
        [],
        a={"pattern": "\ud800", "minimum": "x", "uniqueItems": "yes", "dependentRequired": []},
        b={"anyOf": [], "properties": [], "items": 5, "$ref": 5},
        c={"enum": ["\ud800"], "const": nest(70)},
        d={"required": "x", "enum": "x", "patternProperties": 5},
    ),
    "references of the same name": {
        "type": "object",
        "properties": {
            "A": STRING,
            "b": ref("A"),
            "c": {"$ref": "#/properties/A"},
            "d": {"$ref": "#/$defs/x/anyOf/1"},
        },
        "$defs": {"A": INTEGER, "A_2": STRING, "x": {"anyOf": [INTEGER, STRING]}},
    },
    "reference to no schema": of(a={"$ref": "#/required"}),
    "references to anchors": of(a={"$ref": "#one"}, b={"$ref": "#two"})
    | {"$defs": {"x": {"$anchor": "one"}, "y": {"$anchor": "two", "type": "string"}}},
    "reference to no anchor": of(a={"$ref": "#gone"}),
    "references in a long row": of(a={**ref("A0"), "minLength": 1})
    | {"$defs": {f"A{n}": ref(f"A{n + 1}") if n < 99 else STRING for n in range(100)}},
    "references that meet again": of(a=ref("A"))
    | {
        "$defs": {
            "A": {"anyOf": [ref("B"), ref("C")]},
            "B": {"anyOf": [ref("D")]},
            "C": {"anyOf": [ref("D")]},
            "D": STRING,
        }
    },
    "deep arrays": of(a=stacked(60)),
    "says so already": of(
        a={"type": "string", "minLength": 2, "description": "Must have at least 2 characters."}
    ),
    "description with a note": of(
        a={"type": "string", "pattern": "^(?=x)", "description": "What, exactly?"}
    ),
}


def spec(name: str, **options: Any) -> Spec:
    """A tool with one of the schemas."""
    return Spec(name="tool", description="Do it.", input_schema=ZOO[name], **options)


def shown(made: Any) -> dict[str, Any]:
    """The compiled tool in the format of the golden data."""
    if isinstance(made, CompiledTool):
        return {"definition": made.definition, "losses": list(made.losses)}
    return {"unsupported": made.reason}


def golden(dialect: str) -> dict[str, Any]:
    """Every schema in one dialect, with strict "auto" and "on"."""
    return {
        name: {
            strict: shown(APIS[dialect].compile(spec(name, strict=strict)))
            for strict in ("auto", "on")
        }
        for name in ZOO
    }


def text(data: Any) -> str:
    """The golden data, a schema on a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in data.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    for api in APIS:
        (DATA / f"{api}.json").write_text(text(golden(api)), encoding="utf-8")
