"""Describes an operation for a model: its name, its description and its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from hashlib import sha256
from typing import Any

from handrail.openapi._document import Document, get_list, get_text
from handrail.openapi._operations import Operation, Parameter
from handrail.openapi._schemas import Schemas, TooLarge, merge, shorten
from handrail.openapi._serialize import is_binary

_MAX_NAME = 64
_HASH_CHARS = 8
_MAX_DESCRIPTION = 600
_MAX_HINT = 200
_MAX_SPELLED = 100
_MAX_PARTS = 400
"""Parts in one operation's schema. More never fit."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_VAGUE = frozenset(
    "action call data do execute func function get handle handler helper invoke main misc perform "
    "process run stuff task tool util".split()
)
_VERBS = {"put": "replace", "post": "post", "patch": "update"}
_STEPS = ((5, 300), (4, 200), (3, 160), (3, 80), (2, 120), (2, 60), (1, 60), (1, 0))
"""Schema depth and description characters, from most to least."""


def find_name(operation: Operation, taken: Container[str]) -> str:
    """Return a unique tool name, valid in every API."""
    own = _to_name(get_text(operation.node, "operationId"))
    if not own or len(own) > _MAX_NAME or all(word in _VAGUE for word in own.split("_")):
        own = _name_of_path(operation)
    if len(own) > _MAX_NAME:
        digest = sha256(operation.where.encode()).hexdigest()[:_HASH_CHARS]
        own = f"{own[: _MAX_NAME - _HASH_CHARS - 1].rstrip('_')}_{digest}"
    name, count = own, 1
    while name in taken:
        count += 1
        name = f"{own[: _MAX_NAME - 5]}_{count}"
    return name


def _to_name(text: str) -> str:
    """Return a text as words between underscores. Two things become one with another."""
    words = [word.lower() for word in _WORD.findall(text)]
    joined = "_".join("with" if word == "and" else word for word in words)
    return f"n_{joined}" if joined[:1].isdigit() else joined


def _name_of_path(operation: Operation) -> str:
    method = operation.method.lower()
    path = operation.path.replace("{", "by_") if operation.path.strip("/") else "root"
    return _to_name(f"{_VERBS.get(method, method)}_{path}")


def describe_operation(operation: Operation) -> str:
    """Return a tool's description: what the operation does, and where."""
    node = operation.node
    summary = shorten(node.get("summary"), _MAX_DESCRIPTION // 2)
    more = shorten(node.get("description"), _MAX_DESCRIPTION)
    if summary and not summary.endswith((".", "!", "?")):
        summary += "."
    same = more.lower().startswith(summary.lower().rstrip("."))
    words = [more] if same else [summary, more]
    old = "Deprecated." if node.get("deprecated") is True else ""
    return " ".join(filter(None, [*words, old, f"({operation.where})"]))


def find_hint(operation: Operation) -> str:
    """Return more search words for the tool."""
    tags = [tag for tag in get_list(operation.node, "tags") if isinstance(tag, str)]
    number = "single one by id" if operation.path.endswith("}") else "list all many"
    return " ".join([number, *_WORD.findall(operation.path), *tags])[:_MAX_HINT]


def find_schema(document: Document, operation: Operation, max_chars: int) -> dict[str, Any]:
    """Return the schema for all arguments, in as much detail as fits."""
    made: dict[str, Any] = {}
    for depth, text in _STEPS:
        schemas = Schemas(document, depth=depth, text=text, parts=_MAX_PARTS)
        try:
            made = _combine(document, operation, schemas, text)
        except TooLarge:
            continue
        if len(json.dumps(made, ensure_ascii=False)) <= max_chars:
            break
    return made


def _combine(
    document: Document, operation: Operation, schemas: Schemas, text: int
) -> dict[str, Any]:
    body = operation.body
    whole = [body.whole] if body is not None and body.whole is not None else []
    given = [*operation.parameters, *whole]
    return {
        "type": "object",
        "properties": {
            parameter.argument: _describe(
                document, operation, parameter, schemas.convert(parameter.schema), text=text
            )
            for parameter in given
        },
        "required": [parameter.argument for parameter in given if parameter.required],
        "additionalProperties": False,
    }


def _describe(
    document: Document,
    operation: Operation,
    parameter: Parameter,
    schema: dict[str, Any],
    *,
    text: int,
) -> dict[str, Any]:
    """Return an argument's schema with a description, which models always need."""
    words = shorten(parameter.description, text) or schema.get("description", "")
    if is_file(document, operation, parameter):
        for each in (schema, schema.get("items", {})):
            each.pop("format", None)
        words = " ".join(filter(None, [words, "File content, in base64."]))
    if not words:
        words = f"{_spell_name(parameter.name)}."
    return {**schema, "description": words}


def is_file(document: Document, operation: Operation, parameter: Parameter) -> bool:
    """Return whether an argument is a file's content, or several files'."""
    if operation.body is None or operation.body.kind != "multipart":
        return False
    schema = merge(document, parameter.schema)
    is_in_body = parameter.location == "body"
    return is_in_body and (is_binary(schema) or is_binary(merge(document, schema.get("items"))))


def _spell_name(name: str) -> str:
    """Return a name as words."""
    return shorten(" ".join(_WORD.findall(name)) or name or "Value", _MAX_SPELLED).capitalize()
