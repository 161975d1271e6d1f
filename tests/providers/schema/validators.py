"""Validate tools by the rules of each provider's documentation and SDK. Independent of handrail.

A validator returns a list of errors. It is empty if a request with the tool would succeed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
SCHEMA = set(
    "additionalProperties contains contentSchema else if items not propertyNames then unevaluatedItems unevaluatedProperties".split()
)
SCHEMAS = {"allOf", "anyOf", "oneOf", "prefixItems"}
NAMED = {"$defs", "dependentSchemas", "patternProperties", "properties"}
COUNTS = set(
    "minLength maxLength minItems maxItems minContains maxContains minProperties maxProperties".split()
)
NUMBERS = set("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split())
TEXTS = set(
    "$ref $id $schema $anchor $comment title description format pattern contentEncoding contentMediaType".split()
)
FLAGS = {"uniqueItems", "deprecated", "readOnly", "writeOnly"}


def is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def is_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def children(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in node.items():
        if name in SCHEMA:
            yield name, value
        elif name in SCHEMAS and isinstance(value, list):
            for place, one in enumerate(value):
                yield f"{name}[{place}]", one
        elif name in NAMED and isinstance(value, dict):
            for inner, one in value.items():
                yield f"{name}.{inner}", one


def nodes(schema: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    yield path, schema
    if isinstance(schema, dict):
        for name, one in children(schema):
            yield from nodes(one, f"{path}.{name}")


def _keyword(name: str, value: Any) -> bool:  # noqa: C901, PLR0911  a keyword after the other
    """Whether a keyword is valid in the 2020-12 meta-schema."""
    if name == "type":
        several = value if isinstance(value, list) else [value]
        return (
            bool(several)
            and all(isinstance(one, str) and one in TYPES for one in several)
            and len(set(several)) == len(several)
        )
    if name in SCHEMA:
        return isinstance(value, dict | bool)
    if name in SCHEMAS:
        return (
            isinstance(value, list)
            and bool(value)
            and all(isinstance(one, dict | bool) for one in value)
        )
    if name in NAMED:
        return (
            isinstance(value, dict)
            and all(is_text(key) and isinstance(one, dict | bool) for key, one in value.items())
            and (name != "patternProperties" or all(map(is_regex, value)))
        )
    if name in COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if name in NUMBERS:
        return is_number(value) and (name != "multipleOf" or value > 0)
    if name in TEXTS:
        return is_text(value) and (name != "pattern" or is_regex(value))
    if name in FLAGS:
        return isinstance(value, bool)
    if name == "required":
        return (
            isinstance(value, list) and all(map(is_text, value)) and len(set(value)) == len(value)
        )
    if name == "dependentRequired":
        return isinstance(value, dict) and all(_keyword("required", one) for one in value.values())
    if name in {"enum", "examples"}:
        return isinstance(value, list) and (name != "enum" or bool(value))
    return True


def json_schema(schema: Any) -> list[str]:
    """Errors in a JSON Schema 2020-12: invalid keywords, references without a target."""
    found: list[str] = []
    for path, node in nodes(schema):
        if isinstance(node, bool):
            continue
        if not isinstance(node, dict):
            found.append(f"{path}: no schema")
            continue
        found += [
            f"{path}: {name} is malformed"
            for name, value in node.items()
            if not _keyword(name, value)
        ]
        ref = node.get("$ref")
        if isinstance(ref, str) and _target(schema, ref) is None:
            found.append(f"{path}: {ref} leads nowhere")
        found += [
            f"{path}: {name} is not supported"
            for name in ("$dynamicRef", "$recursiveRef")
            if name in node
        ]
    try:
        json.dumps(schema, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        found.append(f"no JSON: {error}")
    return found


def _target(root: Any, ref: str) -> Any:
    if not ref.startswith("#"):
        return None
    node = root
    for step in ref.split("/")[1:]:
        node = (
            node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        )
    return node


def _no_object(schema: Any) -> list[str]:
    return (
        []
        if isinstance(schema, dict) and schema.get("type") == "object"
        else ["$: type must be object"]
    )


def _keys(api: dict[str, Any], needed: set[str], allowed: set[str]) -> list[str]:
    return [f"{name} is missing" for name in needed - api.keys()] + [
        f"{name} is not known" for name in api.keys() - needed - allowed
    ]


def _circular(schema: dict[str, Any]) -> set[str]:
    """The definitions that can be reached from themselves."""
    known = schema.get("$defs", {})

    def reached(name: str, seen: set[str]) -> set[str]:
        for _, node in nodes(known[name]):
            if isinstance(node, dict) and isinstance(node.get("$ref"), str):
                other = node["$ref"].removeprefix("#/$defs/")
                if other in known and other not in seen:
                    seen.add(other)
                    reached(other, seen)
        return seen

    return {name for name in known if name in reached(name, set())}


# Anthropic: ToolParam; names and top-level rules from its error messages; strict as transform_schema
# of the SDK leaves it.

ANTHROPIC_FORMATS = set("date-time time date duration email hostname uri ipv4 ipv6 uuid".split())
ANTHROPIC_STRICT = set(
    "$defs $ref anyOf allOf enum const type title description properties additionalProperties required format items minItems".split()
)


def anthropic(api: dict[str, Any]) -> list[str]:
    found = _keys(
        api,
        {"name", "input_schema"},
        {"description", "strict", "input_examples", "defer_loading", "cache_control", "type"},
    )
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", api.get("name", "")):
        found.append("name: does not fit")
    schema = api.get("input_schema")
    found += json_schema(schema) + _no_object(schema)
    if not isinstance(schema, dict):
        return found
    found += [
        f"$: {name} at the top level" for name in ("oneOf", "allOf", "anyOf") if name in schema
    ]
    if isinstance(schema.get("properties"), dict):
        found += [
            f"$: the property key {name!r} does not fit"
            for name in schema["properties"]
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", str(name))
        ]
    return found + (_anthropic_strict(schema) if api.get("strict") else [])


def _anthropic_strict(schema: dict[str, Any]) -> list[str]:
    found = [f"recursive: {name}" for name in _circular(schema)]
    for path, node in nodes(schema):
        if not isinstance(node, dict):
            if not path.endswith(".additionalProperties"):
                found.append(f"{path}: a schema must be an object")
            continue
        found += [f"{path}: {name} is not supported" for name in node.keys() - ANTHROPIC_STRICT]
        found += _anthropic_node(path, node)
    return found


def _anthropic_node(path: str, node: dict[str, Any]) -> list[str]:  # noqa: C901  as above
    found = []
    if "$ref" in node:
        return [f"{path}: $ref stands beside {name}" for name in node.keys() - {"$ref", "$defs"}]
    if not node.keys() & {"anyOf", "allOf", "type", "enum", "const"}:
        found.append(f"{path}: has neither a type nor alternatives nor values")
    if isinstance(node.get("type"), list):
        found.append(f"{path}: type is a list")
    if any(isinstance(one, dict | list) for one in [*node.get("enum", []), node.get("const")]):
        found.append(f"{path}: values must be primitive")
    if node.get("type") == "object":
        if node.get("additionalProperties") is not False:
            found.append(f"{path}: additionalProperties must be false")
        found += [
            f"{path}: {name} is required but not there"
            for name in (node.get("required") or [])
            if name not in (node.get("properties") or {})
        ]
    if "format" in node and node["format"] not in ANTHROPIC_FORMATS:
        found.append(f"{path}: format {node['format']}")
    if node.get("minItems", 0) not in (0, 1):
        found.append(f"{path}: minItems above 1")
    return found


# OpenAI: FunctionDefinition and FunctionToolParam; strict as the guide to structured outputs says.

OPENAI_FORMATS = set("date-time time date duration email hostname ipv4 ipv6 uuid".split())
OPENAI_STRICT = set(
    "$defs $ref anyOf enum const type title description properties additionalProperties required format pattern items minItems maxItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split()
)


def openai_chat(api: dict[str, Any]) -> list[str]:
    found = _keys(api, {"type", "function"}, set())
    function = api.get("function", {})
    found += _keys(function, {"name"}, {"description", "parameters", "strict"})
    if len(function.get("description", "")) > 1024:
        found.append("description: too long")
    return found + _function(function, strict=function.get("strict", False))


def openai_responses(api: dict[str, Any]) -> list[str]:
    found = _keys(
        api,
        {"type", "name", "parameters", "strict"},
        {"description", "defer_loading", "output_schema", "allowed_callers", "async"},
    )
    if api.get("output_schema") is not None:
        found += [f"output_schema: {one}" for one in json_schema(api["output_schema"])]
    return found + _function(api, strict=api.get("strict"))


def _function(api: dict[str, Any], *, strict: Any) -> list[str]:
    found = (
        [] if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", api.get("name", "")) else ["name: does not fit"]
    )
    schema = api.get("parameters")
    found += json_schema(schema) + _no_object(schema)
    if not isinstance(schema, dict):
        return found
    found += [
        f"$: {name} at the top level"
        for name in ("oneOf", "anyOf", "allOf", "enum", "const", "not")
        if name in schema
    ]
    if "properties" not in schema:
        found.append("$: object schema missing properties")
    for path, node in nodes(schema):
        if isinstance(node, dict) and "array" in (node.get("type") or ()) and "items" not in node:
            found.append(f"{path}: array schema missing items")
    return found + (_openai_strict(schema) if strict else [])


def _openai_strict(schema: dict[str, Any]) -> list[str]:
    found: list[str] = []
    names, texts, values = 0, sum(map(len, schema.get("$defs", {}))), 0
    for path, node in nodes(schema):
        if not isinstance(node, dict):
            if not path.endswith(".additionalProperties"):
                found.append(f"{path}: a schema must be an object")
            continue
        found += [f"{path}: {name} is not permitted" for name in node.keys() - OPENAI_STRICT]
        found += _openai_node(path, node)
        names += len(node.get("properties") or {})
        texts += sum(map(len, (node.get("properties") or {})))
        listed = [one for one in [*node.get("enum", []), node.get("const")] if isinstance(one, str)]
        texts += sum(map(len, listed))
        values += len(node.get("enum", []))
        if len(node.get("enum", [])) > 250 and sum(map(len, listed)) > 15_000:
            found.append(f"{path}: the values are too long")
    limits = {
        "properties": names > 5_000,
        "characters": texts > 120_000,
        "values": values > 1_000,
        "levels": _levels(schema, schema, ()) > 10,
    }
    return found + [f"$: too many {name}" for name, over in limits.items() if over]


def _openai_node(path: str, node: dict[str, Any]) -> list[str]:
    if "$ref" in node:
        return [f"{path}: $ref cannot have {name}" for name in node.keys() - {"$ref", "$defs"}]
    found = []
    if "type" not in node and "anyOf" not in node:
        found.append(f"{path}: schema must have a type key")
    if "object" in (node.get("type") or ()):
        if node.get("additionalProperties") is not False:
            found.append(f"{path}: additionalProperties is required to be supplied and to be false")
        if set(node.get("required") or []) != set(node.get("properties") or {}):
            found.append(f"{path}: required must include every key in properties")
    if "format" in node and node["format"] not in OPENAI_FORMATS:
        found.append(f"{path}: {node['format']} is not a valid format")
    if re.search(r"\(\?[=!<]", str(node.get("pattern", ""))):
        found.append(f"{path}: the pattern looks around")
    return found


def _levels(node: Any, root: dict[str, Any], within: tuple[str, ...]) -> int:
    if not isinstance(node, dict):
        return 0
    ref = node.get("$ref")
    if isinstance(ref, str):
        return 0 if ref in within else _levels(_target(root, ref), root, (*within, ref))
    deeper = [
        1 + _levels(one, root, within)
        for name, one in children(node)
        if name.startswith(("properties.", "items"))
    ]
    same = [_levels(one, root, within) for name, one in children(node) if name.startswith("anyOf")]
    return max([0, *deeper, *same])


# Gemini: FunctionDeclaration, and what the SDK says of JSON Schemas in types.py.

GEMINI = set(
    "$defs $ref type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering".split()
)


def gemini(api: dict[str, Any]) -> list[str]:
    found = _keys(
        api, {"name"}, {"description", "parametersJsonSchema", "responseJsonSchema", "behavior"}
    )
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", api.get("name", "")):
        found.append("name: does not fit")
    schema = api.get("parametersJsonSchema")
    found += json_schema(schema) + _no_object(schema)
    if not isinstance(schema, dict):
        return found
    if isinstance(schema.get("properties"), dict):
        found += [
            f"$: the parameter {name!r} does not fit"
            for name in schema["properties"]
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", str(name))
        ]
    found += [
        f"$: {name} at the top level" for name in ("anyOf", "oneOf", "$ref") if name in schema
    ]
    for path, node in nodes(schema):
        if isinstance(node, dict):
            found += [f"{path}: {name} is not supported" for name in node.keys() - GEMINI]
            found += _gemini_node(path, node)
        elif not path.endswith(".additionalProperties"):
            found.append(f"{path}: a schema must be an object")
    return found + _gemini_circles(schema)


def _gemini_node(path: str, node: dict[str, Any]) -> list[str]:
    found = []
    if "$ref" in node:
        found += [f"{path}: $ref stands beside {name}" for name in node if not name.startswith("$")]
    if not all(isinstance(one, str) or is_number(one) for one in node.get("enum") or ()):
        found.append(f"{path}: values must be strings or numbers")
    if "array" in (node.get("type") or ()) and not node.keys() & {"items", "prefixItems"}:
        found.append(f"{path}: missing items")
    known = node.get("properties")
    if isinstance(node.get("required"), list):
        found += [
            f"{path}: {name} is required but not a property"
            for name in node["required"]
            if name not in (known or {})
        ]
    if node.get("format") not in (None, "date-time", "date", "time"):
        found.append(f"{path}: format {node['format']}")
    return found


def _gemini_circles(schema: dict[str, Any]) -> list[str]:
    """A recursive definition must recurse through an optional property."""
    known = schema.get("$defs", {})

    def firm(node: Any) -> set[str]:
        """The definitions that a schema reaches without passing an optional property."""
        if not isinstance(node, dict):
            return set()
        if isinstance(node.get("$ref"), str):
            return {node["$ref"].removeprefix("#/$defs/")}
        found: set[str] = set()
        for name, one in children(node):
            optional = name.startswith("properties.") and name.removeprefix("properties.") not in (
                node.get("required") or []
            )
            if not optional and not name.startswith("$defs."):
                found |= firm(one)
        return found

    ways = {name: firm(one) for name, one in known.items()} if isinstance(known, dict) else {}
    for _ in ways:
        ways = {
            name: way.union(*(ways.get(other, set()) for other in way))
            for name, way in ways.items()
        }
    return [
        f"$defs.{name}: leads to itself outside of optional properties"
        for name, way in ways.items()
        if name in way
    ]


VALIDATORS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
}


def raw(dialect: str, schema: Any, *, strict: bool = False) -> dict[str, Any]:
    """A tool with its schema unchanged."""
    match dialect:
        case "anthropic":
            return {"name": "t", "input_schema": schema, **({"strict": True} if strict else {})}
        case "openai_chat":
            return {
                "type": "function",
                "function": {
                    "name": "t",
                    "parameters": schema,
                    **({"strict": True} if strict else {}),
                },
            }
        case "openai_responses":
            return {"type": "function", "name": "t", "parameters": schema, "strict": strict}
        case _:
            return {"name": "t", "parametersJsonSchema": schema}
